"""A table: rows that are asked for by their numbers, wherever they lie."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Literal, Self

import torch

from ..memory import faults
from ..memory.count import TierCount
from ..memory.gather import Padding
from ..memory.gather_stats import measured, require_dict
from ..memory.help_plan import WAYS
from ..runtime.arguments import dense, repr_of
from ..runtime.errors import ConfigError
from .indexing import is_all, numbers_of, parts_of, require_rows_first, rows_of
from .placement import By, Placement, Sort
from .row_arguments import Index, as_index, expanded, place_rows, require_rows, room_for, row_numbers
from .tensor_like import TensorLike


class Table(Placement, TensorLike):
    """Rows of one type and shape, which it gives and takes on whatever device the row numbers are.

    ``gather``, ``scatter_``, ``count`` and ``prefetch`` are those of every table. Where rows lie, a kind of table says by the
    methods of :class:`.Placement`, and in ``_AS_TENSOR`` what sentences tell who takes it for an ordinary tensor.
    """

    @property
    def part(self) -> Table:
        """The rows of this machine: itself, unless several machines have one table."""
        return self

    def tiers_of(self, index: torch.Tensor) -> dict[str, int]:
        """How many rows of a gather come from each tier."""
        return self.count(index).rows

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
        sort: Sort = "auto",
        stats: dict[str, Any] | None = None,
        by: By | None = None,
    ) -> torch.Tensor:
        """Rows at ``index``: shape ``index.shape + shape[1:]``, on the index's device.

        Args:
            index: int32 or int64, any shape; -1 is the last row.
            out: contiguous tensor of that shape and type to write to, instead of a new one.
            stream: where the GPU does it, instead of the current stream; the index and ``out`` must be ready there.
            max_blocks: blocks that the GPU may use, a multiprocessor each, so that other kernels find room (Min 2022, section
                3.3.2). By default one for every fourth multiprocessor, or all where rows lie in GPU memory too. 8 fill an
                H200's link with rows of any multiple of 4 bytes, and 2 with whole lines (docs/memory.md).
            check: ``"sync"`` waits for the rows and raises IndexOutOfRange here; ``"async"`` returns at once, and the
                next call on that GPU, or ``synchronize()``, raises. Rows of bad indices are zero. In a CUDA graph that is
                captured it is always ``"async"``: a replay reads the row numbers that there are then (docs/memory.md).
            sort: whether the GPU visits rows in the order of their pages; the caller's order is returned in any case.
                ``"auto"`` sorts where it is predicted to be faster (memory/plan.py).
            stats: a dict that is filled with what the gather did: seconds, bytes and requests, by tier and by size
                (docs/memory.md). That is counted apart from the gather, which is waited for.
            by: who reads rows of a UnifiedTensor for a GPU: ``"gpu"`` over the link; ``"cpu"``, whose threads pack them for the
                copy engine; ``"both"`` at once. None is what is predicted to be fastest (memory/help_plan.py), and the GPU
                with ``check="async"``, a ``sort`` that is said, or in a graph that is captured. The CPU waits for the index.

        Raises:
            IndexOutOfRange: naming the first bad position, its value, and the table's rows.
            ConfigError: an index, ``out`` or option that cannot be used.
        """
        if stats is not None:
            return self._measured(stats, index, out, stream, max_blocks, check, sort, None, by)
        if stream is not None:
            if not self.in_reach:  # the CPU reads the row numbers
                stream.wait_stream(torch.cuda.current_stream(stream.device))
            with torch.cuda.stream(stream):
                rows = self.gather(index, out, None, max_blocks, check, sort, by=by)
            if rows.is_cuda and isinstance(index, torch.Tensor):
                # Whichever stream is done with them first must leave them to the other.
                rows.record_stream(torch.cuda.current_stream(rows.device))
                rows.record_stream(stream)
                index.record_stream(stream)
            return rows
        index = as_index(index)
        out = room_for(index.shape + self._row_shape, self._dtype, index.device) if out is None else self._room(index, out)
        if sort is not False and sort is not True and not (isinstance(sort, str) and sort == "auto"):
            raise ConfigError(f"sort={repr_of(sort)} is none of True, False and 'auto'")
        if by is not None and not (isinstance(by, str) and by in WAYS):
            raise ConfigError(f"by={repr_of(by)} is none of 'gpu', 'cpu' and 'both'")
        if not self._read_by(index, out, max_blocks, check, sort, by):
            self._read(index, out, max_blocks, check, sort)
        return out

    def begin_gather(
        self, index: torch.Tensor, threads: int, max_blocks: int | None = None
    ) -> tuple[torch.Tensor, Future[None] | None]:
        """A gather that nobody waits for.

        Args:
            index: int64 ``[n]``, contiguous on a GPU that reads the table; all are rows of it.
            threads: of the CPU that may help, at most.
            max_blocks: as of ``gather``.

        Returns:
            The rows, in the order of the current stream, and what must be done, too, before all are there, or None.
        """
        return self.gather(index, max_blocks=max_blocks, check="async"), None

    def gather_padded(self, index: torch.Tensor, padding: Padding, max_blocks: int | None = None) -> torch.Tensor:
        """What ``gather`` gives with ``check="async"``, of an ``index`` that ends in padding, for which nothing is read. In a
        CUDA graph each replay looks up where that begins.

        Args:
            index: int32 or int64 ``[n]``, contiguous.
            padding: its last entries.
            max_blocks: as of ``gather``.

        Raises:
            ConfigError: the device of ``index`` does not read the table.
            IndexOutOfRange: as ``gather``.
        """
        out = room_for(index.shape + self._row_shape, self._dtype, index.device)
        self._read_padded(index, padding, out, max_blocks, "async", "auto")
        return out

    def _room(self, index: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """A caller's ``out``, checked."""
        require_rows(out, "out", index.shape + self._row_shape, self._dtype, index.device)
        self._require_separate(out, "out")
        return out

    def _measured(self, stats: dict[str, Any], index: Index, *how: Any) -> torch.Tensor:
        """A gather that fills ``stats``; ``how``: the other arguments."""
        require_dict(stats)
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
        self._require_separate(rows, "rows")
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

    def fetch(self, rows: torch.Tensor, out: torch.Tensor, places: torch.Tensor | None = None) -> None:
        """Copies row ``rows[i]`` (int64 ``[n]``, from 0 on) to ``out[places[i]]``, or to ``out[i]``.

        Args:
            out: contiguous ``[m, ...]`` of the table's type, on the CPU or a GPU.
            places: int64 ``[n]``, ascending, each once.
        """
        if places is None:
            self.gather(rows.to(out.device), out[: len(rows)])
        else:
            place_rows(self.gather(rows.to(out.device)), places.to(out.device), out)

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
