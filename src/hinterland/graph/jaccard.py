"""How alike the neighbours of two vertices are, on the CPU wherever the graph lies (Jaccard 1901)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .. import _core
from ..runtime.errors import ConfigError, VerificationError
from ..runtime.repr import Repr
from ..runtime.thresholds import PAIRS_CHECKED
from .checks import require_result
from .edge_list import edge_list
from .edges import from_edges
from .export import module_of
from .graph import Graph, require_graph
from .order import renumber


@dataclass(frozen=True, repr=False)
class JaccardResult(Repr):
    """How alike the vertices of each pair are.

    Attributes:
        common: int64 ``[P]``, on the CPU; how many vertices, other than these two, are neighbours of both.
        scores: float64 ``[P]``, on the CPU; ``common`` over how many are neighbours of one of them; 0 where none is.
    """

    common: torch.Tensor
    scores: torch.Tensor


def jaccard(graph: Graph, pairs: torch.Tensor) -> JaccardResult:
    """Jaccard's coefficient of pairs of vertices: of the neighbours of either, the share that are neighbours of both.

    Args:
        graph: the graph, in any place and form; about 60 bytes an edge of host memory are taken besides. Parallel edges count
            once, weights nothing. In a directed graph a vertex has as neighbours those that its edges lead to.
        pairs: vertex numbers ``[P, 2]``, any integer type.

    Raises:
        ConfigError: pairs of another shape or type.
        IndexOutOfRange: one of them names no vertex.
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    require_graph(graph)
    first, second = _ends(graph, pairs)
    src, dst, _ = edge_list(graph)
    simple = from_edges(src, dst, num_vertices=graph.num_vertices, remove_duplicates=True)
    lists, degrees = simple.indices.long(), simple.degrees()
    both, common = torch.zeros((2, len(first)), dtype=torch.int64)
    ends = (first.data_ptr(), second.data_ptr(), len(first))
    _core.count_common(simple.indptr.data_ptr(), lists.data_ptr(), *ends, both.data_ptr(), common.data_ptr())
    return JaccardResult(common, common.double() / (degrees[first] + degrees[second] - both).clamp(min=1))


def verify_jaccard(graph: Graph, pairs: torch.Tensor, result: JaccardResult) -> None:
    """Checks coefficients by the rows of the adjacency matrix, which scipy multiplies and adds element by element.

    Raises:
        VerificationError: names the pair and the values.
        ConfigError: scipy is missing.
    """
    require_result(graph, result, JaccardResult)
    first, second = (side.numpy() for side in _ends(graph, pairs))
    if not result.common.shape == result.scores.shape == first.shape:
        shapes = f"{tuple(result.common.shape)} and {tuple(result.scores.shape)}"
        raise VerificationError(f"common and scores have shapes {shapes}, but there are {len(first)} pairs")
    src, dst, _ = edge_list(graph)
    entries = (torch.ones(len(src), dtype=torch.int64).numpy(), (src.numpy(), dst.numpy()))
    matrix = module_of("scipy.sparse").csr_array(entries, shape=(graph.num_vertices,) * 2)
    matrix.data[:] = 1
    for begin in range(0, len(first), PAIRS_CHECKED):
        u, v = first[begin : begin + PAIRS_CHECKED], second[begin : begin + PAIRS_CHECKED]
        either = (matrix[u] + matrix[v]).astype(bool).sum(axis=1)
        both = matrix[u].multiply(matrix[v]).tocoo()
        others = (both.col != u[both.row]) & (both.col != v[both.row])
        common = np.bincount(both.row[others], minlength=len(u))
        was, scores = (side[begin : begin + PAIRS_CHECKED].numpy() for side in (result.common, result.scores))
        right = common / np.maximum(either, 1)
        wrong = np.flatnonzero((was != common) | ~(np.abs(scores - right) < 1e-12))
        if len(wrong):
            at = int(wrong[0])
            raise VerificationError(
                f"pair {begin + at}, of {u[at]} and {v[at]}, has {was[at]} common neighbours and {scores[at]:.6g}, but should "
                f"have {common[at]} and {right[at]:.6g}"
            )


def _ends(graph: Graph, pairs: torch.Tensor) -> torch.Tensor:
    """Both sides of the pairs, int64 ``[2, P]`` on the CPU, once all are known to be vertices."""
    ends = renumber(pairs, None, graph.num_vertices).cpu()
    if ends.ndim != 2 or ends.shape[1] != 2:
        raise ConfigError(f"pairs have shape {tuple(ends.shape)}, but must be [P, 2], two vertices each")
    return ends.T.contiguous()
