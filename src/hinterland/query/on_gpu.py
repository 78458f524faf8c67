"""Runs a query on a GPU, which reads columns in host memory over the link: launches query/by_warp.cu chunk by chunk."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, ClassVar

import numpy as np
import torch

from .. import _core
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import address, struct
from ..runtime.thresholds import QUERY_BYTES
from .bounds import ColumnKind
from .chunks import chunks_of
from .pinned_columns import PinnedColumn, PinnedTable
from .program import Test
from .result import ColumnPlan
from .run import Answer, ColumnMeasure, GroupMeasure, QueryRun

BLOCK, _UNIT = _core.QUERY_BLOCK_ROWS, _core.QUERY_UNIT_ROWS
_THREADS = _core.QUERY_BLOCK_THREADS
_TOTAL = ctypes.sizeof(struct("query::Total"))
_FIELDS = [field[0] for field in struct("query::Total")._fields_]
MOST_BLOCKS = 2048  # of a chunk: 8 million rows, whose copy takes longer than its launches (docs/notes/queries-on-h200.md)
_FILTER_WARPS = 16  # of a multiprocessor
_COPIED_FROM = 0.85  # share of a chunk's sectors from which on a copy of the whole column is quicker than loads of those
_SECTOR = 32
# Groups whose totals each block has room for: of more, they would be most of what is written.
MOST_GROUPS = 1024

Pair = tuple[str | None, str | None]  # a column, and the one that it is divided by

KERNELS = KernelFile("query/by_warp.cu", ("filter_kernel", "group_kernel", "total_kernel", "merge_kernel"))


@dataclass(eq=False)
class OnGpu(QueryRun):
    """One query to one table whose columns a GPU addresses.

    Attributes:
        source: what holds the columns.
        gather_below: the share of a block's sectors below which single values are read; negative is what is quickest.
    """

    source: PinnedTable
    gather_below: ClassVar[float] = -1.0

    def __post_init__(self) -> None:
        self._device, kinds, program, keys = self.source.device, self.kinds, self.program, self.keys
        self._numbers = {name: number for number, name in enumerate(kinds)}
        self._reads = {name: _Read() for name in kinds}
        self._compared = program.columns if program is not None else []
        self._parts = self.table.parts(program)
        self._held = self.source.columns({name: kinds[name] for name in keys}, self.terms)
        self._spans = [self._held[name].span for name in keys]
        self._grouped = math.prod(count + 1 for _, count in self._spans)
        self._tests = sorted(program.tests, key=lambda one: self._numbers[one.column]) if program is not None else []
        self._compared_values = dict.fromkeys(
            name for test in self._tests if test.kind != "null" for name in (test.column, test.other) if name is not None
        )

    def refusal(self) -> str:
        """Why this is not for a GPU; empty where it is."""
        if self._grouped > MOST_GROUPS:
            return f"there may be {self._grouped:,} groups, of which a GPU takes {MOST_GROUPS:,}"
        many = len(self._tests) > _core.QUERY_MOST_TESTS or any(test.kind == "set" for test in self._tests)
        if many or (self.program is not None and self.program.depth > _core.QUERY_DEEPEST):
            return f"a GPU takes {_core.QUERY_MOST_TESTS} comparisons, nested {_core.QUERY_DEEPEST} deep"
        return ""

    def answer(self) -> Answer:
        """What was asked."""
        self._take_columns()
        with torch.cuda.device(self._device):
            pairs, totals, matched = self._run()
        keys, found = _groups(self, pairs, totals)
        return Answer(keys, found, matched, [self._plan(name, read, matched) for name, read in self._reads.items()])

    def _take_columns(self) -> None:
        """Has the columns in host memory."""
        self._held = self.source.columns(self.kinds, self.terms)

    def _run(self) -> tuple[list[Pair], np.ndarray[Any, Any], int]:
        """What is measured, query::Total of each, [measured, grouped], and how many rows match."""
        pairs = list(dict.fromkeys((one.column, one.divisor) for one in [ColumnMeasure(None), *self.measures]))
        self._wide = self._wide_columns(pairs)
        blocks = max(-(-self.table.rows // BLOCK), 1)
        most = min(self._most_blocks(pairs), blocks)
        rooms = [self._room(columns, most, len(pairs)) for columns in self._columns(most, 2 if blocks > most else 1)]
        here = torch.cuda.current_stream()
        for room in rooms:
            room.stream.wait_stream(here)  # which may still be at work in their memory
        try:
            coming = self._coming(rooms, most)
            first = list(islice(coming, 1))  # which is copied while all else is prepared
            small = self._prepared(pairs, rooms)
            for room in rooms:
                room.stream.wait_stream(here)  # for what was prepared
            chunks = self._launched(small, rooms, chain(first, coming), len(pairs))
        finally:  # what the memory is used for next comes after all this, also where statistics are damaged
            for room in rooms:
                here.wait_stream(room.stream)
        totals, matched, counts = (found.view(np.int64) for found in small.back("into", "matched", "counts"))
        self._count_reads(chunks, counts.reshape(-1, 4).tolist())
        return pairs, totals.reshape(len(pairs), self._grouped, len(_FIELDS)), int(matched[0])

    def _most_blocks(self, pairs: list[Pair]) -> int:
        """Of a chunk."""
        staged = sum(self._held[name].bits for name in self._staged)
        block_bytes = BLOCK * (1 + staged + 16 * bool(self.keys)) // 8 + _TOTAL * len(pairs) * self._grouped
        return min(max(QUERY_BYTES // block_bytes, 1), MOST_BLOCKS)

    def _columns(self, most: int, rooms: int) -> list[dict[str, PinnedColumn]]:
        """Where each room's chunks of up to ``most`` blocks lie in host memory."""
        return [self._held] * rooms

    def _coming(self, rooms: list[ChunkRoom], most: int) -> Iterator[RowChunk]:
        """Chunks of up to ``most`` blocks that statistics leave, once columns that their filter compares are on their way."""
        for number, (first, last, left) in enumerate(chunks_of(self._blocks_left(), most)):
            rows = min(last * BLOCK, self.table.rows) - first * BLOCK
            gaps = (last - first - left) * BLOCK
            chunk = RowChunk(first, last, rows, rows - gaps, rooms[number % len(rooms)], first)
            self._fill(chunk)
            with torch.cuda.stream(chunk.room.stream):
                self._stage(chunk, self._compared_values)
            yield chunk

    def _fill(self, chunk: RowChunk) -> None:
        """Has in host memory what a chunk's filter compares."""

    def _prepared(self, pairs: list[Pair], rooms: list[ChunkRoom]) -> _Small:
        """What all chunks' kernels need."""
        program, nothing = self._steps(), self._nothing(pairs)
        truths = [_truths(test, self._held[test.column]) if test.kind == "table" else b"" for test in self._tests]
        small = _Small(
            self._device,
            into=nothing.nbytes,
            matched=8,
            counts=32 * len(self.kinds),
            tests=len(self._tests) * ctypes.sizeof(struct("query::Test")),
            steps=8 * len(program),
            keys=len(self.keys) * ctypes.sizeof(struct("query::GroupKey")),
            measures=len(pairs) * ctypes.sizeof(struct("query::Measure")),
            columns=len(rooms) * len(self._wide) * len(self.kinds) * ctypes.sizeof(struct("query::PieceColumn")),
            truths=sum(map(len, truths)),
        )
        small.put("into", nothing.tobytes())
        small.put("steps", np.array(program, np.int64).tobytes())
        small.put("truths", b"".join(truths))
        tables = small.address("truths") + np.cumsum([0, *map(len, truths)])
        tests = [self._native(test, table) for test, table in zip(self._tests, tables.tolist(), strict=False)]
        small.put("tests", _packed("query::Test", tests))
        spans = [
            {"column": self._numbers[name], "low": low, "values": count}
            for name, (low, count) in zip(self.keys, self._spans, strict=True)
        ]
        small.put("keys", _packed("query::GroupKey", spans))
        small.put("measures", _packed("query::Measure", map(self._merged, pairs)))
        pieces = [(room, self._pieces(room)) for room in rooms]
        ways = [self._with_staged(columns, room, wide) for room, columns in pieces for wide in self._wide]
        small.put("columns", b"".join(_packed("query::PieceColumn", way) for way in ways))
        small.copy()
        return small

    def _launched(self, small: _Small, rooms: list[ChunkRoom], coming: Iterable[RowChunk], measured: int) -> list[RowChunk]:
        """Has the GPU work on chunks; which these are."""
        merged = None
        chunks: list[RowChunk] = []
        warps = _FILTER_WARPS * devices.sm_count(self._device)
        way = small.size("columns") // len(rooms) // len(self._wide)

        def read(chunk: RowChunk) -> dict[str, Any]:
            return {
                "columns": small.address("columns") + (rooms.index(chunk.room) * len(self._wide) + chunk.way) * way,
                "words": chunk.room.words.data_ptr(),
                "begin": chunk.at * BLOCK,
                "end": (chunk.at + chunk.last - chunk.first) * BLOCK,
            }

        def filter(chunk: RowChunk) -> None:
            self._launch(
                "filter_kernel",
                min((chunk.last - chunk.first) * BLOCK // _UNIT, warps),
                "query::ChunkFilterParams",
                tests=small.address("tests"),
                tested=len(self._tests),
                program=small.address("steps"),
                steps=small.size("steps") // 8,
                matched=small.address("matched"),
                touched=address(chunk.room.touched.zero_()) if self._waits else 0,
                rows=chunk.at * BLOCK + chunk.rows,
                **read(chunk),
            )

        def total(chunk: RowChunk) -> None:
            nonlocal merged
            self._choose_way(chunk)
            self._stage(chunk, self._wide[chunk.way])
            room, blocks = chunk.room, chunk.last - chunk.first
            counted = {"counts": small.address("counts"), "gather_below": self.gather_below, **read(chunk)}
            if room.groups is not None:
                counted["groups"] = room.groups.data_ptr()
                keyed = {"keys": small.address("keys"), "keyed": len(self.keys)}
                self._launch("group_kernel", blocks, "query::ChunkGroupParams", **keyed, **counted)
            shape: dict[str, Any] = {
                "measures": small.address("measures"),
                "measured": measured,
                "grouped": self._grouped,
                "totals": room.totals.data_ptr(),
            }
            self._launch("total_kernel", blocks * measured, "query::ChunkTotalParams", **shape, **counted)
            if merged is not None:  # chunks' totals are added in their order
                room.stream.wait_event(merged)
            shape.update(columns=counted["columns"], blocks=blocks, into=small.address("into"))
            self._launch("merge_kernel", measured * self._grouped, "query::ChunkMergeParams", **shape)
            merged = room.stream.record_event()

        for chunk in coming:
            chunks.append(chunk)
            with torch.cuda.stream(chunk.room.stream):
                filter(chunk)
            if len(chunks) > 1:  # whose filter is waited for while this one's columns are copied
                with torch.cuda.stream(chunks[-2].room.stream):
                    total(chunks[-2])
        if chunks:
            with torch.cuda.stream(chunks[-1].room.stream):
                total(chunks[-1])
        return chunks

    def _launch(self, instance: str, warps: int, params: str, **fields: Any) -> None:
        grid = -(-warps * 32 // _THREADS)
        launch(KERNELS, instance, self._device, grid, _THREADS, struct(params)(**fields))

    def _stage(self, chunk: RowChunk, names: Iterable[str]) -> None:
        """Has columns of a chunk copied: the copy engine gets more of the link than loads do."""
        for name in names:
            block = BLOCK * self._held[name].bits // 8
            given = chunk.room.columns[name].values.cpu()[chunk.at * block : (chunk.at + chunk.last - chunk.first) * block]
            chunk.room.staged[self._numbers[name]][: len(given)].copy_(given, non_blocking=True)

    def _wide_columns(self, pairs: list[Pair]) -> list[list[str]]:
        """Columns that are read where rows match, and may be staged as well: none, those of 4 bytes a value, those of 8, too.
        Narrower ones are read as quickly by loads."""
        merged = ((pair, self._merged(pair)) for pair in pairs)
        read = [name for pair, of in merged if of["adds"] or of["bounds"] for name in pair if name is not None]
        others = [name for name in dict.fromkeys([*self.keys, *read]) if name not in self._compared_values]
        if self.gather_below >= 0:
            others = []
        four, eight = ([name for name in others if self._held[name].bits == bits] for bits in (32, 64))
        return [[], four, four + eight]

    @property
    def _staged(self) -> list[str]:
        return [*self._compared_values, *self._wide[-1]]

    @property
    def _waits(self) -> bool:
        """Whether it is the filter's answer that says what is staged."""
        return self.program is not None and bool(self._wide[-1])

    def _choose_way(self, chunk: RowChunk) -> None:
        """Stages what is nearly all read; waits for the chunk's filter."""
        sectors = {bits: -(-chunk.rows * bits // 8 // _SECTOR) for bits in (32, 64)}
        if self._waits:
            both = int(chunk.room.touched)
            chunk.touched = {32: both >> 32, 64: both & 0xFFFFFFFF}
        else:
            chunk.touched = sectors
        shares = [chunk.touched[bits] >= _COPIED_FROM * sectors[bits] for bits in (32, 64)]  # the second is no greater
        chunk.way = sum(shares)

    def _room(self, columns: dict[str, PinnedColumn], chunk: int, measured: int) -> ChunkRoom:
        """For so many blocks of these columns."""
        rows, device = chunk * BLOCK, self._device
        staged = {self._numbers[name]: rows * self._held[name].bits // 8 for name in self._staged}
        return ChunkRoom(
            columns,
            torch.empty(rows // 32, dtype=torch.int32, device=device),
            {number: torch.empty(nbytes, dtype=torch.uint8, device=device) for number, nbytes in staged.items()},
            torch.empty(rows, dtype=torch.int16, device=device) if self.keys else None,
            torch.empty(chunk * measured * self._grouped * _TOTAL, dtype=torch.uint8, device=device),
            torch.empty(1, dtype=torch.int64, device=device),
            torch.cuda.Stream(),
        )

    def _merged(self, pair: Pair) -> dict[str, Any]:
        """What is asked of a column, or of a ratio, all together."""
        asked = [one for one in self.measures if (one.column, one.divisor) == pair]
        over, under = (-1 if name is None else self._numbers[name] for name in pair)
        adds, bounds = (int(any(getattr(one, what) for one in asked)) for what in ("adds", "bounds"))
        return {"column": over, "divisor": under, "adds": adds, "bounds": bounds}

    def _pieces(self, room: ChunkRoom) -> list[dict[str, Any]]:
        """The columns where a GPU finds them."""
        return [
            {
                "values": column.values.to(self._device).data_ptr(),
                "valid": 0 if column.valid is None else column.valid.to(self._device).data_ptr(),
                "entries": 0 if column.entries is None else column.entries.data_ptr(),
                "element": _core.QUERY_ELEMENTS[column.element],
                "kind": _core.QUERY_KINDS[column.taken],
                "scale": self.kinds[name].scale,
            }
            for name, column in room.columns.items()
        ]

    def _with_staged(self, columns: list[dict[str, Any]], room: ChunkRoom, wide: list[str]) -> Iterator[dict[str, Any]]:
        """The same, some of them with where a chunk of theirs is staged."""
        staged = {self._numbers[name] for name in [*self._compared_values, *wide]}
        for number, column in enumerate(columns):
            yield {**column, "staged": address(room.staged[number]) if number in staged else 0}

    def _steps(self) -> list[int]:
        """The program's, with the tests' new numbers."""
        if self.program is None:
            return []
        places = {id(test): at for at, test in enumerate(self._tests)}
        return [step if step < 0 else places[id(self.program.tests[step])] for step in self.program.steps]

    def _native(self, test: Test, table: int) -> dict[str, Any]:
        """A test's fields in query::Test; ``table``: the address of what it holds for, of tests that have one."""
        given: dict[str, Any] = {"kind": _core.QUERY_TESTS[test.kind], "column": self._numbers[test.column], "table": table}
        given.update(negated=int(test.negated), orders=test.orders)
        if test.other is not None:
            given["other"] = self._numbers[test.other]
        if test.range is not None:
            given.update(low=test.range.low, high=test.range.high)
        return given

    def _blocks_left(self) -> Iterator[tuple[int, int]]:
        """Ranges of blocks that statistics leave."""
        for part in self._parts:
            yield part.begin // BLOCK, -(-part.end // BLOCK)

    def _nothing(self, pairs: list[Pair]) -> np.ndarray[Any, Any]:
        """Totals of no rows."""
        made = np.zeros((len(pairs), self._grouped), np.dtype([(name, "i8") for name in _FIELDS]))
        for at, (column, divisor) in enumerate(pairs):
            kind = "int64" if column is None else "float64" if divisor is not None else self._held[column].taken
            if kind == "float64":
                least, greatest = np.array([np.inf, -np.inf]).view(np.int64)
            elif kind == "uint64":
                least, greatest = -1, 0
            else:
                least, greatest = 2**63 - 1, -(2**63)
            made[at]["least"], made[at]["greatest"] = least, greatest
        return made

    def _count_reads(self, chunks: list[RowChunk], counts: list[list[int]]) -> None:
        for name, (read, least, streamed, gathered) in zip(self._reads, counts, strict=True):
            column, held = self._reads[name], self._held[name]
            column.bytes, column.least_bytes, column.streamed, column.gathered = read, least, streamed, gathered
            for chunk in chunks:
                whole, left = (-(-rows * held.bits // 8) for rows in (chunk.rows, chunk.left))
                if name in self._compared and held.valid is not None:
                    column.bytes += -(-chunk.rows // 8)
                    column.least_bytes += -(-chunk.left // 8)
                if name in self._compared_values:
                    column.bytes += whole
                    column.least_bytes += left
                elif name in self._wide[chunk.way]:
                    column.bytes += whole
                    column.least_bytes += min(_SECTOR * chunk.touched[held.bits], whole)
                    column.streamed += chunk.last - chunk.first

    def _plan(self, name: str, column: _Read, matched: int) -> ColumnPlan:
        if name in self._compared:
            how, why = "streamed", self._whole()
        elif column.streamed or column.gathered:
            how = " and ".join(word for word in ("streamed", "gathered") if getattr(column, word))
            blocks = f"{column.streamed:,} blocks of {BLOCK:,} rows whole, single values in {column.gathered:,}"
            why = f"{self._share(matched)}: {blocks}"
        else:
            how, why = "not read", "no row matches, or all have a value"
        return ColumnPlan(name, how, why, column.bytes, column.least_bytes)

    def _share(self, matched: int) -> str:
        return f"{100 * matched / max(self.table.rows, 1):.3g} % of {self.table.rows:,} rows match"

    def _whole(self) -> str:
        """Why a column is read whole, and what of it is not."""
        left_out = self.table.groups - len(self._parts)
        but = f", but for {left_out:,} of {self.table.groups:,} row groups that statistics leave out" if left_out else ""
        return ("the filter reads it whole" if self.program is not None else "there is no filter") + but


@dataclass
class _Read:
    """What was read of a column: bytes, and blocks whole or value by value."""

    bytes: int = 0
    least_bytes: int = 0
    streamed: int = 0
    gathered: int = 0


@dataclass(eq=False)
class ChunkRoom:
    """Memory of a GPU for a chunk: words of rows that match, staged columns, rows' groups and blocks' totals.

    Attributes:
        columns: by their names, in host memory.
        staged: by the number of the column.
        touched: query::ChunkFilterParams::touched.
        stream: where its chunks are worked on, one after another. Those of two rooms overlap, so that the link never waits.
    """

    columns: dict[str, PinnedColumn]
    words: torch.Tensor
    staged: dict[int, torch.Tensor]
    groups: torch.Tensor | None
    totals: torch.Tensor
    touched: torch.Tensor
    stream: torch.cuda.Stream


@dataclass
class RowChunk:
    """Blocks that are worked on together, in a room.

    Attributes:
        rows: that the file has of these.
        left: rows of blocks that statistics left.
        at: the first block, of those in the room's host memory.
        way: which of the wide columns are staged (``OnGpu._wide``).
        touched: sectors that hold a match, by the bits of a value.
    """

    first: int
    last: int
    rows: int
    left: int
    room: ChunkRoom
    at: int
    way: int = 0
    touched: dict[int, int] = field(default_factory=dict)


class _Small:
    """Small things in one piece of a GPU's memory, so that one copy takes them there, and one takes some back.

    Args:
        device: the GPU.
        sizes: bytes of each, by its name.
    """

    def __init__(self, device: torch.device, **sizes: int) -> None:
        self._sizes = sizes
        begins = np.cumsum([0, *(-(-size // 16) * 16 for size in sizes.values())]).tolist()
        self._begins = dict(zip(sizes, begins, strict=False))
        self._there = torch.empty(max(begins[-1], 1), dtype=torch.uint8, device=device)
        self._here = np.zeros(len(self._there), np.uint8)

    def size(self, name: str) -> int:
        return self._sizes[name]

    def address(self, name: str) -> int:
        """Of one of them, on the GPU."""
        return self._there.data_ptr() + self._begins[name]

    def put(self, name: str, content: bytes) -> None:
        """Those that nothing is put into are zeros."""
        self._here[self._begins[name] :][: len(content)] = np.frombuffer(content, np.uint8)

    def copy(self) -> None:
        self._there.copy_(torch.from_numpy(self._here))

    def back(self, *names: str) -> list[np.ndarray[Any, Any]]:
        """The bytes of the first few, once the GPU is done with them."""
        found = self._there[: self._begins[names[-1]] + self._sizes[names[-1]]].cpu().numpy()
        return [found[self._begins[name] :][: self._sizes[name]] for name in names]


def _packed(name: str, fields: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(bytes(struct(name)(**one)) for one in fields)


def _truths(test: Test, column: PinnedColumn) -> bytes:
    """Of each text of a test's column whether it holds, and one more, so that there is any."""
    assert test.text is not None
    return np.append(column.texts.truths(test.text), False).astype(np.uint8).tobytes()


def _groups(run: OnGpu, pairs: list[Pair], totals: np.ndarray[Any, Any]) -> tuple[list[list[Any]], list[GroupMeasure]]:
    """The groups that have rows, in the order of their keys: of each key the values, and what was found of each measure."""
    numbers = np.zeros(1, np.int64) if not run.keys else np.flatnonzero(totals[0, :, 0])
    shown: list[np.ndarray[Any, Any]] = []
    order: list[np.ndarray[Any, Any]] = []
    left = numbers
    for name, (low, count) in reversed(list(zip(run.keys, run._spans, strict=True))):
        left, index = np.divmod(left, count + 1)
        values, rank = _key(run.kinds[name], run._held[name], low, index[index < count])
        texts, ranks = np.full(len(index), None, object), np.zeros(len(index), rank.dtype)
        texts[index < count], ranks[index < count] = values, rank
        shown.insert(0, texts)
        order += [ranks, index == count]  # the last one counts most
    by_key = np.lexsort(order) if order else np.arange(len(numbers))
    found = []
    for one in run.measures:
        kind = None if one.column is None or one.divisor is not None else run.kinds[one.column]
        found.append(_found(totals[pairs.index((one.column, one.divisor))][numbers[by_key]], kind))
    return [texts[by_key].tolist() for texts in shown], found


def _key(
    kind: ColumnKind, column: PinnedColumn, low: int, index: np.ndarray[Any, Any]
) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """What is shown of a key's values, which lie so far from the least number, and numbers in their order."""
    if kind.family == "text":
        return column.texts.texts(index)
    if column.entries is not None:
        stored = column.entries.cpu().numpy()[index]
    else:
        stored = (index.astype(np.uint64) + np.uint64(low % 2**64)).view(np.int64)
    stored = stored.view(np.uint64) if kind.element == "uint64" else stored
    return kind.values(stored.tolist()), stored


def _found(totals: np.ndarray[Any, Any], kind: ColumnKind | None) -> GroupMeasure:
    """Of query::Total of each group; ``kind``: of what was measured, None of rows and of ratios."""
    field = {name: np.ascontiguousarray(totals[:, at]) for at, name in enumerate(_FIELDS)}
    halves = zip(field["high"].tolist(), field["low"].view(np.uint64).tolist(), strict=True)
    wholes = [high * 2**64 + low for high, low in halves]
    if kind is not None and kind.element == "uint64":
        wholes = [one % 2**128 for one in wholes]
    total, rest = (field[name].view(np.float64) for name in ("sum", "rest"))
    with np.errstate(invalid="ignore", over="ignore"):
        reals = np.where(np.isfinite(rest), total + rest, total).tolist()
    taken = np.float64 if kind is not None and kind.family == "float" else np.int64
    least, greatest = (field[name].view(taken) for name in ("least", "greatest"))
    bounds = [
        None if taken is np.float64 and low > high else (low, high)  # of nothing but NaN
        for low, high in zip(least.tolist(), greatest.tolist(), strict=True)
    ]
    return GroupMeasure(field["count"].tolist(), wholes, reals, bounds)
