"""Every traversal in its fastest mode beside what it has to beat, in one table.

Without ``small``: graphs of scale 25 and 26 on a GPU, edges in host memory, prepared within a quarter of the bytes of the edges
(and weights). With it: scale 20 on the CPU, against scipy. The benchmarks of the single algorithms go into details.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

import hinterland as hl
from hinterland.graph import Graph, Prepared, verify_bfs, verify_components, verify_sssp
from hinterland.graph.sources import draw_sources
from hinterland.probe.link import copy_rates

from . import bfs, cc, pagerank, sssp

RUNS = 8
KINDS = ("kronecker", "uniform")
# Milliseconds at scale 25: GAP on 16 cores of the same kind of machine, and what we aim at.
GAP = {"bfs": (83, 138), "cc": (138, 277), "sssp": (881, 1731), "pagerank": (1950, 1930)}
TARGETS = {"bfs": (25, 45), "cc": (45, 90), "sssp": (300, 600), "pagerank": (975, 965)}


def run(small: bool) -> dict[str, Any]:
    """One row for each algorithm, graph and scale; raises VerificationError where a result is wrong."""
    if small:
        return {module.__name__.rpartition(".")[2]: module.run(True)["cases"] for module in (bfs, sssp, cc, pagerank)}
    results: dict[str, Any] = {"copy_engine": copy_rates(torch.device("cuda", 0), 1 << 30)[0], "cases": []}
    for scale in (25, 26):
        for kind in KINDS:
            graph = hl.generate(kind, scale=scale, edge_factor=16, seed=1, weights="int32", device="cuda")
            results["cases"] += [_case(graph, kind, scale, name) for name in TARGETS]
            del graph
            torch.cuda.empty_cache()
    return results


def _case(graph: Graph, kind: str, scale: int, name: str) -> dict[str, Any]:
    weighted = name == "sssp"
    graph = graph if weighted else graph.without_weights()
    assert graph.weights is not None or not weighted
    budget = (graph.indices.nbytes + (graph.weights.nbytes if weighted and graph.weights is not None else 0)) // 4
    sources = draw_sources(graph, RUNS, bfs.SEED)
    calls: dict[str, Callable[[Prepared, int], Any]] = {
        "bfs": lambda prepared, source: hl.bfs(prepared, source, stats=True),
        "cc": lambda prepared, source: hl.connected_components(prepared, stats=True),
        "sssp": lambda prepared, source: hl.sssp(prepared, source, stats=True),
        "pagerank": lambda prepared, source: hl.pagerank(prepared, stats=True),
    }
    checks: dict[str, Callable[[Any], None]] = {
        "bfs": lambda result: verify_bfs(graph, sources[0], result),
        "cc": lambda result: verify_components(graph, result),
        "sssp": lambda result: verify_sssp(graph, sources[0], result),
    }
    torch.cuda.empty_cache()
    with hl.prepare(graph, gpu_budget=budget, algorithms=name, weighted=weighted) as prepared:
        result = calls[name](prepared, sources[0])  # also compiles the kernel
        if name in checks and scale == 25:
            checks[name](result)
        del result
        runs = sorted((calls[name](prepared, source).stats for source in sources), key=lambda stats: stats["seconds"])
        middle = runs[len(runs) // 2]
        known = scale == 25
        return {
            "algorithm": name,
            "graph": kind,
            "scale": scale,
            "median_ms": statistics.median(stats["seconds"] for stats in runs) * 1e3,
            "best_ms": runs[0]["seconds"] * 1e3,
            "worst_ms": runs[-1]["seconds"] * 1e3,
            "target_ms": TARGETS[name][KINDS.index(kind)] if known else "",
            "gap_ms": GAP[name][KINDS.index(kind)] if known else "",
            "bytes": middle["bytes"],
            "cached": middle["cached"],
            "budget": budget,
            "held": prepared.held,
            "device": middle["device"],
        }
