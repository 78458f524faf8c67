"""Figures 3.14, 3.15 and 4.8 to 4.11: a small run has every row, and its ratios are those of its times."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[3]))
pytest.importorskip("benchmarks", reason="the benchmarks are not beside the tests")

from papers.benchmarks._figures import LEFT_OUT, by_cpu
from papers.benchmarks.min import tiering, training

SETS, WIDTHS, SCORES = ("papers100M", "wikipedia", "amazon"), (128, 256, 512, 1024, 2048, 4096), (0.01, 0.05, 0.1, 0.25, 0.5)


def asked(**more: object) -> argparse.Namespace:
    return argparse.Namespace(small=True, **{"seconds": None, "sets": None, "gpus": 1} | more)


def counted(found: dict) -> dict[str, int]:
    figures = [row["figure"] for row in found["figures"]]
    return {figure: figures.count(figure) for figure in dict.fromkeys(figures)}


def test_training_in_five_places():
    found = json.loads(json.dumps(training.run(asked())))
    assert counted(found) == {"3.14": 7 * len(SETS), "3.15": len(WIDTHS)}
    times = {(case["set"], case["placement"]): case["ms_a_step"] for case in found["cases"]}
    assert {place for _, place in times} >= set(training.PAPERS)
    rows = {row["row"]: row for row in found["figures"]}
    for name in SETS:
        for fast, slow in (("CPU-Only", "DMA-based"), ("Naïve Zero-Copy", "DMA-based"), ("Zero-Copy", "All-in-GPU")):
            row = rows[f"{name}: {fast} on 1 over {slow} on 1"]
            assert row["ours"] == pytest.approx(times[name, slow] / times[name, fast]) and row["why"] is None
        assert rows[f"{name}: Zero-Copy on 2 over DMA-based on 2"]["why"] == "--gpus 2 measures it"
    for columns in WIDTHS:
        where = f"products, {columns} columns"
        ours = rows[f"{where}: Zero-Copy over DMA-based on two GPUs"]["ours"]
        assert ours == pytest.approx(times[where, "DMA-based"] / times[where, "Zero-Copy"])


def test_tiers_by_score():
    found = json.loads(json.dumps(tiering.run(asked())))
    sets = ("papers100M", "WikiKG90M", "MAG240M")
    assert counted(found) == {"4.8": len(sets) * (3 * len(SCORES) + 1), "4.11": 10, "4.9": 6, "4.10": 8}
    rows = {row["row"]: row for row in found["figures"]}
    for name in sets:
        for score in ("degree", "R-Pagerank", "Weighted R-Pagerank"):
            rates = [rows[f"{name}: {score}, fetches that {share:.0%} of the rows serve"]["ours"] for share in SCORES]
            assert rates == sorted(rates) and rates[0] > 0 and rates[-1] <= 1
    over_link = [rows[f"rows over the link with {share}% in the GPU"]["ours"] for share in (5, 10, 15, 20, 25)]
    assert over_link[0] < 1 and over_link == sorted(over_link, reverse=True)
    assert all(row["ours"] is not None or "do not fit" in row["why"] for row in found["figures"])


@pytest.mark.parametrize("script", [training, tiering])
def test_rows_stay_without_time(script):
    found = script.run(asked(seconds=0.0))
    assert all(row["ours"] is None and row["why"] for row in found["figures"]) and not found["cases"]
    assert any(row["why"] == LEFT_OUT for row in found["figures"])


def test_two_processes_measure_two_gpus():
    found = training.run(asked(seconds=8.0, gpus=2))
    assert {case["gpus"] for case in found["cases"]} == {1, 2} and found["cases"][0]["placement"] == "Zero-Copy"
    assert counted(found) == {"3.14": 7 * len(SETS), "3.15": len(WIDTHS)}


@pytest.mark.gpu
@pytest.mark.parametrize("script", [training, tiering])
def test_captured_cases_are_replayed(script, monkeypatch):
    monkeypatch.setattr(script, "SMALL_BATCHES", 14)  # the first 8 give the shape
    cases = script.run(asked())["cases"]
    captured = [case for case in cases if "captured" in case.get("placement", case.get("case")) or case.get("figure") == "4.11"]
    assert captured and all(case["replayed"] > 0 for case in captured)
    assert all(case["replayed"] == 0 for case in cases if case not in captured)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_cpu_gathers(device):
    rows = torch.randn(100, 3)
    index = torch.tensor([5, 99, 0, 5], device=device)
    assert torch.equal(by_cpu(rows, index).cpu(), rows[index.cpu()])
