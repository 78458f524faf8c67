"""Runs a query on a GPU whose columns do not fit the host's memory: a chunk of them at a time comes from the file.

The filter's columns come in the order of the file, through two rooms of page-locked memory. What the filter finds of a chunk
says how the others come: the pages that hold a match, or the chunk whole, whichever takes a disk less time (Mailthody 2022,
figures 7.12 and 7.13).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..runtime.thresholds import REQUEST_BYTES
from ..runtime.units import format_bytes
from .on_gpu import BLOCK, MOST_BLOCKS, OnGpu, Pair, RowChunk
from .pinned_columns import PinnedColumn
from .result import ColumnPlan
from .table import KeptGroups


@dataclass
class _Demand:
    """How the chunks of a column came whose pages are asked for on demand.

    Attributes:
        bytes: read of the file.
        least_bytes: of pages that hold a match.
        by_page, whole: of each chunk that came so, the share of its pages that hold a match.
    """

    bytes: int = 0
    least_bytes: int = 0
    by_page: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


class StreamedOnGpu(OnGpu):
    """One query to one table, of whose columns the source holds some at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._held = self.source.held(self.kinds)
        streamed = [name for name in self.kinds if name not in self._held]
        self._in_order = [name for name in streamed if self.program is None or name in self._compared]
        self._demands = {name: _Demand() for name in streamed if name not in self._in_order}
        self._kept: KeptGroups = {}
        self._matching = 0
        self._room_bytes = self.source.room_bytes()
        bits = sum(
            1 + (self._held[name].bits if name in self._held else max(kind.bits, 8)) for name, kind in self.kinds.items()
        )
        self._room_blocks = min(self._room_bytes // (2 * bits * BLOCK // 8), MOST_BLOCKS, -(-self.table.rows // BLOCK))

    def refusal(self) -> str:
        """Why this is not for a GPU; empty where it is."""
        if self._room_blocks == 0 and self.table.rows:
            return f"{format_bytes(self._room_bytes)} of host memory do not hold {BLOCK:,} rows of its columns twice"
        return super().refusal()

    def _take_columns(self) -> None:
        self._rooms = self.source.rooms(self.kinds, max(self._room_blocks, 1) * BLOCK)
        self._held = {name: self._held.get(name, room) for name, room in self._rooms[0].items()}
        self.table.read_as_asked()
        self._batches = self.table.batches(self._in_order, self._parts if self._in_order else [])
        self._next = next(self._batches, None)

    def _run(self) -> tuple[list[Pair], np.ndarray[Any, Any], int]:
        try:
            pairs, totals, _ = super()._run()
        finally:  # the rooms are another question's next
            torch.cuda.current_stream().synchronize()
        return pairs, totals, self._matching

    def _most_blocks(self, pairs: list[Pair]) -> int:
        return min(super()._most_blocks(pairs), max(self._room_blocks, 1))

    def _columns(self, most: int, rooms: int) -> list[dict[str, PinnedColumn]]:
        return self._rooms[:rooms]

    def _fill(self, chunk: RowChunk) -> None:
        """What is held, and what comes in the order of the file."""
        begin, chunk.at = chunk.first * BLOCK, 0
        chunk.room.stream.synchronize()  # the chunk before the last one lay there
        for name, column in chunk.room.columns.items():
            if name not in self._in_order and name not in self._demands:
                column.copy_rows(self._held[name], chunk.first, chunk.last - chunk.first)
        for first, batch in self._upto(begin + chunk.rows):
            low, high = max(first, begin), min(first + batch.num_rows, begin + chunk.rows)
            for name, array in zip(self._in_order, batch.columns, strict=True):
                some = array.slice(low - first, high - low)
                chunk.room.columns[name].put(self._what(name), self.kinds[name], some, low - begin)

    def _upto(self, end: int) -> Iterator[tuple[int, Any]]:
        """The first row of each batch that begins before a row, and the batch; one that goes on comes again."""
        while self._next is not None and self._next[0] < end:
            first, batch = self._next
            yield first, batch
            if first + batch.num_rows > end:
                return
            self._next = next(self._batches, None)

    def _choose_way(self, chunk: RowChunk) -> None:
        """Brings the other columns first, where rows match; waits for the chunk's filter."""
        there = self._there(chunk)
        words = chunk.room.words[: (chunk.last - chunk.first) * BLOCK // 32]
        bits = np.unpackbits(words.cpu().numpy().view(np.uint8), bitorder="little")
        if not there[: chunk.rows].all():  # of row groups that were left out nothing came
            bits &= there
            words.copy_(torch.from_numpy(np.packbits(bits, bitorder="little").view(np.int32)))
        if matching := int(bits.sum()):
            self._matching += matching
            for name, demand in self._demands.items():
                self._demand(chunk, name, demand, bits[: chunk.rows], there[: chunk.rows])
        super()._choose_way(chunk)

    def _there(self, chunk: RowChunk) -> np.ndarray[Any, Any]:
        """Of each row of a chunk's blocks whether statistics left its row group, uint8."""
        there = np.zeros((chunk.last - chunk.first) * BLOCK, np.uint8)
        for part in self._parts:
            there[max(part.begin - chunk.first * BLOCK, 0) : max(part.end - chunk.first * BLOCK, 0)] = 1
        return there

    def _demand(self, chunk: RowChunk, name: str, demand: _Demand, bits: np.ndarray, there: np.ndarray) -> None:
        """Brings what a column has in the rows that match, by pages that hold them, or all of it."""
        begin = chunk.first * BLOCK
        pages = self.table.pages(name, begin, begin + chunk.rows)
        hit = np.maximum.reduceat(bits, np.maximum(pages.begins[:-1] - begin, 0)) != 0
        least, every = int(pages.bytes[hit].sum()), int(pages.bytes.sum())
        requests = np.count_nonzero(hit & ~np.insert(hit[:-1], 0, False))
        by_page = least + requests * REQUEST_BYTES < every
        (demand.by_page if by_page else demand.whole).append(float(hit.mean()))
        rows = np.flatnonzero(bits if by_page else there)
        read = 0
        for piece in self.table.values_at(name, begin + rows, self._kept):
            some, column = rows[piece.at :][: len(piece.values)], chunk.room.columns[name]
            if some[-1] - some[0] == len(some) - 1:
                column.put(self._what(name), self.kinds[name], piece.values, int(some[0]))
            else:
                column.put_at(self._what(name), self.kinds[name], piece.values, some)
            read += piece.bytes
        demand.bytes += read
        demand.least_bytes += read if by_page else read * least // max(every, 1)  # dictionaries count as their pages do

    def _what(self, name: str) -> str:
        return f"{self.table.path}: the column {name!r}"

    def _plan(self, name: str, read: Any, matched: int) -> ColumnPlan:
        if name in self._demands:
            return self._plan_of(name, self._demands[name], matched)
        if name not in self._in_order:
            return ColumnPlan(name, "held", "host memory has it, and nothing was read of the file", 0, 0)
        size = self.table.stored_bytes(name, self._parts)
        why = f"{self._whole()}, through {format_bytes(self._room_bytes)} of host memory at most"
        return ColumnPlan(name, "streamed", why, size, size)

    def _plan_of(self, name: str, demand: _Demand, matched: int) -> ColumnPlan:
        sides = [
            (
                how,
                f"{said} in {len(shares):,} chunks, {100 * min(shares):.3g} to {100 * max(shares):.3g} % of whose pages match",
            )
            for how, said, shares in (
                ("on demand", "pages that hold a match", demand.by_page),
                ("streamed", "all of them", demand.whole),
            )
            if shares
        ]
        if not sides:
            return ColumnPlan(name, "not read", "no row matches", 0, 0)
        why = f"{self._share(matched)}: {', and '.join(said for _, said in sides)}; whichever takes a disk less time"
        return ColumnPlan(name, " and ".join(how for how, _ in sides), why, demand.bytes, demand.least_bytes)
