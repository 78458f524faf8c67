"""train() tells a person at a terminal how it goes, and nobody else."""

from __future__ import annotations

import io
import sys

import pytest
import torch

import hinterland as hl
from hinterland.training import epoch_line, train


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("quiet", [False, True])
def test_epochs_are_told_on_a_terminal(terminal, quiet, monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return terminal

    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    graph = hl.generate("uniform", scale=6, edge_factor=4, seed=1)
    data = hl.datasets.Dataset(
        graph,
        hl.UnifiedTensor.from_tensor(torch.randn(64, 5)),
        torch.arange(64) % 3,
        {"train": torch.arange(40), "valid": torch.arange(40, 64), "test": torch.arange(0)},
        3,
    )
    trained = train(data, fanouts=[3], epochs=2, hidden=4, batch_size=20, device="cpu", **({"on_epoch": None} if quiet else {}))
    told = screen.getvalue().replace("\r", "\n").splitlines()
    lines = [line for line in told if "loss" in line]
    if not terminal or quiet:
        assert not lines
    else:
        for line, epoch in zip(lines, trained.history, strict=True):
            assert f"epoch {epoch['epoch']}: loss {epoch['loss']:.4f}" in line


def test_the_line_of_an_epoch_names_the_link():
    rows = {"local": 0.25, "peers": 0.5, "host": 0.25}
    epoch = {"served": {"batches": 1, "rows": rows, "edges": 0.125}, "link": {"bandwidth": 2.5e10, "share": 0.456}}
    kept = "; kept in GPU memory: 25.0% of rows, 50.0% from other GPUs, 12.5% of edges; link 25.00 GB/s"
    assert epoch_line._served(epoch) == kept + ", 46% of what it can"
    assert epoch_line._served({**epoch, "link": {"bandwidth": 2.5e10, "share": None}}) == kept
    assert epoch_line._served({"served": None, "link": None}) == ""


def test_the_line_of_an_epoch_counts_replays():
    epoch = {"batches": 1200, "replayed": 1190, "overflowed": 0, "padding": 0.0312}
    assert epoch_line._captured(epoch) == "; 1,190 of 1,200 steps replayed, 3.1% of rows padding"
    assert (
        epoch_line._captured({**epoch, "overflowed": 7}) == "; 1,190 of 1,200 steps replayed, 7 too large, 3.1% of rows padding"
    )
    assert epoch_line._captured({**epoch, "replayed": 0}) == ""
