"""What tables have in common with torch's tensors, so that code that takes tensors takes them, or says what it needs."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, SupportsIndex

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from ..memory import faults
from ..runtime.arguments import whole_number
from ..runtime.errors import IndexOutOfRange, NotATensor


def _operator(name: str) -> Callable[..., Any]:
    """Python's operator ``name``, as torch's tensors have it: of numbers, arrays, tensors and tables, and of nothing else."""
    function = getattr(torch.Tensor, name)

    def method(self: TensorLike, *others: Any) -> Any:
        given = [torch.as_tensor(one) if isinstance(one, np.ndarray) else one for one in others]
        if not all(isinstance(one, torch.Tensor | Number | np.generic | TensorLike) for one in given):
            return NotImplemented
        return TensorLike.__torch_function__(function, (), (self, *given))

    method.__name__ = name
    return method


def _in_place(name: str) -> Callable[..., Any]:
    """The same of an operator that writes to the table."""
    change = _operator(name)

    def method(self: TensorLike, other: Any) -> Any:
        return self if change(self, other) is not NotImplemented else NotImplemented

    method.__name__ = name
    return method


def _both(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator with the table on its left, and on its right."""
    return _operator(f"__{name}__"), _operator(f"__r{name}__")


def _forms(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """The same, and the one that writes to the table."""
    return *_both(name), _in_place(f"__i{name}__")


class TensorLike:
    """The sizes of a tensor; its operators and torch's functions, where there is a tensor over the same bytes; and sentences.

    An object is equal to others by its elements, as a tensor is, and is told from others by its identity where it is a key.
    """

    _AS_TENSOR: ClassVar[str] = "table[:] reads all rows into a tensor"  # for sentences
    __array_priority__ = 1000  # as torch's: an array beside a table leaves the operator to it

    @property
    @abstractmethod
    def shape(self) -> torch.Size:
        """Its dimensions; the first counts the rows."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The type of its elements."""

    @abstractmethod
    def require_writable(self) -> None:
        """ConfigError of a table that is only read."""

    @abstractmethod
    def __getitem__(self, index: Any) -> torch.Tensor: ...

    @property
    def ndim(self) -> int:
        """How many dimensions it has, at least one."""
        return len(self.shape)

    def dim(self) -> int:
        """How many dimensions it has, at least one."""
        return self.ndim

    def size(self, dim: SupportsIndex | None = None) -> Any:
        """Its dimensions, or dimension ``dim``; -1 is the last."""
        if dim is None:
            return self.shape
        at, count = whole_number("dim", dim), self.ndim
        if not -count <= at < count:
            raise IndexOutOfRange(f"dimension {at} is none of a table of {count}; they go from {-count} to {count - 1}")
        return self.shape[at]

    def numel(self) -> int:
        """How many elements it has."""
        return self.shape.numel()

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Whether its elements are floating-point numbers; complex ones are not."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether its elements are complex numbers."""
        return self.dtype.is_complex

    @property
    def device(self) -> torch.device:
        """The CPU: where rows are that are asked for by an int or a slice. Row numbers on a GPU give rows on that GPU."""
        return torch.device("cpu")

    @property
    def is_cuda(self) -> bool:
        """False."""
        return False

    @property
    def is_cpu(self) -> bool:
        """True."""
        return True

    @property
    def requires_grad(self) -> bool:
        """Whether gradients of its rows are wanted."""
        return False

    def is_contiguous(self) -> bool:
        """True: rows are whole, one after another."""
        return True

    def contiguous(self) -> Self:
        """Itself."""
        return self

    def index_select(self, dim: int, index: torch.Tensor) -> torch.Tensor:
        """As torch.index_select: along dimension 0 a gather of rows, in which there are no negative ones."""
        return self.__torch_function__(torch.Tensor.index_select, (), (self, dim, index))

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (self[row] for row in range(self.shape[0]))

    def __contains__(self, element: Any) -> bool:
        found = self == element
        return bool(found.any()) if isinstance(found, torch.Tensor) else found

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return _call(func, args, kwargs or {})

    def _tensor_for(self, device: torch.device, what: str) -> torch.Tensor:
        """All of it as a tensor that ``device`` reads, for ``what``."""
        self._refuse(what)

    def _refuse(self, what: str) -> NoReturn:
        raise NotATensor(f"{what} takes tensors, and a {type(self).__name__} is none; {self._AS_TENSOR}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        self._refuse("numpy")

    def __dlpack__(self, **options: Any) -> Any:
        self._refuse("DLPack")

    def __dlpack_device__(self) -> tuple[int, int]:
        self._refuse("DLPack")

    if not TYPE_CHECKING:  # a type checker would take every name for one that is there

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or not hasattr(torch.Tensor, name):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise AttributeError(f"a {type(self).__name__} has no {name!r}, which tensors have; {self._AS_TENSOR}")

    __hash__ = object.__hash__
    __eq__ = _operator("__eq__")
    __ne__ = _operator("__ne__")
    __lt__ = _operator("__lt__")
    __le__ = _operator("__le__")
    __gt__ = _operator("__gt__")
    __ge__ = _operator("__ge__")
    __neg__ = _operator("__neg__")
    __pos__ = _operator("__pos__")
    __abs__ = _operator("__abs__")
    __invert__ = _operator("__invert__")
    __add__, __radd__, __iadd__ = _forms("add")
    __sub__, __rsub__, __isub__ = _forms("sub")
    __mul__, __rmul__, __imul__ = _forms("mul")
    __truediv__, __rtruediv__, __itruediv__ = _forms("truediv")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _forms("floordiv")
    __mod__, __rmod__, __imod__ = _forms("mod")
    __and__, __rand__, __iand__ = _forms("and")
    __or__, __ror__, __ior__ = _forms("or")
    __xor__, __rxor__, __ixor__ = _forms("xor")
    __pow__, __rpow__ = _both("pow")
    __matmul__, __rmatmul__ = _both("matmul")


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``func`` of arguments among which there are tables: where some are on a GPU, it reads the tables.

    Functions that take rows by their numbers are gathers of ours, of any table.
    """
    of_rows = _OF_ROWS.get(func)
    if of_rows is not None and (rows := of_rows(*args, **kwargs)) is not None:
        return rows
    leaves = pytree.tree_leaves((args, kwargs))
    device = next((one.device for one in leaves if isinstance(one, torch.Tensor) and one.is_cuda), torch.device("cpu"))
    name = getattr(func, "__name__", str(func))
    for one in pytree.tree_leaves(_written(name, args, kwargs)):
        if isinstance(one, TensorLike):
            one.require_writable()
    tensors = pytree.tree_map(lambda one: one._tensor_for(device, name) if isinstance(one, TensorLike) else one, (args, kwargs))
    return func(*tensors[0], **tensors[1])


_IN_PLACE = re.compile(r"(_\.\w+|[^_]_|__i(?:add|sub|mul|truediv|floordiv|mod|and|or|xor)__)$")


def _written(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """What ``func`` of this name writes to, as far as torch's names tell."""
    first = args[:1] if kwargs.get("inplace") or _IN_PLACE.search(name) else ()
    weight = [args[1:2], kwargs.get("weight")] if kwargs.get("max_norm") is not None else ()
    return [kwargs.get("out"), first, weight]


def _index_select(input: Any, dim: int, index: Any, *, out: Any = None) -> torch.Tensor | None:
    """Rows, where it is rows that are selected; None leaves it to torch."""
    if not isinstance(input, TensorLike) or not isinstance(index, torch.Tensor) or out is not None:
        return None
    if dim not in (0, -len(input.shape)) or index.dim() > 1:
        return None
    return _rows(input, index.reshape(-1))


def _embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> torch.Tensor | None:
    """As above. What the other options say is of gradients, except ``max_norm``, which changes the table."""
    plain = padding_idx is None and not scale_grad_by_freq and not sparse
    known = isinstance(weight, TensorLike) and isinstance(input, torch.Tensor)
    if not known or max_norm is not None or len(weight.shape) != 2:
        return None
    return _rows(weight, input) if plain or not (weight.requires_grad and torch.is_grad_enabled()) else None


def _rows(table: TensorLike, index: torch.Tensor) -> torch.Tensor:
    """Here -1 is no row: torch's functions refuse it, which indices take for the last."""
    if index.dtype in (torch.int32, torch.int64) and bool((index < 0).any()):
        flat = index.reshape(-1)
        at = int((flat < 0).nonzero()[0])
        raise faults.out_of_range(at, int(flat[at]), table.shape[0], int((flat < 0).sum()), from_end=False)
    return table[index]


_OF_ROWS: dict[Any, Callable[..., torch.Tensor | None]] = {
    torch._C._VariableFunctions.index_select: _index_select,  # torch.index_select, in whose place PyG puts one that calls it
    torch.Tensor.index_select: _index_select,
    F.embedding: _embedding,
}
