"""Kernels of the user's own, over arrays wherever they lie (BaM's array, Mailthody 2022, section 5.3.3)."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, IndexOutOfRange, StorageError
from ..runtime.launch import launch_packed
from ..runtime.repr import Repr
from ..runtime.units import parse_bytes
from ..storage.layout import is_bare
from ..storage.on_device import Backing, DeviceStore, Queues, hole_of
from ..table import StorageArray
from . import on_cpu, signature
from .arguments import CallArguments, device_of, layout
from .source import Text

_MOST_THREADS = 1024  # of a block
_MOST_BLOCKS = 2**31 - 1
_made: weakref.WeakSet[Kernel] = weakref.WeakSet()


def _anew_in_child() -> None:
    """A thread that called a kernel while the process was forked is not in the child, nor those that serve its cache."""
    for kernel in _made:
        kernel._one_at_a_time, kernel._store = threading.Lock(), None


os.register_at_fork(after_in_child=_anew_in_child)


class Kernel(Repr):
    """A kernel that can be called. :func:`kernel` makes one."""

    def __init__(self, source: str, name: str | None, cache: int | str) -> None:
        if not isinstance(source, str):
            raise ConfigError(f"a kernel is made of a text in CUDA C++, not of {arguments.repr_of(source)}")
        if name is not None:
            arguments.instance("name", name, str, "as that of a kernel in the text")
        self._source = source
        self.signature = signature.find(source, name)
        self._layout = layout(self.signature)
        self.cache = parse_bytes(cache)
        self._texts: dict[int, Text] = {}
        self._on_cpu: dict[int, int] = {}  # addresses of what was compiled for it
        self._store: tuple[tuple[torch.device, list[StorageArray]], DeviceStore] | None = None
        self._one_at_a_time = threading.Lock()
        _made.add(self)

    @property
    def name(self) -> str:
        """Of the kernel, as the text has it."""
        return self.signature.name

    def __call__(
        self, *passed: Any, grid: int | None = None, block: int = 256, device: torch.device | str | int | None = None
    ) -> None:
        """Queues the kernel on the current stream of the device where its tensors are; or runs it, on the CPU. Where an array
        lies on storage it waits until the kernel has ended.

        Args:
            passed: for each parameter, in order. ``array<T>`` takes a tensor, a UnifiedTensor or a StorageArray whose mode is
                ``"r+"``; ``array<const T>`` any StorageArray, and also a TieredTensor or a CachedTensor, whose elements have
                the numbers that they would have in a flat tensor; ``T*`` a tensor or a UnifiedTensor; and T a number. Elements
                are of the type T, or of its size with another sign. Where no array lies on storage, who indexes one beyond its
                end reads or writes what is there, as with a pointer.
            grid: blocks; None is enough for a thread for each element of the longest array.
            block: threads of each, from 1 to 1024.
            device: where it runs, if no tensor says so; None is the current GPU, or the CPU without one.

        Raises:
            ConfigError: too few arguments or too many, one of another type, on another device, not in one piece, or one that
                the kernel may not write; or the text does not compile, which says where.
            DeviceError: the GPU refuses; or there is no GPU, and no C++ compiler either.
            IndexOutOfRange: an array lies on storage, and the kernel asked for an element that this array, or another, does not
                have. It reads as zero and is not written; everything else is.
            StorageError: what lies on storage could not be read or written. Otherwise what was written is in the files, on the
                disk, when this returns. All that could be written is also where something could not be, which is lost.
        """
        wanted = self.signature.parameters
        if len(passed) != len(wanted):
            raise ConfigError(
                f"{self.name} takes {len(wanted)} arguments, {self.signature.text}, and was called with {len(passed)}"
            )
        block = arguments.whole_number("block", block, 1, _MOST_THREADS)
        where = device_of(self.name, passed, device)
        with devices.on(where):
            given = CallArguments.of(self.signature, passed, where)
            blocks = -(-given.longest // block) if grid is None else grid
            blocks = arguments.whole_number("grid", blocks, 0, _MOST_BLOCKS)
            if blocks == 0:
                return
            if not given.stored:
                self._run(given, where, blocks, block)
                return
            with self._cached(given, where) as store:
                with store.live():
                    self._run(given, where, blocks, block)
                if (beside := store.take_beside()) is not None:
                    raise self._beside(given, *beside)

    def _beside(self, given: CallArguments, number: int, does: str, at: int) -> IndexOutOfRange:
        """What is raised where the kernel asks for an element that its array does not have (``DeviceStore.take_beside``)."""
        named = dict(given.named)[number]
        name = self.signature.parameters[number].name
        return IndexOutOfRange(
            f"{self.name} {does} {name}[{at}], and {named} has {given.values[number].size} elements: what lies outside is not "
            f"written and reads as zero, and all else was written; compare numbers with {name}.size()"
        )

    def release(self) -> None:
        """Frees the cache of what was read from storage, which otherwise stays for the next call."""
        with self._one_at_a_time:
            self._close()

    def _run(self, given: CallArguments, device: torch.device, grid: int, block: int) -> None:
        kinds, text = given.kinds, self._text(given.kinds)
        params = given.struct(self._layout)
        if device.type == "cpu":
            if kinds not in self._on_cpu:
                self._on_cpu[kinds] = on_cpu.compiled(text)
            _core.run_blocks(self._on_cpu[kinds], params.address, grid, block)
        else:
            launch_packed(text, self.name, device, grid, block, params)

    def _text(self, kinds: int) -> Text:
        if kinds not in self._texts:
            self._texts[kinds] = Text.of(self.signature, self._source, kinds)
        return self._texts[kinds]

    @contextmanager
    def _cached(self, given: CallArguments, device: torch.device) -> Iterator[DeviceStore]:
        """The cache through which the kernel reads and writes arrays on storage, and their words in it. It stays for the next
        call with the same arrays; where they are open for writing it does not, since it would not see what is written."""
        arrays = [array for _, array in given.stored]
        for array in arrays:
            array.cache.native.require_same_process()
        volumes = list(dict.fromkeys(array.volume for array in arrays))
        may_change = any(array.mode != "r" for array in arrays)
        caches = {id(array.cache): array.cache for array in given.written}
        with ExitStack() as held:
            held.enter_context(self._one_at_a_time)  # another call might need the cache's memory for other arrays
            for _, cache in sorted(caches.items()):
                held.enter_context(cache.writing)
            if self._store is None or not _same(self._store[0], (device, arrays)):
                self._close()
                self._store = (device, arrays), self._made(given, volumes, device)
            store = self._store[1]
            for place, array in given.stored:
                given.values[place].home = store.array(array.file_position, volumes.index(array.volume)).home
            for place, _ in given.named:
                given.values[place].store = store.address
            try:
                yield store
            finally:
                try:
                    if may_change:
                        self._close()
                finally:
                    for array in given.written:
                        array.was_written()

    def _made(self, given: CallArguments, volumes: list[Any], device: torch.device) -> DeviceStore:
        arrays = [array for _, array in given.stored]
        for array in arrays:
            _require_piece(self.name, array)
            if array.mode != "r":
                array.flush()
        for array in given.written:
            if array.cache.stats().pinned:
                raise ConfigError(f"{self.name} writes to {array.path}, in whose cache pages are pinned; unpin them first")
        writers_first = sorted(arrays, key=lambda array: array.mode == "r")
        backings = [Backing.of(next(array for array in writers_first if array.volume == volume)) for volume in volumes]
        line_bytes = arrays[0].line_bytes
        queues = Queues.within(min(array.cache.host_budget for array in arrays), line_bytes)
        mode: Literal["r", "r+"] = "r+" if given.written else "r"
        hole = max((_hole(volumes, array) for array in given.written), key=lambda one: one[2] - one[1], default=(0, 0, 0))
        budget = self.cache - queues.device_bytes
        if budget <= 0:
            raise ConfigError(
                f"{self.name}: of {self.cache} bytes queues take {queues.device_bytes}, and the cache has none; give more, as "
                "cache='256MiB'"
            )
        # What is not written now is lost: kept for later it would overwrite what is written until then.
        return DeviceStore(backings, device, budget, line_bytes, mode=mode, gives_up=True, hole=hole, **queues._asdict())

    def _close(self) -> None:
        before, self._store = self._store, None
        if before is not None:
            before[1].close()

    def _facts(self) -> dict[str, Any]:
        return {"kernel": self.signature.text} | ({"cache": self._store[1]} if self._store is not None else {})


def kernel(source: str, name: str | None = None, *, cache: int | str = "256MiB") -> Kernel:
    """A kernel of a text in CUDA C++, to be called with tensors and tables (BaM's array, Mailthody 2022, listing 5.3)::

        add = hl.kernel('''
            __global__ void add(array<const float> a, array<const float> b, array<float> c) {
              const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
              if (i < c.size()) c[i] = a[i] + b[i];
            }
        ''')
        add(a, b, c)

    ``array<T>`` is one type for what lies in GPU memory, in host memory (UnifiedTensor), in host memory with rows kept on
    the GPU (TieredTensor, CachedTensor) and on storage with a cache (StorageArray). The text is compiled when it is first
    called, for the kinds of arrays that it is called with, and kept on disk: by NVRTC for a GPU, and for the CPU by its C++
    compiler, where a block's threads run one after the other. It may include the headers of ``hinterland``.

    Args:
        source: the text. What it takes is found in it: ``array<T>``, ``T*`` and T, where T is float, double, half, bfloat16,
            bool or a whole number, and const where nothing is written.
        name: of the kernel, where the text has several.
        cache: bytes of the device's memory for what it reads from storage and writes there, as ``"1GiB"``.

    Raises:
        ConfigError: a text without a kernel, or one that takes what cannot be passed.
    """
    return Kernel(source, name, cache)


def _same(held: tuple[torch.device, list[StorageArray]], asked: tuple[torch.device, list[StorageArray]]) -> bool:
    """Whether they are the same objects: arrays are compared by their elements otherwise."""
    return held[0] == asked[0] and list(map(id, held[1])) == list(map(id, asked[1]))


def _hole(volumes: list[Any], array: StorageArray) -> tuple[int, int, int]:
    """What of an array was never written, so that kernels need not read it (``DeviceStore``)."""
    paths, volume = array.open_paths, array.volume
    if len(paths) > 1 or volume.stripe or is_bare(paths[0]):
        return 0, 0, 0
    return volumes.index(volume), *hole_of(paths[0], array.file_position)


def _require_piece(name: str, array: StorageArray) -> None:
    if not array.is_in_one_piece or array.file_position % array.dtype.itemsize:
        raise ConfigError(
            f"{name}: the rows of {array.path} do not lie in one piece at a multiple of their elements' size; write them as "
            ".npy, safetensors or one record batch"
        )
    end = array.file_position + array.nbytes
    for path, name_there in zip(array.open_paths, array.volume.paths, strict=True):
        if not array.volume.stripe and not is_bare(path) and os.stat(path).st_size < end:  # kernels would read zeros there
            raise StorageError(
                f"{name_there} has become shorter: its rows end at byte {end}, and it has {os.stat(path).st_size}"
            )
