"""Gathers that the CPU helps with: its threads pack rows into pinned memory and the copy engine takes them, while the GPU reads
others where they lie."""

from __future__ import annotations

import functools
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch

from .. import _core
from ..runtime import devices
from ..runtime.thresholds import HELP_COPIED, HELP_LEAST, HELP_PART, HELP_PARTS, HELP_ROWS, HELP_SHARE, HELP_STAGED
from . import faults
from .allocator import Buffer
from .gather import copy_rows, index_bytes, row_copy
from .help_plan import WALK_BYTES, Help, HelpPlan
from .plan import visiting_order

_PARTS = 16  # of a batch at least, so that the last one, which nothing hides, is short
_NEVER, _ALWAYS = -1, (1 << 31) - 1  # blocks of rows that the GPU does not read, and of those that it reads in any case


@dataclass(frozen=True)
class HelpedTable:
    """Rows in host memory, at one address for the CPU and for GPUs; the first ``managed`` rows are mapped in large pages.
    ``memory`` is kept while they are read."""

    address: int
    rows: int
    row_bytes: int
    managed: int = 0
    memory: Buffer | None = None


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
    """Parts of pinned memory of one GPU, filled by turns, the stream that takes them, and a thread for gathers that nobody
    waits for. One gather at a time has it."""

    def __init__(self, device: torch.device) -> None:
        self.lock = threading.Lock()
        self.stream = torch.cuda.Stream(device)
        with torch.inference_mode(False):
            self.memory = torch.empty(HELP_PARTS * HELP_PART, dtype=torch.uint8, pin_memory=True)
        self._events = [self.stream.record_event() for _ in range(HELP_PARTS)]  # behind the last copy of each part
        self.copied = [event.cuda_event for event in self._events]
        self.worker = ThreadPoolExecutor(1, "hinterland rows")


_making = threading.Lock()


@functools.cache
def _made(index: int) -> _Ring:
    return _Ring(torch.device("cuda", index))


def _ring(device: torch.device) -> _Ring:
    with _making:
        return _made(device.index)


def gather(
    table: HelpedTable,
    index: torch.Tensor,
    out: torch.Tensor,
    plan: HelpPlan,
    help: Help | None,
    max_blocks: int | None,
    check: str,
) -> None:
    """Copies the rows at ``index`` to ``out``, both contiguous and on one GPU, as ``plan`` says.

    Args:
        help: learns how fast the CPU was, and lets the GPU take over where that is slower; None where the way is a caller's.
        max_blocks, check: as of ``copy_rows``. Rows are queued in any case when this returns.

    Raises:
        IndexOutOfRange: as ``copy_rows``; of memory that no GPU sees also with ``check="async"``.
    """
    device, pageable = index.device, plan.mapping == "pageable"
    # Of no rows: looks at the options, and raises what earlier calls left.
    copy_rows(table.address, table.rows, table.row_bytes, out, index.view(-1)[:0], max_blocks=max_blocks, check=check)
    with torch.cuda.device(device):
        bad = _Gather(table, index.view(-1), out, plan, help, max_blocks).run()
    if bad and pageable:
        raise _bad_number(table, index.view(-1))
    if bad:  # the GPU finds the bad numbers again, and tells of them as it always does
        copy_rows(table.address, table.rows, table.row_bytes, out, index, max_blocks=max_blocks, check=check)
    elif check == "sync":
        devices.current_stream(device).sync()
        faults.raise_deferred(device.index)


def begin(
    table: HelpedTable, index: torch.Tensor, out: torch.Tensor, plan: HelpPlan, help: Help, max_blocks: int | None
) -> Future[None]:
    """A gather to ``out`` that a thread beside the caller's leads, without the interpreter's lock but for moments.

    Args:
        index: int64 ``[n]`` on a GPU, none negative.

    Returns:
        What is done once the CPU's rows are in place. Those of the GPU are there when the current stream comes to them.
    """
    with torch.cuda.device(index.device):
        work = _Gather(table, index, out, plan, help, max_blocks, ahead=True)
    return _ring(index.device).worker.submit(work.lead)


def _bad_number(table: HelpedTable, index: torch.Tensor) -> Exception:
    bad = ((index < -table.rows) | (index >= table.rows)).nonzero().view(-1)
    return faults.out_of_range(int(bad[0]), int(index[bad[0]]), table.rows, len(bad))


class _Gather:
    """One of them, whose first launches are made with it. The CPU takes rows from the beginning of the order on, the GPU from
    its end."""

    def __init__(
        self,
        table: HelpedTable,
        index: torch.Tensor,
        out: torch.Tensor,
        plan: HelpPlan,
        help: Help | None,
        max_blocks: int | None,
        ahead: bool = False,
    ) -> None:
        self.table, self.index, self.out, self.plan, self.help = table, index, out, plan, help
        self.max_blocks, self.ahead, self.end = max_blocks, ahead, index.numel()
        self.caller = devices.torch_stream(index.device)
        self.order: torch.Tensor | None = None  # positions; None where rows are taken as they come
        self.read, self.since, self.done = 0, 0.0, self.caller.record_event()  # what the GPU got last, when, when it is done
        share, row_bytes = 0, table.row_bytes
        if plan.by == "both" and not ahead:
            self.order, share = split(index, table, plan)
            share = int(HELP_SHARE * share)
        elif ahead or index.numel() >= HELP_ROWS:  # cores walk page tables, too, and rows that are neighbours share entries
            order = visiting_order(index, row_bytes, table.rows * row_bytes)
            self.order = order.flip(0) if plan.by == "both" else order  # managed rows, which are the first, come last
            share = int(plan.share * self.end) if plan.by == "both" else 0
        self.packed = self.end - share
        self.part = max(1, min(HELP_PART, max(HELP_LEAST, self.packed * row_bytes // _PARTS)) // row_bytes)
        self.staged = self.packed if self.order is None else min(self.packed, max(1, HELP_STAGED // row_bytes))
        if self.order is not None:
            self.staging = torch.empty(self.staged * row_bytes, dtype=torch.uint8, device=index.device)
        # What had this memory before is done when the numbers are there.
        self.numbers, self.arrived = self._numbers(self.packed, (HELP_PARTS - HELP_COPIED) * self.part)
        self._give_gpu(share)

    def lead(self) -> None:
        """Has the CPU's rows in place, from a thread that nobody waits for."""
        ring = _ring(self.index.device)
        try:
            with torch.cuda.device(self.index.device):
                devices.give_context(self.index.device)
                if self.run():
                    raise _bad_number(self.table, self.index)
        finally:
            ring.stream.synchronize()  # what this gather holds is read until then

    def run(self) -> bool:
        """Has the CPU's rows packed, while parts that are packed are copied; whether there were bad numbers."""
        ring, bad = _ring(self.index.device), False
        stream = self.caller if self.order is None else ring.stream
        try:
            with ring.lock:
                begin = 0
                while begin < self.end:
                    stop = min(begin + self.staged, self.end)
                    bad |= self._send(ring, stream, begin, stop)
                    if self.order is not None:
                        self._place(begin, min(stop, self.end), stream)
                    begin = stop
        finally:
            if not self.ahead and stream is ring.stream:
                self.caller.wait_stream(stream)
        return bad

    def _send(self, ring: _Ring, stream: torch.cuda.Stream, begin: int, stop: int) -> bool:
        """Packs the rows of turns [begin, stop), of which the GPU may take some over, and copies them in order."""
        numbers, row_bytes = self.numbers[begin:stop], self.table.row_bytes
        copy = row_copy(
            self.table.address, self.table.rows, row_bytes, ring.memory.data_ptr(), numbers, index_bytes(numbers), False
        )
        to = self.out.data_ptr() + begin * row_bytes if self.order is None else self.staging.data_ptr()
        balances = self.help is not None and not self.ahead

        def take_over(begun: int, packs: float) -> int:
            self._balance(begin + begun, packs)
            return min(self.end, stop) - begin

        reader = self.done.cuda_event if self.plan.by == "both" and not self.ahead else 0
        least = self.plan.reads if self.plan.by == "cpu" and balances else 0.0
        parts = HELP_PARTS, HELP_PART, self.part, HELP_PARTS - HELP_COPIED
        some, all = (event.cuda_event for event in self.arrived)
        copies = to, stream.cuda_stream, ring.copied, HELP_COPIED, some, all, reader, least
        fault, packs = _core.send_rows(copy.address, stop - begin, self.plan.threads, parts, copies, take_over)
        if self.help is not None:
            self.help.learn(self.plan, packs)
        return fault is not None

    def _numbers(self, count: int, first: int) -> tuple[torch.Tensor, list[torch.cuda.Event]]:
        """The first ``count`` row numbers of the order in pinned memory, and events: ``first`` of them are there, all are."""
        given = self.index if self.order is None else self.index[self.order[:count]]
        numbers = torch.empty(count, dtype=given.dtype, pin_memory=True)
        arrived = []
        for begin, stop in ((0, first), (first, count)):
            numbers[begin:stop].copy_(given[begin:stop], non_blocking=True)
            arrived.append(self.caller.record_event())
        return numbers, arrived

    def _place(self, begin: int, stop: int, stream: torch.cuda.Stream) -> None:
        """Packed rows go to where their positions say."""
        assert self.order is not None
        places, rows, row_bytes = self.order[begin:stop], self.index.numel(), self.table.row_bytes
        packed = self.staging[: (stop - begin) * row_bytes]
        with torch.cuda.stream(stream):
            copy_rows(self.out.data_ptr(), rows, row_bytes, packed, places, into_table=True, check="async")

    def _balance(self, begun: int, packs: float) -> None:
        """Gives the GPU more of what the CPU has not begun, where it has nothing left to do or all where it is faster.

        Args:
            begun: the first row that the CPU has not.
            packs: rows a second of the CPU so far.
        """
        left = self.end - begun
        if self.plan.by == "both":
            reads = self.read / max(time.perf_counter() - self.since, 1e-9)
            left = int(HELP_SHARE * left * reads / (reads + packs))
        self._give_gpu(left)

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
