"""The cache that arrays on storage share: pages of their files in host memory and on devices, within budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Literal

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.engine import warn_of_threads
from ..runtime.errors import ConfigError
from ..runtime.params import struct
from ..runtime.repr import Repr, Size
from ..runtime.thresholds import TRANSFER_DEPTH
from ..runtime.units import parse_bytes
from ..runtime.warned import warn_once
from .device_pages import DevicePages, settle
from .stats import StorageStats

_Counts = struct("StoreCounts")
_LINES = tuple(512 << i for i in range(8))
ENGINES = ("auto", "io_uring", "threads")


class StorageCache(Repr):
    """Pages of files in host memory, which all arrays that are opened with this cache share (Mailthody 2022, section 5.3.2).
    Devices keep pages of theirs beside it, each in its own memory, since it was first read by a kernel there.

    Args:
        host_budget: bytes for pages and all that finds them, as in ``"1GiB"``.
        line_bytes: of a page, a power of two from 512 to 65536. What is read is whole pages: small ones waste less where rows
            are small and far apart, large ones ask the disk less often.
        engine: ``"io_uring"``; ``"threads"`` that read and write one page each at a time; ``"auto"`` is io_uring where
            the kernel offers it and the library was built with liburing, and a warning says so once where it is not.
        device_budget: bytes of a device's memory for pages of each file, in lines of ``line_bytes``, and for its queues. None
            is 256 MiB; or, of a graph, twice what lies on storage, as far as a GPU has that free, if the first run there has
            no ``gpu_budget``.

    Attributes:
        on_devices: what devices keep of its files.

    Raises:
        ConfigError: a line of another size, or another engine.
        OutOfMemory: a budget that holds no set of lines, or that there is no memory for.
        StorageError: io_uring was asked for and is not to be had.
    """

    def __init__(
        self,
        host_budget: int | str = "256MiB",
        line_bytes: int = 4096,
        engine: Literal["auto", "io_uring", "threads"] = "auto",
        device_budget: int | str | None = None,
    ) -> None:
        if not isinstance(line_bytes, int) or line_bytes not in _LINES:
            raise ConfigError(f"line_bytes={arguments.repr_of(line_bytes)} is no power of two from 512 to 65536")
        arguments.one_of("engine", engine, ENGINES)
        threads = torch.get_num_threads() + 1  # and one that reads ahead
        self.native = _core.Store(parse_bytes(host_budget), line_bytes, threads, TRANSFER_DEPTH, engine)
        if engine == "auto" and self.engine == "threads":
            warn_of_threads()
        self.expecting: _core.StoredTable | None = None  # that of the array which has told what is to come
        self.on_devices = DevicePages(self.native, None if device_budget is None else parse_bytes(device_budget))
        self.writing = Lock()  # a kernel's that writes to its arrays: another device's cache would not see what this one's has

    @property
    def host_budget(self) -> int:
        """Bytes, as given."""
        return self.native.bytes

    @property
    def line_bytes(self) -> int:
        """Bytes of a page."""
        return self.native.line_bytes

    @property
    def engine(self) -> str:
        """``"io_uring"`` or ``"threads"``."""
        return self.native.engine

    @contextmanager
    def live(self) -> Iterator[None]:
        """A with-block in which loops of native code read through the cache. StorageError at its end where a page could not be
        read: what was found then says nothing. Copies of files that could not be read are warned about."""
        settle()
        self.native.begin_run()
        try:
            yield
        finally:
            self.native.end_run()
        self.warn_of_failures()

    def flush(self) -> None:
        """Everything that was written before to any array of this cache, also by kernels, is in its file, on the disk, when
        this returns.

        Raises:
            StorageError: the first page that could not be written; it is still held, and the next flush tries again.
        """
        self.native.flush()
        self.on_devices.flush()

    def stats(self) -> StorageStats:
        """What was moved so far."""
        counts = _Counts()
        self.native.counts(counts.address)
        moved = (counts.reads, counts.writes, counts.bytes_read, counts.bytes_written, counts.hits, counts.misses)
        return StorageStats(*moved, counts.cpu_ns / 1e9, counts.failed_reads, counts.pinned, counts.expected_bytes)

    def warn_of_failures(self) -> None:
        """Warns of copies of files that could not be read since the last call, so that others were."""
        for sentence in self.native.take_failures():
            warn_once(sentence, sentence)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another of the same size, with nothing in it."""
        engine = "auto" if self.engine == "io_uring" else self.engine
        return StorageCache, (self.host_budget, self.line_bytes, engine, self.on_devices.budget)

    def _facts(self) -> dict[str, Any]:
        return {"host_budget": Size(self.host_budget), "line_bytes": self.line_bytes, "engine": self.engine}
