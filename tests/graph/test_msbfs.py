"""Multi-source breadth-first search against scipy, single searches and its verifier."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph import verify_multi_source_bfs
from hinterland.graph.traversal import RECORDS
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, VerificationError

from ..graphs import skewed, with_wide_edges
from .budgets import within_budgets
from .cases import Everywhere
from .small import any_graphs, chain, expected_levels, star

TASK_EDGES = 2048  # kTaskEdges: longer neighbour lists are shared by several warps


def check(graph, sources, device="cpu", **options):
    levels = expected_levels(graph, list(sources))
    graph.transpose()  # so that auto pulls
    for mode in ("auto", "top-down"):
        result = hl.multi_source_bfs(graph, sources, mode=mode, device=device, **options)
        np.testing.assert_array_equal(result.levels.cpu().numpy(), levels)
        assert result.levels.dtype == result.eccentricity.dtype == torch.int32
        verify_multi_source_bfs(graph, sources, result)
        sums = hl.multi_source_bfs(graph, sources, levels=False, mode=mode, device=device)
        assert sums.levels is None
        for name in ("reached", "distance_sum", "eccentricity"):
            assert torch.equal(getattr(sums, name), getattr(result, name))
    return result


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("count", [1, 32, 33, 64, 150])
def test_skewed_graph(device, directed, wide, count):
    graph = skewed(3000, 60000, symmetrize=not directed)
    assert int(graph.degrees().max()) > TASK_EDGES
    check(with_wide_edges(graph) if wide else graph, list(range(0, 20 * count, 20)), device)


@settings(max_examples=120, deadline=None)
@given(any_graphs(), st.data())
def test_any_graph(graph, data):
    check(graph, data.draw(st.lists(st.integers(0, graph.num_vertices - 1), min_size=1, max_size=70)))


@pytest.mark.parametrize("leaves", [1, 32, TASK_EDGES, 5 * TASK_EDGES + 7])
def test_star(device, leaves):
    graph = star(leaves)
    check(graph, [0, leaves], device)
    check(graph, [1 + i % leaves for i in range(64)], device)


def test_chain(device):
    check(chain(300), [0, 299, 150], device)


def test_levels_beyond_the_records_are_still_counted(device):
    vertices = RECORDS + 499
    result = hl.multi_source_bfs(chain(vertices), [0, 10], device=device, stats=True)
    assert result.levels[0].tolist() == list(range(vertices))
    assert result.distance_sum[0] == vertices * (vertices - 1) // 2 and result.eccentricity.tolist() == [
        vertices - 1,
        vertices - 11,
    ]
    (search,) = result.stats["searches"]
    assert search["levels"] == vertices and len(search["per_level"]) == RECORDS


def test_self_loops_parallel_edges_and_isolated_vertices(device):
    src, dst = torch.tensor([0, 0, 0, 1, 1, 3]), torch.tensor([0, 1, 1, 1, 2, 3])
    result = check(hl.from_edges(src, dst, num_vertices=6), [0, 5, 3, 2, 5], device)
    assert result.levels.tolist() == [
        [0, 1, 2, -1, -1, -1],
        [-1, -1, -1, -1, -1, 0],
        [-1, -1, -1, 0, -1, -1],
        [-1, -1, 0, -1, -1, -1],
        [-1, -1, -1, -1, -1, 0],
    ]
    assert result.reached.tolist() == [3, 1, 1, 1, 1] and result.distance_sum.tolist() == [3, 0, 0, 0, 0]


def test_no_sources(device):
    result = hl.multi_source_bfs(chain(5), [], device=device, stats=True)
    assert result.levels.shape == (0, 5) and result.reached.shape == (0,) and result.stats["searches"] == []


def test_a_source_may_come_up_again(device):
    check(skewed(500, 3000), [7] * 40 + [9] * 40, device)


def test_sources_of_any_kind():
    graph = chain(9)
    expected = hl.multi_source_bfs(graph, [2, 5], device="cpu").levels
    for sources in (torch.tensor([2, 5]), np.array([2, 5]), (2, 5), iter([2, 5])):
        assert torch.equal(hl.multi_source_bfs(graph, sources, device="cpu").levels, expected)


def test_levels_are_those_of_single_searches(device):
    graph = skewed(2000, 9000, symmetrize=True)
    levels = hl.multi_source_bfs(graph, range(64), device=device).levels
    for source in range(64):
        assert torch.equal(levels[source], hl.bfs(graph, source, device=device).levels)


@pytest.mark.parametrize("directed", [True, False])
def test_compressed_lists(device, directed):
    graph = skewed(3000, 60000, symmetrize=not directed)
    packed = hl.compress(graph)
    packed.transpose()
    for mode in ("auto", "top-down"):
        found = hl.multi_source_bfs(packed, range(0, 960, 15), mode=mode, device=device)
        np.testing.assert_array_equal(found.levels.cpu().numpy(), expected_levels(graph, range(0, 960, 15)))


def test_many_sources_read_few_edges():
    """Where the searches meet, 64 of them read little more than one does."""
    graph = hl.generate("kronecker", scale=14, edge_factor=16, seed=1, device="cpu")
    sources = graph.degrees().nonzero()[:64, 0]
    stats = hl.multi_source_bfs(graph, sources, levels=False, device="cpu", stats=True).stats
    directions = {level["direction"] for level in stats["searches"][0]["per_level"]}
    assert directions == {"push", "pull"}
    pushed = hl.multi_source_bfs(graph, sources, levels=False, mode="top-down", device="cpu", stats=True).stats
    assert stats["bytes"] < pushed["bytes"] and stats["seconds"] > 0


def test_stats_add_up(device):
    graph = skewed(4000, 30000)
    result = hl.multi_source_bfs(graph, range(100), device=device, stats=True)
    assert len(result.stats["searches"]) == 2
    for name in ("seconds", "edges", "bytes"):
        assert result.stats[name] == pytest.approx(sum(search[name] for search in result.stats["searches"]))
    first = result.stats["searches"][0]["per_level"]
    levels = result.levels[:64].cpu()
    for level in range(len(first)):  # the vertices that some search reaches at this level
        assert first[level]["vertices"] == int((levels == level).any(dim=0).sum())


def test_bad_arguments(device):
    with pytest.raises(IndexOutOfRange, match="source 5 is not a vertex: the graph has 5 vertices"):
        hl.multi_source_bfs(chain(5), [0, 5], device=device)
    with pytest.raises(ConfigError, match=r"1\.5 is not a vertex number"):
        hl.multi_source_bfs(chain(5), [1.5], device=device)
    for sources in ("01", 3):
        with pytest.raises(ConfigError, match="sources are a list or a tensor of vertex numbers"):
            hl.multi_source_bfs(chain(5), sources, device=device)
    with pytest.raises(ConfigError, match="mode 'sideways'"):
        hl.multi_source_bfs(chain(5), [0], mode="sideways", device=device)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({(1, 0): 2}, "source 1, vertex 3: rule 6: vertex 0 has level 2, but no edge leads to it from level 1"),
        ({(1, 0): 4}, "source 1, vertex 3: rule 5: edge 1 -> 0"),
        ({(0, 0): 1}, "source 0, vertex 0: rule 1: it has level 1"),
        ({(0, 2): 0}, "source 0, vertex 0: rule 2: vertex 2 has level 0"),
        ({(0, 3): -1}, "source 0, vertex 0: rule 4: edge 2 -> 3"),
        ({(0, 3): 1, (0, 4): 2}, "source 0, vertex 0: rule 6: vertex 3 has level 1, but no edge leads to it from level 0"),
        ({(0, 5): 1, (0, 6): 2}, "source 0, vertex 0: rule 6: vertex 5 has level 1"),
    ],
)
def test_the_verifier_finds_wrong_levels(changed, sentence):
    graph = hl.from_edges(torch.tensor([0, 1, 2, 3, 5]), torch.tensor([1, 2, 3, 4, 6]), symmetrize=True)
    result = hl.multi_source_bfs(graph, [0, 3], device="cpu")
    verify_multi_source_bfs(graph, [0, 3], result)
    for place, level in changed.items():
        result.levels[place] = level
    with pytest.raises(VerificationError, match=sentence):
        verify_multi_source_bfs(graph, [0, 3], result)


@pytest.mark.parametrize("name", ["reached", "distance_sum", "eccentricity"])
def test_the_verifier_finds_wrong_sums(name):
    graph = chain(6)
    result = hl.multi_source_bfs(graph, [0, 3], device="cpu")
    getattr(result, name)[1] += 1
    with pytest.raises(VerificationError, match=f"source 1, vertex 3: {name} is"):
        verify_multi_source_bfs(graph, [0, 3], result)
    with pytest.raises(ConfigError, match="the result has no levels"):
        verify_multi_source_bfs(graph, [0], hl.multi_source_bfs(graph, [0], levels=False, device="cpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["host", "gpu", {"indptr": "gpu", "indices": "host"}])
def test_every_placement_on_a_gpu(placement):
    check(skewed(5000, 60000, placement=placement), range(0, 640, 10), "cuda:0", stats=True)


@pytest.mark.gpu
@pytest.mark.parametrize("wide", [False, True])
def test_a_gpu_finds_what_the_cpu_finds(wide):
    graph = hl.generate("kronecker", scale=16, edge_factor=16, seed=1)
    graph = with_wide_edges(graph) if wide else graph
    sources = graph.degrees().nonzero()[:100, 0]
    on_cpu = hl.multi_source_bfs(graph, sources, device="cpu")
    for budget in (None, "64MiB", "8MiB"):
        with hl.prepare(graph, gpu_budget=budget, algorithms=["msbfs"]) as prepared:
            assert prepared.device.type == "cuda"
            found = hl.multi_source_bfs(prepared, sources)
        for name in ("levels", "reached", "distance_sum", "eccentricity"):
            assert torch.equal(getattr(found, name).cpu(), getattr(on_cpu, name))


@pytest.mark.gpu
@pytest.mark.parametrize("vertices", [1000, 300_000])
def test_a_budget_bounds_what_is_taken(vertices):
    graph = skewed(vertices, 4 * vertices, symmetrize=True)
    places = (False, None, True)  # of the levels: host memory, either, the GPU's
    extras = (2048, 8 * vertices + (3 << 20), 1 << 30)
    found = within_budgets("msbfs", graph, lambda graph: hl.multi_source_bfs(graph, range(64)), extras)
    for on_gpu, result in zip(places, found, strict=True):
        assert on_gpu in (None, result.levels.is_cuda)
        verify_multi_source_bfs(graph, range(64), result)


def check_msbfs(case, form, run):
    result = run(hl.multi_source_bfs, case.sources)
    rows = [case.levels[source] for source in case.sources]
    np.testing.assert_array_equal(result.levels.cpu().numpy(), np.array(rows).reshape(len(rows), case.vertices))
    assert result.reached.tolist() == [int((row >= 0).sum()) for row in rows]
    assert result.distance_sum.tolist() == [int(row[row >= 0].sum()) for row in rows]
    assert result.eccentricity.tolist() == [int(row.max()) for row in rows]


EVERYWHERE = [Everywhere("msbfs", check_msbfs)]
