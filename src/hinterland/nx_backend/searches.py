"""networkx's breadth-first searches, and what it finds by them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import groupby
from typing import Any

import networkx as nx
import torch

import hinterland as hl

from .components import number_strongly_connected_components
from .converted import BackendGraph, options, steps
from .edges import ends_of, number_of_selfloops
from .found import SearchResult, between, search


def bfs_edges(
    G: BackendGraph,
    source: Hashable,
    reverse: bool = False,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> Iterator[tuple[Hashable, Hashable]]:
    yield from _from(G.turned() if reverse else G, source, trees=True).edges(steps(depth_limit))


def generic_bfs_edges(
    G: BackendGraph,
    source: Hashable,
    neighbors: Callable[..., Any] | None = None,
    depth_limit: float | None = None,
) -> Iterator[tuple[Hashable, Hashable]]:
    yield from bfs_edges(G, source, depth_limit=depth_limit)


def bfs_tree(
    G: BackendGraph,
    source: Hashable,
    reverse: bool = False,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> nx.DiGraph:
    tree = nx.DiGraph()
    edges = bfs_edges(G, source, reverse, depth_limit)
    tree.add_node(source)
    tree.add_edges_from(edges)
    return tree


def bfs_predecessors(
    G: BackendGraph,
    source: Hashable,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> Iterator[tuple[Hashable, Hashable]]:
    for parent, node in bfs_edges(G, source, depth_limit=depth_limit):
        yield node, parent


def bfs_successors(
    G: BackendGraph,
    source: Hashable,
    depth_limit: float | None = None,
    sort_neighbors: Callable[..., Any] | None = None,
) -> Iterator[tuple[Hashable, list[Hashable]]]:
    children: dict[Hashable, list[Hashable]] = {source: []}  # which networkx names even where it has none
    for parent, node in bfs_edges(G, source, depth_limit=depth_limit):
        children.setdefault(parent, []).append(node)
    yield from children.items()


def bfs_layers(G: BackendGraph, sources: Any) -> Iterator[list[Hashable]]:
    if sources in G:
        sources = [sources]
    first = list(set(sources))
    for source in first:
        if source not in G:
            raise nx.NetworkXError(f"The node {source} is not in the graph.")
    if not first:
        return
    yield first
    if len(first) == 1:
        found = search(G, first[0])
        levels, reached = found.distances, found.reached
    else:
        each = hl.multi_source_bfs(G.graph, [G.number[source] for source in first], **options()).levels.cpu()
        levels, reached = each.masked_fill(each < 0, len(G)).amin(0), (each >= 0).any(0)
    numbers, distances = SearchResult(G, G.number[first[0]], levels, reached, None).nearest()
    for level, layer in groupby(zip(distances, numbers, strict=True), key=lambda pair: pair[0]):
        if level > 0:
            yield [G.nodes[number] for _, number in layer]


def descendants_at_distance(G: BackendGraph, source: Hashable, distance: float) -> set[Hashable]:
    if source not in G:
        raise nx.NetworkXError(f"The node {source} is not in the graph.")
    if not 0 <= distance < len(G) or distance != int(distance):
        return set()
    found = search(G, source)
    there = found.reached & (found.distances == int(distance))
    return {G.nodes[number] for number in there.nonzero()[:, 0].tolist()}


def descendants(G: BackendGraph, source: Hashable) -> set[Hashable]:
    found = _from(G, source)
    return {node for node in found.lengths() if node != source}


def ancestors(G: BackendGraph, source: Hashable) -> set[Hashable]:
    return descendants(G.turned(), source)


def lowest_common_ancestor(G: BackendGraph, node1: Hashable, node2: Hashable, default: Any = None) -> Any:
    if number_of_selfloops(G) > 0 or (len(G) > 0 and number_strongly_connected_components(G) < len(G)):
        raise nx.NetworkXError("LCA only defined on directed acyclic graphs.")
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("LCA meaningless on null graphs.")
    pair = (node1, node2)
    if missing := set(pair) - set(G):
        raise nx.NodeNotFound(f"Node(s) {missing} from pair {pair} not in G.")
    common = torch.stack([search(G.turned(), node).reached for node in pair]).all(0)
    src, dst = ends_of(G)
    lowest = common.index_fill(0, src[common[src] & common[dst]], False).nonzero()
    return G.nodes[int(lowest[0])] if len(lowest) else default


def single_source_shortest_path_length(G: BackendGraph, source: Hashable, cutoff: float | None = None) -> dict[Hashable, int]:
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} is not in G")
    return search(G, source).lengths(steps(cutoff))


def single_target_shortest_path_length(G: BackendGraph, target: Hashable, cutoff: float | None = None) -> dict[Hashable, int]:
    if target not in G:
        raise nx.NodeNotFound(f"Target {target} is not in G")
    return search(G.turned(), target).lengths(steps(cutoff))


def single_source_shortest_path(
    G: BackendGraph, source: Hashable, cutoff: float | None = None
) -> dict[Hashable, list[Hashable]]:
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} not in G")
    return search(G, source, trees=True).paths(steps(cutoff))


def single_target_shortest_path(
    G: BackendGraph, target: Hashable, cutoff: float | None = None
) -> dict[Hashable, list[Hashable]]:
    if target not in G:
        raise nx.NodeNotFound(f"Target {target} not in G")
    return search(G.turned(), target, trees=True).paths(steps(cutoff), backwards=True)


def all_pairs_shortest_path(
    G: BackendGraph, cutoff: float | None = None
) -> Iterator[tuple[Hashable, dict[Hashable, list[Hashable]]]]:
    for node in G:
        yield node, single_source_shortest_path(G, node, cutoff)


def all_pairs_shortest_path_length(
    G: BackendGraph, cutoff: float | None = None
) -> Iterator[tuple[Hashable, dict[Hashable, int]]]:
    at_once = 64  # which one search takes
    for begin in range(0, len(G), at_once):
        sources = range(begin, min(begin + at_once, len(G)))
        levels = hl.multi_source_bfs(G.graph, sources, **options()).levels.cpu()
        for source, row in zip(sources, levels, strict=True):
            yield G.nodes[source], SearchResult(G, source, row, row >= 0, None).lengths(steps(cutoff))


def bidirectional_shortest_path(G: BackendGraph, source: Hashable, target: Hashable) -> list[Hashable]:
    require_ends(G, source, target)
    return found_between(G, source, target, None, f"No path between {source} and {target}.")[1]


def has_path(G: BackendGraph, source: Hashable, target: Hashable) -> bool:
    require_ends(G, source, target)
    return between(G, source, target) is not None


def require_ends(G: BackendGraph, source: Hashable, target: Hashable) -> None:
    """networkx's errors where one of them is no node."""
    for name, node in (("Source", source), ("Target", target)):
        if node not in G:
            raise nx.NodeNotFound(f"{name} {node} is not in G")


def found_between(
    G: BackendGraph, source: Hashable, target: Hashable, weight: str | None, otherwise: str, from_both: bool = True
) -> tuple[Any, list[Hashable]]:
    """A shortest path's length, and the path; NetworkXNoPath that says ``otherwise`` where there is none."""
    found = between(G, source, target, weight, from_both) if target in G else None
    if found is None:
        raise nx.NetworkXNoPath(otherwise)
    return found


def _from(G: BackendGraph, source: Hashable, trees: bool = False) -> SearchResult:
    """A search from what networkx's searches refuse in these words, if it is no node."""
    if source not in G:
        kind = "digraph" if G.is_directed() else "graph"
        raise nx.NetworkXError(f"The node {source} is not in the {kind}.")
    return search(G, source, trees=trees)
