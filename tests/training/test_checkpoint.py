"""Checkpoints: what is saved is what loads, no damage is taken for it, and other files say that they are none."""

from __future__ import annotations

import os
import zipfile

import pytest
import torch

from hinterland import datasets
from hinterland.runtime.errors import FormatError, OutOfMemory
from hinterland.training import checkpoint, make_model, train

from .test_train import same


@pytest.fixture
def saved(tmp_path):
    """A file with what checkpoints have: tensors of several types, numbers, text, None."""
    state = {
        "model": {"weight": torch.randn(5, 3), "bias": torch.arange(3)},
        "optimizer": {"state": {0: {"step": torch.tensor(7.0)}}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]},
        "history": [{"epoch": 1, "loss": 0.25, "link": None}],
        "config": {"model": "sage", "fanouts": (15, 10)},
    }
    checkpoint.save(tmp_path / "c.pt", state)
    return tmp_path / "c.pt", state


def test_torch_and_zip_read_it_too(saved):
    path, state = saved
    loaded = checkpoint.load(path)
    assert same(loaded, {"version": loaded["version"], **state})
    assert same(torch.load(path, weights_only=True), loaded)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and len(archive.comment) == 16


def test_one_flipped_bit_anywhere_is_found(saved):
    path, _ = saved
    content = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for at in range(len(content)):
            os.pwrite(file.fileno(), bytes([content[at] ^ 1 << at % 8]), at)
            with pytest.raises(FormatError, match=r"c.pt: is no checkpoint .*, or is damaged: .*; remove it to begin anew"):
                checkpoint.load(path)
            os.pwrite(file.fileno(), content[at : at + 1], at)
    assert checkpoint.load(path)["history"]


@pytest.mark.parametrize("change", [lambda c: b"", lambda c: c[:10], lambda c: c[:-1], lambda c: c + b"\0", lambda c: c[16:]])
def test_files_cut_short_or_longer_are_found(saved, change):
    path, _ = saved
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(FormatError, match="is no checkpoint"):
        checkpoint.load(path)


def resumed(path):
    shape = datasets.Shape({"node": 100}, {"node": 2}, {("node", "to", "node"): 300}, (50, 9, 9), 2)
    train(datasets.generate(shape), fanouts=(2,), epochs=2, hidden=4, checkpoint=path, resume=True, device="cpu")


def test_a_checkpoint_that_would_run_code(tmp_path):
    """One whose checksum is right: torch's own advice, to run it all the same, is not given."""

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    checkpoint.save(tmp_path / "run.pt", {"model": Trap()})
    with pytest.raises(FormatError, match=r"run.pt: is no checkpoint \(it holds posix.mkdir, which is neither .*\); remove it"):
        checkpoint.load(tmp_path / "run.pt")
    assert not (tmp_path / "sprung").exists()


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
