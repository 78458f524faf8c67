"""Tables whose rows lie in host memory: what tables above them, with rows in GPU memory, stand on."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Self

import numpy as np
import torch

from .. import _core
from ..machine import measured_link
from ..memory import assisted, load
from ..memory.allocator import Buffer, allocate
from ..memory.copies import copied, copy
from ..memory.existing import describe
from ..memory.gather import few_blocks
from ..memory.help_plan import Help, HelpPlan, plan_help
from ..memory.mapping import explain_table
from ..memory.plan import REACH, sorts
from ..runtime import arguments, devices
from ..runtime.capture import capturing
from ..runtime.errors import ConfigError, IndexOutOfRange, NotATensor
from ..runtime.repr import type_name
from ..runtime.thresholds import HELP_PART, LOAD_BLOCKS
from . import ops  # noqa: F401  (ops registers torch.ops.hinterland.gather)
from .indexing import device_of, is_rows, parts_of, rows_of
from .placement import Sort
from .row_arguments import expanded, overlaps, require_outside, room_for
from .table import Table

_LOAD_BYTES = 16  # of one thread's load in a gather
_MANY = 1 << 20  # rows of the gather that explain() speaks of
# Types of as many bytes, which torch's functions all know.
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class HostTable(Table):
    """A table in host memory, which the CPU and every GPU read. What users make is a :class:`.UnifiedTensor`."""

    _AS_TENSOR = "ut.cpu() and ut.cuda() are tensors over the same bytes"

    def __init__(self, buffer: Buffer, dtype: torch.dtype, shape: Sequence[int]) -> None:
        self._buffer = buffer
        self._cpu = buffer.tensor(dtype, torch.Size(shape))
        # Made now, not when asked for: a compiled function may only look them up.
        visible = devices.gpus() if buffer.mapping != "pageable" else []
        self._cuda = {gpu.index: buffer.tensor(dtype, torch.Size(shape), gpu) for gpu in visible}
        for seen in self._cuda.values():
            # By torch._dynamo.mark_static_address, which takes a second to import. A compiled function that makes CUDA graphs
            # would copy all rows to the GPU, since they might lie elsewhere next time.
            seen._dynamo_static_input_type = "unguarded"  # type: ignore[attr-defined]
        super().__init__(self._cpu.shape, dtype)
        self._help = Help(self.placement, self._row_bytes, self.nbytes, self.managed_bytes)

    @classmethod
    def empty(
        cls,
        shape: int | Sequence[int],
        dtype: torch.dtype = torch.float32,
        placement: str = "host",
    ) -> Self:
        """A table of ``shape``, its content undefined.

        Args:
            placement: ``"host"`` (the fastest that the machine offers), ``"managed"``, ``"pinned"`` (can be sent to
                other processes), ``"system"`` (plain memory, where GPUs read such) or ``"pageable"`` (no GPU sees it).

        Raises:
            OutOfMemory: before anything is allocated.
        """
        return cls._allocate(shape_of(shape), dtype, placement)

    @classmethod
    def _allocate(cls, shape: tuple[int, ...], dtype: torch.dtype, placement: str, touch: bool = True) -> Self:
        if not isinstance(dtype, torch.dtype):
            raise ConfigError(f"dtype is a torch type such as torch.float32, not {arguments.repr_of(dtype)}")
        buffer = allocate(math.prod(shape) * dtype.itemsize, placement, touch)
        buffer.name = f"{type_name(dtype)} {list(shape)}"
        return cls(buffer, dtype, shape)

    def view(self, *shape: Any, dtype: torch.dtype | None = None) -> Self:
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
                raise ConfigError(f"{self.nbytes} bytes cannot be viewed as {dtype} of shape {arguments.repr_of(asked)}")
            sizes = tuple(self.nbytes // known if n == -1 else n for n in sizes)
        sizes = shape_of(sizes)
        if math.prod(sizes) * dtype.itemsize > self._buffer.nbytes:
            raise ConfigError(f"{self._buffer.nbytes} bytes cannot be viewed as {dtype} of shape {sizes}")
        if self._buffer.address % dtype.itemsize and self.nbytes:
            raise ConfigError(
                f"the table begins at address {self._buffer.address:#x}, no multiple of {dtype.itemsize}, which an element of "
                f"{dtype} takes; UnifiedTensor.from_tensor(table.cpu()) makes a copy that can be viewed so"
            )
        return type(self)(self._buffer, dtype, sizes)

    @property
    def placement(self) -> str:
        """``"managed"``, ``"split"``, ``"pinned"``, ``"system"`` or ``"pageable"``: what ``"host"`` has become here."""
        return self._buffer.mapping

    @property
    def managed_bytes(self) -> int:  # type: ignore[override]  # an attribute where it is 0
        """How many bytes from the beginning on are mapped in large pages, where GPUs read random rows at the link's speed; of a
        split table the hottest rows belong there."""
        return min(self._buffer.managed, self.nbytes)

    def explain(self) -> str:
        """Where the table lies, at what rate a GPU is expected to read random rows of it, whether the CPU helps it, and what
        decided how it is mapped."""
        table, plan = (self.nbytes, self.managed_bytes), self._buffer.plan
        said = [explain_table(self.placement, *table, self._row_bytes) + describe(self._buffer)]
        if self._cuda and self.placement in ("pinned", "split"):
            said.append(plan_help(self.placement, _MANY, self._row_bytes, *table).explain())
        return ". ".join(said if plan is None else [*said, plan.explain_limit()])

    def cpu(self) -> torch.Tensor:
        """The table as a CPU tensor: the same memory."""
        self._buffer.require_there()
        return self._cpu

    def cuda(self, device: torch.device | str | int | None = None) -> torch.Tensor:
        """The table as a CUDA tensor over the same host memory, for any torch operation: nothing is copied."""
        if devices.cuda_available() and not self._cuda:
            why = describe(self._buffer)
            raise ConfigError(f"pageable memory is not visible to GPUs{why}; make the table with placement='host'")
        gpu = devices.as_device("cuda" if device is None else device)
        if gpu.type != "cuda":
            raise ConfigError(f"device {gpu} is no GPU; the CPU's view of the table is ut.cpu()")
        self._buffer.require_there()
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
        parts = parts_of(index, self.shape)
        if is_rows(parts):
            return self[rows_of(parts[0])]
        try:
            return self.to(device_of(parts))[tuple(parts)]
        except IndexError as error:  # all parts are within the table
            raise _do_not_fit(error) from None

    def __setitem__(self, index: Any, value: Any) -> None:
        """Writes ``value`` there, as torch does: a number, or what can be expanded to the shape, of any type and on any device.
        Rows by their numbers are as ``scatter_`` writes them: those of one number may mix, and none of a bad one is written.

        Raises:
            IndexOutOfRange, ConfigError: what it does not have, or take.
        """
        self.require_writable()
        parts = parts_of(index, self.shape)
        if self.requires_grad and torch.is_grad_enabled():
            raise ConfigError("rows of a table that requires grad are written under torch.no_grad(), as those of any leaf are")
        if is_rows(parts):
            rows = rows_of(parts[0])
            self.scatter_(rows, self._separate(expanded(value, rows.shape + self._row_shape, self._dtype, rows.device)))
            return
        whole = self.to(device_of(parts)).detach()
        if any(isinstance(part, torch.Tensor | bool) for part in parts):
            _put(whole, parts, self._separate(expanded(value, None, self._dtype, whole.device)))
        else:
            part = whole[tuple(parts)]
            given = self._separate(expanded(value, part.shape, self._dtype))
            copy(part, given if part.is_contiguous() else given.cpu())

    def _separate(self, given: torch.Tensor) -> torch.Tensor:
        """``given``, or a copy where it lies in the table's own memory."""
        return given.clone() if overlaps(given, self._buffer.address, self._buffer.nbytes) else given

    def _beside(self, index: torch.Tensor) -> torch.Tensor:
        """The table as a tensor on the device of ``index``."""
        return self._cuda[index.device.index] if index.is_cuda else self._cpu

    def _learns(self, index: torch.Tensor) -> bool:
        """Whether rows on the device of ``index`` have gradients."""
        held = self._cuda.get(index.device.index) if index.is_cuda else self._cpu
        return held is not None and held.requires_grad

    def __copy__(self) -> Self:
        """The same memory."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    @property
    def requires_grad(self) -> bool:
        """Whether ``ut.cpu()`` requires grad, or ``ut.cuda()``, whose rows then have gradients."""
        return any(held.requires_grad for held in (self._cpu, *self._cuda.values()))

    def require_writable(self) -> None:
        """ConfigError where the table is over memory that is only read."""
        if not self._buffer.writable:
            raise ConfigError(
                "the table is over memory that is only read; write to a copy, UnifiedTensor.from_tensor(table.cpu()), or make "
                "it over an array that is writable (np.memmap with mode='r+')"
            )

    def _tensor_for(self, device: torch.device, what: str) -> torch.Tensor:
        return self.to(device)

    def tensor_on(self, device: torch.device) -> torch.Tensor:
        """All rows as a tensor that ``device`` reads where they lie."""
        return self.to(device)

    def gather_blocks(self, device: torch.device) -> int:
        """As few as fill the link, by the library's measurement of such a GPU, or by the probe's of this one; those of loads
        where rows wait for walks of page tables: bulk copies have too few under way."""
        few, link = few_blocks(device, self._row_bytes), measured_link()
        if few is None and link is not None:
            few = link.threads_to_saturate.get(_LOAD_BYTES, LOAD_BLOCKS)
        walks = self.placement in ("pinned", "split") and self.nbytes > REACH
        return max(few or LOAD_BLOCKS, LOAD_BLOCKS if walks else 1)

    def tiers_of(self, index: torch.Tensor) -> dict[str, int]:
        """All come from the host."""
        return {"host": index.numel()}

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The same memory as an array, unless ``dtype`` or ``copy`` asks for another."""
        try:
            held = self.cpu().detach().numpy()
            if not self._buffer.writable:
                held.flags.writeable = False
        except TypeError:
            words = type_name(_WORDS[self.element_size()])
            raise NotATensor(
                f"numpy has no {type_name(self._dtype)}; ut.cpu().float().numpy() is a copy, and ut.view(torch.{words}) has "
                "the same bytes as whole numbers"
            ) from None
        if copy is False and dtype not in (None, held.dtype):
            raise ConfigError(f"an array of {dtype} is a copy of a table of {held.dtype}, and copy=False allows none")
        return held.astype(held.dtype if dtype is None else dtype, copy=bool(copy))

    def __dlpack__(self, **options: Any) -> Any:
        """The same memory, as the CPU's."""
        if not self._buffer.writable:
            return np.asarray(self).__dlpack__(**options)
        return self.cpu().detach().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return self._cpu.__dlpack_device__()

    def _source(self, index: torch.Tensor) -> int:
        self._buffer.require_there()
        if index.is_cuda and not self._cuda:
            self.cuda()
        return self._buffer.address

    def _require_separate(self, tensor: torch.Tensor, name: str) -> None:
        require_outside(tensor, name, self._buffer.address, self._buffer.nbytes)

    def _read_by(
        self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort, by: str | None
    ) -> bool:
        if not index.is_cuda:
            return super()._read_by(index, out, max_blocks, check, sort, by)
        seen = bool(self._cuda)
        plan = self._helped(index, check, sort) if by is None and seen else None
        if by == "gpu" or (by is None and seen and plan is None):
            return False
        if by == "both" and not seen:
            raise ConfigError("by='both' needs a GPU that reads the rows, and none sees pageable memory; use by='cpu' or None")
        if capturing():
            raise ConfigError("the CPU reads no rows in a CUDA graph; gather with by='gpu', from memory that GPUs see")
        if not index.numel() or not 0 < self._row_bytes <= HELP_PART:  # nothing to copy, or rows longer than what is pinned
            out.copy_(self.gather(index.cpu()))
            return True
        help = None if plan is None else self._help
        if plan is None:
            plan = plan_help(self.placement, index.numel(), self._row_bytes, self.nbytes, self.managed_bytes, by)
        assisted.gather(self._rows_for_help, index, out, plan, help, max_blocks, check)
        return True

    def _helped(self, index: torch.Tensor, check: str, sort: Sort) -> HelpPlan | None:
        """How the CPU helps a gather that it may help; a caller that does not wait for the rows is not held up for them."""
        if self._row_bytes == 0 or check != "sync" or sort != "auto" or capturing():
            return None
        return self._help.plan(index.numel(), _core.num_threads())

    def begin_gather(
        self, index: torch.Tensor, threads: int, max_blocks: int | None = None
    ) -> tuple[torch.Tensor, Future[None] | None]:
        """The CPU helps where that is predicted to be faster."""
        fits = 0 < self._row_bytes <= HELP_PART and not self.requires_grad
        plan = self._help.plan(len(index), threads, ahead=True) if fits else None
        if plan is None:
            return super().begin_gather(index, threads, max_blocks)
        self._source(index)
        out = room_for(index.shape + self._row_shape, self._dtype, index.device)
        return out, assisted.begin(self._rows_for_help, index, out, plan, self._help, max_blocks)

    @property
    def _rows_for_help(self) -> assisted.HelpedTable:
        managed = self.managed_bytes // max(self._row_bytes, 1)
        return assisted.HelpedTable(self._buffer.address, self._rows, self._row_bytes, managed, self._buffer)

    def _sorts(self, rows: int) -> bool:
        return sorts(self._buffer.mapping, rows, self._row_bytes, self.nbytes, self.managed_bytes)


def _put(whole: torch.Tensor, parts: list[Any], given: torch.Tensor) -> None:
    """As words, since torch does not put elements of every type in places."""
    word = _WORDS.get(whole.itemsize, whole.dtype)
    try:
        whole.view(word)[tuple(parts)] = given.resolve_conj().resolve_neg().contiguous().view(word)
    except IndexError as error:
        raise _do_not_fit(error) from None
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"what is written has another shape than what is selected: {error}") from None
    if whole.is_cuda:  # as scatter_ waits: the CPU may read it next
        torch.cuda.current_stream(whole.device).synchronize()


def _do_not_fit(error: IndexError) -> IndexOutOfRange:
    return IndexOutOfRange(f"parts of the index have shapes that do not go together: {error}")


def shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """The dimensions of a table, checked."""
    try:
        sizes = tuple(operator.index(n) for n in ((shape,) if isinstance(shape, int) else shape))
    except (TypeError, RuntimeError):  # the last is a tensor's
        raise ConfigError(f"a table's shape is made of whole numbers, not {arguments.repr_of(shape)}") from None
    if not sizes or any(n < 0 for n in sizes):
        raise ConfigError(f"a table has at least one dimension and none below 0, not shape {arguments.repr_of(sizes)}")
    if not load.countable(sizes):
        raise ConfigError(
            f"shape {arguments.repr_of(sizes)} has more elements than 64 bits count the bytes of; make it smaller"
        )
    return sizes
