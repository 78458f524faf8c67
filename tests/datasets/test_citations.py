"""Generated data sets of one type: exact numbers of edges, and caches that serve what the literature says of papers100M."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import hotness, sampling

SCALE = 0.005  # of papers100M: 555,300 vertices
FANOUTS, GNNLAB_BATCH = [15, 10, 5], 8000  # as GNNLab has them
WITHIN = 0.05


@pytest.fixture(scope="module")
def papers() -> hl.datasets.Dataset:
    return hl.datasets.generate("papers100M", scale=SCALE, seed=3, device="cpu")


def edges_of(graph: hl.Graph) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.repeat_interleave(graph.degrees()), graph.indices.long()


def require_simple(graph: hl.Graph) -> None:
    """Lists ascend, name nobody twice and not the vertex itself."""
    rows, listed = edges_of(graph)
    assert bool(((rows * graph.num_vertices + listed).diff() > 0).all()) and not bool((rows == listed).any())
    assert not len(listed) or (int(listed.min()) >= 0 and int(listed.max()) < graph.num_vertices)


@settings(max_examples=25, deadline=None)
@given(
    vertices=st.integers(16, 300),
    degree=st.floats(0, 200),
    labelled=st.integers(1, 5),
    classes=st.integers(1, 50),
    seed=st.integers(0, 2**64 - 1),
)
def test_edges_are_exact_also_where_graphs_are_dense_or_empty(vertices, degree, labelled, classes, seed):
    wanted = int(vertices * degree)
    splits = (labelled, 0, 0)
    shape = hl.datasets.Shape({"node": vertices}, {"node": 1}, {("node", "to", "node"): wanted}, splits, classes)
    most = min(max(wanted, 1), vertices * (vertices - 1) // 2)
    for symmetrize in (False, True):
        graph = hl.datasets.generate(shape, seed=seed, symmetrize=symmetrize, device="cpu").graph
        require_simple(graph)
        assert graph.num_edges == most * (1 + symmetrize) and graph.directed != symmetrize


def test_counts_of_papers100m(papers):
    require_simple(papers.graph)
    assert papers.graph.num_edges == round(1_615_685_872 * SCALE)
    assert [len(part) for part in papers.splits.values()] == [round(n * SCALE) for n in (1_207_179, 125_265, 214_338)]
    assert papers.num_classes == 172


def test_messages_both_ways_are_each_edge_and_its_reverse(papers):
    both = hl.datasets.generate("papers100M", scale=SCALE / 10, seed=3, symmetrize=True, device="cpu").graph
    one = hl.datasets.generate("papers100M", scale=SCALE / 10, seed=3, device="cpu").graph
    assert both.num_edges == 2 * one.num_edges
    assert (both.to_scipy() != one.to_scipy() + one.to_scipy().T).nnz == 0


def test_long_lists_and_often_listed_vertices_are_others(papers):
    """A hundredth of the lists has about a third of all edges (Min 2022, section 4.4.2); who is listed often is unrelated."""
    lengths = papers.graph.degrees().double()
    listed = papers.graph.indices.bincount(minlength=papers.num_vertices).double()
    top = lengths.sort(descending=True).values[: papers.num_vertices // 100].sum() / papers.graph.num_edges
    assert 0.25 < float(top) < 0.35
    assert abs(float(torch.corrcoef(torch.stack([lengths, listed]))[0, 1])) < 0.05


def test_seeds_are_of_one_area_whose_lists_seldom_leave_it(papers):
    labelled = papers.labels >= 0
    assert int(labelled.sum()) == sum(map(len, papers.splits.values()))
    rows, listed = edges_of(papers.graph)
    from_seeds = labelled[rows] & (papers.graph.degrees()[rows] < 20)  # long lists name more than a small field has
    same = papers.labels[rows[from_seeds]] == papers.labels[listed[from_seeds]]
    seen = labelled[listed[from_seeds]]
    assert float(seen.double().mean()) > 0.4 > 10 * float(labelled.double().mean())  # half of the area has labels
    assert 0.6 < float(same[seen].double().mean()) < 0.8


def test_caches_serve_what_gnnlab_says_of_them(papers):
    """Of 3 hops 5 % of the rows by pre-sampling serve 96 %, by degree fewer than 29 % (Wang et al.'s survey, figure 15)."""
    sampler = sampling.NeighborSampler(papers.graph, FANOUTS, device="cpu")
    seeds, batch = papers.splits["train"], round(GNNLAB_BATCH * SCALE)
    counts = hotness.presample(sampler, seeds, batch, epochs=2, first_epoch=1)
    presampled = hotness.presample(sampler, seeds, batch, epochs=1)
    (served,) = hotness.hit_rate(presampled, counts, [0.05])
    assert abs(served - 0.96) < WITHIN
    (by_degree,) = hotness.hit_rate(hotness.degree(papers.graph, device="cpu"), counts, [0.05])
    assert abs(by_degree - 0.29) < WITHIN


@pytest.mark.gpu
@pytest.mark.parametrize("shape, scale", [("papers100M", 1e-3), ("wikipedia", 2e-3), ("products", 0.01)])
def test_a_gpu_makes_the_same_lists(shape, scale):
    ours, theirs = (hl.datasets.generate(shape, scale=scale, device=device) for device in ("cpu", "cuda"))
    assert torch.equal(ours.graph.indptr, theirs.graph.indptr) and torch.equal(ours.graph.indices, theirs.graph.indices)
    assert torch.equal(ours.features.cpu(), theirs.features.cpu()) and torch.equal(ours.labels, theirs.labels)


@pytest.mark.gpu
def test_a_gpu_makes_lists_in_pieces(monkeypatch):
    from hinterland.datasets import citations

    whole = hl.datasets.generate("amazon", scale=1e-3, device="cuda").graph
    monkeypatch.setattr(citations, "FEATURE_BYTES", 4096)
    pieces = hl.datasets.generate("amazon", scale=1e-3, device="cuda").graph
    assert torch.equal(whole.indices, pieces.indices)
