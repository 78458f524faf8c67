"""The inclusion probability corrected by counts: by hand, and against what is fetched later."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hinterland as hl
from hinterland import hotness
from hinterland.hotness.corrected import trust
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler


def by_hand(p, first, second):
    """Vertex by vertex, in float64."""
    scale = [sum(half) / sum(p) for half in (first, second)]
    signal, noise, both = 0.0, 0.0, 0.0
    for v in range(len(p)):
        astray = [half[v] - p[v] * by for half, by in zip((first, second), scale, strict=True)]
        signal += astray[0] * astray[1]
        noise += (astray[0] - astray[1]) ** 2
        both += p[v] * scale[0] * p[v] * scale[1]
    a = noise / (sum(first) + sum(second)) * both / signal if signal > 0 else math.inf
    found = []
    for v in range(len(p)):
        mean, count = p[v] * sum(scale), first[v] + second[v]
        found.append(mean if a == math.inf or mean == 0 else mean + mean / (mean + a) * (count - mean))
    return found


@given(st.data())
def test_the_equation(data):
    vertices = data.draw(st.integers(1, 20))
    chances = hnp.arrays(np.float64, vertices, elements=st.floats(1e-6, 1))
    counts = hnp.arrays(np.float64, vertices, elements=st.integers(0, 9).map(float))
    p, first, second = (data.draw(kind) for kind in (chances, counts, counts))
    found = hotness.corrected_probability(torch.from_numpy(p), [torch.from_numpy(first), torch.from_numpy(second)])
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found.numpy(), by_hand(p, first, second), rtol=1e-6, atol=1e-9)


def test_what_both_halves_say_is_believed_and_what_one_says_is_chance():
    p, counts, other = torch.full((4,), 0.5), torch.tensor([9.0, 1.0, 9.0, 1.0]), torch.tensor([9.0, 1.0, 7.0, 3.0])
    assert hotness.corrected_probability(p, [counts, counts.flip(0)]).tolist() == [10] * 4
    assert hotness.corrected_probability(p, [counts, counts]).tolist() == [18, 2, 18, 2]
    found = hotness.corrected_probability(p, [counts, other])
    # Astray by 4 and 4, 4 and 4, 4 and 2, 4 and 2: chance 8 / 40, and 100 / 48 for what is wrong with the probability.
    assert trust(p, counts, other) == pytest.approx(8 / 40 * 100 / 48)
    assert 17 < found[0] < 18 and 15 < found[2] < 16 and float(found.sum()) == pytest.approx(40)


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ([torch.ones(3)], "counts are of two halves of the epochs, not of 1"),
        ([torch.ones(3), torch.ones(4)], r"counts have shape \(4,\) beside \(3,\)"),
    ],
)
def test_wrong_counts(counts, sentence):
    with pytest.raises(ConfigError, match=sentence):
        hotness.corrected_probability(torch.ones(3), counts)


def rates(graph, seeds, fanouts, batch_size, share, **drawn):
    """What the best of that share of the rows serve of 6 epochs after the two that were counted."""
    sampler = NeighborSampler(graph, fanouts, device="cpu", **drawn)
    halves = [hotness.presample(sampler, seeds, batch_size, 1, first_epoch=epoch) for epoch in range(2)]
    chance = hotness.inclusion_probability(graph, seeds, fanouts, batch_size, device="cpu")
    later = hotness.presample(sampler, seeds, batch_size, 6, first_epoch=2)
    scores = {"chance": chance, "counts": sum(halves), "both": hotness.corrected_probability(chance, halves)}
    return {name: hotness.hit_rate(found, later, [share])[0] for name, found in scores.items()}


@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("seeds, batch_size", [(760, 1024), (760, 64), (7600, 1024)])
def test_epinions(real_data, seeds, batch_size, share):
    """Never worse than the better of the two by more than their chance, and far better than counts of few batches."""
    graph = hl.load_graph(real_data / "soc-Epinions1.txt", symmetrize=True)
    begin = torch.randperm(graph.num_vertices, generator=torch.Generator().manual_seed(1))[:seeds]
    found = rates(graph, begin, [15, 10, 5], batch_size, share)
    assert found["both"] >= max(found["chance"], found["counts"]) - 0.003
    if batch_size == 1024 and seeds == 760:
        assert found["both"] > found["counts"] + (0.01 if share == 0.05 else 0.04)


def test_a_clustered_graph(real_data):
    """Co-authors are neighbours of each other, so events are not independent: the probability is wrong, and counts say so."""
    graph = hl.load_graph(real_data / "netscience.mtx", symmetrize=True)
    seeds = torch.randperm(graph.num_vertices, generator=torch.Generator().manual_seed(1))[:794]
    found = rates(graph, seeds, [5, 5], 64, 0.1)
    assert found["counts"] > found["chance"] + 0.02
    assert found["both"] >= found["counts"] - 0.003


def test_draws_by_weight_leave_the_counts():
    """The probability knows no weights: where few edges have nearly all of it, the counts are believed instead."""
    graph = hl.generate("kronecker", scale=12, edge_factor=16, seed=3, device="cpu")
    generator = torch.Generator().manual_seed(2)
    hot = torch.rand(graph.num_vertices, generator=generator) ** 16 + 1e-4  # of vertices, whatever their degree
    graph = hl.Graph(graph.indptr, graph.indices, hot[graph.indices.long()].float())
    seeds = torch.randperm(graph.num_vertices, generator=generator)[:800]
    found = rates(graph, seeds, [5, 3], 32, 0.1, weighted=True)
    assert found["counts"] > found["chance"] + 0.1
    assert found["both"] >= found["counts"] - 0.01
