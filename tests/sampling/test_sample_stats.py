"""``stats=`` of samplers: what was sampled, and what that read of the lists, against sets of sectors."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import hinterland as hl
from hinterland.memory.gather_stats import add
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import Adjacency, HeteroSampler, NeighborSampler, PinSAGESampler

from ..graphs import skewed

SEEDS = torch.arange(0, 2000, 13)


@pytest.fixture(scope="module")
def graph():
    return skewed(2000, 30000, placement="host")


def read(places):
    """(bytes, requests by size) of places ``(who reads, first byte, bytes)``, none larger than a sector."""
    sectors = {(who, at // 32) for who, first, size in places for at in (first, first + size - 1)}
    lines = Counter((who, sector // 4) for who, sector in sectors)
    sizes = Counter(str(32 * count) for count in lines.values())
    return 32 * len(sectors), {size: sizes[size] for size in ("32", "64", "96", "128")}


def places_of(sample, width=4):
    drew = len(sample.node) - sample.num_sampled_nodes[-1]
    edges = [(who, width * at, width) for who, at in zip(sample.col.tolist(), sample.edge.tolist(), strict=True)]
    return edges, [(vertex, 8 * vertex, 16) for vertex in sample.node[:drew].tolist()]


@pytest.mark.parametrize("options", [{}, {"replace": True}, {"disjoint": True}])
def test_what_a_sample_read_sector_by_sector(graph, options):
    sampler, stats = NeighborSampler(graph, [6, 4], seed=1, device="cpu", **options), {"epoch": 3}
    sample = sampler.sample(SEEDS, batch=2, stats=stats)
    assert torch.equal(sample.edge, sampler.sample(SEEDS, batch=2).edge)
    parts = [read(places) for places in places_of(sample)]
    hits = len(sample.edge) + len(sample.node) - sample.num_sampled_nodes[-1]
    if options == {"disjoint": True}:  # a vertex of several trees reads its offsets for each
        assert stats["bytes"] >= sum(part[0] for part in parts)
    else:
        assert stats["bytes"] == sum(part[0] for part in parts)
        assert stats["requests"] == {size: sum(part[1][size] for part in parts) for size in parts[0][1]}
    assert stats["tiers"]["host"] == {"bytes": stats["bytes"], "requests": sum(stats["requests"].values()), "hits": hits}
    assert stats["useful_bytes"] == 4 * len(sample.edge) + 16 * (hits - len(sample.edge))
    assert stats["amplification"] == stats["bytes"] / stats["useful_bytes"]
    assert (stats["vertices"], stats["edges"]) == (sample.num_sampled_nodes, sample.num_sampled_edges)
    assert stats["device"] == "cpu" and stats["seconds"] > 0 and stats["exact"] and stats["epoch"] == 3
    assert (stats["cached"], stats["storage"], stats["link"]) == (0, None, None)


@pytest.mark.parametrize("kind", ["packed", "weighted", "last", "reordered"])
def test_other_lists_and_draws(graph, kind, device):
    """What is read besides the neighbours is not known, and that is said."""
    options = {}
    if kind == "packed":
        used = hl.compress(graph)
    elif kind == "weighted":
        used, options = hl.Graph(graph.indptr, graph.indices, torch.rand(graph.num_edges) + 0.1), {"weighted": True}
    elif kind == "reordered":
        used = hl.reorder(graph, "degree")
    else:
        used, options = graph, {"times": torch.arange(2000) % 7, "temporal_strategy": "last"}
    sampler, stats = NeighborSampler(used, [6, 4], seed=1, device=device, **options), {}
    sample = sampler.sample(SEEDS, stats=stats)
    assert stats["exact"] == (kind == "reordered")
    drew = len(sample.node) - sample.num_sampled_nodes[-1]
    arrays = 2 if kind == "packed" else 1  # of offsets
    assert sum(tier["hits"] for tier in stats["tiers"].values()) == len(sample.edge) + arrays * drew
    assert stats["edges"] == sample.num_sampled_edges
    assert sum(int(size) * count for size, count in stats["requests"].items()) == stats["tiers"]["host"]["bytes"]
    assert stats["bytes"] + stats["cached"] >= 32 * drew


def test_what_a_gpu_keeps_does_not_cross_the_link(graph):
    """On a CPU, whose views keep pages as a GPU's do."""
    sampler, without, within = NeighborSampler(graph, [6, 4], seed=1, device="cpu"), {}, {}
    sampler.sample(SEEDS, stats=without)
    view = sampler.lists
    view.slots = torch.full((view.num_pages + 1,), -1, dtype=torch.int32)
    view.slots[: view.num_pages : 2] = torch.arange(len(view.slots[: view.num_pages : 2]), dtype=torch.int32)
    sampler.sample(SEEDS, stats=within)
    assert within["cached"] == within["tiers"]["local"]["bytes"] > 0 and within["bytes"] < without["bytes"]
    hits = within["tiers"]["local"]["hits"] + within["tiers"]["host"]["hits"]
    assert hits == without["tiers"]["host"]["hits"]


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["host", "gpu"])
def test_a_gpu_reads_over_the_link_what_it_does_not_hold(placement):
    graph = skewed(2000, 30000, placement=placement)
    sampler, stats = NeighborSampler(graph, [6, 4], seed=1, device="cuda"), {}
    sample = sampler.sample(SEEDS, stats=stats)
    if placement == "gpu":
        assert stats["bytes"] == 0 and stats["link"] is None and stats["cached"] > 0
    else:
        parts = [read(places)[0] for places in places_of(sample)]
        assert parts[0] <= stats["bytes"] + stats["cached"] and 0 < stats["bytes"] <= sum(parts)
        assert stats["link"]["bytes"] == stats["bytes"]


def test_several_types(device):
    random = torch.Generator().manual_seed(2)
    owners = torch.randint(0, 200, (900,), generator=random).sort().values
    indptr = torch.searchsorted(owners, torch.arange(201))
    writes = Adjacency(indptr, torch.randint(0, 80, (900,), generator=random), 80)
    graphs = {("author", "writes", "paper"): writes, ("paper", "cites", "paper"): skewed(200, 1500)}
    sampler, stats = HeteroSampler(graphs, [3, 2], seed=1, device=device), {}
    sample = sampler.sample({"paper": torch.arange(30)}, stats=stats)
    assert stats["vertices"] == sample.num_sampled_nodes
    assert stats["edges"] == {"__".join(name): hops for name, hops in sample.num_sampled_edges.items()}
    drew = {kind: len(node) - sample.num_sampled_nodes[kind][-1] for kind, node in sample.node.items()}
    hits = sum(len(edge) for edge in sample.edge.values()) + 2 * drew["paper"]
    assert sum(tier["hits"] for tier in stats["tiers"].values()) == hits and stats["exact"]


def test_walks_say_how_far_they_went(graph, device):
    sampler, stats = PinSAGESampler(graph, [5, 3], walks=4, length=2, seed=1, device=device), {}
    sample = sampler.sample(SEEDS, stats=stats)
    assert stats["steps"] == 4 * 2 * sum(sample.num_sampled_nodes[:-1]) and stats["seconds"] > 0
    assert (stats["vertices"], stats["edges"]) == (sample.num_sampled_nodes, sample.num_sampled_edges)
    assert "bytes" not in stats  # what they read is not known


def test_lists_in_a_file(graph, tmp_path, device):
    hl.save_graph(graph, tmp_path / "g.hl", transpose=True)
    stored = hl.load_graph(tmp_path / "g.hl", "storage", host_budget="64KiB")
    sampler, stats = NeighborSampler(stored, [6, 4], seed=1, device=device), {}
    sample = sampler.sample(SEEDS, stats=stats)
    assert stats["tiers"]["storage"]["bytes"] == stats["storage"]["bytes"] > 0
    assert stats["tiers"]["storage"]["hits"] == len(sample.edge) and stats["storage"]["requests"] > 0
    assert stats["bytes"] == stats["storage"]["bytes"] + stats["tiers"]["host"]["bytes"]


def test_stats_are_added_up():
    total = {}
    add(total, {"batches": 1, "edges": [3, 4], "exact": True, "device": "cpu", "storage": None})
    add(total, {"batches": 1, "edges": [1, 1], "exact": False, "device": "cpu", "storage": None})
    assert total == {"batches": 2, "edges": [4, 5], "exact": False, "device": "cpu", "storage": None}
    read = {"bytes": 64, "useful_bytes": 8, "amplification": 8.0, "seconds": 2.0, "link": {"bytes": 64, "share": None}}
    add(total, read)
    add(total, {**read, "bytes": 32, "seconds": 6.0})
    assert (total["bytes"], total["useful_bytes"], total["amplification"], total["seconds"]) == (96, 16, 6.0, 8.0)
    assert total["link"]["bytes"] == 128 and total["link"]["bandwidth"] == 16.0
    disk = {"requests": 2, "cpu_seconds": 1e-6, "cpu_us_per_request": 0.5}
    for _ in range(2):
        add(total, {"storage": disk})
    assert total["storage"] == {"requests": 4, "cpu_seconds": 2e-6, "cpu_us_per_request": 0.5}


def test_what_is_no_dict_gets_a_sentence(graph):
    for sampler in (NeighborSampler(graph, [2], device="cpu"), PinSAGESampler(graph, [2], device="cpu")):
        with pytest.raises(ConfigError, match="stats=True is no dict, which is filled; pass one"):
            sampler.sample([1], stats=True)
