"""Gathers of a file's rows in CUDA graphs: row numbers go to pinned memory, the CPU reads the file there while the stream
waits, and the rows go to the GPU."""

from __future__ import annotations

import torch

from .. import _core
from ..memory import faults
from ..runtime.capture import beside
from ..runtime.errors import StorageError
from ..runtime.launch import call_host


class CapturedGathers:
    """Those of one table of ``rows`` rows, as long as it is open."""

    def __init__(self, table: _core.StoredTable, rows: int) -> None:
        self._table, self._rows = table, rows
        self._tasks: list[tuple[_core.GatherTask, bool, tuple[torch.Tensor, ...]]] = []

    def add(self, index: torch.Tensor, out: torch.Tensor, from_end: bool, asked: torch.Tensor | None) -> None:
        """Adds one to the graph that is captured; arguments as of ``Placement.captured``."""
        with beside(index.device):  # what the graph has addresses of is ours, and not its
            numbers = torch.empty(index.numel(), dtype=torch.int64, pin_memory=True)
            rows = torch.empty(out.shape, dtype=out.dtype, pin_memory=True)
        task = _core.GatherTask(self._table, numbers.data_ptr(), numbers.numel(), rows.data_ptr(), from_end)
        given = index.view(-1).long().clamp(min=_core.NOT_ASKED + 1)
        numbers.copy_(given if asked is None else given.masked_fill_(~asked, _core.NOT_ASKED), non_blocking=True)
        call_host(task.function, task.address)
        out.copy_(rows, non_blocking=True)
        self._tasks.append((task, from_end, (numbers, rows)))

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def raise_deferred(self) -> None:
        """Raises what they have met so far."""
        for task, from_end, _ in self._tasks:
            error, at, value, run = task.take_error()
            if error:
                met = StorageError(error) if at < 0 else faults.out_of_range(at, value, self._rows, 1, from_end)
                raise faults.located(met, faults.replay(run))
