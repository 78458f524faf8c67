"""Training on whole graphs: torch_geometric's losses, however the graph is divided; checkpoints; what is refused."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland import datasets
from hinterland.fullgraph import reduce, tuner
from hinterland.fullgraph.aggregate_launch import RowEntries
from hinterland.runtime.errors import ConfigError, GraphError
from hinterland.training import FULL_MODELS, full, train_full
from hinterland.training.full_models import sums

from ..ranks import run_ranks
from .test_train import same, stopped_and_resumed

SHAPE = datasets.Shape({"node": 300}, {"node": 16}, {("node", "to", "node"): 2500}, (120, 60, 120), 4)
SMALL = {"hidden": 16, "device": "cpu", "seed": 3, "on_epoch": None}

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset():
    """Directed, so that gradients go along other lists than sums."""
    return datasets.generate(SHAPE, seed=1, device="cpu")


def of_pyg(name, parameters, dataset):
    """torch_geometric's layers with these parameters, in float64, and what they make of features."""
    nn = pytest.importorskip("torch_geometric.nn")
    heads = {"heads": 4} if name in ("gat", "gatv2") else {}
    kinds = {"gcn": nn.GCNConv, "sage": nn.SAGEConv, "gat": nn.GATConv, "gatv2": nn.GATv2Conv}
    if name == "gin":
        pairs = [(16, 16), (16, 4)]
        mlps = [torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Linear(b, b)) for a, b in pairs]
        convs = [nn.GINConv(mlp) for mlp in mlps]
    else:
        convs = [kinds[name](16, 16 // heads.get("heads", 1), **heads), kinds[name](16, 4)]
    model = torch.nn.Module()
    model.convs = torch.nn.ModuleList(convs)
    model.double().load_state_dict(parameters)
    counts = dataset.graph.indptr.diff()
    edges = torch.stack([dataset.graph.indices.long(), torch.arange(300).repeat_interleave(counts)])
    activation = F.elu if name in ("gat", "gatv2") else F.relu

    def scores(x):
        return convs[1](activation(convs[0](x, edges)), edges)

    return model, scores


def first_parameters(monkeypatch):
    """The parameters of every model that is made, as they were before training."""
    made, make = [], full.make_full_model

    def watched(*given):
        model = make(*given)
        made.append({name: value.double().clone() for name, value in model.state_dict().items()})
        return model

    monkeypatch.setattr(full, "make_full_model", watched)
    return made


LONG = [("gcn", 1), ("gcn", 3), ("gat", 3)]
OTHERS = [case for case in itertools.product(FULL_MODELS, (1, 3)) if case not in LONG]
EPOCHS = [(*case, 50) for case in LONG] + [(*case, 10) for case in OTHERS]
EPOCHS += [pytest.param(*case, 50, marks=pytest.mark.nightly) for case in OTHERS]


@pytest.mark.parametrize(("name", "parts", "epochs"), EPOCHS)
def test_losses_are_those_of_pyg(dataset, monkeypatch, name, parts, epochs):
    """In float64; with Adam's decay of the first layer's matrices."""
    compare_with_pyg(dataset, monkeypatch, name, epochs, parts=parts)


@pytest.mark.parametrize("name", FULL_MODELS)
def test_losses_with_a_budget_are_those_of_pyg(dataset, monkeypatch, name):
    """Rows lie in host memory, and go through the GPU, or here the CPU, in blocks."""
    parts, epochs = (3, 10) if name == "gcn" else (1, 2)
    found = compare_with_pyg(dataset, monkeypatch, name, epochs, parts=parts, gpu_budget="640KiB")
    assert found.plans and all(plan.peak <= 640 << 10 for plan in found.plans)


@pytest.mark.parametrize("name", FULL_MODELS)
def test_losses_from_files_are_those_of_pyg(dataset, monkeypatch, tmp_path, name):
    """Rows lie in files, and nothing of them is left."""
    parts, budget = (3, "1920KiB") if name == "gcn" else (1, "640KiB")
    storage = {"placement": "storage", "host_budget": budget, "folder": tmp_path}
    found = compare_with_pyg(dataset, monkeypatch, name, 2, parts=parts, **storage)
    assert all(plan.peak <= 640 << 10 and plan.in_files.read > 0 for plan in found.plans)
    assert not list(tmp_path.iterdir())


def compare_with_pyg(dataset, monkeypatch, name, epochs, **options):
    made = first_parameters(monkeypatch)
    found = train_full(dataset, name, **SMALL, precision="float64", dropout=0.0, weight_decay=1e-3, epochs=epochs, **options)
    model, scores = of_pyg(name, made[0], dataset)
    first = [p for p in model.convs[0].parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if not any(p is one for one in first)]
    optimizer = torch.optim.Adam([{"params": first, "weight_decay": 1e-3}, {"params": rest}], lr=0.01)
    x, y, seeds, valid = dataset.features.cpu().double(), dataset.labels, dataset.splits["train"], dataset.splits["valid"]
    assert len(found.history) == epochs
    for epoch in found.history:
        optimizer.zero_grad()
        loss = F.cross_entropy(scores(x)[seeds], y[seeds])
        loss.backward()
        assert epoch["loss"] == pytest.approx(loss.item(), abs=1e-9)
        optimizer.step()
        with torch.no_grad():
            after = scores(x)[valid]
            decay = 1e-3 / 2 * sum(float(p.square().sum()) for p in first)
            assert epoch["valid_loss"] == pytest.approx(F.cross_entropy(after, y[valid]).item() + decay, abs=1e-9)
            assert epoch["valid_accuracy"] == float((after.argmax(1) == y[valid]).double().mean())
    return found


@pytest.mark.gpu
@pytest.mark.parametrize("name", FULL_MODELS)
def test_all_gpus_of_a_process_train_as_the_cpu(dataset, name):
    """Parameters lie on the first, and their gradients are added up there."""
    options = {"hidden": 16, "seed": 3, "on_epoch": None, "precision": "float64", "dropout": 0.0, "epochs": 10}
    wanted = train_full(dataset, name, **options, device="cpu")
    for count in range(1, torch.cuda.device_count() + 1):
        found = train_full(dataset, name, **options, devices=[f"cuda:{i}" for i in range(count)])
        losses, others = ([epoch["loss"] for epoch in one.history] for one in (wanted, found))
        assert others == pytest.approx(losses, abs=1e-9)


@pytest.mark.parametrize("name", FULL_MODELS)
def test_it_learns(dataset, name, device):
    found = train_full(dataset, name, **{**SMALL, "device": device}, dropout=0.2, epochs=40)
    assert found.test["accuracy"] > (0.3 if name == "gin" else 0.6) and not found.model.training  # 0.25 by chance
    first, last = found.history[0], found.history[-1]
    assert last["loss"] < first["loss"] and (name == "gin" or last["accuracy"] > first["accuracy"])
    assert first["seeds"] == 120 and first["vertices"] == 300 and first["edges"] == 2 * dataset.graph.num_edges
    assert set(first["stages"]) == {"forward", "backward", "step", "validate"} and first["seconds"] > 0
    losses = [epoch["valid_loss"] for epoch in found.history]
    assert found.best["loss"] == min(losses) and found.best["epoch"] == losses.index(min(losses)) + 1
    assert found.choices == []


def test_the_result_is_a_model_of_the_whole_graph(dataset):
    """Its scores have the accuracy that was reported."""
    found = train_full(dataset, "sage", **SMALL, epochs=5, parts=3)
    p, test = found.partition, dataset.splits["test"]
    with torch.no_grad():
        scores = p.gather(found.model(p.scatter(dataset.features), p))
    assert float((scores[test].argmax(1) == dataset.labels[test]).double().mean()) == pytest.approx(found.test["accuracy"])
    assert {choice.strategy for choice in found.choices} and found.choices[0].explain()


def test_bfloat16_rows(dataset):
    """What is learnt is about the same; parameters stay float32."""
    whole, half = (
        train_full(dataset, "gcn", **SMALL, dropout=0.0, epochs=20, precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert half.history[0]["loss"] == pytest.approx(whole.history[0]["loss"], rel=1e-2)
    assert half.history[-1]["loss"] == pytest.approx(whole.history[-1]["loss"], rel=5e-2)
    assert {p.dtype for p in half.model.parameters()} == {torch.float32} and half.history != whole.history


@pytest.mark.parametrize("hidden", [8, 32])
@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_sums_are_of_the_rows_that_the_tuner_is_told(dataset, monkeypatch, name, hidden):
    """Their widths, wider and narrower ones; and bfloat16 in all layers, though parameters are float32."""
    seen, real = set(), reduce.aggregate_rows

    def noted(entries, rows, out, how, **options):
        if entries.rows and rows.own.dtype != torch.float64:  # degrees
            seen.add((how, rows.own.shape[1], rows.own.dtype))
        return real(entries, rows, out, how, **options)

    monkeypatch.setattr(reduce, "aggregate_rows", noted)
    train_full(dataset, name, **{**SMALL, "hidden": hidden}, layers=3, epochs=1, precision="bfloat16")
    widths = {one.width for one in sums(name, (16, hidden, hidden, 4))}
    assert seen == {("sum", width, torch.bfloat16) for width in widths}


def long_lists(dataset):
    """The data set over a directed graph whose lists are long enough to be cut in several ways."""
    places = torch.randint(0, 300, (300 * 300,), generator=torch.Generator().manual_seed(4))
    return dataclasses.replace(dataset, graph=hl.Graph(torch.arange(301) * 300, places))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("name", ["gcn", "sage", "gin"])
def test_sums_are_tuned_first(dataset, monkeypatch, tmp_path, name, parts):
    """By a clock to which longer tasks are quicker: all sums, and gradients along the other lists, then have them; losses are
    the same up to rounding, and another run finds what the first one did."""
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))
    cut, used, real = RowEntries.pieces, [], tuner.seconds
    monkeypatch.setattr(RowEntries, "pieces", lambda self, longest: used.append(longest) or cut(self, longest))

    def seconds(p, run, steps=1):
        used.clear()
        real(p, run, 1)
        return 1.0 / used[-1]

    monkeypatch.setattr(tuner, "seconds", seconds)
    of_second = {"epochs": 2, "on_epoch": lambda epoch: used.clear() if epoch["epoch"] == 1 else None}
    options = {**SMALL, "parts": parts, "strategy": "halo", "precision": "float64", "dropout": 0.0, **of_second}
    longer = long_lists(dataset)
    plain = train_full(longer, name, **options)
    assert set(used) == {128} and plain.tuned == []
    found = train_full(longer, name, **options, tune=True)
    assert set(used) == {512}
    assert found.history[-1]["loss"] == pytest.approx(plain.history[-1]["loss"], abs=1e-9)
    widths = {"gcn": (16, 4, 16, 4), "sage": (16, 4, 16, 4), "gin": (16, 16)}[name]  # forwards, then gradients
    assert sorted(int(one.what.split(" of ")[1].split(" ")[0]) for one in found.tuned) == sorted(widths)
    assert all(one.shape.longest == 512 and not one.cached for one in found.tuned)
    again = train_full(longer, name, **options, tune=True)
    assert set(used) == {512} and all(one.cached for one in again.tuned)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("stop", [1, 4])
def test_a_resumed_run_is_the_run(dataset, tmp_path, monkeypatch, parts, stop):
    run = partial(train_full, dataset, "gat", **SMALL, epochs=6, dropout=0.4, parts=parts, strategy="halo")
    stopped_and_resumed(run, tmp_path, monkeypatch, stop)


def test_checkpoints_that_do_not_fit(dataset, tmp_path):
    path = tmp_path / "c.pt"
    train_full(dataset, "gcn", **SMALL, epochs=1, checkpoint=path)
    with pytest.raises(ConfigError, match="c.pt: holds a run already; resume it, or remove the file"):
        train_full(dataset, "gcn", **SMALL, epochs=1, checkpoint=path)
    for changed, sentence in (
        ({"layers": 3}, "layers=2"),
        ({"parts": 2}, "parts=1"),
        ({"precision": "float64"}, "precision='float32'"),
    ):
        with pytest.raises(ConfigError, match=f"was saved with {sentence}, but this run has"):
            train_full(dataset, "gcn", **SMALL, epochs=2, checkpoint=path, resume=True, **changed)


def test_without_validation_and_test(dataset):
    alone = dataclasses.replace(dataset, splits={"train": dataset.splits["train"]})
    found = train_full(alone, "gcn", **SMALL, epochs=1)
    assert found.best is None and found.test is None and "valid_loss" not in found.history[0]


def test_more_parts_than_training_vertices(dataset):
    """Parts that have none still take part."""
    few = dataclasses.replace(dataset, splits={"train": dataset.splits["train"][:2], "valid": dataset.splits["valid"]})
    options = {**SMALL, "precision": "float64", "dropout": 0.0, "epochs": 3}
    one, many = (train_full(few, "gin", **options, parts=parts) for parts in (1, 7))
    for a, b in zip(one.history, many.history, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-12) and a["valid_loss"] == pytest.approx(b["valid_loss"], rel=1e-9)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"model": "pinsage"}, "model 'pinsage' is not one of gcn, sage, gin, gat, gatv2"),
        ({"layers": 0}, "0 layers make no model"),
        ({"model": "gatv2", "hidden": 6}, "hidden=6 cannot be shared by gatv2's 4 heads"),
        ({"precision": "float16"}, "precision 'float16' is not one of float32, bfloat16, float64"),
        ({"strategy": "push"}, "strategy 'push' is not one of auto"),
        ({"epochs": 0}, "epochs=0 is too small"),
        ({"lr": -1.0}, "lr=-1.0 is no learning rate"),
        ({"parts": 0}, "parts=0 leaves no part"),
        ({"devices": ["cpu"]}, "device='cpu' and devices= say both where to train"),
        ({"tune": True, "model": "gat"}, "tune=True, but gat attends, and sums alone are tuned: those of gcn, sage, gin"),
        ({"strategy": "direct", "gpu_budget": "1MiB"}, "strategy='direct', but with a gpu_budget rows lie in host memory"),
        ({"tune": True, "gpu_budget": "1MiB"}, "tune=True, but with strategy='host', a gpu_budget or placement='storage'"),
        ({"strategy": "halo", "placement": "storage"}, "strategy='halo', but with placement='storage' rows lie in files"),
        ({"tune": True, "placement": "storage"}, "tune=True, but with strategy='host', a gpu_budget or placement='storage'"),
        ({"host_budget": "1GiB"}, "host_budget='1GiB' is of rows in files; give placement='storage', too"),
        ({"folder": "/tmp"}, "folder='/tmp' is of rows in files"),
        ({"host_budget": "", "placement": "storage"}, "not a size in bytes: ''"),
        ({"placement": "disk"}, "placement 'disk' is not one of host, storage"),
        ({"resume": True}, "there is no checkpoint to write or to go on from"),
    ],
)
def test_bad_arguments(dataset, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        train_full(dataset, **{**SMALL, "epochs": 1, **options})


def test_features_without_columns(dataset):
    with pytest.raises(GraphError, match=r"features have no columns; give one at least, as torch.ones\(vertices, 1\) has"):
        train_full(dataclasses.replace(dataset, features=dataset.features.cpu()[:, :0]), "gcn", **SMALL)


def test_features_that_are_not_finite_are_named(dataset, tmp_path):
    """Those of a split before the first epoch, those of others at its end; and nothing is written."""
    options = {**SMALL, "epochs": 1, "parts": 2, "checkpoint": tmp_path / "c.pt"}
    bad = int(dataset.graph.indices.bincount().argmax())  # many hear from it
    features = dataset.features.cpu().clone()
    features[bad, 3] = float("nan")
    with pytest.raises(GraphError, match=f"rows of features of its vertices are NaN.*: {bad}; correct"):
        train_full(dataclasses.replace(dataset, features=features), "gcn", **options)
    splits = {name: part[part != bad] for name, part in dataset.splits.items()}
    with pytest.raises(GraphError, match=f"'train': rows of features that its vertices hear from are NaN.*: {bad}; correct"):
        train_full(dataclasses.replace(dataset, features=features, splits=splits), "gcn", **options)
    huge = torch.full((300, 16), 3e38)
    with pytest.raises(ConfigError, match="the loss of epoch 1 is not finite; lower lr=0.01"):
        train_full(dataclasses.replace(dataset, features=huge), "gcn", **options)
    assert not list(tmp_path.iterdir())


def test_published_accuracy(real_data):
    """Shchur et al. 2018, Table 1: GCN 81.5 +- 1.3 on Cora; here one split."""
    cora = datasets.largest_component(datasets.open(real_data / "cora.npz"))
    cora.splits = datasets.random_splits(cora, 0)
    options = {"hidden": 64, "dropout": 0.8, "lr": 0.01, "weight_decay": 1e-3, "on_epoch": None, "device": "cpu"}
    assert train_full(cora, "gcn", epochs=50, parts=2, **options).test["accuracy"] > 0.77


# Several processes


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """What full_ranks.py said in two processes, and the folder of their results."""
    folder = tmp_path_factory.mktemp("ranks")
    return run_ranks(2, Path(__file__).with_name("full_ranks.py"), folder), folder


@pytest.mark.parametrize("name", ["gcn", "gat"])
def test_two_ranks_train_as_one(dataset, two_ranks, name):
    found = [torch.load(two_ranks[1] / f"{name}.{rank}.pt") for rank in range(2)]
    assert same(found[0]["model"], found[1]["model"]) and found[0]["test"] == found[1]["test"]
    alone = train_full(dataset, name, **SMALL, precision="float64", epochs=5, dropout=0.0, weight_decay=0.01)
    for mine, theirs in zip(found[0]["history"], alone.history, strict=True):
        for key in ("loss", "accuracy", "valid_loss", "valid_accuracy"):
            assert mine[key] == pytest.approx(theirs[key], abs=1e-9)
    for key, value in alone.model.state_dict().items():
        torch.testing.assert_close(found[0]["model"][key], value, rtol=1e-7, atol=1e-9)


def test_two_ranks_resume(two_ranks):
    for rank in range(2):
        whole, resumed = (torch.load(two_ranks[1] / f"{name}.{rank}.pt") for name in ("whole", "resumed"))
        assert same(whole["model"], resumed["model"]) and whole["test"] == resumed["test"]
        assert same(whole["history"], resumed["history"])


def test_two_ranks_tune_alike(two_ranks):
    """Each width of the sums, and of their gradients along the other lists; losses stay."""
    tuned = [torch.load(two_ranks[1] / f"tuned.{rank}.pt") for rank in range(2)]
    plain = torch.load(two_ranks[1] / "plain.0.pt")
    assert tuned[0]["tuned"] == tuned[1]["tuned"] and len(tuned[0]["tuned"]) == 4 and not plain["tuned"]
    for mine, theirs in zip(tuned[0]["history"], plain["history"], strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], abs=1e-9)


def test_what_two_ranks_are_refused(two_ranks):
    for text in two_ranks[0]:
        assert "refused: rank 1 has seed=5, but rank 0 has 4; start every rank with the same dataset and arguments" in text
        assert "refused: parts=3, but the process group has 2 ranks, each of which has one part" in text
        assert "refused: devices= are of one process, and torchrun started several" in text
