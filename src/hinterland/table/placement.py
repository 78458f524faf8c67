"""Where the rows of a table lie: all that one kind of table has and others have not."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal

import torch

from ..memory.count import TierCount, count_rows
from ..memory.gather import Padding, Tiers, copy_rows, few_blocks
from ..memory.plan import visiting_order
from ..runtime import devices
from ..runtime.arguments import repr_of
from ..runtime.errors import ConfigError
from ..runtime.params import Params
from ..runtime.repr import Repr, table_of
from .row_arguments import as_index

Sort = bool | Literal["auto"]
By = Literal["gpu", "cpu", "both"]


class Placement(Repr, ABC):
    """Rows of one type and shape, in memory of some kind.

    One whose rows kernels reach has :meth:`_source`. Any other has ``in_reach = False``, :meth:`_read`, :meth:`_count`, which
    names a tier, and, if it is written to, :meth:`_write`. Each says its ``placement``. The rest is for those that can do more.

    Attributes:
        in_reach: whether kernels read and write its rows where they lie (:meth:`reach`). Others are fetched and put back.
        collective: whether all ranks of a group gather at once (:class:`.Collective`).
        keepable: whether training keeps its hottest rows in GPU memory: it has ``tiered``, then, which makes such a table.
        follows_reads: whether a gather brings its rows nearer for later ones.
        plan: how many of its rows lie where, of one with tiers or slots (:class:`.TierPlan`, ``SlotPlan``).
        file: the :class:`.StorageArray` that it is, or that is its last tier; None where all rows lie in memory.
        managed_bytes: how many bytes from its beginning on are mapped in large pages; 0 where that is not known of it.
    """

    in_reach: ClassVar[bool] = True
    collective: ClassVar[bool] = False
    keepable: ClassVar[bool] = False
    follows_reads: ClassVar[bool] = False
    plan: Any = None
    file: Any = None
    managed_bytes: int = 0

    def __init__(self, shape: Sequence[int], dtype: torch.dtype) -> None:
        self._rows, self._row_shape, self._dtype = shape[0], torch.Size(shape[1:]), dtype
        self._row_bytes = math.prod(self._row_shape) * dtype.itemsize

    @property
    @abstractmethod
    def placement(self) -> str:
        """Where all rows lie, also those of which GPUs have copies: ``"storage"``, or in host memory ``"managed"``,
        ``"split"``, ``"pinned"``, ``"system"`` or ``"pageable"``; of several machines where this one's part lies."""

    def _source(self, index: torch.Tensor) -> int | Params:
        """The address of its rows on the device of ``index``, or their Tiers."""
        raise ConfigError(f"kernels do not read rows of a {type(self).__name__}; gather them first")

    def _read(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort) -> None:
        """Copies the rows at ``index`` to ``out``; arguments as of ``Table.gather``, looked at before."""
        self._read_padded(index, None, out, max_blocks, check, sort)

    def _read_padded(
        self, index: torch.Tensor, padding: Padding | None, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort
    ) -> None:
        """The same of rows that kernels reach."""
        table, visit = self._source(index), None
        if index.is_cuda and (sort is True or (sort == "auto" and self._sorts(index.numel()))):
            visit = visiting_order(index.view(-1), self._row_bytes, self.nbytes)
        copy_rows(
            table, self._rows, self._row_bytes, out, index, visit=visit, max_blocks=max_blocks, check=check, padding=padding
        )

    def _read_by(
        self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort, by: str | None
    ) -> bool:
        """Copies the rows at ``index`` to ``out`` where the CPU helps, by plan or because ``by`` says so, and says whether."""
        if by is not None and by != ("gpu" if index.is_cuda and self.in_reach else "cpu"):
            raise ConfigError(
                f"by={repr_of(by)}: rows of a {type(self).__name__} for {index.device} are read one way; leave it out, or "
                "gather from a UnifiedTensor with row numbers on a GPU"
            )
        return False

    def captured(
        self,
        index: torch.Tensor,
        out: torch.Tensor,
        max_blocks: int | None = None,
        *,
        from_end: bool = True,
        asked: torch.Tensor | None = None,
    ) -> None:
        """Copies the rows at ``index`` to ``out`` as a part of the CUDA graph that is captured, both on its GPU.

        Args:
            from_end: whether negative row numbers count from the end, or are bad.
            asked: bool ``[n]``: for which of the numbers; of others ``out`` gets any row. None is all.
        """
        raise ConfigError(f"rows of a {type(self).__name__} are not gathered in a CUDA graph; gather them before it")

    def raise_deferred(self) -> None:
        """Raises what its gathers in CUDA graphs have met so far."""

    def _write(self, index: torch.Tensor, rows: torch.Tensor, max_blocks: int | None, check: str) -> None:
        """Copies ``rows`` there; arguments as of ``Table.scatter_``, looked at before."""
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

    def _require_separate(self, tensor: torch.Tensor, name: str) -> None:
        """Rows are copied by many threads in no order, so a copy within the table has no defined result."""

    def _in_memory(self) -> torch.Tensor | None:
        """All rows as a CPU tensor of its own, copies in GPUs written back; None where they do not lie there in one piece."""
        return self.tensor_on(torch.device("cpu"))

    def tensor_on(self, device: torch.device) -> torch.Tensor | None:
        """All rows as a tensor that ``device`` reads where they lie; None where they do not lie in one piece of memory."""
        return None

    def gather_blocks(self, device: torch.device) -> int:
        """Blocks of a GPU that gather about as fast as any number, and leave the rest of it to other work."""
        return few_blocks(device, self._row_bytes, tiered=True) or devices.quarter(device)

    def require_writable(self) -> None:
        """ConfigError of a table that is only read."""

    def writer(self, device: torch.device) -> torch.device:
        """The device that writes rows that are given on ``device``; whoever asks begins to write now."""
        self.require_writable()
        return device

    def reach(self, index: torch.Tensor) -> Params:
        """Its Tiers for the device of ``index``, for kernels that read and write rows themselves."""
        source = self._source(as_index(index))
        if not isinstance(source, int):
            return source
        tiers = Tiers()
        host = tiers.host
        host.base, host.rows = source, self._rows
        return tiers

    def requested_on(self, device: torch.device) -> Params | None:
        """Its RequestedRows for kernels on a device, within :meth:`requesting`, if what they read comes nearer."""
        return None

    def requesting(self) -> AbstractContextManager[None]:
        """A with-block in which kernels on the current stream read :meth:`requested_on`. At its end that comes nearer."""
        return nullcontext()

    def explain(self) -> str:
        """Where its rows lie, and what that means, a line each: of tiers and slots what its plan says."""
        if self.plan is not None:
            return str(self.plan.explain())
        return f"{self._rows:,} rows of {self._row_bytes} B lie in {self.placement}"

    def stats(self) -> Any:
        """What its cache has moved to and from the disk so far (``StorageStats``); None of a table in memory."""
        return None

    def flush(self) -> None:
        """What was written before is where all rows lie when this returns."""

    def close(self) -> None:
        """Writes back what is not yet, and gives back what it holds beside the table of which it was made; a UnifiedTensor has
        nothing to give back."""

    def _facts(self) -> dict[str, Any]:
        return table_of(self.shape, self.dtype, placement=self.placement)

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
