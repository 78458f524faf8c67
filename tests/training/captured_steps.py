"""Training captured and not, for the tests of captured steps; and what stands for graphs where there is no GPU."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn

from hinterland import datasets
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope
from hinterland.training import Batch, Loader, capture, replayed_batches
from hinterland.training.graphed_optimizer import GraphedOptimizer
from hinterland.training.pipeline import tensors_of
from tests.padding import padded

SHAPE = datasets.Shape({"node": 600}, {"node": 64}, {("node", "to", "node"): 6000}, (240, 120, 240), 4, undirected=True)
SMALL = {"fanouts": (4, 3), "hidden": 32, "batch_size": 32, "lr": 0.02, "dropout": 0.3, "seed": 3}


class Net(nn.Module):
    """Means over neighbours, twice, by torch alone."""

    def __init__(self, between=None, dropout=0.0):
        super().__init__()
        self.first, self.second = nn.Linear(128, 32), nn.Linear(64, 4)
        self.between, self.dropout = between or nn.Identity(), dropout

    def forward(self, x, edge_index):
        row, col = edge_index
        for layer in (self.first, self.second):
            drawn = x.new_zeros(len(x), 1).index_add(0, col, x.new_ones(len(col), 1))
            mean = torch.zeros_like(x).index_add(0, col, x[row]) / drawn.clamp(min=1)
            x = layer(torch.cat([x, mean], 1))
            x = self.between(F.dropout(x, self.dropout, self.training).relu()) if layer is self.first else x
        return x


def loss_of(model, batch):
    return F.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y)


def made(dataset, device, capture, **model):
    """A model with parameters that are always the same, and a loader of 8 batches, the last of them short."""
    torch.manual_seed(7)
    net = Net(**model).to(device)
    sampler = NeighborSampler(dataset.graph, [4, 3], seed=1, device=device)
    options = {"features": dataset.features, "labels": dataset.labels, "shuffle": True, "seed": 2}
    if device.type == "cpu" and capture is True:
        return net, Buffered(Loader(sampler, dataset.splits["train"], 32, device=device, **options))
    return net, Loader(sampler, dataset.splits["train"], 32, device=device, capture=capture, **options)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "momentum": sgd,
    "Adam": adam,
    "fused Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01, fused=True),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1),
    "AdamW, one by one": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=False, fused=False),
    "RMSprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
}


def eager(net, loader, optimizer, epochs, before_step=None, between=lambda epoch, net, optimizer: None):
    """What a user writes without capture."""
    losses = []
    for epoch in range(epochs):
        between(epoch, net, optimizer)
        for batch in loader:
            optimizer.zero_grad()
            loss = loss_of(net, batch)
            loss.backward()
            if before_step is not None:
                before_step(net)
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses).cpu()


def replayed(net, loader, optimizer, epochs, before_step=None, between=lambda epoch, net, optimizer: None):
    """The same, captured; and the steps."""
    steps, losses = capture(net, loss_of, optimizer, loader, before_step=before_step), []
    for epoch in range(epochs):
        between(epoch, net, optimizer)
        losses += [loss for _, loss in steps]
    return torch.stack(losses).cpu(), steps


def both(dataset, device, epochs=5, least=25, optimizer=sgd, before_step=None, between=lambda epoch, net, optimizer: None):
    """Trains captured and eagerly: losses and parameters are the same to rounding, and ``least`` steps are replayed. Gives the
    captured model."""
    ended = []
    for captures in (True, False):
        net, loader = made(dataset, device, captures)
        how = optimizer(net.parameters())
        run = replayed if captures else eager
        ended.append((run(net, loader, how, epochs, before_step, between), net))
    ((losses, steps), net), (expected, other) = ended
    torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
    for one, true in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, true, rtol=1e-2, atol=1e-3)
    assert steps.steps == 8 * epochs and steps.replayed >= least and steps.why_not is None
    return net


class Buffered:
    """A loader whose batches lie in three buffers from the ninth on."""

    def __init__(self, loader):
        self.loader, self.capture, self.given, self.buffers = loader, True, 0, {}
        self.envelope = Envelope.largest(32, [4, 3], 600)

    def __iter__(self):
        for batch in self.loader:
            self.given += 1
            yield self.padded(batch, self.given % 3) if self.capture and self.given > 8 else batch

    def padded(self, batch, number):
        sample, missing = padded(batch.sample, self.envelope), 32 - len(batch.seeds)
        y, seeds = F.pad(batch.y, (0, missing), value=-100), F.pad(batch.seeds, (0, missing))
        made = Batch(sample, self.loader.features.gather(sample.node), y, seeds, buffer=number)
        buffer = self.buffers.setdefault(number, made)
        for held, new in zip(tensors_of(buffer), tensors_of(made), strict=True):
            held.copy_(new)
        return buffer


class Again:
    """Stands for a graph: does again, on the CPU, what was captured, which made ``made`` or nothing."""

    def __init__(self, call, made):
        self._call, self._made = call, made

    def replay(self):
        if (again := self._call()) is not None:
            for held, made in zip(tensors_of(self._made), tensors_of(again), strict=True):
                held.copy_(made)


def stand_in_for_batches(monkeypatch):
    """Something makes again, on the CPU, the batches whose making was captured."""
    monkeypatch.setattr("hinterland.training.loader.refusal", lambda *_: None)
    monkeypatch.setattr(replayed_batches, "captured", lambda _, call: (Again(call, made := call()), made))
    sample = replayed_batches.SampleBuffer._sample

    def counted(buffer, order, envelope):
        order.next.remainder_(len(order.order))  # what is captured here has run, too
        return sample(buffer, order, envelope)

    monkeypatch.setattr(replayed_batches.SampleBuffer, "_sample", counted)


def stand_in_for_adam(monkeypatch):
    """Adam counts its steps on the CPU here, which is no change."""
    monkeypatch.setattr(GraphedOptimizer, "settings", lambda self: nullcontext())
    monkeypatch.setattr("hinterland.training.capture_key._plain", lambda value: None)


def stand_in_for_epochs(monkeypatch):
    """The same of epochs over whole graphs."""
    stand_in(monkeypatch)
    module = sys.modules[capture.__module__]
    monkeypatch.setattr("hinterland.training.full.refusal", lambda *_: None)
    stand_in_for_adam(monkeypatch)
    monkeypatch.setattr(module, "_drawn_on_cpu", lambda: ())  # where dropout draws here


def captured_without_room(*_):
    raise RuntimeError("no room for it")


def stand_in(monkeypatch):
    """Something does again what was captured, on the CPU."""
    module = sys.modules[capture.__module__]
    monkeypatch.setattr(module, "_is_replayable", lambda batch: batch.buffer is not None)
    monkeypatch.setattr(module, "_generators", lambda device: lambda: None)
    monkeypatch.setattr(module.CapturedSteps, "_side_stream", lambda self: nullcontext([None]))
    monkeypatch.setattr(GraphedOptimizer, "_reads_rate", lambda self, group: True)

    def captured(device, step, pool, stream, others):
        loss = torch.zeros(())
        return Again(step, loss), loss

    monkeypatch.setattr(module, "captured", captured)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
