"""DIMACS shortest-path graphs (.gr): ``p sp N M``, then M arcs ``a U V WEIGHT``, vertices from 1.

Source: the file formats of the 9th DIMACS implementation challenge (2006).
"""

from __future__ import annotations

import torch

from ...runtime.errors import ConfigError
from ..graph import Graph
from .content import EdgeList, EdgeRuns, LoadOptions, check_counts, plain_weights
from .text import TextReader, edge_text, integers, parsed, passing, write_text

_PASSED = passing(rb"c(?:[ \t\r\f\v][^\n]*+)?+")


def matches(line: bytes) -> bool:
    """Whether a text whose first line that is no comment of DIMACS ("c ...") is ``line`` has this format."""
    words = line.split()
    return words[:1] == [b"p"] or (words[:1] == [b"a"] and len(words) == 4)


def read(path: str, options: LoadOptions) -> EdgeList | EdgeRuns:
    """The arcs, directed and weighted."""
    with TextReader(path) as reader:
        line = reader.readline_behind(_PASSED)
        words = line.split()
        if words[:1] != [b"p"]:
            raise reader.fail(
                "the first line that is no comment must read: p sp VERTICES ARCS; restore it, or say format='edges' for an "
                "edge list"
            )
        if words[1:2] != [b"sp"] or len(words) != 4:
            text = line.strip()[:40].decode("ascii", "replace")
            raise reader.fail(f"the problem line is {text!r}; only shortest-path graphs are read: p sp VERTICES ARCS")
        vertices, arcs = integers(reader, words[2:], "the problem line")
        check_counts(path, vertices, arcs)
        shortest = len(b"a 1 1 1\n")
        parser = reader.parse_promised(
            vertices, arcs, "arcs", shortest, comments="c", tag="a", weights="any", rules=options.rules
        )
    return parsed(parser, vertices, options.rules)


def write(graph: Graph, path: str) -> None:
    """Writes every stored edge as an arc. Weights must be whole numbers; without weights each arc has length 1."""
    edges = edge_text(graph, start="a ", base=1, weights=lambda part: whole(path, part))
    if graph.array("weights", "cpu") is None:
        edges = (piece.replace(b"\n", b" 1\n") for piece in edges)
    write_text(path, f"p sp {graph.num_vertices} {graph.num_edges}\n", edges)


def whole(path: str, weights: torch.Tensor) -> torch.Tensor:
    """``weights`` as int64; ConfigError if one has a fraction."""
    integers = plain_weights(path, weights).to(torch.int64)
    if weights.is_floating_point() and not bool((integers.to(weights.dtype) == weights).all()):
        bad = weights[integers.to(weights.dtype) != weights][0].item()
        raise ConfigError(f"{path}: this format holds whole weights only, but one is {bad}; write .mtx or .hl instead")
    return integers
