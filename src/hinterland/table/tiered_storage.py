"""TieredTensor whose last tier is storage: the hottest rows of a file in the memory of GPUs, the next in the host's.

Which rows lie in the file alone is known before any is read. So a gather has a kernel read what is in memory, as of any tiers,
has the file give the rest meanwhile, by one planned gather, and puts that in its places.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import torch

from ..memory.count import TierCount, count_rows
from ..memory.gather import OneRange, SlotMap, copy_rows
from ..runtime.errors import ConfigError
from ..runtime.params import Params
from ..runtime.thresholds import BOUNCE_BYTES
from .host import HostTable
from .rows import as_words, row_numbers
from .stored import StoredTable
from .table import Table
from .tiered import Asked, Devices, TieredTensor, _Home, _State, _Tiers, homes_of, new_state
from .tiers import StoredTierPlan, plan_stored_tiers


class TieredStorage(TieredTensor):
    """The rows of a table in a file, the hottest of them in memory. ``array.tiered(...)`` makes one.

    ======= ============================================ ==================================================
    tier    where its rows are                           who reads them
    ======= ============================================ ==================================================
    local   in every GPU                                 each GPU its own
    peers   dealt out over the GPUs, one row to each     every GPU, from the one that has the row
    host    in host memory                               every GPU, over the link
    storage in the file, a page at a time in its cache   the CPU, for every device
    ======= ============================================ ==================================================

    A gather checks row numbers first, whatever ``check`` says, waits for the file, and is no part of a CUDA graph. Rows in
    memory are copies: write through this table and not through the one below while there is one. What ``scatter_`` writes to
    memory is in the file after ``flush()``, and is written back to the table below by ``close()``.
    """

    _AS_TENSOR = "table[:] reads all rows into a tensor"
    in_reach = False
    _source = Table._source
    _tiers: _StoredTiers

    @property
    def file(self) -> StoredTable:  # type: ignore[override]  # an attribute where it is None
        """The table below, whose rows in memory may be out of date until ``flush()``."""
        return self._tiers.file

    def __getitem__(self, index: Any) -> torch.Tensor:
        """Rows as a new tensor, as of any table (Table)."""
        return Table.__getitem__(self, index)

    def _read(
        self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: bool | Literal["auto"]
    ) -> None:
        tiers = self._tiers
        tiers.require_open()
        if index.is_cuda and torch.cuda.is_current_stream_capturing():
            raise ConfigError(
                f"which rows of {self.file.path} lie in memory is not known as a CUDA graph is captured; gather outside of it, "
                "or from the table below, table.file"
            )
        rows = row_numbers(index, self._rows)
        near = tiers.near(index.device)
        at = tiers.places(rows) - near.first
        away = (at < 0).nonzero().view(-1)
        flat = out.view(len(rows), *self._row_shape)
        if len(away) < len(rows):  # rows of the file are any row first: that is less work than to part them
            at.clamp_(min=0)
            copy_rows(near.table, near.rows, self._row_bytes, flat, at, max_blocks=max_blocks, check="async")
        if len(away):
            tiers.file.fetch(rows[away], flat, away)

    def require_writable(self) -> None:
        """ConfigError where the file is open for reading."""
        self._tiers.require_open()
        self._tiers.file.require_writable()

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
            tiers.file.scatter_(where[away], left)

    def _count(self, rows: torch.Tensor) -> TierCount:
        tiers = self._tiers
        tiers.require_open()
        near = tiers.near(rows.device)
        at = tiers.places(rows) - near.first
        found = count_rows(near.table, near.rows, self._row_bytes, at[at >= 0])
        from_file = tiers.file.count(rows[at < 0]).tiers["storage"]
        return TierCount({**found.tiers, "storage": from_file}, self._row_bytes, found.requests)

    def _prefetch(self, rows: torch.Tensor) -> None:
        tiers = self._tiers
        tiers.require_open()
        tiers.file.prefetch(rows[tiers.places(rows) < tiers.near(rows.device).first])

    def flush(self) -> None:
        """What ``scatter_`` has written is in the file, on the disk, when this returns.

        Raises:
            StorageError: the first page that could not be written; it is still held, and the next flush tries again.
        """
        super().flush()
        self._tiers.file.flush()

    def close(self) -> None:
        """Writes back to the table below what is not yet, and gives the memory back; the table below stays open."""
        self._tiers.close()

    def stats(self) -> Any:
        """What the cache of the table below has moved: ``StorageStats``."""
        return self._tiers.file.stats()

    def __reduce__(self) -> NoReturn:
        raise ConfigError(
            f"rows of a tiered table over {self.file.path} lie in the memory of one process, and are not copied from there; "
            "copy or send table.file, which is opened again, and call tiered() of that"
        )


def make(
    file: StoredTable,
    sizes: tuple[int | str | None, int | str | None, int | str | None],
    scores: torch.Tensor | None,
    order: torch.Tensor | None,
    devices: Devices | None,
) -> TieredStorage:
    """See ``StorageArray.tiered``; ``sizes`` are those of local, peers and host."""
    asked = Asked.of(len(file), sizes, scores, order, devices)
    plan = plan_stored_tiers(
        len(file),
        file.row_bytes,
        len(asked.gpus),
        *asked.budgets,
        ordered=asked.ordered,
        unlinked=asked.missing,
        line_bytes=file.line_bytes,
    )
    host = HostTable.empty((plan.host_rows, *file.shape[1:]), file.dtype)
    tiers = _StoredTiers(file, host, plan, homes_of(plan, asked.gpus, "heap"), new_state("heap"))
    tiers.fill(asked.order if plan.number_bytes else None)
    return TieredStorage(tiers)


@dataclass
class _Near:
    """What a reader has in reach: places from ``first`` on, ``rows`` of them, at an address, or in tiers; ``keeps``: memory."""

    table: int | Params
    first: int
    rows: int
    keeps: Any = None


class _StoredTiers(_Tiers):
    """The memory of a TieredStorage. Rows that memory holds have *places*, by their heat: first those of the GPUs, then the
    host's. All other rows have place -1."""

    plan: StoredTierPlan
    host: HostTable

    def __init__(self, file: StoredTable, host: HostTable, plan: StoredTierPlan, homes: list[_Home], state: _State) -> None:
        super().__init__(host, plan, homes, state, owner=True)
        self.file = file
        self.row_of: torch.Tensor | None = None  # [held], of each place; None where place i is row i
        self.place_of: torch.Tensor | None = None  # [rows]
        self.dirty = torch.zeros(plan.held, dtype=torch.bool)  # places ahead of the file
        self.flushing = threading.RLock()

    @property
    def whole(self) -> Table:
        return self.file

    def near(self, device: torch.device) -> _Near:
        """What ``device`` reads itself. What the CPU does not, of what GPUs hold, is written back for it."""
        home, plan, host = self.home(device), self.plan, self.host
        if home is not None:
            return self._through(home)
        if self.homes:
            self.require_no_gpu(device)
            self.flush()
        self.require_open()  # another thread may have closed it before `host` was looked up
        return _Near(host.to(device).data_ptr(), plan.resident, plan.host_rows, host)

    def _through(self, home: _Home) -> _Near:
        host, table = self.host, self.table(home)
        self.require_open()  # as above; a home's table is made once, and keeps no memory of the host
        return _Near(table, 0, self.plan.held, host)

    def places(self, rows: torch.Tensor) -> torch.Tensor:
        """Of ``rows`` (int64, from 0 on): int64 on their device."""
        if self.place_of is None:
            return torch.where(rows < self.plan.held, rows, -1)
        home = self.home(rows.device)
        known = self.place_of if home is None else home.id_map(self.plan)
        return known[rows.to(known.device)].to(rows.device, torch.int64)

    def wrote(self, places: torch.Tensor) -> None:
        """Notes that they are ahead of the file."""
        self.dirty[places.cpu()] = True
        self.state.written = 1

    def fill(self, order: torch.Tensor | None) -> None:
        """Copies rows to their places, in the order of the file; ``order``: hottest first, or None where the first rows are."""
        plan = self.plan
        rows = places = torch.arange(plan.held)
        if order is not None:
            number = torch.int32 if plan.number_bytes == 4 else torch.int64
            self.row_of = order[: plan.held].to(number)
            self.place_of = torch.full((plan.rows,), -1, dtype=number)
            self.place_of[order[: plan.held]] = torch.arange(plan.held, dtype=number)
            for home in self.homes if plan.slot_bytes else []:
                home.id_map(plan).copy_(self.place_of)
            rows, places = order[: plan.held].sort()
        step = max(1, BOUNCE_BYTES // max(plan.row_bytes, 1))
        bounce = HostTable.empty((min(step, plan.held), *self.file.shape[1:]), self.file.dtype)
        # Without links each GPU fills its own memory; else the first fills all: rows go where they live, and are replicated.
        homes = self.homes if plan.unlinked else self.homes[:1]
        writers = [self._worker(home) for home in homes] or [self._worker(None)]
        for part, at in zip(rows.split(step), places.split(step), strict=True):
            self.file.fetch(part, bounce.cpu())
            for device, near in writers:
                table, index = (near.table, near.rows, plan.row_bytes), at.to(device) - near.first
                copy_rows(*table, bounce.to(device)[: len(at)], index, into_table=True)

    def _worker(self, home: _Home | None) -> tuple[torch.device, _Near]:
        """Who copies rows from or to their places, and by what: a home's GPU, or the CPU, also where there is none."""
        cpu = torch.device("cpu")
        if home is None:
            return cpu, self.near(cpu)
        return home.device if home.device.type == "cuda" else cpu, self._through(home)

    def flush(self) -> None:
        """Writes rows that are ahead of the file to the table below, in parts of bounded size."""
        with self.flushing:  # whoever reads the file next waits for it
            if not self.state.written:
                return
            self._wait()
            self.state.written = 0  # first: what is written meanwhile is not written back
            places = self.dirty.nonzero().view(-1)
            self.dirty[places] = False
            try:
                self._put_back(places)
            except BaseException:
                self.wrote(places)
                raise

    def _put_back(self, places: torch.Tensor) -> None:
        device, near = self._worker(self.homes[0] if self.homes else None)
        for part in places.split(max(1, BOUNCE_BYTES // max(self.plan.row_bytes, 1))) if len(places) else ():
            rows = torch.empty((len(part), *self.file.shape[1:]), dtype=self.file.dtype, device=device)
            copy_rows(near.table, near.rows, self.plan.row_bytes, rows, part.to(device) - near.first)
            self.file.scatter_(part if self.row_of is None else self.row_of[part].long(), rows)

    def close(self) -> None:
        super().close()
        self.host = HostTable.empty((0, *self.file.shape[1:]), self.file.dtype)

    def _lookup(self, own: int) -> dict[str, Params]:
        """Kernels are given places. The first row of the host's memory has the place behind those of the GPUs, so all rows lie
        as if that memory began so much earlier."""
        plan = self.plan
        base = self.host.cpu().data_ptr() - plan.resident * plan.row_bytes if plan.host_rows else 0
        return {"host": OneRange(base=base, rows=plan.held), "map": SlotMap()}
