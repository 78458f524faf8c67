"""EMOGI's traversals against hl.bfs and scipy: every access, assignment and edge width finds the same."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components, dijkstra

import hinterland as hl
from hinterland.graph.lists import NeighborLists
from hinterland.memory.mapping import Limit
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange, OutOfMemory
from hinterland.table import UnifiedTensor
from hinterland_papers.emogi import migrating as uvm
from hinterland_papers.emogi import traversal as emogi
from hinterland_papers.emogi.migrating import migrating

accesses = pytest.mark.parametrize("access", emogi.ACCESSES)
assignments = pytest.mark.parametrize("assignment", emogi.ASSIGNMENTS)
widths = pytest.mark.parametrize("edge_bytes", [4, 8])


def widened(graph, edge_bytes):
    """The same graph with neighbours of 4 or 8 bytes."""
    if edge_bytes == 4:
        return graph
    indices = UnifiedTensor.from_tensor(graph.indices.to(torch.int64))
    return hl.Graph.of(NeighborLists({**graph.neighbor_lists.arrays, "indices": indices}), graph.directed)


@accesses
@assignments
@widths
@pytest.mark.parametrize("kind", ["kronecker", "uniform", "web"])
def test_bfs_finds_the_levels_of_bfs(device, access, assignment, edge_bytes, kind):
    graph = widened(hl.generate(kind, scale=10, edge_factor=8, seed=3, device="cpu"), edge_bytes)
    source = int(graph.degrees().argmax())
    result = emogi.bfs(graph, source, access, assignment, device=device)
    expected = hl.bfs(graph, source, device="cpu", stats=True)
    assert torch.equal(result.values.cpu(), expected.levels)
    assert result.stats["launches"] == expected.stats["levels"]
    assert result.stats["bytes"] >= edge_bytes * expected.stats["edges"]


@accesses
@assignments
@settings(max_examples=15)
@given(data=st.data())
def test_every_size_serves_every_edge_once(access, assignment, data):
    vertices = data.draw(st.integers(1, 90))
    edges = data.draw(st.lists(st.tuples(st.integers(0, vertices - 1), st.integers(0, vertices - 1)), max_size=300))
    ends = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
    graph = hl.from_edges(ends[:, 0], ends[:, 1], num_vertices=vertices)
    size = data.draw(st.one_of(st.integers(1, 100), st.just(2**62)))
    result = emogi.bfs(graph, 0, access, assignment, size, device="cpu")
    assert torch.equal(result.values, hl.bfs(graph, 0, device="cpu").levels)


@accesses
@assignments
@widths
def test_sssp_finds_the_distances_of_dijkstra(device, access, assignment, edge_bytes):
    graph = hl.generate("kronecker", scale=9, edge_factor=8, seed=5, device="cpu")
    weights = torch.randint(1, 256, (graph.num_edges,), dtype=torch.int32, generator=torch.Generator().manual_seed(1))
    graph = widened(hl.Graph(graph.indptr, graph.indices, weights), edge_bytes)
    source = int(graph.degrees().argmax())
    found = emogi.sssp(graph, source, access, assignment, device=device).values.cpu().numpy()
    arrays = (weights.numpy(), graph.indices.numpy(), graph.indptr.numpy())
    matrix = sp.csr_matrix(arrays, shape=(graph.num_vertices,) * 2)
    distance = dijkstra(matrix, indices=source)
    np.testing.assert_array_equal(found, np.where(np.isinf(distance), -1, distance))


@accesses
@assignments
@widths
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sssp_with_float_weights_is_that_of_sssp_to_the_last_bit(device, access, assignment, edge_bytes, dtype):
    graph = hl.generate("kronecker", scale=9, edge_factor=8, seed=5, device="cpu")
    draw = torch.Generator().manual_seed(1)
    # Of many magnitudes, so that sums round; some edges cost nothing, and some lead nowhere.
    weights = torch.rand(graph.num_edges, dtype=dtype, generator=draw) * 10.0 ** torch.randint(
        -3, 4, (graph.num_edges,), generator=draw
    )
    weights[::50], weights[1::50] = 0, float("inf")
    graph = widened(hl.Graph(graph.indptr, graph.indices, weights), edge_bytes)
    source = int(graph.degrees().argmax())
    result = emogi.sssp(graph, source, access, assignment, device=device)
    assert result.values.dtype == dtype
    assert torch.equal(result.values.cpu(), hl.sssp(graph, source, device="cpu").distances)
    hl.graph.verify_sssp(graph, source, hl.SsspResult(result.values))


@settings(max_examples=50)
@given(data=st.data())
def test_sssp_of_any_graph_is_that_of_sssp(data):
    vertices = data.draw(st.integers(1, 30))
    ends = st.integers(0, vertices - 1)
    dtype = data.draw(st.sampled_from([torch.int32, torch.float32, torch.float64]))
    weight = st.integers(0, 2**31 - 1) if dtype == torch.int32 else st.floats(0, width=32, allow_nan=False)
    edges = data.draw(st.lists(st.tuples(ends, ends, weight), max_size=90))
    src, dst, weights = (
        torch.tensor([edge[i] for edge in edges], dtype=of) for i, of in enumerate((torch.int64, torch.int64, dtype))
    )
    graph = hl.from_edges(src, dst, weights, num_vertices=vertices)
    access = data.draw(st.sampled_from([*emogi.ACCESSES, emogi.UVM]))
    found = emogi.sssp(graph, 0, access, device="cpu").values
    try:
        expected = hl.sssp(graph, 0, device="cpu").distances
    except GraphError:  # a distance of more than 2^32 - 3: EMOGI's costs have eight bytes
        expected = hl.sssp(hl.Graph(graph.indptr, graph.indices, graph.weights.long()), 0, device="cpu").distances
    assert torch.equal(found, expected)


@pytest.mark.parametrize("algorithm", emogi.ALGORITHMS)
def test_lists_that_migrate_give_the_same(device, algorithm):
    """On a CPU they stay where they are."""
    graph = hl.random_weights(hl.generate("uniform", scale=8, edge_factor=4, seed=2, device="cpu"), "float32")
    graph = hl.reorder(graph, "degree")
    begin = [5] if algorithm in ("bfs", "sssp") else []
    found, expected = (getattr(emogi, algorithm)(graph, *begin, access=access, device=device) for access in ("uvm", "aligned"))
    if algorithm == "pagerank":
        torch.testing.assert_close(found.values, expected.values)
    else:
        assert torch.equal(found.values, expected.values)
        assert algorithm != "bfs" or found.stats["edges"] == expected.stats["edges"]


@accesses
@assignments
@widths
def test_components_get_their_smallest_vertex(device, access, assignment, edge_bytes):
    graph = widened(hl.generate("uniform", scale=10, edge_factor=1, seed=7, device="cpu"), edge_bytes)
    found = emogi.cc(graph, access, assignment, device=device).values.cpu().numpy()
    ones = np.ones(graph.num_edges, dtype=np.int8)
    matrix = sp.csr_matrix((ones, graph.indices.numpy(), graph.indptr.numpy()), shape=(graph.num_vertices,) * 2)
    _, component = connected_components(matrix, directed=False)
    smallest = np.full(component.max() + 1, graph.num_vertices)
    np.minimum.at(smallest, component, np.arange(graph.num_vertices))
    np.testing.assert_array_equal(found, smallest[component])


@accesses
@assignments
@widths
def test_pagerank_comes_near_that_of_networkx(device, access, assignment, edge_bytes):
    edges = hl.generate("uniform", scale=8, edge_factor=6, seed=2, device="cpu")
    assert edges.num_isolated == 0  # their rank is lost
    graph = widened(edges, edge_bytes)
    result = emogi.pagerank(graph, tolerance=1e-5, access=access, assignment=assignment, device=device)
    ends = torch.repeat_interleave(torch.arange(graph.num_vertices), graph.degrees())
    network = nx.from_scipy_sparse_array(
        sp.coo_matrix((np.ones(graph.num_edges), (ends.numpy(), graph.indices.numpy())), shape=(graph.num_vertices,) * 2),
        create_using=nx.DiGraph,
    )
    expected = nx.pagerank(network, alpha=0.85, tol=1e-12)
    scores = result.values.cpu().numpy() / graph.num_vertices
    np.testing.assert_allclose(scores, [expected[v] for v in range(graph.num_vertices)], rtol=2e-3)
    assert result.stats["launches"] > 3


def test_active_tiles_are_those_that_hold_active_lists():
    graph = hl.generate("kronecker", scale=9, edge_factor=8, seed=2, device="cpu")
    division = emogi.Division(graph, graph.indptr, "merged", "odt-active", 64, 4)
    active = torch.rand(graph.num_vertices, generator=torch.Generator().manual_seed(3)) < 0.05
    owners = torch.repeat_interleave(torch.arange(graph.num_vertices), graph.degrees())
    expected = sorted({i // 64 for i in active[owners].nonzero()[:, 0].tolist()})
    assert division.active_tiles(active).tolist() == expected


@pytest.mark.gpu
@pytest.mark.parametrize("weights", ["int32", "float32"])
def test_migrating_memory_gives_the_same_results(weights):
    place = {"indptr": "gpu", "indices": "host"}
    graph = hl.random_weights(hl.generate("kronecker", scale=12, seed=1, placement=place, device="cuda"), weights)
    moved, come_home = migrating(graph)
    for _ in range(2):
        come_home()
        assert torch.equal(emogi.bfs(moved, 5).values, emogi.bfs(graph, 5).values)
        assert torch.equal(emogi.sssp(moved, 5).values, emogi.sssp(graph, 5).values)
        assert torch.equal(emogi.cc(moved).values, emogi.cc(graph).values)


def test_uvm_takes_no_more_managed_memory_than_it_may(monkeypatch):
    """Neither beyond the limit, nor beyond its budget, which plain allocations will leave."""
    graph = hl.generate("uniform", scale=8, seed=1, device="cpu")
    need = graph.indices.nbytes
    monkeypatch.setattr(uvm, "take_managed", lambda *args: pytest.fail("asked the driver"))
    monkeypatch.setattr(uvm, "managed_limit", lambda checked: Limit(need - 1, "a test"))
    with pytest.raises(OutOfMemory, match="the limit is by a test"):
        migrating(graph)
    monkeypatch.setattr(uvm, "managed_limit", lambda checked: Limit(1 << 40, "a test"))
    with pytest.raises(OutOfMemory, match="HINTERLAND_MANAGED_LIMIT=unlimited"):
        migrating(graph, need - 1)


def test_bad_input():
    graph = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]))
    with pytest.raises(ConfigError, match="access 'mixed' is not one of naive, merged, aligned"):
        emogi.bfs(graph, 0, "mixed", device="cpu")
    with pytest.raises(ConfigError, match="assignment 'block' is not one of warp"):
        emogi.bfs(graph, 0, assignment="block", device="cpu")
    with pytest.raises(ConfigError, match="size=0 of the warp assignment"):
        emogi.bfs(graph, 0, size=0, device="cpu")
    with pytest.raises(IndexOutOfRange, match="source 3 is not a vertex"):
        emogi.bfs(graph, 3, device="cpu")
    with pytest.raises(ConfigError, match="sssp needs weights, and the graph has none"):
        emogi.sssp(graph, 0, device="cpu")
    narrow = hl.Graph(graph.indptr, graph.indices, torch.tensor([1, 2], dtype=torch.uint8))
    with pytest.raises(ConfigError, match="uint8, but EMOGI's shortest paths take int32, float32 and float64; convert them"):
        emogi.sssp(narrow, 0, device="cpu")
    with pytest.raises(GraphError, match="undirected"):
        emogi.cc(graph, device="cpu")
    with pytest.raises(ConfigError, match="damping=1 lies in"):
        emogi.pagerank(graph, damping=1, device="cpu")
    for dtype in (torch.int32, torch.float32):
        negative = hl.Graph(graph.indptr, graph.indices, torch.tensor([1, -2], dtype=dtype))
        with pytest.raises(GraphError, match=r"weights\[1\] is -2"):
            emogi.sssp(negative, 0, device="cpu")
    wrong = UnifiedTensor.from_tensor(torch.tensor([1, 7], dtype=torch.int32))
    broken = hl.Graph.of(NeighborLists({**graph.neighbor_lists.arrays, "indices": wrong}), True)
    with pytest.raises(GraphError, match="neighbour list of vertex 1 names a vertex outside \\[0, 3\\)"):
        emogi.bfs(broken, 0, device="cpu")
