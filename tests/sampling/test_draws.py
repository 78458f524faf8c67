"""The distributions of draws, by chi-square. Seeds are fixed, so a test that passes once passes always."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

import hinterland as hl
from hinterland.sampling import NeighborSampler

LEAST_P = 1e-4  # of a true hypothesis, one seed in ten thousand falls below
VERTICES = 20000  # that draw


def draws(weights, fanout, device, *, times=None, batches=1, seed=11, **options):
    """``[VERTICES * batches, fanout]``: which positions each of many vertices drew from the same list."""
    weights = torch.as_tensor(weights)
    degree = len(weights)
    star = hl.Graph(torch.tensor([0] + [degree] * (degree + 1)), torch.arange(1, degree + 1), weights)
    sampling = NeighborSampler(star, [fanout], times=times, seed=seed, device=device, **options)
    found = [
        sampling.sample([0] * VERTICES, batch=batch, **({"seed_times": [0] * VERTICES} if times is not None else {}))
        for batch in range(batches)
    ]
    return np.concatenate([sample.edge.cpu().numpy().reshape(VERTICES, fanout) for sample in found])


def agree(outcomes, probabilities):
    """That outcomes, ``[n]`` keys, come with ``probabilities`` {key: p}."""
    keys, counts = np.unique(outcomes, return_counts=True)
    observed = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    assert set(observed) <= set(probabilities)
    expected = np.array(list(probabilities.values())) * len(outcomes)
    assert expected.min() > 5 and expected.sum() == pytest.approx(len(outcomes))
    assert stats.chisquare([observed.get(key, 0) for key in probabilities], expected).pvalue > LEAST_P


def coded(drawn, base):
    """Each row as one number."""
    return drawn @ base ** np.arange(drawn.shape[1])[::-1]


def successive(weights, count):
    """The probability of each sequence of draws without replacement, in proportion to weight among what is left."""
    found = {}
    for sequence in itertools.permutations(range(len(weights)), count):
        probability, left = 1.0, float(sum(weights))
        for i in sequence:
            probability *= weights[i] / left
            left -= weights[i]
        if probability > 0:
            found[sum(i * len(weights) ** (count - 1 - at) for at, i in enumerate(sequence))] = probability
    return found


@pytest.mark.parametrize(("degree", "fanout"), [(2, 1), (6, 3), (5, 4), (9, 2), (50, 1)])
def test_every_subset_is_equally_likely(device, degree, fanout):
    drawn = np.sort(draws(torch.ones(degree), fanout, device), axis=1)
    subsets = [np.array(s) for s in itertools.combinations(range(degree), fanout)]
    agree(coded(drawn, degree), {int(coded(s[None], degree)[0]): 1 / len(subsets) for s in subsets})


def test_inclusion_in_a_long_list(device):
    """Each neighbour, and each pair, of a list longer than what is drawn by far."""
    drawn = draws(torch.ones(40), 10, device)
    agree(drawn.ravel(), dict.fromkeys(range(40), 1 / 40))
    pairs = np.concatenate([drawn[:, [i, j]] for i, j in itertools.combinations(range(10), 2)])
    agree(coded(np.sort(pairs, axis=1), 40), {i * 40 + j: 2 / (40 * 39) for i, j in itertools.combinations(range(40), 2)})


def test_draws_with_replacement(device):
    drawn = draws(torch.ones(5), 3, device, replace=True)
    agree(coded(drawn, 5), dict.fromkeys(range(125), 1 / 125))


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0, 4.0], [5, 0, 1, 1, 3], [1e-3, 1e3, 10.0]], ids=str)
def test_weights_without_replacement(device, weights):
    weights = torch.tensor(weights)
    count = 2 if weights.max() < 100 else 1
    agree(coded(draws(weights, count, device, weighted=True), len(weights)), likely(successive(weights.tolist(), count)))


@pytest.mark.parametrize("weights", [[1.0, 2.0, 3.0], [4, 0, 1]], ids=str)
def test_weights_with_replacement(device, weights):
    weights = torch.tensor(weights, dtype=torch.float64)
    share = (weights / weights.sum()).tolist()
    sequences = itertools.product(range(3), repeat=3)
    expected = {int(coded(np.array([s]), 3)[0]): share[s[0]] * share[s[1]] * share[s[2]] for s in sequences}
    agree(coded(draws(weights, 3, device, weighted=True, replace=True), 3), {key: p for key, p in expected.items() if p > 0})


def likely(probabilities):
    """Without what is too rare to be counted: chi-square needs five of each."""
    rare = {key for key, p in probabilities.items() if p * VERTICES <= 5}
    if not rare:
        return probabilities
    assert sum(probabilities[key] for key in rare) * VERTICES < 1e-1
    kept = {key: p for key, p in probabilities.items() if key not in rare}
    return {key: p / sum(kept.values()) for key, p in kept.items()}


@pytest.mark.parametrize("heavy", [8.0, 300.0])
def test_trials_and_keys_of_a_long_list(device, heavy, monkeypatch):
    """A list of which trials come first; with few heavy neighbours they find little, and keys the rest."""
    weights = torch.ones(600, dtype=torch.float64)
    weights[:6] = heavy
    monkeypatch.setattr(f"{__name__}.VERTICES", 1500)
    drawn = draws(weights, 2, device, weighted=True)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    light, all_weight = 594.0, 6 * heavy + 594
    both, first = drawn < 6, 6 * heavy / all_weight
    second_after_heavy, second_after_light = 5 * heavy / (all_weight - heavy), 6 * heavy / (all_weight - 1)
    expected = {
        3: first * second_after_heavy,
        2: first * (1 - second_after_heavy),
        1: light / all_weight * second_after_light,
        0: light / all_weight * (1 - second_after_light),
    }
    agree(both[:, 0] * 2 + both[:, 1], expected)
    agree(drawn[both[:, 0], 0], dict.fromkeys(range(6), 1 / 6))


def test_keys_where_trials_fail_with_replacement(device):
    """One neighbour in 400 has most of the weight, so most of 32 trials fail in a tenth of all draws."""
    weights = torch.full((400,), 0.002, dtype=torch.float64)
    weights[7] = 1.0
    drawn = draws(weights, 1, device, weighted=True, replace=True)[:, 0]
    total = float(weights.sum())
    agree(np.where(drawn == 7, 1, 0), {1: 1 / total, 0: 1 - 1 / total})
    assert len(np.unique(drawn)) > 350


@pytest.mark.parametrize("replace", [False, True])
def test_uniform_among_those_old_enough(device, replace):
    times = torch.tensor([0, 5, -1, 0, 3, -7, 0])  # of the star's centre and its six neighbours
    drawn = draws(torch.ones(6), 2, device, times=times, replace=replace)
    old = [i for i in range(6) if times[1 + i] <= 0]
    pairs = [(i, j) for i in old for j in old if replace or i != j]
    agree(coded(drawn, 6), {i * 6 + j: 1 / len(pairs) for i, j in pairs})


@pytest.mark.parametrize("replace", [False, True])
def test_uniform_within_a_window(device, replace):
    times = torch.tensor([0, -9, -3, 1, -2, 0, -4, -3])  # of the star's centre and its seven neighbours
    drawn = draws(torch.ones(7), 2, device, times=times, time_window=3, replace=replace)
    recent = [i for i in range(7) if -3 <= times[1 + i] <= 0]
    pairs = [(i, j) for i in recent for j in recent if replace or i != j]
    agree(coded(drawn, 7), {i * 7 + j: 1 / len(pairs) for i, j in pairs})


@pytest.mark.parametrize("replace", [False, True])
def test_weights_within_a_window_of_a_long_list(device, replace, monkeypatch):
    """Ten of 600 neighbours lie in it, so most trials fail; weights still tell."""
    times, weights = torch.full((601,), -100), torch.ones(600, dtype=torch.float64)
    times[-10:], weights[-1] = -5, 3.0
    monkeypatch.setattr(f"{__name__}.VERTICES", 4000)
    drawn = draws(weights, 1, device, times=times, time_window=5, weighted=True, replace=replace)[:, 0]
    agree(drawn, dict.fromkeys(range(590, 599), 1 / 12) | {599: 3 / 12})


def test_batches_hops_and_vertices_draw_independently(device):
    drawn = draws(torch.ones(6), 1, device, batches=2, replace=True)[:, 0].reshape(2, VERTICES)
    agree(drawn[0] * 6 + drawn[1], dict.fromkeys(range(36), 1 / 36))  # the same vertex in two batches
    agree(drawn[0, :-1] * 6 + drawn[0, 1:], dict.fromkeys(range(36), 1 / 36))  # two vertices of one
    other = draws(torch.ones(6), 1, device, seed=12, replace=True)[:, 0]
    agree(drawn[0] * 6 + other, dict.fromkeys(range(36), 1 / 36))
    # A vertex's own draw and that of the neighbour it draws: on a circle of chords, the steps of two hops.
    size = 6 * VERTICES
    chords = (torch.arange(size)[:, None] + torch.arange(1, 7)[None]) % size
    circle = hl.Graph(torch.arange(size + 1) * 6, chords.reshape(-1))
    found = NeighborSampler(circle, [1, 1], disjoint=True, device=device).sample(torch.arange(0, size, 6))
    first, second = (found.edge.cpu().numpy()[part] % 6 for part in (slice(VERTICES), slice(VERTICES, None)))
    agree(first * 6 + second, dict.fromkeys(range(36), 1 / 36))
