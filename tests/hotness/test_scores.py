"""Scores against sparse products in float64, networkx, and counting."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import hotness
from hinterland.graph.lists import NeighborLists
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange
from hinterland.table import UnifiedTensor

from ..graph.budgets import within_budgets
from ..graph.small import any_graphs
from ..graphs import skewed, with_wide_edges

NONE = torch.tensor([], dtype=torch.int64)


def lists_of(graph):
    """Element (v, u): how often v's list holds u."""
    vertices = graph.num_vertices
    indptr, indices = graph.indptr.cpu().numpy(), graph.indices.cpu().numpy()
    return sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(vertices, vertices))


def expected_pagerank(graph, seeds=None, iterations=5, damping=0.85):
    lists, vertices = lists_of(graph), graph.num_vertices
    scores = np.full(vertices, 1 / vertices)
    if seeds is not None:
        scores[np.unique(seeds)] *= vertices / len(np.unique(seeds))
    lengths = np.maximum(lists.sum(1), 1)
    for _ in range(iterations):
        scores = (1 - damping) / vertices + damping * (lists.T @ (scores / lengths))
    return scores


def expected_inclusion(graph, seeds, fanouts, batch_size):
    """Product by product, not by logarithms."""
    vertices, lists = graph.num_vertices, lists_of(graph).tocoo()
    lengths = np.bincount(lists.row, lists.data, vertices)
    p = np.zeros(vertices)
    p[seeds] = min(1, batch_size / len(np.unique(seeds)))
    missed_always = 1 - p
    for fanout in fanouts:
        t = np.ones(vertices) if fanout == -1 else np.minimum(1, fanout / np.maximum(lengths, 1))
        missed = np.ones(vertices)
        for v, u, times in zip(lists.row, lists.col, lists.data, strict=True):
            missed[u] *= (1 - p[v] * t[v]) ** times
        p = 1 - missed
        missed_always *= missed
    return 1 - missed_always


def check(graph, seeds, device="cpu", damping=0.85, fanouts=(3, 2), batch_size=4, of=None):
    """All scores of ``of`` (by default the graph itself) against what the graph's lists say."""
    of = of or graph
    where = {} if isinstance(of, hl.ResidentGraph) else {"device": device}
    seeds = torch.as_tensor(seeds)
    found = {
        "degree": hotness.degree(of, **where),
        "reverse": hotness.reverse_pagerank(of, 3, damping, **where),
        "weighted": hotness.weighted_reverse_pagerank(of, seeds, 4, damping, **where),
        "inclusion": hotness.inclusion_probability(of, seeds, fanouts, batch_size, **where),
    }
    for scores in found.values():
        assert scores.dtype == torch.float64 and scores.device == torch.device(device)
    found = {name: scores.cpu().numpy() for name, scores in found.items()}
    np.testing.assert_array_equal(found["degree"], lists_of(graph).sum(0))
    np.testing.assert_allclose(found["reverse"], expected_pagerank(graph, None, 3, damping), rtol=1e-12)
    np.testing.assert_allclose(found["weighted"], expected_pagerank(graph, seeds, 4, damping), rtol=1e-12)
    wanted = expected_inclusion(graph, seeds.numpy(), fanouts, batch_size)
    np.testing.assert_allclose(found["inclusion"], wanted, rtol=1e-11, atol=1e-14)
    assert (found["inclusion"] >= 0).all() and (found["inclusion"] <= 1).all()


@pytest.fixture(scope="module")
def skewed_graphs():
    return {directed: skewed(3000, 30000, symmetrize=not directed) for directed in (True, False)}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("form", ["plain", "wide", "compressed", "reordered", "prepared"])
def test_every_form_of_a_graph(device, directed, form, skewed_graphs):
    graph, seeds = skewed_graphs[directed], range(0, 3000, 7)
    make = {
        "plain": lambda: graph,
        "wide": lambda: with_wide_edges(graph),
        "compressed": lambda: hl.compress(graph),
        "reordered": lambda: hl.reorder(graph, "degree"),
        "prepared": lambda: hl.prepare(graph, device=device, algorithms="hotness"),
    }
    check(graph, list(seeds), device, fanouts=(15, 10, 5), batch_size=50, of=make[form]())


@pytest.mark.gpu
@pytest.mark.parametrize("directed", [True, False])
def test_a_graph_in_gpu_memory(directed, skewed_graphs):
    graph = skewed_graphs[directed]
    held = {name: graph.array(name, "cuda:0").clone() for name in ("indptr", "indices")}
    check(graph, list(range(100)), "cuda:0", of=hl.Graph.of(NeighborLists(held), directed))


@settings(max_examples=50, deadline=None)
@given(any_graphs(60, 200), st.data())
def test_any_graph(graph, data):
    check(
        graph,
        data.draw(st.lists(st.integers(0, graph.num_vertices - 1), min_size=1, max_size=80)),
        damping=data.draw(st.sampled_from([0.0, 0.5, 0.85])),
        fanouts=data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 15]), max_size=4)),
        batch_size=data.draw(st.integers(1, 100)),
    )


def test_degree_counts_who_samples_a_vertex():
    """The list of 0 is long, but nobody samples 0."""
    fan = hl.from_edges(torch.zeros(9, dtype=torch.int64), torch.arange(1, 10), num_vertices=10)
    assert hotness.degree(fan, device="cpu").tolist() == [0.0] + [1.0] * 9


def test_a_list_that_many_tasks_share(device):
    hub, leaves = torch.zeros(20000, dtype=torch.int64), torch.arange(1, 20001)
    for ends in ((hub, leaves), (leaves, hub)):
        scores = hotness.degree(hl.from_edges(*ends), device=device).cpu()
        assert torch.equal(scores, torch.bincount(ends[1], minlength=20001).double())


def test_no_vertices_and_no_edges(device):
    nothing = hl.from_edges(NONE, NONE, num_vertices=0)
    assert hotness.degree(nothing, device=device).shape == hotness.reverse_pagerank(nothing, device=device).shape == (0,)
    check(hl.from_edges(NONE, NONE, num_vertices=40), [3, 5], device)


def test_scores_of_networkx_on_the_reversed_graph():
    """Messages go along the edges of networkx' graph, so lists hold the predecessors. Where no list is empty, the definitions
    are one: PageRank of the reversed graph."""
    messages = nx.gnm_random_graph(200, 1500, seed=5, directed=True)
    messages.add_edges_from((u, (u + 1) % 200) for u in range(200))
    src, dst = torch.tensor(list(messages.edges())).T
    graph = hl.from_edges(dst, src, num_vertices=200)
    theirs = nx.pagerank(messages.reverse(), alpha=0.85, tol=1e-14, max_iter=500)
    found = hotness.reverse_pagerank(graph, iterations=200, device="cpu")
    np.testing.assert_allclose(found.numpy(), [theirs[v] for v in range(200)], rtol=1e-9)
    assert float(found.sum()) == pytest.approx(1)


def test_empty_lists_divide_nothing_by_zero():
    chain = hl.from_edges(torch.arange(3), torch.arange(1, 4))  # the list of 3 is empty
    found = hotness.weighted_reverse_pagerank(chain, [0], iterations=1, damping=0.5, device="cpu")
    assert found.tolist() == [0.125, 0.125 + 0.5, 0.25, 0.25]
    assert found.isfinite().all()


def test_seeds_in_any_form_and_twice(skewed_graphs):
    graph = skewed_graphs[True]
    seeds = torch.tensor([5, 17, 5, 900, 17])
    for call in (
        lambda s: hotness.weighted_reverse_pagerank(graph, s, device="cpu"),
        lambda s: hotness.inclusion_probability(graph, s, [5], 2, device="cpu"),
    ):
        once = call([5, 17, 900])
        for form in (seeds, seeds.to(torch.int32), seeds.tolist(), seeds.numpy()):
            assert torch.allclose(call(form), once, rtol=1e-12)


def test_any_number_of_threads_gives_the_same(skewed_graphs, set_threads):
    results = []
    for threads in (1, 2, 5):
        set_threads(threads)
        results.append(hotness.weighted_reverse_pagerank(skewed_graphs[True], range(100), device="cpu"))
    for result in results[1:]:
        assert torch.allclose(result, results[0], rtol=1e-12, atol=0)


def test_broken_arrays_get_a_sentence(device):
    for directed in (True, False):
        held = {"indptr": UnifiedTensor.from_tensor(torch.tensor([0, 1, 2, 3]))}
        held["indices"] = UnifiedTensor.from_tensor(torch.tensor([1, 7, 0], dtype=torch.int32))
        with pytest.raises(GraphError, match="neighbour list of vertex 1 is broken"):
            hotness.reverse_pagerank(hl.Graph.of(NeighborLists(held), directed), device=device)


WRONG = [
    (lambda g: hotness.degree("g"), ConfigError, "graph is a str"),
    (lambda g: hotness.reverse_pagerank(g, 0), ConfigError, "iterations 0 is not a whole number from 1"),
    (lambda g: hotness.reverse_pagerank(g, 2.5), ConfigError, "iterations 2.5"),
    (lambda g: hotness.reverse_pagerank(g, damping=1.0), ConfigError, r"damping 1\.0 is not in \[0, 1\)"),
    (lambda g: hotness.weighted_reverse_pagerank(g, []), ConfigError, r"shape \(0,\), but must be a row of at least one"),
    (lambda g: hotness.weighted_reverse_pagerank(g, [4]), IndexOutOfRange, "vertex 4 is not in the graph, which has 4"),
    (lambda g: hotness.weighted_reverse_pagerank(g, [-1]), IndexOutOfRange, "vertex -1"),
    (lambda g: hotness.weighted_reverse_pagerank(g, ["a"]), ConfigError, "a row of vertex numbers, not"),
    (lambda g: hotness.weighted_reverse_pagerank(g, torch.ones(4, dtype=torch.bool)), ConfigError, "of a mask, give"),
    (lambda g: hotness.weighted_reverse_pagerank(g, torch.ones(2)), ConfigError, "vertex numbers, not torch.float32"),
    (lambda g: hotness.inclusion_probability(g, [[0]], [2], 1), ConfigError, r"shape \(1, 1\)"),
    (lambda g: hotness.inclusion_probability(g, [0], [2, -2], 1), ConfigError, "fanout -2 of hop 1 is below -1"),
    (lambda g: hotness.inclusion_probability(g, [0], [2.5], 1), ConfigError, "fanouts are whole numbers"),
    (lambda g: hotness.inclusion_probability(g, [0], 5, 1), ConfigError, r"as \[15, 10, 5\]; got 5"),
    (lambda g: hotness.inclusion_probability(g, [0], [2], 0), ConfigError, "batch_size 0 is not a whole number from 1 on"),
    (lambda g: hotness.inclusion_probability(g, [0], [2], 1.5), ConfigError, "batch_size 1.5"),
]


@pytest.mark.parametrize(("call", "error", "sentence"), WRONG, ids=[sentence for _, _, sentence in WRONG])
def test_wrong_arguments(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(hl.from_edges(torch.arange(3), torch.arange(1, 4)))


def test_a_graph_prepared_for_something_else_and_a_closed_one():
    with hl.prepare(hl.from_edges(torch.arange(3), torch.arange(1, 4)), device="cpu", algorithms="bfs") as prepared:
        assert hotness.degree(prepared).tolist() == [0, 1, 1, 1]
    with pytest.raises(ConfigError, match="has been closed"):
        hotness.degree(prepared)


@pytest.mark.gpu
def test_a_prepared_graph_has_its_own_device():
    graph = hl.from_edges(torch.arange(3), torch.arange(1, 4))
    with (
        hl.prepare(graph, device="cuda", algorithms="hotness") as prepared,
        pytest.raises(ConfigError, match="leave out gpu_budget and device"),
    ):
        hotness.degree(prepared, device="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("directed", [True, False])
def test_a_budget_bounds_what_is_taken(directed):
    vertices = 300_000
    graph = skewed(vertices, 4 * vertices, symmetrize=not directed)
    seeds = torch.arange(0, vertices, 50)
    expected = hotness.inclusion_probability(graph, seeds, [5, 5], 100, device="cpu")
    extras = (2048, 8 * vertices + (3 << 20), 1 << 30)
    for found in within_budgets(
        "hotness", graph, lambda graph: hotness.inclusion_probability(graph, seeds, [5, 5], 100), extras
    ):
        assert torch.allclose(found.cpu(), expected, rtol=1e-10)
