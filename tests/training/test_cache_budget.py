"""The cache of a loader: same batches, filled when it should be, within what there is room for; and what is said of it."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.memory.allocator import PART_BYTES
from hinterland.runtime.errors import ConfigError
from hinterland.runtime.thresholds import BATCH_BUFFERS
from hinterland.runtime.units import Share
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader, replayed_batches
from hinterland.training.cache_budget import room
from hinterland.training.cache_choice import Wanted, wanted
from hinterland.training.reads_by_tier import FIELDS, fetched, rates

from .cache_cases import same_batches
from .captured_steps import stand_in_for_batches

BATCH = 64
BUDGET = 200 << 10
TENTH = Share(Decimal("0.1"))


@pytest.fixture(scope="module")
def features(graph):
    return hl.UnifiedTensor.from_tensor(torch.arange(graph.num_vertices * 8, dtype=torch.float32).view(-1, 8))


@pytest.fixture(scope="module")
def seeds(graph):
    return graph.indptr.diff().nonzero()[:1500, 0]


@pytest.fixture
def gpu(monkeypatch):
    """Sizes of a GPU that is not there, by what torch would say of it; and what was asked of it, in order."""
    sizes, asked = {"free": BUDGET, "total": 0, "reserved": 0, "allocated": 0, "peak": 0}, []

    def answers(name, value):
        monkeypatch.setattr(torch.cuda, name, lambda *_: asked.append(name) or value())

    answers("mem_get_info", lambda: (sizes["free"], sizes["total"]))
    answers("memory_reserved", lambda: sizes["reserved"])
    answers("memory_allocated", lambda: sizes["allocated"])
    answers("max_memory_allocated", lambda: sizes["peak"])
    answers("get_device_properties", lambda: type("Properties", (), {"total_memory": sizes["total"]}))
    for name in ("reset_peak_memory_stats", "synchronize", "empty_cache"):
        answers(name, lambda: None)
    sizes["asked"] = asked
    return sizes


def loader(graph, features, seeds, device="cpu", **options):
    sampler = NeighborSampler(graph, [6, 4], seed=2, device=device)
    return Loader(sampler, seeds, BATCH, features=features, shuffle=True, seed=5, device=device, **options)


def waiting(graph, features, seeds, **options):
    """A loader that waits for what a step leaves, as one on a GPU does."""
    made = loader(graph, features, seeds, **options)
    made._wanted = Wanted("auto", None)
    return made


@pytest.mark.parametrize(
    "cache, gpu_budget, expected",
    [
        (None, None, None),
        ("none", None, None),
        ("none", "1GiB", None),
        ("auto", None, Wanted("auto", None)),
        ("degree", "4KiB", Wanted("degree", 4096)),
        ("4KiB", None, Wanted("auto", 4096)),
        (5000, None, Wanted("auto", 5000)),
        (None, "4KiB", Wanted("auto", 4096)),
        ("presample", "4KiB", Wanted("presample", 4096)),
        ("presample", None, Wanted("presample", None)),
        ("10%", None, Wanted("auto", TENTH)),
        ("degree", "10 %", Wanted("degree", TENTH)),
    ],
)
def test_what_is_asked_for(cache, gpu_budget, expected):
    assert wanted(cache, gpu_budget) == expected


@pytest.mark.parametrize(
    "cache, gpu_budget, sentence",
    [
        ("lots", None, "cache='lots' is neither one of auto, features, degree, .*none.* nor a size, such as '4GiB'"),
        (-1, None, "cache=-1 is neither"),
        ("200%", None, "cache='200%' is neither .* nor a size, such as '4GiB' or '10%', nor a tensor of scores"),
        ("auto", "200%", "not a share: '200%'"),
        ("10%", "1GiB", "cache='10%' is a budget, and gpu_budget='1GiB' another"),
        (object(), "1GiB", "cache=.* is neither .* nor a tensor of scores"),
        (torch.ones(3), "1GiB", r"cache has scores of shape \(3,\) for 8192 nodes"),
        (torch.ones(3), None, r"cache has scores of shape \(3,\) for 8192 nodes"),
        ({"paper": torch.ones(3)}, "1GiB", "scores for node type 'paper'; there are one without a name, so give a tensor"),
        (torch.ones(8192, dtype=torch.bool), "1GiB", "scores are a tensor of numbers, not torch.bool"),
        ("4GiB", "1GiB", "cache='4GiB' is a budget, and gpu_budget='1GiB' another"),
        ("auto", "much", "not a size in bytes: 'much'"),
    ],
)
def test_what_cannot_be_asked_for(graph, features, seeds, cache, gpu_budget, sentence):
    with pytest.raises(ConfigError, match=sentence):
        loader(graph, features, seeds, cache=cache, gpu_budget=gpu_budget)


@pytest.mark.parametrize("cache", ["auto", "features", "degree", "presample", "clock"])
@pytest.mark.parametrize("world_size", [1, 3])
def test_batches_are_the_same_with_a_cache(graph, features, seeds, cache, world_size):
    options = {"rank": world_size - 1, "world_size": world_size}
    ours = loader(graph, features, seeds, cache=cache, gpu_budget=BUDGET, **options)
    plan = ours.cache_plan
    assert plan.policy == cache and 0 < plan.split.held <= BUDGET
    assert isinstance(ours.features, hl.CachedTensor if cache == "clock" else hl.TieredTensor)
    assert ours.sampler.lists.held == plan.split.adjacency_bytes
    theirs = loader(graph, features, seeds, **options)
    assert theirs.cache_plan is None
    assert all(same_batches(ours, theirs) for _ in range(2))


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_a_loader_keeps_the_rows_that_score_highest(graph, features, seeds, kind):
    scores = [(7 * i) % 8191 for i in range(graph.num_vertices)]
    ours = loader(graph, features, seeds, cache=kind(scores), gpu_budget="30%")
    order = torch.tensor(scores).argsort(descending=True, stable=True)
    count = round(0.3 * graph.num_vertices)
    found = [
        ours.features.count(part).rows["local"] for part in (order[:count], order[count + PART_BYTES // features.row_bytes :])
    ]
    assert ours.cache_plan.policy == "scores" and found == [count, 0]
    assert same_batches(ours, loader(graph, features, seeds))


def test_what_a_step_leaves_is_filled_by_scores(graph, features, seeds, gpu):
    ours = waiting(graph, features, seeds)
    ours._wanted = Wanted(torch.arange(graph.num_vertices), None)
    assert same_batches(ours, loader(graph, features, seeds)) and ours.cache_plan.policy == "scores"


@pytest.mark.parametrize("prefetch, stop", [(1, None), (2, None), (2, 3), (2, 7), (2, 12)])
def test_what_a_step_leaves_is_filled_once(graph, features, seeds, gpu, prefetch, stop):
    """After as many batches as the pipeline holds, when the last of them was worked on, and not before; wherever one stops."""
    ours, theirs = (make(graph, features, seeds, prefetch=prefetch) for make in (waiting, loader))
    first = 2 * (1 + prefetch) + 1
    assert len(ours) > first
    for epoch in range(2):
        seen = []
        for number, batch in enumerate(itertools.islice(ours, stop)):
            assert (ours.cache_plan is None) == (epoch == 0 and number < first)
            seen.append(batch)
        expected = loader(graph, features, seeds)
        if stop is None:
            assert same_batches(seen, theirs)
        elif epoch == 0:
            assert same_batches(seen, itertools.islice(expected, stop))
            again = loader(graph, features, seeds)
            again.load_state_dict(ours.state_dict())
            assert same_batches(ours, again)  # the rest of the epoch
            break
    assert ours.cache_plan.budget == BUDGET and ours.cache_plan.split.held > 0
    filled_at = gpu["asked"].index("empty_cache")
    assert gpu["asked"].index("reset_peak_memory_stats") < gpu["asked"].index("synchronize") < filled_at
    assert gpu["asked"].count("empty_cache") == 1


def test_a_short_epoch_is_measured_at_its_end(graph, features, seeds, gpu):
    ours, theirs = (make(graph, features, seeds[: 3 * BATCH]) for make in (waiting, loader))
    assert same_batches(ours, theirs) and ours.cache_plan is not None
    assert same_batches(ours, theirs)


def test_where_nothing_is_left_nothing_is_kept(graph, features, seeds, gpu):
    gpu["free"] = 100
    ours = waiting(graph, features, seeds)
    sampler = ours.sampler
    assert same_batches(ours, loader(graph, features, seeds))
    assert ours.cache_plan.split.held == 0 and ours.features is features and ours.sampler is sampler


def test_room_is_what_the_peak_and_the_margin_leave(gpu):
    """Reserved blocks that were in use at the peak are not free: the next step takes them again."""
    device = torch.device("cuda", 0)
    gpu.update(free=10_000, total=2_000, reserved=3_000, allocated=1_000, peak=2_600)
    assert room(device) == 10_000 + 3_000 - 2_600 - 2_000 // 20 - (2_600 - 1_000) // 4
    # Of a captured step beside an ordinary one: what came and went is needed twice.
    assert room(device, steps=2) == room(device) - (2_600 - 1_000)
    gpu["free"], gpu["reserved"] = 0, 2_650
    assert room(device) == 0


def test_a_loader_that_captures_leaves_room_for_another_step(graph, features, seeds, gpu, monkeypatch):
    gpu["peak"] = 50 << 10
    budgets = []
    for capture in (False, True):
        ours = waiting(graph, features, seeds)
        ours.capture = capture
        monkeypatch.setattr("hinterland.training.loader.refusal", lambda *_: None)
        monkeypatch.setattr(type(ours), "_replayed", lambda *_: iter_of_none())
        list(ours)
        budgets.append(ours.cache_plan.budget)
    assert budgets[0] - budgets[1] == 50 << 10


def test_graphs_of_batches_are_captured_once_and_after_the_cache_is_filled(graph, features, seeds, gpu, monkeypatch):
    stand_in_for_batches(monkeypatch)
    captured, tables = replayed_batches.captured, []
    monkeypatch.setattr(replayed_batches, "captured", lambda *given: (tables.append(ours.features), captured(*given))[1])
    ours, theirs = waiting(graph, features, seeds, capture="auto"), loader(graph, features, seeds)
    for _ in range(2):
        for a, b in zip(ours, theirs, strict=True):
            assert torch.equal(a.x[: len(b.x)], b.x) and torch.equal(a.sample.node[: len(b.x)], b.sample.node)
    assert ours.captured.replayed > len(ours) and ours.captured.overflowed == 0
    assert len(tables) == 2 * BATCH_BUFFERS and all(isinstance(one, hl.TieredTensor) for one in tables)


def iter_of_none():
    """Stands for graphs that make no batch."""
    yield from ()
    return []


def test_on_the_cpu_there_is_nothing_to_measure(graph, features, seeds):
    ours = loader(graph, features, seeds, cache="auto")
    assert same_batches(ours, loader(graph, features, seeds))
    assert ours.cache_plan is None and ours.features is features


def test_what_cannot_be_kept_is_refused_before_the_first_batch(graph, features, seeds):
    def refused(sentence, features=features, budget=BUDGET, **options):
        with pytest.raises(ConfigError, match=sentence):
            loader(graph, features, seeds, cache="auto", gpu_budget=budget, **options)

    refused("a cache of 1.00 KiB is smaller than one batch, whose .* rows of features take .*; raise the budget", budget="1KiB")
    refused("a cache of 0 B is smaller than one batch", budget=0)
    for budget in (BUDGET, None):
        refused("features are a NoneType", features=None, budget=budget)
        refused("from_tensor", features=features.cpu(), budget=budget)

    class Other:
        def sample(self, seeds, batch=0):
            raise AssertionError

    with pytest.raises(ConfigError, match="a cache is planned for a NeighborSampler, not for a Other; leave out cache="):
        Loader(Other(), seeds, BATCH, features=features, cache="auto", gpu_budget=BUDGET, device="cpu")
    assert list(Loader(Other(), seeds[:0], BATCH, features=features, cache="auto", gpu_budget=BUDGET, device="cpu")) == []
    with pytest.raises(ConfigError, match="cache='lots' is neither"):
        loader(graph, features, seeds[:0], cache="lots")


@pytest.mark.parametrize("cache", ["auto", "clock"])
def test_a_rank_without_batches_keeps_nothing(graph, features, seeds, cache):
    ours = loader(graph, features, seeds[:3], cache=cache, gpu_budget=BUDGET, rank=3, world_size=4, drop_last=True)
    assert list(ours) == [] and ours.cache_plan is None


@pytest.mark.parametrize("cache", [None, "auto", "features", "1GiB"])
def test_one_batch_in_16_says_what_was_served(graph, features, seeds, monkeypatch, cache):
    """Against a count of each row and edge by where the plan has put it. (One in 256 where epochs are long.)"""
    monkeypatch.setattr("hinterland.training.loader._COUNTED_EVERY", 16)
    ours = loader(graph, features, seeds, cache=cache, gpu_budget=BUDGET if cache in ("auto", "features") else None)
    counted = []
    for number, batch in enumerate(ours):
        assert (batch.served is None) == (number % 16 != 0)
        if batch.served is None:
            continue
        counted.append(batch.served)
        found = vars(batch.served)
        kept = ours.sampler.lists.keeps(batch.sample.edge)
        local = 0
        if cache == "1GiB":
            local = len(batch.sample.node)
        elif cache is not None:
            local = int(torch.isin(batch.sample.node, ours.cache_plan._hottest[: ours.cache_plan.split.rows]).sum())
        rows, edges = len(batch.sample.node), len(batch.sample.edge)
        by_tier = {"local": local, "peers": 0, "host": rows - local, "storage": 0, "remote": 0}
        assert found == {**by_tier, "edges": edges, "kept": int(kept.sum()), "link": 0}
    summed = {name: sum(getattr(one, name) for one in counted) for name in FIELDS}
    found = rates(summed, len(counted), len(ours), 1.0, 1)
    assert found["link"] is None and found["served"]["batches"] == len(counted) == 2
    shares = found["served"]
    assert sum(shares["rows"].values()) == pytest.approx(1)
    if cache is None:
        assert shares["rows"]["host"] == 1 and shares["edges"] == 0
    elif cache == "1GiB":
        assert shares["rows"]["local"] == 1 and shares["edges"] == 1
    else:
        assert shares["rows"]["local"] == pytest.approx(ours.cache_plan.predicted.rows, abs=0.05)
        assert shares["edges"] == pytest.approx(ours.cache_plan.predicted.edges, abs=0.05)


def test_rates_of_the_link(monkeypatch):
    """Of two GPUs, each over a link of its own: 10 of 40 batches were counted."""
    monkeypatch.setattr("hinterland.training.reads_by_tier.link_ceiling", lambda: 100.0)
    summed = {"local": 30, "peers": 10, "host": 60, "edges": 8, "kept": 2, "link": 500}
    found = rates(summed, 10, 40, 20.0, 2)
    assert found["served"] == {"batches": 10, "rows": {"local": 0.3, "peers": 0.1, "host": 0.6}, "edges": 0.25}
    assert found["link"] == {"bytes": 2000, "bandwidth": 50.0, "ceiling": 100.0, "share": 0.5}
    monkeypatch.setattr("hinterland.training.reads_by_tier.link_ceiling", lambda: None)
    assert rates(summed, 10, 40, 20.0, 2)["link"]["share"] is None
    assert rates(dict.fromkeys(summed, 0), 0, 0, 1.0, 1) == {"served": None, "link": None}


def test_rows_are_counted_before_a_gather_that_moves_them(graph, features, seeds):
    """As a cache does that follows the batches."""

    class Following:
        shape, dtype, held = features.shape, features.dtype, False

        def __len__(self):
            return len(features)

        def gather(self, index, **options):
            self.held = True
            return features.gather(index)

        def count(self, index):
            return type("TierCount", (), {"rows": {"local": self.held * len(index), "peers": 0, "host": 0}})

    first = next(iter(loader(graph, Following(), seeds)))
    assert first.served.local == 0


@pytest.mark.gpu
@pytest.mark.parametrize("cache", ["auto", "features"])
def test_a_gpu_measures_a_step_and_fills_what_it_leaves(graph, seeds, cache):
    """The graph is small, so everything fits: no row and no edge comes over the link afterwards."""
    features = hl.UnifiedTensor.from_tensor(torch.rand(graph.num_vertices, 128))
    ours, theirs = (loader(graph, features, seeds, "cuda:0", cache=which) for which in (cache, None))
    weight = torch.rand(128, 16, device="cuda:0", requires_grad=True)
    for epoch in range(2):
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert torch.equal(a.x, b.x) and torch.equal(a.edge_index, b.edge_index)
            (a.x @ weight).sum().backward()
            assert (ours.cache_plan is None) == (epoch == 0 and number < 7)
            if a.served is not None:
                rows = a.served.local + a.served.host
                assert rows == len(a.sample.node) and a.served.link >= 512 * a.served.host
                if epoch == 1:
                    assert a.served.host == 0 and (
                        cache == "features" or (a.served.kept == a.served.edges and a.served.link == 0)
                    )
                else:
                    assert a.served.local == 0 or number >= 7
    assert ours.cache_plan.predicted.rows == 1 and room(torch.device("cuda:0")) > 0


@pytest.mark.gpu
def test_on_a_gpu_a_named_budget_is_kept(graph, seeds):
    features = hl.UnifiedTensor.from_tensor(torch.rand(graph.num_vertices, 128))
    sampler = NeighborSampler(graph, [6, 4], seed=2, device="cuda:0")
    list(Loader(sampler, seeds, BATCH, features=features))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    ours = Loader(sampler, seeds, BATCH, features=features, cache="2MiB")
    assert torch.cuda.memory_allocated() - before <= (2 << 20) + 4096  # descriptors of 128 bytes
    (batch,) = itertools.islice(ours, 1)
    assert torch.equal(batch.x.cpu(), features.cpu()[batch.sample.node.cpu()])
    tiers = fetched(ours.features, batch.sample.node).tiers
    assert tiers["local"] > 0 and tiers == {name: getattr(batch.served, name) for name in tiers}
