"""Betweenness centrality with edges in host memory, against the time that the copy engine needs for the edges.

Without ``small``: four sources of scale-25 graphs on a GPU. With it: scale 10 on the CPU, against networkx.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import networkx as nx

import hinterland as hl
from hinterland.graph import simplify, verify_betweenness
from hinterland.graph.sources import draw_sources

from ._traversals import SEED, both, on_cpu, on_gpu, seconds, sizes

SOURCES = 4
SMALL_SOURCES = 32


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where scores are wrong."""
    return both(small, _beside_networkx, _measure, "levels")


def _measure(kind: str, results: dict[str, Any]) -> None:
    graph, ceiling = on_gpu(kind, {"indptr": "gpu", "indices": "host"}), results["copy_engine"]
    sources = draw_sources(graph, SOURCES, SEED)
    with hl.prepare(graph, gpu_budget=graph.indices.nbytes // 4, device="cuda", algorithms=["bc"]) as prepared:
        hl.betweenness_centrality(prepared, sources[:1])  # compiles the kernel
        result = hl.betweenness_centrality(prepared, sources, stats=True)
    verify_betweenness(graph, result)
    stats = result.stats
    case = {"held": stats["held"], "ms_a_source": stats["seconds"] / SOURCES * 1e3}
    case |= {"edges_copied_ms": graph.indices.nbytes / ceiling * 1e3, "bytes_a_source": stats["bytes"] / SOURCES}
    results["cases"].append({**sizes(kind, graph), **case, "share": stats["bytes"] / stats["seconds"] / ceiling})
    results["levels"] += [{"graph": kind, **level} for level in stats["searches"][0]["per_level"]]


def _beside_networkx(kind: str) -> dict[str, Any]:
    graph = simplify(on_cpu(kind, 10), remove_duplicates=True)
    result = hl.betweenness_centrality(graph, SMALL_SOURCES, device="cpu", stats=True)
    verify_betweenness(graph, result)
    network = graph.to_networkx()
    took, _ = seconds(partial(nx.betweenness_centrality, network, k=SMALL_SOURCES, seed=SEED))
    ours = {"ms_a_source": result.stats["seconds"] / SMALL_SOURCES * 1e3}
    return {**sizes(kind, graph), **ours, "networkx_ms_a_source": took / SMALL_SOURCES * 1e3}
