"""What selects rows and elements of a table: every form that torch and numpy take, checked, as parts that torch takes.

Parts are whole numbers, slices, None, and tensors of row numbers or masks, one after another for the dimensions from the first
on. All of them lie within the table: a GPU that is given others ends its context.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..memory import faults
from ..memory.gather import index_bytes
from ..runtime.arguments import MOST, dense, repr_of
from ..runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory

_FORMS = "a table is indexed by rows as a tensor is, with whole numbers, slices, lists, masks, tensors or arrays, ... and None"


def parts_of(index: Any, shape: Sequence[int], *, turned: bool = False) -> list[Any]:
    """The parts of ``index``, ``...`` written out, of a table of ``shape``. Where they are whole rows by their numbers
    (:func:`is_rows`), those are not looked at: they are checked as rows are copied.

    Args:
        turned: whether rows may be selected backwards, by a slice with a step below 0.

    Raises:
        ConfigError: what selects nothing of any table.
        IndexOutOfRange: what this one does not have.
    """
    parts = [_part(one) for one in (index if isinstance(index, tuple) else (index,))] or [...]
    dots = [at for at, part in enumerate(parts) if part is ...]
    if len(dots) > 1:
        raise ConfigError(f"'...' stands for all dimensions that are left, and comes once: {repr_of(index)}")
    taken = sum(map(_dims, parts))
    if taken > len(shape):
        raise IndexOutOfRange(
            f"index {repr_of(index)} is of {taken} dimensions, and the table has {len(shape)}: its shape is {tuple(shape)}"
        )
    if dots:
        parts[dots[0] : dots[0] + 1] = [slice(None)] * (len(shape) - taken)
    dim = 0
    for part in parts:
        if isinstance(part, slice):
            _check_slice(part, dim, shape[dim], turned and dim == 0)
        elif isinstance(part, torch.Tensor) and part.dtype == torch.bool:
            _check_mask(part, dim, shape)
        elif isinstance(part, torch.Tensor):
            if not is_rows(parts):
                _check_numbers(part, dim, shape[dim])
        elif _dims(part) and not -shape[dim] <= part < shape[dim]:
            raise _outside(0, part, dim, shape[dim], 1)
        dim += _dims(part)
    return parts


def numbers(index: Any) -> torch.Tensor:
    """Row numbers, or a mask, that are not in a tensor yet; ConfigError for what is neither."""
    if isinstance(index, range):
        index = list(index)
    if hasattr(index, "__array__"):
        return _of_array(np.asarray(index))
    try:
        return torch.tensor(index, dtype=None if len(index) else torch.int64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"row numbers are a tensor or a list of integers, not {repr_of(index)}: {error}") from None


def rows_of(part: torch.Tensor) -> torch.Tensor:
    """A mask of rows as their numbers; numbers as they are."""
    return part.nonzero().view(-1) if part.dtype == torch.bool else part


def device_of(parts: Sequence[Any]) -> torch.device:
    """Where the rows are wanted: on the GPU that one of the tensors is on, or on the CPU."""
    return next((part.device for part in parts if isinstance(part, torch.Tensor) and part.is_cuda), torch.device("cpu"))


def is_rows(parts: Sequence[Any]) -> bool:
    """Whether one tensor selects whole rows."""
    return isinstance(parts[0], torch.Tensor) and _dims(parts[0]) == 1 and all(is_all(part) for part in parts[1:])


def require_rows_first(parts: Sequence[Any]) -> None:
    """ConfigError for what tables whose rows lie in several places do not take in one step."""
    first, *rest = parts
    # None, True and a mask without dimensions have 0.
    if _dims(first) != 1 or any(isinstance(part, torch.Tensor) for part in rest):
        raise ConfigError(
            "this table gives rows first: take table[rows], and what else is wanted of these, as table[rows][:, columns]"
        )


def is_all(part: Any) -> bool:
    """Whether it selects all of a dimension."""
    return isinstance(part, slice) and part == slice(None)


def _part(one: Any) -> Any:
    if one is None or one is ... or isinstance(one, bool | int | slice):
        return one
    if isinstance(one, np.bool_):
        return bool(one)
    if isinstance(one, torch.Tensor):
        if dense("the index", one).dtype != torch.bool:
            index_bytes(one)
        return one
    if isinstance(one, list | range) or (hasattr(one, "__array__") and not isinstance(one, np.generic)):
        return _part(numbers(one))
    try:
        return operator.index(one)
    except TypeError:
        raise ConfigError(f"{_FORMS}, not with {repr_of(one)}") from None


def _of_array(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A copy, since an array may be read-only, and no tensor is."""
    if array.dtype == np.bool_:
        return torch.from_numpy(array.astype(np.bool_))
    if array.dtype.kind not in "iu":
        raise ConfigError(f"row numbers are whole numbers, and masks are bool, not {array.dtype}; use index.astype('int64')")
    if array.dtype == np.uint64 and (array > MOST).any():
        raise IndexOutOfRange(f"index {array.max()} is outside of every table: rows are counted in 63 bits")
    return torch.from_numpy(array.astype(np.int64))


def _dims(part: Any) -> int:
    """How many dimensions of the table a part takes."""
    if part is None or part is ... or isinstance(part, bool):
        return 0
    return part.dim() if isinstance(part, torch.Tensor) and part.dtype == torch.bool else 1


def _check_mask(mask: torch.Tensor, dim: int, shape: Sequence[int]) -> None:
    of = tuple(shape[dim : dim + mask.dim()])
    if tuple(mask.shape) != of:
        raise IndexOutOfRange(
            f"a mask of shape {tuple(mask.shape)} selects from dimension {dim} on, where the table has {of}; make it as large"
        )


def _check_numbers(index: torch.Tensor, dim: int, size: int) -> None:
    flat = index.reshape(-1)
    bad = (flat < -size) | (flat >= size)
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        raise _outside(at, int(flat[at]), dim, size, int(bad.sum()))


def _outside(at: int, value: int, dim: int, size: int, count: int) -> IndexOutOfRange:
    if dim == 0:
        return faults.out_of_range(at, value, size, count)
    return IndexOutOfRange(f"index {repr_of(value)} at position {at} is outside of dimension {dim}, which has {size} elements")


def _check_slice(part: slice, dim: int, size: int, turned: bool) -> None:
    what = "rows" if dim == 0 else f"elements of dimension {dim}"
    try:
        _, _, step = part.indices(size)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{what} are selected by whole numbers, and a step that is not 0, not by {repr_of(part)}: {error}"
        ) from None
    if step < 0 and not turned:
        raise ConfigError(
            f"{what} are not selected backwards, since what a slice gives is the same memory; take them forwards, and copy "
            f"them by flip({dim})"
        )


def numbers_of(index: slice, rows: int) -> torch.Tensor:
    """The row numbers that a slice selects; OutOfMemory where they do not fit in memory."""
    wanted = range(rows)[index]
    try:
        return torch.arange(len(wanted)) * wanted.step + wanted.start
    except RuntimeError:
        raise OutOfMemory(f"{len(wanted)} row numbers do not fit in memory; select fewer rows at a time") from None
