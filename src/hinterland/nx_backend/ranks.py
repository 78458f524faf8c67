"""networkx's scores of nodes by walks and by shortest paths through them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable
from typing import Any

import networkx as nx
import numpy as np
import torch

import hinterland as hl

from ..graph.pagerank import MOST_ITERATIONS
from .converted import BackendGraph, options
from .edges import ends_of

_Scores = dict[Hashable, float]


def pagerank(
    G: BackendGraph,
    alpha: float = 0.85,
    personalization: _Scores | None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: _Scores | None = None,
    weight: str | None = "weight",
    dangling: _Scores | None = None,
) -> _Scores:
    if len(G) == 0:
        return {}
    given = {"personalization": personalization, "dangling": dangling, "start": nstart}
    shares = {name: G.vector(values) for name, values in given.items() if values is not None}
    if personalization is not None and shares["personalization"].sum() == 0:
        raise ZeroDivisionError
    most, tolerance = _limits(G, max_iter, tol)
    if not all(bool(values.isfinite().all()) for values in shares.values()):
        raise nx.PowerIterationFailedConvergence(max_iter)  # of networkx, whose scores are then NaN
    if not 0 <= alpha <= 1 or any(values.amin() < 0 or not 0 < values.sum() < math.inf for values in shares.values()):
        raise NotImplementedError(
            "hinterland's walks go on with a probability, to vertices drawn by shares that are not negative"
        )
    found = hl.graph.weighted_pagerank(
        _with_sums(G.weighted_by(weight)),
        damping=alpha,
        tolerance=tolerance,
        max_iterations=most,
        personalization=shares.get("personalization"),
        dangling=shares.get("dangling"),
        start=shares.get("start"),
        **options(),
    )
    if not found.converged:
        raise nx.PowerIterationFailedConvergence(max_iter)
    return G.of(found.scores)


def _with_sums(graph: hl.Graph) -> hl.Graph:
    """The graph; NotImplementedError where networkx's sums of weights, or their reciprocals, may leave the floats' range: a
    node whose weights sum to infinity has no way on there."""
    weights = graph.weights
    if weights is not None and weights.is_floating_point() and len(weights):
        sizes = weights.abs()
        if not float(sizes.max()) * len(sizes) < 2.0**1000 or bool(((sizes > 0) & (sizes < 2.0**-900)).any()):
            raise NotImplementedError("hinterland leaves walks by weights so large, or so small, to networkx")
    return graph


def betweenness_centrality(
    G: BackendGraph,
    k: int | None = None,
    normalized: bool = True,
    weight: str | None = None,
    endpoints: bool = False,
    seed: Any = None,
) -> _Scores:
    if k == 0 and len(G) > 2:
        raise ZeroDivisionError("k is 0: no source to estimate from")
    # networkx makes seed a random.Random before it calls; its sample is the one that networkx would draw.
    sources = None if k is None else [G.number[node] for node in seed.sample(G.nodes, k)]
    return G.of(hl.betweenness_centrality(G.graph, sources=sources, normalized=normalized, **options()).scores)


def edge_betweenness_centrality(
    G: BackendGraph, k: int | None = None, normalized: bool = True, weight: str | None = None, seed: Any = None
) -> dict[tuple[Hashable, Hashable], float]:
    if k == 0 and len(G) > 1:
        raise ZeroDivisionError("k is 0: no source to estimate from")
    sources = None if k is None else [G.number[node] for node in seed.sample(G.nodes, k)]
    where = options()["device"]
    scores = hl.graph.edge_betweenness_centrality(G.graph, sources=sources, normalized=normalized, device=where).scores.cpu()
    src, dst = ends_of(G)
    once = torch.ones_like(src, dtype=torch.bool) if G.is_directed() else src <= dst
    ends = torch.stack([src, dst], 1)[once].tolist()
    return {(G.nodes[u], G.nodes[v]): score for (u, v), score in zip(ends, scores[once].tolist(), strict=True)}


def hits(
    G: BackendGraph, max_iter: int = 100, tol: float = 1.0e-8, nstart: _Scores | None = None, normalized: bool = True
) -> tuple[_Scores, _Scores]:
    if len(G) == 0:
        return {}, {}
    if max_iter <= 0:
        raise nx.PowerIterationFailedConvergence(max_iter)
    from scipy.sparse.linalg import ArpackNoConvergence, svds  # which networkx needs for it as well

    matrix = _matrix(G, "weight")
    # networkx draws where ARPACK begins; here it is the same with each call.
    start = np.random.default_rng(0).standard_normal(len(G)) if nstart is None else np.array(list(nstart.values()))
    try:
        _, _, vectors = svds(matrix, k=1, v0=start, maxiter=max_iter, tol=tol)
    except ArpackNoConvergence as error:
        raise nx.PowerIterationFailedConvergence(max_iter) from error
    authorities = vectors.flatten()
    if not matrix.data.min() < 0 < matrix.data.max():  # where several answers are right, so is one without negative scores
        authorities = abs(authorities)
    hubs = matrix @ authorities
    if normalized:
        hubs, authorities = hubs / hubs.sum(), authorities / authorities.sum()
    return G.of(torch.from_numpy(hubs)), G.of(torch.from_numpy(authorities))


def _matrix(G: BackendGraph, weight: str) -> Any:
    """The adjacency matrix over the graph's own arrays, with float64 weights. Parallel edges are entries of their own."""
    from scipy.sparse import csr_array

    indptr, indices, weights = G.weighted_by(weight).checked_rows()
    values = torch.ones(len(indices), dtype=torch.float64) if weights is None else weights.double()
    return csr_array((values.numpy(), indices.numpy(), indptr.numpy()), shape=(len(G), len(G)))


def katz_centrality(
    G: BackendGraph,
    alpha: float = 0.1,
    beta: Any = 1.0,
    max_iter: int = 1000,
    tol: float = 1.0e-6,
    nstart: _Scores | None = None,
    normalized: bool = True,
    weight: str | None = None,
) -> _Scores:
    if len(G) == 0:
        return {}
    try:
        own: Any = float(beta)
    except (TypeError, ValueError, AttributeError) as error:
        if set(beta) != set(G):
            raise nx.NetworkXError("beta dictionary must have a value for every node") from error
        own = G.vector(beta)
    scores = _iterated(hl.graph.katz_centrality, G, max_iter, tol, nstart, weight, alpha=1.0 * alpha, beta=own)
    return G.of(scores / (float(scores.norm()) or 1.0) if normalized else scores)


def eigenvector_centrality(
    G: BackendGraph,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: _Scores | None = None,
    weight: str | None = None,
) -> _Scores:
    if len(G) == 0:
        raise nx.NetworkXPointlessConcept("cannot compute centrality for the null graph")
    if nstart is not None and all(value == 0 for value in nstart.values()):
        raise nx.NetworkXError("initial vector cannot have all zero values")
    return G.of(_iterated(hl.graph.eigenvector_centrality, G, max_iter, tol, nstart, weight))


def _iterated(
    function: Callable[..., Any],
    G: BackendGraph,
    max_iter: int,
    tol: float,
    nstart: _Scores | None,
    weight: str | None,
    **given: Any,
) -> torch.Tensor:
    """Scores that iterations find; PowerIterationFailedConvergence where so many do not."""
    most, tolerance = _limits(G, max_iter, tol)
    start = None if nstart is None else _all_of(G, nstart)
    found = function(
        _finite(G.weighted_by(weight)),
        tolerance=tolerance,
        max_iterations=most,
        start=start,
        weighted=weight is not None,
        **given,
        **options(),
    )
    if not found.error < tolerance:
        raise nx.PowerIterationFailedConvergence(max_iter)
    scores: torch.Tensor = found.scores
    return scores


def _limits(G: BackendGraph, max_iter: int, tol: float) -> tuple[int, float]:
    """How many iterations, and by how much all scores together may change; networkx's errors where these are no numbers."""
    most, change = range(max_iter).stop, len(G) * tol
    if most < 1:
        raise nx.PowerIterationFailedConvergence(max_iter)
    return min(most, MOST_ITERATIONS), math.inf if change > sys.float_info.max else float(change)


def _finite(graph: hl.Graph) -> hl.Graph:
    """The graph; NotImplementedError where a weight is infinite."""
    found = graph.weight_range
    if found is not None and math.inf in (-found.least, found.most):
        raise NotImplementedError("hinterland finds scores by weights that are finite")
    return graph


def _all_of(G: BackendGraph, values: _Scores) -> torch.Tensor:
    """Values by node; NotImplementedError unless there is one for each node and their sum is finite and not 0."""
    if values.keys() != G.number.keys() or not 0 < abs(sum(values.values())) < math.inf:
        raise NotImplementedError("hinterland begins with a number for each node, whose sum is finite and not 0")
    return G.vector(values)
