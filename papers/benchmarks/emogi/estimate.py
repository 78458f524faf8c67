"""Measured times beside those that the model of the link gives: traversals, plain and packed, gathers, sampling.

With a GPU everything lies in host memory and nothing is kept: scale 24 (small: 14), a table of 8 GiB. There
``measured_over_modelled`` is how much longer a run takes than the link alone would. Without a GPU there is no link, and only
the model's columns are filled.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

import hinterland as hl
from hinterland.graph.algorithms import named
from hinterland.graph.sources import draw_sources
from hinterland.probe import timing
from hinterland.runtime import devices
from hinterland.sampling import NeighborSampler
from hinterland_papers.emogi.traffic import Estimate, drawn, estimate

SEED = 27491095
ROW_BYTES = (32, 128, 512)
FAMILIES = {"kronecker": {}, "uniform": {}, "web": {}, "grid": {"permute": False, "missing": 0.1}}


def run(small: bool) -> dict[str, Any]:
    """A row for each thing that users run."""
    device = devices.as_device(None)
    scale = 14 if small or device.type == "cpu" else 24
    results: dict[str, Any] = {"scale": scale, "traversals": [], "sampling": []}
    for family, options in FAMILIES.items():
        graph = hl.generate(family, scale=scale, weights="int32", **options)  # type: ignore[arg-type]
        source = draw_sources(graph, 1, SEED)[0]
        for form, lists in (("plain", graph), ("packed", hl.compress(graph))):
            results["traversals"] += [
                {"graph": family, "lists": form, "algorithm": name, **_row(estimate(stats), stats["seconds"], device)}
                for name, stats in _stats(lists, source, device).items()
            ]
        results["sampling"].append({"graph": family, **_sampled(graph, device)})
        del graph
    results["gathers"] = [_gathered(row_bytes, 64 << 20 if small else 8 << 30, device) for row_bytes in ROW_BYTES]
    return results


def _stats(graph: hl.Graph, source: int, device: torch.device) -> dict[str, Any]:
    calls: dict[str, Callable[[], Any]] = {
        "bfs": lambda: hl.bfs(graph, source, gpu_budget=_least("bfs", graph), device=device, stats=True),
        "cc": lambda: hl.connected_components(graph, gpu_budget=_least("cc", graph), device=device, stats=True),
        "sssp": lambda: hl.sssp(graph, source, gpu_budget=_least("sssp", graph), device=device, stats=True),
        "pagerank": lambda: hl.pagerank(graph, gpu_budget=_least("pagerank", graph), device=device, stats=True),
    }
    for call in calls.values():
        call()  # compiles the kernel
    runs = {name: sorted((call().stats for _ in range(3)), key=lambda stats: stats["seconds"]) for name, call in calls.items()}
    return {name: stats[1] for name, stats in runs.items()}


def _least(name: str, graph: hl.Graph) -> int:
    """A budget for the algorithm's state and its result, and nothing of the lists."""
    return named([name])[0].ample(graph) + 2048


def _gathered(row_bytes: int, size: int, device: torch.device) -> dict[str, Any]:
    table = hl.UnifiedTensor.empty((size // row_bytes, row_bytes), torch.uint8)
    index = torch.randint(0, len(table), (1 << 20,), device=device)
    out = torch.empty((len(index), row_bytes), dtype=torch.uint8, device=device)
    seconds = timing.best(lambda: table.gather(index, out=out, check="async", sort=False), device)
    return {"row_bytes": row_bytes, "rows": len(index), **_row(estimate(table.count(index)), seconds, device)}


def _sampled(graph: hl.Graph, device: torch.device) -> dict[str, Any]:
    plain = graph.without_weights()
    sampler = NeighborSampler(plain, [15, 10, 5], seed=1, device=device)
    seeds = torch.tensor(draw_sources(plain, 1024, SEED), device=device)
    sample = sampler.sample(seeds)
    seconds = statistics.median(timing.seconds(lambda: sampler.sample(seeds), device) for _ in range(5))
    return {"edges": len(sample.edge), **_row(estimate(drawn(plain, sample)), seconds, device)}


def _row(found: Estimate, seconds: float, device: torch.device) -> dict[str, Any]:
    row: dict[str, Any] = {"bytes": found.bytes, "requests": found.requests, "modelled_ms": found.seconds * 1e3}
    if device.type == "cuda":
        over = seconds / found.seconds if found.seconds else None
        row |= {"measured_ms": seconds * 1e3, "measured_over_modelled": over}
    return row
