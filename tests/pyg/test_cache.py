"""Which rows a loader would keep in GPU memory."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import HeteroData

import hinterland as hl
from hinterland.memory.allocator import PART_BYTES
from hinterland.pyg import FeatureStore, GraphStore, LinkNeighborLoader, NeighborLoader, Sampler
from hinterland.pyg.cache import presample, split, widest
from hinterland.runtime.errors import ConfigError
from hinterland.table import plan_tiers
from hinterland.training.cache_choice import Wanted, bytes_of, parse_budget, wanted


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(3, 99),
)
def test_the_budget_holds_what_is_worth_most(papers, authors, budget):
    scores = {"paper": torch.tensor(papers), "author": torch.tensor(authors)}
    row_bytes = {"paper": 3, "author": 2, "venue": 5}
    sizes = split(budget, scores, row_bytes)
    assert sum(sizes.values()) <= budget
    kept, left = [], []
    for node_type, size in sizes.items():
        worth = (scores[node_type] / row_bytes[node_type]).sort(descending=True).values.tolist()
        rows = size // row_bytes[node_type]
        kept += worth[:rows]
        left += worth[rows:]
    if kept and left:
        assert min(kept) >= max(left)


@pytest.mark.parametrize("share", ["1%", "40%", "100%"])
def test_a_share_of_one_type_is_that_of_its_rows(share):
    budget = bytes_of(parse_budget(share), 3000, 100)
    (size,) = split(budget, {None: torch.rand(3000)}, {None: 100}).values()
    rows = plan_tiers(3000, 100, 1, size, ordered=True).local_rows
    assert 30 * int(share[:-1]) <= rows <= 30 * int(share[:-1]) + PART_BYTES // 100


def test_presampling_counts_what_samples_meet(data):
    loader = NeighborLoader(data, [3, 2], data.train_mask, batch_size=20, device="cpu")
    counts = presample(loader._sample, len(loader.dataset), 20, {None: data.num_nodes}, lambda _: {None: 50}, loader.device)[
        None
    ]
    assert (counts[data.train_mask] >= 1).all()
    met = torch.zeros(data.num_nodes)
    for _ in range(10):
        for batch in loader:
            met[batch.n_id] += 1
    assert torch.corrcoef(torch.stack([counts.float(), met]))[0, 1] > 0.6


def test_without_a_gpu_there_is_nothing_to_fill(data):
    scores = torch.rand(data.num_nodes)
    for cache in ("presample", scores, {None: scores}):
        for budget in ("1KiB", "10%", None):
            (batch,) = NeighborLoader(data, [2], batch_size=300, cache=cache, gpu_budget=budget, device="cpu")
            assert torch.equal(batch.x, data.x[batch.n_id])


@pytest.mark.parametrize("scored", [False, True])
def test_the_widest_table_goes_to_tiers(data, scored):
    """A CPU can stand for a GPU whose memory is the host's."""
    given = data.clone()
    given.x, given.y = hl.UnifiedTensor.from_tensor(data.x), hl.UnifiedTensor.from_tensor(data.y)
    loader = NeighborLoader(given, [3, 2], batch_size=32, device="cpu", cache="presample", gpu_budget="4KiB")
    scores = {None: torch.arange(data.num_nodes)} if scored else None
    loader._keep_hot_rows(widest(loader._read, loader._given.num_nodes), scores, 4096)
    table = loader._read.x.table
    assert isinstance(table, hl.TieredTensor) and table.plan.local_rows > 0 and table.plan.held_bytes <= 4096
    assert loader._read.y.table is given.y
    for batch in loader:
        assert torch.equal(batch.x, data.x[batch.n_id]) and torch.equal(batch.y, data.y[batch.n_id])


@pytest.mark.gpu
@pytest.mark.parametrize("cache", ["presample", "scores"])
def test_rows_come_from_tiers(data, cache):
    scores = torch.rand(data.num_nodes) if cache == "scores" else cache
    loader = NeighborLoader(data, [3, 2], batch_size=32, cache=scores, gpu_budget=100 * 24, device="cuda")
    assert type(loader._read.x.table).__name__ == "TieredTensor"
    for batch in loader:
        assert torch.equal(batch.x.cpu(), data.x[batch.n_id.cpu()])


def test_bad_caches(data):
    def refused(match, **options):
        with pytest.raises(ConfigError, match=match):
            NeighborLoader(data, [2], device="cpu", **options)

    refused("cache='lru' is neither one of auto, .*, presample, clock, none nor a size", cache="lru", gpu_budget=9)
    refused("cache='4GiB' is a budget, and gpu_budget=9 another", cache="4GiB", gpu_budget=9)
    refused("not a size in bytes", cache="presample", gpu_budget="much")
    refused(r"cache has scores of shape \(3,\) for 300 nodes", cache=torch.ones(3), gpu_budget=9)
    refused("cache has scores for node type 'paper'", cache={"paper": torch.ones(3)}, gpu_budget=9)
    with pytest.raises(ConfigError, match="holds no row of the features"):
        split(1, {None: torch.ones(3)}, {None: 4})
    features, graphs = FeatureStore(), GraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(300, 300))
    with pytest.raises(ConfigError, match=r"put ut.tiered\(...\) in the feature store instead"):
        NeighborLoader((features, graphs), [2], torch.arange(3), cache="presample", gpu_budget=9)


def equal(ours, theirs):
    """The same batches, all of them."""
    count = 0
    for a, b in zip(ours, theirs, strict=True):
        one, other = a.to_dict(), b.to_dict()
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one if isinstance(one[key], torch.Tensor))
        count += 1
    return count


def keeping(make, data, budget=40_000):
    """A loader on the CPU that fills its cache as on a GPU."""
    data = data.clone()
    data.x = hl.UnifiedTensor.from_tensor(data.x)
    loader = make(data, device="cpu", batch_size=16, cache="auto", shuffle=True)
    assert loader._wanted is None  # a CPU has nothing to fill
    loader._wanted = Wanted("auto", budget)
    return loader


MAKERS = {
    "nodes": lambda data, **options: NeighborLoader(data, [3, 2], data.train_mask, **options),
    "disjoint": lambda data, **options: NeighborLoader(data, [3, 2], disjoint=True, time_attr="time", **options),
    "weighted": lambda data, **options: NeighborLoader(data, [3, 2], weight_attr="weight", **options),
    "links": lambda data, **options: LinkNeighborLoader(data, [3, 2], **options),
    "negatives": lambda data, **options: LinkNeighborLoader(
        data, [3, 2], neg_sampling={"mode": "binary", "amount": 0.5}, **options
    ),
    "triplets": lambda data, **options: LinkNeighborLoader(
        data, [3, 2], neg_sampling={"mode": "triplet", "amount": 2}, **options
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_auto_keeps_lists_and_rows_and_changes_no_batch(data, kind):
    ours = keeping(MAKERS[kind], data)
    theirs = MAKERS[kind](data, device="cpu", batch_size=16, shuffle=True)
    ours._fill(40_000)
    plan = ours.cache_plan
    assert 0 < plan.split.held <= 40_000 and plan.split.rows > 0 and plan.split.adjacency_bytes > 0
    assert isinstance(ours._read.x.table, hl.TieredTensor) and ours._sampler._engine().lists.held == plan.split.adjacency_bytes
    for seed in range(2):
        torch.manual_seed(seed)
        one = list(ours)
        torch.manual_seed(seed)
        assert equal(one, theirs) == len(theirs)
    read = sum(len(batch.n_id) for batch in one) / len(one)
    assert plan.rows == pytest.approx(read, rel=0.15)  # what the plan looked at is what batches read


def a_step_leaves(size, monkeypatch):
    """Has a CPU say so, as a GPU would."""
    for name in ("reset_peak_memory_stats", "synchronize", "empty_cache"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    monkeypatch.setattr("hinterland.training.cache_budget.room", lambda device, steps: size)


def same_batches(ours, theirs):
    """Numbers of the batches of an epoch, once each was found to be that without a cache."""
    torch.manual_seed(1)
    expected = list(theirs)
    torch.manual_seed(1)
    for number, (a, b) in enumerate(zip(ours, expected, strict=True)):
        assert torch.equal(a.x, b.x) and torch.equal(a.edge_index, b.edge_index)
        yield number


def test_auto_is_filled_after_the_first_batches(data, monkeypatch):
    """Where the budget is what a step leaves."""
    a_step_leaves(40_000, monkeypatch)
    ours = keeping(MAKERS["links"], data, None)
    theirs = MAKERS["links"](data, device="cpu", batch_size=16, shuffle=True)
    for number in same_batches(ours, theirs):
        assert (ours.cache_plan is None) == (number < 7)
    assert ours.cache_plan.budget == 40_000 and ours._wanted is None


@pytest.mark.parametrize("policy", ["presample", "scores"])
def test_hot_rows_are_kept_after_the_first_batches(data, monkeypatch, policy):
    """Where the budget is what a step leaves, as of every policy."""
    a_step_leaves(4_000, monkeypatch)
    ours = keeping(MAKERS["nodes"], data, None)
    scores = torch.arange(data.num_nodes)
    ours._wanted = wanted(scores if policy == "scores" else policy, None)
    theirs = MAKERS["nodes"](data, device="cpu", batch_size=16, shuffle=True)
    for number in same_batches(ours, theirs):
        assert isinstance(ours._read.x.table, hl.TieredTensor) == (number >= 7)
    table = ours._read.x.table
    assert 0 < table.plan.held_bytes <= 4_000
    if policy == "scores":
        assert table.count(scores[-table.plan.local_rows :]).rows["local"] == table.plan.local_rows


@pytest.mark.gpu
def test_on_a_gpu_a_share_is_that_of_the_rows(data):
    loader = NeighborLoader(data, [3, 2], batch_size=32, cache="presample", gpu_budget="40%", device="cuda")
    assert loader._read.x.table.plan.local_rows >= 120
    for batch in loader:
        assert torch.equal(batch.x.cpu(), data.x[batch.n_id.cpu()])


def test_a_sampler_that_loaders_share_is_not_changed(data):
    sampler = Sampler(data, [3, 2])
    one, other = (keeping(partial(NeighborLoader, num_neighbors=[3, 2], neighbor_sampler=sampler), data) for _ in range(2))
    one._fill(40_000)
    other._wanted = None
    assert other._sampler._engine().lists.held == 0 and sampler._engine().lists.held == 0
    torch.manual_seed(4)
    expected = list(other)
    torch.manual_seed(4)
    assert equal(one, expected) == len(expected)


def test_auto_of_several_types_keeps_rows_by_counts():
    random = torch.Generator().manual_seed(2)
    data = HeteroData()
    for name, count in (("paper", 60), ("author", 40)):
        data[name].x = hl.UnifiedTensor.from_tensor(torch.randn(count, 6, generator=random))
    data["author", "writes", "paper"].edge_index = torch.stack([torch.randint(n, (300,), generator=random) for n in (40, 60)])
    data["paper", "by", "author"].edge_index = data["author", "writes", "paper"].edge_index.flip(0)

    def make(cache, budget=None):
        return NeighborLoader(data, [3, 2], "paper", batch_size=8, device="cpu", cache=cache, gpu_budget=budget)

    auto, presampled = make("auto", "2KiB"), make("presample", "2KiB")
    assert auto._bytes(2048) == 2048  # of all types together
    assert auto._bytes(parse_budget("40%")) == sum(bytes_of(parse_budget("40%"), count, 24) for count in (60, 40))
    for loader in (auto, presampled):
        loader._wanted = Wanted(loader.cache, 2048)
        loader._fill(2048)
    plans = [[loader._read[name].x.table.plan for name in ("paper", "author")] for loader in (auto, presampled)]
    assert plans[0] == plans[1] and sum(plan.local_rows for plan in plans[0]) > 0 and auto.cache_plan is None
    with pytest.raises(ConfigError, match="cache='degree' is for one type of nodes and edges"):
        make("degree", "2KiB")


def test_auto_with_times_of_edges_keeps_rows(data):
    """Seeds alone do not say what is read: that depends on the moment of each."""
    data.edge_time = torch.arange(data.num_edges)
    when = torch.full((data.num_nodes,), data.num_edges // 2)
    ours = keeping(partial(NeighborLoader, num_neighbors=[3, 2], input_time=when, time_attr="edge_time"), data, 4096)
    ours._fill(4096)
    assert ours.cache_plan is None and ours._read.x.table.plan.local_rows > 0
    for batch in ours:
        assert torch.equal(batch.x, data.x[batch.n_id])


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["nodes", "negatives"])
@pytest.mark.parametrize("budget", [None, "100KiB"])
def test_auto_on_a_gpu(data, kind, budget, monkeypatch):
    by_rates = lambda costs, *_: (costs.row_host, costs.row_gpu)  # noqa: E731  few rows take as long from anywhere
    monkeypatch.setattr("hinterland.training.cache_costs._rows", by_rates)
    ours = MAKERS[kind](data, batch_size=8, cache="auto", gpu_budget=budget, device="cuda:0")
    theirs = MAKERS[kind](data, batch_size=8, device="cuda:0")
    for _ in range(2):
        torch.manual_seed(3)
        expected = list(theirs)
        torch.manual_seed(3)
        assert equal(ours, expected) == len(theirs)
    assert ours.cache_plan.split.rows == data.num_nodes  # all of it fits
    assert isinstance(ours._read.x.table, hl.TieredTensor)
