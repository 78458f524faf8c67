"""Triangles through each vertex of an undirected graph, counted on the CPU wherever the graph lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .. import _core
from ..runtime.errors import ConfigError, VerificationError
from ..runtime.repr import Repr
from ..runtime.thresholds import ROWS_MULTIPLIED
from .checks import require_result
from .edge_list import edge_list
from .edges import from_edges
from .export import module_of
from .graph import Graph, require_graph


@dataclass(frozen=True, repr=False)
class TrianglesResult(Repr):
    """Triangles of a graph.

    Attributes:
        counts: int64 ``[num_vertices]``, on the CPU; how many triangles each vertex is a corner of.
        degrees: int64 ``[num_vertices]``, on the CPU; its neighbours, each once, without itself.
        total: how many triangles there are.
    """

    counts: torch.Tensor
    degrees: torch.Tensor
    total: int

    @property
    def clustering(self) -> torch.Tensor:
        """float64 ``[num_vertices]``: of the pairs of a vertex's neighbours the share that are neighbours; 0 without a pair."""
        return 2 * self.counts.double() / (self.degrees * (self.degrees - 1)).clamp(min=1)


def triangles(graph: Graph) -> TrianglesResult:
    """How many triangles each vertex is a corner of. Self loops and parallel edges make none.

    Args:
        graph: an undirected graph, in any place and form; about 60 bytes an edge of host memory are taken besides.

    Raises:
        ConfigError: the graph is directed.
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    require_graph(graph)
    if graph.directed:
        raise ConfigError("triangles are those of an undirected graph; make one, as in simplify(graph, symmetrize=True)")
    src, dst, _ = edge_list(graph)
    vertices = graph.num_vertices
    simple = from_edges(src, dst, num_vertices=vertices, remove_duplicates=True, remove_self_loops=True)
    degrees = simple.indptr.numpy()[1:] - simple.indptr.numpy()[:-1]  # of numpy, which wakes no threads for short loops
    rank = np.empty(vertices, np.int64)
    rank[degrees.argsort(kind="stable")] = np.arange(vertices)
    begins, ends = rank.repeat(degrees), rank[simple.indices.numpy()]
    up = begins < ends
    forward = from_edges(torch.from_numpy(begins[up]), torch.from_numpy(ends[up]), num_vertices=vertices)
    counts, lists = np.zeros(vertices, np.int64), forward.indices.numpy().astype(np.int64)
    _core.count_triangles(forward.indptr.data_ptr(), lists.ctypes.data, vertices, counts.ctypes.data)
    return TrianglesResult(torch.from_numpy(counts[rank]), torch.from_numpy(degrees), int(counts.sum()) // 3)


def verify_triangles(graph: Graph, result: TrianglesResult) -> None:
    """Checks triangles by what they are in matrices, which scipy multiplies: with A for the edges, a vertex is the corner of
    half the sum over its row of A (A x A), element by element.

    Raises:
        VerificationError: names the vertex and the values, or a total that is not a third of the counts.
        ConfigError: scipy is missing.
    """
    require_result(graph, result, TrianglesResult)
    src, dst, _ = edge_list(graph)
    size = (graph.num_vertices,) * 2
    entries = (torch.ones(len(src), dtype=torch.int64).numpy(), (src.numpy(), dst.numpy()))
    matrix = module_of("scipy.sparse").csr_array(entries, shape=size)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.data[:] = 1
    for begin in range(0, graph.num_vertices, ROWS_MULTIPLIED):
        some = matrix[begin : begin + ROWS_MULTIPLIED]
        right = torch.from_numpy((some @ matrix).multiply(some).sum(axis=1)) // 2
        wrong = (result.counts[begin : begin + ROWS_MULTIPLIED] != right).nonzero()
        if len(wrong):
            at = int(wrong[0])
            has = int(result.counts[begin + at])
            raise VerificationError(f"vertex {begin + at} has {has} triangles, but is a corner of {int(right[at])}")
    if 3 * result.total != int(result.counts.sum()):
        raise VerificationError(f"there are {int(result.counts.sum())} corners of triangles, but total is {result.total}")
