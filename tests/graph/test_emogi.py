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
from hinterland.graph import emogi
from hinterland.graph.lists import NeighborLists
from hinterland.memory import UnifiedTensor
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange

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
    with pytest.raises(GraphError, match="int32 weights, and this graph has none"):
        emogi.sssp(graph, 0, device="cpu")
    with pytest.raises(GraphError, match="undirected"):
        emogi.cc(graph, device="cpu")
    with pytest.raises(ConfigError, match="damping=1 lies in"):
        emogi.pagerank(graph, damping=1, device="cpu")
    negative = hl.Graph(graph.indptr, graph.indices, torch.tensor([1, -2], dtype=torch.int32))
    with pytest.raises(GraphError, match="weight of edge 1 is negative"):
        emogi.sssp(negative, 0, device="cpu")
    wrong = UnifiedTensor.from_tensor(torch.tensor([1, 7], dtype=torch.int32))
    broken = hl.Graph.of(NeighborLists({**graph.neighbor_lists.arrays, "indices": wrong}), True)
    with pytest.raises(GraphError, match="neighbour list of vertex 1 names a vertex outside \\[0, 3\\)"):
        emogi.bfs(broken, 0, device="cpu")
