"""Where the rows of a file are put, and that they are the same from there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError
from hinterland.table import TieredStorage


@pytest.fixture
def rows(tmp_path):
    made = torch.randn(500, 16)
    np.save(tmp_path / "x.npy", made.numpy())
    return made


def opened(tmp_path):
    return hl.open_table(tmp_path / "x.npy")


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({}, hl.UnifiedTensor),
        ({"host": "1GiB"}, hl.UnifiedTensor),
        ({"host": 0}, TieredStorage),
        ({"gpu": 4096, "host": 8192}, TieredStorage),
        ({"gpu": 8192}, hl.TieredTensor),
        ({"peers": 8192, "host": 32_000}, hl.TieredTensor),
        ({"gpu": "16KiB", "hot": "recent"}, hl.CachedTensor),
    ],
    ids=str,
)
@pytest.mark.parametrize("scored", [False, True])
def test_rows_are_the_same_wherever_they_are_put(tmp_path, rows, device, asked, kind, scored):
    if scored and "hot" not in asked and kind is not hl.UnifiedTensor:
        asked = {**asked, "hot": torch.rand(500)}
    if asked.keys() & {"gpu", "peers"}:
        asked = {**asked, "devices": ["cpu"] if device.type == "cpu" else [device]}
    table, plan = opened(tmp_path).place(**asked), opened(tmp_path).plan(**asked)
    assert type(table) is kind and (kind is hl.UnifiedTensor or table.plan == plan)
    index = torch.randint(-500, 500, (300,), device=device)
    for _ in range(2):
        assert torch.equal(table[index].cpu(), rows[index.cpu()])
    assert table.explain()


def test_the_hottest_rows_lie_nearest(tmp_path, rows):
    scores = torch.rand(500)
    table = opened(tmp_path).place(gpu=8192, host=8192, hot=scores, devices=["cpu"])
    hottest = scores.argsort(descending=True)
    counted = table.count(hottest).rows
    assert counted["local"] > 50 and counted["host"] == 128 and sum(counted.values()) == 500
    assert table.count(hottest[: counted["local"]]).rows["local"] == counted["local"]


@pytest.mark.parametrize("asked", [{}, {"peers": 1}, {"host": 1}, {"hot": "often"}, {"devices": ["cpu", "cpu"]}], ids=str)
def test_what_does_not_go_together_is_refused(tmp_path, rows, asked):
    with pytest.raises(ConfigError, match="lately|recent"):
        opened(tmp_path).place(**{"gpu": 9000 if asked else None, "hot": "recent", **asked})


@pytest.mark.parametrize("hot", ["recent", None])
def test_devices_that_are_none_are_refused(tmp_path, rows, hot):
    with pytest.raises(ConfigError, match="devices"):
        opened(tmp_path).place(gpu=9000, hot=hot, devices=3.5)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"hot": torch.rand(500)}, "hot="),
        ({"hot": torch.rand(500), "host": "1GiB"}, "hot="),
        ({"devices": ["cpu"]}, "devices="),
        ({"devices": ["cpu"], "host": 4096}, "devices="),
        ({"devices": ["cpu"], "host": 4096, "hot": torch.rand(500)}, "devices="),
    ],
    ids=lambda one: one if isinstance(one, str) else " and ".join(one),
)
def test_what_no_tier_makes_use_of_is_refused(tmp_path, rows, asked, words):
    for call in (opened(tmp_path).place, opened(tmp_path).plan):
        with pytest.raises(ConfigError, match=f"{words}.*say gpu= or peers="):
            call(**asked)


def test_a_plan_reads_and_takes_nothing(tmp_path, rows, nothing_left):
    table, before = opened(tmp_path), hl.memory.report().nbytes
    plan = table.plan(gpu=4096, host=8192, hot=torch.rand(500), devices=["cpu"])
    assert plan.tiers["local"] > 0 and plan.tiers["host"] == 128 and sum(plan.tiers.values()) == 500
    assert "storage" in plan.explain() and table.plan().tiers == {"local": 0, "peers": 0, "host": 500}
    assert "slots" in table.plan(gpu="16KiB", hot="recent", devices="cpu").explain()
    assert table.array.stats().reads == 0 and hl.memory.report().nbytes == before
