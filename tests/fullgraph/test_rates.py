"""How long reading should take: by hand, and beside what was measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hinterland.fullgraph import plan, rates
from hinterland.fullgraph.rates import H200, ReadRates, tile_bytes
from hinterland.fullgraph.strategies import COLUMNS

MEASURED = Path(__file__).parents[2] / "benchmarks" / "results" / "fullgraph-nvidia-h200-x4-2026-11-27.json"
BY_HAND = ReadRates(cache=1000.0, cached=100.0, memory=10.0, rows=1.0, entries=50.0, narrow=4.0, wide=8.0, step=0.5)


def test_rows_come_from_the_cache_as_far_as_it_holds_them():
    indices = 4 / 10
    assert BY_HAND.reading(1, 10, 100, 1) == pytest.approx(10 / 100 + indices)  # all of them
    assert BY_HAND.reading(7, 10, 200, 1) == pytest.approx(
        7 * (0.5 * 10 / 100 + 0.5 * 1 + indices)
    )  # half; the rest one by one
    assert BY_HAND.reading(1, 1000, 1000, 1) == pytest.approx(0.001 * 10 + 0.999 * 100 + indices)  # or at the bandwidth
    assert BY_HAND.reading(1, 1, 10, 1) == pytest.approx(1 / 50 + indices)  # no more entries than those
    assert BY_HAND.reading(0, 10, 100, 1) == BY_HAND.reading(3, 0, 100, 1) == 0


def test_long_lists_are_gone_through_by_tiles():
    assert tile_bytes(512, 7, 1000) == 128 and tile_bytes(512, 3, 1000) == 256
    assert tile_bytes(512, 100, 1000) == tile_bytes(512, 1, 1000) == 512  # no tile does, or the row itself
    assert BY_HAND.reading(1, 512, 7, rates.OFTEN) == pytest.approx(4 * (128 / 100) + 4 / 10)
    assert BY_HAND.reading(1, 512, 7, rates.OFTEN - 1) > BY_HAND.reading(1, 512, 7, rates.OFTEN)


def test_peers_are_those_of_the_probe(monkeypatch):
    cuda = torch.device("cuda", 0)
    monkeypatch.setattr(rates, "cache_room", lambda device: 1e6)
    monkeypatch.setattr(rates.cache, "load", lambda: None)
    assert rates.rates_of(cuda).narrow == H200.narrow and rates.rates_of(cuda).cache == 1e6
    peers = [SimpleNamespace(random64=100.0, bandwidth=300.0), SimpleNamespace(random64=200.0, bandwidth=200.0)]
    monkeypatch.setattr(rates.cache, "load", lambda: SimpleNamespace(peers=peers))
    found = rates.rates_of(cuda)
    assert (found.narrow, found.wide) == (pytest.approx(85), pytest.approx(170))
    assert found.fetching(850, 64) == pytest.approx(10) and found.fetching(850, 256) == pytest.approx(5)


def test_predictions_find_what_was_quickest():
    """Of the strategies on four H200, by uniform graphs of one length of lists: the predicted one takes little more than the
    best, and what is left untried is never that."""
    shares = []
    for row in json.loads(MEASURED.read_text())["results"]["crossover"]:
        entries, parts, nbytes = row["vertices"] * row["length"] // 4, 4, 4 * row["width"]
        remote = entries * 3 // 4
        load = plan.Load(entries - remote, remote, round(remote / row["reuse"]), row["vertices"] // parts)
        by = plan._Seconds(H200, nbytes, nbytes, row["vertices"], parts - 1, H200.step * parts)
        ways = {"direct": by.direct, "halo": by.halo, "halo-pipelined": by.halo_pipelined, "all-gather": by.all_gather}
        if nbytes > COLUMNS:
            ways["halo-columns"] = by.halo_columns
        predicted = {name: way(load) for name, way in ways.items()}
        least = min(row[name] for name in ways)
        shares.append(least / row[min(predicted, key=predicted.get)])
        tried = [name for name in ways if predicted[name] <= plan.STRATEGIES_TRIED * min(predicted.values())]
        assert any(row[name] == least for name in tried)
    assert math.fsum(shares) / len(shares) > 0.9
