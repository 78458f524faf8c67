"""networkx's shortest paths by weight, and those of either kind."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Any

import networkx as nx

from . import searches
from .converted import BackendGraph
from .found import SearchResult, require_in_range, require_plain, search
from .searches import found_between, require_ends

_Lengths = dict[Hashable, Any]
_Paths = dict[Hashable, list[Hashable]]


def single_source_dijkstra(
    G: BackendGraph,
    source: Hashable,
    target: Hashable | None = None,
    cutoff: float | None = None,
    weight: str | None = "weight",
) -> tuple[Any, Any]:
    limit = _limit(cutoff)
    if target is None:
        found = _dijkstra(G, source, weight, trees=True)
        return found.lengths(limit), found.paths(limit)
    _require_node(G, source)
    length, path = _along(G, source, target, weight, otherwise := f"No path to {target}.")
    if length > limit and target != source:
        raise nx.NetworkXNoPath(otherwise)
    return length, path


def single_source_dijkstra_path(
    G: BackendGraph, source: Hashable, cutoff: float | None = None, weight: str | None = "weight"
) -> _Paths:
    return _dijkstra(G, source, weight, trees=True).paths(_limit(cutoff))


def single_source_dijkstra_path_length(
    G: BackendGraph, source: Hashable, cutoff: float | None = None, weight: str | None = "weight"
) -> _Lengths:
    return _dijkstra(G, source, weight).lengths(_limit(cutoff))


def dijkstra_path(G: BackendGraph, source: Hashable, target: Hashable, weight: str | None = "weight") -> list[Hashable]:
    return single_source_dijkstra(G, source, target, weight=weight)[1]


def dijkstra_path_length(G: BackendGraph, source: Hashable, target: Hashable, weight: str | None = "weight") -> Any:
    _require_node(G, source)
    return _along(G, source, target, weight, f"Node {target} not reachable from {source}")[0]


def bidirectional_dijkstra(
    G: BackendGraph, source: Hashable, target: Hashable, weight: str | None = "weight"
) -> tuple[Any, list[Hashable]]:
    require_ends(G, source, target)
    return found_between(G, source, target, weight, f"No path between {source} and {target}.")


def all_pairs_dijkstra(
    G: BackendGraph, cutoff: float | None = None, weight: str | None = "weight"
) -> Iterator[tuple[Hashable, tuple[_Lengths, _Paths]]]:
    require_in_range(G, weight)
    return ((node, single_source_dijkstra(G, node, cutoff=cutoff, weight=weight)) for node in G)


def all_pairs_dijkstra_path(
    G: BackendGraph, cutoff: float | None = None, weight: str | None = "weight"
) -> Iterator[tuple[Hashable, _Paths]]:
    require_in_range(G, weight)
    return ((node, single_source_dijkstra_path(G, node, cutoff, weight)) for node in G)


def all_pairs_dijkstra_path_length(
    G: BackendGraph, cutoff: float | None = None, weight: str | None = "weight"
) -> Iterator[tuple[Hashable, _Lengths]]:
    require_in_range(G, weight)
    return ((node, single_source_dijkstra_path_length(G, node, cutoff, weight)) for node in G)


def single_source_bellman_ford(
    G: BackendGraph, source: Hashable, target: Hashable | None = None, weight: str | None = "weight"
) -> tuple[Any, Any]:
    if source == target and source not in G:
        raise nx.NodeNotFound(f"Node {source} is not found in the graph")
    if target is None:
        found = _bellman_ford(G, source, weight, trees=True)
        return found.lengths(), found.paths()
    _require_bellman_ford(G, source, weight)
    return _along(G, source, target, weight, f"Target {target} cannot be reached from given sources")


def single_source_bellman_ford_path(G: BackendGraph, source: Hashable, weight: str | None = "weight") -> _Paths:
    return _bellman_ford(G, source, weight, trees=True).paths()


def single_source_bellman_ford_path_length(G: BackendGraph, source: Hashable, weight: str | None = "weight") -> _Lengths:
    return _bellman_ford(G, source, weight).lengths()


def bellman_ford_path(G: BackendGraph, source: Hashable, target: Hashable, weight: str | None = "weight") -> list[Hashable]:
    return single_source_bellman_ford(G, source, target, weight)[1]


def bellman_ford_path_length(G: BackendGraph, source: Hashable, target: Hashable, weight: str | None = "weight") -> Any:
    if source == target and source not in G:
        raise nx.NodeNotFound(f"Node {source} not found in graph")
    _require_bellman_ford(G, source, weight)
    return _along(G, source, target, weight, f"node {target} not reachable from {source}")[0]


def all_pairs_bellman_ford_path(G: BackendGraph, weight: str | None = "weight") -> Iterator[tuple[Hashable, _Paths]]:
    require_plain(G, weight)
    require_in_range(G, weight)
    return ((node, single_source_bellman_ford_path(G, node, weight)) for node in G)


def all_pairs_bellman_ford_path_length(G: BackendGraph, weight: str | None = "weight") -> Iterator[tuple[Hashable, _Lengths]]:
    require_plain(G, weight)
    require_in_range(G, weight)
    return ((node, single_source_bellman_ford_path_length(G, node, weight)) for node in G)


def shortest_path(
    G: BackendGraph,
    source: Hashable | None = None,
    target: Hashable | None = None,
    weight: str | None = None,
    method: str = "dijkstra",
) -> Any:
    by = _method(weight, method)
    if source is None and target is None:
        if by == "unweighted":
            return searches.all_pairs_shortest_path(G)
        return all_pairs_dijkstra_path(G, weight=weight) if by == "dijkstra" else all_pairs_bellman_ford_path(G, weight)
    if source is None or target is None:
        found = _from_one(G, source, target, weight, by, "not in G", trees=True)
        return found.paths(backwards=source is None)
    if by == "unweighted":
        return searches.bidirectional_shortest_path(G, source, target)
    return (
        bidirectional_dijkstra(G, source, target, weight)[1]
        if by == "dijkstra"
        else bellman_ford_path(G, source, target, weight)
    )


def shortest_path_length(
    G: BackendGraph,
    source: Hashable | None = None,
    target: Hashable | None = None,
    weight: str | None = None,
    method: str = "dijkstra",
) -> Any:
    by = _method(weight, method)
    if source is None and target is None:
        if by == "unweighted":
            return searches.all_pairs_shortest_path_length(G)
        return (
            all_pairs_dijkstra_path_length(G, weight=weight)
            if by == "dijkstra"
            else all_pairs_bellman_ford_path_length(G, weight)
        )
    if source is None or target is None:
        return _from_one(G, source, target, weight, by, "is not in G").lengths()
    if by == "unweighted":
        require_ends(G, source, target)
        return found_between(G, source, target, None, f"No path between {source} and {target}.")[0]
    given = dijkstra_path_length if by == "dijkstra" else bellman_ford_path_length
    return given(G, source, target, weight)


def _method(weight: str | None, method: str) -> str:
    if method not in ("dijkstra", "bellman-ford"):
        raise ValueError(f"method not supported: {method}")
    return "unweighted" if weight is None else method


def _from_one(
    G: BackendGraph, source: Any, target: Any, weight: str | None, by: str, missing: str, trees: bool = False
) -> SearchResult:  # fmt: skip
    """From the source, or where there is none from the target along edges turned round; ``missing``: what networkx says of a
    node that is not there, where no weights count."""
    graph, start = (G.turned(), target) if source is None else (G, source)
    if by != "unweighted":
        return (_dijkstra if by == "dijkstra" else _bellman_ford)(graph, start, weight, trees)
    if start not in G:
        raise nx.NodeNotFound(f"Source {start} {missing}")
    return search(graph, start, trees=trees)


def _dijkstra(G: BackendGraph, source: Hashable, weight: str | None, trees: bool = False) -> SearchResult:
    _require_node(G, source)
    return search(G, source, weight, trees)


def _require_node(G: BackendGraph, source: Hashable) -> None:
    if source not in G:
        raise nx.NodeNotFound(f"Node {source} not found in graph")


def _bellman_ford(G: BackendGraph, source: Hashable, weight: str | None, trees: bool = False) -> SearchResult:
    _require_bellman_ford(G, source, weight)
    return search(G, source, weight, trees)


def _require_bellman_ford(G: BackendGraph, source: Hashable, weight: str | None) -> None:
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} not in G")
    require_plain(G, weight)


def _along(
    G: BackendGraph, source: Hashable, target: Hashable, weight: str | None, otherwise: str
) -> tuple[Any, list[Hashable]]:
    """A shortest path whose length is the sum that networkx makes: of floats, from the source on."""
    found = G.weighted_by(weight).weight_range if weight is not None else None
    return found_between(G, source, target, weight, otherwise, from_both=found is None or isinstance(found.most, int))


def _limit(cutoff: float | None) -> float:
    return math.inf if cutoff is None else cutoff
