"""TieredTensor whose last tier is storage: the hottest rows of a file in the memory of GPUs, the next in the host's.

Which rows lie in the file alone is known before any is read. So a gather has a kernel read what is in memory, as of any tiers,
has the file give the rest meanwhile, by one planned gather, and puts that in its places.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from ..memory.count import TierCount, count_rows
from ..memory.gather import OneRange, SlotMap, copy_rows
from ..runtime.errors import ConfigError
from ..runtime.params import Params
from .host import HostTable
from .placement import Sort
from .rows import as_words, row_numbers
from .table import Table
from .tiered import _BOUNCE, Asked, Devices, Near, TieredTensor, _Home, _State, _Tiers, homes_of, new_state, slot_of
from .tiers import TierPlan


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
    def file(self) -> Any:  # an attribute where it is None
        """The table below, whose rows in memory may be out of date until ``flush()``."""
        return self._tiers.file

    def __getitem__(self, index: Any) -> torch.Tensor:
        """Rows as a new tensor, as of any table (Table)."""
        return Table.__getitem__(self, index)

    def _read(self, index: torch.Tensor, out: torch.Tensor, max_blocks: int | None, check: str, sort: Sort) -> None:
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
    file: Table,
    sizes: tuple[int | str | None, int | str | None, int | str | None],
    scores: torch.Tensor | None,
    order: torch.Tensor | None,
    devices: Devices | None,
    line_bytes: int,
) -> TieredStorage:
    """See ``StorageArray.tiered``; ``sizes`` are those of local, peers and host, ``line_bytes`` those of a page of the file."""
    asked = Asked.of(len(file), file.row_bytes, sizes, scores, order, devices, line_bytes)
    plan = asked.plan
    host = HostTable.empty((plan.host_rows, *file.shape[1:]), file.dtype)
    tiers = _StoredTiers(file, host, plan, homes_of(plan, asked.gpus, "heap"), new_state("heap"))
    tiers.fill(asked.order if plan.number_bytes else None, plan.held)
    return TieredStorage(tiers)


class _StoredTiers(_Tiers):
    """The memory of a TieredStorage. Rows that memory holds have *places*, by their heat: first those of the GPUs, then the
    host's. All other rows have place -1."""

    def __init__(self, file: Table, host: HostTable, plan: TierPlan, homes: list[_Home], state: _State) -> None:
        super().__init__(host, plan, homes, state, owner=True)
        self.file = file
        self.row_of: torch.Tensor | None = None  # [held], of each place; None where place i is row i
        self.place_of: torch.Tensor | None = None  # [rows]
        self.dirty = torch.zeros(plan.held, dtype=torch.bool)  # places ahead of the file

    @property
    def whole(self) -> Table:
        return self.file

    def near(self, device: torch.device) -> Near:
        """What ``device`` reads itself. What the CPU does not, of what GPUs hold, is written back for it."""
        home, plan, host = self.home(device), self.plan, self.host
        if home is not None:
            return self.through(home)
        if self.homes:
            self.require_no_gpu(device)
            self.flush()
        self.require_open()  # another thread may have closed it before `host` was looked up
        return Near(host.to(device).data_ptr(), plan.resident, plan.host_rows, host)

    def through(self, home: _Home) -> Near:
        host, table = self.host, self.table(home)
        self.require_open()  # as above; a home's table is made once, and keeps no memory of the host
        return Near(table, 0, self.plan.held, host)

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

    def numbers(self, rows: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return places

    def fill(self, order: torch.Tensor | None, count: int) -> None:
        if order is not None:
            nbytes = self.plan.number_bytes
            self.row_of = order[:count].to(torch.int32 if nbytes == 4 else torch.int64)
            self.place_of = slot_of(order[:count], self.plan.rows, nbytes)
        super().fill(order, count)

    def worker(self, home: _Home | None) -> tuple[torch.device, Near]:
        """The CPU also where there is no home."""
        cpu = torch.device("cpu")
        return (cpu, self.near(cpu)) if home is None else super().worker(home)

    def _write_back(self) -> None:
        """Writes rows that are ahead of the file to the table below."""
        device, near = self.worker(self.homes[0] if self.homes else None)
        places = self.dirty.nonzero().view(-1)
        self.dirty[places] = False
        try:
            for part in places.split(max(1, _BOUNCE // max(self.plan.row_bytes, 1))) if len(places) else ():
                rows = torch.empty((len(part), *self.file.shape[1:]), dtype=self.file.dtype, device=device)
                copy_rows(near.table, near.rows, self.plan.row_bytes, rows, part.to(device) - near.first)
                self.file.scatter_(part if self.row_of is None else self.row_of[part].long(), rows)
        except BaseException:
            self.dirty[places] = True
            raise

    def close(self) -> None:
        super().close()
        self.host = HostTable.empty((0, *self.file.shape[1:]), self.file.dtype)

    def _lookup(self, own: int) -> dict[str, Params]:
        """Kernels are given places. The first row of the host's memory has the place behind those of the GPUs, so all rows lie
        as if that memory began so much earlier."""
        plan = self.plan
        base = self.host.cpu().data_ptr() - plan.resident * plan.row_bytes if plan.host_rows else 0
        return {"host": OneRange(base=base, rows=plan.held), "map": SlotMap()}
