"""A shortest path between two vertices, on the CPU wherever the graph lies, by looking at what lies near them alone."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from .. import _core
from ..runtime.errors import GraphError
from ..runtime.params import struct
from . import arrays
from .graph import Graph
from .sssp import negative_weight, require_weights

_PARAMS, _ROWS = struct("BetweenParams"), struct("PathRows")
_MOST = 2**62  # to which those of a path may sum, so that two sums are an int64


class PathBetween(NamedTuple):
    """What :func:`path_between` found."""

    vertices: list[int]  # from the source to the target
    length: float  # its edges, or the sum of their weights; floats are added along the path, in float64


def path_between(graph: Graph, source: int, target: int, weighted: bool = True, from_both: bool = True) -> PathBetween | None:
    """A shortest path, the same one with each call, by Dijkstra's algorithm.

    Args:
        graph: any that was not reordered; what is not in the CPU's memory is brought there whole.
        source: a vertex number.
        target: another one, or the same.
        weighted: by weights, which are uint8, int32, int64, float32 or float64; otherwise edges count.
        from_both: search from both ends, which takes the transpose of a directed graph, and looks at the fewest vertices. From
            the source alone, a length of floats is the least of the sums along paths; from both ends it may round otherwise.

    Returns:
        ``PathBetween(vertices, length)``, or None where no path leads to the target.

    Raises:
        GraphError: a weight is negative, or those of a path may sum to 2^62 or more, or beyond what float64 takes.
        ConfigError: there are no weights, or none of these.
    """
    kind = arrays.WeightType(0, 0)
    if weighted:
        weights, dtype = require_weights(graph, "path_between"), graph.weight_type
        if weights.least < 0:
            raise negative_weight(graph)
        if not weights.most * graph.num_vertices < (_MOST if isinstance(weights.most, int) else math.inf):
            raise GraphError(f"weights are up to {weights.most}, and those of a path may sum to more than it adds up; ask sssp")
        assert dtype is not None
        kind = arrays.WEIGHT_TYPES[dtype]
    out = _rows(graph, weighted)
    incoming = [] if not from_both else _rows(graph.transpose(), weighted) if graph.directed else out
    path = torch.empty(graph.num_vertices, dtype=torch.int64)
    length = torch.empty(1, dtype=torch.float64 if kind.order == 2 else torch.int64)
    params = _PARAMS(
        out=_words(out),
        neighbor_bytes=out[1].element_size(),
        weight_bytes=kind.bytes,
        weight_order=kind.order,
        vertices=graph.num_vertices,
        edges=graph.num_edges,
        source=source,
        target=target,
        path=path.data_ptr(),
        length=length.data_ptr(),
        **({"in": _words(incoming)} if incoming else {}),
    )
    count = _core.path_between(params.address)
    return PathBetween(path[:count].tolist(), length.item()) if count else None


def _rows(graph: Graph, weighted: bool) -> list[torch.Tensor]:
    """Offsets, neighbours and weights, in the CPU's memory."""
    held = [graph.indptr.cpu(), graph.indices.cpu(), graph.array("weights") if weighted else None]
    return [array for array in held if array is not None]


def _words(rows: list[torch.Tensor]) -> Any:
    return _ROWS(**dict(zip(("indptr", "neighbors", "weights"), map(torch.Tensor.data_ptr, rows), strict=False)))
