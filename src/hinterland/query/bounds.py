"""Types of columns, and literals as bounds in them: every comparison is a range of the column's values, or what is outside.

Whole numbers, decimals, dates and times are compared exactly: ``x < 3.5`` of int64 is ``x <= 3``. Floats are compared by value:
exactly with a literal of digits alone, else with the float64 nearest to it, so a float32 that was rounded from 0.1 is not equal
to 0.1.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
import zoneinfo
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ..runtime import arguments
from ..runtime.errors import ConfigError
from .expression import Literal

_SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MOST_DIGITS = 18  # of decimals: they fit 64 bits
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,18})?)?\s*(Z|[+-]\d\d:?\d\d)?)?")


@dataclass(frozen=True)
class ColumnKind:
    """What a column holds.

    Attributes:
        arrow: its type in Arrow.
        element: what lies in memory (``_core.QUERY_ELEMENTS``); of text its codes, which each part may have in another width.
        family: ``integer``, ``float``, ``decimal``, ``bool``, ``time`` or ``text``: what literals it is compared with.
        units: how many of the stored numbers make 1, a second, or of dates a day.
        bits: of a value in memory.
    """

    arrow: Any
    element: str
    family: str
    units: int
    bits: int

    @property
    def is_number(self) -> bool:
        return self.family in ("integer", "float", "decimal")

    @property
    def scale(self) -> float:
        """What stored numbers are divided by to be values: of decimals; 1 of others."""
        return float(self.units) if self.family == "decimal" else 1.0

    def values(self, stored: Sequence[Any]) -> list[Any]:
        """What Python calls values that are stored as these numbers; all are of one type.

        Times are ``date`` or ``datetime``; of nanoseconds, or where Python does not know a year or the time zone, they are all
        ``numpy.datetime64``, of UTC where there is a zone.
        """
        import pyarrow

        if self.family == "float":
            return [one + 0.0 for one in stored]  # no -0.0: which zero is least depends on nothing then
        if self.element == "uint64":
            return [one % 2**64 for one in stored]
        if self.family == "bool":
            return list(map(bool, stored))
        if self.family == "decimal":
            return [scaled(one, self.units) for one in stored]
        if self.family == "time":
            array = pyarrow.array(np.array(stored, f"i{self.bits // 8}")).view(self.arrow)
            if self.units != _SECONDS["ns"]:
                with suppress(ValueError, OverflowError, LookupError):
                    return array.to_pylist()
            return list(array.to_numpy(zero_copy_only=False))
        return list(stored)


def scaled(number: int, units: int) -> Decimal:
    """``number / units``, exactly, with as many digits after the point."""
    return Decimal(number).scaleb(-(len(str(units)) - 1), Context(prec=60))


def kind_of(arrow: Any) -> ColumnKind | None:
    """What a type of Arrow's is here; None where columns of it cannot be asked for."""
    import pyarrow.types as types

    text = str(arrow)
    if types.is_dictionary(arrow):
        arrow = arrow.value_type
        return kind_of(arrow)
    if types.is_string(arrow) or types.is_large_string(arrow) or types.is_string_view(arrow):
        return ColumnKind(arrow, "int32", "text", 1, 32)
    if types.is_boolean(arrow):
        return ColumnKind(arrow, "bool", "bool", 1, 1)
    if types.is_integer(arrow):
        return ColumnKind(arrow, text, "integer", 1, arrow.bit_width)
    if types.is_null(arrow):  # of a column without any value, as pandas writes it
        return ColumnKind(arrow, "float64", "float", 1, 64)
    if types.is_floating(arrow):
        return ColumnKind(arrow, f"float{arrow.bit_width}", "float", 1, arrow.bit_width)
    if types.is_decimal128(arrow) and arrow.precision <= MOST_DIGITS and 0 <= arrow.scale <= MOST_DIGITS:
        return ColumnKind(arrow, "decimal", "decimal", 10**arrow.scale, 128)
    if types.is_date32(arrow):
        return ColumnKind(arrow, "int32", "time", 1, 32)
    if types.is_date64(arrow):
        return ColumnKind(arrow, "int64", "time", 86_400_000, 64)
    if types.is_timestamp(arrow):
        return ColumnKind(arrow, "int64", "time", _SECONDS[arrow.unit], 64)
    return None


@dataclass(frozen=True)
class Range:
    """Values from ``low`` to ``high``, as the 64 bits that native code takes; ``negated``: all others."""

    low: int
    high: int
    negated: bool


def range_of(what: str, kind: ColumnKind, order: str, literal: Literal) -> Range:
    """The values of a column that a comparison with a literal holds for.

    Raises:
        ConfigError: they do not compare; ``what`` names the column.
    """
    negated = order == "!="
    order = "==" if negated else order
    exact = _exact(what, kind, literal)
    if kind.family == "float":
        least_float, most_float = _float_bounds(kind, order, exact, literal.whole)
        low_bits, high_bits = struct.unpack("<qq", struct.pack("<dd", least_float, most_float))
        return Range(low_bits, high_bits, negated)
    width = 64 if kind.element == "decimal" else kind.bits
    least, most = (0, 2**width - 1) if kind.element.startswith("uint") else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    if kind.family == "bool":
        least, most = 0, 1
    low = {"==": math.ceil(exact), ">=": math.ceil(exact), ">": math.floor(exact) + 1}.get(order, least)
    high = {"==": math.floor(exact), "<=": math.floor(exact), "<": math.ceil(exact) - 1}.get(order, most)
    low, high = max(low, least), min(high, most)
    if low > high:
        low, high = 1, 0  # which every type holds
    low, high = (bits - 2**64 if bits >= 2**63 else bits for bits in (low, high))
    return Range(low, high, negated)


def _exact(what: str, kind: ColumnKind, literal: Literal) -> Fraction:
    """A literal in the column's units."""
    value = literal.value
    if kind.family == "bool" and isinstance(value, bool):
        return Fraction(int(value))
    if kind.is_number and isinstance(value, Fraction):
        return value * kind.units
    if kind.family == "time" and isinstance(value, str):
        return _moment(what, kind, value)
    wanted = {"bool": "true or false", "time": "a date as '2019-03-01 12:00:00'", "text": "a text between single quotes"}
    given = (
        f"{float(value):g}" if isinstance(value, Fraction) else str(value).lower() if isinstance(value, bool) else repr(value)
    )
    raise ConfigError(f"{what} is {kind.arrow}, which does not compare with {given}; use {wanted.get(kind.family, 'a number')}")


def _moment(what: str, kind: ColumnKind, text: str) -> Fraction:
    """A date or time in the column's units since 1970; without an offset in the column's own time zone."""
    found = _MOMENT.fullmatch(text.strip())
    zone = getattr(kind.arrow, "tz", None)
    try:
        if found is None:
            raise ValueError("not a date")
        date, hour, minute, second, fraction, offset = found.groups()
        moment = datetime.datetime.fromisoformat(f"{date}T{hour or '00'}:{minute or '00'}:{second or '00'}{offset or ''}")
        if moment.tzinfo is None and zone is not None:
            moment = (
                datetime.datetime.fromisoformat(f"{moment.isoformat()}{zone}")
                if zone[:1] in "+-"
                else moment.replace(tzinfo=zoneinfo.ZoneInfo(zone))
            )
    except zoneinfo.ZoneInfoNotFoundError:
        raise ConfigError(
            f"{what} is {kind.arrow}, a zone that this machine does not know; write an offset, as '2019-03-01 12:30:00Z'"
        ) from None
    except ValueError:
        raise ConfigError(
            f"{what} is {kind.arrow}, and {arguments.repr_of(text)} is no date; write it as '2019-03-01 12:30:00'"
        ) from None
    if moment.tzinfo is not None and zone is None:
        raise ConfigError(f"{what} is {kind.arrow}, which has no time zone; leave the offset of {text!r} out")
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC if moment.tzinfo else None)
    since = moment - epoch
    seconds = since.days * 86400 + since.seconds + Fraction(f"0{fraction}" if fraction else 0)
    return seconds / 86400 if kind.element == "int32" else (seconds * (1000 if kind.units == 86_400_000 else kind.units))


def real(value: Any) -> float:
    """A number as a float64; an infinity where it is beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _float_bounds(kind: ColumnKind, order: str, exact: Fraction, whole: bool) -> tuple[float, float]:
    endless = math.inf
    below = above = real(exact)
    if whole:  # the greatest float64 not above it, and the least not below
        below = below if below <= exact else math.nextafter(below, -endless)
        above = above if above >= exact else math.nextafter(above, endless)
    low, high = {
        "==": (above, below),
        ">=": (above, endless),
        ">": (math.nextafter(below, endless), endless),
        "<=": (-endless, below),
        "<": (-endless, math.nextafter(above, -endless)),
    }[order]
    if (order == ">" and below == endless) or (order == "<" and above == -endless):
        return endless, -endless
    if kind.bits < 64:  # the least float32 not below, and the greatest not above
        with np.errstate(over="ignore"):
            narrow_low, narrow_high = np.float32(low), np.float32(high)
            if float(narrow_low) < low:  # as float64: NumPy 2 rounds a float of Python's to float32 before it compares
                narrow_low = np.nextafter(narrow_low, np.float32(endless))
            if float(narrow_high) > high:
                narrow_high = np.nextafter(narrow_high, np.float32(-endless))
        low, high = float(narrow_low), float(narrow_high)
    return (low, high) if low <= high else (endless, -endless)
