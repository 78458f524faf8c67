"""Factored execution: the same parameters whoever samples and trains, roles from times, errors, endings."""

from __future__ import annotations

import _thread
import itertools
import math
import random
import re
import threading
import traceback

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import ConfigError, DeviceError, PipelineStalled
from hinterland.sampling import NeighborSampler
from hinterland.training import Factored, Loader, StageTimes, factored_plan, make_model, train
from hinterland.training import checkpoint as checkpoints
from hinterland.training import factored_queue as queue
from hinterland.training.factored_plan import assign, plan_roles
from hinterland.training.pipeline import PATIENCE

from .test_train import same

SHAPE = datasets.Shape({"node": 400}, {"node": 16}, {("node", "to", "node"): 3000}, (150, 50, 50), 4, undirected=True)
BATCH = 16  # of 150 seeds: ten batches, the last smaller


pytestmark = pytest.mark.usefixtures("one_thread", "every_thread_ends")


@pytest.fixture(scope="module")
def data():
    made = datasets.generate(SHAPE, seed=1, device="cpu")
    made.features = hl.UnifiedTensor.from_tensor(made.features[torch.arange(400)])
    return made


class Normalised(nn.Module):
    """A GraphSAGE with what makes replicas differ if nobody takes care: buffers, dropout, a frozen and an unused parameter."""

    def __init__(self, norm=True):
        super().__init__()
        self.frozen = nn.Parameter(torch.ones(16), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))
        self.norm = nn.BatchNorm1d(16) if norm else nn.Identity()
        self.gnn = make_model("sage", 16, 8, 4, 2, 0.4 if norm else 0.0)

    def forward(self, x, sample):
        return self.gnn(self.norm(x * self.frozen), sample)


def loss_of(model, batch):
    return F.cross_entropy(model(batch.x.to(model.frozen.dtype), batch.sample), batch.y.long())


def made(data, devices, fanouts=(4, 3), step=loss_of, norm=True, dtype=torch.float32, batch_size=BATCH, **options):
    where = torch.device("cuda:0" if "cuda:0" in devices else "cpu")
    torch.manual_seed(5)
    model = Normalised(norm).to(where, dtype)
    timeout = options.pop("timeout", 60.0)

    def sampler_on(device):
        return NeighborSampler(data.graph, fanouts, seed=2, device=device)

    loader = Loader(
        sampler_on(where),
        data.splits["train"][:150],
        batch_size,
        features=data.features,
        labels=data.labels,
        shuffle=True,
        seed=3,
        device=where,
        timeout=timeout,
    )
    return Factored(loader, sampler_on, model, step, devices, **options)


def trained(factored, epochs=2):
    """The losses of all batches, and the model's state."""
    optimizer = torch.optim.Adam(factored.model.parameters(), lr=0.01)
    losses = []
    for _ in range(epochs):
        for averaged in factored:
            optimizer.step()
            losses.append(averaged.losses)
    return torch.cat(losses), factored.model.state_dict()


# What must hold: whoever samples and trains, and whenever


@pytest.mark.parametrize("round", [1, 3])
def test_devices_and_roles_change_nothing(data, round):
    """Parameters, buffers and losses, to the bit; of ten batches, so that an epoch ends with a part of a round."""
    losses, state = trained(made(data, ["cpu"], round=round))
    assert len(losses) == 20 and losses[-3:].mean() < losses[:3].mean()
    for devices, samplers, depth in ((2, 1, 1), (2, None, 3), (3, 1, 6), (3, 2, None)):
        factored = made(data, ["cpu"] * devices, round=round, samplers=samplers, depth=depth)
        other_losses, other = trained(factored)
        assert torch.equal(losses, other_losses) and same(state, other)
        assert sum(factored.trained) == 20


@pytest.mark.parametrize("seed", range(4))
def test_whoever_trains_changes_nothing(data, monkeypatch, seed):
    """Batches dealt out at random, to standby trainers too."""
    losses, state = trained(made(data, ["cpu"], round=4))
    draw = random.Random(seed)
    monkeypatch.setattr(factored_plan, "assign", lambda batches, _: [draw.randrange(3) for _ in range(batches)])
    factored = made(data, ["cpu"] * 3, round=4, samplers=1 + seed % 2)
    other_losses, other = trained(factored)
    assert torch.equal(losses, other_losses) and same(state, other)
    assert min(factored.trained) > 0


def test_a_round_is_one_large_batch(data):
    """Of whole neighbourhoods: 3 (at last 2) batches of 16 are one of 48 (32) by plain torch, to rounding."""
    options = {"fanouts": (-1, -1), "norm": False, "dtype": torch.float64}
    large = made(data, ["cpu"], batch_size=48, **options)
    large.loader.seeds = large.loader.seeds[:128]
    small = made(data, ["cpu"] * 2, round=3, **options)
    small.loader.seeds = small.loader.seeds[:128]
    _, state = trained(small)
    optimizer = torch.optim.Adam(large.model.parameters(), lr=0.01)
    for _ in range(2):
        for batch in large.loader:
            optimizer.zero_grad()
            loss_of(large.model, batch).backward()
            optimizer.step()
    assert all(torch.allclose(state[name], value, rtol=1e-9, atol=1e-12) for name, value in large.model.state_dict().items())


def test_it_goes_on_where_it_was(data):
    """After a break inside an epoch."""
    _, state = trained(made(data, ["cpu"] * 2, round=2))
    stopped = made(data, ["cpu"] * 2, round=2)
    optimizer = torch.optim.Adam(stopped.model.parameters(), lr=0.01)
    for steps, _ in enumerate(stopped, 1):
        optimizer.step()
        if steps == 2:
            break
    assert stopped.loader.state_dict()["delivered"] == 4
    other = made(data, ["cpu"] * 3, round=2)
    other.model.load_state_dict(stopped.model.state_dict())
    other.loader.load_state_dict(stopped.loader.state_dict())
    resumed = torch.optim.Adam(other.model.parameters(), lr=0.01)
    resumed.load_state_dict(optimizer.state_dict())
    for _ in range(2):
        for _ in other:
            resumed.step()
    assert same(state, other.model.state_dict())


def test_what_a_step_gives_besides(data):
    def step(model, batch):
        return loss_of(model, batch), {"seeds": batch.seeds, "mode": model.training}

    factored = made(data, ["cpu"] * 2, step=step)
    seeds = [batch["seeds"] for averaged in factored for batch in averaged.seen]
    assert torch.equal(torch.cat(seeds), torch.cat([batch.seeds for batch in made(data, ["cpu"]).loader]))
    factored.model.eval()
    assert not any(batch["mode"] for averaged in factored for batch in averaged.seen)


def test_a_frozen_normalisation_stays_frozen(data):
    factored = made(data, ["cpu"] * 2, samplers=1)
    norm = factored.model.norm.eval()
    for training in (False, True):
        norm.train(training)
        before = norm.running_mean.clone()
        trained(factored, epochs=1)
        assert torch.equal(before, norm.running_mean) == (not training)


def test_an_unused_parameter_gets_no_gradient(data):
    factored = made(data, ["cpu"] * 2)
    next(iter(factored))
    assert factored.model.unused.grad is None and factored.model.frozen.grad is None
    assert factored.model.norm.weight.grad is not None


def test_no_seeds(data):
    factored = made(data, ["cpu"] * 2)
    factored.loader.seeds = factored.loader.seeds[:0]
    assert list(factored) == []


# Caches


def kept(factored):
    """Of each device: its plan, the rows of its table in memory of devices, and the bytes of lists that its sampler keeps."""
    plans, trainers = factored.cache_plans, len(factored.plan.trainers)
    every = torch.arange(400)
    rows = [
        400 - reader.features.count(every.to(device)).rows["host"]
        for reader, device in zip(factored._readers, factored.plan.devices, strict=True)
    ]
    lists = [0] * trainers + [sampler.lists.held for _, sampler in factored._samplers_made]
    return list(zip(plans, rows, lists, strict=True))


POLICIES = ["auto", "features", "degree", "presample", "clock", "scores"]
ROLES = [(1, None), (2, 1), (3, 1), (3, 2), (2, None), (4, None)]
CACHES = [
    # Policies other than these two differ in which rows they keep alone.
    pytest.param(policy, *roles, marks=() if policy in ("auto", "clock") or roles == (3, 2) else pytest.mark.nightly)
    for policy, roles in itertools.product(POLICIES, ROLES)
]


@pytest.mark.parametrize("cache, count, samplers", CACHES)
def test_caches_change_nothing(data, cache, count, samplers):
    """Within the budget: rows where batches are trained on, lists first where they are sampled. A role has one table."""
    losses, state = trained(made(data, ["cpu"], round=2))
    scores = torch.arange(400)
    asked = {"cache": scores if cache == "scores" else cache, "gpu_budget": "22KiB"}
    factored = made(data, ["cpu"] * count, round=2, samplers=samplers, **asked)
    other_losses, other = trained(factored)
    assert torch.equal(losses, other_losses) and same(state, other) and sum(factored.trained) == 20
    found = kept(factored)
    assert len(found) == count and factored.loader.features is data.features
    trainers, alone = len(factored.plan.trainers), cache == "clock" or count == 1
    tables = count if alone else 2 if cache == "auto" else 1
    assert len({id(reader.features) for reader in factored._readers}) == tables
    for who, (plan, rows, lists) in enumerate(found):
        samples = who >= trainers
        assert plan.policy == cache and plan.split.held <= plan.budget == 22 << 10
        assert (lists > 0) == (samples and cache == "auto") and lists == plan.split.adjacency_bytes
        assert rows == plan.split.rows and (rows > 0 or samples)
        if cache == "scores":
            assert factored._readers[who].features.count(scores[-rows:]).rows["host"] == 0
    assert (found[-1][0].split.dealt_pages > 0) == (cache == "auto" and count - trainers > 1)  # lists over the samplers
    s = found[0][0].split
    assert f"cpu keeps {s.rows - s.dealt_rows:,} rows" in factored.explain()


def test_devices_read_what_they_keep(data, monkeypatch):
    """Where all fits: rows of a trainer come from its own memory, and lists of a sampler."""
    read = []
    for name in ("TieredTensor", "UnifiedTensor"):
        kind = getattr(hl, name)

        def gather(table, index, gathered=kind.gather, **options):
            if len(index) > 30:  # rows, and not labels
                read.append((id(table), table.count(index).rows["local"] / len(index)))
            return gathered(table, index, **options)

        monkeypatch.setattr(kind, "gather", gather)
    factored = made(data, ["cpu"] * 3, samplers=1, gpu_budget="64KiB", cache="auto")
    trained(factored, epochs=1)
    tables = {id(reader.features) for reader in factored._readers}
    by_trainers = [share for table, share in read if table in tables]
    assert len(by_trainers) >= 10 and set(by_trainers) == {1.0} and len(read) == len(by_trainers)
    (_, sampler) = factored._samplers_made[0]
    sample = sampler.sample(data.splits["train"][:16])
    assert len(sample.edge) > 0 and bool(sampler.lists.keeps(sample.edge).all())


def test_roles_are_measured_with_the_caches(data, monkeypatch):
    """What is filled to measure is used: two tables and no third, of two devices."""
    made_of, tiered = [], hl.UnifiedTensor.tiered
    monkeypatch.setattr(hl.UnifiedTensor, "tiered", lambda *given, **named: made_of.append(1) or tiered(*given, **named))
    factored = made(data, ["cpu"] * 2, cache="auto", gpu_budget="22KiB")
    assert factored.plan.times is not None and list(factored._kept_readers) == [0] and list(factored._kept_samplers) == [1]
    table = factored._kept_readers[0].features
    trained(factored, epochs=2)
    assert factored._readers[0].features is table and len(made_of) == 2


# Roles


TIMES = st.floats(1e-6, 10.0)


@given(st.integers(1, 16), TIMES, TIMES, TIMES)
def test_the_number_of_samplers(count, sample, gather, train_seconds):
    """GNNLab, section 5.2: samplers suffice for the trainers, and one fewer would not."""
    plan = plan_roles([torch.device("cpu")] * count, 2, StageTimes(sample, gather, train_seconds))
    samplers, trainers = len(plan.samplers), len(plan.trainers)
    assert samplers + trainers == count and samplers >= 1 and (trainers >= 1 or count == 1)
    served = max(gather, train_seconds) / sample  # by one sampler
    slack = 1e-6 * count
    if trainers > 1:
        assert samplers * served >= trainers - slack
    if samplers > 1:
        assert (samplers - 1) * served < trainers + 1 + slack


def test_a_plan_explains_itself(data):
    plan = plan_roles([torch.device("cuda", i) for i in range(8)], 8, StageTimes(0.002, 0.003, 0.006))
    assert len(plan.samplers) == 2
    lines = plan.explain()
    for part in ("sample: cuda:6, cuda:7; standby", "K = 3.00 trainers", "ceil(8 / (K + 1))", "gradients of 8 consecutive"):
        assert part in lines
    assert "samplers was given" in plan_roles(plan.devices, 1, samplers=3).explain()
    factored = made(data, ["cpu"] * 2)
    for _ in factored:
        pass
    assert re.search(r"ms to sample \(T_s\).*batches trained so far: cpu \d+, cpu \d+$", factored.explain(), re.DOTALL)


@given(st.integers(1, 12), st.integers(1, 5), st.lists(st.floats(0.1, 8.0), max_size=3))
def test_a_standby_trains_where_it_is_profitable(batches, trainers, standbys):
    """P = M_r T_t / N_t - T_t' > 0, batches being whole: it would be done before the trainers are done with the step."""
    owners = assign(batches, [1.0] * trainers + standbys)
    assert len(owners) == batches
    for n, seconds in enumerate(standbys):
        alone = assign(batches, [1.0] * trainers + [seconds])
        assert (trainers in alone) == (math.ceil(batches / trainers) > seconds)
        finish = owners.count(trainers + n) * seconds
        assert finish <= math.ceil(batches / trainers)
    most = max(owners.count(who) for who in range(trainers))
    assert most - min(owners.count(who) for who in range(trainers)) <= 1


@pytest.mark.parametrize(
    "sampled, standby_seconds, owners", [(4, 1.0, [0, 1]), (4, 1.9, [0, 1]), (4, 2.5, [0, 0]), (3, 1.0, [0, 0])]
)
def test_a_sampler_trains_only_when_it_is_ahead(sampled, standby_seconds, owners):
    """There is room for 4 samples; a trainer takes 1 s a batch, so a round of two takes it 2."""
    cpu = torch.device("cpu")
    plan = plan_roles([cpu, cpu], 2, samplers=1)
    tally = queue.Tally([0, 0], [queue.TrainerPace(), queue.TrainerPace()])
    for pace, seconds in zip(tally.paces, (1.0, standby_seconds), strict=True):
        for stage, took in (("gather", 0.1), ("train", seconds)):
            pace.add(stage, 100.0)  # the first, which is not counted
            pace.add(stage, took)
    epoch = queue.Epoch(plan, 4, 60.0, tally, ((i, torch.tensor([i])) for i in range(20)), 0, 20)
    for _ in range(sampled):
        i, _, seeds = epoch.wanted()
        epoch.put(queue.SampleTask(i, (None, seeds), cpu, None))
    assert epoch._owner() == owners[0] and epoch._owners == dict(enumerate(owners))


def test_samplers_switch(data):
    """Training waits until the epoch is sampled: from then on the sampler's device trains too."""
    counted, all_sampled = itertools.count(1), threading.Event()

    class Counting:
        def __init__(self, sampler):
            self.sampler = sampler

        def sample(self, seeds, batch=0):
            if next(counted) == 10:
                all_sampled.set()
            return self.sampler.sample(seeds, batch=batch)

    def step(model, batch):
        assert all_sampled.wait(20)
        return loss_of(model, batch)

    factored = made(data, ["cpu"] * 2, step=step, samplers=1, depth=10)
    factored._sampler_on = lambda device: Counting(NeighborSampler(data.graph, (4, 3), seed=2, device=device))
    assert sum(len(averaged.losses) for averaged in factored) == 10
    assert factored.trained[1] > 0


def test_no_more_samples_wait_than_there_is_room_for(data):
    release, numbers = threading.Event(), []

    class Noting:
        def sample(self, seeds, batch=0):
            numbers.append(batch)
            return NeighborSampler(data.graph, (4, 3), seed=2, device="cpu").sample(seeds, batch=batch)

    def step(model, batch):
        assert release.wait(20)
        return loss_of(model, batch)

    factored = made(data, ["cpu"] * 2, step=step, samplers=1, round=1, depth=2)
    factored._sampler_on = lambda device: Noting()
    threading.Timer(0.5, release.set).start()
    before = []
    threading.Timer(0.4, lambda: before.extend(numbers)).start()
    assert len(list(factored)) == 10
    assert before == list(range(len(before)))
    # Of each device one batch trains, one is gathered, one waits between; 2 wait for trainers.
    assert len(before) <= 2 * 3 + 2


# Errors and endings


def working(data, where, work, **options):
    """On two devices, where ``work`` stands for one stage."""
    factored = made(data, ["cpu"] * 2, samplers=1, **options)
    sampler = NeighborSampler(data.graph, (4, 3), device="cpu")
    factored._sampler_on = lambda device: sampler
    owner, name = {"sample": (sampler, "sample"), "gather": (factored.loader, "batch_of"), "train": (factored, "step")}[where]
    setattr(owner, name, work)
    return factored


@pytest.mark.parametrize("where", ["sample", "gather", "train"])
def test_what_a_thread_raises_arrives_with_its_traceback(data, where):
    def breaks(*_, **__):
        raise ZeroDivisionError("it is bad")

    factored = working(data, where, breaks)
    with pytest.raises(ZeroDivisionError, match="it is bad") as caught:
        list(factored)
    assert "breaks" in "".join(traceback.format_tb(caught.value.__traceback__))


@pytest.mark.parametrize("where", ["sample", "gather", "train"])
def test_a_stuck_stage_is_named(data, where):
    release = threading.Event()

    def stuck(*_, **__):
        release.wait(20)
        raise ZeroDivisionError

    factored = working(data, where, stuck, timeout=0.5)
    try:
        with pytest.raises(PipelineStalled, match=rf"stage '{where}' on cpu has worked on batch \d for .*; raise timeout="):
            list(factored)
    finally:
        release.set()


def test_ctrl_c_ends_it_while_a_stage_is_stuck(data, ctrl_c):
    release, finished = threading.Event(), []

    def stuck(model, batch):
        release.wait(20)
        finished.append(1)
        return loss_of(model, batch)

    factored = made(data, ["cpu"] * 3, step=stuck, samplers=1)
    threading.Timer(0.5, _thread.interrupt_main).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            list(factored)
        assert not finished
    finally:
        release.set()


def test_a_step_that_was_left_does_not_reach_the_next_iteration(data, ctrl_c):
    def run(left):
        slow, release = threading.Event(), threading.Event()

        def step(model, batch):
            if slow.is_set():
                threading.Timer(0.3, _thread.interrupt_main).start()
                threading.Timer(0.3 + 2 * PATIENCE, release.set).start()
                slow.clear()
                release.wait(20)
            return loss_of(model, batch)

        factored = made(data, ["cpu"], step=step, round=2)
        optimizer = torch.optim.Adam(factored.model.parameters(), lr=0.01)
        if left:
            steps = iter(factored)
            next(steps)
            optimizer.step()
            slow.set()
            with pytest.raises(KeyboardInterrupt):
                next(steps)
            assert any(thread.name.startswith("hinterland ") for thread in threading.enumerate())
        for _ in factored:
            optimizer.step()
        return factored.model.state_dict()

    assert same(run(left=True), run(left=False))


def test_iterations_do_not_overlap(data):
    release = threading.Event()
    factored = made(data, ["cpu"] * 2, samplers=1, timeout=1.0)
    steps = iter(factored)
    next(steps)
    with pytest.raises(ConfigError, match="an iteration of this Factored is under way; end it before another begins"):
        next(iter(factored))
    steps.close()
    factored.step = lambda model, batch: (release.wait(20), loss_of(model, batch))[1]
    try:
        with pytest.raises(PipelineStalled, match="stage 'train'"):
            next(iter(factored))
        with pytest.raises(PipelineStalled, match="left, and its thread 'hinterland train cpu' is at work still after 1 s"):
            next(iter(factored))
    finally:
        release.set()


def test_bad_arguments(data):
    def refused(sentence, devices=("cpu", "cpu"), error=ConfigError, **options):
        with pytest.raises(error, match=sentence):
            list(made(data, devices, **options))

    refused(r"devices=\[\] names none to train on; name at least one", [])
    refused("devices='cpu' is no list of devices", "cpu")
    refused("neither cpu nor cuda", ["cpu", "meta"], DeviceError)
    refused("samplers=2 of 2 devices leave no sampler or no trainer; use 1", samplers=2)
    refused("samplers=0 of 3 devices leave no sampler or no trainer; use 1 to 2", ["cpu"] * 3, samplers=0)
    refused("samplers=2 of 1 devices", ["cpu"], samplers=2)
    refused("round=0 averages no batch", round=0)
    refused("depth=0 leaves samples no room", depth=0)
    refused("step returned None; it must return the loss", step=lambda model, batch: None)
    refused(
        r"step returned a torch.float32 tensor of shape \(64,\)",
        step=lambda model, batch: model.gnn(batch.x, batch.sample).sum(0)[:0].new_ones(64),
    )
    loader = made(data, ["cpu"]).loader
    for options in ({"cache": "auto"}, {"gpu_budget": "1MiB"}, {"cache": "1MiB"}):
        cached = Loader(loader.sampler, loader.seeds, BATCH, features=data.features, device="cpu", **options)
        with pytest.raises(
            ConfigError, match="the loader's cache is of one device, .*; give cache= and gpu_budget= to Factored"
        ):
            Factored(cached, lambda device: loader.sampler, nn.Linear(2, 2), loss_of, ["cpu", "cpu"])
    refused("name the cache's size for each of devices=, as in gpu_budget='4GiB'", cache="auto")
    refused("cache='lru' is neither one of", cache="lru")
    refused("a cache of 100 B is smaller than one batch", gpu_budget=100)
    refused(r"cache has scores of shape \(3,\) for 400 nodes", cache=torch.ones(3), gpu_budget="40KiB")
    with pytest.raises(ConfigError, match="a cache is planned for a NeighborSampler, not for a Other; leave out cache="):
        other = type("Other", (), {"sample": None})()
        list(Factored(loader, lambda device: other, nn.Linear(2, 2), loss_of, ["cpu", "cpu"], gpu_budget="40KiB"))
    with pytest.raises(ConfigError, match="no parameter that requires a gradient"):
        Factored(loader, None, nn.Linear(2, 2).requires_grad_(False), loss_of, ["cpu"])
    with pytest.raises(ConfigError, match=r"sampler_on\(cpu\) gave a sampler on meta"):
        elsewhere = NeighborSampler(data.graph, (4,), device="cpu")
        elsewhere.device = torch.device("meta")
        list(Factored(loader, lambda device: elsewhere, nn.Linear(2, 2), loss_of, ["cpu"]))


# train


SMALL = {"fanouts": (4, 3), "hidden": 16, "batch_size": 16, "lr": 0.02, "dropout": 0.3, "seed": 3, "epochs": 2}


def history(found):
    return [{key: epoch[key] for key in ("loss", "accuracy", "valid_loss", "vertices", "bytes")} for epoch in found.history]


@pytest.mark.parametrize("model", ["sage", "gcn"])
def test_train_on_several_devices(data, model):
    """A round of one batch is training as on one device, to the bit; others are the same on any number of devices."""
    plain = train(data, model, **SMALL, device="cpu")
    one = train(data, model, **SMALL, devices=["cpu"] * 3, round=1)
    assert same(plain.model.state_dict(), one.model.state_dict()) and history(plain) == history(one)
    assert plain.test == one.test and plain.roles is None and len(one.roles.devices) == 3
    assert one.history[0]["stages"].keys() == plain.history[0]["stages"].keys()
    two = train(data, model, **SMALL, devices=["cpu"] * 2)
    three = train(data, model, **SMALL, devices=["cpu"] * 3, round=2)
    assert two.roles.round == 2 and same(two.model.state_dict(), three.model.state_dict()) and history(two) == history(three)


@pytest.mark.parametrize("cache, gpu_budget", [("auto", "90%"), ("presample", "22KiB"), (None, "22KiB"), ("22KiB", None)])
def test_train_on_several_devices_with_caches(data, cache, gpu_budget):
    plain = train(data, **SMALL, devices=["cpu"] * 2)
    found = train(data, **SMALL, devices=["cpu"] * 2, cache=cache, gpu_budget=gpu_budget)
    assert same(plain.model.state_dict(), found.model.state_dict()) and history(plain) == history(found)
    assert plain.cache is None and plain.test == found.test
    assert found.cache.policy == ("presample" if cache == "presample" else "auto")
    assert found.cache.split.rows > 0 and found.cache.split.adjacency_bytes == 0  # the first one trains


def test_a_resumed_run_is_the_run(data, tmp_path, monkeypatch):
    """Stopped inside the second epoch, and gone on with on another number of devices."""
    options = {**SMALL, "round": 2, "checkpoint_every": 3}
    whole = train(data, **options, devices=["cpu"] * 2, checkpoint=tmp_path / "whole.pt")
    steps, step = itertools.count(), torch.optim.Adam.step

    def counted(*arguments, **named):
        if next(steps) == 8:
            raise ZeroDivisionError
        return step(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(torch.optim.Adam, "step", counted)
        with pytest.raises(ZeroDivisionError):
            train(data, **options, devices=["cpu"] * 2, checkpoint=tmp_path / "parts.pt")
    assert checkpoints.load(tmp_path / "parts.pt")["loader"]["delivered"] == 6
    resumed = train(data, **options, devices=["cpu"] * 3, checkpoint=tmp_path / "parts.pt", resume=True)
    assert same(resumed.model.state_dict(), whole.model.state_dict()) and history(resumed) == history(whole)
    with pytest.raises(ConfigError, match="was saved with round=2, but this run has 3"):
        train(data, **{**options, "round": 3}, devices=["cpu"] * 2, checkpoint=tmp_path / "parts.pt", resume=True)


# GPUs


IN_DOUBLES = {"round": 2, "norm": False, "dtype": torch.float64}  # sums differ by rounding; dropout draws other numbers
TWO = pytest.mark.skipif("torch.cuda.device_count() < 2", reason="needs 2 GPUs")


@pytest.mark.gpu
@pytest.mark.parametrize(
    "gpus, samplers", [([0], None), pytest.param([0, 1], 1, marks=TWO), pytest.param([0, 1], None, marks=TWO), ([0, 0, 0], 1)]
)
def test_gpus_train_as_the_cpu_does(data, gpus, samplers):
    """Also in several roles of one: memory that one of its streams frees is not another's before it is done."""
    losses, state = trained(made(data, ["cpu"], **IN_DOUBLES), epochs=5)
    factored = made(data, [f"cuda:{i}" for i in gpus], samplers=samplers, **IN_DOUBLES)
    other_losses, other = trained(factored, epochs=5)
    assert torch.allclose(losses, other_losses.cpu(), rtol=1e-5)
    assert all(torch.allclose(state[name], value.cpu(), rtol=1e-4, atol=1e-6) for name, value in other.items())


@pytest.mark.gpu
@pytest.mark.parametrize("cache", ["auto", "clock"])
def test_on_gpus_each_role_has_its_cache(data, cache):
    """Also two roles of one GPU."""
    gpus = ["cuda:0", f"cuda:{torch.cuda.device_count() - 1}"]
    losses, _ = trained(made(data, ["cpu"], **IN_DOUBLES))
    factored = made(data, gpus, samplers=1, cache=cache, gpu_budget="22KiB", **IN_DOUBLES)
    other_losses, _ = trained(factored)
    assert torch.allclose(losses, other_losses.cpu(), rtol=1e-5)
    (trainer, _, _), (sampler, _, lists) = kept(factored)
    assert (lists > 0) == (cache == "auto") and max(trainer.split.held, sampler.split.held) <= 22 << 10


@pytest.mark.gpu
@TWO
def test_on_gpus_a_role_shares_its_rows(data):
    """Rows are dealt over both, within the budget of each."""
    losses, _ = trained(made(data, ["cpu"], **IN_DOUBLES))
    factored = made(data, ["cuda:0", "cuda:1"], samplers=1, cache="features", gpu_budget="12KiB", **IN_DOUBLES)
    other_losses, _ = trained(factored)
    assert torch.allclose(losses, other_losses.cpu(), rtol=1e-5)
    (plan, rows, _), (other, others, _) = kept(factored)
    assert plan is other and rows == others == plan.split.rows and plan.split.dealt_rows > 0
    assert max(factored._readers[0].features.held.values()) <= plan.budget


@pytest.mark.gpu
@TWO
def test_two_gpus_read_one_tiered_table(data):
    gpus = ["cuda:0", "cuda:1"]
    losses, _ = trained(made(data, gpus, **IN_DOUBLES))
    with data.features.tiered(local="8KiB", peers="8KiB", devices=gpus) as table:
        factored = made(data, gpus, **IN_DOUBLES)
        factored.loader.features = table
        tiered, _ = trained(factored)
    assert torch.allclose(losses, tiered, rtol=1e-6)
