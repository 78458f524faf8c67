"""Gathers that the CPU helps with: its threads pack rows into pinned memory and the copy engine takes them, while the GPU reads
others where they lie."""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime import devices
from ..runtime.thresholds import HELP_COPIED, HELP_LEAST, HELP_PART, HELP_PARTS, HELP_PAUSE, HELP_ROWS, HELP_SHARE
from . import faults
from .cuda import checked
from .gather import copy_rows, index_bytes, row_copy
from .help_plan import WALK_BYTES, HelpPlan
from .plan import visiting_order

_PARTS = 16  # of a batch at least, so that the last one, which nothing hides, is short
_NEVER, _ALWAYS = -1, (1 << 31) - 1  # blocks of rows that the GPU does not read, and of those that it reads in any case
_resumes = 0.0  # when help is planned again


@dataclass(frozen=True)
class HelpedTable:
    """Rows in host memory, at one address for the CPU and for GPUs; the first ``managed`` rows are mapped in large pages."""

    address: int
    rows: int
    row_bytes: int
    managed: int = 0


def is_paused() -> bool:
    """Whether the CPU was slower than the GPU a moment ago: others use its cores."""
    return time.monotonic() < _resumes


def split(index: torch.Tensor, table: HelpedTable, plan: HelpPlan) -> tuple[torch.Tensor, int]:
    """Deals the rows at ``index`` (``[n]``) out between the CPU and the GPU, so that both are expected to end together.

    Returns:
        The positions of ``index``, int64 ``[n]``, and how many of them, from the end on, the GPU takes. First come row numbers
        that the table does not have, then rows that lie alone in their 64 KiB, then those with others of the batch beside them,
        which one walk of the GPU's page tables finds, and last managed rows.
    """
    count = index.numel()
    rows = torch.where(index < 0, index + table.rows, index).long()
    block = (rows * table.row_bytes // WALK_BYTES).to(torch.int32)
    block = torch.where(rows < table.managed, _ALWAYS, block)
    block = torch.where((rows < 0) | (rows >= table.rows), _NEVER, block)
    block, order = torch.sort(block)
    crowd = torch.searchsorted(block, block, right=True) - torch.searchsorted(block, block)
    crowd = torch.where(block == _NEVER, 0, torch.where(block == _ALWAYS, count + 1, crowd))
    crowd, again = torch.sort(crowd, stable=True)
    walk = torch.where(crowd > count, 0.0, 1 / (crowd * plan.walks)).clamp(min=plan.payload)
    reading = walk.flip(0).cumsum(0)  # seconds of the GPU with the last 1, 2, ... rows, and of the CPU with the others
    packing = torch.arange(count - 1, -1, -1, device=index.device) / plan.packs
    return order[again], int(((reading <= packing) | (crowd.flip(0) > count)).sum())


class _Ring:
    """Parts of pinned memory of one GPU, filled by turns, and the stream that takes them. One gather at a time has it."""

    def __init__(self, device: torch.device) -> None:
        self.lock = threading.Lock()
        self.stream = torch.cuda.Stream(device)
        with torch.inference_mode(False):
            self.memory = torch.empty(HELP_PARTS * HELP_PART, dtype=torch.uint8, pin_memory=True)
        self._copied = [torch.cuda.Event() for _ in range(HELP_PARTS)]
        self._sent = 0

    def empty(self) -> None:
        """Returns once the parts of earlier gathers are on the GPU."""
        for event in self._copied:
            event.synchronize()

    def send(self, part: int, to: int, nbytes: int, stream: torch.cuda.Stream) -> None:
        """Queues the copy of the part at an address, and returns once the part ``HELP_COPIED`` before it is on the GPU."""
        from cuda.bindings import driver

        checked(driver.cuMemcpyHtoDAsync(to, part, nbytes, stream.cuda_stream), "copy rows to a GPU")
        self._copied[self._sent % HELP_PARTS].record(stream)
        self._sent += 1
        self._copied[(self._sent - 1 - HELP_COPIED) % HELP_PARTS].synchronize()


_making = threading.Lock()


@functools.cache
def _made(index: int) -> _Ring:
    return _Ring(torch.device("cuda", index))


def _ring(device: torch.device) -> _Ring:
    with _making:
        return _made(device.index)


def gather(
    table: HelpedTable, index: torch.Tensor, out: torch.Tensor, plan: HelpPlan, forced: bool, max_blocks: int | None, check: str
) -> None:
    """Copies the rows at ``index`` to ``out``, both contiguous and on one GPU, as ``plan`` says.

    Args:
        forced: whether the plan's way is a caller's; else the GPU takes over where the CPU is slower than it.
        max_blocks, check: as of ``copy_rows``. Rows are queued in any case when this returns.

    Raises:
        IndexOutOfRange: as ``copy_rows``; of memory that no GPU sees also with ``check="async"``.
    """
    device = index.device
    # Of no rows: looks at the options, and raises what earlier calls left.
    copy_rows(table.address, table.rows, table.row_bytes, out, index.view(-1)[:0], max_blocks=max_blocks, check=check)
    with torch.cuda.device(device):
        ring = _ring(device)
        with ring.lock:
            fault = _Gather(table, index.view(-1), out, plan, forced, max_blocks).run(ring)
    if fault is not None and plan.mapping == "pageable":
        raise faults.out_of_range(*fault)
    if fault is not None:  # the GPU finds the bad numbers again, and tells of them as it always does
        copy_rows(table.address, table.rows, table.row_bytes, out, index, max_blocks=max_blocks, check=check)
    elif check == "sync":
        devices.current_stream(device).sync()
        faults.raise_deferred(device.index)


class _Gather:
    """One of them. The CPU takes rows from the beginning of the order on, the GPU from its end."""

    def __init__(
        self, table: HelpedTable, index: torch.Tensor, out: torch.Tensor, plan: HelpPlan, forced: bool, max_blocks: int | None
    ) -> None:
        self.table, self.index, self.out, self.plan, self.max_blocks = table, index, out, plan, max_blocks
        self.forced, self.end = forced, index.numel()
        self.order: torch.Tensor | None = None  # positions; None where rows are taken as they come
        self.read, self.since, self.done = 0, 0.0, torch.cuda.Event()  # what the GPU was given last, when, and when it is done

    def run(self, ring: _Ring) -> Any:
        """Queues all; what the CPU found wrong with row numbers, if anything."""
        caller, share = devices.torch_stream(self.index.device), 0
        if self.plan.by == "both":
            self.order, share = split(self.index, self.table, self.plan)
        elif self.index.numel() >= HELP_ROWS:  # cores walk page tables, too, and rows that are neighbours share entries
            self.order = visiting_order(self.index, self.table.row_bytes, self.table.rows * self.table.row_bytes)
        else:
            return self._pack(ring, caller, 0)
        try:
            return self._pack(ring, ring.stream, int(HELP_SHARE * share))
        finally:
            caller.wait_stream(ring.stream)

    def _pack(self, ring: _Ring, stream: torch.cuda.Stream, share: int) -> Any:
        """Gives the GPU its share, and has the others packed, while parts that are packed are copied."""
        row_bytes, count = self.table.row_bytes, self.end - share
        part = max(1, min(HELP_PART, max(HELP_LEAST, count * row_bytes // _PARTS)) // row_bytes)
        ahead = HELP_PARTS - HELP_COPIED
        numbers, arrived = self._numbers(count, ahead * part)
        copy = row_copy(
            self.table.address, self.table.rows, row_bytes, ring.memory.data_ptr(), numbers, index_bytes(numbers), False
        )
        staging = None if self.order is None else torch.empty(part * row_bytes, dtype=torch.uint8, device=self.index.device)
        stream.wait_stream(devices.torch_stream(self.index.device))
        self._give_gpu(share)
        ring.empty()
        arrived[0].synchronize()
        first = 0.0  # when that part was sent

        def send(packed: int, begin: int, stop: int, begun: int) -> int:
            nonlocal first
            to = self.out.data_ptr() + begin * row_bytes if staging is None else staging.data_ptr()
            ring.send(packed, to, (stop - begin) * row_bytes, stream)
            if staging is not None:
                self._place(staging, begin, stop, stream)
            if begin == 0:
                arrived[1].synchronize()
                first = time.perf_counter()
            elif begin >= HELP_COPIED * part:  # not before the rate is known
                self._balance(begun, begin / (time.perf_counter() - first))
            return self.end

        return _core.collect_rows(copy.address, self.end, self.plan.threads, (HELP_PARTS, HELP_PART, part, ahead), send)

    def _numbers(self, count: int, first: int) -> tuple[torch.Tensor, list[torch.cuda.Event]]:
        """The first ``count`` row numbers of the order in pinned memory, and events: ``first`` of them are there, all are."""
        given = self.index if self.order is None else self.index[self.order[:count]]
        numbers = torch.empty(count, dtype=given.dtype, pin_memory=True)
        arrived = []
        for begin, stop in ((0, first), (first, count)):
            numbers[begin:stop].copy_(given[begin:stop], non_blocking=True)
            arrived.append(torch.cuda.current_stream().record_event())
        return numbers, arrived

    def _place(self, staging: torch.Tensor, begin: int, stop: int, stream: torch.cuda.Stream) -> None:
        """Packed rows go to where their positions say."""
        assert self.order is not None
        places, rows, row_bytes = self.order[begin:stop], self.index.numel(), self.table.row_bytes
        packed = staging[: (stop - begin) * row_bytes]
        with torch.cuda.stream(stream):
            copy_rows(self.out.data_ptr(), rows, row_bytes, packed, places, into_table=True, check="async")

    def _balance(self, begun: int, packs: float) -> None:
        """Gives the GPU more of what the CPU has not begun, if it has nothing left to do.

        Args:
            begun: the first row that the CPU has not.
            packs: rows a second of the CPU so far.
        """
        global _resumes
        left = self.end - begun
        if self.plan.by == "cpu":
            if not self.forced and packs < self.plan.reads:
                _resumes = time.monotonic() + HELP_PAUSE
                self._give_gpu(left)
        elif left and self.done.query():
            reads = self.read / max(time.perf_counter() - self.since, 1e-9)
            self._give_gpu(int(HELP_SHARE * left * reads / (reads + packs)))

    def _give_gpu(self, count: int) -> None:
        """The last ``count`` rows of those that are left go to the GPU."""
        if count <= 0:
            return
        begin = self.end - count
        order = torch.arange(self.end, device=self.index.device) if self.order is None else self.order
        visit = order[begin : self.end]
        copy_rows(
            self.table.address,
            self.table.rows,
            self.table.row_bytes,
            self.out,
            self.index,
            visit=visit,
            max_blocks=self.max_blocks,
            check="async",
        )
        self.end, self.read, self.since = begin, count, time.perf_counter()
        self.done.record()
