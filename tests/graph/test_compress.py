"""Packed neighbour lists: what goes in comes out, in files too, and damage is found."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.graph.compress import bits_per_edge, from_packed
from hinterland.runtime.errors import ConfigError, FormatError, GraphError
from hinterland.table import UnifiedTensor


def sorted_rows(graph: hl.Graph) -> tuple:
    """Neighbours and weights of each row, sorted by both, with NumPy."""
    rows = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr.numpy()))
    weights = np.zeros(graph.num_edges) if graph.weights is None else graph.weights.numpy()
    order = np.lexsort((weights, graph.indices.numpy(), rows))
    return graph.indptr.tolist(), graph.indices.numpy()[order].tolist(), weights[order].tolist()


def expected(graph: hl.Graph) -> tuple:
    """What packing gives: the graph as it is if every list ascends, else with each list sorted by (number, weight)."""
    found = as_it_lies(graph)
    rows = [found[1][i:j] for i, j in pairwise(found[0])]
    return found if all(row == sorted(row) for row in rows) else sorted_rows(graph)


def as_it_lies(graph: hl.Graph) -> tuple:
    weights = np.zeros(graph.num_edges) if graph.weights is None else graph.weights.numpy()
    return graph.indptr.tolist(), graph.indices.tolist(), weights.tolist()


@st.composite
def lists(draw):
    """A graph with unsorted lists, parallel edges, self loops, empty lists and, sometimes, a hub."""
    vertices = draw(st.integers(1, 3000))
    degrees = draw(st.lists(st.sampled_from([0, 0, 1, 2, 3, 31, 32, 33, 64, 65, 500, 3000]), max_size=8))
    degrees = (degrees + [0] * vertices)[:vertices]
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    near = draw(st.integers(1, vertices))  # neighbours from a narrow range repeat, and make empty high bits
    neighbors = random.integers(0, near, sum(degrees)) + draw(st.integers(0, vertices - near))
    weights = torch.from_numpy(random.integers(-100, 100, sum(degrees)).astype(np.int32)) if draw(st.booleans()) else None
    indptr = torch.from_numpy(np.cumsum([0, *degrees]))
    return hl.Graph(indptr, torch.from_numpy(neighbors), weights, placement="pageable")


@given(graph=lists())
def test_what_goes_in_comes_out_sorted(graph):
    before = as_it_lies(graph)
    packed = hl.compress(graph)
    assert packed.is_compressed and not graph.is_compressed
    assert (packed.num_vertices, packed.num_edges, packed.directed) == (graph.num_vertices, graph.num_edges, True)
    assert as_it_lies(packed) == expected(graph)
    plain = hl.decompress(packed)
    assert not plain.is_compressed and as_it_lies(plain) == expected(graph)
    assert as_it_lies(graph) == before
    assert hl.compress(packed) is packed and hl.decompress(plain) is plain


def pack(degrees: list[int], neighbors: np.ndarray, vertices: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(indptr, packed offsets, stream) of the first lists of a graph too large to be held."""
    indptr = torch.from_numpy(np.cumsum([0, *degrees]))
    ids = torch.from_numpy(neighbors.astype(np.int64))
    at = torch.zeros_like(indptr)
    rows = (indptr.data_ptr(), len(degrees), vertices, ids.data_ptr(), 8, len(ids), at.data_ptr())
    size = _core.pack_offsets(*rows)
    assert size >= 0
    stream = torch.full((_core.packed_bytes(size),), 255, dtype=torch.uint8)
    _core.pack_rows(*rows, stream.data_ptr())
    return indptr, at, stream


@given(
    degrees=st.lists(st.integers(0, 100), min_size=1, max_size=6),
    largest=st.sampled_from([2**31 - 1, 2**31, 2**32, 2**40, 2**47]),
    seed=st.integers(0, 2**32),
)
def test_vertices_beyond_four_bytes(degrees, largest, seed):
    random = np.random.default_rng(seed)
    near = min(int(random.choice([1, 50, 2**20, largest])), largest)
    ends = np.cumsum(degrees)
    neighbors = largest - 1 - random.integers(0, near, ends[-1])
    for row in np.split(neighbors, ends[:-1]):
        row.sort()
    indptr, at, stream = pack(degrees, neighbors, largest)
    found = torch.zeros(len(neighbors), dtype=torch.int64)
    rows = (indptr.data_ptr(), at.data_ptr(), stream.data_ptr(), stream.numel(), len(degrees), largest, len(neighbors))
    _core.unpack_rows(*rows, found.data_ptr(), 8)
    assert found.tolist() == neighbors.tolist()
    assert _core.first_wrong_list(*rows) == -1


def test_sizes_stay_near_the_theory(real_data):
    """At most 2 bits above Elias and Fano's bound for whole lists: what a block's own first neighbour and position cost."""
    for graph in (hl.load_graph(real_data / "soc-Epinions1.txt", symmetrize=True), hl.generate("uniform", scale=14)):
        degrees = graph.degrees().double()
        bound = float((degrees * (2 + (graph.num_vertices / degrees).log2().clamp(min=0))).nansum()) / graph.num_edges
        packed = hl.compress(graph)
        assert bits_per_edge(packed) < bound + 2
        assert packed.nbytes == sum(array.nbytes for array in (packed.array(n) for n in packed.placement))


def test_a_graph_says_what_it_is():
    packed = hl.compress(hl.generate("kronecker", scale=8, weights=True), reorder="degree")
    assert "undirected, compressed, reordered" in repr(packed)
    assert set(packed.placement) == {"indptr", "packed_offsets", "packed", "weights"}
    assert packed.array("packed").dtype == torch.uint8 and packed.array("packed_offsets").dtype == torch.int64
    nothing = hl.compress(hl.Graph(torch.tensor([0]), torch.tensor([], dtype=torch.int64)))
    assert (nothing.num_vertices, nothing.num_edges, nothing.indices.tolist(), bits_per_edge(nothing)) == (0, 0, [], 0.0)


def test_placement_follows_the_plain_arrays():
    graph = hl.generate("uniform", scale=8, placement="pageable")
    packed = hl.compress(graph, placement={"indptr": "pageable", "indices": "pageable"})
    assert set(packed.placement.values()) == {"pageable"}
    assert packed.array("indptr").data_ptr() == graph.indptr.data_ptr()  # shared, not copied
    with pytest.raises(ConfigError, match="packed"):
        hl.compress(graph, placement={"packed": "pageable"})


@pytest.mark.gpu
def test_placement_on_a_gpu():
    graph = hl.generate("kronecker", scale=10, weights=True, placement="host")
    packed = hl.compress(graph, placement={"indptr": "gpu", "indices": "host"})
    assert packed.placement["packed_offsets"] == "gpu" and packed.placement["packed"] != "gpu"
    moved = hl.compress(graph, placement="gpu")
    assert set(moved.placement.values()) == {"gpu"}
    assert torch.equal(moved.indices, graph.indices)
    assert torch.equal(moved.array("indices", "cuda").cpu(), graph.indices)


def test_transpose_and_other_rebuilds_of_a_compressed_graph():
    theirs = nx.gnp_random_graph(60, 0.1, seed=2, directed=True)
    ends = torch.tensor(list(theirs.edges))
    graph = hl.from_edges(ends[:, 0], ends[:, 1], torch.arange(len(ends)), num_vertices=60)
    packed = hl.compress(graph, reorder="bfs")
    turned = packed.transpose()
    assert turned.is_compressed and torch.equal(turned.order, packed.order)
    assert as_it_lies(turned) == sorted_rows(hl.decompress(packed).transpose())
    assert turned.transpose() is packed


@pytest.mark.parametrize("mode", ["auto", "top-down"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_search_finds_the_same_in_compressed_lists(device, mode, directed):
    graph = hl.generate("kronecker", scale=11, edge_factor=24)
    if directed:
        rows = torch.arange(graph.num_vertices).repeat_interleave(graph.degrees())
        some = (rows * 7 + graph.indices) % 3 > 0
        graph = hl.from_edges(rows[some], graph.indices[some].long(), num_vertices=graph.num_vertices)
    packed = hl.compress(graph)
    packed.transpose()
    expected = hl.bfs(graph, 5, "top-down", device="cpu")
    found = hl.bfs(packed, 5, mode, device=device, stats=True)
    assert torch.equal(found.levels.cpu(), expected.levels) and torch.equal(found.parents.cpu(), expected.parents)
    if mode == "top-down":
        at = packed.array("packed_offsets")
        assert 0 < found.stats["bytes"] <= int(at[-1]) + 64 * packed.num_vertices


@pytest.mark.gpu
@pytest.mark.parametrize("budget", ["1MiB", "2MiB", "8MiB", None])
def test_a_search_of_compressed_lists_within_a_budget(budget):
    graph = hl.generate("kronecker", scale=14, placement="host")
    packed = hl.compress(graph)
    expected = hl.bfs(graph, 5, device="cpu")
    with hl.prepare(packed, budget, "cuda") as prepared:
        found = hl.bfs(prepared, 5)
    assert torch.equal(found.levels.cpu(), expected.levels) and torch.equal(found.parents.cpu(), expected.parents)


@given(graph=lists(), count=st.integers(1, 40))
def test_first_neighbours_are_the_heads_of_the_lists(graph, count):
    packed = hl.compress(graph)
    rows = [row.tolist() for row in packed.indices.split(packed.degrees().tolist())]
    adjacency_prefix = [[row[j] if j < len(row) else -1 for row in rows] for j in range(count)]
    assert packed.neighbor_lists.packed_lists().first_neighbors(count).tolist() == adjacency_prefix


def test_a_list_damaged_in_memory_is_reported():
    packed = hl.compress(hl.generate("kronecker", scale=6))
    packed.array("packed")[:-12] = 255
    with pytest.raises(GraphError, match="neighbour list of vertex"):
        hl.bfs(packed, int(packed.degrees().argmax()), device="cpu")


def unified(tensor: torch.Tensor) -> UnifiedTensor:
    return UnifiedTensor.from_tensor(tensor, placement="pageable")


@given(data=st.data())
def test_damage_is_found_or_harmless(data):
    graph = hl.generate("kronecker", scale=7, edge_factor=8, seed=data.draw(st.integers(0, 9)))
    packed = hl.compress(graph)
    held = {name: packed.array(name).clone() for name in ("indptr", "packed_offsets", "packed")}
    name = data.draw(st.sampled_from(sorted(held)))
    bytes_of = held[name].view(torch.uint8)
    for _ in range(data.draw(st.integers(1, 4))):
        bytes_of[data.draw(st.integers(0, len(bytes_of) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = from_packed(*(unified(held[name]) for name in ("indptr", "packed_offsets", "packed")))
    except GraphError:
        return
    assert found.num_edges == 0 or 0 <= int(found.indices.min()) <= int(found.indices.max()) < found.num_vertices
    rows = torch.arange(found.num_vertices).repeat_interleave(found.degrees())
    assert bool(((rows[1:] > rows[:-1]) | (found.indices[1:] >= found.indices[:-1])).all())


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("indptr", 1, -5, r"indptr\[1\] is -5"),
        ("indptr", -1, 2**60, "packed_offsets ends with"),
        ("packed_offsets", 1, 2**40, r"packed_offsets\[2\] is"),
        ("packed_offsets", -1, 2**40, "packed_offsets ends with"),
        ("packed", slice(None), 255, "the packed list of vertex 0 is damaged; restore"),
    ],
)
def test_damage_is_named(name, at, value, message):
    packed = hl.compress(hl.from_edges(torch.arange(50), torch.arange(50).flip(0)))
    held = {n: packed.array(n).clone() for n in ("indptr", "packed_offsets", "packed")}
    held[name][at] = value
    with pytest.raises(GraphError, match=message):
        from_packed(*(unified(array) for array in held.values()))


@given(graph=lists(), reorder=st.sampled_from([None, "degree", "bfs", "rcm"]), compressed=st.booleans())
def test_our_files_keep_the_form_and_the_order(graph, reorder, compressed, tmp_path_factory):
    path = tmp_path_factory.mktemp("hl") / "g.hl"
    graph = graph if reorder is None else hl.reorder(graph, reorder)
    graph = hl.compress(graph) if compressed else graph
    hl.save_graph(graph, path)
    found = hl.load_graph(path, "pageable")
    assert found.is_compressed == compressed and set(found.placement) == set(graph.placement)
    assert all(torch.equal(found.array(name), graph.array(name)) for name in graph.placement)
    assert (found.order is None) == (reorder is None) and (reorder is None or torch.equal(found.order, graph.order))
    assert path.read_bytes()[8] == (2 if compressed or reorder else 1)


def test_other_files_get_the_plain_graph_under_its_first_numbers(tmp_path):
    graph = hl.from_edges(torch.tensor([0, 0, 3, 2]), torch.tensor([1, 2, 0, 2]), torch.tensor([5, 6, 7, 8]))
    hl.save_graph(hl.compress(graph, reorder="rcm"), tmp_path / "g.wel")
    found = hl.load_graph(tmp_path / "g.wel")
    assert as_it_lies(found) == as_it_lies(graph)


def test_every_damaged_byte_of_a_file_is_found(tmp_path):
    path = tmp_path / "g.hl"
    hl.save_graph(hl.compress(hl.generate("uniform", scale=5), reorder="degree"), path)
    whole = path.read_bytes()
    for at in [*range(0, 100, 7), *range(100, len(whole), 499)]:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            found = hl.load_graph(path, "pageable")
        except FormatError:
            continue
        assert at >= 4096 and torch.equal(found.indices, hl.load_graph(path).indices)  # padding between sections


def test_verifiers_take_compressed_graphs():
    graph = hl.generate("uniform", scale=8, edge_factor=8, seed=1, device="cpu")
    packed = hl.compress(graph)
    hl.graph.verify_bfs(packed, 3, hl.bfs(packed, 3, device="cpu"))
    hl.graph.verify_multi_source_bfs(packed, [3, 5], hl.multi_source_bfs(packed, [3, 5], device="cpu"))
