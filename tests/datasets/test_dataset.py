"""Data sets that a user puts together: which way messages go in their graphs, and what their splits are called."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import hinterland as hl
from hinterland.datasets import Dataset, HeteroDataset
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler

PARTS = (torch.eye(4), torch.tensor([0, 1, 0, 1]), {"train": torch.arange(4)}, 2)
WAYS = [("out", [[], [0], [1], [2]]), ("in", [[1], [2], [3], []])]


@pytest.fixture
def path(tmp_path):
    """0 -> 1 -> 2 -> 3, from a file."""
    (tmp_path / "path.el").write_text("0 1\n1 2\n2 3\n")
    return hl.load_graph(tmp_path / "path.el")


def heard(graph):
    """Who each vertex hears from."""
    sample = NeighborSampler(graph, [-1], device="cpu").sample(torch.arange(4))
    return [sample.node[sample.row[sample.col == v]].tolist() for v in range(4)]


@pytest.mark.parametrize(("messages", "by"), WAYS)
def test_messages_of_a_directed_graph(path, messages, by):
    data = Dataset(path, *PARTS, messages=messages)
    assert heard(data.graph) == by and data.messages == "in"
    assert heard(dataclasses.replace(data, name="again").graph) == by  # turned round once


@pytest.mark.parametrize(("messages", "by"), WAYS)
def test_messages_of_relations(path, messages, by):
    rest = {"a": PARTS[0]}, {"a": 4}, *PARTS[1:], "a"
    data = HeteroDataset({("a", "to", "a"): path}, *rest, messages=messages)
    assert heard(data.graphs["a", "to", "a"]) == by and data.messages == "in"
    assert heard(dataclasses.replace(data, name="again").graphs["a", "to", "a"]) == by
    with pytest.raises(ConfigError, match=r"the graph of \('a', 'to', 'a'\) is directed; say which way messages go"):
        HeteroDataset({("a", "to", "a"): path}, *rest)


def test_a_directed_graph_without_a_word_is_refused(path):
    with pytest.raises(ConfigError, match="messages='in' if a vertex hears from those in its list, or messages='out' if"):
        Dataset(path, *PARTS)
    with pytest.raises(ConfigError, match="messages 'along' is not one of in, out"):
        Dataset(path, *PARTS, messages="along")


@pytest.mark.parametrize("messages", [None, "in", "out"])
def test_an_undirected_graph_needs_none(tmp_path, path, messages):
    both = hl.graph.simplify(path, symmetrize=True)
    assert Dataset(both, *PARTS, messages=messages).graph is both


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("val", "call it 'valid'"),
        ("Validation", "call it 'valid'"),
        ("training", "call it 'train'"),
        ("test-dev", "call it 'test'"),
        ("dev", "the splits of a data set are 'train', 'valid', 'test'"),
        (0, "the splits of a data set are 'train', 'valid', 'test'"),
    ],
)
def test_splits_of_other_names_are_refused(path, name, remedy):
    features, labels, splits, classes = PARTS
    with pytest.raises(ConfigError, match=f"split {name!r} is none that is known; {remedy}"):
        Dataset(path, features, labels, {**splits, name: torch.arange(2)}, classes, messages="in")
    data = Dataset(path, *PARTS, messages="in")
    data.splits = {**splits, name: torch.arange(2)}
    with pytest.raises(ConfigError, match=f"split {name!r} is none that is known; {remedy}"):
        hl.training.train(data, fanouts=(2,), hidden=4, epochs=1, device="cpu")


def test_a_budget_of_host_memory_is_of_what_lies_on_storage(path, tmp_path):
    features, *rest = PARTS
    hl.datasets.save(Dataset(path, hl.UnifiedTensor.from_tensor(features), *rest, messages="out"), tmp_path / "d")
    with pytest.raises(ConfigError, match="host_budget='1MiB' bounds the pages of a data set on storage; give placement="):
        hl.datasets.open(tmp_path / "d", host_budget="1MiB")
    assert heard(hl.datasets.open(tmp_path / "d", "storage", host_budget="1MiB").graph) == WAYS[0][1]
