"""What a prepared graph says of itself, and what it refuses."""

from __future__ import annotations

import dataclasses
import re
import warnings

import pytest
import torch

import hinterland as hl
from hinterland.graph import algorithms
from hinterland.graph.algorithms import Algorithm, named, state_bytes
from hinterland.graph.device_graph import WORDS_BYTES, DeviceGraph, _offset_type, allocated, page_sums
from hinterland.graph.plan import GraphPlan, plan_graph
from hinterland.runtime import devices, warned
from hinterland.runtime.errors import ConfigError

from .budgets import takes_at_most


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


@pytest.mark.parametrize("scored", [False, True])
def test_the_score_of_a_page_is_that_of_its_elements(scored):
    degrees = torch.tensor([4, 4, 64, 8, 8, 8, 32, 0, 0])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)])
    scores = torch.rand(9, dtype=torch.float64) if scored else None
    of_edge = torch.repeat_interleave(degrees.double() if scores is None else scores, degrees)
    pages = len(of_edge) // 16
    expected = of_edge[: pages * 16].view(pages, 16).sum(1)
    torch.testing.assert_close(page_sums(offsets, 16, pages, scores), expected)


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress])
@pytest.mark.parametrize("weighted", [False, True])
def test_pages_are_kept_by_scores_within_the_room(graph, form, weighted):
    graph = form(hl.random_weights(graph))
    cold = torch.zeros(graph.num_vertices, dtype=torch.float64)
    cold[graph.indptr[1:] > graph.num_edges // 2] = 1  # the later half of the lists
    for room in (0, 100, 4096 + 512, 8192 + 512, 9000, 13_000, 1 << 22):
        view = DeviceGraph(graph.neighbor_lists, torch.device("cpu"))
        expected = graph.num_edges if (whole := view.edge_bytes(weighted)) <= room else 0
        count = view.pages_within(room, weighted)
        plan = GraphPlan(room, weighted)
        plan.keep_edges(view)
        plan.apply(cold)
        assert plan.left == room - view.held >= 0
        kept = view.keeps(torch.arange(view.edges.numel()))
        if expected:
            assert view.held == whole and bool(kept.all())
        else:
            assert int(kept.sum()) == count * view.page
            assert count == 0 or count > view.num_pages // 2 or bool(kept.nonzero().min() > view.edges.numel() // 3)


def planned(view, room, adjacency_prefix=False):
    """The plan that keeps offsets or prefixes of a view, as far as there is room, once it is carried out."""
    plan = GraphPlan(room)
    (plan.keep_prefix if adjacency_prefix else plan.keep_offsets)(view)
    plan.apply()
    return plan


def test_scores_that_cannot_be_used_are_refused(graph):
    for wrong in (torch.zeros(3), [1.0], torch.full((graph.num_vertices,), float("nan"))):
        with pytest.raises(ConfigError, match="scores"):
            hl.prepare(graph, device="cpu", scores=wrong)


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress])
def test_offsets_and_prefixes_are_kept_as_narrow_as_they_can_be(graph, form):
    graph = form(graph)
    wide, narrow = (
        DeviceGraph(graph.neighbor_lists, torch.device("cpu")),
        DeviceGraph(graph.neighbor_lists, torch.device("cpu")),
    )
    size = (1 + graph.is_compressed) * allocated(4 * (graph.num_vertices + 1))
    assert planned(narrow, size - 1).left == size - 1 and narrow.offsets.dtype == torch.int64 and narrow.held == 0
    assert planned(narrow, size).left == 0 and narrow.held == size
    for name in ("offsets", "packed_offsets"):
        kept, was = getattr(narrow, name), getattr(wide, name)
        assert kept is was is None or (kept.dtype == torch.uint32 and torch.equal(kept.long(), was))
    for view in (wide, narrow):
        assert torch.equal(view.degrees(torch.empty(graph.num_vertices, dtype=torch.float64)), graph.degrees().double())
    for view in (wide, narrow):
        planned(view, 1 << 20, adjacency_prefix=True)
    assert torch.equal(wide.adjacency_prefix, narrow.adjacency_prefix)
    for v in (0, 1, 77, 255):
        first = graph.indices[graph.indptr[v] : graph.indptr[v + 1]][:4].tolist()
        assert narrow.adjacency_prefix[:, v].tolist() == first + [-1] * (4 - len(first))


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress])
def test_a_plan_copies_nothing_and_says_what_it_found_room_for(form):
    graph = form(hl.generate("kronecker", scale=11, edge_factor=8, seed=1, device="cpu", weights=True))
    view = DeviceGraph(graph.neighbor_lists, torch.device("cpu"))
    offsets, whole = view.offsets_bytes, view.edge_bytes(True)
    for room, said in (
        (0, "read where they lie"),
        (offsets, "offsets"),
        (offsets + whole - 1, "pages of"),
        (1 << 30, "all edges"),
    ):
        view, plan = DeviceGraph(graph.neighbor_lists, torch.device("cpu")), GraphPlan(room, weighted=True)
        kept = plan.of(view)
        plan.keep_offsets(view)
        plan.keep_edges(view)
        assert kept.nbytes == room - plan.left >= 0 and said in plan.explain()
        assert view.held == 0 and view.slots is None and view.offsets.dtype == torch.int64
        plan.apply()
        assert view.held == kept.nbytes and bool(kept.whole) == bool(view.keeps(torch.arange(graph.num_edges)).all())


@pytest.mark.parametrize("searching", [False, True])
@pytest.mark.parametrize("incoming_only", [False, True])
def test_a_plan_keeps_the_lists_that_an_algorithm_reads(searching, incoming_only):
    graph = hl.from_edges(torch.arange(4000) % 50, torch.arange(4000) % 77)
    out, incoming = (DeviceGraph(g.neighbor_lists, torch.device("cpu")) for g in (graph, graph.transpose()))
    wanted = [Algorithm("new", lambda graph: 0, searching, incoming_only)]
    room = 2 * out.offsets_bytes + incoming.prefix_bytes(1)
    kept = plan_graph(room, out, incoming, None, wanted, weighted=False, many_runs=True).kept
    assert kept[out].offsets and kept[incoming].offsets == (searching or incoming_only)
    assert kept[incoming].prefix_length == searching and kept[out].prefix_length == 0
    kept = plan_graph(1 << 30, out, incoming, None, wanted, weighted=False, many_runs=True).kept
    assert kept[out].whole == (not incoming_only) and kept[incoming].whole == (searching or incoming_only)


def test_an_algorithm_is_known_once_it_is_registered(graph, monkeypatch):
    monkeypatch.setattr(algorithms, "_known", dict(algorithms._known))
    with pytest.raises(ConfigError, match=r"new: not among the algorithms, bc, bfs"):
        hl.prepare(graph, device="cpu", algorithms="new")
    algorithms.register(Algorithm("new", lambda graph: graph.num_edges))
    assert algorithms.state_bytes("new", graph) == graph.num_edges
    hl.prepare(graph, device="cpu", algorithms=("new", "bfs")).close()


@pytest.mark.parametrize("missing", ["kernels", "verify", "help", "array", "columns"])
def test_a_record_that_lacks_what_its_command_needs_is_refused(missing):
    with pytest.raises(ConfigError, match=f"the record of cc has a run, and no {missing}; its command needs all of them"):
        dataclasses.replace(named(["cc"])[0], **{missing: None})


@pytest.mark.parametrize(("last", "dtype"), [(0, torch.uint32), (2**32 - 1, torch.uint32), (2**32, torch.int64)])
def test_offsets_are_narrow_below_two_to_the_32(last, dtype):
    assert _offset_type(last) == dtype
    assert torch.tensor([last]).to(dtype).long().item() == last


@pytest.mark.gpu
@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress])
def test_kept_offsets_take_four_bytes_a_vertex(form):
    graph = form(hl.generate("uniform", scale=16, edge_factor=8, seed=1))
    needed = state_bytes("bc", graph) + 2 * allocated(WORDS_BYTES)
    size = (1 + graph.is_compressed) * allocated(4 * (graph.num_vertices + 1))
    expected = hl.betweenness_centrality(graph, [5, 9], device="cpu").scores
    for room, dtype in ((size - 1, torch.int64), (size, torch.uint32)):  # what is no room for offsets is room for pages
        budget = needed + room
        with takes_at_most(budget), hl.prepare(graph, gpu_budget=budget, algorithms="bc") as prepared:
            assert prepared.device.type == "cuda" and prepared.held <= room and prepared.out.offsets.dtype == dtype
            assert dtype == torch.int64 or prepared.held == size
            found = hl.betweenness_centrality(prepared, [5, 9]).scores
        torch.testing.assert_close(found.cpu(), expected)
        del found, prepared


@pytest.mark.gpu
@pytest.mark.parametrize("scale", [12, 17, 20])
@pytest.mark.parametrize("name", ["bfs", "cc"])
def test_prefixes_are_fetched_within_the_budget(name, scale):
    graph = hl.generate("uniform", scale=scale, edge_factor=4, seed=1)
    # Results stay on the GPU before prefixes are kept there.
    vertices, needed = graph.num_vertices, named([name])[0].ample(graph) + 2 * allocated(WORDS_BYTES)
    room = allocated(4 * (vertices + 1)) + allocated(2 * 4 * vertices)  # offsets and two prefixes
    with takes_at_most(needed + room), hl.prepare(graph, gpu_budget=needed + room, algorithms=name) as prepared:
        assert prepared.out.offsets.dtype == torch.uint32 and len(prepared.incoming.adjacency_prefix) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("names", [("bfs",), ("bfs", "cc", "pagerank"), ("sssp",)])
def test_what_is_kept_stays_within_the_budget(names):
    graph = hl.random_weights(hl.generate("kronecker", scale=14, edge_factor=16, seed=1), "int32")
    state = max(state_bytes(name, graph) for name in names)
    for spare in (1 << 12, 1 << 20, 3 << 20, 64 << 20):
        budget = state + spare
        with takes_at_most(budget), hl.prepare(graph, gpu_budget=budget, algorithms=names, weighted=True) as prepared:
            assert prepared.device.type == "cuda" and prepared.held <= spare


@pytest.fixture
def one_way():
    ends = torch.randint(0, 500, (2, 4000), generator=torch.Generator().manual_seed(1))
    return hl.from_edges(*ends, num_vertices=500)


def test_a_directed_graph_is_prepared_with_its_transpose(one_way):
    with hl.prepare(one_way, device="cpu") as prepared:
        assert one_way.known_transpose is not None and prepared.incoming.lists is one_way.known_transpose.neighbor_lists
        assert "in-neighbours' lists of 19.54 KiB were built" in prepared.explain()
        levels = hl.bfs(prepared, 3, stats=True).stats["per_level"]
    assert "pull" in {level["direction"] for level in levels}
    with hl.prepare(one_way, device="cpu") as again:
        assert "were built" not in again.explain()


def test_algorithms_that_follow_out_edges_build_no_transpose(one_way):
    with hl.prepare(one_way, device="cpu", algorithms="sssp") as prepared:
        assert prepared.incoming is None and "transpose" not in prepared.explain()
    assert one_way.known_transpose is None


def test_without_memory_for_the_transpose_it_says_what_it_would_take(one_way, monkeypatch):
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", str(hl.memory.report().nbytes + 70_000))
    with hl.prepare(one_way, device="cpu") as prepared:
        assert prepared.incoming is None
        assert "graph.transpose() builds it, 19.54 KiB where there is memory for it" in prepared.explain()
        assert torch.equal(hl.bfs(prepared, 3).levels, hl.bfs(one_way, 3, device="cpu").levels)


def test_a_single_run_builds_no_transpose(one_way):
    hl.bfs(one_way, 3, device="cpu")
    assert one_way.known_transpose is None


def test_a_budget_without_room_for_the_state_is_warned_of_at_the_callers_line(one_way, monkeypatch):
    monkeypatch.setattr(warned, "_told", set())
    monkeypatch.setattr(devices, "as_device", torch.device)  # a GPU that need not be there, as nothing is put on it
    with pytest.warns(UserWarning, match="no room for the state of bfs, so the CPU does the work") as found:
        result = hl.bfs(one_way, 3, device="cuda", gpu_budget="1KiB")
    assert result.levels.device.type == "cpu" and found[0].filename == __file__ and len(found) == 1
    least = int(re.search(r"is (\d+) bytes", str(found[0].message))[1])
    assert least == state_bytes("bfs", one_way) + 2 * allocated(WORDS_BYTES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hl.bfs(one_way, 3, device="cuda", gpu_budget=least - 1)  # once is enough
        hl.connected_components(one_way, device="cuda", gpu_budget=0)  # asks for the CPU
    with pytest.warns(UserWarning, match="state of bfs, cc") as found:
        hl.prepare(one_way, device="cuda", gpu_budget=100, algorithms=("cc", "bfs")).close()
    assert found[0].filename == __file__
