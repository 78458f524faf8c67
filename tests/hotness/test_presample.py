"""Counts of mini-batches, hit rates, and all scores beside each other."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hinterland as hl
from hinterland import hotness
from hinterland.hotness.presample import until_steady
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader

from .samplers import NumpySampler


@pytest.fixture(scope="module")
def graph():
    return hl.generate("kronecker", scale=12, edge_factor=8, seed=1, device="cpu")


def test_counts_are_those_of_the_batches(graph):
    sampler = NumpySampler(graph, [3, 2])
    seeds = torch.arange(0, 900, 9)
    counts = hotness.presample(sampler, seeds, 32, epochs=3, seed=7)
    assert counts.dtype == torch.float64 and counts.shape == (graph.num_vertices,)
    asked = sampler.asked
    assert [batch for batch, _ in asked] == list(range(12))
    assert [len(part) for _, part in asked] == 3 * [32, 32, 32, 4]
    for epoch in range(3):
        assert sorted(v for _, part in asked[4 * epoch : 4 * epoch + 4] for v in part) == seeds.tolist()
    again = NumpySampler(graph, [3, 2])
    expected = np.zeros(graph.num_vertices)
    for batch, part in asked:
        np.add.at(expected, again.sample(torch.tensor(part), batch).node.numpy(), 1)
    np.testing.assert_array_equal(counts.numpy(), expected)


def test_epochs_add_up(graph):
    def counted(**options):
        return hotness.presample(NumpySampler(graph, [3, 2]), range(100), 32, seed=3, **options)

    assert torch.equal(counted(epochs=3), counted(epochs=1) + counted(epochs=2, first_epoch=1))
    assert not torch.equal(counted(epochs=1), counted(epochs=1, first_epoch=1))


def test_batches_are_those_of_the_loader(graph):
    """So that the first epochs of training are the ones that were counted."""
    ours, theirs = NumpySampler(graph, [3]), NumpySampler(graph, [3])
    seeds = torch.arange(100)
    hotness.presample(ours, seeds, 32, epochs=2, seed=5)
    loader = Loader(theirs, seeds, 32, shuffle=True, seed=5, device="cpu")
    for _ in range(2):
        list(loader)
    assert ours.asked == theirs.asked


def test_a_vertex_that_is_there_twice_counts_twice(graph):
    sampler = SimpleNamespace(graph=graph, sample=lambda seeds, batch: SimpleNamespace(node=torch.tensor([1, 1, 4])))
    counts = hotness.presample(sampler, [0], 1, epochs=2)
    assert counts[:6].tolist() == [0, 4, 0, 0, 2, 0] and counts.sum() == 6


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (([], 4), ConfigError, "at least one vertex number"),
        (([4096], 4), IndexOutOfRange, "vertex 4096 is not in the graph, which has 4096 vertices"),
        (([1], 0), ConfigError, "batch_size 0 is not a whole number from 1 on"),
        (([1], 4, 0), ConfigError, "epochs 0 is not a whole number from 1 on"),
        (([1], 4, 1.5), ConfigError, "epochs 1.5"),
        (([1], 4, 1, -1), ConfigError, "seed -1 is not a whole number from 0 on"),
        (([1], 4, 1, 0, -2), ConfigError, "first_epoch -2"),
    ],
)
def test_wrong_arguments(graph, arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        hotness.presample(NumpySampler(graph, [3]), *arguments)


def test_hit_rates_by_hand():
    scores, counts = torch.tensor([1.0, 5.0, 5.0, 0.0, 2.0]), torch.tensor([10, 0, 30, 20, 40])
    shares = [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert hotness.hit_rate(scores, counts, shares) == [0, 0, 0.3, 0.7, 0.8, 1]  # vertex 1 before 2, which scores the same
    assert hotness.hit_rate(counts, counts, shares) == [0, 0.4, 0.7, 0.9, 1, 1]


@given(st.data())
def test_nothing_beats_the_oracle(data):
    vertices = data.draw(st.integers(1, 30))
    counts = torch.from_numpy(data.draw(hnp.arrays(np.int64, vertices, elements=st.integers(0, 5))))
    counts[data.draw(st.integers(0, vertices - 1))] += 1
    scores = torch.from_numpy(data.draw(hnp.arrays(np.float32, vertices, elements=st.floats(-1, 1, width=32))))
    shares = sorted(data.draw(st.lists(st.floats(0, 1), max_size=5)))
    rates, best = (hotness.hit_rate(by, counts, shares) for by in (scores, counts))
    assert rates == sorted(rates)
    assert all(0 <= rate <= most <= 1 for rate, most in zip(rates, best, strict=True))
    order = sorted(range(vertices), key=lambda v: (-float(scores[v]), v))
    for share, rate in zip(shares, rates, strict=True):
        held = order[: round(share * vertices)]
        assert rate == pytest.approx(int(counts[held].sum()) / int(counts.sum()))


@pytest.mark.parametrize(
    ("scores", "counts", "shares", "sentence"),
    [
        (torch.ones(3), torch.ones(4), [0.1], r"scores have shape \(3,\) and counts \(4,\)"),
        (torch.ones(2, 2), torch.ones(2, 2), [0.1], "one number for each vertex"),
        (torch.ones(3), torch.ones(3), [0.1, 1.5], "share 1.5 is not from 0 to 1"),
        (torch.ones(3), torch.ones(3), [float("nan")], "share nan"),
        (torch.tensor([1, torch.nan, 2]), torch.ones(3), [0.1], "score of vertex 1 is nan"),
        (torch.ones(3), torch.zeros(3), [0.1], "negative or all 0"),
        (torch.ones(3), torch.tensor([1, -1, 1]), [0.1], "negative or all 0"),
    ],
)
def test_wrong_scores(scores, counts, shares, sentence):
    with pytest.raises(ConfigError, match=sentence):
        hotness.hit_rate(scores, counts, shares)


def test_the_sampler_of_this_library(device, graph):
    """Its mini-batches are the same everywhere, so counts are too; they match those of another sampler on average."""
    seeds = torch.arange(0, graph.num_vertices, 41)
    counts = hotness.presample(NeighborSampler(graph, [4, 2], device=device), seeds, 50, epochs=10)
    assert counts.device == device
    on_cpu = hotness.presample(NeighborSampler(graph, [4, 2], device="cpu"), seeds, 50, epochs=10)
    assert torch.equal(counts.cpu(), on_cpu)
    others = hotness.presample(NumpySampler(graph, [4, 2]), seeds, 50, epochs=10)
    assert float(on_cpu.sum()) == pytest.approx(float(others.sum()), rel=0.02)
    assert float(torch.corrcoef(torch.stack([on_cpu, others]))[0, 1]) > 0.9


def test_the_order_of_a_reordered_graph_is_the_users(graph):
    """Whole lists, so that the samples are the same."""
    seeds = torch.arange(0, graph.num_vertices, 9)
    plain, other = (
        hotness.presample(NeighborSampler(g, [-1, -1], device="cpu"), seeds, 64, epochs=1)
        for g in (graph, hl.reorder(graph, "degree"))
    )
    assert torch.equal(plain, other)


def test_scores_foretell_what_is_fetched(graph):
    """The order of Wang's figure 15: the oracle, close to it pre-sampling and inclusion probabilities, and all above chance."""
    fanouts, seeds = [5, 3], torch.arange(0, graph.num_vertices, 41)
    sampler = NeighborSampler(graph, fanouts, device="cpu")
    found = hotness.compare(graph, sampler, seeds, fanouts, 16, epochs=4, device="cpu")
    assert torch.equal(found.counts, hotness.presample(sampler, seeds, 16, epochs=4, first_epoch=2))
    rates = {name: of[0] for name, of in found.hit_rates([0.1]).items()}
    assert set(rates) == set(found.seconds) and max(rates, key=rates.get) == "oracle"
    assert rates["presample-1"] <= rates["presample-2"] + 0.01
    assert rates["inclusion-probability"] > rates["oracle"] - 0.05
    assert rates["presample-2"] > rates["oracle"] - 0.1  # of so few batches the counts themselves are mostly chance
    assert min(rates.values()) > 0.3


@pytest.mark.parametrize(
    "rates, expected",
    [([0.5, 0.5], 128), ([0.1, 0.3, 0.301], 256), ([0.1, 0.3, 0.4, 0.5], 400), ([0.6, 0.5], 128)],
)
def test_sampling_ends_once_more_hardly_ranks_better(rates, expected):
    found = iter(rates)
    assert list(until_steady(range(400), lambda: next(found))) == list(range(expected))
