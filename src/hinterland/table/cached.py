"""CachedTensor: a table in host memory, and in GPU memory those of its rows that were asked for lately."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

import torch

from ..memory.clock import Clock, SlotPlan
from ..memory.count import TierCount, count_rows
from ..memory.gather import Padding, Tiers
from ..memory.plan import sorts
from ..runtime.errors import ConfigError
from ..runtime.params import Params
from ..runtime.repr import table_of
from ..runtime.thresholds import LOAD_BLOCKS
from ..runtime.turns import Turns
from .host import HostTable
from .placement import Sort
from .row_arguments import Index, as_index
from .table import Table


class CachedTensor(Table):
    """The rows of a UnifiedTensor, with slots in one GPU's memory for those asked for lately. ``ut.cached(...)`` makes one.

    A gather on that GPU first gives slots to the rows that have none, in place of rows that were not asked for lately (CLOCK,
    include/hinterland/memory/clock.hpp), and then reads: rows with slots from GPU memory, and those for which no slot was left
    from the UnifiedTensor. Each new row crosses the link once, however often the batch names it. The same gathers one after
    another keep the same rows, on a GPU and on the CPU. Beside its result a gather takes 24 bytes a row number, and 24 KiB,
    until the GPU is done. Its ``stats`` are of the slots before: there a row without one counts each time that it is named, and
    comes once.

    A kernel of the user's own (:func:`hinterland.kernel`) is a gather of all rows that it reads, in the order of their numbers,
    whose slots are given when it ends. Of more than 2^31 - 2 rows it only finds those that have slots.

    Gathers on several streams, in CUDA graphs or by several threads take turns. Row numbers on the CPU are read from the
    UnifiedTensor, and change nothing. It is read only: write to the UnifiedTensor, and then ``clear()``.

    Attributes:
        host: the table in host memory.
        plan: how many slots there are, and what they take.
    """

    _AS_TENSOR = "cached.host.cpu() is a tensor of all rows"

    follows_reads = True

    def __init__(self, host: HostTable, plan: SlotPlan, device: torch.device) -> None:
        self.host, self.plan, self._device = host, plan, device
        super().__init__(host.shape, host.dtype)
        if host.cpu().requires_grad:
            raise ConfigError("gradients do not pass through a cached table, and this one requires them; use ut.tiered(...)")
        if device.type == "cuda":
            host.cuda(device)  # refuses memory that no GPU sees
        self._clock: Clock | None = Clock(plan, device)
        self._turns = Turns(device)

    @property
    def placement(self) -> str:
        """That of the table below."""
        return self.host.placement

    def gather_blocks(self, device: torch.device) -> int:
        """New rows come by loads."""
        return LOAD_BLOCKS

    @property
    def device(self) -> torch.device:
        """Where the slots are."""
        return self._device

    @property
    def held(self) -> dict[str, int]:
        """Bytes of GPU memory that it holds, the id map and all state included, by device."""
        return {} if self._clock is None else {str(self._device): self.plan.held_bytes}

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, slots=self.plan.capacity, device=str(self._device))

    def _read_padded(
        self, index: torch.Tensor, padding: Padding | None, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort
    ) -> None:
        with self._alone():
            self._admit(index, max_blocks)
            super()._read_padded(index, padding, out, max_blocks, check, sort)

    def admit(self, index: Index, max_blocks: int | None = None) -> None:
        """Does to the slots what ``gather`` does, and gives no rows: to begin with rows that are known to be hot.

        Row numbers outside the table are left out. On a GPU it returns at once.
        """
        index = as_index(index)
        with self._alone():
            self._admit(index, max_blocks)

    def requested_on(self, device: torch.device) -> Params | None:
        """As of any table: where the slots are, as far as there are any."""
        clock = self._open()
        return clock.requested(self.host.cpu().data_ptr()) if device == self._device and clock.takes_requests else None

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """As of any table: rows that a kernel read and that have no slots get some, by the same rule as those of a gather."""
        with self._alone():
            clock = self._open()
            try:
                yield
            except BaseException:  # who was asked for has no slot, and nobody would give it one
                clock.clear()
                raise
            clock.admit(None, self.host.cpu().data_ptr())

    def _count(self, rows: torch.Tensor) -> TierCount:
        with self._alone():
            here = rows.device == self._device
            table = self._source(rows) if here else self.host.cpu().data_ptr()
            return count_rows(table, self._rows, self._row_bytes, rows)

    def clear(self) -> None:
        """Forgets all rows in GPU memory: after rows of the UnifiedTensor were written."""
        with self._alone():
            self._open().clear()

    def require_writable(self) -> None:
        """Refuses: a cached table is read only."""
        raise ConfigError("a cached table is read only; write to the table below it, cached.host, and then call cached.clear()")

    def close(self) -> None:
        """Gives the GPU memory back; the UnifiedTensor stays."""
        with self._turns.take(None):
            self._clock = None

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            "rows of a cached table lie in the memory of one process's GPU, and are not copied from there; copy, save or send "
            "its UnifiedTensor, cached.host, and call cached() of that"
        )

    def _admit(self, index: torch.Tensor, max_blocks: int | None) -> None:
        if index.device == self._device:
            self._open().admit(index, self.host.cpu().data_ptr(), max_blocks)

    def _open(self) -> Clock:
        if self._clock is None:
            raise ConfigError("this cached table has been closed; make another with ut.cached(...)")
        return self._clock

    def _alone(self) -> AbstractContextManager[None]:
        return self._turns.take(None if self._clock is None else self._clock.block)

    def _source(self, index: torch.Tensor) -> int | Params:
        clock, plan = self._open(), self.plan
        if index.device != self._device and index.is_cuda:
            raise ConfigError(
                f"row numbers are on {index.device}, but the slots are on {self._device}; cache the table there too"
            )
        if index.device != self._device or plan.capacity == 0:
            return self.host._source(index)
        tiers = Tiers()
        host, slots = tiers.host, tiers.map
        host.base, host.rows = self.host.cpu().data_ptr(), plan.rows
        slots.slots, slots.slot_bytes = clock.slots.data_ptr(), clock.slots.element_size()
        tiers.local, tiers.local_rows, tiers.resident = clock.block.data_ptr(), plan.capacity, plan.capacity
        return tiers

    def _sorts(self, rows: int) -> bool:
        # At least the rows for which there are no slots come from the host.
        host = self.host
        return sorts(host.placement, max(0, rows - self.plan.capacity), self._row_bytes, host.nbytes, host.managed_bytes)

    def _require_separate(self, tensor: torch.Tensor, name: str) -> None:
        self.host._require_separate(tensor, name)
