"""A predicate and measures as DuckDB's SQL, over columns of numbers as they are stored (arrays.py) and of texts.

DuckDB takes NaN for equal to itself and greater than all else, so it is left out wherever that shows.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from .. import _core
from .bounds import ColumnKind
from .calculated import calculated
from .program import Program, Test
from .run import ColumnMeasure

_STEPS = {number: name for name, number in _core.QUERY_STEPS.items()}
_LESS, _EQUAL, _GREATER = (_core.QUERY_ORDERS[name] for name in ("less", "equal", "greater"))
_SIGNS = {_LESS: "<", _EQUAL: "=", _LESS | _EQUAL: "<=", _GREATER: ">", _GREATER | _EQUAL: ">="}
_TYPES = {
    "int8": "tinyint", "int16": "smallint", "int32": "integer", "int64": "bigint", "uint8": "utinyint", "uint16": "usmallint",
    "uint32": "uinteger", "uint64": "ubigint", "decimal": "bigint", "bool": "integer", "float16": "float", "float32": "float",
    "float64": "double",
}  # fmt: skip
_ENDLESS, _NEGATIVE = struct.unpack("<qq", struct.pack("<dd", math.inf, -math.inf))
_BEYOND = "36893488147419103232"  # 2^65: no whole number of a column lies there


class Columns:
    """The columns of a question, and the texts that it is asked with.

    Args:
        kinds: of the columns, by their names.
        terms: of those that are calculated.

    Attributes:
        values: of the parameters ``$1``, ``$2``, ...
    """

    def __init__(self, kinds: dict[str, ColumnKind], terms: dict[str, Any]) -> None:
        read = [name for name in kinds if name not in terms]
        self._kinds, self._names = kinds, {name: f"c{number}" for number, name in enumerate(read)}
        self._names |= {name: calculated(term, kinds, self._names).sql for name, term in terms.items()}
        self.values: list[str] = []

    def name(self, column: str) -> str:
        """What SQL calls a column."""
        return self._names[column]

    def condition(self, program: Program) -> str:
        """A predicate."""
        stack: list[tuple[str, list[str]]] = []  # what joins, and what is joined: long lists would nest too deep
        for step in program.steps:
            if step >= 0:
                stack.append(("", [self._test(program.tests[step])]))
                continue
            sign, second = _STEPS[step], stack.pop()
            if sign == "not":
                stack.append(("", [f"(not {_joined(second)})"]))
                continue
            first = stack.pop()
            stack.append((sign, [*(first[1] if first[0] == sign else [_joined(first)]), _joined(second)]))
        return _joined(stack[0])

    def measures(self, one: ColumnMeasure) -> list[str]:
        """Of a measure: how many values, the sum of whole numbers, sums of floats with compensation and without, the least and
        the greatest value."""
        if one.column is None:
            return ["count(*)", *["null"] * 5]
        kind, value = self._kinds[one.column], self._number(one.column)
        floats = kind.family == "float" or one.divisor is not None
        if one.divisor is not None:
            value = f"({self._real(one.column)} / {self._real(one.divisor)})"
        elif floats:
            value = f"{value}::double"
        adds = [f"fsum({value})", f"sum({value})"] if floats else ["null", "null"]
        whole = "null" if floats else f"sum({value})"
        some = f" filter (not isnan({value}))" if floats else ""
        bounds = [f"{function}({value}){some}" if one.bounds else "null" for function in ("min", "max")]
        return [f"count({value})", *([whole, *adds] if one.adds else ["null"] * 3), *bounds]

    def _number(self, column: str) -> str:
        name = self.name(column)
        return f"{name}::integer" if self._kinds[column].family == "bool" else name

    def _real(self, column: str) -> str:
        return f"({self._number(column)}::double / {self._kinds[column].scale!r})"

    def _test(self, test: Test) -> str:
        if test.kind == "null":
            return f"({self.name(test.column)} is null)"
        if test.kind == "pair":
            holds = self._pair(test)
        elif test.kind == "table":
            holds = self._text(test)
        elif test.kind == "set":
            name, shown = self._number(test.column), [_repr_of(self._kinds[test.column], number) for number in test.numbers]
            holds = f"({name} in ({', '.join(shown)}))" if shown else f"({name} <> {name})"
        else:
            holds = self._range(test)
        return f"(not {holds})" if test.negated else holds

    def _range(self, test: Test) -> str:
        """Sides that NaN alone lies beyond are not compared: DuckDB takes several times as long for two."""
        assert test.range is not None
        kind, name = self._kinds[test.column], self._number(test.column)
        low, high = (_repr_of(kind, bits) for bits in (test.range.low, test.range.high))
        if low == high:
            return f"({name} = {low})"
        if kind.family == "float" and test.range.low == _NEGATIVE:
            return f"({name} <= {high})"
        if kind.family == "float" and test.range.high == _ENDLESS:
            return f"({name} >= {low} and not isnan({name}))"
        return f"({name} between {low} and {high})"

    def _text(self, test: Test) -> str:
        assert test.text is not None
        order, literals = test.text
        first = len(self.values) + 1
        self.values += literals
        if order == "==":
            return f"({self.name(test.column)} in ({', '.join(f'${first + at}' for at in range(len(literals)))}))"
        return f"({self.name(test.column)} {order} ${first})"

    def _pair(self, test: Test) -> str:
        """Two columns, of which one has no value where the whole is unknown."""
        assert test.other is not None
        sides = [(self._kinds[name], self._number(name)) for name in (test.column, test.other)]
        sign = _SIGNS[test.orders]
        (_, a), (second, b) = sides
        nans = [f"isnan({name})" for kind, name in sides if kind.family == "float"]
        if not nans:
            return f"({a} {sign} {b})"
        if len(nans) == 2:
            holds = f"{a}::double {sign} {b}::double"
        elif second.family == "float":
            holds = _whole_beside_float(a, sign, b)
        else:
            holds = _whole_beside_float(b, {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign), a)
        return f"(case when {a} is null or {b} is null then null when {' or '.join(nans)} then false else {holds} end)"


def _joined(parts: tuple[str, list[str]]) -> str:
    sign, sides = parts
    return sides[0] if len(sides) == 1 else f"({f' {sign} '.join(sides)})"


def _whole_beside_float(whole: str, sign: str, real: str) -> str:
    """Exactly: beside the whole numbers next to the float."""
    within = f"greatest(least({real}::double, {_BEYOND}::double), -{_BEYOND}::double)"
    floor, ceiling = (f"{function}({within})::hugeint" for function in ("floor", "ceil"))
    if sign == "=":
        return f"({whole} = {floor} and {floor} = {ceiling})"
    return f"({whole} {sign} {ceiling if sign in ('<', '>=') else floor})"


def _repr_of(kind: ColumnKind, bits: int) -> str:
    """A stored number, of 64 bits."""
    if kind.family == "float":
        return f"'{struct.unpack('<d', struct.pack('<q', bits))[0]!r}'::{_TYPES[kind.element]}"
    return f"'{bits % 2**64 if kind.element == 'uint64' else bits}'::{_TYPES[kind.element]}"
