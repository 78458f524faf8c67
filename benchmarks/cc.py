"""Connected components with edges in host memory, beside the figures of EMOGI and GAP.

Without ``small``: scale-25 graphs on a GPU, prepared within a quarter of the edge bytes. With it: scale 20 on the CPU, against
scipy's connected_components.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse import csgraph

import hinterland as hl
from hinterland.graph import Graph, verify_components
from hinterland.probe.link import copy_rates

RUNS = 8
# Milliseconds on one H200 with 16 CPU cores: EMOGI with 4-byte edges, GAP on the CPU, and what we aim at.
OTHERS = {
    "kronecker": {"emogi_ms": 366, "gap_ms": 138, "target_ms": 45},
    "uniform": {"emogi_ms": 368, "gap_ms": 277, "target_ms": 90},
}


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a result is wrong."""
    if small:
        return {"cases": [_against_scipy(kind) for kind in OTHERS]}
    results: dict[str, Any] = {"copy_engine": copy_rates(torch.device("cuda", 0), 1 << 30)[0], "cases": [], "steps": []}
    for kind in OTHERS:
        place = {"indptr": "host", "indices": "host"}
        graph = hl.generate(kind, scale=25, edge_factor=16, seed=1, placement=place, device="cuda")
        for budget in (graph.indices.nbytes // 4, None):
            measure(graph, kind, budget, results)
        del graph
    return results


def measure(graph: Graph, kind: str, budget: int | None, results: dict[str, Any]) -> None:
    """Adds one case: median of some runs on a graph that is prepared within the budget, or, with None, unprepared."""
    prepared = graph if budget is None else hl.prepare(graph, gpu_budget=budget, device="cuda", algorithms="cc")
    device = "cuda" if budget is None else None
    result = hl.connected_components(prepared, device=device)  # also compiles the kernel
    verify_components(graph, result)
    count = result.count
    del result
    runs = [hl.connected_components(prepared, device=device, stats=True).stats for _ in range(RUNS)]
    runs = sorted((stats for stats in runs if stats is not None), key=lambda stats: stats["seconds"])
    middle = runs[len(runs) // 2]
    case = {"graph": kind, "prepared": budget is not None}
    results["cases"].append(
        {
            **case,
            "components": count,
            "median_ms": statistics.median(stats["seconds"] for stats in runs) * 1e3,
            "best_ms": runs[0]["seconds"] * 1e3,
            **OTHERS[kind],
            "edges": middle["edges"],
            "bytes": middle["bytes"],
            "held": middle["held"],
            "device": middle["device"],
        }
    )
    results["steps"] += [{**case, **step} for step in middle["per_level"]]


def _against_scipy(kind: str) -> dict[str, Any]:
    graph = hl.generate(kind, scale=20, edge_factor=16, seed=1, device="cpu")
    matrix = sp.csr_matrix(
        (np.ones(graph.num_edges, np.int8), graph.indices.numpy(), graph.indptr.numpy()), shape=(graph.num_vertices,) * 2
    )
    result = hl.connected_components(graph, device="cpu")
    verify_components(graph, result)
    runs = [hl.connected_components(graph, device="cpu", stats=True).stats for _ in range(RUNS)]
    start = time.perf_counter()
    count, _ = csgraph.connected_components(matrix, directed=False)
    seconds = time.perf_counter() - start
    assert count == result.count
    return {
        "graph": kind,
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "median_ms": statistics.median(stats["seconds"] for stats in runs if stats is not None) * 1e3,
        "scipy_ms": seconds * 1e3,
    }
