"""Core numbers, by peeling on the CPU wherever the graph lies (Batagelj and Zaversnik 2003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .. import _core
from ..runtime.errors import VerificationError
from ..runtime.repr import Repr
from .checks import require_each, require_result
from .edge_list import edge_list
from .edges import from_edges
from .graph import Graph, require_graph


@dataclass(frozen=True, repr=False)
class CoresResult(Repr):
    """What :func:`core_numbers` found.

    Attributes:
        cores: int64 ``[num_vertices]``, on the CPU; the largest k for which a vertex is in the k-core, the largest part of the
            graph in which all vertices have at least k neighbours.
    """

    cores: torch.Tensor


def core_numbers(graph: Graph) -> CoresResult:
    """The core number of each vertex. Self loops count nothing, parallel edges as often as they are there, and so do the two
    directions of a directed graph.

    Args:
        graph: the graph, in any place and form; about 60 bytes an edge of host memory are taken besides.

    Raises:
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    require_graph(graph)
    src, dst, _ = edge_list(graph)
    both = from_edges(src, dst, num_vertices=graph.num_vertices, symmetrize=graph.directed, remove_self_loops=True)
    lists = both.indices.numpy().astype(np.int64)  # by numpy, which wakes no threads
    cores = torch.empty(graph.num_vertices, dtype=torch.int64)
    _core.core_numbers(both.indptr.data_ptr(), lists.ctypes.data, graph.num_vertices, cores.data_ptr())
    return CoresResult(cores)


def _ends(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """The edges but for self loops, each from both ends."""
    src, dst, _ = edge_list(graph)
    src, dst = src[src != dst], dst[src != dst]
    return (torch.cat([src, dst]), torch.cat([dst, src])) if graph.directed else (src, dst)


def verify_cores(graph: Graph, result: CoresResult) -> None:
    """Checks core numbers on the CPU.

    1. A vertex of core number k has at least k neighbours of core numbers from k on: no number is too large.
    2. For k = 0, 1, ..., taking away vertices of at most k neighbours that are left takes all of core number k: none is too
       small.

    Raises:
        VerificationError: names the rule, the vertex and its number.
    """
    require_result(graph, result, CoresResult)
    src, dst = _ends(graph)
    cores, vertices = result.cores.cpu(), graph.num_vertices
    require_each("core numbers", cores, graph)
    strong = torch.bincount(src[cores[dst] >= cores[src]], minlength=vertices)
    wrong = ((strong < cores) | (cores < 0)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise VerificationError(f"rule 1: vertex {at} has core number {int(cores[at])}, but {int(strong[at])} such neighbours")
    left, degrees = torch.ones(vertices, dtype=torch.bool), torch.bincount(src, minlength=vertices)
    for k in cores.unique().tolist():
        while bool((waiting := left & (cores == k)).any()):
            taken = waiting & (degrees <= k)
            if not bool(taken.any()):
                at = int(waiting.nonzero()[0])
                raise VerificationError(f"rule 2: vertex {at} has core number {k}, but is in a core of more")
            left &= ~taken
            degrees -= torch.bincount(dst[taken[src]], minlength=vertices)
