"""Breadth-first search from 64 sources at once, against the same searches one by one on the same prepared graph.

Without ``small``: scale-25 graphs on a GPU that may keep a quarter of the edges' bytes. With it: scale 14 on the CPU.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

import hinterland as hl
from hinterland.graph import Graph, verify_multi_source_bfs
from hinterland.graph.sources import draw_sources

SOURCES = 64
RUNS = 5
CHECKED = 2  # sources whose levels are verified
SEED = 27491095
KINDS = ("kronecker", "uniform")


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a search is wrong."""
    results: dict[str, Any] = {"cases": [], "levels": []}
    for kind in KINDS:
        if small:
            graph = hl.generate(kind, scale=14, edge_factor=16, seed=1, device="cpu")
        else:
            place = {"indptr": "gpu", "indices": "host"}
            graph = hl.generate(kind, scale=25, edge_factor=16, seed=1, placement=place, device="cuda")
        measure(graph, kind, "cpu" if small else "cuda", results)
        del graph
    return results


def measure(graph: Graph, kind: str, device: str, results: dict[str, Any]) -> None:
    """Adds one case to ``results``, and the levels of its median run."""
    sources = draw_sources(graph, SOURCES, SEED)
    budget = graph.indices.nbytes // 4 if device == "cuda" else None
    with hl.prepare(graph, gpu_budget=budget, device=device, algorithms=["bfs"]) as prepared:
        hl.bfs(prepared, sources[0])  # compiles the kernel
        single = [seconds(hl.bfs(prepared, source, stats=True)) for source in sources]
    with hl.prepare(graph, gpu_budget=budget, device=device, algorithms=["msbfs"]) as prepared:
        held = prepared.held
        hl.multi_source_bfs(prepared, sources, levels=False)
        runs = [hl.multi_source_bfs(prepared, sources, levels=False, stats=True) for _ in range(RUNS)]
        runs.sort(key=seconds)
        in_budget = [seconds(hl.multi_source_bfs(prepared, sources, stats=True)) for _ in range(2)]
    # Without a budget the levels lie on the GPU.
    on_device = [hl.multi_source_bfs(graph, sources, device=device, stats=True) for _ in range(2)][-1]
    start = time.perf_counter()
    assert on_device.levels is not None
    few = hl.MultiBfsResult(
        on_device.levels[:CHECKED],
        on_device.reached[:CHECKED],
        on_device.distance_sum[:CHECKED],
        on_device.eccentricity[:CHECKED],
    )
    verify_multi_source_bfs(graph, sources[:CHECKED], few)
    verify_seconds = time.perf_counter() - start
    assert all(torch.equal(run.distance_sum, on_device.distance_sum) for run in runs)
    middle = runs[RUNS // 2]
    assert middle.stats is not None
    results["cases"].append(
        {
            "graph": kind,
            "vertices": graph.num_vertices,
            "edges": graph.num_edges,
            "held": held,
            "single_ms": statistics.median(single) * 1e3,
            "all_singles_ms": sum(single) * 1e3,
            "msbfs_ms": seconds(middle) * 1e3,
            "faster": sum(single) / seconds(middle),
            "with_levels_ms": seconds(on_device) * 1e3,
            "with_levels_in_budget_ms": in_budget[-1] * 1e3,
            "bytes": middle.stats["bytes"],
            "bandwidth": middle.stats["bytes"] / seconds(middle),
            "verify_seconds": verify_seconds,
        }
    )
    results["levels"] += [{"graph": kind, **level} for level in middle.stats["searches"][0]["per_level"]]


def seconds(result: hl.BfsResult | hl.MultiBfsResult) -> float:
    """Time of a run with stats."""
    assert result.stats is not None
    return result.stats["seconds"]
