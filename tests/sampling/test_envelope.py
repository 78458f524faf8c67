"""Samples of fixed shape: what an envelope holds, and that draws are those of samples without padding.

On a CPU a sample is made at each call, on a GPU by the replay of a graph."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hinterland as hl
from hinterland import memory
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.sampling import Envelope, NeighborSampler
from hinterland.sampling.envelope import _deviations, ends_of
from tests.padding import padded

_spec = importlib.util.spec_from_file_location("sampling_oracle", Path(__file__).parent / "oracle.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

VERTICES, FANOUTS, BATCH = 5000, [6, 4, 3], 100
CASES = {
    "uniform": {},
    "replace": {"replace": True},
    "weighted": {"weighted": True},
    "weighted, replace": {"weighted": True, "replace": True},
}
FORMS = {
    "plain": lambda graph: graph,
    "64 bits": lambda graph: hl.Graph(graph.indptr, graph.indices.long(), graph.weights),
    "compressed": hl.compress,
    "reordered": lambda graph: hl.reorder(graph, "degree"),
    "reordered, compressed": lambda graph: hl.compress(hl.reorder(graph, "degree")),
}


@pytest.fixture(scope="module")
def graph():
    random = torch.Generator().manual_seed(3)
    ends = (torch.rand(2, 60_000, generator=random) ** 2 * VERTICES).long()
    return hl.from_edges(ends[0], ends[1], torch.rand(60_000, generator=random), num_vertices=VERTICES)


def seeds_of(count, seed=0):
    return torch.randint(0, VERTICES, (count,), generator=torch.Generator().manual_seed(seed))


def counts_of(sampler, batches=8):
    return torch.stack([ends_of(sampler.sample(seeds_of(BATCH, batch), batch)) for batch in range(batches)])


def fitted(sampler):
    return Envelope.of(counts_of(sampler), Envelope.largest(BATCH, sampler.fanouts, VERTICES))


class Remade:
    """A sample that is made anew for each batch."""

    def __init__(self, sampler, envelope):
        self.seeds = torch.zeros(envelope.vertices[0], dtype=torch.int64, device=sampler.device)
        self.given = torch.zeros(2, dtype=torch.int64, device=sampler.device)
        self._make = lambda: sampler.captured(self.seeds, self.given, envelope)
        self._graph = None
        if sampler.device.type == "cuda":
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=torch.cuda.Stream()):
                self.sample = self._make()

    def __call__(self, seeds, batch):
        self.seeds.fill_(10**12)  # what is behind is no vertex, and ignored
        self.seeds[: len(seeds)] = seeds.to(self.seeds.device)
        self.given.copy_(torch.tensor([batch, len(seeds)]))
        if self._graph is None:
            self.sample = self._make()
        else:
            self._graph.replay()
        return self.sample


def fits(sample, envelope):
    vertices, (_, *edges) = ends_of(sample).tolist()
    return envelope.holds(vertices, edges)


def same(one, other):
    oracle.same(one, other)
    assert torch.equal(one.ends, other.ends)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_draws_are_those_without_padding(graph, device, case, form):
    sampler = NeighborSampler(FORMS[form](graph), FANOUTS, seed=2, device=device, **CASES[case])
    envelope = fitted(sampler)
    remade = Remade(sampler, envelope)
    for batch, count in ((0, BATCH), (7, BATCH), (-3, 33), (2**40, 1), (5, 0), (6, BATCH)):
        seeds = seeds_of(count, batch % 97)
        expected = sampler.sample(seeds, batch)
        assert fits(expected, envelope)
        same(remade(seeds, batch), padded(expected, envelope))


@pytest.mark.parametrize("case", CASES)
def test_lanes_draw_the_same(graph, case, lanes):
    sampler = NeighborSampler(graph, FANOUTS, device="cpu", **CASES[case])
    envelope, expected = fitted(sampler), sampler.sample(seeds_of(33), 5)
    lanes()
    same(Remade(sampler, envelope)(seeds_of(33), 5), padded(expected, envelope))
    less = Envelope((BATCH, 110, 300, 500), (90, 500, 900))
    assert_inside(Remade(sampler, less)(seeds_of(33), 5), less, VERTICES)


def test_prepared(graph, device):
    with hl.prepare(hl.reorder(graph, "degree"), algorithms="sampling", device=device) as prepared:
        sampler = NeighborSampler(prepared, FANOUTS, device=device)
        envelope = fitted(sampler)
        remade = Remade(sampler, envelope)
        same(remade(seeds_of(BATCH), 4), padded(sampler.sample(seeds_of(BATCH), 4), envelope))


@given(oracle.small_graphs(), st.data())
def test_any_envelope(graph, data):
    """One that holds the sample, and one that does not: then no number leads out of the arrays."""
    fanouts = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    seeds = data.draw(st.lists(st.integers(0, graph.num_vertices - 1), min_size=1, max_size=5))
    count = data.draw(st.integers(0, len(seeds)))
    sizes = st.lists(st.integers(0, 12), min_size=len(fanouts), max_size=len(fanouts))
    vertices, edges = (torch.tensor(data.draw(sizes)).cumsum(0).tolist() for _ in range(2))
    envelope = Envelope((len(seeds), *(len(seeds) + n for n in vertices)), tuple(edges))
    sampler, asked = NeighborSampler(graph, fanouts, device="cpu"), torch.tensor(seeds)
    expected = sampler.sample(seeds[:count], 3)
    found = sampler.captured(asked, torch.tensor([3, count]), envelope)
    assert asked.tolist() == seeds
    assert torch.equal(found.ends, ends_of(expected))
    if fits(expected, envelope):
        same(found, padded(expected, envelope))
    assert_inside(found, envelope, graph.num_vertices)


def assert_inside(sample, envelope, num_vertices):
    """Whatever was drawn, shapes are the envelope's, and numbers lead to what the layers have that read them."""
    assert len(sample.node) == envelope.vertices[-1] and sample.node.min() >= 0 and sample.node.max() < num_vertices
    assert len(sample.row) == len(sample.col) == len(sample.edge) == envelope.edges[-1]
    assert sample.num_sampled_nodes == torch.tensor([0, *envelope.vertices]).diff().tolist()
    assert sample.num_sampled_edges == torch.tensor([0, *envelope.edges]).diff().tolist()
    for hop, (vertices, edges) in enumerate(zip(envelope.vertices[1:], envelope.edges, strict=True)):
        drawn = min(edges, int(sample.ends[1, hop + 1]))
        assert (sample.row[:drawn] < vertices).all() and (sample.col[:drawn] < envelope.vertices[hop]).all()
    assert (sample.row >= 0).all() and (sample.col >= 0).all() and (sample.edge >= 0).all()
    assert (sample.row < envelope.vertices[-1]).all() and (sample.col < envelope.vertices[-1]).all()


@pytest.mark.parametrize("less", [(0, 1), (0, 3), (1, 0), (1, 2)], ids=str)
def test_an_overflow_is_told_and_leads_nowhere(graph, device, less):
    """The next batch that fits is right again."""
    sampler = NeighborSampler(hl.reorder(graph, "degree"), FANOUTS, device=device)
    sizes = [list(sizes) for sizes in (fitted(sampler).vertices, fitted(sampler).edges)]
    which, hop = less
    sizes[which][hop] = sizes[which][hop - 1] + 64 if hop else 64
    envelope = Envelope(*map(tuple, sizes))
    remade = Remade(sampler, envelope)
    table = hl.UnifiedTensor.from_tensor(torch.arange(VERTICES, dtype=torch.float32)[:, None])
    for count in (BATCH, 3, BATCH, 2):
        seeds = seeds_of(count, count)
        expected, found = sampler.sample(seeds, 9), remade(seeds, 9)
        assert torch.equal(found.ends.cpu(), ends_of(expected))
        assert fits(expected, envelope) == (count < BATCH)
        if count < BATCH:
            same(found, padded(expected, envelope))
        assert_inside(found, envelope, VERTICES)
        assert torch.equal(table[found.node].flatten().long(), found.node)
    memory.synchronize()


def test_bad_seeds_are_told_with_their_batch(graph, device):
    sampler = NeighborSampler(graph, [3], device=device)
    remade = Remade(sampler, Envelope.largest(20, [3], VERTICES))
    for at, batch in ((None, 4), (9, 5), (2, 6), (None, 7)):
        seeds = seeds_of(20)
        if at is not None:
            seeds[at] = -1
        if device.type == "cpu" and at is not None:
            with pytest.raises(IndexOutOfRange, match=rf"seed -1 at position {at} .* \(in batch {batch}\)"):
                remade(seeds, batch)
        else:
            remade(seeds, batch)
    if device.type == "cpu":
        return
    assert_inside(remade.sample, Envelope.largest(20, [3], VERTICES), VERTICES)
    with pytest.raises(IndexOutOfRange, match=r"the seed at position 9 .* \(in batch 5, replay 2 of a CUDA graph\)"):
        memory.synchronize()
    seeds[19] = VERTICES
    remade(seeds, 8)
    assert_inside(remade.sample, Envelope.largest(20, [3], VERTICES), VERTICES)
    with pytest.raises(IndexOutOfRange, match=r"the seed at position 19 .* \(in batch 8, replay 5 of a CUDA graph\)"):
        memory.synchronize()
    memory.synchronize()


@pytest.mark.gpu
def test_several_graphs_of_one_sampler(graph):
    """They may take turns, as those of a loader's buffers do; the rows of one are read by another graph."""
    sampler = NeighborSampler(graph, FANOUTS)
    envelope = fitted(sampler)
    made = [Remade(sampler, envelope) for _ in range(3)]
    for batch in range(9):
        made[batch % 3](seeds_of(BATCH, batch), batch)
        if batch >= 2:  # the two others have begun since
            before = batch - 2
            same(made[before % 3].sample, padded(sampler.sample(seeds_of(BATCH, before), before), envelope))


@pytest.mark.gpu
def test_what_is_not_captured_is_refused(graph):
    sampler = NeighborSampler(graph, [3])
    seeds, batch = torch.zeros(20, dtype=torch.int64, device=sampler.device), torch.zeros(2, dtype=torch.int64, device="cuda")
    with pytest.raises(ConfigError, match=r"and none is; call sample\(\)"):
        sampler.captured(seeds, batch, Envelope.largest(20, [3], VERTICES))
    here, sentence = seeds.cpu(), r"seeds are torch.int64 of shape \(20,\) on cpu; .* on cuda:0"
    with pytest.raises(ConfigError, match=sentence), torch.cuda.graph(torch.cuda.CUDAGraph()):
        batch.add_(0)
        sampler.captured(here, batch, Envelope.largest(20, [3], VERTICES))


@pytest.mark.parametrize(
    ("fanouts", "how", "batch_size", "sentence"),
    [
        ([3, -1], {}, 10, r"fanouts are \[3, -1\]"),
        ([3], {"disjoint": True}, 10, "this sampler has disjoint=True"),
        ([3], {"edge_times": True}, 10, "this sampler has times"),
        ([60_000], {}, 10_000, "10000 seeds with fanouts .* could take .*GiB, and one of fixed shape at most 1.00 GiB"),
    ],
)
def test_samplers_that_cannot(graph, device, fanouts, how, batch_size, sentence):
    how = {
        name: torch.zeros(graph.num_edges, dtype=torch.int64) if name == "edge_times" else value for name, value in how.items()
    }
    sampler = NeighborSampler(graph, fanouts, device=device, **how)
    refusal = sampler.refuses_capture(batch_size)
    with pytest.raises(ConfigError, match=sentence) as refused:
        sampler.captured(
            torch.zeros(batch_size, dtype=torch.int64),
            torch.zeros(2, dtype=torch.int64),
            Envelope((batch_size, *[batch_size + 1] * len(fanouts)), (0,) * len(fanouts)),
        )
    assert str(refused.value) == refusal
    assert NeighborSampler(graph, [15, 10, 5], device=device).refuses_capture(1024) is None


@pytest.mark.parametrize(
    ("seeds", "batch", "fanouts", "sentence"),
    [
        (torch.zeros(9).long(), torch.zeros(2).long(), [3], r"seeds are torch.int64 of shape \(9,\).* int64 of shape \(10,\)"),
        (torch.zeros(10), torch.zeros(2).long(), [3], "seeds are torch.float32"),
        (torch.zeros(20).long()[::2], torch.zeros(2).long(), [3], "one behind another"),
        (torch.zeros(10).long(), torch.zeros(2).int(), [3], "given are torch.int32"),
        (torch.zeros(10).long(), torch.zeros(2).long(), [3, 2], r"the envelope has 2 hops, but fanouts are \[3\]"),
    ],
)
def test_other_arguments(graph, seeds, batch, fanouts, sentence):
    with pytest.raises(ConfigError, match=sentence):
        NeighborSampler(graph, [3], device="cpu").captured(seeds, batch, Envelope.largest(10, fanouts, VERTICES))


def test_lists_on_storage_are_refused(graph, tmp_path):
    hl.save_graph(graph, tmp_path / "graph.hl")
    sampler = NeighborSampler(hl.load_graph(tmp_path / "graph.hl", placement="storage"), [3], device="cpu")
    assert "lie on storage" in sampler.refuses_capture(10)


def test_padding_is_behind_what_was_drawn(graph):
    sample = NeighborSampler(graph, FANOUTS, device="cpu").sample(seeds_of(BATCH))
    vertices, (_, *edges) = ends_of(sample).tolist()
    fixed = padded(sample, Envelope((BATCH, *(n + 5 for n in vertices[1:])), tuple(e + 3 for e in edges)))
    kept = {"node": vertices[-1], "row": edges[-1], "col": edges[-1], "edge": edges[-1]}
    assert all(torch.equal(getattr(fixed, name)[:end], getattr(sample, name)) for name, end in kept.items())
    behind = {name: getattr(fixed, name)[end:].tolist() for name, end in kept.items()}
    last = vertices[-1] + 4
    assert behind == {"node": [0] * 5, "row": [last] * 3, "col": [last] * 3, "edge": [0] * 3}
    assert fixed.seeds == BATCH and fixed.ends.tolist() == [vertices, [0, *edges]]


def test_an_envelope_holds_fewer_vertices_than_it_has():
    envelope = Envelope((10, 30, 60), (25, 50))
    assert envelope.holds([10, 29, 59], [25, 50])
    for vertices, edges in (([11, 29, 59], [25, 50]), ([10, 30, 59], [25, 50]), ([10, 29, 59], [26, 50])):
        assert not envelope.holds(vertices, edges)


@settings(max_examples=100)
@given(st.data())
def test_an_envelope_of_what_was_met(data):
    """It holds all of it, with 1 % to spare up to what there can be, and more where that varies."""
    hops, batch_size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 50))
    each = st.lists(st.integers(0, 2000), min_size=hops, max_size=hops)
    drawn = data.draw(st.lists(st.tuples(st.integers(1, batch_size), each, each), min_size=1, max_size=9))
    counts = torch.stack(
        [
            torch.stack([torch.tensor([seeds, *vertices]).cumsum(0), torch.tensor([0, *edges]).cumsum(0)])
            for seeds, vertices, edges in drawn
        ]
    )
    most = Envelope(
        (batch_size, *[n * 2000 + batch_size + 1 for n in range(1, hops + 1)]), tuple(range(2000, 2001 * hops, 2000))
    )
    envelope = Envelope.of(counts, most)
    assert all(envelope.holds(vertices, edges[1:]) for vertices, edges in counts.tolist())
    assert min(envelope.num_sampled_nodes) >= 0 and min(envelope.num_sampled_edges) >= 0
    deviation = counts.double().std(0, correction=1 if len(counts) > 1 else 0)
    for of_one, which, limits in ((envelope.vertices[1:], 0, most.vertices[1:]), (envelope.edges, 1, most.edges)):
        for hop, (size, limit) in enumerate(zip(of_one, limits, strict=True), 1):
            met = counts[:, which, hop].double()
            assert size % 64 == 0 and size < limit + 64
            assert size >= min(limit, 1.01 * float(met.max()), float(met.mean() + 3 * deviation[which, hop]))


@pytest.mark.parametrize("times, vertices, edges", [(1, 1152, 2240), (100, 1088, 2176)])
def test_an_envelope_follows_the_mean_and_the_deviation(times, vertices, edges):
    """Of 1,000 and 2,000 in the mean, with deviations of 20 and 40: 4.7 of them of 8 samples, 3 of many; rounded up to 64."""
    met = [970, 980, 990, 1000, 1000, 1010, 1020, 1030] * times
    envelope = Envelope.of(torch.tensor([[[10, n], [0, 2 * n]] for n in met]), Envelope((10, 10_000), (10_000,)))
    assert envelope == Envelope((10, vertices), (edges,))


@pytest.mark.parametrize("samples", [8, 20, 1000])
def test_few_samples_say_little_of_their_deviation(samples):
    expected = stats.t.ppf(stats.norm.cdf(3), samples - 1) * (1 + 1 / samples) ** 0.5
    assert _deviations(samples) == pytest.approx(expected, rel=0.03)


@given(oracle.small_graphs(), st.lists(st.integers(0, 4), min_size=1, max_size=3), st.integers(1, 6))
def test_the_largest_envelope_holds_every_sample(graph, fanouts, batch_size):
    envelope = Envelope.largest(batch_size, fanouts, graph.num_vertices)
    sample = NeighborSampler(graph, fanouts, replace=True, device="cpu").sample([0] * batch_size)
    assert fits(sample, envelope)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Envelope((10, 9), (5,)), "vertices of an envelope, which are counted up, 9 is not a whole number from 10"),
        (lambda: Envelope((10, 20), (5, 3)), "edges of an envelope, which are counted up, 3 is not"),
        (lambda: Envelope((10, 20), ()), "2 counts of vertices and 0 of edges; give one more"),
        (lambda: Envelope.largest(10, [3, -1], 100), r"fanouts \[3, -1\] take whole lists"),
        (lambda: Envelope.largest(0, [3], 100), "batch_size 0 is not"),
        (lambda: Envelope.of(torch.zeros(0, 2, 2).long(), Envelope((10, 20), (5,))), r"of shape \(0, 2, 2\), but must be"),
        (
            lambda: Envelope.of(torch.zeros(1, 2, 2), Envelope((10, 20), (5,))),
            r"torch.float32 .* must be int64 \[samples, 2, 2\]",
        ),
        (lambda: Envelope.of(torch.zeros(1, 2, 3).long(), Envelope((10, 20), (5,))), r"\(1, 2, 3\)"),
    ],
)
def test_envelopes_that_are_none(make, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make()
