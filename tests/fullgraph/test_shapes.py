"""The shapes that benchmarks of full-graph message passing draw: counts, ranges, skew, locality, and the same from one seed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks import _fullgraph_shapes
from benchmarks._fullgraph_shapes import SHAPES, draw, scaled

SMALL = {name: 200_000 / shape.edges for name, shape in SHAPES.items()}


@pytest.mark.parametrize("name", SHAPES)
def test_sizes_and_ranges(name, monkeypatch):
    monkeypatch.setattr(_fullgraph_shapes, "PIECE", 30_000)  # several pieces
    drawn = draw(name, SMALL[name], "cpu")
    assert drawn.shape == scaled(name, SMALL[name])
    assert len(drawn.indptr) == drawn.shape.vertices + 1 and len(drawn.indices) == drawn.shape.edges
    assert abs(drawn.shape.edges - 200_000) <= 1
    assert (drawn.indptr.dtype, drawn.indices.dtype) == (torch.int64, torch.int32)
    assert drawn.indptr[0] == 0 and drawn.indptr[-1] == drawn.shape.edges and bool((drawn.indptr.diff() >= 0).all())
    assert int(drawn.indices.min()) >= 0 and int(drawn.indices.max()) < drawn.shape.vertices
    rows = torch.repeat_interleave(torch.arange(drawn.shape.vertices), drawn.indptr.diff())
    assert not (rows == drawn.indices).any()
    keys = rows << 32 | drawn.indices
    assert bool((keys.diff() >= 0).all())
    said = drawn.described()
    assert said["repeated"] == int((keys.diff() == 0).sum()) / len(keys)
    assert said["longest"] == int(drawn.indptr.diff().max())
    graph = drawn.to_graph()  # which looks for the reverse of every edge of an undirected one
    assert (graph.num_vertices, graph.num_edges, graph.directed) == (
        drawn.shape.vertices,
        drawn.shape.edges,
        drawn.shape.directed,
    )


@pytest.mark.parametrize("name", ["products", "papers100M"])
def test_the_same_from_one_seed(name):
    one, again, other = (draw(name, SMALL[name], "cpu", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.indptr, again.indptr) and torch.equal(one.indices, again.indices)
    assert not torch.equal(one.indices, other.indices)


@pytest.mark.parametrize("name", ["orkut", "papers100M"])
def test_popular_vertices_are_in_many_lists(name):
    drawn = draw(name, SMALL[name], "cpu")
    longest = int(drawn.indptr.diff().max())
    assert 0.5 * drawn.shape.longest < longest < 2 * drawn.shape.longest
    assert longest > 20 * drawn.shape.edges / drawn.shape.vertices
    assert int(drawn.indices.bincount().max()) > 10 * drawn.shape.edges / drawn.shape.vertices


def test_near_edges_are_near():
    def share(name):
        drawn = draw(name, SMALL[name], "cpu")
        rows = torch.repeat_interleave(torch.arange(drawn.shape.vertices), drawn.indptr.diff())
        away = (rows - drawn.indices).abs()
        return float((torch.minimum(away, drawn.shape.vertices - away) <= drawn.shape.vertices // 64).double().mean())

    assert share("it-2004") == pytest.approx(0.9, abs=0.02)
    assert share("papers100M") == pytest.approx(0.1 + 0.9 / 32, abs=0.02)


def test_tiny_scales():
    for name in SHAPES:
        drawn = draw(name, 1e-9, "cpu")
        assert drawn.shape.vertices == 2 and drawn.shape.edges == 2


@pytest.mark.gpu
@pytest.mark.nightly
def test_the_largest_is_drawn_within_its_memory():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    drawn = draw("papers100M")
    assert len(drawn.indices) == 1_615_685_872 and int(drawn.indptr[-1]) == len(drawn.indices)
    assert torch.cuda.max_memory_allocated() - before < 30 << 30
