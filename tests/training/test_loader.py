"""The loader: every seed once an epoch, what a batch holds, ranks, and going on where it was."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.training import Loader

VERTICES = 100


@dataclass(frozen=True)
class Ring:
    """Stands for a Sample: the seeds and what comes after each on a ring."""

    node: torch.Tensor
    row: torch.Tensor
    col: torch.Tensor
    number: int


class RingSampler:
    def sample(self, seeds, batch=0):
        following = (seeds + 1) % VERTICES
        there = torch.arange(len(seeds), device=seeds.device)
        return Ring(torch.cat([seeds, following]), there + len(seeds), there, batch)


def loader(seeds=None, batch_size=16, **options):
    seeds = torch.arange(0, VERTICES, 2) if seeds is None else seeds
    return Loader(RingSampler(), seeds, batch_size, device=options.pop("device", "cpu"), **options)


def seeds_of(batches):
    return torch.cat([batch.seeds.cpu() for batch in batches])


@pytest.mark.parametrize("kind", ["table", "tensor"])
def test_a_batch_holds_rows_and_labels(device, kind):
    x, y = torch.randn(VERTICES, 7), torch.randint(5, (VERTICES,))
    features = hl.UnifiedTensor.from_tensor(x) if kind == "table" else x
    for batch in loader(features=features, labels=y, shuffle=True, device=device):
        assert batch.x.device == batch.y.device == batch.seeds.device == device
        assert torch.equal(batch.x.cpu(), x[batch.sample.node.cpu()])
        assert torch.equal(batch.y.cpu(), y[batch.seeds.cpu()])
        assert batch.edge_index.shape == (2, batch.batch_size)


@given(st.integers(0, 70), st.integers(1, 20), st.booleans(), st.booleans(), st.integers(1, 4))
def test_every_seed_once_an_epoch(count, batch_size, shuffle, drop_last, world_size):
    seeds = torch.randperm(VERTICES, generator=torch.Generator().manual_seed(count))[:count]
    ranks = [
        loader(seeds, batch_size, shuffle=shuffle, drop_last=drop_last, seed=4, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for _ in range(2):
        batches = [list(one) for one in ranks]
        assert {len(b) for b in batches} == {len(ranks[0])}  # as many in every rank
        numbers = [batch.sample.number for b in batches for batch in b]
        assert len(set(numbers)) == len(numbers)
        seen = seeds_of([batch for b in batches for batch in b]) if numbers else torch.zeros(0, dtype=torch.int64)
        if drop_last:
            assert all(batch.batch_size == batch_size for b in batches for batch in b)
            assert len(seen.unique()) == len(seen)
            assert set(seen.tolist()) <= set(seeds.tolist())
        else:
            assert set(seen.tolist()) == set(seeds.tolist())
            assert len(seen) - len(seeds) < world_size  # seeds that were repeated to make ranks even


def test_epochs_differ_and_can_be_repeated():
    one, other = loader(shuffle=True, seed=3), loader(shuffle=True, seed=3)
    epochs = [seeds_of(one) for _ in range(3)]
    assert all(torch.equal(mine, seeds_of(other)) for mine in epochs)
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0], seeds_of(loader(shuffle=True, seed=4)))
    assert torch.equal(seeds_of(loader()), torch.arange(0, VERTICES, 2))


@pytest.mark.parametrize("stop", range(10))
def test_it_goes_on_where_it_was(stop):
    """4 batches an epoch."""
    whole = loader(shuffle=True)
    expected = [batch for _ in range(3) for batch in whole]
    first = loader(shuffle=True)
    given_out = 0
    while given_out < stop:
        for _ in first:
            given_out += 1
            if given_out == stop:
                break
    second = loader(shuffle=True)
    second.load_state_dict(first.state_dict())
    rest = []
    while len(rest) < len(expected) - stop:
        rest += list(second)
    for mine, other in zip(rest, expected[stop:], strict=True):
        assert torch.equal(mine.seeds, other.seeds) and mine.sample.number == other.sample.number


def test_an_epoch_that_was_left_goes_on():
    one = loader(shuffle=True)
    whole = list(loader(shuffle=True))
    left = [next(iter(one))]
    assert torch.equal(seeds_of(left + list(one)), seeds_of(whole))


def test_a_state_of_another_loader_is_refused():
    state = loader().state_dict()
    with pytest.raises(ConfigError, match="saved with batches=4, but this loader has 8; make it with the same seeds"):
        loader(batch_size=7).load_state_dict(state)
    with pytest.raises(ConfigError, match="saved with seed=0, but this loader has 1"):
        loader(seed=1).load_state_dict(state)
    for name, value in (("epoch", -5), ("epoch", "two"), ("delivered", 5), ("delivered", -1)):
        with pytest.raises(ConfigError, match=f"{name} of the state '?{value}'? is not a whole number"):
            loader().load_state_dict({**state, name: value})


def test_bad_options():
    with pytest.raises(ConfigError, match="batch_size=0 makes no batch"):
        loader(batch_size=0)
    with pytest.raises(ConfigError, match="for a mask use mask.nonzero"):
        loader(torch.ones(VERTICES, dtype=torch.bool))
    with pytest.raises(ConfigError, match="rank=2 is not one of 2 ranks"):
        loader(rank=2, world_size=2)
    with pytest.raises(ConfigError, match="features are a ndarray; give a tensor"):
        loader(features=torch.zeros(VERTICES, 4).numpy())
    with pytest.raises(ConfigError, match="labels are a list; give a tensor"):
        loader(labels=[0] * VERTICES)
    with pytest.raises(IndexOutOfRange, match="seed 98 is not a vertex: features has 90 rows"):
        loader(features=torch.zeros(90, 4))
    with pytest.raises(IndexOutOfRange, match="seed -1 is not a vertex: labels has 100 rows"):
        loader(torch.tensor([-1, 4]), labels=torch.zeros(100))
    with pytest.raises(ConfigError, match="host_threads -1 is not a whole number"):
        loader(host_threads=-1)
    for seed in (-1, 1.5):
        with pytest.raises(ConfigError, match=f"seed={seed} is not a whole number from 0 on"):
            loader(shuffle=True, seed=seed)


def test_more_host_threads_than_there_are_cores():
    features = torch.randn(VERTICES, 1000)
    for batch in loader(features=hl.UnifiedTensor.from_tensor(features), host_threads=1 << 40):
        assert torch.equal(batch.x, features[batch.sample.node])


def tensors_alive():
    gc.collect()
    return sum(type(thing) is torch.Tensor for thing in gc.get_objects())


def test_nothing_leaks_over_many_epochs():
    one = loader(features=torch.randn(VERTICES, 7), shuffle=True)
    list(one)
    before = tensors_alive()
    for _ in range(1000):
        for _ in one:
            pass
    assert tensors_alive() < before + 50


@pytest.mark.parametrize("left_early", [False, True])
def test_a_loader_that_is_let_go_waits_for_no_garbage_collector(left_early):
    """What it holds, memory of the GPU among it, is free when the last name of it goes."""
    gc.collect()
    gc.disable()
    try:
        one = loader(features=torch.randn(VERTICES, 3))
        for _ in one:
            if left_early:
                break
        alive = weakref.ref(one)
        del one, _
        assert alive() is None
    finally:
        gc.enable()
