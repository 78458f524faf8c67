"""Layer by layer for all vertices: the same as batches of whole lists, in whatever blocks, from and to whatever memory."""

from __future__ import annotations

import dataclasses
import os

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import ConfigError, OutOfMemory, StorageError
from hinterland.sampling import NeighborSampler
from hinterland.table import UnifiedTensor
from hinterland.training import infer, make_model, train

SHAPE = datasets.Shape({"node": 400}, {"node": 24}, {("node", "to", "node"): 5000}, (100, 50, 100), 5)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def dataset():
    """Directed, with hubs and vertices without neighbours."""
    found = datasets.generate(SHAPE, seed=1, device="cpu")
    indptr, indices = found.graph.indptr, found.graph.indices
    cut = int(indptr[10])
    graph = hl.Graph((indptr - cut).clamp(min=0), indices[cut:].clone())
    assert int(graph.degrees().max()) > 100 and not graph.degrees()[:10].any()
    return dataclasses.replace(found, graph=graph)


def made(name, layers=2, dtype=torch.float32):
    torch.manual_seed(3)
    return make_model(name, 24, 16, 5, layers, 0.5).to(dtype)


def by_samples(model, graph, x):
    """The model's own forward on every vertex's whole neighbourhood."""
    sample = NeighborSampler(graph, [-1] * len(model.convs), device="cpu").sample(torch.arange(graph.num_vertices))
    degree = graph.to_original(graph.degrees())[sample.node].float()
    held = next(model.parameters()).dtype
    with torch.no_grad():
        return model.eval()(x.cpu()[sample.node].to(held), sample, degree)


@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_it_is_what_samples_of_whole_lists_give(dataset, name, layers, device):
    model = made(name, layers)
    expected = by_samples(model, dataset.graph, dataset.features)
    model.train().to(device)
    for options in ({}, {"batch_size": 37}, {"gpu_budget": "2MiB"}):
        found = infer(model, dataset, **options)
        assert found.is_cpu and found.dtype == torch.float32 and not found.requires_grad
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert model.training and next(model.parameters()).device == device


@pytest.mark.parametrize("form", ["reordered", "packed", "storage"])
def test_graphs_of_every_form(dataset, tmp_path, form):
    model, graph = made("gcn"), dataset.graph
    expected = by_samples(model, graph, dataset.features)
    if form == "reordered":
        graph = hl.reorder(graph, "degree")
    elif form == "packed":
        graph = hl.compress(graph)
    else:
        hl.save_graph(graph, tmp_path / "g.hl")
        graph = hl.load_graph(tmp_path / "g.hl", placement="storage", host_budget="1MiB")
    found = infer(model, (graph, dataset.features), device="cpu", batch_size=100)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_features_of_every_form(dataset, tmp_path):
    """Also of other types than the parameters."""
    model = made("sage", dtype=torch.float64)
    expected = by_samples(model, dataset.graph, dataset.features)
    x = dataset.features.cpu().clone()
    np.save(tmp_path / "x.npy", x.numpy())
    stored = UnifiedTensor.from_file(tmp_path / "x.npy", placement="storage")
    for features in (x, x.double(), stored, UnifiedTensor.from_tensor(x).tiered("1KiB", devices=["cpu"])):
        found = infer(model, (dataset.graph, features), device="cpu")
        assert found.dtype == torch.float64
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_results_in_a_tensor_and_in_a_file(dataset, tmp_path):
    model = made("gat")
    expected = infer(model, dataset, device="cpu")
    out = torch.empty(400, 5)
    assert infer(model, dataset, device="cpu", out=out) is out and torch.equal(out, expected)
    path = tmp_path / "scores.npy"
    found = infer(model, dataset, device="cpu", out=path, batch_size=50)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.from_numpy(np.load(path)), expected)
    assert os.listdir(tmp_path) == ["scores.npy"]


def test_rows_between_layers_go_to_files_where_host_memory_is_full(dataset, tmp_path, monkeypatch):
    """Beside the result, until it is there."""
    model = made("sage", 3)
    expected, seen = infer(model, dataset, device="cpu"), []

    def full(*_, **__):
        seen.append(sorted(name.name for name in tmp_path.rglob("*")))
        raise OutOfMemory("no host memory")

    with monkeypatch.context() as patched:
        patched.setattr(UnifiedTensor, "empty", full)
        found = infer(model, dataset, device="cpu", out=tmp_path / "scores.npy")
        with pytest.raises(OutOfMemory, match="no host memory"):
            infer(model, dataset, device="cpu")
    torch.testing.assert_close(found, expected)
    assert "0.npy" in seen[1] and os.listdir(tmp_path) == ["scores.npy"]


def test_after_an_error_there_is_no_file(dataset, tmp_path, monkeypatch):
    model, done = made("sage"), []
    layer = type(model).layer

    def breaks(self, i, x, block):
        done.append(len(x))
        if len(done) == 6:
            raise KeyboardInterrupt
        return layer(self, i, x, block)

    monkeypatch.setattr(type(model), "layer", breaks)
    with pytest.raises(KeyboardInterrupt):
        infer(model, dataset, device="cpu", out=tmp_path / "scores.npy", batch_size=200)
    assert os.listdir(tmp_path) == [] and model.training


def test_a_trained_model_scores_as_it_was_tested(dataset):
    options = {"fanouts": (5, 5), "hidden": 16, "epochs": 2, "device": "cpu", "on_epoch": None}
    found = train(dataset, "sage", **options)
    test = dataset.splits["test"]
    right = infer(found.model, dataset)[test].argmax(1) == dataset.labels[test]
    assert float(right.double().mean()) == found.test["accuracy"]


def test_blocks_are_as_large_as_the_budget_allows(dataset, monkeypatch):
    """No vertex is computed twice, and more budget makes fewer blocks."""
    model, sizes = made("gcn"), []
    sample = NeighborSampler.sample
    monkeypatch.setattr(NeighborSampler, "sample", lambda self, seeds: sizes.append(len(seeds)) or sample(self, seeds))
    counts = []
    for budget in ("150KiB", "400KiB", "1GiB"):
        infer(model, dataset, device="cpu", gpu_budget=budget)
        assert sum(sizes) == 2 * 400
        counts.append(len(sizes))
        sizes.clear()
    assert counts[0] > counts[1] > counts[2] == 2
    with pytest.raises(OutOfMemory, match=r"vertex \d+ and its \d+ neighbours take up to .* raise gpu_budget"):
        infer(model, dataset, device="cpu", gpu_budget="16KiB")


def test_a_graph_without_vertices(tmp_path):
    empty = hl.Graph(torch.tensor([0]), torch.tensor([], dtype=torch.int64))
    found = infer(made("gcn"), (empty, torch.zeros(0, 24)), device="cpu", out=tmp_path / "none.npy")
    assert found.shape == (0, 5)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"model": torch.nn.Linear(2, 2)}, "model is a Linear, but must be a GNN; as make_model makes it"),
        ({"data": "products"}, "data='products' has no graph and features; give a Dataset, or a pair of both"),
        ({"batch_size": 0}, "batch_size=0 computes nothing"),
        ({"out": torch.empty(3, 5)}, r"out is torch.float32 of the shape \[3, 5\] on cpu; the result is .* of \[400, 5\]"),
        ({"out": 5}, "out"),
        ({"gpu_budget": "lots"}, "not a size in bytes: 'lots'"),
    ],
)
def test_bad_arguments(dataset, change, sentence):
    with pytest.raises(ConfigError, match=sentence):
        infer(**{"model": made("sage"), "data": dataset, "device": "cpu", **change})


def test_what_does_not_fit(dataset, tmp_path):
    graph = dataset.graph
    with pytest.raises(ConfigError, match=r"features are .* of the shape \[399, 24\]; they must be real, \[400, columns\]"):
        infer(made("sage"), (graph, torch.zeros(399, 24)))
    with pytest.raises(ConfigError, match="layer 1 of the model does not take rows 7 wide"):
        infer(made("sage"), (graph, torch.zeros(400, 7)), device="cpu")
    with pytest.raises(ConfigError, match="the neighbours of pinsage are those that random walks met most"):
        infer(make_model("pinsage", 24, 16, 5, 2), dataset)
    with pytest.raises(ConfigError, match=r"s.npy: a .npy file has no bfloat16"):
        infer(made("sage", dtype=torch.bfloat16), dataset, device="cpu", out=tmp_path / "s.npy")
    with pytest.raises(StorageError, match=r"/nowhere/s.npy: cannot be written"):
        infer(made("sage"), dataset, out="/nowhere/s.npy")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sage", "gcn", "gat"])
def test_the_budget_is_a_promise(name):
    """Of a graph whose rows are many times as large."""
    shape = datasets.Shape({"node": 200_000}, {"node": 128}, {("node", "to", "node"): 3_000_000}, (100, 50, 100), 5)
    data = datasets.generate(shape, seed=1)
    model = make_model(name, 128, 128, 16, 2).cuda()
    infer(model, (data.graph, data.features), batch_size=100)  # compiles kernels
    for budget in (96 << 20, 256 << 20):  # the first has just room for the vertex of the most neighbours
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        infer(model, data, gpu_budget=budget)
        taken = torch.cuda.max_memory_allocated() - before
        assert budget / 20 < taken <= budget
