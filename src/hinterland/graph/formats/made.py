"""The graph of what a file holds, with the options that the caller set: the same for every format."""

from __future__ import annotations

import torch

from ... import _core
from ...runtime.errors import ConfigError, FormatError, GraphError
from ...table import UnifiedTensor
from ..arrays import Array, check_mirrored, check_neighbors, check_offsets, file_of, tensor_of
from ..compress import from_packed
from ..edges import from_edges, from_runs, simplify
from ..graph import Graph
from ..lists import NeighborLists
from ..order import checked as checked_order
from .content import Content, CsrArrays, EdgeList, EdgeRuns, LoadOptions, PackedArrays, cast_weights, check_weights


def graph_of(
    path: str, content: Content, options: LoadOptions, directed: bool | None, sort_neighbors: bool | None, **changes: bool
) -> Graph:
    """The graph of what the file ``path`` holds; ``changes``: ``symmetrize``, ``remove_self_loops``, ``remove_duplicates``."""
    if isinstance(content, CsrArrays) and content.columns:
        content = _transposed(content)
    parts = () if isinstance(content, EdgeRuns) else (content, None if isinstance(content, EdgeList) else content.inverse)
    for part in parts:
        if part is not None:
            part.weights = _weights(path, part, options)  # type: ignore[assignment]  # of the kind that it has
    try:
        graph = _made(content, options, sort_neighbors, **changes)
    except GraphError as error:
        if isinstance(content, EdgeList) and not content.directed:  # which nothing that could be asked for changes
            raise FormatError(
                f"{path}: {str(error).partition(';')[0]}; the format lists each edge at both its ends: correct it"
            ) from None
        raise
    if directed is not None and directed != graph.directed:
        graph = _redirected(graph, directed)
    if not isinstance(content, EdgeRuns):
        for known in (graph, graph.known_transpose):
            if known is not None:
                known.labels = content.labels
    return graph


def _made(
    content: Content,
    options: LoadOptions,
    sort_neighbors: bool | None,
    *,
    symmetrize: bool,
    remove_self_loops: bool,
    remove_duplicates: bool,
) -> Graph:
    """The graph of what a file holds."""
    if isinstance(content, EdgeRuns):
        return from_runs(
            content.parser,
            content.num_vertices,
            directed=content.directed and not symmetrize,
            remove_duplicates=remove_duplicates,
            placement=options.placement,
        )
    if isinstance(content, EdgeList):
        return from_edges(
            content.sources,
            content.targets,
            content.weights,
            num_vertices=content.num_vertices,
            directed=content.directed,
            symmetrize=(symmetrize and content.directed) or content.symmetric,
            remove_self_loops=remove_self_loops,
            remove_duplicates=remove_duplicates,
            sort_neighbors=sort_neighbors is not False,
            placement=options.placement,
        )
    graph = _of_rows(content, options)
    sort = isinstance(content, CsrArrays) and bool(sort_neighbors) and not content.sorted
    if not (symmetrize or remove_self_loops or remove_duplicates or sort):
        return graph
    return simplify(
        graph,
        symmetrize=symmetrize and graph.directed,
        remove_self_loops=remove_self_loops,
        remove_duplicates=remove_duplicates,
        sort_neighbors=sort_neighbors is not False,
    )


def _of_rows(content: CsrArrays | PackedArrays, options: LoadOptions) -> Graph:
    """The graph of arrays, and its transpose, if that was read; where some stay in a file of ours it is taken on trust."""
    one = _one_held if options.opener is None else _one_in_place
    graph = one(content, options)
    if content.inverse is not None:
        graph.join(one(content.inverse, options), check=options.opener is None)
    return graph


def _one_held(content: CsrArrays | PackedArrays, options: LoadOptions) -> Graph:
    order = None if content.order is None else checked_order(content.order, content.indptr.shape[0] - 1)
    weights = None if content.weights is None else options.handed("weights", content.weights)
    if isinstance(content, PackedArrays):
        return from_packed(
            content.indptr,
            content.packed_offsets,
            UnifiedTensor.holding(content.packed),
            weights,
            directed=content.directed,
            order=order,
            placement=options.placement,
        )
    graph = Graph(
        options.handed("indptr", content.indptr),
        options.handed("indices", content.indices),
        weights,
        directed=content.directed,
        placement=options.placement,
    )
    if content.sorted and not graph.has_sorted_lists:
        raise GraphError("the header says that neighbours ascend, but some do not; convert the original file again")
    return Graph.of(graph.neighbor_lists, graph.directed, order)


def _weights(path: str, content: EdgeList | CsrArrays | PackedArrays, options: LoadOptions) -> Array | None:
    """The weights, checked and in the type that the caller wants."""
    weights = content.weights
    if weights is None or file_of(weights) is not None:
        return weights
    plain = tensor_of(weights)
    check_weights(path, plain)
    if options.weight_dtype is None or options.weight_dtype == plain.dtype:
        return weights
    if isinstance(weights, torch.Tensor):
        return cast_weights(path, plain, options.weight_dtype)
    cast = UnifiedTensor.empty(tuple(plain.shape), options.weight_dtype, options.place("weights"))
    cast_weights(path, plain, options.weight_dtype, cast.cpu())
    return cast


def _one_in_place(content: CsrArrays | PackedArrays, _: LoadOptions) -> Graph:
    """Arrays that are in memory are checked, each for itself."""
    offsets = content.indptr.cpu()
    order = None if content.order is None else checked_order(content.order, len(offsets) - 1)
    held: dict[str, Array] = {"indptr": content.indptr}
    if isinstance(content, PackedArrays):
        check_offsets(offsets, int(offsets[-1]))
        starts = content.packed_offsets.cpu()
        last = int(starts[-1])
        check_offsets(starts, last)
        if _core.packed_bytes(last) != len(content.packed):
            raise GraphError(f"packed_offsets ends with {last}, but the packed lists take {len(content.packed)} bytes")
        held |= {"packed_offsets": content.packed_offsets, "packed": content.packed}
    else:
        check_offsets(offsets, len(content.indices))
        held["indices"] = content.indices
        if file_of(content.indices) is None:
            check_neighbors(tensor_of(content.indices), len(offsets) - 1)
    if content.weights is not None:
        held["weights"] = content.weights
    lists = NeighborLists(held, isinstance(content, PackedArrays) or content.sorted)
    return Graph.of(lists, content.directed, order)


def _transposed(content: CsrArrays) -> EdgeList:
    """The edges of CSC arrays, whose rows are the targets."""
    graph = Graph(content.indptr, content.indices, content.weights, placement="pageable")  # checks the arrays
    targets = torch.arange(graph.num_vertices, dtype=content.indices.dtype).repeat_interleave(graph.degrees().cpu())
    weights = None if content.weights is None else tensor_of(content.weights)
    return EdgeList(tensor_of(content.indices), targets, weights, graph.num_vertices)


def _redirected(graph: Graph, directed: bool) -> Graph:
    """The same arrays under another flag; undirected only if every edge has its reverse."""
    if not directed and graph.neighbor_lists.stored:
        raise ConfigError(
            "directed=False of a directed graph on storage asks whether each edge has its reverse, for which all of it would "
            "be read; load it with placement='host', and save that with save_graph"
        )
    if not directed:
        check_mirrored(graph.indptr, graph.indices, graph.weights)
    return Graph.of(graph.neighbor_lists, directed, graph.numbering)
