"""networkx's triangles, cores and communities, and what nodes' neighbours have in common."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from itertools import chain
from typing import Any

import networkx as nx
import torch

import hinterland as hl

from .components import members
from .converted import BackendGraph
from .edges import number_of_selfloops, pairs_without_edge

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
    graph, drawn = _for_communities(G, weight, resolution, max_level, seed)
    _require_square(graph)
    return list(members(G, hl.graph.louvain(graph, resolution, threshold, max_level, drawn).labels))


def leiden_communities(
    G: BackendGraph, weight: str | None = "weight", resolution: float = 1, max_level: int | None = None, seed: Any = None
) -> list[set[Hashable]]:
    graph, drawn = _for_communities(G, weight, resolution, max_level, seed)
    return list(members(G, hl.graph.leiden(graph, resolution, max_level, drawn).labels))


def jaccard_coefficient(G: BackendGraph, ebunch: Any = None) -> Iterator[tuple[Hashable, Hashable, float]]:
    if ebunch is None:
        return chain.from_iterable(
            _scored(G, pairs, [(G.nodes[u], G.nodes[v]) for u, v in pairs.tolist()])
            for pairs in pairs_without_edge(G, once=True)
        )
    ends = [(u, v) for u, v in ebunch]
    for node in chain.from_iterable(ends):
        if node not in G:
            raise nx.NodeNotFound(f"Node {node} not in G.")
    numbers = [G.number[node] for node in chain.from_iterable(ends)]
    return _scored(G, torch.tensor(numbers, dtype=torch.int64).reshape(-1, 2), ends)


def _scored(
    G: BackendGraph, pairs: torch.Tensor, ends: list[tuple[Hashable, Hashable]]
) -> Iterator[tuple[Hashable, Hashable, float]]:
    scores = hl.graph.jaccard(G.graph, pairs).scores.tolist()
    return ((u, v, score) for (u, v), score in zip(ends, scores, strict=True))


def _for_communities(
    G: BackendGraph, weight: str | None, resolution: float, max_level: int | None, seed: Any
) -> tuple[hl.Graph, int]:
    """The graph and a seed; NotImplementedError for what has no communities here."""
    if max_level is not None and max_level <= 0:
        raise ValueError("max_level argument must be a positive integer or None")
    graph = G.weighted_by(weight)
    found = graph.weight_range
    if not 0 <= resolution < math.inf or (found is not None and not 0 <= found.least <= found.most < math.inf):
        raise NotImplementedError("hinterland finds communities by weights and a resolution that are finite and not negative")
    return graph, seed.getrandbits(63)  # networkx makes seed a random.Random before it calls


def _require_square(graph: hl.Graph) -> None:
    """networkx's error where the square of its sum of all weights is beyond the floats' range, or 0."""
    if graph.weights is None:
        return
    total = float(graph.weights.double().sum())
    if total == math.inf:
        raise NotImplementedError("networkx has no modularity of weights that sum to infinity")
    if total**2 == 0 < total:  # OverflowError where it is too large
        raise ZeroDivisionError("float division by zero")


def _counted(G: BackendGraph) -> hl.graph.TrianglesResult:
    if G.is_multigraph():
        raise nx.NetworkXNotImplemented("not implemented for multigraph type")
    return hl.graph.triangles(G.graph)


def _for_some(G: BackendGraph, values: torch.Tensor, nodes: Any) -> Any:
    found = G.of(values)
    if nodes is None:
        return found
    return found[nodes] if nodes in G else {node: found[node] for node in G.some(nodes)}
