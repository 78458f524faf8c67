"""``stats=`` of a loader: what each batch took, and all of them together."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import Adjacency, HeteroSampler, NeighborSampler, PinSAGESampler
from hinterland.training import Factored, Loader

from ..graphs import skewed

pytestmark = pytest.mark.usefixtures("every_thread_ends")

VERTICES, BATCH = 1500, 64


@pytest.fixture(scope="module")
def graph():
    return skewed(VERTICES, 20000)


@pytest.fixture(scope="module")
def rows():
    return torch.arange(VERTICES * 25, dtype=torch.float32).view(VERTICES, 25)


def loader(graph, features, device, sampler=None, **options):
    sampler = NeighborSampler(graph, [5, 3], seed=2, device=device) if sampler is None else sampler
    seeds = torch.arange(0, VERTICES, 4)
    return Loader(sampler, seeds, BATCH, features=features, shuffle=True, seed=5, device=device, **options)


TABLES = {
    "host": hl.UnifiedTensor.from_tensor,
    "tensor": lambda t: t,
    "tiered": lambda t: hl.UnifiedTensor.from_tensor(t).tiered("30KiB", devices=["cpu"], order=torch.randperm(len(t))),
    "cached": lambda t: hl.UnifiedTensor.from_tensor(t).cached("60KiB", device="cpu"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_batches_are_the_same_and_add_up(graph, rows, kind):
    device, total = torch.device("cpu"), {}
    plain, counted = (loader(graph, TABLES[kind](rows), device, **more) for more in ({}, {"stats": total}))
    batches = list(counted)
    for one, other in zip(plain, batches, strict=True):
        assert torch.equal(one.x, other.x) and torch.equal(one.sample.node, other.sample.node) and one.stats is None
        drawn, gathered = other.stats["sampling"], other.stats["features"]
        assert drawn["vertices"] == other.sample.num_sampled_nodes and drawn["edges"] == other.sample.num_sampled_edges
        assert gathered["rows"] == len(other.sample.node) == sum(tier["hits"] for tier in gathered["tiers"].values())
        away = gathered["tiers"]["host"]
        assert (gathered["bytes"], gathered["useful_bytes"]) == (away["bytes"], 100 * away["hits"])
        assert gathered["cached"] > 0 or kind in ("host", "tensor") or other is batches[0]
    assert total["batches"] == len(batches) == len(counted)
    for part in ("sampling", "features"):
        every = [batch.stats[part] for batch in batches]
        for name in ("bytes", "useful_bytes", "seconds", "cached"):
            assert total[part][name] == pytest.approx(sum(one[name] for one in every))
        assert total[part]["amplification"] == total[part]["bytes"] / total[part]["useful_bytes"] > 1
        assert sum(int(size) * n for size, n in total[part]["requests"].items()) == total[part]["bytes"]
    hops = zip(*(batch.sample.num_sampled_edges for batch in batches), strict=True)
    assert total["sampling"]["edges"] == list(map(sum, hops))


def test_a_second_epoch_is_added_and_a_left_one_counts_what_was_given(graph, rows):
    total = {}
    ours = loader(graph, hl.UnifiedTensor.from_tensor(rows), torch.device("cpu"), stats=total)
    next(iter(ours))
    assert total["batches"] == 1  # others were made, and nobody got them
    list(ours)
    list(ours)
    assert total["batches"] == 2 * len(ours)


def test_features_in_a_file(graph, rows, tmp_path):
    np.save(tmp_path / "x.npy", rows.numpy())
    table = hl.StorageArray.open(tmp_path / "x.npy", host_budget="128KiB")
    total = {}
    list(loader(graph, table, torch.device("cpu"), stats=total))
    assert total["features"]["storage"]["bytes"] > 0 and total["features"]["storage"]["requests"] > 0
    assert total["features"]["tiers"]["storage"]["hits"] == total["features"]["rows"]


def test_other_samplers(graph, rows):
    """Walks count their steps; of somebody else's sampler only the features are counted."""

    class Own:
        def sample(self, seeds, batch=0):
            return NeighborSampler(graph, [2], seed=2, device="cpu").sample(seeds, batch)

    pinsage = PinSAGESampler(graph, [4], seed=1, device="cpu")
    for sampler, has in ((pinsage, "steps"), (Own(), None)):
        total = {}
        list(loader(graph, hl.UnifiedTensor.from_tensor(rows), torch.device("cpu"), sampler, stats=total))
        assert total["features"]["rows"] > 0 and (has in total["sampling"] if has else total["sampling"] == {})
    total = {}
    list(loader(graph, None, torch.device("cpu"), stats=total))
    assert total["features"] == {} and total["sampling"]["bytes"] > 0


def test_features_of_several_types_are_counted_together(device):
    writes, cites = ("author", "writes", "paper"), ("paper", "cites", "paper")
    relations = {writes: Adjacency.of(skewed(300, 4000), 200, 300), cites: skewed(200, 4000)}
    features = {"paper": hl.UnifiedTensor.from_tensor(torch.randn(200, 25)), "author": torch.randn(300, 7)}
    total = {}

    def batches(**options):
        sampler = HeteroSampler(relations, [4, 3], target="paper", seed=2, device=device)
        return list(Loader(sampler, torch.arange(150), 64, features=features, device=device, **options))

    for one, other in zip(batches(), batches(stats=total), strict=True):
        assert all(torch.equal(one.x[kind], other.x[kind]) for kind in features) and one.stats is None
        assert other.stats["sampling"]["vertices"] == other.sample.num_sampled_nodes
        gathered, rows = other.stats["features"], {kind: len(node) for kind, node in other.sample.node.items()}
        assert gathered["rows"] == gathered["tiers"]["host"]["hits"] == sum(rows.values())
        assert gathered["useful_bytes"] == rows["paper"] * 100 + rows["author"] * 28
        assert sum(int(size) * n for size, n in gathered["requests"].items()) == gathered["bytes"]
        drawn = sum(len(edge) for edge in other.sample.edge.values())
        assert other.served is None or other.served.edges == drawn > 0
    every = [batch.stats for batch in batches(stats={})]
    assert total["batches"] == len(every) == 3
    for name in ("rows", "bytes", "useful_bytes"):
        assert total["features"][name] == sum(stats["features"][name] for stats in every) > 0
    hops = zip(*(stats["sampling"]["edges"]["author__writes__paper"] for stats in every), strict=True)
    assert total["sampling"]["edges"]["author__writes__paper"] == list(map(sum, hops))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["host", "tensor", "on gpu"])
def test_a_gpu_says_what_crossed_the_link(graph, rows, kind):
    table = rows.cuda() if kind == "on gpu" else TABLES[kind](rows)
    total, device = {}, torch.device("cuda:0")
    plain, counted = loader(graph, table, device), loader(graph, table, device, stats=total)
    for one, other in zip(plain, counted, strict=True):
        assert torch.equal(one.x, other.x)
    assert total["batches"] == len(counted)
    if kind == "on gpu":
        assert total["features"]["link"] is None and total["features"]["cached"] > 0
    else:
        assert total["features"]["link"]["bytes"] == total["features"]["bytes"] > 0


def test_what_cannot_be_counted_gets_a_sentence(graph, rows):
    with pytest.raises(ConfigError, match="stats=True is no dict, which is filled"):
        loader(graph, rows, torch.device("cpu"), stats=True)
    counted = loader(graph, rows, torch.device("cpu"), stats={})
    with pytest.raises(ConfigError, match="stats= are of batches that one device makes"):
        Factored(counted, lambda device: counted.sampler, torch.nn.Linear(2, 2), lambda model, batch: None, ["cpu", "cpu"])
