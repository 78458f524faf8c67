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
            "edges": rivals.even_bounds(drawn.indptr, PARTS),
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
    bounds = given["bounds"]["edges"]
    assert bounds[0] == 0 and bounds[-1] == vertices and all(a <= b for a, b in pairwise(bounds))
    edges = indptr[list(bounds)].diff()
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
    torch.testing.assert_close(rivals.Product(*csr, len(x))(x, torch.empty_like(x)), want)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_process(given, weighted):
    want = product(given, weighted)
    for bounds in given["bounds"].values():
        parts = shards(given, bounds, weighted, ["cpu"])
        xs = [given["x"][begin:end] for begin, end in pairwise(bounds)]
        for run in (PeerHalo(parts), PeerRing(parts)):
            for _ in range(3):
                torch.testing.assert_close(torch.cat(run(xs)), want)


def test_processes(given, tmp_path):
    torch.save(given, tmp_path / "given.pt")
    run_ranks(PARTS, Path(__file__).parent / "rival_ranks.py", tmp_path)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(PARTS)]
    assert len(found[0]) == len(given["bounds"]) * 2 * 3
    for key in found[0]:
        torch.testing.assert_close(torch.cat([rank[key] for rank in found]), product(given, key[1]), msg=str(key))
