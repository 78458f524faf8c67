"""Tables in files that native code reads an element at a time, as lists of neighbours: a CPU through the pages that their
caches keep, a GPU through a cache in its own memory (Mailthody 2022, chapter 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypedDict

import torch

from ..runtime import arguments, devices
from ..runtime.capture import require_running
from ..runtime.params import Params, struct
from ..runtime.thresholds import HOST_BUDGET, LEAST_LINES
from ..runtime.units import parse_bytes
from ..storage.cache import StorageCache
from ..storage.layout import Volume
from ..storage.on_device import Backing, DeviceStore, Queues
from ..storage.roofline import probed
from ..storage.stats import StorageStats, together
from .array import StorageArray

Through = StorageCache | DeviceStore  # what native code reads through

_ARRAY = struct("memory::ArrayWords")
# Bytes of a page by those of the budget, the first that is reached: docs/storage.md has times of the first two. A cache needs
# some pages for each of its threads.
_LINES = ((16 << 20, 16384), (256 << 10, 4096), (0, 512))


class InPlace(TypedDict, total=False):
    """Options of tables that stay in their file."""

    host_budget: int | str | None
    cache: StorageCache | None


def opener(host_budget: int | str | None = None, cache: StorageCache | None = None) -> Callable[..., StorageArray]:
    """``StorageArray.open`` through ``cache``, or through a new one of ``host_budget``, which all that it opens share."""
    if cache is None:
        budget = parse_bytes(HOST_BUDGET if host_budget is None else host_budget)
        here = budget // 2 if devices.cuda_available() else budget  # the rest is for pages on their way to a GPU
        cache = StorageCache(here, next(line for least, line in _LINES if budget >= least))
    arguments.instance("cache", cache, StorageCache, "as StorageCache(host_budget) makes")
    return partial(StorageArray.open, cache=cache)


class StoredArrays(tuple[StorageArray, ...]):
    """Tables in files that are read together."""

    @property
    def caches(self) -> list[StorageCache]:
        """Those that keep their pages, each once."""
        return list(dict.fromkeys(array.cache for array in self))

    @property
    def _volumes(self) -> list[Volume]:
        """Their files, each once, in the order in which a store has them."""
        return list(dict.fromkeys(array.volume for array in self))

    def queues(self, cache: StorageCache, shares: int = 1) -> Queues:
        """As many as a share of the host memory of ``cache`` has lines for; and no more than the disks need, where the probe
        has found how many that are (Little's law, storage/roofline.py)."""
        paths = {path for array in self if array.cache is cache for path in array.open_paths}
        known = [roofline for path in paths if (roofline := probed(path, cache.line_bytes)) is not None]
        needed = sum(roofline.needed for roofline in known) if len(known) == len(paths) else 0
        return Queues.within(cache.host_budget // shares, cache.line_bytes, needed)

    @property
    def least_bytes(self) -> int:
        """What a GPU's cache of them takes with as few lines as get on; 0 where there are none."""
        return sum(self.queues(one).device_bytes + LEAST_LINES * (one.line_bytes + 64) for one in self.caches)

    @property
    def most_bytes(self) -> int:
        """The same with lines for all, and as much room again, so that hardly a set is full."""
        return 2 * sum(array.nbytes for array in self) + self.least_bytes

    def on_device(self, device: torch.device, nbytes: int, shares: int = 1) -> DeviceStore:
        """A cache of them in so much of the device's memory. ``shares``: of how many that have the host memory of their cache
        for pages on their way."""
        cache = self[0].cache
        queues = self.queues(cache, shares)
        backings = list({array.volume: Backing.of(array) for array in self}.values())
        return DeviceStore(backings, device, nbytes - queues.device_bytes, cache.line_bytes, **queues._asdict())

    def words(self, array: StorageArray, through: Iterable[Through]) -> Params:
        """One of them as native code reads it: through a store among ``through``, or else its own cache."""
        store = next((one for one in through if isinstance(one, DeviceStore)), None)
        if store is not None:
            return store.array(array.file_position, self._volumes.index(array.volume))
        return _ARRAY(home=array.position, store=array.cache.native.address, bytes=array.dtype.itemsize)


@contextmanager
def reading(through: Iterable[Through]) -> Iterator[None]:
    """A with-block in which native code, or a kernel on the current stream, reads through these. StorageError at its end where
    a page could not be read: what was found then says nothing."""
    with ExitStack() as runs:
        for one in through:
            require_running("threads of the CPU, which serve a GPU's reads of files, do not run", "read them outside of it")
            runs.enter_context(one.live())
        yield


def moved(through: Iterable[Through]) -> StorageStats:
    """What they have moved since they were made, together."""
    return together(one.stats() for one in through)
