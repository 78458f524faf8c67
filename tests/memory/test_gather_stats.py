"""``stats=`` of gathers and scatters: what was moved, counted by another way than the meter of ``count``."""

from collections import Counter

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import UnifiedTensor
from hinterland.memory.count import SIZES, count_rows
from hinterland.runtime.errors import ConfigError, IndexOutOfRange


def sizes_of(begin, row_bytes):
    """The requests of one row, line by line."""
    found = Counter()
    for line in range(begin // 128, (begin + row_bytes - 1) // 128 + 1):
        first, last = max(begin, 128 * line), min(begin + row_bytes, 128 * line + 128) - 1
        found[str(32 * (last // 32 - first // 32 + 1))] += 1
    return found


@pytest.mark.parametrize("row_bytes", [1, 31, 100, 128, 160, 1000])
def test_requests_by_size_line_by_line(row_bytes):
    base, rows = 4096 + 52, torch.randint(0, 500, (300,))
    expected = sum((sizes_of(base + row * row_bytes, row_bytes) for row in rows.tolist()), Counter())
    found = count_rows(base, 500, row_bytes, rows)  # no row is read
    assert found.requests == {str(size): expected[str(size)] for size in SIZES}
    for none in (count_rows(base, 500, row_bytes, rows[:0]), count_rows(base, 500, 0, rows)):
        assert set(none.requests.values()) == {0}


def check(stats, table, rows, device):
    """What holds of the stats of any table."""
    tiers = stats["tiers"]
    assert stats["device"] == str(device) and stats["seconds"] > 0 and stats["rows"] == rows
    assert sum(tier["hits"] for tier in tiers.values()) == rows
    assert sum(int(size) * count for size, count in stats["requests"].items()) == tiers["host"]["bytes"]
    assert sum(stats["requests"].values()) == tiers["host"]["requests"]
    away = [tiers[tier] for tier in ("host", "storage") if tier in tiers]
    assert stats["bytes"] == sum(tier["bytes"] for tier in away)
    assert stats["useful_bytes"] == sum(tier["hits"] for tier in away) * table.row_bytes
    assert stats["amplification"] == (stats["bytes"] / stats["useful_bytes"] if stats["useful_bytes"] else 1)
    assert stats["cached"] == tiers["local"]["bytes"] + tiers["peers"]["bytes"]
    assert (stats["link"] is None) == (device.type == "cpu" or not tiers["host"]["bytes"])
    assert stats["link"] is None or stats["link"]["bytes"] == tiers["host"]["bytes"]


@pytest.mark.parametrize("columns", [25, 32, 0])
@pytest.mark.parametrize("kind", ["unified", "tiered", "cached"])
def test_of_tables_in_memory(device, kind, columns):
    t = torch.randn(1000, columns)
    u = UnifiedTensor.from_tensor(t)
    there = "cpu" if device.type == "cpu" else device
    order = torch.randperm(1000)
    table = {
        "unified": lambda: u,
        "tiered": lambda: u.tiered(300 * t[0].nbytes + 4000, devices=[there], order=order),
        "cached": lambda: u.cached("40KiB", device=there),
    }[kind]()
    index = torch.randint(-1000, 1000, (30, 20), device=device)
    for _ in range(2):
        stats, out = {}, torch.empty(30, 20, columns, device=device)
        expected = table.count(index).tiers
        assert table.gather(index, out=out, max_blocks=8, stats=stats) is out
        assert torch.equal(out.cpu(), t[index.cpu()])
        check(stats, table, 600, device)
        assert stats["tiers"] == expected and stats["storage"] is None
    assert kind == "unified" or not columns or stats["cached"]
    if kind == "cached":
        return
    stats = {"epoch": 1}
    rows = torch.randperm(1000, device=device)[:50]
    assert table.scatter_(rows, torch.ones(50, columns, device=device), stats=stats) is table
    check(stats, table, 50, device)
    assert stats["epoch"] == 1 and torch.equal(table[rows].cpu(), torch.ones(50, columns))
    with pytest.raises(IndexOutOfRange):
        table.gather(torch.tensor([1000], device=device), stats={})
    for call in (lambda: table.gather(rows, stats=True), lambda: table.scatter_(rows, table[rows], stats=[])):
        with pytest.raises(ConfigError, match="is no dict, which is filled"):
            call()


@pytest.mark.parametrize("tiered", [False, True])
def test_of_tables_in_files(device, tmp_path, tiered):
    t = torch.randn(2000, 16)
    np.save(tmp_path / "x.npy", t.numpy())
    table = hl.StorageArray.open(tmp_path / "x.npy", mode="r+", host_budget="1MiB")
    if tiered:
        there = "cpu" if device.type == "cpu" else device
        table = table.tiered("20KiB", host="20KiB", order=torch.randperm(2000), devices=[there])
    index = torch.randint(0, 2000, (700,), device=device)
    stats = {}
    assert torch.equal(table.gather(index, stats=stats).cpu(), t[index.cpu()])
    check(stats, table, 700, device)
    assert stats["storage"]["hits"] + stats["storage"]["misses"] > 0 and stats["amplification"] > 1
    assert (
        tiered or t.nbytes // 2 < stats["storage"]["bytes"] <= 4096 * stats["storage"]["requests"]
    )  # tiers have read it all before
    assert bool(sum(stats["requests"].values())) == bool(stats["cached"]) == tiered
    rows = torch.arange(5, device=device)
    table.scatter_(rows, torch.zeros(5, 16, device=device), stats=stats)
    check(stats, table, 5, device)
    assert not table[rows].any()
