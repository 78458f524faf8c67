"""Splits: every row has one owner, and the parts are even."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.fullgraph.split import BALANCES, Balance, imbalance, split
from hinterland.runtime.errors import ConfigError, GraphError

NO_EDGES = torch.empty(0, dtype=torch.int64)


@st.composite
def graphs(draw, most=40):
    """Directed graphs with isolated vertices, parallel edges and self loops; some have a vertex with most of the edges."""
    n = draw(st.integers(1, most))
    ends = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=4 * most))
    source, target = (torch.tensor([edge[i] for edge in ends], dtype=torch.int64) for i in (0, 1))
    if draw(st.booleans()):
        source[: len(ends) // 2] = draw(st.integers(0, n - 1))
    return hl.from_edges(source, target, num_vertices=n)


def loads(found, graph):
    """Edges that each part reads, entry by entry."""
    order = np.arange(graph.num_vertices) if found.order is None else found.order.numpy()
    row = np.argsort(order)
    owner = np.searchsorted(found.bounds, np.arange(graph.num_vertices), side="right") - 1
    matrix = graph.to_scipy().tocsr()
    rows = row[np.repeat(np.arange(graph.num_vertices), np.diff(matrix.indptr))]
    columns = row[matrix.indices]
    reader = np.where(np.isin(rows, found.hubs.numpy()), owner[columns], owner[rows])
    return np.bincount(reader, minlength=found.parts)


@given(graph=graphs(), parts=st.integers(1, 50), balance=st.sampled_from(BALANCES))
def test_every_row_has_one_owner(graph, parts, balance):
    found = split(graph, parts, balance)
    bounds = np.array(found.bounds)
    assert found.parts == parts and bounds[0] == 0 and bounds[-1] == graph.num_vertices and (np.diff(bounds) >= 0).all()
    order = torch.arange(graph.num_vertices) if found.order is None else found.order
    assert torch.equal(order.sort().values, torch.arange(graph.num_vertices))
    assert (found.order is None) == (found.numbers is None)
    if found.order is not None:
        assert torch.equal(found.order[found.numbers], torch.arange(graph.num_vertices))
        assert np.diff(bounds).max() - np.diff(bounds).min() <= 1
        for first, last in pairwise(bounds):
            assert bool((found.order[first:last].diff() > 0).all())
    degrees = graph.degrees()[order]
    assert found.hubs.tolist() == [
        row for row, d in enumerate(degrees.tolist()) if parts > 1 and d > parts and 20 * parts * d > graph.num_edges
    ]
    counts = loads(found, graph)
    reached = imbalance(found, graph)
    assert reached.edges == pytest.approx(counts.max() / counts.mean() if counts.sum() else 1)
    assert reached.rows == pytest.approx(np.diff(bounds).max() / np.diff(bounds).mean())


@given(graph=graphs(), parts=st.integers(1, 6))
def test_a_range_is_at_most_one_row_over_its_share(graph, parts):
    found = split(graph, parts, "contiguous")
    each = replace(found, bounds=tuple(range(graph.num_vertices + 1)))
    assert (loads(found, graph) <= graph.num_edges / parts + loads(each, graph).max()).all()


@pytest.mark.parametrize("parts", range(2, 9))
def test_dealt_parts_of_a_skewed_graph_are_even(parts):
    graph = hl.generate("kronecker", scale=10, edge_factor=16, seed=1)
    found = split(graph, parts, "dealt")
    reached = imbalance(found, graph)
    assert reached.edges <= 1.05 and reached.rows <= 1.05
    counts = loads(found, graph)
    assert counts.max() <= 1.05 * counts.mean() and counts.sum() == graph.num_edges


def test_auto_deals_only_where_ranges_are_uneven():
    even = hl.generate("ring", scale=10, edge_factor=4)
    skewed = hl.reorder(hl.generate("kronecker", scale=10, seed=2), "degree")
    skewed = hl.Graph(skewed.indptr, skewed.indices, directed=False)
    assert split(even, 4).order is None
    assert imbalance(split(skewed, 4, "contiguous"), skewed).rows > 1.05
    assert split(skewed, 4).order is not None


def test_the_list_of_a_hub_is_shared():
    spokes = torch.arange(1000)
    graph = hl.from_edges(torch.zeros(1000, dtype=torch.int64), spokes, num_vertices=1000)  # 0 sums over all vertices
    found = split(graph, 4)
    assert found.hubs.tolist() == [0] and imbalance(found, graph) == Balance(1.0, 1.0)
    assert split(graph, 1).hubs.tolist() == []


def test_without_edges_rows_are_even():
    graph = hl.from_edges(NO_EDGES, NO_EDGES, num_vertices=10)
    assert split(graph, 4, "contiguous").bounds == (0, 2, 5, 7, 10)
    assert split(graph, 4).bounds == (0, 3, 6, 8, 10)
    assert split(hl.from_edges(NO_EDGES, NO_EDGES, num_vertices=0), 3).bounds == (0, 0, 0, 0)
    assert split(hl.from_edges(NO_EDGES, NO_EDGES, num_vertices=2), 3, "dealt").bounds == (0, 1, 2, 2)


@given(graph=graphs(), parts=st.integers(1, 6), balance=st.sampled_from(BALANCES), compressed=st.booleans())
def test_a_reordered_graph_is_cut_by_its_own_numbers_or_split_by_the_users(graph, parts, balance, compressed):
    reordered = hl.reorder(graph, "degree")
    other = hl.compress(graph, "degree") if compressed else reordered
    ours, theirs = split(other, parts, balance), split(graph, parts, balance)
    inner = hl.Graph(reordered.indptr, reordered.indices)
    ranges = split(inner, parts, "contiguous")
    reached = imbalance(ranges, inner)
    if balance == "contiguous" or (balance == "auto" and max(reached.edges, reached.rows) <= 1.05):
        assert ours.bounds == ranges.bounds and torch.equal(ours.hubs, ranges.hubs)
        assert torch.equal(ours.order, other.order) and imbalance(ours, other) == reached
    else:
        assert ours.bounds == theirs.bounds and torch.equal(ours.hubs, theirs.hubs)
        assert ours.order is None if theirs.order is None else torch.equal(ours.order, theirs.order)
        assert imbalance(ours, other) == imbalance(theirs, graph)


def test_wrong_arguments_get_a_sentence():
    graph = hl.generate("kronecker", scale=5)
    with pytest.raises(ConfigError, match="parts=0 leaves no part"):
        split(graph, 0)
    with pytest.raises(ConfigError, match="balance 'even' is not one of auto, contiguous, dealt"):
        split(graph, 2, "even")
    with pytest.raises(ConfigError, match="from_edges or load_graph"):
        split("graph", 2)
    with pytest.raises(ConfigError, match="one of 32 vertices, but the graph has 64"):
        imbalance(split(graph, 2), hl.generate("kronecker", scale=6))


def test_arrays_that_were_changed_get_a_sentence():
    graph = hl.from_edges(torch.zeros(300, dtype=torch.int64), torch.arange(300), num_vertices=300)
    graph.indices[17] = 300
    with pytest.raises(GraphError, match=r"indices\[17\] is 300"):
        split(graph, 2)
    graph.indptr[7] = 2**40
    with pytest.raises(GraphError, match=r"indptr\[8\] is \d+, less than"):
        split(graph, 2)
