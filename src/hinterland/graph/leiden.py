"""Connected communities by Leiden's method, on the CPU wherever the graph lies (Traag, Waltman and van Eck 2019)."""

from __future__ import annotations

import numpy as np
import torch

from ..runtime.errors import VerificationError
from .cc import connected_components
from .edges import from_edges
from .export import module_of
from .graph import Graph
from .louvain import (
    CommunitiesResult,
    Edges,
    Level,
    checked,
    degrees,
    modularity,
    numbered,
    summed,
    verify_communities,
    weighted_edges,
)

_RANDOMNESS = 0.01  # theta, as the paper has it, of the mean weight


def leiden(graph: Graph, resolution: float = 1, max_levels: int | None = None, seed: int = 1) -> CommunitiesResult:
    """Communities of high modularity, each of them connected.

    As :func:`louvain`, but the vertices of the next level are parts of communities, merged along edges, which may still leave
    them; and levels are gone through again until nothing changes.

    Args:
        graph: the graph, as for :func:`louvain`.
        resolution: finite and not negative; above 1 communities are smaller, below larger.
        max_levels: the most levels. None is as many as it takes: then no vertex raises modularity by moving, and no two
            communities by becoming one.
        seed: draws the order in which vertices are looked at, and what they merge with. The same seed gives the same
            communities.

    Raises:
        ConfigError: a number out of its range, a negative weight, an infinite one.
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    edges = weighted_edges(graph)
    resolution, draw = checked(resolution, max_levels, seed)
    vertices, weights = graph.num_vertices, edges[2]
    randomness = _RANDOMNESS * weights.mean() if len(weights) else 1.0
    bottom = Level(edges, vertices, resolution)
    labels, level, moved = np.arange(vertices), 0, len(weights) > 0
    while moved and level != max_levels:
        here, at, part, communities, moved = bottom, edges, np.arange(vertices), labels, False
        while level != max_levels:
            level += 1
            changed, communities = here.moved(communities, draw)
            moved |= changed
            count = int(communities.max()) + 1
            if count == here.size:
                break
            merged = here.merged(communities, randomness, draw)
            if int(merged.max()) + 1 == here.size:  # none did: whole communities are the next vertices
                merged = communities
            size, part = int(merged.max()) + 1, merged[part]
            at = summed(merged[at[0]], merged[at[1]], at[2], size)
            here, above = Level(at, size, resolution), np.empty(size, np.int64)
            above[merged] = communities
            communities = above
        labels = _connected(edges, communities[part])
    reached = modularity((labels[edges[0]], labels[edges[1]], weights), vertices, resolution)
    return CommunitiesResult(torch.from_numpy(labels), len(np.unique(labels)), reached)


def verify_leiden(graph: Graph, result: CommunitiesResult, resolution: float = 1, max_levels: int | None = None) -> None:
    """Checks a partition on the CPU by the rules of :func:`verify_communities`, and two more.

    4. Each community is connected, by edges of any direction that weigh something.
    5. Where levels had no limit: no vertex raises modularity by moving to another community or out of its own, and no community
       by becoming one with another.

    Raises:
        VerificationError: names the rule and the values.
        ConfigError: scipy is missing.
    """
    verify_communities(graph, result, resolution)
    (src, dst, weights), labels = weighted_edges(graph), result.labels.cpu().numpy()
    within = labels[src] == labels[dst]
    entries = (weights[within], (src[within], dst[within]))
    matrix = module_of("scipy.sparse").csr_array(entries, shape=(len(labels),) * 2)
    parts = module_of("scipy.sparse.csgraph").connected_components(matrix, directed=False)[1]
    apart = np.flatnonzero(parts != parts[labels])
    if len(apart):
        at = int(apart[0])
        raise VerificationError(f"rule 4: no way leads from vertex {at} to {int(labels[at])} within their community")
    if max_levels is None:
        members = numbered(labels)
        _require_best("vertex {} raises", (src, dst, weights), members, resolution)
        between = summed(members[src], members[dst], weights, result.count)
        _require_best("community number {} and another raise", between, np.arange(result.count), resolution)


def _connected(edges: Edges, communities: np.ndarray) -> np.ndarray:
    """Each vertex's community by its smallest vertex. Parts that no edge joins are apart: a move may have taken the vertex that
    held them together."""
    src, dst, _ = edges
    within = communities[src] == communities[dst]
    ends = torch.from_numpy(src[within]), torch.from_numpy(dst[within])
    return connected_components(from_edges(*ends, num_vertices=len(communities)), device="cpu").labels.numpy()


def _require_best(what: str, edges: Edges, communities: np.ndarray, resolution: float) -> None:
    """VerificationError where a vertex of these edges raises modularity by a move; ``what`` names it by its number."""
    total, size = float(edges[2].sum()), len(communities)
    if total == 0:
        return
    src, dst, weights = (side[edges[0] != edges[1]] for side in edges)
    outs, ins = degrees(edges, size)
    all_outs, all_ins = np.bincount(communities, outs, size), np.bincount(communities, ins, size)
    u, near, shared = summed(
        np.concatenate([src, dst]), communities[np.concatenate([dst, src])], np.concatenate([weights, weights]), size
    )
    home = near == communities[u]

    def worth(vertices: np.ndarray, shared: np.ndarray, their_outs: np.ndarray, their_ins: np.ndarray) -> np.ndarray:
        return (shared - resolution * (outs[vertices] * their_ins + ins[vertices] * their_outs) / total) / total

    everyone = np.arange(size)
    stays = worth(everyone, np.bincount(u[home], shared[home], size), all_outs[communities] - outs, all_ins[communities] - ins)
    away = worth(u, shared, all_outs[near], all_ins[near])[~home] - stays[u[~home]]
    gains = np.concatenate([away, -stays])  # the last are those of leaving for nowhere
    if not gains.max() <= 1e-9:
        at = int(np.concatenate([u[~home], everyone])[gains.argmax()])
        raise VerificationError(f"rule 5: {what.format(at)} modularity by {float(gains.max()):.3g}")
