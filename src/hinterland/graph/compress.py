"""Graphs whose neighbour lists are packed: Elias-Fano blocks of 32, which a warp of a GPU decodes where it reads them.

The format is stated in ``include/hinterland/graph/compress.hpp``; ``docs/compress.md`` has sizes and rates.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..table import UnifiedTensor
from . import arrays
from .arrays import Array
from .edges import simplify
from .graph import Graph, require_graph
from .lists import NeighborLists
from .order import Order
from .packed import PackedLists
from .reorder import reorder as reordered


def compress(graph: Graph, reorder: str | None = None, placement: str | Mapping[str, str] | None = None) -> Graph:
    """The graph with its neighbour lists packed, about 40 % of their size on social networks (``docs/compress.md``).

    Lists are sorted first if they are not, and the weights with them: weight i belongs to neighbour i of the sorted list.
    Parallel edges and self loops stay. What a graph returns for its vertices does not depend on compression.

    Args:
        graph: the graph; it is not changed. A compressed graph without ``reorder`` is returned as it is.
        reorder: ``"degree"``, ``"bfs"`` or ``"rcm"`` renumbers the vertices first, which can make the lists smaller; see
            :func:`reorder`. The graph remembers the old numbers.
        placement: as in ``Graph``, by default where the old arrays are; the packed lists lie where ``indices`` are to
            lie, their offsets where ``indptr`` does.

    Returns:
        A Graph with ``is_compressed``, whose arrays are ``indptr``, ``packed`` (uint8), ``packed_offsets`` (int64
        ``[num_vertices + 1]``, where each vertex's list begins) and the weights.

    Raises:
        ConfigError: an unknown order or placement.
        GraphError: the graph's arrays were changed since it was made.
        OutOfMemory: the new arrays do not fit beside the old ones.
    """
    require_graph(graph)
    if reorder is not None:
        graph = reordered(graph, reorder, placement)
    if graph.is_compressed:
        return graph
    places = arrays.placements(graph.neighbor_lists.places if placement is None else placement)
    packed = graph.neighbor_lists.packed(places)
    if packed is None:  # a list does not ascend, or names no vertex, which simplify() refuses
        return compress(simplify(graph, placement=arrays.host_places(places)), None, places)
    return graph.over(packed)


def decompress(graph: Graph, placement: str | Mapping[str, str] | None = None) -> Graph:
    """The plain graph of a compressed one, with sorted lists, under the same numbers; a plain graph as it is.

    Raises:
        GraphError: the graph's arrays were changed since it was made.
        OutOfMemory: the neighbours do not fit.
    """
    require_graph(graph)
    if not graph.is_compressed:
        return graph
    lists = graph.neighbor_lists
    return graph.over(lists.plain(arrays.placements(lists.places if placement is None else placement)))


def bits_per_edge(graph: Graph) -> float:
    """Bits that hold a neighbour, offsets and weights left out; 0 for a graph without edges."""
    lists = graph.neighbor_lists
    return 8 * lists.arrays["packed" if lists.is_compressed else "indices"].nbytes / graph.num_edges if graph.num_edges else 0.0


def from_packed(
    indptr: UnifiedTensor,
    packed_offsets: UnifiedTensor,
    packed: UnifiedTensor,
    weights: Array | None = None,
    *,
    directed: bool = True,
    order: Order | None = None,
    placement: str | Mapping[str, str] = "host",
) -> Graph:
    """A compressed graph of arrays from elsewhere, in host memory, once every list is known to be right. Raises GraphError:
    names the array or the vertex whose list is damaged."""
    places = arrays.placements(placement)
    offsets = indptr.cpu()
    num_edges = int(offsets[-1]) if offsets.numel() else 0
    values = None if weights is None else arrays.tensor_of(weights)
    if values is not None:
        arrays.check_weights(values, num_edges)
    PackedLists(offsets, packed_offsets.cpu(), packed.cpu(), num_edges).check(values, directed)
    held: dict[str, Array] = {"indptr": indptr, "packed_offsets": packed_offsets, "packed": packed}
    if weights is not None:
        held["weights"] = weights
    return Graph.of(NeighborLists(held, is_sorted=True).moved(places), directed, order)
