"""Tables IV to VI and VIII: a small run has every row."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[3]))
pytest.importorskip("benchmarks", reason="the benchmarks are not beside the tests")

from papers.benchmarks._figures import LEFT_OUT
from papers.benchmarks.gnnlab_ducati import ducati, gnnlab
from papers.benchmarks.gnnlab_ducati._sets import make


def run(script, seconds: float | None = None) -> dict[str, dict]:
    found = script.run(argparse.Namespace(small=True, seconds=seconds, sets=None))
    rows = json.loads(json.dumps(found["figures"]))
    assert len({row["row"] for row in rows}) == len(rows)
    return {row["row"]: row for row in rows}


def test_gnnlab_has_every_row():
    rows = run(gnnlab)
    for name in ("PR", "TW", "PA", "UK"):
        for algorithm in ("3-hop random", "random walks", "3-hop weighted"):
            assert 0 < rows[f"{name}: {algorithm}, % alike"]["ours"] <= 100
        assert rows[f"{name}: GB of lists"]["ours"] > 0 and rows[f"{name}: GB of features"]["ours"] > 0
        for model in ("GCN", "GraphSAGE", "PinSAGE"):
            for system, stages in (("DGL", "SET"), ("T_SOTA", "SEHT"), ("GNNLab", "SEHT")):
                assert all(rows[f"{name}, {model}, {system}: {stage}"]["ours"] >= 0 for stage in stages)
    assert rows["PR, GCN, GNNLab: H"]["ours"] == 100
    assert rows["PA, GCN, GNNLab: H"]["ours"] > rows["PA, GCN, T_SOTA: H"]["ours"]
    assert rows["mean but PR: E of GNNLab over T_SOTA"]["ours"] > 0


def test_ducati_has_every_row():
    rows = run(ducati)
    faster: dict[str, list[float]] = {"DGL": [], "SOTA": []}
    for name in ("PA", "UK", "TW", "UU"):
        for setting in ("2,2,2+128", "2,2,2+256", "15,10,5+128", "15,10,5+256"):
            where = f"{name}, {setting}"
            for system, ratios in faster.items():
                ours = [rows[f"{where}: {one}, ms"]["ours"] for one in (system, "DUCATI")]
                assert rows[f"{where}: DUCATI over {system}"]["ours"] == pytest.approx(ours[0] / ours[1])
                ratios.append(ours[0] / ours[1])
    for system, ratios in faster.items():
        assert rows[f"mean of what was measured: DUCATI over {system}"]["ours"] == pytest.approx(sum(ratios) / 16)


@pytest.mark.gpu
def test_steps_with_caches_are_replayed(monkeypatch):
    monkeypatch.setattr(ducati, "SMALL_BATCHES", 14)  # the first 8 give the shape
    cases = ducati.run(argparse.Namespace(small=True, seconds=None, sets=None))["cases"]
    assert len(cases) == 48
    assert all(case["replayed"] > 0 for case in cases if not case["setting"].startswith("TW"))  # which has 5 batches


@pytest.mark.parametrize("system, paper", [("DGL", 2.07), ("SOTA", 1.32)])
def test_the_papers_numbers_are_those_of_its_averages(system, paper):
    ratios = [of[0 if system == "DGL" else 1] / of[2] for table in ducati.TABLE.values() for of in table]
    assert len(ratios) == 16 and sum(ratios) / 16 == pytest.approx(paper, abs=0.02)


@pytest.mark.parametrize("script", [gnnlab, ducati])
def test_rows_stay_without_time(script):
    rows = run(script, seconds=0.0)
    assert all(row["ours"] is None and row["why"] for row in rows.values())
    assert any(row["why"] == LEFT_OUT for row in rows.values())


def test_epochs_are_alike_by_their_hottest_tenth():
    first, second = (torch.randperm(200, generator=torch.Generator().manual_seed(i)).double() for i in (1, 2))
    tops = [dict(sorted(enumerate(counts.tolist()), key=lambda pair: -pair[1])[:20]) for counts in (first, second)]
    shared = sum(min(count, tops[0].get(vertex, 0)) for vertex, count in tops[1].items())
    assert gnnlab.similarity(first, first) == 1
    assert gnnlab.similarity(first, second) == pytest.approx(shared / sum(tops[1].values()))


def test_seeds_by_degree_have_more_neighbours():
    graph, even = make("TW", True, "host")
    _, drawn = make("TW", True, "host", by_degree=True)
    degrees = graph.degrees().cpu().double()
    assert len(drawn.unique()) == len(drawn) == len(even) and degrees[drawn].mean() > degrees[even].mean()
