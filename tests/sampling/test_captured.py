"""Samples in CUDA graphs: those of the seeds that are there at each replay, with -1 behind them."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland import memory
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange
from hinterland.sampling import HeteroSampler, NeighborSampler, PinSAGESampler, negative_edges, pinsage_neighbors, random_walks

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def graph():
    random = torch.Generator().manual_seed(3)
    ends = (torch.rand(2, 60_000, generator=random) ** 2 * 5000).long()
    return hl.from_edges(ends[0], ends[1], torch.rand(60_000, generator=random), num_vertices=5000)


def captured(call):
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded, stream=torch.cuda.Stream()):
        given = call()
    return recorded, given


def whole(array, wanted):
    """What was sampled, and -1 behind it."""
    return torch.equal(array[: len(wanted)], wanted) and bool((array[len(wanted) :] == -1).all())


def assert_like(sample, eager, *names):
    """A sample of a graph and one that is not: arrays and counts."""
    for name in names:
        assert whole(getattr(sample, name), getattr(eager, name)), name
    assert [int(n) for n in sample.num_sampled_nodes] == eager.num_sampled_nodes
    assert [int(n) for n in sample.num_sampled_edges] == eager.num_sampled_edges


@pytest.mark.parametrize("how", [{}, {"weighted": True}, {"disjoint": True}, {"replace": True}], ids=str)
@pytest.mark.parametrize("reordered", [False, True])
def test_neighbors(graph, how, reordered):
    if reordered:
        graph = hl.reorder(graph, "degree")
    sampler = NeighborSampler(graph, [6, 4], seed=2, **how)
    seeds = torch.zeros(100, dtype=torch.int64, device=sampler.device)
    replayed, sample = captured(lambda: sampler.sample(seeds, batch=4))
    for _ in range(3):
        seeds.random_(5000)
        replayed.replay()
        names = ("node", "row", "col", "edge", *(("batch",) if "disjoint" in how else ()))
        assert_like(sample, sampler.sample(seeds, batch=4), *names)
    seeds[5] = 5000
    replayed.replay()
    torch.cuda.synchronize()
    seeds[5] = 0
    told = r"the seed at position 5 is no vertex: there are 5000, .* \(in batch 4, replay 4 of a CUDA graph\)"
    with pytest.raises(IndexOutOfRange, match=told):
        memory.synchronize()
    replayed.replay()
    memory.synchronize()
    assert whole(sample.node, sampler.sample(seeds, batch=4).node)


def test_the_first_replay_that_meets_something_is_told(graph):
    sampler = NeighborSampler(graph, [3])
    seeds = torch.zeros(20, dtype=torch.int64, device=sampler.device)
    replayed, _ = captured(lambda: sampler.sample(seeds, batch=2))
    for at in (None, 9, 2, None):
        seeds.zero_()
        if at is not None:
            seeds[at] = -1
        replayed.replay()
    with pytest.raises(IndexOutOfRange, match=r"the seed at position 9 .* \(in batch 2, replay 2 of a CUDA graph\)"):
        memory.synchronize()
    memory.synchronize()


def test_rows_of_a_sample(graph):
    """The rows of what is sampled are taken in the same graph."""
    source = torch.randn(5000, 32)
    table, sampler = hl.UnifiedTensor.from_tensor(source), NeighborSampler(graph, [5, 5])
    seeds = torch.zeros(64, dtype=torch.int64, device=sampler.device)
    replayed, rows = captured(lambda: table[sampler.sample(seeds).node])
    seeds.random_(5000)
    replayed.replay()
    node = sampler.sample(seeds).node.cpu()
    assert torch.equal(rows[: len(node)].cpu(), source[node])
    memory.synchronize()


def test_several_types(graph):
    lists = hl.sampling.Adjacency.of(graph, 5000, 5000)
    sampler = HeteroSampler({("a", "to", "b"): lists, ("b", "of", "a"): lists}, [4, 3], target="a")
    seeds = torch.zeros(50, dtype=torch.int64, device=sampler.device)
    replayed, sample = captured(lambda: sampler.sample(seeds))
    seeds.random_(5000)
    replayed.replay()
    eager = sampler.sample(seeds)
    for name in ("node", "row", "col", "edge"):
        assert all(whole(getattr(sample, name)[key], wanted) for key, wanted in getattr(eager, name).items())


def test_walks(graph):
    prepared = hl.prepare(graph, algorithms="sampling")
    starts = torch.zeros(500, dtype=torch.int64, device=prepared.device)
    replayed, (walks, near, shares) = captured(
        lambda: (
            random_walks(prepared, starts, 6, restart=0.2),
            *pinsage_neighbors(prepared, starts, walks=20, length=3, neighbors=5),
        )
    )
    starts.random_(5000)
    replayed.replay()
    assert torch.equal(walks, random_walks(prepared, starts, 6, restart=0.2))
    wanted = pinsage_neighbors(prepared, starts, walks=20, length=3, neighbors=5)
    assert torch.equal(near, wanted[0]) and torch.equal(shares, wanted[1])
    starts[8] = -1
    replayed.replay()
    with pytest.raises(IndexOutOfRange, match=r"position 8 is no vertex: there are 5000, .* \(in batch 0, replay 2 of"):
        memory.synchronize()
    with pytest.raises(IndexOutOfRange, match="the seed at position 8"):  # the neighbourhoods met it, too
        memory.synchronize()


@pytest.mark.parametrize("reordered", [False, True])
@pytest.mark.parametrize("fanouts", [[3], [4, 3, 2], [-1, 2]], ids=str)
def test_pinsage(graph, fanouts, reordered):
    sampler = PinSAGESampler(hl.reorder(graph, "degree") if reordered else graph, fanouts, walks=5, restart=0.1, seed=2)
    seeds = torch.zeros(60, dtype=torch.int64, device=sampler.device)
    replayed, sample = captured(lambda: sampler.sample(seeds, batch=6))
    for _ in range(3):
        seeds.random_(5000)
        replayed.replay()
        assert_like(sample, sampler.sample(seeds, batch=6), "node", "row", "col", "edge", "weight")
    seeds[7] = 5000
    replayed.replay()
    with pytest.raises(IndexOutOfRange, match=r"the seed at position 7 .* \(in batch 6, replay 4 of a CUDA graph\)"):
        memory.synchronize()
    memory.synchronize()


@pytest.fixture(scope="module")
def nearly_complete():
    """Of 40 vertices: all edges but those to the last three, and those of the first, which has all."""
    pairs = torch.cartesian_prod(torch.arange(40), torch.arange(40))
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]) & ((pairs[:, 1] < 37) | (pairs[:, 0] == 0))]
    return hl.from_edges(pairs[:, 0], pairs[:, 1], num_vertices=40)


@pytest.mark.parametrize("how", [{}, {"exact": False}, {"positives": True}], ids=str)
@pytest.mark.parametrize("which", ["sparse", "reordered", "dense"])
def test_negatives(graph, nearly_complete, how, which):
    graph = {"sparse": graph, "reordered": hl.reorder(graph, "degree"), "dense": nearly_complete}[which]
    prepared = hl.prepare(graph, algorithms="sampling")
    sources = torch.zeros(2, 200, dtype=torch.int64, device=prepared.device)
    how = {**how, "positives": sources} if "positives" in how else how
    sources[0] = 1
    replayed, pairs = captured(lambda: negative_edges(prepared, 3000, **how, seed=4, batch=5))
    for _ in range(3):
        sources[0].random_(1, graph.num_vertices)
        replayed.replay()
        assert torch.equal(pairs, negative_edges(prepared, 3000, **how, seed=4, batch=5))
    memory.synchronize()
    if "positives" in how:
        sources[0, 3] = graph.num_vertices
        replayed.replay()
        with pytest.raises(IndexOutOfRange, match=r"the source of positive edge 3 is no vertex.*in batch 5, replay 4"):
            memory.synchronize()
        memory.synchronize()


def test_negatives_that_there_are_not(nearly_complete):
    pairs = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    complete = hl.prepare(hl.from_edges(pairs[:, 0], pairs[:, 1], num_vertices=8), algorithms="sampling")
    captured(lambda: negative_edges(complete, 20))[0].replay()
    with pytest.raises(GraphError, match=r"8 vertices is complete.*replay 1 of a CUDA graph"):
        memory.synchronize()
    prepared = hl.prepare(nearly_complete, algorithms="sampling")
    sources = torch.tensor([[5, 0], [0, 0]], device=prepared.device)
    captured(lambda: negative_edges(prepared, 20, positives=sources))[0].replay()
    with pytest.raises(GraphError, match="the vertex, the source of positive edge 1, has all other vertices"):
        memory.synchronize()


def test_what_a_graph_cannot_do(graph):
    sampler, every = NeighborSampler(graph, [3]), NeighborSampler(graph, [-1])
    device = sampler.device
    seeds, here, pinsage = torch.arange(10, device=device), torch.arange(10), PinSAGESampler(graph, [3])
    for call, sentence in (
        (lambda: every.sample(seeds), "whole lists"),
        (lambda: sampler.sample(here), "seeds on the CPU"),
        (lambda: sampler.sample(seeds, stats={}), "stats="),
        (lambda: pinsage.sample(seeds, stats={}), "stats="),
        (lambda: random_walks(graph, seeds, 3), "prepare"),
        (lambda: negative_edges(graph, 5), "prepare"),
    ):
        with pytest.raises(ConfigError, match=sentence), torch.cuda.graph(torch.cuda.CUDAGraph()):
            seeds.add_(0)
            call()
    assert len(sampler.sample(here).node) > 10
