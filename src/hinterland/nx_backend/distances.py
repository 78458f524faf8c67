"""What networkx makes of the distances between all nodes: closeness, eccentricities, the mean. Searches that count edges run 64
at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import networkx as nx

import hinterland as hl

from .components import is_connected, is_strongly_connected
from .converted import BackendGraph, options
from .found import require_plain, search

_Eccentricities = dict[Hashable, Any]


class Reach(NamedTuple):
    """How many nodes a node reaches, itself among them, the sum of their distances, and the largest."""

    nodes: int
    total: Any
    farthest: Any


def closeness_centrality(
    G: BackendGraph, u: Hashable | None = None, distance: str | None = None, wf_improved: bool = True
) -> Any:
    if u is not None and u not in G:
        raise nx.NodeNotFound(f"Source {u} is not in G" if distance is None else f"Node {u} not found in graph")
    nodes = list(G) if u is None else [u]
    found = {}
    for node, reach in zip(nodes, _reaches(G.turned(), nodes, distance), strict=True):
        near = 0.0
        if reach.total > 0 and len(G) > 1:
            near = (reach.nodes - 1.0) / reach.total
            if wf_improved:
                near *= (reach.nodes - 1.0) / (len(G) - 1)
        found[node] = near
    return found if u is None else found[u]


def eccentricity(G: BackendGraph, v: Any = None, sp: Any = None, weight: str | None = None) -> Any:
    nodes = G.some(v)
    found = {}
    for node, reach in zip(nodes, _reaches(G, nodes, weight), strict=True):
        if reach.nodes != len(G):
            why = "digraph is not strongly connected" if G.is_directed() else "graph is not connected"
            raise nx.NetworkXError(f"Found infinite path length because the {why}")
        found[node] = reach.farthest
    return found[v] if v in G else found


def diameter(G: BackendGraph, e: _Eccentricities | None = None, usebounds: bool = False, weight: str | None = None) -> Any:
    return max(_eccentricities(G, e, usebounds, weight).values())


def radius(G: BackendGraph, e: _Eccentricities | None = None, usebounds: bool = False, weight: str | None = None) -> Any:
    return min(_eccentricities(G, e, usebounds, weight).values())


def periphery(
    G: BackendGraph, e: _Eccentricities | None = None, usebounds: bool = False, weight: str | None = None
) -> list[Hashable]:
    found = _eccentricities(G, e, usebounds, weight)
    most = max(found.values())
    return [node for node, value in found.items() if value == most]


def center(
    G: BackendGraph, e: _Eccentricities | None = None, usebounds: bool = False, weight: str | None = None
) -> list[Hashable]:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("G has no nodes.")
    found = _eccentricities(G, e, usebounds, weight)
    least = min(found.values())
    return [node for node, value in found.items() if value == least]


def average_shortest_path_length(G: BackendGraph, weight: str | None = None, method: str | None = None) -> float:
    by = method or ("unweighted" if weight is None else "dijkstra")
    if by not in ("unweighted", "dijkstra", "bellman-ford", "floyd-warshall", "floyd-warshall-numpy"):
        raise ValueError(f"method not supported: {by}")
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("the null graph has no paths, thus there is no average shortest path length")
    if len(G) == 1:
        return 0
    if G.is_directed() and not is_strongly_connected(G):
        raise nx.NetworkXError("Graph is not strongly connected.")
    if not G.is_directed() and not is_connected(G):
        raise nx.NetworkXError("Graph is not connected.")
    if by not in ("unweighted", "dijkstra"):
        require_plain(G, weight)
    reaches = _reaches(G, list(G), None if by == "unweighted" else weight)
    return sum(reach.total for reach in reaches) / (len(G) * (len(G) - 1))


def wiener_index(G: BackendGraph, weight: str | None = None) -> Any:
    if not (is_strongly_connected if G.is_directed() else is_connected)(G):
        return float("inf")
    total = sum(reach.total for reach in _reaches(G, list(G), weight))
    return total if G.is_directed() else total / 2


def harmonic_centrality(
    G: BackendGraph, nbunch: Any = None, distance: str | None = None, sources: Any = None
) -> dict[Hashable, float]:
    wanted = set(G if nbunch is None else G.some(nbunch))
    begins = set(G if sources is None else G.some(sources))
    found = dict.fromkeys(wanted, 0.0)
    turned = len(wanted) < len(begins)  # fewer searches, backwards
    graph = G.turned() if turned else G
    for node in wanted if turned else begins:
        for other, length in search(graph, node, distance).lengths().items():
            if length != 0 and other in (begins if turned else wanted):
                found[node if turned else other] += 1 / length
    return found


def _eccentricities(G: BackendGraph, e: _Eccentricities | None, usebounds: bool, weight: str | None) -> _Eccentricities:
    if e is not None:
        return e
    try:
        return eccentricity(G, weight=weight)
    except nx.NetworkXError:
        if usebounds is True and not G.is_directed():
            raise nx.NetworkXError("Cannot compute metric because graph is not connected.") from None
        raise


def _reaches(G: BackendGraph, nodes: list[Hashable], weight: str | None) -> Iterator[Reach]:
    graph = G.weighted_by(weight)
    if graph.weights is None:
        found = hl.multi_source_bfs(graph, [G.number[node] for node in nodes], levels=False, **options())
        each = (found.reached.tolist(), found.distance_sum.tolist(), found.eccentricity.tolist())
        yield from map(Reach, *each)
        return
    for node in nodes:
        distances = search(G, node, weight).nearest()[1]
        yield Reach(len(distances), sum(distances), distances[-1])
