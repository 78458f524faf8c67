"""UnifiedTensor: a table in host memory whose rows every GPU and the CPU take alike (Min 2022, chapter 3)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from .. import _core
from ..memory import load, transposed
from ..memory.allocator import place_again
from ..memory.clock import plan_slots
from ..memory.copies import copy
from ..memory.existing import borrow, existing
from ..memory.gather import copy_rows
from ..memory.order import permutation
from ..memory.sharing import share
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.repr import type_name
from ..runtime.thresholds import HOST_BUDGET
from ..runtime.units import parse_bytes
from ..storage import safetensors
from ..storage.layout import locate, refuse_names
from .array import StorageArray
from .cached import CachedTensor
from .columns import ColumnFile
from .host import HostTable, shape_of
from .tiered import Asked, Devices, TieredTensor, make

# Types of which torch pickles tensors. Others go as bytes; but these as they are, since torch.save takes memory once, and no
# second time as of another type.
_PICKLED = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex64, torch.complex128,
}  # fmt: skip


class UnifiedTensor(HostTable):
    """A tensor in host memory, row-major, with at least one dimension.

    ``ut[index]`` returns rows on the device of ``index``: a GPU reads them over the link, in pieces as small as a cache
    line. Where the memory comes from is its ``placement``: ``"managed"``, ``"pinned"``, ``"split"`` between these two,
    ``"system"`` or ``"pageable"`` (memory/allocator.py).

    It has the sizes, the indexing, the operators and the functions of torch's tensors, over the same bytes; their methods are
    those of ``ut.cpu()`` and ``ut.cuda()``. ``copy.deepcopy``, ``pickle`` and ``torch.save`` copy its rows, to where it lies.
    """

    keepable = True
    file: None = None

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, placement: str = "host") -> UnifiedTensor:
        """A copy of ``tensor``, made by all CPU threads where it lies in host memory. (:meth:`over` makes none.)"""
        if arguments.dense("tensor", tensor).dim() == 0:
            shape_of(())
        made = cls._allocate(tuple(tensor.shape), tensor.dtype, placement)
        source = tensor.detach()
        if source.is_cpu and source.is_contiguous() and not source.is_neg() and not source.is_conj():
            _core.copy_bytes(made._cpu.data_ptr(), source.data_ptr(), made.nbytes)
        else:
            copy(made._cpu, source)
        return made

    @classmethod
    def over(cls, tensor: Any) -> UnifiedTensor:
        """A table over memory that exists, without a copy: what is written to one is there in the other.

        With a GPU the memory is registered until no table needs it, and ``placement`` is ``"pinned"``; that of memory of this
        library's tables stays what it is. Where CUDA refuses, as it may pages of files, it is ``"pageable"``, and ``explain()``
        says why. Limits do not count what was not allocated here.

        Args:
            tensor: a contiguous CPU tensor of one dimension or more, also one in shared memory; a numpy array or memmap; what
                has the buffer protocol or ``__array_interface__``. It stays in memory as long as the table. Move it nowhere
                meanwhile: ``tensor.share_memory_()`` comes before, and ``resize_`` not at all. A table over memory that is only
                read is only read; torch has no such tensors, and to write through its ``cpu()`` ends the process.

        Raises:
            ConfigError: a copy would be needed.
        """
        found = existing(tensor)
        shape = shape_of(found.shape)
        buffer = borrow(found)
        buffer.name = f"{type_name(found.dtype)} {list(shape)}, {buffer.mapping}"
        return cls(buffer, found.dtype, shape)

    @classmethod
    def holding(cls, table: UnifiedTensor | StorageArray | ColumnFile) -> UnifiedTensor:
        """A table in host memory with the rows of this one: itself, or a copy of what lies in a file.

        Raises:
            StorageError, FormatError: the file cannot be read, or is shorter than it was.
            OutOfMemory: it does not fit.
        """
        if isinstance(table, UnifiedTensor):
            return table
        arguments.instance("table", table, (StorageArray, ColumnFile), "open one with StorageArray.open(path)")
        made = cls.empty(tuple(table.shape), table.dtype)
        table.read_into(made.cpu())
        return made

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
        offset: int = 0,
        name: str | None = None,
        placement: str = "host",
        host_budget: int | str | None = None,
    ) -> AnyTable:
        """The tensor of a ``.npy`` file, a torch or safetensors file or raw binary, read by many threads into its final place;
        on storage, a :class:`.StorageArray` over the file, which may also be Arrow or ``.hl``. A ``.npy`` in Fortran order is
        transposed as it is read, in parts.

        Args:
            dtype, shape: of raw binary; one dimension may be -1. The content decides what the file is, not its name: a
                ``.npy`` without numpy's header is raw binary.
            offset: bytes before the content.
            name: of the tensor, in a safetensors file that holds several; on storage also of a column.
            placement: as of ``empty``; or ``"storage"``: rows stay in the file, are read as they are asked for, and nothing is
                read now. (``hl.StorageArray.open`` writes as well.)
            host_budget: on storage, bytes of host memory for pages of the file, as in ``"1GiB"``; None is 256 MiB.

        Raises:
            FormatError: the file is damaged, or promises more than it holds; nothing has been allocated then.
            ConfigError: raw binary without ``dtype`` and ``shape``, or a file of another type or shape than asked for.
            StorageError: the file is missing or cannot be read.
            OutOfMemory: before anything is allocated.
        """
        path = arguments.path("path", path)
        if isinstance(placement, str) and placement == "storage":
            return StorageArray.open(
                path, name=name, dtype=dtype, shape=shape, offset=offset,
                host_budget=HOST_BUDGET if host_budget is None else host_budget,
            )  # fmt: skip
        if host_budget is not None:
            raise ConfigError(f"host_budget={arguments.repr_of(host_budget)} is that of a table with placement='storage'")
        offset = load.asked_offset(path, offset)
        if offset == 0 and (name is not None or dtype is None or shape is None) and safetensors.is_one(path):
            found = locate(path, dtype=dtype, shape=shape, name=name)
            stored = load.StoredTensor(found.dtype, found.shape, found.extents[0].offset if found.extents else 0)
        else:
            stored = load.locate(path, dtype, None if shape is None else load.asked_shape(shape), offset)
            refuse_names(path, name, None)
        made = cls._allocate(stored.shape, stored.dtype, placement)
        made._buffer.name += f" from {path}"
        if stored.by_columns:
            transposed.read_all(path, stored, made._cpu)
        else:
            _core.read_file(path, stored.offset, made._cpu.data_ptr(), stored.nbytes)
        return made

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
            order: int64 ``[rows]``, every row once, the hottest first; those that no tier holds may be left out. Without scores
                and order the first rows are.
            devices: the GPUs that hold tiers and that rows can be asked for on; by default all. ``"cpu"`` stands for a GPU
                whose memory is the host's, to try out a plan.

        Rows that are not the first need an id map, 4 bytes for each row of the table (8 from 2**31 rows on) in each GPU. It
        comes out of ``local``, then out of ``peers``: no GPU holds more than ``local`` and its share of ``peers``.

        Raises:
            ConfigError: sizes, scores, an order or devices that cannot be used; pageable memory, which no GPU sees.
            OutOfMemory: a GPU has less free than the tiers take; nothing is allocated then.
        """
        return make(self, Asked.of(self, (local, peers), scores, order, devices))

    def cached(self, budget: int | str, device: torch.device | str | int | None = None) -> CachedTensor:
        """This table with room in one GPU's memory for rows that were asked for lately: what is kept follows the gathers.

        Args:
            budget: bytes of GPU memory, for the rows and all that finds them: an id map of 4 bytes for each row of the table,
                and 8 and a quarter for each row that there is room for.
            device: the GPU; None is the current one. ``"cpu"``, the default without a GPU, stands for a GPU whose memory is
                the host's, to try it out.

        Raises:
            ConfigError: a budget that holds no row; pageable memory, which no GPU sees; a table that requires grad.
            OutOfMemory: the GPU has less free; nothing is allocated then.
        """
        plan = plan_slots(len(self), self._row_bytes, parse_bytes(budget))
        return CachedTensor(self, plan, devices.as_device(device))

    def __deepcopy__(self, memo: dict[int, Any]) -> UnifiedTensor:
        """Memory of its own, where this lies."""
        function, given = self.__reduce__()
        made: UnifiedTensor = function(*given)
        memo[id(self)] = made
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Its rows, and where they lie. (Multiprocessing sends the memory itself.)"""
        held = self.cpu().detach().view(-1)
        if self._dtype not in _PICKLED:
            held = held.view(torch.uint8)
        return restored, (held, self._dtype, tuple(self.shape), self.placement, self.requires_grad)


def restored(
    held: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...], placement: str, requires_grad: bool
) -> UnifiedTensor:
    """A table that was copied or saved, of these bytes: where it lay, or where this machine's tables lie instead. What is saved
    has the name of this function in it."""
    made = UnifiedTensor.from_tensor(held.view(dtype).view(shape), place_again(placement))
    made._cpu.requires_grad_(requires_grad)
    return made


# It runs nothing that a file names. Files that were saved before have the other name.
torch.serialization.add_safe_globals([restored, (restored, "hinterland.memory.unified.restored")])
share(UnifiedTensor, lambda table: (UnifiedTensor, (table._buffer, table.dtype, tuple(table.shape))))

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
