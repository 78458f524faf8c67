"""UnifiedTensor: a table in host memory whose rows every GPU and the CPU take alike (Min 2022, chapter 3)."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError, NotATensor
from ..runtime.provided import provided
from ..runtime.shown import table_of, type_name
from ..runtime.units import parse_bytes
from . import elements, load, ops  # noqa: F401  (ops registers torch.ops.hinterland.gather)
from .allocator import Buffer, allocate, place_again
from .cached import CachedTensor
from .clock import plan_slots
from .copies import copied, copy
from .gather import copy_rows
from .host import HostTable
from .mapping import explain_table
from .order import permutation
from .plan import sorts
from .rows import overlaps, require_outside
from .tiered import Devices, TieredTensor, make

# Types of which torch pickles tensors. Others go as bytes; but these as they are, since torch.save takes memory once, and no
# second time as of another type.
_PICKLED = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex64, torch.complex128,
}  # fmt: skip


class UnifiedTensor(HostTable):
    """A tensor in host memory, row-major, with at least one dimension.

    ``ut[index]`` returns rows on the device of ``index``: a GPU reads them over the link, in pieces as small as a cache
    line. Where the memory comes from is its ``placement``: ``"mapped"``, ``"registered"``, ``"split"`` between these two, or
    ``"heap"`` (memory/allocator.py).

    It has the sizes, the indexing, the operators and the functions of torch's tensors, over the same bytes; their methods are
    those of ``ut.cpu()`` and ``ut.cuda()``. ``copy.deepcopy``, ``pickle`` and ``torch.save`` copy its rows, to where it lies.
    """

    _AS_TENSOR = "ut.cpu() and ut.cuda() are tensors over the same bytes"

    def __init__(self, buffer: Buffer, dtype: torch.dtype, shape: Sequence[int]) -> None:
        self._buffer = buffer
        self._cpu = buffer.tensor(dtype, torch.Size(shape))
        # Made now, not when asked for: a compiled function may only look them up.
        visible = devices.gpus() if buffer.mapping != "heap" else []
        self._cuda = {gpu.index: buffer.tensor(dtype, torch.Size(shape), gpu) for gpu in visible}
        self._dtype = dtype
        self._row_shape = self._cpu.shape[1:]
        self._row_bytes = math.prod(self._row_shape) * dtype.itemsize
        self._rows = self._cpu.shape[0]

    @classmethod
    def empty(
        cls,
        shape: int | Sequence[int],
        dtype: torch.dtype = torch.float32,
        placement: str = "host",
    ) -> UnifiedTensor:
        """A table of ``shape``, its content undefined.

        Args:
            placement: ``"host"`` (the fastest that the machine offers), ``"mapped"``, ``"registered"`` (can be sent to
                other processes) or ``"heap"`` (no GPU sees it).

        Raises:
            OutOfMemory: before anything is allocated.
        """
        return cls._allocate(_shape(shape), dtype, placement)

    @classmethod
    def _allocate(cls, shape: tuple[int, ...], dtype: torch.dtype, placement: str, touch: bool = True) -> UnifiedTensor:
        if not isinstance(dtype, torch.dtype):
            raise ConfigError(f"dtype is a torch type such as torch.float32, not {arguments.shown(dtype)}")
        buffer = allocate(math.prod(shape) * dtype.itemsize, placement, touch)
        buffer.name = f"{type_name(dtype)} {list(shape)}"
        return cls(buffer, dtype, shape)

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, placement: str = "host") -> UnifiedTensor:
        """A copy of ``tensor``, made by all CPU threads where it lies in host memory."""
        if arguments.dense("tensor", tensor).dim() == 0:
            _shape(())
        made = cls._allocate(tuple(tensor.shape), tensor.dtype, placement)
        source = tensor.detach()
        if source.is_cpu and source.is_contiguous() and not source.is_neg() and not source.is_conj():
            _core.copy_bytes(made._cpu.data_ptr(), source.data_ptr(), made.nbytes)
        else:
            copy(made._cpu, source)
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
        host_budget: int | str | None = None,
    ) -> AnyTable:
        """The tensor of a ``.npy`` file, a torch file or raw binary, read by many threads into its final place; on storage, a
        :class:`.StorageArray` over the file, which may also be safetensors, Arrow or ``.hl``.

        Args:
            dtype, shape: of raw binary; one dimension may be -1. The content decides what the file is, not its name: a
                ``.npy`` without numpy's header is raw binary.
            offset: bytes before the content.
            placement: as of ``empty``; or ``"storage"``: rows stay in the file, are read as they are asked for, and nothing is
                read now. (``hl.StorageArray.open`` writes as well, and takes a name where a file has several tensors.)
            host_budget: on storage, bytes of host memory for pages of the file, as in ``"1GiB"``; None is 256 MiB.

        Raises:
            FormatError: the file is damaged, or promises more than it holds; nothing has been allocated then.
            ConfigError: raw binary without ``dtype`` and ``shape``, or a file of another type or shape than asked for.
            StorageError: the file is missing or cannot be read.
            OutOfMemory: before anything is allocated.
        """
        path = arguments.path("path", path)
        if isinstance(placement, str) and placement == "storage":
            budget = {} if host_budget is None else {"host_budget": host_budget}
            return provided("StorageArray").open(path, dtype=dtype, shape=shape, offset=offset, **budget)
        if host_budget is not None:
            raise ConfigError(f"host_budget={arguments.shown(host_budget)} is that of a table with placement='storage'")
        stored = load.locate(path, dtype, None if shape is None else load.asked_shape(shape), offset)
        made = cls._allocate(stored.shape, stored.dtype, placement)
        made._buffer.name += f" from {path}"
        _core.read_file(path, stored.offset, made._cpu.data_ptr(), stored.nbytes)
        return made

    def view(self, *shape: Any, dtype: torch.dtype | None = None) -> UnifiedTensor:
        """The same memory, from its beginning on, in other dimensions or as another type; it may leave a rest.

        Args:
            shape: dimensions, one by one or in one sequence; one may be -1, which takes what there is. A type may stand behind
                them, or alone: then the last dimension changes, as torch's does.
            dtype: of the elements.

        Raises:
            ConfigError: they take more bytes than there are.
        """
        if shape and isinstance(shape[-1], torch.dtype):
            shape, dtype = shape[:-1], shape[-1]
        dtype = self.dtype if dtype is None else dtype
        arguments.instance("dtype", dtype, torch.dtype, "as torch.float32 is")
        asked = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape or (*self.shape[:-1], -1)
        sizes = load.asked_shape(asked)
        if sizes.count(-1) == 1:
            known = math.prod(n for n in sizes if n != -1) * dtype.itemsize
            if not known or self.nbytes % known:
                raise ConfigError(f"{self.nbytes} bytes cannot be viewed as {dtype} of shape {arguments.shown(asked)}")
            sizes = tuple(self.nbytes // known if n == -1 else n for n in sizes)
        sizes = _shape(sizes)
        if math.prod(sizes) * dtype.itemsize > self._buffer.nbytes:
            raise ConfigError(f"{self._buffer.nbytes} bytes cannot be viewed as {dtype} of shape {sizes}")
        return UnifiedTensor(self._buffer, dtype, sizes)

    def tiered(
        self,
        local: int | str | None = None,
        peers: int | str | None = None,
        scores: torch.Tensor | None = None,
        order: torch.Tensor | None = None,
        devices: Devices | None = None,
    ) -> TieredTensor:
        """This table with its hottest rows in GPU memory, under the same numbers (Min 2022, chapter 4).

        Without a GPU all rows stay here, and the answers are the same.

        Args:
            local: bytes in *each* GPU for copies of the hottest rows, as in ``"2GiB"``.
            peers: bytes in *all GPUs together* for the next hottest, dealt out over them and read from one another; they
                stay on the host where GPUs cannot read each other's memory. One GPU alone keeps both in one place.
            scores: ``[rows]``, higher for hotter; ties by row number.
            order: int64 ``[rows]``, every row once, the hottest first. Without scores and order the first rows are.
            devices: the GPUs that hold tiers and that rows can be asked for on; by default all. ``"cpu"`` stands for a GPU
                whose memory is the host's, to try out a plan.

        Rows that are not the first need an id map, 4 bytes for each row of the table (8 from 2**31 rows on) in each GPU. It
        comes out of ``local``, then out of ``peers``: no GPU holds more than ``local`` and its share of ``peers``.

        Raises:
            ConfigError: sizes, scores, an order or devices that cannot be used; heap memory, which no GPU sees.
            OutOfMemory: a GPU has less free than the tiers take; nothing is allocated then.
        """
        return make(self, local, peers, scores, order, devices)

    def cached(self, budget: int | str, device: torch.device | str | int | None = None) -> CachedTensor:
        """This table with room in one GPU's memory for rows that were asked for lately: what is kept follows the gathers.

        Args:
            budget: bytes of GPU memory, for the rows and all that finds them: an id map of 4 bytes for each row of the table,
                and 8 and a quarter for each row that there is room for.
            device: the GPU; None is the current one. ``"cpu"``, the default without a GPU, stands for a GPU whose memory is
                the host's, to try it out.

        Raises:
            ConfigError: a budget that holds no row; heap memory, which no GPU sees; a table that requires grad.
            OutOfMemory: the GPU has less free; nothing is allocated then.
        """
        plan = plan_slots(len(self), self._row_bytes, parse_bytes(budget))
        return CachedTensor(self, plan, devices.as_device(device))

    @property
    def placement(self) -> str:
        """``"mapped"``, ``"split"``, ``"registered"`` or ``"heap"``: what ``placement="host"`` has become here."""
        return self._buffer.mapping

    @property
    def mapped_bytes(self) -> int:
        """How many bytes from the beginning on are mapped in large pages, where GPUs read random rows at the link's speed; of a
        split table the hottest rows belong there."""
        return min(self._buffer.mapped, self.nbytes)

    def explain(self) -> str:
        """Where the table lies, and at what rate a GPU is expected to read random rows of it."""
        return explain_table(self.placement, self.nbytes, self.mapped_bytes, self._row_bytes)

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, placement=self.placement)

    def cpu(self) -> torch.Tensor:
        """The table as a CPU tensor: the same memory."""
        return self._cpu

    def cuda(self, device: torch.device | str | int | None = None) -> torch.Tensor:
        """The table as a CUDA tensor over the same host memory, for any torch operation: nothing is copied."""
        if devices.cuda_available() and not self._cuda:
            raise ConfigError("heap memory is not visible to GPUs; make the table with placement='host'")
        gpu = devices.as_device("cuda" if device is None else device)
        if gpu.type != "cuda":
            raise ConfigError(f"device {gpu} is no GPU; the CPU's view of the table is ut.cpu()")
        return self._cuda[gpu.index]

    def to(
        self,
        device: torch.device | str | int | torch.dtype | torch.Tensor | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        copy: bool = False,
    ) -> torch.Tensor:
        """The table as a tensor of ``device`` over the same host memory: ``cpu()`` or ``cuda(device)``. Nothing is copied,
        unless ``copy`` says so.

        Args:
            device: also a type, or a tensor, whose device and type are meant.
            dtype: the table's own; with ``copy`` any.
            non_blocking: taken for torch's sake: there is nothing to wait for.
            copy: whether to make a copy, in the memory of ``device``, of all rows.

        Raises:
            ConfigError: another type without ``copy``; a GPU that does not see the memory.
        """
        if isinstance(device, torch.Tensor):
            dtype = device.dtype
            device = device.device
        elif isinstance(device, torch.dtype):
            device, dtype = None, device
        on = devices.as_device("cpu" if device is None else device)
        dtype = self._dtype if dtype is None else dtype
        arguments.instance("dtype", dtype, torch.dtype, "as torch.float32 is")
        copy = arguments.switch("copy", copy)
        if dtype != self._dtype and not copy:
            raise ConfigError(
                f"the table holds {self._dtype}, and to() gives the same bytes; to({str(on)!r}, {dtype}, copy=True) is a copy"
            )
        if copy:
            return copied(self.cpu(), on, dtype)
        return self.cpu() if on.type == "cpu" else self.cuda(on)

    def __getitem__(self, index: Any) -> torch.Tensor:
        """What torch's indexing gives, over the same bytes. Whole rows by their numbers, or by a mask, are gathered to a new
        tensor on the device of these; whole numbers, slices, ``...`` and None give a view on the CPU; others a new tensor.

        Raises:
            IndexOutOfRange, ConfigError: what it does not have, or take.
        """
        if isinstance(index, torch.Tensor) and index.dtype != torch.bool:
            if torch.compiler.is_compiling() or self._learns(index):
                return torch.ops.hinterland.gather(self._beside(index), index)
            return self.gather(index)
        return elements.read(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Writes ``value`` there, as torch does: a number, or what can be expanded to the shape, of any type and on any device.
        Rows by their numbers are as ``scatter_`` writes them: those of one number may mix, and none of a bad one is written.

        Raises:
            IndexOutOfRange, ConfigError: what it does not have, or take.
        """
        elements.write(self, index, value)

    def _apart(self, given: torch.Tensor) -> torch.Tensor:
        """``given``, or a copy where it lies in the table's own memory."""
        return given.clone() if overlaps(given, self._buffer.address, self._buffer.nbytes) else given

    def _beside(self, index: torch.Tensor) -> torch.Tensor:
        """The table as a tensor on the device of ``index``."""
        return self._cuda[index.device.index] if index.is_cuda else self._cpu

    def _learns(self, index: torch.Tensor) -> bool:
        """Whether rows on the device of ``index`` have gradients."""
        held = self._cuda.get(index.device.index) if index.is_cuda else self._cpu
        return held is not None and held.requires_grad

    def __copy__(self) -> UnifiedTensor:
        """The same memory."""
        made = object.__new__(UnifiedTensor)
        made.__dict__.update(self.__dict__)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> UnifiedTensor:
        """Memory of its own, where this lies."""
        function, given = self.__reduce__()
        made: UnifiedTensor = function(*given)
        memo[id(self)] = made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Its rows, and where they lie. (Multiprocessing sends the memory itself: sharing.py.)"""
        held = self._cpu.detach().view(-1)
        if self._dtype not in _PICKLED:
            held = held.view(torch.uint8)
        return restored, (held, self._dtype, tuple(self.shape), self.placement, self.requires_grad)

    @property
    def requires_grad(self) -> bool:
        """Whether ``ut.cpu()`` requires grad, or ``ut.cuda()``, whose rows then have gradients."""
        return any(held.requires_grad for held in (self._cpu, *self._cuda.values()))

    def _tensor_for(self, device: torch.device, what: str) -> torch.Tensor:
        return self.to(device)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The same memory as an array, unless ``dtype`` or ``copy`` asks for another."""
        try:
            held = self._cpu.detach().numpy()
        except TypeError:
            words = type_name(elements.WORDS[self.element_size()])
            raise NotATensor(
                f"numpy has no {type_name(self._dtype)}; ut.cpu().float().numpy() is a copy, and ut.view(torch.{words}) has "
                "the same bytes as whole numbers"
            ) from None
        if copy is False and dtype not in (None, held.dtype):
            raise ConfigError(f"an array of {dtype} is a copy of a table of {held.dtype}, and copy=False allows none")
        return held.astype(held.dtype if dtype is None else dtype, copy=bool(copy))

    def __dlpack__(self, **options: Any) -> Any:
        """The same memory, as the CPU's."""
        return self._cpu.detach().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return self._cpu.__dlpack_device__()

    def _source(self, index: torch.Tensor) -> int:
        if index.is_cuda and not self._cuda:
            self.cuda()
        return self._buffer.address

    def _require_apart(self, tensor: torch.Tensor, name: str) -> None:
        require_outside(tensor, name, self._buffer.address, self._buffer.nbytes)

    def _sorts(self, rows: int) -> bool:
        return sorts(self._buffer.mapping, rows, self._row_bytes, self.nbytes, self.mapped_bytes)


def restored(
    held: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...], placement: str, requires_grad: bool
) -> UnifiedTensor:
    """A table that was copied or saved, of these bytes: where it lay, or where this machine's tables lie instead. What is saved
    has the name of this function in it."""
    made = UnifiedTensor.from_tensor(held.view(dtype).view(shape), place_again(placement))
    made._cpu.requires_grad_(requires_grad)
    return made


torch.serialization.add_safe_globals([restored])  # it runs nothing that a file names

# What from_file gives. Who calls it knows which, so a type checker takes it for a UnifiedTensor and lets pass what else a
# StorageArray has.
AnyTable: TypeAlias = UnifiedTensor | Any


def reorder_rows(table: UnifiedTensor, order: torch.Tensor, placement: str | None = None) -> UnifiedTensor:
    """A table whose row i is row ``order[i]`` of ``table``, copied by all threads, with no memory beside the two tables.

    Args:
        table: the rows.
        order: int64 ``[rows]``, each row once.
        placement: where the new table goes; by default where the old one is.

    Raises:
        ConfigError: ``order`` is no permutation of the rows.
        OutOfMemory: the new table does not fit beside the old one.
    """
    arguments.instance("table", table, UnifiedTensor, "make one with UnifiedTensor.from_tensor(tensor)")
    order = permutation(order, len(table))
    if placement is None:
        placement = place_again(table.placement)
    made = UnifiedTensor._allocate(tuple(table.shape), table.dtype, placement)
    copy_rows(table.cpu().data_ptr(), len(table), table.row_bytes, made.cpu(), order)
    return made


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(n) for n in ((shape,) if isinstance(shape, int) else shape))
    except (TypeError, RuntimeError):  # the last is a tensor's
        raise ConfigError(f"a table's shape is made of whole numbers, not {arguments.shown(shape)}") from None
    if not sizes or any(n < 0 for n in sizes):
        raise ConfigError(f"a table has at least one dimension and none below 0, not shape {arguments.shown(sizes)}")
    # Empty ones too: torch counts what lies between their rows. 16 bytes are the widest element.
    if math.prod(max(n, 1) for n in sizes) > arguments.MOST // 16:
        raise ConfigError(f"shape {arguments.shown(sizes)} has more elements than 64 bits count the bytes of; make it smaller")
    return sizes
