"""What MGG is compared with in its figures 7 to 9, beside the library's sums: rows in host memory, and other schedules.

Milliseconds of a sum over the parts of one process, a part on each GPU; ``times``: over the library's ``auto``.

``mgg``: its kernel after its text, with remote rows staged. ``host``: rows in host memory, mapped for GPUs as the library maps
them, each read once for every entry that names it (DGL's zero-copy rows, figure 7). ``uvm``: managed memory, whose pages GPUs
copy as they read; all lie on the host at first, since every layer writes new rows (figure 8). It is tried where twice as much
stays 4 GB below what each GPU has free. ``tiles``: from page-locked memory, one part's rows after the other, and no overlap;
results go back (ROC, figure 9). ``ring``: MG-GCN's, through two buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benchmarks import _fullgraph_rivals as rivals
from benchmarks._fullgraph_in_process import PeerRing
from benchmarks._fullgraph_models import released
from benchmarks._fullgraph_shapes import shaped
from benchmarks._rows import told
from benchmarks._timing import milliseconds
from hinterland.fullgraph import PartitionedGraph, plan
from hinterland.fullgraph.aggregate_launch import PartRows, aggregate_rows
from hinterland.fullgraph.reduce import Operation, summed
from hinterland.memory.allocator import Buffer, take_managed
from hinterland.memory.limits import host_memory
from hinterland.runtime import devices
from hinterland.table import UnifiedTensor
from hinterland_papers.emogi.migrating import copy_on_read
from hinterland_papers.mgg.kernel import Setting, whole_lists

from ._ablation import Case

SPARED = 4e9  # bytes of each GPU that UVM leaves free
RUNS = 2  # of what takes long


class HostRows:
    """Sums by the library's kernel, of which every entry reads its row in one table ``[num_vertices, width]``. That has the
    parts' rows in order, and lies where each part's device addresses it."""

    def __init__(self, p: PartitionedGraph, table: Tensor) -> None:
        self._p, self._table = whole_lists(p), table
        begins = [table.data_ptr() + first * table.shape[1] * table.element_size() for first in p.bounds[:-1]]
        self._owners = [torch.tensor(begins, device=on) for on in p.world.devices]

    def __call__(self, x: Sequence[Tensor]) -> list[Tensor]:
        """``x``: rows like those of the table, which say how long they are."""
        out: list[Tensor] = []
        world = self._p.world
        with world.turn(out):
            for i, (entries, rows) in enumerate(zip(self._p.entries("direct", None), x, strict=True)):
                with world.on(i):
                    is_wide = entries.places is not None and entries.places.dtype == torch.int64
                    held = PartRows(rows, None, self._owners[i], world.mine[i], is_wide)
                    out.append(aggregate_rows(entries, held, torch.empty_like(rows)))
        return out


class Tiles:
    """ROC's way: the copy engine brings one part's rows after the other, and each is multiplied when it is there: no overlap.

    ``tables[p]``: where part p's rows lie, in another GPU's memory or in pinned host memory; this part's own may be its GPU's.
    The caller sees to it that they are written before, and not again until all have read them. ``home``: host memory to which
    the result is copied at the end, as ROC does.
    """

    def __init__(self, shard: rivals.Shard) -> None:
        self._shard, self._blocks = shard, rivals.blocks(shard)

    def __call__(self, tables: Sequence[Tensor], home: Tensor | None = None) -> Tensor:
        device, width = self._shard.halo.device, tables[0].shape[1]
        out = torch.empty(self._shard.rows, width, dtype=tables[0].dtype, device=device)
        tile = out.new_empty(max(map(len, tables)), width)
        for part, (table, block) in enumerate(zip(tables, self._blocks, strict=True)):
            rows = table if table.device == device else tile[: len(table)].copy_(table, non_blocking=True)
            block(rows, out, 1.0 if part else 0.0)
        if home is not None:
            home.copy_(out, non_blocking=True)
        return out


def baselines(shape: str, widths: Sequence[int], where: Sequence[torch.device]) -> Iterator[dict[str, Any]]:
    """A row for each width for which there is host memory; without a GPU ``host`` alone."""
    drawn = shaped(shape, where[0])
    p = PartitionedGraph.from_graph(drawn.to_graph(), devices=where)
    bounds = rivals.even_bounds(drawn.indptr, len(where))
    shards = [rivals.cut(drawn.indptr, drawn.indices, None, bounds, rank, on) for rank, on in enumerate(where)]
    tiles, ring = [Tiles(shard) for shard in shards], PeerRing(shards)
    for width in widths:
        if 3 * 4 * p.num_vertices * width > host_memory(0)[0]:
            continue
        case = Case.of(p, width)
        by = partial(summed, p, Operation(), case.x)
        chosen = plan.choose(p, "sum", case.x, by)
        row: dict[str, Any] = {"shape": shape, "vertices": p.num_vertices, "edges": p.num_edges, "width": width}
        row |= {"strategy": chosen, "auto": milliseconds(partial(by, chosen), where), "host": _checked(case, mapped(case))}
        if where[0].type == "cuda":
            row |= {"direct": case.direct, "mgg": case.ms(Setting(loads="staged")), "uvm": _uvm(case)}
            row["tiles"] = _tiles(tiles, bounds, case)
        if len(where) > 1:
            row["ring"] = milliseconds(partial(ring, _cut(bounds, width, where)), where)
        others = [name for name in ("mgg", "host", "uvm", "tiles", "ring") if row.get(name) is not None]
        yield told(row | {f"times {name}": row[name] / row["auto"] for name in others})


def _cut(bounds: Sequence[int], width: int, where: Sequence[torch.device]) -> list[Tensor]:
    """Rows of the rivals' parts."""
    return [torch.randn(end - first, width, device=on) for (first, end), on in zip(pairwise(bounds), where, strict=True)]


def _filled(table: UnifiedTensor, x: Sequence[Tensor]) -> Tensor:
    rows: Tensor = table.cpu()
    for part, to in zip(x, rows.split([len(one) for one in x]), strict=True):
        to.copy_(part)
    return rows


def mapped(case: Case) -> HostRows:
    table = UnifiedTensor.empty((case.p.num_vertices, case.x[0].shape[1]))
    return HostRows(case.p, _filled(table, case.x))


def paged(case: Case) -> tuple[HostRows, Callable[[], None]] | None:
    """And what has all pages lie on the host again; None where there is too little room."""
    nbytes = sum(one.nbytes for one in case.x)
    released(case.p.world.devices)  # so that what is free is so for the driver, too
    if 2 * nbytes > min(map(devices.free_bytes, case.p.world.devices)) - SPARED:
        return None
    release = ExitStack()
    address = take_managed(nbytes, release)
    buffer = Buffer(address, nbytes, "migrating", release, managed=nbytes)
    table = UnifiedTensor(buffer, torch.float32, (case.p.num_vertices, case.x[0].shape[1]))
    return HostRows(case.p, _filled(table, case.x)), partial(copy_on_read, address, nbytes)


def _uvm(case: Case) -> float | None:
    pages = paged(case)  # for no longer than they are timed
    return None if pages is None else _checked(case, *pages)


def _checked(case: Case, sums: HostRows, before: Callable[[], None] | None = None) -> float:
    if before is not None:
        before()
    torch.testing.assert_close(sums(case.x), case.sums, rtol=0, atol=0)
    return milliseconds(partial(sums, case.x), case.p.world.devices, before, RUNS)


def _tiles(tiles: Sequence[Tiles], bounds: Sequence[int], case: Case) -> float:
    width, where = case.x[0].shape[1], case.p.world.devices
    held = [UnifiedTensor.empty((bounds[-1], width), placement="pinned") for _ in range(2)]
    sizes = [end - first for first, end in pairwise(bounds)]
    tables, homes = _filled(held[0], case.x).split(sizes), held[1].cpu().split(sizes)

    def run() -> None:
        for one, home, on in zip(tiles, homes, where, strict=True):
            with devices.on(on):
                one(tables, home)

    return milliseconds(run, where, repeats=RUNS)
