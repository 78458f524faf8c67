"""networkx's functions that make graphs of a graph, betweenness of edges, and lowest common ancestors."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hinterland import nx_backend

from .samples import DIGRAPHS, GRAPHS, KINDS, OURS, mixed, same_error, same_outcome, small_graphs


def equal(ours: nx.Graph, theirs: nx.Graph) -> None:
    """The same kind, nodes and edges with the same data, parallel ones by their keys."""
    assert type(ours) is type(theirs)
    assert ours.nodes(data=True) == theirs.nodes(data=True) and ours.graph == theirs.graph
    assert {node: dict(near) for node, near in ours.adj.items()} == {node: dict(near) for node, near in theirs.adj.items()}


def with_data(graph: nx.Graph) -> nx.Graph:
    graph = graph.copy()
    graph.graph["name"] = "a graph"
    nx.set_node_attributes(graph, {node: f"colour {i % 3}" for i, node in enumerate(graph)}, "colour")
    for i, (*_, data) in enumerate(graph.edges(data=True)):
        data["label"] = str(i)
    return graph


@settings(max_examples=60)
@given(small_graphs(), st.data())
def test_graphs_of_small_graphs(graph, data):
    graph = with_data(graph)
    node = data.draw(st.sampled_from([*graph, "nowhere"]))
    radius = data.draw(st.sampled_from([0, 1, 2, 1.5]))
    options = {"center": data.draw(st.booleans()), "undirected": data.draw(st.booleans())}
    k = data.draw(st.integers(1, 5))
    for call in (
        lambda **b: nx.complement(graph, **b),
        lambda **b: nx.reverse(graph, **b),
        lambda **b: nx.ego_graph(graph, node, radius, **options, **b),
        lambda **b: nx.k_truss(graph, k, **b),
    ):
        same_outcome(call, equal)
    if not (options["undirected"] and graph.is_directed()):
        same_outcome(lambda **b: nx.ego_graph(graph, node, radius, **options, distance="weight", **b), equal)


@pytest.mark.parametrize("graph", GRAPHS + DIGRAPHS)
def test_graphs_of_larger_graphs(graph):
    graph = with_data(graph)
    equal(nx.complement(graph, **OURS), nx.complement(graph))
    for radius, distance in ((2, None), (9.5, "weight"), (3, "hops")):
        node = next(iter(graph))
        equal(
            nx.ego_graph(graph, node, radius, distance=distance, **OURS), nx.ego_graph(graph, node, radius, distance=distance)
        )
    if graph.is_directed():
        equal(nx.reverse(graph, **OURS), nx.reverse(graph))
        assert nx.reverse(graph, copy=False, **OURS).edges == graph.reverse(copy=False).edges


@pytest.mark.parametrize("k", [2, 3, 4, 5, 6, 9])
@pytest.mark.parametrize("graph", [nx.karate_club_graph(), nx.gnp_random_graph(60, 0.4, seed=3), nx.complete_graph(7)])
def test_trusses(graph, k, monkeypatch):
    monkeypatch.setattr("hinterland.nx_backend.graphs._WEDGES_AT_ONCE", 50)
    equal(nx.k_truss(graph, k, **OURS), nx.k_truss(graph, k))


@settings(max_examples=60)
@given(small_graphs(kinds=(nx.Graph, nx.DiGraph)), st.booleans(), st.data())
def test_betweenness_of_edges_of_small_graphs(graph, normalized, data):
    k = data.draw(st.one_of(st.none(), st.integers(1, len(graph))))

    def close(ours, theirs):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)

    same_outcome(lambda **b: nx.edge_betweenness_centrality(graph, k, normalized, seed=4, **b), close)


@pytest.mark.parametrize("graph", [g for g in GRAPHS + DIGRAPHS if not g.values[0].is_multigraph()])
def test_betweenness_of_edges(graph):
    for options in ({}, {"normalized": False}, {"k": min(10, len(graph)), "seed": 3}):
        ours = nx.edge_betweenness_centrality(graph, **options, **OURS)
        assert ours == pytest.approx(nx.edge_betweenness_centrality(graph, **options), rel=1e-9, abs=1e-12)


def lowest_common(graph, pair):
    common = set.intersection(*({node, *nx.ancestors(graph, node)} for node in pair))
    return [node for node in graph if node in common and not common & set(graph[node])]


@settings(max_examples=60)
@given(st.integers(1, 9), st.data())
def test_lowest_common_ancestors(count, data):
    nodes = data.draw(st.permutations("abcdefghi"[:count]))
    edges = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=20))
    graph = nx.DiGraph()
    graph.add_nodes_from(data.draw(st.permutations(nodes)))
    graph.add_edges_from((nodes[min(u, v)], nodes[max(u, v)]) for u, v in edges if u != v)
    pair = data.draw(st.sampled_from(nodes)), data.draw(st.sampled_from(nodes))
    right = lowest_common(graph, pair)
    ours, theirs = (nx.lowest_common_ancestor(graph, *pair, default="none", **b) for b in (OURS, {}))
    assert ours == (right[0] if right else "none") and theirs in (right or ["none"])


@pytest.mark.parametrize(
    "call",
    [
        lambda **b: nx.lowest_common_ancestor(nx.DiGraph([(0, 1), (1, 0)]), 0, 1, **b),
        lambda **b: nx.lowest_common_ancestor(nx.DiGraph([(0, 0)]), 0, 0, **b),
        lambda **b: nx.lowest_common_ancestor(nx.DiGraph(), 0, 1, **b),
        lambda **b: nx.lowest_common_ancestor(nx.DiGraph([(0, 1)]), 0, 7, **b),
        lambda **b: nx.lowest_common_ancestor(nx.Graph([(0, 1)]), 0, 1, **b),
        lambda **b: nx.reverse(nx.path_graph(3), **b),
        lambda **b: nx.ego_graph(nx.path_graph(3), 7, **b),
        lambda **b: nx.ego_graph(nx.path_graph(3), 7, distance="weight", **b),
        lambda **b: nx.k_truss(nx.Graph([(0, 0)]), 3, **b),
        lambda **b: nx.k_truss(nx.DiGraph([(0, 1)]), 3, **b),
        lambda **b: nx.k_truss(nx.MultiGraph([(0, 1)]), 3, **b),
        lambda **b: nx.edge_betweenness_centrality(nx.path_graph(3), k=9, **b),
        lambda **b: nx.edge_betweenness_centrality(nx.path_graph(3), k=0, **b),
    ],
)
def test_errors_are_networkx_own(call):
    same_error(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda g, **b: nx.edge_betweenness_centrality(g, weight="weight", **b),
        lambda g, **b: nx.edge_betweenness_centrality(nx.MultiGraph(g), **b),
        lambda g, **b: nx.ego_graph(g, 0, distance=lambda u, v, data: 2, **b),
        lambda g, **b: nx.ego_graph(nx.DiGraph(g), 0, undirected=True, distance="weight", **b),
    ],
)
def test_what_is_not_supported_is_left_to_networkx(call):
    graph = nx.karate_club_graph()
    with pytest.raises(NotImplementedError):
        call(graph, **OURS)
    with nx.config.backend_priority(algos=["hinterland"]):
        ours, theirs = call(graph), call(graph, backend="networkx")
        assert nx.utils.graphs_equal(ours, theirs) if isinstance(ours, nx.Graph) else ours == theirs


@pytest.mark.parametrize("graph", [mixed(nx.DiGraph), mixed(nx.Graph)])
def test_a_graph_that_was_converted_with_all_is_used_for_weights_too(graph):
    """networkx keeps it, and takes it for any attribute."""
    graph = graph.copy()
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    node = next(iter(graph))
    nx.ego_graph(graph, node, **OURS)
    for weight in ("weight", "hops"):
        assert nx.pagerank(graph, weight=weight, **OURS) == pytest.approx(nx.pagerank(graph, weight=weight), abs=1e-6)
    lengths = nx.single_source_dijkstra_path_length(graph, node, **OURS)
    assert lengths == pytest.approx(nx.single_source_dijkstra_path_length(graph, node))


def test_graphs_that_the_user_converted():
    for graph in (mixed(nx.DiGraph), mixed(nx.MultiDiGraph)):
        converted = nx_backend.convert_from_nx(graph, edge_attrs={"weight": 1})
        turned = nx_backend.convert_to_nx(nx.reverse(converted))
        assert type(turned) is type(graph) and sorted(map(str, turned.edges)) == sorted(map(str, graph.reverse().edges))
        node = next(iter(graph))
        assert nx.ego_graph(converted, node, 2).nodes == nx.ego_graph(graph, node, 2).nodes
        assert nx.complement(converted).edges == nx.complement(graph).edges
    plain = nx.karate_club_graph()
    assert nx.k_truss(nx_backend.convert_from_nx(plain), 4).edges == nx.k_truss(plain, 4).edges


@pytest.mark.parametrize("kind", [nx.MultiGraph, nx.MultiDiGraph])
@pytest.mark.parametrize("attribute", ["weight", None])
def test_keys_of_parallel_edges_come_back(kind, attribute):
    """Of a graph that the user converted, with keys that are no numbers or in another order than their edges' weights."""
    graph = nx.cycle_graph(7, create_using=kind)
    graph.add_edges_from(nx.cycle_graph(7).edges)
    graph.add_edges_from([(0, 1, 10), (3, 2, "a"), (3, 3, "loop"), (3, 3, 0), (5, 6, (1, 2))])
    for i, (*_, data) in enumerate(graph.edges(data=True)):
        data.update({attribute: -i % 5} if attribute else {})
    converted = nx_backend.convert_from_nx(graph, {attribute: 1} if attribute else None)
    equal(nx_backend.convert_to_nx(converted), graph)
    for node, options in ((0, {}), (3, {"radius": 2}), (3, {"undirected": True}), (2, {"center": False, "radius": 1.5})):
        equal(nx.ego_graph(converted, node, **options), nx.ego_graph(graph, node, **options))
    if graph.is_directed():
        equal(nx_backend.convert_to_nx(nx.reverse(converted)), graph.reverse())


def test_weights_of_1_come_back():
    graph = nx.path_graph(4)
    nx.set_edge_attributes(graph, 1, "weight")
    equal(nx_backend.convert_to_nx(nx_backend.convert_from_nx(graph, {"weight": 1})), graph)


def test_a_path_has_its_middle_edges_between_most():
    scores = nx.edge_betweenness_centrality(nx.path_graph(50), normalized=False, **OURS)
    expected = torch.arange(1, 50) * torch.arange(49, 0, -1)
    assert list(scores.values()) == pytest.approx(expected.tolist())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight", ["weight", None])
def test_what_is_near_in_a_converted_graph(kind, weight):
    graph = mixed(kind)
    if graph.is_multigraph():
        u, v = next(iter(graph.edges()))
        graph.add_edge(u, v, key="named", weight=3)
    converted = nx_backend.convert_from_nx(graph, {weight: 1} if weight else None)
    whole = nx_backend.convert_to_nx(converted)
    for node in list(graph)[::7]:
        for radius in (0, 1, 2):
            found, right = nx.ego_graph(converted, node, radius), whole.subgraph(nx.ego_graph(graph, node, radius))
            assert type(found) is kind and list(found) == [near for near in whole if near in right]
            assert nx.utils.graphs_equal(found, right.copy())
