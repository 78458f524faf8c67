"""Files of other formats get a sentence that names the format and the way to read it, whatever they are called."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import sqlite3
import tarfile
import zipfile

import networkx as nx
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse as sp

import hinterland as hl
from hinterland.runtime.errors import FormatError

GRAPH = nx.path_graph(3)
TEXT = b"0 1\n1 2\n"


def written_by(write, *rest) -> bytes:
    out = io.BytesIO()
    write(GRAPH, out, *rest)
    return out.getvalue()


def of_table(write) -> bytes:
    out = io.BytesIO()
    write(pyarrow.table({"source": [0, 1], "target": [1, 2]}), out)
    return out.getvalue()


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("out.toy")
        info.size = len(TEXT)
        archive.addfile(info, io.BytesIO(TEXT))
    return out.getvalue()


def matlab() -> bytes:
    out = io.BytesIO()
    scipy.io.savemat(out, {"A": sp.eye(3)})
    return out.getvalue()


def database() -> bytes:
    with sqlite3.connect(":memory:") as base:
        base.execute("create table edges (source, target)")
        return base.serialize()


FOREIGN = {
    "graphml": (
        lambda: written_by(nx.write_graphml_xml),
        "GraphML, .*networkx.read_graphml, and give that to hl.from_networkx",
    ),
    "gexf": (lambda: written_by(nx.write_gexf), "GEXF, .*networkx.read_gexf"),
    "gml": (lambda: written_by(nx.write_gml), "GML, .*networkx.read_gml"),
    "gml by others": (lambda: b'Creator "Gephi"\n# x\ngraph\n[\n directed 0\n]\n', "GML"),
    "pajek": (lambda: written_by(nx.write_pajek), "Pajek network, .*networkx.read_pajek"),
    "pajek by others": (lambda: b"% x\n\n*Network toy\n*Vertices 2\n", "Pajek network"),
    "json": (lambda: json.dumps(nx.node_link_data(GRAPH)).encode(), "JSON, .*networkx.node_link_graph"),
    "json of arrays": (lambda: b"\n [[0, 1], [1, 2]]", "JSON"),
    "dot": (lambda: b"// x\nstrict digraph G {\n a -> b;\n}\n", "DOT"),
    "graph6": (lambda: written_by(nx.write_graph6), "graph6"),
    "adjacency list": (lambda: written_by(nx.write_adjlist), "adjacency list of networkx, .*networkx.read_adjlist"),
    "several lines": (lambda: written_by(nx.write_multiline_adjlist), "adjacency list of networkx"),
    "pbbs": (lambda: b"AdjacencyGraph\n3\n2\n0\n1\n2\n1\n2\n", "PBBS or Ligra"),
    "html": (lambda: b"<!DOCTYPE html><html>404</html>", "XML or HTML"),
    "bz2": (lambda: bz2.compress(TEXT), "bzip2, .*bunzip2"),
    "xz": (lambda: lzma.compress(TEXT), "xz, .*unxz"),
    "zstd": (lambda: pyarrow.compress(TEXT, "zstd", asbytes=True), "zstd, .*unzstd"),
    "lz4": (lambda: pyarrow.compress(TEXT, "lz4", asbytes=True), "lz4, .*unlz4"),
    "tar": (tar, "a tar archive, .*tar xf"),
    "utf-16": (lambda: TEXT.decode().encode("utf-16"), "UTF-16 or UTF-32, .*iconv"),
    "utf-32": (lambda: TEXT.decode().encode("utf-32"), "UTF-16 or UTF-32"),
    "parquet": (lambda: of_table(pyarrow.parquet.write_table), "Parquet file, .*as .csv"),
    "feather": (lambda: of_table(pyarrow.feather.write_feather), "Arrow file, .*as .csv"),
    "matlab": (matlab, "MATLAB file, .*hl.from_scipy"),
    "hdf5": (lambda: b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5 file"),
    "sqlite": (database, "SQLite data base"),
    "pickle": (lambda: pickle.dumps(GRAPH), "a pickle"),
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("name", ["g", "g.txt", "g.csv", "g.mtx", "g.gr", "g.graph", "g.npz"])
def test_what_it_is_is_said(tmp_path, kind, name):
    content, words = FOREIGN[kind]
    (tmp_path / name).write_bytes(content())
    with pytest.raises(FormatError, match=f"^{tmp_path}/{name}: this is .*{words}"):
        hl.load_graph(tmp_path / name)
    (tmp_path / name).write_bytes(gzip.compress(content()))
    with pytest.raises(FormatError, match=words):
        hl.load_graph(tmp_path / name)


def test_archives_of_texts(tmp_path):
    with zipfile.ZipFile(tmp_path / "g.txt", "w") as archive:
        archive.writestr("edges.txt", TEXT)
    with pytest.raises(FormatError, match="the archive has no array"):
        hl.load_graph(tmp_path / "g.txt")


@pytest.mark.parametrize("name", ["g.adjlist", "g.adj", "g.adjlist.gz"])
def test_an_ending_says_that_a_list_is_of_neighbours(tmp_path, name):
    """All lines have three numbers, which would be an edge and its weight."""
    content = b"0 1 2\n1 2 0\n2 0 1\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(FormatError, match="adjacency list, .*networkx.read_adjlist, .*or say format='edges'"):
        hl.load_graph(tmp_path / name)
    assert hl.load_graph(tmp_path / name, format="edges").weights.tolist() == [2, 0, 1]


@pytest.mark.parametrize("content", [b"graph 1\n", b"json,text\n0,1\n", b"# graph [\n0 1\n", b"parent child\n0 1\n"])
def test_what_only_looks_like_it(tmp_path, content):
    (tmp_path / "g.txt").write_bytes(content)
    try:
        assert hl.load_graph(tmp_path / "g.txt").num_edges == 1
    except FormatError as error:
        assert "this is" not in str(error)
