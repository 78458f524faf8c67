"""Reordered graphs: the same graph under other numbers, which leads back to the old ones."""

from __future__ import annotations

import copy

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph import verify_bfs
from hinterland.graph.order import Order, checked
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
    levels = hl.bfs(graph, int(graph.order[0]), device="cpu").levels[graph.order]
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


@given(graph=graphs(), by=st.sampled_from(ORDERS), compressed=st.booleans())
def test_a_parent_comes_first_in_the_new_order(graph, by, compressed):
    """The one thing in which a reordering shows: of a vertex's neighbours a level nearer, the first in the new order."""
    found = hl.compress(graph, by) if compressed else hl.reorder(graph, by)
    levels, parents, _ = vars(hl.bfs(found, 0, device="cpu")).values()
    verify_bfs(found, 0, hl.graph.BfsResult(levels, parents))
    for i, v in enumerate(levels[found.order].tolist()):
        vertex = int(found.order[i])
        nearer = [
            j
            for j, row in enumerate(found.indices.split(found.degrees().tolist()))
            if i in row and levels[found.order[j]] == v - 1
        ]
        expected = 0 if vertex == 0 else -1 if v < 0 else int(found.order[min(nearer)])
        assert int(parents[vertex]) == expected


def test_names_and_conversions_keep_the_first_numbers():
    graph = hl.from_networkx(networkx.relabel_nodes(networkx.karate_club_graph(), lambda i: f"member {i}"), "weight")
    found = hl.compress(graph, reorder="degree")
    assert found.labels == graph.labels
    ours, theirs = found.to_networkx(), graph.to_networkx()
    assert list(ours) == list(theirs) and networkx.utils.graphs_equal(ours, theirs)
    assert (found.to_scipy() != graph.to_scipy()).nnz == 0
    assert found.to_igraph().get_edgelist() == graph.to_igraph().get_edgelist()


@pytest.mark.parametrize("directed", [False, True])
def test_random_weights_do_not_depend_on_the_order(directed):
    graph = hl.generate("kronecker", scale=8)
    graph = hl.Graph(graph.indptr, graph.indices, directed=directed)
    drawn, there = hl.random_weights(hl.compress(graph, "degree"), seed=3), hl.random_weights(graph, seed=3)
    assert (drawn.to_scipy() != there.to_scipy()).nnz == 0


def test_values_lead_back():
    graph = hl.generate("kronecker", scale=7)
    internal = hl.compress(graph, reorder="degree")
    degrees = graph.degrees()
    assert not torch.equal(internal.degrees(), degrees) and torch.equal(internal.to_original(internal.degrees()), degrees)
    assert torch.equal(internal.to_original(torch.stack([internal.degrees()] * 2)), torch.stack([degrees] * 2))
    last = torch.stack([row.max() if len(row) else torch.tensor(-1) for row in graph.indices.split(degrees.tolist())])
    own = internal.to_internal(last.clamp(min=0)).masked_fill(last < 0, -1)[internal.order]
    assert torch.equal(internal.to_original(own, vertices=True), last.long())
    assert torch.equal(internal.order[internal.to_internal(torch.arange(128))], torch.arange(128))
    assert graph.to_original(degrees) is degrees
    assert graph.to_internal(torch.tensor([3, 1])).tolist() == [3, 1]


def test_an_order_stays_one_when_a_gpu_has_read_it():
    order = Order(torch.randperm(50, generator=torch.Generator().manual_seed(1)))
    original, internal = order.original_ids.clone(), order.internal_ids.clone()
    tables = order._original_table, order._internal_table  # as a GPU's first lookups make them
    for one in (order, copy.deepcopy(order)):
        assert torch.equal(one.original_ids, original) and torch.equal(one.internal_ids, internal)
        assert (
            one.original_ids_on(torch.device("cpu"), 1) is one.original_ids
            and one.internal_ids_on(torch.device("cpu"), 1) is one.internal_ids
        )
    assert order.original_ids.data_ptr() == tables[0].cpu().data_ptr()  # not kept twice
    assert order.internal_ids.data_ptr() == tables[1].cpu().data_ptr()


def test_what_is_refused():
    graph = hl.reorder(hl.generate("uniform", scale=4), "rcm")
    with pytest.raises(ConfigError, match="'spectral' is none of degree, bfs, rcm"):
        hl.reorder(graph, "spectral")
    with pytest.raises(IndexOutOfRange, match="vertex 16 is not in the graph"):
        graph.to_internal(torch.tensor([0, 16]))
    with pytest.raises(ConfigError, match="whole numbers"):
        graph.to_internal(torch.tensor([0.5]))
    with pytest.raises(ConfigError, match="16 vertices"):
        graph.to_original(torch.zeros(3))
    with pytest.raises(GraphError, match=r"order\[1\] is 9"):
        checked(torch.tensor([0, 9, 1]), 3)
    with pytest.raises(GraphError, match="leaves out vertex 2"):
        checked(torch.tensor([0, 1, 1]), 3)
