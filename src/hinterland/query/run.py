"""Runs a query part by part: the filter's columns first, others only where rows match; counts what is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..runtime.errors import ConfigError, FormatError
from ..runtime.params import struct
from ..runtime.units import format_bytes
from .bounds import Kind
from .files import Table
from .filtering import Verdicts, filter_rows, native_columns, native_test
from .page_cache import PAGE
from .program import Program, Test
from .result import ColumnPlan
from .rows import Matching, Part, Wanted, between
from .segments import Segment, is_judged, segment_of
from .texts import Codes, Numbers, Places

_BLOCK = _core.QUERY_BLOCK_ROWS
_WORDS = _BLOCK // 64  # of a block
_SECTOR = 32
_TOTAL = np.dtype(struct("query::Total"))
# Share of the rows that match from which a column is read whole, on a CPU. On two cores of a Xeon single values are quicker up
# to 5 %, and whole columns from 10 % on.
GATHER_BELOW = 0.05


class Measured(NamedTuple):
    """What is asked of a column (None: of the rows), or of its ratio to another."""

    column: str | None
    divisor: str | None = None
    adds: bool = False
    bounds: bool = False


class Found:
    """A measure of each group, in lists.

    Args:
        totals: query::Total of each, [groups].
        kind: of what was measured; None of rows, and of ratios of columns.
    """

    def __init__(self, totals: np.ndarray, kind: Kind | None = None) -> None:
        self._totals, self._kind = totals, kind

    @classmethod
    def of_rows(cls, count: int) -> Found:
        """Of so many rows, in one group."""
        totals = np.zeros(1, _TOTAL)
        totals["count"] = count
        return cls(totals)

    def __len__(self) -> int:
        return len(self._totals)

    @cached_property
    def count(self) -> list[int]:
        """Of values."""
        return self._totals["count"].tolist()

    @cached_property
    def whole(self) -> list[int]:
        """Sums of whole numbers."""
        halves = zip(self._totals["high"].tolist(), self._totals["low"].tolist(), strict=True)
        sums = [high * 2**64 + low for high, low in halves]
        if self._kind is not None and self._kind.element == "uint64":
            return [one + 2**128 if one < 0 else one for one in sums]
        return sums

    @cached_property
    def real(self) -> list[float]:
        """Sums of floats."""
        total, rest = self._totals["sum"], self._totals["rest"]
        with np.errstate(invalid="ignore", over="ignore"):
            return np.where(np.isfinite(rest), total + rest, total).tolist()

    @cached_property
    def bounds(self) -> list[tuple[int, int] | None]:
        """The least and the greatest value, as they are stored; None where there is nothing but NaN."""
        bits = [np.ascontiguousarray(self._totals[name]) for name in ("least", "greatest")]
        found: list[tuple[int, int] | None] = list(zip(bits[0].tolist(), bits[1].tolist(), strict=True))
        if self._kind is None or self._kind.family != "float":
            return found
        least, greatest = (one.view(np.float64) for one in bits)
        return [None if nan else one for nan, one in zip((least > greatest).tolist(), found, strict=True)]


class Answer(NamedTuple):
    """Groups in the order of their keys: of each key its values, and of each measure what was found."""

    keys: list[list[Any]]
    found: list[Found]


@dataclass
class _Reading:
    """A column while it is read."""

    kind: Kind
    texts: Codes
    segments: list[Segment]
    bytes: int = 0
    least_bytes: int = 0
    streamed: int = 0  # parts
    gathered: int = 0
    from_disk: int = 0

    @property
    def places(self) -> Places | None:
        """What stands for its texts."""
        return self.texts if self.kind.family == "text" and isinstance(self.texts, Places) else None


class Run:
    """One query to one table.

    Args:
        streamed: reads other columns than the filter's whole (True), or single values (False), whatever would be chosen.
        first_rows: up to which row groups are taken together at first, and twice as many each time after; None is as many as
            keep all threads busy at all times.
    """

    streamed: bool | None = None
    first_rows: int | None = None

    def __init__(
        self,
        table: Table,
        kinds: dict[str, Kind],
        program: Program | None,
        keys: tuple[str, ...],
        measures: list[Measured],
    ) -> None:
        self.table, self.kinds, self.program, self.keys = table, kinds, program, keys
        self._said = [self._values_said(one) for one in measures]
        known = zip(measures, self._said, strict=True)
        self.measures = [Measured(None) if said == table.rows else one for one, said in known]  # without nulls
        self.matched, self._left_out = 0, 0
        self._compared = program.columns if program is not None else []
        asked = [name for one in self.measures for name in (one.column, one.divisor) if name is not None]
        self._asked = list(dict.fromkeys([*keys, *asked]))
        self._columns = {name: _Reading(kind, self._codes(name), []) for name, kind in kinds.items()}
        self._numbers = {name: number for number, name in enumerate(self._columns)}
        self._verdicts = {name: one for name in self._compared if (one := self._verdicts_on(name)) is not None}
        self._known_truths: dict[Test, np.ndarray] = {}
        self._words: np.ndarray | None = None  # of all rows, a bit where the filter is true; None where there is no filter
        self._groups: Any = None
        self._done = 0  # blocks that were added up

    def answer(self) -> Answer:
        """What was asked."""
        if self.program is None and not self.keys:
            counts = [said for said in self._said if said is not None]
            if len(counts) == len(self.measures):
                self.matched = self.table.rows
                return Answer([], list(map(Found.of_rows, counts)))
        whole = False
        if self.program is not None:
            self._words = np.zeros(-(-self.table.rows // _BLOCK) * _WORDS, np.uint64)
        self._groups = _core.QueryGroups(len(self.keys))
        parts = self._parts()
        for part, after in zip_longest(parts, parts[1:]):
            left = self._rows_left(part, after)
            if left is not None and not len(left):
                continue
            matched, judged = self._filter(part, left, after, whole)
            self.matched += matched
            if not matched:
                self._add(part.begin // _BLOCK, whole)  # and lets go of what was compared
                continue
            whole = matched >= GATHER_BELOW * (part.end - part.begin) if self.streamed is None else self.streamed
            others = [name for name in self._asked if name not in self._compared or name in judged]
            self._take(self._read(part, dict.fromkeys(others), self._matching(part, whole), after))
            self._count(part, whole)
            self._add(part.end // _BLOCK, whole)
        self._add(-(-self.table.rows // _BLOCK), whole)
        return self._found()

    def _values_said(self, one: Measured) -> int | None:
        """How many values of all its rows the file says that there are; None where more is asked, or it does not say."""
        if one.column is None:
            return self.table.rows
        return None if one.adds or one.bounds or one.divisor is not None else self.table.values_of(one.column)

    def _codes(self, name: str) -> Codes:
        """Of a column's texts."""
        tests = self.program.tests if self.program is not None else []
        literals = (text for test in tests if test.column == name and test.text is not None for text in test.text[1])
        return Numbers() if name in self.keys else Places(literals)

    def _verdicts_on(self, name: str) -> Verdicts | None:
        """What may stand for the values of a column while it is compared."""
        tests = [test for test in self.program.tests if name in (test.column, test.other)] if self.program is not None else []
        return Verdicts.of(self.kinds[name], tests)

    def plans(self) -> list[ColumnPlan]:
        """How each column was read."""
        return [self._plan(name, column) for name, column in self._columns.items()]

    def _plan(self, name: str, column: _Reading) -> ColumnPlan:
        share = f"{100 * self.matched / max(self.table.rows, 1):.3g} % of {self.table.rows:,} rows match"
        if name in self._compared:
            how, why = "streamed", "the filter reads it whole"
            if self._left_out:
                why += f", but for {self._left_out:,} of {self.table.groups:,} row groups that statistics leave out"
        elif column.streamed and column.gathered:
            how = "streamed and gathered"
            why = f"{share}: whole in {column.streamed:,} parts, single values in {column.gathered:,}"
        elif column.streamed:
            how, why = "streamed", f"{share}" if self.program is not None else "there is no filter"
        elif column.gathered:
            how, why = "gathered", f"{share}, less than {100 * GATHER_BELOW:g} % of each part"
        else:
            said = self.program is None or name not in self._asked
            how, why = "not read", "the file says how many values it has" if said else "no row matches"
        if self.table.chunked and how != "not read" and name not in self._compared:
            why += "; of Parquet all pages that hold such rows"
        if column.from_disk:
            why += f"; from the disk in {column.from_disk:,} parts: pages of {format_bytes(PAGE)}, and short gaps between them"
        return ColumnPlan(name, how, why, column.bytes, column.least_bytes)

    def _parts(self) -> list[Part]:
        """Those that statistics of row groups leave; others are counted."""
        parts = self.table.parts_left(self.program, self._columns, self.first_rows)
        self._left_out = self.table.groups - sum(len(part.at) for part in parts)
        return parts

    def _rows_left(self, part: Part, after: Part | None = None) -> np.ndarray | None:
        """Ranges of rows that statistics of pages leave, [n, 2], or None; row groups without any are counted. ``after`` is the
        part that is read next."""
        found = None if self.program is None else self.table.rows_left(part, self.program, after)
        if found is None:
            return None
        self._left_out += found[1]
        return found[0]

    def _matching(self, part: Part, whole: bool) -> Wanted | None:
        """The rows of a part that match, or those of blocks in which any does; None where all do."""
        if self._words is None:
            return None
        first, last = part.begin // _BLOCK, -(-part.end // _BLOCK)
        found = Matching(self._words[first * _WORDS : last * _WORDS], first * _BLOCK, few=not whole)
        if not whole or self.table.chunked:
            return found
        return lambda begins, ends: found(begins // _BLOCK * _BLOCK, -(-ends // _BLOCK) * _BLOCK)

    def _read(
        self, part: Part, names: Mapping[str, Verdicts | None], wanted: Wanted | None, after: Part | None
    ) -> dict[str, list[Segment]]:
        """Columns of a part, or verdicts on their values."""
        instead = {name: self._columns[name].places or verdicts for name, verdicts in names.items()}
        found: dict[str, list[Segment]] = {name: [] for name in names}
        for name, begin, array in self.table.read(part, instead, wanted, after):
            column = self._columns[name]
            if len(array):  # of what was kept, its fields
                what = f"{self.table.path}: the column {name!r}"
                matching = wanted if isinstance(wanted, Matching) else None
                found[name].append(segment_of(what, array, begin, column.kind, column.texts, matching))
        return found

    def _take(self, found: dict[str, list[Segment]]) -> None:
        """What was read is to be added up."""
        for name, segments in found.items():
            self._columns[name].segments += segments

    def _filter(self, part: Part, left: np.ndarray | None, after: Part | None, many: bool) -> tuple[int, set[str]]:
        """Reads the filter's columns of a part and sets the bits of rows that match.

        Args:
            part: the part.
            left: ranges of its rows that are looked at, [n, 2]; None is all of them.
            after: the part that is read next.
            many: whether many rows are expected to match, whose values will be asked for.

        Returns:
            How many rows match, and the columns of which verdicts were read, and no values.
        """
        verdicts = {name: None if many and name in self._asked else self._verdicts.get(name) for name in self._compared}
        ahead = after if left is None else None  # statistics were asked for with what they are of
        found = self._read(part, verdicts, between(left) if left is not None else None, ahead)
        judged = {name for name, segments in found.items() if segments and is_judged(segments[0], self._columns[name].kind)}
        self._take({name: segments for name, segments in found.items() if name not in judged})
        for name in self._compared:
            column = self._columns[name]
            spent = self.table.spent(name)
            if spent is not None:
                read, least = spent
            else:
                read = least = sum(map(_whole, found[name]))
            column.bytes += read
            column.least_bytes += least
        if self.program is None or self._words is None:
            return part.end - part.begin, judged
        first, last = part.begin // _BLOCK, -(-part.end // _BLOCK)
        words = self._words[first * _WORDS : last * _WORDS]
        before = int(np.bitwise_count(words[:_WORDS]).sum())  # of a block that the part before has rows of
        of_bytes = {
            test: fields for name in judged for test, fields in self._verdicts[name].native_tests(self._numbers[name]).items()
        }
        tests, keeps = [], []
        for test in self.program.tests:
            table = 0
            if test.kind == "table":
                keeps.append(self._truths(test))
                table = keeps[-1].ctypes.data
            elif test.kind == "set":
                keeps.append(np.array(test.numbers, np.int64))
                table = keeps[-1].ctypes.data
            tests.append(of_bytes.get(test) or native_test(test, self._numbers, table))
        columns, held = native_columns((column.kind, found.get(name, [])) for name, column in self._columns.items())
        if filter_rows(columns, tests, self.program.steps, self.program.depth, self._words, first, last):
            raise self._damaged()
        del keeps, held
        return int(np.bitwise_count(words).sum()) - before, judged

    def _truths(self, test: Test) -> np.ndarray:
        """Of each text of a test's column whether it holds, and one more, so that there is any: uint8."""
        assert test.text is not None
        texts = self._columns[test.column].texts
        known = self._known_truths.get(test)
        if known is None or len(known) != len(texts) + 1:
            known = self._known_truths[test] = np.append(texts.truths(test.text), False).astype(np.uint8)
        return known

    def _count(self, part: Part, whole: bool) -> None:
        """What is read of the columns that are not the filter's, and what any plan reads."""
        for name in self._asked:
            if name in self._compared:
                continue
            column = self._columns[name]
            ours = [one for one in column.segments if one.begin >= part.begin]
            spent = self.table.spent(name)
            if spent is not None:
                read, least = spent
            else:
                least = sum(self._sectors(one) for one in ours)
                read = sum(self._streamed(one) for one in ours) if whole else least
                least = min(least, read)
            column.bytes += read
            column.least_bytes += least
            column.streamed += whole
            column.gathered += not whole
            column.from_disk += spent is not None and not self.table.chunked

    def _sectors(self, one: Segment) -> int:
        """Bytes of the sectors that matching rows' values, and the bits that say whether they are null, lie in."""
        if self._words is None or one.text_bytes:
            return _whole(one)
        found = self._sectors_of(one, 8 * one.values + one.value_at, one.bits)
        return found + (self._sectors_of(one, 8 * one.valid + one.valid_at, 1) if one.valid else 0)

    def _sectors_of(self, one: Segment, bit: int, bits: int) -> int:
        assert self._words is not None
        return _SECTOR * int(_core.count_sectors(self._words.ctypes.data, one.begin, one.end, bit, bits))

    def _streamed(self, one: Segment) -> int:
        """Bytes of the blocks in which any row matches."""
        if self._words is None or one.text_bytes:
            return _whole(one)
        first, last = one.begin // _BLOCK, -(-one.end // _BLOCK)
        some = self._words[first * _WORDS : last * _WORDS].reshape(-1, _WORDS).any(axis=1)
        starts = np.arange(first, last) * _BLOCK
        rows = int((np.minimum(starts + _BLOCK, one.end) - np.maximum(starts, one.begin))[some].sum())
        return -(-rows * (one.bits + (one.valid != 0)) // 8)

    def _add(self, end: int, whole: bool) -> None:
        """Adds up the blocks before ``end`` that were not; what they need no more is let go."""
        if end <= self._done:
            return
        columns, held = native_columns((column.kind, column.segments) for column in self._columns.values())
        measures = (struct("query::Measure") * len(self.measures))()
        for number, one in enumerate(self.measures):
            measures[number] = struct("query::Measure")(
                column=-1 if one.column is None else self._numbers[one.column],
                divisor=-1 if one.divisor is None else self._numbers[one.divisor],
                adds=int(one.adds),
                bounds=int(one.bounds),
                streamed=int(whole),
            )
        keys = np.array([self._numbers[name] for name in self.keys] or [0], np.int64)
        params = struct("query::AggregateParams")(
            columns=_address(columns),
            measures=_address(measures),
            measured=len(self.measures),
            keys=keys.ctypes.data,
            keyed=len(self.keys),
            words=0 if self._words is None else self._words.ctypes.data,
            rows=self.table.rows,
            begin=self._done,
            end=end,
        )
        outcome = self._groups.add(params.address)
        del held
        if outcome == _core.QUERY_OUTCOMES["damaged"]:
            raise self._damaged()
        if outcome == _core.QUERY_OUTCOMES["groups"]:
            raise ConfigError(
                f"{', '.join(self.keys)} have more than {_core.QUERY_MOST_GROUPS:,} values; group by others, or filter"
            )
        self._done = end
        self._forget(list(self._columns), end)

    def _forget(self, names: list[str], blocks: int) -> None:
        for name in names:
            column = self._columns[name]
            column.segments = [one for one in column.segments if one.end > blocks * _BLOCK]

    def _damaged(self) -> FormatError:
        return FormatError(
            f"{self.table.path}: a column that is read has codes that its dictionary does not have, or decimals of more "
            "than 18 digits; the file is damaged, write it again"
        )

    def _found(self) -> Answer:
        size = len(self._groups)
        words, totals = np.zeros((size, len(self.keys) + 1), np.int64), np.zeros((size, len(self.measures)), _TOTAL)
        self._groups.copy_to(words.ctypes.data, totals.ctypes.data)
        if not self.keys and not size:
            return Answer([], [Found.of_rows(0) for _ in self.measures])
        shown: list[np.ndarray] = []
        order: list[np.ndarray] = []
        for place, name in enumerate(self.keys):
            null = words[:, -1] >> place & 1 != 0
            values, rank = self._key(name, words[~null, place])
            ranks, texts = np.zeros(size, rank.dtype), np.full(size, None, object)
            ranks[~null], texts[~null] = rank, values
            shown.append(texts)
            order[:0] = [ranks, null]  # the last one counts most
        by_key = np.lexsort(order) if order else np.arange(size)
        kinds = [None if one.column is None or one.divisor is not None else self.kinds[one.column] for one in self.measures]
        found = [Found(totals[:, m].take(by_key), kind) for m, kind in enumerate(kinds)]
        return Answer([texts[by_key].tolist() for texts in shown], found)

    def _key(self, name: str, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is shown of a key's values that are no nulls, an array of objects; and numbers in their order."""
        column, shown = self._columns[name], np.empty(len(stored), object)
        if isinstance(column.texts, Numbers) and column.kind.family == "text":
            shown[:], rank = column.texts.texts(stored)
            return shown, rank
        stored = stored.view(np.uint64) if column.kind.element == "uint64" else stored
        shown[:] = column.kind.values(stored.tolist())
        return shown, stored


def _whole(one: Segment) -> int:
    rows = one.end - one.begin
    if one.text_bytes:
        return one.text_bytes
    return -(-rows * one.bits // 8) + (-(-rows // 8) if one.valid else 0)


def _address(array: Any) -> int:
    return int(_core.address_of(array))
