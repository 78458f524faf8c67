"""One plan for several GPUs: what is copied to all, dealt over them, or left, against brute force; within each one's budget."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph.device_graph import DeviceGraph, allocated
from hinterland.machine.model import Peer
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler
from hinterland.table import plan_tiers
from hinterland.training import Costs, Loader, cache, cache_costs, plan_cache
from hinterland.training.cache_split import CacheCandidates, rows_in_tiers, split
from hinterland.training.cache_tiers import TierGains

from .cache_cases import as_predicted, same_batches

BATCH = 64
LINKED = Costs(6e-9, 1e-9, 5e-9, 2e-10, 5e-9, 2e-10, row_peer=1.5e-9, edge_peer=4e-10)
GAINS = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(lambda gains: sorted(gains, reverse=True))


def knapsack(gains: list[float], gpus: int, dealt: float, in_each: int) -> float:
    """The most that entries save, each of them copied, dealt or left: brute force."""
    best = 0.0
    for tiers in itertools.product(("host", "dealt", "copied"), repeat=len(gains)):
        share = tiers.count("dealt") / gpus
        if tiers.count("copied") + math.ceil(share) <= in_each:
            kept = {"host": 0.0, "dealt": dealt, "copied": 1.0}
            best = max(best, sum(gain * kept[tier] for gain, tier in zip(gains, tiers, strict=True)))
    return best


@settings(deadline=None, max_examples=150)
@given(gains=GAINS, gpus=st.integers(1, 4), dealt=st.floats(0, 1), in_each=st.integers(0, 7))
def test_what_is_copied_and_dealt_saves_most(gains, gpus, dealt, in_each):
    kind = TierGains(torch.tensor(gains, dtype=torch.float64), gpus, dealt if gpus > 1 else 0.0)
    local, apart = kind.best(in_each)
    assert local + math.ceil(apart / gpus) <= in_each and local + apart <= len(gains)
    assert kind.saved(local, apart) == pytest.approx(knapsack(gains, gpus, kind.dealt, in_each))


@settings(deadline=None, max_examples=150)
@given(gains=GAINS, gpus=st.integers(2, 4), dealt=st.floats(0, 1), nbytes=st.integers(1, 9))
def test_steps_of_an_entry_are_its_tiers(gains, gpus, dealt, nbytes):
    """Their bytes are those of a copy, what they save is what it saves, and none comes before a better one."""
    kind = TierGains(torch.tensor(gains, dtype=torch.float64), gpus, dealt)
    steps = kind.steps(nbytes)
    assert sum(step for _, step in steps) == pytest.approx(nbytes)
    saved = sum(density * step for density, step in steps)
    assert torch.allclose(saved, kind.gains)
    assert all((one >= other - 1e-12).all() for (one, _), (other, _) in itertools.pairwise(steps))


@settings(deadline=None, max_examples=150)
@given(
    rows=st.integers(1, 400),
    row_bytes=st.sampled_from([4, 100, 512, 2000]),
    gpus=st.integers(1, 4),
    dealt=st.floats(0, 1),
    room=st.integers(0, 300_000),
    seed=st.integers(0, 9),
)
def test_rows_in_tiers_are_near_the_best(rows, row_bytes, gpus, dealt, room, seed):
    """Against every number of bytes for copies, in steps of a part of a block."""
    gains = torch.rand(rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** 4
    kind = TierGains(gains.sort(descending=True).values, gpus, dealt if gpus > 1 else 0.0)
    found = rows_in_tiers(room, kind, row_bytes)
    assert found.feature_bytes <= room
    best = 0.0
    for own in range(0, room + 1, 512):
        plan = plan_tiers(rows, row_bytes, gpus, own, (room - own) * gpus, ordered=True)
        best = max(best, kind.saved(plan.local_rows, plan.peer_rows))
    assert found.saved == pytest.approx(kind.saved(found.rows - found.dealt_rows, found.dealt_rows))
    assert 0.95 * best - float(gains.max()) <= found.saved <= best * (1 + 1e-9)


@settings(deadline=None, max_examples=80)
@given(
    scale=st.integers(6, 11),
    edge_factor=st.integers(2, 24),
    row_bytes=st.sampled_from([4, 64, 400, 512, 4100]),
    ratio=st.floats(0.01, 100),
    share=st.floats(0, 1.3),
    gpus=st.integers(1, 4),
    dealt=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    weighted=st.booleans(),
    seed=st.integers(0, 3),
)
def test_the_greedy_split_is_near_the_best(scale, edge_factor, row_bytes, ratio, share, gpus, dealt, weighted, seed):
    """Against every number of pages in a GPU, with the best rows in what they leave. Pages with weights are not dealt."""
    graph = hl.generate("kronecker", scale=scale, edge_factor=edge_factor, seed=seed, device="cpu", weights=weighted or None)
    view, generator = DeviceGraph(graph.neighbor_lists, torch.device("cpu")), torch.Generator().manual_seed(seed)
    rows = torch.rand(graph.num_vertices, generator=generator, dtype=torch.float64) ** 4
    draws = torch.rand(graph.num_vertices, generator=generator, dtype=torch.float64) ** 8 * ratio
    entries = CacheCandidates(
        rows=rows.sort(descending=True).values,
        row_bytes=row_bytes,
        pages=view.page_scores(draws).sort(descending=True).values,
        all_edges=float((draws * graph.indptr.diff()).sum()),
        offsets=float(draws.sum()),
        offsets_bytes=view.offsets_bytes,
        lists=view,
        weighted=weighted,
        gpus=gpus,
        dealt_row=dealt[0] if gpus > 1 else 0.0,
        dealt_page=dealt[1] if gpus > 1 and not weighted else 0.0,
    )
    budget = int(share * (view.edge_bytes(weighted) + view.offsets_bytes + row_bytes * graph.num_vertices) / gpus)
    found = split(budget, entries)
    assert found.held <= budget
    kind, pages = TierGains(entries.rows, gpus, entries.dealt_row), TierGains(entries.pages, gpus, entries.dealt_page)
    best, choices = 0.0, [(0, 0.0), (view.edge_bytes(weighted), entries.all_edges)]
    for n in range(1, view.num_pages + 1):
        choices.append((view.pages_bytes(n, weighted), pages.saved(*pages.best(n - pages.deals))))
    for offsets, (size, saved) in itertools.product((False, True), choices):
        left = budget - size - offsets * entries.offsets_bytes
        if left >= 0:
            kept = rows_in_tiers(left, kind, row_bytes)
            best = max(best, saved + offsets * entries.offsets + kept.saved)
    assert 0.9 * best <= found.saved <= best * (1 + 1e-9)


@pytest.mark.parametrize("policy", ["auto", "features", "degree", "presample", "clock", "none"])
def test_one_gpu_keeps_what_it_did(graph, features, seeds, policy):
    made = graph, features, NeighborSampler(graph, [10, 5], device="cpu"), seeds, BATCH, "200 KiB", policy
    one, over = (plan_cache(*made, costs=LINKED, devices=devices) for devices in (None, ["cpu"]))
    assert (one.split, one.predicted, one.explain()) == (over.split, over.predicted, over.explain())
    assert one.split.dealt_rows == one.split.dealt_pages == one.split.peers == 0
    assert one.split == replace(one, costs=replace(LINKED, row_peer=None)).over("cpu").split


@pytest.mark.parametrize("policy", ["auto", "features", "degree", "presample"])
@pytest.mark.parametrize("gpus", [2, 3])
def test_several_gpus_keep_more_than_one(graph, features, seeds, policy, gpus):
    """The same samples and rows, hit rates as predicted, each GPU within its budget; and what one alone keeps is slower."""
    plain = NeighborSampler(graph, [10, 5], seed=4, device="cpu")
    made = graph, features, plain, seeds, BATCH, "120 KiB", policy
    alone = plan_cache(*made, costs=LINKED)
    plan = alone.over(["cpu"] * gpus)
    assert plan.split.dealt_rows > 0 and plan.split.rows > alone.split.rows
    assert plan._hottest.untyped_storage().nbytes() == 8 * plan.split.rows
    several, one = plan.predicted, alone.predicted
    assert several.sampling + several.gathering < one.sampling + one.gathering
    sampler, table = plan.apply()
    assert [str(device) for device in plan.devices] == [f"cpu:{i}" for i in range(gpus)]
    for size in table.held.values():
        assert allocated(size) == plan.split.feature_bytes and allocated(size) + sampler.lists.held <= plan.budget
    assert (table.plan.local_rows, table.plan.peer_rows) == (plan.split.rows - plan.split.dealt_rows, plan.split.dealt_rows)
    ours = Loader(sampler, seeds, 256, features=table, shuffle=True, device="cpu")
    theirs = Loader(plain, seeds, 256, features=features, shuffle=True, device="cpu")
    check = as_predicted(plan, sampler, table)
    assert same_batches(ours, theirs) and "rows by peers" in check.explain() and check.found.peers > 0.02
    assert "dealt over them" in plan.explain() and "by other GPUs)" in plan.explain()


@pytest.mark.parametrize("compressed", [False, True])
def test_lists_are_dealt_too(graph, features, seeds, compressed):
    """Each device's sampler draws as it does without, hit rates are as predicted, and each keeps its budget."""
    graph = hl.compress(graph) if compressed else graph
    plain = [NeighborSampler(graph, [10, 5], seed=4, device="cpu") for _ in range(2)]
    costs = replace(LINKED, edge_host=5e-8)
    plan = plan_cache(graph, features, plain[0], seeds, BATCH, "120 KiB", costs=costs, devices=["cpu"] * 2)
    s = plan.split
    assert 0 < s.dealt_pages <= s.pages and s.pages > plan.over("cpu").split.pages
    assert any("dealt over them" in part.kept for part in plan.parts() if "edges" in part.name)
    samplers = plan.keep_lists(plain)
    for ours, theirs in zip(samplers, plain, strict=True):
        view, blocks = ours.lists, ours.lists._dealt
        assert len(blocks) == 2 and int((view.slots >= 0).sum()) == s.pages
        held = allocated(view.slots.nbytes) + allocated(blocks[0].nbytes) + (view.offsets_bytes if s.offsets else 0)
        assert held == s.adjacency_bytes == view.held and plan.held_bytes <= plan.budget
        assert torch.equal(ours.sample(seeds[:100]).edge, theirs.sample(seeds[:100]).edge)
    as_predicted(plan, samplers[1], plan.keep_rows(samplers[1].device))
    with pytest.raises(ConfigError, match="lists are dealt over cpu, cpu: give a sampler on each, and one alone"):
        plan.keep_lists([*plain, plain[0]])


def test_pages_with_weights_are_not_dealt(graph, features, seeds):
    weighted = hl.random_weights(graph, "float32")
    sampler = NeighborSampler(weighted, [10, 5], weighted=True, device="cpu")
    costs = replace(LINKED, edge_host=5e-8)
    split = plan_cache(weighted, features, sampler, seeds, BATCH, "120 KiB", costs=costs, devices=["cpu"] * 2).split
    assert split.pages > 0 and split.dealt_pages == 0


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("gpus", [["cpu", "cpu"], pytest.param(["cuda:0", "cuda:1"], marks=pytest.mark.gpu)])
def test_devices_share_a_plan(graph, features, seeds, compressed, gpus):
    """Samples and rows on either are those without, from rows and pages that lie in both."""
    if gpus[0] != "cpu" and torch.cuda.device_count() < 2:
        pytest.skip("needs 2 GPUs")
    graph = hl.compress(graph) if compressed else graph
    plain = [NeighborSampler(graph, [10, 5], seed=4, device=gpu) for gpu in gpus]
    plan = plan_cache(graph, features, plain[0], seeds, BATCH, "200 KiB", costs=LINKED, devices=gpus)
    assert plan.split.dealt_pages > 0 and plan.split.dealt_rows > 0 and plan.held_bytes <= plan.budget
    samplers, table = plan.keep_lists(plain), plan.keep_rows()
    want = NeighborSampler(graph, [10, 5], seed=4, device="cpu").sample(seeds[:500])
    for sampler in samplers:
        sample = sampler.sample(seeds[:500].to(sampler.device))
        assert torch.equal(sample.node.cpu(), want.node) and torch.equal(sample.edge.cpu(), want.edge)
        assert torch.equal(table[sample.node].cpu(), features[want.node]) and table.count(sample.node).rows["peers"] > 0
    as_predicted(plan, samplers[1], table)


@pytest.mark.parametrize("epochs", [None, 2])
def test_where_all_fits_each_device_holds_all(graph, features, seeds, epochs):
    """Without an id map, whether batches chose the rows (epochs=2) or nothing was to be chosen."""
    sampler = NeighborSampler(graph, [10, 5], device="cpu")
    plan = plan_cache(graph, features, sampler, seeds, BATCH, "64 MiB", costs=LINKED, devices=["cpu"] * 2, epochs=epochs)
    table = plan.keep_rows()
    assert (table.plan.local_rows, table.plan.slot_bytes) == (len(features), 0)
    assert torch.equal(table[seeds], features[seeds])


def test_gpus_that_cannot_read_each_other_share_nothing(graph, features, seeds, monkeypatch):
    plan = plan_cache(graph, features, [10, 5], seeds, BATCH, "120 KiB", costs=replace(LINKED, edge_host=5e-8), device="cpu")
    monkeypatch.setattr(cache, "unlinked_pair", lambda devices: "cuda:0 cannot read the memory of cuda:1")
    apart = plan.over(["cpu"] * 2)
    assert apart.split.dealt_rows == apart.split.dealt_pages == 0 < apart.split.held


@pytest.mark.parametrize("peers, rate", [((), 331e9), ((2e11, 1e11), 1e11)])
def test_what_a_peer_costs_is_what_the_probe_found(peers, rate, monkeypatch):
    """By the slowest pair; by an H200's rate where none was measured."""
    pairs = tuple(Peer(0, i, 3e11, random) for i, random in enumerate(peers))
    monkeypatch.setattr(cache_costs, "load", lambda: SimpleNamespace(peers=pairs))
    found = cache_costs.rated(512, 512 << 20, 1000, 1 << 30, "managed")
    assert found.row_peer == pytest.approx(512 / rate) and found.edge_peer == pytest.approx(32 / rate)
    assert found.row_gpu < found.row_peer < found.row_host


def test_what_peers_cost_decides(graph, features, seeds):
    """As dear as the host: nothing is dealt. As cheap as a GPU's own memory: nothing is copied."""

    def rows(peer):
        costs = replace(LINKED, row_peer=peer)
        split = plan_cache(
            graph, features, [10, 5], seeds, BATCH, "120 KiB", "features", costs=costs, devices=["cpu"] * 2
        ).split
        return split.rows - split.dealt_rows, split.dealt_rows

    far, near = rows(LINKED.row_host), rows(LINKED.row_gpu)
    assert far[1] == 0 and near[0] == 0 and near[1] > 1.9 * far[0]
    between = rows(3e-9)
    assert 0 < between[0] < far[0] and 0 < between[1] < near[1]
    assert rows(None) == far


@pytest.mark.parametrize("policy", ["auto", "features", "degree", "presample"])
def test_all_gpus_hold_all_rows(graph, features, seeds, policy):
    plan = plan_cache(graph, features, [10, 5], seeds, BATCH, "1GiB", policy, costs=LINKED, devices=["cpu"] * 2)
    _, table = plan.apply()
    assert table.plan.local_rows == plan.split.rows == len(features) and table.held.keys() == {"cpu:0", "cpu:1"}
    assert torch.equal(table.gather(seeds), features[seeds]) and plan.measure(*plan.apply()).found.rows == 1


def test_slots_take_what_lists_leave(graph, features, seeds):
    plan = plan_cache(graph, features, [10, 5], seeds, BATCH, "1MiB", "clock", costs=LINKED, device="cpu").lists_first()
    sampler, table = plan.apply()
    assert table.plan.capacity == plan.split.rows > 0 < sampler.lists.held and plan.held_bytes <= plan.budget
    assert torch.equal(table.gather(seeds), features[seeds])


def test_a_plan_is_of_some_device(graph, features, seeds):
    made = graph, features, [10, 5], seeds, BATCH, "120 KiB"
    with pytest.raises(ConfigError, match="devices names no GPU that could hold a cache"):
        plan_cache(*made, costs=LINKED, devices=[])
    plan = plan_cache(*made, costs=LINKED, device="cpu")
    for ask in (plan.over, plan.lists_first):
        with pytest.raises(ConfigError, match="devices names no GPU that could hold a cache"):
            ask([])
