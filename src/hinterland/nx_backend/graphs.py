"""networkx's functions that make graphs of a graph. They give networkx graphs, with all that networkx's own would keep."""

from __future__ import annotations

from collections.abc import Collection, Hashable

import networkx as nx
import torch

import hinterland as hl

from .clusters import require_no_loops
from .converted import BackendGraph, convert_to_nx
from .edges import ends_of, pairs_without_edge
from .paths import single_source_dijkstra_path_length
from .searches import single_source_shortest_path_length

_WEDGES_AT_ONCE = 1 << 22


def complement(G: BackendGraph) -> nx.Graph:
    made = G.empty()
    made.add_nodes_from(G)
    for pairs in pairs_without_edge(
        G, once=not G.is_directed() and not G.is_multigraph()
    ):  # a MultiGraph gets them from both ends
        made.add_edges_from((G.nodes[u], G.nodes[v]) for u, v in pairs.tolist())
    return made


def reverse(G: BackendGraph, copy: bool = True) -> nx.DiGraph | BackendGraph:
    if not G.is_directed():
        raise nx.NetworkXError("Cannot reverse an undirected graph.")
    return G.turned() if G.original is None else G.original.reverse(copy=copy)


def ego_graph(
    G: BackendGraph,
    n: Hashable,
    radius: float = 1,
    center: bool = True,
    undirected: bool = False,
    distance: str | None = None,
) -> nx.Graph:
    searched = G
    if undirected and G.is_directed():
        if distance is not None:
            raise NotImplementedError("hinterland takes no weights of edges that are made undirected")
        both = hl.graph.simplify(G.graph.without_weights(), symmetrize=True)
        searched = BackendGraph(both, G.nodes, None, G.is_multigraph())
    if distance is None:
        near = single_source_shortest_path_length(searched, n, radius)
    else:
        near = single_source_dijkstra_path_length(searched, n, radius, distance)
    made = convert_to_nx(_among(G, near)) if G.original is None else G.original.subgraph(near).copy()
    if not center:
        made.remove_node(n)
    return made


def _among(G: BackendGraph, some: Collection[Hashable]) -> BackendGraph:
    """Some of the nodes, and the edges between them."""
    nodes = [node for node in G if node in some]
    numbers = torch.full((len(G),), -1).index_copy_(
        0, torch.tensor([G.number[node] for node in nodes]), torch.arange(len(nodes))
    )
    src, dst = (numbers[ends] for ends in ends_of(G))
    stays = (src >= 0) & (dst >= 0)
    weights = None if G.graph.weights is None else G.graph.weights[stays]
    graph = hl.from_edges(src[stays], dst[stays], weights, num_vertices=len(nodes), directed=G.is_directed())
    graph.labels = nodes
    made = BackendGraph(graph, nodes, G.attribute, G.is_multigraph())
    made.keys = {ends: keys for ends, keys in G.keys.items() if ends[0] in some and ends[1] in some}
    return made


def k_truss(G: BackendGraph, k: float) -> nx.Graph:
    require_no_loops(G)
    made = convert_to_nx(G) if G.original is None else G.original.copy()
    src, dst = ends_of(G)
    src, dst = src[src < dst], dst[src < dst]
    dropped = ~_in_truss(len(G), src, dst, k)
    made.remove_edges_from((G.nodes[u], G.nodes[v]) for u, v in torch.stack([src, dst], 1)[dropped].tolist())
    made.remove_nodes_from(list(nx.isolates(made)))
    return made


def _in_truss(nodes: int, src: torch.Tensor, dst: torch.Tensor, k: float) -> torch.Tensor:
    """Which edges, each there once, are in the k-truss: those with k - 2 triangles of such edges (Cohen 2008)."""
    stays = torch.ones(len(src), dtype=torch.bool)
    corners = _triangles(nodes, src, dst)
    while True:
        support = torch.bincount(corners.reshape(-1), minlength=len(src))
        drops = stays & (support < k - 2)
        if not drops.any():
            return stays
        stays &= ~drops
        corners = corners[stays[corners].all(1)]


def _triangles(nodes: int, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
    """The three edges of every triangle: int64 ``[triangles, 3]``. Edges lead from nodes of few neighbours to those of many, so
    that no list that leads away is long."""
    degrees = torch.bincount(torch.cat([src, dst]), minlength=nodes)
    rank = torch.empty(nodes, dtype=torch.int64).index_copy_(0, degrees.argsort(stable=True), torch.arange(nodes))
    low, high = torch.minimum(rank[src], rank[dst]), torch.maximum(rank[src], rank[dst])
    keys, edge = (low * nodes + high).sort()
    low, high = low[edge], high[edge]
    counts = torch.bincount(low, minlength=nodes)
    begins = counts.cumsum(0) - counts
    ways = counts[high].cumsum(0)  # over all edges, by which a third corner may lie
    found = [torch.empty((0, 3), dtype=torch.int64)]
    begin = 0
    while begin < len(keys):
        done = int(ways[begin - 1]) if begin else 0
        end = max(int(torch.searchsorted(ways, done + _WEDGES_AT_ONCE, right=True)), begin + 1)
        first = torch.repeat_interleave(torch.arange(begin, end), counts[high[begin:end]])
        place = torch.arange(len(first)) - (ways - counts[high])[first] + done
        second = begins[high[first]] + place
        wanted = low[first] * nodes + high[second]
        third = torch.searchsorted(keys, wanted).clamp_(max=len(keys) - 1)
        closed = keys[third] == wanted
        found.append(torch.stack([edge[first[closed]], edge[second[closed]], edge[third[closed]]], 1))
        begin = end
    return torch.cat(found)
