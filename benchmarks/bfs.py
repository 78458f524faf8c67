"""Breadth-first search with edges in host memory, against the copy engine of this run and the figures of EMOGI and GAP.

Without ``small``: scale-25 graphs on a GPU. With it: scale 14 on the CPU, against scipy's breadth_first_order.
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
from hinterland.graph import Graph, verify_bfs
from hinterland.graph.sources import draw_sources
from hinterland.memory import UnifiedTensor
from hinterland.probe.link import copy_rates

SOURCES = 8
SEED = 27491095
# Milliseconds of other programs on one H200 with 16 CPU cores: EMOGI by bytes of an edge, and GAP on the CPU.
OTHERS: dict[str, dict[str, Any]] = {
    "kronecker": {"emogi": {4: 144, 8: 215}, "gap": 83},
    "uniform": {"emogi": {4: 123, 8: 193}, "gap": 138},
}


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a search is wrong."""
    return {"cases": [_against_scipy(kind) for kind in OTHERS]} if small else _on_gpu()


def _on_gpu() -> dict[str, Any]:
    ceiling = copy_rates(torch.device("cuda", 0), 1 << 30)[0]
    results: dict[str, Any] = {"copy_engine": ceiling, "cases": [], "runs": [], "levels": []}
    for kind in OTHERS:
        place = {"indptr": "gpu", "indices": "host"}
        graph = hl.generate(kind, scale=25, edge_factor=16, seed=1, placement=place, device="cuda")
        measure(graph, kind, results)
        graph = with_wide_edges(graph)
        measure(graph, kind, results)
        del graph
    return results


def with_wide_edges(graph: Graph) -> Graph:
    """The same graph with eight-byte neighbours in host memory."""
    indices = UnifiedTensor.empty((graph.num_edges,), torch.int64)
    indices.cpu().copy_(graph.indices)
    return Graph._of({"indptr": graph._arrays["indptr"], "indices": indices}, graph.directed)


def measure(graph: Graph, kind: str, results: dict[str, Any]) -> None:
    """Adds one case to ``results``: a search from each source. The first is verified; the levels are those of the median."""
    ceiling, sources = results["copy_engine"], draw_sources(graph, SOURCES, SEED)
    result = hl.bfs(graph, sources[0], device="cuda")  # also compiles the kernel
    start = time.perf_counter()
    verify_bfs(graph, sources[0], result)
    verify_seconds = time.perf_counter() - start
    del result
    runs = []
    for source in sources:
        stats = hl.bfs(graph, source, device="cuda", stats=True).stats
        assert stats is not None
        runs.append({"source": source, **stats})
    runs.sort(key=lambda run: run["seconds"])
    middle = runs[len(runs) // 2]
    edge_bytes = graph.indices.element_size()
    case = {"graph": kind, "edge_bytes": edge_bytes}
    results["cases"].append(
        {
            **case,
            "vertices": graph.num_vertices,
            "edges": graph.num_edges,
            "median_ms": statistics.median(run["seconds"] for run in runs) * 1e3,
            "best_ms": runs[0]["seconds"] * 1e3,
            "worst_ms": runs[-1]["seconds"] * 1e3,
            "emogi_ms": OTHERS[kind]["emogi"][edge_bytes],
            "gap_ms": OTHERS[kind]["gap"],
            "teps": middle["edges"] / middle["seconds"],
            "bytes": middle["bytes"],
            "bandwidth": middle["bytes"] / middle["seconds"],
            "share": middle["bytes"] / middle["seconds"] / ceiling,
            "heavy_share": statistics.median(run["link"]["heavy"]["bandwidth"] for run in runs) / ceiling,
            "verify_seconds": verify_seconds,
        }
    )
    kept = ("source", "seconds", "levels", "reached", "edges", "bytes")
    results["runs"] += [{**case, **{key: run[key] for key in kept}} for run in runs]
    results["levels"] += [{**case, **level} for level in middle["per_level"]]


def _against_scipy(kind: str) -> dict[str, Any]:
    graph = hl.generate(kind, scale=14, edge_factor=16, seed=1, device="cpu")
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
