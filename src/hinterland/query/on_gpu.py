"""Runs a query on a GPU, which reads columns in host memory over the link: launches query/by_warp.cu chunk by chunk."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import _core
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import address, struct
from .bounds import Kind
from .files import Table
from .held import HeldColumn, HeldTable
from .program import Program, Test
from .result import ColumnPlan
from .run import Found, Measured, Run

_BLOCK, _UNIT = _core.QUERY_BLOCK_ROWS, _core.QUERY_UNIT_ROWS
_THREADS = _core.QUERY_BLOCK_THREADS
_TOTAL = ctypes.sizeof(struct("query::Total"))
_ROOM = 256 << 20  # bytes of the GPU's memory that a chunk may take: chosen, not measured
_MOST_BLOCKS = 4096  # of a chunk: 16 million rows, of which a filter takes 3 milliseconds: chosen, not measured
_FILTER_WARPS = 2  # of a multiprocessor: they fill the link (docs/notes/queries-on-h200.md), and leave room for the others
# Groups whose totals each block has room for: of more, they would be most of what is written.
MOST_GROUPS = 1024

KERNELS = KernelFile("query/by_warp.cu", ("filter_kernel", "group_kernel", "total_kernel", "merge_kernel"))


class OnGpu(Run):
    """One query to one table whose columns a GPU addresses.

    Args:
        gather_below: the share of a block's sectors below which single values are read; negative is what is quickest.
    """

    gather_below = -1.0

    def __init__(
        self,
        table: Table,
        kinds: dict[str, Kind],
        program: Program | None,
        keys: tuple[str, ...],
        measures: list[Measured],
        held: HeldTable,
    ) -> None:
        super().__init__(table, kinds, program, keys, measures)
        self._device = held.device
        self._source = held
        self._held = held.columns({name: kinds[name] for name in keys})
        self._spans = [self._held[name].span for name in keys]
        self._grouped = math.prod(count + 1 for _, count in self._spans)
        self._tests = sorted(program.tests, key=lambda one: self._numbers[one.column]) if program is not None else []
        self._loads: dict[str, int] = {}  # of each column that the filter reads: how often
        for at, test in enumerate(self._tests):
            before = self._tests[at - 1] if at else None
            if test.kind == "pair":
                names = [test.column, str(test.other)]
            elif test.kind == "null" or (before is not None and before.column == test.column and before.kind != "pair"):
                names = []
            else:
                names = [test.column]
            for name in names:
                self._loads[name] = self._loads.get(name, 0) + 1

    def refusal(self) -> str:
        """Why this is not for a GPU; empty where it is."""
        if self._grouped > MOST_GROUPS:
            return f"there may be {self._grouped:,} groups, of which a GPU takes {MOST_GROUPS:,}"
        if len(self._tests) > _core.QUERY_MOST_TESTS or (self.program is not None and self.program.depth > _core.QUERY_DEEPEST):
            return f"a GPU takes {_core.QUERY_MOST_TESTS} comparisons, nested {_core.QUERY_DEEPEST} deep"
        return ""

    def answer(self) -> list[tuple[tuple[Any, ...], list[Found]]]:
        """Keys and measures of each group, in the order of their keys."""
        self._held = self._source.columns(self.kinds)
        for name, column in self._held.items():
            self._columns[name].texts = column.texts
        with torch.cuda.device(self._device):
            self._run()
        return self._found()

    def _run(self) -> None:
        pairs = list(dict.fromkeys((one.column, one.divisor) for one in [Measured(None), *self.measures]))
        measures = [self._merged(pair) for pair in pairs]
        kept = [name for name in self._asked if self._loads.get(name)]
        block_bytes = _BLOCK // 8 + 8 * _BLOCK * len(kept) + 2 * _BLOCK * bool(self.keys) + _TOTAL * len(pairs) * self._grouped
        ranges = self._ranges()
        most = min(max(_ROOM // block_bytes, 1), _MOST_BLOCKS)
        chunks = [(first, min(first + most, end)) for begin, end in ranges for first in range(begin, end, most)]
        most = max((last - first for first, last in chunks), default=1)
        rooms = [self._room(most, kept, len(pairs)) for _ in range(min(2, max(len(chunks), 1)))]
        matched = torch.zeros(1, dtype=torch.int64, device=self._device)
        counts = torch.zeros((len(self.kinds), 4), dtype=torch.int64, device=self._device)
        tables = [self._table(test) for test in self._tests]
        tests = self._uploaded(
            "query::Test", [self._fields(test, address(table)) for test, table in zip(self._tests, tables, strict=True)]
        )
        program = self._steps()
        steps = torch.tensor(program or [0], device=self._device)
        keys = self._uploaded(
            "query::GroupKey",
            [
                {"column": self._numbers[name], "low": low, "values": count}
                for name, (low, count) in zip(self.keys, self._spans, strict=True)
            ],
        )
        natives = self._uploaded("query::Measure", measures)
        into = self._nothing(pairs)
        warps = _FILTER_WARPS * devices.sm_count(self._device)
        here, beside = torch.cuda.current_stream(), torch.cuda.Stream()
        beside.wait_stream(here)
        for number, (first, last) in enumerate(chunks):
            room = rooms[number % 2]
            if room.free is not None:
                here.wait_event(room.free)
            read: dict[str, Any] = {
                "columns": room.columns.data_ptr(),
                "words": room.words.data_ptr(),
                "begin": first * _BLOCK,
                "end": last * _BLOCK,
            }
            self._launch(
                "filter_kernel",
                min((last - first) * _BLOCK // _UNIT, warps),
                "query::ChunkFilterParams",
                tests=tests.data_ptr(),
                tested=len(self._tests),
                program=steps.data_ptr(),
                steps=len(program),
                matched=matched.data_ptr(),
                rows=self.table.rows,
                **read,
            )
            beside.wait_stream(here)
            with torch.cuda.stream(beside):
                read.update(counts=counts.data_ptr(), gather_below=self.gather_below)
                if room.groups is not None:
                    read["groups"] = room.groups.data_ptr()
                    keyed = {"keys": keys.data_ptr(), "keyed": len(self.keys)}
                    self._launch("group_kernel", last - first, "query::ChunkGroupParams", **keyed, **read)
                shape = {"measures": natives.data_ptr(), "measured": len(pairs), "grouped": self._grouped}
                shape["totals"] = room.totals.data_ptr()
                self._launch("total_kernel", (last - first) * len(pairs), "query::ChunkTotalParams", **shape, **read)
                self._launch(
                    "merge_kernel",
                    len(pairs) * self._grouped,
                    "query::ChunkMergeParams",
                    columns=room.columns.data_ptr(),
                    blocks=last - first,
                    into=into.data_ptr(),
                    **shape,
                )
                room.free = beside.record_event()
        here.wait_stream(beside)
        del tables
        self.matched = int(matched)
        self._count_reads(ranges, counts.tolist())
        self._groups = _Groups(self, pairs, into.cpu().numpy())

    def _launch(self, instance: str, warps: int, params: str, **fields: Any) -> None:
        grid = -(-warps * 32 // _THREADS)
        launch(KERNELS, instance, self._device, grid, _THREADS, struct(params)(**fields))

    def _room(self, chunk: int, kept: list[str], measured: int) -> _Room:
        """For so many blocks."""
        rows, device = chunk * _BLOCK, self._device
        values = {name: torch.empty(rows, dtype=torch.int64, device=device) for name in kept}
        pieces = [self._piece(name, column, values.get(name)) for name, column in self._held.items()]
        return _Room(
            self._uploaded("query::PieceColumn", pieces),
            torch.empty(rows // 32, dtype=torch.int32, device=device),
            list(values.values()),
            torch.empty(rows, dtype=torch.int16, device=device) if self.keys else None,
            torch.empty(chunk * measured * self._grouped * _TOTAL, dtype=torch.uint8, device=device),
        )

    def _uploaded(self, name: str, fields: list[dict[str, Any]]) -> torch.Tensor:
        made = (struct(name) * max(len(fields), 1))()
        for at, one in enumerate(fields):
            made[at] = struct(name)(**one)
        return torch.frombuffer(bytearray(made), dtype=torch.uint8).to(self._device)

    def _merged(self, pair: tuple[str | None, str | None]) -> dict[str, Any]:
        """What is asked of a column, or of a ratio, all together."""
        asked = [one for one in self.measures if (one.column, one.divisor) == pair]
        over, under = (-1 if name is None else self._numbers[name] for name in pair)
        adds, bounds = (int(any(getattr(one, what) for one in asked)) for what in ("adds", "bounds"))
        return {"column": over, "divisor": under, "adds": adds, "bounds": bounds}

    def _piece(self, name: str, column: HeldColumn, kept: torch.Tensor | None) -> dict[str, Any]:
        return {
            "values": column.values.to(self._device).data_ptr(),
            "valid": 0 if column.valid is None else column.valid.to(self._device).data_ptr(),
            "kept": address(kept),
            "element": _core.QUERY_ELEMENTS[column.element],
            "scale": self.kinds[name].scale,
        }

    def _table(self, test: Test) -> torch.Tensor | None:
        if test.kind != "table":
            return None
        return torch.tensor(self._truths(test), dtype=torch.uint8, device=self._device)

    def _steps(self) -> list[int]:
        """The program's, with the tests' new numbers."""
        if self.program is None:
            return []
        places = {id(test): at for at, test in enumerate(self._tests)}
        return [step if step < 0 else places[id(self.program.tests[step])] for step in self.program.steps]

    def _ranges(self) -> list[tuple[int, int]]:
        """The blocks that statistics leave, in runs."""
        runs: list[tuple[int, int]] = []
        for part in self._parts():
            left = self._rows_left(part)
            rows = [(part.begin, part.end)] if left is None else left.tolist()
            for begin, end in rows:
                first, last = begin // _BLOCK, -(-end // _BLOCK)
                if runs and runs[-1][1] >= first:
                    runs[-1] = runs[-1][0], last
                else:
                    runs.append((first, last))
        return runs

    def _nothing(self, pairs: list[tuple[str | None, str | None]]) -> torch.Tensor:
        """Totals of no rows."""
        made = np.zeros((len(pairs), self._grouped), np.dtype([(name, "i8") for name in _FIELDS]))
        for at, (column, divisor) in enumerate(pairs):
            kind = "int64" if column is None else "float64" if divisor is not None else self._held[column].element
            if kind.startswith("float"):
                least, greatest = np.array([np.inf, -np.inf]).view(np.int64)
            elif kind.startswith("uint"):
                least, greatest = -1, 0
            else:
                least, greatest = 2**63 - 1, -(2**63)
            made[at]["least"], made[at]["greatest"] = least, greatest
        return torch.from_numpy(made.view(np.int64)).to(self._device)

    def _count_reads(self, ranges: list[tuple[int, int]], counts: list[list[int]]) -> None:
        rows = sum(min(end * _BLOCK, self.table.rows) - begin * _BLOCK for begin, end in ranges)
        for name, (read, least, streamed, gathered) in zip(self._columns, counts, strict=True):
            column, held = self._columns[name], self._held[name]
            whole = -(-rows * held.bits // 8) if self._loads.get(name) else 0
            bits = -(-rows // 8) if name in self._compared and held.valid is not None else 0
            column.bytes = read + bits + whole * self._loads.get(name, 0)
            column.least_bytes = bits + whole if whole else bits + least
            column.streamed, column.gathered = streamed, gathered

    def _plan(self, name: str, column: Any) -> ColumnPlan:
        share = f"{100 * self.matched / max(self.table.rows, 1):.3g} % of {self.table.rows:,} rows match"
        if name in self._compared:
            how, why = "streamed", "the filter reads it whole"
            if self._left_out:
                why += f", but for {self._left_out:,} of {self.table.groups:,} row groups that statistics leave out"
        elif column.streamed or column.gathered:
            how = " and ".join(word for word in ("streamed", "gathered") if getattr(column, word))
            why = f"{share}: {column.streamed:,} blocks of {_BLOCK:,} rows whole, single values in {column.gathered:,}"
        else:
            how, why = "not read", "no row matches, or all have a value"
        return ColumnPlan(name, how, why, column.bytes, column.least_bytes)


_FIELDS = [field[0] for field in struct("query::Total")._fields_]


@dataclass
class _Room:
    """Memory of a GPU for a chunk: words of rows that match, values that the filter keeps, rows' groups and blocks' totals.

    Attributes:
        free: when the chunk that had it before is done.
    """

    columns: torch.Tensor
    words: torch.Tensor
    kept: list[torch.Tensor]
    groups: torch.Tensor | None
    totals: torch.Tensor
    free: torch.cuda.Event | None = None


class _Groups:
    """What a GPU found, as ``_core.QueryGroups`` has what the CPU does."""

    def __init__(self, run: OnGpu, pairs: list[tuple[str | None, str | None]], totals: np.ndarray[Any, Any]) -> None:
        totals = totals.reshape(len(pairs), run._grouped, len(_FIELDS))
        there = [0] if not run.keys else np.flatnonzero(totals[0, :, 0]).tolist()
        order = [pairs.index((one.column, one.divisor)) for one in run.measures]
        self._totals = np.ascontiguousarray(totals[order][:, there].transpose(1, 0, 2))
        self._keys = np.zeros((len(there), len(run.keys) + 1), np.int64)
        for row, number in zip(self._keys, there, strict=True):
            for place in range(len(run.keys) - 1, -1, -1):
                low, count = run._spans[place]
                number, index = divmod(number, count + 1)
                if index == count:
                    row[-1] |= 1 << place
                else:
                    row[place] = low + index - (2**64 if low + index >= 2**63 else 0)

    def __len__(self) -> int:
        return len(self._keys)

    def copy_to(self, keys: int, totals: int) -> None:
        """The words of each group's key, and its totals."""
        ctypes.memmove(keys, self._keys.ctypes.data, self._keys.nbytes)
        ctypes.memmove(totals, self._totals.ctypes.data, self._totals.nbytes)
