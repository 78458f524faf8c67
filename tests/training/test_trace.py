"""Timelines of training, as viewers read them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from hinterland.runtime.errors import ConfigError, StorageError
from hinterland.training import train

SMALL = {"fanouts": (4, 3), "hidden": 32, "epochs": 2, "seed": 3}

pytestmark = pytest.mark.usefixtures("one_thread")


def events(path):
    return [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]


@pytest.mark.parametrize("batch_size, steps", [(4, 20), (8, 15), (240, 1)])
def test_stages_are_named_and_timed(dataset, device, tmp_path, batch_size, steps):
    """60 steps an epoch, or 30, or 1: the stages run ahead of the model, so that at the end there are fewer of them."""
    train(dataset, **SMALL, device=device, batch_size=batch_size, trace=tmp_path / "t.json")
    found = events(tmp_path / "t.json")
    annotated = Counter(event["name"] for event in found if event["cat"] == "user_annotation")
    assert annotated["train"] == steps
    for stage in ("sample", "gather"):
        assert annotated[stage] == pytest.approx(steps, abs=7)
    assert all(event["dur"] > 0 for event in found if event["name"] == "train")
    if device.type == "cuda":
        kernels = [event for event in found if event["cat"] == "kernel"]
        assert len({event["args"]["stream"] for event in kernels}) >= (3 if steps > 1 else 1)


def test_training_is_as_without(dataset, tmp_path):
    options = {**SMALL, "device": "cpu", "batch_size": 8}
    one, other = train(dataset, **options), train(dataset, **options, trace=tmp_path / "t.json")
    assert [e["loss"] for e in one.history] == [e["loss"] for e in other.history] and one.test == other.test


def test_several_devices(dataset, tmp_path):
    train(dataset, **SMALL, devices=["cpu", "cpu"], batch_size=4, trace=tmp_path / "t.json")
    assert {"sample", "gather", "train"} <= {event["name"] for event in events(tmp_path / "t.json")}


def test_a_checkpoint_is_not_written_over(dataset, tmp_path):
    path = tmp_path / "c.pt"
    train(dataset, **SMALL, device="cpu", checkpoint=path)
    kept = path.read_bytes()
    with pytest.raises(ConfigError, match="place of the checkpoint and of the trace; name another file"):
        train(dataset, **{**SMALL, "epochs": 3}, device="cpu", checkpoint=path, resume=True, trace=tmp_path / "." / "c.pt")
    assert path.read_bytes() == kept


def test_where_nothing_can_be_written_no_step_is_made(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: pytest.fail("it trained"))
    with pytest.raises(StorageError, match="nowhere.* make the folder"):
        train(dataset, **SMALL, device="cpu", trace=tmp_path / "nowhere" / "t.json")


def test_a_full_disk_is_told(dataset, tmp_path, monkeypatch):
    """Torch's profiler itself leaves half a file, and says nothing."""

    def cut(self, path):
        Path(path).write_text('{"traceEvents": [{"ph"')

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", cut)
    with pytest.raises(StorageError, match="t.json: torch's profiler could not write its trace .*TMPDIR"):
        train(dataset, **SMALL, device="cpu", batch_size=8, trace=tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()
