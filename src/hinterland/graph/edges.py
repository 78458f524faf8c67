"""Graphs from edges, and from graphs with other edges."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError, GraphError
from . import arrays
from .build import EdgeOutside, build, rebuilt
from .graph import Graph, require_graph


def from_edges(
    src: torch.Tensor,
    dst: torch.Tensor,
    weights: torch.Tensor | None = None,
    *,
    num_vertices: int | None = None,
    directed: bool = True,
    symmetrize: bool = False,
    remove_self_loops: bool = False,
    remove_duplicates: bool = False,
    sort_neighbors: bool = True,
    placement: str | Mapping[str, str] = "host",
) -> Graph:
    """A graph from its edges ``src[i] -> dst[i]``.

    The result does not depend on the number of threads.

    Args:
        src, dst: vertex numbers from 0, ``[E]``, any integer type.
        weights: one for each edge, ``[E]``, any integer or floating type, no NaN.
        num_vertices: by default, one more than the largest number.
        directed: False promises that the edges hold both directions of each edge already, with the same weight.
        symmetrize: adds each edge's mirror (with its weight; not that of a self loop), which makes the graph undirected.
            Where the edges hold both directions already, ask for ``remove_duplicates`` too.
        remove_self_loops: leaves out edges from a vertex to itself.
        remove_duplicates: keeps one of several edges between the same vertices in the same direction, that with the
            smallest weight. This sorts the neighbours, whatever ``sort_neighbors`` says.
        sort_neighbors: True orders the neighbours of a vertex by (number, weight); False keeps the order of the input.
        placement: where each array goes; see Graph.

    Raises:
        GraphError: a vertex number is negative or not below ``num_vertices``, the lengths differ, a weight is NaN, an edge of
            an undirected graph has no reverse.
        OutOfMemory: the graph, or what building it needs, does not fit.
    """
    directed, symmetrize, drop_loops = arguments.switches(
        directed=directed, symmetrize=symmetrize, remove_self_loops=remove_self_loops
    )
    for name, array in (("src", src), ("dst", dst), ("weights", weights)):
        if array is not None or name != "weights":
            arrays.require_array(name, array)
    src, dst = (arrays.tensor_of(arrays.integers(name, t.cpu())) for name, t in (("src", src), ("dst", dst)))
    if src.numel() != dst.numel():
        raise GraphError(f"src has {src.numel()} elements and dst {dst.numel()}, but each edge has one of both")
    if src.dtype != dst.dtype:
        src, dst = src.long(), dst.long()
    if weights is not None:
        weights = weights.cpu().contiguous()
        arrays.check_weights(weights, src.numel())
    if num_vertices is None:
        num_vertices = max(int(src.max()), int(dst.max()), -1) + 1 if src.numel() else 0
    elif (num_vertices := arguments.whole_number("num_vertices", num_vertices)) < 0:
        raise ConfigError(f"num_vertices cannot be negative: {num_vertices}")
    edges = _core.listed_edges(src.data_ptr(), dst.data_ptr(), src.numel(), src.element_size())
    rules = _core.EdgeRules(mirror=symmetrize, drop_loops=drop_loops)
    try:
        lists = build(
            edges,
            rules,
            num_vertices,
            weights,
            remove_duplicates=remove_duplicates,
            sort_neighbors=sort_neighbors,
            placement=placement,
        )
    except EdgeOutside as outside:
        i = outside.position
        raise GraphError(
            f"edge {i} joins vertices {int(src[i])} and {int(dst[i])}, but the vertices are numbered from 0 to "
            f"{num_vertices - 1}; correct it or raise num_vertices"
        ) from None
    if not (directed or symmetrize):
        arrays.check_mirrored(lists.indptr, lists.indices, lists.weights)
    return Graph.of(lists, directed and not symmetrize)


def from_runs(
    parser: _core.EdgeParser, num_vertices: int, *, directed: bool, remove_duplicates: bool, placement: str | Mapping[str, str]
) -> Graph:
    """A graph of what the edges of a text add to the rows, by the rules of its parser, which is empty afterwards."""
    lists = build(
        parser.runs(),
        _core.EdgeRules(),
        num_vertices,
        None if parser.weight_type is None else getattr(torch, parser.weight_type),
        remove_duplicates=remove_duplicates,
        placement=placement,
        runs=parser.nbytes,
    )
    return Graph.of(lists, directed)


def simplify(
    graph: Graph,
    *,
    symmetrize: bool = False,
    remove_self_loops: bool = False,
    remove_duplicates: bool = False,
    sort_neighbors: bool = True,
    placement: str | Mapping[str, str] | None = None,
) -> Graph:
    """A new graph from an old one, with the options of :func:`from_edges`; ``placement`` defaults to the old one's.

    An undirected graph is symmetric already: ``symmetrize`` then adds nothing. The result is a plain graph, a compressed one's
    too, and remembers the order of a reordered one.

    Raises:
        GraphError: the graph's arrays were changed since it was made.
        OutOfMemory: the graph, or what building it needs, does not fit.
    """
    require_graph(graph)
    symmetrize, drop_loops = arguments.switches(symmetrize=symmetrize, remove_self_loops=remove_self_loops)
    lists = rebuilt(
        graph.neighbor_lists,
        _core.EdgeRules(mirror=symmetrize and graph.directed, drop_loops=drop_loops),
        remove_duplicates=remove_duplicates,
        sort_neighbors=sort_neighbors,
        placement=graph.neighbor_lists.places if placement is None else placement,
    )
    return Graph.of(lists, graph.directed and not symmetrize, graph.numbering, graph.labels)
