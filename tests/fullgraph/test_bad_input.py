"""Wrong arguments of partitioned graphs end in a sentence of ours."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland import PartitionedGraph, aggregate
from hinterland.runtime.errors import ConfigError, HinterlandError

from ..graphs import family


@pytest.fixture(scope="module")
def parted():
    return PartitionedGraph.from_graph(family("kronecker", 6, seed=1), 3, devices="cpu")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"graph": None}, "graph is a NoneType, but must be a Graph"),
        ({"parts": 0}, "parts=0 leaves no part"),
        ({"parts": 1.5}, "parts 1.5 is not a whole number"),
        ({"devices": []}, "leaves no part"),
        ({"devices": "gpu9"}, "device 'gpu9' cannot be used here"),
        ({"balance": 3}, "balance 3 is not one of auto, contiguous, dealt"),
    ],
)
def test_from_graph(given, says):
    with pytest.raises(HinterlandError, match=says):
        PartitionedGraph.from_graph(**{"graph": family("kronecker", 6, seed=1), **given})


@pytest.mark.parametrize("x", [[1, 2], None, torch.tensor(1.0), torch.zeros(5, 2), torch.zeros(64, 2).to_sparse()])
def test_scatter(parted, x):
    with pytest.raises(ConfigError, match=r"x must be a torch tensor|scatter takes a row for each|x has the layout"):
        parted.scatter(x)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda x: x[0], "rows of 1 parts, but this process has 3"),
        (lambda x: None, "rows of 1 parts, but this process has 3"),
        (lambda x: hl.UnifiedTensor.empty((64, 2)), r"a UnifiedTensor of all vertices; pass scatter\(\) of it"),
        (lambda x: ["a"] * 3, "rows must be a torch tensor, not str"),
        (lambda x: [one[:, 0] for one in x], r"part 0 has rows \[.*, width\], not"),
        (lambda x: [one.long() for one in x], "rows are float32, float64, float16, bfloat16, not torch.int64"),
        (lambda x: [x[0].double(), *x[1:]], "they have one type and width"),
        (lambda x: [one.to_sparse() for one in x], "rows has the layout"),
    ],
)
def test_aggregate_rows(parted, change, says):
    with pytest.raises(ConfigError, match=says):
        aggregate(parted, change(parted.scatter(torch.ones(64, 2))))


def test_aggregate_words(parted):
    x = parted.scatter(torch.ones(64, 2))
    with pytest.raises(ConfigError, match="p is a Graph, but must be a PartitionedGraph"):
        aggregate(family("kronecker", 6, seed=1), x)
    for words in ({"reduce": "min"}, {"reduce": None}, {"strategy": "best"}):
        with pytest.raises(ConfigError, match="is not one of"):
            aggregate(parted, x, **words)


@pytest.mark.parametrize("balance", ["contiguous", "dealt"])
def test_tables_are_scattered(balance):
    p = PartitionedGraph.from_graph(family("kronecker", 6, seed=1), 3, devices="cpu", balance=balance)
    x = torch.randn(64, 3)
    assert torch.equal(p.gather(p.scatter(hl.UnifiedTensor.from_tensor(x))), x)
    assert torch.equal(p.gather(p.scatter(x)), x) and p.gather(p.scatter(x[:, None])).shape == (64, 1, 3)
