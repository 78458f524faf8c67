"""Text formats against scipy's and networkx's readers and writers."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph.formats import text
from hinterland.runtime.errors import FormatError, OutOfMemory

from ...programs import environment, needs_compiler
from .samples import few, graphs, listed, memory_folder


@pytest.fixture(scope="module")
def folder():
    yield from memory_folder()


def triples(matrix: sp.coo_matrix) -> list[tuple]:
    return sorted(zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True))


@st.composite
def matrices(draw):
    """A scipy matrix without repeated entries, and the symmetry that it is written with."""
    n = draw(st.integers(1, 20))
    symmetry = draw(st.sampled_from(["general", "symmetric", "skew-symmetric"]))
    kind = draw(st.sampled_from(["integer", "real", "pattern"] if symmetry != "skew-symmetric" else ["integer", "real"]))
    cells = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40))
    values = st.integers(-(2**40), 2**40) if kind == "integer" else st.floats(-1e9, 1e9)
    entries = {}
    for row, column in sorted(cells):
        if symmetry != "general" and row < column:
            continue
        value = 1 if kind == "pattern" else draw(values)
        if symmetry == "skew-symmetric":
            if row == column:
                continue
            entries[column, row] = -value
        elif symmetry == "symmetric":
            entries[column, row] = value
        entries[row, column] = value
    data = np.array(list(entries.values()), np.int64 if kind != "real" else np.float64)
    row, column = (np.array([cell[i] for cell in entries], np.int32) for i in (0, 1))
    return sp.coo_matrix((data, (row, column)), shape=(n, n)), kind, symmetry


@few
@given(matrices())
def test_mtx_reads_what_scipy_writes(folder, case):
    matrix, kind, symmetry = case
    path = folder / "scipy.mtx"
    scipy.io.mmwrite(path, matrix, field=kind, symmetry=symmetry, comment="from scipy", precision=17)
    graph = hl.load_graph(path)
    assert graph.num_vertices == matrix.shape[0]
    assert graph.directed == (symmetry != "symmetric")
    if kind == "pattern":
        # Without entries scipy writes "real" whatever it is asked for.
        assert graph.weights is None or not matrix.nnz
        assert listed(graph) == [edge[:2] for edge in triples(matrix)]
    else:
        assert listed(graph) == triples(matrix)
        if matrix.nnz:
            assert graph.weights.is_floating_point() == (kind == "real")


@few
@given(graphs())
def test_scipy_reads_what_we_write_as_mtx(folder, graph):
    path = folder / "ours.mtx"
    hl.save_graph(graph, path)
    matrix = scipy.io.mmread(path)
    assert matrix.shape == (graph.num_vertices,) * 2
    found = triples(matrix.tocoo())
    # Older scipy sums repeated entries, newer keeps them: compare sums.
    ours = sp.coo_matrix((np.array([e[2] if len(e) == 3 else 1 for e in listed(graph)], np.float64),
                          (np.array([e[0] for e in listed(graph)], int), np.array([e[1] for e in listed(graph)], int))),
                         shape=matrix.shape)  # fmt: skip
    theirs = sp.coo_matrix(matrix).astype(np.float64)
    assert len(found) <= graph.num_edges
    np.testing.assert_allclose(theirs.toarray(), ours.toarray(), rtol=1e-12)


@few
@given(graphs(), st.booleans())
def test_undirected_graphs_become_symmetric_matrices(folder, graph, loops):
    path = folder / "symmetric.mtx"
    undirected = hl.graph.simplify(graph, symmetrize=True, remove_self_loops=not loops)
    hl.save_graph(undirected, path)
    again = hl.load_graph(path)
    assert b"symmetric" in path.read_bytes().splitlines()[0]
    assert not again.directed
    assert listed(again) == listed(undirected)


@few
@given(graphs(), st.sampled_from(["g.mtx", "g.txt", "g.csv", "g.tsv", "g.el", "g.txt.gz", "g.mtx.gz"]))
def test_text_comes_back_exactly(folder, graph, name):
    hl.save_graph(graph, folder / name)
    again = hl.load_graph(folder / name)
    assert again.num_vertices == graph.num_vertices
    assert listed(again) == listed(graph)
    if graph.num_edges and graph.weights is not None:
        assert again.weights.dtype == graph.weights.dtype


@few
@given(graphs(weights=("length", "none")))
def test_dimacs_comes_back(folder, graph):
    hl.save_graph(graph, folder / "g.gr")
    again = hl.load_graph(folder / "g.gr")
    expected = listed(graph) if graph.weights is not None else [(*edge, 1) for edge in listed(graph)]
    assert (again.num_vertices, listed(again)) == (graph.num_vertices, expected)


@few
@given(graphs(weights=("none", "float")))
def test_networkx_and_we_read_each_others_edge_lists(folder, graph):
    path = folder / "nx.txt"
    simple = hl.graph.simplify(graph, remove_duplicates=True)
    ours = nx.DiGraph()
    ours.add_nodes_from(range(simple.num_vertices))
    for edge in listed(simple):
        ours.add_edge(edge[0], edge[1], **({"weight": edge[2]} if len(edge) == 3 else {}))
    hl.save_graph(simple, path)
    columns = [("weight", float)] if simple.weights is not None else False
    theirs = nx.read_edgelist(path, nodetype=int, create_using=nx.DiGraph, data=columns)
    assert sorted(theirs.edges(data=True)) == sorted(ours.edges(data=True))
    nx.write_edgelist(ours, path, data=["weight"] if simple.weights is not None else False)
    if ours.number_of_edges():
        again = hl.load_graph(path)
        assert listed(again) == listed(simple)


@pytest.mark.parametrize(
    "content",
    [
        b"# SNAP\n# Nodes: 4 Edges: 3\n0\t1\n1\t2\n2\t0\n",
        b"% KONECT\r\n0 1\r\n1 2\r\n2 0\r\n# Nodes: 4 is a comment here too\r\n",
        b"\n  0 , 1\n1,2\n\n2 ,0",
        b"src,dst\n0,1\n1,2\n2,0\n",
        b"\xef\xbb\xbfFromNodeId\tToNodeId\n0\t1\n1\t2\n2\t0\n",
    ],
)
def test_edge_lists_as_they_come(tmp_path, content):
    path = tmp_path / "list"
    path.write_bytes(content)
    graph = hl.load_graph(path)
    assert graph.num_vertices == (4 if content.startswith(b"# SNAP") else 3)
    assert listed(graph) == [(0, 1), (1, 2), (2, 0)]
    path.write_bytes(gzip.compress(content[:9]) + gzip.compress(content[9:]) + b"\0\0")
    assert listed(hl.load_graph(path)) == listed(graph)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (["1", "-7"], torch.int32),
        (["1", "2147483648"], torch.int64),
        (["1", "0.5"], torch.float32),
        (["1", "+1e3"], torch.float32),
        (["0.1", "7"], torch.float64),
        (["16777217", "0.5"], torch.float64),
        (["9007199254740991", "0.5"], torch.float64),
        (["5e-324", "1"], torch.float64),
    ],
)
def test_weights_take_the_smallest_type_that_holds_them(tmp_path, values, dtype):
    path = tmp_path / "g.wel"
    path.write_text("".join(f"{i} {i + 1} {value}\n" for i, value in enumerate(values)))
    graph = hl.load_graph(path)
    assert graph.weights.dtype == dtype
    assert graph.weights.tolist() == [float(v) if dtype.is_floating_point else int(v) for v in values]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("symmetrize", [False, True])
@pytest.mark.parametrize("once", [False, True], ids=["all", "once"])
def test_runs_become_what_the_list_of_edges_does(tmp_path, weighted, symmetrize, once):
    """Several runs in a random order, rows and neighbours of one to three bytes, a row longer than a run."""
    rng = np.random.default_rng(5)
    src, dst = (torch.from_numpy(rng.integers(0, 70_000, 200_000) >> rng.integers(0, 17, 200_000)) for _ in range(2))
    src[:80_000] = 7
    weights = torch.from_numpy(rng.integers(-9, 9, 200_000)).int() if weighted else None
    columns = [src, dst] if weights is None else [src, dst, weights]
    path = tmp_path / "g.txt"
    path.write_text("\n".join(" ".join(map(str, line)) for line in zip(*(c.tolist() for c in columns), strict=True)))
    options = {"symmetrize": symmetrize, "remove_self_loops": once, "remove_duplicates": once}
    found, expected = hl.load_graph(path, **options), hl.from_edges(src, dst, weights, **options)
    for name in ("indptr", "indices") + ("weights",) * weighted:
        assert torch.equal(getattr(found, name), getattr(expected, name))
    assert found.directed is not symmetrize


LARGE_PAGES = """
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

extern "C" long sysconf(int name) noexcept {
  static const auto real = reinterpret_cast<long (*)(int)>(dlsym(RTLD_NEXT, "sysconf"));
  return name == _SC_PAGESIZE ? 65536 : real(name);
}

extern "C" int madvise(void* at, size_t bytes, int advice) noexcept {
  static const auto real = reinterpret_cast<int (*)(void*, size_t, int)>(dlsym(RTLD_NEXT, "madvise"));
  if (advice == MADV_DONTNEED) write(1, bytes % 65536 == 0 ? "whole\\n" : "parts\\n", 6);
  return real(at, bytes, advice);
}
"""
LOADS = """
import sys
from hinterland.graph import load_graph
load_graph(sys.argv[1])
"""


@needs_compiler
@pytest.mark.unsanitized
def test_memory_is_given_back_by_whole_pages_however_large(tmp_path):
    """Systems with pages of 64 KiB, as aarch64 may have: Linux gives all of a page up that a range ends in."""
    (tmp_path / "pages.cpp").write_text(LARGE_PAGES)
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "pages.cpp", "-o", tmp_path / "pages.so", "-ldl"], check=True)
    ends = np.random.default_rng(5).integers(0, 70_000, (400_000, 2))
    np.savetxt(tmp_path / "g.txt", ends, fmt="%d")
    env = environment(LD_PRELOAD=str(tmp_path / "pages.so"))
    said = subprocess.run(
        [sys.executable, "-c", LOADS, tmp_path / "g.txt"], env=env, capture_output=True, text=True, check=True
    )
    assert set(said.stdout.split()) == {"whole"}


@pytest.mark.parametrize("ending", ["\n", "\r\n", " \t\n"])
def test_blank_lines_and_comments_before_the_edges_are_passed_over_at_once(tmp_path, monkeypatch, ending):
    calls = []
    readline = text.TextReader.readline
    monkeypatch.setattr(text.TextReader, "readline", lambda self: calls.append(self) or readline(self))
    blank = ending * 1_000_000
    banner = "%%MatrixMarket matrix coordinate pattern general\n"
    for name, before, edge, lines in [
        ("g.txt", f"{blank}# Nodes: 9\n#\n{blank}", "0 x", 2_000_003),
        ("g.csv", f"# Nodes: 9\n{blank}source,target\n{blank}", "0,x", 2_000_003),
        ("g.mtx", f"{banner}{blank}%\n{blank}9 9 1\n", "1 x", 2_000_004),
        ("g.gr", f"c\nc a\n{blank}p sp 9 1\n", "a 1 x 1", 1_000_004),
    ]:
        calls.clear()
        (tmp_path / name).write_text(before + edge.replace("x", "3"))
        assert hl.load_graph(tmp_path / name).num_vertices == 9
        assert len(calls) < 100
        (tmp_path / name).write_text(before + edge)
        with pytest.raises(FormatError, match=f'line {lines}: the neighbour is "x"'):
            hl.load_graph(tmp_path / name)


def test_types_widen_in_later_blocks(tmp_path, monkeypatch):
    """Numbers that need 8 bytes after many that do not, across blocks, with comments between."""
    monkeypatch.setattr(text, "TEXT_BYTES", 5000)
    monkeypatch.setattr(text, "LONGEST_LINE", 1000)
    rng = np.random.default_rng(3)
    src, dst = rng.integers(0, 5000, (2, 20000))
    weights = rng.integers(0, 100, 20000).astype(np.float64)
    weights[12000:] += rng.random(8000)
    lines = [f"{u}\t{v}\t{w:.17g}" for u, v, w in zip(src, dst, weights, strict=True)]
    lines[::50] = [line + "\n# note" for line in lines[::50]]
    path = tmp_path / "g.txt"
    path.write_text("\n".join(lines))
    graph = hl.load_graph(path)
    assert graph.weights.dtype == torch.float64
    assert listed(graph) == sorted(zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True))


def test_vertex_numbers_beyond_four_bytes(tmp_path):
    from hinterland.graph.formats import edges
    from hinterland.graph.formats.content import LoadOptions

    path = tmp_path / "g.txt"
    path.write_text("1 2\n3 4\n5 3000000000\n")
    with pytest.raises(OutOfMemory, match=r"3000000001 vertices \(the largest number is on line 3\) for 3 edges"):
        edges.read(str(path), LoadOptions({}))
    parser = hl._core.EdgeParser("g", comments="#")
    content = np.frombuffer(path.read_bytes(), np.uint8)
    assert parser.feed(content.ctypes.data, len(content), True) == len(content)
    src, dst, weights = text.take(parser)
    assert (src.tolist(), dst.tolist(), weights) == ([1, 3, 5], [2, 4, 3000000000], None)


def test_errors_name_the_exact_line_in_any_block(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "TEXT_BYTES", 3000)
    monkeypatch.setattr(text, "LONGEST_LINE", 500)
    path = tmp_path / "g.txt"
    for bad in (1, 2, 777, 2999, 3000):
        lines = ["# x" if i % 7 == 3 and i != bad else f"{i} {i + 1}" for i in range(1, 3001)]
        lines[bad - 1] = "17 x"
        path.write_text("\n".join(lines))
        with pytest.raises(hl.runtime.errors.FormatError, match=rf'g.txt: line {bad}: the neighbour is "x", which is not'):
            hl.load_graph(path)


@pytest.fixture(scope="module")
def long_text():
    """(src, dst, lines) of several MB, which threads read in pieces: comments and blank lines between the edges."""
    src, dst = np.random.default_rng(6).integers(0, 50_000, (2, 300_000))
    lines = [f"{u} {v}" for u, v in zip(src.tolist(), dst.tolist(), strict=True)]
    lines[::90] = [line + "\n\n# note" for line in lines[::90]]
    return torch.from_numpy(src), torch.from_numpy(dst), "\n".join(lines).split("\n")


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("sort_neighbors", [True, False])
def test_a_long_text_is_read_in_pieces(tmp_path, long_text, threads, sort_neighbors, set_threads):
    src, dst, lines = long_text
    path = tmp_path / "g.txt"
    path.write_text("\n".join(lines))
    set_threads(threads)
    found = hl.load_graph(path, sort_neighbors=sort_neighbors)
    expected = hl.from_edges(src, dst, sort_neighbors=sort_neighbors)
    assert torch.equal(found.indptr, expected.indptr)
    assert torch.equal(found.indices, expected.indices)


def test_lines_of_a_long_text_are_counted_across_its_pieces(tmp_path, long_text):
    path = tmp_path / "g.txt"
    for at in (0, 70_001, 150_001, len(long_text[2]) - 1):
        lines = list(long_text[2])
        lines[at] = "17 x"
        path.write_text("\n".join(lines))
        with pytest.raises(FormatError, match=f'line {at + 1}: the neighbour is "x"'):
            hl.load_graph(path)
        lines[at] = "17 3000000000"
        path.write_text("\n".join(lines))
        with pytest.raises(OutOfMemory, match=rf"the largest number is on line {at + 1}\)"):
            hl.load_graph(path)


@pytest.mark.unsanitized
def test_threads_bound_to_cores_read_the_same(tmp_path, long_text):
    src, dst, lines = long_text
    (tmp_path / "g.txt").write_text("\n".join(lines))
    code = f"import hinterland as hl; hl.save_graph(hl.load_graph({str(tmp_path / 'g.txt')!r}), {str(tmp_path / 'g.hl')!r})"
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "true"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert torch.equal(hl.load_graph(tmp_path / "g.hl").indices, hl.from_edges(src, dst).indices)


def test_one_thread_reads_what_many_do(tmp_path, set_threads):
    path = tmp_path / "g.txt"
    rng = np.random.default_rng(5)
    np.savetxt(path, rng.integers(0, 1000, (30000, 2)), "%d")
    found = []
    for count in (1, 2, 7):
        set_threads(count)
        graph = hl.load_graph(path, sort_neighbors=False)
        found.append((graph.indptr.tolist(), graph.indices.tolist()))
    assert found[0] == found[1] == found[2]


def test_real_text(real_data):
    epinions = hl.load_graph(real_data / "soc-Epinions1.txt")
    assert (epinions.num_vertices, epinions.num_edges, epinions.directed) == (75877, 405739, True)
    src, dst = np.loadtxt(real_data / "soc-Epinions1.txt", dtype=np.int64).T
    assert listed(epinions) == sorted(zip(src.tolist(), dst.tolist(), strict=True))
    email = hl.load_graph(real_data / "email-Eu-core.csv")
    assert (email.num_vertices, email.num_edges, email.weights.dtype) == (1005, 25571, torch.float32)
    matrix = scipy.io.mmread(real_data / "netscience.mtx").tocoo()
    science = hl.load_graph(real_data / "netscience.mtx")
    assert (science.num_vertices, science.directed) == (1589, False)
    assert listed(science) == triples(matrix)


@pytest.mark.parametrize(
    ("least", "dtype"), [(-(2**31), torch.int64), (-(2**31) + 1, torch.int32), (-(2**63) + 1, torch.int64)]
)
def test_mirrored_entries_have_the_opposite_value(tmp_path, least, dtype):
    (tmp_path / "g.mtx").write_text(f"%%MatrixMarket matrix coordinate integer skew-symmetric\n2 2 1\n2 1 {least}\n")
    graph = hl.load_graph(tmp_path / "g.mtx")
    assert listed(graph) == [(0, 1, -least), (1, 0, least)] and graph.weights.dtype == dtype


def test_mtx_from_memory_matches_scipy_field_names(tmp_path):
    matrix = sp.coo_matrix(np.array([[0, 3], [5, 0]], np.uint32))
    text_ = io.BytesIO()
    scipy.io.mmwrite(text_, matrix)
    (tmp_path / "g.mtx").write_bytes(text_.getvalue())
    assert listed(hl.load_graph(tmp_path / "g.mtx")) == [(0, 1, 3), (1, 0, 5)]
