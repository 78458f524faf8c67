"""A table: rows that are asked for by their numbers, wherever they lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self

import torch

from ..memory import faults
from ..memory.count import TierCount, count_rows
from ..memory.gather import Tiers, copy_rows, few_blocks
from ..memory.gather_stats import measured
from ..memory.plan import visiting_order
from ..runtime import devices
from ..runtime.arguments import dense, shown
from ..runtime.errors import ConfigError
from ..runtime.params import Params
from ..runtime.shown import Shown, table_of
from .indexing import is_all, numbers_of, parts_of, require_rows_first, rows_of
from .rows import Index, as_index, expanded, require_rows, room_for, row_numbers
from .tensor_like import TensorLike


class Table(TensorLike, Shown, ABC):
    """Rows of one type and shape, which it gives and takes on whatever device the row numbers are.

    ``gather``, ``scatter_``, ``count`` and ``prefetch`` are those of every table. Where rows lie is said by a few methods that
    each kind of table has of its own: one whose rows kernels reach has :meth:`_source`; any other has ``in_reach = False``,
    :meth:`_read`, :meth:`_count`, which names a tier of ``TIERS``, and, if it is written to, :meth:`_write`. Each sets
    ``_rows``, ``_row_shape``, ``_row_bytes`` and ``_dtype``, says its ``placement``, and in ``_AS_TENSOR`` what sentences tell
    who takes it for an ordinary tensor.

    Attributes:
        in_reach: whether kernels read and write its rows where they lie (:meth:`reach`). Others are fetched and put back.
        collective: whether all ranks of a group gather at once (:class:`.Collective`).
        keepable: whether training keeps its hottest rows in GPU memory: it has ``tiered``, then, which makes such a table.
        file: the :class:`.StorageArray` that it is, or that is its last tier; None where all rows lie in memory.
        mapped_bytes: how many bytes from its beginning on are mapped in large pages; 0 where that is not known of it.
    """

    in_reach: ClassVar[bool] = True
    collective: ClassVar[bool] = False
    keepable: ClassVar[bool] = False
    file: Any = None
    mapped_bytes: int = 0
    _rows: int
    _row_shape: torch.Size
    _row_bytes: int
    _dtype: torch.dtype

    def _source(self, index: torch.Tensor) -> int | Params:
        """The table's address on the device of ``index``, or its Tiers."""
        raise ConfigError(f"kernels do not read rows of a {type(self).__name__}; gather them first")

    def _read(
        self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: bool | Literal["auto"]
    ) -> None:
        """Copies the rows at ``index`` to ``out``; arguments as of ``gather``, looked at before."""
        table, visit = self._source(index), None
        if index.is_cuda and (sort is True or (sort == "auto" and self._sorts(index.numel()))):
            visit = visiting_order(index.view(-1), self._row_bytes, self.nbytes)
        copy_rows(table, self._rows, self._row_bytes, out, index, visit=visit, max_blocks=max_blocks, check=check)

    def _write(self, index: torch.Tensor, rows: torch.Tensor, max_blocks: int | None, check: str) -> None:
        """Copies ``rows`` to the table; arguments as of ``scatter_``, looked at before."""
        table = self._source(index)
        copy_rows(table, self._rows, self._row_bytes, rows, index, into_table=True, max_blocks=max_blocks, check=check)

    def _count(self, rows: torch.Tensor) -> TierCount:
        """From where rows (int64 ``[n]``, from 0 on) come to the device that their numbers are on."""
        return count_rows(self._source(rows), self._rows, self._row_bytes, rows)

    def _prefetch(self, rows: torch.Tensor) -> None:
        """Has rows (int64 ``[n]``, from 0 on) brought nearer in the background."""

    def _sorts(self, rows: int) -> bool:
        """Whether ``rows`` rows for a GPU are visited in the order of their pages."""
        return False

    def _require_apart(self, tensor: torch.Tensor, name: str) -> None:
        """Rows are copied by many threads in no order, so a copy within the table has no defined result."""

    @property
    @abstractmethod
    def placement(self) -> str:
        """Where all rows lie, also those of which GPUs have copies: ``"storage"``, or in host memory ``"mapped"``, ``"split"``,
        ``"registered"`` or ``"heap"``; of several machines where this one's part lies."""

    @property
    def part(self) -> Table:
        """The rows of this machine: itself, unless several machines have one table."""
        return self

    def explain(self) -> str:
        """Where its rows lie, and what that means, a line each."""
        return f"{self._rows:,} rows of {self._row_bytes} B lie in {self.placement}"

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, placement=self.placement)

    def tensor_on(self, device: torch.device) -> torch.Tensor | None:
        """All rows as a tensor that ``device`` reads where they lie; None where they do not lie in one piece of memory."""
        return None

    def gather_blocks(self, device: torch.device) -> int:
        """Blocks of a GPU that gather about as fast as any number, and leave the rest of it to other work."""
        return few_blocks(device, self._row_bytes, tiered=True) or devices.quarter(device)

    def tiers_of(self, index: torch.Tensor) -> dict[str, int]:
        """How many rows of a gather come from each tier."""
        return self.count(index).rows

    def require_writable(self) -> None:
        """ConfigError of a table that is only read."""

    def writer(self, device: torch.device) -> torch.device:
        """The device that writes rows that are given on ``device``; whoever asks begins to write now."""
        self.require_writable()
        return device

    def stats(self) -> Any:
        """What its cache has moved to and from the disk so far (``StorageStats``); None of a table in memory."""
        return None

    def reach(self, index: torch.Tensor) -> Params:
        """Its Tiers for the device of ``index``, for kernels that read and write rows themselves."""
        source = self._source(as_index(index))
        if not isinstance(source, int):
            return source
        tiers = Tiers()
        host = tiers.host
        host.base, host.rows = source, self._rows
        return tiers

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
        """Bytes of one row: of ``table[0]``."""
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
            self._put(numbers_of(first, self._rows), value)
        elif isinstance(first, torch.Tensor):
            self._put(rows_of(first), value)
        else:
            self._put(torch.tensor(first), value)

    def _parts(self, index: Any) -> list[Any]:
        """Of an index whose rows lie in several places, or elsewhere."""
        parts = parts_of(index, self.shape, turned=True)
        require_rows_first(parts)
        return parts

    def _put(self, rows: torch.Tensor, value: Any) -> None:
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
            return self._measured(stats, index, out, stream, max_blocks, check, sort)
        if stream is not None:
            if not self.in_reach:  # the CPU reads the row numbers
                stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream):
                rows = self.gather(index, out, None, max_blocks, check, sort)
            if rows.is_cuda and isinstance(index, torch.Tensor):
                # Whichever stream is done with them first must leave them to the other.
                rows.record_stream(torch.cuda.current_stream(rows.device))
                rows.record_stream(stream)
                index.record_stream(stream)
            return rows
        index = as_index(index)
        out = room_for(index.shape + self._row_shape, self._dtype, index.device) if out is None else self._room(index, out)
        if sort is not False and sort is not True and not (isinstance(sort, str) and sort == "auto"):
            raise ConfigError(f"sort={shown(sort)} is none of True, False and 'auto'")
        self._read(index, out, max_blocks, check, sort)
        return out

    def _room(self, index: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """A caller's ``out``, checked."""
        require_rows(out, "out", index.shape + self._row_shape, self._dtype, index.device)
        self._require_apart(out, "out")
        return out

    def _measured(self, stats: dict[str, Any], index: Index, *how: Any) -> torch.Tensor:
        """A gather that fills ``stats``; ``how``: the other arguments."""
        with measured(self, row_numbers(index, self._rows), stats):
            return self.gather(index, *how)

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
        self.require_writable()
        if stats is not None:
            numbers = row_numbers(index, self._rows)
            with measured(self, numbers.to(self.writer(numbers.device)), stats):
                return self.scatter_(index, rows, max_blocks=max_blocks, check=check)
        index = as_index(index)
        if isinstance(rows, torch.Tensor):
            rows = dense("rows", rows).resolve_conj().resolve_neg().contiguous()
        device = index.device if self.in_reach or not isinstance(rows, torch.Tensor) else rows.device
        require_rows(rows, "rows", index.shape + self._row_shape, self._dtype, device)
        self._require_apart(rows, "rows")
        self._write(index, rows, max_blocks, check)
        return self

    def count(self, index: Index) -> TierCount:
        """From where the rows of a gather come: how many, and what that takes of each tier in sectors and lines, or of storage
        in whole pages, each once, whether its cache has them or not.

        Args:
            index: as in ``gather``; its device is the reader.

        Raises:
            IndexOutOfRange: naming the first bad position.
        """
        return self._count(row_numbers(index, self._rows))

    def prefetch(self, index: Index) -> None:
        """Has those of these rows that lie on storage read into its cache in the background, as far as half of that holds them,
        and returns at once.

        Raises:
            IndexOutOfRange, ConfigError: as ``gather``. Pages that cannot be read are met when they are needed.
        """
        self._prefetch(row_numbers(index, self._rows))

    def close(self) -> None:
        """Writes back what is not yet, and gives back what it holds beside the table of which it was made; a UnifiedTensor has
        nothing to give back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def synchronize(self) -> None:
        """Waits for what was started with ``check="async"``, and raises IndexOutOfRange if it met a bad index."""
        faults.synchronize()


def as_table(value: object) -> Table | None:
    """``value`` where it is a table of this library, and None of anything else."""
    return value if isinstance(value, Table) else None
