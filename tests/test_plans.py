"""The planners: what is kept for a budget, and that all of them explain themselves in one form."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph.algorithms import named
from hinterland.graph.device_graph import DeviceGraph
from hinterland.graph.plan import GraphPlan, plan_graph
from hinterland.memory import plan_slots
from hinterland.runtime.units import format_bytes, parse_bytes
from hinterland.storage.on_device import MOST_QUEUES
from hinterland.table import plan_tiers
from hinterland.training import plan_cache
from hinterland.training.cache_split import CacheCandidates, split

from .graph.stored import on_storage

CPU = torch.device("cpu")
NOTHING = (False, 0, 0, False, 0)


@pytest.fixture(scope="module")
def graph():
    at = torch.arange(200_000)
    source = at % 3000
    target = (source * source + 7 * at) % (1 + source)
    return hl.reorder(hl.from_edges(source, target, num_vertices=3000, directed=True), "degree")


def graph_plan(graph, room: int, algorithm: str = "bfs") -> tuple[GraphPlan, DeviceGraph, DeviceGraph]:
    out, incoming = (
        DeviceGraph(graph.neighbor_lists, CPU),
        DeviceGraph(graph.transpose().neighbor_lists, CPU, "in-neighbours' lists"),
    )
    return plan_graph(room, out, incoming, graph.original_ids, named([algorithm]), False, True), out, incoming


@pytest.mark.parametrize(
    ("algorithm", "room", "left", "order", "kept"),
    [
        ("bfs", 0, 0, False, (NOTHING, NOTHING)),
        ("bfs", 12_288, 0, False, ((True, 0, 0, False, 12_288), NOTHING)),
        ("bfs", 40_000, 3_136, False, ((True, 0, 0, False, 12_288), (True, 1, 0, False, 24_576))),
        ("bfs", 200_000, 3_904, True, ((True, 0, 24, False, 111_616), (True, 4, 0, False, 60_416))),
        ("bfs", 900_000, 2_976, True, ((True, 0, 0, True, 812_544), (True, 4, 0, False, 60_416))),
        ("bfs", 1 << 30, 1_072_044_544, True, ((True, 0, 0, True, 812_544), (True, 4, 0, True, 860_672))),
        ("pagerank", 100_000, 1_184, True, ((True, 0, 0, False, 12_288), (True, 0, 12, False, 62_464))),
        ("pagerank", 1 << 20, 199_680, True, ((True, 0, 0, False, 12_288), (True, 0, 0, True, 812_544))),
    ],
)
def test_lists_that_are_kept(graph, algorithm, room, left, order, kept):
    plan, *views = graph_plan(graph, room, algorithm)
    found = tuple((k.offsets, k.prefix_length, k.pages, k.whole, k.nbytes) for k in (plan.kept[view] for view in views))
    assert (plan.left, plan.order, found) == (left, order, kept)


@pytest.mark.parametrize("said", (None, "200KiB", "1GiB"))
def test_room_for_lines_of_what_lies_on_storage(graph, tmp_path, said):
    """For all of it in one cache, which is the file's, and as much again; or what its cache says; or what there is room for."""
    stored = on_storage(graph, tmp_path / "g.hl", 64 << 10, transpose=True, device_budget=said)
    both = [stored.neighbor_lists, stored.transpose().neighbor_lists]
    ample = 2 * sum(lists.arrays["indices"].nbytes for lists in both) + MOST_QUEUES.device_bytes
    ample = ample if said is None else min(ample, parse_bytes(said))
    free, some = 1 << 30, 5000
    for room, most, kept in ((free, free, ample), (free, some, some), (some + 2 * 12_288, free, some), (free, None, None)):
        out, incoming = DeviceGraph(both[0], CPU), DeviceGraph(both[1], CPU)
        plan = plan_graph(room, out, incoming, graph.original_ids, named(["bfs"]), False, True, most)
        assert plan.kept[out].offsets and plan.kept[incoming].offsets
        assert plan.lines == kept
        assert plan.left >= 0 and sum(held.nbytes for held in plan.kept.values()) + (kept or 0) <= room
    with both[0].stored[0].cache.on_devices.live(both[0].stored[0], CPU):  # what is there needs no room
        pass
    plan = plan_graph(free, out, incoming, graph.original_ids, named(["bfs"]), False, True, free)
    assert plan.lines is None


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (0, (0, 0, 0, False, 0, False, 0)),
        (20_000, (0, 0, 0, False, 4, False, 17_408)),
        (100_000, (46, 16_896, 16_896, False, 20, False, 82_944)),
        (400_000, (179, 30_208, 30_208, True, 87, False, 369_664)),
        (2_000_000, (3000, 300_032, 300_032, True, 195, True, 812_544)),
        (1 << 30, (3000, 300_032, 300_032, True, 195, True, 812_544)),
    ],
)
def test_lists_and_rows_that_are_kept(graph, budget, kept):
    view = DeviceGraph(graph.neighbor_lists, CPU)
    entries = CacheCandidates(
        rows=1e-6 / (1 + torch.arange(3000, dtype=torch.float64)),
        row_bytes=100,
        pages=2e-5 / (1 + torch.arange(view.num_pages, dtype=torch.float64)),
        all_edges=4e-4,
        offsets=1e-6,
        offsets_bytes=view.offsets_bytes,
        lists=view,
        weighted=False,
    )
    s = split(budget, entries)
    assert (s.rows, s.local, s.feature_bytes, s.offsets, s.pages, s.whole, s.adjacency_bytes) == kept


@pytest.mark.parametrize(
    ("rows", "row_bytes", "gpus", "local", "peers", "kept"),
    [
        (1000, 64, 2, 4096, 8192, (0, 112, 4, 8192)),
        (1000, 64, 1, 4096, 8192, (128, 0, 4, 12_288)),
        (77, 100, 3, 2000, 30_000, (5, 72, 4, 4096)),
    ],
)
def test_rows_that_are_kept(rows, row_bytes, gpus, local, peers, kept):
    plan = plan_tiers(rows, row_bytes, gpus, local, peers, ordered=True)
    assert (plan.local_rows, plan.peer_rows, plan.slot_bytes, plan.held_bytes) == kept


@pytest.mark.parametrize(("rows", "budget", "kept"), [(1000, 20_480, (208, 20_480)), (1000, 1 << 20, (1000, 77_312))])
def test_slots_that_are_kept(rows, budget, kept):
    plan = plan_slots(rows, 64, budget)
    assert (plan.capacity, plan.held_bytes) == kept


def check_explained(plan) -> None:
    """One line about what it is, one for each part in the order of spending, one with all bytes, and the notes."""
    parts, lines = plan.parts(), plan.explain().splitlines()
    assert lines[0] == plan.about() and len(lines) == 2 + len(parts) + len(plan.notes())
    for part, line in zip(parts, lines[1:], strict=False):
        assert line.startswith(part.name) and part.kept in line and (format_bytes(part.nbytes) in line or not part.nbytes)
    assert lines[1 + len(parts)] == f"held {format_bytes(plan.held_bytes)} of {format_bytes(plan.budget)}"
    assert sum(part.nbytes for part in parts) <= plan.held_bytes <= plan.budget


@settings(deadline=None, max_examples=30)
@given(budget=st.integers(0, 2_000_000), gpus=st.integers(1, 3), row_bytes=st.integers(1, 500))
def test_plans_explain_themselves_in_one_form(graph, budget, gpus, row_bytes):
    check_explained(graph_plan(graph, budget)[0])
    check_explained(plan_tiers(3000, row_bytes, gpus, budget, budget, ordered=True))
    check_explained(plan_tiers(3000, row_bytes, gpus, budget, budget, budget, ordered=True))
    check_explained(plan_slots(3000, row_bytes, budget + 50_000))


@pytest.mark.parametrize("policy", ["auto", "features", "clock", "none"])
def test_a_cache_explains_itself_as_what_it_is_made_of(graph, policy):
    features = hl.UnifiedTensor.from_tensor(torch.rand(3000, 16))
    plan = plan_cache(graph, features, [5, 3], torch.arange(300), 64, "200 KiB", policy, device="cpu")
    check_explained(plan)
    sampler, table = plan.apply()
    assert f"{plan.split.rows:,} rows" in plan.parts()[-1].kept and f"{plan.split.rows:,} rows" in table.explain()
    assert sampler.lists.held == plan.split.adjacency_bytes


def test_what_is_kept_is_told_in_the_order_in_which_room_is_given_out(graph):
    order = ["offsets of lists", "offsets of in-neighbours' lists", "order of the vertices", "prefixes of in-neighbours' lists"]
    assert [part.name for part in graph_plan(graph, 200_000)[0].parts()] == [*order, "edges of lists"]
    assert [part.name for part in graph_plan(graph, 0)[0].parts()] == ["lists", "in-neighbours' lists"]
    tiers = plan_tiers(1000, 64, 2, 8192, 8192, ordered=True)
    assert [part.name for part in tiers.parts()] == ["id map", "local", "peers", "host"]
