"""Factored execution by graphs: the parameters, rows and draws of eager factored execution, whoever samples and trains."""

from __future__ import annotations

import random
import warnings

import pytest
import torch
from torch import nn

from hinterland import datasets
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope
from hinterland.training import Factored, Loader, factored_plan, factored_replays, make_model, replayed_batches, train
from hinterland.training import checkpoint as checkpoints

from .captured_steps import SMALL, Net, captured_without_room, loss_of, stand_in, stand_in_for_adam, stand_in_for_batches
from .test_train import same

pytestmark = pytest.mark.usefixtures("one_thread", "every_thread_ends")

EPOCHS = 3


@pytest.fixture(params=["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    """The CPU, where something stands for graphs, or a GPU that has all roles."""
    if request.param == "cpu":
        stand_in(monkeypatch)
        stand_in_for_batches(monkeypatch)
        stand_in_for_adam(monkeypatch)
    return torch.device(request.param)


def noted(model, batch):
    """The loss, and what the batch is: with the marks of its padding left out."""
    count, rows = (batch.y != -100).sum(), batch.x.shape[0]
    return loss_of(model, batch), {"first": batch.seeds[:1].clone(), "sum": batch.x[: rows - 1].sum(), "seeds": count}


def made(dataset, device, capture, devices=2, step=noted, net=None, timeout=60.0, **options):
    torch.manual_seed(7)
    model = (net or Net()).to(device)

    def sampler_on(where):
        return NeighborSampler(dataset.graph, [4, 3], seed=1, device=where)

    loader = Loader(
        sampler_on(device),
        dataset.splits["train"],
        32,
        features=dataset.features,
        labels=dataset.labels,
        shuffle=True,
        seed=2,
        device=device,
        capture=capture,
        timeout=timeout,
    )
    return Factored(loader, sampler_on, model, step, [device] * devices, **options)


def trained(factored, epochs=EPOCHS):
    """Losses and what was seen of all batches, and the model's state."""
    optimizer = torch.optim.SGD(factored.model.parameters(), lr=0.05, momentum=0.9)
    losses, seen = [], []
    for _ in range(epochs):
        for averaged in factored:
            optimizer.step()
            losses.append(averaged.losses)
            seen += averaged.seen
    return torch.cat(losses), seen, factored.model.state_dict()


def close(found, expected):
    """Losses and parameters to rounding, and batches to the bit."""
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-5)
    for one, other in zip(found[1], expected[1], strict=True):
        assert torch.equal(one["first"], other["first"]) and torch.equal(one["seeds"], other["seeds"])
    for name, value in expected[2].items():
        torch.testing.assert_close(found[2][name], value, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("devices, samplers, round", [(1, None, 1), (2, 1, 2), (2, 1, 3), (3, 2, 2), (4, 3, 5)])
def test_it_is_factored_execution(dataset, device, devices, samplers, round):
    expected = trained(made(dataset, device, False, devices, samplers=samplers, round=round))
    factored = made(dataset, device, True, devices, samplers=samplers, round=round)
    close(trained(factored), expected)
    assert factored.replayed >= 8 and sum(factored.trained) == 8 * EPOCHS
