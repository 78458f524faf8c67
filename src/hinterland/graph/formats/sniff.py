"""Which format a file has: the one that its ending names, which its content may not contradict, or else that of its content."""

from __future__ import annotations

import os
import re

from ...memory import hl as ours
from ...runtime.errors import FormatError, StorageError
from ...runtime.thresholds import HEAD_BYTES
from . import bel, gap, gr, metis, mtx
from .arrays import MAGIC as NPY_MAGIC
from .files import GZIP_MAGIC, open_text, read_head

_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")

_UNPACK, _NETWORKX = "unpack it first, as with", "read it with networkx.{}, and give that to hl.from_networkx"
_ARROW = "write its columns of sources and targets as .csv or, as one array, as .npy"
# Content that is none of a graph here, by how it begins: what it is, and what to do.
_FOREIGN = (
    (rb"BZh[1-9]1AY&SY", "a file compressed by bzip2", f"{_UNPACK} bunzip2, or tar xjf if it is an archive"),
    (rb"\xfd7zXZ\0", "a file compressed by xz", f"{_UNPACK} unxz, or tar xJf if it is an archive"),
    (rb"\x28\xb5\x2f\xfd", "a file compressed by zstd", f"{_UNPACK} unzstd"),
    (rb"\x04\x22\x4d\x18", "a file compressed by lz4", f"{_UNPACK} unlz4"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", f"{_UNPACK} 7z x"),
    (rb"[\s\S]{257}ustar", "a tar archive", f"{_UNPACK} tar xf, and name the file in it"),
    (rb"(?:\xff\xfe|\xfe\xff|\0\0\xfe\xff)", "text in UTF-16 or UTF-32", "save it as UTF-8, as with iconv -f utf-16 -t utf-8"),
    (rb"PAR1", "a Parquet file", _ARROW),
    (rb"(?:ARROW1|FEA1)", "an Arrow file", _ARROW),
    (rb"\x89HDF\r\n", "an HDF5 file", "write its edges as text, or its matrix as .npz with scipy.sparse.save_npz"),
    (rb"MATLAB 5\.0", "a MATLAB file", "read it with scipy.io.loadmat, and take its matrix with hl.from_scipy"),
    (rb"SQLite format 3\0", "an SQLite data base", "write its table of edges as .csv"),
    (rb"\x80[\x02-\x05][\s\S]", "a pickle", f"load it where it can be trusted; {_ARROW}"),
    (rb">>(?:graph6|sparse6|digraph6)<<", "a graph6 or sparse6 file", _NETWORKX.format("read_graph6 or read_sparse6")),
    (rb"\s*(?:<\?xml|<!--|<graphml|<gexf|<!DOCTYPE)[\s\S]*<gexf", "GEXF", _NETWORKX.format("read_gexf")),
    (rb"\s*(?:<\?xml|<!--|<graphml|<!DOCTYPE graphml)[\s\S]*<graphml", "GraphML", _NETWORKX.format("read_graphml")),
    (rb"\s*<(?:\?xml|!DOCTYPE|!--|html|graph)", "XML or HTML", "fetch or write the graph itself, as a list of edges"),
    (rb"(?:\s|[#%][^\n]*\n|(?:creator|version|comment)\b[^\n]*\n)*graph\s*\[", "GML", _NETWORKX.format("read_gml")),
    (rb"(?:\s|%[^\n]*\n)*\*(?:vertices|network|arcs|edges)", "a Pajek network", _NETWORKX.format("read_pajek")),
    (rb"(?:\s|//[^\n]*\n)*(?:strict\s+)?(?:di)?graph\b[^\n{]*\{", "DOT (Graphviz)", _NETWORKX.format("nx_pydot.read_dot")),
    (
        rb"""\s*(?:\{\s*(?:["'}]|-?\d+\s*:)|\[\s*[\[{\]])""",
        "JSON",
        _NETWORKX.format("node_link_graph(json.load(file)) if it is node-link data"),
    ),
    (
        rb"(?:Weighted)?(?:Adjacency|Edge)(?:Graph|Array)\s",
        "a graph of PBBS or Ligra",
        "write its edges as text, one a line, without this first line",
    ),
    (rb"(?:#[^\n]*\n)*# GMT [^\n]*\n", "an adjacency list of networkx", _NETWORKX.format("read_adjlist")),
)
_FOREIGN_STARTS = tuple((re.compile(start, re.IGNORECASE), title, remedy) for start, title, remedy in _FOREIGN)
_ADJACENCY = (".adjlist", ".adj", ".multiline_adjlist")


def sniff(path: str, by_name: str | None) -> str:
    """The format's name; ``by_name`` is the one that the ending names.

    Only an edge list's ending says nothing: texts of all kinds are called .txt.

    Raises:
        FormatError: the content is surely of another format than the ending says, or of none that is known here.
    """
    if os.path.isdir(path):
        return "ogb"  # whose reader says what is missing if it is none
    if bel.matches(path):
        return "bel"
    if by_name == "bel" and not os.path.exists(path):
        raise StorageError(f"{path}: cannot be read: {path}.col does not exist; check the path")
    head = read_head(path, HEAD_BYTES)
    if not head:
        raise FormatError(f"{path}: the file is empty; write it again, or name another")
    kind = _by_content(head, path)
    if kind == "edges" and path.lower().removesuffix(".gz").endswith(_ADJACENCY):
        raise FormatError(
            f"{path}: its ending says that this is an adjacency list, a vertex with its neighbours on a line; "
            f"{_NETWORKX.format('read_adjlist')}, or say format='edges' if it is an edge list"
        )
    if by_name in (None, "edges"):
        if kind is not None:
            return kind
        start = head[:8].hex(" ")
        raise FormatError(
            f"{path}: the content (it begins with {start}) is of no graph format that is read here; "
            "`hinterland convert --help` lists them"
        )
    if kind not in (by_name, "edges", None):
        raise FormatError(
            f"{path}: its ending says {by_name!r}, but its content {kind!r}; rename it, or say format={kind!r} if the content "
            "is right"
        )
    return by_name  # whose reader says what is wrong with it


def _by_content(head: bytes, path: str) -> str | None:
    """The format that the content has: "edges" for any text that has no other, None for bytes that are of none.

    FormatError for what is known to be of no graph here.
    """
    if ours.matches(head):
        return "hl"
    if head.startswith(_ZIP_MAGICS):
        return "npz"
    if head.startswith(NPY_MAGIC):
        return "npy"
    if kind := gap.matches(head, path):
        return kind
    if head.startswith(GZIP_MAGIC):
        with open_text(path)[0] as text:
            head = text.read(HEAD_BYTES)
    for start, title, remedy in _FOREIGN_STARTS:
        if start.match(head):
            raise FormatError(f"{path}: this is {title}, which is not read here; {remedy}")
    if head.translate(None, bytes(range(32, 256)) + b"\t\n\r\f"):  # no text
        return None
    # Only of a whole text it can be told: a list of edges may begin with any two numbers.
    kind = _text_format(head)
    return "metis" if kind == "edges" and len(head) < HEAD_BYTES and metis.matches(head) else kind


def _text_format(head: bytes) -> str:
    head = head.removeprefix(b"\xef\xbb\xbf")
    if mtx.matches(head):
        return "mtx"
    for line in head.splitlines():
        words = line.split()
        if not words or words[0] == b"c":
            continue
        return "gr" if gr.matches(line) else "edges"
    return "gr" if head.lstrip().startswith(b"c") else "edges"
