"""Betweenness centrality with edges in host memory, against the time that the copy engine needs for the edges.

Without ``small``: four sources of scale-25 graphs on a GPU. With it: scale 10 on the CPU, against networkx.
"""

from __future__ import annotations

import time
from typing import Any

import networkx as nx
import torch

import hinterland as hl
from hinterland.graph import simplify, verify_betweenness
from hinterland.graph.sources import draw_sources
from hinterland.probe.link import copy_rates

SOURCES = 4
SMALL_SOURCES = 32
SEED = 27491095
KINDS = ("kronecker", "uniform")


def run(small: bool) -> dict[str, Any]:
    """Measures both kinds of graph; raises VerificationError where scores are wrong."""
    return {"cases": [_against_networkx(kind) for kind in KINDS]} if small else _on_gpu()


def _on_gpu() -> dict[str, Any]:
    ceiling = copy_rates(torch.device("cuda", 0), 1 << 30)[0]
    results: dict[str, Any] = {"copy_engine": ceiling, "cases": [], "levels": []}
    for kind in KINDS:
        place = {"indptr": "gpu", "indices": "host"}
        graph = hl.generate(kind, scale=25, edge_factor=16, seed=1, placement=place, device="cuda")
        sources = draw_sources(graph, SOURCES, SEED)
        with hl.prepare(graph, gpu_budget=graph.indices.nbytes // 4, device="cuda", algorithms=["bc"]) as prepared:
            hl.betweenness_centrality(prepared, sources[:1])  # compiles the kernel
            result = hl.betweenness_centrality(prepared, sources, stats=True)
        verify_betweenness(graph, result)
        stats = result.stats
        assert stats is not None
        results["cases"].append(
            {
                "graph": kind,
                "vertices": graph.num_vertices,
                "edges": graph.num_edges,
                "held": stats["held"],
                "ms_a_source": stats["seconds"] / SOURCES * 1e3,
                "edges_copied_ms": graph.indices.nbytes / ceiling * 1e3,
                "bytes_a_source": stats["bytes"] / SOURCES,
                "share": stats["bytes"] / stats["seconds"] / ceiling,
            }
        )
        results["levels"] += [{"graph": kind, **level} for level in stats["searches"][0]["per_level"]]
        del graph, prepared
    return results


def _against_networkx(kind: str) -> dict[str, Any]:
    graph = simplify(hl.generate(kind, scale=10, edge_factor=16, seed=1, device="cpu"), remove_duplicates=True)
    result = hl.betweenness_centrality(graph, SMALL_SOURCES, device="cpu", stats=True)
    verify_betweenness(graph, result)
    assert result.stats is not None
    ends = torch.repeat_interleave(torch.arange(graph.num_vertices), graph.degrees())
    network = nx.Graph()
    network.add_nodes_from(range(graph.num_vertices))
    network.add_edges_from(zip(ends.tolist(), graph.indices.tolist(), strict=True))
    start = time.perf_counter()
    nx.betweenness_centrality(network, k=SMALL_SOURCES, seed=SEED)
    return {
        "graph": kind,
        "vertices": graph.num_vertices,
        "edges": graph.num_edges,
        "ms_a_source": result.stats["seconds"] / SMALL_SOURCES * 1e3,
        "networkx_ms_a_source": (time.perf_counter() - start) / SMALL_SOURCES * 1e3,
    }
