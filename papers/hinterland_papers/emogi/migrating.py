"""Lists in managed memory whose pages move to the GPU that reads them, and home again: UVM, the baseline of EMOGI."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from hinterland.graph.graph import Graph
from hinterland.graph.lists import NeighborLists
from hinterland.memory import cuda
from hinterland.memory.allocator import Buffer, take_managed
from hinterland.memory.mapping import UNLIMITED, managed_limit
from hinterland.memory.registry import managed_bytes
from hinterland.runtime.errors import OutOfMemory
from hinterland.runtime.units import format_bytes
from hinterland.table import UnifiedTensor


def migrating(graph: Graph, budget: int | None = None) -> tuple[Graph, Callable[[], None]]:
    """The same graph with edges and weights in managed memory that migrates, and a call that brings all pages home.

    Args:
        graph: plain lists or packed ones, which are decoded.
        budget: bytes of GPU memory that pages will find free, if they are fewer than now.

    Raises:
        OutOfMemory: edges and weights exceed the budget, or what managed memory may take.
    """
    held = {name: tensor for name in ("indices", "weights") if (tensor := graph.array(name, "cpu")) is not None}
    need, limit = sum(tensor.nbytes for tensor in held.values()), managed_limit(checked=False)
    room = limit.nbytes - managed_bytes()
    if budget is not None and limit.nbytes != UNLIMITED:
        room = min(room, budget)
    if need == 0:
        return graph, lambda: None
    if need > room:
        raise OutOfMemory(
            f"UVM over {format_bytes(need)} of edges asked for, but {format_bytes(max(0, room))} of managed memory can be had "
            f"(the limit is by {limit.source}); choose a smaller graph, or where the driver is known to bear more than the GPU "
            "has free, and nobody shares the machine, HINTERLAND_MANAGED_LIMIT=unlimited"
        )
    moved: dict[str, Any] = {"indptr": graph.neighbor_lists.arrays["indptr"]}
    regions: list[tuple[int, int]] = []
    for name, tensor in held.items():
        release = ExitStack()
        address = take_managed(tensor.nbytes, release)
        buffer = Buffer(address, tensor.nbytes, "migrating", release, managed=tensor.nbytes)
        table = UnifiedTensor(buffer, tensor.dtype, tensor.shape)
        table.cpu().copy_(tensor)
        moved[name] = table
        regions.append((address, tensor.nbytes))

    def come_home() -> None:
        for address, nbytes in regions:
            copy_on_read(address, nbytes)

    return graph.over(NeighborLists(moved)), come_home


def copy_on_read(address: int, nbytes: int) -> None:
    """Managed memory whose pages a GPU copies when it reads them (UVM, read-mostly), and that are all on the host now.

    The memory must stay below the GPU's free memory.
    """
    driver = cuda._started()
    host = driver.CUmemLocation()
    host.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST
    advise, what = driver.CUmem_advise, "make managed memory read-mostly"
    # Copies that GPUs hold go when the advice does.
    cuda.checked(driver.cuMemAdvise(address, nbytes, advise.CU_MEM_ADVISE_UNSET_READ_MOSTLY, host), what)
    cuda.checked(driver.cuMemPrefetchAsync(address, nbytes, host, 0, 0), "move managed memory to the host")
    cuda.wait_for_gpus()
    cuda.checked(driver.cuMemAdvise(address, nbytes, advise.CU_MEM_ADVISE_SET_READ_MOSTLY, host), what)
