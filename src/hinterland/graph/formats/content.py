"""What a reader hands over: an edge list or CSR arrays, and the options that the caller set."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch

from ... import _core
from ...runtime.errors import ConfigError, FormatError, GraphError, OutOfMemory
from ...runtime.thresholds import LONG_CHUNK, SPARSE_RATIO, SPARSE_VERTICES
from ...runtime.units import format_bytes
from ...table import StorageArray, UnifiedTensor
from ..arrays import Array, host_place
from ..device_graph import checked_view, edge_at
from ..graph import Graph

LARGEST_VERTEX = 1 << 48
# A vertex takes 8 bytes in the graph but none in a list of edges: a list that would make a graph of over 32 MiB almost
# without edges holds hashes or other identifiers, not vertex numbers, or its header lies (SPARSE_VERTICES, SPARSE_RATIO).


@dataclass(frozen=True)
class LoadOptions:
    """What ``load_graph`` was asked for, as readers need it."""

    placement: Mapping[str, str]
    weight_dtype: torch.dtype | None = None
    layout: str | None = None
    transpose: bool | None = False  # read the inverse lists of a file; None: where little of the free memory is enough
    rules: _core.EdgeRules | None = None  # what becomes of an edge; None where a list is handed over, in the file's order
    mirrored: _core.EdgeRules | None = None  # and of one that stands for both directions
    opener: Callable[..., StorageArray] | None = None  # opens arrays that stay in the file, where any do
    copies: tuple[str, ...] = ()  # other files with the same content, from which the pages of these are read as well
    named: bool = False  # vertices may be called anything

    def place(self, name: str) -> str:
        """Where to read the array ``name`` to. What shall lie in GPU memory passes through pageable memory."""
        return host_place(self.placement[name])

    def handed(self, name: str, array: UnifiedTensor | StorageArray) -> Array:
        """An array as ``Graph`` takes it: a UnifiedTensor stays where it is, a tensor goes to the GPU."""
        return UnifiedTensor.holding(array).cpu() if self.placement[name] == "gpu" else array


@dataclass
class EdgeList:
    """Edges in the file's order, int32 or int64 ``[E]``."""

    sources: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor | None
    num_vertices: int
    symmetric: bool = False  # each edge stands for both directions
    directed: bool = True
    labels: Sequence[Hashable] | None = None  # what the vertices are called, where their numbers are not their names


@dataclass
class EdgeRuns:
    """The entries that a text's edges add to the rows, in their parser, which knows the options' rules."""

    parser: _core.EdgeParser
    num_vertices: int
    directed: bool


@dataclass
class CsrArrays:
    """CSR arrays, read straight to their place."""

    indptr: UnifiedTensor
    indices: UnifiedTensor | StorageArray
    weights: UnifiedTensor | StorageArray | None
    directed: bool
    sorted: bool = False
    columns: bool = False  # they are the columns of the adjacency matrix (CSC)
    order: torch.Tensor | None = None  # int64 [V], the vertices' numbers before the graph was reordered
    inverse: CsrArrays | None = None  # the lists of in-neighbours
    labels: Sequence[Hashable] | None = None  # as in EdgeList


@dataclass
class PackedArrays:
    """The arrays of a compressed graph, read straight to their place; see ``CsrArrays``."""

    indptr: UnifiedTensor
    packed_offsets: UnifiedTensor
    packed: UnifiedTensor | StorageArray
    weights: UnifiedTensor | StorageArray | None
    directed: bool
    order: torch.Tensor | None = None
    inverse: PackedArrays | None = None
    labels: Sequence[Hashable] | None = None


Content = EdgeRuns | EdgeList | CsrArrays | PackedArrays


def check_counts(path: str, vertices: int, edges: int) -> None:
    """Refuses counts that no graph here can have, before anything is computed from them."""
    for what, count in (("vertices", vertices), ("edges", edges)):
        if not 0 <= count <= LARGEST_VERTEX:
            raise FormatError(f"{path}: the header promises {count} {what}; the file is damaged or of another format")


def check_sparsity(
    path: str, vertices: int, edges: int, where: str = "", remedy: str = "renumber the vertices from 0 without gaps"
) -> None:
    """Refuses an edge list whose vertex numbers would make a huge graph with next to no edges."""
    if vertices > SPARSE_VERTICES and vertices > SPARSE_RATIO * edges:
        raise OutOfMemory(
            f"{path}: {vertices} vertices{where} for {edges} edges: their offsets alone would take "
            f"{format_bytes(8 * (vertices + 1))}; {remedy}"
        )


def store_ids(path: str, what: str, ids: torch.Tensor, target: torch.Tensor, limit: int, position: int) -> int:
    """Copies vertex numbers to a tensor that may be narrower; returns the largest.

    ``position`` is the first one's place in the file's array ``what``, for the message.
    """
    if ids.numel() == 0:
        return -1
    low, high = (int(bound) for bound in torch.aminmax(ids))
    if low < 0 or high >= limit:
        bad = int(((ids < 0) | (ids >= limit)).nonzero()[0])
        raise FormatError(
            f"{path}: {what}[{position + bad}] is {int(ids[bad])}, but vertex numbers lie between 0 and {limit - 1}; "
            "the file is damaged or of another format"
        )
    target.copy_(ids)
    return high


def check_weights(path: str, weights: torch.Tensor, first: int = 0) -> None:
    """Refuses NaN and infinite weights, naming the first. ``weights`` are those of the edges from ``first`` on."""
    if not weights.is_floating_point():
        return
    for begin in range(0, weights.numel(), LONG_CHUNK):
        finite = torch.isfinite(weights[begin : begin + LONG_CHUNK])
        if not bool(finite.all()):
            bad = begin + int((~finite).nonzero()[0])
            raise FormatError(
                f"{path}: the weight of edge {first + bad} is {float(weights[bad])}; weights must be finite: correct or remove "
                "it"
            )


def plain_weights(path: str, weights: torch.Tensor) -> torch.Tensor:
    """Integer weights as int64, others as they are. ConfigError for one from 2^63 on, which would turn negative."""
    if weights.is_floating_point():
        return weights
    signed = weights.to(torch.int64)
    if weights.dtype == torch.uint64 and bool((signed < 0).any()):
        bad = int(signed[signed < 0][0]) % 2**64
        raise ConfigError(f"{path}: a weight is {bad}, and those of this format stay below 2^63; convert them to float64")
    return signed


def cast_weights(path: str, weights: torch.Tensor, dtype: torch.dtype, target: torch.Tensor | None = None) -> torch.Tensor:
    """``weights`` as ``dtype``, in ``target`` if given. A value that an integer type cannot hold is refused."""
    target = torch.empty(weights.shape, dtype=dtype) if target is None else target
    for begin in range(0, weights.numel(), LONG_CHUNK):
        part = weights[begin : begin + LONG_CHUNK]
        cast = target[begin : begin + LONG_CHUNK]
        cast.copy_(part)
        wrong = ~torch.isfinite(cast) if dtype.is_floating_point else cast.to(part.dtype) != part
        if bool(wrong.any()):
            bad = int(wrong.nonzero()[0])
            raise FormatError(
                f"{path}: the weight of edge {begin + bad} is {part[bad].item()}, which {dtype} cannot hold; "
                "choose another weight_dtype"
            )
    return target


def csr(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Offsets and neighbours on the CPU."""
    indptr, indices = graph.array("indptr", "cpu"), graph.array("indices", "cpu")
    assert indptr is not None and indices is not None
    return indptr, indices


def survey(graph: Graph) -> tuple[int, int, bool]:
    """(Self loops, edges to a vertex that is not larger, whether each vertex's neighbours ascend), of lists wherever they lie.

    Raises:
        GraphError: a neighbour is no vertex.
        StorageError: lists on storage cannot be read.
    """
    view = checked_view(graph.neighbor_lists)
    with view.reading():
        loops, lower, ascend, bad = _core.survey_graph(view.words)
    if bad >= 0:
        raise GraphError(f"{edge_at(view, bad)[2]} leads to no vertex: the file is damaged; restore it or convert it again")
    return loops, lower, ascend
