"""Graphs whose neighbour lists are packed: Elias-Fano blocks of 32, which a warp of a GPU decodes where it reads them.

The format is stated in ``include/hinterland/graph/compress.hpp``; ``docs/compress.md`` has sizes and rates.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import _core
from ..memory import UnifiedTensor
from ..runtime import devices
from ..runtime.errors import GraphError
from . import arrays
from .arrays import Array
from .build import places_like, simplify
from .graph import Graph, require_graph
from .order import Order
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
    places = arrays.placements(places_like(graph) if placement is None else placement)
    host = {name: "heap" if place == "gpu" else place for name, place in places.items()}
    indptr, indices, _ = graph.checked_rows()
    at = UnifiedTensor.empty((graph.num_vertices + 1,), torch.int64, placement=host["indptr"])
    vertices, width = graph.num_vertices, indices.element_size()
    rows = (indptr.data_ptr(), vertices, vertices, indices.data_ptr(), width, graph.num_edges, at.cpu().data_ptr())
    size = _core.pack_offsets(*rows)
    if size < 0:  # a list does not ascend, or names no vertex, which simplify() refuses
        return compress(simplify(graph, placement=host), None, places)
    stream = UnifiedTensor.empty((_core.packed_bytes(size),), torch.uint8, placement=host["indices"])
    _core.pack_rows(*rows, stream.cpu().data_ptr())
    held: dict[str, Array] = {"indptr": graph._arrays["indptr"], "packed_offsets": at, "packed": stream}
    if "weights" in graph._arrays:
        held["weights"] = graph._arrays["weights"]
    return graph._of_arrays({name: _moved(array, places[_home(name)]) for name, array in held.items()}, sorted_lists=True)


def decompress(graph: Graph, placement: str | Mapping[str, str] | None = None) -> Graph:
    """The plain graph of a compressed one, with sorted lists, under the same numbers; a plain graph as it is.

    Raises:
        GraphError: the graph's arrays were changed since it was made.
        OutOfMemory: the neighbours do not fit.
    """
    require_graph(graph)
    if not graph.is_compressed:
        return graph
    places = arrays.placements(places_like(graph) if placement is None else placement)
    held = {
        "indptr": graph._arrays["indptr"],
        "indices": unpacked(graph, "heap" if places["indices"] == "gpu" else places["indices"]),
        **({"weights": graph._arrays["weights"]} if "weights" in graph._arrays else {}),
    }
    return graph._of_arrays({name: _moved(array, places[name]) for name, array in held.items()}, sorted_lists=True)


def bits_per_edge(graph: Graph) -> float:
    """Bits that hold a neighbour, offsets and weights left out; 0 for a graph without edges."""
    return 8 * graph.lists.nbytes / graph.num_edges if graph.num_edges else 0.0


def unpacked(graph: Graph, placement: str = "heap") -> UnifiedTensor:
    """The neighbours of a compressed graph, ``[num_edges]`` in host memory."""
    indptr, at, stream = (_on_cpu(graph, name) for name in ("indptr", "packed_offsets", "packed"))
    arrays.check_offsets(indptr, graph.num_edges)
    dtype = arrays.index_dtype(graph.num_vertices)
    indices = UnifiedTensor.empty((graph.num_edges,), dtype, placement=placement)
    rows = _packed_rows(indptr, at, stream, graph.num_edges)
    _refuse(_core.unpack_rows(*rows, indices.cpu().data_ptr(), dtype.itemsize))
    return indices


def first_neighbors(graph: Graph, count: int) -> torch.Tensor:
    """The first ``count`` neighbours of each vertex of a compressed graph, ``[count, num_vertices]``; -1 for none."""
    indptr, at, stream = (_on_cpu(graph, name) for name in ("indptr", "packed_offsets", "packed"))
    heads = torch.empty((count, graph.num_vertices), dtype=arrays.index_dtype(graph.num_vertices))
    rows = _packed_rows(indptr, at, stream, graph.num_edges)
    _refuse(_core.unpack_heads(*rows, heads.data_ptr(), heads.element_size(), count))
    return heads


def _packed_rows(
    indptr: torch.Tensor, at: torch.Tensor, stream: torch.Tensor, num_edges: int
) -> tuple[int, int, int, int, int, int, int]:
    """The lists of all vertices as native code takes them: addresses, bytes of the lists, rows, vertices and edges."""
    vertices = indptr.numel() - 1
    return indptr.data_ptr(), at.data_ptr(), stream.data_ptr(), stream.numel(), vertices, vertices, num_edges


def _refuse(wrong: int) -> None:
    """Raises GraphError where ``wrong`` is the vertex of a packed list that is damaged, and not -1."""
    if wrong >= 0:
        raise GraphError(f"the packed list of vertex {wrong} is damaged; restore the graph or compress it again")


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
    """A compressed graph of arrays from elsewhere, in host memory, once every list is known to be right.

    Raises:
        GraphError: names the array or the vertex whose list is damaged.
    """
    places = arrays.placements(placement)
    num_edges = int(indptr.cpu()[-1]) if indptr.cpu().numel() else 0
    values = None if weights is None else arrays.tensor_of(weights)
    if values is not None:
        arrays.check_weights(values, num_edges)
    check_packed(indptr.cpu(), packed_offsets.cpu(), packed.cpu(), num_edges, values, directed)
    held: dict[str, Array] = {"indptr": indptr, "packed_offsets": packed_offsets, "packed": packed}
    if weights is not None:
        held["weights"] = weights
    return Graph._of({name: _moved(array, places[_home(name)]) for name, array in held.items()}, directed, True, order)


def check_packed(
    offsets: torch.Tensor,
    at: torch.Tensor,
    stream: torch.Tensor,
    num_edges: int,
    weights: torch.Tensor | None = None,
    directed: bool = True,
) -> None:
    """Raises GraphError unless ``num_edges`` packed neighbours are what offsets, packed offsets and the lists promise.
    Each edge of an undirected graph has its reverse there, with the same weight."""
    num_vertices = offsets.numel() - 1
    arrays.check_offsets(offsets, num_edges)
    if at.numel() != num_vertices + 1:
        raise GraphError(f"packed_offsets holds {at.numel()} offsets, but {num_vertices} vertices need {num_vertices + 1}")
    wrong = _core.first_wrong_offset(at.data_ptr(), num_vertices, int(at[-1]))
    if wrong >= 0 or _core.packed_bytes(max(int(at[-1]), 0)) != stream.numel() or num_edges > 8 * stream.numel():
        where = f"packed_offsets[{wrong}] is {int(at[wrong])}" if wrong >= 0 else f"packed_offsets ends with {int(at[-1])}"
        raise GraphError(f"{where}, but the packed lists take {stream.numel()} bytes; restore the graph or compress it again")
    rows = _packed_rows(offsets, at, stream, num_edges)
    if directed:
        wrong, mirrored = _core.first_wrong_list(*rows), True
    else:
        values = (0, 0, 0) if weights is None else (weights.data_ptr(), *arrays.WEIGHT_TYPES[weights.dtype][:2])
        wrong, mirrored = _core.check_undirected(*rows, *values)
    _refuse(wrong)
    if not mirrored:
        raise GraphError(
            "not every edge of this undirected graph has its reverse, with the same weight; compress the original graph again"
        )


def _home(name: str) -> str:
    """The array of a plain graph whose placement the array ``name`` of a compressed one has."""
    return {"packed": "indices", "packed_offsets": "indptr"}.get(name, name)


def _moved(array: Array, placement: str) -> Array:
    """``array`` where ``placement`` says; itself if it lies there already."""
    lies = "gpu" if isinstance(array, torch.Tensor) else array.placement
    best = ("mapped", "registered") if devices.cuda_available() else ("mapped", "registered", "heap")
    if lies == placement or (placement == "host" and lies in best):
        return array
    tensor = arrays.tensor_of(array)
    return arrays.placed(tensor, tensor.dtype, placement)


def _on_cpu(graph: Graph, name: str) -> torch.Tensor:
    array = graph.array(name, "cpu")
    assert array is not None
    return array
