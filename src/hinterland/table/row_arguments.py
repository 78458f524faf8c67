"""Rows by their numbers: what is asked of a table's arguments, and what is made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..memory import faults
from ..memory.gather import INDEX_BYTES, index_bytes
from ..runtime.arguments import dense, not_dense
from ..runtime.errors import ConfigError, OutOfMemory
from ..runtime.units import format_bytes
from .indexing import numbers
from .tensor_like import TensorLike

Index = torch.Tensor | Sequence[int]


def as_index(index: Index) -> torch.Tensor:
    """Row numbers as a contiguous tensor of a type and on a device that can be used."""
    if not isinstance(index, torch.Tensor):
        index = numbers(index)
    if index.dtype not in INDEX_BYTES:
        index_bytes(index)  # which says what is wrong
    if index.is_nested:
        raise not_dense("the tensor of row numbers", index)
    if not (index.is_cpu or index.is_cuda):
        raise ConfigError(f"row numbers are on {index.device}; use a CPU or CUDA tensor")
    try:
        return index if index.is_contiguous() else index.contiguous()
    except RuntimeError:  # asked only here, since this is called for every few rows
        if index.layout == torch.strided:
            raise OutOfMemory(f"{index.numel()} row numbers do not fit in memory; give fewer at a time") from None
        raise not_dense("the tensor of row numbers", index) from None


def row_numbers(index: Index, rows: int) -> torch.Tensor:
    """Row numbers of a table of ``rows`` rows as int64 from 0 on, in one dimension; IndexOutOfRange names the first bad one."""
    found, wrong = resolved(as_index(index).view(-1).long(), rows)  # a table may have more rows than int32 counts
    if bool(wrong.any()):
        at = int(wrong.nonzero()[0])
        value = int(found[at])
        raise faults.out_of_range(at, value if value >= 0 else value - rows, rows, int(wrong.sum()))
    return found


def resolved(index: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The row numbers ``index`` (int64) of a table of ``rows`` rows, counted from its first row on, and which of them it does
    not have. Whatever another thread does to ``index`` meanwhile, what is returned is what was checked."""
    found = torch.where(index < 0, index + rows, index)
    return found, (found < 0) | (found >= rows)


def expanded(value: Any, shape: torch.Size | None, dtype: torch.dtype, device: torch.device | None = None) -> torch.Tensor:
    """What is written to a table: ``value`` as a tensor of its type, of this shape and on this device, where they are said.

    Raises:
        ConfigError: it cannot be made one.
    """
    try:
        given = value._tensor_for(torch.device("cpu"), "an index") if isinstance(value, TensorLike) else torch.as_tensor(value)
        given = dense("rows", given).detach().to(device, dtype)
        return given if shape is None else given.expand(shape)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        of = "" if shape is None else f" of shape {tuple(shape)} and"
        raise ConfigError(f"rows{of} {dtype} are written here: {error}") from None


def room_for(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Memory for rows; OutOfMemory where there is none."""
    try:
        return torch.empty(shape, dtype=dtype, device=device)
    except RuntimeError as error:
        if device.type != "cpu" and not isinstance(error, torch.OutOfMemoryError):
            raise  # the GPU has another reason
        asked = format_bytes(math.prod(shape) * dtype.itemsize)
        raise OutOfMemory(f"{asked} of rows do not fit in the memory of {device}; ask for fewer at a time") from None


def overlaps(tensor: torch.Tensor, own: int, nbytes: int) -> bool:
    """Whether a tensor, from its first to its last element, lies in any of ``nbytes`` bytes at the address ``own``."""
    begin, length = tensor.data_ptr(), tensor.nbytes
    if length and not tensor.is_contiguous():
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        length = (last + 1) * tensor.itemsize
    return bool(length) and begin < own + nbytes and own < begin + length


def require_outside(tensor: torch.Tensor, name: str, own: int, nbytes: int) -> None:
    """ConfigError where a tensor overlaps the table's ``nbytes`` bytes at the address ``own``."""
    if overlaps(tensor, own, nbytes):
        raise ConfigError(f"{name} lies in the table's own memory; copy it first, as in {name}.clone()")


def as_words(rows: torch.Tensor) -> torch.Tensor:
    """Rows ``[n, ...]`` as ``[n, words]`` of whole numbers as wide as can be: no copy. Torch does not pick and place rows of
    every type."""
    row_bytes = rows[:1].nbytes
    if rows.numel() == 0:  # whose strides may be any, also numpy's 0
        return rows.new_empty((len(rows), row_bytes), dtype=torch.uint8)
    for dtype in (torch.int64, torch.int32, torch.int16):
        if row_bytes % dtype.itemsize == 0 and rows.data_ptr() % dtype.itemsize == 0:
            return rows.view(-1).view(dtype).view(len(rows), row_bytes // dtype.itemsize)
    return rows.view(-1).view(torch.uint8).view(len(rows), row_bytes)


def place_rows(rows: torch.Tensor, at: torch.Tensor, out: torch.Tensor) -> None:
    """Copies ``rows[i]`` to ``out[at[i]]``, whatever their type."""
    if len(rows):
        words = as_words(out)
        words.index_copy_(0, at, rows.view(-1).view(words.dtype).view(len(rows), words.shape[1]))


def require_rows(tensor: torch.Tensor, name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> None:
    """ConfigError unless ``tensor`` is what rows are copied to or from."""
    if dense(name, tensor).is_conj() or tensor.is_neg():
        raise ConfigError(f"{name} is a lazily conjugated or negated view; use {name}.resolve_conj().resolve_neg()")
    if tensor.shape != shape or tensor.dtype != dtype or tensor.device != device or not tensor.is_contiguous():
        raise ConfigError(
            f"{name} must be a contiguous {dtype} tensor of shape {tuple(shape)} on {device}, not {tensor.dtype} of "
            f"shape {tuple(tensor.shape)} on {tensor.device}"
        )
