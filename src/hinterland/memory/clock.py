"""Slots for rows in GPU memory, given out by CLOCK: launches memory/clock.cu, or runs its loop on the CPU."""

from __future__ import annotations

import bisect
from dataclasses import dataclass

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.budget import BudgetItem, Explained, share
from ..runtime.errors import ConfigError, OutOfMemory
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.params import Params, struct
from ..runtime.repr import Repr
from ..runtime.thresholds import LOG_PLACES
from ..runtime.units import format_bytes
from . import faults
from .allocator import allocate, padded
from .gather import _IN_LINE, _THREADS, _UNITS, RowCopy, index_bytes, pieces_per_block, row_cut
from .plan import cut_rows

_ADMIT = {lru: f"admit_kernel<{str(lru).lower()}>" for lru in (False, True)}
_FILL = {
    (unit, chunks): f"fill_slots_kernel<{unit}, {str(chunks).lower()}>"
    for chunks in (False, True)
    for unit in (_UNITS[:-1] if chunks else _UNITS)
}
_Ring, _AdmitParams, _FillParams = struct("memory::Clock"), struct("memory::AdmitParams"), struct("memory::FillParams")
_RequestedRows = struct("memory::RequestedRows")
KERNELS = KernelFile("memory/clock.cu", (*_ADMIT.values(), *_FILL.values()), separate_module=True)
_BLOCK = _core.ADMIT_THREADS
_CONTROL_BYTES = _core.CLOCK_HAND_AT  # of the team's control block, before the hand
_STATE_BYTES = padded(_core.CLOCK_STATE_BYTES)
_MOST = _core.CLOCK_MOST  # positions of a batch that may claim a slot, and slots
_IN_WORD = _core.CLOCK_SLOTS_IN_WORD


@dataclass(frozen=True, repr=False)
class SlotPlan(Explained, Repr):
    """How many slots a cache has for the rows of a table, and what that takes of GPU memory.

    Attributes:
        rows, row_bytes: of the table.
        capacity: slots.
        budget: bytes that they were planned in, if that is known.
    """

    rows: int
    row_bytes: int
    capacity: int
    budget: int | None = None

    @property
    def map_offset(self) -> int:
        """Bytes before the id map, 4 for each row of the table; the slots' rows come first."""
        return padded(self.capacity * self.row_bytes)

    @property
    def rows_offset(self) -> int:
        """Bytes before the numbers of the rows that the slots have, 8 for each."""
        return self.map_offset + padded(4 * self.rows)

    @property
    def bits_offset(self) -> int:
        """Bytes before the two bits of each slot."""
        return self.rows_offset + padded(8 * self.capacity)

    @property
    def words(self) -> int:
        """How many words hold one bit of each slot; there are two such arrays."""
        return -(-self.capacity // _IN_WORD)

    @property
    def state_offset(self) -> int:
        """Bytes before the hand."""
        return self.bits_offset + padded(8 * self.words)

    @property
    def held_bytes(self) -> int:
        """All bytes."""
        return self.state_offset + _STATE_BYTES if self.capacity else 0

    def about(self) -> str:
        """The table."""
        return f"{self.rows:,} rows of {self.row_bytes} B, {format_bytes(self.rows * self.row_bytes)} in all"

    def parts(self) -> list[BudgetItem]:
        """The id map, the slots' state, and the slots."""
        ids, rows = 4 * self.rows if self.capacity else 0, self.capacity * self.row_bytes
        return [
            BudgetItem("id map", "4 B a row", ids),
            BudgetItem("state", "whose each slot is", self.held_bytes - ids - rows),
            BudgetItem("slots", f"{self.capacity:,} rows {share(self.capacity, self.rows)}", rows),
        ]


def plan_slots(rows: int, row_bytes: int, budget: int) -> SlotPlan:
    """As many slots as ``budget`` bytes hold; no more than there are rows.

    Raises:
        ConfigError: there is something to keep, and the budget does not hold one row.
    """
    rows, row_bytes = arguments.whole_number("rows", rows, 0), arguments.whole_number("row_bytes", row_bytes, 0)
    budget = arguments.whole_number("budget", budget, 0)
    if rows == 0 or row_bytes == 0:
        return SlotPlan(rows, row_bytes, 0, budget)
    most = min(rows, _MOST, budget // row_bytes)
    capacity = bisect.bisect_right(range(1, most + 1), budget, key=lambda n: SlotPlan(rows, row_bytes, n).held_bytes)
    if capacity == 0:
        least = SlotPlan(rows, row_bytes, 1).held_bytes
        raise ConfigError(
            f"a budget of {format_bytes(budget)} holds no row: one row of {row_bytes} B, the id map of {rows:,} rows and the "
            f"state take {least:,} bytes; give that or more, or read the table without a cache"
        )
    return SlotPlan(rows, row_bytes, capacity, budget)


class Clock:
    """The slots of one device: which row each has, and the rows (include/hinterland/memory/clock.hpp).

    Calls are made one after another: on a GPU in the order of one stream.

    Args:
        lru: gives slots to new rows by when the old ones were last asked for, in place of CLOCK.
        written: notes which slots hold rows that are ahead of their table.
    """

    def __init__(self, plan: SlotPlan, device: torch.device, lru: bool = False, written: bool = False) -> None:
        self.plan, self.device = plan, device
        self.log = torch.empty(_log_words(plan.capacity) * lru, dtype=torch.int32, device=device)
        self.written = torch.empty(plan.words * written, dtype=torch.int32, device=device)
        self.block = _block(plan.held_bytes, device)
        self.slots = self.block[plan.map_offset :][: 4 * plan.rows].view(torch.int32)  # [rows], negative without a slot
        self.row_of = self.block[plan.rows_offset :][: 8 * plan.capacity].view(torch.int64)  # [capacity], -1 for none
        self._bits = self.block[plan.bits_offset : plan.state_offset]
        self._state = self.block[plan.state_offset :]
        used, hand = self._bits.data_ptr(), self._state.data_ptr() + _CONTROL_BYTES
        ring = self.ring = _Ring(
            rows=plan.rows, capacity=plan.capacity, slots=self.slots.data_ptr(), row_of=self.row_of.data_ptr()
        )
        ring.used, ring.marked, ring.hand = used, used + 4 * plan.words, hand
        ring.written = self.written.data_ptr() if self.written.numel() else 0
        if self.log.numel():
            slot_at, place_of, *bits = self._log_parts()
            ring.used, ring.marked, ring.log.before = (part.data_ptr() for part in bits)
            ring.log.places, ring.log.slot_at, ring.log.place_of = len(slot_at), slot_at.data_ptr(), place_of.data_ptr()
        self._lap = plan.capacity if lru else plan.words
        copy = RowCopy(packed=self.block.data_ptr(), indices=ring.row_of, index_bytes=8, row_bytes=plan.row_bytes)
        copy.placement.rows = plan.rows
        # What is the same for every batch; they are never changed.
        self._admit = _AdmitParams(clock=ring, control=self._state.data_ptr())
        self._fill = _FillParams(copy=copy, hand=hand)
        self.clear()

    def clear(self) -> None:
        """Forgets all rows."""
        self.slots.fill_(-1)
        self.row_of.fill_(-1)
        self._bits.zero_()
        self._state.zero_()
        self.written.zero_()
        if not self.log.numel():
            return
        slot_at, place_of, used, marked, _ = self._log_parts()
        count = self.plan.capacity
        torch.arange(count, out=place_of)
        slot_at[:count] = place_of
        whole, rest = divmod(count, _IN_WORD)
        used.zero_(), marked.zero_()
        used[:whole], used[whole : whole + 1] = -1, (1 << rest) - 1
        self._state[_CONTROL_BYTES:].view(torch.int64)[0] = count

    def _log_parts(self) -> tuple[torch.Tensor, ...]:
        """Of LRU: the slots at places, the places of slots, and for words of places two of bits and one of numbers."""
        places = _log_places(self.plan.capacity)
        return self.log.split([places, self.plan.capacity, *3 * [-(-places // _IN_WORD)]])

    def holds(self, rows: torch.Tensor) -> torch.Tensor:
        """Which of ``rows`` (int64, from 0 on) have slots: bool, of the same shape."""
        return self.slots[rows] >= 0 if self.plan.capacity else torch.zeros_like(rows, dtype=torch.bool)

    @property
    def takes_requests(self) -> bool:
        """Whether kernels may ask for rows one by one (:meth:`requested`)."""
        return self.plan.capacity > 0 and self.plan.rows <= _MOST and not self.log.numel()

    def requested(self, table: int) -> Params:
        """RequestedRows of the table at this address, for kernels: :meth:`admit` gives slots afterwards, of no index."""
        asked = _RequestedRows(slots=self.ring.slots, marked=self.ring.marked, local=self.block.data_ptr())
        asked.host.base, asked.host.rows = table, self.plan.rows
        return asked

    def admit(self, index: torch.Tensor | None, table: int = 0, max_blocks: int | None = None) -> None:
        """Gives slots to the rows at ``index`` and copies them there. On a GPU it returns at once.

        Args:
            index: contiguous int32 or int64 on this device; row numbers outside the table are left out. None: kernels have
                asked for rows (:meth:`requested`), which are a batch in the order of their numbers.
            table: address of the rows; unused where the plan has rows of 0 bytes.
            max_blocks: multiprocessors that a GPU may use; by default all, and to copy every fourth.
        """
        plan = self.plan
        count = plan.rows if index is None else min(index.numel(), _MOST)
        if count == 0 or plan.capacity == 0:
            return
        admit, fill = self.batch(index, count), _FillParams.from_buffer_copy(self._fill)
        fill.copy.placement.base, fill.copy.visit = table, admit.batch.filled
        if self.device.type == "cpu":
            try:
                self.give_slots(admit)
                if plan.row_bytes:
                    _core.fill_slots(fill.address)
            except BaseException:  # Ctrl-C between two steps
                self.clear()
                raise
            return
        self.give_slots(admit, max_blocks)
        if plan.row_bytes:
            self._fill_on_gpu(fill, min(count, plan.capacity), max_blocks)

    def batch(self, index: torch.Tensor | None, count: int) -> Params:
        """What admits the first ``count`` row numbers of ``index``, or of all, with its scratch memory."""
        room = min(count, self.plan.capacity)
        lists = 3 + (self.log.numel() > 0)
        scratch = torch.empty(lists * room + _core.CLOCK_SUMS, dtype=torch.int64, device=self.device)
        admit = _AdmitParams.from_buffer_copy(self._admit)
        admit.keeps = scratch
        batch, parts = admit.batch, scratch.data_ptr()
        batch.count = count
        if index is not None:
            batch.indices, batch.index_bytes = index.data_ptr(), index_bytes(index)
        batch.filled, batch.claimed, batch.left, batch.moved = (parts + 8 * room * i for i in range(4))
        batch.sums = parts + 8 * room * lists
        return admit

    def give_slots(self, admit: Params, max_blocks: int | None = None) -> None:
        """Has rows admitted; copies none."""
        if self.device.type == "cpu":
            _core.admit_rows(admit.address)
            return
        self._state[:_CONTROL_BYTES].zero_()
        blocks = 2 * (devices.sm_count(self.device) if max_blocks is None else max(1, max_blocks))
        needed = 1 + max(admit.batch.count, self._lap) // _BLOCK
        kernel = _ADMIT[self.log.numel() > 0]
        grid = min(resident_blocks(KERNELS, kernel, self.device, _BLOCK), blocks, needed)
        launch(KERNELS, kernel, self.device, grid, _BLOCK, admit, cooperative=True)

    def _fill_on_gpu(self, fill: Params, room: int, max_blocks: int | None) -> None:
        """Copies the rows of the filled slots, at most ``room``, over the link."""
        device, copy = self.device, fill.copy
        cut = cut_rows(copy.row_bytes, copy.placement.base & _IN_LINE, copy.packed & _IN_LINE)
        copy.cut = row_cut(cut)
        # No row number here is bad.
        copy.report = faults.watch(device, torch._C._cuda_getCurrentRawStream(device.index)).report
        blocks = devices.quarter(device) if max_blocks is None else max(1, max_blocks)
        grid = min(blocks, -(-room * cut.steps // pieces_per_block(cut)))
        launch(KERNELS, _FILL[cut.unit, cut.chunks], device, grid, _THREADS, fill)


def _log_places(slots: int) -> int:
    return min(LOG_PLACES * slots, _MOST)


def _log_words(slots: int) -> int:
    return (places := _log_places(slots)) + slots + 3 * -(-places // _IN_WORD)


def _block(nbytes: int, device: torch.device) -> torch.Tensor:
    if device.type == "cpu":
        return allocate(nbytes, "pageable").tensor(torch.uint8, torch.Size((nbytes,)))
    free = devices.free_bytes(device)
    if nbytes > free:
        raise OutOfMemory(
            f"the cache takes {format_bytes(nbytes)} on {device}, but {format_bytes(free)} is free; give it a smaller budget"
        )
    try:
        return torch.empty(nbytes, dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError as error:
        asked = f"{format_bytes(nbytes)} asked for on {device}"
        raise OutOfMemory(f"{asked}: {error}; give the cache a smaller budget") from error
