"""How a budget is split between rows of features and pages of neighbour lists: a knapsack, greedily by benefit per byte.

DUCATI (Zhang et al. 2023; Wang's survey, section VII-B) sorts entries of both kinds by the time that keeping each saves per
byte, and takes them until the budget is spent. Here both kinds also have costs that do not grow with the entries: the map that
finds a row, the table that finds a page. So each way to open the two caches is filled greedily, and the best one is taken.

Several GPUs that read each other's memory have three tiers (Min 2022, section 4.3.2): an entry that all of them hold, one that
is dealt to one of them, and one that stays on the host. Dealt, it takes a share of each GPU's bytes and saves less. So an entry
is taken in two steps, dealt and then copied to all, and the steps are what is sorted (cache_tiers.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ..graph.device_graph import DeviceGraph, Kept, allocated
from ..memory import SlotPlan, plan_slots
from ..memory.allocator import padded
from ..table import plan_tiers
from .cache_tiers import TierGains

_SPLIT_OFF = 1 << 20  # what allocated() adds to large blocks


@dataclass(frozen=True)
class CacheCandidates:
    """What may be kept, and the seconds of one batch that keeping it saves.

    Attributes:
        rows: float64 ``[V]``, of each row of features, falling.
        row_bytes: bytes of a row.
        pages: float64 ``[pages]``, of each page of the lists, falling.
        all_edges: of all edges, those after the last whole page included.
        offsets, offsets_bytes: of the offsets, which are kept together or not at all; 0 bytes where they lie on the GPU anyway.
        lists, weighted: what pages take; None where the lists lie on the GPU anyway, or are not to be kept.
        gpus: how many keep as much each, and read each other's memory.
        dealt_row, dealt_page: what a row or page that is dealt to one of them saves, of what it saves if all hold it.
    """

    rows: torch.Tensor
    row_bytes: int
    pages: torch.Tensor
    all_edges: float
    offsets: float
    offsets_bytes: int
    lists: DeviceGraph | None
    weighted: bool
    gpus: int = 1
    dealt_row: float = 0.0
    dealt_page: float = 0.0


@dataclass(frozen=True)
class CacheSplit:
    """What is kept; bytes are those of each GPU.

    Attributes:
        rows: how many of the hottest rows; slots where rows come and go.
        local: bytes to ask of ``UnifiedTensor.tiered``, or of ``cached``.
        feature_bytes: bytes that those rows take, their map included.
        offsets: whether the offsets are kept.
        pages: how many of the hottest pages; all edges where ``whole``.
        adjacency_bytes: bytes that the offsets and the pages take, the pages' table included.
        saved: seconds of one batch.
        peers: bytes to ask of ``tiered`` for rows that are dealt out, in all GPUs together.
        dealt_rows, dealt_pages: of the rows and pages the least hot, each of which one GPU holds for all.
    """

    rows: int = 0
    local: int = 0
    feature_bytes: int = 0
    offsets: bool = False
    pages: int = 0
    whole: bool = False
    adjacency_bytes: int = 0
    saved: float = 0.0
    peers: int = 0
    dealt_rows: int = 0
    dealt_pages: int = 0

    @property
    def held(self) -> int:
        """Bytes of both."""
        return self.feature_bytes + self.adjacency_bytes


def split(budget: int, entries: CacheCandidates) -> CacheSplit:
    """The best of the greedy fillings; they never take more than ``budget`` bytes of a GPU."""
    best = CacheSplit()
    rows = TierGains(entries.rows, entries.gpus, entries.dealt_row)
    pages = TierGains(entries.pages, entries.gpus, entries.dealt_page)
    for offsets in (True, False) if entries.offsets_bytes else (False,):
        room = budget - (entries.offsets_bytes if offsets else 0)
        if room < 0:
            continue
        for in_each, whole in _pages(room, entries, rows, pages):
            kept = Kept(offsets=offsets, pages=in_each, whole=whole, weighted=entries.weighted)
            found = rows_in_tiers(budget - _nbytes(kept, entries), rows, entries.row_bytes)
            if not whole and entries.lists is not None:  # what the rows leave
                kept.pages = max(in_each, entries.lists.pages_within(room - found.feature_bytes, entries.weighted))
            local, dealt = (kept.pages, 0) if whole else pages.best(kept.pages - pages.deals)  # a share begins at a page
            saved = (entries.offsets if offsets else 0.0) + found.saved
            saved += entries.all_edges if whole else pages.saved(local, dealt)
            if saved > best.saved:
                lists = _nbytes(replace(kept, pages=local, dealt=dealt, gpus=pages.gpus), entries)
                best = replace(found, offsets=offsets, whole=whole, adjacency_bytes=lists, saved=saved)
                best = replace(best, pages=local + dealt, dealt_pages=dealt)
    return best


def _nbytes(kept: Kept, entries: CacheCandidates) -> int:
    return 0 if entries.lists is None else entries.lists.kept_bytes(kept)


def rows_within(room: int, rows: int, row_bytes: int, gpus: int = 1) -> tuple[int, int, int]:
    """How many rows there is room for in each GPU, what to ask of ``tiered`` for them, and what they take of the allocator."""
    plan = plan_tiers(rows, row_bytes, gpus, max(_usable(room), 0), ordered=True)
    if plan.resident == 0:
        return 0, 0, 0
    return plan.resident, plan.held_bytes, allocated(plan.held_bytes)


def rows_in_tiers(room: int, rows: TierGains, row_bytes: int) -> CacheSplit:
    """The rows that are best kept in so much of each GPU, and nothing else."""
    count, gpus, usable = len(rows.gains), rows.gpus, max(_usable(room), 0)
    copied = plan_tiers(count, row_bytes, gpus, usable, ordered=True)
    plans, owns = [copied], [0]
    if copied.slot_bytes:
        fixed = copied.held_bytes - copied.slots_offset  # beside the rows
        owns.append(min(fixed + padded(rows.best((usable - fixed) // row_bytes)[0] * row_bytes), usable))
    if rows.dealt and copied.resident < count:
        plans += [plan_tiers(count, row_bytes, gpus, own, (usable - own) * gpus, ordered=True) for own in owns]
    best = max(plans, key=lambda plan: rows.saved(plan.local_rows, plan.peer_rows))
    if best.resident == 0:
        return CacheSplit()
    local, peers = (best.held_bytes, 0) if gpus == 1 else (best.local, best.peers)
    saved = rows.saved(best.local_rows, best.peer_rows)
    held = allocated(best.held_bytes)
    return CacheSplit(best.resident, local, held, peers=peers, dealt_rows=best.peer_rows, saved=saved)


def slots_within(room: int, rows: int, row_bytes: int) -> SlotPlan:
    """As many slots for rows that come and go as there is room for, whatever the allocator adds."""
    return plan_slots(rows, row_bytes, _usable(room))


def _usable(room: int) -> int:
    """The largest block that takes at most ``room`` of the allocator."""
    return room if room <= _SPLIT_OFF else max(_SPLIT_OFF, room - _SPLIT_OFF)


def _pages(room: int, entries: CacheCandidates, rows: TierGains, pages: TierGains) -> list[tuple[int, bool]]:
    """Numbers of pages that are worth a look, in each GPU: all edges, none, as many as fit, and the greedy merge with and
    without the map of rows."""
    lists, weighted = entries.lists, entries.weighted
    if lists is None:
        return [(0, False)]
    found = [(lists.num_pages, True)] if lists.edge_bytes(weighted) <= room else []
    most = lists.pages_within(room, weighted)
    counts = {0, most}
    if most and entries.row_bytes:
        page_bytes = max(1, (lists.pages_bytes(most, weighted) - lists.pages_bytes(0, weighted)) // most)
        steps = pages.steps(page_bytes)
        taken = torch.cat([density for density, _ in steps]).sort(descending=True, stable=True)
        nbytes = torch.cat([torch.full_like(density, step) for density, step in steps])[taken.indices].cumsum(0)
        # What pages take together up to each step, and steps of rows that save more per byte.
        used = nbytes.clone()
        for density, step in rows.steps(entries.row_bytes):
            used += torch.searchsorted(-density, -taken.values, right=True) * step
        fixed = lists.pages_bytes(0, weighted)
        for id_map in (allocated(4 * len(entries.rows)), 0):
            fit = int((used + id_map + fixed <= room).sum())
            counts.add(min(most, int(nbytes[fit - 1]) // page_bytes if fit else 0))
    return found + [(count, False) for count in sorted(counts)]
