"""What benchmarks of traversals share: graphs of both kinds (scale 25 on a GPU, with ``small`` scale 20 on the CPU), the
median of runs with stats, and what scipy takes. ``gap`` and ``beyond`` run others' programs on such graphs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

import hinterland as hl
from hinterland.graph import Graph
from hinterland.probe.link import copy_rates

KINDS = ("kronecker", "uniform")
SEED = 27491095  # of sources


def both(
    small: bool, beside: Callable[[str], dict[str, Any]], measure: Callable[[str, dict[str, Any]], None], *lists: str
) -> dict[str, Any]:
    """The results: with ``small`` what ``beside`` finds of each kind on the CPU, else what ``measure`` adds to ``lists``."""
    if small:
        return {"cases": [beside(kind) for kind in KINDS]}
    results: dict[str, Any] = {"copy_engine": copy_rates(torch.device("cuda", 0), 1 << 30)[0], "cases": []}
    results |= {name: [] for name in lists}
    for kind in KINDS:
        measure(kind, results)
    return results


def on_gpu(kind: str, place: Any = "host", **more: Any) -> Graph:
    return hl.generate(kind, scale=25, edge_factor=16, seed=1, placement=place, device="cuda", **more)


def on_cpu(kind: str, scale: int = 20, **more: Any) -> Graph:
    return hl.generate(kind, scale=scale, edge_factor=16, seed=1, device="cpu", **more)


def sizes(kind: str, graph: Graph) -> dict[str, Any]:
    return {"graph": kind, "vertices": graph.num_vertices, "edges": graph.num_edges}


def quickest_first(results: Iterable[Any]) -> list[dict[str, Any]]:
    """The ``stats`` of results."""
    return sorted((result.stats for result in results), key=lambda stats: stats["seconds"])


def middle(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return runs[len(runs) // 2]


def row(runs: list[dict[str, Any]], *names: str) -> dict[str, Any]:
    """Milliseconds of runs, the quickest first, and what the median one says under these names."""
    found = {"median_ms": statistics.median(run["seconds"] for run in runs) * 1e3}
    found |= {"best_ms": runs[0]["seconds"] * 1e3, "worst_ms": runs[-1]["seconds"] * 1e3}
    return {**found, **{name: middle(runs)[name] for name in names}}


def matrix(graph: Graph, values: np.ndarray) -> sp.csr_matrix:
    """The adjacency matrix as scipy has it, with a value for each edge."""
    return sp.csr_matrix((values, graph.indices.numpy(), graph.indptr.numpy()), shape=(graph.num_vertices,) * 2)


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """What ``work`` takes, and gives."""
    start = time.perf_counter()
    made = work()
    return time.perf_counter() - start, made
