"""What traversals read: requests by size, and how much more than was wanted."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
import torch

import hinterland as hl

from ..graphs import skewed, with_wide_edges
from .cases import RECORDS, call

SIZES = ("32", "64", "96", "128")


def requests_of(begin, end):
    """Those for the bytes [begin, end), line by line."""
    found = Counter()
    for line in range(begin // 128, -(-end // 128)):
        first, last = max(begin, 128 * line) // 32, (min(end, 128 * line + 128) - 1) // 32
        found[str(32 * (last - first + 1))] += 1
    return found


@pytest.mark.parametrize("wide", [False, True])
def test_lists_that_are_read_whole_line_by_line(wide):
    """On a CPU, which reads each list on its own; PageRank over an undirected graph reads all of them."""
    graph = skewed(500, 4000, symmetrize=True)
    graph = with_wide_edges(graph) if wide else graph
    width, offsets = 8 if wide else 4, graph.indptr.tolist()
    base = graph.neighbor_lists.array("indices", torch.device("cpu")).data_ptr()
    lists = [(begin, end) for begin, end in pairwise(offsets) if begin < end]
    expected = sum((requests_of(base + width * begin, base + width * end) for begin, end in lists), Counter())
    stats = hl.pagerank(graph, device="cpu", stats=True).stats
    for level in stats["per_level"]:
        assert level["requests"] == {size: expected[size] for size in SIZES}
        assert level["useful_bytes"] == width * graph.num_edges
        assert level["amplification"] == level["bytes"] / level["useful_bytes"] > 1
    turns = len(stats["per_level"])
    assert stats["requests"] == {size: turns * expected[size] for size in SIZES}


def check(stats):
    """What holds of a run, a search or a level, wherever the lists lie in memory."""
    # PageRank has a GPU keep lists that fit, and reads nothing else.
    away = stats["tiers"]["local" if stats["bytes"] and not stats["tiers"]["host"]["bytes"] else "host"]
    assert set(stats["requests"]) == set(SIZES) and min(stats["requests"].values()) >= 0
    assert sum(int(size) * count for size, count in stats["requests"].items()) == stats["bytes"] == away["bytes"]
    assert sum(stats["requests"].values()) == away["requests"]
    assert stats["amplification"] == (stats["bytes"] / stats["useful_bytes"] if stats["useful_bytes"] else 1)
    for part in (*stats.get("searches", ()), *stats.get("per_level", ())):
        check(part)
    for parts in (stats.get("searches", ()), stats.get("per_level", ())):
        for name in ("bytes", "useful_bytes") if parts else ():
            assert stats[name] == sum(part[name] for part in parts)


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("name", RECORDS)
def test_requests_add_up_to_bytes(name, form, device):
    ends = torch.randint(0, 2000, (2, 20000), generator=torch.Generator().manual_seed(3))
    weights = 1 + torch.arange(20000, dtype=torch.int32) % 9 if RECORDS[name].weights == "needed" else None
    graph = form(hl.from_edges(*ends, weights, num_vertices=2000, symmetrize=True))
    stats = call(RECORDS[name], graph, device=device, stats=True).stats
    assert stats["bytes"] > 0 or stats["cached"] > 0
    check(stats)


def test_each_element_that_is_read_is_wanted(device):
    """Pushing reads all lists, of plain elements each once: with weights of another width than the neighbours."""
    graph = with_wide_edges(skewed(800, 6000, symmetrize=True))
    stats = hl.connected_components(graph, "all-lists", device=device, stats=True).stats
    hits = sum(tier["hits"] for tier in stats["tiers"].values())
    assert stats["cached"] or stats["useful_bytes"] == 8 * hits
    weighted = hl.Graph(graph.indptr, graph.indices, torch.ones(graph.num_edges, dtype=torch.int32), directed=False)
    stats = hl.sssp(weighted, 3, device=device, stats=True).stats
    hits = sum(tier["hits"] for tier in stats["tiers"].values())
    assert stats["cached"] or stats["useful_bytes"] == 4 * hits  # neighbours and weights of four bytes


def test_on_storage_the_disks_bytes_are_amplified(device, tmp_path):
    hl.save_graph(skewed(3000, 40000, symmetrize=True), tmp_path / "g.hl", transpose=True)
    graph = hl.load_graph(tmp_path / "g.hl", "storage", host_budget="64KiB")
    stats = hl.bfs(graph, 7, device=device, stats=True).stats
    assert stats["amplification"] == stats["storage"]["bytes"] / stats["useful_bytes"] > 0
    assert sum(level["useful_bytes"] for level in stats["per_level"]) == stats["useful_bytes"] > 0
