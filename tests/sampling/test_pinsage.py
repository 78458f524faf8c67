"""PinSAGE neighbourhoods against counts by hand, and through a model."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory
from hinterland.sampling import PinSAGESampler, Sample, pinsage_neighbors, random_walks
from hinterland.sampling.pinsage import most_visited
from hinterland.training import Loader
from hinterland.training.models import make_model

_spec = importlib.util.spec_from_file_location("sampling_oracle", Path(__file__).parent / "oracle.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)


def ring_with_chords(vertices=60):
    each = torch.arange(vertices)
    return hl.from_edges(
        each.repeat(3), torch.cat([(each + k) % vertices for k in (1, 2, 7)]), num_vertices=vertices, symmetrize=True
    )


def by_hand(paths, own, count):
    """The commonest vertices of one seed's walks, of equally common ones the lower, and their shares."""
    visits = Counter(v for path in paths for v in path[1:] if v >= 0 and v != own)
    ranked = sorted(visits, key=lambda v: (-visits[v], v))[:count]
    total = sum(visits.values())
    fill = count - len(ranked)
    return ranked + [-1] * fill, [visits[v] / total for v in ranked] + [0.0] * fill


@pytest.mark.parametrize("options", [{}, {"restart": 0.5}, {"walks": 1, "length": 1}, {"neighbors": 40}], ids=str)
def test_the_most_visited(device, options, monkeypatch):
    graph, seeds = ring_with_chords(), [3, 59, 3, 0]
    given = {"walks": 20, "length": 4, "neighbors": 5, "restart": 0.0, **options}
    found, weights = pinsage_neighbors(graph, seeds, seed=4, batch=2, device=device, **given)
    assert found.dtype == torch.int64 and weights.dtype == torch.float32 and found.device == device == weights.device
    starts = [v for v in seeds for _ in range(given["walks"])]
    paths = random_walks(graph, starts, given["length"], restart=given["restart"], seed=4, batch=2, device="cpu").tolist()
    for i, own in enumerate(seeds):
        expected, shares = by_hand(paths[i * given["walks"] : (i + 1) * given["walks"]], own, given["neighbors"])
        assert found[i].tolist() == expected
        assert weights[i].tolist() == pytest.approx(shares)
    monkeypatch.setattr("hinterland.sampling.pinsage.STEPS_TOGETHER", 100)  # a seed at a time
    again = pinsage_neighbors(graph, seeds, seed=4, batch=2, device=device, **given)
    assert torch.equal(again[0], found) and torch.equal(again[1], weights)


def test_ties_go_to_the_lower_number_whatever_the_order_of_the_graph(device):
    graph = hl.reorder(ring_with_chords(), "degree")
    found, weights = pinsage_neighbors(graph, torch.arange(60), walks=8, length=3, neighbors=6, device=device)
    for row, shares in zip(found.tolist(), weights.tolist(), strict=True):
        ranks = [(-share, v) for v, share in zip(row, shares, strict=True) if v >= 0]
        assert ranks == sorted(ranks)


@given(
    rows=st.integers(1, 5).flatmap(
        lambda m: st.lists(st.lists(st.integers(-1, 4), min_size=m, max_size=m), min_size=1, max_size=4)
    ),
    count=st.integers(1, 7),
)
def test_counting_visits(rows, count):
    found, shares = most_visited(torch.tensor(rows), torch.zeros(len(rows), dtype=torch.int64), count)
    for i, row in enumerate(rows):
        expected, weights = by_hand([[0, *row]], 0, count)
        assert found[i].tolist() == expected and shares[i].tolist() == pytest.approx(weights)


def test_who_has_no_neighbours_and_no_seeds(device):
    graph = hl.Graph(torch.tensor([0, 0, 1]), torch.tensor([0]))
    found, weights = pinsage_neighbors(graph, [0, 1], neighbors=2, device=device)
    assert found.tolist() == [[-1, -1], [0, -1]] and weights.tolist() == [[0, 0], [1, 0]]
    found, weights = pinsage_neighbors(graph, [], neighbors=2, device=device)
    assert found.shape == weights.shape == (0, 2)


def test_edges_with_weights_for_a_model(device):
    """One hop of PinSAGE made of the neighbourhoods; an importance of 0 leaves a neighbour out."""
    graph, seeds, x = ring_with_chords(), torch.tensor([5, 17, 40], device=device), torch.randn(60, 8, device=device)
    found, weights = pinsage_neighbors(graph, seeds, neighbors=4, device=device)
    there = found >= 0
    col = torch.arange(3, device=device)[:, None].expand_as(found)[there]
    others, row = found[there].unique(return_inverse=True)
    sample = Sample(torch.cat([seeds, others]), row + 3, col, torch.full_like(col, -1), [3, len(others)], [len(col)])
    torch.manual_seed(0)
    model = make_model("pinsage", 8, 16, 4, 1).to(device)
    out = model(x[sample.node], sample, weight=weights[there])
    conv = model.convs[0]
    for i in range(3):
        pooled = (weights[i, :, None] * conv.neighbors(x[found[i]]).relu()).sum(0) / weights[i].sum()
        h = torch.nn.functional.normalize(conv.both(torch.cat([x[seeds[i]], pooled])).relu(), dim=0)
        torch.testing.assert_close(out[i], model.head(h))


OPTIONS = {"walks": 12, "length": 4, "restart": 0.2}


def hops_by_hand(graph, seeds, fanouts, seed, batch, walks, length, restart, weighted=False):
    """Of a sample its vertices, edges by their ends, weights and counts: one walk after another, numbered through the batch."""
    node, numbers, rows, cols, weights = list(seeds), {}, [], [], []
    for i, v in enumerate(node):
        numbers.setdefault(v, i)
    begin, sizes, edges = 0, [len(node)], []
    for fanout in fanouts:
        end, before = len(node), len(rows)
        starts = [v for v in node for _ in range(walks)]  # those of hops before walk the same again, and are passed over
        options = {"restart": restart, "weighted": weighted, "seed": seed, "batch": batch}
        paths = random_walks(graph, starts, length, device="cpu", **options).tolist()
        for v in range(begin, end):
            found, shares = by_hand(paths[v * walks : (v + 1) * walks], node[v], walks * length if fanout < 0 else fanout)
            for u, share in zip(found, shares, strict=True):
                if u < 0:
                    continue
                if u not in numbers:
                    numbers[u] = len(node)
                    node.append(u)
                rows.append(numbers[u])
                cols.append(v)
                weights.append(share)
        begin = end
        sizes.append(len(node) - end)
        edges.append(len(rows) - before)
    return node, rows, cols, weights, sizes, edges


def is_by_hand(sample, expected):
    node, rows, cols, weights, sizes, edges = expected
    assert sample.node.tolist() == node and sample.row.tolist() == rows and sample.col.tolist() == cols
    assert sample.weight.dtype == torch.float32 and sample.weight.tolist() == pytest.approx(weights)
    assert sample.num_sampled_nodes == sizes and sample.num_sampled_edges == edges
    assert sample.edge.tolist() == [-1] * len(rows) and sample.batch is None


@pytest.mark.parametrize("fanouts", [[5], [4, 3], [3, -1, 2], [2, 0, 4]], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_hops(device, fanouts, weighted, set_threads, walk_lanes, monkeypatch):
    graph, seeds = ring_with_chords(200), [3, 59, 3, 0]
    if weighted:
        graph = hl.Graph(graph.indptr, graph.indices, torch.arange(graph.num_edges).float() % 5)
    expected = hops_by_hand(graph, seeds, fanouts, 4, 2, weighted=weighted, **OPTIONS)
    found = PinSAGESampler(graph, fanouts, seed=4, weighted=weighted, device=device, **OPTIONS).sample(seeds, batch=2)
    assert found.node.device == found.weight.device == device
    is_by_hand(found, expected)
    here = PinSAGESampler(graph, fanouts, seed=4, weighted=weighted, device="cpu", **OPTIONS)
    set_threads(2)
    oracle.same(here.sample(seeds, batch=2), found)
    walk_lanes()
    oracle.same(here.sample(seeds, batch=2), found)
    monkeypatch.setattr("hinterland.sampling.pinsage.STEPS_TOGETHER", 100)  # two vertices at a time
    oracle.same(here.sample(torch.tensor(seeds), batch=2), found)


@settings(max_examples=60)
@given(
    edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=30),
    seeds=st.lists(st.integers(0, 7), max_size=5),
    fanouts=st.lists(st.integers(-1, 4), min_size=1, max_size=3),
    walks=st.integers(1, 4),
    length=st.integers(1, 4),
    restart=st.sampled_from([0.0, 0.5]),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_any_small_graph(edges, seeds, fanouts, walks, length, restart, seed):
    ends = torch.tensor(edges, dtype=torch.int64).view(-1, 2)
    graph = hl.from_edges(ends[:, 0], ends[:, 1], num_vertices=8)
    options = {"walks": walks, "length": length, "restart": restart}
    sampler = PinSAGESampler(graph, fanouts, seed=seed, device="cpu", **options)
    found = sampler.sample(seeds, batch=seed)
    is_by_hand(found, hops_by_hand(graph, seeds, fanouts, seed, seed, **options))
    # What a CUDA graph captures, which is tested as such in test_captured.py.
    padded = sampler._padded(sampler._prepared, torch.tensor(seeds, dtype=torch.int64), seed)
    for name in ("node", "row", "col", "edge", "weight"):
        wanted, longer = getattr(found, name), getattr(padded, name)
        assert torch.equal(longer[: len(wanted)], wanted) and (longer[len(wanted) :] == -1).all()
    assert [int(n) for n in padded.num_sampled_nodes] == found.num_sampled_nodes
    assert [int(n) for n in padded.num_sampled_edges] == found.num_sampled_edges


def test_one_hop_is_the_neighbourhoods(device):
    graph, seeds = ring_with_chords(), torch.tensor([5, 17, 40])
    found, weights = pinsage_neighbors(graph, seeds, neighbors=6, seed=1, batch=3, device=device)
    one, two = (PinSAGESampler(graph, fanouts, seed=1, device=device).sample(seeds, batch=3) for fanouts in ([6], [6, 2]))
    assert torch.equal(one.node[one.row], found[found >= 0]) and torch.equal(one.weight, weights[found >= 0])
    first = one.num_sampled_edges[0]
    assert torch.equal(two.row[:first], one.row) and torch.equal(two.weight[:first], one.weight)
    other = PinSAGESampler(graph, [6], seed=1, device=device).sample(seeds, batch=4)
    assert not torch.equal(other.weight, one.weight)


def test_a_sample_in_every_form_of_a_graph(device):
    graph, seeds = ring_with_chords(), torch.arange(0, 60, 7)
    expected = PinSAGESampler(graph, [4, 3], device="cpu", **OPTIONS).sample(seeds)
    oracle.same(PinSAGESampler(hl.compress(graph), [4, 3], device=device, **OPTIONS).sample(seeds), expected)
    with hl.prepare(graph, device=device, algorithms="sampling") as prepared:
        oracle.same(PinSAGESampler(prepared, [4, 3], **OPTIONS).sample(seeds), expected)
    turned = hl.reorder(graph, "degree")
    found = PinSAGESampler(turned, [4, 3], device=device, **OPTIONS).sample(seeds)
    is_by_hand(found, hops_by_hand(turned, seeds.tolist(), [4, 3], 0, 0, **OPTIONS))


def test_a_loader_and_a_model(device):
    """Weights reach the layers in the order of the edges: two hops of PinSAGE as Algorithm 2 has them."""
    graph, x = ring_with_chords(), torch.randn(60, 8)
    sampler = PinSAGESampler(graph, [4, 3], seed=2, device=device, **OPTIONS)
    model = make_model("pinsage", 8, 16, 4, 2).to(device)
    for batch in Loader(sampler, torch.arange(60), 25, features=x, device=device):
        sample, h = batch.sample, batch.x
        for conv, hops in zip(model.convs, (2, 1), strict=True):
            edges, targets = sum(sample.num_sampled_edges[:hops]), sum(sample.num_sampled_nodes[:hops])
            spread = torch.zeros(targets, len(h), device=device)
            spread[sample.col[:edges], sample.row[:edges]] = sample.weight[:edges]
            pooled = spread @ conv.neighbors(h).relu() / spread.sum(1, keepdim=True).clamp(min=1e-12)
            h = torch.nn.functional.normalize(conv.both(torch.cat([h[:targets], pooled], 1)).relu(), dim=1)
        torch.testing.assert_close(model(batch.x, sample, weight=sample.weight), model.head(h))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"walks": 0}, "walks 0 leaves no neighbourhood"),
        ({"neighbors": 0}, "neighbors 0 leaves no neighbourhood"),
        ({"length": 0}, "length 0 is not between"),
        ({"restart": 1}, "restart 1 is not a probability"),
        ({"walks": 2.5}, "walks 2.5 is not a whole number"),
        ({"weighted": True}, "needs a graph with weights"),
        ({"seeds": "all"}, "seeds must be a tensor"),
        ({"graph": None}, "graph is a NoneType"),
    ],
    ids=str,
)
def test_what_is_refused(options, words):
    options = {"graph": ring_with_chords(), "seeds": [0], **options}
    with pytest.raises(ConfigError, match=words):
        pinsage_neighbors(options.pop("graph"), options.pop("seeds"), device="cpu", **options)
    for make in (pinsage_neighbors, lambda graph, seeds, device: PinSAGESampler(graph, [2], device=device).sample(seeds)):
        with pytest.raises(IndexOutOfRange, match=r"seed 60 at position 1 is no vertex.* \(in batch 0\)"):
            make(ring_with_chords(), [3, 60], device="cpu")
    with pytest.raises(OutOfMemory, match="walks of 3 steps take .*; walk from fewer starts"):
        pinsage_neighbors(ring_with_chords(), [0], walks=2**50, device="cpu")
    for wrong, words in (({"fanouts": []}, "fanouts is empty"), ({"fanouts": [2], "walks": 0}, "walks 0 leaves no")):
        with pytest.raises(ConfigError, match=words):
            PinSAGESampler(ring_with_chords(), device="cpu", **wrong)
