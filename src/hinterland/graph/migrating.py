"""Lists in managed memory whose pages move to the GPU that reads them, and home again: UVM, the baseline of EMOGI."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..memory import cuda
from ..memory.allocator import Buffer, managed, mapped_bytes
from ..memory.mapping import UNLIMITED, mapped_limit
from ..runtime.errors import OutOfMemory
from ..runtime.units import format_bytes
from ..table import UnifiedTensor
from .graph import Graph
from .lists import NeighborLists


def migrating(graph: Graph, budget: int | None = None) -> tuple[Graph, Callable[[], None]]:
    """The same graph with edges and weights in managed memory that migrates, and a call that brings all pages home.

    Args:
        graph: plain lists or packed ones, which are decoded.
        budget: bytes of GPU memory that pages will find free, if they are fewer than now.

    Raises:
        OutOfMemory: edges and weights exceed the budget, or what managed memory may take.
    """
    held = {name: tensor for name in ("indices", "weights") if (tensor := graph.array(name, "cpu")) is not None}
    need, limit = sum(tensor.nbytes for tensor in held.values()), mapped_limit()
    room = limit.nbytes - mapped_bytes()
    if budget is not None and limit.nbytes != UNLIMITED:
        room = min(room, budget)
    if need == 0:
        return graph, lambda: None
    if need > room:
        raise OutOfMemory(
            f"UVM over {format_bytes(need)} of edges asked for, but {format_bytes(max(0, room))} of managed memory can be had "
            f"(the limit is by {limit.source}); choose a smaller graph, or where the driver is known to bear more than the GPU "
            "has free, and nobody shares the machine, HINTERLAND_MAPPED_LIMIT=unlimited"
        )
    moved: dict[str, Any] = {"indptr": graph.neighbor_lists.arrays["indptr"]}
    regions: list[tuple[int, int]] = []
    for name, tensor in held.items():
        release = ExitStack()
        address = managed(tensor.nbytes, release)
        buffer = Buffer(address, tensor.nbytes, "migrating", release, mapped=tensor.nbytes)
        table = UnifiedTensor(buffer, tensor.dtype, tensor.shape)
        table.cpu().copy_(tensor)
        moved[name] = table
        regions.append((address, tensor.nbytes))

    def come_home() -> None:
        for address, nbytes in regions:
            cuda.copy_on_read(address, nbytes)

    return graph.over(NeighborLists(moved)), come_home
