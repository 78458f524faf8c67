"""Connected components with edges in host memory.

Without ``small``: scale-25 graphs on a GPU, prepared within a quarter of the edge bytes, and not. With it: scale 20 on the CPU,
against scipy's connected_components. And graphs of local structure in several numberings, of which none should take longer
than a permuted one.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse import csgraph

import hinterland as hl
from hinterland.graph import Graph, verify_components

from ._traversals import both, matrix, middle, on_cpu, on_gpu, quickest_first, row, seconds, sizes

RUNS = 8
BITS, SMALL_BITS = 22, 18  # of vertex numbers, of the graphs in several numberings


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where a result is wrong."""
    of_local = _numberings(SMALL_BITS, ("pageable",), "cpu") if small else _numberings(BITS, ("gpu", "host"), "cuda")
    return {**both(small, _beside_scipy, _measure, "steps"), "numberings": of_local}


def _measure(kind: str, results: dict[str, Any]) -> None:
    graph = on_gpu(kind)
    for budget in (graph.indices.nbytes // 4, None):
        measure(graph, kind, budget, results)


def measure(graph: Graph, kind: str, budget: int | None, results: dict[str, Any]) -> None:
    """Adds one case: median of some runs on a graph that is prepared within the budget, or, with None, unprepared."""
    prepared = graph if budget is None else hl.prepare(graph, gpu_budget=budget, device="cuda", algorithms="cc")
    device = "cuda" if budget is None else None
    result = hl.connected_components(prepared, device=device)  # also compiles the kernel
    verify_components(graph, result)
    case, count = {"graph": kind, "prepared": budget is not None}, result.count
    del result
    runs = quickest_first(hl.connected_components(prepared, device=device, stats=True) for _ in range(RUNS))
    results["cases"].append({**case, "components": count, **row(runs, "edges", "bytes", "held", "device")})
    results["steps"] += [{**case, **step} for step in middle(runs)["per_level"]]


def _numberings(bits: int, places: tuple[str, ...], device: str) -> list[dict[str, Any]]:
    """Direct calls on each graph with its natural numbers, bit-reversed ones and permuted ones; ``ratio`` is to the last."""
    count, rows = 1 << bits, []
    natural = torch.arange(count)
    turned = sum(((natural >> bit & 1) << (bits - 1 - bit) for bit in range(bits)), torch.zeros_like(natural))
    permuted = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    for name, ends in _local_graphs(bits).items():
        for place in places:
            case = []
            for numbers, new in (("permuted", permuted), ("natural", natural), ("bit-reversed", turned)):
                graph = hl.from_edges(*new[ends], num_vertices=count, symmetrize=True, placement=place)
                verify_components(graph, hl.connected_components(graph, device=device))  # also compiles the kernel
                runs = [hl.connected_components(graph, device=device, stats=True).stats for _ in range(RUNS)]
                median = statistics.median(stats["seconds"] for stats in runs) * 1e3
                case.append({"graph": name, "edges at": place, "numbers": numbers, "median_ms": median})
            rows += [{**row, "ratio": row["median_ms"] / case[0]["median_ms"]} for row in case]
    return rows


def _local_graphs(bits: int) -> dict[str, torch.Tensor]:
    """Ends of edges ``[2, edges]``: a grid without a tenth of its edges, a small-world ring, a path, and a graph as the web is,
    whose links are short and whose degrees are skewed."""
    random = torch.Generator().manual_seed(1)
    count, v = 1 << bits, torch.arange(1 << bits)
    square = v.view(1 << bits // 2, -1)
    pairs = ((square[:, :-1], square[:, 1:]), (square[:-1], square[1:]))
    grid = torch.cat([torch.stack([a.reshape(-1), b.reshape(-1)]) for a, b in pairs], 1)
    grid = grid[:, torch.rand(grid.shape[1], generator=random) >= 0.1]
    ring = torch.stack([v.repeat(4), torch.cat([(v + step) % count for step in (1, 2, 3, 4)])])
    far = torch.rand(ring.shape[1], generator=random) < 0.02
    ring[1, far] = torch.randint(0, count, (int(far.sum()),), generator=random)
    links = (2 / torch.rand(count, generator=random, dtype=torch.float64).clamp(min=1e-6).sqrt()).long()
    source = v.repeat_interleave(links)
    length = (1 / torch.rand(len(source), generator=random, dtype=torch.float64).clamp(min=1 / count)).long()
    target = source + torch.where(torch.rand(len(source), generator=random) < 0.5, length, -length)
    inside = (target >= 0) & (target < count)
    web = torch.stack([source[inside], target[inside]])
    return {"grid": grid, "ring": ring, "path": torch.stack([v[:-1], v[1:]]), "web-like": web}


def _beside_scipy(kind: str) -> dict[str, Any]:
    graph = on_cpu(kind)
    result = hl.connected_components(graph, device="cpu")
    verify_components(graph, result)
    runs = quickest_first(hl.connected_components(graph, device="cpu", stats=True) for _ in range(RUNS))
    of_scipy = matrix(graph, np.ones(graph.num_edges, np.int8))
    took, (count, _) = seconds(partial(csgraph.connected_components, of_scipy, directed=False))
    assert count == result.count
    return {**sizes(kind, graph), **row(runs), "scipy_ms": took * 1e3}
