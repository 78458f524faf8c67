"""A predicate as native code takes it: tests of columns, and the steps that join them; and what statistics say of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

from .. import _core
from ..runtime.errors import ConfigError
from .bounds import Kind, Range, holds_for_text, range_of
from .expression import Compare, IsNull, Junction, Name

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
    """One comparison: a range of numbers, texts that hold, a null, or the orders of two columns that hold."""

    kind: str
    column: str
    other: str | None = None
    range: Range | None = None
    text: tuple[str, str] | None = None  # order, literal
    orders: int = 0
    negated: bool = False

    def table(self, texts: list[str]) -> list[bool]:
        """Of texts: which hold."""
        assert self.text is not None
        return [holds_for_text(self.text[0], value, self.text[1]) for value in texts]


class Program:
    """Tests and steps, and how deep the stack gets."""

    def __init__(self, predicate: Any, kinds: dict[str, Kind]) -> None:
        self.tests: list[Test] = []
        self.steps: list[int] = []
        self.depth = self._add(predicate, kinds)
        self.predicate = predicate

    @property
    def columns(self) -> list[str]:
        """The columns that are compared, each once."""
        return list(dict.fromkeys(name for test in self.tests for name in (test.column, test.other) if name is not None))

    def _add(self, what: Any, kinds: dict[str, Kind]) -> int:
        """Appends the steps of ``what``; how many of the stack they need."""
        if not isinstance(what, Junction):
            self.steps.append(len(self.tests))
            self.tests.append(test_of(what, kinds))
            return 1
        depth = self._add(what.parts[0], kinds)
        if what.kind == "not":
            self.steps.append(_core.QUERY_STEPS["not"])
        for part in what.parts[1:]:
            depth = max(depth, 1 + self._add(part, kinds))
            self.steps.append(_core.QUERY_STEPS[what.kind])
        return depth


def test_of(what: Compare | IsNull, kinds: dict[str, Kind]) -> Test:
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
        same = kind.family == other.family and kind.units == other.units and kind.element == other.element
        if not (same and kind.family != "text") and not {kind.family, other.family} <= {"integer", "float"}:
            raise ConfigError(
                f"the columns {name!r} ({kind.arrow}) and {what.other.name!r} ({other.arrow}) do not compare; "
                "use two columns of whole numbers or floats, or of one type that is no text"
            )
        orders, negated = _PAIRS[what.order]
        return Test("pair", name, what.other.name, orders=orders, negated=negated)
    described = f"the column {name!r}"
    if kind.family != "text":
        found = range_of(described, kind, what.order, what.other)
        return Test("range", name, range=found, negated=found.negated)
    if not isinstance(what.other.value, str):
        raise ConfigError(f"{described} holds texts, which do not compare with a number; write a text between single quotes")
    return Test("table", name, text=(what.order, what.other.value))


def may_hold(program: Program, outcomes: dict[int, set[bool | None]]) -> bool:
    """Whether the predicate may be true for a row, where each test may come out as ``outcomes`` says (None is unknown)."""
    everything: set[bool | None] = {True, False, None}
    stack: list[set[bool | None]] = []
    for step in program.steps:
        if step >= 0:
            stack.append(outcomes.get(step, everything))
        elif step == _core.QUERY_STEPS["not"]:
            stack.append({None if one is None else not one for one in stack.pop()})
        else:
            second, first, both = stack.pop(), stack.pop(), step == _core.QUERY_STEPS["and"]
            stack.append({_joined(a, b, not both) for a in first for b in second})
    return True in stack[0]


def _joined(a: bool | None, b: bool | None, decides: bool) -> bool | None:
    """Kleene's and (which False decides), and his or (which True does)."""
    if a is decides or b is decides:
        return decides
    return None if a is None or b is None else not decides


def outcomes_of(test: Test, kind: Kind, statistics: Any) -> set[bool | None]:
    """How a test of a column may come out in a row group with these statistics."""
    everything: set[bool | None] = {True, False, None}
    if statistics is None or test.kind not in ("range", "table") or kind.family not in ("integer", "float", "decimal", "text"):
        return everything
    if not statistics.has_min_max:
        return everything
    least, greatest = statistics.min, statistics.max
    if kind.family != "text" and not (isinstance(least, int | float | Decimal) and isinstance(greatest, int | float | Decimal)):
        return everything  # pyarrow has those of float16 as bytes
    if kind.family == "text":
        if not isinstance(least, str) or not isinstance(greatest, str):
            return everything
        assert test.text is not None
        order, literal = test.text
        may = {
            "==": least <= literal <= greatest,
            "<": least < literal,
            "<=": least <= literal,
            ">": greatest > literal,
            ">=": greatest >= literal,
        }.get(order, True)
        return everything if may else {False, None}
    assert test.range is not None
    low, high = kind.value(test.range.low), kind.value(test.range.high)
    may_be_inside = not (greatest < low or least > high)
    outside = not (low <= least and greatest <= high) or kind.family == "float"  # statistics leave NaN out
    found: set[bool | None] = {None}
    if may_be_inside:
        found.add(not test.negated)
    if outside:
        found.add(test.negated)
    return found
