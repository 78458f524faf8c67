"""The adjacency matrix times a vector, in every form of a graph, against scipy; and the walk that is made of it."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.graph import verify_weighted_pagerank, weighted_pagerank
from hinterland.graph.spmv import AdjacencyMatrix
from hinterland.runtime.errors import ConfigError, VerificationError

from ..graphs import skewed
from .stored import SET, on_storage

FORMS = {
    "plain": lambda graph, _: graph,
    "packed": lambda graph, _: hl.compress(graph),
    "reordered": lambda graph, _: hl.reorder(graph, "degree"),
    "stored": lambda graph, folder: on_storage(graph, folder / "g.hl", 40 * SET, transpose=graph.directed),
}
TYPES = (torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64)


def weighted(dtype, directed=True):
    """A hub's list is longer than a task; the last vertices are alone."""
    graph = skewed(700, 9000, symmetrize=not directed)
    hub = torch.arange(2500) % 600
    ends = [torch.cat([graph.indptr.new_zeros(2500), hub]), torch.cat([hub, graph.indptr.new_zeros(2500)])]
    rows = torch.repeat_interleave(torch.arange(700), graph.degrees())
    src, dst = torch.cat([rows, ends[0]]), torch.cat([graph.indices.long(), ends[1]])
    whole = hl.graph.random_weights(hl.from_edges(src, dst, num_vertices=710, directed=directed)).weights
    weights = (whole / 7).to(dtype) if dtype.is_floating_point else whole.to(dtype)
    made = hl.from_edges(src, dst, num_vertices=710, directed=directed)
    return hl.Graph(made.indptr, made.indices, weights, directed=directed)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [None, *TYPES], ids=str)
def test_products_are_scipy_own(device, form, dtype, directed, tmp_path):
    graph = weighted(dtype or torch.int32, directed)
    expected = (graph if dtype else graph.without_weights()).to_scipy().astype(float)
    x = torch.rand(710, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 0.5
    matrix = AdjacencyMatrix(FORMS[form](graph, tmp_path), dtype is not None, device=device)
    for product, oracle in ((matrix.times, expected), (matrix.transposed_times, expected.T)):
        found = matrix.to_original(product(matrix.to_internal(x))).cpu().numpy()
        np.testing.assert_allclose(found, oracle @ x.numpy(), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("directed", [True, False])
def test_the_weighted_walk_satisfies_its_equation(device, form, directed, tmp_path):
    graph = weighted(torch.int32, directed)
    options = {"damping": 0.8, "tolerance": 1e-9, "personalization": {3: 1, 5: 2}, "dangling": {705: 1}}
    result = weighted_pagerank(FORMS[form](graph, tmp_path), max_iterations=500, device=device, **options)
    assert result.converged and result.scores.device == torch.device(device)
    verify_weighted_pagerank(graph, result, **options)
    changed = result.scores.clone()
    changed[[3, 5]] += torch.tensor([1e-6, -1e-6], dtype=torch.float64, device=device)
    with pytest.raises(VerificationError, match="vertex"):
        verify_weighted_pagerank(graph, dataclasses.replace(result, scores=changed), **options)
    with pytest.raises(VerificationError, match="sum"):
        verify_weighted_pagerank(graph, dataclasses.replace(result, scores=result.scores * 1.1), **options)


def test_without_weights_it_is_pagerank(device):
    graph = skewed(300, 2000)
    ours = weighted_pagerank(graph, tolerance=1e-10, max_iterations=500, device=device).scores
    other = hl.pagerank(graph, tolerance=1e-10, max_iterations=500, dtype=torch.float64, device=device).scores
    torch.testing.assert_close(ours, other, rtol=0, atol=1e-9)


def test_the_start_is_what_it_says():
    graph = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([2.0, 3.0]))
    result = weighted_pagerank(graph, damping=1, start={0: 1}, max_iterations=3)
    assert result.scores.tolist() == [0, 1] and not result.converged  # it goes to and fro


@pytest.mark.parametrize(
    "wrong", [{"damping": 1.1}, {"max_iterations": 0}, {"dangling": {0: 0}}, {"start": {9: 1}}, {"personalization": {0: -1}}]
)
def test_wrong_arguments_are_named(wrong):
    graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]))
    with pytest.raises(ConfigError, match=next(iter(wrong)).split("_")[0]):
        weighted_pagerank(graph, **wrong)


def test_a_graph_prepared_for_others_is_refused():
    graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]))
    with hl.prepare(graph, algorithms="bc", device="cpu") as prepared, pytest.raises(ConfigError, match="spmv"):
        weighted_pagerank(prepared)


@pytest.mark.parametrize(
    ("first", "others"), [(1e308, 1.0), (1e308, 1e-100), (1.0, 1e308), (1e300, 1e300), (1e-320, 1e-320), (1e-200, 1e100)]
)
def test_walks_by_weights_of_any_size(device, first, others):
    """A sum may be beyond the floats' range, but shares are those of a vertex's weights alone, as networkx has them of 1."""
    edges = [(0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
    graph = hl.from_edges(
        *torch.tensor(edges).T, torch.tensor([first if u == 0 else others for u, _ in edges], dtype=torch.float64)
    )
    options = {"personalization": {1: 1, 2: 1e-12}, "tolerance": 1e-12, "max_iterations": 1000}
    found = weighted_pagerank(graph, device=device, **options)
    assert found.converged
    right = nx.pagerank(nx.DiGraph(edges), personalization=options["personalization"], tol=1e-13, max_iter=1000)
    assert found.scores.tolist() == pytest.approx(list(right.values()), rel=1e-9)
    del options["max_iterations"]
    verify_weighted_pagerank(graph, found, **options)


@pytest.mark.parametrize("weights", [(1e308, 1e-300), (1.0, 1e-320), (1e200, 1e-315)])
def test_weights_too_far_apart_are_refused(weights):
    graph = hl.from_edges(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor(weights, dtype=torch.float64))
    with pytest.raises(ConfigError, match="too small beside others"):
        weighted_pagerank(graph)
