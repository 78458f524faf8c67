"""What a gather reads of each tier: counted by the placement that the gather reads through."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.graph.traversal_stats import COUNTS, TIERS

DEVICES = ["cpu:0", pytest.param("cuda:0", marks=pytest.mark.gpu)]


def read_of(addresses, row_bytes):
    """The sectors' bytes, the lines, and the number of rows that begin at ``addresses``."""
    spans = [(at, at + row_bytes - 1) for at in addresses if row_bytes]
    return {
        "bytes": sum(32 * (last // 32 - first // 32 + 1) for first, last in spans),
        "requests": sum(last // 128 - first // 128 + 1 for first, last in spans),
        "hits": len(addresses),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("columns", [0, 1, 8, 25, 32, 61])  # of 4 bytes
def test_counts_are_those_of_the_rows_addresses(device, columns):
    rows, row_bytes = 3000, 4 * columns
    table = hl.UnifiedTensor.from_tensor(torch.rand(rows, columns))
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(columns))
    index = torch.randint(-rows, rows, (5000,), generator=torch.Generator().manual_seed(1))
    with table.tiered(local=700 * row_bytes + 16 * rows, devices=[device], order=order) as tiered:
        place = torch.empty(rows, dtype=torch.int64)
        place[order] = torch.arange(rows)
        kept = tiered.plan.local_rows if columns else 0
        asked = (index % rows).tolist()
        slots = [int(place[row]) for row in asked if place[row] < kept]  # their memory begins with a line
        base = table.cpu().data_ptr()
        from_host = [base + row * row_bytes for row in asked if place[row] >= kept]
        none = dict.fromkeys(COUNTS, 0)
        there = index.to(device) if device.startswith("cuda") else index
        expected = {"local": read_of([slot * row_bytes for slot in slots], row_bytes), "peers": none}
        assert tiered.count(there).tiers == {**expected, "host": read_of(from_host, row_bytes)}
        assert columns == 0 or len(slots) > 500


def test_rows_of_other_gpus_are_peers():
    table = hl.UnifiedTensor.from_tensor(torch.rand(4096, 32))
    with table.tiered(local=512 * 128, peers=1024 * 128, devices=["cpu:0", "cpu:1", "cpu:2"]) as tiered:
        plan = tiered.plan
        assert plan.local_rows and plan.peer_rows
        counted = tiered.count(range(plan.resident))
        dealt = plan.resident - plan.local_rows
        assert counted.rows == {"local": plan.local_rows + -(-dealt // 3), "peers": dealt - -(-dealt // 3), "host": 0}
        assert counted.tiers["peers"]["bytes"] == 128 * counted.rows["peers"] == 128 * counted.tiers["peers"]["requests"]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_cache_counts_in_the_words_of_a_traversal(device):
    table = hl.UnifiedTensor.from_tensor(torch.rand(2000, 32))
    with table.cached(budget=200_000, device=device) as cached:
        index = torch.arange(0, 2000, 7, device=device)
        assert cached.count(index).rows == {"local": 0, "peers": 0, "host": len(index)}
        cached[index]
        counted = cached.count(index).tiers
        assert tuple(counted) == TIERS
        assert counted["local"] == {"bytes": 128 * len(index), "requests": len(index), "hits": len(index)}
    graph = hl.generate("kronecker", scale=8, device="cpu")
    stats = hl.bfs(graph, int(graph.degrees().argmax()), device="cpu", stats=True).stats
    assert stats["tiers"].keys() == counted.keys() and all(
        stats["tiers"][tier].keys() == counted[tier].keys() for tier in TIERS
    )
