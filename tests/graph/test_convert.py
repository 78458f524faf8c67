"""Conversions: what networkx, scipy and igraph say of a graph is what ours holds, and the way back gives the same graph."""

from __future__ import annotations

import random
import sys

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError, GraphError

KINDS = [networkx.Graph, networkx.DiGraph, networkx.MultiGraph, networkx.MultiDiGraph]


def labelled(kind: type, seed: int, weight: str | None = None, real: bool = False):
    """A graph with nodes of all sorts, self loops, parallel edges where it may have them, and isolated nodes."""
    draw = random.Random(seed)
    nodes = [*"kitten", 3, 1, (2, "two"), None.__class__, *range(20, 30)]
    nodes = list(dict.fromkeys(nodes))
    graph = kind()
    graph.add_nodes_from(nodes)
    for _ in range(60):
        u, v = draw.choices(nodes[:-3], k=2)
        graph.add_edge(u, v)
        if weight and draw.random() < 0.7:
            key = {"key": max(graph[u][v])} if graph.is_multigraph() else {}
            value = draw.random() if real else draw.randrange(-1000, 1000)
            networkx.set_edge_attributes(graph, {(u, v, *key.values()): value}, weight)
    return graph


def edges_of(graph, weight: str | None, directed: bool) -> list:
    """Every edge, sorted, as comparable text."""
    found = []
    for u, v, data in graph.edges(data=True):
        ends = (repr(u), repr(v)) if directed else tuple(sorted((repr(u), repr(v))))
        found.append((*ends, data.get(weight, 1) if weight else None))
    return sorted(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("weight", "real"), [(None, False), ("cost", False), ("cost", True)])
def test_networkx_there_and_back(kind, weight, real):
    theirs = labelled(kind, 3, weight, real)
    ours = hl.from_networkx(theirs, weight)
    assert ours.directed == theirs.is_directed()
    assert ours.has_sorted_lists
    assert list(ours.labels) == list(theirs)
    if weight:
        assert ours.weights.dtype == (torch.float64 if real else torch.int32)
    for v, node in enumerate(theirs):
        neighbors = [node for node, edges in theirs[node].items() for _ in (edges if theirs.is_multigraph() else "1")]
        row = ours.indices[ours.indptr[v] : ours.indptr[v + 1]].tolist()
        assert sorted(map(repr, (ours.labels[i] for i in row))) == sorted(map(repr, neighbors))
    back = ours.to_networkx("cost")
    assert list(back) == list(theirs)
    assert back.is_directed() == theirs.is_directed()
    assert edges_of(back, weight, back.is_directed()) == edges_of(theirs, weight, back.is_directed())


@pytest.mark.parametrize("kind", KINDS)
def test_networkx_matrices_are_the_same(kind):
    theirs = labelled(kind, 5, "weight")
    expected = networkx.to_scipy_sparse_array(theirs)  # adds parallel edges up
    ours = hl.from_networkx(theirs, "weight").to_scipy()
    ours.sum_duplicates()
    assert abs(ours - expected).sum() == 0


def test_numbers_from_0_need_no_labels():
    assert hl.from_networkx(networkx.karate_club_graph()).labels is None
    assert hl.from_networkx(networkx.Graph()).num_vertices == 0
    assert hl.from_networkx(networkx.path_graph([1, 0, 2])).labels == [1, 0, 2]
    assert hl.from_networkx(networkx.path_graph([0.0, True, 2])).labels == [0.0, True, 2]  # equal to numbers, but none


def test_a_class_with_neighbours_of_its_own_is_asked_for_them():
    """networkx's own complement of a sparse graph stores the edges that it does not have."""
    complement = networkx.algorithms.approximation.kcomponents._AntiGraph
    theirs = networkx.relabel_nodes(networkx.karate_club_graph(), lambda node: f"member {node}")
    ours = hl.from_networkx(complement(networkx.complement(theirs)), weight="weight")
    assert edges_of(ours.to_networkx(), None, False) == edges_of(theirs, None, False)
    assert (ours.weights == 1).all()


def test_labels_go_with_the_graph():
    ours = hl.from_networkx(labelled(networkx.DiGraph, 1))
    for derived in (ours.transpose(), hl.random_weights(ours), hl.graph.simplify(ours, remove_duplicates=True)):
        assert derived.labels == ours.labels
    assert ours.transpose().to_networkx().edges == ours.to_networkx().reverse().edges


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2], torch.int32),
        ([True, False], torch.int32),
        ([1, 2**31], torch.int64),
        ([-(2**31) - 1, 0], torch.int64),
        ([2**63, 2**63 + 2048], torch.float64),
        ([2**63, 1], torch.float64),
        ([1, 2.5], torch.float64),
        ([2**70, 1], torch.float64),
        ([np.float32(1.5), np.float32(1)], torch.float64),
        ([np.uint8(200), np.int8(-1)], torch.int32),
    ],
)
def test_weights_take_the_type_that_holds_them(values, dtype):
    theirs = networkx.DiGraph()
    theirs.add_weighted_edges_from([(0, 1, values[0]), (1, 0, values[1])])
    weights = hl.from_networkx(theirs, "weight").weights
    assert weights.dtype == dtype
    assert [value.item() for value in weights] == values


@pytest.mark.parametrize("value", ["heavy", None, 1j, [1, 2], (1,)])
def test_a_weight_that_is_no_number_is_named(value):
    theirs = networkx.path_graph("abc")
    theirs["b"]["c"]["weight"] = value
    with pytest.raises(GraphError, match=r"edge \('b', 'c'\) has weight .*no real number"):
        hl.from_networkx(theirs, "weight")
    theirs["b"]["c"]["weight"] = float("nan")
    with pytest.raises(GraphError, match="NaN"):
        hl.from_networkx(theirs, "weight")


@pytest.mark.parametrize("digits", [400, 5000])  # Python prints no number of more than 4300
def test_an_integer_beyond_the_floats_is_named(digits):
    igraph, value = pytest.importorskip("igraph"), -(10**digits)
    for make in (
        lambda: hl.from_networkx(networkx.Graph([(0, 10**5000, {"weight": value})]), "weight"),
        lambda: hl.from_igraph(igraph.Graph(2, [(0, 1)], edge_attrs={"weight": [value]}), "weight"),
    ):
        with pytest.raises(GraphError, match=r"edge \(0, .*\) has weight .*beyond 1\.8e308"):
            make()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize("make", [scipy.sparse.random_array, scipy.sparse.random])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.int64, np.uint8, bool])
def test_scipy_there_and_back(form, make, dtype):
    size = (40, 40) if make is scipy.sparse.random_array else 40
    theirs = (make(*((size,) if isinstance(size, tuple) else (40, 40)), density=0.1, rng=3) * 100).astype(dtype).asformat(form)
    ours = hl.from_scipy(theirs)
    assert ours.directed
    assert (ours.weights is None) == (dtype is bool)
    back = ours.to_scipy()
    assert back.has_canonical_format
    assert abs(back - theirs.astype(back.dtype)).sum() == 0
    back.data[:] = 0
    assert ours.weights is None or ours.weights.any()


def test_scipy_keeps_parallel_edges_and_zeros():
    entries = (np.array([0.0, 2.0, 3.0]), (np.array([0, 1, 1]), np.array([1, 0, 0])))
    ours = hl.from_scipy(scipy.sparse.coo_array(entries, shape=(3, 3)))
    assert ours.indices.tolist() == [1, 0, 0] and ours.weights.tolist() == [0, 2, 3]
    assert not hl.from_scipy(scipy.sparse.eye_array(3), directed=False).directed


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8, torch.float64])
def test_scipy_takes_every_weight_type(dtype):
    graph = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([2, 3]).to(dtype))
    assert graph.to_scipy().toarray().tolist() == [[0, 2], [3, 0]]
    assert graph.to_networkx()[1][0]["weight"] == 3


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weight", [None, "cost"])
def test_igraph_there_and_back(directed, weight):
    igraph = pytest.importorskip("igraph")
    draw = random.Random(8)
    edges = [tuple(draw.choices(range(20), k=2)) for _ in range(80)]
    theirs = igraph.Graph(23, edges, directed=directed)
    theirs.vs["name"] = [f"v{i}" for i in range(23)]
    theirs.es["cost"] = [draw.randrange(100) for _ in edges]
    ours = hl.from_igraph(theirs, weight)
    assert ours.directed == directed and ours.labels == theirs.vs["name"]
    assert sorted(ours.to_scipy().indices[: ours.indptr[1]]) == sorted(theirs.neighbors(0, "out", loops="once"))
    back = ours.to_igraph("cost")
    assert back.vs["name"] == theirs.vs["name"] and back.is_directed() == directed

    def listed(graph):
        costs = graph.es["cost"] if weight else [0] * graph.ecount()
        return sorted((*(e if directed else sorted(e)), cost) for e, cost in zip(graph.get_edgelist(), costs, strict=True))

    assert listed(back) == listed(theirs)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: hl.from_networkx([(0, 1)]), "takes a networkx graph, not list"),
        (lambda: hl.from_scipy(np.eye(3)), "takes a sparse matrix of scipy, not ndarray"),
        (lambda: hl.from_scipy(scipy.sparse.csr_array((3, 4))), r"shape \(3, 4\), but only a square one"),
        (lambda: hl.from_scipy(scipy.sparse.csr_array(np.eye(3) * 1j)), "type complex128 are no real numbers"),
    ],
)
def test_what_is_no_graph_gets_a_sentence(make, says):
    with pytest.raises((ConfigError, GraphError), match=says):
        make()


@pytest.mark.parametrize("package", ["networkx", "scipy", "igraph"])
def test_a_missing_package_gets_a_sentence(package, monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse" if package == "scipy" else package, None)
    with pytest.raises(ConfigError, match=f"pip install {package}"):
        getattr(hl, f"from_{package}")(None)


def test_an_igraph_without_the_attribute_gets_a_sentence():
    igraph = pytest.importorskip("igraph")
    with pytest.raises(ConfigError, match="no attribute 'cost'; they have none"):
        hl.from_igraph(igraph.Graph(2, [(0, 1)]), "cost")
    with pytest.raises(ConfigError, match=r"takes an igraph\.Graph"):
        hl.from_igraph("no graph")
