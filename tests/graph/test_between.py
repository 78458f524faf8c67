"""A shortest path between two vertices, against scipy's distances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import hinterland as hl
from hinterland.graph.between import path_between
from hinterland.runtime.errors import ConfigError, GraphError

TYPES = {
    "none": None,
    "uint8": lambda draw, count: draw.integers(0, 200, count, dtype=np.uint8),
    "int32": lambda draw, count: draw.integers(0, 4, count, dtype=np.int32),
    "int64": lambda draw, count: draw.integers(0, 2**40, count),
    "float32": lambda draw, count: draw.random(count, dtype=np.float32),
    "float64": lambda draw, count: draw.random(count),
}


def drawn(directed, weights, seed, vertices=40, edges=70):
    """A graph with parts that do not hang together, self loops and parallel edges."""
    draw = np.random.default_rng(seed)
    src, dst = torch.from_numpy(draw.integers(0, vertices - 5, (2, edges)))
    given = None if weights is None else torch.from_numpy(weights(draw, edges))
    return hl.from_edges(src, dst, given, num_vertices=vertices, directed=directed, symmetrize=not directed)


def lightest(graph, weighted):
    """The least weight of any edge between two vertices: float64, inf where there is none."""
    src = torch.repeat_interleave(torch.arange(graph.num_vertices), graph.degrees())
    weights = graph.weights.double() if weighted else torch.ones(graph.num_edges, dtype=torch.float64)
    least = np.full((graph.num_vertices,) * 2, np.inf)
    np.minimum.at(least, (src.numpy(), graph.indices.long().numpy()), weights.numpy())
    return least


def distances(least):
    """scipy's, which takes entries of 0 only if they are stored."""
    rows, columns = np.nonzero(np.isfinite(least))
    return dijkstra(csr_array((least[rows, columns], (rows, columns)), shape=least.shape))


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("from_both", [True, False])
def test_paths_are_shortest(kind, directed, from_both):
    for seed in range(3):
        graph, weighted = drawn(directed, TYPES[kind], seed), kind != "none"
        least = lightest(graph, weighted)
        right = distances(least)
        for source in range(0, 40, 3):
            for target in range(40):
                found = path_between(graph, source, target, weighted, from_both)
                if np.isinf(right[source, target]):
                    assert found is None
                    continue
                assert (found.vertices[0], found.vertices[-1]) == (source, target)
                assert found.length == sum(least[u, v] for u, v in pairwise(found.vertices))
                assert found.length == pytest.approx(right[source, target], rel=1e-12)
                assert path_between(graph, source, target, weighted, from_both) == found


def test_from_the_source_alone_a_sum_of_floats_is_the_least():
    graph = drawn(True, lambda draw, count: draw.choice([0.1, 0.2, 0.3], count), 1, edges=160)
    for source in range(35):
        for target, distance in enumerate(hl.sssp(graph, source, device="cpu").distances.tolist()):
            found = path_between(graph, source, target, from_both=False)
            assert (float("inf") if found is None else found.length) == distance


@pytest.mark.parametrize("packed", [False, True])
def test_other_forms_of_a_graph(packed):
    graph = drawn(True, TYPES["int32"], 3)
    given = hl.graph.compress(graph) if packed else hl.Graph(graph.indptr, graph.indices.long(), graph.weights)
    for target in range(40):
        assert path_between(given, 0, target) == path_between(graph, 0, target)


@pytest.mark.parametrize(
    "weights, error",
    [
        (torch.tensor([1, -1]), GraphError),
        (torch.tensor([2**61, 1]), GraphError),
        (torch.tensor([1.0, float("inf")], dtype=torch.float64), GraphError),
        (torch.tensor([1e308, 1], dtype=torch.float64), GraphError),
        (None, ConfigError),
    ],
)
def test_weights_without_sums(weights, error):
    graph = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]), weights)
    with pytest.raises(error):
        path_between(graph, 0, 2)
    assert path_between(graph, 0, 2, weighted=False) == ([0, 1, 2], 2)


def test_arrays_that_were_changed_lead_nowhere():
    graph = hl.from_edges(torch.arange(4), torch.arange(1, 5))
    graph.indices[1] = 9
    assert path_between(graph, 0, 1, weighted=False, from_both=False).vertices == [0, 1]
    assert path_between(graph, 0, 4, weighted=False, from_both=False) is None
    ring = hl.from_edges(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2]), torch.tensor([2, 2, 2]))
    assert path_between(ring, 0, 2) == ([0, 1, 2], 4)
    ring.weights[1] = -5
    assert path_between(ring, 0, 2) == ([0, 1, 2], 4)
    graph.indptr[1] = -7
    assert path_between(graph, 0, 1, weighted=False, from_both=False) is None
