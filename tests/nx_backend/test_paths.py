"""networkx's searches and shortest paths: the same lengths, sets and errors, and paths that are as short."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import nx_backend

from .samples import DIGRAPHS, GRAPHS, OURS, mixed, same_error, same_outcome, small_graphs, some_nodes


def length(graph, path, weight=None):
    """Of a path that the graph has."""
    total = 0
    for u, v in pairwise(path):
        data = graph[u][v]  # raises KeyError where there is no such edge
        each = data.values() if graph.is_multigraph() else [data]
        total += 1 if weight is None else min(one.get(weight, 1) for one in each)
    return total


def paths_as_short(graph, weight=None):
    """Compares dictionaries of paths, or single ones, by ends and lengths."""

    def compare(ours, theirs):
        if isinstance(theirs, list):
            ours, theirs = {0: ours}, {0: theirs}
        assert ours.keys() == theirs.keys()
        for node, path in theirs.items():
            assert (ours[node][0], ours[node][-1]) == (path[0], path[-1])
            assert length(graph, ours[node], weight) == pytest.approx(length(graph, path, weight))

    return compare


def pairs(compare):
    """The same for what networkx yields for each node."""

    def each(ours, theirs):
        ours, theirs = dict(ours), dict(theirs)
        assert list(ours) == list(theirs)
        for node in theirs:
            compare(ours[node], theirs[node])

    return each


def close(ours, theirs):
    assert ours == pytest.approx(theirs, rel=1e-12)


def alike(ours, theirs):
    close(ours, theirs) if isinstance(theirs, dict | float) else exactly(ours, theirs)


def exactly(ours, theirs):
    assert ours == theirs


NODE = st.integers(0, 10)


@settings(max_examples=30)
@given(small_graphs(), NODE, NODE, st.sampled_from([None, 0, 1, 2.5, 20]))
def test_searches_on_small_graphs(graph, i, j, limit):
    named = [*graph, "nowhere"]
    s, t = named[i % len(named)], named[j % len(named)]
    turned = graph.reverse() if graph.is_directed() else graph
    forth, back = paths_as_short(graph), paths_as_short(graph)
    for call, compare in (
        (lambda **b: nx.has_path(graph, s, t, **b), None),
        (lambda **b: nx.ancestors(graph, s, **b), None),
        (lambda **b: nx.descendants(graph, s, **b), None),
        (lambda **b: nx.descendants_at_distance(graph, s, j, **b), None),
        (lambda **b: [set(layer) for layer in nx.bfs_layers(graph, s, **b)], None),
        (lambda **b: [set(layer) for layer in nx.bfs_layers(graph, [s, t], **b)], None),
        (lambda **b: nx.single_source_shortest_path_length(graph, s, limit, **b), None),
        (lambda **b: nx.single_target_shortest_path_length(graph, t, limit, **b), None),
        (lambda **b: dict(nx.all_pairs_shortest_path_length(graph, limit, **b)), None),
        (lambda **b: nx.single_source_shortest_path(graph, s, limit, **b), forth),
        (lambda **b: nx.single_target_shortest_path(graph, t, limit, **b), back),
        (lambda **b: nx.all_pairs_shortest_path(graph, limit, **b), pairs(forth)),
        (lambda **b: nx.bidirectional_shortest_path(graph, s, t, **b), forth),
    ):
        same_outcome(call, compare)
    if s in graph:
        for tree in (nx.bfs_tree(graph, s, **OURS), nx.DiGraph(nx.generic_bfs_edges(graph, s, **OURS))):
            assert {s, *tree} == {s, *nx.descendants(graph, s)} and all(graph.has_edge(u, v) for u, v in tree.edges)
        assert dict(nx.bfs_successors(graph, s, **OURS)).keys() >= {s}
        assert set(nx.bfs_tree(graph, s, reverse=True, **OURS)) == {s, *nx.descendants(turned, s)}


@settings(max_examples=30)
@given(small_graphs(), NODE, NODE, st.sampled_from([None, 0, 3, 2.5]), st.sampled_from(["weight", None]))
def test_weighted_paths_on_small_graphs(graph, i, j, cutoff, weight):
    named = [*graph, "nowhere"]
    s, t = named[i % len(named)], named[j % len(named)]
    short = paths_as_short(graph, weight)

    def both(ours, theirs):
        close(ours[0], theirs[0])
        short(ours[1], theirs[1])

    w, c = {"weight": weight}, {"cutoff": cutoff}
    for call, compare in (
        (lambda **b: nx.dijkstra_path_length(graph, s, t, **w, **b), close),
        (lambda **b: nx.dijkstra_path(graph, s, t, **w, **b), short),
        (lambda **b: nx.bidirectional_dijkstra(graph, s, t, **w, **b), both),
        (lambda **b: nx.single_source_dijkstra(graph, s, t, **c, **w, **b), both),
        (lambda **b: nx.single_source_dijkstra(graph, s, **c, **w, **b), both),
        (lambda **b: nx.single_source_dijkstra_path(graph, s, **c, **w, **b), short),
        (lambda **b: nx.single_source_dijkstra_path_length(graph, s, **c, **w, **b), close),
        (lambda **b: nx.all_pairs_dijkstra(graph, **c, **w, **b), pairs(both)),
        (lambda **b: nx.all_pairs_dijkstra_path(graph, **c, **w, **b), pairs(short)),
        (lambda **b: nx.all_pairs_dijkstra_path_length(graph, **c, **w, **b), pairs(close)),
        (lambda **b: nx.bellman_ford_path(graph, s, t, **w, **b), short),
        (lambda **b: nx.bellman_ford_path_length(graph, s, t, **w, **b), close),
        (lambda **b: nx.single_source_bellman_ford(graph, s, t, **w, **b), both),
        (lambda **b: nx.single_source_bellman_ford(graph, s, **w, **b), both),
        (lambda **b: nx.single_source_bellman_ford_path(graph, s, **w, **b), short),
        (lambda **b: nx.single_source_bellman_ford_path_length(graph, s, **w, **b), close),
        (lambda **b: nx.all_pairs_bellman_ford_path(graph, **w, **b), pairs(short)),
        (lambda **b: nx.all_pairs_bellman_ford_path_length(graph, **w, **b), pairs(close)),
    ):
        same_outcome(call, compare)


@settings(max_examples=25)
@given(small_graphs(), NODE, NODE, st.sampled_from(["dijkstra", "bellman-ford", "best"]), st.sampled_from(["weight", None]))
def test_shortest_paths_in_all_forms(graph, i, j, method, weight):
    named = [*graph, "nowhere"]
    s, t = named[i % len(named)], named[j % len(named)]
    short, how = paths_as_short(graph, weight), {"weight": weight, "method": method}
    for ends, compare in (({"source": s, "target": t}, None), ({"source": s}, None), ({"target": t}, None), ({}, pairs)):
        paths, lengths = (compare(short), compare(close)) if compare else (short, close)
        same_outcome(lambda ends=ends, **b: nx.shortest_path(graph, **ends, **how, **b), paths)
        same_outcome(lambda ends=ends, **b: nx.shortest_path_length(graph, **ends, **how, **b), lengths)


@settings(max_examples=60)
@given(small_graphs(least=1), st.sampled_from([None, "weight"]), st.booleans(), NODE)
def test_distances_of_small_graphs(graph, weight, flag, i):
    some, node = list(graph)[:2], list(graph)[i % len(graph)]
    for call in (
        lambda **b: nx.closeness_centrality(graph, distance=weight, wf_improved=flag, **b),
        lambda **b: nx.closeness_centrality(graph, u=node, distance=weight, **b),
        lambda **b: nx.eccentricity(graph, weight=weight, **b),
        lambda **b: nx.eccentricity(graph, v=some, weight=weight, **b),
        lambda **b: nx.eccentricity(graph, v=node, weight=weight, **b),
        lambda **b: nx.diameter(graph, usebounds=flag, weight=weight, **b),
        lambda **b: nx.radius(graph, usebounds=flag, weight=weight, **b),
        lambda **b: sorted(map(str, nx.center(graph, usebounds=flag, weight=weight, **b))),
        lambda **b: sorted(map(str, nx.periphery(graph, usebounds=flag, weight=weight, **b))),
        lambda **b: nx.average_shortest_path_length(graph, weight=weight, **b),
        lambda **b: nx.average_shortest_path_length(graph, weight=weight, method="bellman-ford", **b),
        lambda **b: nx.harmonic_centrality(graph, distance=weight, **b),
        lambda **b: nx.harmonic_centrality(graph, nbunch=some, sources=some if flag else None, distance=weight, **b),
        lambda **b: float(nx.wiener_index(graph, weight=weight, **b)),
        lambda **b: nx.degree_centrality(graph, **b),
        lambda **b: nx.in_degree_centrality(graph, **b),
        lambda **b: nx.out_degree_centrality(graph, **b),
        lambda **b: list(nx.isolates(graph, **b)),
        lambda **b: nx.number_of_isolates(graph, **b),
        lambda **b: nx.is_isolate(graph, node, **b),
        lambda **b: sorted(sorted(map(str, c)) for c in nx.strongly_connected_components(graph, **b)),
        lambda **b: nx.number_strongly_connected_components(graph, **b),
        lambda **b: nx.is_strongly_connected(graph, **b),
    ):
        same_outcome(call, alike)


@pytest.mark.parametrize("graph", GRAPHS + DIGRAPHS)
def test_larger_graphs(graph):
    for source in some_nodes(graph):
        close(nx.closeness_centrality(graph, u=source, **OURS), nx.closeness_centrality(graph, u=source))
        for call, weight in ((nx.single_source_shortest_path, None), (nx.single_source_dijkstra_path, "weight")):
            paths_as_short(graph, weight)(call(graph, source, **OURS), call(graph, source))
    assert dict(nx.all_pairs_shortest_path_length(graph, **OURS)) == dict(nx.all_pairs_shortest_path_length(graph))


@pytest.mark.parametrize(
    "call",
    [
        lambda **b: nx.average_shortest_path_length(nx.Graph(), **b),
        lambda **b: nx.average_shortest_path_length(nx.path_graph(3), method="SPAM", **b),
        lambda **b: nx.diameter(nx.Graph(), **b),
        lambda **b: nx.eccentricity(nx.empty_graph(2, create_using=nx.DiGraph), **b),
        lambda **b: nx.is_strongly_connected(nx.DiGraph(), **b),
        lambda **b: nx.is_isolate(nx.path_graph(3), 9, **b),
        lambda **b: nx.closeness_centrality(nx.path_graph(3), u=9, **b),
    ],
)
def test_errors_are_networkx_own(call):
    same_error(call)


WIDE = [  # weights of a path that floats round, or that sum to more than they take
    [2**63, 1],
    [2**70, 5],
    [2**53, 1, 1, 0.5],
    [2**62, 2**62],
    [1e308, 1e308],
    [1e308, 5, 1e308, 1.5],
    [float("inf"), 1],
]


def path_of(weights):
    """A path of such edges, an edge off its beginning, and a node alone."""
    graph = nx.Graph([(0, "off", {"weight": 2})])
    graph.add_weighted_edges_from((i, i + 1, weight) for i, weight in enumerate(weights))
    graph.add_node("alone")
    return graph


def outcome(call):
    """What it gives, or the type of what it raises."""
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("weights", WIDE, ids=str)
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph])
def test_sums_of_weights_are_networkx_own(weights, kind):
    """Where they are not exact here, networkx is left to make them."""
    graph = kind(path_of(weights))
    by, distance, end = {"weight": "weight"}, {"distance": "weight"}, len(weights)
    for call in (
        lambda **b: nx.single_source_dijkstra_path_length(graph, 0, **b),
        lambda **b: nx.single_source_dijkstra(graph, 0, cutoff=1e308, **b),
        lambda **b: nx.single_source_bellman_ford(graph, 0, **b),
        lambda **b: nx.dijkstra_path_length(graph, 0, end, **b),
        lambda **b: nx.bidirectional_dijkstra(graph, 0, end, **b),
        lambda **b: nx.bellman_ford_path_length(graph, 0, end, **b),
        lambda **b: nx.shortest_path_length(graph, 0, **by, **b),
        lambda **b: dict(nx.shortest_path_length(graph, **by, **b)),
        lambda **b: dict(nx.all_pairs_dijkstra(graph, **b)),
        lambda **b: dict(nx.all_pairs_dijkstra_path(graph, **b)),
        lambda **b: dict(nx.all_pairs_dijkstra_path_length(graph, **b)),
        lambda **b: dict(nx.all_pairs_bellman_ford_path(graph, **b)),
        lambda **b: dict(nx.all_pairs_bellman_ford_path_length(graph, **b)),
        lambda **b: nx.closeness_centrality(graph, **distance, **b),
        lambda **b: nx.harmonic_centrality(graph, **distance, **b),
        lambda **b: nx.eccentricity(nx.Graph(graph.edges(data=True)), **by, **b),
        lambda **b: nx.wiener_index(nx.Graph(graph.edges(data=True)), **by, **b),
        lambda **b: set(nx.ego_graph(graph, 0, 1e300, **distance, **b)),
    ):
        theirs, ours = outcome(call), outcome(lambda call=call: call(**OURS))
        with nx.config.backend_priority(algos=["hinterland"], generators=["hinterland"]):
            assert outcome(call) == theirs
        assert ours in (theirs, NotImplementedError)


def test_sums_beyond_64_bits_are_exact():
    with nx.config.backend_priority(algos=["hinterland"]):
        assert nx.dijkstra_path_length(path_of([2**63, 1]), 0, 2) == 9223372036854775809
        assert nx.dijkstra_path_length(path_of([2**53, 1, 1, 0.5]), 0, 4) == 9007199254740994.5
    for weights in ([1e308, 1e308], [float("inf"), 1]):
        lengths = nx.single_source_dijkstra_path_length(path_of(weights), 0, **OURS)
        assert lengths == {0: 0, "off": 2, 1: weights[0], 2: float("inf")}


def test_weights_that_only_networkx_takes_are_left_to_it():
    far, negative = path_of([float("inf"), 1]), nx.DiGraph([(0, 1, {"weight": 2}), (1, 2, {"weight": -1})])
    for graph in (far, negative):
        with pytest.raises(NotImplementedError):
            nx.single_source_bellman_ford_path_length(graph, 0, **OURS)
        with nx.config.backend_priority(algos=["hinterland"]):
            found = nx.single_source_bellman_ford_path_length(graph, 0)
        assert found == nx.single_source_bellman_ford_path_length(graph, 0)


def test_long_ways_of_whole_weights_do_not_overflow():
    graph = nx.path_graph(6)
    for _, _, data in graph.edges(data=True):
        data["weight"] = 2**31 - 1
    assert nx.dijkstra_path_length(graph, 0, 5, **OURS) == 5 * (2**31 - 1)


BETWEEN = {
    "dijkstra_path": lambda graph, s, t, **b: nx.dijkstra_path(graph, s, t, **b),
    "dijkstra_path_length": lambda graph, s, t, **b: nx.dijkstra_path_length(graph, s, t, **b),
    "single_source_dijkstra": lambda graph, s, t, **b: nx.single_source_dijkstra(graph, s, t, **b),
    "bidirectional_dijkstra": lambda graph, s, t, **b: nx.bidirectional_dijkstra(graph, s, t, **b),
    "bellman_ford_path": lambda graph, s, t, **b: nx.bellman_ford_path(graph, s, t, **b),
    "bellman_ford_path_length": lambda graph, s, t, **b: nx.bellman_ford_path_length(graph, s, t, **b),
    "single_source_bellman_ford": lambda graph, s, t, **b: nx.single_source_bellman_ford(graph, s, t, **b),
    "shortest_path by weight": lambda graph, s, t, **b: nx.shortest_path(graph, s, t, "weight", **b),
    "shortest_path_length by weight": lambda graph, s, t, **b: nx.shortest_path_length(graph, s, t, "weight", **b),
    "shortest_path": lambda graph, s, t, **b: nx.shortest_path(graph, s, t, **b),
    "shortest_path_length": lambda graph, s, t, **b: nx.shortest_path_length(graph, s, t, **b),
    "bidirectional_shortest_path": lambda graph, s, t, **b: nx.bidirectional_shortest_path(graph, s, t, **b),
    "has_path": lambda graph, s, t, **b: nx.has_path(graph, s, t, **b),
}


def like_networkx(graph, weight):
    """Compares what a function between two nodes gives: lengths, paths, both or neither."""

    def compare(ours, theirs):
        if isinstance(theirs, tuple):
            assert ours[0] == pytest.approx(theirs[0], rel=1e-12)
            ours, theirs = ours[1], theirs[1]
        if isinstance(theirs, list):
            paths_as_short(graph, weight)(ours, theirs)
        else:
            assert ours == theirs

    return compare


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("graph", GRAPHS + DIGRAPHS)
def test_between_two_nodes(name, graph):
    call, converted = BETWEEN[name], nx_backend.convert_from_nx(graph, {"weight": 1})
    weight = "weight" if "dijkstra" in name or "bellman" in name or "weight" in name else None
    for source in [*some_nodes(graph), "nowhere"]:
        for target in [*some_nodes(graph), source, "nowhere"]:
            same_outcome(lambda s=source, t=target, **b: call(graph, s, t, **b), like_networkx(graph, weight))
            if source in graph and target in nx.descendants(graph, source):
                assert call(converted, source, target) == call(graph, source, target, **OURS)


@pytest.mark.parametrize("name", BETWEEN)
def test_between_two_nodes_a_graph_is_made_once(name, monkeypatch):
    graph = mixed(nx.DiGraph)
    source, target = next((u, v) for u in graph for v in nx.descendants(graph, u) if u != v)
    BETWEEN[name](graph, source, target, **OURS)
    for made in ("from_networkx", "from_edges", "sssp", "bfs"):
        monkeypatch.setattr(hl, made, lambda *_, **__: pytest.fail("more than a search between two nodes"))
    BETWEEN[name](graph, source, target, **OURS)
    with nx.config.backend_priority(algos=["hinterland"]):
        assert BETWEEN[name](nx.path_graph(3), 0, 2) == BETWEEN[name](nx.path_graph(3), 0, 2, backend="networkx")


def test_lengths_between_two_nodes_add_floats_as_networkx_does():
    graph = nx.gnm_random_graph(60, 200, seed=3)
    nx.set_edge_attributes(graph, {edge: [0.1, 0.2, 0.3][i % 3] for i, edge in enumerate(graph.edges)}, "weight")
    right = dict(nx.all_pairs_dijkstra_path_length(graph))
    for source in range(0, 60, 7):
        assert {t: nx.dijkstra_path_length(graph, source, t, **OURS) for t in right[source]} == right[source]


@pytest.mark.parametrize("name", [name for name in BETWEEN if "dijkstra" in name or "weight" in name])
@pytest.mark.parametrize("weights", [[-1], [3, -1], [float("inf"), -1]], ids=str)
def test_negative_weights_between_two_nodes(name, weights):
    with pytest.raises(ValueError, match="negative"):
        BETWEEN[name](path_of(weights), 0, len(weights), **OURS)


@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("weights", [*WIDE, [2**62], [2**61, 5], [0, 0, 0.0], [0, 0, 5]], ids=str)
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_weights_of_any_size_between_two_nodes(name, weights, kind):
    graph, end = kind(path_of(weights)), len(weights)
    for target in (end, "alone"):
        theirs = outcome(lambda target=target: BETWEEN[name](graph, 0, target))
        ours = outcome(lambda target=target: BETWEEN[name](graph, 0, target, **OURS))
        assert ours in (theirs, NotImplementedError)
        with nx.config.backend_priority(algos=["hinterland"]):
            assert outcome(lambda target=target: BETWEEN[name](graph, 0, target)) == theirs


@pytest.mark.parametrize("cutoff", [None, 0, 2, 2.5, 3, float("nan"), float("inf"), -1, 10**400])
def test_a_cutoff_between_two_nodes(cutoff):
    graph = path_of([1, 2])
    for target in (0, 1, 2, "off", "alone"):
        same_outcome(lambda target=target, **b: nx.single_source_dijkstra(graph, 0, target, cutoff, **b))
