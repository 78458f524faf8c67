"""What is kept of lists and features: the split, the promise of the budget, and predictions against other batches."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.graph.device_graph import allocated
from hinterland.graph.plan import GraphPlan
from hinterland.memory.allocator import PART_BYTES
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.sampling import NeighborSampler
from hinterland.training import Costs, Loader, cache_costs, cache_reads, plan_cache

from .cache_cases import as_predicted, same_batches

BATCH = 64
EVEN = Costs(6e-9, 1e-9, 5e-9, 2e-10, 5e-9, 2e-10)
LISTS_ONLY = Costs(0.0, 0.0, 5e-9, 2e-10, 5e-9, 2e-10)


def table(vertices: int, width: int = 16) -> hl.UnifiedTensor:
    return hl.UnifiedTensor.from_tensor(torch.arange(vertices * width, dtype=torch.float32).view(vertices, width))


def held(sampler, tiers) -> int:
    return sampler.lists.held + sum(allocated(size) for size in tiers.held.values())


@pytest.mark.parametrize("policy", ["auto", "features", "degree"])
@pytest.mark.parametrize("weighted", [False, True])
def test_hit_rates_are_those_of_other_epochs(graph, features, seeds, policy, weighted):
    if weighted:
        graph = hl.random_weights(graph, "float32")
    sampler = NeighborSampler(graph, [10, 5], weighted=weighted, seed=4, device="cpu")
    budget = "500 KiB" if policy == "auto" else "200 KiB"
    plan = plan_cache(graph, features, sampler, seeds, BATCH, budget, policy, costs=EVEN)
    found = as_predicted(plan, *plan.apply(), epochs=3)
    assert found.batches == 3 * -(-len(seeds) // BATCH)
    assert 0 < found.found.rows < 1
    if policy == "auto":
        assert 0 < found.found.edges < 1 and plan.split.offsets
    assert "predicted" in found.explain() and f"policy {policy}" in plan.explain()


@pytest.mark.parametrize("policy", ["auto", "features", "degree", "none"])
@pytest.mark.parametrize(
    "budget", [0, 1, 511, 4095, 4096, 33_333, 100_001, 777_777, 1 << 20, (1 << 20) + 1, 2_500_000, 1 << 50]
)
def test_the_budget_is_kept(graph, features, seeds, policy, budget):
    plan = plan_cache(graph, features, [4, 3], seeds[:200], BATCH, budget, policy, epochs=1, costs=EVEN, device="cpu")
    sampler, tiers = plan.apply()
    assert held(sampler, tiers) == plan.split.held <= budget
    assert tiers.plan.resident == plan.split.rows
    if policy == "none" or budget == 0:
        assert plan.split.held == 0 and plan.predicted.rows == plan.predicted.edges == 0
    if budget == 1 << 50 and policy != "none":
        assert plan.predicted.rows == 1 and plan.split.whole == (policy == "auto")
        found = plan.measure(sampler, tiers).found
        assert found.rows == 1 and found.edges == (policy == "auto")


@settings(deadline=None, max_examples=40)
@given(
    vertices=st.integers(1, 300),
    degree=st.integers(0, 30),
    width=st.integers(0, 40),
    budget=st.integers(0, 60_000),
    policy=st.sampled_from(["auto", "features", "degree"]),
    directed=st.booleans(),
    disjoint=st.booleans(),
    seed=st.integers(0, 99),
)
def test_any_graph_within_any_budget(vertices, degree, width, budget, policy, directed, disjoint, seed):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(0, vertices, (2, vertices * degree), generator=generator)
    graph = hl.from_edges(ends[0], ends[1], num_vertices=vertices, directed=directed, symmetrize=not directed)
    features = table(vertices, width)
    times = torch.randint(0, 9, (vertices,), generator=generator) if seed % 2 else None
    plain = NeighborSampler(graph, [3, -1], disjoint=disjoint, times=times, device="cpu")
    seeds = torch.randint(0, vertices, (10,), generator=generator, dtype=torch.int32)
    plan = plan_cache(graph, features, plain, seeds, 4, budget, policy)
    sampler, tiers = plan.apply()
    assert held(sampler, tiers) <= budget and plan.explain()
    ours, theirs = (s.sample(seeds, batch=7) for s in (sampler, plain))
    assert torch.equal(ours.node, theirs.node) and torch.equal(ours.edge, theirs.edge)
    assert torch.equal(tiers[ours.node], features[ours.node])
    found = plan.measure(sampler, tiers).found
    assert 0 <= found.rows <= 1 and 0 <= found.edges <= 1


def test_pages_of_a_reordered_graph_are_those_that_are_drawn_from(graph, features, seeds):
    """And batches are the same."""
    graph = hl.reorder(graph, "degree")
    plain = NeighborSampler(graph, [10, 5], seed=2, device="cpu")
    plan = plan_cache(graph, features, plain, seeds, BATCH, "500 KiB", costs=EVEN)
    sampler, tiers = plan.apply()
    ours = Loader(sampler, seeds, 256, features=tiers, shuffle=True, device="cpu")
    theirs = Loader(plain, seeds, 256, features=features, shuffle=True, device="cpu")
    assert same_batches(ours, theirs) and plan.split.pages and as_predicted(plan, sampler, tiers)


def test_the_dearer_reads_get_the_budget(graph, features, seeds):
    def split_at(**costs):
        given = Costs(
            **{name: costs.get(name, 0.0) for name in ("row_host", "row_gpu", "edge_host", "edge_gpu", "list_host", "list_gpu")}
        )
        return plan_cache(graph, features, [8, 4], seeds, BATCH, "200 KiB", costs=given, device="cpu")

    assert split_at(row_host=1e-8).split.adjacency_bytes == 0
    assert split_at(edge_host=1e-8).predicted.edges > 0.1
    rows, edges = split_at(row_host=1e-6, edge_host=1e-9), split_at(row_host=1e-9, edge_host=1e-6)
    assert rows.split.feature_bytes > edges.split.feature_bytes and rows.split.adjacency_bytes < edges.split.adjacency_bytes


def test_a_dual_cache_is_never_predicted_slower_than_a_single_one(graph, features, seeds):
    def seconds(policy):
        p = plan_cache(graph, features, [8, 4], seeds, BATCH, "400 KiB", policy, costs=EVEN, device="cpu").predicted
        return p.sampling + p.gathering

    times = {policy: seconds(policy) for policy in ("auto", "features", "degree", "none")}
    assert times["auto"] <= min(times.values()) * 1.02
    assert times["none"] == max(times.values())


def test_costs_say_where_they_come_from(graph, features, seeds):
    plan = plan_cache(graph, features, [4], seeds, BATCH, "1 MiB", device="cpu")
    assert "not measured" in plan.explain()
    assert plan.costs.row_host > plan.costs.row_gpu > 0 and plan.costs.edge_host > plan.costs.edge_gpu > 0


def test_slopes_are_what_hits_save(graph, features, seeds, monkeypatch):
    """Of times that follow the model, the costs that made them; of times that make no sense, none that are negative."""
    device = torch.device("cpu")
    rough = cache_costs.rated(features.row_bytes, features.nbytes, 1000, graph.lists.nbytes, "managed")
    bare, kept = (hl.prepare(graph, device="cpu", algorithms="sampling") for _ in range(2))
    plan = GraphPlan(300_000)
    plan.keep_offsets(kept.out)
    plan.keep_edges(kept.out)
    plan.apply()
    sampler = NeighborSampler(bare, [10, 5])
    batches = [(0, seeds[:64]), (1, seeds[64:128])]
    samples = [sampler.sample(part, batch=number) for number, part in batches]
    rows, edges = (sum(len(getattr(s, name)) for s in samples) for name in ("node", "edge"))
    lists = rows - sum(s.num_sampled_nodes[-1] for s in samples)
    hits = sum(int(kept.out.keeps(s.edge).sum()) for s in samples)
    assert 0 < hits < edges
    plain = 5e-9 * (edges + lists)
    times = [7e-8 * rows, 2e-9 * rows, plain, plain - 4e-9 * (hits + lists)]

    def costs(given, trial=True):
        left = iter(given)
        monkeypatch.setattr(cache_costs, "_seconds", lambda work, device: next(left))
        cached = (sampler.over(kept), kept.out) if trial else None
        return cache_costs.measured(rough, sampler, bare.out, cached, features, batches, 1 << 20)

    found = costs(times)
    assert found.source == f"measured on {device}"
    assert (found.row_host, found.row_gpu) == pytest.approx((7e-8, 2e-9))
    assert (found.edge_host, found.edge_gpu, found.list_host, found.list_gpu) == pytest.approx((5e-9, 1e-9) * 2)
    odd = costs([1e-3, 2e-3, 1e-3, 2e-3])  # the GPU seems slower
    assert odd.row_gpu <= odd.row_host and odd.edge_host == odd.edge_gpu == odd.list_host > 0
    rated = costs(times[:2], trial=False)
    assert rated.edge_host == rough.edge_host and rated.row_host == pytest.approx(7e-8) and "lists not measured" in rated.source


@pytest.mark.parametrize("policy", ["auto", "features", "degree", "clock"])
@pytest.mark.parametrize("order", [None, "degree"])
def test_a_compressed_graph_keeps_both(graph, features, seeds, policy, order):
    """The same samples and rows as without, and hit rates as predicted."""
    packed = hl.compress(graph, reorder=order)
    plain = NeighborSampler(packed, [10, 5], seed=4, device="cpu")
    plan = plan_cache(packed, features, plain, seeds, BATCH, "500 KiB" if policy == "auto" else "200 KiB", policy, costs=EVEN)
    sampler, tiers = plan.apply()
    assert held(sampler, tiers) == plan.split.held <= plan.budget
    for number, part in enumerate(seeds.split(BATCH)):
        ours, theirs = (one.sample(part, batch=number) for one in (sampler, plain))
        assert torch.equal(ours.node, theirs.node) and torch.equal(ours.edge, theirs.edge)
        assert torch.equal(tiers[ours.node], features[ours.node])
    found = as_predicted(plan, sampler, tiers).found
    assert 0 < found.rows < 1 and (found.edges > 0) == (policy == "auto")


def test_pages_of_packed_lists_are_those_that_are_drawn_from(graph, features, seeds):
    """As many as fit, those with the most draws by counting each draw where its list begins."""
    packed = hl.compress(graph)
    plan = plan_cache(packed, features, [6], seeds, BATCH, "200 KiB", costs=LISTS_ONLY, device="cpu")
    sampler, _ = plan.apply()
    view, offsets = sampler.lists, packed.neighbor_lists.packed_lists().starts
    assert 0 < plan.split.pages < view.num_pages and not plan.split.whole and plan.predicted.edges > 0.3
    pages = torch.zeros(view.num_pages + 1, dtype=torch.float64)
    for number, part in enumerate(seeds.split(BATCH)):
        sample = sampler.sample(part, batch=number)
        lists = sample.node[sample.col]
        first, last = offsets[lists] // view.page, (offsets[lists + 1] - 1) // view.page
        pages.index_add_(0, first, torch.ones(len(first), dtype=torch.float64))
        inside = first == last  # nearly all
        assert inside.float().mean() > 0.5
        assert torch.equal(view.keeps(sample.edge)[inside], view.slots[first[inside]] >= 0)
    most = set(pages.argsort(descending=True)[: plan.split.pages].tolist())
    assert len(most & set((view.slots >= 0).nonzero().view(-1).tolist())) > 0.7 * plan.split.pages


@pytest.mark.gpu
def test_on_a_gpu_kept_pages_of_packed_lists_are_what_is_read(graph, features, seeds):
    """The lists in host memory are overwritten, and lists that lie in kept pages are drawn from as before."""
    packed = hl.compress(graph)
    plan = plan_cache(packed, features, [6], seeds, BATCH, "200 KiB", costs=LISTS_ONLY, device="cuda:0")
    sampler, _ = plan.apply()
    view, starts = sampler.lists, packed.neighbor_lists.packed_lists().starts
    slots, first, last = (
        view.slots.cpu(),
        starts[:-1] // view.page,
        (starts[1:] + 11) // view.page,
    )  # readers fetch 12 bytes more
    asked = ((first == last) & (slots[first] >= 0)).nonzero()[:200, 0]
    before = sampler.sample(asked)
    packed.array("packed", "cpu").fill_(255)
    after = sampler.sample(asked)
    assert len(asked) == 200 and torch.equal(before.node, after.node) and torch.equal(before.edge, after.edge)


@pytest.mark.parametrize("form", ["plain", "compressed", "reordered"])
def test_rows_are_ranked_by_inclusion_probability(real_data, form):
    """One batch is an epoch: two of them count little, and the probability knows more."""
    graph = hl.load_graph(real_data / "soc-Epinions1.txt", symmetrize=True)
    graph = {"plain": graph, "compressed": hl.compress(graph), "reordered": hl.reorder(graph, "degree")}[form]
    rows = table(graph.num_vertices, 4)
    begin = torch.randperm(graph.num_vertices, generator=torch.Generator().manual_seed(1))[:759]
    budget = 4 * graph.num_vertices + 16 * graph.num_vertices // 5  # a fifth of the rows, and their map
    plan = plan_cache(graph, rows, [15, 10, 5], begin, 1024, budget, "features", costs=EVEN, device="cpu")
    assert plan.ranked.startswith("inclusion probability, corrected by fetches counted") and plan.ranked in plan.explain()
    sampler, ours = plan.apply()
    assert plan.split.rows == pytest.approx(graph.num_vertices / 5, rel=0.01)
    counted = rows.tiered(local=plan.split.local, scores=plan.row_reads(), devices=["cpu"])
    by_probability, by_counts = (plan.measure(sampler, one, epochs=4).found.rows for one in (ours, counted))
    assert by_probability > by_counts + 0.04
    assert by_probability == pytest.approx(plan.predicted.rows, abs=0.03)


def test_what_cannot_be_corrected_is_ranked_by_counts(graph, features, seeds, tmp_path):
    """Of one epoch there are no two halves; and of lists on storage each hop would read all."""
    plan = plan_cache(graph, features, [4], seeds, BATCH, "100 KiB", epochs=1, device="cpu", costs=EVEN)
    assert plan.ranked == "fetches counted"
    hl.save_graph(graph, tmp_path / "lists.hl")
    stored = hl.load_graph(tmp_path / "lists.hl", placement="storage")
    plan = plan_cache(stored, features, [4], seeds, BATCH, "100 KiB", "features", device="cpu", costs=EVEN)
    assert plan.ranked == "fetches counted"
    assert plan_cache(graph, features, [4], seeds, BATCH, "100 KiB", "degree", device="cpu").ranked == "degree"


def test_presampling_keeps_the_rows_that_were_counted_most(graph, features, seeds):
    """PreSC#2: by ``hotness.presample`` of the same epochs."""
    sampler = NeighborSampler(graph, [6, 4], seed=2, device="cpu")
    plan = plan_cache(graph, features, sampler, seeds, BATCH, "10%", "presample", seed=7, costs=EVEN)
    assert plan.policy == "presample" and plan.ranked == "fetches counted" and plan.split.adjacency_bytes == 0
    kept_sampler, kept = plan.apply()
    by_counts = hl.hotness.presample(sampler, seeds, BATCH, epochs=2, seed=7)
    coldest = by_counts.sort(descending=True).values[plan.split.rows - 1]
    hot, cold = (by_counts > coldest).nonzero()[:, 0], (by_counts < coldest).nonzero()[:, 0]
    assert kept.count(hot).rows["local"] == len(hot) > 0 and kept.count(cold).rows["local"] == 0
    as_predicted(plan, kept_sampler, kept, epochs=3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_scores_say_which_rows_are_kept(graph, features, seeds, dtype):
    scores = torch.randperm(graph.num_vertices, generator=torch.Generator().manual_seed(2)).to(dtype)
    plan = plan_cache(graph, features, [6, 4], seeds, BATCH, "25%", scores, device="cpu", costs=EVEN)
    assert plan.policy == "scores" and "rows are ranked by scores given" in plan.explain()
    _, kept = plan.apply()
    order = scores.sort(descending=True).indices
    assert kept.count(order[: plan.split.rows]).rows["local"] == plan.split.rows == graph.num_vertices // 4
    assert kept.count(order[plan.split.rows :]).rows["local"] == 0


def test_a_device_that_samples_keeps_lists_whatever_they_were_measured_to_save(graph, features, seeds):
    nothing = Costs(6e-9, 1e-9, 5e-9, 5e-9, 5e-9, 5e-9)
    plans = [
        plan_cache(graph, features, [6, 4], seeds, BATCH, "10%", "features", device="cpu", costs=c) for c in (nothing, EVEN)
    ]
    one, other = (plan.lists_first().split for plan in plans)
    assert dataclasses.replace(one, saved=other.saved) == other and one.adjacency_bytes > 0.9 * plans[0].budget


@pytest.mark.parametrize("width", [4, 16, 300])
@pytest.mark.parametrize("share", ["0%", "0.1%", "7%", "33.3%", "100%"])
def test_a_share_is_that_of_the_rows(graph, seeds, width, share):
    """GNNLab's cache ratio: with the map that finds rows, and no byte more than they need."""
    rows = table(graph.num_vertices, width)
    plan = plan_cache(graph, rows, [4], seeds, BATCH, share, "features", device="cpu", costs=EVEN)
    expected = round(float(share[:-1]) / 100 * graph.num_vertices)
    assert expected <= plan.split.rows <= expected + PART_BYTES // rows.row_bytes and plan.split.held <= plan.budget
    if expected:
        assert plan_cache(graph, rows, [4], seeds, BATCH, plan.budget - 1, "features", device="cpu").split.rows < expected
    both = plan_cache(graph, rows, [4], seeds, BATCH, share, "auto", device="cpu", costs=EVEN)
    assert both.budget == plan.budget and both.split.held <= both.budget


@pytest.mark.parametrize("policy", ["auto", "features"])
def test_fewer_batches_rank_as_well_as_two_epochs(policy):
    """300 batches an epoch, of papers100M's degrees: what is found in another epoch beside the plan of all of two."""
    data = hl.datasets.generate("papers100M", scale=0.004)
    rows, seeds = table(data.num_vertices, 8), data.splits["train"]
    sampler = NeighborSampler(data.graph, [10, 5], seed=4, device="cpu")
    few, all_of_two = (plan_cache(data.graph, rows, sampler, seeds, 16, "20%", policy, costs=EVEN, epochs=n) for n in (None, 2))
    assert all_of_two.batches == 2 * -(-len(seeds) // 16) > few.batches >= 256
    found = [plan.measure(*plan.apply(), epochs=1, first_epoch=2).found for plan in (few, all_of_two)]
    assert few.predicted.rows == pytest.approx(found[0].rows, abs=0.02)
    assert few.predicted.edges == pytest.approx(found[0].edges, abs=0.02)
    saved = [one.rows * few.rows * (EVEN.row_host - EVEN.row_gpu) + one.edges * few.edges * (5e-9 - 2e-10) for one in found]
    assert saved[0] > 0.98 * saved[1]


@pytest.mark.parametrize("policy", ["auto", "features", "none"])
def test_where_nothing_is_to_be_chosen_few_batches_are_sampled(graph, features, seeds, policy):
    plan = plan_cache(graph, features, [4, 3], seeds, BATCH, "1 GiB", policy, device="cpu")
    assert plan.batches == 8 and plan.ranked.startswith("nothing") and "ranked by nothing, since" in plan.explain()
    sampler, tiers = plan.apply()
    assert held(sampler, tiers) == plan.split.held and tiers.plan.slot_bytes == 0
    found = plan.measure(sampler, tiers).found
    assert found.rows == plan.predicted.rows == (policy != "none")
    assert found.edges == plan.predicted.edges == (policy == "auto")
    assert plan.row_reads().sum() == 8 * plan.rows and len(plan.page_reads()) == sampler.lists.num_pages


@pytest.mark.gpu
def test_on_a_gpu_a_plan_holds_no_memory(graph, features, seeds):
    sampler = NeighborSampler(graph, [10, 5], device="cuda:0")
    before = torch.cuda.memory_allocated()
    for policy in ("auto", "features"):  # by measured reads "auto" may keep nothing of so small a graph
        plan = plan_cache(graph, features, sampler, seeds, BATCH, "200 KiB", policy)
        assert torch.cuda.memory_allocated() - before <= allocated(512)
    assert plan.split.rows
    assert plan.row_reads().device.type == plan.page_reads().device.type == "cpu"


@pytest.mark.gpu
def test_on_a_gpu_rows_are_ranked_as_on_the_cpu(graph, features, seeds, monkeypatch):
    plans = [plan_cache(graph, features, [10, 5], seeds, BATCH, "200 KiB", "features", device=d) for d in ("cuda:0", "cpu")]
    first, second = (set(plan._hottest.tolist()) for plan in plans)
    assert len(first & second) > 0.99 * len(first) and len(first) == len(second) > 0
    assert plans[0].predicted.rows == pytest.approx(plans[1].predicted.rows, abs=1e-3)
    reserve = cache_reads.reserve  # no GPU has room for the scores' state now
    monkeypatch.setattr(cache_reads, "reserve", lambda graph, name: 1 << 60 if name == "hotness" else reserve(graph, name))
    plan = plan_cache(graph, features, [10, 5], seeds, BATCH, "200 KiB", "features", device="cuda:0")
    assert plan.ranked == "fetches counted"


def test_one_batch_is_enough(graph, features):
    plan = plan_cache(graph, features, [4], [5], 1, "100 KiB", epochs=1, device="cpu", costs=EVEN)
    assert plan.batches == 1 and 0 <= plan.predicted.rows <= 1


def test_what_cannot_be_used_is_named(graph, features, seeds):
    def call(graph=graph, features=features, sampler=(4,), seeds=seeds, batch_size=BATCH, budget=0, **options):
        return plan_cache(graph, features, sampler, seeds, batch_size, budget, device="cpu", **options)

    other = NeighborSampler(hl.generate("uniform", scale=4, device="cpu"), [2], device="cpu")
    wrong = [
        ({"policy": "lru"}, "policy 'lru' is not one of auto, features, degree, presample, clock, none"),
        ({"policy": "scores"}, "policy 'scores' is not one of"),
        ({"policy": torch.ones(3)}, r"scores of shape \(3,\) for 8192 nodes"),
        ({"policy": torch.full((graph.num_vertices,), torch.nan)}, r"scores\[0\] is NaN"),
        ({"policy": "clock", "budget": 1000}, "holds no row"),
        ({"budget": -1}, "negative"),
        ({"budget": "lots"}, "not a size"),
        ({"budget": "101%"}, "not a share: '101%'; write a number from 0 to 100 with %"),
        ({"features": table(7)}, "7 rows"),
        ({"features": torch.zeros(graph.num_vertices, 2)}, "from_tensor"),
        ({"graph": SimpleNamespace()}, "takes a Graph"),
        ({"sampler": other}, "not from the graph"),
        ({"seeds": []}, "seeds"),
        ({"batch_size": 0}, "batch_size"),
        ({"epochs": 0}, "epochs"),
        ({"sampler": ()}, "fanouts"),
    ]
    for options, sentence in wrong:
        with pytest.raises(ConfigError, match=sentence):
            call(**options)
    with pytest.raises(IndexOutOfRange):
        call(seeds=[graph.num_vertices])
    with pytest.raises(ConfigError, match="not this sampler's"):
        other.over(hl.prepare(graph, device="cpu", algorithms="sampling"))


@pytest.mark.parametrize("budget", ["100 KiB", "300 KiB", "3 MiB"])
def test_clock_follows_the_batches_as_its_replay_did(graph, features, seeds, budget):
    plan = plan_cache(graph, features, [10, 5], seeds, BATCH, budget, "clock", epochs=3, costs=EVEN, device="cpu")
    sampler, cached = plan.apply()
    assert isinstance(cached, hl.CachedTensor) and cached.plan.capacity == plan.split.rows
    assert held(sampler, cached) == plan.split.held <= plan.budget
    found = as_predicted(plan, sampler, cached, epochs=2).found
    assert found.edges == 0 and (found.rows == 1 if budget == "3 MiB" else 0 < found.rows < 1)
    assert "policy clock" in plan.explain()
    sample = sampler.sample(seeds[:BATCH])
    assert torch.equal(cached[sample.node], features[sample.node])


def test_clock_finds_other_seeds(graph, features, seeds):
    """What training reads changes: what was kept for the old seeds goes, and what the new ones read is kept."""
    rare = graph.indptr.diff().argsort()[-3000:]
    few = rare[torch.randperm(len(rare), generator=torch.Generator().manual_seed(2))[:32]]
    plan = plan_cache(graph, features, [4], seeds, BATCH, "100 KiB", "clock", costs=EVEN, device="cpu")
    sampler, cached = plan.apply()
    nodes = sampler.sample(few).node
    before = cached.count(nodes).rows["local"]
    assert torch.equal(cached[nodes], features[nodes])
    assert before < len(nodes) <= cached.plan.capacity and cached.count(nodes).rows["local"] == len(nodes)


@pytest.mark.gpu
@pytest.mark.parametrize("policy, budget", [*(("auto", budget) for budget in (0, 5000, "2 MiB", "1 GiB")), ("clock", "3 MiB")])
def test_on_a_gpu_costs_are_measured_and_the_budget_is_kept(graph, seeds, policy, budget):
    features = hl.UnifiedTensor.from_tensor(torch.rand(graph.num_vertices, 128), placement="host")
    plan = plan_cache(graph, features, [10, 5], seeds, BATCH, budget, policy, device="cuda:0")
    assert "measured" in plan.costs.source
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    sampler, table = plan.apply()
    assert held(sampler, table) <= plan.budget
    assert torch.cuda.memory_allocated() - before <= plan.budget + 2 * allocated(8)
    as_predicted(plan, sampler, table, epochs=2)
    for batch in Loader(sampler, seeds, BATCH, features=table, shuffle=True, device="cuda:0"):
        assert torch.equal(batch.x.cpu(), features.cpu()[batch.sample.node.cpu()])


def test_where_vertices_are_ranked_is_decided_once(graph, features, seeds, monkeypatch):
    """On the GPU where there is room at first, whatever is taken meanwhile; else on the CPU."""
    sampler = SimpleNamespace(device=torch.device("cuda", 0))
    free = [1 << 30]
    monkeypatch.setattr("hinterland.runtime.devices.free_bytes", lambda device: free[0])
    for room, expected in ((1 << 30, "cuda"), (1 << 10, "cpu")):
        free[0] = room
        given = cache_reads.PlannedReads(graph, features, sampler, seeds, BATCH, 2, 0)
        assert given.workplace.type == expected
        free[0] = 0
        assert given.workplace.type == expected
