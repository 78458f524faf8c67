"""Columns that are calculated from others row by row, as ``fare + tip``: of which kind they are, and how DuckDB says them.

As in SQL whole numbers stay whole numbers, of 64 bits, beyond which DuckDB raises; a quotient is a float64, infinite by zero;
and of a null there is no result. Decimals stay exact beside decimals, whole numbers and literals, and are floats beside floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from ..runtime.errors import ConfigError
from .bounds import MOST_DIGITS, ColumnKind, real
from .expression import Arithmetic, Literal


class Calculated(NamedTuple):
    """A term in SQL.

    Attributes:
        sql: what it is called.
        family: ``integer``, ``float``, ``decimal``, or ``literal``: a number with a point, which takes after what is beside it.
        units: as ColumnKind has them; what is no float is a whole number of these.
    """

    sql: str
    family: str
    units: int = 1

    def in_units(self, units: int) -> str:
        """In SQL, a whole number of these."""
        scale = units // self.units
        return f"{self.sql}::bigint * {scale}::bigint" if scale > 1 else f"{self.sql}::bigint"

    @property
    def as_float(self) -> str:
        """In SQL."""
        return f"({self.sql}::double / {self.units}::double)" if self.units > 1 else f"{self.sql}::double"

    @property
    def kind(self) -> ColumnKind:
        """Of a column of such values."""
        import pyarrow

        if self.family == "float":
            return ColumnKind(pyarrow.float64(), "float64", "float", 1, 64)
        digits = len(str(self.units)) - 1
        arrow = pyarrow.decimal128(MOST_DIGITS, digits) if self.family == "decimal" else pyarrow.int64()
        return ColumnKind(arrow, "int64", self.family, self.units, 64)


def calculated(term: Any, kinds: Mapping[str, ColumnKind], names: Mapping[str, str]) -> Calculated:
    """A term of columns and numbers.

    Args:
        term: as ``expression.Name.term``, or a part of it.
        kinds: of the columns.
        names: what SQL calls them.

    Raises:
        ConfigError: nothing is calculated with a column of its type, or there are too many digits.
    """
    if isinstance(term, Arithmetic):
        return _joined(term.sign, *(calculated(side, kinds, names) for side in (term.left, term.right)))
    if isinstance(term, Literal):
        assert isinstance(term.value, Fraction)
        return _literal(term.value, term.whole)
    kind = kinds[term.name]
    if not kind.is_number:
        raise ConfigError(f"the column {term.name!r} is {kind.arrow}, with which nothing is calculated; use numbers")
    return Calculated(names[term.name], kind.family, kind.units)


def _literal(value: Fraction, whole: bool) -> Calculated:
    """Exactly, where 64 bits hold it, else the nearest float64."""
    units = next((10**digits for digits in range(MOST_DIGITS + 1) if 10**digits % value.denominator == 0), None)
    if units is None or not -(2**63) < value * units < 2**63:
        return Calculated(f"'{real(value)!r}'::double", "float")
    return Calculated(f"({value * units})", "integer" if whole else "literal", units)


def _joined(sign: str, left: Calculated, right: Calculated) -> Calculated:
    families = {left.family, right.family}
    if sign == "/" or "float" in families or families == {"integer", "literal"}:
        return Calculated(f"({left.as_float} {sign} {right.as_float})", "float")
    units = left.units * right.units if sign == "*" else max(left.units, right.units)
    if units > 10**MOST_DIGITS:
        raise ConfigError(
            f"decimals with more than {MOST_DIGITS} digits after the point; divide one by 1: quotients are floats"
        )
    first, second = (one.in_units(one.units if sign == "*" else units) for one in (left, right))
    return Calculated(f"({first} {sign} {second})", "decimal" if "decimal" in families else "integer", units)
