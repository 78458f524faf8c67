"""The rivals of full-graph message passing make what a product in float64 makes."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks import _fullgraph_rivals as rivals
from benchmarks._fullgraph_in_process import PeerHalo, PeerRing
from benchmarks._fullgraph_shapes import draw
from tests.ranks import run_ranks

WIDTH = 8
PARTS = 3


@pytest.fixture(scope="module")
def given():
    """A skewed graph, and ways to cut it: also with parts that own nothing, and one that owns all."""
    drawn = draw("products", 1e-4, "cpu")
    random, vertices = torch.Generator().manual_seed(3), drawn.shape.vertices
    return {
        "indptr": drawn.indptr,
        "indices": drawn.indices,
        "weights": torch.rand(len(drawn.indices), generator=random, dtype=torch.float64),
        "x": torch.randn(vertices, WIDTH, generator=random, dtype=torch.float64),
        "bounds": {
            "rows": rivals.even_bounds(drawn.indptr, PARTS, "rows"),
            "edges": rivals.even_bounds(drawn.indptr, PARTS, "edges"),
            "empty": (0, 0, vertices - 1, vertices),
            "one": (0, vertices, vertices, vertices),
        },
    }


def product(given, weighted, device="cpu"):
    values = given["weights"] if weighted else torch.ones_like(given["weights"])
    size = (len(given["indptr"]) - 1,) * 2
    matrix = torch.sparse_csr_tensor(given["indptr"], given["indices"].long(), values, size, check_invariants=False)
    return (matrix @ given["x"]).to(device)


def shards(given, bounds, weighted, devices):
    weights = given["weights"] if weighted else None
    return [
        rivals.cut(given["indptr"], given["indices"], weights, bounds, rank, devices[rank % len(devices)])
        for rank in range(PARTS)
    ]


def test_bounds(given):
    indptr, vertices = given["indptr"], len(given["indptr"]) - 1
    for by in ("rows", "edges"):
        bounds = given["bounds"][by]
        assert bounds[0] == 0 and bounds[-1] == vertices and all(a <= b for a, b in pairwise(bounds))
    rows = torch.tensor(given["bounds"]["rows"]).diff()
    assert rows.max() - rows.min() <= 1
    edges = indptr[list(given["bounds"]["edges"])].diff()
    assert edges.max() - edges.min() <= 2 * indptr.diff().max()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_shard_has_the_rows_of_the_whole(given, weighted):
    for bounds in given["bounds"].values():
        for shard in shards(given, bounds, weighted, ["cpu"]):
            begin, end = (int(given["indptr"][bounds[shard.rank + k]]) for k in (0, 1))
            assert torch.equal(shard.columns(), given["indices"][begin:end].long())
            assert sum(shard.halo_counts) == len(shard.halo) and shard.halo_counts[shard.rank] == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_one_device(given, weighted):
    csr = [given[name] for name in ("indptr", "indices")] + [given["weights"] if weighted else None]
    x, want = given["x"], product(given, weighted)
    torch.testing.assert_close(rivals.torch_sparse(*csr, len(x), x.dtype)(x), want)
    torch.testing.assert_close(rivals.cusparse(*csr, len(x))(x), want)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_process(given, weighted):
    want = product(given, weighted)
    for bounds in given["bounds"].values():
        parts = shards(given, bounds, weighted, ["cpu"])
        xs = [given["x"][begin:end] for begin, end in pairwise(bounds)]
        for run in (PeerHalo(parts), PeerRing(parts)):
            for _ in range(3):
                torch.testing.assert_close(torch.cat(run(xs)), want)
        home = [torch.empty_like(x) for x in xs]
        for shard, to in zip(parts, home, strict=True):
            rivals.Tiles(shard)(xs, to)
        torch.testing.assert_close(torch.cat(home), want)


def test_processes(given, tmp_path):
    torch.save(given, tmp_path / "given.pt")
    run_ranks(PARTS, Path(__file__).parent / "rival_ranks.py", tmp_path)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(PARTS)]
    assert len(found[0]) == len(given["bounds"]) * 2 * 5
    for key in found[0]:
        torch.testing.assert_close(torch.cat([rank[key] for rank in found]), product(given, key[1]), msg=str(key))


def test_pyg(given):
    pytest.importorskip("torch_geometric")
    x, edges = given["x"].float(), rivals.pyg_edges(given["indptr"], given["indices"])
    for name in rivals.PYG_LAYERS:
        torch.manual_seed(1)
        layer = rivals.pyg_layer(name, WIDTH, 8)
        made = layer(x, edges)
        assert made.shape == (len(x), 8) and bool(made.isfinite().all())
        if name in ("gcn", "sage-mean"):
            torch.manual_seed(1)
            matrix = rivals.pyg_matrix(given["indptr"], given["indices"], len(x), x.dtype)
            torch.testing.assert_close(rivals.pyg_layer(name, WIDTH, 8)(x, matrix), made, rtol=1e-4, atol=1e-4)


def test_pyg_that_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    assert rivals.pyg_layer("gat", 4, 8) is None
