"""networkx's functions of components, and of nodes alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import networkx as nx
import torch

import hinterland as hl

from .converted import BackendGraph, options


def connected_components(G: BackendGraph) -> Iterator[set[Hashable]]:
    # Labels are the components' first nodes, so the components come in networkx's order.
    yield from members(G, _labels(G))


def number_connected_components(G: BackendGraph) -> int:
    return len(_labels(G).unique())


def is_connected(G: BackendGraph) -> bool:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    return not bool(_labels(G).any())


def node_connected_component(G: BackendGraph, n: Hashable) -> set[Hashable]:
    labels = _labels(G)
    return {G.nodes[i] for i in (labels == labels[G.number[n]]).nonzero()[:, 0].tolist()}


weakly_connected_components = connected_components
number_weakly_connected_components = number_connected_components
is_weakly_connected = is_connected


def strongly_connected_components(G: BackendGraph) -> Iterator[set[Hashable]]:
    yield from members(G, _strong_labels(G))


def number_strongly_connected_components(G: BackendGraph) -> int:
    return len(_strong_labels(G).unique())


def is_strongly_connected(G: BackendGraph) -> bool:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("Connectivity is undefined for the null graph.")
    return not bool(_strong_labels(G).any())


def isolates(G: BackendGraph) -> Iterator[Hashable]:
    return (node for node, degree in G.of(_degrees(G)).items() if degree == 0)


def is_isolate(G: BackendGraph, n: Hashable) -> bool:
    if n not in G:
        return G.some(n) == 0  # which raises what networkx raises of no node
    number, ways = G.number[n], [G.graph, G.graph.transpose()]
    return all(int(graph.indptr[number]) == int(graph.indptr[number + 1]) for graph in ways)


def number_of_isolates(G: BackendGraph) -> int:
    return int((_degrees(G) == 0).sum())


def degree_centrality(G: BackendGraph) -> dict[Hashable, float]:
    return _share(G, _degrees(G))


def in_degree_centrality(G: BackendGraph) -> dict[Hashable, float]:
    return _share(G, G.graph.transpose().degrees().cpu())


def out_degree_centrality(G: BackendGraph) -> dict[Hashable, float]:
    return _share(G, G.graph.degrees().cpu())


def members(G: BackendGraph, labels: torch.Tensor) -> Iterator[set[Hashable]]:
    """The nodes of each label, in the order of their first ones."""
    members: dict[int, set[Hashable]] = {}
    for node, label in G.of(labels).items():
        members.setdefault(label, set()).add(node)
    yield from members.values()


def _labels(G: BackendGraph) -> torch.Tensor:
    return hl.connected_components(G.graph, **options()).labels


def _strong_labels(G: BackendGraph) -> torch.Tensor:
    return hl.graph.strongly_connected_components(G.graph).labels


def _degrees(G: BackendGraph) -> torch.Tensor:
    """As networkx counts: both directions, and a self loop twice."""
    graph = G.graph
    if graph.directed:
        return (graph.degrees() + graph.transpose().degrees()).cpu()
    indptr, indices, _ = graph.checked_rows()
    owners = torch.repeat_interleave(torch.arange(len(G)), indptr.diff())
    return indptr.diff() + torch.bincount(owners[owners == indices], minlength=len(G))


def _share(G: BackendGraph, degrees: torch.Tensor) -> dict[Hashable, float]:
    if len(G) <= 1:
        return dict.fromkeys(G, 1)
    scale = 1.0 / (len(G) - 1.0)
    return {node: degree * scale for node, degree in G.of(degrees).items()}
