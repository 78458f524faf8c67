"""Random walks: what every walk must be, the distribution of steps, and the same walks on every processor."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hinterland as hl
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange, OutOfMemory
from hinterland.sampling import random_walks

_spec = importlib.util.spec_from_file_location("sampling_oracle", Path(__file__).parent / "oracle.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

LEAST_P = 1e-4  # of a true hypothesis, one seed in ten thousand falls below


def random_graph(vertices=300, edges=1500, seed=1):
    """With hubs, dead ends, parallel edges and a third of its weights 0."""
    random = np.random.default_rng(seed)
    ends = torch.from_numpy((random.random((2, edges)) ** 3 * vertices).astype(np.int64))
    weights = torch.from_numpy(np.maximum(random.random(edges) * 12 - 4, 0)).float()
    return hl.from_edges(ends[0], ends[1], weights, num_vertices=vertices)


def follows(walks, graph, starts, *, weighted=False, restart=0.0):
    """Every step is an edge that can be drawn or a restart, and a walk ends only where it must."""
    walks, indptr = walks.cpu().numpy(), graph.indptr.numpy()
    drawable = np.ones(graph.num_edges, dtype=bool) if not weighted else graph.weights.numpy() > 0
    owner = np.repeat(np.arange(graph.num_vertices), np.diff(indptr))
    edges = set(zip(owner[drawable].tolist(), graph.indices.numpy()[drawable].tolist(), strict=True))
    leaves = set(owner[drawable].tolist())
    assert walks.dtype == np.int64
    np.testing.assert_array_equal(walks[:, 0], np.asarray(starts))
    for walk in walks.tolist():
        for v, u in itertools.pairwise(walk):
            if u < 0:
                assert v < 0 or v not in leaves
            else:
                assert (v, u) in edges or (restart > 0 and v >= 0 and u == walk[0])


CASES = {
    "uniform": {},
    "restart": {"restart": 0.3},
    "weighted": {"weighted": True},
    "weighted, restart": {"weighted": True, "restart": 0.2},
}


@pytest.fixture(scope="module")
def graph():
    return random_graph()


@pytest.mark.parametrize("case", CASES)
def test_walks_follow_edges_and_are_the_same_on_every_processor(graph, device, case, set_threads, walk_lanes):
    options = {**CASES[case], "seed": 7, "batch": 3}
    starts = torch.arange(0, 300, 2)
    found = random_walks(graph, starts, 9, device=device, **options)
    assert found.device == device and found.shape == (150, 10)
    follows(found, graph, starts, **CASES[case])
    for count in (1, 2, 3):
        set_threads(count)
        assert torch.equal(random_walks(graph, starts, 9, device="cpu", **options), found.cpu())
    walk_lanes()
    assert torch.equal(random_walks(graph, starts, 9, device="cpu", **options), found.cpu())


@pytest.mark.parametrize("case", CASES)
def test_every_form_and_place_of_a_graph(graph, device, case):
    starts, options = torch.arange(300), {**CASES[case], "device": device}
    expected = random_walks(graph, starts, 6, **options)
    assert torch.equal(random_walks(hl.compress(graph), starts, 6, **options), expected)
    with hl.prepare(graph, device=device, algorithms="sampling", weighted=True) as prepared:
        assert torch.equal(random_walks(prepared, starts, 6, **CASES[case]), expected)
    turned = hl.reorder(graph, "degree")
    follows(random_walks(turned, starts, 6, **options), graph, starts, **CASES[case])


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["gpu", "managed", "pinned"])
def test_placements(graph, placement):
    placed = hl.Graph(graph.indptr, graph.indices, graph.weights, placement=placement)
    found = random_walks(placed, [0, 1, 2], 20, weighted=True, restart=0.1, device="cuda:0")
    assert torch.equal(found.cpu(), random_walks(graph, [0, 1, 2], 20, weighted=True, restart=0.1, device="cpu"))


def test_walks_begin_alike_and_batches_differ(graph):
    starts = torch.arange(300)
    long = random_walks(graph, starts, 12, seed=1, device="cpu")
    assert torch.equal(random_walks(graph, starts, 5, seed=1, device="cpu"), long[:, :6])
    assert not torch.equal(random_walks(graph, starts, 12, seed=1, batch=1, device="cpu"), long)
    assert not torch.equal(random_walks(graph, starts, 12, seed=2, device="cpu"), long)


def agree(counts, shares):
    shares = np.asarray(shares, dtype=np.float64) / np.sum(shares)
    expected = shares * np.sum(counts)
    assert expected.min() > 5
    assert stats.chisquare(counts, expected).pvalue > LEAST_P


def two_steps(weights, steps=8, walks=4000, device="cpu", **options):
    """How often a step leads to each vertex of a complete graph from each, and consecutive pairs of steps."""
    count = len(weights)
    lists = hl.Graph(torch.arange(count + 1) * count, torch.arange(count).repeat(count), torch.as_tensor(weights).repeat(count))
    found = random_walks(lists, [0] * walks, steps, device=device, seed=5, **options)[:, 1:].cpu().numpy()
    singles = np.bincount(found.ravel(), minlength=count)
    pairs = np.bincount((found[:, :-1:2] * count + found[:, 1::2]).ravel(), minlength=count * count)
    return singles, pairs


def test_steps_are_uniform_and_independent(device):
    singles, pairs = two_steps(torch.ones(7), device=device)
    agree(singles, np.ones(7))
    agree(pairs, np.ones(49))


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0, 4.0], [5.0, 1.0, 1.0, 3.0]], ids=str)
def test_steps_are_in_proportion_to_weight(device, weights):
    singles, pairs = two_steps(torch.tensor(weights), weighted=True, device=device)
    agree(singles, weights)
    agree(pairs, np.outer(weights, weights).ravel())


def test_where_trials_fail_the_list_is_searched(device, walk_lanes):
    """An outlier elsewhere makes nearly every trial fail; the distribution stays."""
    weights = torch.cat([torch.tensor([0.0, 1.0, 2.0, 0.0, 5.0]).repeat(14), torch.tensor([1e7])]).double()
    lists = hl.Graph(torch.tensor([0, 70, *[71] * 70]), torch.cat([torch.arange(1, 71), torch.tensor([0])]), weights)
    found = random_walks(lists, [0] * 5000, 1, weighted=True, device=device)
    drawn = np.bincount(found[:, 1].cpu().numpy(), minlength=71)[1:]
    possible = weights[:70].numpy() > 0
    assert drawn[~possible].sum() == 0
    agree(drawn[possible], weights[:70].numpy()[possible])
    walk_lanes()
    assert torch.equal(random_walks(lists, [0] * 5000, 1, weighted=True, device="cpu"), found.cpu())


def test_restarts_come_with_their_probability_and_independently(device):
    """On a long path, where a step leads away from the start and nothing else leads back."""
    path = hl.Graph(torch.arange(101), torch.arange(1, 101).clamp(max=99))
    found = random_walks(path, [0] * 2000, 20, restart=0.25, device=device).cpu().numpy()
    back = (found[:, 1:] == 0).ravel()
    agree([back.sum(), (~back).sum()], [0.25, 0.75])
    runs = np.bincount(back.reshape(-1, 4) @ np.array([1, 2, 4, 8]), minlength=16)
    agree(runs, [0.25**k * 0.75 ** (4 - k) for k in (bin(i).count("1") for i in range(16))])


def test_dead_ends(device):
    path = hl.Graph(torch.tensor([0, 1, 2, 2, 2]), torch.tensor([1, 2]), torch.tensor([1.0, 0.0]))
    assert random_walks(path, [0, 2, 3], 3, device=device).tolist() == [[0, 1, 2, -1], [2, -1, -1, -1], [3, -1, -1, -1]]
    assert random_walks(path, [0, 1], 3, weighted=True, device=device).tolist() == [[0, 1, -1, -1], [1, -1, -1, -1]]
    assert random_walks(path, [], 3, device=device).shape == (0, 4)


@st.composite
def small_cases(draw):
    graph = draw(oracle.small_graphs())
    starts = draw(st.lists(st.integers(0, graph.num_vertices - 1), max_size=20))
    options = {"weighted": draw(st.booleans()), "restart": draw(st.sampled_from([0.0, 0.5, 0.99]))}
    return graph, starts, draw(st.integers(1, 12)), options, draw(st.integers(0, 2**64 - 1))


@settings(max_examples=150)
@given(case=small_cases())
def test_any_small_graph(case):
    graph, starts, length, options, seed = case
    found = random_walks(graph, starts, length, seed=seed, batch=seed // 3, device="cpu", **options)
    assert found.shape == (len(starts), length + 1)
    follows(found, graph, starts, **options)
    packed = random_walks(hl.compress(graph), starts, length, seed=seed, batch=seed // 3, device="cpu", **options)
    assert torch.equal(packed, found)


def test_starts_that_are_no_vertices_are_refused(graph, device):
    for wrong in (-1, 300, 2**62):
        with pytest.raises(IndexOutOfRange, match=rf"start {wrong} at position 2 .* there are 300, .* \(in batch 3\)"):
            random_walks(graph, [1, 2, wrong, 3], 4, batch=3, device=device)


def test_broken_lists_are_named(device):
    for array, at, value in (("indices", 3, 99), ("indices", 3, -5), ("indptr", 2, 10**12)):
        broken = hl.from_edges(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([1, 2, 0, 2, 0]), num_vertices=3)
        broken.neighbor_lists.arrays[array].cpu()[at] = value
        with pytest.raises(GraphError, match=r"list of vertex 1 is broken"):
            random_walks(broken, [1] * 100, 1, device=device)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"length": 0}, ConfigError, "length 0 is not between 1 and 65535"),
        ({"length": 70000}, ConfigError, "length 70000"),
        ({"length": 1.5}, ConfigError, "length 1.5 is not a whole number"),
        ({"restart": 1.0}, ConfigError, "restart 1.0 is not a probability"),
        ({"restart": -0.1}, ConfigError, "restart -0.1"),
        ({"restart": float("nan")}, ConfigError, "restart nan"),
        ({"restart": "x"}, ConfigError, "restart 'x'"),
        ({"starts": [0.5]}, ConfigError, r"starts have shape \(1,\) and type torch.float32"),
        ({"seed": "x"}, ConfigError, "seed 'x' is not a whole number"),
        ({"batch": None}, ConfigError, "batch None is not a whole number"),
        ({"weighted": True}, ConfigError, "needs a graph with weights"),
        ({"weighted": True, "weights": [1.0, -2.0]}, GraphError, "a weight is -2.0"),
        ({"weighted": True, "weights": [1.0, float("nan")]}, GraphError, "NaN"),
        ({"weighted": True, "weights": [1.0, float("inf")]}, GraphError, "a weight is inf"),
        ({"graph": 3}, ConfigError, "graph is a int"),
    ],
    ids=str,
)
def test_what_is_refused(options, error, words):
    options = {"starts": [0], "length": 2, **options}
    with pytest.raises(error, match=words):
        weights = options.pop("weights", None)
        small = hl.Graph(torch.tensor([0, 2, 2, 2]), torch.tensor([1, 2]), None if weights is None else torch.tensor(weights))
        random_walks(options.pop("graph", small), options.pop("starts"), options.pop("length"), device="cpu", **options)


def test_no_memory_is_said(graph, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(OutOfMemory, match="3 walks of 5 steps take 144 B"):
        random_walks(graph, torch.tensor([1, 2, 3]), 5, device="cpu")
