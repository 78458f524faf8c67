"""What binds an epoch, from what it has measured."""

from __future__ import annotations

import pytest

from hinterland.training import train
from hinterland.training.binding import binds
from hinterland.training.epoch_line import epoch_line

LINK = {"bytes": 1 << 30, "bandwidth": 5e10, "ceiling": 5.6e10, "share": 0.9}
FEW = {"sample": 0.1, "gather": 0.5, "train": 0.6, "wait": 0.4}
MUCH = {**FEW, "gather": 0.95}


def stored(cpu_seconds, count=1 << 30):
    return {"bytes": count, "cpu_seconds": cpu_seconds}


@pytest.mark.parametrize(
    "stages, given, expected",
    [
        (MUCH, {"launched": True, "idle": 0.0, "link": LINK}, "link: gather was at work 95% of the time"),
        (MUCH, {"launched": True, "idle": 1.0, "link": LINK}, "link: gather was at work 95% of the time"),
        (MUCH, {"launched": True, "idle": 0.0}, "GPU: gather was at work 95% of the time"),
        ({**FEW, "sample": 0.9}, {"launched": True, "idle": 0.0}, "GPU: sample was at work 90% of the time"),
        (
            FEW,
            {"launched": True, "idle": 0.1, "link": LINK},
            "GPU: it had a step to do while 90% of the next ones were launched",
        ),
        (FEW, {"launched": True, "idle": 0.9, "link": LINK}, "CPU: the GPU had nothing left to do before 90% of the steps"),
        (MUCH, {"launched": False, "idle": 1.0, "storage": stored(0.1)}, "disk: gather was at work 95% of the time"),
        (MUCH, {"launched": False, "idle": 1.0, "storage": stored(0.9)}, "CPU: gather was at work 95% of the time"),
        (MUCH, {"launched": False, "idle": None, "storage": stored(0.0, 0)}, "CPU: gather was at work 95% of the time"),
        (MUCH, {"launched": False, "idle": None}, "CPU: gather was at work 95% of the time"),
        (FEW, {"launched": False, "idle": None}, "CPU: it trained 60% of the time"),
        ({"train": 1.0}, {"launched": False, "idle": None}, "CPU: it trained 100% of the time"),
    ],
)
def test_what_is_at_work_always_binds(stages, given, expected):
    epoch = {"stages": stages, "seconds": 1.0, "link": given.pop("link", None), "storage": given.pop("storage", None)}
    assert binds(epoch, **given) == expected


def test_an_epoch_says_what_binds_it(dataset, device):
    options = {"fanouts": (4, 3), "batch_size": 8, "hidden": 32, "epochs": 1}
    (epoch,) = train(dataset, **options, device=device).history
    assert epoch["binds"].split(": ")[0] in ({"CPU"} if device.type == "cpu" else {"CPU", "GPU", "link"})
    assert epoch_line(epoch).endswith(f"; bound by {epoch['binds']}")
    (epoch,) = train(dataset, **options, devices=[device, device]).history
    assert epoch["binds"] is None and "bound by" not in epoch_line(epoch)
