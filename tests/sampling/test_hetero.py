"""Neighbour sampling over types of vertices and edges."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange
from hinterland.sampling import Adjacency, HeteroSampler, NeighborSampler
from hinterland.sampling import batch as batches

_spec = importlib.util.spec_from_file_location("sampling_oracle", Path(__file__).parent / "oracle.py")
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

WRITES, CITES, WRITTEN, FROM = (
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "written by", "author"),
    ("university", "employs", "author"),
)


def adjacency(targets, sources, edges, random, weights=False, **options):
    """Random lists, of a few long ones and many short or empty ones."""
    owners = np.sort((random.random(edges) ** 2 * targets).astype(np.int64))
    indptr = np.searchsorted(owners, np.arange(targets + 1))
    indices = random.integers(0, sources, edges)
    held = torch.from_numpy(np.maximum(random.random(edges) - 0.3, 0)) if weights else None
    return Adjacency(torch.from_numpy(indptr), torch.from_numpy(indices), sources, held, **options)


@pytest.fixture(scope="module")
def academia():
    random = np.random.default_rng(4)
    cites = torch.from_numpy(random.integers(0, 200, (2, 1500)))
    return {
        WRITES: adjacency(200, 80, 900, random, weights=True),
        CITES: hl.from_edges(cites[0], cites[1], num_vertices=200),
        WRITTEN: adjacency(80, 200, 900, random),
        FROM: adjacency(80, 7, 100, random),
    }


CASES = {
    "uniform": {},
    "replace": {"replace": True},
    "disjoint": {"disjoint": True},
    "temporal": {"times": True},
    "last": {"times": True, "temporal_strategy": "last"},
    "temporal edges": {"edge_times": True},
    "last edges and vertices": {"edge_times": True, "times": True, "temporal_strategy": "last"},
    "window": {"times": True, "time_window": 5},
    "window of edges": {"edge_times": True, "time_window": 9},
    "window of edges and vertices": {"edge_times": True, "times": True, "time_window": 9, "replace": True},
}
FANOUTS = {WRITES: [3, 2, 2], CITES: [4, 0, 3], WRITTEN: [2, -1, 1], FROM: [1, 1, 1]}


TIMES = {
    "times": {"paper": torch.arange(200) % 37, "author": torch.arange(80) % 11},
    "edge_times": {WRITES: torch.arange(900) % 41, CITES: torch.arange(1500) % 29},
}


def given_by(options):
    return {name: TIMES.get(name, value) for name, value in options.items()}


def check(sample, graphs, seeds, fanouts, options):
    options = {name: value for name, value in given_by(options).items() if name != "temporal_strategy"}
    given = {name: {key: t.numpy() for key, t in options.pop(name).items()} for name in TIMES if name in options}
    if given:
        limits = np.concatenate([TIMES["times"][kind].numpy()[chosen] for kind, chosen in seeds.items()])
        options |= {**given, "limits": limits, "window": options.pop("time_window", None), "disjoint": True}
    oracle.check_hetero(sample, graphs, seeds, fanouts, **options)


@pytest.mark.parametrize("fanouts", [FANOUTS, [3, 2]], ids=["by relation", "for all"])
@pytest.mark.parametrize("case", CASES)
def test_what_samples_are_on_every_processor(academia, device, case, fanouts, set_threads, lanes, monkeypatch):
    options, seeds = CASES[case], {"author": [5, 0, 61], "paper": list(range(20, 35))}
    given = given_by(options)
    more = {}
    if "edge_times" in given:
        more["seed_times"] = {kind: TIMES["times"][kind][chosen] for kind, chosen in seeds.items()}
    found = HeteroSampler(academia, fanouts, **given, seed=2, device=device).sample(seeds, batch=1, **more)
    assert found.node["paper"].device == found.edge[WRITES].device == device
    by_relation = fanouts if isinstance(fanouts, dict) else dict.fromkeys(academia, fanouts)
    check(found, academia, seeds, by_relation, options)
    assert sum(len(found.edge[name]) > 0 for name in academia) == 4
    here = HeteroSampler(academia, fanouts, **given, seed=2, device="cpu")
    for count in (1, 2, 3):
        set_threads(count)
        oracle.same_hetero(here.sample(seeds, batch=1, **more), found)
    monkeypatch.setattr(batches, "MOST_AHEAD", 0)
    oracle.same_hetero(here.sample(seeds, batch=1, **more), found)
    lanes()
    oracle.same_hetero(here.sample(seeds, batch=1, **more), found)


def test_one_type_is_a_homogeneous_graph(academia, device):
    graph, seeds = academia[CITES], [3, 7, 7, 150]
    times, limits = {"times": torch.arange(200) % 20}, torch.tensor([3, 30, 12, 7])
    last = {"edge_times": torch.arange(1500) % 29, "temporal_strategy": "last"}
    for options in ({}, {"replace": True}, {"disjoint": True}, times, last, {**times, **last}):
        given = {"seed_times": limits} if "edge_times" in options else {}
        one = NeighborSampler(graph, [4, -1, 2], **options, device=device).sample(seeds, batch=9, **given)
        keys = {"times": "paper", "edge_times": CITES}
        options = {name: {keys[name]: value} if name in keys else value for name, value in options.items()}
        given = {name: {"paper": value} for name, value in given.items()}
        found = HeteroSampler({CITES: graph}, [4, -1, 2], **options, device=device).sample({"paper": seeds}, batch=9, **given)
        for name in ("node", "row", "col", "edge"):
            (only,) = getattr(found, name).values()
            assert torch.equal(only, getattr(one, name))
        assert found.num_sampled_nodes == {"paper": one.num_sampled_nodes}
        assert found.num_sampled_edges == {CITES: one.num_sampled_edges}
        assert one.batch is None or torch.equal(found.batch["paper"], one.batch)


def test_weights_where_there_are_any(academia, device):
    found = HeteroSampler(academia, [2, 2], weighted=True, device=device).sample({"paper": list(range(60))})
    assert (academia[WRITES].weights[found.edge[WRITES].cpu()] > 0).all()
    zeros = academia[WRITES].weights == 0
    assert zeros.any()
    uniform = HeteroSampler(academia, [2, 2], device=device).sample({"paper": list(range(60))})
    assert zeros[uniform.edge[WRITES].cpu()].any()
    assert torch.equal(uniform.edge[CITES][:50], found.edge[CITES][:50])  # draws as before


def test_lists_of_several_forms(academia, device):
    """Some compressed: launches of their own, one sample."""
    mixed = {**academia, CITES: hl.compress(academia[CITES])}
    seeds = {"paper": list(range(30))}
    oracle.same_hetero(
        HeteroSampler(mixed, [3, 2, 2], device=device).sample(seeds),
        HeteroSampler(academia, [3, 2, 2], device="cpu").sample(seeds),
    )


def test_seeds_without_times_need_their_own(academia):
    sampling = HeteroSampler(academia, [2], times={"paper": torch.arange(200)}, device="cpu")
    with pytest.raises(ConfigError, match="seeds of type 'author' have no times"):
        sampling.sample({"author": [1]})
    found = sampling.sample({"author": [1, 2]}, seed_times={"author": [50, 100]})
    papers, tree = found.node["paper"], found.batch["paper"]
    assert (papers <= torch.tensor([50, 100])[tree]).all()
    assert found.node["university"].numel() > 0  # of types without times everything may be drawn


def test_lists_within_a_larger_graph(academia, device):
    """As those who have graphs only hold relations between types of unequal size."""
    lists = academia[WRITES]
    square = hl.Graph(lists.indptr, lists.indices)  # of 200 papers; the authors are 80 of these numbers
    wide = academia[WRITTEN]
    tall = hl.Graph(torch.cat([wide.indptr, wide.indptr[-1:].expand(120)]), wide.indices)
    padded = {**academia, WRITES: Adjacency.of(square, 200, 80), WRITTEN: Adjacency.of(tall, 80, 200)}
    seeds = {"paper": list(range(30)), "author": [79]}
    oracle.same_hetero(
        HeteroSampler(padded, [3, 2, 2], device=device).sample(seeds),
        HeteroSampler(academia, [3, 2, 2], device="cpu").sample(seeds),
    )


@st.composite
def small_cases(draw):
    counts = {kind: draw(st.integers(1, 5)) for kind in "abc"}
    relations = draw(st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=1, max_size=4, unique=True))
    graphs = {}
    for src, word, dst in relations:
        degrees = draw(st.lists(st.integers(0, 6), min_size=counts[dst], max_size=counts[dst]))
        total = sum(degrees)
        listed = draw(st.lists(st.integers(0, counts[src] - 1), min_size=total, max_size=total))
        indptr = torch.tensor([0, *degrees]).cumsum(0)
        graphs[src, word, dst] = Adjacency(indptr, torch.tensor(listed, dtype=torch.int64), counts[src])
    kinds = sorted({name[k] for name in graphs for k in (0, 2)})
    seeds = {kind: draw(st.lists(st.integers(0, counts[kind] - 1), max_size=3)) for kind in kinds if draw(st.booleans())}
    hops = draw(st.integers(1, 3))
    fanouts = {name: draw(st.lists(st.integers(-1, 3), min_size=hops, max_size=hops)) for name in graphs}
    return graphs, seeds, fanouts, draw(st.sampled_from(["uniform", "replace", "disjoint"]))


@settings(max_examples=100)
@given(case=small_cases())
def test_any_small_relations(case):
    graphs, seeds, fanouts, options = case
    sampling = HeteroSampler(graphs, fanouts, **CASES[options], device="cpu")
    found = sampling.sample(seeds)
    check(found, graphs, seeds, fanouts, CASES[options])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "MOST_AHEAD", 0)
        oracle.same_hetero(sampling.sample(seeds), found)


def test_wrong_seeds_are_named(academia, device):
    sampling = HeteroSampler(academia, [2, 2], device=device)
    with pytest.raises(IndexOutOfRange, match=r"seed 80 at position 1 is no vertex: there are 80, .* \(in batch 0\)"):
        sampling.sample({"paper": [100], "author": [3, 80]})
    for seeds, words in (
        ({"venue": [1]}, "seeds of type 'venue', but the types are author, paper, university"),
        ([1, 2], "seeds are given by type"),
        ({"paper": [0.5]}, "seeds of type 'paper' have shape"),
    ):
        with pytest.raises(ConfigError, match=words):
            sampling.sample(seeds)
    with pytest.raises(ConfigError, match="need a sampler with times"):
        sampling.sample({"paper": [1]}, seed_times={"paper": [1]})


def test_broken_lists_are_named(device):
    lists = Adjacency(torch.tensor([0, 2, 3]), torch.tensor([4, 1, 0]), 5)
    lists.neighbor_lists.arrays["indices"].cpu()[2] = 5
    with pytest.raises(GraphError, match=r"list of vertex 1 is broken.*outside \[0, 5\)"):
        HeteroSampler({("a", "to", "b"): lists}, [-1], device=device).sample({"b": [0, 1]})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"graphs": {}}, ConfigError, "there are no relations"),
        ({"graphs": {"cites": None}}, ConfigError, "'cites' is not named by three words"),
        ({"graphs": {CITES: 3}}, ConfigError, "is a int"),
        ({"fanouts": {CITES: [2]}}, ConfigError, "are missing"),
        ({"fanouts": {**FANOUTS, ("a", "b", "c"): [2]}}, ConfigError, "which is not among the graphs"),
        ({"fanouts": {**FANOUTS, CITES: [2]}}, ConfigError, "3 hops, those of .* 1; give all the same number"),
        ({"times": {"venue": torch.zeros(3).long()}}, ConfigError, "times of type 'venue'"),
        ({"time_window": 3}, ConfigError, "time_window counts back from the seeds' times and needs times="),
        ({"time_window": -1, "times": {"paper": torch.zeros(200).long()}}, ConfigError, "time_window -1 is not a whole number"),
        ({"times": {"paper": torch.zeros(3).long()}}, ConfigError, r"times have shape \(3,\)"),
        ({"edge_times": {("a", "b", "c"): torch.zeros(3).long()}}, ConfigError, r"edge_times of relation \('a', 'b', 'c'\)"),
        (
            {"edge_times": {WRITES: torch.zeros(3).long()}},
            ConfigError,
            r"edge_times have shape \(3,\), but there are 900 edges",
        ),
    ],
    ids=str,
)
def test_what_a_sampler_refuses(academia, options, error, words):
    with pytest.raises(error, match=words):
        HeteroSampler(options.pop("graphs", academia), options.pop("fanouts", [2]), device="cpu", **options)


def test_what_does_not_fit_together(academia):
    unweighted = {CITES: academia[CITES]}
    with pytest.raises(ConfigError, match="needs weights in one of the relations"):
        HeteroSampler(unweighted, [2], weighted=True, device="cpu")
    with pytest.raises(GraphError, match="has 80 vertices of type 'paper', but another one has 200"):
        HeteroSampler({CITES: academia[CITES], ("paper", "x", "author"): adjacency(80, 80, 9, np.random.default_rng(1))}, [2])
    with pytest.raises(ConfigError, match="was reordered"):
        HeteroSampler({CITES: hl.reorder(academia[CITES], "degree")}, [2], device="cpu")
    with pytest.raises(GraphError, match="more than a graph of 200"):
        Adjacency.of(academia[CITES], 3, 201)
    for arguments, words in (
        (([0, 2], [0, 3], 3), r"indices\[1\] is 3"),
        (([0, 3], [0, 1], 3), "indptr ends with 3"),
        (([0, 2], [0, 1], 3, torch.ones(3)), "weights have shape"),
    ):
        indptr, indices, *rest = arguments
        with pytest.raises(GraphError, match=words):
            Adjacency(torch.tensor(indptr), torch.tensor(indices), *rest)
