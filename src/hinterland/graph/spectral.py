"""Scores that are eigenvectors of the adjacency matrix, by power iteration in float64: hubs and authorities, Katz's, and the
eigenvector's own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError, VerificationError
from ..runtime.repr import Repr
from . import passes
from .checks import require_close, require_each, require_result
from .graph import Graph
from .pagerank import MOST_ITERATIONS
from .prepare import ResidentGraph, graph_of
from .spmv import AdjacencyMatrix, checked_product, unit_for

_ROUNDING = 1e-12  # of sums that verifiers compare
_Device = torch.device | str | int | None


@dataclass(frozen=True, repr=False)
class CentralityResult(Repr):
    """Scores of a graph's vertices.

    Attributes:
        scores: float64 ``[num_vertices]``, on the device that ran it.
        iterations: how often all edges were read.
        error: the change that the last iteration made, summed over all vertices.
        converged: whether ``error`` came below the tolerance.
    """

    scores: torch.Tensor
    iterations: int
    error: float
    converged: bool


@dataclass(frozen=True, repr=False)
class HitsResult(Repr):
    """Hubs and authorities of a graph.

    Attributes:
        hubs, authorities: float64 ``[num_vertices]``, each of sum 1, on the device that ran it.
        iterations, error, converged: as in :class:`CentralityResult`; the error is that of the hubs.
    """

    hubs: torch.Tensor
    authorities: torch.Tensor
    iterations: int
    error: float
    converged: bool


def hits(
    graph: Graph | ResidentGraph,
    tolerance: float = 1e-8,
    max_iterations: int = 100,
    start: torch.Tensor | None = None,
    gpu_budget: int | str | None = None,
    device: _Device = None,
) -> HitsResult:
    """Hubs and authorities (Kleinberg 1999): good hubs have edges to good authorities, and the other way round.

    Args:
        graph: the graph, or what :func:`prepare` made of it for ``"spmv"``; weights count if it has some, of the types that
            :func:`sssp` takes, finite and of one sign. Of a directed graph ``transpose()`` is made.
        tolerance: the last iteration is the one that changes hubs by less, summed over all vertices.
        max_iterations: from 1 to 2**31 - 1. Where they do not suffice, the result says ``converged=False``.
        start: hubs to begin with, ``[num_vertices]``, not negative, some of them with edges; None means the same for all.
            Where several answers are right, as in a graph of several alike parts, it chooses.
        gpu_budget, device: as for :func:`pagerank`.

    Raises:
        ConfigError: a number out of its range, a start of another shape, with a negative number or without edges, weights of
            both signs, infinite ones.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: the vectors exceed the free GPU memory.
    """
    _require_one_sign(graph_of(graph))
    matrix, tolerance, limit = _begun(graph, True, tolerance, max_iterations, gpu_budget, device)
    hubs = _start(matrix, start, 1.0)
    if start is not None and bool((hubs < 0).any()):
        raise ConfigError(f"start goes down to {float(hubs.min())}, but shares of 1 are not negative; use numbers from 0 on")
    hubs = _to_sum(hubs)
    error, iteration = float("inf"), 0
    while iteration < limit and not error < tolerance:
        authorities = _to_sum(matrix.transposed_times(matrix.scaled(hubs)))
        after = _to_sum(matrix.times(matrix.scaled(authorities)))
        error, hubs, iteration = passes.distance(after, hubs), after, iteration + 1
    if start is not None and passes.total(hubs) == 0 and _weighs(graph_of(graph)):
        raise ConfigError("no hub of start has an edge that weighs something, so there are no authorities; begin with others")
    return HitsResult(matrix.to_original(hubs), matrix.to_original(authorities), iteration, error, error < tolerance)


def katz_centrality(
    graph: Graph | ResidentGraph,
    alpha: float = 0.1,
    beta: float | torch.Tensor = 1.0,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    start: torch.Tensor | None = None,
    weighted: bool = False,
    gpu_budget: int | str | None = None,
    device: _Device = None,
) -> CentralityResult:
    """How many ways lead to each vertex, each of n edges counted alpha^n times (Katz 1953): x = alpha A^T x + beta.
    Scores are not normalised.

    Args:
        alpha: below one over the largest eigenvalue of A, or it does not converge.
        beta: what each vertex has by itself: a number, or ``[num_vertices]`` of them.
        tolerance, max_iterations, start, gpu_budget, device: as for :func:`hits`; the start is 0 unless given.
        weighted: whether weights count.

    Raises:
        ConfigError, GraphError, OutOfMemory: as :func:`hits`.
    """
    alpha = arguments.number("alpha", alpha)
    matrix, tolerance, limit = _begun(graph, weighted, tolerance, max_iterations, gpu_budget, device)
    own = _start(matrix, beta, 0) if isinstance(beta, torch.Tensor) else matrix.full(arguments.number("beta", beta))
    x, error, iteration = _start(matrix, start, 0.0), float("inf"), 0
    while iteration < limit and not error < tolerance:
        after = matrix.transposed_times(matrix.scaled(x))
        passes.scale(after, alpha / matrix.unit)
        passes.add(after, 1.0, own)
        error, x, iteration = passes.distance(after, x), after, iteration + 1
    return CentralityResult(matrix.to_original(x), iteration, error, error < tolerance)


def eigenvector_centrality(
    graph: Graph | ResidentGraph,
    tolerance: float = 1e-6,
    max_iterations: int = 100,
    start: torch.Tensor | None = None,
    weighted: bool = False,
    gpu_budget: int | str | None = None,
    device: _Device = None,
) -> CentralityResult:
    """The eigenvector of the transposed adjacency matrix for its largest eigenvalue, of length 1 (Bonacich 1972).

    A vertex is as central as those together that have edges to it. Iterations are those of A^T + I, whose eigenvectors are the
    same. Where that makes 0 of the start, as only negative weights do, scores are 0 and have not converged.

    Args:
        tolerance, max_iterations, start, gpu_budget, device: as for :func:`hits`; a start is divided by its sum, and not all 0.
        weighted: whether weights count.

    Raises:
        ConfigError, GraphError, OutOfMemory: as :func:`hits`.
    """
    matrix, tolerance, limit = _begun(graph, weighted, tolerance, max_iterations, gpu_budget, device)
    x = _start(matrix, start, 1.0)
    if len(x) and start is not None and passes.length(x) == 0:
        raise ConfigError("start is 0 for all vertices, which stays so; give one of them another number")
    x, error, iteration, length = _to_sum(x), float("inf"), 0, 0.0
    while iteration < limit and not error < tolerance:
        scaled = matrix.scaled(x)
        after = passes.add(matrix.transposed_times(scaled), 1.0, scaled)
        length = passes.length(after)
        passes.divide(after, length or 1.0)
        error, x, iteration = passes.distance(after, x), after, iteration + 1
    return CentralityResult(matrix.to_original(x), iteration, error, error < tolerance and (length > 0 or len(x) == 0))


def verify_hits(graph: Graph, result: HitsResult, tolerance: float = 1e-8) -> None:
    """Checks hubs and authorities without the kernels that found them: both are shares of 1, or all 0 where no edge weighs
    anything; authorities are those of the hubs, within ten times ``tolerance``; a further step changes the hubs by less than
    ``tolerance``, up to rounding.

    Raises:
        VerificationError: names the rule and the values.
        ConfigError: weights of both signs, infinite ones.
    """
    require_result(graph, result, HitsResult)
    _require_one_sign(graph)
    tolerance = arguments.number("tolerance", tolerance)
    weighted = graph.weight_type is not None
    hubs, authorities = result.hubs.cpu(), result.authorities.cpu()
    for name, shares in (("hubs", hubs), ("authorities", authorities)):
        require_each(name, shares, graph)
        least, total = float(shares.amin()) if len(shares) else 0.0, float(shares.sum())
        if not (least >= 0 and (abs(total - 1) < 1e-9 or (total == 0 and not _weighs(graph)))):
            raise VerificationError(f"{name} are no shares of 1: they go down to {least} and sum to {total}")
    unit = unit_for(graph)
    following = _to_sum(checked_product(graph, unit * hubs, weighted, transposed=True))
    again = _to_sum(checked_product(graph, unit * following, weighted))
    require_close("authorities are not what hubs make them", authorities, following, 10 * tolerance, _ROUNDING)
    require_close("a further step changes hubs", hubs, again, tolerance, _ROUNDING)


def verify_katz(
    graph: Graph,
    result: CentralityResult,
    alpha: float = 0.1,
    beta: float | torch.Tensor = 1.0,
    tolerance: float = 1e-6,
    weighted: bool = False,
) -> None:
    """Checks x = alpha A^T x + beta without the kernel that found it: one more step changes less than ``tolerance``.

    Raises:
        VerificationError: names the vertex and the values.
        ConfigError: infinite weights.
    """
    require_result(graph, result, CentralityResult)
    alpha, tolerance = arguments.number("alpha", alpha), arguments.number("tolerance", tolerance)
    x, weighted = result.scores.cpu(), arguments.switch("weighted", weighted)
    require_each("scores", x, graph)
    own = _given(beta, len(x)).cpu() if isinstance(beta, torch.Tensor) else arguments.number("beta", beta)
    unit = unit_for(graph) if weighted else 1.0
    after = alpha / unit * checked_product(graph, unit * x, weighted, transposed=True) + own
    require_close("a further step changes scores", x, after, tolerance * max(1.0, alpha * float(x.abs().max())), _ROUNDING)


def verify_eigenvector(graph: Graph, result: CentralityResult, tolerance: float = 1e-6, weighted: bool = False) -> None:
    """Checks that scores have length 1, and that A^T + I makes nothing else of them: the same without the kernel.

    Raises:
        VerificationError: names the vertex and the values, or the length.
        ConfigError: infinite weights.
    """
    require_result(graph, result, CentralityResult)
    tolerance, weighted = arguments.number("tolerance", tolerance), arguments.switch("weighted", weighted)
    x = result.scores.cpu()
    require_each("scores", x, graph)
    if len(x) and not abs((length := float(x.norm())) - 1) < 1e-9:
        raise VerificationError(f"scores have length {length}, not 1")
    scaled = (unit_for(graph) if weighted else 1.0) * x
    after = checked_product(graph, scaled, weighted, transposed=True) + scaled
    require_close("a further step changes scores", x, after / (passes.length(after) or 1.0), tolerance, _ROUNDING)


def _begun(
    graph: Graph | ResidentGraph,
    weighted: bool,
    tolerance: float,
    max_iterations: int,
    gpu_budget: int | str | None,
    device: _Device,
) -> tuple[AdjacencyMatrix, float, int]:
    tolerance, weighted = arguments.number("tolerance", tolerance), arguments.switch("weighted", weighted)
    limit = arguments.whole_number("max_iterations", max_iterations, 1, MOST_ITERATIONS)
    return AdjacencyMatrix(graph, weighted and graph_of(graph).weight_type is not None, gpu_budget, device), tolerance, limit


def _require_one_sign(graph: Graph) -> None:
    """Refuses weights of which Perron's and Frobenius's theorem does not hold: scores may be of both signs, and sum to 0."""
    found = graph.weight_range
    if found is not None and found.least < 0 < found.most:
        raise ConfigError(
            f"weights go from {found.least} to {found.most}, but hubs and authorities are shares of 1, which weights of both "
            "signs do not give; use weights.abs(), or edges of one sign"
        )


def _weighs(graph: Graph) -> bool:
    """Whether an edge has a weight other than 0."""
    found = graph.weight_range
    return graph.num_edges > 0 and (found is None or found.least < 0 or found.most > 0)


def _start(matrix: AdjacencyMatrix, given: torch.Tensor | None, otherwise: float) -> torch.Tensor:
    return matrix.full(otherwise) if given is None else matrix.to_internal(_given(given, len(matrix)))


def _given(vector: torch.Tensor, vertices: int) -> torch.Tensor:
    if arguments.dense("a vector", vector).shape != (vertices,) or vector.is_complex():
        raise ConfigError(f"a vector has one real number for each of {vertices} vertices, not shape {tuple(vector.shape)}")
    return vector


def _to_sum(x: torch.Tensor) -> torch.Tensor:
    """x itself, once it is divided by its sum, where that is not 0. ConfigError where one of its numbers is not finite."""
    total = passes.total(x)
    if not math.isfinite(total):  # of finite numbers beyond the floats' range, too
        passes.scale(x, 2.0**-64)
        total = passes.total(x)
        if not math.isfinite(total):
            raise ConfigError("a number of start is NaN or infinite; replace it, as in start.nan_to_num(0, 0, 0)")
    return passes.divide(x, total or 1.0)
