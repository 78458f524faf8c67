"""Edges to CSR: counted, placed, sorted and thinned out in parallel by ``native/graph/build.cpp``.

The builder walks the edges twice, once to count and once to place them, and never stores them as a list or mirrors them in
memory: at its peak it holds the graph, 8 bytes a vertex and, only if duplicates are removed, the entries with their duplicates;
8 bytes an entry more where the order of the input is kept. The entries of a text, which are the readers' own, are given back
as they are placed.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import _core
from ..memory import UnifiedTensor, report
from ..memory.limits import require_host_memory, returning
from ..runtime import arguments
from ..runtime.errors import ConfigError, GraphError
from . import arrays
from .graph import Graph, require_graph
from .order import Order


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
    rules = _core.EdgeRules(mirror=symmetrize, drop_loops=remove_self_loops)
    try:
        built = build(
            edges,
            rules,
            num_vertices,
            weights,
            directed=directed and not symmetrize,
            remove_duplicates=remove_duplicates,
            sort_neighbors=sort_neighbors,
            placement=placement,
        )
    except _EdgeOutside as outside:
        i = outside.position
        raise GraphError(
            f"edge {i} joins vertices {int(src[i])} and {int(dst[i])}, but the vertices are numbered from 0 to "
            f"{num_vertices - 1}; correct it or raise num_vertices"
        ) from None
    if not (directed or symmetrize):
        arrays.check_mirrored(built.indptr, built.indices, built.weights)
    return built


def from_runs(
    parser: _core.EdgeParser,
    num_vertices: int,
    *,
    directed: bool,
    remove_duplicates: bool,
    placement: str | Mapping[str, str],
) -> Graph:
    """A graph of what the edges of a text add to the rows, by the rules of its parser, which is empty afterwards."""
    return build(
        parser.runs(),
        _core.EdgeRules(),
        num_vertices,
        None if parser.weight_type is None else getattr(torch, parser.weight_type),
        directed=directed,
        remove_duplicates=remove_duplicates,
        placement=placement,
        runs=parser.nbytes,
    )


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
    return _rebuild(
        graph,
        _core.EdgeRules(mirror=symmetrize and graph.directed, drop_loops=remove_self_loops),
        directed=graph.directed and not symmetrize,
        remove_duplicates=remove_duplicates,
        sort_neighbors=sort_neighbors,
        placement=places_like(graph) if placement is None else placement,
    )


def transposed(graph: Graph) -> Graph:
    """``graph`` with every edge turned round; use :meth:`Graph.transpose`, which keeps it."""
    return _rebuild(graph, _core.EdgeRules(flip=True), directed=True, placement=places_like(graph))


def places_like(graph: Graph) -> dict[str, str]:
    """The placement to ask for, for the arrays of a plain graph to lie where those of ``graph`` do."""
    found = {name: arrays.place_like(array) for name, array in graph._arrays.items() if name in arrays.NAMES}
    return {"indices": arrays.place_like(graph._arrays["packed"]), **found} if graph.is_compressed else found


def _rebuild(graph: Graph, rules: _core.EdgeRules, **options: object) -> Graph:
    indptr, indices, weights = graph.checked_rows()
    vertices = graph.num_vertices
    edges = _core.csr_edges(indptr.data_ptr(), indices.data_ptr(), vertices, graph.num_edges, indices.element_size())
    try:
        built = build(edges, rules, vertices, weights, order=graph._order, **options)  # type: ignore[arg-type]
    except _EdgeOutside as outside:
        arrays.check_neighbors(indices, vertices)
        raise _changed() from outside
    built.labels = graph.labels
    return built


def _changed() -> GraphError:
    return GraphError("the edges changed while a graph was being built from them; build it when nobody writes to them")


class _EdgeOutside(Exception):
    """An edge with an end that is no vertex."""

    def __init__(self, position: int) -> None:
        self.position = position


def build(
    edges: _core.EdgeSource,
    rules: _core.EdgeRules,
    num_vertices: int,
    weights: torch.Tensor | torch.dtype | None = None,
    *,
    directed: bool,
    remove_duplicates: bool = False,
    sort_neighbors: bool = True,
    order: Order | None = None,
    placement: str | Mapping[str, str] = "host",
    runs: int = 0,
) -> Graph:
    """A graph from any native edge source; ``weights`` are those of its edges, on the CPU; ``order`` is what it remembers.

    ``runs``: the source is a parser's runs (``EdgeParser.runs``), which hold so many bytes; ``weights`` is then their type.
    """
    final = arrays.placements(placement)
    # What goes to a GPU is made in host memory first.
    host = {name: "heap" if place == "gpu" else place for name, place in final.items()}
    # So is what will be copied once more, without its duplicates.
    first = dict.fromkeys(arrays.NAMES, "heap") if remove_duplicates else host

    held = {"indptr": UnifiedTensor.empty((num_vertices + 1,), torch.int64, placement=first["indptr"])}
    offsets = _address(held["indptr"])
    entries, bad = _core.count_entries(edges, rules, num_vertices, offsets)
    if bad >= 0:
        raise _EdgeOutside(bad)
    dtype = arrays.index_dtype(num_vertices)
    given = weights.dtype if isinstance(weights, torch.Tensor) else weights
    types = {"indices": dtype} if given is None else {"indices": dtype, "weights": given}
    with returning(runs):
        require_host_memory(entries * sum(kind.itemsize for kind in types.values()), report().nbytes)
        for name, kind in types.items():  # runs give memory back where untouched pages are filled
            held[name] = UnifiedTensor._allocate((entries,), kind, first[name], False, touch=not runs)
    neighbors = (_address(held["indices"]), dtype.itemsize)
    weight_type = arrays.WeightType(0, 0) if given is None else arrays.WEIGHT_TYPES[given]
    weight_from = weights.data_ptr() if isinstance(weights, torch.Tensor) else 0
    weight_to = 0 if given is None else _address(held["weights"])

    if sort_neighbors or remove_duplicates:
        if runs:
            _core.scatter_runs(edges, offsets, num_vertices, *neighbors, weight_to, weight_type.bytes)
        else:
            _core.scatter_entries(edges, rules, num_vertices, offsets, *neighbors, weight_from, weight_to, weight_type.bytes)
        _check_placed(held["indptr"], entries)
        kept = None
        if remove_duplicates:
            kept = UnifiedTensor.empty((num_vertices + 1,), torch.int64, placement="heap")
        keys = (weight_to, weight_type.bytes, weight_type.order)
        _core.sort_rows(offsets, num_vertices, *neighbors, *keys, 0 if kept is None else _address(kept))
        if kept is not None:
            held = _compact(held, kept, host)
    else:
        slots = UnifiedTensor.empty((entries,), torch.int64, placement="heap")
        _core.scatter_order(edges, rules, num_vertices, offsets, _address(slots))
        _check_placed(held["indptr"], entries)
        _core.sort_rows(offsets, num_vertices, _address(slots), slots.dtype.itemsize, 0, 0, 0, 0)
        columns = (weight_from, weight_to, weight_type.bytes)
        _core.resolve_entries(edges, rules, _address(slots), entries, *neighbors, *columns)
    moved = {n: arrays.placed(a.cpu(), a.dtype, "gpu") if final[n] == "gpu" else a for n, a in held.items()}
    return Graph._of(moved, directed, True if sort_neighbors or remove_duplicates else None, order)


def _check_placed(offsets: UnifiedTensor, entries: int) -> None:
    """GraphError where the edges that were placed are not those that were counted: rows would overlap."""
    if _core.first_wrong_offset(_address(offsets), offsets.shape[0] - 1, entries) >= 0:
        raise _changed()


def _compact(held: dict[str, UnifiedTensor], kept: UnifiedTensor, host: dict[str, str]) -> dict[str, UnifiedTensor]:
    """The arrays without the entries that ``kept``, the new offsets, leaves out. Lets the old ones go one by one."""
    old_offsets = held.pop("indptr")
    num_vertices, stay = kept.shape[0] - 1, int(kept.cpu()[-1])
    result = {"indptr": UnifiedTensor.from_tensor(kept.cpu(), placement=host["indptr"])}
    for name in list(held):
        old = held.pop(name)
        new = result[name] = UnifiedTensor.empty((stay,), old.dtype, placement=host[name])
        _core.compact_rows(
            _address(old_offsets), _address(kept), num_vertices, _address(old), _address(new), old.dtype.itemsize
        )
    return result


def _address(array: UnifiedTensor) -> int:
    return array.cpu().data_ptr()
