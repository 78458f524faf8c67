"""Shortest paths with edges and weights in host memory.

Without ``small``: scale-25 graphs on a GPU, prepared with a quarter of the bytes of edges and weights. With it: scale 20 on the
CPU, against scipy's dijkstra.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.csgraph import dijkstra

import hinterland as hl
from hinterland.graph import Graph, ResidentGraph, verify_sssp
from hinterland.graph.sources import draw_sources

from ._traversals import SEED, both, matrix, middle, on_cpu, on_gpu, quickest_first, row, seconds, sizes

SOURCES = 8
DELTAS = (1, 2, 4, 8, 16, 32, 64)


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a result is wrong."""
    return both(small, _beside_scipy, _measure, "deltas", "steps")


def _measure(kind: str, results: dict[str, Any]) -> None:
    place = {"indptr": "gpu", "indices": "host", "weights": "host"}
    graph = on_gpu(kind, place)
    for weights in ("int32", "uint8"):
        graph = hl.random_weights(graph, weights, placement=place)
        budget = (graph.indices.nbytes + graph.weights.nbytes) // 4
        with hl.prepare(graph, budget, "cuda", "sssp", weighted=True) as prepared:
            sources = draw_sources(graph, SOURCES, SEED)
            runs = _runs(graph, prepared, sources)
            case = {**sizes(kind, graph), "weights": weights}
            results["cases"].append({**case, **row(runs), **_counts(middle(runs)), "budget": budget})
            results["steps"] += [{**case, **step} for step in middle(runs)["per_level"]]
            ways: list[dict[str, Any]] = [{"delta": delta} for delta in DELTAS]  # lists read again, and steps
            for way in (*ways, {"mode": "bellman-ford"}):  # as EMOGI does it
                stats = hl.sssp(prepared, sources[0], **way, stats=True).stats
                results["deltas"].append({**case, **_counts(stats)})


def _beside_scipy(kind: str) -> dict[str, Any]:
    graph = on_cpu(kind, weights="int32")
    of_scipy, sources, theirs = matrix(graph, graph.weights.double().numpy()), draw_sources(graph, 3, SEED), []
    with hl.prepare(graph, device="cpu", algorithms="sssp") as prepared:
        runs = _runs(graph, prepared, sources)
        for source in sources:
            took, expected = seconds(partial(dijkstra, of_scipy, indices=source))
            theirs.append(took)
            found = hl.sssp(prepared, source).distances.numpy()
            np.testing.assert_array_equal(found, np.where(np.isinf(expected), -1, expected).astype(np.int64))
    return {**sizes(kind, graph), **row(runs), **_counts(middle(runs)), "scipy_ms": statistics.median(theirs) * 1e3}


def _runs(graph: Graph, prepared: ResidentGraph, sources: list[int]) -> list[dict[str, Any]]:
    """The ``stats`` of a run from each source. The first is verified."""
    verify_sssp(graph, sources[0], hl.sssp(prepared, sources[0]))  # also compiles the kernel
    return quickest_first(hl.sssp(prepared, source, stats=True) for source in sources)


def _counts(stats: dict[str, Any]) -> dict[str, Any]:
    return {
        "delta": stats["delta"],
        "ms": stats["seconds"] * 1e3,
        "steps": stats["levels"],
        "buckets": stats["buckets"],
        "visits_each": stats["visits"] / stats["reached"],
        "edges_visited": stats["edges"],
        "bytes": stats["bytes"],
        "cached": stats["cached"],
        "bandwidth": stats["bytes"] / stats["seconds"],
    }
