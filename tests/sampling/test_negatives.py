"""Negative edges: none is an edge, all are equally likely, and they are the same on every processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hinterland as hl
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange
from hinterland.sampling import negative_edges

LEAST_P = 1e-4  # of a true hypothesis, one seed in ten thousand falls below


def random_graph(vertices, share, seed=1):
    """About a share of all pairs, loops among them, some twice."""
    random = np.random.default_rng(seed)
    ends = np.argwhere(random.random((vertices, vertices)) < share)
    ends = torch.from_numpy(np.concatenate([ends, ends[::3]]))
    return hl.from_edges(ends[:, 0], ends[:, 1], num_vertices=vertices)


def absent(graph):
    """[V, V] bool: the pairs of different vertices that are no edges."""
    found = np.ones((graph.num_vertices, graph.num_vertices), dtype=bool)
    found[np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr.numpy())), graph.indices.numpy()] = False
    np.fill_diagonal(found, False)
    return found


def nearly_complete(vertices, missing):
    """All pairs but some, loops included, every third edge twice."""
    pairs = [(v, u) for v in range(vertices) for u in range(vertices) if (v, u) not in missing]
    ends = torch.tensor(pairs + pairs[::3])
    return hl.from_edges(ends[:, 0], ends[:, 1], num_vertices=vertices)


FEW_MISSING = {(3, 9), (20, 0), (20, 39), (39, 38), (0, 1), (21, 20)}
GRAPHS = {
    "sparse": lambda: random_graph(200, 0.02),
    "dense": lambda: random_graph(40, 0.7),
    "nearly complete": lambda: nearly_complete(40, FEW_MISSING),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_none_is_an_edge_and_all_processors_agree(device, kind, set_threads, walk_lanes):
    graph = GRAPHS[kind]()
    missing = absent(graph)
    positives = torch.from_numpy(np.flatnonzero(missing.any(1))).repeat(2, 1)
    found = negative_edges(graph, 300, seed=3, batch=1, device=device)
    given = negative_edges(graph, 4, positives=positives, seed=3, batch=1, device=device)
    assert found.dtype == torch.int64 and found.device == device and found.shape == (2, 300)
    assert missing[tuple(found.cpu().numpy())].all() and missing[tuple(given.cpu().numpy())].all()
    assert torch.equal(given[0].cpu(), positives[0].repeat_interleave(4))

    def same(graph):
        assert torch.equal(negative_edges(graph, 300, seed=3, batch=1, device="cpu"), found.cpu())
        assert torch.equal(negative_edges(graph, 4, positives=positives, seed=3, batch=1, device="cpu"), given.cpu())

    same(hl.compress(graph))
    for count in (1, 2, 3):
        set_threads(count)
        same(graph)
    walk_lanes()
    same(graph)


def test_forms_and_places_of_a_graph(device):
    graph = random_graph(60, 0.5)
    expected = negative_edges(graph, 200, device=device)
    with hl.prepare(graph, device=device, algorithms="sampling") as prepared:
        assert torch.equal(negative_edges(prepared, 200), expected)
    turned, missing = hl.reorder(graph, "degree"), absent(graph)
    assert missing[tuple(negative_edges(turned, 200, device=device).cpu().numpy())].all()
    positives = torch.arange(60).repeat(2, 1)
    found = negative_edges(turned, 3, positives=positives, device=device).cpu()
    assert missing[tuple(found.numpy())].all() and torch.equal(found[0], positives[0].repeat_interleave(3))


@pytest.mark.parametrize("kind", ["few", "dense", "nearly complete"])
def test_pairs_are_uniform(device, kind):
    graph = random_graph(12, 0.4) if kind == "few" else GRAPHS[kind]()
    missing = np.flatnonzero(absent(graph))
    found = negative_edges(graph, 40 * len(missing) + 1000, seed=9, device=device).cpu().numpy()
    counts = np.bincount(found[0] * graph.num_vertices + found[1], minlength=graph.num_vertices**2)
    assert counts[missing].sum() == found.shape[1]
    assert stats.chisquare(counts[missing]).pvalue > LEAST_P


@pytest.mark.parametrize("vertices", [12, 300])
def test_targets_of_a_source_are_uniform(device, vertices):
    """One vertex lists few others, one all but four, so that tries fail."""
    left = [0, 5, vertices // 2, vertices - 1]
    most = [u for u in range(vertices) if u not in left]
    ends = torch.tensor([(1, 3), (1, 3), *((2, u) for u in most), *((2, u) for u in most[::2])])
    graph = hl.from_edges(ends[:, 0], ends[:, 1], num_vertices=vertices)
    missing = absent(graph)
    for source in (1, 2):
        choices = np.flatnonzero(missing[source])
        found = negative_edges(graph, 8000, positives=torch.tensor([[source], [0]]), seed=2, device=device)[1].cpu().numpy()
        counts = np.bincount(found, minlength=vertices)
        assert counts[choices].sum() == 8000
        assert stats.chisquare(counts[choices]).pvalue > LEAST_P


def test_without_lookup_pairs_are_uniform_over_all(device):
    graph = nearly_complete(9, {(1, 2)})
    found = negative_edges(graph, 20000, exact=False, device=device).cpu().numpy()
    counts = np.bincount(found[0] * 9 + found[1], minlength=81).reshape(9, 9)
    assert (np.diag(counts) == 0).all()
    assert stats.chisquare(counts[~np.eye(9, dtype=bool)]).pvalue > LEAST_P
    unsorted = hl.Graph(torch.tensor([0, 2, 2, 2]), torch.tensor([2, 1]))
    assert negative_edges(unsorted, 5, exact=False, device=device).shape == (2, 5)


def test_seeds_and_batches_differ():
    graph = random_graph(60, 0.5)
    drawn = [negative_edges(graph, 50, device="cpu", **o).tolist() for o in ({}, {"seed": 1}, {"batch": 1}, {"seed": 0})]
    assert drawn[0] == drawn[3] and drawn[0] != drawn[1] != drawn[2] != drawn[0]


def test_complete_graphs_get_a_sentence(device):
    complete = nearly_complete(20, set())
    with pytest.raises(GraphError, match="the graph of 20 vertices is complete"):
        negative_edges(complete, 3, device=device)
    with pytest.raises(GraphError, match="vertex 7, the source of positive edge 1, has all other vertices"):
        negative_edges(nearly_complete(20, {(3, 4)}), 5, positives=torch.tensor([[3, 7, 8], [1, 1, 1]]), device=device)
    with pytest.raises(GraphError, match="a graph of 1 vertices has no pair"):
        negative_edges(hl.Graph(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64)), 1, device=device)
    assert negative_edges(complete, 3, exact=False, device=device).shape == (2, 3)
    assert negative_edges(complete, 0, device=device).shape == (2, 0)


@st.composite
def small_cases(draw):
    vertices = draw(st.integers(2, 7))
    every = [(v, u) for v in range(vertices) for u in range(vertices)]
    edges = draw(st.one_of(st.lists(st.sampled_from(every), max_size=60), st.permutations(every).map(lambda p: p[2:])))
    columns = [torch.tensor([edge[k] for edge in edges], dtype=torch.int64) for k in range(2)]
    return hl.from_edges(*columns, num_vertices=vertices), draw(st.integers(0, 2**64 - 1))


@settings(max_examples=100)
@given(case=small_cases())
def test_any_small_graph(case):
    graph, seed = case
    missing = absent(graph)
    if missing.any():
        assert missing[tuple(negative_edges(graph, 20, seed=seed, device="cpu").numpy())].all()
    else:
        with pytest.raises(GraphError, match="is complete"):
            negative_edges(graph, 20, seed=seed, device="cpu")
    for source in range(graph.num_vertices):
        positives = torch.tensor([[source, source], [0, 1]])
        if missing[source].any():
            found = negative_edges(graph, 3, positives=positives, seed=seed, device="cpu")
            assert missing[tuple(found.numpy())].all()
        else:
            with pytest.raises(GraphError, match=f"vertex {source}, the source"):
                negative_edges(graph, 3, positives=positives, seed=seed, device="cpu")


def test_broken_lists_are_named(device):
    broken = hl.from_edges(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([1, 2, 0, 2, 0]), num_vertices=3)
    assert broken.has_sorted_lists
    broken.neighbor_lists.arrays["indptr"].cpu()[2] = 10**12
    with pytest.raises(GraphError, match="list of vertex 1 is broken"):
        negative_edges(broken, 9, positives=torch.ones((2, 1), dtype=torch.int64), device=device)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"count": -1}, ConfigError, "count -1 is not a number of pairs"),
        ({"count": 1.5}, ConfigError, "count 1.5 is not a whole number"),
        ({"positives": torch.zeros(3, dtype=torch.int64)}, ConfigError, r"positives have shape \(3,\), but must be a tensor"),
        ({"positives": [[0], [1]]}, ConfigError, "positives have type list"),
        ({"positives": torch.zeros(2, 3)}, ConfigError, "type torch.float32"),
        (
            {"positives": torch.tensor([[0, 3], [0, 0]])},
            IndexOutOfRange,
            r"source 3 of positive edge 1 is no vertex: there are 3, .* \(in batch 0\)",
        ),
        ({"positives": torch.tensor([[-1], [0]])}, IndexOutOfRange, "source -1 of positive edge 0"),
        ({"seed": None}, ConfigError, "seed None is not a whole number"),
        ({"graph": 1}, ConfigError, "graph is a int"),
        ({"neighbors": [2, 1]}, ConfigError, "do not ascend; pass compress"),
    ],
    ids=str,
)
def test_what_is_refused(options, error, words):
    small = hl.Graph(torch.tensor([0, 2, 2, 2]), torch.tensor(options.get("neighbors", [1, 2])))
    options = {"graph": small, "count": 2, **{name: value for name, value in options.items() if name != "neighbors"}}
    with pytest.raises(error, match=words):
        negative_edges(options.pop("graph"), options.pop("count"), device="cpu", **options)
