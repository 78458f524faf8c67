"""The graphs that every algorithm is tried on, and what is expected of each.

An algorithm's own tests say how its result is compared, in a list called EVERYWHERE; test_everything.py does that in every
combination. What is expected comes from Python's heapq, scipy and numpy, once for each graph: exact but for PageRank and
betweenness centrality, which are sums of rounded numbers. Weights are integers, or 256ths as floats, whose sums are exact.
"""

from __future__ import annotations

import functools
import heapq
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components, dijkstra

import hinterland as hl
from hinterland.graph.algorithms import Algorithm, known

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TASK_EDGES = 2048  # kTaskEdges: longer neighbour lists are shared by several workers
DAMPING = 0.25  # converges in few iterations
FLOAT_SCALE = 256
RECORDS = {record.name: record for record in known()}
START = {"source": {"source": 5}, "sources": {"sources": [5, 9, 11]}, "": {}}


@dataclass(frozen=True)
class Everywhere:
    """How the result of an algorithm is compared.

    Attributes:
        name: the record's.
        check: takes a :class:`Case`, the graph in some form, and what runs a function of the library on it as it stands.
        variant: which of several of the same name this is.
        weights: the type that the graph's weights have; None for none.
        planned_as: what memory is planned for, where the name does not say.
    """

    name: str
    check: Callable[..., None]
    variant: str = ""
    weights: torch.dtype | None = None
    planned_as: str = ""

    def __str__(self) -> str:
        return ", ".join(part for part in (self.name, self.variant) if part)

    @property
    def plan(self) -> str:
        return self.planned_as or self.name

    @property
    def record(self) -> Algorithm:
        return RECORDS[self.name]

    @property
    def begins(self) -> str:
        return begins(self.record)


def begins(record: Algorithm) -> str:
    """Where an algorithm begins: at a ``source``, at ``sources``, or ``""``, nowhere."""
    takes = inspect.signature(record.run).parameters
    return next((name for name in ("source", "sources") if name in takes), "")


def call(record: Algorithm, graph: Any, **options: Any) -> Any:
    """What a user calls, from vertices that small graphs have as well."""
    return record.run(graph, **START[begins(record)], **options)


def array(record: Algorithm, graph: Any, **options: Any) -> torch.Tensor:
    """What it is about in the result."""
    return getattr(call(record, graph, **options), record.array)


def verified(record: Algorithm, graph: hl.Graph, **options: Any) -> None:
    """Runs it and its verifier."""
    check, start = getattr(hl.graph, record.verify), START[begins(record)]
    given = {name: value for name, value in start.items() if name in inspect.signature(check).parameters}
    check(graph, result=call(record, graph, **options), **given)


# --- graphs: integer weights, sources -------------------------------------------------------------------------------------


def drawn(graph):
    return hl.random_weights(graph, "int32", seed=5)


def edges(pairs, vertices, weights=None, symmetrize=False):
    src, dst = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    if weights is None:
        weights = [1 + 7 * i % 90 for i in range(len(pairs))]
    built = torch.tensor(weights, dtype=torch.int32)
    return hl.from_edges(src, dst, built, num_vertices=vertices, symmetrize=symmetrize)


def several_components():
    """A cycle, a clique, a path and some lone vertices, in mixed order."""
    cycle = [(3 * i, 3 * ((i + 1) % 40)) for i in range(40)]
    clique = [(3 * i + 1, 3 * j + 1) for i in range(12) for j in range(i)]
    path = [(3 * i + 2, 3 * i + 5) for i in reversed(range(30))]
    return edges(cycle + clique + path, 130, symmetrize=True)


def mostly_one_way(graph):
    """Of an undirected graph two thirds of the edges, each with its direction."""
    rows = torch.arange(graph.num_vertices).repeat_interleave(graph.degrees())
    kept = (rows * 31 + graph.indices * 17) % 3 > 0
    return hl.from_edges(rows[kept], graph.indices[kept].long(), num_vertices=graph.num_vertices)


def real(name, **options):
    def load():
        if not DATA.is_dir():
            pytest.skip("the folder of real inputs is not beside this checkout")
        return drawn(hl.load_graph(DATA / name, **options))

    return load


LEAVES = 2 * TASK_EDGES + 9
GRAPHS = {
    "no vertex": lambda: edges([], 0),
    "one vertex": lambda: edges([], 1),
    "one vertex with loops": lambda: edges([(0, 0), (0, 0)], 1),
    "no edges": lambda: edges([], 40),
    "self loops": lambda: edges([(i, i) for i in range(60)] + [(i, i + 1) for i in range(0, 59, 2)], 60),
    "parallel edges": lambda: edges([(i % 35, (i * i + 1) % 35) for i in range(60)] * 3, 35, list(range(1, 181))),
    "parallel edges both ways": lambda: edges([(i % 35, (i * i + 1) % 35) for i in range(60)] * 2, 35, symmetrize=True),
    "star": lambda: edges([(0, i) for i in range(1, LEAVES)], LEAVES, symmetrize=True),
    "star inwards": lambda: edges([(i, 0) for i in range(1, LEAVES)], LEAVES),
    "chain": lambda: edges([(i, i + 1) for i in range(450)], 451, symmetrize=True),
    "chain one way": lambda: edges([(i + 1, i) for i in range(450)], 451),
    "several components": several_components,
    "equal weights": lambda: edges([(i, (i * k) % 300) for i in range(300) for k in (2, 3, 7)], 300, [9] * 900),
    "zero weights": lambda: edges([(i, (i * k) % 300) for i in range(300) for k in (2, 3, 7)], 300, [0] * 900),
    "grid": lambda: drawn(hl.generate("grid", rows=20, cols=24, seed=3)),
    "grid by rows": lambda: drawn(hl.generate("grid", rows=20, cols=24, permute=False, missing=0.1)),
    "web": lambda: drawn(hl.generate("web", scale=9, edge_factor=8)),
    "web one way": lambda: drawn(hl.generate("web", scale=9, edge_factor=6, directed=True)),
    "uniform": lambda: drawn(hl.generate("uniform", scale=9)),
    "kronecker": lambda: drawn(hl.generate("kronecker", scale=9)),
    "kronecker one way": lambda: drawn(mostly_one_way(hl.generate("kronecker", scale=9))),
    "cora": real("cora.npz"),
    "citeseer": real("citeseer.npz"),
    "email-Eu-core": real("email-Eu-core.csv"),
    "netscience": real("netscience.mtx"),
    "soc-Epinions1": real("soc-Epinions1.txt"),
}


@dataclass(frozen=True)
class Case:
    """A graph with integer weights, its edges for the oracles, and where searches begin."""

    graph: hl.Graph
    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray
    source: int
    sources: list[int]

    @property
    def vertices(self):
        return self.graph.num_vertices

    @functools.cached_property
    def lists(self):
        """Neighbours and weights of each vertex, as Python's lists."""
        cuts = np.cumsum(np.bincount(self.src, minlength=self.vertices))[:-1] if self.vertices else []
        neighbors, weights = np.split(self.dst, cuts), np.split(self.weights, cuts)
        return [list(zip(n.tolist(), w.tolist(), strict=True)) for n, w in zip(neighbors, weights, strict=True)]

    @functools.cached_property
    def levels(self):
        sources = list(dict.fromkeys([self.source, *self.sources]))
        found = dijkstra(self.matrix, indices=sources, unweighted=True) if self.vertices else []
        return {source: np.where(np.isinf(row), -1, row).astype(int) for source, row in zip(sources, found, strict=False)}

    @functools.cached_property
    def matrix(self):
        return sp.csr_matrix((np.ones(len(self.src)), (self.src, self.dst)), shape=(self.vertices,) * 2)

    @functools.cached_property
    def distances(self):
        """-1 where there is no path."""
        return best_first(self.lists, self.source, 0, lambda so_far, weight: so_far + weight, -1)

    @functools.cached_property
    def widths(self):
        """-1 where there is no path; the source's own is that of weight infinity."""
        return -best_first(self.lists, self.source, -(2**62), lambda so_far, weight: max(so_far, -weight), 1)

    @functools.cached_property
    def components(self):
        labels = connected_components(self.matrix, directed=True, connection="weak")[1]
        smallest = np.full(self.vertices, self.vertices)
        np.minimum.at(smallest, labels, np.arange(self.vertices))
        return smallest[labels]

    def ranks(self, personal):
        """PageRank by power iteration until nothing moves."""
        pull = self.matrix.T.tocsr()
        degrees = np.bincount(self.src, minlength=self.vertices)
        scores = personal
        for _ in range(200):
            received = pull @ (scores / np.maximum(degrees, 1)) + scores[degrees == 0].sum() * personal
            scores, before = (1 - DAMPING) * personal + DAMPING * received, scores
            if np.abs(scores - before).sum() < 1e-15:
                break
        return scores

    @functools.cached_property
    def uniform_ranks(self):
        return self.ranks(np.full(self.vertices, 1 / max(self.vertices, 1)))

    @functools.cached_property
    def personal(self):
        """Shares for two vertices, or one."""
        return {self.sources[0]: 1.0, self.sources[-1]: 3.0}

    @functools.cached_property
    def personal_ranks(self):
        shares = np.zeros(self.vertices)
        shares[list(self.personal)] = list(self.personal.values())
        return self.ranks(shares / shares.sum())

    @property
    def between(self):
        return self.sources[:4]

    @functools.cached_property
    def betweenness(self):
        """Brandes' sums over ``between``, scaled to all vertices as the documentation says."""
        sums = np.zeros(self.vertices)
        for source in self.between:
            sums += dependencies(self.lists, source, self.levels[source])
        others, count = self.vertices - 1, len(self.between)
        if others < 2:
            return sums
        scale = others / (1 if self.graph.directed else 2)
        scaled = sums * scale / min(count, others)
        scaled[self.between] = sums[self.between] * scale / (count - 1)
        return scaled


@functools.cache
def case(name):
    graph = GRAPHS[name]()
    vertices = graph.num_vertices
    src = np.repeat(np.arange(vertices), graph.degrees().numpy())
    busy = np.flatnonzero(graph.degrees().numpy()) if graph.num_edges else np.arange(vertices)
    count = min(vertices, 3 if graph.num_edges > 50_000 else 36)  # beyond 32 a search has wider masks
    generator = np.random.default_rng(8)
    sources = generator.permutation(vertices)[:count].tolist()
    source = int(busy[len(busy) // 3]) if len(busy) else 0
    return Case(graph, src, graph.indices.numpy().copy(), graph.weights.numpy().copy(), source, sources)


def best_first(lists, source, start, extended, missing):
    """The least value of each vertex over all paths; ``missing`` where there is none."""
    found = [None] * len(lists)
    waiting = [(start, source)]
    while waiting:
        value, u = heapq.heappop(waiting)
        if found[u] is None:
            found[u] = value
            for v, weight in lists[u]:
                if found[v] is None:
                    heapq.heappush(waiting, (extended(value, weight), v))
    return np.array([missing if value is None else value for value in found])


def dependencies(lists, source, levels):
    """For each vertex the shares of shortest paths from ``source`` that lead through it; parallel edges are paths each."""
    order = [v for v in np.argsort(levels, kind="stable").tolist() if levels[v] >= 0]
    levels, paths, shares = levels.tolist(), [0.0] * len(lists), [0.0] * len(lists)
    paths[source] = 1.0
    down = {u: [v for v, _ in lists[u] if levels[v] == levels[u] + 1] for u in order}
    for u in order:
        for v in down[u]:
            paths[v] += paths[u]
    for u in reversed(order):
        for v in down[u]:
            shares[u] += paths[u] / paths[v] * (1 + shares[v])
    shares[source] = 0.0
    return np.array(shares)
