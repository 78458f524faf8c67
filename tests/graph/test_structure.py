"""Strong components, triangles, cores, communities and spectral scores: of graphs in any form and place by their verifiers, and
the verifiers against tampering. tests/nx_backend compares them with networkx."""

from __future__ import annotations

import dataclasses
import math
import random
import sys

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import graph as graphs
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange, VerificationError

from ..graphs import family, skewed
from .stored import SET, on_storage

FORMS = {
    "plain": lambda graph, _: graph,
    "packed": lambda graph, _: hl.compress(graph),
    "reordered": lambda graph, _: hl.reorder(graph, "degree"),
    "stored": lambda graph, folder: on_storage(graph, folder / "g.hl", 40 * SET, transpose=graph.directed),
}
SHAPES = {
    "skewed": lambda: skewed(300, 1500, symmetrize=True),
    "grid": lambda: family("grid", 8),
    "web": lambda: graphs.simplify(family("web", 8), symmetrize=True),
    "loops": lambda: hl.from_edges(
        torch.tensor([0, 0, 1, 2, 2]), torch.tensor([0, 1, 2, 0, 2]), num_vertices=5, symmetrize=True
    ),
    "no edges": lambda: hl.from_edges(*torch.zeros((2, 0), dtype=torch.int64), num_vertices=4, symmetrize=True),
}


def directed(vertices=300, edges=500):
    return skewed(vertices, edges, seed=4)


ALGORITHMS = {
    "triangles": (graphs.triangles, graphs.verify_triangles, SHAPES, "counts"),
    "cores": (graphs.core_numbers, graphs.verify_cores, {**SHAPES, "directed": directed}, "cores"),
    "communities": (graphs.louvain, graphs.verify_communities, {**SHAPES, "directed": directed}, "labels"),
    "connected communities": (graphs.leiden, graphs.verify_leiden, {**SHAPES, "directed": directed}, "labels"),
    "strong": (
        graphs.strongly_connected_components,
        graphs.verify_strong_components,
        {"directed": directed, "dense": lambda: directed(60, 400), "one way": lambda: family("web", 8), **SHAPES},
        "labels",
    ),
}
CASES = [pytest.param(name, shape, id=f"{name}-{shape}") for name, case in ALGORITHMS.items() for shape in case[2]]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_results_are_verified_and_the_same_in_every_form(name, shape, tmp_path):
    run, verify, shapes, field = ALGORITHMS[name]
    graph = shapes[shape]()
    expected = run(graph)
    verify(graph, expected)
    for form, made in FORMS.items():
        if form == "stored" and graph.num_edges == 0:
            continue
        other = made(graph, tmp_path)
        found = run(other)
        verify(other, found)
        if "communities" not in name or form != "reordered":
            assert torch.equal(getattr(found, field), getattr(expected, field))
    changed = getattr(expected, field).clone()
    at = int(changed.argmax())
    for value in {int(changed[at]) + 1, int(changed[at]) - 1, 0} - {int(changed[at])}:
        changed[at] = value
        with pytest.raises(VerificationError):
            verify(graph, dataclasses.replace(expected, **{field: changed}))


def cliques(count, size, bridges, weight=1):
    """Complete graphs, and an edge of a weight between the first vertices of two of them for each of the bridges."""
    inside = [(c * size + u, c * size + v) for c in range(count) for u in range(size) for v in range(u)]
    ends = torch.tensor([*inside, *((a * size, b * size) for a, b in bridges)]).T
    return hl.from_edges(*ends, torch.tensor([1] * len(inside) + [weight] * len(bridges)), symmetrize=True)


def ring_of(count):
    return [(c, (c + 1) % count) for c in range(count)]


def partition(graph, labels, resolution=1.0):
    """As a result, whose modularity networkx finds."""
    names = [labels.index(label) for label in labels]
    parts = [{v for v, name in enumerate(names) if name == label} for label in set(names)]
    score = networkx.community.modularity(graph.to_networkx(), parts, resolution=resolution)
    return graphs.CommunitiesResult(torch.tensor(names), len(parts), score)


@pytest.mark.parametrize("find", [graphs.louvain, graphs.leiden])
def test_communities_of_two_cliques_are_the_cliques(find):
    result = find(cliques(2, 5, [(0, 1)]))
    assert result.labels.tolist() == [0] * 5 + [5] * 5 and result.count == 2
    assert result.modularity == pytest.approx(20 / 21 - 1 / 2)
    heavy = cliques(2, 5, [(0, 1)], 900)
    assert find(heavy).labels[5] == 0  # weights count
    assert find(heavy, max_levels=1, seed=3).count == find(heavy, max_levels=1, seed=3).count
    none = find(cliques(2, 5, [(0, 1)], 0))  # an edge that weighs nothing joins nothing
    assert none.labels.tolist() == result.labels.tolist()
    assert find(cliques(2, 5, [(0, 1)]), resolution=0).count == 1


def test_what_leiden_promises_is_checked():
    ring = cliques(4, 5, ring_of(4))
    found = graphs.leiden(ring)
    graphs.verify_leiden(ring, found)
    assert found.labels.tolist() == [v // 5 * 5 for v in range(20)]
    for labels, rule in (
        ([v // 5 % 2 for v in range(20)], "rule 4: no way leads from vertex 10 to 0"),
        (list(range(20)), "rule 5: vertex"),
        ([0, 1, 1, 1, 1, *(v // 5 + 1 for v in range(5, 20))], "rule 5: vertex 0 raises modularity by"),
    ):
        wrong = partition(ring, labels)
        graphs.verify_communities(ring, wrong)
        with pytest.raises(VerificationError, match=rule):
            graphs.verify_leiden(ring, wrong)
    # Each clique is a community that no vertex leaves, but pairs of them are better (Fortunato and Barthelemy 2007).
    many = cliques(30, 3, ring_of(30))
    with pytest.raises(VerificationError, match="rule 5: community number 0 and another"):
        graphs.verify_leiden(many, partition(many, [v // 3 for v in range(90)]))
    graphs.verify_leiden(many, graphs.leiden(many))
    graphs.verify_leiden(many, graphs.leiden(many, resolution=1.5, max_levels=2), resolution=1.5, max_levels=2)


@pytest.mark.parametrize("resolution", [0, 0.5, 1, 3])
@pytest.mark.parametrize("limit", [None, 1, 2, 3])
def test_communities_of_leiden_are_connected(resolution, limit):
    for seed in range(4):
        sparse = hl.random_weights(skewed(120, 200, seed=seed, symmetrize=seed % 2 == 0), "float32", seed=seed)
        graphs.verify_leiden(sparse, graphs.leiden(sparse, resolution, limit, seed), resolution, limit)


def test_a_community_that_a_move_has_parted_is_parted():
    parted = hl.random_weights(skewed(300, 500, seed=6, symmetrize=True), "float32", seed=6)
    graphs.verify_leiden(parted, graphs.leiden(parted, max_levels=1, seed=6), max_levels=1)


@pytest.mark.parametrize("seed", [2, 18, 30])
def test_a_vertex_that_is_better_alone_leaves(seed):
    graph = skewed(40, 80, seed=seed, symmetrize=True)
    graphs.verify_leiden(graph, graphs.leiden(graph, resolution=3, seed=seed), resolution=3)


def test_leiden_ends_where_no_vertices_merge(monkeypatch):
    many = cliques(30, 3, ring_of(30))
    level = sys.modules["hinterland.graph.louvain"].Level
    monkeypatch.setattr(level, "merged", lambda level, *_: np.arange(level.size))
    graphs.verify_leiden(many, graphs.leiden(many))


@pytest.mark.parametrize("size", [1e155, 1e200, 1e307, 1e-300, 1e-320])
def test_communities_by_weights_of_any_size(size):
    """Sums of weights, and their squares, are beyond the floats' range, or 0."""
    plain = cliques(3, 5, ring_of(3))
    other = plain.with_weights(torch.full((plain.num_edges,), size, dtype=torch.float64))
    best = networkx.community.modularity(plain.to_networkx(), [range(5), range(5, 10), range(10, 15)])
    for find, verify in ((graphs.louvain, graphs.verify_communities), (graphs.leiden, graphs.verify_leiden)):
        found = find(other)
        assert found.labels.tolist() == [0] * 5 + [5] * 5 + [10] * 5 and found.modularity == pytest.approx(best)
        verify(other, found)


def test_a_resolution_may_be_large():
    graph = cliques(3, 5, ring_of(3))
    for find, verify in ((graphs.louvain, graphs.verify_communities), (graphs.leiden, graphs.verify_leiden)):
        found = find(graph, resolution=1e308)
        assert found.count == 15 and found.modularity < -1e306
        verify(graph, found, resolution=1e308)


def test_leiden_is_as_good_as_igraph():
    igraph = pytest.importorskip("igraph")
    igraph.set_random_number_generator(random.Random(1))
    theirs = networkx.planted_partition_graph(6, 30, 0.3, 0.03, seed=1)
    best = max(graphs.leiden(hl.from_networkx(theirs), seed=seed).modularity for seed in range(3))
    other = igraph.Graph(180, list(theirs.edges))
    right = max(other.modularity(other.community_leiden("modularity", n_iterations=-1)) for _ in range(3))
    igraph.set_random_number_generator(random)
    assert best >= right - 1e-3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [directed, *SHAPES.values()])
def test_common_neighbours(form, shape, tmp_path):
    graph = shape()
    if form == "stored" and graph.num_edges == 0:
        return
    pairs = torch.cartesian_prod(torch.arange(min(graph.num_vertices, 40)), torch.arange(graph.num_vertices))
    found = graphs.jaccard(FORMS[form](graph, tmp_path), pairs)
    graphs.verify_jaccard(graph, pairs, found)
    assert found.scores.dtype == torch.float64
    for changed in ({"common": found.common + 1}, {"scores": found.scores + 1e-6}, {"scores": found.scores[1:]}):
        with pytest.raises(VerificationError, match="pair"):
            graphs.verify_jaccard(graph, pairs, dataclasses.replace(found, **changed))


@settings(max_examples=40)
@given(st.integers(1, 9), st.data())
def test_common_neighbours_are_networkx_own(count, data):
    vertex = st.integers(0, count - 1)
    edges = data.draw(st.lists(st.tuples(vertex, vertex), max_size=20))
    theirs = networkx.Graph(edges)
    theirs.add_nodes_from(range(count))
    both_ways = torch.tensor([*edges, *((v, u) for u, v in edges), *edges], dtype=torch.int64).reshape(-1, 2)
    ours = hl.from_edges(*both_ways.T, num_vertices=count)  # with parallel edges
    pairs = [(u, v) for u in range(count) for v in range(count)]
    right = [score for *_, score in networkx.jaccard_coefficient(theirs, pairs)]
    assert graphs.jaccard(ours, torch.tensor(pairs)).scores.tolist() == right


def test_what_cannot_be_done_is_said():
    graph = directed(20, 40)
    with pytest.raises(ConfigError, match="symmetrize=True"):
        graphs.triangles(graph)
    for options in (*({"resolution": value} for value in (-1, math.inf, math.nan)), {"max_levels": 0}, {"seed": "much"}):
        for find in (graphs.louvain, graphs.leiden):
            with pytest.raises(ConfigError, match=next(iter(options))):
                find(graph, **options)
    with pytest.raises(ConfigError, match="resolution inf"):
        graphs.verify_communities(graph, graphs.louvain(graph), resolution=math.inf)
    with pytest.raises(ConfigError, match="threshold"):
        graphs.louvain(graph, threshold="much")
    negative = hl.Graph(graph.indptr, graph.indices, -torch.ones(graph.num_edges))
    for find in (graphs.louvain, graphs.leiden):
        with pytest.raises(ConfigError, match="negative"):
            find(negative)
    with pytest.raises(ConfigError, match=r"\[P, 2\]"):
        graphs.jaccard(graph, torch.tensor([1, 2]))
    with pytest.raises(IndexOutOfRange, match="vertex 20 is not in the graph"):
        graphs.jaccard(graph, torch.tensor([[1, 20]]))
    for run in (graphs.core_numbers, graphs.strongly_connected_components, graphs.louvain, graphs.leiden):
        broken = directed(20, 40)
        broken.indices[3] = 99
        with pytest.raises(GraphError, match=r"indices\[3\] is 99"):
            run(broken)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [False, True])
def test_spectral_scores(device, form, weighted, tmp_path):
    plain = skewed(300, 2500, seed=5)
    graph = hl.random_weights(plain, "int32") if weighted else plain
    other = FORMS[form](graph, tmp_path)
    hits = graphs.hits(other, max_iterations=2000, device=device)
    assert hits.converged and hits.hubs.device == torch.device(device)
    graphs.verify_hits(graph, hits)
    eigen = graphs.eigenvector_centrality(other, max_iterations=2000, weighted=weighted, device=device)
    graphs.verify_eigenvector(graph, eigen, weighted=weighted)
    alpha = 0.5 / float((graph.weights.double() if weighted else torch.ones(graph.num_edges)).sum())
    katz = graphs.katz_centrality(other, alpha=alpha, weighted=weighted, device=device)
    graphs.verify_katz(graph, katz, alpha=alpha, weighted=weighted)
    assert eigen.converged and katz.converged
    for verify, result, field, options in (
        (graphs.verify_hits, hits, "hubs", {}),
        (graphs.verify_eigenvector, eigen, "scores", {"weighted": weighted}),
        (graphs.verify_katz, katz, "scores", {"alpha": alpha, "weighted": weighted}),
    ):
        changed = getattr(result, field).clone()
        changed[7] += 1e-3
        with pytest.raises(VerificationError, match="further step|authorities|shares of 1|have length"):
            verify(graph, dataclasses.replace(result, **{field: changed}), **options)


def test_spectral_scores_that_do_not_converge_say_so():
    graph = skewed(30, 200)
    for run in (graphs.hits, graphs.eigenvector_centrality, graphs.katz_centrality):
        result = run(graph, max_iterations=1, tolerance=0)
        assert not result.converged and result.iterations == 1
        with pytest.raises(ConfigError, match="one real number for each"):
            run(graph, start=torch.ones(3))


@pytest.mark.parametrize("seed", range(5))
def test_hubs_by_weights_of_both_signs_are_refused(device, seed):
    """Of skew-symmetric matrices, scores over a sum of 0 went to 8e15, and were said to have converged."""
    draw = random.Random(seed)
    pairs = [(u, v, draw.randrange(1, 9)) for u in range(12) for v in range(u) if draw.random() < 0.3]
    src, dst, weights = torch.tensor([*pairs, *((v, u, -weight) for u, v, weight in pairs)]).T
    skew = hl.from_edges(src, dst, weights, num_vertices=12)
    with pytest.raises(ConfigError, match=r"weights go from -\d to \d, but hubs and authorities are shares of 1"):
        graphs.hits(skew, device=device)
    plain = hl.from_edges(src, dst, weights.abs(), num_vertices=12)
    found = graphs.hits(plain, max_iterations=1000, device=device)
    graphs.verify_hits(plain, found)
    with pytest.raises(ConfigError, match="both signs"):
        graphs.verify_hits(skew, found)
    below = hl.from_edges(src, dst, -weights.abs(), num_vertices=12)  # which A^T A does not tell from others
    assert torch.equal(graphs.hits(below, max_iterations=1000, device=device).hubs, found.hubs)


def test_hubs_begin_with_shares_and_are_shares():
    path = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]), symmetrize=True)
    with pytest.raises(ConfigError, match=r"start goes down to -1\.0"):
        graphs.hits(path, start=torch.tensor([1.0, -1.0, 0.0]))
    found = graphs.hits(path, start=torch.tensor([1.0, 0.0, 0.0]))
    graphs.verify_hits(path, found)
    for changed in ({"hubs": -found.hubs}, {"hubs": 2 * found.hubs}, {"authorities": found.authorities * 1e15}):
        with pytest.raises(VerificationError, match="shares of 1"):
            graphs.verify_hits(path, dataclasses.replace(found, **changed))
    edgeless = SHAPES["no edges"]()
    graphs.verify_hits(edgeless, graphs.hits(edgeless))


def weighted_edges(*edges):
    """The graph of these (u, v, weight), for us and for networkx."""
    theirs = networkx.DiGraph()
    theirs.add_weighted_edges_from(edges)
    return hl.from_networkx(theirs, "weight"), theirs


@pytest.mark.parametrize("size", [1e200, 1e308, 1e-200, 1e-320])
def test_eigenvectors_by_weights_of_any_size(device, size):
    """A product, or the square of one, is beyond the floats' range."""
    graph, theirs = weighted_edges((0, 1, size), (1, 2, size), (2, 0, size), (0, 2, size))
    right = networkx.eigenvector_centrality(theirs, weight="weight", max_iter=1000)
    found = graphs.eigenvector_centrality(graph, weighted=True, max_iterations=1000, device=device)
    assert found.converged and found.scores.tolist() == pytest.approx(list(right.values()), abs=3e-6)
    graphs.verify_eigenvector(graph, found, weighted=True)


@pytest.mark.parametrize("size", [1e200, 1e308, 1e-200, 1e-320])
def test_hubs_by_weights_of_any_size(device, size):
    edges = ((0, 1), (1, 2), (2, 0), (0, 2))
    graph, _ = weighted_edges(*((u, v, size) for u, v in edges))
    found = graphs.hits(graph, max_iterations=1000, device=device)
    graphs.verify_hits(graph, found)
    for ours, right in zip((found.hubs, found.authorities), networkx.hits(networkx.DiGraph(edges)), strict=True):
        assert ours.tolist() == pytest.approx(list(right.values()), abs=1e-8)


def test_hubs_whose_weights_sum_to_infinity(device):
    graph, _ = weighted_edges((0, 1, 1e308), (0, 2, 1e308), (1, 0, 1.0), (2, 0, 1.0))
    _, theirs = weighted_edges((0, 1, 1.0), (0, 2, 1.0), (1, 0, 1e-308), (2, 0, 1e-308))
    found = graphs.hits(graph, device=device)
    graphs.verify_hits(graph, found)
    for ours, right in zip((found.hubs, found.authorities), networkx.hits(theirs), strict=True):
        assert ours.tolist() == pytest.approx(list(right.values()))
    cycle, _ = weighted_edges((0, 1, 1), (1, 2, 1), (2, 0, 1))
    for find, field in ((graphs.hits, "hubs"), (graphs.eigenvector_centrality, "scores")):
        begun = find(cycle, start=torch.full((3,), 1e308, dtype=torch.float64), device=device)
        assert begun.converged and torch.equal(getattr(begun, field), getattr(find(cycle, device=device), field))


def test_ways_by_weights_whose_sum_is_infinite(device):
    edges = ((0, 2), (1, 2), (2, 0), (2, 1))
    graph, _ = weighted_edges(*((u, v, 1e308) for u, v in edges))
    right = networkx.katz_centrality(networkx.DiGraph(edges), alpha=0.1, normalized=False)
    found = graphs.katz_centrality(graph, alpha=1e-309, weighted=True, device=device)
    assert found.converged and found.scores.tolist() == pytest.approx(list(right.values()))
    graphs.verify_katz(graph, found, alpha=1e-309, weighted=True)


def test_scores_of_zero_are_refused():
    cycle, _ = weighted_edges((0, 1, 1), (1, 2, 1), (2, 0, 1))
    none = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(VerificationError, match="length 0.0, not 1"):
        graphs.verify_eigenvector(cycle, graphs.CentralityResult(none, 1, 0.0, True))
    with pytest.raises(VerificationError, match="hubs are no shares of 1"):
        graphs.verify_hits(cycle, graphs.HitsResult(none, none, 1, 0.0, True))
    weightless, _ = weighted_edges((0, 1, 0), (1, 2, 0), (2, 0, 0))
    graphs.verify_hits(weightless, graphs.hits(weightless))
    away, _ = weighted_edges((0, 0, -1), (1, 1, -1))  # A + I is 0
    assert not graphs.eigenvector_centrality(away, weighted=True).converged


def test_starts_that_give_no_scores_are_refused():
    path, _ = weighted_edges((0, 1, 1), (1, 2, 1))
    for start in ([0, 0, 0], [0, 0, 1]):
        with pytest.raises(ConfigError, match="no hub of start has an edge"):
            graphs.hits(path, start=torch.tensor(start))
    with pytest.raises(ConfigError, match="start is 0 for all vertices"):
        graphs.eigenvector_centrality(path, start=torch.zeros(3))
    for value in (math.nan, math.inf):
        for find in (graphs.hits, graphs.eigenvector_centrality):
            with pytest.raises(ConfigError, match="NaN or infinite"):
                find(path, start=torch.tensor([1.0, value, 1.0]))


def test_scores_by_infinite_weights_are_refused():
    graph, _ = weighted_edges((0, 1, math.inf), (1, 0, 1.0))
    for find in (graphs.hits, graphs.weighted_pagerank):
        with pytest.raises(ConfigError, match="weights go from 1.0 to inf"):
            find(graph)
    for find in (graphs.eigenvector_centrality, graphs.katz_centrality):
        with pytest.raises(ConfigError, match="weights go from 1.0 to inf"):
            find(graph, weighted=True)
        find(graph)
