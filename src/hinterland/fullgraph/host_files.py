"""Files for rows between passes that find no room in host memory (GriNNder, MLSys 2026, keeps activations on disks so)."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

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
from ..table.array import unnamed

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
        made = unnamed(self.folder, "rows", (rows, width), dtype, cache=self._cache)
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
