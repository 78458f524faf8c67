"""What devices keep of the files of a StorageCache: one cache for each device and file, which all kernels of the process share
(Mailthody 2022, section 5.3)."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

import torch

from .layout import is_bare
from .on_device import Backing, DeviceStore, OpenFiles, Queues, hole_of
from .roofline import probed
from .stats import StorageStats, together

_MOST_THREADS = 4  # that serve a file's queues
_ROOM = 2  # lines for each page of a file, so that hardly a set is full
_SET = 8 * 64  # bytes of a set beside its frames, at the most
_all: WeakSet[DevicePages] = WeakSet()


@dataclass(frozen=True, eq=False)
class _Kept:
    """What a device keeps of the files at ``origin``, and which files these are, whatever they are called."""

    device: torch.device
    origin: int
    files: frozenset[Any]
    store: DeviceStore


class DevicePages:
    """Those of one StorageCache. A store is made when a kernel first reads its file on its device. It stays until the last
    array of the file is closed, or until something else has written to the file: then the next kernel makes another.

    Args:
        native: the cache in host memory, whose budget also bounds what is on its way.
        budget: bytes of a device's memory for each file.
    """

    def __init__(self, native: Any, budget: int) -> None:
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
            self._gone = {key: stats for key, stats in self._gone.items() if key[1] != origin}
        self._let_go(lambda one: one.origin == origin, counted=False)

    @contextmanager
    def live(
        self, array: OpenFiles, device: torch.device, budget: int | None = None, after: ExitStack | None = None
    ) -> Iterator[DeviceStore]:
        """A with-block in which kernels on the current stream read an array's files through the cache that ``device`` has of
        them, or write to them. Its end waits for the stream, and what was written is in the files then, on the disk.

        Args:
            budget: bytes of a cache that is made for this, where not those of all. One that is there stays as it is.
            after: given where kernels write, by who has ``StorageCache.writing``. It ends once the caller uses no store any
                more, and lets go what others keep of the files: kernels that use that may wait for the caller's stores.

        Raises:
            StorageError, IndexOutOfRange: as of ``DeviceStore.live`` and ``flush``. After a block that writes nothing is kept.
            ConfigError, OutOfMemory: as making a store does.
        """
        self._native.require_same_process()
        kept: _Kept | None = None
        try:
            with ExitStack() as run:
                with self._lock:
                    kept = self._kept_of(array, device, self.budget if budget is None else budget)
                    run.enter_context(kept.store.live())
                if after is not None:
                    after.callback(_let_go_elsewhere, kept.files, kept)
                    run.callback(self._settle, kept)
                yield kept.store
        except BaseException:
            if after is not None:  # kept for later, it would overwrite what is written until then
                after.callback(self._let_go, lambda one: one is kept)
            raise

    def _settle(self, kept: _Kept) -> None:
        """Has what kernels wrote in the files, and nothing older in host memory."""
        try:
            kept.store.flush()
        finally:
            self._native.forget_pages(kept.origin)

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
            return [one.store for one in self._kept if (one.device, one.origin) == (device, origin)]

    def _has_any(self) -> bool:
        """Whether a device keeps pages, or is about to: a store that is being made reads files as they were before."""
        with self._lock:
            return bool(self._kept)

    def _kept_of(self, array: OpenFiles, device: torch.device, budget: int) -> _Kept:
        """What a device keeps of an array's files, from now on. The caller has the lock."""
        found = next((one for one in self._kept if (one.device, one.origin) == (device, array.origin)), None)
        if found is None:
            found = _Kept(device, array.origin, _files(array), self._made(array, device, budget))
            self._kept.append(found)
        return found

    def _made(self, array: OpenFiles, device: torch.device, budget: int) -> DeviceStore:
        for pages in list(_all):  # a device reads files, of which any cache may have newer pages
            if "r+" in pages._modes.values() and pages._native.is_own:
                pages._native.flush()
        line_bytes, paths = self._native.line_bytes, array.open_paths
        known = [probed(path, line_bytes) for path in paths]
        needed = sum(one.needed for one in known if one is not None) if all(known) else 0
        queues = Queues.within(self._native.bytes // len(self._opened), line_bytes, needed, budget // 4)
        lines = max(queues.rest_of(budget), 0)
        if not any(map(is_bare, paths)):  # a device's size is not its file's
            lines = min(lines, _ROOM * sum(os.stat(path).st_size for path in paths) + 8 * line_bytes + _SET)
        mode = self._modes[array.origin]
        threads = min(queues.channels, _MOST_THREADS)
        hole = _hole(array) if mode == "r+" else (0, 0, 0)
        how: Any = {"mode": mode, "gives_up": True, "hole": hole, "threads": threads, **queues._asdict()}
        return DeviceStore(Backing.of(array, mode), device, lines, line_bytes, **how)

    def _let_go(self, which: Callable[[_Kept], bool], counted: bool = True) -> None:
        """Some stores, once kernels have ended that use them: the next kernel makes others."""
        with self._lock:
            gone = [one for one in self._kept if which(one)]
            self._kept = [one for one in self._kept if one not in gone]
        for one in gone:
            one.store.discard()
            if counted:
                with self._lock:
                    key = one.device, one.origin
                    self._gone[key] = together([one.store.stats(), *([self._gone[key]] if key in self._gone else [])])


def written(array: OpenFiles) -> None:
    """An array's files have other bytes now: what devices keep of them is let go."""
    if any(pages._native.is_own and pages._has_any() for pages in list(_all)):
        _let_go_elsewhere(_files(array))


def _let_go_elsewhere(files: frozenset[Any], but: _Kept | None = None) -> None:
    """What all caches of the process keep of the files on devices, but for one."""
    for pages in list(_all):
        if pages._native.is_own and pages._has_any():
            pages._let_go(lambda one: one is not but and not files.isdisjoint(one.files))


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
