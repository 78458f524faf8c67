"""Blocks of rows on their way between files, host memory and a GPU, beside what the GPU computes, and where they lie."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..table import StorageArray, UnifiedTensor
from .host_files import AHEAD, WritesBehind


class BlocksAhead:
    """Blocks of rows in files, which are read before they are asked for, into buffers by turns.

    Attributes:
        addresses: of the buffers.
    """

    def __init__(self, threads: ThreadPoolExecutor, ranges: Sequence[slice], stores: Sequence[RowStore], pinned: bool) -> None:
        self._threads, self._ranges, self._stores = threads, ranges, stores
        longest = max((rows.stop - rows.start for rows in ranges), default=0)
        self._buffers = [
            {
                i: torch.empty(longest, one.width, dtype=one.dtype, pin_memory=pinned)
                for i, one in enumerate(stores)
                if one.file is not None
            }
            for _ in range(AHEAD)
        ]
        self.addresses = {one.untyped_storage().data_ptr() for turn in self._buffers for one in turn.values()}
        self._coming: dict[int, dict[int, Future[Tensor]]] = {}
        for k in range(min(AHEAD, len(ranges))):
            self._begin(k, None)

    def _begin(self, k: int, copied: Any) -> None:
        rows = self._ranges[k]
        self._coming[k] = {
            i: self._threads.submit(_filled, self._stores[i], rows, buffer[: rows.stop - rows.start], copied)
            for i, buffer in self._buffers[k % AHEAD].items()
            if self._stores[i].lies_in_file(rows)
        }

    def values(self, k: int) -> list[Tensor]:
        """The k-th block of each store, where it is; of a file in host memory.

        Raises:
            StorageError: a file cannot be read.
        """
        coming = self._coming.pop(k)
        return [coming[i].result() if i in coming else one.read(self._ranges[k]) for i, one in enumerate(self._stores)]

    def used(self, k: int, copied: Any = None) -> None:
        """The k-th block is not needed any more, once the event ``copied`` is reached."""
        if k + AHEAD < len(self._ranges):
            self._begin(k + AHEAD, copied)

    def close(self) -> None:
        """Reads no more."""
        for one in (one for block in self._coming.values() for one in block.values()):
            one.cancel()


def _filled(store: RowStore, rows: slice, buffer: Tensor, copied: Any) -> Tensor:
    if copied is not None:
        copied.synchronize()
    return store.read_file(rows, buffer)


class Lane:
    """The link of one device, a stream each way, and the threads that read and write files for it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._up, self._down = (torch.cuda.Stream(device) if device.type == "cuda" else None for _ in range(2))
        self._leaving: deque[tuple[Tensor, Any]] = deque()
        self._rings: set[int] = set()  # addresses of what blocks lie in

    def fence(self) -> None:
        """What is queued from now on, on either stream and the current one, comes after all that is queued on any of them, and
        what was to be written to files is there."""
        self._behind.wait()
        if self._up is None or self._down is None:
            return
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self._up)
        current.wait_stream(self._down)
        self._up.wait_stream(current)
        self._down.wait_stream(current)
        self._leaving.clear()

    def blocks(self, ranges: Sequence[slice], stores: Sequence[RowStore]) -> Iterator[tuple[slice, list[Tensor]]]:
        """The rows of ``stores``, block by block, on the device; they hold until the next block is asked for."""
        coming = BlocksAhead(self._readers, ranges, stores, self._up is not None)
        self._rings |= coming.addresses
        try:
            yield from self._brought(ranges, stores, coming)
        finally:
            self._rings -= coming.addresses
            coming.close()

    @cached_property
    def _readers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(AHEAD)

    @cached_property
    def _behind(self) -> WritesBehind:
        return WritesBehind(ThreadPoolExecutor(AHEAD))

    def _brought(
        self, ranges: Sequence[slice], stores: Sequence[RowStore], coming: BlocksAhead
    ) -> Iterator[tuple[slice, list[Tensor]]]:
        away = [i for i, one in enumerate(stores) if one.is_away(self.device)]
        if self._up is None or not away or not ranges:
            for k, rows in enumerate(ranges):
                yield rows, coming.values(k)
                coming.used(k)
            return
        longest = max(rows.stop - rows.start for rows in ranges)
        current, up = torch.cuda.current_stream(self.device), self._up
        forms = [(i, (longest, stores[i].width), stores[i].dtype) for i in away]
        ring = [{i: torch.empty(shape, dtype=kind, device=self.device) for i, shape, kind in forms} for _ in range(AHEAD)]
        addresses = {one.untyped_storage().data_ptr() for buffers in ring for one in buffers.values()}
        self._rings |= addresses
        up.wait_stream(current)
        used: list[Any] = [None] * AHEAD

        def load(k: int) -> tuple[Any, list[Tensor]]:
            rows, buffers = ranges[k], ring[k % AHEAD]
            values = coming.values(k)
            with torch.cuda.stream(up):
                if used[k % AHEAD] is not None:
                    up.wait_event(used[k % AHEAD])
                for i in away:
                    if values[i].device != self.device:
                        values[i] = buffers[i][: rows.stop - rows.start].copy_(values[i], non_blocking=True)
                copied = up.record_event()
            coming.used(k, copied)
            return copied, values

        try:
            ready, values = load(0)
            for k, rows in enumerate(ranges):
                current.wait_event(ready)
                now = values
                if k + 1 < len(ranges):
                    ready, values = load(k + 1)
                yield rows, now
                used[k % AHEAD] = current.record_event()
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
        if len(self._leaving) > AHEAD:
            current.wait_event(self._leaving.popleft()[1])  # and then lets go of the rows

    def write_file(self, file: StorageArray, first: int, rows: Tensor, columns: slice | None) -> None:
        """Writes a block's rows from ``first`` on to a file, or some of their columns; the device goes on meanwhile."""
        ready = None
        if self._down is not None:
            to = torch.empty(rows.shape, dtype=rows.dtype, pin_memory=True)
            self.write(to, rows)
            ready = self._down.record_event()
            rows = to
        elif rows.untyped_storage().data_ptr() in self._rings:
            rows = rows.clone()  # the next block but one comes there
        self._behind.add(file, first, rows.contiguous(), columns, ready)


class HostRoom:
    """Host memory for rows between passes, kept from one step to the next: to map it takes longer than to fill it.

    Args:
        limit: bytes; rows of other shapes that wait are let go of where more would be kept.
    """

    def __init__(self, limit: float = float("inf")) -> None:
        self.limit, self._taken = limit, 0
        self._free: dict[tuple[Any, ...], list[HostArray]] = {}

    def lease(self, rows: int, width: int, dtype: torch.dtype, device: torch.device) -> HostArray:
        """Rows of any content, for a device."""
        waiting = self._free.get((rows, width, dtype, device))
        if waiting:
            return waiting.pop()
        needed = rows * width * dtype.itemsize
        while self._taken + needed > self.limit and any(self._free.values()):
            self._taken -= next(free for free in self._free.values() if free).pop().rows.nbytes
        self._taken += needed
        return HostArray(rows, width, dtype, device)

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
        table = UnifiedTensor.empty((rows, width), dtype, "pinned" if device.type == "cuda" else "pageable")
        self.rows: Tensor = table.to(torch.device("cpu"))
        self.seen: Tensor = table.to(device)


class RowStore:
    """A part's rows between passes: the first ``kept`` on the GPU, the next in host memory and the last in a file. The first
    of these two, ``ahead``, are on the GPU as well until :meth:`drop_ahead`."""

    def __init__(
        self,
        width: int,
        dtype: torch.dtype,
        kept: Tensor | None,
        ahead: Tensor | None,
        host: HostArray | None,
        file: StorageArray | None = None,
    ) -> None:
        self.width, self.dtype = width, dtype
        self._kept, self._ahead, self.host, self.file = kept, ahead, host, file
        self._first = 0 if kept is None else len(kept)
        self._next = self._first + (0 if ahead is None else len(ahead))
        self._filed = self._first + (0 if host is None else len(host.rows))

    @classmethod
    def of(cls, rows: Tensor) -> RowStore:
        """Of rows that are there, wherever they are."""
        return cls(rows.shape[1], rows.dtype, rows, None, None)

    @classmethod
    def of_file(cls, rows: StorageArray) -> RowStore:
        """Of rows that a file has."""
        return cls(rows.shape[1], rows.dtype, None, None, None, rows)

    @property
    def whole(self) -> Tensor:
        """All rows, of which none or all are in host memory, and none in a file."""
        found = self._kept if self.host is None else self.host.rows
        assert found is not None
        return found

    def is_away(self, device: torch.device) -> bool:
        """Whether some rows have to be brought to a device."""
        return self.host is not None or self.file is not None or (self._kept is not None and self._kept.device != device)

    def read(self, rows: slice) -> Tensor:
        """A block's rows where they are, which is no file."""
        if self._kept is not None and rows.stop <= self._first:
            return self._kept[rows]
        if self._ahead is not None and rows.stop <= self._next:
            return self._ahead[rows.start - self._first : rows.stop - self._first]
        if self.host is None:
            return torch.empty(0, self.width, dtype=self.dtype)  # of a part without rows
        return self.host.rows[rows.start - self._first : rows.stop - self._first]

    def lies_in_file(self, rows: slice) -> bool:
        """Whether a block's rows have to be read from the file."""
        on_gpu = self._ahead is not None and rows.stop <= self._next
        return self.file is not None and rows.start >= self._filed and rows.stop > rows.start and not on_gpu

    def read_file(self, rows: slice, out: Tensor) -> Tensor:
        """A block's rows from the file, in ``out``."""
        assert self.file is not None
        self.file.read_into(out, rows.start - self._filed)
        return out

    def write(self, lane: Lane, rows: slice, made: Tensor, columns: slice | None) -> None:
        """Writes a block's rows, or some of their columns."""
        made, every = made.to(self.dtype), slice(None) if columns is None else columns
        if self._kept is not None and rows.stop <= self._first:
            self._kept[rows, every] = made
            return
        at = slice(rows.start - self._first, rows.stop - self._first)
        if self._ahead is not None and rows.stop <= self._next:
            self._ahead[at, every] = made
        if self.file is not None and rows.start >= self._filed:
            lane.write_file(self.file, rows.start - self._filed, made, columns)
            return
        assert self.host is not None
        if columns is None:
            lane.write(self.host.rows[at], made)
        else:
            self.host.seen[at, every] = made

    def drop_ahead(self) -> None:
        """From here on rows are read in host memory that are there."""
        self._ahead = None
