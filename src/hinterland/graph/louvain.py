"""Communities by Louvain's method, on the CPU wherever the graph lies (Blondel et al. 2008)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError, VerificationError
from ..runtime.params import struct
from ..runtime.repr import Repr
from .checks import require_each, require_result, require_smallest
from .edge_list import edge_list
from .graph import Graph, require_graph

_PARAMS, _MERGES, _ROWS = struct("LouvainParams"), struct("LeidenParams"), struct("WeightedRows")
_EXPONENT = 400  # of weights that are taken as they are: their sum has a square within the floats' range
_ALONE = 10_000  # numbers that OpenBLAS multiplies and adds by one thread
Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # of numpy, which wakes no threads for short loops


@dataclass(frozen=True, repr=False)
class CommunitiesResult(Repr):
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
    """Communities of high modularity: vertices move to the neighbouring or empty community that raises it most; then
    communities are the vertices of the next level.

    Args:
        graph: the graph, in any place and form, with its weights if it has some, which are not negative; about 100 bytes an
            edge of host memory are taken besides. Parallel edges add up.
        resolution: finite and not negative; above 1 communities are smaller, below larger.
        threshold: no further level is begun after one that raised modularity by no more.
        max_levels: the most levels; None is as many as it takes.
        seed: draws the order in which vertices are looked at. The same seed gives the same communities.

    Raises:
        ConfigError: a number out of its range, a negative weight, an infinite one.
        GraphError: the graph's arrays were changed since it was made, and are none any more.
    """
    edges = weighted_edges(graph)
    resolution, draw = checked(resolution, max_levels, seed)
    threshold = arguments.number("threshold", threshold)
    vertices = graph.num_vertices
    labels, size = np.arange(vertices), vertices
    reached, level = modularity(edges, vertices, resolution), 0
    while len(edges[0]) > 0 and (max_levels is None or level < max_levels):
        moved, numbers = Level(edges, size, resolution).moved(np.arange(size), draw)
        labels, size, level = numbers[labels], int(numbers.max()) + 1, level + 1
        edges = summed(numbers[edges[0]], numbers[edges[1]], edges[2], size)
        before, reached = reached, modularity(edges, size, resolution)
        if not moved or reached - before <= threshold:
            break
    _, first, at = np.unique(labels, return_index=True, return_inverse=True)
    return CommunitiesResult(torch.from_numpy(first[at]), len(first), reached)


def verify_communities(graph: Graph, result: CommunitiesResult, resolution: float = 1) -> None:
    """Checks a partition on the CPU.

    1. A label is the smallest vertex that has it; ``count`` is the number of labels.
    2. ``modularity`` is that of the labels, by its definition.
    3. It is not below that of every vertex by itself.

    Raises:
        VerificationError: names the rule and the values.
        ConfigError: as :func:`louvain`.
    """
    require_result(graph, result, CommunitiesResult)
    edges = weighted_edges(graph)
    resolution = checked_resolution(resolution)
    labels, vertices = result.labels.cpu(), graph.num_vertices
    require_each("labels", labels, graph)
    require_smallest(labels, result.count)
    of = labels.numpy()
    found = modularity((of[edges[0]], of[edges[1]], edges[2]), vertices, resolution)
    rounding = 1e-9 * max(1.0, resolution)
    if not abs(found - result.modularity) < rounding:
        raise VerificationError(f"rule 2: the labels' modularity is {found}, not {result.modularity}")
    if found < (alone := modularity(edges, vertices, resolution)) - rounding:
        raise VerificationError(f"rule 3: modularity is {found}, but {alone} if every vertex is by itself")


def checked(resolution: float, max_levels: int | None, seed: int) -> tuple[float, torch.Generator]:
    """The resolution, and what draws; ConfigError where one of them is out of its range."""
    resolution = checked_resolution(resolution)
    if max_levels is not None:
        arguments.whole_number("max_levels", max_levels, 1)
    return resolution, torch.Generator().manual_seed(arguments.whole_number("seed", seed, -(2**63), 2**64 - 1))


def checked_resolution(given: float) -> float:
    """The resolution; ConfigError where it is out of its range."""
    if not 0 <= (resolution := arguments.number("resolution", given)) < math.inf:
        raise ConfigError(f"resolution {resolution} is not a finite number from 0 on")
    return resolution


def weighted_edges(graph: Graph) -> Edges:
    """Where edges begin and end and what they weigh, each pair of vertices once, if it weighs anything. A self loop of an
    undirected graph, which is stored once, has the weight of its two ends. Where the largest weight is beyond 2^400 or below
    2^-400, all are multiplied by a power of two, which leaves modularity as it is."""
    require_graph(graph)
    src, dst, weights = edge_list(graph)
    worth = np.ones(len(src)) if weights is None else weights.double().numpy()
    if not bool(((worth >= 0) & np.isfinite(worth)).all()):
        raise ConfigError("communities are found by weights that are finite and not negative; change the others")
    exponent = int(np.frexp(worth.max(initial=0))[1])
    if abs(exponent) > _EXPONENT:
        worth = np.ldexp(worth, -exponent)
    begins, ends = src.numpy(), dst.numpy()
    if not graph.directed:
        worth = np.where(begins == ends, 2 * worth, worth)
    some = worth > 0
    return summed(begins[some], ends[some], worth[some], graph.num_vertices)


def summed(src: np.ndarray, dst: np.ndarray, weights: np.ndarray, vertices: int) -> Edges:
    """The edges by their ends, each pair of ends once, with the sum of its weights."""
    pairs, at = np.unique(src * vertices + dst, return_inverse=True)
    return *np.divmod(pairs, max(vertices, 1)), np.bincount(at, weights, len(pairs))


def degrees(edges: Edges, vertices: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the edges out of each vertex, and into it."""
    src, dst, weights = edges
    return np.bincount(src, weights, vertices), np.bincount(dst, weights, vertices)


def modularity(edges: Edges, communities: int, resolution: float) -> float:
    """Of each end's community, once edges are those between communities."""
    src, dst, weights = edges
    total = float(weights.sum())
    if total == 0:
        return 0.0
    outs, ins = degrees(edges, communities)
    return float(weights[src == dst].sum()) / total - resolution * (_dot(outs, ins) / total**2)


def _dot(left: np.ndarray, right: np.ndarray) -> float:
    """The sum of products, by one thread: OpenBLAS's others, which longer vectors wake, spin when they are through."""
    pieces = (slice(begin, begin + _ALONE) for begin in range(0, len(left), _ALONE))
    return sum(float(left[piece] @ right[piece]) for piece in pieces)


class Level:
    """Vertices, or communities in their place, and the edges between them, as native loops take them."""

    def __init__(self, edges: Edges, vertices: int, resolution: float) -> None:
        src, dst, weights = edges
        self.size, self._resolution, self._total = vertices, resolution, float(weights.sum())
        back = dst.argsort()
        self._lists = _rows(src, dst, weights, vertices), _rows(dst[back], src[back], weights[back], vertices)
        self._degrees = degrees(edges, vertices)

    def moved(self, communities: np.ndarray, draw: torch.Generator) -> tuple[bool, np.ndarray]:
        """Whether a vertex moved, and the number of each one's community, from 0 on."""
        into, order = communities.copy(), torch.randperm(self.size, generator=draw).numpy()
        params = self._params(into, order)
        return _core.louvain_moves(params.address), numbered(into)

    def merged(self, communities: np.ndarray, randomness: float, draw: torch.Generator) -> np.ndarray:
        """The number of each vertex's part of its community, from 0 on: vertices by themselves, merged."""
        into, order = np.arange(self.size), torch.randperm(self.size, generator=draw).numpy()
        draws = torch.rand(self.size, generator=draw, dtype=torch.float64).numpy()
        params = _MERGES(
            level=self._params(into, order), within=communities.ctypes.data, draws=draws.ctypes.data, randomness=randomness
        )
        _core.leiden_merges(params.address)
        return numbered(into)

    def _params(self, communities: np.ndarray, order: np.ndarray) -> Any:
        out, incoming = (_ROWS(indptr=a.ctypes.data, neighbors=b.ctypes.data, weights=c.ctypes.data) for a, b, c in self._lists)
        outs, ins = self._degrees
        return _PARAMS(
            out=out,
            **{"in": incoming},
            order=order.ctypes.data,
            out_degrees=outs.ctypes.data,
            in_degrees=ins.ctypes.data,
            vertices=self.size,
            total=self._total,
            resolution=self._resolution,
            communities=communities.ctypes.data,
        )


def _rows(src: np.ndarray, dst: np.ndarray, weights: np.ndarray, vertices: int) -> Edges:
    """Edges that ascend by where they begin, as rows: offsets, neighbours, weights."""
    return np.concatenate([[0], np.bincount(src, minlength=vertices).cumsum()]), dst, weights


def numbered(communities: np.ndarray) -> np.ndarray:
    """Each vertex's community by its number among them, from 0 on."""
    return np.unique(communities, return_inverse=True)[1]
