"""What a traversal keeps on the GPU of a graph that lies in host memory, planned within a budget.

In the order in which memory is given out:

1. the state of the largest of the algorithms, which is left free;
2. the offsets, which every list that is read needs: 4 bytes a vertex, or 8 where the last is 2^32 or more;
   then, where lists lie on storage and no budget is said, room for what the GPU keeps of their files, beside all plans;
   then, of a reordered graph, the order (8 bytes a vertex), by which the results of many runs are renumbered;
3. *adjacency prefixes*, the first neighbours of each vertex: an algorithm that looks for one neighbour among many (bottom-up
    search,
   Afforest) finds it there most of the time, and reads no list;
4. *hot pages* of the edge array, with their weights: those whose lists are longest, because hubs are reached first, in every
   search, and again whenever a distance improves. Or by scores that say how often lists are read, as counts of mini-batch
   sampling do. Where all edges fit, all of them.

Everything else is read where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..runtime import devices
from ..runtime.budget import BudgetItem, Explained, share
from ..runtime.errors import OutOfMemory
from ..runtime.units import format_bytes
from ..table.device import FileOnDevice, StoredArrays
from .algorithms import Algorithm
from .device_graph import DeviceGraph, Kept, all_through, allocated

LONGEST_PREFIX = 4  # of a vertex, as its line of them is read in one piece; one gives most (docs/notes/traversal-on-h200.md)


class GraphPlan(Explained):
    """What a device keeps of lists that lie elsewhere, with their weights if ``weighted``. Nothing is copied before
    :meth:`apply`.

    Attributes:
        budget: bytes of the device's memory, given out in the order in which parts are asked for.
        left: bytes of it that are not given out.
        kept: what there is room for of each view's lists.
        order: whether the order of a reordered graph is kept.
        lines: bytes for pages of each file on storage, if the device keeps none of them yet; None is what their caches say.
        said: what else :meth:`explain` says.
    """

    def __init__(self, room: int, weighted: bool = False) -> None:
        self.budget = self.left = room
        self.weighted = weighted
        self.kept: dict[DeviceGraph, Kept] = {}
        self.order = False
        self.lines: int | None = None
        self.said: list[str] = []
        self._spent: list[BudgetItem] = []

    def of(self, view: DeviceGraph) -> Kept:
        """What is kept of a view's lists, by now."""
        return self.kept.setdefault(view, Kept(weighted=self.weighted))

    @property
    def held_bytes(self) -> int:
        """Bytes that are given out."""
        return self.budget - self.left

    def take(self, part: BudgetItem) -> bool:
        """Gives out a part's bytes; False where there is no room for them."""
        if part.nbytes > self.left:
            return False
        self.left -= part.nbytes
        self._spent.append(part)
        return True

    def _keep(self, view: DeviceGraph, what: str, said: str = "all", **more: Any) -> bool:
        """Keeps more of a view's lists than is kept by now, if there is room for it."""
        kept = self.of(view)
        nbytes = view.kept_bytes(replace(kept, **more))
        if not self.take(BudgetItem(f"{what} of {view.name}", said, nbytes - kept.nbytes)):
            return False
        vars(kept).update(more, nbytes=nbytes)
        return True

    def keep_offsets(self, view: DeviceGraph) -> None:
        """The offsets, if they lie in host memory and there is room."""
        if view.offsets_bytes:
            self._keep(view, "offsets", offsets=True)

    def keep_lines(self, views: Sequence[DeviceGraph], most: int) -> None:
        """Leaves room for what the device will keep of files of which it has nothing yet: for all that lies there, or ``most``
        bytes, as far as there is as much."""
        unread = StoredArrays(
            array for view in views for array in view.stored if not array.cache.on_devices.stores(view.device, array.origin)
        )
        if unread:
            taken = min(self.left, most, unread.most_bytes)
            self.left, self.lines = self.left - taken, taken // len(unread.files)

    def keep_prefix(self, view: DeviceGraph, room: int | None = None) -> None:
        """The first neighbours of every vertex, as many as there is room for, or as ``room`` bytes of it hold."""
        room = self.left if room is None else room
        count = max((k for k in range(LONGEST_PREFIX + 1) if view.prefix_bytes(k) <= room), default=0)
        if count and view.lists.num_lists and not view.stored:
            self._keep(view, "prefixes", f"{count} of each", prefix_length=count)

    def keep_edges(self, view: DeviceGraph) -> None:
        """All edges that lie in host memory, or as many pages of them as there is room for."""
        if view.lists.on_gpu or view.stored or not view.lists.num_edges:
            return
        if not self.keep_all_edges(view):
            self.keep_pages(view, view.pages_within(self.left, self.weighted))

    def keep_all_edges(self, view: DeviceGraph) -> bool:
        """All edges; False where there is no room for them."""
        return self._keep(view, "edges", "all edges", whole=True)

    def keep_pages(self, view: DeviceGraph, count: int, dealt: int = 0, gpus: int = 1) -> None:
        """So many pages of the edges, and of ``dealt`` more a share, if there is room for them."""
        if count or dealt:
            unit = "bytes" if view.lists.is_compressed else "edges"
            said = f"{count} pages of {view.page} {unit} {share(count * view.page, view.edges.numel())}"
            if dealt:
                said += f" in each of {gpus} GPUs, {dealt} {share(dealt * view.page, view.edges.numel())} dealt over them"
            self._keep(view, "edges", said, pages=count, dealt=dealt, gpus=gpus)

    def apply(self, scores: torch.Tensor | None = None) -> None:
        """Copies to the device what is kept of each view's lists; ``scores`` as for :meth:`DeviceGraph.page_scores`."""
        for view, kept in self.kept.items():
            view.keep(kept, view.page_scores(scores) if kept.pages else None)
            if view.stored and view.device.type == "cuda":
                view.read_on_device(self.lines)

    def about(self) -> str:
        """The lists."""
        return "; ".join(f"{view.name} of {view.lists.num_lists:,} vertices" for view in self.kept)

    def parts(self) -> list[BudgetItem]:
        """What is kept, in the order in which it was asked for; then the lists of which nothing is."""
        return [
            *self._spent,
            *(BudgetItem(view.name, "read where they lie") for view, kept in self.kept.items() if not kept.nbytes),
        ]

    def notes(self) -> list[str]:
        """That an algorithm's state comes first, which arrays are not all mapped in large pages, what of files is kept, and
        more."""
        first = ["the state of an algorithm comes before all of this"] if self.budget else []
        files = [one.explain() for one in all_through(self.kept) if isinstance(one, FileOnDevice)]
        return [*first, *(note for view in self.kept for note in view.slow_places()), *files, *self.said]


def plan_graph(
    room: int,
    out: DeviceGraph,
    incoming: DeviceGraph | None,
    order: torch.Tensor | None,
    algorithms: Sequence[Algorithm],
    weighted: bool,
    many_runs: bool,
    lines: int | None = None,
) -> GraphPlan:
    """What is kept for runs of ``algorithms`` in ``room`` bytes, 0 where the CPU runs them.

    Args:
        out, incoming: the lists, and those of in-neighbours, if they are known.
        many_runs: keep what pays only over several runs, too.
        lines: the most bytes of the room for what the device keeps of files; None: that is beside the room.
    """
    plan = GraphPlan(room, weighted)
    known = [out] if incoming is None else list(dict.fromkeys([out, incoming]))
    for view in known:
        plan.of(view)
    if room == 0:
        return plan
    read = known[-1:] if all(a.incoming_only for a in algorithms) else [out]
    searching = incoming is not None and any(a.searching for a in algorithms)
    if searching and known[-1] not in read:
        read.append(known[-1])
    for view in dict.fromkeys([*read, out]):  # degrees are asked for even where no list is read
        plan.keep_offsets(view)
    if lines is not None:
        plan.keep_lines(known, lines)
    if many_runs and order is not None:
        plan.order = plan.take(BudgetItem("order of the vertices", "all", allocated(order.nbytes)))
    if many_runs or any(a.incoming_only for a in algorithms):
        if incoming is not None and searching:
            # They pay beside all edges, too, but not in their place.
            beside = plan.left - sum(view.edge_bytes(weighted) for view in read if not view.lists.on_gpu)
            plan.keep_prefix(incoming, beside if beside >= 0 else None)
        for view in read:
            plan.keep_edges(view)
    return plan


def room_within(device: torch.device, budget: int | None, reserved: int, num_vertices: int) -> int:
    """Bytes that may be kept on ``device`` beside ``reserved``, which are left free; 0 on the CPU. OutOfMemory where these
    exceed what is free."""
    if device.type == "cpu":
        return 0
    free = devices.free_bytes(device)
    limit = free if budget is None else min(budget, free)
    if reserved > limit:
        raise OutOfMemory(
            f"traversing {num_vertices} vertices needs {format_bytes(reserved)} on {device} and "
            f"{format_bytes(free)} are free; free some, or run it with device='cpu'"
        )
    return limit - reserved
