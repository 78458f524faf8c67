"""Edge lists as SNAP, GAP (.el, .wel) and CSV exports have them: ``source target [weight]`` a line, vertices from 0.

Columns stand between spaces, tabs or one comma each; lines that begin with # or % are comments; gzip is read as it is.
"""

from __future__ import annotations

import re

from ... import _core
from ...runtime.errors import FormatError
from ..graph import Graph
from .content import EdgeList, EdgeRuns, Options, check_sparsity, plain_weights
from .text import TextReader, edge_text, parsed, passing, write_text

_COMMENTS = b"#%"
_PASSED = passing(rb"[#%][^\n]*+")
_COLUMN = re.compile(rb"[ \t\r]*,[ \t\r]*|[ \t\r]+")
_NAME = re.compile(rb'["A-Za-z_][^,\t]*')
_NODES = re.compile(rb"\bNodes:\s*([0-9]{1,15})\b")


def read(path: str, options: Options) -> EdgeList | EdgeRuns:
    """The list's edges as they stand: directed, each line one edge.

    The number of vertices is the largest number in the list plus one, or what a comment "# Nodes: N" says if that is more.
    A line of two or three names before the first edge is a CSV heading.
    """
    with TextReader(path) as reader:
        first, nodes = _head(reader)
        columns = len(_split(first)) if first else 2
        if columns not in (2, 3):
            raise reader.fail(f"{columns} columns; an edge list has two or three: source, target, and a weight")
        parser = _core.EdgeParser(
            path,
            comments=_COMMENTS.decode(),
            commas=True,
            weights="any" if columns == 3 else "none",
            first_line=reader.line if first else reader.line + 1,
            rules=options.rules,
        )
        reader.parse(parser, first)
    if parser.edges == 0 and nodes is None:
        raise FormatError(f"{path}: the file holds no edge and no comment '# Nodes: N'; there is no graph in it")
    vertices = max(parser.largest + 1, nodes or 0)
    where = f" (the largest number is on line {parser.largest_line})" if parser.largest + 1 == vertices else ""
    check_sparsity(path, vertices, parser.edges, where)
    return parsed(parser, vertices, options.rules)


def _split(line: bytes) -> list[bytes]:
    return _COLUMN.split(line.strip())


def _head(reader: TextReader) -> tuple[bytes, int | None]:
    """The first edge's line, and the number of vertices if a comment tells it."""
    nodes = None

    def see(comments: bytes) -> None:
        nonlocal nodes
        for found in _NODES.finditer(comments):
            nodes = int(found[1])

    line = reader.readline_behind(_PASSED, see)
    if len(_split(line)) in (2, 3) and all(map(_NAME.fullmatch, _split(line))):
        line = reader.readline_behind(_PASSED, see)
    return line, nodes


def write(graph: Graph, path: str) -> None:
    """Writes every stored edge; commas in a ``.csv``, tabs in a ``.tsv``, else spaces."""
    name = path.removesuffix(".gz")
    separator = "," if name.endswith(".csv") else "\t" if name.endswith(".tsv") else " "
    head = f"# Nodes: {graph.num_vertices} Edges: {graph.num_edges}\n"
    edges = edge_text(graph, separator=separator, weights=lambda part: plain_weights(path, part))
    write_text(path, head, edges)
