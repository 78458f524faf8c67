"""Models over a process group, with one part in each: the losses of PyG's in one process."""

from __future__ import annotations

import copy
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.nn.nets import EDGES, VERTICES, Net, rows
from tests.nn.test_layers import KINDS, losses, pyg

ROOT = Path(__file__).parents[2]
EPOCHS = 5


@pytest.mark.parametrize("processes", [2, pytest.param(3, marks=pytest.mark.nightly)])
def test_a_model_of_pygs_trains_alike(processes, tmp_path):
    torch.manual_seed(7)
    labels = torch.randint(4, (VERTICES,))
    models = {kind: Net(pyg, kind).double() for kind in KINDS}
    weights = {kind: copy.deepcopy(model.state_dict()) for kind, model in models.items()}
    torch.save({"labels": labels, "weights": weights}, tmp_path / "given.pt")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    above = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes), "PYTHONPATH": above}
    running = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "layer_ranks.py"), str(tmp_path), str(EPOCHS)],
            env={**os.environ, **where, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    said = [process.communicate(timeout=240)[0] for process in running]
    assert [process.returncode for process in running] == [0] * processes, said
    found = torch.load(tmp_path / "0.pt")
    for kind, model in models.items():
        wanted = losses(model, rows(), EDGES, labels, EPOCHS)
        torch.testing.assert_close(found[kind], wanted, rtol=1e-9, atol=0, msg=kind)
