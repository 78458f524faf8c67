"""Breadth-first search from 64 sources at once, against the same searches one by one on the same prepared graph.

Without ``small``: scale-25 graphs on a GPU that may keep a quarter of the edges' bytes. With it: scale 14 on the CPU.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import torch

import hinterland as hl
from hinterland.graph import verify_multi_source_bfs
from hinterland.graph.sources import draw_sources

from ._traversals import KINDS, SEED, middle, on_cpu, on_gpu, quickest_first, seconds, sizes

SOURCES = 64
RUNS = 5
CHECKED = 2  # sources whose levels are verified


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a search is wrong."""
    results: dict[str, Any] = {"cases": [], "levels": []}
    for kind in KINDS:
        measure(kind, small, results)
    return results


def measure(kind: str, small: bool, results: dict[str, Any]) -> None:
    """Adds one case to ``results``, and the levels of its median run."""
    graph = on_cpu(kind, 14) if small else on_gpu(kind, {"indptr": "gpu", "indices": "host"})
    device, budget = ("cpu", None) if small else ("cuda", graph.indices.nbytes // 4)
    sources = draw_sources(graph, SOURCES, SEED)
    with hl.prepare(graph, gpu_budget=budget, device=device, algorithms=["bfs"]) as prepared:
        hl.bfs(prepared, sources[0])  # compiles the kernel
        single = [hl.bfs(prepared, source, stats=True).stats["seconds"] for source in sources]
    with hl.prepare(graph, gpu_budget=budget, device=device, algorithms=["msbfs"]) as prepared:
        held = prepared.held
        hl.multi_source_bfs(prepared, sources, levels=False)
        results_of = [hl.multi_source_bfs(prepared, sources, levels=False, stats=True) for _ in range(RUNS)]
        in_budget = [hl.multi_source_bfs(prepared, sources, stats=True).stats["seconds"] for _ in range(2)][-1]
    # Without a budget the levels lie on the GPU.
    on_device = [hl.multi_source_bfs(graph, sources, device=device, stats=True) for _ in range(2)][-1]
    few = (one[:CHECKED] for one in (on_device.levels, on_device.reached, on_device.distance_sum, on_device.eccentricity))
    verified, _ = seconds(partial(verify_multi_source_bfs, graph, sources[:CHECKED], hl.MultiBfsResult(*few)))
    assert all(torch.equal(one.distance_sum, on_device.distance_sum) for one in results_of)
    stats = middle(quickest_first(results_of))
    results["cases"].append(
        {
            **sizes(kind, graph),
            "held": held,
            "single_ms": statistics.median(single) * 1e3,
            "all_singles_ms": sum(single) * 1e3,
            "msbfs_ms": stats["seconds"] * 1e3,
            "faster": sum(single) / stats["seconds"],
            "with_levels_ms": on_device.stats["seconds"] * 1e3,
            "with_levels_in_budget_ms": in_budget * 1e3,
            "bytes": stats["bytes"],
            "bandwidth": stats["bytes"] / stats["seconds"],
            "verify_seconds": verified,
        }
    )
    results["levels"] += [{"graph": kind, **level} for level in stats["searches"][0]["per_level"]]
