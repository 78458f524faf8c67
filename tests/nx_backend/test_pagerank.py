"""networkx's PageRank: its own iterations, so its own error."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .samples import DIGRAPHS, GRAPHS, OURS, same_error, same_outcome, small_graphs, some_nodes


def exact(graph, alpha=0.85, personalization=None, weight="weight", dangling=None):
    """The scores as the solution of linear equations."""
    nodes, n = list(graph), len(graph)

    def vector(given, otherwise):
        if given is None:
            return otherwise
        found = np.array([given.get(node, 0) for node in nodes], dtype=float)
        return found / found.sum()

    p = vector(personalization, np.full(n, 1 / n))
    leaves = vector(dangling, p)
    matrix = nx.to_numpy_array(graph, nodelist=nodes, weight=weight, dtype=float)
    totals = matrix.sum(axis=1)
    walk = np.where((totals > 0)[:, None], matrix / np.where(totals > 0, totals, 1)[:, None], leaves)
    return np.linalg.solve(np.eye(n) - alpha * walk.T, (1 - alpha) * p)


def away(found, wanted):
    return np.abs(np.array(list(found.values())) - wanted).sum()


def close(ours, theirs):
    assert ours.keys() == theirs.keys()
    assert list(ours.values()) == pytest.approx(list(theirs.values()), rel=1e-9, abs=1e-12)


def test_the_karate_club():
    graph = nx.karate_club_graph()
    close(nx.pagerank(graph, **OURS), nx.pagerank(graph))


@pytest.mark.parametrize("graph", GRAPHS + DIGRAPHS)
@pytest.mark.parametrize("weight", ["weight", "hops", None])
def test_the_error_is_no_larger_than_networkx_own(graph, weight):
    nodes = some_nodes(graph)
    jumps, leaves = {node: 1 + i for i, node in enumerate(nodes)}, {nodes[-1]: 2}
    for options in ({}, {"personalization": jumps}, {"dangling": leaves}, {"personalization": jumps, "dangling": leaves}):
        options = {**options, "weight": weight}
        ours, theirs, wanted = nx.pagerank(graph, **options, **OURS), nx.pagerank(graph, **options), exact(graph, **options)
        close(ours, theirs)
        assert away(ours, wanted) <= away(theirs, wanted) * (1 + 1e-6) + 1e-13
        tight = nx.pagerank(graph, **options, tol=1e-14, max_iter=1000, **OURS)
        assert away(tight, wanted) < 1e-11


@settings(max_examples=60)
@given(small_graphs(), st.data())
def test_small_graphs(graph, data):
    shares = st.none() | st.dictionaries(st.sampled_from(list(graph)), st.integers(0, 3), min_size=1)
    options = {name: data.draw(shares.filter(lambda s: s is None or any(s.values()))) for name in _SHARES}
    options["alpha"] = data.draw(st.sampled_from([0, 0.5, 0.85]))
    same_outcome(lambda **backend: nx.pagerank(graph, **options, **backend), close)


_SHARES = ("nstart", "dangling", "personalization")


@pytest.mark.parametrize("options", [{"max_iter": 2}, {"max_iter": 0}, {"personalization": {0: 0}}, {"tol": 0}])
def test_errors_are_networkx_own(options):
    same_error(lambda **backend: nx.pagerank(nx.star_graph(9), **options, **backend))


@pytest.mark.parametrize("name", _SHARES)
@pytest.mark.parametrize(
    "share", [float("nan"), float("inf"), -float("inf"), None, "much", 10**400], ids=lambda value: str(value)[:9]
)
def test_shares_that_are_no_numbers_are_networkx_errors(name, share):
    shares = {name: {0: 1, 1: share}}
    same_error(lambda **backend: nx.pagerank(nx.star_graph(9), **shares, **backend))
    with nx.config.backend_priority(algos=["hinterland"]):
        same_error(lambda **_: nx.pagerank(nx.star_graph(9), **shares))


@pytest.mark.parametrize("name", _SHARES)
def test_shares_that_sum_to_infinity_are_left_to_networkx(name):
    graph, shares = nx.star_graph(9), {name: {0: 1e308, 1: 1e308}}
    theirs = nx.pagerank(graph, **shares)
    with pytest.raises(NotImplementedError):
        nx.pagerank(graph, **shares, **OURS)
    with nx.config.backend_priority(algos=["hinterland"]):
        close(nx.pagerank(graph, **shares), theirs)


@pytest.mark.parametrize("call", [nx.pagerank, nx.katz_centrality, nx.eigenvector_centrality])
@pytest.mark.parametrize(
    "options",
    [
        *({"max_iter": value} for value in (float("inf"), 2.5, "many", None, 10**30)),
        *({"tol": value} for value in (float("nan"), float("inf"), None)),
    ],
    ids=str,
)
def test_limits_of_iterations_are_networkx_own(call, options):
    same_outcome(lambda **backend: call(nx.path_graph(4), **options, **backend), close)


@pytest.mark.parametrize("weights", [(1e308, 1.0), (math.inf, 1.0), (1.0, 1e-320), (1e308, -1e308)], ids=str)
def test_sums_of_weights_beyond_the_floats_are_left_to_networkx(weights):
    """A node whose weights sum to infinity has no way on there."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, weights[0]), (0, 2, weights[0]), (1, 0, weights[1]), (2, 0, weights[1])])
    with pytest.raises(NotImplementedError):
        nx.pagerank(graph, **OURS)
    with nx.config.backend_priority(algos=["hinterland"]):
        try:
            theirs = nx.pagerank(graph, backend="networkx")
        except nx.PowerIterationFailedConvergence:
            with pytest.raises(nx.PowerIterationFailedConvergence):
                nx.pagerank(graph)
        else:
            assert nx.pagerank(graph) == theirs


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_large_and_small_weights(size):
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, size), (0, 2, 2 * size), (1, 0, size), (2, 1, size)])
    close(nx.pagerank(graph, **OURS), nx.pagerank(graph))
