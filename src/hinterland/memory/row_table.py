"""Rows of several tables by way of slots in GPU memory: launches memory/clock.cu and row_table.cu, or the CPU's loops."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from .. import _core
from ..runtime import devices
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.params import Params, address, struct
from ..runtime.turns import Turns
from . import faults
from .clock import Clock, SlotPlan
from .gather import index_bytes, row_cut
from .plan import cut_rows

_ELEMENTS = {
    torch.float8_e4m3fn: "Float8", torch.bfloat16: "Bfloat16", torch.float16: "Float16", torch.float32: "float"
}  # fmt: skip
RESOLVE, WRITE, _THROUGH, _FLUSH, _REFRESH, GATHER = range(6)  # in the order of the kernels
# What a gather computes: the type of rows, and of the output. All others copy.
WIDENED = [*((torch.float8_e4m3fn, out) for out in list(_ELEMENTS)[1:]), (torch.bfloat16, torch.float32)]
_USES = "Resolve", "Write", "Through", "Flush", "Refresh", "Gather"
_COPIED = [f"row_table_kernel<RowUse::k{use}, Unit16, Unit16>" for use in _USES]
_WIDENED = [f"row_table_kernel<RowUse::kGather, {_ELEMENTS[row]}, {_ELEMENTS[out]}>" for row, out in WIDENED]
KERNELS = KernelFile("memory/row_table.cu", (*_COPIED, *_WIDENED), separate_module=True)
_RowTableParams = struct("memory::RowTableParams")
_THREADS = _core.ROW_TABLE_THREADS
_UNIT, _IN_LINE = _core.UNIT_BYTES, _core.LINE_BYTES - 1


def way_of_gather(dtype: torch.dtype, out: torch.dtype) -> int:
    """Which kernel gathers rows of ``dtype`` as ``out``; ConfigError where there is none."""
    if dtype == out:
        return GATHER
    if (dtype, out) not in WIDENED:
        known = ", ".join(f"{row} to {to}" for row, to in WIDENED)
        raise ConfigError(f"rows of {dtype} are not gathered as {out}; take them as they are, or one of {known}")
    return GATHER + 1 + WIDENED.index((dtype, out))


class RowSlots:
    """Rows of some tables in host memory, and slots in the memory of one device for those asked for lately
    (include/hinterland/memory/row_table.hpp).

    Calls take turns, on whatever streams of the GPU they are, and at each replay those of a graph.

    Args:
        tables: addresses of the tables and their numbers of rows, which all have ``row_bytes``.
        slots: rows that have room on the device; 0: rows are read and written where they lie.
        write_back: whether a row that was written goes to its table when it leaves its slot, in place of at once.
        scales: float32 of each row of all tables, on the device, or None.
    """

    def __init__(
        self,
        tables: Sequence[tuple[int, int]],
        row_bytes: int,
        slots: int,
        device: torch.device,
        *,
        lru: bool,
        write_back: bool,
        scales: torch.Tensor | None,
    ) -> None:
        low = 0
        for base, _ in tables:
            low |= base & _IN_LINE
        if row_bytes == 0 or row_bytes % _UNIT or low % _UNIT:
            raise ConfigError(
                f"rows of {row_bytes} bytes are not made of aligned units of {_UNIT} bytes, which row tables copy; pad them"
            )
        bounds = [0, *accumulate(rows for _, rows in tables)]
        self.device, self.tables, self._write_back, self._scales = device, len(tables), write_back, scales
        self.clock = Clock(SlotPlan(bounds[-1], row_bytes, slots), device, lru, write_back)
        self._base = torch.tensor([base for base, _ in tables], device=device)
        self._bounds = torch.tensor(bounds, device=device)
        cut = cut_rows(row_bytes, low, 0)
        params = self._params = _RowTableParams(clock=self.clock.ring, slots=self.clock.block.data_ptr(), row_bytes=row_bytes)
        params.tables.memories, params.tables.bounds, params.tables.count = (
            address(self._base),
            address(self._bounds),
            len(tables),
        )
        params.scales, params.cut = address(scales), row_cut(cut)
        self._turns = Turns(device)
        self._pieces = cut.steps, _THREADS // cut.lanes * _core.IN_FLIGHT

    @property
    def held(self) -> int:
        """Bytes on the device, scales that were there not counted."""
        return sum(part.nbytes for part in (self.clock.block, self.clock.log, self.clock.written, self._base, self._bounds))

    def move(self, way: int, rows: torch.Tensor, out: torch.Tensor | None = None, values: torch.Tensor | None = None) -> None:
        """Gathers, resolves or writes a batch: row numbers ``[tables, n]``, contiguous on the device."""
        index_bytes(rows)
        if rows.numel() > _core.CLOCK_MOST:
            raise ConfigError(f"{rows.numel()} row numbers are more than the {_core.CLOCK_MOST} of one batch; cut it in parts")
        if rows.is_cuda:
            faults.raise_deferred(self.device.index)
        if rows.numel() == 0:
            return
        with self._turns.take(self.clock.block):
            params, admit = self._batch(rows)
            params.out, params.values = address(out), address(values)
            if not rows.is_cuda:
                self._on_cpu(way, params)
                return
            if self.clock.plan.capacity:
                self.clock.give_slots(admit)
            self._launch(way, params)
            if way == WRITE and self.clock.plan.capacity and not self._write_back:
                self._launch(_THROUGH, params)

    def flush(self) -> None:
        """Has the tables hold what was written."""
        if not self.clock.written.numel():
            return
        with self._turns.take(self.clock.block):
            self._move_slots(_FLUSH)
            self.clock.written.zero_()

    def refresh(self) -> None:
        """Has the slots hold what the tables hold, but for rows that are ahead of them."""
        if self.clock.plan.capacity:
            with self._turns.take(self.clock.block):
                self._move_slots(_REFRESH)

    def _move_slots(self, way: int) -> None:
        params = _RowTableParams.from_buffer_copy(self._params)
        params.batch.count = self.clock.plan.capacity
        (self._on_cpu if self.device.type == "cpu" else self._launch)(way, params)

    def _batch(self, rows: torch.Tensor) -> tuple[Params, Params]:
        """What moves a batch, and what admits it."""
        admit = self.clock.batch(rows, rows.numel())
        places = torch.empty(rows.numel() if self.clock.plan.capacity else 0, dtype=torch.int32, device=self.device)
        admit.batch.places, admit.batch.bounds = address(places), address(self._bounds)
        admit.batch.each = rows.numel() // self.tables
        params = _RowTableParams.from_buffer_copy(self._params)
        params.batch, params.keeps = admit.batch, (admit, places)
        return params, admit

    def _on_cpu(self, way: int, params: Params) -> None:
        fault = _core.serve_rows(params.address, way)
        if fault is not None:
            raise faults.out_of_range(*fault)

    def _launch(self, way: int, params: Params) -> None:
        watched = faults.watch(self.device, torch._C._cuda_getCurrentRawStream(self.device.index))
        params.report = watched.report
        steps, pieces = self._pieces
        kernel = KERNELS.instances[way]
        # Rows in slots take all of the GPU, and those that cross the link a quarter.
        slots = self.clock.plan.capacity > 0
        blocks = resident_blocks(KERNELS, kernel, self.device, _THREADS) if slots else 2 * devices.quarter(self.device)
        grid = min(blocks, -(-params.batch.count * steps // pieces))
        launch(KERNELS, kernel, self.device, grid, _THREADS, params)
        faults.defer(self.device, watched)
