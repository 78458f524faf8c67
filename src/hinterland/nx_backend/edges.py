"""What networkx says of a graph's edges as a whole: whether they make trees, go both ways, or weigh less than nothing."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import networkx as nx
import torch

from .components import is_connected, number_connected_components
from .converted import BackendGraph

_PAIRS_AT_ONCE = 1 << 22  # which bounds memory


def is_tree(G: BackendGraph) -> bool:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("G has no nodes.")
    return len(G) - 1 == _number(G) and is_connected(G)


def is_forest(G: BackendGraph) -> bool:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("G has no nodes.")
    # A component has at least one edge less than it has nodes.
    return _number(G) == len(G) - number_connected_components(G)


def is_arborescence(G: BackendGraph) -> bool:
    return is_tree(G) and _has_one_parent_at_most(G)


def is_branching(G: BackendGraph) -> bool:
    return is_forest(G) and _has_one_parent_at_most(G)


def number_of_selfloops(G: BackendGraph) -> int:
    src, dst = ends_of(G)
    return int((src == dst).sum())


def is_negatively_weighted(G: BackendGraph, edge: Any = None, weight: str = "weight") -> bool:
    found = G.weighted_by(weight).weight_range
    return found is not None and found.least < 0


def overall_reciprocity(G: BackendGraph) -> float:
    src, dst = ends_of(G)
    if len(src) == 0:
        raise nx.NetworkXError("Not defined for empty graphs")
    # networkx takes the edges that an undirected graph would lack, twice: of self loops none.
    both = torch.stack([torch.minimum(src, dst), torch.maximum(src, dst)]).unique(dim=1).shape[1]
    return (len(src) - both) * 2 / len(src)


def reciprocity(G: BackendGraph, nodes: Any = None) -> Any:
    if nodes is None:
        return overall_reciprocity(G)
    src, dst = ends_of(G)
    mutual = torch.isin(src * len(G) + dst, dst * len(G) + src)
    shared = torch.bincount(src[mutual], minlength=len(G)).tolist()
    total = (G.graph.degrees() + G.graph.transpose().degrees()).tolist()
    found: dict[Hashable, float | None] = {
        node: 2 * shared[i] / total[i] if total[i] else None for node, i in ((n, G.number[n]) for n in G.some(nodes))
    }
    if nodes not in G:
        return found
    if found[nodes] is None:
        raise nx.NetworkXError("Not defined for isolated nodes.")
    return found[nodes]


def ends_of(G: BackendGraph) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of the nodes where each stored edge begins and ends."""
    indptr, indices, _ = G.graph.checked_rows()
    return torch.repeat_interleave(torch.arange(len(G)), indptr.diff()), indices.long()


def pairs_without_edge(G: BackendGraph, once: bool) -> Iterator[torch.Tensor]:
    """The numbers of two nodes without an edge from the first to the second, ``[pairs, 2]`` at a time; with ``once`` in one
    order alone."""
    src, dst = ends_of(G)
    count = len(G)
    rows = max(_PAIRS_AT_ONCE // max(count, 1), 1)
    for begin in range(0, count, rows):
        lacks = torch.ones((min(rows, count - begin), count), dtype=torch.bool)
        here = (src >= begin) & (src < begin + rows)
        lacks[src[here] - begin, dst[here]] = False
        lacks.diagonal(begin).fill_(False)
        pairs = lacks.triu_(begin).nonzero() if once else lacks.nonzero()
        pairs[:, 0] += begin
        yield pairs


def _number(G: BackendGraph) -> int:
    """How many edges networkx counts."""
    return G.graph.num_edges if G.is_directed() else (G.graph.num_edges + number_of_selfloops(G)) // 2


def _has_one_parent_at_most(G: BackendGraph) -> bool:
    return int(G.graph.transpose().degrees().max()) <= 1
