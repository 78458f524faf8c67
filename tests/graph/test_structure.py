"""Strong components, triangles, cores, communities and spectral scores: of graphs in any form and place by their verifiers, and
the verifiers against tampering. tests/nx_backend compares them with networkx."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

import hinterland as hl
from hinterland import graph as graphs
from hinterland.runtime.errors import ConfigError, GraphError, VerificationError

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
        if name != "communities" or form != "reordered":
            assert torch.equal(getattr(found, field), getattr(expected, field))
    changed = getattr(expected, field).clone()
    at = int(changed.argmax())
    for value in {int(changed[at]) + 1, int(changed[at]) - 1, 0} - {int(changed[at])}:
        changed[at] = value
        with pytest.raises(VerificationError):
            verify(graph, dataclasses.replace(expected, **{field: changed}))


def test_communities_of_two_cliques_are_the_cliques():
    clique = [(u, v) for u in range(5) for v in range(u)]
    ends = torch.tensor([*clique, *((u + 5, v + 5) for u, v in clique), (0, 5)]).T
    result = graphs.louvain(hl.from_edges(ends[0], ends[1], symmetrize=True))
    assert result.labels.tolist() == [0] * 5 + [5] * 5 and result.count == 2
    assert result.modularity == pytest.approx(20 / 21 - 1 / 2)
    heavy = hl.from_edges(ends[0], ends[1], torch.tensor([1] * 20 + [900]), symmetrize=True)
    assert graphs.louvain(heavy).labels[5] == 0  # weights count
    assert graphs.louvain(heavy, max_levels=1, seed=3).count == graphs.louvain(heavy, max_levels=1, seed=3).count


def test_what_cannot_be_done_is_said():
    graph = directed(20, 40)
    with pytest.raises(ConfigError, match="symmetrize=True"):
        graphs.triangles(graph)
    for options in ({"resolution": -1}, {"max_levels": 0}, {"threshold": "much"}):
        with pytest.raises(ConfigError, match=next(iter(options))):
            graphs.louvain(graph, **options)
    with pytest.raises(ConfigError, match="negative"):
        graphs.louvain(hl.Graph(graph.indptr, graph.indices, -torch.ones(graph.num_edges)))
    for run in (graphs.core_numbers, graphs.strongly_connected_components, graphs.louvain):
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
        with pytest.raises(VerificationError, match="further step|authorities|shares of 1"):
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
