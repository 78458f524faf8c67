"""Kernels of the user's own, over arrays wherever they lie (BaM's array, Mailthody 2022, section 5.3.3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, IndexOutOfRange, StorageError
from ..runtime.launch import launch_packed
from ..runtime.repr import Repr
from ..runtime.units import parse_bytes
from ..storage.layout import Volume, is_bare
from ..storage.on_device import DeviceStore
from ..table import StorageArray
from . import on_cpu, signature
from .arguments import CallArguments, device_of, layout
from .source import Text

_MOST_THREADS = 1024  # of a block
_MOST_BLOCKS = 2**31 - 1
_LEFT_OUT_WORDS = 3  # include/hinterland/storage/calls.hpp


class Kernel(Repr):
    """A kernel that can be called. :func:`kernel` makes one."""

    def __init__(self, source: str, name: str | None, cache: int | str | None) -> None:
        if not isinstance(source, str):
            raise ConfigError(f"a kernel is made of a text in CUDA C++, not of {arguments.repr_of(source)}")
        if name is not None:
            arguments.instance("name", name, str, "as that of a kernel in the text")
        self._source = source
        self.signature = signature.find(source, name)
        self._layout = layout(self.signature)
        self.cache = None if cache is None else parse_bytes(cache)
        self._texts: dict[int, Text] = {}
        self._on_cpu: dict[int, int] = {}  # addresses of what was compiled for it

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
            StorageError: what lies on storage could not be read or written. What the kernel wrote is in the files, on the disk,
                once ``flush()`` of the array has returned, or it is closed; who reads it in this process finds it before.
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
            with ExitStack() as held:
                for _, table in sorted(given.requested.items()):
                    held.enter_context(table.requesting())
                if not given.stored:
                    self._run(given, where, blocks, block)
                    return
                left_out = torch.zeros(_LEFT_OUT_WORDS, dtype=torch.int64, device=where)
                for place, _ in given.named:
                    given.values[place].left_out = left_out.data_ptr()
                for _, cache in sorted({id(array.cache): array.cache for array in given.written}.items()):
                    held.enter_context(cache.writing)
                with self._live(given, where):
                    self._run(given, where, blocks, block)
            self._require_none_left_out(given, left_out)

    def _require_none_left_out(self, given: CallArguments, left_out: torch.Tensor) -> None:
        """IndexOutOfRange where the kernel asked for an element that its array does not have (``storage::LeftOut``)."""
        which, at, _ = left_out.tolist()
        if which == 0:
            return
        number, does = which >> 2, ("reads", "writes", "uses")[(which & 3) - 1]
        named, name = dict(given.named)[number], self.signature.parameters[number].name
        raise IndexOutOfRange(
            f"{self.name} {does} {name}[{at}], and {named} has {given.values[number].size} elements: what lies outside is not "
            f"written and reads as zero, and all else was written; compare numbers with {name}.size()"
        )

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
    def _live(self, given: CallArguments, device: torch.device) -> Iterator[None]:
        """A with-block in which arrays on storage are read and written through what the device keeps of their files, and their
        words say so."""
        files: dict[Volume, list[StorageArray]] = {}
        for _, array in given.stored:
            _require_piece(self.name, array)
            files.setdefault(array.volume, []).append(array)
        for array in given.written:
            if array.cache.stats().pinned:
                raise ConfigError(f"{self.name} writes to {array.path}, in whose cache pages are pinned; unpin them first")
        writers = {id(array) for array in given.written}
        # The writer's cache of a file serves those who only read it, too.
        owners = [min(arrays, key=lambda one: (id(one) not in writers, one.mode == "r")) for arrays in files.values()]
        budget = None if self.cache is None else self.cache // len(owners)
        stores: dict[Volume, DeviceStore] = {}
        with ExitStack() as runs:
            # In an order of its own, so that no two calls wait for each other.
            for array in sorted(owners, key=lambda one: (id(one.cache), one.origin)):
                writes = id(array) in writers
                stores[array.volume] = runs.enter_context(array.cache.on_devices.live(array, device, budget, writes=writes))
            for place, array in given.stored:
                words, store = given.values[place], stores[array.volume]
                words.home, words.store = store.array(array.file_position).home, store.address
                words.row_elements = store.line_bytes // array.dtype.itemsize
            yield

    def _facts(self) -> dict[str, Any]:
        return {"kernel": self.signature.text}


def kernel(source: str, name: str | None = None, *, cache: int | str | None = None) -> Kernel:
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
        cache: bytes of the device's memory for pages of the files of a call, as ``"1GiB"``, to equal parts. A file of which the
            device has pages already keeps the cache that it has. None is the ``device_budget`` of each file's StorageCache.

    Raises:
        ConfigError: a text without a kernel, or one that takes what cannot be passed.
    """
    return Kernel(source, name, cache)


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
