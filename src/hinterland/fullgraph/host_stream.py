"""Blocks of rows on their way between host memory and a GPU, beside what the GPU computes, and the host memory they lie in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..memory import UnifiedTensor

_AHEAD = 2  # blocks each way that are under way


class Lane:
    """The link of one device: a stream each way."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._up, self._down = (torch.cuda.Stream(device) if device.type == "cuda" else None for _ in range(2))
        self._leaving: deque[tuple[Tensor, Any]] = deque()
        self._rings: set[int] = set()  # addresses of what blocks lie in

    def fence(self) -> None:
        """What is queued from now on, on either stream and the current one, comes after all that is queued on any of them."""
        if self._up is None or self._down is None:
            return
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self._up)
        current.wait_stream(self._down)
        self._up.wait_stream(current)
        self._down.wait_stream(current)
        self._leaving.clear()

    def blocks(self, ranges: Sequence[slice], sources: Sequence[Tensor]) -> Iterator[tuple[slice, list[Tensor]]]:
        """The rows of ``sources``, block by block, on the device; they hold until the next block is asked for."""
        away = [i for i, one in enumerate(sources) if one.device != self.device]
        if self._up is None or not away:
            for rows in ranges:
                yield rows, [one[rows] for one in sources]
            return
        longest = max(rows.stop - rows.start for rows in ranges)
        current, up = torch.cuda.current_stream(self.device), self._up
        shapes = [(longest, sources[i].shape[1]) for i in away]
        ring = [
            [torch.empty(shape, dtype=sources[i].dtype, device=self.device) for shape, i in zip(shapes, away, strict=True)]
            for _ in range(_AHEAD)
        ]
        addresses = {one.untyped_storage().data_ptr() for buffers in ring for one in buffers}
        self._rings |= addresses
        up.wait_stream(current)
        used: list[Any] = [None] * _AHEAD

        def load(k: int) -> Any:
            rows = ranges[k]
            with torch.cuda.stream(up):
                if used[k % _AHEAD] is not None:
                    up.wait_event(used[k % _AHEAD])
                for i, to in zip(away, ring[k % _AHEAD], strict=True):
                    to[: rows.stop - rows.start].copy_(sources[i][rows], non_blocking=True)
                return up.record_event()

        try:
            ready = load(0)
            for k, rows in enumerate(ranges):
                current.wait_event(ready)
                if k + 1 < len(ranges):
                    ready = load(k + 1)
                loaded = dict(zip(away, ring[k % _AHEAD], strict=True))
                here = rows.stop - rows.start
                yield rows, [loaded[i][:here] if i in loaded else one[rows] for i, one in enumerate(sources)]
                used[k % _AHEAD] = current.record_event()
        finally:
            self._rings -= addresses
            current.wait_stream(up)  # before the ring's memory is used for something else

    def write(self, to: Tensor, rows: Tensor) -> None:
        """Writes a block's rows; the device goes on meanwhile."""
        if self._down is None or to.device == self.device:
            to.copy_(rows)
            return
        if rows.untyped_storage().data_ptr() in self._rings:
            rows = rows.clone()  # the next block but one comes there
        current = torch.cuda.current_stream(self.device)
        self._down.wait_event(current.record_event())
        with torch.cuda.stream(self._down):
            to.copy_(rows, non_blocking=True)
            self._leaving.append((rows, self._down.record_event()))
        if len(self._leaving) > _AHEAD:
            current.wait_event(self._leaving.popleft()[1])  # and then lets go of the rows


class HostRoom:
    """Host memory for rows between passes, kept from one step to the next: to map it takes longer than to fill it."""

    def __init__(self) -> None:
        self._free: dict[tuple[Any, ...], list[HostArray]] = {}

    def lease(self, rows: int, width: int, dtype: torch.dtype, device: torch.device) -> HostArray:
        """Rows of any content, for a device."""
        waiting = self._free.get((rows, width, dtype, device))
        return waiting.pop() if waiting else HostArray(rows, width, dtype, device)

    def give(self, array: HostArray) -> None:
        """Takes rows back."""
        self._free.setdefault(array.key, []).append(array)


class HostArray:
    """Rows in host memory.

    Attributes:
        rows: a tensor of the CPU; with a GPU it is page-locked, so that copies run beside other work.
        seen: the same rows as the device's kernels see them: rows of which only some columns are written go through it.
    """

    def __init__(self, rows: int, width: int, dtype: torch.dtype, device: torch.device) -> None:
        self.key = (rows, width, dtype, device)
        table = UnifiedTensor.empty((rows, width), dtype, "registered" if device.type == "cuda" else "heap")
        self.rows: Tensor = table.to(torch.device("cpu"))
        self.seen: Tensor = table.to(device)
