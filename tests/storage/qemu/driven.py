"""What a user writes in Python about bare devices, and a store whose threads drive one by themselves: run in a virtual machine
(test_nvme.py). The addresses of a device with blocks of 512 bytes and of one with 4096 are the arguments."""

import sys
import time

import torch

import hinterland as hl
from hinterland import _core
from hinterland.storage.driven import DrivenDevice, drivable
from hinterland.storage.on_device import Backing, DeviceStore
from hinterland_papers.bam.elements import read_elements

PLAIN, SMALL = (f"nvme:{address}" for address in sys.argv[1:])
CPU = torch.device("cpu")
began = time.monotonic()


def passed(what: str) -> None:
    print(f"{what}: {time.monotonic() - began:.1f} s since the beginning", flush=True)


def arrays(name: str) -> torch.Tensor:
    """Rows that are written, flushed, and read by another array."""
    rows = torch.randn(20_000, 64, generator=torch.Generator().manual_seed(1))
    with hl.StorageArray.open(name, mode="r+", dtype=torch.float32, shape=(20_000, 64), host_budget="2MiB") as a:
        a[:] = rows
        a.flush()
    with hl.StorageArray.open(name, dtype=torch.float32, shape=(-1, 64), host_budget="1MiB") as a:
        assert torch.equal(a[torch.arange(20_000)], rows)
        assert a.shape == (_core.bare_device(name).bytes // 256, 64) and a.stats().reads > 1000
    return rows.flatten()


def driven(name: str, x: torch.Tensor, forwards: bool, line_bytes: int, **queues: int) -> None:
    """Threads of the CPU are lanes: they write the doorbells, or words that a thread forwards."""
    device = drivable(name, line_bytes)
    assert device is not None
    serves = DrivenDevice(Backing(path=name), device, forwards=forwards)
    store = DeviceStore(serves, CPU, 40 * 8 * (line_bytes + 16), line_bytes, **queues)
    at = torch.randint(0, len(x) - 1024, (3000,), generator=torch.Generator().manual_seed(2))
    with store.live():
        words = store.array(4096)
        found, _ = read_elements(words, len(x) - 1024, torch.int32, CPU, at, len(at))
        in_order, _ = read_elements(words, len(x) - 1024, torch.int32, CPU, None, len(x) - 1024)
    assert torch.equal(found, x[1024:].view(torch.int32)[at]) and torch.equal(in_order, x[1024:].view(torch.int32))
    assert store.counts()["reads"] > 1000 * 4096 // line_bytes
    assert ("forwarded" in repr(serves)) == forwards and bool(serves.served()) == forwards
    store.close()


x = arrays(PLAIN)
passed("arrays")
for forwards in (False, True):
    for line_bytes, queues in ((512, {"channels": 2, "depth": 64}), (4096, {"channels": 8, "depth": 8}), (16384, {"depth": 4})):
        driven(PLAIN, x, forwards, line_bytes, **queues)
        passed(f"lines of {line_bytes} bytes, doorbells {'forwarded' if forwards else 'written'}")
y = arrays(SMALL)
driven(SMALL, y, False, 8192)
assert drivable(SMALL, 16384) is None, "commands of 8 KiB at most"
store = DeviceStore(Backing(path=SMALL), CPU, "1MiB", 16384, threads=1)
assert not isinstance(store.controller, DrivenDevice)
store.close()
passed("small")
