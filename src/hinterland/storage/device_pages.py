"""What devices keep of the files of a StorageCache: one cache for each device and file, which all kernels of the process share,
traversals and samplers as well (Mailthody 2022, section 5.3)."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakSet

import torch

from ..runtime import devices
from ..runtime.collected import finalized_later
from ..runtime.errors import ConfigError, HinterlandError
from ..runtime.params import Params
from ..runtime.thresholds import DEVICE_BUDGET
from ..runtime.units import format_bytes, parse_bytes
from .layout import is_bare
from .on_device import Backing, DeviceStore, OpenFiles, Queues, hole_of, set_bytes, store_words
from .roofline import probed
from .stats import StorageStats, together

_MOST_THREADS = 4  # that serve a file's queues
_ROOM = 2  # lines for each page of a file, so that hardly a set is full
_SET = 8 * 64  # bytes of a set beside its frames, at the most
_all: WeakSet[DevicePages] = WeakSet()
_replayed: set[Any] = set()  # files that CUDA graphs read


@dataclass(eq=False)
class _Kept:
    """What a device keeps of the files at ``origin``, and which files these are, whatever they are called. Kernels find it by
    ``words``, at one address as long as an array of theirs is open, whichever store is there by then."""

    native: Any
    device: torch.device
    origin: int
    files: frozenset[Any]
    budget: int
    words: torch.Tensor
    store: DeviceStore | None = None  # None: the next kernel makes one
    stale: bool = False  # something else has written to the files: the next kernel makes another
    ahead: bool = False  # kernels have written what is not in the files
    turn: threading.Lock = field(default_factory=lambda: threading.Lock())  # of who makes it, or begins to use it
    flushing: Any = field(default_factory=lambda: threading.RLock())

    def flush(self) -> None:
        """What kernels wrote before is in the files, and what others keep of these is stale: one that was made while kernels
        wrote has read them before. StorageError: as of a store's flush."""
        with finalized_later(), self.flushing:  # an array that is collected here waits for this flush
            if not self.ahead:
                return
            assert self.store is not None
            try:
                with devices.on(self.device):
                    self.store.flush()
            finally:
                self.native.forget_pages(self.origin)
                _outdate(self.files, self)
            self.ahead = False


class DevicePages:
    """Those of one StorageCache. A store is made when a kernel first reads its file on its device. It stays until the last
    array of the file is closed, or until something else has written to the file: then the next kernel makes another.

    What kernels write stays there, too (section 7.3), until a line makes room, somebody flushes the cache, or anybody but
    kernels of that device reads the file or writes to it (:func:`settle`). So of all who have pages of a file one at most is
    ahead of it (section 8.3).

    Args:
        native: the cache in host memory, whose budget also bounds what is on its way.
        budget: bytes of a device's memory for each file; None: what the first kernel is given, or else ``DEVICE_BUDGET``.
    """

    def __init__(self, native: Any, budget: int | None) -> None:
        self.budget, self._native = budget, native
        self._kept: list[_Kept] = []
        self._gone: dict[tuple[torch.device, int], StorageStats] = {}  # what stores had moved that were let go
        self._opened: Counter[int] = Counter()  # arrays, by the origin of their files
        self._modes: dict[int, Literal["r", "r+"]] = {}  # in which these are open, as the first array says
        self._lock = threading.RLock()  # a thread that has it may collect an array, which closes it
        _all.add(self)

    def enter(self, origin: int, mode: Literal["r", "r+"]) -> None:
        """An array of the files at ``origin`` is open."""
        with self._lock:
            self._opened[origin] += 1
            self._modes.setdefault(origin, mode)

    def leave(self, origin: int) -> None:
        """It is closed. With the last of its files goes what devices keep of them, once kernels that read it have ended."""
        with self._lock:
            self._opened[origin] -= 1
            if self._opened[origin]:
                return
            del self._opened[origin], self._modes[origin]
            gone = [one for one in self._kept if one.origin == origin]
            self._kept = [one for one in self._kept if one.origin != origin]
            self._gone = {key: stats for key, stats in self._gone.items() if key[1] != origin}
        for one in gone:
            if one.store is not None:
                one.store.drain()
                try:
                    one.flush()  # of kernels that began before
                finally:
                    one.store.discard()

    @contextmanager
    def live(
        self, array: OpenFiles, device: torch.device, budget: int | None = None, *, writes: bool = False
    ) -> Iterator[DeviceStore]:
        """A with-block in which kernels on the current stream read an array's files through the cache that ``device`` has of
        them, or write to them. Its end waits for the stream.

        Args:
            budget: bytes of a cache that is made for this, where not those of all. One that is there stays as it is.
            writes: whether kernels write, by who has ``StorageCache.writing``.

        Raises:
            StorageError, IndexOutOfRange: as of ``DeviceStore.live``; or what another device is ahead could not be written.
            ConfigError, OutOfMemory: as making a store does.
        """
        kept = self._kept_of(array, device, budget)
        _settle(array, kept)
        with ExitStack() as run:
            with kept.turn:
                store = self._store_of(kept, array)
                run.enter_context(store.live())
            if writes:
                run.callback(self._written, kept)
            yield store

    def words(self, array: OpenFiles, device: torch.device, budget: int | None = None) -> Params:
        """An array as kernels read it within :meth:`live`, which has the same arguments and errors: as long as it is open."""
        kept = self._kept_of(array, device, budget)
        with kept.turn:
            return self._store_of(kept, array).array(array.file_position)

    def flush(self) -> None:
        """What kernels wrote before is in the files, on the disk. StorageError: the first page that could not be written; it is
        still held, and the next flush tries again."""
        for one in list(self._kept):
            one.flush()

    def _written(self, kept: _Kept) -> None:
        """Kernels have written to what is kept."""
        with kept.flushing:
            kept.ahead = True
        if not kept.files.isdisjoint(_replayed):
            kept.flush()

    def stats(self, device: torch.device, origin: int) -> StorageStats:
        """What a device's caches of the files at ``origin`` have moved."""
        self._native.require_same_process()
        with self._lock:
            stores = self.stores(device, origin)
            gone = self._gone.get((device, origin))
        return together([*(store.stats() for store in stores), *([] if gone is None else [gone])])

    def stores(self, device: torch.device, origin: int) -> list[DeviceStore]:
        """That of the files at ``origin`` on a device; none before a kernel reads them."""
        with self._lock:
            found = [one.store for one in self._kept if (one.device, one.origin) == (device, origin)]
        return [store for store in found if store is not None]

    def _kept_of(self, array: OpenFiles, device: torch.device, budget: int | None) -> _Kept:
        """What a device keeps of an array's files, from now on."""
        self._native.require_same_process()
        with self._lock:
            found = next((one for one in self._kept if (one.device, one.origin) == (device, array.origin)), None)
            budget = self.budget if budget is None else budget
            budget = parse_bytes(DEVICE_BUDGET) if budget is None else budget
            if found is None:
                found = _Kept(self._native, device, array.origin, _files(array), budget, store_words(device))
                self._kept.append(found)
            elif found.store is None:  # it could not be made with the budget before
                found.budget = budget
        return found

    def _store_of(self, kept: _Kept, array: OpenFiles) -> DeviceStore:
        """That of what is kept, which has nothing older than the files. The caller has the turn."""
        if kept.stale:
            kept.flush()  # where both wrote at the same time
            kept.stale, stale, kept.store = False, kept.store, None
            if stale is not None:
                stale.discard()
                with self._lock:
                    key = kept.device, kept.origin
                    self._gone[key] = together([stale.stats(), *([self._gone[key]] if key in self._gone else [])])
        if kept.store is None:
            kept.store = self._made(array, kept)
        return kept.store

    def queues(self, array: OpenFiles, budget: int) -> Queues:
        """Of a store of so many bytes: a file's share of what host memory has for pages on their way, and no more than the
        disks need, where the probe has found how many that are (Little's law, storage/roofline.py)."""
        line_bytes = self._native.line_bytes
        known = [probed(path, line_bytes) for path in array.open_paths]
        needed = sum(one.needed for one in known if one is not None) if all(known) else 0
        return Queues.within(self._native.bytes // len(self._opened), line_bytes, needed, budget // 4)

    def _made(self, array: OpenFiles, kept: _Kept) -> DeviceStore:
        for pages in list(_all):  # a device reads files, of which any cache may have newer pages
            if "r+" in pages._modes.values() and pages._native.is_own:
                pages._native.flush()
        line_bytes, paths, budget = self._native.line_bytes, array.open_paths, kept.budget
        queues = self.queues(array, budget)
        lines = queues.rest_of(budget)
        if lines < set_bytes(line_bytes):
            raise ConfigError(
                f"{array.volume.paths[0]}: {format_bytes(budget)} of {kept.device} hold no queues and a set of lines of "
                f"{line_bytes} bytes; raise device_budget of its StorageCache, or cache of the kernel"
            )
        if not any(map(is_bare, paths)):  # a device's size is not its file's
            lines = min(lines, _ROOM * sum(os.stat(path).st_size for path in paths) + 8 * line_bytes + _SET)
        mode = self._modes[array.origin]
        threads = min(queues.channels, _MOST_THREADS)
        hole = _hole(array) if mode == "r+" else (0, 0, 0)
        how: Any = {"mode": mode, "hole": hole, "threads": threads, **queues._asdict()}
        made = DeviceStore(Backing.of(array, mode), kept.device, lines, line_bytes, **how)
        made.move_to(kept.words)
        return made


def settle(array: OpenFiles | None = None) -> None:
    """What kernels wrote to an array's files, or to any, is in these: called before anybody else reads them or writes to them.
    StorageError: a page that could not be written, as of ``DevicePages.flush``."""
    _settle(array)


@atexit.register
def _settle_at_exit() -> None:
    """While tensors still are what they were: who flushes later finds them cleared."""
    for one in _ahead():
        try:
            one.flush()
        except HinterlandError as error:  # nobody is there to catch it
            warnings.warn(f"what kernels wrote last is lost: {error}", ResourceWarning, stacklevel=2)


def _ahead() -> list[_Kept]:
    return [one for pages in list(_all) for one in pages._kept if one.ahead and one.native.is_own]


def _settle(array: OpenFiles | None, but: _Kept | None = None) -> None:
    ahead = [one for one in _ahead() if one is not but]
    files = _files(array) if ahead and array is not None else None
    for one in ahead:
        if files is None or not one.files.isdisjoint(files):
            one.flush()


def replay(array: OpenFiles) -> None:
    """A CUDA graph reads an array's files at any time from now on: what kernels write to them is there when they end.

    Raises:
        ConfigError: they have written what is not.
    """
    files = _files(array)
    if any(not one.files.isdisjoint(files) for one in _ahead()):
        raise ConfigError("kernels have written to what a CUDA graph is to read; call flush() before it is captured")
    _replayed.update(files)


def written(array: OpenFiles) -> None:
    """An array's files have other bytes now: what devices keep of them is stale."""
    if any(pages._kept for pages in list(_all)):
        _outdate(_files(array))


def _outdate(files: frozenset[Any], but: _Kept | None = None) -> None:
    """What all caches of the process keep of the files on devices, but for one."""
    for pages in list(_all):
        for one in list(pages._kept):
            if one is not but and not files.isdisjoint(one.files):
                one.stale = True


def _files(array: OpenFiles) -> frozenset[Any]:
    return frozenset(path if is_bare(path) else _number(path) for path in array.open_paths)


def _number(path: str) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _hole(array: OpenFiles) -> tuple[int, int, int]:
    """What of an array was never written, so that kernels need not read it (``DeviceStore``)."""
    paths = array.open_paths
    if len(paths) > 1 or array.volume.stripe or is_bare(paths[0]):
        return 0, 0, 0
    return 0, *hole_of(paths[0], array.file_position)
