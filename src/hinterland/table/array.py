"""StorageArray: a table in a file, of which pages are kept in host memory (BaM's array: Mailthody 2022, chapter 5)."""

from __future__ import annotations

import os
import tempfile
import threading
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self
from weakref import WeakSet

import torch

from .. import _core
from ..memory import TierCount
from ..runtime import arguments, devices
from ..runtime.capture import capturing
from ..runtime.collected import is_later
from ..runtime.errors import ConfigError, HinterlandError, StorageError
from ..runtime.files import opening
from ..runtime.repr import table_of
from ..runtime.thresholds import BOUNCE_BYTES, EXPECTED_SHARE, HOST_BUDGET
from ..runtime.units import format_bytes
from ..storage.cache import StorageCache
from ..storage.device_pages import replay, settle, written
from ..storage.layout import Layout, Volume, is_bare
from ..storage.stats import StorageStats
from ..storage.volume import MODES, Paths, bare_devices, create, locate
from .captured import CapturedGathers
from .pinned import Pinned
from .placement import Sort
from .row_arguments import Index, place_rows, row_numbers
from .table import Table
from .tiered import Asked, Devices
from .tiered_storage import TieredStorage, make


class StorageArray(Table):
    """A tensor in a file, row-major, with at least one dimension. Rows come from the disk as they are asked for.

    ``a[index]`` copies rows to a new tensor on the device of ``index``; ``a[index] = rows`` writes them, and ``flush()`` has
    them on the disk. Pages that were read stay in the array's cache as long as there is room. What is written by other
    processes meanwhile may or may not be seen.

    A gather visits pages in the file's order, each once for all its rows, many at a time. It checks row numbers first, and
    takes ``max_blocks``, ``check`` and ``sort`` for other tables' sake. In a CUDA graph it reads the row numbers that ``index``
    has at each replay: the stream waits for a thread of the CPU, and no multiprocessor does. What fails then gives rows of
    zeros, and the next call on this array, or :meth:`synchronize`, raises. Keep it open as long as the graph is replayed.

    Rows that are written may be on any device. Of equal row numbers the last counts, and with a bad one nothing is written.
    They survive the process once ``flush()`` has returned, and so does what kernels write.

    Made by ``StorageArray.open`` and ``StorageArray.create``. It is a context manager: the end of the block closes it.

    Attributes:
        cache: which keeps its pages.
        origin: where its files begin in the cache's space of bytes, for native code.
    """

    _AS_TENSOR = "array[:] reads all rows into a tensor"
    in_reach = False
    keepable = True
    placement = "storage"

    def __init__(self, layout: Layout, mode: Literal["r", "r+"], cache: StorageCache) -> None:
        super().__init__(layout.shape, layout.dtype)
        self._layout, self._mode, self.cache = layout, mode, cache
        self._pinned: WeakSet[Pinned] = WeakSet()
        self._closing = threading.Lock()
        self._closed = True
        files = layout.volume
        # For who opens the files again, wherever that is: which they are, and how they were opened.
        self._paths = [path if is_bare(path) else os.path.abspath(path) for path in files.paths]
        self._asked: dict[str, Any] = {}
        self.origin = cache.native.open(list(files.paths), mode == "r+", files.stripe, files.base)
        cache.on_devices.enter(self.origin, mode)
        self._closed = False
        rows, extents = 0, []
        for extent in layout.extents:
            extents.append((rows, self.origin + extent.offset))
            rows += extent.rows
        self._table = _core.StoredTable(cache.native, extents or [(0, self.origin)], self._rows, self._row_bytes)
        self._captured = CapturedGathers(self._table, self._rows)

    @classmethod
    def open(
        cls,
        path: Paths,
        mode: Literal["r", "r+"] = "r",
        *,
        name: str | None = None,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
        offset: int = 0,
        spread: Literal["striped", "replicated"] | None = None,
        stripe: int | str | None = None,
        cache: StorageCache | None = None,
        host_budget: int | str = HOST_BUDGET,
    ) -> StorageArray:
        """The table of a file, where it lies: nothing is converted, and nothing read but what says where rows are.

        Args:
            path: a ``.npy``, safetensors, Arrow, torch or ``.hl`` file, told apart by its content, or raw binary; an NVMe
                device that was handed to vfio-pci, by its PCI address: ``"nvme:0000:01:00.0"``, or
                ``"nvme:0000:01:00.0/2"`` for its second namespace; or a list of up to 64 of them that hold the table together.
            mode: ``"r"``, or ``"r+"`` to write as well. A file has one writer at a time, and any number of readers.
            name: of the tensor or column, in files that hold several.
            dtype, shape, offset: of raw binary: its type, its dimensions, of which one may be -1, and the byte where it begins.
            spread: of several files ``"replicated"``: each is a copy. A page is read from the copy with the fewest reads under
                way, and from another if that fails, of which a warning tells. Writes go to all. Or ``"striped"``: the table's
                bytes are dealt round.
            stripe: bytes that go to each file in turn, a whole number of the cache's pages. For raw binary; files that
                ``create`` made say it themselves, and are refused in another order or if one is missing.
            cache: which keeps its pages, and may keep others'. None makes one of ``host_budget``.
            host_budget: bytes of host memory, as in ``"1GiB"``.

        Raises:
            StorageError: the file is missing, cannot be read or written, or is open for writing elsewhere.
            FormatError: it is damaged, or holds less than it promises.
            ConfigError: an argument that cannot be used.
            OutOfMemory: the cache does not fit.
        """
        arguments.one_of("mode", mode, MODES)
        devices = bare_devices(path, spread)  # noqa: F841  open until the cache has them as well
        found = locate(path, spread, stripe, dtype=dtype, shape=shape, offset=offset, name=name)
        made = cls(found, mode, _cache(cache, host_budget))
        made._asked = {"spread": spread, "stripe": stripe, "offset": offset, "name": name}
        return made

    @classmethod
    def create(
        cls,
        path: Paths,
        shape: Sequence[int] | int,
        dtype: torch.dtype = torch.float32,
        *,
        spread: Literal["striped", "replicated"] | None = None,
        stripe: int | str | None = None,
        cache: StorageCache | None = None,
        host_budget: int | str = HOST_BUDGET,
    ) -> StorageArray:
        """A new file of zeros, open for writing: ``.npy`` and ``.safetensors`` by its ending, else raw binary. It takes room on
        the disk as it is written.

        Args:
            path: of the file, or a list of several that hold the table together.
            shape, dtype: of the table.
            spread: ``"replicated"`` makes each a copy; ``"striped"`` deals the table's bytes round: then names end in
                ``.safetensors``, and each file says which part it is.
            stripe: bytes that go to each file in turn, by default 64 KiB.
            cache, host_budget: as for ``open``.

        Raises:
            StorageError: a file is there already, or it cannot be made.
            ConfigError, OutOfMemory: as for ``open``.
        """
        cache = _cache(cache, host_budget)
        made = cls(create(path, shape, dtype, spread, stripe, cache.line_bytes), "r+", cache)
        made._asked = {"spread": spread}
        return made

    @property
    def file(self) -> Self:  # type: ignore[override]  # an attribute where it is None
        """Itself."""
        return self

    @property
    def path(self) -> str:
        """The file; of several the first."""
        return self._layout.path

    @property
    def volume(self) -> Volume:
        """The files."""
        return self._layout.volume

    @property
    def mode(self) -> str:
        """``"r"`` or ``"r+"``."""
        return self._mode

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def line_bytes(self) -> int:
        """Bytes of a page, the least that is read."""
        return self.cache.line_bytes

    @property
    def position(self) -> int:
        """Where its first row lies in its cache's space of bytes, for native code; of an array whose rows lie in one piece."""
        return self.origin + self.file_position

    @property
    def is_in_one_piece(self) -> bool:
        """Whether its rows lie one after the other: those of an Arrow file do not where it has several record batches."""
        return len(self._layout.extents) < 2

    @property
    def file_position(self) -> int:
        """The same in its file, or in the space of its files."""
        self._require_open()
        return self._layout.extents[0].offset if self._layout.extents else 0  # of no rows

    @property
    def open_paths(self) -> tuple[str, ...]:
        """Names of the files as they are open here, whatever has become of their own."""
        self._require_open()
        return tuple(
            path if is_bare(path) else f"/proc/self/fd/{number}"
            for path, number in zip(self.volume.paths, self.cache.native.descriptors(self.origin), strict=True)
        )

    def read_into(self, out: torch.Tensor, begin: int = 0) -> None:
        """Fills ``out``, a contiguous CPU tensor of its type, with the rows from ``begin`` on, as many as it has: from the
        file, past the cache.

        Raises:
            StorageError: the file cannot be read, or is shorter than it was.
        """
        self._require_open()
        settle(self)
        to, end, row = out.data_ptr(), begin + len(out), 0
        for extent in self._layout.extents:
            first, last = max(begin, row), min(end, row + extent.rows)
            if first < last:
                at = to + (first - begin) * self._row_bytes
                offset = extent.offset + (first - row) * self._row_bytes
                self.cache.native.read(self.origin, offset, at, (last - first) * self._row_bytes)
            row += extent.rows
        self.cache.warn_of_failures()

    def write_from(self, rows: torch.Tensor, begin: int = 0) -> None:
        """Writes ``rows``, a contiguous CPU tensor of its type, from row ``begin`` on: to its one file, past the cache. They
        are on the disk once ``flush()`` has returned.

        Raises:
            ConfigError: it is open for reading.
            StorageError: the file cannot be written, or the table is of several files, or in several pieces of one.
        """
        self._require_open()
        self.require_writable()
        if not self.is_in_one_piece:
            raise StorageError(f"{self.path}: its rows lie in several pieces; write them by row numbers")
        settle(self)
        at = self.file_position + begin * self._row_bytes
        try:
            self.cache.native.write(self.origin, at, rows.data_ptr(), rows.nbytes)
        finally:
            self.cache.native.forget_pages(self.origin)
            written(self)

    def _read(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort) -> None:
        self._require_open()
        if index.is_cuda and capturing():
            return self.captured(index, out)
        self.raise_deferred()
        rows = row_numbers(index, self._rows)
        self.fetch(rows, out.view(rows.numel(), *self._row_shape))

    def fetch(self, rows: torch.Tensor, out: torch.Tensor, places: torch.Tensor | None = None) -> None:
        """As of any table. Nothing is checked."""
        self._require_open()
        settle(self)
        rows = rows.cpu()
        batch = self._table.begin_batch(rows.data_ptr(), rows.numel())
        try:
            if out.is_cuda:
                self._to_gpu(rows, out, places, batch)
            else:
                at = 0 if places is None else places.data_ptr()
                self._table.gather(rows.data_ptr(), rows.numel(), out.data_ptr(), at, batch)
        finally:
            self._table.end_batch(batch)
        self.cache.warn_of_failures()

    def _to_gpu(self, rows: torch.Tensor, out: torch.Tensor, places: torch.Tensor | None, batch: int) -> None:
        """Through two pieces of pinned memory by turns: one is filled while the other is copied."""
        step = max(1, BOUNCE_BYTES // max(self._row_bytes, 1))
        staging: list[torch.Tensor] = []
        copied: list[torch.cuda.Event] = []
        for turn, begin in enumerate(range(0, rows.numel(), step)):
            part = rows[begin : begin + step]
            if turn < 2:
                size = (min(step, rows.numel()), *self._row_shape)
                staging.append(torch.empty(size, dtype=self._dtype, pin_memory=True))
                copied.append(torch.cuda.Event())
            else:
                copied[turn % 2].synchronize()
            held = staging[turn % 2][: part.numel()]
            self._table.gather(part.data_ptr(), part.numel(), held.data_ptr(), batch=batch)
            if places is None:
                out[begin : begin + step].copy_(held, non_blocking=True)
            else:
                place_rows(held.to(out.device, non_blocking=True), places[begin : begin + step], out)
            copied[turn % 2].record(torch.cuda.current_stream(out.device))

    def captured(
        self,
        index: torch.Tensor,
        out: torch.Tensor,
        max_blocks: int | None = None,
        *,
        from_end: bool = True,
        asked: torch.Tensor | None = None,
    ) -> None:
        """As of any table."""
        replay(self)
        self._captured.add(index, out, from_end, asked)

    def synchronize(self) -> None:
        """Waits for all GPUs, and raises what gathers in CUDA graphs have met."""
        super().synchronize()
        if self._captured:
            torch.cuda.synchronize()
        self.raise_deferred()

    def raise_deferred(self) -> None:
        """Raises what gathers in CUDA graphs have met so far."""
        self._captured.raise_deferred()

    def require_writable(self) -> None:
        """ConfigError where it was opened for reading."""
        if self._mode == "r":
            raise ConfigError(f"{self.path} is open for reading; open it with mode='r+' to write")

    def _write(self, index: torch.Tensor, rows: torch.Tensor, max_blocks: int | None, check: str) -> None:
        self._require_open()
        settle(self)
        where, rows = row_numbers(index, self._rows).cpu(), rows.cpu()
        try:
            self._table.scatter(where.data_ptr(), where.numel(), rows.data_ptr())
        finally:
            written(self)
        self.cache.warn_of_failures()

    def _prefetch(self, rows: torch.Tensor) -> None:
        self._require_open()
        settle(self)
        rows = rows.cpu()
        self._table.read_ahead(rows.data_ptr(), rows.numel())

    def expect(self, batches: Sequence[Index]) -> int:
        """Row numbers of the gathers to come, in their order: until they are over the cache gives away what is needed last
        (Belady's optimum), where else it goes by what was used.

        A gather is known again by its rows, in any order. Others may come between and change nothing; those that were told and
        do not come are passed over by the next that does. What no gather is known to need gives way first, other arrays' pages
        as well: a cache goes by what one array was told last, and ``expect([])`` ends that. What is told is kept beside the
        cache's budget, 8 bytes for each page of each gather and never more than a sixteenth of it.

        Args:
            batches: int32 or int64 tensors, as ``gather`` takes them.

        Returns:
            How many of the first of them there was room for: tell the rest when some of these are over.

        Raises:
            IndexOutOfRange, ConfigError: as ``gather``; what was told before holds then.
        """
        self._require_open()
        arguments.instance("batches", batches, Sequence, "give a list of row numbers of each gather")
        told, taken = _core.ExpectedBatches(self.cache.host_budget // EXPECTED_SHARE), 0
        for index in batches:
            rows = row_numbers(index, self._rows).cpu()
            if not self._table.tell(rows.data_ptr(), rows.numel(), told):
                break
            taken += 1
        self._table.expect(told)
        self.cache.expecting = self._table
        return taken

    def pin(self, index: Index) -> Pinned:
        """Reads the pages of these rows, which stay in memory from now on, whatever else is read: until the ``unpin()`` of what
        is returned, the end of its ``with`` block, or until nobody has it any more.

        Half of the cache's pages may be pinned at the same time, by all its arrays. A page may lie in one of eight places, of
        which two are left to others, so here and there one of many pages is not pinned: :attr:`.Pinned.left_out` counts them.

        Raises:
            OutOfMemory: more than half of the cache would be pinned.
            IndexOutOfRange, ConfigError: as ``gather``.
            StorageError: a page cannot be read. In any case nothing is pinned then.
        """
        self._require_open()
        settle(self)
        rows = row_numbers(index, self._rows).cpu()
        pinned = Pinned(self, _core.PinnedPages(self._table, rows.data_ptr(), rows.numel()))
        self._pinned.add(pinned)
        return pinned

    def _count(self, rows: torch.Tensor) -> TierCount:
        self._require_open()
        rows = rows.cpu()
        pages = self._table.count_pages(rows.data_ptr(), rows.numel())
        asked = {"bytes": pages * self.line_bytes, "requests": pages, "hits": rows.numel()}
        return TierCount({**TierCount.of({}, self._row_bytes).tiers, "storage": asked}, self._row_bytes)

    def tiered(
        self,
        local: int | str | None = None,
        peers: int | str | None = None,
        host: int | str | None = None,
        scores: torch.Tensor | None = None,
        order: torch.Tensor | None = None,
        devices: Devices | None = None,
    ) -> TieredStorage:
        """This table with its hottest rows in GPU memory and the next in host memory, under the same numbers; the rest is read
        from the file as it is asked for.

        Args:
            host: bytes of host memory for rows behind those of GPUs, beside the array's cache. What finds them is not part of
                it: 4 bytes for each row of the table and 5 for each row in memory (8 and 9 from 2**31 rows on), or 1 byte for
                each row in memory where the hottest rows are the first.
            local, peers, scores, order, devices: as of ``UnifiedTensor.tiered``.

        Raises:
            ConfigError: sizes, scores, an order or devices that cannot be used.
            OutOfMemory: a GPU, or the host, has less free than the tiers take.
            StorageError: a page cannot be read.
        """
        self._require_open()
        return make(self, Asked.of(self, (local, peers, host), scores, order, devices, self.line_bytes))

    def beside(self, shape: tuple[int, ...], dtype: torch.dtype, purpose: str) -> StorageArray:
        """A table of zeros, through the same cache, in a file without a name in the same folder: it goes with
        the table.

        Args:
            purpose: what error messages call the file.

        Raises:
            StorageError: the file cannot be made.
        """
        self._require_open()
        return unnamed(os.path.dirname(self.path), purpose, shape, dtype, cache=self.cache)

    def flush(self) -> None:
        """Everything that was written before, also by kernels, is in the file, on the disk, when this returns.

        Raises:
            StorageError: the first page that could not be written; it is still held, and the next flush tries again.
        """
        self._require_open()
        self.cache.flush()

    def close(self) -> None:
        """Flushes what was written, unpins what is pinned, waits for kernels that read the file, and lets it go. In a forked
        process the array is let go alone: its pages and what they are ahead of the file are the parent's.

        Raises:
            StorageError: as ``flush``; the array stays open then.
        """
        if not self.cache.native.is_own:
            self._closed = True
        if self._closed:
            return
        if self._mode == "r+":
            self.cache.flush()
        with self._closing:
            if self._closed:
                return
            for pinned in self._pinned:
                pinned.unpin()
            if self.cache.expecting is self._table:
                self.cache.expecting.expect(_core.ExpectedBatches(0))
                self.cache.expecting = None
            self._closed = True
        self.cache.on_devices.leave(self.origin)
        self.cache.native.close(self.origin)

    def stats(self, device: torch.device | str | int | None = None) -> StorageStats:
        """What the array's cache has moved since it was made, for all its arrays.

        Args:
            device: whose own cache of the array's files is asked for, which kernels read and write them through.
        """
        if device is None:
            return self.cache.stats()
        self._require_open()
        return self.cache.on_devices.stats(devices.as_device(device), self.origin)

    def explain(self, device: torch.device | str | int | None = None) -> str:
        """What was read from the disk for the host's cache, or a device's, how much of it was asked for, what the device's
        takes, and who serves its reads."""
        said = f"{self.path}: {self.stats(device).explain()}"
        if device is None:
            return said
        stores = self.cache.on_devices.stores(devices.as_device(device), self.origin)
        taken = format_bytes(sum(store.nbytes for store in stores))
        served = "".join(f", served by {store.controller}" for store in stores)
        return f"{said}; {taken} of {devices.as_device(device)} keep what was read, beside any gpu_budget{served}"

    def __enter__(self) -> Self:
        self._require_open()
        return self

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or is_later(self.__del__):
            return
        try:
            self.close()
        except HinterlandError as error:  # nobody is there to catch it
            warnings.warn(f"{self.path}: what was written last is lost: {error}", ResourceWarning, stacklevel=2)

    def __reduce__(self) -> tuple[Any, ...]:
        """By its path: who loads it opens the file again, in the same mode, after what was written here is on the disk."""
        self._require_open()
        if self._mode == "r+":
            self.flush()
        for path in self._paths:
            if not is_bare(path) and not os.path.exists(path):
                raise StorageError(f"{path} is not there any more, to be opened again; write array[:] to another file")
        asked = {"dtype": self._dtype, "shape": tuple(self.shape), **self._asked}
        return _reopened, (self._paths, self._mode, asked, self.cache)

    def _facts(self) -> dict[str, Any]:
        paths = self.volume.paths
        path = self.path if len(paths) == 1 else paths
        return table_of(self.shape, self.dtype, path=path, mode=self.mode, cache=self.cache)

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError(f"{self.path} was closed; open it again with StorageArray.open")


def _reopened(paths: list[str], mode: Literal["r", "r+"], asked: dict[str, Any], cache: StorageCache) -> StorageArray:
    """An array that was copied or saved."""
    return StorageArray.open(paths if len(paths) > 1 else paths[0], mode, cache=cache, **asked)


def _cache(cache: StorageCache | None, host_budget: int | str) -> StorageCache:
    if cache is None:
        return StorageCache(host_budget)
    arguments.instance("cache", cache, StorageCache, "as StorageCache('1GiB') is")
    return cache


def unnamed(folder: str, purpose: str, shape: Sequence[int], dtype: torch.dtype, *, cache: StorageCache) -> StorageArray:
    """A table of zeros in a file without a name, which goes with the table.

    Args:
        folder: on whose disk it lies.
        purpose: what error messages call the file.

    Raises:
        StorageError: the file cannot be made.
    """
    with opening(folder, "written"), tempfile.TemporaryDirectory(dir=folder or os.curdir, prefix=".hinterland.") as hidden:
        return StorageArray.create(os.path.join(hidden, purpose), shape, dtype, cache=cache)
