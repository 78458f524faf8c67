"""Communities by Louvain's method, on the CPU wherever the graph lies (Blondel et al. 2008)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError, VerificationError
from ..runtime.params import struct
from ..runtime.shown import Shown
from .edges import from_edges
from .graph import Graph, require_graph, require_result
from .rows import edge_list

_PARAMS, _ROWS = struct("LouvainParams"), struct("WeightedRows")
_Edges = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True, repr=False)
class CommunitiesResult(Shown):
    """A partition of a graph's vertices.

    Attributes:
        labels: int64 ``[num_vertices]``, on the CPU; the smallest vertex of each vertex's community.
        count: how many communities there are.
        modularity: how much more of the edges' weight lies within communities than would if edges were drawn at random by
            degrees (Newman 2004; of directed graphs Leicht and Newman 2008).
    """

    labels: torch.Tensor
    count: int
    modularity: float


def louvain(
    graph: Graph, resolution: float = 1, threshold: float = 1e-7, max_levels: int | None = None, seed: int = 1
) -> CommunitiesResult:
    """Communities of high modularity: vertices move to the neighbouring community that raises it most, until none does; then
    communities are the vertices of the next level.

    Args:
        graph: the graph, in any place and form, with its weights if it has some, which are not negative; about 100 bytes an
            edge of host memory are taken besides. Parallel edges add up.
        resolution: not negative; above 1 communities are smaller, below larger.
        threshold: no further level is begun after one that raised modularity by no more.
        max_levels: the most levels; None is as many as it takes.
        seed: draws the order in which vertices are looked at. The same seed gives the same communities.

    Returns:
        ``CommunitiesResult(labels int64 [V], count, modularity)``, on the CPU.

    Raises:
        ConfigError: a number out of its range, a negative weight, an infinite one.
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    edges = _weighted_edges(graph)
    if not (resolution := arguments.number("resolution", resolution)) >= 0:
        raise ConfigError(f"resolution {resolution} is negative")
    if max_levels is not None:
        arguments.whole_number("max_levels", max_levels, 1)
    threshold = arguments.number("threshold", threshold)
    draw = torch.Generator().manual_seed(arguments.whole_number("seed", seed, -(2**63), 2**64 - 1))
    vertices = graph.num_vertices
    labels, size = torch.arange(vertices), vertices
    reached, level = _modularity(edges, vertices, resolution), 0
    while float(edges[2].sum()) > 0 and (max_levels is None or level < max_levels):
        moved, numbers = _moved(edges, size, resolution, draw)
        labels, size, level = numbers[labels], int(numbers.max()) + 1, level + 1
        edges = _summed(numbers[edges[0]], numbers[edges[1]], edges[2])
        before, reached = reached, _modularity(edges, size, resolution)
        if not moved or reached - before <= threshold:
            break
    count = len(labels.unique())
    smallest = torch.full((vertices,), vertices).scatter_reduce_(0, labels, torch.arange(vertices), "amin")
    return CommunitiesResult(smallest[labels], count, reached)


def verify_communities(graph: Graph, result: CommunitiesResult, resolution: float = 1) -> None:
    """Checks a partition on the CPU.

    1. A label is the smallest vertex that has it; ``count`` is the number of labels.
    2. ``modularity`` is that of the labels, by its definition.
    3. It is not below that of every vertex by itself.

    Args:
        graph: the graph.
        result: what :func:`louvain` found.
        resolution: as :func:`louvain` had it.

    Raises:
        VerificationError: names the rule and the values.
    """
    edges = _weighted_edges(graph)
    require_result(result, CommunitiesResult)
    labels, vertices = result.labels.cpu(), graph.num_vertices
    if labels.shape != (vertices,):
        raise VerificationError(f"labels have shape {tuple(labels.shape)}, but the graph has {vertices} vertices")
    everyone = torch.arange(vertices)
    wrong = ((labels < 0) | (labels > everyone)).nonzero()[:, 0]
    wrong = wrong if len(wrong) else (labels[labels] != labels).nonzero()[:, 0]
    if len(wrong):
        raise VerificationError(f"rule 1: vertex {int(wrong[0])} has label {int(labels[wrong[0]])}, not its smallest vertex")
    if int((labels == everyone).sum()) != result.count:
        raise VerificationError(f"rule 1: there are {int((labels == everyone).sum())} labels, but count is {result.count}")
    found = _modularity((labels[edges[0]], labels[edges[1]], edges[2]), vertices, resolution)
    if not abs(found - result.modularity) < 1e-9:
        raise VerificationError(f"rule 2: the labels' modularity is {found}, not {result.modularity}")
    if found < (alone := _modularity(edges, vertices, resolution)) - 1e-9:
        raise VerificationError(f"rule 3: modularity is {found}, but {alone} if every vertex is by itself")


def _weighted_edges(graph: Graph) -> _Edges:
    """Where edges begin and end and what they weigh, each pair of vertices once. A self loop of an undirected graph, which is
    stored once, has the weight of its two ends."""
    require_graph(graph)
    src, dst, weights = edge_list(graph)
    worth = torch.ones(len(src), dtype=torch.float64) if weights is None else weights.double()
    if not bool(((worth >= 0) & worth.isfinite()).all()):
        raise ConfigError("communities are found by weights that are finite and not negative; change the others")
    if not graph.directed:
        worth = torch.where(src == dst, 2 * worth, worth)
    return _summed(src, dst, worth)


def _summed(src: torch.Tensor, dst: torch.Tensor, weights: torch.Tensor) -> _Edges:
    pairs, at = torch.stack([src, dst]).unique(dim=1, return_inverse=True)
    return pairs[0], pairs[1], torch.zeros(pairs.shape[1], dtype=torch.float64).index_add_(0, at, weights)


def _degrees(edges: _Edges, vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights of the edges out of each vertex, and into it."""
    src, dst, weights = edges
    none = torch.zeros(vertices, dtype=torch.float64)
    return none.index_add(0, src, weights), none.index_add(0, dst, weights)


def _modularity(edges: _Edges, communities: int, resolution: float) -> float:
    """Of each end's community, once edges are those between communities."""
    src, dst, weights = edges
    total = float(weights.sum())
    if total == 0:
        return 0.0
    outs, ins = _degrees(edges, communities)
    return float(weights[src == dst].sum()) / total - resolution * float(outs @ ins) / total**2


def _moved(edges: _Edges, vertices: int, resolution: float, draw: torch.Generator) -> tuple[bool, torch.Tensor]:
    """Whether a vertex moved, and the number of each one's community, from 0 on."""
    src, dst, weights = edges
    rows = [from_edges(a, b, weights, num_vertices=vertices) for a, b in ((src, dst), (dst, src))]
    lists = [(row.indptr, row.indices.long(), row.weights) for row in rows]
    outs, ins = _degrees(edges, vertices)
    order, communities = torch.randperm(vertices, generator=draw), torch.arange(vertices)
    out, incoming = (
        _ROWS(indptr=a.data_ptr(), neighbors=b.data_ptr(), weights=c.data_ptr()) for a, b, c in lists if c is not None
    )
    params = _PARAMS(
        out=out,
        **{"in": incoming},
        order=order.data_ptr(),
        out_degrees=outs.data_ptr(),
        in_degrees=ins.data_ptr(),
        vertices=vertices,
        total=float(weights.sum()),
        resolution=resolution,
        communities=communities.data_ptr(),
    )
    moved = _core.louvain_moves(params.address)
    return moved, communities.unique(return_inverse=True)[1]
