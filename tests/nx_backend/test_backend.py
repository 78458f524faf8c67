"""The networkx backend: networkx's own results, node for node, from the same calls with ``backend="hinterland"``."""

from __future__ import annotations

import os
import subprocess
import sys

import networkx as nx
import pytest

import hinterland as hl
from hinterland import nx_backend

from .samples import DIGRAPHS, GRAPHS, OURS, mixed, same_error, some_nodes


def same(ours: dict, theirs: dict, **tolerance) -> bool:
    return ours.keys() == theirs.keys() and all(ours[node] == pytest.approx(theirs[node], **tolerance) for node in theirs)


@pytest.mark.parametrize("graph", GRAPHS + DIGRAPHS)
@pytest.mark.parametrize("cutoff", [None, 2, 1.5, 0, -1])
def test_shortest_path_lengths(graph, cutoff):
    for source in some_nodes(graph):
        ours = nx.single_source_shortest_path_length(graph, source, cutoff, **OURS)
        assert ours == nx.single_source_shortest_path_length(graph, source, cutoff)
        assert list(ours.values()) == sorted(ours.values())


@pytest.mark.parametrize("graph", GRAPHS + DIGRAPHS)
@pytest.mark.parametrize(
    "options", [{}, {"cutoff": 7}, {"cutoff": 0}, {"weight": None}, {"weight": "hops"}, {"weight": "none"}]
)
def test_dijkstra_path_lengths(graph, options):
    for source in some_nodes(graph):
        ours = nx.single_source_dijkstra_path_length(graph, source, **options, **OURS)
        assert same(ours, nx.single_source_dijkstra_path_length(graph, source, **options), rel=1e-12)


@pytest.mark.parametrize("graph", GRAPHS + DIGRAPHS)
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"depth_limit": 2}, {"depth_limit": 0}])
def test_search_trees_are_shortest_and_take_the_first_parent(graph, options):
    position = {node: i for i, node in enumerate(graph)}
    for source in some_nodes(graph):
        edges = list(nx.bfs_edges(graph, source, **options, **OURS))
        seen = {source: 0}
        forward = graph.reverse() if options.get("reverse") and graph.is_directed() else graph
        for parent, node in edges:
            assert forward.has_edge(parent, node) and node not in seen
            seen[node] = seen[parent] + 1
        assert seen == nx.single_source_shortest_path_length(forward, source, options.get("depth_limit"))
        for parent, node in edges:
            nearer = [u for u in seen if forward.has_edge(u, node) and seen[u] == seen[node] - 1]
            assert parent == min(nearer, key=position.__getitem__)
        if "reverse" not in options:
            predecessors = nx.bfs_predecessors(graph, source, **options, **OURS)
            assert list(predecessors) == [(node, parent) for parent, node in edges]


@pytest.mark.parametrize("graph", GRAPHS)
def test_components(graph):
    assert list(nx.connected_components(graph, **OURS)) == list(nx.connected_components(graph))
    assert nx.number_connected_components(graph, **OURS) == nx.number_connected_components(graph)
    assert nx.is_connected(graph, **OURS) is nx.is_connected(graph)
    for node in some_nodes(graph):
        assert nx.node_connected_component(graph, node, **OURS) == nx.node_connected_component(graph, node)


@pytest.mark.parametrize("graph", DIGRAPHS)
def test_weak_components(graph):
    assert list(nx.weakly_connected_components(graph, **OURS)) == list(nx.weakly_connected_components(graph))
    assert nx.number_weakly_connected_components(graph, **OURS) == nx.number_weakly_connected_components(graph)
    assert nx.is_weakly_connected(graph, **OURS) is nx.is_weakly_connected(graph)


@pytest.mark.parametrize("graph", [g for g in GRAPHS + DIGRAPHS if not g.values[0].is_multigraph()])
@pytest.mark.parametrize("options", [{}, {"normalized": False}, {"k": 10, "seed": 3}, {"k": 7, "normalized": False, "seed": 3}])
def test_betweenness(graph, options):
    if "k" in options and options["k"] > len(graph):
        options = {**options, "k": len(graph)}
    ours, theirs = nx.betweenness_centrality(graph, **options, **OURS), nx.betweenness_centrality(graph, **options)
    assert ours.keys() == theirs.keys()
    for node, value in theirs.items():
        assert ours[node] == pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda **b: nx.single_source_shortest_path_length(nx.path_graph(3), 7, **b),
        lambda **b: nx.single_source_dijkstra_path_length(nx.path_graph(3), 7, **b),
        lambda **b: list(nx.bfs_edges(nx.path_graph(3), 7, **b)),
        lambda **b: list(nx.bfs_predecessors(nx.path_graph(3), 7, **b)),
        lambda **b: nx.node_connected_component(nx.path_graph(3), 7, **b),
        lambda **b: nx.is_connected(nx.Graph(), **b),
        lambda **b: nx.is_weakly_connected(nx.DiGraph(), **b),
        lambda **b: list(nx.connected_components(nx.DiGraph(), **b)),
        lambda **b: list(nx.weakly_connected_components(nx.Graph(), **b)),
        lambda **b: nx.pagerank(nx.star_graph(9), max_iter=2, **b),
        lambda **b: nx.pagerank(nx.star_graph(9), personalization={0: 0}, **b),
        lambda **b: nx.pagerank(nx.star_graph(9), max_iter=0, **b),
        lambda **b: nx.betweenness_centrality(nx.path_graph(3), k=9, **b),
        lambda **b: nx.betweenness_centrality(nx.path_graph(3), k=-1, **b),
        lambda **b: nx.betweenness_centrality(nx.path_graph(3), k=0, **b),
    ],
)
def test_errors_are_networkx_own(call):
    same_error(call)


def test_empty_graphs():
    for empty in (nx.Graph(), nx.DiGraph()):
        assert nx.pagerank(empty, **OURS) == {}
        assert nx.betweenness_centrality(empty, **OURS) == {}
    assert list(nx.connected_components(nx.Graph(), **OURS)) == []
    assert nx.number_connected_components(nx.Graph(), **OURS) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda g, **b: nx.pagerank(g, alpha=1.5, max_iter=3, tol=9, **b),
        lambda g, **b: nx.pagerank(g, nstart={0: 2, 1: -1}, **b),
        lambda g, **b: nx.betweenness_centrality(g, weight="weight", **b),
        lambda g, **b: nx.betweenness_centrality(g, endpoints=True, **b),
        lambda g, **b: nx.single_source_dijkstra_path_length(g, 0, weight=lambda u, v, d: 2, **b),
        lambda g, **b: list(nx.bfs_edges(g, 0, sort_neighbors=sorted, **b)),
        lambda g, **b: nx.betweenness_centrality(nx.MultiGraph(g), **b),
    ],
)
def test_what_is_not_supported_is_left_to_networkx(call):
    graph = nx.karate_club_graph()
    with pytest.raises(NotImplementedError):
        call(graph, **OURS)
    with nx.config.backend_priority(algos=["hinterland"]):
        assert call(graph) == call(graph, backend="networkx")


def test_weights_that_are_no_numbers_are_left_to_networkx():
    graph = nx.path_graph(3)
    graph[1][2]["weight"] = None  # to networkx, an edge that is not there
    with nx.config.backend_priority(algos=["hinterland"]):
        assert nx.single_source_dijkstra_path_length(graph, 0) == {0: 0, 1: 1}


def test_negative_weights_are_a_value_error():
    graph = nx.DiGraph([(0, 1, {"weight": -1})])
    with pytest.raises(ValueError, match="negative"):
        nx.single_source_dijkstra_path_length(graph, 0, **OURS)


def test_as_a_default_it_gives_networkx_results(monkeypatch):
    graph = mixed(nx.Graph)
    calls = []
    real = nx_backend.single_source_shortest_path_length
    monkeypatch.setattr(
        nx_backend, "single_source_shortest_path_length", lambda *args, **kwargs: calls.append(args) or real(*args, **kwargs)
    )
    source = next(iter(graph))
    expected = nx.single_source_shortest_path_length(graph, source)
    with nx.config.backend_priority(algos=["hinterland"]):
        # One search alone is not worth a conversion; another one of a converted graph is.
        assert nx.single_source_shortest_path_length(graph, source) == expected
        assert len(calls) == 0
        assert nx.pagerank(graph) == pytest.approx(nx.pagerank(graph, backend="networkx"), abs=1e-6)
        assert nx.single_source_shortest_path_length(graph, source) == expected
        assert len(calls) == 1
        # Trees are not unique; nobody gets another one without asking for it.
        assert list(nx.bfs_edges(graph, source)) == list(nx.bfs_edges(graph, source, backend="networkx"))


def test_a_converted_graph_is_used_again_and_comes_back(monkeypatch):
    graph = mixed(nx.MultiDiGraph)
    converted = nx_backend.convert_from_nx(graph, edge_attrs={"weight": 1})
    monkeypatch.setattr(hl, "from_networkx", lambda *_: pytest.fail("converted again"))
    source = next(iter(graph))
    assert nx.single_source_dijkstra_path_length(converted, source) == nx.single_source_dijkstra_path_length(graph, source)
    assert nx.single_source_shortest_path_length(converted, source) == nx.single_source_shortest_path_length(graph, source)
    with pytest.raises(NotImplementedError) as refused:
        nx.single_source_dijkstra_path_length(converted, source, weight="hops", **OURS)
    assert "converted with the attribute 'weight', not 'hops'" in str(refused.value.__cause__)
    back = nx_backend.convert_to_nx(converted)
    assert type(back) is type(graph) and list(back) == list(graph)
    assert sorted(map(str, back.edges(data="weight"))) == sorted(str(e) for e in graph.edges(data="weight", default=1))
    assert nx_backend.convert_to_nx({1: 2}) == {1: 2}


def test_where_it_runs_is_configured(monkeypatch):
    seen = []
    real = hl.bfs
    monkeypatch.setattr(hl, "bfs", lambda *args, **options: seen.append(options) or real(*args, **options))
    with nx.config.backends.hinterland(device="cpu", gpu_budget="1GiB"):
        nx.single_source_shortest_path_length(nx.path_graph(4), 0, **OURS)
    assert seen == [{"device": "cpu", "gpu_budget": "1GiB"}]


def test_what_is_announced_is_there():
    announced = nx.utils.backends.backend_info["hinterland"]["functions"]
    here = {
        name
        for name, value in vars(nx_backend).items()
        if not name.startswith("_") and name in nx.utils.backends._registered_algorithms and callable(value)
    }
    assert announced.keys() == here
    assert "hinterland" in nx.pagerank.__doc__


OWN_TESTS = {
    "centrality": (
        "betweenness_centrality",
        "degree_centrality",
        "eigenvector_centrality",
        "katz_centrality",
        "closeness_centrality",
    ),
    "components": ("connected", "strongly_connected", "weakly_connected"),
    "link_analysis": ("pagerank", "hits"),
    "shortest_paths": ("generic", "unweighted", "weighted"),
    "traversal": ("bfs",),
    "community": ("leiden", "louvain"),
    "tree": ("recognition",),
    "operators": ("unary",),
    "": (
        "core",
        "cluster",
        "distance_measures",
        "isolate",
        "link_prediction",
        "lowest_common_ancestors",
        "reciprocity",
        "wiener",
    ),
}


# Tests of what no documentation promises, and why they fail here: docs/networkx.md.
FAILING = {
    "test_condensation_mapping_and_members": "counts on the order in which Tarjan's algorithm finds components",
    "test_directed_partition": "the communities of one order of drawing",
    "test_karate_club_partition": "the same",
    "test_max_level": "the same communities as of louvain_partitions, which networkx computes",
    "test_none_weight_param": "the communities of one order of drawing",
    "test_undirected_selfloops": "the same",
    "test_zero_cycle_smoke": "Dijkstra's algorithm where a weight is negative",
}


def test_networkx_own_tests_pass():
    """networkx can run its tests with every graph converted and every function that a backend has called there."""
    modules = [
        ".".join(filter(None, ("networkx.algorithms", folder, f"tests.test_{name}")))
        for folder, names in OWN_TESTS.items()
        for name in names
    ]
    modules.append("networkx.generators.tests.test_ego")
    # The tests' graphs are too small for threads.
    backend = {"NETWORKX_TEST_BACKEND": "hinterland", "NETWORKX_FALLBACK_TO_NX": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "--pyargs", *modules]
    fewer = ["-k", "not test_use_bounds_on_off_consistency", "--tb=line"]  # hundreds of graphs
    done = subprocess.run(
        [*command, *fewer], env={**os.environ, **backend}, capture_output=True, text=True, timeout=280, cwd="/"
    )
    failed = {line.split(" - ")[0].rpartition("::")[2] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == set(FAILING) and " passed" in done.stdout, done.stdout[-4000:]


def test_importing_networkx_does_not_import_torch():
    code = "import networkx, sys; assert 'hinterland' in networkx.utils.backends.backends; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "limit", [sys.maxsize, 2**31, 2**32 + 1, 10**30, 10**400, 1e300, float("inf"), float("nan"), 1.5, 0, -1]
)
def test_limits_of_any_size(limit):
    graph = nx.path_graph(5)
    nx.set_edge_attributes(graph, {edge: edge[0] / 2 for edge in graph.edges}, "half")  # the first is 0
    calls = [
        lambda **where: nx.single_source_shortest_path_length(graph, 0, limit, **where),
        lambda **where: nx.single_source_dijkstra_path_length(graph, 0, limit, **where),
        lambda **where: nx.single_source_dijkstra_path(graph, 0, limit, "half", **where),
        lambda **where: nx.descendants_at_distance(graph, 0, limit, **where),
        lambda **where: set(nx.ego_graph(graph, 0, limit, **where)),
    ]
    for call in calls:
        assert call(**OURS) == call()


def test_a_view_is_asked_anew():
    graph = nx.path_graph(6)
    view = graph.subgraph(range(4))
    assert nx.is_connected(view, **OURS)
    graph.remove_edge(1, 2)
    assert not nx.is_connected(view, **OURS)
    directed = nx.DiGraph([(0, 1), (1, 2)])
    both_ways = directed.to_undirected(as_view=True)
    assert nx.number_connected_components(both_ways, **OURS) == 1
    directed.add_edge(7, 8)
    assert nx.number_connected_components(both_ways, **OURS) == 2


@pytest.mark.parametrize("weight", [2**62, 2**70 + 5, 10**400])
def test_integers_beyond_64_bits_are_left_to_networkx(weight, monkeypatch):
    graph = nx.path_graph(6)
    nx.set_edge_attributes(graph, weight, "weight")
    with pytest.raises(NotImplementedError):
        nx.single_source_dijkstra_path_length(graph, 0, **OURS)
    monkeypatch.setattr(nx.config.backend_priority, "algos", ["hinterland"])
    assert nx.single_source_dijkstra_path_length(graph, 0)[5] == 5 * weight


def test_what_wants_a_part_is_left_to_networkx():
    graph = nx.path_graph(5)
    assert nx_backend.should_run("diameter", (graph,), {"usebounds": False}) is True
    for name, arguments in [
        ("diameter", {"usebounds": True}), ("triangles", {"nodes": [1]}), ("all_pairs_shortest_path_length", {"cutoff": 0})
    ]:  # fmt: skip
        assert "part" in nx_backend.should_run(name, (graph,), arguments)
    assert "part" in nx_backend.should_run("triangles", (graph, [1]), {})


def test_one_search_is_not_worth_a_conversion():
    graph = nx.path_graph(5)
    calls = [
        ("single_source_dijkstra_path_length", (graph, 0), {}),
        ("single_source_bellman_ford_path_length", (graph, 0), {}),
        ("closeness_centrality", (graph,), {"u": 0}),
        ("eccentricity", (graph, 0), {}),
        ("harmonic_centrality", (graph, [0]), {}),
        ("has_path", (graph, 0, 1), {}),
        ("dijkstra_path_length", (graph, 0, 1), {}),
    ]
    for name, args, kwargs in calls:
        assert "converting" in nx_backend.should_run(name, args, kwargs)
    nx.pagerank(graph, **OURS)
    assert all(nx_backend.should_run(*call) is True for call in calls)
    for name in ("closeness_centrality", "eccentricity", "harmonic_centrality"):
        assert nx_backend.should_run(name, (nx.path_graph(5),), {}) is True


def test_isolates_of_every_kind():
    for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph):
        graph = kind([(0, 0), (1, 2)])
        graph.add_node(3)
        assert [nx.is_isolate(graph, node, **OURS) for node in graph] == [False, False, False, True]


def test_the_null_graph_has_no_center():
    same_error(lambda **where: nx.center(nx.Graph(), **where))
