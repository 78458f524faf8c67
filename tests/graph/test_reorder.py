"""Reordered graphs: the same graph under other numbers, which leads back to the old ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph import verify_bfs
from hinterland.graph.order import checked
from hinterland.graph.reorder import ORDERS, restored
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 40))
    ends = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=120))
    source, target = (torch.tensor([edge[i] for edge in ends], dtype=torch.int64) for i in (0, 1))
    weights = torch.arange(len(ends), dtype=torch.float32) if draw(st.booleans()) else None
    return hl.from_edges(source, target, weights, num_vertices=n, symmetrize=draw(st.booleans()))


def matrix(graph: hl.Graph) -> scipy.sparse.csr_matrix:
    """Edges as a matrix; those of parallel edges are summed."""
    values = np.ones(graph.num_edges) if graph.weights is None else 1 + graph.weights.numpy().astype(np.float64)
    shape = (graph.num_vertices, graph.num_vertices)
    arrays = (values, graph.indices.numpy().copy(), graph.indptr.numpy().copy())  # summed in place
    found = scipy.sparse.csr_matrix(arrays, shape=shape)
    found.sum_duplicates()
    return found


def bandwidth(graph: hl.Graph) -> int:
    rows = torch.arange(graph.num_vertices).repeat_interleave(graph.degrees())
    return int((rows - graph.indices).abs().max()) if graph.num_edges else 0


@given(graph=graphs(), by=st.sampled_from(ORDERS))
def test_a_reordered_graph_is_the_same_graph(graph, by):
    found = hl.reorder(graph, by)
    order = found.order.numpy()
    assert sorted(order) == list(range(graph.num_vertices))
    assert (matrix(found) != matrix(graph)[order][:, order]).nnz == 0
    assert (found.num_edges, found.directed) == (graph.num_edges, graph.directed)
    back = restored(found)
    assert back.order is None
    assert (matrix(back) != matrix(graph)).nnz == 0


@given(graph=graphs(), first=st.sampled_from(ORDERS), second=st.sampled_from(ORDERS))
def test_orders_add_up(graph, first, second):
    found = hl.reorder(hl.compress(graph, reorder=first), second)
    order = found.order.numpy()
    assert (matrix(found) != matrix(graph)[order][:, order]).nnz == 0


def test_degree_order_puts_hubs_first():
    graph = hl.reorder(hl.generate("kronecker", scale=8), "degree")
    degrees = graph.degrees()
    assert bool((degrees[:-1] >= degrees[1:]).all())
    ties = degrees[:-1] == degrees[1:]
    assert bool((graph.order[:-1] < graph.order[1:])[ties].all())


def test_bfs_order_is_an_order_of_levels():
    graph = hl.reorder(hl.generate("uniform", scale=8, seed=4), "bfs")
    levels = hl.bfs(graph, 0, device="cpu").levels
    reached = levels[levels >= 0]
    assert bool((reached[:-1] <= reached[1:]).all())
    assert len(reached) == int((levels[: len(reached)] >= 0).sum())  # components follow one another


@pytest.mark.parametrize("directed", [False, True])
def test_reverse_cuthill_mckee_is_as_narrow_as_scipys(directed):
    graph = hl.generate("grid", rows=30, cols=40, seed=3)
    if directed:  # each edge once: the order takes both directions all the same
        rows = torch.arange(graph.num_vertices).repeat_interleave(graph.degrees())
        up = rows < graph.indices
        graph = hl.from_edges(rows[up], graph.indices[up].long(), num_vertices=graph.num_vertices)
    theirs = scipy.sparse.csgraph.reverse_cuthill_mckee(matrix(graph) + matrix(graph).T, symmetric_mode=True)
    inverse = np.argsort(theirs)
    coo = matrix(graph).tocoo()
    narrow = np.abs(inverse[coo.row] - inverse[coo.col]).max()
    assert bandwidth(graph) > 500
    assert bandwidth(hl.reorder(graph, "rcm")) <= narrow + 2


def test_values_lead_back():
    graph = hl.generate("kronecker", scale=7)
    inner = hl.compress(graph, reorder="degree")
    source = 5
    there = hl.bfs(graph, source, device="cpu")
    found = hl.bfs(inner, int(inner.to_inner(source)), device="cpu")
    assert torch.equal(inner.to_outer(found.levels), there.levels)
    assert torch.equal(inner.to_outer(torch.stack([found.levels] * 2)), torch.stack([there.levels] * 2))
    verify_bfs(graph, source, type(there)(there.levels, inner.to_outer(found.parents, vertices=True)))
    assert torch.equal(inner.order[inner.to_inner(torch.arange(128))], torch.arange(128))
    assert graph.to_outer(there.levels) is there.levels
    assert graph.to_inner(torch.tensor([3, 1])).tolist() == [3, 1]


def test_what_is_refused():
    graph = hl.reorder(hl.generate("uniform", scale=4), "rcm")
    with pytest.raises(ConfigError, match="'spectral' is none of degree, bfs, rcm"):
        hl.reorder(graph, "spectral")
    with pytest.raises(IndexOutOfRange, match="vertex 16 is not in the graph"):
        graph.to_inner(torch.tensor([0, 16]))
    with pytest.raises(ConfigError, match="whole numbers"):
        graph.to_inner(torch.tensor([0.5]))
    with pytest.raises(ConfigError, match="16 vertices"):
        graph.to_outer(torch.zeros(3))
    with pytest.raises(GraphError, match=r"order\[1\] is 9"):
        checked(torch.tensor([0, 9, 1]), 3)
    with pytest.raises(GraphError, match="leaves out vertex 2"):
        checked(torch.tensor([0, 1, 1]), 3)
