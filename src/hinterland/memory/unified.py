"""UnifiedTensor: a table in host memory whose rows every GPU and the CPU take alike (Min 2022, chapter 3)."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from typing import Any, Literal

import torch

from .. import _core
from ..runtime import devices
from ..runtime.errors import ConfigError
from . import faults, load, ops  # noqa: F401  (ops registers torch.ops.hinterland.gather)
from .allocator import Buffer, allocate
from .gather import copy_rows, index_bytes
from .plan import sorts, visiting_order

Index = torch.Tensor | Sequence[int]


class UnifiedTensor:
    """A tensor in host memory, row-major, with at least one dimension.

    ``ut[index]`` returns rows on the device of ``index``: a GPU reads them over the link, in pieces as small as a cache
    line. Where the memory comes from is its ``placement``: ``"mapped"``, ``"registered"`` or ``"heap"``
    (memory/allocator.py).
    """

    def __init__(self, buffer: Buffer, dtype: torch.dtype, shape: Sequence[int]) -> None:
        self._buffer = buffer
        self._cpu = buffer.tensor(dtype, torch.Size(shape))
        # Made now, not when asked for: a compiled function may only look them up.
        visible = devices.gpus() if buffer.mapping != "heap" else []
        self._cuda = {gpu.index: buffer.tensor(dtype, torch.Size(shape), gpu) for gpu in visible}
        self._row_shape = self._cpu.shape[1:]
        self._row_bytes = math.prod(self._row_shape) * dtype.itemsize
        self._rows = self._cpu.shape[0]

    @classmethod
    def empty(
        cls,
        shape: int | Sequence[int],
        dtype: torch.dtype = torch.float32,
        placement: str = "host",
        *,
        oversubscribe: bool = False,
    ) -> UnifiedTensor:
        """A table of ``shape``, its content undefined.

        Args:
            placement: ``"host"`` (the fastest that the machine offers), ``"mapped"``, ``"registered"`` (can be sent to
                other processes) or ``"heap"`` (no GPU sees it).
            oversubscribe: lets mapped memory exceed the GPU's free memory.

        Raises:
            OutOfMemory: before anything is allocated.
        """
        return cls._allocate(_shape(shape), dtype, placement, oversubscribe, touch=True)

    @classmethod
    def _allocate(
        cls, shape: tuple[int, ...], dtype: torch.dtype, placement: str, oversubscribe: bool, touch: bool
    ) -> UnifiedTensor:
        if not isinstance(dtype, torch.dtype):
            raise ConfigError(f"dtype is a torch type such as torch.float32, not {dtype!r}")
        buffer = allocate(math.prod(shape) * dtype.itemsize, placement, oversubscribe, touch)
        buffer.name = f"{str(dtype).removeprefix('torch.')} {list(shape)}"
        return cls(buffer, dtype, shape)

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, placement: str = "host", *, oversubscribe: bool = False) -> UnifiedTensor:
        """A copy of ``tensor``, made by all CPU threads where it lies in host memory."""
        if not isinstance(tensor, torch.Tensor):
            raise ConfigError(f"a table is made from a torch tensor, not {type(tensor).__name__}; use torch.as_tensor")
        if tensor.layout != torch.strided or tensor.is_meta:
            kind = "no data (meta)" if tensor.is_meta else f"the layout {tensor.layout}"
            raise ConfigError(f"a table is made from a dense tensor with data, and this one has {kind}; use tensor.to_dense()")
        if tensor.dim() == 0:
            _shape(())
        made = cls._allocate(tuple(tensor.shape), tensor.dtype, placement, oversubscribe, touch=False)
        source = tensor.detach()
        if source.is_cpu and source.is_contiguous() and not source.is_neg() and not source.is_conj():
            _core.copy_bytes(made._cpu.data_ptr(), source.data_ptr(), made.nbytes)
        else:
            made._cpu.copy_(source)
        return made

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
        offset: int = 0,
        placement: str = "host",
        oversubscribe: bool = False,
    ) -> UnifiedTensor:
        """The tensor of a ``.npy`` file, a torch file or raw binary, read by many threads into its final place.

        Args:
            dtype, shape: of raw binary; one dimension may be -1. The content decides what the file is, not its name: a
                ``.npy`` without numpy's header is raw binary.
            offset: bytes before the content.

        Raises:
            FormatError: the file is damaged, or promises more than it holds; nothing has been allocated then.
            ConfigError: raw binary without ``dtype`` and ``shape``, or a file of another type or shape than asked for.
            StorageError: the file is missing or cannot be read.
            OutOfMemory: before anything is allocated.
        """
        path = os.fsdecode(path)
        stored = load.locate(path, dtype, None if shape is None else load.asked_shape(shape), offset)
        made = cls._allocate(stored.shape, stored.dtype, placement, oversubscribe, touch=False)
        made._buffer.name += f" from {path}"
        _core.read_file(path, stored.offset, made._cpu.data_ptr(), stored.nbytes)
        return made

    def view(self, shape: int | Sequence[int], dtype: torch.dtype | None = None) -> UnifiedTensor:
        """The same memory, from its beginning on, in other dimensions or as another type; it may leave a rest.

        Raises:
            ConfigError: ``shape`` and ``dtype`` take more bytes than there are.
        """
        dtype = self.dtype if dtype is None else dtype
        shape = _shape(shape)
        if math.prod(shape) * dtype.itemsize > self._buffer.nbytes:
            raise ConfigError(f"{self._buffer.nbytes} bytes cannot be viewed as {dtype} of shape {shape}")
        return UnifiedTensor(self._buffer, dtype, shape)

    @property
    def shape(self) -> torch.Size:
        """Its dimensions; the first counts the rows."""
        return self._cpu.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of its elements."""
        return self._cpu.dtype

    @property
    def ndim(self) -> int:
        """How many dimensions it has, at least one."""
        return self._cpu.ndim

    @property
    def nbytes(self) -> int:
        """Bytes of all rows; a view may be smaller than the memory that it keeps."""
        return self._cpu.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: of ``ut[0]``."""
        return self._row_bytes

    @property
    def placement(self) -> str:
        """``"mapped"``, ``"registered"`` or ``"heap"``: what ``placement="host"`` has become here."""
        return self._buffer.mapping

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"UnifiedTensor(shape={tuple(self.shape)}, dtype={self.dtype}, placement={self.placement!r})"

    def cpu(self) -> torch.Tensor:
        """The table as a CPU tensor: the same memory."""
        return self._cpu

    def cuda(self, device: torch.device | str | int | None = None) -> torch.Tensor:
        """The table as a CUDA tensor over the same host memory, for any torch operation: nothing is copied."""
        if devices.cuda_available() and not self._cuda:
            raise ConfigError("heap memory is not visible to GPUs; make the table with placement='host'")
        return self._cuda[devices.as_device("cuda" if device is None else device).index]

    def __getitem__(self, index: Any) -> torch.Tensor:
        """Rows as a new tensor on the index's device; an int or a slice gives a view on the CPU, as torch does."""
        if isinstance(index, torch.Tensor):
            if torch.compiler.is_compiling() or self._cpu.requires_grad:
                table = self._cuda[index.device.index] if index.is_cuda else self._cpu
                return torch.ops.hinterland.gather(table, index)
            return self.gather(index)
        if isinstance(index, int | slice) and not isinstance(index, bool):
            if isinstance(index, int) and not -self._rows <= index < self._rows:
                raise faults.out_of_range(0, index, self._rows, 1)
            return self._cpu[index]
        if isinstance(index, list):
            return self[_numbers(index)]
        raise ConfigError(f"a table is indexed by rows: a tensor, a list, an int or a slice, not {index!r}; see ut.cpu()")

    def gather(
        self,
        index: Index,
        out: torch.Tensor | None = None,
        stream: torch.cuda.Stream | None = None,
        max_blocks: int | None = None,
        check: Literal["sync", "async"] = "sync",
        sort: bool | Literal["auto"] = "auto",
    ) -> torch.Tensor:
        """Rows at ``index``: shape ``index.shape + shape[1:]``, on the index's device.

        Args:
            index: int32 or int64, any shape; -1 is the last row.
            out: contiguous tensor of that shape and type to write to, instead of a new one.
            stream: where the GPU does it, instead of the current stream; the index and ``out`` must be ready there.
            max_blocks: blocks of 1024 threads that the GPU may use, so that other kernels find room (Min 2022, section
                3.3.2); by default a quarter as many as it has multiprocessors, and 8 fill the link with rows of 512 bytes.
            check: ``"sync"`` waits for the rows and raises IndexOutOfRange here; ``"async"`` returns at once, and the
                next call on that GPU, or ``synchronize()``, raises. Rows of bad indices are zero.
            sort: whether the GPU visits rows in the order of their pages; the caller's order is returned in any case.
                ``"auto"`` sorts where it is predicted to be faster (memory/plan.py).

        Raises:
            IndexOutOfRange: naming the first bad position, its value, and the table's rows.
            ConfigError: an index, ``out`` or option that cannot be used.
        """
        if stream is not None:
            with torch.cuda.stream(stream):
                rows = self.gather(index, out, None, max_blocks, check, sort)
            if rows.is_cuda and isinstance(index, torch.Tensor):
                # Whichever stream is done with them first must leave them to the other.
                rows.record_stream(torch.cuda.current_stream(rows.device))
                rows.record_stream(stream)
                index.record_stream(stream)
            return rows
        index, table = self._reach(index)
        shape = index.shape + self._row_shape
        if out is None:
            out = torch.empty(shape, dtype=self._cpu.dtype, device=index.device)
        else:
            _require(out, "out", shape, self._cpu.dtype, index.device)
            self._require_apart(out, "out")
        if sort not in (True, False, "auto"):
            raise ConfigError(f"sort={sort!r} is none of True, False and 'auto'")
        visit = None
        if index.is_cuda and (sort is True or (sort == "auto" and self._sorts(index.numel()))):
            visit = visiting_order(index.view(-1), self._row_bytes, self.nbytes)
        copy_rows(table, self._rows, self._row_bytes, out, index, visit=visit, max_blocks=max_blocks, check=check)
        return out

    def scatter_(
        self,
        index: Index,
        rows: torch.Tensor,
        *,
        max_blocks: int | None = None,
        check: Literal["sync", "async"] = "sync",
    ) -> UnifiedTensor:
        """Writes ``rows`` (shape ``index.shape + shape[1:]``) to the table; a GPU writes over the link.

        Where an index is repeated, its rows are written at once: each byte comes from one of them, not all from the same.
        Rows of bad indices are left out.

        Args:
            index: int32 or int64, any shape; -1 is the last row.
            rows: of the table's type, on the index's device, not in the table's own memory.
            max_blocks, check: as in ``gather``.

        Returns:
            The table itself.

        Raises:
            IndexOutOfRange: naming the first bad position, its value, and the table's rows.
            ConfigError: an index of another type, or rows of another shape, type or device.
        """
        index, table = self._reach(index)
        if isinstance(rows, torch.Tensor):
            rows = rows.resolve_conj().resolve_neg().contiguous()
        _require(rows, "rows", index.shape + self._row_shape, self._cpu.dtype, index.device)
        self._require_apart(rows, "rows")
        copy_rows(table, self._rows, self._row_bytes, rows, index, into_table=True, max_blocks=max_blocks, check=check)
        return self

    def synchronize(self) -> None:
        """Waits for what was started with ``check="async"``, and raises IndexOutOfRange if it met a bad index."""
        faults.synchronize()

    def __reduce__(self) -> tuple[Any, ...]:
        """Sends a registered table to another process, where it is the same memory (multiprocessing)."""
        return UnifiedTensor, (self._buffer, self.dtype, tuple(self.shape))

    def _reach(self, index: Index) -> tuple[torch.Tensor, int]:
        """The index as a contiguous tensor, and the table's address on its device."""
        if not isinstance(index, torch.Tensor):
            index = _numbers(index)
        index_bytes(index)
        if index.is_cuda:
            if not self._cuda:
                self.cuda()
        elif not index.is_cpu:
            raise ConfigError(f"row numbers are on {index.device}; use a CPU or CUDA tensor")
        return index if index.is_contiguous() else index.contiguous(), self._buffer.address

    def _require_apart(self, tensor: torch.Tensor, name: str) -> None:
        """Rows are copied by many threads in no order, so a copy within the table has no defined result."""
        begin, own = tensor.data_ptr(), self._buffer.address
        if tensor.numel() and begin < own + self._buffer.nbytes and own < begin + tensor.nbytes:
            raise ConfigError(f"{name} lies in the table's own memory; copy it first, as in {name}.clone()")

    def _sorts(self, rows: int) -> bool:
        return sorts(self._buffer.mapping, rows, self._row_bytes, self.nbytes)


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(n) for n in ((shape,) if isinstance(shape, int) else shape))
    except TypeError:
        raise ConfigError(f"a table's shape is made of whole numbers, not {shape!r}") from None
    if not sizes or any(n < 0 for n in sizes):
        raise ConfigError(f"a table has at least one dimension and none below 0, not shape {sizes}")
    return sizes


def _numbers(index: Sequence[int]) -> torch.Tensor:
    """Row numbers that are not in a tensor yet."""
    try:
        return torch.tensor(index, dtype=None if len(index) else torch.int64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"row numbers are a tensor or a list of integers, not {index!r:.80}: {error}") from None


def _require(tensor: torch.Tensor, name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise ConfigError(f"{name} must be a torch tensor, not {type(tensor).__name__}; use torch.as_tensor")
    if tensor.is_conj() or tensor.is_neg():
        raise ConfigError(f"{name} is a lazily conjugated or negated view; use {name}.resolve_conj().resolve_neg()")
    if tensor.shape != shape or tensor.dtype != dtype or tensor.device != device or not tensor.is_contiguous():
        raise ConfigError(
            f"{name} must be a contiguous {dtype} tensor of shape {tuple(shape)} on {device}, not {tensor.dtype} of "
            f"shape {tuple(tensor.shape)} on {tensor.device}"
        )
