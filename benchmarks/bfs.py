"""Breadth-first search with edges in host memory, against the copy engine of this run.

Without ``small``: scale-25 graphs on a GPU, top-down as EMOGI searches, in the fastest mode with a quarter of the edge bytes as
budget, and with all edges in GPU memory; and a grid of 4096 x 4096, for what a level costs. With it: scale 20 on the CPU,
against scipy's breadth_first_order.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.csgraph import breadth_first_order

import hinterland as hl
from hinterland.graph import Graph, ResidentGraph, verify_bfs
from hinterland.graph.lists import NeighborLists
from hinterland.graph.sources import draw_sources
from hinterland.table import UnifiedTensor

from ._traversals import SEED, both, matrix, middle, on_cpu, on_gpu, quickest_first, row, seconds, sizes

SOURCES = 8
SIDE = 4096  # of the grid


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a search is wrong."""
    results = both(small, _beside_scipy, _measure, "runs", "levels")
    return results if small else {**results, "grid": _grid()}


def _measure(kind: str, results: dict[str, Any]) -> None:
    graph = on_gpu(kind)
    torch.cuda.empty_cache()
    quarter = graph.indices.nbytes // 4
    ways = ((quarter, "auto", "auto"), (quarter, "top-down", "top-down"), (None, "auto", "auto, all edges in GPU memory"))
    for budget, mode, name in ways:
        with hl.prepare(graph, gpu_budget=budget) as prepared:
            measure(prepared, kind, mode, name, results)
    wide = with_wide_edges(graph)
    del graph
    with hl.prepare(wide, gpu_budget=wide.indices.nbytes // 4) as prepared:
        measure(prepared, kind, "top-down", "top-down", results)


def _grid() -> dict[str, Any]:
    number = torch.arange(SIDE * SIDE).view(SIDE, SIDE)
    sources = torch.cat([number[:, :-1].reshape(-1), number[:-1].reshape(-1)])
    targets = torch.cat([number[:, 1:].reshape(-1), number[1:].reshape(-1)])
    graph = hl.from_edges(sources, targets, num_vertices=SIDE * SIDE, symmetrize=True)
    found: dict[str, Any] = {"side": SIDE}
    with hl.prepare(graph, gpu_budget=4 * graph.indices.nbytes) as prepared:
        for name, source in (("corner", 0), ("middle", SIDE * SIDE // 2 + SIDE // 2)):
            hl.bfs(prepared, source)
            stats = hl.bfs(prepared, source, stats=True).stats
            found |= {f"{name}_levels": stats["levels"], f"{name}_us_a_level": stats["seconds"] / stats["levels"] * 1e6}
    return found


def with_wide_edges(graph: Graph) -> Graph:
    """The same graph with eight-byte neighbours in host memory."""
    indices = UnifiedTensor.empty((graph.num_edges,), torch.int64)
    indices.cpu().copy_(graph.indices)
    return Graph.of(NeighborLists({"indptr": graph.neighbor_lists.arrays["indptr"], "indices": indices}), graph.directed)


def measure(prepared: ResidentGraph, kind: str, mode: str, name: str, results: dict[str, Any]) -> None:
    """Adds one case to ``results``: a search from each source. The first is verified; the levels are those of the median."""
    graph, ceiling = prepared.graph, results["copy_engine"]
    sources = draw_sources(graph, SOURCES, SEED)
    verify_bfs(graph, sources[0], hl.bfs(prepared, sources[0], mode))  # also compiles the kernel
    runs = []
    for source in sources:
        runs.append({"source": source, **hl.bfs(prepared, source, mode, stats=True).stats})
    runs.sort(key=lambda one: one["seconds"])
    case = {**sizes(kind, graph), "edge_bytes": graph.indices.element_size(), "mode": name}
    found, median = row(runs, "bytes", "cached", "held"), middle(runs)
    found["teps"] = median["edges"] / median["seconds"]
    if median["link"] is not None:
        heavy = statistics.median(one["link"]["heavy"]["bandwidth"] for one in runs)
        found |= {"share": median["bytes"] / median["seconds"] / ceiling, "heavy_share": heavy / ceiling}
    results["cases"].append({**case, **found})
    kept = ("source", "seconds", "levels", "reached", "edges", "bytes", "cached")
    results["runs"] += [{**case, **{key: one[key] for key in kept}} for one in runs]
    results["levels"] += [{**case, **level} for level in median["per_level"]]


def _beside_scipy(kind: str) -> dict[str, Any]:
    graph = on_cpu(kind)
    of_scipy = matrix(graph, np.ones(graph.num_edges, np.int8))
    ours, theirs = [], []
    for source in draw_sources(graph, SOURCES, SEED):
        ours.append(hl.bfs(graph, source, device="cpu", stats=True))
        verify_bfs(graph, source, ours[-1])
        theirs.append(seconds(partial(breadth_first_order, of_scipy, source))[0])
    return {**sizes(kind, graph), **row(quickest_first(ours)), "scipy_ms": statistics.median(theirs) * 1e3}
