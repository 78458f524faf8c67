"""Graphs for the networkx backend, and the backend's name."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import strategies as st

OURS = {"backend": "hinterland"}
KINDS = (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph)


def mixed(kind: type, seed: int = 2, real: bool = False) -> nx.Graph:
    """Named nodes in no order, several components, a few self loops, parallel edges where there may be some."""
    draw = random.Random(seed)
    nodes = [f"node {i}" if i % 3 else i for i in range(60)]
    draw.shuffle(nodes)
    graph = kind()
    graph.add_nodes_from(nodes)
    for _ in range(90):
        u, v = draw.choices(nodes[:50], k=2)
        graph.add_edge(u, v)
        if draw.random() < 0.8:
            data = graph[u][v][max(graph[u][v])] if graph.is_multigraph() else graph[u][v]
            data["weight"] = draw.uniform(0.1, 5) if real else draw.randrange(1, 20)
            data["hops"] = 1
    return graph


UNDIRECTED = {
    "karate": nx.karate_club_graph(),
    "mixed": mixed(nx.Graph),
    "real weights": mixed(nx.Graph, real=True),
    "parallel": mixed(nx.MultiGraph),
    "random": nx.gnp_random_graph(200, 0.02, seed=4),
    "path": nx.path_graph(70),
    "one node": nx.empty_graph(1),
}
DIRECTED = {
    "mixed": mixed(nx.DiGraph),
    "parallel": mixed(nx.MultiDiGraph),
    "random": nx.gnp_random_graph(150, 0.03, seed=5, directed=True),
    "dangling": nx.DiGraph([(0, 1), (1, 2), (0, 2), (3, 0)]),
}
GRAPHS = [pytest.param(g, id=name) for name, g in UNDIRECTED.items()]
DIGRAPHS = [pytest.param(g, id=f"directed {name}") for name, g in DIRECTED.items()]


def some_nodes(graph: nx.Graph) -> list:
    return list(graph)[:: max(1, len(graph) // 4)]


@st.composite
def small_graphs(draw, kinds=KINDS, least: int = 1, most: int = 9):
    """Up to ``most`` nodes, numbers or words, alone or not; self loops; weights that are whole or not, or not there."""
    count = draw(st.integers(least, most))
    nodes = draw(st.permutations(list("abcdefghi")[:count] if draw(st.booleans()) else list(range(count))))
    graph = draw(st.sampled_from(kinds))()
    graph.add_nodes_from(nodes)
    weights = draw(st.sampled_from([st.integers(0, 9), st.floats(0.125, 8, width=16), st.none()]))
    ends = st.sampled_from(nodes)
    for u, v, weight in draw(st.lists(st.tuples(ends, ends, weights), max_size=3 * count)):
        graph.add_edge(u, v, **({} if weight is None else {"weight": weight}))
    return graph


def same_error(call):
    """That ``call(**backend)`` raises what networkx raises, in its words."""
    with pytest.raises(Exception) as theirs:
        call()
    with pytest.raises(type(theirs.value)) as ours:
        call(**OURS)
    assert type(ours.value) is type(theirs.value)
    if isinstance(theirs.value, nx.NetworkXException):
        assert str(ours.value) == str(theirs.value)


def same_outcome(call, compare=None):
    """That ``call(**backend)`` gives what networkx gives, or raises what it raises."""
    try:
        theirs = call()
    except Exception:
        same_error(call)
        return
    ours = call(**OURS)
    if compare is None:
        assert ours == theirs
    else:
        compare(ours, theirs)
