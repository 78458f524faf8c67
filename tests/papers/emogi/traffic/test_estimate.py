"""The link's time for what runs count: traversals in every mode and form, gathers, samples."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError
from hinterland_papers.emogi.traffic import LinkModel, drawn, estimate

from ....graphs import FAMILIES, family

LINK = LinkModel(rate=1e9, latency=1e-6, overhead=12, requests=10e6)


def busiest(graph):
    return int(graph.degrees().argmax())


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress])
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_traversal_takes_what_its_levels_take(device, kind, form):
    graph = form(family(kind, 11, weights="int32"))
    source = busiest(graph)
    for call in (hl.bfs, hl.sssp, hl.sswp):
        stats = call(graph, source, device=device, stats=True).stats
        found = estimate(stats, LINK)
        assert (found.bytes, found.measured) == (stats["bytes"], stats["seconds"])
        assert found.seconds == pytest.approx(sum(level["seconds"] for level in found.levels))
        assert len(found.levels) == len(stats["per_level"])
        for level, counted in zip(found.levels, stats["per_level"], strict=True):
            requests = sum(counts["requests"] for counts in counted["tiers"].values())
            assert level["measured"] == counted["seconds"]
            if device.type == "cpu":
                wire, served = (level["bytes"] + 12 * requests) / 1e9, requests / 10e6
                assert level["seconds"] == pytest.approx(max(wire, served, 1e-6 if requests else 0))


def test_packed_lists_take_less_of_the_link():
    graph = hl.generate("web", scale=14)
    plain, packed = (estimate(hl.pagerank(form, device="cpu", stats=True).stats, LINK) for form in (graph, hl.compress(graph)))
    assert packed.bytes < 0.6 * plain.bytes and packed.seconds < plain.seconds


def test_several_searches_are_added_up(device):
    graph = hl.generate("kronecker", scale=10)
    stats = hl.multi_source_bfs(graph, range(100), device=device, stats=True).stats
    found = estimate(stats, LINK)
    assert found.bytes == stats["bytes"] and len(found.levels) == sum(s["levels"] for s in stats["searches"])
    assert estimate(hl.betweenness_centrality(graph, [3, 4], device=device, stats=True).stats, LINK).bytes > 0


def test_a_gather_takes_its_lines():
    table = hl.UnifiedTensor.empty((5000, 32))  # rows of one line
    found = estimate(table.count(torch.randperm(5000)[:1000]), LINK)
    assert (found.bytes, found.requests, found.measured) == (128_000, 1000, None)
    assert found.seconds == pytest.approx(140_000 / 1e9)
    small = estimate(hl.UnifiedTensor.empty((5000, 1)).count(torch.arange(0, 5000, 8)), LINK)
    assert (small.bytes, small.requests) == (32 * 625, 625)
    assert small.seconds == pytest.approx(625 / 10e6)  # fewer bytes, but no more requests a second


def test_what_gpu_memory_holds_does_not_cross_the_link():
    """Half of the rows are of a tier."""
    table = hl.UnifiedTensor.empty((1000, 32)).tiered(local="64000B", devices=["cpu"])
    index = torch.arange(1000)
    counted = table.count(index)
    found = estimate(counted, LINK)
    assert 0 < found.requests == counted.rows["host"] < 1000


def test_a_sample_reads_its_draws_and_offsets():
    # 40 neighbours of vertex 0, five lines of eight sectors of 8; vertex 1 has one more, in the sector of the last.
    graph = hl.from_edges(torch.tensor([0] * 40 + [1]), torch.tensor([*range(2, 42), 50]), num_vertices=64)
    sample = hl.sampling.Sample(
        node=torch.tensor([0, 1, 2, 3, 4, 5, 6]),
        row=torch.tensor([2, 3, 4, 5, 6]),
        col=torch.tensor([0, 0, 0, 0, 1]),
        edge=torch.tensor([0, 7, 8, 39, 40]),
        num_sampled_nodes=[2, 5],
        num_sampled_edges=[5],
    )
    host = drawn(graph, sample).tiers["host"]
    # Sectors 0, 1 and 4 for vertex 0 and 5 for vertex 1, in lines 0 and 1, and 1 again; offsets of both in one sector, each.
    assert host == {"bytes": 32 * (4 + 2), "requests": 2 + 1 + 2, "hits": 5 + 2}
    assert estimate(drawn(graph, sample), LINK).requests == 5


def test_a_drawn_sample_counts_each_vertex_that_drew():
    graph = hl.generate("kronecker", scale=12)
    sampler = hl.sampling.NeighborSampler(graph, [4, 3], seed=1, device="cpu")
    seeds = graph.degrees().nonzero()[:200, 0]
    sample = sampler.sample(seeds)
    host = drawn(graph, sample).tiers["host"]
    assert len(sample.col.unique()) < host["requests"] <= len(sample.edge) + 2 * len(sample.col.unique())
    assert host["bytes"] >= 32 * host["requests"]


@pytest.mark.parametrize("counted", [None, {}, {"seconds": 1}, 3, torch.ones(2)])
def test_what_counts_nothing_gets_a_sentence(counted):
    with pytest.raises(ConfigError, match="must be the stats of a traversal"):
        estimate(counted)


def test_what_is_no_plain_graph_or_sample_gets_a_sentence():
    graph = hl.generate("grid", rows=3, cols=3)
    with pytest.raises(ConfigError, match=r"sample\.node must be a torch tensor"):
        drawn(graph, None)
    sample = hl.sampling.NeighborSampler(graph, [2], seed=1, device="cpu").sample([1])
    with pytest.raises(ConfigError, match="lists are compressed"):
        drawn(hl.compress(graph), sample)
    with pytest.raises(ConfigError, match="as many requests"):
        LinkModel(requests=0)
