"""METIS graphs, against the networkx graphs that they were written from."""

from __future__ import annotations

import gzip

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph import formats
from hinterland.graph.formats import metis
from hinterland.runtime.errors import ConfigError, FormatError

from .samples import few, listed, memory_folder


@pytest.fixture(scope="module")
def folder():
    yield from memory_folder()


def text_of(graph: nx.Graph, *, weighted: bool, sizes: bool = False, counts: int = 0, comments: bool = False) -> str:
    """The graph as section 4.1.1 of METIS's manual has it; its vertices are 0 to n - 1."""
    form = f" {sizes:d}{counts > 0:d}{weighted:d}" + f" {counts}" * (counts > 0)
    lines = [f"{len(graph)} {graph.number_of_edges()}" + form * (weighted or sizes or counts > 0)]
    for v in range(len(graph)):
        ends = [f"{u + 1} {edge['weight']}" if weighted else str(u + 1) for u, edge in graph[v].items()]
        lines += ["% between"] * comments + [" ".join(["9"] * sizes + ["77"] * counts + ends)]
    return "\n".join(lines)


def both_ways(graph: nx.Graph, *, weighted: bool) -> list[tuple]:
    return sorted(
        (*ends, edge["weight"]) if weighted else ends for u, v, edge in graph.edges.data() for ends in ((u, v), (v, u))
    )


@st.composite
def theirs(draw):
    n = draw(st.integers(1, 12))
    ends = st.integers(0, n - 1)
    edges = draw(
        st.lists(st.tuples(ends, ends, st.integers(1, 2**31 - 1)).filter(lambda edge: edge[0] != edge[1]), max_size=30)
    )
    graph = nx.empty_graph(n)
    graph.add_weighted_edges_from(edges)
    return graph


@few
@given(theirs(), st.booleans(), st.booleans(), st.integers(0, 2), st.booleans(), st.booleans())
def test_every_form_of_it(folder, graph, weighted, sizes, counts, comments, packed):
    content = text_of(graph, weighted=weighted, sizes=sizes, counts=counts, comments=comments).encode()
    path = folder / ("g.graph.gz" if packed else "g.graph")
    path.write_bytes(gzip.compress(content) if packed else content)
    found = hl.load_graph(path)
    assert listed(found) == both_ways(graph, weighted=weighted) and not found.directed and found.num_vertices == len(graph)
    assert found.weight_type == (torch.int32 if weighted else None)
    assert listed(hl.load_graph(path, symmetrize=True)) == listed(found)  # it is already


@pytest.mark.parametrize("name", ["g.graph", "g.metis", "g.txt", "g"])
@pytest.mark.parametrize("width", [2, 3])
def test_lines_of_one_width_are_no_edges(tmp_path, name, width):
    """A cycle of four, and a graph of which each vertex has three neighbours: two and three numbers on each line."""
    graph = nx.cycle_graph(4) if width == 2 else nx.complete_bipartite_graph(3, 3)
    content = text_of(graph, weighted=False)
    if width == 3:
        content = content.replace("\n", " 000\n", 1)
    (tmp_path / name).write_text(content)
    assert formats.detect(tmp_path / name) == "metis"
    assert listed(hl.load_graph(tmp_path / name)) == both_ways(graph, weighted=False)
    assert listed(hl.load_graph(tmp_path / name, format="edges")) != both_ways(graph, weighted=False)


@pytest.mark.parametrize("content", ["1 1\n1 1\n", "2 2\n1 2\n2 2\n", "2 1\n1 2\n2 1\n", "3 3\n1 2\n2 3\n3 1\n", "0 0\n"])
def test_edges_are_no_graph_of_metis_where_the_ending_does_not_say_so(tmp_path, content):
    (tmp_path / "g.txt").write_text(content)
    assert formats.detect(tmp_path / "g.txt") == "edges"


@pytest.mark.parametrize("width", [2, 3])
def test_long_lines_of_one_width_are_no_edges(tmp_path, width):
    """More than is looked at to tell what a text is."""
    graph = nx.cycle_graph(8000) if width == 2 else nx.circulant_graph(8000, [1, 4000])
    content = text_of(graph, weighted=False)
    (tmp_path / "g.txt").write_text(content if width == 2 else content.replace("\n", " 000\n", 1))
    with pytest.raises(FormatError, match="is that of a METIS graph, .*; say format='metis'"):
        hl.load_graph(tmp_path / "g.txt")
    assert listed(hl.load_graph(tmp_path / "g.txt", format="metis")) == both_ways(graph, weighted=False)


def test_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(metis, "METIS_BYTES", 500)
    graph = nx.gnm_random_graph(300, 2000, seed=4)
    nx.set_edge_attributes(graph, {edge: 2**40 + i for i, edge in enumerate(graph.edges)}, "weight")
    (tmp_path / "g.graph").write_text(text_of(graph, weighted=True, comments=True))
    found = hl.load_graph(tmp_path / "g.graph")
    assert found.weight_type == torch.int64 and listed(found) == both_ways(graph, weighted=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0 1\n1 2\n2 0\n", "the list of vertex 1 has 2 numbers, but there are 0 vertices; .*format='edges'"),
        ("3 2\n2\n1 3\n4\n", "vertex 3 lists 4, but the vertices are 1 to 3"),
        ("3 2\n2\n1 0\n2\n", "vertex 2 lists 0"),
        ("3 2\n2\n1 x3\n2\n", "the list of vertex 2 has 'x', which is no number"),
        ("3 2\n2\n1 99999999999999999999\n2\n", "the list of vertex 2 has '99999999999999999999', which is no number"),
        ("3 2\n2\n1 3\n", "promises 3 vertices and 2 edges, which list 4 neighbours, but 2 vertices list 3"),
        ("3 2\n2\n1 3\n\n", "but 3 vertices list 3"),
        ("3 1\n2\n1 3\n2\n", "promises 3 vertices and 1 edges"),
        ("3 2\n2\n1 3\n2\n1\n", "the list of vertex 4 has 1 numbers, but there are 3 vertices"),
        ("3 2\n2 3\n1\n2\n", "not every edge has its reverse: .*lists each edge at both its ends: correct it"),
        ("3 2 001\n2 5\n1 5 3\n2 5\n", "the list of vertex 2 has 3 numbers, .*each with a weight"),
        ("3 2 1\n2 5\n1 5 3 7\n2 8\n", "not every edge has its reverse"),
        ("3 2 10 2\n1 1 2\n1\n1 1 2\n", "the list of vertex 2 has 1 numbers, of which 2 are its own"),
        ("3 2 7\n2\n1 3\n2\n", "the format is 7; it must be three digits"),
        ("3\n2\n", "the first line is '3'; it must read: VERTICES EDGES"),
        ("3 -2\n2\n", "the first line is '3 -2'"),
        ("", "the file is empty"),
        ("% nothing\n", "the first line is ''"),
        ("5000000 1\n2\n1\n", "their offsets alone would take"),
    ],
)
def test_what_is_no_such_graph(tmp_path, content, words):
    path = tmp_path / "g.graph"
    path.write_text(content)
    with pytest.raises((FormatError, MemoryError), match=words) as raised:
        hl.load_graph(path)
    assert str(raised.value).startswith(str(path))


def test_it_is_read_and_not_written(tmp_path):
    with pytest.raises(ConfigError, match="METIS is read, not written"):
        hl.save_graph(hl.from_edges(torch.tensor([0]), torch.tensor([1])), tmp_path / "g.graph")
