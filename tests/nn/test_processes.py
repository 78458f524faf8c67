"""Models over a process group, with one part in each: the losses of PyG's in one process."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from tests.nn.nets import EDGES, VERTICES, Net, rows
from tests.nn.test_layers import KINDS, losses, pyg
from tests.ranks import run_ranks

EPOCHS = 5


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_a_model_of_pygs_trains_alike(processes, tmp_path):
    torch.manual_seed(7)
    labels = torch.randint(4, (VERTICES,))
    models = {kind: Net(pyg, kind).double() for kind in KINDS}
    weights = {kind: copy.deepcopy(model.state_dict()) for kind, model in models.items()}
    torch.save({"labels": labels, "weights": weights}, tmp_path / "given.pt")
    run_ranks(processes, Path(__file__).parent / "layer_ranks.py", tmp_path, EPOCHS)
    found = torch.load(tmp_path / "0.pt")
    for kind, model in models.items():
        wanted = losses(model, rows(), EDGES, labels, EPOCHS)
        torch.testing.assert_close(found[kind], wanted, rtol=1e-9, atol=0, msg=kind)
