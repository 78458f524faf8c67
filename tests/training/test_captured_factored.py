"""Factored execution by graphs: the parameters, rows and draws of eager factored execution, whoever samples and trains."""

from __future__ import annotations

import dataclasses
import itertools
import random
import sys
import time

import pytest
import torch
from torch import nn

import hinterland as hl
from hinterland.runtime.errors import ConfigError, PipelineStalled
from hinterland.runtime.watch import StageWork
from hinterland.sampling import NeighborSampler
from hinterland.sampling.envelope import Envelope, PaddedSample
from hinterland.training import Factored, Loader, capture, factored_plan, factored_replays, replayed_batches, train
from hinterland.training import checkpoint as checkpoints
from hinterland.training.pipeline import tensors_of
from hinterland.training.prefetch import StreamedStage, wait_for

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
        stand_in_for_gradients(monkeypatch)
    return torch.device(request.param)


def stand_in_for_gradients(monkeypatch):
    """A replay leaves what it made where the capture did, and where those of other buffers do: graphs share a pool."""
    replay = factored_replays._Gradients._replay

    def replayed(steps, graph):
        loss = replay(steps, graph)
        for held, made in zip(tensors_of(graph.made), tensors_of(steps.made), strict=True):
            held.detach().copy_(made)
        steps.made = graph.made
        return loss

    monkeypatch.setattr(factored_replays._Gradients, "_replay", replayed)


def noted(model, batch):
    """The loss, and checksums of the batch without its padding, by the bits of its rows."""
    sample, padded = batch.sample, isinstance(batch.sample, PaddedSample)
    vertices, edges = (
        sample.ends[:, -1] if padded else torch.tensor([len(sample.node), len(sample.edge)], device=batch.x.device)
    )
    rows, drawn = (torch.arange(len(one), device=one.device) for one in (sample.node, sample.edge))
    at = torch.where(rows < vertices, rows + 1, 0)
    edges = torch.where(drawn < edges, drawn + 1, 0)
    sums = [(batch.x.view(torch.int32).long() * at[:, None]).sum(), (sample.node * at).sum()]
    sums += [(one * edges).sum() for one in (sample.row, sample.col, sample.edge)]
    return loss_of(model, batch), torch.stack(sums)


def made(dataset, device, capture, devices=2, step=noted, net=Net, timeout=60.0, **options):
    torch.manual_seed(7)
    model = net().to(device)

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
    return Factored(loader, sampler_on, model, step, [device] * devices if isinstance(devices, int) else devices, **options)


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
    assert torch.equal(torch.stack(found[1]), torch.stack(expected[1]))
    for name, value in expected[2].items():
        torch.testing.assert_close(found[2][name], value, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("devices, samplers, round", [(1, None, 1), (2, 1, 2), (2, 1, 3), (3, 2, 2), (4, 3, 5)])
def test_it_is_factored_execution(dataset, device, devices, samplers, round):
    expected = trained(made(dataset, device, False, devices, samplers=samplers, round=round))
    factored = made(dataset, device, True, devices, samplers=samplers, round=round)
    close(trained(factored), expected)
    assert factored.replayed >= 8 and sum(factored.trained) == 8 * EPOCHS
    assert f"replayed {factored.replayed} of 24 batches; time of all devices by stage: sample " in factored.explain()


@pytest.mark.parametrize("seed", range(3))
def test_whoever_trains_changes_nothing(dataset, device, monkeypatch, seed):
    expected = trained(made(dataset, device, False, round=4))
    draw = random.Random(seed)
    monkeypatch.setattr(factored_plan, "assign", lambda batches, _: [draw.randrange(3) for _ in range(batches)])
    factored = made(dataset, device, True, 3, round=4, samplers=1 + seed % 2)
    close(trained(factored), expected)
    assert min(factored.trained) > 0 and factored.replayed > 0


def test_a_sampler_trains_where_samples_are_ahead(dataset, device, monkeypatch):
    """Of a round of two the device that samples takes one while its samples are there, where it is as fast as the other."""
    monkeypatch.setattr(factored_replays.FactoredReplays, "_pace", lambda *_: None)
    factored = made(dataset, device, True, samplers=1)
    trained(factored, 6)
    assert 0 < factored.trained[1] <= factored.trained[0]


def test_what_does_not_fit_is_ordinary(dataset, device, monkeypatch):
    """Sampled and gathered without graphs, and counted."""
    expected = trained(made(dataset, device, False))
    asked, holds = itertools.count(1), Envelope.holds
    monkeypatch.setattr(Envelope, "holds", lambda self, *counts: next(asked) % 3 > 0 and holds(self, *counts))
    factored = made(dataset, device, True)
    close(trained(factored), expected)
    counts = factored.loader.captured
    assert counts.overflowed >= 5 and counts.replayed + counts.overflowed == 8 * EPOCHS - 9  # the first epoch's last is short
    assert 0 < counts.padding < 0.5 and factored.replayed > 0


def test_labels_that_are_not_padded(dataset, device):
    """The short last batch is an ordinary one."""
    ended = []
    for captures in (False, True):
        factored = made(dataset, device, captures, step=lambda model, batch: noted_with(model, batch, batch.y.long()))
        factored.loader.labels = dataset.labels.to(torch.uint8)
        ended.append(trained(factored))
    close(ended[1], ended[0])
    assert factored.loader.captured.replayed == 7 * (EPOCHS - 1) - 1


def noted_with(model, batch, y):
    return noted(model, dataclasses.replace(batch, y=y))


def test_changes_are_captured_anew(dataset, device):
    """Another table of features, and another size of batches: no stale graph is replayed."""
    ended = []
    for captures in (False, True):
        factored = made(dataset, device, captures)
        trained(factored, 2)
        factored.loader.features = hl.UnifiedTensor.from_tensor(dataset.features[torch.arange(600)] + 1)
        found = trained(factored, 1)
        factored.loader.batch_size = 24
        ended.append((found, trained(factored, 2), factored.replayed))
    for found, expected in zip(ended[1][:2], ended[0][:2], strict=True):
        close(found, expected)
    assert ended[1][2] >= 12 + 7


@pytest.mark.parametrize("cache", ["auto", "presample"])
def test_each_role_has_its_cache(dataset, device, cache):
    expected = trained(made(dataset, device, False))
    factored = made(dataset, device, True, samplers=1, cache=cache, gpu_budget="100KiB")
    close(trained(factored), expected)
    trainer, sampler = factored.cache_plans
    assert factored.replayed and trainer.split.rows > 0 and (sampler.split.adjacency_bytes > 0) == (cache == "auto")


class Partly(Net):
    """Some of it learns not, or is not used; and it has buffers."""

    def __init__(self):
        super().__init__(between=nn.BatchNorm1d(32))
        self.unused = nn.Parameter(torch.ones(3))
        self.second.bias.requires_grad_(False)


@pytest.mark.parametrize("evaluates", [True, False])
def test_parts_of_a_model(dataset, device, evaluates):
    """Statistics over rows are not captured, but those of an evaluated module are none."""
    ended = []
    for captures in (False, True):
        factored = made(dataset, device, captures, net=Partly)
        factored.model.between.train(not evaluates)
        if captures and not evaluates:
            with pytest.warns(UserWarning, match="are not captured, and run as usual: BatchNorm1d takes statistics"):
                ended.append(trained(factored))
        else:
            ended.append(trained(factored))
        assert factored.model.unused.grad is None and factored.model.second.bias.grad is None
    close(ended[1], ended[0])
    assert (factored.replayed > 0) == evaluates


@pytest.mark.parametrize(
    "module, said", [("batches", "are made without CUDA graphs, whose"), ("steps", "steps are not captured")]
)
def test_a_capture_that_fails(dataset, device, monkeypatch, module, said):
    """One sentence, and what is left runs eagerly, with threads from the next round on."""
    expected = trained(made(dataset, device, False, round=3))
    where = replayed_batches if module == "batches" else sys.modules[capture.__module__]
    monkeypatch.setattr(where, "captured", captured_without_room)
    factored = made(dataset, device, True, round=3)
    with pytest.warns(UserWarning, match=f"{said}.*no room for it") as warned:
        close(trained(factored), expected)
    assert sum("no room for it" in str(one.message) for one in warned) == 1
    assert factored.replayed == 0 and not factored.loader.capture and sum(factored.trained) == 24


def test_a_device_that_cannot(dataset, device, monkeypatch):
    """Refused where capture=True, and eager without a word where it is "auto"."""
    factored, other = made(dataset, device, True), made(dataset, device, "auto")
    monkeypatch.setattr("hinterland.training.loader.refusal", lambda *_: "this one samples by hand")
    factored.loader.capture = other.loader.capture = True
    with pytest.raises(ConfigError, match="capture=True: this one samples by hand; or leave it out"):
        next(iter(factored))
    close(trained(other), trained(made(dataset, device, False)))
    assert other.replayed == 0


@pytest.mark.parametrize("ending", [GeneratorExit, KeyboardInterrupt, ZeroDivisionError])
def test_an_epoch_that_ends_early_goes_on(dataset, device, monkeypatch, ending):
    """Among replays: nothing is held, and nothing is trained twice."""
    expected = trained(made(dataset, device, False))
    waits, until = itertools.count(), factored_replays.until_sampled

    def stopped(*given):
        if next(waits) == 7 and ending is not GeneratorExit:
            raise ending
        return until(*given)

    monkeypatch.setattr(factored_replays, "until_sampled", stopped)
    factored = made(dataset, device, True, round=2)
    optimizer = torch.optim.SGD(factored.model.parameters(), lr=0.05, momentum=0.9)
    losses, seen, stops = [], [], 0
    while factored.loader.position[0] < EPOCHS:
        try:
            for averaged in factored:
                optimizer.step()
                losses.append(averaged.losses)
                seen += averaged.seen
                if ending is GeneratorExit and len(losses) == 7:
                    break
        except ending:
            stops += 1
            assert factored.loader.position[0] > 0
    assert stops == (ending is not GeneratorExit) and factored.replayed > 0
    close((torch.cat(losses), seen, factored.model.state_dict()), expected)


def test_a_stage_that_is_stuck_is_named(dataset, device, monkeypatch):
    """A device has begun something and not ended it: the sample of the next batch does not come."""
    factored = made(dataset, device, True, samplers=1, timeout=1.0)
    trained(factored, 2)
    work = StageWork("'train' on cuda:1", 17, time.monotonic() - 5)
    monkeypatch.setattr(StreamedStage, "under_way", lambda self: work if self.stage.name == "train" else None)
    monkeypatch.setattr(factored_replays, "until_sampled", lambda _, watch, nap: wait_for(lambda: False, watch))
    with pytest.raises(PipelineStalled, match="stage 'train' on cuda:1 has worked on batch 17 for 6 s, and no batch"):
        next(iter(factored))


OPTIONS = {**SMALL, "dropout": 0.0, "epochs": 4, "round": 2}


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_train(dataset, device, model):
    """Its records too."""
    found, plain = (train(dataset, model, **OPTIONS, devices=[device] * 2, capture=chosen) for chosen in (True, False))
    for one, other in zip(found.history, plain.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
        for name in ("seeds", "vertices", "edges", "bytes", "batches"):
            assert one[name] == other[name]
    assert found.history[-1]["replayed"] >= 5 and 0 < found.history[-1]["padding"] < 0.5
    assert plain.history[-1]["replayed"] == 0 and found.roles.round == 2
    assert found.test["accuracy"] == pytest.approx(plain.test["accuracy"], abs=0.02)


def test_train_where_steps_are_not_captured(dataset, device, monkeypatch):
    """Each batch is counted once: by the loader, or as an ordinary one."""
    plain = train(dataset, **OPTIONS, devices=[device] * 2, capture=False)
    monkeypatch.setattr(sys.modules[capture.__module__], "captured", captured_without_room)
    with pytest.warns(UserWarning, match="steps are not captured.*no room for it"):
        found = train(dataset, **OPTIONS, devices=[device] * 2, capture=True)
    for one, other in zip(found.history, plain.history, strict=True):
        assert one["replayed"] == 0
        for name in ("seeds", "vertices", "edges", "bytes", "batches"):
            assert one[name] == other[name]


@pytest.mark.parametrize("stop", [2, 6, 9])
def test_a_resumed_run_is_the_run(dataset, device, tmp_path, monkeypatch, stop):
    """To the bit: while a shape is looked for, while steps are captured, and among replays."""
    options = {**OPTIONS, "devices": [device] * 2, "checkpoint_every": 2, "capture": True}
    whole = train(dataset, **options, checkpoint=tmp_path / "whole.pt")
    steps, step = itertools.count(), torch.optim.Adam.step

    def counted(*arguments, **named):
        if next(steps) == stop:
            raise ZeroDivisionError
        return step(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.Adam, "step", counted)
        with pytest.raises(ZeroDivisionError):
            train(dataset, **options, checkpoint=tmp_path / "parts.pt")
    assert checkpoints.load(tmp_path / "parts.pt")["shapes"][0]["counts"]
    resumed = train(dataset, **options, checkpoint=tmp_path / "parts.pt", resume=True)
    assert same(resumed.model.state_dict(), whole.model.state_dict()) and resumed.history[-1]["replayed"] > 0
    assert [one["loss"] for one in resumed.history] == [one["loss"] for one in whole.history]


@pytest.mark.gpu
@pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs 2 GPUs")
@pytest.mark.parametrize("devices, samplers", [(["cuda:0", "cuda:1"], 1), (["cuda:1", "cuda:0"], None)])
def test_two_gpus(dataset, devices, samplers):
    """Samples and gradients cross the link."""
    expected = trained(made(dataset, torch.device("cuda:0"), False), 5)
    factored = made(dataset, torch.device("cuda:0"), True, devices, samplers=samplers)
    close(trained(factored, 5), expected)
    assert factored.replayed >= 20
