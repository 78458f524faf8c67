"""Rows by their numbers: what is the same for every table, wherever its rows lie."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, Self

import torch

from ..memory import faults
from ..memory.count import TierCount, count_rows
from ..memory.gather import Tiers, copy_rows, index_bytes
from ..memory.gather_stats import measured
from ..memory.plan import visiting_order
from ..runtime.arguments import dense, not_dense, shown
from ..runtime.errors import ConfigError, OutOfMemory
from ..runtime.params import Params
from ..runtime.shown import Shown
from ..runtime.units import format_bytes
from .indexing import is_all, numbers, numbers_of, parts_of, require_rows_first, rows_of
from .tensor_like import TensorLike

Index = torch.Tensor | Sequence[int]


class RowTable(TensorLike, Shown, ABC):
    """A table that gives rows and takes them, on whatever device the row numbers are.

    Attributes:
        in_reach: whether kernels read and write its rows where they lie (:meth:`reach`). Others are fetched and put back.
    """

    in_reach: ClassVar[bool] = True
    _rows: int
    _row_shape: torch.Size
    _row_bytes: int
    _dtype: torch.dtype

    @abstractmethod
    def _source(self, index: torch.Tensor) -> int | Params:
        """The table's address on the device of ``index``, or its Tiers."""

    @abstractmethod
    def _sorts(self, rows: int) -> bool:
        """Whether ``rows`` rows for a GPU are visited in the order of their pages."""

    @abstractmethod
    def _require_apart(self, tensor: torch.Tensor, name: str) -> None:
        """Rows are copied by many threads in no order, so a copy within the table has no defined result."""

    def count(self, index: Index) -> TierCount:
        """From where the rows of a gather come: how many, and what that takes of each tier in sectors and lines.

        Args:
            index: as in ``gather``; its device is the reader.

        Raises:
            IndexOutOfRange: naming the first bad position.
        """
        rows = self._row_numbers(index)
        return count_rows(self._source(rows), self._rows, self._row_bytes, rows)

    def _storage_stats(self) -> Any:
        """What its cache has read from the disk so far; None of a table in memory."""
        return None

    def reach(self, index: torch.Tensor) -> Params:
        """Its Tiers for the device of ``index``, for kernels that read and write rows themselves."""
        source = self._source(self._index(index))
        if not isinstance(source, int):
            return source
        tiers = Tiers()
        host = tiers.host
        host.base, host.rows = source, self._rows
        return tiers

    def writer(self, device: torch.device) -> torch.device:
        """The device that writes rows that are given on ``device``; whoever asks begins to write now."""
        return device

    @property
    def dtype(self) -> torch.dtype:
        """The type of its elements."""
        return self._dtype

    @property
    def shape(self) -> torch.Size:
        """Its dimensions; the first counts the rows."""
        return torch.Size((self._rows, *self._row_shape))

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, each counted once; a view may be smaller than the memory that it keeps."""
        return self._rows * self._row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: of ``ut[0]``."""
        return self._row_bytes

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, index: Any) -> torch.Tensor:
        """Rows as a new tensor: on the device of a tensor of row numbers or a mask, or else on the CPU. Behind the rows
        there may be whole numbers and slices for other dimensions.

        Raises:
            IndexOutOfRange, ConfigError: what it does not have, or take.
        """
        if isinstance(index, torch.Tensor) and index.dtype != torch.bool:
            return self.gather(index)
        first, *rest = self._parts(index)
        if isinstance(first, torch.Tensor):
            taken, dims = self.gather(rows_of(first)), rows_of(first).dim()
        elif isinstance(first, slice):
            taken, dims = self.gather(numbers_of(first, self._rows)), 1
        else:
            taken, dims = self.gather([first])[0], 0
        return taken[(slice(None),) * dims + tuple(rest)]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Writes rows: a number, or what can be expanded to their shape, of any type and on any device."""
        first, *rest = self._parts(index)
        if not all(map(is_all, rest)):
            raise ConfigError(
                "this table takes whole rows: read them, change them, and write them back with table[rows] = changed"
            )
        if isinstance(first, slice):
            self._write(numbers_of(first, self._rows), value)
        elif isinstance(first, torch.Tensor):
            self._write(rows_of(first), value)
        else:
            self._write(torch.tensor(first), value)

    def _parts(self, index: Any) -> list[Any]:
        """Of an index whose rows lie in several places, or elsewhere."""
        parts = parts_of(index, self.shape, turned=True)
        require_rows_first(parts)
        return parts

    def _write(self, rows: torch.Tensor, value: Any) -> None:
        """Writes ``value`` to the rows of these numbers, on their device."""
        self.scatter_(rows, expanded(value, rows.shape + self._row_shape, self._dtype, rows.device))

    def gather(
        self,
        index: Index,
        out: torch.Tensor | None = None,
        stream: torch.cuda.Stream | None = None,
        max_blocks: int | None = None,
        check: Literal["sync", "async"] = "sync",
        sort: bool | Literal["auto"] = "auto",
        stats: dict[str, Any] | None = None,
    ) -> torch.Tensor:
        """Rows at ``index``: shape ``index.shape + shape[1:]``, on the index's device.

        Args:
            index: int32 or int64, any shape; -1 is the last row.
            out: contiguous tensor of that shape and type to write to, instead of a new one.
            stream: where the GPU does it, instead of the current stream; the index and ``out`` must be ready there.
            max_blocks: blocks that the GPU may use, a multiprocessor each, so that other kernels find room (Min 2022, section
                3.3.2). By default as many as fill the link: 4 where rows can be copied in bulk (256 bytes to about 14 KiB, a
                multiple of 16, on an H100 or newer; 8 below 512 bytes), else one for every fourth multiprocessor. Where rows
                lie in GPU memory too, by default all multiprocessors.
            check: ``"sync"`` waits for the rows and raises IndexOutOfRange here; ``"async"`` returns at once, and the
                next call on that GPU, or ``synchronize()``, raises. Rows of bad indices are zero.
            sort: whether the GPU visits rows in the order of their pages; the caller's order is returned in any case.
                ``"auto"`` sorts where it is predicted to be faster (memory/plan.py).
            stats: a dict that is filled with what the gather did: seconds, bytes and requests, by tier and by size
                (docs/memory.md). That is counted apart from the gather, which is waited for.

        Raises:
            IndexOutOfRange: naming the first bad position, its value, and the table's rows.
            ConfigError: an index, ``out`` or option that cannot be used.
        """
        if stats is not None:
            with measured(self, self._row_numbers(index), stats):
                return self.gather(index, out, stream, max_blocks, check, sort)
        if stream is not None:
            with torch.cuda.stream(stream):
                rows = self.gather(index, out, None, max_blocks, check, sort)
            if rows.is_cuda and isinstance(index, torch.Tensor):
                # Whichever stream is done with them first must leave them to the other.
                rows.record_stream(torch.cuda.current_stream(rows.device))
                rows.record_stream(stream)
                index.record_stream(stream)
            return rows
        index = self._index(index)
        table = self._source(index)
        shape = index.shape + self._row_shape
        if out is None:
            out = room_for(shape, self._dtype, index.device)
        else:
            require_rows(out, "out", shape, self._dtype, index.device)
            self._require_apart(out, "out")
        if not isinstance(sort, bool) and not (isinstance(sort, str) and sort == "auto"):
            raise ConfigError(f"sort={shown(sort)} is none of True, False and 'auto'")
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
        stats: dict[str, Any] | None = None,
    ) -> Self:
        """Writes ``rows`` (shape ``index.shape + shape[1:]``) to the table; a GPU writes over the link.

        Where an index is repeated, its rows are written at once: each byte comes from one of them, not all from the same.
        Rows of bad indices are left out.

        Args:
            index: int32 or int64, any shape; -1 is the last row.
            rows: of the table's type, on the index's device, not in the table's own memory.
            max_blocks, check, stats: as in ``gather``; a write of part of a sector counts as one of all of it.

        Returns:
            The table itself.

        Raises:
            IndexOutOfRange: naming the first bad position, its value, and the table's rows.
            ConfigError: an index of another type, or rows of another shape, type or device.
        """
        if stats is not None:
            with self._measured_write(index, stats):
                return self.scatter_(index, rows, max_blocks=max_blocks, check=check)
        index = self._index(index)
        table = self._source(index)
        if isinstance(rows, torch.Tensor):
            rows = dense("rows", rows).resolve_conj().resolve_neg().contiguous()
        require_rows(rows, "rows", index.shape + self._row_shape, self._dtype, index.device)
        self._require_apart(rows, "rows")
        copy_rows(table, self._rows, self._row_bytes, rows, index, into_table=True, max_blocks=max_blocks, check=check)
        return self

    def _measured_write(self, index: Index, stats: dict[str, Any]) -> AbstractContextManager[None]:
        """Of rows that the device writes that is given them, or that stands in for it."""
        rows = self._row_numbers(index)
        return measured(self, rows.to(self.writer(rows.device)), stats)

    def synchronize(self) -> None:
        """Waits for what was started with ``check="async"``, and raises IndexOutOfRange if it met a bad index."""
        faults.synchronize()

    def _row_numbers(self, index: Index) -> torch.Tensor:
        """Row numbers as :func:`row_numbers` gives them."""
        return row_numbers(index, self._rows)

    @staticmethod
    def _index(index: Index) -> torch.Tensor:
        """Row numbers as a contiguous tensor of a type and on a device that can be used."""
        if not isinstance(index, torch.Tensor):
            index = numbers(index)
        index_bytes(index)
        if index.is_nested:
            raise not_dense("the tensor of row numbers", index)
        if not index.is_cuda and not index.is_cpu:
            raise ConfigError(f"row numbers are on {index.device}; use a CPU or CUDA tensor")
        try:
            return index if index.is_contiguous() else index.contiguous()
        except RuntimeError:  # asked only here, since this is called for every few rows
            if index.layout == torch.strided:
                raise OutOfMemory(f"{index.numel()} row numbers do not fit in memory; give fewer at a time") from None
            raise not_dense("the tensor of row numbers", index) from None


def row_numbers(index: Index, rows: int) -> torch.Tensor:
    """Row numbers of a table of ``rows`` rows as int64 from 0 on, in one dimension; IndexOutOfRange names the first bad one."""
    found, wrong = resolved(RowTable._index(index).view(-1).long(), rows)  # a table may have more rows than int32 counts
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
    """Whether a tensor lies in any of ``nbytes`` bytes at the address ``own``."""
    begin = tensor.data_ptr()
    return bool(tensor.numel()) and begin < own + nbytes and own < begin + tensor.nbytes


def require_outside(tensor: torch.Tensor, name: str, own: int, nbytes: int) -> None:
    """ConfigError where a tensor overlaps the table's ``nbytes`` bytes at the address ``own``."""
    if overlaps(tensor, own, nbytes):
        raise ConfigError(f"{name} lies in the table's own memory; copy it first, as in {name}.clone()")


def as_words(rows: torch.Tensor) -> torch.Tensor:
    """Rows ``[n, ...]`` as ``[n, words]`` of whole numbers as wide as can be: no copy. Torch does not pick and place rows of
    every type."""
    row_bytes = rows[:1].nbytes
    for dtype in (torch.int64, torch.int32, torch.int16):
        if row_bytes and row_bytes % dtype.itemsize == 0 and rows.data_ptr() % dtype.itemsize == 0:
            return rows.view(-1).view(dtype).view(len(rows), row_bytes // dtype.itemsize)
    return rows.view(-1).view(torch.uint8).view(len(rows), row_bytes)


def require_rows(tensor: torch.Tensor, name: str, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> None:
    """ConfigError unless ``tensor`` is what rows are copied to or from."""
    if dense(name, tensor).is_conj() or tensor.is_neg():
        raise ConfigError(f"{name} is a lazily conjugated or negated view; use {name}.resolve_conj().resolve_neg()")
    if tensor.shape != shape or tensor.dtype != dtype or tensor.device != device or not tensor.is_contiguous():
        raise ConfigError(
            f"{name} must be a contiguous {dtype} tensor of shape {tuple(shape)} on {device}, not {tensor.dtype} of "
            f"shape {tuple(tensor.shape)} on {tensor.device}"
        )
