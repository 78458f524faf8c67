"""Files for rows between passes that find no room in host memory (GriNNder, MLSys 2026, keeps activations on disks so)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import machine
from ..runtime import arguments
from ..runtime.errors import StorageError
from ..runtime.files import opening
from ..runtime.thresholds import DISK_LEFT, DISK_RATE
from ..runtime.units import format_bytes
from ..storage.cache import StorageCache
from ..table import StorageArray

if TYPE_CHECKING:
    from .host_stream import RowStore

AHEAD = 2  # blocks each way that are under way
_PAGES = "1MiB"  # of a cache that nothing is read through


class FileRoom:
    """Files without a name, kept from one step to the next: what they take of the disk is reserved once.

    Attributes:
        host_budget: bytes of host memory for rows, before they lie in files.
        folder: of the files; by default the system's folder for temporary files.
    """

    def __init__(self, host_budget: int, folder: str | os.PathLike[str] | None) -> None:
        self.host_budget = host_budget
        self.folder = tempfile.gettempdir() if folder is None else arguments.path("folder", folder)
        self._cache: StorageCache | None = None
        self._free: dict[tuple[Any, ...], list[StorageArray]] = {}
        self._made = 0

    def require(self, nbytes: int) -> None:
        """Refuses a computation whose files do not fit, before it begins.

        Raises:
            StorageError: the folder has not as much room, or is none.
        """
        with opening(self.folder, "used for rows"):
            free = shutil.disk_usage(self.folder).free
        more = nbytes - self._made
        if more > free - DISK_LEFT:
            raise StorageError(
                f"{self.folder}: files of rows need {format_bytes(more)} more, and {format_bytes(free)} are free, of which "
                f"{format_bytes(DISK_LEFT)} stay so; free space, name another folder, or raise host_budget"
            )

    def lease(self, rows: int, width: int, dtype: torch.dtype) -> StorageArray:
        """Rows of any content.

        Raises:
            StorageError: the disk is full, or the folder cannot be written.
        """
        waiting = self._free.get((rows, width, dtype))
        if waiting:
            return waiting.pop()
        self._cache = self._cache or StorageCache(_PAGES)
        made = StorageArray.unnamed(self.folder, "rows", (rows, width), dtype, cache=self._cache)
        try:
            with open(made.open_paths[0], "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, max(made.nbytes, 1))
        except OSError as error:
            made.close()
            raise StorageError(
                f"{self.folder}: {format_bytes(made.nbytes)} more for rows cannot be had: {error.strerror}; free space, name "
                "another folder, or raise host_budget"
            ) from error
        self._made += made.nbytes
        return made

    def give(self, array: StorageArray) -> None:
        """Takes rows back."""
        self._free.setdefault((*array.shape, array.dtype), []).append(array)


def disk_rates(folder: str) -> tuple[float, float]:
    """Bytes a second that the disk under a folder reads and writes: as ``hinterland probe`` measured it, or a guess."""
    known = machine.load()
    disk = None if known is None else known.disk
    if disk is None or not os.path.exists(disk.path) or os.stat(disk.path).st_dev != os.stat(folder).st_dev:
        return DISK_RATE, DISK_RATE
    return disk.sequential, disk.write


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


class WritesBehind:
    """Blocks of rows on their way to files."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self._leaving: list[Future[None]] = []

    def add(self, file: StorageArray, first: int, made: Tensor, columns: slice | None, ready: Any) -> None:
        """Writes rows from ``first`` on, or some of their columns, once the event ``ready`` is reached.

        Raises:
            StorageError: one that came before could not be written.
        """
        self._leaving.append(self._threads.submit(partial(_written, file, first, made, columns, ready)))
        if len(self._leaving) > AHEAD:
            self._leaving.pop(0).result()

    def wait(self) -> None:
        """All of them are in their files.

        Raises:
            StorageError: one is not.
        """
        leaving, self._leaving = self._leaving, []
        for one in leaving:
            one.result()


def _written(file: StorageArray, first: int, made: Tensor, columns: slice | None, ready: Any) -> None:
    if ready is not None:
        ready.synchronize()
    whole = made
    if columns is not None:
        whole = torch.empty(len(made), file.shape[1], dtype=file.dtype)
        if columns.start:  # nothing is there before the first columns
            file.read_into(whole, first)
        whole[:, columns] = made
    file.write_from(whole, first)
