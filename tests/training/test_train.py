"""Training: it learns, goes on exactly where it was, refuses what it cannot do, and does the same in several processes."""

from __future__ import annotations

import _thread
import dataclasses
import os
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import ConfigError, FormatError, GraphError, StorageError
from hinterland.training import checkpoint as checkpoints
from hinterland.training import train, train_full
from hinterland.training import train as training
from hinterland.training.models import GNN

from ..ranks import run_ranks
from .captured_steps import SHAPE

SMALL = {"fanouts": (4, 3), "hidden": 32, "batch_size": 32, "lr": 0.02, "dropout": 0.3, "device": "cpu", "seed": 3}


pytestmark = pytest.mark.usefixtures("one_thread")


def same(one, other):
    """Whether two nests of tensors and values are equal to the bit, but for what was timed."""
    timed = {"seconds", "stages", "seeds_per_second", "edges_per_second", "binds"}
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one if key not in timed)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


class Stops(Exception):
    pass


def stop_after(monkeypatch, batches):
    """Training ends with Stops after so many steps of the optimizer."""
    done, step = [], torch.optim.Adam.step

    def counted(self, *arguments, **options):
        if len(done) == batches:
            raise Stops
        done.append(1)
        return step(self, *arguments, **options)

    monkeypatch.setattr(torch.optim.Adam, "step", counted)


def stopped_and_resumed(run, tmp_path, monkeypatch, stop):
    """What ``run(**options)`` gives in one go, and after it was stopped: the same to the bit, and the checkpoints are."""
    whole = run(checkpoint=tmp_path / "whole.pt")
    with monkeypatch.context() as patched:
        stop_after(patched, stop)
        with pytest.raises(Stops):
            run(checkpoint=tmp_path / "parts.pt")
    resumed = run(checkpoint=tmp_path / "parts.pt", resume=True)
    assert same(resumed.model.state_dict(), whole.model.state_dict())
    assert same(resumed.history, whole.history) and resumed.test == whole.test and resumed.best == whole.best
    assert same(checkpoints.load(tmp_path / "parts.pt"), checkpoints.load(tmp_path / "whole.pt"))


@pytest.mark.parametrize("model", ["sage", "gcn", "gat", "pinsage"])
def test_it_learns(dataset, model, device):
    """The features alone are right for about three vertices in five."""
    found = train(dataset, model, **{**SMALL, "device": device}, epochs=6)
    assert found.test["accuracy"] > (0.65 if model == "pinsage" else 0.8)  # walks pass through hubs
    assert len(found.history) == 6 and not found.model.training
    first, last = found.history[0], found.history[-1]
    assert last["loss"] < first["loss"] and last["accuracy"] > first["accuracy"]
    assert first["seeds"] == 240 and first["vertices"] > 240 and first["edges"] > 240
    assert first["bytes"] == first["vertices"] * 64 * 4
    assert set(first["stages"]) == {"sample", "gather", "train", "wait"} and first["seconds"] > 0
    losses = [epoch["valid_loss"] for epoch in found.history]
    assert found.best["loss"] == min(losses) and found.best["epoch"] == losses.index(min(losses)) + 1


def test_pinsage_counts_neighbours_by_visits(dataset, monkeypatch):
    """Every batch, of training and validation, has weights, and a vertex's are no more than shares of its visits."""
    forward, seen = GNN.forward, []

    def watched(self, x, sample, degree=None, weight=None):
        seen.append(torch.zeros(len(sample.node)).index_add_(0, sample.col, weight))
        return forward(self, x, sample, degree, weight)

    monkeypatch.setattr(GNN, "forward", watched)
    train(dataset, "pinsage", **SMALL, epochs=1)
    assert len(seen) == 8 + 4 + 8
    shares = torch.cat(seen)
    assert shares.max() <= 1 + 1e-6 and 0 < shares[shares > 0].min() < 0.5


@pytest.mark.parametrize("cache", ["auto", "features", "degree"])
def test_a_cache_changes_no_result(dataset, monkeypatch, cache):
    """Also where samples are validated; and history says what was served."""
    monkeypatch.setattr(sys.modules[training.__module__], "_FULL_BELOW", 0)
    plain, kept = (
        train(dataset, "sage", **SMALL, epochs=2, **options) for options in ({}, {"cache": cache, "gpu_budget": "90KiB"})
    )
    assert same(plain.model.state_dict(), kept.model.state_dict()) and plain.test == kept.test and plain.best == kept.best
    assert plain.cache is None and kept.cache.policy == cache and 0 < kept.cache.split.held <= 90 << 10
    for epoch in plain.history:
        assert (
            epoch["served"] == {"batches": 1, "rows": {"local": 0, "peers": 0, "host": 1}, "edges": 0} and epoch["link"] is None
        )
    for epoch in kept.history:
        assert 0 < epoch["served"]["rows"]["local"] < 1 and (epoch["served"]["edges"] > 0) == (cache == "auto")
    assert train(dataset, "sage", **SMALL, epochs=1, cache="auto").cache is None  # on a CPU nothing can be measured


@pytest.mark.parametrize("stop, every", [(3, None), (3, 2), (8, 3), (11, 3), (17, None), (23, 5)])
def test_a_resumed_run_is_the_run(dataset, tmp_path, monkeypatch, stop, every):
    """8 batches an epoch."""
    run = partial(train, dataset, "gcn", **SMALL, epochs=3, checkpoint_every=every)
    stopped_and_resumed(run, tmp_path, monkeypatch, stop)


def test_a_finished_run_can_be_made_longer(dataset, tmp_path):
    whole = train(dataset, "sage", **SMALL, epochs=3)
    train(dataset, "sage", **SMALL, epochs=1, checkpoint=tmp_path / "c.pt")
    longer = train(dataset, "sage", **SMALL, epochs=3, checkpoint=tmp_path / "c.pt", resume=True)
    assert same(longer.model.state_dict(), whole.model.state_dict()) and same(longer.history, whole.history)
    again = train(dataset, "sage", **SMALL, epochs=3, checkpoint=tmp_path / "c.pt", resume=True)
    assert same(again.history, whole.history) and again.test == whole.test


def test_ctrl_c_leaves_the_last_checkpoint(dataset, tmp_path, ctrl_c):
    """In the second epoch; all threads end."""

    def interrupt(epoch):
        if epoch["epoch"] == 1:
            threading.Timer(0.02, _thread.interrupt_main).start()

    with pytest.raises(KeyboardInterrupt):
        train(dataset, "sage", **SMALL, epochs=10_000, checkpoint=tmp_path / "c.pt", on_epoch=interrupt)
    state = checkpoints.load(tmp_path / "c.pt")
    assert len(state["history"]) == state["loader"]["epoch"] >= 1
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hinterland ")]


def test_a_full_disk_leaves_the_last_checkpoint(dataset, tmp_path, monkeypatch):
    train(dataset, "sage", **SMALL, epochs=1, checkpoint=tmp_path / "c.pt")
    before = (tmp_path / "c.pt").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="c.pt: cannot be written: No space left on device"):
        train(dataset, "sage", **SMALL, epochs=2, checkpoint=tmp_path / "c.pt", resume=True)
    assert (tmp_path / "c.pt").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c.pt"]


def test_checkpoints_that_do_not_fit(dataset, tmp_path):
    path = tmp_path / "c.pt"
    train(dataset, "sage", **SMALL, epochs=1, checkpoint=path)
    with pytest.raises(ConfigError, match="c.pt: holds a run already; resume it, or remove the file"):
        train(dataset, "sage", **SMALL, epochs=1, checkpoint=path)
    with pytest.raises(ConfigError, match=r"was saved with hidden=32, but this run has 8; use that"):
        train(dataset, "sage", **{**SMALL, "hidden": 8}, epochs=1, checkpoint=path, resume=True)
    other = datasets.generate(SHAPE, seed=2, device="cpu")
    with pytest.raises(ConfigError, match=r"was saved with (edges|checksum)=\d+, but this run has \d+"):
        train(other, "sage", **SMALL, epochs=1, checkpoint=path, resume=True)
    torch.save({"weights": 1}, path)
    with pytest.raises(FormatError, match="is no checkpoint of this version"):
        train(dataset, "sage", **SMALL, epochs=1, checkpoint=path, resume=True)
    with pytest.raises(StorageError, match="cannot be read: No such file"):
        checkpoints.load(tmp_path / "absent.pt")


def test_patience(dataset):
    """Training ends after so many epochs without improvement, with the best epoch's parameters."""
    found = train(dataset, "sage", **{**SMALL, "lr": 0.05, "dropout": 0.0}, epochs=200, patience=2)
    assert len(found.history) == found.best["epoch"] + 3 < 200
    again = train(dataset, "sage", **{**SMALL, "lr": 0.05, "dropout": 0.0}, epochs=found.best["epoch"])
    assert same(again.model.state_dict(), found.model.state_dict())


@pytest.mark.parametrize("trained", [train, train_full])
@pytest.mark.parametrize("splits", [("train",), ("train", "test")])
def test_patience_without_validation_is_refused(dataset, trained, splits):
    blind = dataclasses.replace(dataset, splits={name: dataset.splits[name] for name in splits})
    with pytest.raises(ConfigError, match="patience=2 waits for a lower validation loss, .*give it a split 'valid', or leave"):
        trained(blind, "sage", hidden=4, epochs=1, patience=2)


def test_messages_go_the_way_that_is_said(tmp_path):
    """Vertex i of a file's edges i -> 100 + i alone knows the class of 100 + i."""
    (tmp_path / "pairs.el").write_text("".join(f"{i} {100 + i}\n" for i in range(100)))
    graph, labels = hl.load_graph(tmp_path / "pairs.el"), torch.arange(200) % 4
    features = torch.cat([torch.eye(4)[labels[:100]], torch.zeros(100, 4)])
    parts = (features, labels, {"train": torch.arange(100, 200)}, 4)
    options = {"fanouts": (2,), "hidden": 8, "epochs": 30, "lr": 0.1, "dropout": 0.0, "device": "cpu"}
    accuracy = {
        messages: train(datasets.Dataset(graph, *parts, messages=messages), **options).history[-1]["accuracy"]
        for messages in ("in", "out")
    }
    assert accuracy["out"] == 1 and accuracy["in"] < 0.5
    unsaid = datasets.Dataset(graph, *parts, messages="in")
    unsaid.messages = None
    with pytest.raises(ConfigError, match="the graph is directed; say which way messages go"):
        train(unsaid, **options)
    with pytest.raises(ConfigError, match="the graph is directed; say which way messages go"):
        train_full(unsaid, epochs=1)


def test_the_validation_loss_has_the_decay_in_it(dataset):
    """That is what training minimizes; the test loss has the cross entropy alone."""
    twice = dataclasses.replace(dataset, splits={**dataset.splits, "test": dataset.splits["valid"]})
    found = train(twice, "sage", **SMALL, weight_decay=0.1, epochs=2)
    squares = sum(float(p.square().sum()) for p in found.model.convs[0].parameters() if p.dim() == 2)
    assert found.best["loss"] - found.test["loss"] == pytest.approx(0.1 / 2 * squares, rel=1e-5)
    assert found.best["accuracy"] == found.test["accuracy"] and squares > 1


def test_without_validation_and_test(dataset):
    alone = dataclasses.replace(dataset, splits={"train": dataset.splits["train"]})
    found = train(alone, "sage", **SMALL, epochs=1)
    assert found.best is None and found.test is None and "valid_loss" not in found.history[0]
    held_back = dataset.labels.clone()
    held_back[dataset.splits["test"]] = -1
    assert train(dataclasses.replace(dataset, labels=held_back), "sage", **SMALL, epochs=1).test is None


def test_larger_graphs_are_validated_on_samples(dataset, monkeypatch):
    """With the same samples each time."""
    monkeypatch.setattr(sys.modules[training.__module__], "_FULL_BELOW", 0)
    found = train(dataset, "sage", **SMALL, epochs=6)
    again = train(dataset, "sage", **SMALL, epochs=found.best["epoch"])
    assert found.best == again.best and found.test == again.test and found.test["accuracy"] > 0.7


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"model": "mlp"}, "model 'mlp' is not one of"),
        ({"fanouts": ()}, r"fanouts=\[\] sample nothing"),
        ({"fanouts": (3, 0)}, r"fanouts=\[3, 0\] sample nothing; use 1 or more for each hop, or -1"),
        ({"fanouts": "15,10"}, "fanouts are numbers, one for each hop"),
        ({"epochs": 0}, "epochs=0 is too small; use 1 or more"),
        ({"batch_size": 0}, "batch_size=0 is too small"),
        ({"patience": 0}, "patience=0 is too small"),
        ({"checkpoint_every": 0}, "checkpoint_every=0 is too small"),
        ({"precision": "float16"}, "precision 'float16' is not one of float32, bfloat16"),
        ({"lr": 0.0}, "lr=0.0 is no learning rate"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0 is no decay"),
        ({"seed": -1}, r"seed -1 is not a whole number from 0 to 2\^64"),
        ({"resume": True}, "there is no checkpoint to write or to go on from"),
        ({"checkpoint_every": 2}, "there is no checkpoint to write"),
        ({"cache": "lru"}, "cache='lru' is neither one of auto"),
        ({"gpu_budget": "2KiB"}, "a cache of 2.00 KiB is smaller than one batch"),
        ({"cache": "2KiB"}, "a cache of 2.00 KiB is smaller than one batch"),
        ({"devices": ["cpu"]}, "device='cpu' and devices= say both where to train"),
        ({"round": 2}, "round=2 is of several devices; name them in devices="),
        ({"device": None, "devices": []}, r"devices=\[\] names none"),
        ({"device": None, "devices": ["cpu"], "cache": "auto"}, "what a training step leaves is measured where one device"),
    ],
)
def test_bad_arguments(dataset, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        train(dataset, **{**SMALL, "epochs": 1, **options})


def test_data_sets_that_do_not_fit(dataset):
    def refused(sentence, **parts):
        with pytest.raises(GraphError, match=sentence):
            train(dataclasses.replace(dataset, **parts), "sage", **SMALL, epochs=1)

    refused("features have 599 rows, but the graph has 600 vertices", features=torch.zeros(599, 3))
    refused("labels have 9 rows, but the graph has 600", labels=torch.zeros(9, dtype=torch.int64))
    refused("the dataset has no features", features=None)
    refused(r"features have the shape \(600,\); they must be", features=torch.zeros(600))
    refused("features are torch.complex64; models take real numbers", features=torch.zeros(600, 3, dtype=torch.complex64))
    refused("labels are torch.float32; they must be classes", labels=torch.zeros(600))
    refused("the dataset has no training vertices", splits={})
    refused("split 'train' has vertices whose label is none of the 2 classes", num_classes=2)
    with pytest.raises(ConfigError, match="dataset='products' is no data set; open one with hinterland.datasets.open"):
        train("products")


def test_a_loss_that_is_not_finite(dataset, tmp_path):
    """Nothing is written that could not go on."""
    features = torch.full((600, 64), 3e38)  # finite, but no sum of them is
    with pytest.raises(ConfigError, match="the loss of epoch 1 is not finite; lower lr=0.02, or look for huge values"):
        train(dataclasses.replace(dataset, features=features), "sage", **SMALL, epochs=1, checkpoint=tmp_path / "c.pt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1e300])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_rows_that_are_not_finite_are_named_before_the_first_epoch(dataset, tmp_path, split, value):
    features = dataset.features.cpu().double()
    bad = dataset.splits[split][[3, 7]]
    features[bad, 5] = value
    rows = f"{bad[0]}, {bad[1]}"
    with pytest.raises(GraphError, match=f"split '{split}': rows of features of its vertices are NaN.*: {rows}; correct"):
        train(
            dataclasses.replace(dataset, features=features),
            "sage",
            **SMALL,
            epochs=1,
            checkpoint=tmp_path / "c.pt",
            on_epoch=lambda epoch: pytest.fail("an epoch ended"),
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("split", ["train", "valid"])
def test_neighbours_that_are_not_finite_are_named_at_the_first_epoch(dataset, split):
    """A vertex of no split, among the neighbours of one split alone."""
    lone = int(dataset.graph.degrees()[dataset.splits["test"]].argmax())
    lone = int(dataset.splits["test"][lone])
    begin, end = dataset.graph.indptr[lone : lone + 2].tolist()
    near = dataset.graph.indices[begin:end].long()  # who hears it: the graph is undirected
    splits = {name: part[~torch.isin(part, near)] for name, part in dataset.splits.items() if name != "test"}
    features = dataset.features.cpu().clone()
    features[lone] = float("nan")
    spoilt = dataclasses.replace(dataset, features=features, splits=splits)
    one_hop = {**SMALL, "fanouts": (-1,), "epochs": 1}
    train(spoilt, "sage", **one_hop)  # nobody hears it
    hears = dataset.splits[split][torch.isin(dataset.splits[split], near)][:1]
    splits[split] = torch.cat([splits[split], hears])
    says = f"split '{split}': rows of features that its vertices hear from are NaN.*: {lone}; correct"
    with pytest.raises(GraphError, match=says):
        train(spoilt, "sage", **one_hop, on_epoch=lambda epoch: pytest.fail("an epoch ended"))


def test_published_accuracy(real_data):
    """Shchur et al. 2018, Table 1: GCN 81.5 +- 1.3 on Cora; here two splits and fewer epochs."""
    cora = datasets.largest_component(datasets.open(real_data / "cora.npz"))
    assert cora.num_vertices == 2485
    found = []
    for seed in range(2):
        cora.splits = datasets.random_splits(cora, seed)
        options = {"hidden": 64, "dropout": 0.8, "lr": 0.02, "weight_decay": 1e-3, "batch_size": 140, "device": "cpu"}
        found.append(train(cora, "gcn", (-1, -1), epochs=20, seed=seed, **options).test["accuracy"])
    assert sum(found) / 2 > 0.78


@pytest.mark.gpu
@pytest.mark.parametrize("cache", [None, "auto"])
def test_on_a_gpu_the_link_is_reported(dataset, cache):
    """What fits is kept whole after the first epoch, and then nothing crosses the link."""
    options = {**SMALL, "device": "cuda:0", "batch_size": 16}
    found = train(dataset, "sage", **options, epochs=2, cache=cache)
    first, last = found.history
    assert first["link"]["bytes"] >= 0.5 * first["bytes"] and first["link"]["bandwidth"] > 0
    if cache is None:
        assert last["link"]["bytes"] > 0 and last["served"]["rows"]["host"] == 1 and found.cache is None
    else:
        assert last["link"] is None and last["served"]["rows"]["local"] == last["served"]["edges"] == 1
        assert "measured" in found.cache.explain()


# Several processes


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What two_ranks.py did, and the folder of its results."""
    folder = tmp_path_factory.mktemp("ranks")
    return run_ranks(2, Path(__file__).with_name("two_ranks.py"), folder), folder


def test_two_ranks_train_as_one(dataset, two_ranks):
    """Gradients that are averaged over two halves of a batch are those of the batch, to rounding."""
    found = [torch.load(two_ranks[1] / f"equal.{rank}.pt") for rank in range(2)]
    assert same(found[0]["model"], found[1]["model"]) and found[0]["test"] == found[1]["test"]
    alone = train(dataset, "sage", (-1, -1), **{**SMALL_WHOLE, "batch_size": 64}, epochs=3)
    for name, value in alone.model.state_dict().items():
        torch.testing.assert_close(found[0]["model"][name], value, rtol=1e-3, atol=1e-5)
    for mine, theirs in zip(found[0]["history"], alone.history, strict=True):
        assert mine["seeds"] == theirs["seeds"] == 240
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert mine["valid_loss"] == pytest.approx(theirs["valid_loss"], rel=1e-4)
    assert same([epoch["edges"] for epoch in found[0]["history"]], [epoch["edges"] for epoch in found[1]["history"]])


SMALL_WHOLE = {**{key: value for key, value in SMALL.items() if key != "fanouts"}, "dropout": 0.0}


def test_two_ranks_resume(two_ranks):
    for rank in range(2):
        whole, resumed = (torch.load(two_ranks[1] / f"{name}.{rank}.pt") for name in ("whole", "resumed"))
        assert same(whole["model"], resumed["model"]) and whole["test"] == resumed["test"]
        assert same(whole["history"], resumed["history"])


def test_two_ranks_with_caches(two_ranks):
    """Each plans for its share of the seeds, and waits for nobody."""
    for rank in range(2):
        whole, kept = (torch.load(two_ranks[1] / f"{name}.{rank}.pt") for name in ("whole", "kept"))
        assert same(whole["model"], kept["model"]) and whole["test"] == kept["test"]
        assert kept["history"][0]["served"]["batches"] == 2 and kept["history"][0]["served"]["rows"]["local"] > 0


def test_two_ranks_with_different_graphs(two_ranks):
    for text in two_ranks[0]:
        assert "different: ConfigError: rank 1 has checksum of degrees=" in text
        assert "start every rank with the same dataset" in text


def test_a_rank_that_dies_ends_the_other(two_ranks):
    assert "lost: RankLost: another rank died, or gave no answer for 20 s" in two_ranks[0][0]
