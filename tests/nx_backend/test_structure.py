"""networkx's spectral scores, triangles, cores and communities."""

from __future__ import annotations

import math

import networkx as nx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from .samples import DIGRAPHS, GRAPHS, OURS, same_error, same_outcome, small_graphs

SIMPLE = (nx.Graph, nx.DiGraph)


def close(ours, theirs):
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


@settings(max_examples=40)
@given(small_graphs(), st.sampled_from([None, "weight"]), st.booleans(), st.data())
def test_scores_by_iteration_are_networkx_own(graph, weight, normalized, data):
    start = {node: data.draw(st.integers(1, 5)) for node in graph} if data.draw(st.booleans()) else None
    beta = data.draw(st.sampled_from([1.0, 2, dict.fromkeys(graph, 1.5), {"nowhere": 1}]))
    alpha = data.draw(st.sampled_from([0.001, 0.01]))
    katz = {"alpha": alpha, "beta": beta, "normalized": normalized, "weight": weight}
    same_outcome(lambda **b: nx.katz_centrality(graph, **katz, nstart=start and dict(start), **b), close)
    same_outcome(lambda **b: nx.eigenvector_centrality(graph, weight=weight, nstart=start, **b), close)


def weighted(kind, *edges):
    graph = kind()
    graph.add_weighted_edges_from(edges)
    return graph


def two_stars(apart):
    """Of which the heavier one has all, however little it is heavier."""
    stars = (("a", 1.0), ("b", 1.0 + apart))
    return weighted(nx.DiGraph, *((star, f"{star}{leaf}", weight) for star, weight in stars for leaf in range(5)))


HUBS = {
    "karate": nx.karate_club_graph(),
    "random": nx.gnp_random_graph(90, 0.1, seed=2, directed=True),
    "cycle and path": nx.compose(nx.cycle_graph(21), nx.path_graph([0, *range(1000, 1020)])),
    "triangles": nx.triangular_lattice_graph(30, 40),
    "two stars": two_stars(1e-2),
    "stars nearly alike": two_stars(1e-6),
    "both signs": weighted(nx.DiGraph, (0, 1, 3), (0, 2, -1), (1, 2, 1), (2, 0, 2)),
    "negative": weighted(nx.Graph, (0, 1, -3), (1, 2, -1.5), (2, 2, -1)),
    "parallel": weighted(nx.MultiDiGraph, (0, 1, 3), (0, 1, -1), (1, 2, 0.5), (2, 0, 1), (2, 2, 1)),
    "parallel, both ways": weighted(nx.MultiGraph, (0, 1, 3), (1, 0, 1), (1, 2, 1), (2, 2, 5)),
    "two nodes": nx.path_graph(2, create_using=nx.DiGraph),
}


@pytest.mark.parametrize("graph", HUBS.values(), ids=HUBS)
@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("starts", [None, "ones", "both signs"])
def test_hubs_and_authorities(graph, normalized, starts):
    start = {node: -1.0 if starts == "both signs" and i % 3 == 0 else 1.0 for i, node in enumerate(graph)} if starts else None
    options = {"normalized": normalized, "nstart": start, "max_iter": 1000}
    ours, theirs = nx.hits(graph, **options, **OURS), nx.hits(graph, **options)
    sign = 1
    if not normalized:  # then ARPACK's start decides on the sign
        most = max(theirs[1], key=lambda node: abs(theirs[1][node]))
        sign = -1 if ours[1][most] * theirs[1][most] < 0 else 1
    for found, right in zip(ours, theirs, strict=True):
        assert {node: sign * value for node, value in found.items()} == pytest.approx(right, abs=1e-6)
    assert nx.hits(graph, **options, **OURS) == ours


@pytest.mark.parametrize("graph", [nx.grid_2d_graph(12, 12), nx.gnp_random_graph(30, 0.05, seed=4)], ids=["grid", "tree"])
def test_hubs_where_several_answers_are_right(graph):
    """Of graphs with two sides networkx draws one, with negative scores even where no weight is negative."""
    hubs, authorities = nx.hits(graph, **OURS)
    assert (hubs, authorities) == nx.hits(graph, **OURS)
    assert min(*hubs.values(), *authorities.values()) > -1e-12
    for scores, other in ((hubs, authorities), (authorities, hubs)):
        sums = {node: sum(other[near] for near in graph[node]) for node in graph}
        assert scores == pytest.approx({node: value / sum(sums.values()) for node, value in sums.items()}, abs=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda **b: nx.hits(nx.empty_graph(1), **b),
        lambda **b: nx.hits(nx.empty_graph(4), **b),
        lambda **b: nx.hits(nx.DiGraph([(0, 0)]), **b),
        lambda **b: nx.hits(nx.path_graph(4), nstart={0: 1}, **b),
        lambda **b: nx.hits(nx.path_graph(4), nstart={}, **b),
        lambda **b: nx.hits(nx.path_graph(4), nstart=dict.fromkeys(range(4), 1), **b),
        lambda **b: nx.hits(nx.path_graph(4), nstart=dict.fromkeys(range(4), 0), **b),
        lambda **b: nx.hits(nx.path_graph(4), tol=-1, **b),
        lambda **b: nx.hits(nx.path_graph(4), max_iter=-1, **b),
        lambda **b: nx.hits(nx.path_graph(300), max_iter=1, **b),
        lambda **b: nx.hits(weighted(nx.Graph, (0, 1, float("inf")), (1, 2, 1), (2, 3, 1)), **b),
    ],
)
def test_hubs_of_what_has_none_are_networkx_error(call):
    same_error(call)


@pytest.mark.parametrize("size", [1e200, 1e308, 1e-320])
def test_eigenvectors_by_weights_of_any_size(size):
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, size), (1, 2, size), (2, 0, size), (0, 2, size)])
    same_outcome(lambda **b: nx.eigenvector_centrality(graph, weight="weight", max_iter=1000, **b), close)


def test_scores_by_infinite_weights_are_networkx_own():
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, math.inf), (1, 2, 1.0)])
    for call in (nx.katz_centrality, nx.eigenvector_centrality):
        with nx.config.backend_priority(algos=["hinterland"]), pytest.raises(nx.PowerIterationFailedConvergence):
            call(graph, weight="weight")
    same_outcome(lambda **b: nx.hits(graph, **b), close)


def test_an_eigenvector_of_zeros_is_networkx_own():
    same_outcome(lambda **b: nx.eigenvector_centrality(nx.Graph([(0, 0, {"weight": -1.0})]), weight="weight", **b))


def test_an_alpha_that_is_no_number_is_networkx_error():
    same_error(lambda **b: nx.katz_centrality(nx.path_graph(3), alpha=None, **b))


@settings(max_examples=60)
@given(small_graphs(), st.integers(0, 9))
def test_triangles_and_cores_of_small_graphs(graph, i):
    some, node = list(graph)[:2], list(graph)[i % len(graph)]
    for call in (
        lambda **b: nx.triangles(graph, **b),
        lambda **b: nx.triangles(graph, some, **b),
        lambda **b: nx.triangles(graph, node, **b),
        lambda **b: nx.core_number(graph, **b),
        lambda **b: nx.number_of_selfloops(graph, **b),
        lambda **b: nx.is_tree(graph, **b),
        lambda **b: nx.is_forest(graph, **b),
        lambda **b: nx.is_arborescence(graph, **b),
        lambda **b: nx.is_branching(graph, **b),
        lambda **b: nx.is_negatively_weighted(graph, **b),
    ):
        same_outcome(call)
    if graph.is_directed() and not graph.is_multigraph():
        for call in (
            lambda **b: nx.reciprocity(graph, **b),
            lambda **b: nx.reciprocity(graph, some, **b),
            lambda **b: nx.reciprocity(graph, node, **b),
            lambda **b: nx.overall_reciprocity(graph, **b),
        ):
            same_outcome(call)
    if not graph.is_directed():
        for call in (
            lambda **b: nx.clustering(graph, **b),
            lambda **b: nx.clustering(graph, node, **b),
            lambda **b: nx.average_clustering(graph, **b),
            lambda **b: nx.average_clustering(graph, count_zeros=False, **b),
            lambda **b: nx.transitivity(graph, **b),
        ):
            same_outcome(call, close)


@settings(max_examples=40)
@given(small_graphs(), st.sampled_from([0.5, 1, 2]))
def test_communities_of_small_graphs(graph, resolution):
    ours = nx.community.louvain_communities(graph, resolution=resolution, seed=1, **OURS)
    assert nx.community.is_partition(graph, ours)
    assume(graph.size(weight="weight") > 0)
    alone = [{node} for node in graph]
    reached, least = (nx.community.modularity(graph, parts, resolution=resolution) for parts in (ours, alone))
    assert reached >= least - 1e-9


@settings(max_examples=40)
@given(small_graphs(kinds=(nx.Graph, nx.MultiGraph)), st.sampled_from([0.5, 1, 2]), st.sampled_from(["weight", None]))
def test_leiden_of_small_graphs(graph, resolution, weight):
    """Against the paper's promises: communities are connected, and no node gains by going elsewhere."""
    parts = nx.community.leiden_communities(graph, weight, resolution, seed=1, **OURS)
    assert nx.community.is_partition(graph, parts)
    assume(graph.size(weight=weight) > 0)
    joined = nx.Graph((u, v) for u, v, w in graph.edges(data=weight or "none", default=1) if w > 0)
    joined.add_nodes_from(graph)
    assert all(nx.is_connected(joined.subgraph(part)) for part in parts)

    def score(parts):
        return nx.community.modularity(graph, [part for part in parts if part], weight, resolution)

    best = score(parts)
    for node in graph:
        without = [part - {node} for part in parts]
        moved = ([*without[:i], without[i] | {node}, *without[i + 1 :]] for i in range(len(parts)))
        assert max(map(score, [*moved, [*without, {node}]])) <= best + 1e-9


@pytest.mark.parametrize("size", [1e155, 1e200, 1e-300, 1e-320, 1e308])
def test_communities_by_weights_of_any_size(size):
    club = nx.karate_club_graph()
    right = nx.community.modularity(club, nx.community.leiden_communities(club, weight=None, seed=2, **OURS), weight=None)
    nx.set_edge_attributes(club, size, "weight")
    if size < 1e300:
        same_error(lambda **b: nx.community.louvain_communities(club, seed=2, **b))
    else:
        with pytest.raises(NotImplementedError):
            nx.community.louvain_communities(club, seed=2, **OURS)
    found = nx.community.leiden_communities(club, seed=2, **OURS)
    assert nx.community.modularity(club, found, weight=None) == pytest.approx(right, abs=1e-3)
    with pytest.raises(NotImplementedError):
        nx.community.louvain_communities(club, weight=None, resolution=math.inf, **OURS)


def test_leiden_as_networkx_calls_it():
    club = nx.karate_club_graph()
    found = nx.community.leiden_communities(club, seed=2, **OURS)
    assert nx.community.modularity(club, found) == pytest.approx(0.4449, abs=1e-4)
    with nx.config.backend_priority(algos=["hinterland"]):  # networkx has none of its own to choose other communities
        assert nx.community.leiden_communities(club, seed=2) == found
    assert len(nx.community.leiden_communities(club, max_level=1, seed=2, **OURS)) >= len(found)
    for options, error in (({"max_level": 0}, ValueError), ({"resolution": -1}, NotImplementedError)):
        with pytest.raises(error):
            nx.community.leiden_communities(club, **options, **OURS)
    with pytest.raises(nx.NetworkXNotImplemented):
        nx.community.leiden_communities(nx.DiGraph(club), **OURS)


@settings(max_examples=60)
@given(small_graphs(), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10)), max_size=9))
def test_jaccard_of_small_graphs(graph, pairs):
    named = [*graph, "nowhere"]
    ends = [(named[i % len(named)], named[j % len(named)]) for i, j in pairs]
    same_outcome(lambda **b: list(nx.jaccard_coefficient(graph, ends, **b)))
    same_outcome(lambda **b: {(frozenset((u, v)), score) for u, v, score in nx.jaccard_coefficient(graph, **b)})


def test_jaccard_as_networkx_calls_it(monkeypatch):
    graph = nx.gnp_random_graph(60, 0.2, seed=3)
    right = {frozenset((u, v)): score for u, v, score in nx.jaccard_coefficient(graph)}
    monkeypatch.setattr("hinterland.nx_backend.edges._PAIRS_AT_ONCE", 200)
    found = list(nx.jaccard_coefficient(graph, **OURS))
    assert {frozenset((u, v)): score for u, v, score in found} == right and len(found) == len(right)
    pairs = [(u, v) for u, v, _ in found]
    assert list(nx.jaccard_coefficient(graph, iter(pairs), **OURS)) == list(nx.jaccard_coefficient(graph, pairs))
    assert list(nx.jaccard_coefficient(nx.complete_graph(5), **OURS)) == []
    for pair in (("A", 1), (0, (1,)), (0, [1])):
        same_error(lambda pair=pair, **b: nx.jaccard_coefficient(graph, [pair], **b))


@pytest.mark.parametrize(
    "graph",
    [*GRAPHS[:6], *DIGRAPHS, pytest.param(nx.planted_partition_graph(6, 30, 0.4, 0.02, seed=1), id="planted")],
)
def test_communities_are_about_as_good_as_networkx_own(graph):
    best = {}
    if not graph.is_directed():
        found = [nx.community.leiden_communities(graph, seed=seed, **OURS) for seed in range(4)]
        best["leiden"] = max(nx.community.modularity(graph, parts) for parts in found)
    for backend in ("hinterland", "networkx"):
        found = [nx.community.louvain_communities(graph, seed=seed, backend=backend) for seed in range(4)]
        assert all(nx.community.is_partition(graph, parts) for parts in found)
        best[backend] = max(nx.community.modularity(graph, parts) for parts in found)
    assert best["hinterland"] >= best["networkx"] - 0.02 and best.get("leiden", 1) >= best["networkx"] - 0.005
    again = [nx.community.louvain_communities(graph, seed=3, **OURS) for _ in range(2)]
    assert again[0] == again[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda **b: nx.eigenvector_centrality(nx.Graph(), **b),
        lambda **b: nx.eigenvector_centrality(nx.path_graph(3), nstart={0: 0, 1: 0, 2: 0}, **b),
        lambda **b: nx.eigenvector_centrality(nx.path_graph(3), max_iter=0, **b),
        lambda **b: nx.eigenvector_centrality(nx.MultiGraph([(0, 1)]), **b),
        lambda **b: nx.katz_centrality(nx.path_graph(3), max_iter=0, **b),
        lambda **b: nx.katz_centrality(nx.complete_graph(9), max_iter=5, **b),
        lambda **b: nx.hits(nx.path_graph(3), max_iter=0, **b),
        lambda **b: nx.triangles(nx.DiGraph(), **b),
        lambda **b: nx.core_number(nx.Graph([(0, 0)]), **b),
        lambda **b: nx.average_clustering(nx.Graph(), **b),
        lambda **b: nx.community.louvain_communities(nx.path_graph(3), max_level=0, **b),
    ],
)
def test_errors_are_networkx_own(call):
    same_error(call)


def test_empty_graphs():
    for call in (nx.hits, nx.katz_centrality, nx.triangles, nx.clustering, nx.core_number, nx.transitivity):
        assert call(nx.Graph(), **OURS) == call(nx.Graph())


def test_a_graph_that_stores_its_complement():
    """networkx's own, of which its ``approximation.k_components`` asks the core numbers."""
    sparse = nx.algorithms.approximation.kcomponents._AntiGraph(nx.complete_graph(12))
    sparse.remove_edge(3, 5)
    assert nx.core_number(sparse, **OURS) == nx.core_number(sparse) == {node: int(node in (3, 5)) for node in range(12)}
