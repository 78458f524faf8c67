"""What a prepared graph says of itself, and what it refuses."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.graph.prepare import STATE_BYTES, _hottest
from hinterland.runtime.errors import ConfigError


@pytest.fixture(scope="module")
def graph():
    return hl.generate("kronecker", scale=8, edge_factor=8, seed=1, device="cpu")


def test_a_prepared_graph_gives_what_the_graph_gives(graph):
    with hl.prepare(graph, device="cpu", algorithms=("bfs", "cc")) as prepared:
        assert prepared.device.type == "cpu" and prepared.held == 0
        assert torch.equal(hl.bfs(prepared, 3).levels, hl.bfs(graph, 3, device="cpu").levels)
        assert "runs on cpu" in prepared.explain()


def test_a_closed_one_says_so(graph):
    prepared = hl.prepare(graph, device="cpu")
    prepared.close()
    assert prepared.closed and prepared.explain() == "closed"
    for call in (lambda: hl.bfs(prepared, 0), lambda: hl.connected_components(prepared)):
        with pytest.raises(ConfigError, match="has been closed"):
            call()


@pytest.mark.parametrize("wrong", [None, "graph.hl", 3, torch.zeros(3)])
def test_what_is_no_graph_is_refused(wrong):
    calls = (hl.prepare, hl.connected_components, hl.pagerank, lambda g: hl.bfs(g, 0), lambda g: hl.sssp(g, 0))
    for call in (*calls, lambda g: hl.multi_source_bfs(g, [0]), lambda g: hl.betweenness_centrality(g, 1)):
        with pytest.raises(ConfigError, match=type(wrong).__name__):
            call(wrong)


def test_wrong_options_are_named(graph):
    with pytest.raises(ConfigError, match="fast"):
        hl.prepare(graph, algorithms="fast")
    with pytest.raises(ConfigError, match="None"):
        hl.prepare(graph, algorithms=None)
    with hl.prepare(graph, device="cpu") as prepared, pytest.raises(ConfigError, match="leave out gpu_budget"):
        hl.bfs(prepared, 0, gpu_budget="1GiB")


def test_the_hottest_pages_have_the_longest_lists():
    degrees = torch.tensor([4, 4, 64, 8, 8, 8, 32, 0, 0])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    of_edge = torch.repeat_interleave(degrees, degrees).double()  # how long the list of each edge is
    page = 16
    pages = len(of_edge) // page
    means = of_edge[: pages * page].view(pages, page).mean(1)
    for count in range(1, pages + 1):
        chosen = _hottest(offsets, page, pages, count)
        assert chosen.tolist() == sorted(set(chosen.tolist())) and len(chosen) == count
        assert means[chosen].sum() == pytest.approx(float(means.topk(count).values.sum()))


@pytest.mark.gpu
@pytest.mark.parametrize("names", [("bfs",), ("bfs", "cc", "pagerank"), ("sssp",)])
def test_what_is_kept_stays_within_the_budget(names):
    graph = hl.random_weights(hl.generate("kronecker", scale=14, edge_factor=16, seed=1), "int32")
    state = max(STATE_BYTES[name](graph) for name in names)
    for spare in (1 << 12, 1 << 20, 3 << 20, 64 << 20):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        with hl.prepare(graph, gpu_budget=state + spare, algorithms=names, weighted=True) as prepared:
            assert prepared.device.type == "cuda" and prepared.held <= spare
            assert torch.cuda.max_memory_allocated() - before <= state + spare
