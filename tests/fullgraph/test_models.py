"""The epochs that benchmarks time: in one process, in parts, and in a process for each part, they train alike."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks import _fullgraph_models
from benchmarks._fullgraph_models import MODELS, captured, models, models_in_processes

SHAPE, CPU = "products:0.0005", torch.device("cpu")


def test_parts_train_alike():
    rows = models(SHAPE, [CPU], [1, 2])
    assert [row["model"] for row in rows] == [model.label for model in MODELS]
    assert all(row["differs 2"] < 1e-5 for row in rows)


def test_captured_epochs_train_alike(device):
    """On the CPU they are not captured."""
    row = captured(SHAPE, [device], [1, 2])
    for count in (1, 2):
        assert row[f"captured loss {count}"] == pytest.approx(row[f"loss {count}"], rel=1e-4)
        assert row[f"replayed {count}"] == (5 if device.type == "cuda" else 0)
        assert min(row[f"{way}{name}{count}"] for way in ("", "captured ") for name in ("", "host ")) > 0


@pytest.mark.nightly  # for every change test_processes.py has processes agree, of other programs
def test_processes_train_alike(monkeypatch):
    monkeypatch.setattr(_fullgraph_models, "MODELS", MODELS[:1])
    (row,) = models_in_processes(SHAPE, [CPU] * 2)
    assert row["differs 2"] < 1e-5 and row["1"] > 0 and row["2"] > 0


@pytest.mark.gpu
def test_processes_of_gpus_train_alike():
    gpus = [torch.device("cuda", i) for i in range(torch.cuda.device_count())]
    if len(gpus) < 2:
        pytest.skip("one GPU alone")
    rows = models_in_processes("products:0.01", gpus)
    assert all(row[f"differs {len(gpus)}"] < 1e-4 for row in rows)
