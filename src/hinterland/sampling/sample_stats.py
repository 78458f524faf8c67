"""What drawing a sample took (``stats=`` of samplers), in the words of a gather's stats.

Kernels that sample count nothing: what they read follows from what was drawn. Each edge is a read of its place in the lists,
each vertex that drew one of its two offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import torch

from ..graph.device_graph import DeviceGraph, all_through
from ..memory.count import Metered, TierCount, count_accesses
from ..memory.gather_stats import report, require_dict, timed
from ..table.device import moved

S = TypeVar("S")


class Taken(NamedTuple):
    """What a sample has: how many vertices and edges each hop added (by type and relation, where there are several), and what
    was drawn from the lists."""

    vertices: Any
    edges: Any
    drawn: list[Drawn]


class Drawn(NamedTuple):
    """What was drawn from the lists of one relation."""

    view: DeviceGraph
    owners: torch.Tensor  # int64 [v]: the lists, by their numbers, that vertices drew from
    edge: torch.Tensor  # int64 [e]: the places in the lists that were drawn
    col: torch.Tensor  # int64 [e]: which of `owners` drew each

    def edges(self) -> dict[str, Metered]:
        """Reads of neighbours by tier. Of packed lists the place of a neighbour is taken to be as far along its list's bytes as
        it is along its neighbours."""
        view, edge, width = self.view, self.edge, self.view.edges.element_size()
        if view.packed_offsets is None:
            at = edge
        else:
            owner = self.owners[self.col]
            begin, end, first, last = (
                _numbers(offsets, to) for offsets in (view.offsets, view.packed_offsets) for to in (owner, owner + 1)
            )
            at = first + (edge - begin) * (last - first) // (end - begin)
        if view.home == "local":
            return {"local": count_accesses(self.col, at * width, width)}
        kept = view.keeps(at)
        parts = {"local": kept, view.home: ~kept}
        return {tier: count_accesses(self.col[some], at[some] * width, width) for tier, some in parts.items()}

    def offsets(self) -> dict[str, Metered]:
        """Reads of where lists begin and end, of one array for plain lists and two for packed ones."""
        view = self.view
        there = [array for array in (view.offsets, view.packed_offsets) if array is not None]
        widths = [array.element_size() for array in there]
        by = torch.arange(len(self.owners), device=self.owners.device)
        met = [count_accesses(by, self.owners * width, 2 * width) for width in widths]
        return {"local" if self._near else "host": Metered.sum(met)}

    @property
    def _near(self) -> bool:
        """Whether offsets are read from the memory of a GPU."""
        view = self.view
        if view.device.type == "cpu":
            return False
        where = view.lists.array("indptr", view.device)
        return view.lists.indptr.is_cuda or where is None or where.data_ptr() != view.offsets.data_ptr()


def read_of(drawn: Iterable[Drawn]) -> dict[str, Metered]:
    """What was read of all lists together, offsets among it, by tier."""
    parts = [met for one in drawn for met in (one.edges(), one.offsets())]
    tiers = dict.fromkeys(tier for part in parts for tier in part)
    return {tier: Metered.sum(part[tier] for part in parts if tier in part) for tier in tiers}


def _numbers(offsets: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Some of the offsets, int64. On a GPU torch does not index uint32."""
    if offsets.dtype == torch.uint32:
        return offsets.view(torch.int32)[at].to(torch.int64) & 0xFFFFFFFF
    return offsets[at].to(torch.int64)


def with_stats(
    draw: Callable[[], S],
    stats: dict[str, Any],
    device: torch.device,
    views: Iterable[DeviceGraph],
    taken: Callable[[S], Taken],
    exact: bool,
) -> S:
    """The sample that ``draw()`` gives; ``stats`` is filled (docs/sampling.md says which fields), or ConfigError if it is no
    dict. The device is waited for. ``views``: all lists that are drawn from; ``exact``: nothing but neighbours and offsets is
    read."""
    require_dict(stats)
    found = list(views)
    through = all_through(found)
    before = moved(through)
    with timed(device) as took:
        sample = draw()
    vertices, edges, drawn = taken(sample)
    read = read_of(drawn)
    storage = moved(through).since(before).report() if through else None
    counted = TierCount.of(read, 0)
    useful = sum(met.useful for tier, met in read.items() if tier != "local")
    if storage is not None:
        counted.tiers["storage"] |= {name: int(storage[name]) for name in ("bytes", "requests")}
    stats.update(
        vertices=vertices,
        edges=edges,
        exact=exact and not any(view.lists.is_compressed for view in found),
        **report(device, took[0], counted, useful, storage),
    )
    return sample
