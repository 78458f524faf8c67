"""All edges of a graph in the CPU's memory, for what is computed there, wherever the graph lies."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime.errors import GraphError
from . import passes
from .arrays import rows_of
from .graph import Graph
from .reorder import restored


def edge_list(graph: Graph) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Where each stored edge begins and ends, int64 ``[num_edges]``, as the user numbers vertices, row by row; and its weight.
    Raises GraphError: the graph's arrays were changed since it was made, and are none any more."""
    indptr, indices, weights = restored(graph).checked_rows()
    vertices, edges = graph.num_vertices, graph.num_edges
    src, dst = (passes.full(edges, 0, torch.int64, indices.device) for _ in range(2))
    at = _core.list_edges(*rows_of(indptr, indices), edges, src.data_ptr(), dst.data_ptr())
    if at >= 0:
        raise GraphError(f"indices[{at}] is {int(dst[at])}, but vertices are numbered 0 to {vertices - 1}")
    return src, dst, weights
