"""How a budget is split between rows of features and pages of neighbour lists: a knapsack, greedily by benefit per byte.

DUCATI (Zhang et al. 2023; Wang's survey, section VII-B) sorts entries of both kinds by the time that keeping each saves per
byte, and takes them until the budget is spent. Here both kinds also have costs that do not grow with the entries: the map that
finds a row, the table that finds a page. So each way to open the two caches is filled greedily, and the best one is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..graph.device_graph import DeviceGraph, Kept, allocated
from ..memory import SlotPlan, plan_slots
from ..table import plan_tiers

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
    """

    rows: torch.Tensor
    row_bytes: int
    pages: torch.Tensor
    all_edges: float
    offsets: float
    offsets_bytes: int
    lists: DeviceGraph | None
    weighted: bool


@dataclass(frozen=True)
class CacheSplit:
    """What is kept.

    Attributes:
        rows: how many of the hottest rows; slots where rows come and go.
        local: bytes to ask of ``UnifiedTensor.tiered``, or of ``cached``.
        feature_bytes: bytes that those rows take, their map included.
        offsets: whether the offsets are kept.
        pages: how many of the hottest pages; all edges where ``whole``.
        adjacency_bytes: bytes that the offsets and the pages take, the pages' table included.
        saved: seconds of one batch.
    """

    rows: int = 0
    local: int = 0
    feature_bytes: int = 0
    offsets: bool = False
    pages: int = 0
    whole: bool = False
    adjacency_bytes: int = 0
    saved: float = 0.0

    @property
    def held(self) -> int:
        """Bytes of both."""
        return self.feature_bytes + self.adjacency_bytes


def split(budget: int, entries: CacheCandidates) -> CacheSplit:
    """The best of the greedy fillings; they never take more than ``budget`` bytes."""
    best = CacheSplit()
    row_sums, page_sums = _sums(entries.rows), _sums(entries.pages)
    for offsets in (True, False) if entries.offsets_bytes else (False,):
        room = budget - (entries.offsets_bytes if offsets else 0)
        if room < 0:
            continue
        for pages, whole in _pages(room, entries):
            kept = Kept(offsets=offsets, pages=pages, whole=whole, weighted=entries.weighted)
            rows, local, row_bytes = rows_within(budget - _nbytes(kept, entries), len(entries.rows), entries.row_bytes)
            if not whole and entries.lists is not None:  # what the rows leave
                kept.pages = max(pages, entries.lists.pages_within(room - row_bytes, entries.weighted))
            saved = (entries.offsets if offsets else 0.0) + float(row_sums[rows])
            saved += entries.all_edges if whole else float(page_sums[kept.pages])
            if saved > best.saved:
                best = CacheSplit(rows, local, row_bytes, offsets, kept.pages, whole, _nbytes(kept, entries), saved)
    return best


def _nbytes(kept: Kept, entries: CacheCandidates) -> int:
    return 0 if entries.lists is None else entries.lists.kept_bytes(kept)


def rows_within(room: int, rows: int, row_bytes: int) -> tuple[int, int, int]:
    """How many rows there is room for, what to ask of ``tiered`` for them, and what they take of the allocator."""
    plan = plan_tiers(rows, row_bytes, 1, max(_usable(room), 0), ordered=True)
    if plan.resident == 0:
        return 0, 0, 0
    return plan.resident, plan.held_bytes, allocated(plan.held_bytes)


def slots_within(room: int, rows: int, row_bytes: int) -> SlotPlan:
    """As many slots for rows that come and go as there is room for, whatever the allocator adds."""
    return plan_slots(rows, row_bytes, _usable(room))


def _usable(room: int) -> int:
    """The largest block that takes at most ``room`` of the allocator."""
    return room if room <= _SPLIT_OFF else max(_SPLIT_OFF, room - _SPLIT_OFF)


def _pages(room: int, entries: CacheCandidates) -> list[tuple[int, bool]]:
    """Numbers of pages that are worth a look: all edges, none, as many as fit, and the greedy merge with and without the map of
    rows."""
    lists, weighted = entries.lists, entries.weighted
    if lists is None:
        return [(0, False)]
    found = [(lists.num_pages, True)] if lists.edge_bytes(weighted) <= room else []
    most = lists.pages_within(room, weighted)
    counts = {0, most}
    if most and entries.row_bytes:
        page_bytes = max(1, (lists.pages_bytes(most, weighted) - lists.pages_bytes(0, weighted)) // most)
        # Rows that save more per byte than each page, and what all of them take together with the pages up to it.
        hotter = torch.searchsorted(-entries.rows / entries.row_bytes, -entries.pages / page_bytes, right=True)
        used = torch.arange(1, len(entries.pages) + 1, device=hotter.device) * page_bytes + hotter * entries.row_bytes
        fixed = lists.pages_bytes(0, weighted)
        for id_map in (allocated(4 * len(entries.rows)), 0):
            counts.add(min(most, int((used + id_map + fixed <= room).sum())))
    return found + [(count, False) for count in sorted(counts)]


def _sums(gains: torch.Tensor) -> torch.Tensor:
    """The sum of the first n, for each n from 0 on."""
    return torch.cat([gains.new_zeros(1), gains.cumsum(0)])
