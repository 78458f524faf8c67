"""networkx's triangles, cores and communities."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import networkx as nx
import torch

import hinterland as hl

from .converted import BackendGraph
from .edges import number_of_selfloops

_SELF_LOOPS = "Input graph has self loops which is not permitted; Consider using G.remove_edges_from(nx.selfloop_edges(G))."


def triangles(G: BackendGraph, nodes: Any = None) -> Any:
    if G.is_multigraph() and nodes is not None:
        raise nx.NetworkXNotImplemented("not implemented for multigraph type")
    return _for_some(G, hl.graph.triangles(G.graph).counts, nodes)


def clustering(G: BackendGraph, nodes: Any = None, weight: str | None = None) -> Any:
    return _for_some(G, _counted(G).clustering, nodes)


def average_clustering(G: BackendGraph, nodes: Any = None, weight: str | None = None, count_zeros: bool = True) -> float:
    values = clustering(G, nodes).values()
    if not count_zeros:
        values = [value for value in values if abs(value) > 0]
    return sum(values) / len(values)


def transitivity(G: BackendGraph) -> float:
    found = _counted(G)
    pairs = int((found.degrees * (found.degrees - 1)).sum())
    return 6 * found.total / pairs if found.total else 0


def core_number(G: BackendGraph) -> dict[Hashable, int]:
    require_no_loops(G)
    return G.of(hl.graph.core_numbers(G.graph).cores)


def require_no_loops(G: BackendGraph) -> None:
    """networkx's error where an edge leads from a node to itself."""
    if number_of_selfloops(G) > 0:
        raise nx.NetworkXNotImplemented(_SELF_LOOPS)


def louvain_communities(
    G: BackendGraph,
    weight: str | None = "weight",
    resolution: float = 1,
    threshold: float = 0.0000001,
    max_level: int | None = None,
    seed: Any = None,
) -> list[set[Hashable]]:
    if max_level is not None and max_level <= 0:
        raise ValueError("max_level argument must be a positive integer or None")
    graph = G.weighted_by(weight)
    found = graph.weight_range
    if found is not None and not 0 <= found.least <= found.most < float("inf"):
        raise NotImplementedError("hinterland finds communities by weights that are finite and not negative")
    # networkx makes seed a random.Random before it calls.
    drawn = seed.getrandbits(63)
    labels = hl.graph.louvain(graph, resolution, threshold, max_level, drawn).labels
    members: dict[int, set[Hashable]] = {}
    for node, label in G.of(labels).items():
        members.setdefault(label, set()).add(node)
    return list(members.values())


def _counted(G: BackendGraph) -> hl.graph.TrianglesResult:
    if G.is_multigraph():
        raise nx.NetworkXNotImplemented("not implemented for multigraph type")
    return hl.graph.triangles(G.graph)


def _for_some(G: BackendGraph, values: torch.Tensor, nodes: Any) -> Any:
    found = G.of(values)
    if nodes is None:
        return found
    return found[nodes] if nodes in G else {node: found[node] for node in G.some(nodes)}
