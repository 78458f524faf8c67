"""train() captures its steps where it can, and what comes of it is what comes without."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hinterland import datasets
from hinterland.runtime.errors import ConfigError
from hinterland.training import Loader, train
from hinterland.training import checkpoint as checkpoints

from .captured_steps import SMALL, eager, made, replayed, sgd, stand_in, stand_in_for_adam, stand_in_for_batches

pytestmark = pytest.mark.usefixtures("one_thread")


def test_on_a_cpu_it_trains_eagerly(dataset):
    plain, found = (train(dataset, **SMALL, epochs=2, device="cpu", capture=chosen) for chosen in (False, "auto"))
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, found.model.state_dict()[name])
    for epoch in found.history:
        assert (epoch["batches"], epoch["replayed"], epoch["overflowed"], epoch["padding"]) == (8, 0, 0, 0.0)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"capture": "yes"}, "capture='yes' is none of False, True and 'auto'"),
        ({"capture": 2}, "capture=2 is none of False, True and 'auto'"),
        ({"capture": True, "device": "cpu"}, "CUDA graphs are captured on a GPU"),
        ({"capture": True, "devices": ["cpu", "cpu"]}, "CUDA graphs are captured on a GPU"),
    ],
)
def test_what_cannot_be(dataset, options, said):
    with pytest.raises(ConfigError, match=said):
        train(dataset, **SMALL, epochs=1, **options)


def test_an_older_checkpoint_goes_on(dataset, tmp_path):
    """One of a run that counted nothing of captured steps."""
    path, options = tmp_path / "c.pt", {**SMALL, "device": "cpu"}
    train(dataset, **options, epochs=1, checkpoint=path)
    state = checkpoints.load(path)
    for name in ("replayed", "overflowed", "rows", "real_rows"):
        del state["totals"]["summed"][name]
    del state["shapes"]
    checkpoints.save(path, {name: value for name, value in state.items() if name != "version"})
    assert len(train(dataset, **options, epochs=2, checkpoint=path, resume=True).history) == 2


@pytest.mark.parametrize("model", ["sage", "gcn", "gat"])
def test_a_run_is_that_without(dataset, device, model, monkeypatch):
    """Its records too, of which the CPU learns some from the loader alone."""
    if device.type == "cpu":
        stand_in(monkeypatch)
        stand_in_for_batches(monkeypatch)
        stand_in_for_adam(monkeypatch)
    options = {**SMALL, "dropout": 0.0, "epochs": 5, "device": device}
    found, plain = (train(dataset, model, **options, capture=chosen) for chosen in (True, False))
    for one, other in zip(found.history, plain.history, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
        assert one["accuracy"] == pytest.approx(other["accuracy"], abs=0.02)
        for name in ("seeds", "vertices", "edges", "bytes", "batches"):
            assert one[name] == other[name]
    assert found.history[-1]["replayed"] >= 7 and 0 < found.history[-1]["padding"] < 0.5
    assert plain.history[-1]["replayed"] == 0 and plain.history[-1]["padding"] == 0
    assert found.test["accuracy"] == pytest.approx(plain.test["accuracy"], abs=0.02)


WITH_LOOPS = ("GCNConv", "GATConv", "GATv2Conv")


@pytest.mark.gpu
class TestOnAGPU:
    @pytest.fixture
    def device(self):
        return torch.device("cuda:0")

    @pytest.mark.parametrize("conv, options", [("SAGEConv", {}), *((name, {"add_self_loops": False}) for name in WITH_LOOPS)])
    def test_a_model_of_pyg(self, dataset, device, conv, options):
        layer = getattr(pytest.importorskip("torch_geometric.nn"), conv)

        class Stack(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = layer(64, 32, **options), layer(32, 4, **options)

            def forward(self, x, edge_index):
                return self.second(self.first(x, edge_index).relu(), edge_index)

        ended = []
        for captures in (True, False):
            _, loader = made(dataset, device, captures)
            torch.manual_seed(5)
            net = Stack().to(device)
            run = replayed if captures else eager
            ended.append(run(net, loader, sgd(net.parameters()), 5))  # Adam makes whole steps of what is rounding
        (losses, steps), expected = ended
        torch.testing.assert_close(losses, expected, rtol=1e-4, atol=1e-5)
        assert steps.replayed >= 25

    def test_by_default(self, dataset, device):
        assert train(dataset, **SMALL, epochs=4, device=device).history[-1]["replayed"] >= 7
        assert train(dataset, "pinsage", **SMALL, epochs=2, device=device).history[-1]["replayed"] == 0

    @pytest.mark.parametrize("stop", [9, 18, 30])
    def test_a_resumed_run_is_the_run(self, dataset, device, tmp_path, monkeypatch, stop):
        """To the bit, on one GPU: the steps of a run are replayed or not, and make the same sums either way."""
        options = {**SMALL, "epochs": 5, "device": device, "checkpoint_every": 3, "capture": True}
        whole = train(dataset, **options, checkpoint=tmp_path / "whole.pt")
        again = train(dataset, **options, checkpoint=tmp_path / "again.pt")
        for name, value in whole.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[name], value)

        class Stopped(Exception):
            pass

        taken, seed_of = [], Loader.seed_of

        def counted(self, *position):
            if len(taken) == stop:
                raise Stopped
            taken.append(position)
            return seed_of(self, *position)

        with monkeypatch.context() as patched:
            patched.setattr(Loader, "seed_of", counted)
            with pytest.raises(Stopped):
                train(dataset, **options, checkpoint=tmp_path / "parts.pt")
        resumed = train(dataset, **options, checkpoint=tmp_path / "parts.pt", resume=True)
        for name, value in whole.model.state_dict().items():
            assert torch.equal(resumed.model.state_dict()[name], value), name
        assert [epoch["loss"] for epoch in resumed.history] == [epoch["loss"] for epoch in whole.history]
        assert resumed.history[-1]["replayed"]

    def test_accuracy(self, device, real_data):
        """On Cora it is that without capture, over three seeds."""
        path = real_data / "cora.npz"
        if not path.exists():
            pytest.skip("no Cora here")
        cora = datasets.largest_component(datasets.open(path))
        cora.splits = datasets.random_splits(cora, 0)
        options = {"fanouts": (10, 10), "hidden": 64, "batch_size": 35, "lr": 0.01, "weight_decay": 5e-3, "epochs": 20}
        found = {
            chosen: [train(cora, **options, seed=seed, device=device, capture=chosen).test["accuracy"] for seed in range(3)]
            for chosen in (True, False)
        }
        mean = {chosen: sum(scores) / len(scores) for chosen, scores in found.items()}
        assert mean[True] == pytest.approx(mean[False], abs=0.03) and mean[True] > 0.7
