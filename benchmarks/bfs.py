"""Breadth-first search with edges in host memory, against the copy engine of this run and the figures of EMOGI and GAP.

Without ``small``: scale-25 graphs on a GPU, top-down as EMOGI searches, in the fastest mode with a quarter of the edge bytes as
budget, and with all edges in GPU memory; and a grid of 4096 x 4096, for what a level costs. With it: scale 20 on the CPU,
against scipy's breadth_first_order.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import breadth_first_order

import hinterland as hl
from hinterland.graph import Graph, Prepared, verify_bfs
from hinterland.graph.lists import NeighborLists
from hinterland.graph.sources import draw_sources
from hinterland.probe.link import copy_rates
from hinterland.table import UnifiedTensor

SOURCES = 8
SEED = 27491095
SIDE = 4096  # of the grid
# Milliseconds of other programs on one H200 with 16 CPU cores: EMOGI by bytes of an edge, and with 8-byte edges in GPU memory
# (its best source), and GAP on the CPU.
OTHERS: dict[str, dict[str, Any]] = {
    "kronecker": {"emogi": {4: 144, 8: 215}, "emogi_in_gpu": 53, "gap": 83},
    "uniform": {"emogi": {4: 123, 8: 193}, "emogi_in_gpu": 33, "gap": 138},
}


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a search is wrong."""
    return {"cases": [_against_scipy(kind) for kind in OTHERS]} if small else _on_gpu()


def _on_gpu() -> dict[str, Any]:
    ceiling = copy_rates(torch.device("cuda", 0), 1 << 30)[0]
    results: dict[str, Any] = {"copy_engine": ceiling, "cases": [], "grid": _grid(), "runs": [], "levels": []}
    for kind, others in OTHERS.items():
        graph = hl.generate(kind, scale=25, edge_factor=16, seed=1, device="cuda")
        torch.cuda.empty_cache()
        quarter = graph.indices.nbytes // 4
        for budget, mode, name, rival in (
            (quarter, "auto", "auto", others["gap"]),
            (quarter, "top-down", "top-down", others["emogi"][4]),
            (None, "auto", "auto, all edges in GPU memory", others["emogi_in_gpu"]),
        ):
            with hl.prepare(graph, gpu_budget=budget) as prepared:
                measure(prepared, kind, mode, name, rival, results)
        wide = with_wide_edges(graph)
        del graph
        with hl.prepare(wide, gpu_budget=wide.indices.nbytes // 4) as prepared:
            measure(prepared, kind, "top-down", "top-down", others["emogi"][8], results)
        del wide
    return results


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
            assert stats is not None
            found |= {f"{name}_levels": stats["levels"], f"{name}_us_a_level": stats["seconds"] / stats["levels"] * 1e6}
    return found


def with_wide_edges(graph: Graph) -> Graph:
    """The same graph with eight-byte neighbours in host memory."""
    indices = UnifiedTensor.empty((graph.num_edges,), torch.int64)
    indices.cpu().copy_(graph.indices)
    return Graph.of(NeighborLists({"indptr": graph.neighbor_lists.arrays["indptr"], "indices": indices}), graph.directed)


def measure(prepared: Prepared, kind: str, mode: str, name: str, rival: float, results: dict[str, Any]) -> None:
    """Adds one case to ``results``: a search from each source. The first is verified; the levels are those of the median."""
    graph, ceiling = prepared.graph, results["copy_engine"]
    sources = draw_sources(graph, SOURCES, SEED)
    verify_bfs(graph, sources[0], hl.bfs(prepared, sources[0], mode))  # also compiles the kernel
    runs = []
    for source in sources:
        stats = hl.bfs(prepared, source, mode, stats=True).stats
        assert stats is not None
        runs.append({"source": source, **stats})
    runs.sort(key=lambda run: run["seconds"])
    middle = runs[len(runs) // 2]
    case = {"graph": kind, "edge_bytes": graph.indices.element_size(), "mode": name}
    median = statistics.median(run["seconds"] for run in runs) * 1e3
    results["cases"].append(
        {
            **case,
            "vertices": graph.num_vertices,
            "edges": graph.num_edges,
            "median_ms": median,
            "best_ms": runs[0]["seconds"] * 1e3,
            "worst_ms": runs[-1]["seconds"] * 1e3,
            "rival_ms": rival,
            "times_as_fast": rival / median,
            "teps": middle["edges"] / middle["seconds"],
            "bytes": middle["bytes"],
            "cached": middle["cached"],
            "held": middle["held"],
        }
    )
    if middle["link"] is not None:
        heavy = statistics.median(run["link"]["heavy"]["bandwidth"] for run in runs)
        results["cases"][-1] |= {"share": middle["bytes"] / middle["seconds"] / ceiling, "heavy_share": heavy / ceiling}
    kept = ("source", "seconds", "levels", "reached", "edges", "bytes", "cached")
    results["runs"] += [{**case, **{key: run[key] for key in kept}} for run in runs]
    results["levels"] += [{**case, **level} for level in middle["per_level"]]


def _against_scipy(kind: str) -> dict[str, Any]:
    graph = hl.generate(kind, scale=20, edge_factor=16, seed=1, device="cpu")
    ones = np.ones(graph.num_edges, dtype=np.int8)
    matrix = sp.csr_matrix((ones, graph.indices.numpy(), graph.indptr.numpy()), shape=(graph.num_vertices,) * 2)
    ours, theirs = [], []
    for source in draw_sources(graph, SOURCES, SEED):
        result = hl.bfs(graph, source, device="cpu", stats=True)
        verify_bfs(graph, source, result)
        assert result.stats is not None
        ours.append(result.stats["seconds"])
        start = time.perf_counter()
        breadth_first_order(matrix, source)
        theirs.append(time.perf_counter() - start)
    return {
        "graph": kind,
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "median_ms": statistics.median(ours) * 1e3,
        "scipy_ms": statistics.median(theirs) * 1e3,
    }
