"""Files that are no checkpoint of a run say so, whatever they hold."""

from __future__ import annotations

import pytest
import torch

from hinterland import datasets
from hinterland.runtime.errors import ConfigError, FormatError, OutOfMemory
from hinterland.training import checkpoint, make_model, train


def resumed(path):
    shape = datasets.Shape({"node": 100}, {"node": 2}, {("node", "to", "node"): 300}, (50, 9, 9), 2)
    train(datasets.generate(shape), fanouts=(2,), epochs=2, hidden=4, checkpoint=path, resume=True, device="cpu")


def test_a_file_without_content(tmp_path):
    path = tmp_path / "run.pt"
    path.touch()
    with pytest.raises(FormatError, match="is no checkpoint .*; remove it to begin anew"):
        resumed(path)


@pytest.mark.parametrize("wrong", [{}, {"model": {"convs.0.weight": torch.zeros(1)}}, {"history": 3}, {"totals": {"what": 1}}])
def test_a_checkpoint_with_the_wrong_keys(tmp_path, monkeypatch, wrong):
    path = tmp_path / "run.pt"
    saved = []
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save", lambda path, state: saved.append(state))
        resumed(path)
    checkpoint.save(path, {**saved[0], **wrong} if wrong else {"other": 1})
    with pytest.raises(FormatError, match="is no checkpoint .*; remove it to begin anew"):
        resumed(path)


@pytest.mark.parametrize("sizes", [(2, 2**62, 2), (2, 2**40, 2), (2, 4, 2**45)])
def test_a_model_that_no_memory_holds(sizes):
    inputs, hidden, classes = sizes
    with pytest.raises(OutOfMemory, match="host memory asked for"):
        make_model("sage", inputs, hidden, classes, 2)


def test_layers_are_counted(tmp_path):
    with pytest.raises(ConfigError, match="layers are more than"):
        make_model("sage", 2, 4, 2, 2**31)
