"""TieredTensor whose last tier is storage: the hottest rows of a file in the memory of GPUs, the next in the host's.

Which rows lie in the file alone is known before any is read. So a gather has a kernel read what is in memory, as of any tiers,
has the file give the rest meanwhile, by one planned gather, and puts that in its places.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from ..memory.count import TierCount, count_rows
from ..memory.gather import OneRange, SlotMap, copy_rows
from ..runtime.capture import beside, capturing
from ..runtime.errors import ConfigError
from ..runtime.params import Params
from ..runtime.thresholds import BOUNCE_BYTES
from .host import HostTable
from .placement import Sort
from .row_arguments import as_words, resolved, row_numbers
from .table import Table
from .tiered import Asked, NearRows, TieredTensor, _Home, _State, _Tiers, homes_of, map_slots, new_state
from .tiers import TierPlan


class TieredStorage(TieredTensor):
    """The rows of a table in a file, the hottest of them in memory. ``array.tiered(...)`` makes one.

    Its tiers are those of a TieredTensor, and behind them ``storage``: rows in the file, a page at a time in its cache, which
    the CPU reads for every device.

    A gather checks row numbers first, whatever ``check`` says, and waits for the file. In a CUDA graph that is captured it
    reads the row numbers that there are at each replay, as one of the table below does. Rows in memory are copies: write
    through this table and not through the one below while there is one. What ``scatter_`` writes to memory is in the file after
    ``flush()``, and is written back to the table below by ``close()``.
    """

    _AS_TENSOR = "table[:] reads all rows into a tensor"
    in_reach = False
    _source = Table._source
    _tiers: _StoredTiers

    @property
    def file(self) -> Any:  # an attribute where it is None
        """The table below, whose rows in memory may be out of date until ``flush()``."""
        return self._tiers.whole

    def __getitem__(self, index: Any) -> torch.Tensor:
        """Rows as a new tensor, as of any table (Table)."""
        return Table.__getitem__(self, index)

    def _read(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort) -> None:
        tiers = self._tiers
        tiers.require_open()
        if index.is_cuda and capturing():
            return self.captured(index, out, max_blocks)
        tiers.whole.raise_deferred()
        rows = row_numbers(index, self._rows)
        near = tiers.near(index.device)
        at = tiers.places(rows) - near.first
        away = (at < 0).nonzero().view(-1)
        flat = out.view(len(rows), *self._row_shape)
        if len(away) < len(rows):  # rows of the file are any row first: that is less work than to part them
            at.clamp_(min=0)
            copy_rows(near.table, near.rows, self._row_bytes, flat, at, max_blocks=max_blocks, check="async")
        if len(away):
            tiers.whole.fetch(rows[away], flat, away)

    def captured(
        self,
        index: torch.Tensor,
        out: torch.Tensor,
        max_blocks: int | None = None,
        *,
        from_end: bool = True,
        asked: torch.Tensor | None = None,
    ) -> None:
        """As of any table. The file is asked for the rows that memory does not hold, and says which numbers are bad."""
        tiers = self._tiers
        tiers.require_open()
        flat, near = out.view(index.numel(), *self._row_shape), tiers.near(index.device)
        given = index.view(-1).to(torch.int64)
        rows, wrong = resolved(given, self._rows)
        if not from_end:
            wrong = wrong | (given < 0)
        at = tiers.places_on_gpu(rows.masked_fill(wrong, 0)) - near.first
        away = wrong | (at < 0)
        fetched, kept = torch.empty_like(flat), as_words(flat)
        if len(rows):
            asked = away if asked is None else away & asked.view(-1)
            tiers.whole.captured(given, fetched, from_end=from_end, asked=asked)
        if near.rows:
            copy_rows(near.table, near.rows, self._row_bytes, flat, at.clamp_(min=0), max_blocks=max_blocks)
        kept.copy_(torch.where(away[:, None], fetched.view(-1).view(kept.dtype).view_as(kept), kept))

    def synchronize(self) -> None:
        """Waits for all GPUs, and raises what gathers in CUDA graphs have met."""
        self._tiers.whole.synchronize()

    def _in_memory(self) -> None:
        return None

    def _write(self, index: torch.Tensor, rows: torch.Tensor, max_blocks: int | None, check: str) -> None:
        tiers, where = self._tiers, row_numbers(index, self._rows)
        device = self.writer(index.device)  # which reaches all that memory holds
        where, words = where.to(device), as_words(rows.view(len(where), *self._row_shape)).to(device)
        near, at = tiers.near(device), tiers.places(where)
        here, away = (at >= 0).nonzero().view(-1), (at < 0).nonzero().view(-1)
        if len(here):
            at = at[here]
            table = near.table, near.rows, self._row_bytes
            copy_rows(*table, words[here], at, into_table=True, max_blocks=max_blocks, check=check)
            tiers.wrote(at)
        if len(away):
            left = words[away].view(-1).view(self._dtype).view(len(away), *self._row_shape)
            tiers.whole.scatter_(where[away], left)

    def _count(self, rows: torch.Tensor) -> TierCount:
        tiers = self._tiers
        tiers.require_open()
        near = tiers.near(rows.device)
        at = tiers.places(rows) - near.first
        found = count_rows(near.table, near.rows, self._row_bytes, at[at >= 0])
        from_file = tiers.whole.count(rows[at < 0]).tiers["storage"]
        return TierCount({**found.tiers, "storage": from_file}, self._row_bytes, found.requests)

    def _prefetch(self, rows: torch.Tensor) -> None:
        tiers = self._tiers
        tiers.require_open()
        tiers.whole.prefetch(rows[tiers.places(rows) < tiers.near(rows.device).first])

    def flush(self) -> None:
        """What ``scatter_`` has written is in the file, on the disk, when this returns.

        Raises:
            StorageError: the first page that could not be written; it is still held, and the next flush tries again.
        """
        super().flush()
        self._tiers.whole.flush()

    def stats(self) -> Any:
        """What the cache of the table below has moved: ``StorageStats``."""
        return self._tiers.whole.stats()

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            f"rows of a tiered table over {self.file.path} lie in the memory of one process, and are not copied from there; "
            "copy or send table.file, which is opened again, and call tiered() of that"
        )


def make(file: Table, asked: Asked) -> TieredStorage:
    """See ``StorageArray.tiered``."""
    plan = asked.plan
    host = HostTable.empty((plan.host_rows, *file.shape[1:]), file.dtype)
    tiers = _StoredTiers(file, host, plan, homes_of(plan, asked.gpus, "pageable"), new_state("pageable"))
    tiers.fill(asked.order if plan.number_bytes else None)
    return TieredStorage(tiers)


class _StoredTiers(_Tiers):
    """The memory of a TieredStorage. Rows that memory holds have *places*, by their heat: first those of the GPUs, then the
    host's. All other rows have place -1. ``whole`` is a StorageArray."""

    whole: Any

    def __init__(self, whole: Table, host: HostTable, plan: TierPlan, homes: list[_Home], state: _State) -> None:
        super().__init__(whole, host, plan, homes, state)
        self.row_of: torch.Tensor | None = None  # [held], of each place; None where place i is row i
        self.place_of: torch.Tensor | None = None  # [rows]
        self._place_table: HostTable | None = None  # the same as GPUs see it
        self.dirty = torch.zeros(plan.held, dtype=torch.bool)  # places ahead of the file

    def places(self, rows: torch.Tensor) -> torch.Tensor:
        """Of ``rows`` (int64, from 0 on): int64 on their device."""
        if self.place_of is None:
            return torch.where(rows < self.plan.held, rows, -1)
        home = self.home(rows.device)
        known = self.place_of if home is None else home.id_map(self.plan)
        return known[rows.to(known.device)].to(rows.device, torch.int64)

    def places_on_gpu(self, rows: torch.Tensor) -> torch.Tensor:
        """The same on a GPU, without the CPU. It sees a copy of what the CPU knows, where no GPU holds tiers."""
        if self.place_of is None or self.home(rows.device) is not None:
            return self.places(rows)
        if self._place_table is None:
            with beside(rows.device):
                self._place_table = HostTable.empty(self.place_of.shape, self.place_of.dtype, "pinned")
                self._place_table.cpu().copy_(self.place_of)
        return self._place_table.cuda(rows.device)[rows].to(torch.int64)

    def wrote(self, places: torch.Tensor) -> None:
        """Notes that they are ahead of the file."""
        self.dirty[places.cpu()] = True
        self.state.written = 1

    def fill(self, order: torch.Tensor | None) -> None:
        """Copies rows to their places, in the order of the file; ``order``: hottest first, or None where the first rows are."""
        plan = self.plan
        rows = places = torch.arange(plan.held)
        if order is not None:
            rows, places = order[: plan.held].sort()
            number = torch.int32 if plan.number_bytes == 4 else torch.int64
            self.place_of = map_slots(torch.empty(plan.rows, dtype=number), order[: plan.held])
            self.row_of = order[: plan.held].to(self.place_of.dtype)
            for home in self.homes if plan.slot_bytes else []:
                home.id_map(plan).copy_(self.place_of)
        step = max(1, BOUNCE_BYTES // max(plan.row_bytes, 1))
        bounce = HostTable.empty((min(step, plan.held), *self.whole.shape[1:]), self.whole.dtype)
        # Without links each GPU fills its own memory; else the first fills all: rows go where they live, and are replicated.
        homes = self.homes if plan.unlinked else self.homes[:1]
        for part, at in zip(rows.split(step), places.split(step), strict=True):
            self.whole.fetch(part, bounce.cpu())
            for device, near in [self.worker(home) for home in homes] or [self.cpu()]:
                packed = bounce.to(device)[: len(at)]
                copy_rows(near.table, near.rows, plan.row_bytes, packed, at.to(device) - near.first, into_table=True)

    def cpu(self) -> tuple[torch.device, NearRows]:
        """The same where no GPU holds tiers."""
        cpu = torch.device("cpu")
        return cpu, self.near(cpu)

    def _write_back(self) -> None:
        """Writes rows that are ahead of the file to the table below."""
        device, near = self.worker(self.homes[0]) if self.homes else self.cpu()
        places = self.dirty.nonzero().view(-1)
        self.dirty[places] = False
        try:
            for part in places.split(max(1, BOUNCE_BYTES // max(self.plan.row_bytes, 1))) if len(places) else ():
                rows = torch.empty((len(part), *self.whole.shape[1:]), dtype=self.whole.dtype, device=device)
                copy_rows(near.table, near.rows, self.plan.row_bytes, rows, part.to(device) - near.first)
                self.whole.scatter_(part if self.row_of is None else self.row_of[part].long(), rows)
        except BaseException:
            self.dirty[places] = True
            raise

    def close(self) -> None:
        super().close()
        self.host = HostTable.empty((0, *self.whole.shape[1:]), self.whole.dtype)

    def _lookup(self, own: int) -> dict[str, Params]:
        """Kernels are given places. The first row of the host's memory has the place behind those of the GPUs, so all rows lie
        as if that memory began so much earlier."""
        plan = self.plan
        base = self.host.cpu().data_ptr() - plan.resident * plan.row_bytes if plan.host_rows else 0
        return {"host": OneRange(base=base, rows=plan.held), "map": SlotMap()}
