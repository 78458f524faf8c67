"""A predicate as both processors take it: tests of columns, and the steps that join them; and what statistics say of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..runtime.errors import ConfigError
from .bounds import ColumnKind, Range, range_of
from .expression import Compare, IsNull, Junction, Literal, Name
from .statistics import Statistics
from .texts import Comparison

_ORDERS = _core.QUERY_ORDERS
_PAIRS = {
    "==": (_ORDERS["equal"], False),
    "!=": (_ORDERS["equal"], True),
    "<": (_ORDERS["less"], False),
    "<=": (_ORDERS["less"] | _ORDERS["equal"], False),
    ">": (_ORDERS["greater"], False),
    ">=": (_ORDERS["greater"] | _ORDERS["equal"], False),
}


class Test(NamedTuple):
    """One comparison: a range of numbers, many of them, texts that hold, a null, or the orders of two columns that hold."""

    kind: str
    column: str
    other: str | None = None
    range: Range | None = None
    text: Comparison | None = None  # of several literals alone whether it is equal to one
    orders: int = 0  # as query::Test has it
    negated: bool = False
    numbers: tuple[int, ...] = ()  # as the bits of int64, in their order


class Program:
    """Tests and steps, and how deep the stack gets."""

    def __init__(self, predicate: Any, kinds: dict[str, ColumnKind]) -> None:
        self.tests: list[Test] = []
        self.steps: list[int] = []
        self.depth = self._add(predicate, kinds)

    @property
    def columns(self) -> list[str]:
        """The columns that are compared, each once."""
        return list(dict.fromkeys(name for test in self.tests for name in (test.column, test.other) if name is not None))

    def _add(self, what: Any, kinds: dict[str, ColumnKind]) -> int:
        """Appends the steps of ``what``; how many of the stack they need."""
        together = _one_of(what, kinds)
        if together is not None or not isinstance(what, Junction):
            self.steps.append(len(self.tests))
            self.tests.append(together or test_of(what, kinds))
            return 1
        depth = self._add(what.parts[0], kinds)
        if what.kind == "not":
            self.steps.append(_core.QUERY_STEPS["not"])
        for part in what.parts[1:]:
            depth = max(depth, 1 + self._add(part, kinds))
            self.steps.append(_core.QUERY_STEPS[what.kind])
        return depth


def _one_of(what: Any, kinds: dict[str, ColumnKind]) -> Test | None:
    """The test whether a value is one of several texts, or of more numbers than a GPU takes comparisons; if that is asked."""
    if not isinstance(what, Junction) or what.kind != "or":
        return None
    equal = [
        part for part in what.parts if isinstance(part, Compare) and part.order == "==" and isinstance(part.other, Literal)
    ]
    names = {part.column.name for part in equal}
    if len(equal) < len(what.parts) or len(names) > 1:
        return None
    name = names.pop()
    is_text = kinds[name].family == "text"
    if not is_text and (kinds[name].family not in ("integer", "decimal", "time") or len(equal) <= _core.QUERY_MOST_TESTS):
        return None
    tests = [test_of(part, kinds) for part in equal]
    if is_text:
        return Test("table", name, text=("==", tuple(text for test in tests if test.text is not None for text in test.text[1])))
    ranges = [test.range for test in tests if test.range is not None]
    numbers = tuple(sorted({one.low for one in ranges if one.low == one.high}))
    return Test("set", name, numbers=numbers)


def test_of(what: Compare | IsNull, kinds: dict[str, ColumnKind]) -> Test:
    """A comparison.

    Raises:
        ConfigError: its sides do not compare.
    """
    name = what.column.name
    if isinstance(what, IsNull):
        return Test("null", name)
    kind = kinds[name]
    if isinstance(what.other, Name):
        other = kinds[what.other.name]
        zoned = [getattr(one.arrow, "tz", None) is not None for one in (kind, other)]
        stored = [one.element if one.family == "time" else "" for one in (kind, other)]
        same = (kind.family, kind.units, stored[0], zoned[0]) == (other.family, other.units, stored[1], zoned[1])
        if not (same and kind.family != "text") and not {kind.family, other.family} <= {"integer", "float"}:
            raise ConfigError(
                f"the columns {name!r} ({kind.arrow}) and {what.other.name!r} ({other.arrow}) do not compare; "
                "use two columns of whole numbers or floats, or of one type that is no text"
            )
        orders, negated = _PAIRS[what.order]
        return Test("pair", name, what.other.name, orders=orders, negated=negated)
    described = f"the column {name!r}"
    if what.order == "like" and not (kind.family == "text" and isinstance(what.other.value, str)):
        raise ConfigError(f"{described} ({kind.arrow}): like is between a column of texts and a text between single quotes")
    if kind.family != "text":
        found = range_of(described, kind, what.order, what.other)
        return Test("range", name, range=found, negated=found.negated)
    if not isinstance(what.other.value, str):
        raise ConfigError(f"{described} holds texts, which do not compare with a number; write a text between single quotes")
    try:
        what.other.value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{described} is compared with {what.other.value!r}, which no text is: it is no UTF-8") from None
    return Test("table", name, text=(what.order, (what.other.value,)))


class Outcomes(NamedTuple):
    """How tests may come out in each of several parts of a table: bool, an entry for each."""

    true: np.ndarray
    false: np.ndarray
    unknown: np.ndarray

    @classmethod
    def any_of(cls, parts: int) -> Outcomes:
        """Where nothing is known."""
        return cls(*[np.ones(parts, bool)] * 3)


def may_hold(program: Program, outcomes: list[Outcomes]) -> np.ndarray:
    """Whether the predicate may be true for a row of each part, where each test may come out as ``outcomes`` says."""
    stack: list[Outcomes] = []
    for step in program.steps:
        if step >= 0:
            stack.append(outcomes[step])
            continue
        if step == _core.QUERY_STEPS["not"]:
            stack.append(_negation(stack.pop()))
            continue
        second, first = stack.pop(), stack.pop()
        is_and = step == _core.QUERY_STEPS["and"]
        stack.append(_both(first, second) if is_and else _negation(_both(_negation(first), _negation(second))))
    return stack[0].true


def _negation(of: Outcomes) -> Outcomes:
    return Outcomes(of.false, of.true, of.unknown)


def _both(a: Outcomes, b: Outcomes) -> Outcomes:
    """Kleene's and: what is false decides."""
    return Outcomes(a.true & b.true, a.false | b.false, (a.unknown & (b.unknown | b.true)) | (a.true & b.unknown))


def outcomes_of(test: Test, kind: ColumnKind, found: Statistics | None, parts: int) -> Outcomes:
    """How a test of a column may come out in parts with these statistics."""
    if found is None or test.kind == "pair":
        return Outcomes.any_of(parts)
    nulls, values = found.nulls != 0, found.nulls != found.rows
    if test.kind == "null":
        return Outcomes(nulls, values, np.zeros(parts, bool))
    if test.kind == "table":
        assert test.text is not None
        order, literals = test.text[0], sorted(text.encode() for text in test.text[1])
        least, greatest, literal = found.least, found.greatest, np.array(literals[0], object)  # bytes would lose zeros
        between = zip(least.tolist(), greatest.tolist(), strict=True)
        inside = {
            "==": np.array([bisect_left(literals, low) < bisect_right(literals, high) for low, high in between], bool),
            "<": least < literal,
            "<=": least <= literal,
            ">": greatest > literal,
            ">=": greatest >= literal,
        }.get(order, np.ones(parts, bool))
        return Outcomes((inside.astype(bool) | ~found.known) & values, values, nulls)
    if test.kind == "set":
        numbers = np.sort(np.array(test.numbers, np.int64).view(found.least.dtype))
        inside = np.searchsorted(numbers, found.least, "left") < np.searchsorted(numbers, found.greatest, "right")
        return Outcomes((inside | ~found.known) & values, values, nulls)
    assert test.range is not None
    dtype = {"float": np.float64, "uint": np.uint64}.get("uint" if kind.element.startswith("uint") else kind.family, np.int64)
    low, high = np.array([test.range.low, test.range.high], np.int64).view(dtype)
    inside = (found.greatest >= low) & (found.least <= high)
    outside = (found.least < low) | (found.greatest > high) | (kind.family == "float")  # statistics leave NaN out
    inside, outside = (inside | ~found.known) & values, (outside | ~found.known) & values
    return Outcomes(outside, inside, nulls) if test.negated else Outcomes(inside, outside, nulls)
