"""``python -m benchmarks gnn`` and ``storage_training``, small: every case runs on a CPU, where captured ones are eager."""

from __future__ import annotations

import argparse

import pytest

pytest.importorskip("benchmarks", reason="the benchmarks are not beside the tests")

from benchmarks import _gnn_shape, gnn, storage_training


def test_a_small_run_gives_all_figures():
    found = gnn.run(argparse.Namespace(small=True, scale=None, shape=None, symmetrize=False))
    assert [(case["case"], case["captured"]) for case in found["cases"]] == [("host", False), ("host", True)]
    for case in found["cases"]:
        assert case["ms_a_batch"] >= case["cpu_ms"] > 0 and case["edges_a_batch"] > case["rows_a_batch"] > gnn.SMALL_BATCH
        assert not case["captured"] or case["padding"] == 0  # a CPU pads nothing
    cases = [f"{cache}, {epoch}" for cache in ("none", "tenth", "auto") for epoch in ("first", "second")]
    assert [epoch["case"] for epoch in found["epochs"]] == cases
    for epoch in found["epochs"]:
        parts = [epoch[f"{stage}_s"] for stage in ("plan", "fill", "capture", "steps")]
        assert epoch["seconds"] == pytest.approx(sum(parts)) and min(parts) >= 0 and epoch["overflowed"] == 0
        plans = epoch["case"] in ("tenth, first", "auto, first")
        assert (epoch["plan_s"] > 0) == (epoch["fill_s"] > 0) == plans
        assert (epoch["cached_bytes"] > 0) == (not epoch["case"].startswith("none"))
    of_shape = argparse.Namespace(shape="papers100M")
    assert gnn.title(of_shape) == "gnn-papers100M" != gnn.title(argparse.Namespace(shape=None)) == "gnn"


def test_messages_both_ways_are_twice_the_edges(monkeypatch):
    monkeypatch.setattr(_gnn_shape, "_epochs", lambda made, device: [])  # another test has them

    def edges(symmetrize: bool) -> int:
        options = argparse.Namespace(small=True, scale=5e-4, shape="papers100M", symmetrize=symmetrize)
        return gnn.run(options)["set"]["edges"]

    assert edges(True) == 2 * edges(False) == 2 * round(1_615_685_872 * 5e-4)


def test_training_from_storage_is_measured_beside_the_disk(tmp_path):
    none = dict.fromkeys(("device", "scale", "host_budget", "batch_size", "batches"))
    found = storage_training.run(argparse.Namespace(small=True, folder=tmp_path, pairs=1, **none))
    assert found["tenth, of disk"]["target"] == 1.2 and list(tmp_path.iterdir()) == []
    for epoch in found["tenth"]:
        assert (
            epoch["times"] == pytest.approx(epoch["seconds"] / epoch["disk_s"])
            and epoch["pages"] > 0 < epoch["predicted_hits"] < 1
        )
