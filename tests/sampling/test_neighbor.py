"""Neighbour sampling against what every sample must be, the same on every processor."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph.lists import NeighborLists
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange
from hinterland.sampling import NeighborSampler
from hinterland.sampling import batch as batches

_spec = importlib.util.spec_from_file_location("sampling_oracle", Path(__file__).parent / "oracle.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

CASES = {
    "uniform": {},
    "replace": {"replace": True},
    "weighted": {"weighted": True},
    "weighted, replace": {"weighted": True, "replace": True},
    "disjoint": {"disjoint": True},
    "temporal": {"times": True},
    "temporal, replace": {"times": True, "replace": True},
    "temporal, weighted": {"times": True, "weighted": True},
    "last": {"times": True, "temporal_strategy": "last"},
    "temporal edges": {"edge_times": True},
    "temporal edges, replace": {"edge_times": True, "replace": True},
    "temporal edges, weighted": {"edge_times": True, "weighted": True},
    "last edges": {"edge_times": True, "temporal_strategy": "last"},
    "temporal edges and vertices": {"edge_times": True, "times": True},
    "last edges and vertices": {"edge_times": True, "times": True, "temporal_strategy": "last"},
    "window": {"times": True, "time_window": 12},
    "window, replace": {"times": True, "time_window": 12, "replace": True},
    "window of edges": {"edge_times": True, "time_window": 20},
    "window of edges, weighted": {"edge_times": True, "time_window": 20, "weighted": True},
    "last in a window of edges and vertices": {
        "edge_times": True,
        "times": True,
        "time_window": 7,
        "temporal_strategy": "last",
    },
}


def skewed(vertices, edges, seed=1, dtype=torch.float32, **options):
    """A directed random graph with hubs, parallel edges, empty lists and a third of its weights 0."""
    random = np.random.default_rng(seed)
    order = torch.from_numpy(random.permutation(vertices))
    ends = torch.from_numpy((random.random((2, edges)) ** 3 * vertices).astype(np.int64))
    weights = torch.from_numpy(np.maximum(random.random(edges) * 12 - 4, 0)).to(dtype)
    return hl.from_edges(order[ends[0]], order[ends[1]], weights, num_vertices=vertices, **options)


def times_of(graph, seed=3):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 50, graph.num_vertices))


def seeds_of(graph, count, seed=5):
    return torch.from_numpy(np.random.default_rng(seed).permutation(graph.num_vertices)[:count])


def edge_times_of(graph, seed=4):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 50, graph.num_edges))


TIMES = {"times": times_of, "edge_times": edge_times_of}


def sampler(graph, fanouts, options, **more):
    given = {name: TIMES[name](graph) if name in TIMES else value for name, value in options.items()}
    return NeighborSampler(graph, fanouts, **given, **more)


def limits_of(graph, seeds):
    return times_of(graph)[torch.as_tensor(seeds, dtype=torch.int64)]


def sample(sampling, seeds, options, **more):
    """Where edges have times, seeds are given some as well."""
    if "edge_times" in options:
        more["seed_times"] = limits_of(sampling.graph, seeds)
    return sampling.sample(seeds, **more)


def check(sample, graph, seeds, fanouts, options):
    options = dict(options)
    last, window = options.pop("temporal_strategy", None) == "last", options.pop("time_window", None)
    given = {name: of(graph).numpy() for name, of in TIMES.items() if options.pop(name, False)}
    if given:
        options |= {**given, "limits": limits_of(graph, seeds).numpy(), "disjoint": True}
    oracle.check(sample, graph, seeds, fanouts, last=last, window=window, **options)


@pytest.fixture(scope="module")
def graph():
    return skewed(400, 6000)


@pytest.fixture
def with_long_lists():
    """Lists of which samples are drawn by trials first."""
    return skewed(300, 60000)


@pytest.mark.parametrize("fanouts", [[5, 3, 2], [-1, 2], [3, 0, 4], [40]], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_what_samples_are_on_every_processor(graph, device, case, fanouts, set_threads, lanes, monkeypatch):
    options, seeds = CASES[case], seeds_of(graph, 25)
    found = sample(sampler(graph, fanouts, options, seed=7, device=device), seeds, options, batch=3)
    assert found.node.device == found.edge.device == device
    check(found, graph, seeds, fanouts, options)
    here = sampler(graph, fanouts, options, seed=7, device="cpu")
    for count in (1, 2, 3):
        set_threads(count)
        oracle.same(sample(here, seeds, options, batch=3), found)
    monkeypatch.setattr(batches, "MOST_AHEAD", 0)  # memory is allocated step by step
    oracle.same(sample(here, seeds, options, batch=3), found)
    lanes()
    oracle.same(sample(here, seeds, options, batch=3), found)


@pytest.mark.parametrize("case", [name for name in CASES if {"weighted", "times", "edge_times"} & CASES[name].keys()])
def test_long_lists(with_long_lists, device, case, lanes):
    options, seeds, fanouts = CASES[case], seeds_of(with_long_lists, 8), [6, 2]
    assert with_long_lists.degrees().max() > 6 * 8 * 32
    found = sample(sampler(with_long_lists, fanouts, options, device=device), seeds, options)
    check(found, with_long_lists, seeds, fanouts, options)
    here = sampler(with_long_lists, fanouts, options, device="cpu")
    oracle.same(sample(here, seeds, options), found)
    lanes()
    oracle.same(sample(here, seeds, options), found)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64], ids=str)
def test_every_type_of_weight(device, dtype):
    graph, fanouts = skewed(100, 1500, dtype=dtype), [4, 3]
    seeds = seeds_of(graph, 10)
    found = NeighborSampler(graph, fanouts, weighted=True, device=device).sample(seeds)
    oracle.check(found, graph, seeds, fanouts, weighted=True)
    double = hl.Graph(graph.indptr, graph.indices, graph.weights.double())
    oracle.same(NeighborSampler(double, fanouts, weighted=True, device="cpu").sample(seeds), found)


def test_a_sample_depends_on_seed_batch_and_seeds_alone(graph, device):
    seeds = seeds_of(graph, 20)
    one, other = (NeighborSampler(graph, [4, 4], seed=seed, device=device) for seed in (1, 2))
    oracle.same(one.sample(seeds, batch=5), one.sample(seeds.int(), batch=5))
    oracle.same(
        one.sample(seeds, batch=5), NeighborSampler(graph, [4, 4], seed=1, device=device).sample(seeds.tolist(), batch=5)
    )
    drawn = [s.sample(seeds, batch=b).edge.cpu().tolist() for s in (one, other) for b in (0, 1)]
    assert all(drawn[i] != drawn[j] for i in range(4) for j in range(i))
    NeighborSampler(graph, [1], seed=-1, device=device).sample(seeds, batch=-(2**63))


@pytest.mark.parametrize("options", [{}, {"weighted": True}, {"times": True}, {"edge_times": True}], ids=str)
def test_compressed_lists_are_the_sorted_ones(device, options, lanes):
    graph = hl.from_edges(*torch.from_numpy(np.random.default_rng(2).integers(0, 700, (2, 30000))), num_vertices=700)
    assert graph.has_sorted_lists
    graph = hl.Graph(graph.indptr, graph.indices, torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(1)))
    seeds, fanouts = seeds_of(graph, 8), [4, -1]
    plain = sample(sampler(graph, fanouts, options, device="cpu"), seeds, options)
    packed = hl.compress(graph)
    oracle.same(sample(sampler(packed, fanouts, options, device=device), seeds, options), plain)
    lanes()
    oracle.same(sample(sampler(packed, fanouts, options, device="cpu"), seeds, options), plain)


def test_edges_wider_than_four_bytes(graph, device):
    """Neighbours are int64 from 2^31 vertices on, which no test can afford; kernels take them at any count."""
    wide = hl.Graph.of(
        NeighborLists({**graph.neighbor_lists.arrays, "indices": hl.UnifiedTensor.from_tensor(graph.indices.long())}), True
    )
    seeds = seeds_of(graph, 20)
    oracle.same(
        NeighborSampler(wide, [4, 4], device=device).sample(seeds), NeighborSampler(graph, [4, 4], device="cpu").sample(seeds)
    )


@pytest.mark.parametrize("placement", ["host", "pinned", "gpu"])
@pytest.mark.gpu
def test_every_placement(graph, placement):
    placed = hl.Graph(graph.indptr, graph.indices, graph.weights, placement=placement)
    seeds = seeds_of(graph, 50)
    for options in CASES.values():
        found = sample(sampler(placed, [5, -1], options, device="cuda"), seeds, options)
        oracle.same(found, sample(sampler(graph, [5, -1], options, device="cpu"), seeds, options))


def test_a_prepared_graph_in_place_of_a_graph(graph, device):
    seeds = seeds_of(graph, 50)
    expected = NeighborSampler(graph, [5, 4], weighted=True, device="cpu").sample(seeds)
    with hl.prepare(graph, algorithms="sampling", weighted=True, device=device) as prepared:
        sampling = NeighborSampler(prepared, [5, 4], weighted=True)
        assert sampling.device == device
        oracle.same(sampling.sample(seeds), expected)
    with pytest.raises(ConfigError, match="closed"):
        sampling.sample(seeds)


@pytest.mark.gpu
def test_hot_pages():
    big = hl.generate("kronecker", scale=17, edge_factor=16, weights="float32")
    budget = batches.state_bytes(big.num_vertices, 1024, (15, 10, 5)) + big.nbytes // 2
    with hl.prepare(big, budget, "cuda", "sampling", weighted=True) as prepared:
        assert prepared.out.hot_edges is not None
        seeds = seeds_of(big, 500)
        found = NeighborSampler(prepared, [5, 4], weighted=True).sample(seeds)
    oracle.same(found, NeighborSampler(big, [5, 4], weighted=True, device="cpu").sample(seeds))


def test_a_reordered_graph_keeps_its_vertices_names(graph, device):
    ordered = hl.reorder(graph, "degree")
    assert ordered.order is not None
    times, seeds = times_of(graph), seeds_of(graph, 30)
    found = NeighborSampler(ordered, [5, 4], times=times, device=device).sample(seeds)
    np.testing.assert_array_equal(found.node[:30].cpu(), seeds)
    internal = ordered.to_internal(found.node.cpu())
    np.testing.assert_array_equal(ordered.indices.cpu()[found.edge.cpu()], internal[found.row.cpu()])
    assert (times[found.node.cpu()] <= times[seeds][found.batch.cpu()]).all()


def test_seeds_that_a_reordered_graph_does_not_have_are_named(graph, device):
    sampler = NeighborSampler(hl.reorder(graph, "degree"), [5], device=device)
    for wrong in (-1, graph.num_vertices):
        with pytest.raises(IndexOutOfRange, match=f"seed {wrong} at position 2 is no vertex"):
            sampler.sample([0, 1, wrong])


@pytest.mark.gpu
def test_a_reordered_graphs_numbers_are_not_copied_for_each_batch(graph):
    ordered, gpu = hl.reorder(graph, "degree"), torch.device("cuda:0")
    internal, original = ordered.to_internal(torch.arange(graph.num_vertices)), ordered.order.clone()
    for numbers_on, numbers in ((ordered.numbering.original_ids_on, original), (ordered.numbering.internal_ids_on, internal)):
        few = [numbers_on(gpu, 10) for _ in range(2)]
        assert few[0].data_ptr() == few[1].data_ptr()
        many = [numbers_on(gpu, graph.num_vertices) for _ in range(2)]
        assert many[0].data_ptr() != many[1].data_ptr()
        assert all(torch.equal(found.cpu(), numbers) for found in few + many)
    assert torch.equal(ordered.order, original)


def test_repeated_seeds_stay_and_draw_each(graph, device):
    """As in PyG, where batch_size counts them."""
    seed = int(graph.degrees().argmax())
    found = NeighborSampler(graph, [6, 3], device=device).sample([seed, 3, seed, seed])
    assert found.node[:4].tolist() == [seed, 3, seed, seed]
    oracle.check(found, graph, [seed, 3, seed, seed], [6, 3])
    draws = [found.edge[found.col == i].tolist() for i in (0, 2, 3)]
    assert draws[0] != draws[1] != draws[2]
    assert not torch.isin(found.row, torch.tensor([2, 3], device=device)).any()


def test_no_seeds_and_no_neighbours(device):
    empty = hl.Graph(torch.zeros(5, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    for seeds in ([], [2, 0]):
        for fanouts in ([3, 2], [-1]):
            found = NeighborSampler(empty, fanouts, device=device).sample(seeds)
            assert found.node.tolist() == seeds and found.edge.numel() == 0
            assert found.num_sampled_nodes == [len(seeds)] + [0] * len(fanouts)
            assert found.num_sampled_edges == [0] * len(fanouts)
    none = hl.Graph(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64))
    assert NeighborSampler(none, [2], times=torch.zeros(0, dtype=torch.int64), device=device).sample([]).node.numel() == 0


def test_whole_lists_are_the_neighbourhood(graph, device):
    from torch_geometric.utils import k_hop_subgraph

    seeds = seeds_of(graph, 5)
    for hops in (1, 2, 3):
        found = NeighborSampler(graph, [-1] * hops, device=device).sample(seeds)
        adjacency = graph.without_weights().to_scipy().astype(bool).astype(np.int64)
        reached = np.zeros(graph.num_vertices, dtype=np.int64)
        reached[seeds] = 1
        for _ in range(hops):
            before, reached = reached, reached | (adjacency.T @ reached > 0)
        assert sorted(found.node.tolist()) == np.flatnonzero(reached).tolist()
        # The lists of all that is less than `hops` away, each once.
        indptr = graph.indptr.numpy()
        expected = np.concatenate([np.arange(indptr[v], indptr[v + 1]) for v in np.flatnonzero(before)])
        assert sorted(found.edge.tolist()) == sorted(expected.tolist())
        sources = torch.repeat_interleave(graph.degrees())
        theirs = k_hop_subgraph(seeds, hops, torch.stack([graph.indices.long(), sources]), num_nodes=graph.num_vertices)[0]
        assert sorted(found.node.tolist()) == theirs.tolist()


def test_seed_times_bound_each_subtree(graph, device):
    seeds, times = seeds_of(graph, 20), times_of(graph)
    sampling = NeighborSampler(graph, [-1, 4], times=times, device=device)
    limits = torch.arange(20) * 3
    oracle.check(
        sampling.sample(seeds, seed_times=limits),
        graph,
        seeds,
        [-1, 4],
        disjoint=True,
        times=times.numpy(),
        limits=limits.numpy(),
    )
    oracle.same(sampling.sample(seeds, seed_times=times[seeds]), sampling.sample(seeds))
    unified = NeighborSampler(graph, [-1, 4], times=hl.UnifiedTensor.from_tensor(times), device=device)
    oracle.same(sampling.sample(seeds), unified.sample(seeds))


@pytest.mark.parametrize("placement", ["pageable", "host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_times_of_edges_in_any_memory(graph, device, placement):
    seeds, times, limits = seeds_of(graph, 20), edge_times_of(graph), torch.arange(20) * 2
    expected = NeighborSampler(graph, [4, -1], edge_times=times, device="cpu").sample(seeds, seed_times=limits)
    oracle.check(expected, graph, seeds, [4, -1], disjoint=True, edge_times=times.numpy(), limits=limits.numpy())
    held = times.cuda() if placement == "gpu" else hl.UnifiedTensor.from_tensor(times, placement=placement)
    if placement == "pageable" and device.type == "cuda":
        with pytest.raises(ConfigError, match="pageable memory is not visible to GPUs"):
            NeighborSampler(graph, [4, -1], edge_times=held, device=device)
        return
    oracle.same(NeighborSampler(graph, [4, -1], edge_times=held, device=device).sample(seeds, seed_times=limits), expected)


def test_times_of_a_reordered_graphs_edges_are_carried_as_its_weights(graph, device):
    """Its lists are sorted anew; what is given in their order is what the builders have carried along."""
    times = edge_times_of(graph)
    ordered = hl.reorder(hl.Graph(graph.indptr, graph.indices, times), "degree")
    seeds, limits = seeds_of(graph, 30), torch.arange(30)
    sampling = NeighborSampler(ordered, [-1, -1], edge_times=ordered.weights, device=device)
    found = sampling.sample(seeds, seed_times=limits)
    assert (ordered.weights[found.edge.cpu()] <= limits[found.batch[found.col].cpu()]).all()
    plain = NeighborSampler(graph, [-1, -1], edge_times=times, device=device).sample(seeds, seed_times=limits)

    def drawn(sample, times):
        columns = (sample.batch[sample.col], sample.node[sample.col], sample.node[sample.row])
        return sorted(zip(*(c.tolist() for c in columns), times[sample.edge.cpu()].tolist(), strict=True))

    assert drawn(found, ordered.weights) == drawn(plain, times)


def test_extreme_times(device):
    least, most = -(2**63), 2**63 - 1
    star = hl.from_edges(torch.zeros(4, dtype=torch.int64), torch.arange(1, 5), num_vertices=5)
    times = torch.tensor([most, least, most, 0, least])
    found = NeighborSampler(star, [4], times=times, temporal_strategy="last", device=device).sample([0])
    assert found.edge.tolist() == [1, 2, 0, 3]
    found = NeighborSampler(star, [4], times=times, device=device).sample([0], seed_times=[least])
    assert sorted(found.edge.tolist()) == [0, 3]
    of_edges = {"edge_times": times[1:], "device": device}
    found = NeighborSampler(star, [4], temporal_strategy="last", **of_edges).sample([0], seed_times=[most])
    assert found.edge.tolist() == [1, 2, 0, 3]
    found = NeighborSampler(star, [-1], **of_edges).sample([0], seed_times=[least])
    assert found.edge.tolist() == [0, 3]


def test_a_window_is_of_the_later_time_where_vertices_and_edges_have_one(device):
    star = hl.from_edges(torch.zeros(4, dtype=torch.int64), torch.arange(1, 5), num_vertices=5)
    times = {"times": torch.tensor([0, 2, 9, 6, 11]), "edge_times": torch.tensor([8, 1, 3, 2])}  # from 8, 9, 6 and 11 on
    drawn = {}
    for window in (None, 0, 1, 2, 3, 4):
        sampling = NeighborSampler(star, [-1], **times, time_window=window, device=device)
        drawn[window] = sampling.sample([0], seed_times=[10]).edge.tolist()
    assert drawn == {None: [0, 1, 2], 0: [], 1: [1], 2: [0, 1], 3: [0, 1], 4: [0, 1, 2]}


def test_windows_at_the_ends_of_what_times_hold(device):
    """What a window would begin at may be no int64."""
    least, most = -(2**63), 2**63 - 1
    star = hl.from_edges(torch.zeros(5, dtype=torch.int64), torch.arange(1, 6), num_vertices=6)
    times = torch.tensor([least, least + 1, -1, 0, most])
    for seed_time in (least, least + 1, -1, 0, 5, most):
        for window in (0, 1, 2, 2**62, most - 1, most):
            for fanout, strategy in ((-1, "uniform"), (5, "last")):
                options = {"time_window": window, "temporal_strategy": strategy}
                sampling = NeighborSampler(star, [fanout], edge_times=times, **options, device=device)
                found = sampling.sample([0], seed_times=[seed_time])
                expected = [e for e, time in enumerate(times.tolist()) if seed_time - window <= time <= seed_time]
                assert sorted(found.edge.tolist()) == expected


def test_without_a_window_samples_are_those_of_the_widest(graph, device):
    seeds = seeds_of(graph, 30)
    for options in ({"times": True}, {"edge_times": True, "weighted": True}, {"times": True, "temporal_strategy": "last"}):
        plain, wide = (sampler(graph, [5, 3], options, device=device, time_window=window) for window in (None, 2**63 - 1))
        oracle.same(sample(wide, seeds, options), sample(plain, seeds, options))


@st.composite
def small_cases(draw):
    graph = draw(oracle.small_graphs())
    seeds = draw(st.lists(st.integers(0, graph.num_vertices - 1), max_size=6))
    fanouts = draw(st.lists(st.integers(-1, 5), min_size=1, max_size=3))
    return graph, seeds, fanouts, draw(st.sampled_from(list(CASES.values()))), draw(st.integers(0, 2**64 - 1))


@settings(max_examples=150)
@given(case=small_cases())
def test_any_small_graph(case):
    graph, seeds, fanouts, options, seed = case
    sampling = sampler(graph, fanouts, options, seed=seed, device="cpu")
    found = sample(sampling, seeds, options, batch=seed // 3)
    check(found, graph, seeds, fanouts, options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "MOST_AHEAD", 0)
        oracle.same(sample(sampling, seeds, options, batch=seed // 3), found)


def test_seeds_that_are_no_vertices_are_refused(graph, device):
    sampling = NeighborSampler(graph, [3, -1], device=device)
    for wrong in (-1, 400, 2**62):
        with pytest.raises(IndexOutOfRange, match=rf"seed {wrong} at position 2 .* there are 400, .* \(in batch 7\)"):
            sampling.sample([1, 2, wrong, 3], batch=7)
    with pytest.raises(IndexOutOfRange):
        NeighborSampler(graph, [3], times=times_of(graph), device=device).sample([500])
    sampling.sample([1, 2])  # and the sampler is as good as before


def test_broken_lists_are_named(device):
    for array, at, value in (("indices", 3, 99), ("indices", 3, -5), ("indptr", 2, 10**12)):
        broken = hl.from_edges(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([1, 2, 0, 2, 0]), num_vertices=3)
        broken.neighbor_lists.arrays[array].cpu()[at] = value
        times = {"times": torch.zeros(3, dtype=torch.int64), "edge_times": torch.zeros(5, dtype=torch.int64)}
        for options in ({}, {"times": times["times"]}, times):
            with pytest.raises(GraphError, match=r"list of vertex 1 is broken"):
                NeighborSampler(broken, [-1], device=device, **options).sample([1])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"fanouts": []}, ConfigError, "fanouts is empty"),
        ({"fanouts": 5}, ConfigError, "numbers, one for each hop"),
        ({"fanouts": [2.5]}, ConfigError, "numbers, one for each hop"),
        ({"fanouts": [5, -2]}, ConfigError, "fanout -2 of hop 1"),
        ({"fanouts": [70000]}, ConfigError, "fanout 70000 of hop 0"),
        ({"temporal_strategy": "first"}, ConfigError, "'first' is not one of uniform, last"),
        ({"temporal_strategy": "last"}, ConfigError, "needs times="),
        ({"temporal_strategy": "last", "times": torch.zeros(3).long(), "replace": True}, ConfigError, "leave out replace"),
        ({"times": torch.zeros(2).long()}, ConfigError, r"times have shape \(2,\), but there are 3"),
        ({"times": torch.zeros(3)}, ConfigError, "must be int64"),
        ({"times": [1, 2, 3]}, ConfigError, "times must be a torch tensor"),
        ({"edge_times": torch.zeros(3).long()}, ConfigError, r"edge_times have shape \(3,\), but there are 2 edges"),
        ({"edge_times": torch.zeros(2)}, ConfigError, r"edge_times are torch.float32, but must be int64"),
        ({"edge_times": [1, 2]}, ConfigError, "edge_times must be a torch tensor"),
        ({"weighted": True}, ConfigError, "needs a graph with weights"),
        ({"weighted": True, "weights": torch.tensor([1.0, -2.0])}, GraphError, "a weight is -2.0"),
        ({"weighted": True, "weights": torch.tensor([1.0, float("inf")])}, GraphError, "a weight is inf"),
        ({"weighted": True, "weights": torch.tensor([1.0, 2.0]).half()}, ConfigError, "weights are torch.float16"),
        ({"weighted": True, "weights": torch.tensor([1.0, float("nan")])}, GraphError, "NaN"),
        ({"time_window": 3}, ConfigError, "time_window counts back from the seeds' times and needs times= or edge_times="),
        ({"time_window": -1, "times": torch.zeros(3).long()}, ConfigError, "time_window -1 is not a whole number from 0"),
        ({"time_window": 2.5, "times": torch.zeros(3).long()}, ConfigError, "time_window 2.5 is not a whole number"),
        ({"time_window": "1d", "edge_times": torch.zeros(2).long()}, ConfigError, "time_window '1d' is not a whole number"),
        ({"time_window": 2**63, "times": torch.zeros(3).long()}, ConfigError, "time_window 9223372036854775808 is not"),
        ({"seed": 1.5}, ConfigError, "seed 1.5 is not a whole number"),
        ({"graph": 3}, ConfigError, "graph is a int"),
    ],
    ids=str,
)
def test_what_a_sampler_refuses(options, error, words):
    options = dict(options)
    with pytest.raises(error, match=words):
        small = hl.Graph(torch.tensor([0, 2, 2, 2]), torch.tensor([1, 2]), options.pop("weights", None))
        NeighborSampler(options.pop("graph", small), options.pop("fanouts", [2]), device="cpu", **options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seeds": torch.tensor([1.0])}, r"seeds have shape \(1,\) and type torch.float32"),
        ({"seeds": torch.tensor([[1]])}, r"seeds have shape \(1, 1\)"),
        ({"seeds": torch.tensor([True])}, "torch.bool"),
        ({"seeds": "all"}, "must be a tensor or a list of numbers"),
        ({"seeds": [1], "batch": "x"}, "batch 'x' is not a whole number"),
        ({"seeds": [1], "seed_times": [1, 2]}, "2 seed_times were given for 1 seeds"),
        ({"seeds": [1], "seed_times": [1.5]}, "seed_times have shape"),
    ],
    ids=str,
)
def test_what_a_call_refuses(arguments, words):
    small = hl.Graph(torch.tensor([0, 2, 2, 2]), torch.tensor([1, 2]))
    with pytest.raises(ConfigError, match=words):
        NeighborSampler(small, [2], times=torch.zeros(3).long(), device="cpu").sample(**arguments)
    with pytest.raises(ConfigError, match="need a sampler with times"):
        NeighborSampler(small, [2], device="cpu").sample([1], seed_times=[3])
    with pytest.raises(ConfigError, match="edges have times, but the seeds have none of their own"):
        NeighborSampler(small, [2], edge_times=torch.zeros(2).long(), device="cpu").sample([1])


def test_no_memory_is_said(graph, monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(batches.BatchSampler, "_run_at_once", full)
    monkeypatch.setattr(batches.devices, "free_bytes", lambda device: 0)
    from hinterland.runtime.errors import OutOfMemory

    with pytest.raises(OutOfMemory, match="batch of 3 seeds does not fit on cpu"):
        NeighborSampler(graph, [2], device="cpu").sample([1, 2, 3])
