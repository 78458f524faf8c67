"""All edges of a graph in the CPU's memory, for what is computed there, wherever the graph lies."""

from __future__ import annotations

import torch

from ..runtime.errors import GraphError
from .graph import Graph
from .reorder import restored


def edge_list(graph: Graph) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Where each stored edge begins and ends, int64 ``[num_edges]``, as the user numbers vertices, row by row; and its weight.

    Raises:
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    indptr, indices, weights = restored(graph).checked_rows()
    src, dst = torch.repeat_interleave(torch.arange(graph.num_vertices), indptr.diff()), indices.long()
    wrong = ((dst < 0) | (dst >= graph.num_vertices)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise GraphError(f"indices[{at}] is {int(dst[at])}, but vertices are numbered 0 to {graph.num_vertices - 1}")
    return src, dst, weights
