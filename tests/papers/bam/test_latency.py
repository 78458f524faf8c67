"""The stages of a read add up."""

from __future__ import annotations

import pytest
import torch

from hinterland import _core
from hinterland.storage.on_device import DeviceStore
from hinterland_papers import _core as papers_core
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.latency import time_reads

PAGE = 4096


@pytest.fixture
def stages():
    _core.count_stages(True)
    yield
    _core.count_stages(False)


@pytest.mark.parametrize("timing", ("none", "optane", "nand"))
def test_stages_add_up(device: torch.device, stages, timing: str) -> None:
    held = torch.arange(1 << 16)
    backing = Device(address=held.data_ptr(), bytes=held.nbytes, timing=timing)
    store = DeviceStore(backing, device, "1MiB", channels=1, depth=64, threads=1)
    at = (torch.randperm(100, generator=torch.Generator().manual_seed(1))[:20] * 512).to(device)
    found = time_reads(store, PAGE, at)
    assert store.counts()["reads"] == 20
    assert found.total >= papers_core.TIMINGS[timing][0] and found.device > 0
    assert min(found) >= 0
    parts = sum(found[: found._fields.index("total")])
    assert parts <= found.total  # what is left is the element's own read
    store.close()


def test_stages_are_counted_where_they_are_asked_for(device: torch.device) -> None:
    held = torch.arange(1 << 16)
    store = DeviceStore(Device(address=held.data_ptr(), bytes=held.nbytes), device, "1MiB", channels=1, depth=64, threads=1)
    time_reads(store, PAGE, torch.arange(10, device=device) * 512)
    assert all(one["commands"] == 10 and one["submit_ns"] == one["picked_up_at"] == 0 for one in store.controller.served())
    store.close()
