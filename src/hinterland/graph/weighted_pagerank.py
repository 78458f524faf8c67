"""PageRank whose walk follows edges in proportion to their weights, from any start, by plain power iteration."""

from __future__ import annotations

import math

import numpy as np
import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError, VerificationError
from . import passes
from .checks import require_close, require_each, require_result
from .edge_list import edge_list
from .graph import Graph
from .pagerank import MOST_ITERATIONS, PagerankResult, Personalization, distribution
from .prepare import ResidentGraph, graph_of
from .spmv import AdjacencyMatrix


def weighted_pagerank(
    graph: Graph | ResidentGraph,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    max_iterations: int = 100,
    personalization: Personalization | None = None,
    dangling: Personalization | None = None,
    start: Personalization | None = None,
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
) -> PagerankResult:
    """The chance to be at each vertex, for a walk that follows an out-edge, drawn in proportion to weights, with probability
    ``damping``.

    What differs from :func:`pagerank` is that weights count, if the graph has some, that walks without a way on may go
    elsewhere than others, and that steps are plain ones in float64 from a start that may be given: results are those of
    networkx's ``pagerank``, iteration by iteration, up to rounding.

    Args:
        graph: the graph, or what :func:`prepare` made of it for ``"spmv"``. The lists of in-neighbours are read: of a directed
            graph, ``transpose()`` is made. A vertex whose out-edges have weights that sum to 0 has no way on.
        damping: from 0 to 1.
        tolerance: the last iteration is the one that changes scores by less, summed over all vertices.
        max_iterations: from 1 to 2**31 - 1. Where they do not suffice, the result says ``converged=False``.
        personalization: where the walk goes on otherwise, as for :func:`pagerank`; None means the same for all.
        dangling: where it goes on from a vertex without a way on; None is ``personalization``.
        start: scores to begin with, of the same kind; None means the same for all.
        gpu_budget, device: as for :func:`pagerank`.

    Raises:
        ConfigError: a number out of its range, shares that are no distribution, weights of another type than :func:`sssp`'s,
            infinite ones, a vertex's that sum to less than 1e-307, or 1e-570 of others', where others are larger.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: scores and state exceed the free GPU memory.
    """
    damping, tolerance = arguments.number("damping", damping), arguments.number("tolerance", tolerance)
    if not 0 <= damping <= 1:
        raise ConfigError(f"damping {damping} is not in [0, 1]")
    limit = arguments.whole_number("max_iterations", max_iterations, 1, MOST_ITERATIONS)
    given = graph_of(graph)
    vertices = given.num_vertices
    shares = {"personalization": personalization, "dangling": dangling, "start": start}
    jumps, leaves, scores = (None if value is None else distribution(value, vertices, name) for name, value in shares.items())
    matrix = AdjacencyMatrix(graph, given.weight_type is not None, gpu_budget, device)
    equal = 1 / max(vertices, 1)
    p = matrix.full(equal) if jumps is None else matrix.to_internal(jumps)
    stuck_to = p if leaves is None else matrix.to_internal(leaves)
    x = matrix.full(equal) if scores is None else matrix.to_internal(scores)
    totals = matrix.times(matrix.full(matrix.unit))
    along = passes.shares(damping, totals)
    _require_shares(given, matrix, totals, along)
    error, iteration = float("inf"), 0
    while iteration < limit and not error < tolerance:
        after = matrix.transposed_times(passes.product(x, along))
        if matrix.unit != 1:
            passes.scale(after, matrix.unit)
        passes.add(after, damping * passes.total(x, where=totals), stuck_to)
        passes.add(after, 1 - damping, p)
        error = passes.distance(after, x)
        x, iteration = after, iteration + 1
    return PagerankResult(matrix.to_original(x), iteration, error, error < tolerance)


def _require_shares(graph: Graph, matrix: AdjacencyMatrix, totals: torch.Tensor, along: torch.Tensor) -> None:
    """ConfigError where a vertex's weights are so small beside others' that float64 lacks their sum, or its reciprocal."""
    if math.isfinite(passes.length(along)) and (
        matrix.unit >= 1 or not bool(((totals == 0) & (matrix.times(matrix.full(1)) != 0)).any())
    ):
        return
    found = graph.weight_range
    assert found is not None
    raise ConfigError(
        f"weights go from {found.least} to {found.most}, and those of some vertex are too small beside others for float64; "
        "divide each vertex's weights by their largest, which leaves their shares as they are"
    )


def verify_weighted_pagerank(
    graph: Graph,
    result: PagerankResult,
    damping: float = 0.85,
    tolerance: float = 1e-4,
    personalization: Personalization | None = None,
    dangling: Personalization | None = None,
) -> None:
    """Checks scores against the equation that defines them, in float64 on the CPU: they sum to 1, and a further step of the
    walk changes them by less than ``tolerance``.

    Raises:
        VerificationError: names the rule, the vertex and the values.
    """
    require_result(graph, result, PagerankResult)
    damping, tolerance = arguments.number("damping", damping), arguments.number("tolerance", tolerance)
    vertices = graph.num_vertices
    x = result.scores.cpu().double()
    require_each("scores", x, graph)
    if vertices == 0:
        return
    if not abs(float(x.sum()) - 1) < tolerance:
        raise VerificationError(f"scores sum to {float(x.sum())}, which is not within {tolerance} of 1")
    equal = torch.full((vertices,), 1 / vertices, dtype=torch.float64)
    p = equal if personalization is None else distribution(personalization, vertices)
    leaves = p if dangling is None else distribution(dangling, vertices, "dangling")
    src, dst, weights = edge_list(graph)
    worth = torch.ones(len(src), dtype=torch.float64) if weights is None else _alike(src, weights.double(), vertices)
    none = torch.zeros(vertices, dtype=torch.float64)
    totals = none.index_add(0, src, worth)
    stuck = totals == 0
    given = torch.where(stuck, 0.0, damping * x / totals)
    after = none.index_add(0, dst, given[src] * worth)
    after += (1 - damping) * p + damping * x[stuck].sum() * leaves
    require_close("a further step changes scores", x, after, tolerance)


def _alike(src: torch.Tensor, weights: torch.Tensor, vertices: int) -> torch.Tensor:
    """The weights in the same shares, those of a vertex by a power of two that takes its largest to about 1."""
    largest = torch.zeros(vertices, dtype=torch.float64).scatter_reduce_(0, src, weights.abs(), "amax")
    return torch.from_numpy(np.ldexp(weights.numpy(), -np.frexp(largest.numpy())[1][src.numpy()]))
