"""Memory that exists already, for a table: a tensor's, an array's, a file's mapping. Nothing is copied.

With a GPU it is registered, once for all tables that are over the same bytes, until the last of these is gone.
Where CUDA refuses, no GPU sees it (``pageable``), and the buffer says why.
"""

from __future__ import annotations

import bisect
import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import reduction
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, DeviceError, HinterlandError
from . import cuda
from .allocator import Buffer, holding, require_room
from .registry import lock

_COPY = "UnifiedTensor.from_tensor(tensor) makes a copy"
_IN_MEMORY = ("/dev/shm/", "/memfd:", "/SYSV")  # what has a file's number, and lies in memory


@dataclass(frozen=True, eq=False)
class Existing:
    """Elements that lie one beside the other, row-major, in memory that ``owner`` keeps."""

    owner: Any
    address: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    writable: bool

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


def existing(given: Any) -> Existing:
    """What a table can stand on: a tensor in host memory, a numpy array, or what has the buffer protocol or
    ``__array_interface__``.

    Raises:
        ConfigError: what lies elsewhere, is not contiguous, or of a type that would have to be converted.
    """
    found = _of_tensor(given) if isinstance(given, torch.Tensor) else _of_array(_as_array(given))
    if found.address % found.dtype.itemsize and found.nbytes:
        raise ConfigError(
            f"the memory begins at address {found.address:#x}, which is no multiple of {found.dtype.itemsize}, the bytes of an "
            f"element of {found.dtype}; {_COPY}"
        )
    return found


def _of_tensor(given: torch.Tensor) -> Existing:
    tensor = arguments.dense("tensor", given).detach()
    if not tensor.is_cpu:
        raise ConfigError(f"tensor is on {tensor.device}, and over() takes host memory; {_COPY}")
    if not tensor.is_contiguous() or tensor.is_neg() or tensor.is_conj():
        raise ConfigError(
            f"tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not contiguous, or a lazy view, and "
            f"over() copies nothing; {_COPY}"
        )
    begin = tensor.data_ptr()
    writable = all(part.writable for part in _mapped(begin, begin + tensor.nbytes))
    return Existing(tensor, begin, tensor.dtype, tuple(tensor.shape), writable)


def _as_array(given: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(given if hasattr(given, "__array_interface__") else memoryview(given))
    except (TypeError, ValueError):
        raise ConfigError(
            f"tensor is {arguments.repr_of(given)}, which gives no memory to be read where it lies; give a tensor, an array, "
            f"or what has the buffer protocol; {_COPY}"
        ) from None


def _of_array(array: np.ndarray[Any, Any]) -> Existing:
    if not array.flags.c_contiguous:
        raise ConfigError(
            f"array of shape {array.shape} and strides {array.strides} is not contiguous row by row, and over() copies "
            f"nothing; {_COPY}, as of torch.from_numpy(array.copy())"
        )
    try:
        dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    except (TypeError, ValueError):
        remedy = (
            "a view as bytes, array.view('u1'), may do"
            if array.dtype.isnative and not array.dtype.hasobject
            else "its elements are Python's and lie elsewhere; make an array of numbers, as array.astype('f4')"
            if array.dtype.hasobject
            else f"{_COPY}, as of torch.from_numpy(array.astype('{array.dtype.newbyteorder('=').str[1:]}'))"
        )
        raise ConfigError(f"array is of {array.dtype.str!r}, which torch has no type for; {remedy}") from None
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    # A view of a file's mapping holds none of its buffers: it could be closed below the table.
    owner = (array, memoryview(base)) if isinstance(base, mmap.mmap) else array
    return Existing(owner, array.ctypes.data, dtype, array.shape, array.flags.writeable)


class Borrowed(Buffer):
    """Memory of another owner, kept as long as a tensor over it is there.

    Attributes:
        unseen: why no GPU sees it, where there is one.
    """

    ours: ClassVar[bool] = False

    def __init__(self, of: Existing, mapping: str, release: ExitStack, managed: int = 0, unseen: str = "") -> None:
        super().__init__(of.address, of.nbytes, mapping, release, managed=managed)
        self.owner, self.writable, self.unseen = of.owner, of.writable, unseen

    def require_there(self) -> None:
        """ConfigError where the tensor has moved."""
        if isinstance(self.owner, torch.Tensor) and self.owner.data_ptr() != self.address:
            raise ConfigError(
                "the tensor that the table is over lies elsewhere since, as by share_memory_() or resize_(); make the table "
                "with UnifiedTensor.over(tensor) after that"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        raise ConfigError(
            "a table over memory that was there already goes to other processes by multiprocessing alone, over a tensor in "
            "shared memory (tensor.share_memory_()); make it with placement='pinned' to send it otherwise"
        )

    def _reduce_for_multiprocessing(self) -> tuple[Any, ...]:
        """As torch sends the tensor."""
        if not isinstance(self.owner, torch.Tensor) or not self.owner.is_shared():
            raise ConfigError(
                "the memory of this table belongs to one process; to share it between processes make it over a tensor in "
                "shared memory (tensor.share_memory_() before over()), or with placement='pinned'"
            )
        return _over_shared, (self.owner,)


reduction.register(Borrowed, Borrowed._reduce_for_multiprocessing)


def _over_shared(tensor: torch.Tensor) -> Borrowed:
    return borrow(_of_tensor(tensor))


def borrow(of: Existing) -> Borrowed:
    """A buffer over memory that exists; GPUs see it if CUDA registers it, or has before."""
    if not devices.cuda_available():
        return Borrowed(of, "pageable", ExitStack())
    if of.nbytes == 0:
        return Borrowed(of, "pinned", ExitStack())
    with lock, ExitStack() as undo:
        held = holding(of.address, of.nbytes)
        if held is not None:  # of a table of ours, which keeps its own mapping
            managed = min(max(held.address + held.managed - of.address, 0), of.nbytes)
            mapping = "managed" if managed == of.nbytes else "split" if managed else "pinned"
            return Borrowed(of, mapping, undo.pop_all(), managed)
        try:
            _register(of, undo)
        except HinterlandError as error:
            undo.close()
            return Borrowed(of, "pageable", ExitStack(), unseen=str(error))
        return Borrowed(of, "pinned", undo.pop_all())


@dataclass(eq=False)
class _Range:
    """Bytes that are registered, and how many buffers need them."""

    begin: int
    end: int
    users: int


_ranges: list[_Range] = []  # ascending, none over another
os.register_at_fork(after_in_child=_ranges.clear)  # CUDA's are the parent's alone


def edges() -> set[int]:
    """The addresses at which registered bytes begin and end: CUDA copies none of those that follow together with them."""
    with lock:
        return {at for part in _ranges for at in (part.begin, part.end)}


def _register(of: Existing, undo: ExitStack) -> None:
    """Has the bytes of ``of`` registered until ``undo`` is closed. These alone, although CUDA locks whole pages: it refuses to
    copy to a GPU what begins among registered bytes and ends behind them, and other arrays lie in the same pages."""
    begin, end = of.address, of.address + of.nbytes
    known = [part for part in _ranges if part.begin < end and begin < part.end]
    for part in known:
        part.users += 1
    known = [part for part in known if part in _ranges]  # the garbage collector may have let one go before it was counted
    for part in known:
        undo.callback(_release, part)
    if not known and cuda.is_pinned(begin, of.nbytes):
        return  # by somebody else, who ends it
    writable, is_file = _registrable(begin, end)
    at = begin
    for until, after in [*((part.begin, part.end) for part in known), (end, end)]:
        if at < until:
            try:
                cuda.register(at, until - at, writable)
            except DeviceError as error:
                if not (is_file and writable):
                    raise
                raise DeviceError(f"{error}; map the file for reading (np.memmap with mode='r')") from error
            made = _Range(at, until, 1)
            bisect.insort(_ranges, made, key=lambda part: part.begin)
            undo.callback(_release, made)
        at = max(at, after)


def _release(part: _Range) -> None:
    with lock:
        part.users -= 1
        if part.users == 0:
            _ranges.remove(part)
            cuda.unregister(part.begin)


def _registrable(begin: int, end: int) -> tuple[bool, bool]:
    """Whether these bytes may be written, and whether they are a file's; ConfigError where they must not be registered."""
    found = list(_mapped(begin, end))
    for part in found:
        if part.private and part.file:
            raise ConfigError(
                f"its pages are a private mapping of {part.file}, and to register them would copy each; map the file shared "
                "and for reading (np.memmap with mode='r')"
            )
    files = [part for part in found if part.file and not part.file.startswith(_IN_MEMORY)]
    if files:  # registered pages of a file stay in memory
        require_room(sum(min(end, part.end) - max(begin, part.begin) for part in files))
    return all(part.writable for part in found), bool(files)


class _Mapped(NamedTuple):
    """A part of this process's addresses: whether it may be written, whether what is written there stays in this process,
    and the file that it is of."""

    begin: int
    end: int
    writable: bool
    private: bool
    file: str


def _mapped(begin: int, end: int) -> Iterator[_Mapped]:
    """What lies at these addresses (proc(5), /proc/pid/maps)."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, _, _, inode, *name = line.rstrip("\n").split(maxsplit=5)
            first, last = (int(address, 16) for address in span.split("-"))
            if first < end and begin < last:
                file = (name[0] if name else "a file") if inode != "0" else ""
                yield _Mapped(first, last, "w" in rights, "p" in rights, file)


def describe(buffer: Buffer) -> str:
    """What ``explain()`` says behind where the memory lies: why no GPU sees it."""
    return f": {buffer.unseen}" if isinstance(buffer, Borrowed) and buffer.unseen else ""
