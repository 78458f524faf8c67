"""Link requests counted by the model against those that the GPU counted (Nsight Compute), for a small search.

The model counts the sectors that a warp's cache does not hold from the load before. A GPU's caches hold more, and warps share
them; so its sectors should lie between ``distinct`` (each sector once a level) and ``modelled``. Without ``small`` it needs a
GPU and ``ncu`` (some six seconds a row); with it there is only the model.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import hinterland as hl
from benchmarks._ncu import available, counted, number
from hinterland.graph import Graph
from hinterland.graph.lists import NeighborLists
from hinterland.table import UnifiedTensor
from hinterland_papers import emogi
from hinterland_papers.emogi.traffic import analyse
from hinterland_papers.emogi.traffic.requests import SIZES

SCALE = 20
# Counters of reads from host memory, by the name they get here; a GPU that lacks one leaves it out.
COUNTERS = {
    "sectors": "lts__t_sectors_srcunit_tex_aperture_sysmem.sum",
    "requests": "lts__t_requests_srcunit_tex_aperture_sysmem.sum",
    "pcie_bytes": "pcie__read_bytes.sum",
}
ACCESSES = [(access, "warp") for access in emogi.ACCESSES]
ASSIGNMENTS = [("aligned", name) for name in emogi.ASSIGNMENTS[1:]]  # for one graph: they share the model


def run(small: bool) -> dict[str, Any]:
    """One row for each graph, width of an edge, access and assignment."""
    rows = []
    known = {} if small else _available()
    for kind in ("kronecker", "uniform"):
        for edge_bytes in (4, 8):
            graph = graph_of(kind, 12 if small else SCALE, edge_bytes, on_gpu=not small)
            source = int(graph.degrees().argmax())
            for access, assignment in ACCESSES + (ASSIGNMENTS if (kind, edge_bytes) == ("kronecker", 4) else []):
                row: dict[str, Any] = {"graph": kind, "edge_bytes": edge_bytes, "access": access, "assignment": assignment}
                total = analyse(graph, "bfs", source, access, assignment).total
                row |= {f"requests_{size}": total["requests"][str(size)] for size in SIZES}
                row |= {"modelled": total["bytes"] // 32, "distinct": total["distinct_bytes"] // 32}
                if known:
                    counted = _count(known, kind, edge_bytes, access, assignment, source)
                    row |= counted
                    row["difference"] = counted["sectors"] / row["modelled"] - 1 if "sectors" in counted else None
                    print(row, file=sys.stderr)
                rows.append(row)
    return {"counters": known, "cases": rows}


def graph_of(kind: str, scale: int, edge_bytes: int, on_gpu: bool = True) -> Graph:
    """The graph of a case: with a GPU, only neighbours are in host memory."""
    place: Any = {"indptr": "gpu", "indices": "host"} if on_gpu else "host"
    graph = hl.generate(kind, scale=scale, edge_factor=16, seed=1, placement=place, device="cuda" if on_gpu else "cpu")
    if edge_bytes == 4:
        return graph
    indices = UnifiedTensor.empty((graph.num_edges,), torch.int64)
    indices.cpu().copy_(graph.indices)
    return Graph.of(NeighborLists({**graph.neighbor_lists.arrays, "indices": indices}), graph.directed)


def _available() -> dict[str, str]:
    """The counters that this GPU has."""
    names = available()
    return {short: metric for short, metric in COUNTERS.items() if metric.removesuffix(".sum") in names}


def _count(counters: dict[str, str], *case: Any) -> dict[str, float]:
    """Sums over all levels of one search."""
    kind, edge_bytes, access, assignment, source = case
    arguments = (kind, SCALE, edge_bytes, access, assignment, source)
    rows = counted("papers.benchmarks.emogi.traffic", arguments, "emogi_level", counters.values())
    if not rows:
        raise SystemExit("benchmarks traffic: ncu saw no kernel")
    return {short: sum(number(row[metric]) for row in rows) for short, metric in counters.items()}


if __name__ == "__main__":  # what Nsight Compute looks at: one search, with edges in host memory
    kind, scale, edge_bytes, access, assignment, source = sys.argv[1:]
    emogi.bfs(graph_of(kind, int(scale), int(edge_bytes)), int(source), access, assignment, device="cuda")
