"""Shortest paths with edges and weights in host memory, against the figures of the GAP suite and EMOGI.

Without ``small``: scale-25 graphs on a GPU, prepared with a quarter of the bytes of edges and weights. With it: scale 20 on the
CPU, against scipy's dijkstra.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

import hinterland as hl
from hinterland.graph import Graph, Prepared, verify_sssp
from hinterland.graph.sources import draw_sources

SOURCES = 8
SEED = 27491095
# Milliseconds of other programs with weights from 1 to 255: GAP on the 16 CPU cores beside one H200, EMOGI on that H200.
OTHERS = {"kronecker": {"gap_ms": 881, "emogi_ms": 641}, "uniform": {"gap_ms": 1731, "emogi_ms": 1685}}
DELTAS = (1, 2, 4, 8, 16, 32, 64)


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a result is wrong."""
    return _on_cpu() if small else _on_gpu()


def _on_gpu() -> dict[str, Any]:
    results: dict[str, Any] = {"cases": [], "deltas": [], "steps": []}
    for kind, others in OTHERS.items():
        place = {"indptr": "gpu", "indices": "host", "weights": "host"}
        graph = hl.generate(kind, scale=25, edge_factor=16, seed=1, placement=place, device="cuda")
        for weights in ("int32", "uint8"):
            graph = hl.random_weights(graph, weights, placement=place)
            assert graph.weights is not None
            budget = (graph.indices.nbytes + graph.weights.nbytes) // 4
            with hl.prepare(graph, budget, "cuda", "sssp", weighted=True) as prepared:
                sources = draw_sources(graph, SOURCES, SEED)
                seconds, middle = _measure(graph, prepared, sources)
                case = {"graph": kind, "weights": weights}
                results["cases"].append({**case, **_row(graph, seconds, middle), "budget": budget, **others})
                results["steps"] += [{**case, **step} for step in middle["per_level"]]
                results["deltas"] += [{**case, **row} for row in _deltas(prepared, sources[0])]
                emogi_like = hl.sssp(prepared, sources[0], "bellman-ford", stats=True).stats
                assert emogi_like is not None
                results["deltas"].append({**case, **_counts(emogi_like)})
        del graph
    return results


def _on_cpu() -> dict[str, Any]:
    results: dict[str, Any] = {"cases": [], "deltas": []}
    for kind in OTHERS:
        graph = hl.generate(kind, scale=20, edge_factor=16, seed=1, weights="int32", device="cpu")
        assert graph.weights is not None
        values = (graph.weights.double().numpy(), graph.indices.numpy(), graph.indptr.numpy())
        matrix = sp.csr_matrix(values, shape=(graph.num_vertices,) * 2)
        sources = draw_sources(graph, 3, SEED)
        with hl.prepare(graph, device="cpu", algorithms="sssp") as prepared:
            seconds, middle = _measure(graph, prepared, sources)
            scipys = []
            for source in sources:
                start = time.perf_counter()
                expected = dijkstra(matrix, indices=source)
                scipys.append(time.perf_counter() - start)
            found = hl.sssp(prepared, sources[-1]).distances.numpy()
            np.testing.assert_array_equal(found, np.where(np.isinf(expected), -1, expected).astype(np.int64))
            row = {"graph": kind, **_row(graph, seconds, middle), "scipy_ms": statistics.median(scipys) * 1e3}
            results["cases"].append(row)
            results["deltas"] += [{"graph": kind, **row} for row in _deltas(prepared, sources[0])]
    return results


def _measure(graph: Graph, prepared: Prepared, sources: list[int]) -> tuple[list[float], dict[str, Any]]:
    """Seconds of a run from each source, in order, and the ``stats`` of the median. The first is verified."""
    verify_sssp(graph, sources[0], hl.sssp(prepared, sources[0]))  # also compiles the kernel
    runs = []
    for source in sources:
        stats = hl.sssp(prepared, source, stats=True).stats
        assert stats is not None
        runs.append(stats)
    runs.sort(key=lambda stats: stats["seconds"])
    return [stats["seconds"] for stats in runs], runs[len(runs) // 2]


def _row(graph: Graph, seconds: list[float], middle: dict[str, Any]) -> dict[str, Any]:
    return {
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "median_ms": statistics.median(seconds) * 1e3,
        "best_ms": seconds[0] * 1e3,
        "worst_ms": seconds[-1] * 1e3,
        **_counts(middle),
        "bandwidth": middle["bytes"] / middle["seconds"],
    }


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
    }


def _deltas(prepared: Prepared, source: int) -> list[dict[str, Any]]:
    """What each fixed width of buckets costs: lists read again, and steps."""
    rows = []
    for delta in DELTAS:
        stats = hl.sssp(prepared, source, delta=delta, stats=True).stats
        assert stats is not None
        rows.append(_counts(stats))
    return rows
