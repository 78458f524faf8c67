"""EMOGI's traversals over edges on storage against the library's own: every assignment finds the same, whatever the line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.graph.lists import NeighborLists
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange, StorageError
from hinterland.storage.on_device import DeviceStore
from hinterland.table import UnifiedTensor
from hinterland_papers.bam import stored
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.stored import StoredEdges

assignments = pytest.mark.parametrize("assignment", stored.ASSIGNMENTS)
FIRST = 65536  # where the edges begin


def edges_of(graph: hl.Graph, path: Path, device: torch.device, line_bytes: int = 512, sets: int = 4, **faults) -> StoredEdges:
    """The edges of a graph in a file."""
    path.write_bytes(bytes(FIRST) + graph.array("indices").numpy().tobytes())
    budget = sets * 8 * (line_bytes + 16)
    store = DeviceStore(Device(path=str(path), **faults), device, budget, line_bytes, channels=2, depth=64, threads=2)
    return StoredEdges(store, FIRST)


def graphs(edge_bytes: int = 4) -> list[hl.Graph]:
    made = [hl.generate(kind, scale=8, edge_factor=8, seed=3, device="cpu") for kind in ("kronecker", "uniform", "web")]
    if edge_bytes == 4:
        return made
    arrays = [{**g.neighbor_lists.arrays, "indices": UnifiedTensor.from_tensor(g.indices.to(torch.int64))} for g in made]
    return [hl.Graph.of(NeighborLists(a), g.directed) for a, g in zip(arrays, made, strict=True)]


@assignments
@pytest.mark.parametrize("edge_bytes", (4, 8))
def test_levels_and_components_are_the_library_s(device, tmp_path, assignment, edge_bytes) -> None:
    for number, graph in enumerate(graphs(edge_bytes)):
        source = int(graph.degrees().argmax())
        levels = hl.bfs(graph, source, device="cpu").levels
        edges = edges_of(graph, tmp_path / f"{number}", device, (512, 4096, 8192)[number])
        found = stored.bfs(graph, source, edges, assignment)
        assert torch.equal(found.values.cpu(), levels)
        assert found.stats["lines"] > 0
        in_memory = stored.bfs(graph, source, None, assignment)
        assert torch.equal(in_memory.values.cpu(), levels) and in_memory.stats["lines"] == 0
        if not graph.directed:
            labels = stored.cc(graph, edges, assignment).values.cpu()
            assert torch.equal(labels, hl.connected_components(graph, device="cpu").labels)
        edges.store.close()


@assignments
def test_any_size_serves_every_edge_once(device, tmp_path, assignment) -> None:
    graph = graphs()[0]
    levels = hl.bfs(graph, 1, device="cpu").levels
    edges = edges_of(graph, tmp_path / "g", device)
    for size in (1, 3, 64, 128):
        assert torch.equal(stored.bfs(graph, 1, edges, assignment, size).values.cpu(), levels)
    edges.store.close()


def test_tiles_without_active_lists_are_not_read(device, tmp_path) -> None:
    """A path: what is reached lies in its last tiles, and no others are read."""
    ends = torch.arange(4000)
    graph = hl.from_edges(ends[:-1], ends[1:], num_vertices=4000)
    edges = edges_of(graph, tmp_path / "g", device, sets=1)
    short = hl.bfs(graph, 3900, device="cpu").levels
    for assignment in ("odt", "odt-active", "odt-copied"):
        found = stored.bfs(graph, 3900, edges, assignment)
        assert torch.equal(found.values.cpu(), short)
        assert found.stats["lines"] <= 3  # the last tiles alone hold what is reached
    edges.store.close()


def test_a_deep_search_by_active_tiles_is_one_launch(device, tmp_path) -> None:
    """A path of 3,000 levels, and a vertex that nothing leads to; a line that is read once is not read again."""
    ends = torch.arange(3000)
    graph = hl.from_edges(ends[:-1], ends[1:], num_vertices=3001)
    edges = edges_of(graph, tmp_path / "g", device)
    found = stored.bfs(graph, 0, edges, "odt-active")
    assert found.values.tolist() == [*range(3000), -1]
    assert found.stats["launches"] == 1 and found.stats["lines"] == -(-graph.array("indices").nbytes // 512)
    alone = stored.bfs(graph, 3000, edges, "odt-active")
    assert alone.values.tolist() == [*[-1] * 3000, 0] and alone.stats["lines"] == 0
    edges.store.close()
    empty = hl.from_edges(ends[:0], ends[:0], num_vertices=2)
    assert stored.bfs(empty, 1, None, "odt-active").values.tolist() == [-1, 0]


@pytest.mark.parametrize("assignment", ("warp", "odt-active"))
def test_neighbours_that_are_no_vertices_are_named(device, tmp_path, assignment) -> None:
    graph = hl.from_edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]))
    edges = edges_of(graph, tmp_path / "g", device)
    (tmp_path / "g").write_bytes(bytes(FIRST) + torch.tensor([1, 9, 3], dtype=torch.int32).numpy().tobytes())
    with pytest.raises(GraphError, match=r"neighbour list of vertex 1 names a vertex outside \[0, 4\)"):
        stored.bfs(graph, 0, edges, assignment)
    edges.store.close()


def test_errors_are_sentences(device, tmp_path) -> None:
    graph = graphs()[0]
    edges = edges_of(graph, tmp_path / "g", device)
    with pytest.raises(ConfigError, match="assignment 'block' is not one of warp"):
        stored.bfs(graph, 0, edges, "block")
    with pytest.raises(ConfigError, match="size=200 of the odt-copied assignment is more than the 128 of a tile"):
        stored.bfs(graph, 0, edges, "odt-copied", 200)
    with pytest.raises(IndexOutOfRange):
        stored.bfs(graph, graph.num_vertices, edges)
    with pytest.raises(GraphError, match="undirected"):
        stored.cc(hl.from_edges(torch.tensor([0]), torch.tensor([1])), edges)
    edges.store.close()
    broken = edges_of(graph, tmp_path / "b", device, faults=(("fatal", 1000),), seed=3)
    with pytest.raises(StorageError, match="could not be read"):
        stored.bfs(graph, int(graph.degrees().argmax()), broken)
    broken.store.close()
