"""Training on vertices and edges of several types: it learns, also through types without features, and goes on where it was."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest
import torch

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import ConfigError, GraphError
from hinterland.sampling import Adjacency, HeteroSampler
from hinterland.training import Loader, train, train_full
from hinterland.training.hetero_models import typed_fanouts, typed_layers

from .test_train import same, stopped_and_resumed

CITES = ("paper", "cites", "paper")
SMALL = {"fanouts": (4, 3), "hidden": 32, "batch_size": 32, "lr": 0.02, "dropout": 0.3, "device": "cpu", "seed": 3}
MAG = datasets.Shape(
    {"paper": 500, "author": 300, "institution": 12},
    {"paper": 48},
    {
        ("author", "affiliated_with", "institution"): 500,
        ("author", "writes", "paper"): 2000,
        CITES: 2500,
    },
    (240, 120, 140),
    4,
    dtype=torch.float16,
    target="paper",
)
IGBH = datasets.Shape(
    {"paper": 500, "author": 300, "institute": 12, "fos": 30, "journal": 8, "conference": 8},
    {"paper": 48, "author": 48, "institute": 48, "fos": 48, "journal": 24, "conference": 24},
    {
        CITES: 2500,
        ("paper", "written_by", "author"): 1500,
        ("author", "affiliated_to", "institute"): 400,
        ("paper", "topic", "fos"): 900,
        ("paper", "published", "journal"): 300,
        ("paper", "venue", "conference"): 200,
    },
    (240, 120, 140),
    4,
    target="paper",
)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def mag():
    return datasets.generate(MAG, seed=1, symmetrize=True, device="cpu")


@pytest.mark.parametrize("model", ["sage", "gat"])
@pytest.mark.parametrize("shape", [MAG, IGBH], ids=["mag240m", "igbh"])
def test_it_learns(shape, model, device):
    """A paper's features show its class in three cases of five."""
    dataset = datasets.generate(shape, seed=1, symmetrize=True, device="cpu")
    found = train(dataset, model, **{**SMALL, "device": device}, epochs=6)
    assert found.test["accuracy"] > 0.8 and not found.model.training
    first, last = found.history[0], found.history[-1]
    assert last["loss"] < first["loss"] and first["seeds"] == 240
    assert first["vertices"] > 240 and first["edges"] > 240 and first["seconds"] > 0
    assert set(first["stages"]) == {"sample", "gather", "train", "wait"}
    assert found.best["loss"] == min(epoch["valid_loss"] for epoch in found.history)


def a_chain(features):
    """Items hear tags, and tags hear words: item 4 i + j has tag i, which has words of class i % 4; ``features`` by type."""
    tags, labels = torch.arange(400) // 4, torch.arange(400) // 4 % 4
    words = torch.randint(50, (100, 3), generator=torch.Generator().manual_seed(2)) * 4 + (torch.arange(100) % 4)[:, None]
    graphs = {
        ("tag", "of", "item"): hl.from_edges(torch.arange(400), tags, num_vertices=400),
        ("word", "in", "tag"): hl.from_edges(torch.arange(100).repeat_interleave(3), words.flatten(), num_vertices=200),
    }
    tables = {"item": torch.randn(400, 6), "word": torch.eye(4).repeat(50, 1)}
    order = torch.randperm(400, generator=torch.Generator().manual_seed(1))
    splits = dict(zip(("train", "valid", "test"), order.split([200, 100, 100]), strict=True))
    held = {kind: tables[kind] for kind in features}
    counts = {"item": 400, "tag": 100, "word": 200}
    return datasets.HeteroDataset(graphs, held, counts, labels, splits, 4, "item", messages="in")


@pytest.mark.parametrize("model", ["sage", "gat"])
@pytest.mark.parametrize("features", [("item", "word"), ("word",)])
def test_what_is_two_relations_away_comes_through_a_type_without_features(model, features):
    """Only words know the classes. Items' own features are noise, or there are none."""
    torch.manual_seed(1)
    found = train(a_chain(features), model, **{**SMALL, "dropout": 0.0}, epochs=4)
    assert found.test["accuracy"] > 0.95
    assert found.history[0]["bytes"] > 0
    if "item" in features:
        with pytest.raises(ConfigError, match="'item' hears from no type with features within 1 hops"):
            train(a_chain(features), model, **{**SMALL, "fanouts": (4,)}, epochs=1)


def test_counts_are_of_all_types(mag):
    """Bytes are those of the rows of papers, which alone have any."""
    found = train(mag, **SMALL, epochs=1).history[0]
    fanouts = {CITES: [4, 3], ("author", "writes", "paper"): [4, 0], ("paper", "rev_writes", "author"): [0, 3]}
    drawn = typed_fanouts(typed_layers(mag.graphs, ["paper"], "paper", 2), [4, 3])
    assert drawn == fanouts
    counts = mag.num_vertices
    relations = {kind: Adjacency.of(mag.graphs[kind], counts[kind[2]], counts[kind[0]]) for kind in drawn}
    sampler = HeteroSampler(relations, drawn, target="paper", seed=3, device="cpu")
    loader = Loader(sampler, mag.splits["train"], 32, features=mag.features, shuffle=True, seed=3, device="cpu")
    batches = list(loader)
    assert found["vertices"] == sum(len(node) for batch in batches for node in batch.sample.node.values())
    assert found["edges"] == sum(len(row) for batch in batches for row in batch.sample.row.values())
    assert found["bytes"] == sum(len(batch.sample.node["paper"]) * 96 for batch in batches)
    assert found["served"] == {"batches": 1, "rows": {"local": 0.0, "peers": 0.0, "host": 1.0}, "edges": 0.0}
    for batch in batches:
        assert torch.equal(batch.x["paper"], mag.features["paper"].cpu()[batch.sample.node["paper"]])
        assert torch.equal(batch.sample.node["paper"][: batch.batch_size], batch.seeds)
        assert all(ends.shape[0] == 2 for ends in batch.edge_index.values()) and len(batch.edge_index) == 3


def test_a_loader_of_several_types_says_what_it_misses(mag):
    relations = {CITES: mag.graphs[CITES]}
    seeds = mag.splits["train"]
    with pytest.raises(ConfigError, match="the sampler does not know the type of the seeds; make it with target="):
        Loader(HeteroSampler(relations, [2], device="cpu"), seeds, 8, device="cpu")
    with pytest.raises(ConfigError, match="target 'author' is not one of paper"):
        HeteroSampler(relations, [2], target="author", device="cpu")
    known = HeteroSampler(relations, [2], target="paper", device="cpu")
    with pytest.raises(ConfigError, match="features of 'paper' are a list; give a tensor"):
        Loader(known, seeds, 8, features={"paper": [1.0]}, device="cpu")
    with pytest.raises(ConfigError, match="not for a HeteroSampler; leave out cache= and gpu_budget="):
        Loader(known, seeds, 8, features=mag.features, device="cpu", gpu_budget="1MiB")


def test_reordered_lists_are_refused(mag):
    """Their numbers are not the user's, and a table would give other rows."""
    graph = mag.graphs["author", "writes", "paper"]
    with pytest.raises(ConfigError, match="reordered name its own numbers; take those of the graph as it was"):
        Adjacency.of(hl.reorder(graph, "degree"), 500, 300)


def test_it_goes_on_where_it_was(mag, tmp_path, monkeypatch):
    """From inside an epoch."""
    run = partial(train, mag, "gat", **SMALL, epochs=3, checkpoint_every=2)
    stopped_and_resumed(run, tmp_path, monkeypatch, 13)
    other = dataclasses.replace(mag, features={"paper": hl.UnifiedTensor.from_tensor(mag.features["paper"].cpu() + 1)})
    with pytest.raises(ConfigError, match=r"was saved with checksum=\d+, but this run has \d+"):
        train(other, "gat", **SMALL, epochs=3, checkpoint=tmp_path / "parts.pt", resume=True)


def test_several_devices_change_nothing(mag):
    plain = train(mag, **SMALL, epochs=2)
    options = {name: value for name, value in SMALL.items() if name != "device"}
    factored = train(mag, **options, epochs=2, devices=["cpu", "cpu"], round=1)
    assert same(plain.model.state_dict(), factored.model.state_dict()) and plain.test == factored.test


def test_graphs_and_features_on_storage_change_nothing(tmp_path, device):
    """All types' pages share one cache."""
    datasets.save(datasets.generate(IGBH, seed=1, symmetrize=True, device="cpu"), tmp_path / "set")
    options = {**SMALL, "device": device, "epochs": 2}
    held = train(datasets.open(tmp_path / "set"), **options)
    stored = train(datasets.open(tmp_path / "set", "storage", host_budget="256KiB"), **options)
    assert stored.test["loss"] == pytest.approx(held.test["loss"], rel=1e-4)
    for mine, theirs in zip(stored.history, held.history, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-4) and theirs["storage"] is None
        assert mine["storage"]["bytes"] > 0 and mine["served"]["rows"]["storage"] == 1


def test_rows_that_are_not_finite_are_named_with_their_type():
    dataset = a_chain(("item", "word"))
    bad = int(dataset.splits["valid"][7])
    dataset.features["item"][bad] = torch.nan
    with pytest.raises(GraphError, match=f"split 'valid': rows of features of its vertices are NaN.*: {bad}; correct"):
        train(dataset, **SMALL, epochs=1)
    dataset = a_chain(("word",))
    dataset.features["word"][:] = torch.inf
    with pytest.raises(GraphError, match="'train': rows of features that its vertices hear from are NaN.*: word [0-9]+, word"):
        train(dataset, **SMALL, epochs=1)


def test_data_sets_that_cannot_be_trained_on(mag):
    def refused(sentence, kind=GraphError, **parts):
        with pytest.raises(kind, match=sentence):
            train(dataclasses.replace(mag, **parts), **SMALL, epochs=1)

    one_way = {kind: graph for kind, graph in mag.graphs.items() if not kind[1].startswith("rev_")}
    refused("type 'author' have no features, and hear from no type that has; give them features, or", graphs=one_way)
    refused("vertices of type 'author' have no features, and hear", features={})
    refused("features of 'paper' have 9 rows, but the graph has 500 vertices", features={"paper": torch.zeros(9, 4)})
    refused("features of 'paper' have the shape", features={"paper": torch.zeros(500)})
    refused("features of 'paper' are torch.complex64; models", features={"paper": torch.zeros(500, 2, dtype=torch.complex64)})
    refused("features of 'book', which num_vertices does not count", features={**mag.features, "book": torch.zeros(5, 2)})
    refused("labels have 9 rows, but the graph has 500", labels=torch.zeros(9, dtype=torch.int64))
    refused("the dataset has no training vertices", splits={})
    refused("relation .* does not join types that num_vertices counts", graphs={("a", "b", "paper"): mag.graphs[CITES]})
    refused("fewer than one of its types has", num_vertices={**mag.num_vertices, "author": 900})
    with pytest.raises(ConfigError, match="model 'pinsage' takes vertices of one type, and the data set has several; use"):
        train(mag, "pinsage", **SMALL, epochs=1)
    with pytest.raises(ConfigError, match="not for a HeteroSampler; leave out cache= and gpu_budget="):
        train(mag, **SMALL, epochs=1, cache="auto", gpu_budget="1MiB")
    with pytest.raises(GraphError, match="vertices and edges of one type; train on mini-batches"):
        train_full(mag, epochs=1)


@pytest.mark.gpu
def test_on_a_gpu_the_link_is_reported(mag):
    """Rows of papers come over it, and a sector for each edge."""
    found = train(mag, **{**SMALL, "device": "cuda:0"}, epochs=2).history[-1]
    assert found["link"]["bytes"] >= found["bytes"] * 0.5 and found["served"]["rows"]["host"] == 1
