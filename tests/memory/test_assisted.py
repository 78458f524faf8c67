"""Rows that the CPU packs for a GPU: what needs no GPU to be shown."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hinterland import UnifiedTensor, _core
from hinterland.machine import HelpPoint
from hinterland.memory import help_plan as planning
from hinterland.memory.assisted import HelpedTable, split
from hinterland.memory.help_plan import WALK_BYTES, Help, plan_help
from hinterland.runtime.errors import ConfigError
from hinterland.runtime.thresholds import HELP_PAUSE, LONGEST_PAUSE

from ..driver import through_driver

_GIB = 1 << 30


def test_parts_are_sent_once_their_numbers_are_there_and_overwritten_once_they_are_copied(tmp_path):
    said = through_driver(Path(__file__).with_name("sent_rows.py"), tmp_path)
    assert said == "CUDA could not copy rows to a GPU: CUDA_ERROR_INVALID_VALUE\n"


def rates(walks=18e6, packs=40e6, payload=1e-9):
    return SimpleNamespace(walks=walks, packs=packs, payload=payload)


def dealt_out(numbers, table, plan):
    """What split promises, row by row: keys to order positions by, and the GPU's count."""
    rows = np.where(numbers < 0, numbers + table.rows, numbers)
    wrong, managed = (rows < 0) | (rows >= table.rows), (rows >= 0) & (rows < table.managed)
    block = rows * table.row_bytes // WALK_BYTES
    beside = ~wrong & ~managed
    crowd = np.array([np.sum(block[beside] == b) for b in block])
    crowd = np.where(wrong, 0, np.where(managed, len(numbers) + 1, crowd))
    best, taken = np.sort(crowd)[::-1], 0
    seconds = 0.0
    for taken_now, size in enumerate(best, 1):
        seconds += math.inf if size == 0 else max(plan.payload, 0 if size > len(numbers) else 1 / (size * plan.walks))
        if seconds <= (len(numbers) - taken_now) / plan.packs or size > len(numbers):
            taken = taken_now
    return crowd, taken


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("packs", [1e5, 40e6, 1e12])
@pytest.mark.parametrize("managed", [0, 700])
def test_the_gpu_takes_managed_rows_and_those_that_share_walks(dtype, packs, managed):
    table, plan = HelpedTable(0, 5000, 2048, managed), rates(packs=packs)
    numbers = np.random.default_rng(1).integers(-5010, 5010, 400)
    order, count = split(torch.from_numpy(numbers).to(dtype), table, plan)
    crowd, taken = dealt_out(numbers, table, plan)
    assert sorted(order.tolist()) == list(range(400))
    assert np.all(np.diff(crowd[order.numpy()]) >= 0)
    assert abs(count - taken) <= 1  # sums of seconds are rounded
    assert (count == 0) == (taken == 0)


def test_the_cpu_takes_bad_numbers_and_all_where_it_is_endlessly_fast():
    order, count = split(torch.tensor([3, 99, -1, 0]), HelpedTable(0, 10, 64), rates(packs=1e-3))
    assert order[0] == 1 and count == 3
    assert split(torch.tensor([3, 1, -1, 0]), HelpedTable(0, 10, 64), rates(packs=1e30))[1] == 0
    assert split(torch.tensor([], dtype=torch.int64), HelpedTable(0, 10, 64), rates())[1] == 0


@pytest.fixture
def unmeasured(monkeypatch):
    for name in ("hinterland.memory.help_plan.load", "hinterland.memory.plan.load"):
        monkeypatch.setattr(name, lambda: None)
    monkeypatch.setattr(_core, "num_threads", lambda: 16)


@pytest.mark.parametrize(
    ("placement", "rows", "row_bytes", "managed", "by"),
    [
        ("pinned", 1 << 20, 64, 0, "cpu"),
        ("pinned", 1 << 20, 128, 0, "cpu"),
        ("pinned", 1 << 20, 512, 0, "both"),
        ("pinned", 1 << 20, 1024, 0, "both"),
        ("pinned", 1 << 20, 2048, 0, "gpu"),  # sorted, rows share walks enough
        ("pinned", 1 << 20, 4096, 0, "gpu"),  # fills the link
        ("pinned", 1 << 10, 64, 0, "gpu"),
        ("managed", 1 << 20, 64, 96 * _GIB, "gpu"),
        ("split", 1 << 20, 64, 8 * _GIB, "cpu"),
        ("split", 1 << 20, 128, 8 * _GIB, "both"),
        ("split", 1 << 20, 512, 8 * _GIB, "both"),
        ("split", 1 << 20, 128, 48 * _GIB, "both"),
        ("split", 1 << 20, 128, 95 * _GIB, "gpu"),
        ("pageable", 1, 64, 0, "cpu"),
    ],
)
def test_the_way_is_the_fastest_that_is_known(unmeasured, placement, rows, row_bytes, managed, by):
    plan = plan_help(placement, rows, row_bytes, 96 * _GIB, managed)
    assert plan.by == by, plan
    assert {"gpu": "GPU alone", "cpu": "the CPU on 16 threads", "both": "at once on 16 threads"}[by] in plan.explain()


def test_few_cores_help_less(unmeasured, monkeypatch):
    many = plan_help("pinned", 1 << 20, 128, 96 * _GIB)
    monkeypatch.setattr(_core, "num_threads", lambda: 2)
    few = plan_help("pinned", 1 << 20, 128, 96 * _GIB)
    assert few.packs == pytest.approx(many.packs / 8)
    assert plan_help("pinned", 1 << 20, 1024, 96 * _GIB).by == "gpu"


def test_what_it_takes_to_begin_is_hidden_behind_earlier_gathers(unmeasured):
    waited, ahead = (planning.planned("pinned", 200_000, 512, 16 * _GIB, 0, threads=12, ahead=ahead) for ahead in (False, True))
    assert ahead.both < waited.both and ahead.cpu < waited.cpu
    assert 0 < ahead.share < 1 and (1 - ahead.share) * 200_000 / ahead.packs == pytest.approx(ahead.both)


@pytest.mark.parametrize(("row_bytes", "gib", "by"), [(512, 16, "gpu"), (512, 96, "both"), (128, 96, "cpu"), (64, 96, "cpu")])
def test_training_is_helped_only_where_the_gpu_takes_twice_as_long(unmeasured, row_bytes, gib, by):
    plan = planning.planned("pinned", 200_000, row_bytes, gib * _GIB, 0, threads=15, ahead=True)
    assert plan.by == by and (min(plan.cpu, plan.both) < plan.gpu / 2) == (by != "gpu")


def test_the_gpus_share_has_managed_rows_in_it(unmeasured):
    shares = [plan_help("split", 1 << 20, 512, 96 * _GIB, managed * _GIB).share for managed in (0, 8, 90)]
    assert 0 < shares[0] < shares[1] < shares[2] <= 1 and shares[2] >= 90 / 96


@pytest.fixture
def clock(unmeasured, monkeypatch):
    """Seconds, which tests add to."""
    now = [1000.0]
    monkeypatch.setattr(planning, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def gathered(table, pace, seconds=1e-3):
    """Whether a gather of a million rows is helped; the CPU then packs ``pace`` of what is known of it, in so many seconds."""
    plan = table.plan(1 << 20, 16)
    if plan is not None:
        table.learn(plan, 1 << 20, plan.packs / plan.pace * pace, seconds)
    return plan is not None


def test_a_cpu_that_is_slow_is_tried_more_and_more_seldom(clock):
    table, tried = Help("pinned", 128, 16 * _GIB, 0), []
    for _ in range(4000):
        tried += [clock[0]] if gathered(table, 0.1) else []
        clock[0] += 0.1
    pauses = np.diff(tried)
    wanted = [HELP_PAUSE, 2 * HELP_PAUSE, 4 * HELP_PAUSE]
    assert np.allclose(pauses[:3], wanted, atol=0.3) and max(pauses) == pytest.approx(LONGEST_PAUSE, abs=0.3)
    clock[0] += LONGEST_PAUSE
    assert all(gathered(table, 1.0) for _ in range(5))
    assert gathered(table, 0.1) and not gathered(table, 1.0)
    clock[0] += 1.1 * HELP_PAUSE  # no longer than the first
    assert gathered(table, 1.0) and gathered(table, 1.0)


def test_what_ends_in_a_pause_is_not_learnt(clock):
    table = Help("pinned", 128, 16 * _GIB, 0)
    late = table.plan(1 << 20, 16)
    assert gathered(table, 0.1) and not gathered(table, 1.0)
    table.learn(late, 1 << 20, late.packs / 10)
    clock[0] += 1.1 * HELP_PAUSE
    assert gathered(table, 1.0) and gathered(table, 1.0)


def test_the_share_follows_the_pace(clock):
    table = Help("pinned", 128, 96 * _GIB, 0)
    shares = []
    for pace in (1.0, 1.0, 0.7, 1.5, 1.0):
        shares.append(table.plan(1 << 20, 16, ahead=True).share)
        assert gathered(table, pace)
    assert shares[1] == shares[0] < shares[3] and shares[4] < shares[0]


def test_a_whole_that_takes_longer_than_the_gpu_ends_in_a_pause(clock):
    table = Help("pinned", 128, 16 * _GIB, 0)
    gpu = table.plan(1 << 20, 16).gpu
    assert gathered(table, 1.0, 100.0)  # the first compiles kernels
    assert gathered(table, 1.0, 0.9 * gpu) and gathered(table, 1.0, 1.1 * gpu) and not gathered(table, 1.0)
    clock[0] += 1.1 * HELP_PAUSE
    assert gathered(table, 1.0, 1.1 * gpu) and not gathered(table, 1.0)
    clock[0] += 1.1 * HELP_PAUSE
    assert not gathered(table, 1.0)


def test_help_goes_on_as_long_as_it_does_no_harm(clock):
    table = Help("pinned", 128, 16 * _GIB, 0)
    assert all(gathered(table, 0.85) for _ in range(3))
    assert table.plan(1000, 16) is None and table.plan(1 << 20, 1) is None  # which says nothing about others
    assert gathered(table, 0.85)


def test_measured_rates_decide(unmeasured, monkeypatch):
    slow = SimpleNamespace(helped=(HelpPoint(_GIB, 64, 2e9, 1e9, 1e9), HelpPoint(_GIB, 1024, 28e9, 4e9, 20e9)))
    monkeypatch.setattr(planning, "link_rate", lambda machine: 51.4e9)
    monkeypatch.setattr(planning, "load", lambda: slow)
    assert plan_help("pinned", 1 << 20, 64, 96 * _GIB).by == "gpu"
    assert plan_help("pinned", 1 << 20, 1024, 96 * _GIB, by="both").by == "both"


@pytest.mark.parametrize("by", ["host", 3, True])
def test_a_way_that_is_none_is_refused(by):
    with pytest.raises(ConfigError, match="none of 'gpu', 'cpu' and 'both'"):
        plan_help("pinned", 1, 64, _GIB, by=by)


def test_on_the_cpu_there_is_one_way():
    table = UnifiedTensor.from_tensor(torch.arange(12.0).view(4, 3))
    assert torch.equal(table.gather([1, -1], by="cpu"), table.cpu()[[1, 3]])
    for by in ("gpu", "both", "neither"):
        with pytest.raises(ConfigError, match=f"by='{by}'"):
            table.gather([1], by=by)
