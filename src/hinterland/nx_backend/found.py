"""What a search from one node found, in networkx's words. Searches count edges, or add up weights."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch

import hinterland as hl

from ..graph.between import path_between
from ..runtime.errors import GraphError
from .converted import BackendGraph, options


class SearchResult(NamedTuple):
    """A search along out-edges from the node numbered ``source``.

    Attributes:
        distances: ``[nodes]`` on the CPU; of nodes that are not ``reached`` anything.
        reached: bool ``[nodes]``.
        parents: int64 ``[nodes]``, each reached node's predecessor on a shortest path; None unless asked for.
    """

    graph: BackendGraph
    source: int
    distances: torch.Tensor
    reached: torch.Tensor
    parents: torch.Tensor | None

    def nearest(self, limit: float = math.inf) -> tuple[list[int], list[Any]]:
        """The reached nodes' numbers that are not beyond ``limit``, nearest first, and their distances."""
        there = self.reached
        if limit < math.inf:
            within = self.distances <= _within(limit, self.distances.dtype)
            within[self.source] = True  # wherever the limit lies
            there = there & within
        numbers = there.nonzero()[:, 0]
        near = self.distances[numbers].sort(stable=True)
        return numbers[near.indices].tolist(), near.values.tolist()

    def lengths(self, limit: float = math.inf) -> dict[Hashable, Any]:
        """The distances of those nodes."""
        numbers, distances = self.nearest(limit)
        return dict(zip(map(self.graph.nodes.__getitem__, numbers), distances, strict=True))

    def edges(self, limit: float = math.inf) -> list[tuple[Hashable, Hashable]]:
        """The tree's edges from predecessors, as far as ``limit``."""
        nodes, parents = self.graph.nodes, self._parents()
        return [(nodes[parents[i]], nodes[i]) for i in self.nearest(limit)[0] if i != self.source]

    def paths(self, limit: float = math.inf, backwards: bool = False) -> dict[Hashable, list[Hashable]]:
        """A shortest path to each node not beyond ``limit``, or ``backwards`` from it."""
        nodes, parents = self.graph.nodes, self._parents()
        found: dict[int, list[Hashable]] = {self.source: [nodes[self.source]]}
        later: list[int] = []
        for number in self.nearest(limit)[0]:
            while number not in found:  # over edges of weight 0 a predecessor may come later
                later.append(number)
                number = parents[number]
            while later:
                number = later.pop()
                to, way = [nodes[number]], found[parents[number]]
                found[number] = to + way if backwards else way + to
        return {nodes[number]: found[number] for number in self.nearest(limit)[0]}

    def path(self, target: int) -> list[Hashable]:
        """A shortest path to one reached node."""
        parents, way = self._parents(), [target]
        while way[-1] != self.source:
            way.append(parents[way[-1]])
        return [self.graph.nodes[number] for number in reversed(way)]

    def _parents(self) -> list[int]:
        assert self.parents is not None
        return self.parents.tolist()


def _within(limit: float, dtype: torch.dtype) -> float:
    """The greatest number of the type that is not beyond ``limit``."""
    if dtype.is_floating_point:
        most = torch.finfo(dtype).max
        return float(min(max(limit, -most), most))
    range_of = torch.iinfo(dtype)
    return math.floor(min(max(limit, range_of.min), range_of.max))


def search(G: BackendGraph, source: Hashable, weight: str | None = None, trees: bool = False) -> SearchResult:
    """Searches from a node of the graph; with ``trees`` for predecessors, too.

    Raises:
        ValueError: a weight is negative.
    """
    graph, start = G.weighted_by(weight), G.number[source]
    if graph.weights is None:
        found = hl.bfs(graph, start, **options())
        levels = found.levels.cpu()
        return SearchResult(G, start, levels, levels >= 0, found.parents.cpu() if trees else None)
    try:
        distances = hl.sssp(_wide(graph), start, **options()).distances.cpu()
    except GraphError as error:
        weights = graph.weight_range
        if weights is None or weights.least < 0:
            raise
        raise NotImplementedError(str(error)) from error  # distances beyond 64 bits
    if not distances.is_floating_point():
        reached = distances >= 0
    elif _may_be_infinite(graph):  # a distance like others to networkx
        reached = hl.bfs(graph.without_weights(), start, **options()).levels.cpu() >= 0
    else:
        reached = distances < math.inf
    return SearchResult(G, start, distances, reached, _parents(graph, start, distances, reached) if trees else None)


def between(
    G: BackendGraph, source: Hashable, target: Hashable, weight: str | None = None, from_both: bool = True
) -> tuple[Any, list[Hashable]] | None:
    """The length of a shortest path between two nodes, and its nodes; None where there is none. Paths that may be too long for
    that search are looked for from the source to all nodes.

    Raises:
        ValueError: a weight is negative.
    """
    if source == target:
        return 0, [source]
    start, to = G.number[source], G.number[target]
    graph = G.graph if weight is None else G.weighted_by(weight)
    weighted = weight is not None and graph.weights is not None
    try:
        near = path_between(graph, start, to, weighted, from_both)
    except GraphError:
        found = search(G, source, weight, trees=True)
        return (found.distances[to].item(), found.path(to)) if found.reached[to] else None
    return None if near is None else (near.length, [G.nodes[number] for number in near.vertices])


def require_plain(G: BackendGraph, weight: str | None) -> None:
    """NotImplementedError where a weight is negative or a distance may be infinite: what Bellman and Ford's make otherwise."""
    graph = G.weighted_by(weight)
    found = graph.weight_range
    if found is not None and (found.least < 0 or _may_be_infinite(graph)):
        raise NotImplementedError("hinterland finds these paths only where no weight is negative and no distance infinite")


def require_in_range(G: BackendGraph, weight: str | None) -> None:
    """NotImplementedError where a distance may be beyond 64 bits: for iterators, in which networkx no longer hears of it."""
    graph = G.weighted_by(weight)
    found = graph.weight_range
    if found is not None and isinstance(found.most, int) and found.most * graph.num_vertices >= 2**63:
        raise NotImplementedError("hinterland has no distances beyond 64 bits, which these weights may sum to")


def _may_be_infinite(graph: hl.Graph) -> bool:
    """Whether a weight, or those of a path together, may be beyond the floats' range."""
    found = graph.weight_range
    return found is not None and isinstance(found.most, float) and found.most * graph.num_vertices == math.inf


def _wide(graph: hl.Graph) -> hl.Graph:
    """The graph with weights wide enough for any distance."""
    weights, found = graph.weights, graph.weight_range
    assert weights is not None and found is not None
    if weights.dtype == torch.int32 and found.most * graph.num_vertices >= 2**32 - 2:
        return graph.with_weights(weights.long())
    return graph


def _parents(graph: hl.Graph, source: int, distances: torch.Tensor, reached: torch.Tensor) -> torch.Tensor:
    """Predecessors on shortest paths: by a search along the edges that are on one, so that weights of 0 make no circle."""
    indptr, indices, weights = graph.checked_rows()
    assert weights is not None
    owners, neighbors = torch.repeat_interleave(torch.arange(len(distances)), indptr.diff()), indices.long()
    tight = reached[owners] & (distances[owners] + weights == distances[neighbors])
    ways = hl.from_edges(owners[tight], neighbors[tight], num_vertices=len(distances))
    return hl.bfs(ways, source, device="cpu").parents
