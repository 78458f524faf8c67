"""Binary formats: against scipy, against the layouts that their projects document, and back and forth."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph.arrays import WEIGHT_TYPES
from hinterland.runtime.errors import ConfigError, FormatError, GraphError

from .samples import few, graphs, listed, memory_folder


@pytest.fixture(scope="module")
def folder():
    yield from memory_folder()


def same(one: hl.Graph, other: hl.Graph) -> bool:
    """Equal arrays of equal types, and the same direction."""
    pairs = ((one.indptr, other.indptr), (one.indices, other.indices), (one.weights, other.weights))
    equal = (a is b is None or (a is not None and b is not None and a.dtype == b.dtype and torch.equal(a, b)) for a, b in pairs)
    return one.directed == other.directed and all(equal)


@few
@given(graphs(), st.booleans())
def test_our_own_files_come_back_exactly(folder, graph, directed):
    graph = graph if directed else hl.graph.simplify(graph, symmetrize=True)
    hl.save_graph(graph, folder / "g.hl")
    assert same(hl.load_graph(folder / "g.hl"), graph)


@pytest.mark.parametrize("dtype", WEIGHT_TYPES)
def test_our_own_files_hold_every_weight_type(folder, dtype):
    graph = hl.from_edges(torch.tensor([0, 1, 1]), torch.tensor([1, 2, 0]), torch.tensor([1, 2, 3]).to(dtype))
    hl.save_graph(graph, folder / "w.hl")
    assert same(hl.load_graph(folder / "w.hl"), graph)


@few
@given(graphs(weights=("none", "int")), st.booleans())
def test_gap_files_have_gaps_layout(folder, graph, directed):
    """The bytes, taken apart as gapbs reads them: directed, edges, vertices, offsets, neighbours, then the inverse."""
    graph = graph if directed else hl.graph.simplify(graph, symmetrize=True)
    weighted = graph.weights is not None
    path = folder / ("g.wsg" if weighted else "g.sg")
    hl.save_graph(graph, path)
    content = path.read_bytes()
    flag, edges, vertices = struct.unpack_from("<?qq", content)
    assert (flag, edges, vertices) == (directed, graph.num_edges, graph.num_vertices)
    at = 17
    for part in (graph, graph.transpose())[: 1 + directed]:
        offsets = np.frombuffer(content, np.int64, vertices + 1, at)
        at += offsets.nbytes
        neighbours = np.frombuffer(content, np.int32, edges * (1 + weighted), at).reshape(edges, 1 + weighted)
        at += neighbours.nbytes
        assert offsets.tolist() == part.indptr.tolist()
        assert neighbours[:, 0].tolist() == part.indices.tolist()
        if weighted:
            assert neighbours[:, 1].tolist() == part.weights.tolist()
    assert at == len(content)
    assert same(hl.load_graph(path), graph)


@few
@given(graphs(weights=("none", "int")))
def test_the_inverse_of_a_gap_file_is_the_transpose(folder, graph):
    path = folder / ("g.wsg" if graph.weights is not None else "g.sg")
    hl.save_graph(graph, path)
    assert hl.load_graph(path, transpose=False).known_transpose is None
    for transpose in (None, True):
        loaded = hl.load_graph(path, transpose=transpose)
        known = loaded.known_transpose
        assert known is loaded.transpose() and same(known, graph.transpose())
        assert known.known_transpose is loaded and known.has_sorted_lists
    assert hl.load_graph(path, remove_duplicates=True).known_transpose is None
    if graph.weights is not None:
        assert hl.load_graph(path, weight_dtype=torch.float64).transpose().weights.dtype == torch.float64


def test_a_plain_load_leaves_the_inverse_where_memory_is_short(folder, monkeypatch):
    graph = hl.from_edges(torch.arange(1000), torch.arange(1000).roll(1))
    hl.save_graph(graph, folder / "g.sg")
    held = hl.memory.report().nbytes
    for free, known in ((4 * graph.nbytes - 1, False), (4 * graph.nbytes + (1 << 20), True)):
        monkeypatch.setenv("HINTERLAND_HOST_MEMORY", str(held + graph.nbytes + free))
        loaded = hl.load_graph(folder / "g.sg")
        assert (loaded.known_transpose is not None) == known and same(loaded, graph)
        del loaded


def test_an_inverse_of_other_edges_is_refused(folder):
    graph = hl.from_edges(torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 2, 3]))
    hl.save_graph(graph, folder / "g.sg")
    content = bytearray((folder / "g.sg").read_bytes())
    inverse = 17 + 8 * 5 + 4 * 4
    assert np.frombuffer(content, np.int32, 4, inverse + 40).tolist() == [0, 0, 1, 2]
    content[inverse + 40 : inverse + 44] = np.int32(3).tobytes()
    (folder / "g.sg").write_bytes(content)
    with pytest.raises(FormatError, match=r"g\.sg: the lists of in-neighbours do not hold the graph's edges turned round"):
        hl.load_graph(folder / "g.sg")
    assert same(hl.load_graph(folder / "g.sg", transpose=False), graph)
    content[inverse + 40 : inverse + 44] = np.int32(4).tobytes()
    (folder / "g.sg").write_bytes(content)
    with pytest.raises(FormatError, match=r"indices\[0\] is 4"):
        hl.load_graph(folder / "g.sg")


def test_other_files_get_a_transpose_where_it_is_asked_for(folder):
    graph = hl.from_edges(torch.tensor([0, 0, 1]), torch.tensor([1, 2, 2]))
    hl.save_graph(graph, folder / "g.hl")
    assert hl.load_graph(folder / "g.hl").known_transpose is None
    assert same(hl.load_graph(folder / "g.hl", transpose=True).known_transpose, graph.transpose())
    with pytest.raises(ConfigError, match="transpose"):
        hl.load_graph(folder / "g.hl", transpose=1)


@few
@given(graphs(weights=("none", "length")))
def test_emogi_files_have_emogis_layout(folder, graph):
    hl.save_graph(graph, folder / "g.bel")
    col, dst = ((folder / f"g.bel.{part}").read_bytes() for part in ("col", "dst"))
    assert struct.unpack_from("<q", col)[0] == graph.num_vertices + 1
    assert struct.unpack_from("<q", dst)[0] == graph.num_edges
    assert np.frombuffer(col, np.uint64, offset=16).tolist() == graph.indptr.tolist()
    assert np.frombuffer(dst, np.uint64, offset=16).tolist() == graph.indices.tolist()
    if graph.weights is None:
        assert not (folder / "g.bel.val").exists()  # that of an earlier graph would be taken for this one's
    else:
        val = (folder / "g.bel.val").read_bytes()
        assert struct.unpack_from("<q", val)[0] == graph.num_edges
        assert np.frombuffer(val, np.uint32, offset=16).tolist() == graph.weights.tolist()
    for name in ("g.bel", "g.bel.col", "g.bel.dst"):
        assert same(hl.load_graph(folder / name), graph)


def test_emogi_weights_are_what_the_caller_says(folder):
    graph = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0.5, 3.25]))
    hl.save_graph(graph, folder / "f.bel")
    assert same(hl.load_graph(folder / "f.bel", weight_dtype=torch.float32), graph)
    assert hl.load_graph(folder / "f.bel").weights.tolist() == graph.weights.view(torch.int32).tolist()
    large = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([2**32 - 1, 3]))
    hl.save_graph(large, folder / "f.bel")
    assert same(hl.load_graph(folder / "f.bel"), large)
    with pytest.raises(ConfigError, match="4-byte values"):
        hl.load_graph(folder / "f.bel", weight_dtype=torch.float64)


@st.composite
def sparse(draw):
    n = draw(st.integers(1, 15))
    cells = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40, unique=True))
    dtype = draw(st.sampled_from([np.bool_, np.int8, np.uint16, np.int32, np.int64, np.float32, np.float64]))
    data = np.array([draw(st.integers(1, 100)) for _ in cells]).astype(dtype)
    rows, columns = (np.array([cell[i] for cell in cells], int) for i in (0, 1))
    return sp.coo_array((data, (rows, columns)), shape=(n, n))


@few
@given(sparse(), st.sampled_from(["csr", "csc", "coo"]), st.booleans())
def test_npz_of_scipy(folder, matrix, kind, compressed):
    path = folder / "s.npz"
    sp.save_npz(path, matrix.asformat(kind), compressed=compressed)
    graph = hl.load_graph(path)
    expected = sorted(zip(*(part.tolist() for part in (*matrix.coords, matrix.data)), strict=True))
    assert graph.num_vertices == matrix.shape[0]
    if matrix.dtype == np.bool_:
        assert graph.weights is None
        expected = [edge[:2] for edge in expected]
    assert listed(graph) == expected


@few
@given(graphs())
def test_scipy_reads_what_we_write_as_npz(folder, graph):
    path = folder / "ours.npz"
    hl.save_graph(graph, path)
    matrix = sp.load_npz(path)
    assert matrix.shape == (graph.num_vertices,) * 2
    assert matrix.indptr.tolist() == graph.indptr.tolist()
    assert matrix.indices.tolist() == graph.indices.tolist()
    assert matrix.data.tolist() == ([True] * graph.num_edges if graph.weights is None else graph.weights.tolist())
    assert same(hl.load_graph(path), graph)


def test_npz_of_graph_collections(real_data):
    for name, vertices, edges in (("cora.npz", 2708, 5429), ("citeseer.npz", 3312, 4715)):
        graph = hl.load_graph(real_data / name)
        with np.load(real_data / name, allow_pickle=True) as held:
            assert graph.indptr.tolist() == held["adj_indptr"].tolist()
            assert graph.indices.tolist() == held["adj_indices"].tolist()
            assert graph.weights.tolist() == held["adj_data"].tolist()
        assert (graph.num_vertices, graph.num_edges) == (vertices, edges)


@few
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=50).filter(lambda e: len(e) != 2),
    st.sampled_from([np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, ">i8", ">u4"]),
    st.booleans(),
    st.booleans(),
)
def test_edge_arrays(folder, edges, dtype, pairs, fortran):
    array = np.array(edges).astype(dtype)
    array = array if pairs else array.T
    np.save(folder / "e.npy", np.asfortranarray(array) if fortran else np.ascontiguousarray(array))
    graph = hl.load_graph(folder / "e.npy")
    assert listed(graph) == sorted(edges)
    assert graph.num_vertices == max(map(max, edges)) + 1


def test_an_edge_array_of_two_edges_needs_a_word(folder):
    np.save(folder / "two.npy", np.array([[0, 1], [2, 3]]))
    with pytest.raises(ConfigError, match=r"can be read both ways; say format='npy\[2,E\]'"):
        hl.load_graph(folder / "two.npy")
    assert listed(hl.load_graph(folder / "two.npy", format="npy[2,E]")) == [(0, 2), (1, 3)]
    assert listed(hl.load_graph(folder / "two.npy", format="npy[E,2]")) == [(0, 1), (2, 3)]


@few
@given(graphs(weights=("none",)).filter(lambda g: g.num_edges > 2))
def test_numpy_reads_what_we_write_as_npy(folder, graph):
    hl.save_graph(graph, folder / "o.npy")
    array = np.load(folder / "o.npy")
    assert array.shape == (2, graph.num_edges)
    assert sorted(map(tuple, array.T.tolist())) == listed(graph)


@pytest.mark.parametrize("compressed", [True, False])
def test_ogb_folders(tmp_path, compressed):
    edges = np.random.default_rng(1).integers(0, 90, (2, 400))
    expected = sorted(map(tuple, edges.T.tolist()))
    raw = tmp_path / "ogbn_test" / "raw"
    raw.mkdir(parents=True)
    with gzip.open(raw / "edge.csv.gz", "wt") as file:
        np.savetxt(file, edges.T, "%d", ",")
    (raw / "num-node-list.csv.gz").write_bytes(gzip.compress(b"100\n"))
    for name in (raw.parent, raw):
        graph = hl.load_graph(name)
        assert graph.num_vertices == 100
        assert listed(graph) == expected
    packed = tmp_path / "ogbn_packed"
    (packed / "raw").mkdir(parents=True)
    save = np.savez_compressed if compressed else np.savez
    save(packed / "raw" / "data.npz", edge_index=edges, num_nodes_list=np.array([100]), node_feat=np.ones((100, 2)))
    for name in (packed, packed / "raw" / "data.npz"):
        graph = hl.load_graph(name)
        assert graph.num_vertices == 100
        assert listed(graph) == expected


def test_what_a_format_cannot_hold_is_refused(tmp_path):
    ends = torch.tensor([0, 1]), torch.tensor([1, 0])
    fractions = hl.from_edges(*ends, torch.tensor([0.1, 0.5], dtype=torch.float64))
    negative = hl.from_edges(*ends, torch.tensor([-1, 5]))
    large = hl.from_edges(*ends, torch.tensor([1 << 40, 5]))
    for graph, name, words in (
        (fractions, "a.sg", "weights, which .sg cannot hold; write .wsg"),
        (fractions, "a.wsg", "whole weights only, but one is 0.1"),
        (fractions, "a.gr", "whole weights only, but one is 0.1"),
        (fractions, "a.bel", "would round 0.1"),
        (fractions, "a.npy", "holds no weights"),
        (negative, "a.bel", "unsigned 4-byte weights, but one is -1"),
        (large, "a.wsg", "take 4 bytes, but one is 1099511627776"),
        (hl.from_edges(*ends), "a.wsg", "no weights; write .sg"),
    ):
        with pytest.raises(ConfigError, match=words):
            hl.save_graph(graph, tmp_path / name)
    lopsided = hl.Graph.of(hl.Graph(torch.tensor([0, 1, 1]), torch.tensor([1])).neighbor_lists, directed=False)
    with pytest.raises(GraphError, match="says undirected"):
        hl.save_graph(lopsided, tmp_path / "a.mtx")
    assert list(tmp_path.iterdir()) == []
