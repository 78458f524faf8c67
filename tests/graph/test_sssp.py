"""Shortest and widest paths against scipy, networkx and a queue, and their verifiers against tampered results."""

from __future__ import annotations

import heapq
import itertools
import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra

import hinterland as hl
from hinterland.graph import verify_sssp, verify_sswp
from hinterland.graph.algorithms import state_bytes
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange, VerificationError

from ..graphs import FAMILIES, family, with_wide_edges
from .budgets import within_budgets
from .cases import FLOAT_SCALE, Everywhere

TYPES = [torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64]
NO_WIDTH = -(2**63)


def oracle(graph, source, widest):
    """A queue with the best vertex first; sums are rounded to the weights' type, as in the library."""
    indptr, indices, weights = (a.cpu().numpy() for a in (graph.indptr, graph.indices, graph.weights))
    floats = weights.dtype.kind == "f"
    start = (math.inf if floats else np.iinfo(weights.dtype).max) if widest else 0
    none = (-math.inf if floats else NO_WIDTH) if widest else math.inf if floats else -1
    sign = -1 if widest else 1
    found, queue = {}, [(sign * start, source)]
    while queue:
        value, u = heapq.heappop(queue)
        value *= sign
        if u in found:
            continue
        found[u] = value
        for i in range(indptr[u], indptr[u + 1]):
            v, weight = int(indices[i]), weights[i].item()
            reach = min(value, weight) if widest else value + weight
            if floats:
                reach = float(weights.dtype.type(reach))
            if v not in found and not (floats and reach == none):
                heapq.heappush(queue, (sign * reach, v))
    dtype = graph.weights.dtype if floats else torch.int64
    return torch.tensor([found.get(v, none) for v in range(graph.num_vertices)], dtype=dtype)


def check(graph, source, device="cpu", oracles=True):
    """Both kinds of paths, in all modes, against the oracle and the verifier."""
    for run, verify, widest in ((hl.sssp, verify_sssp, False), (hl.sswp, verify_sswp, True)):
        result = run(graph, source, device=device)
        (found,) = (getattr(result, name) for name in ("distances", "widths") if hasattr(result, name))
        assert found.device == torch.device(device)
        verify(graph, source, result)
        if oracles:
            torch.testing.assert_close(found.cpu(), oracle(graph, source, widest), rtol=0, atol=0)
        for options in ({"mode": "bellman-ford"}, {"delta": 1e-3}, {"delta": 40}):
            again = run(graph, source, device=device, **options)
            assert torch.equal(getattr(again, "widths" if widest else "distances"), found), options


def weighted(vertices, edges, dtype=torch.int32, seed=1, least=0, most=100, symmetrize=True, skew=3):
    """A random graph in which few vertices have most of the edges, with parallel edges and self loops."""
    generator = np.random.default_rng(seed)
    ends = torch.from_numpy((generator.random((2, edges)) ** skew * vertices).astype(np.int64))
    drawn = generator.uniform(least, most, edges) if dtype.is_floating_point else generator.integers(least, most + 1, edges)
    weights = torch.from_numpy(drawn).to(dtype)
    return hl.from_edges(ends[0], ends[1], weights, num_vertices=vertices, symmetrize=symmetrize)


def with_weights(graph, weights):
    return hl.Graph(graph.indptr, graph.indices, weights, directed=graph.directed)


def chain(weights):
    n = len(weights)
    return hl.from_edges(torch.arange(n), torch.arange(1, n + 1), weights, num_vertices=n + 1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("wide", [False, True])
def test_skewed_graphs(device, dtype, wide):
    graph = weighted(1500, 30000, dtype)
    if wide and dtype == torch.uint8:
        with pytest.raises(ConfigError, match="weights are uint8 with torch.int64 neighbours.*convert them"):
            hl.sssp(with_wide_edges(graph), 0)
        return
    graph = with_wide_edges(graph) if wide else graph
    for source in (0, 1499):
        check(graph, source, device)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_graph(data):
    vertices = data.draw(st.integers(1, 70))
    dtype = data.draw(st.sampled_from(TYPES))
    if dtype.is_floating_point:
        width = 32 if dtype == torch.float32 else 64
        weight = st.floats(0, 4.0, width=width) | st.just(math.inf) | st.just(0.0) | st.just(-0.0)
    else:
        weight = data.draw(st.sampled_from([st.integers(0, 3), st.integers(0, 255), st.just(7)]))
    vertex = st.integers(0, vertices - 1)
    drawn = data.draw(st.lists(st.tuples(vertex, vertex, weight), max_size=250))
    ends = torch.tensor([edge[:2] for edge in drawn], dtype=torch.int64).reshape(-1, 2)
    weights = torch.tensor([edge[2] for edge in drawn], dtype=dtype)
    graph = hl.from_edges(ends[:, 0], ends[:, 1], weights, num_vertices=vertices, symmetrize=data.draw(st.booleans()))
    check(graph, data.draw(vertex))


@pytest.mark.parametrize("kind", FAMILIES)
def test_distances_as_scipy_finds_them(device, kind):
    graph = family(kind, 11, weights="int32", device="cpu")
    source = int(graph.degrees().argmax())
    matrix = (graph.weights.numpy().astype(float), graph.indices.numpy(), graph.indptr.numpy())
    expected = dijkstra(sp.csr_matrix(matrix, shape=(graph.num_vertices,) * 2), indices=source)
    found = hl.sssp(graph, source, device=device).distances
    np.testing.assert_array_equal(found.cpu().numpy(), np.where(np.isinf(expected), -1, expected).astype(np.int64))


def test_widths_as_networkx_finds_them(device):
    graph = weighted(300, 900, skew=1)
    source, target = torch.repeat_interleave(torch.arange(300), graph.degrees()), graph.indices
    network = nx.Graph()
    network.add_nodes_from(range(300))
    for u, v, w in zip(source.tolist(), target.tolist(), graph.weights.tolist(), strict=True):
        if u != v and w > network.get_edge_data(u, v, {"weight": -1})["weight"]:
            network.add_edge(u, v, weight=w)
    tree = nx.maximum_spanning_tree(network)  # it holds a widest path between any two vertices
    widths = hl.sswp(graph, 0, device=device).widths.tolist()
    paths = nx.single_source_shortest_path(tree, 0)
    for v in range(1, 300):
        path = paths.get(v)
        expected = NO_WIDTH if path is None else min(tree[a][b]["weight"] for a, b in itertools.pairwise(path))
        assert widths[v] == expected


def test_widths_of_negative_weights(device):
    graph = weighted(400, 1500, torch.int32, least=-50, most=3, skew=1)
    for dtype in (torch.int32, torch.int64, torch.float32, torch.float64):
        part = with_weights(graph, graph.weights.to(dtype))
        result = hl.sswp(part, 5, device=device)
        verify_sswp(part, 5, result)
        assert torch.equal(result.widths.cpu(), oracle(part, 5, True)) and int((result.widths < 0).sum()) > 100


@pytest.mark.parametrize("dtype", TYPES)
def test_compressed_graphs(device, dtype):
    graph = weighted(1500, 30000, dtype)
    check(hl.compress(graph), 3, device, oracles=False)
    packed = hl.sssp(hl.compress(graph), 3, device=device, stats=True)
    assert torch.equal(packed.distances.cpu(), hl.sssp(graph, 3, device="cpu").distances)


@pytest.mark.parametrize("dtype", TYPES)
def test_one_vertex_and_no_edges(device, dtype):
    none = torch.tensor([], dtype=torch.int64)
    graph = hl.from_edges(none, none, none.to(dtype), num_vertices=40)
    check(graph, 33, device)


@pytest.mark.parametrize("weight", [0, 1, 255])
def test_equal_weights_count_edges(device, weight):
    graph = weighted(600, 2000, least=weight, most=weight, skew=1)
    distances = hl.sssp(graph, 4, device=device).distances.cpu()
    levels = hl.bfs(graph, 4, device="cpu").levels
    assert torch.equal(distances, torch.where(levels < 0, -1, levels * weight).long())


def test_long_chain_has_few_buckets(device):
    """As its buckets are nearly empty, they widen: far fewer than there are distances."""
    graph = chain(torch.full((20000,), 1000, dtype=torch.int32).index_fill_(0, torch.arange(0, 20000, 7), 1))
    result = hl.sssp(graph, 0, device=device, stats=True)
    verify_sssp(graph, 0, result)
    assert result.stats["buckets"] < 500 and result.stats["delta"] <= 2000
    assert hl.sssp(graph, 0, device=device, delta=1, stats=True).stats["buckets"] == 20001


def test_a_bucket_as_wide_as_the_least_weight_visits_no_vertex_twice(device):
    graph = weighted(3000, 40000, least=20, most=90)
    for delta in (1, 20):
        stats = hl.sssp(graph, 1, delta=delta, device=device, stats=True).stats
        assert stats["visits"] == stats["reached"]
    assert hl.sssp(graph, 1, mode="bellman-ford", device=device, stats=True).stats["visits"] > stats["reached"]


def test_stats_add_up(device):
    graph = weighted(3000, 20000, symmetrize=False)
    result = hl.sssp(graph, 2, device=device, delta=1, stats=True)
    stats, reached = result.stats, result.distances.cpu() >= 0
    assert stats["reached"] == int(reached.sum()) and stats["visits"] >= stats["reached"]
    assert stats["edges"] >= int(graph.degrees()[reached].sum())
    assert stats["bytes"] >= 8 * stats["edges"] and stats["bytes"] % 32 == 0
    assert stats["seconds"] > 0 and stats["device"] == str(device) and stats["delta"] == 1.0
    assert 1 < stats["buckets"] <= stats["levels"] == len(stats["per_level"])
    assert hl.sssp(graph, 2, device=device).stats is None


def test_distances_near_the_largest(device):
    big = 2**31 - 1
    graph = chain(torch.tensor([big, big - 1], dtype=torch.int32))
    assert hl.sssp(graph, 0, device=device).distances.tolist() == [0, big, 2 * big - 1]
    top = chain(torch.tensor([big, big, 0], dtype=torch.int32))  # 2^32 - 2: one too many
    with pytest.raises(GraphError, match="distance of vertex 2 exceeds 4294967293, the most for int32.*int64 or float64"):
        hl.sssp(top, 0, device=device)
    assert hl.sssp(with_weights(top, top.weights.long()), 0, device=device).distances.tolist() == [0, big, 2 * big, 2 * big]
    # A way that is not needed may be as long as it likes.
    ends = torch.tensor([[0, 1, 2, 0, 2, 3], [1, 2, 3, 2, 4, 4]])
    detour = hl.from_edges(ends[0], ends[1], torch.tensor([big, big, big, 5, big, 1], dtype=torch.int32), num_vertices=5)
    assert hl.sssp(detour, 0, device=device).distances.tolist() == [0, big, 5, big + 5, big + 5]
    assert hl.sssp(detour, 0, "bellman-ford", device=device).distances.tolist() == [0, big, 5, big + 5, big + 5]
    huge = chain(torch.tensor([2**62, 2**62 - 1, 0, 1], dtype=torch.int64))
    with pytest.raises(GraphError, match="distance of vertex 4 exceeds 9223372036854775807.*float64"):
        hl.sssp(huge, 0, device=device)
    assert hl.sssp(with_weights(huge, huge.weights.double()), 0, device=device).distances[4] == 2.0**63


def test_negative_weights_are_named(device):
    for dtype in (torch.int32, torch.int64, torch.float32, torch.float64):
        graph = chain(torch.tensor([3, 4, -2, 1], dtype=dtype))
        with pytest.raises(GraphError, match=r"weights\[2\] is -2(\.0)?, but shortest paths are found only where"):
            hl.sssp(graph, 0, device=device)
    assert hl.sssp(chain(torch.tensor([-0.0, 1.0])), 0, device=device).distances.tolist() == [0, 0, 1]


def test_least_integers_are_no_widths():
    for dtype in (torch.int32, torch.int64):
        graph = chain(torch.tensor([3, torch.iinfo(dtype).min], dtype=dtype))
        with pytest.raises(GraphError, match=r"weights\[1\] is -\d+, which stands for no path"):
            hl.sswp(graph, 0)


def test_wrong_arguments(device):
    graph = chain(torch.tensor([1, 2, 3], dtype=torch.int32))
    for run in (hl.sssp, hl.sswp):
        with pytest.raises(ConfigError, match="needs weights, and the graph has none.*random_weights"):
            run(hl.from_edges(torch.tensor([0]), torch.tensor([1])), 0)
        with pytest.raises(ConfigError, match="weights are float16.*convert them"):
            run(with_weights(graph, graph.weights.half()), 0)
        with pytest.raises(ConfigError, match="mode 'top-down'"):
            run(graph, 0, mode="top-down")
        with pytest.raises(ConfigError, match="delta 0 is not a positive number"):
            run(graph, 0, delta=0)
        with pytest.raises(ConfigError, match="delta nan is not a positive number"):
            run(graph, 0, delta=math.nan)
        with pytest.raises(ConfigError, match="leave one of them out"):
            run(graph, 0, mode="bellman-ford", delta=3)
        with pytest.raises(IndexOutOfRange, match="source 4 is not a vertex"):
            run(graph, 4, device=device)


def diamond(dtype=torch.int32):
    """0 -1-> 1 -1-> 2 and 0 -5-> 2; 3 -0-> 4 -0-> 3, which nothing leads to."""
    ends = torch.tensor([[0, 1, 0, 3, 4], [1, 2, 2, 4, 3]])
    return hl.from_edges(ends[0], ends[1], torch.tensor([1, 1, 5, 0, 0], dtype=dtype), num_vertices=5)


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (0, 1, "rule 1: source 0 has distance 1"),
        (1, -3, "rule 2: vertex 1 has distance -3"),
        (2, 5, r"rule 3: edge 1 -> 2 \(position 2\) of weight 1 leads from distance 1 to distance 5"),
        (2, -1, "rule 3: edge 0 -> 2"),
        (2, 1, "rule 4: vertex 2 has distance 1, but no path"),
        ([3, 4], 7, "rule 4: vertex 3 has distance 7"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_tampered_distances(at, value, sentence, dtype):
    graph = diamond(dtype)
    result = hl.sssp(graph, 0, device="cpu")
    verify_sssp(graph, 0, result)
    if dtype.is_floating_point:
        sentence = sentence.split("has distance")[0].split(" of weight")[0]
    result.distances[at] = math.inf if value == -1 and dtype.is_floating_point else value
    with pytest.raises(VerificationError, match=sentence):
        verify_sssp(graph, 0, result)


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (0, 7, "rule 1: source 0 has width 7"),
        (1, 2**31, "rule 2: vertex 1 has width 2147483648"),
        (2, 1, r"rule 3: edge 0 -> 2 \(position 1\) of weight 5 leads from width 2147483647 to width 1"),
        (2, NO_WIDTH, "rule 3: edge 0 -> 2"),
        (2, 6, "rule 4: vertex 2 has width 6, but no path"),
        ([3, 4], 0, "rule 4: vertex 3 has width 0"),
    ],
)
def test_tampered_widths(at, value, sentence):
    graph = diamond()
    result = hl.sswp(graph, 0, device="cpu")
    verify_sswp(graph, 0, result)
    result.widths[at] = value
    with pytest.raises(VerificationError, match=sentence):
        verify_sswp(graph, 0, result)


def test_verifiers_look_at_types_and_shapes():
    graph, result = diamond(), hl.sssp(diamond(), 0, device="cpu")
    with pytest.raises(ConfigError, match="distances are torch.float32, but must be torch.int64"):
        verify_sssp(graph, 0, hl.SsspResult(result.distances.float()))
    with pytest.raises(VerificationError, match=r"shape \(4,\)"):
        verify_sssp(graph, 0, hl.SsspResult(result.distances[:4]))
    floats = diamond(torch.float64)
    with pytest.raises(VerificationError, match="rule 2: vertex 4 has distance nan"):
        verify_sssp(floats, 0, hl.SsspResult(torch.tensor([0.0, 1, 2, math.inf, math.nan], dtype=torch.float64)))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_a_gpu_finds_what_the_cpu_finds(dtype):
    graph = hl.generate("kronecker", scale=15, weights=dtype)
    source = int(graph.degrees().argmax())
    assert torch.equal(hl.sssp(graph, source, device="cuda").distances.cpu(), hl.sssp(graph, source, device="cpu").distances)
    assert torch.equal(hl.sswp(graph, source, device="cuda").widths.cpu(), hl.sswp(graph, source, device="cpu").widths)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32])
@pytest.mark.parametrize(("algorithm", "array"), [("sssp", "distances"), ("sswp", "widths")])
def test_a_budget_bounds_what_is_taken(algorithm, array, dtype):
    graph, run = weighted(200_000, 1_000_000, dtype), getattr(hl, algorithm)
    expected = getattr(run(graph, 0, device="cpu"), array)
    extras = (2048, 8 * graph.num_vertices + (6 << 20), 1 << 30)
    for result in within_budgets(algorithm, graph, lambda graph: run(graph, 0), extras, weighted=True):
        assert torch.equal(getattr(result, array).cpu(), expected)


@pytest.mark.gpu
def test_widest_paths_have_one_bucket_where_edges_lie_on_the_gpu():
    """Unless ways are long, as on a grid; over the link they have several."""
    dense, grid = hl.generate("kronecker", scale=18, weights="int32"), hl.generate("grid", scale=16, weights="int32")
    for graph, one in ((dense, True), (grid, False)):
        with hl.prepare(graph, device="cuda", algorithms="sswp", weighted=True) as prepared:
            assert not prepared.out.over_link
            assert (hl.sswp(prepared, int(graph.degrees().argmax()), stats=True).stats["buckets"] == 1) == one
    assert hl.sswp(dense, int(dense.degrees().argmax()), device="cuda", stats=True).stats["buckets"] > 1


@pytest.mark.gpu
def test_hot_pages_without_weights_are_refused():
    graph = weighted(20_000, 2_000_000)
    budget = state_bytes("sssp", graph) + 8 * graph.num_vertices + (8 << 20)
    with hl.prepare(graph, gpu_budget=budget, algorithms="sssp") as prepared:
        assert prepared.out.slots is not None
        with pytest.raises(ConfigError, match="prepared without its weights"):
            hl.sssp(prepared, 0)


def check_sssp(case, form, run):
    distances = run(hl.sssp, case.source).distances.cpu()
    expected = case.distances
    if distances.is_floating_point():
        expected = np.where(expected < 0, np.inf, expected / FLOAT_SCALE)
    np.testing.assert_array_equal(distances.numpy(), expected)


def check_sswp(case, form, run):
    widths = run(hl.sswp, case.source).widths.cpu()
    if widths.is_floating_point():
        expected = np.where(case.widths < 0, -np.inf, case.widths / FLOAT_SCALE)
        expected[case.source] = np.inf
    else:
        expected = np.where(case.widths < 0, -(2**63), case.widths)
        expected[case.source] = torch.iinfo(form.weights.dtype).max
    np.testing.assert_array_equal(widths.numpy(), expected)


EVERYWHERE = [
    Everywhere("sssp", check_sssp, "bytes", torch.uint8),
    Everywhere("sssp", check_sssp, "integers", torch.int32),
    Everywhere("sssp", check_sssp, "floats", torch.float32),
    Everywhere("sswp", check_sswp, "integers", torch.int32),
    Everywhere("sswp", check_sswp, "doubles", torch.float64),
]
