"""Tables in files that native code reads an element at a time, as lists of neighbours: a CPU through the pages that their
caches keep, a GPU through a cache in its own memory (Mailthody 2022, chapter 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict

import torch

from ..runtime import arguments, devices
from ..runtime.capture import require_running
from ..runtime.params import Params, struct
from ..runtime.thresholds import HOST_BUDGET
from ..runtime.units import format_bytes, parse_bytes
from ..storage.cache import StorageCache
from ..storage.on_device import MOST_QUEUES, DeviceStore
from ..storage.stats import StorageStats, together
from .array import StorageArray


@dataclass(frozen=True)
class FileOnDevice:
    """The files of an array as a GPU reads them: through what it keeps of them for all its kernels (``DevicePages``).

    Attributes:
        budget: bytes of its memory for that, if it is made for this, where its cache says none.
    """

    cache: StorageCache
    origin: int
    device: torch.device
    array: StorageArray = field(compare=False)
    budget: int | None = field(compare=False)

    def live(self) -> AbstractContextManager[DeviceStore]:
        """A with-block in which kernels on the current stream read them, as of ``DevicePages.live``."""
        return self.cache.on_devices.live(self.array, self.device, self.budget)

    def stats(self) -> StorageStats:
        """What was moved since the files were opened."""
        return self.cache.on_devices.stats(self.device, self.origin)

    def explain(self) -> str:
        """What of the GPU's memory it takes, and whose that is, in a sentence."""
        return f"{format_bytes(self.nbytes)} of {self.device} keep what was read of {self.array.path}, beside any gpu_budget"

    @property
    def nbytes(self) -> int:
        """Bytes of the GPU's memory that are taken."""
        return sum(store.nbytes for store in self.cache.on_devices.stores(self.device, self.origin))


Through = StorageCache | FileOnDevice  # what native code reads through

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
    def files(self) -> list[StorageArray]:
        """An array of each of their files."""
        return list({(array.cache, array.origin): array for array in self}.values())

    @property
    def most_bytes(self) -> int:
        """What a GPU keeps of them: lines for all, and as much room again, so that hardly a set is full; or what their
        caches say."""
        said = [array.cache.on_devices.budget for array in self.files]
        most = 2 * sum(array.nbytes for array in self) + len(said) * MOST_QUEUES.device_bytes
        return most if None in said else min(most, sum(filter(None, said)))

    def on_device(self, device: torch.device, budget: int | None) -> list[Through]:
        """Their files as a GPU reads them. ``budget``: bytes for each that it keeps nothing of, where its cache says none."""
        said = [(one, one.cache.on_devices.budget) for one in self.files]
        return [FileOnDevice(one.cache, one.origin, device, one, budget if own is None else own) for one, own in said]

    def words(self, array: StorageArray, through: Iterable[Through]) -> Params:
        """One of them as native code reads it: as a GPU does if that is among ``through``, or else through its own cache."""
        for one in through:
            if isinstance(one, FileOnDevice) and (one.cache, one.origin) == (array.cache, array.origin):
                return array.cache.on_devices.words(array, one.device, one.budget)
        return _ARRAY(home=array.position, store=array.cache.native.address, bytes=array.dtype.itemsize)


@contextmanager
def reading(through: Iterable[Through]) -> Iterator[None]:
    """A with-block in which native code, or a kernel on the current stream, reads through these. StorageError at its end where
    a page could not be read: what was found then says nothing."""
    with ExitStack() as runs:
        for one in sorted(through, key=_order):
            require_running("threads of the CPU, which serve a GPU's reads of files, do not run", "read them outside of it")
            runs.enter_context(one.live())
        yield


def _order(one: Through) -> tuple[int, int]:
    """In which files are taken, so that no two runs wait for each other."""
    return (id(one.cache), one.origin) if isinstance(one, FileOnDevice) else (id(one), 0)


def moved(through: Iterable[Through]) -> StorageStats:
    """What they have moved since they were made, together."""
    return together(one.stats() for one in through)
