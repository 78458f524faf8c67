"""PageRank with edges in host memory, against the copy engine of this run.

Without ``small``: scale-25 graphs on a GPU, prepared within a quarter of the edge bytes. With it: scale 20 on the CPU, against
a power iteration of scipy's sparse matrices. Tolerance 1e-4, as the sum of all changes, in both.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import hinterland as hl
from hinterland.graph import Graph, verify_pagerank

from ._traversals import both, matrix, middle, on_cpu, on_gpu, quickest_first, row, seconds, sizes

RUNS = 4
TOLERANCE = 1e-4


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a result is wrong."""
    return both(small, _beside_scipy, _measure, "iterations")


def _measure(kind: str, results: dict[str, Any]) -> None:
    graph = on_gpu(kind)
    with hl.prepare(graph, gpu_budget=graph.indices.nbytes // 4, device="cuda", algorithms="pagerank") as prepared:
        result = hl.pagerank(prepared, tolerance=TOLERANCE)  # also compiles the kernel
        verify_pagerank(graph, result, tolerance=TOLERANCE)
        runs = quickest_first(hl.pagerank(prepared, tolerance=TOLERANCE, stats=True) for _ in range(RUNS))
    case = {**sizes(kind, graph), "iterations": result.iterations, "error": result.error}
    bandwidth = middle(runs)["bytes"] / middle(runs)["seconds"]
    share = {"bandwidth": bandwidth, "share": bandwidth / results["copy_engine"]}
    results["cases"].append({**case, **row(runs, "bytes", "held", "device"), **share})
    results["iterations"] += [{"graph": kind, **one} for one in middle(runs)["per_level"]]


def _beside_scipy(kind: str) -> dict[str, Any]:
    graph = on_cpu(kind)
    result = hl.pagerank(graph, tolerance=TOLERANCE, device="cpu")
    verify_pagerank(graph, result, tolerance=TOLERANCE)
    runs = quickest_first(hl.pagerank(graph, tolerance=TOLERANCE, device="cpu", stats=True) for _ in range(RUNS))
    degrees, pull = graph.degrees().numpy(), matrix(graph, np.ones(graph.num_edges, np.float32))
    took, iterations = seconds(partial(_power_iteration, graph, pull, degrees))
    case = {**sizes(kind, graph), "iterations": result.iterations, **row(runs)}
    return {**case, "scipy_iterations": iterations, "scipy_ms": took * 1e3}


def _power_iteration(graph: Graph, pull: Any, degrees: np.ndarray, damping: float = 0.85) -> int:
    """How many iterations from equal scores on."""
    vertices, over, dangling = graph.num_vertices, np.maximum(degrees, 1).astype(np.float32), degrees == 0
    scores, change, iterations = np.full(vertices, 1 / vertices, dtype=np.float32), np.inf, 0
    while change >= TOLERANCE:
        mass = scores[dangling].sum(dtype=np.float64) / vertices
        after = ((1 - damping) / vertices + damping * (pull @ (scores / over) + mass)).astype(np.float32)
        change, scores, iterations = float(np.abs(after - scores).sum(dtype=np.float64)), after, iterations + 1
    return iterations
