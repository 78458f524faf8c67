"""What Python does with bare devices in a virtual machine (test_nvme.py): arrays on them, and a store whose threads drive one.
The arguments are the addresses of a device with blocks of 512 bytes, of one with 4096, and of a slow one."""

import sys
import time

import torch

import hinterland as hl
from hinterland.runtime.errors import StorageError
from hinterland.storage.driven import DrivenDevice, drivable
from hinterland.storage.on_device import Backing, DeviceStore
from hinterland_papers.bam.elements import read_elements, write_elements

PLAIN, SMALL, SLOW = (f"nvme:{address}" for address in sys.argv[1:])
CPU, TYPE = torch.device("cpu"), torch.int32
ROWS, FIRST = 4000, 4096
began = time.monotonic()


def passed(what: str) -> None:
    print(f"{what}: {time.monotonic() - began:.1f} s since the beginning", flush=True)


def rows_of(name: str) -> torch.Tensor:
    """Of the whole device, by an array that has nothing of it."""
    with hl.StorageArray.open(name, dtype=TYPE, shape=(-1, 64), host_budget="1MiB") as a:
        return a[torch.arange(ROWS)]


def written(name: str) -> torch.Tensor:
    """Rows that an array wrote, and another has read."""
    rows = torch.randint(-(2**31), 2**31, (ROWS, 64), generator=torch.Generator().manual_seed(1)).to(TYPE)
    with hl.StorageArray.open(name, mode="r+", dtype=TYPE, shape=(ROWS, 64), host_budget="1MiB") as a:
        a[:] = rows
        a.flush()
    assert torch.equal(rows_of(name), rows)
    return rows.flatten()


def driven(name: str, x: torch.Tensor, forwards: bool, line_bytes: int, **queues: int) -> None:
    """Threads of the CPU are lanes: they write the doorbells, or words that a thread forwards."""
    device = drivable(name, line_bytes)
    assert device is not None
    serves = DrivenDevice(Backing(path=name), device, "r+", forwards)
    store = DeviceStore(serves, CPU, 10 * 8 * (line_bytes + 16), line_bytes, **queues)
    held, words = x[FIRST // 4 :], store.array(FIRST)  # what is at byte 0 is no array's
    at = torch.randperm(len(held), generator=torch.Generator().manual_seed(2))[:1000]
    with store.live():
        found, _ = read_elements(words, len(held), TYPE, CPU, at, len(at))
        in_order, _ = read_elements(words, len(held), TYPE, CPU, None, len(held))
    assert torch.equal(found, held[at]) and torch.equal(in_order, held)
    held[at] = torch.arange(1000, dtype=TYPE)
    with store.live():
        write_elements(words, len(held), TYPE, CPU, at, len(at), torch.arange(1000, dtype=TYPE))
    store.flush()
    assert torch.equal(rows_of(name).flatten(), x)
    assert store.counts()["reads"] >= x.nbytes // line_bytes - 8 and store.counts()["writes"] > 10
    assert ("forwarded" in repr(serves)) == forwards and bool(serves.served()) == forwards
    store.close()
    passed(f"{name}, lines of {line_bytes} bytes, doorbells {'forwarded' if forwards else 'written'}")


def late() -> None:
    """A device that does not answer in time, nor aborts (QEMU 7.2 does not): the kernel ends, and the next one finds empty
    queues."""
    store = DeviceStore(Backing(path=SLOW), CPU, "1MiB", channels=2, depth=16, timeout=0.4)
    assert isinstance(store.controller, DrivenDevice)
    reopen, reopened = store.controller.reopen, []
    store.controller.reopen = lambda: reopened.append(reopen())
    try:
        with store.live():
            read_elements(store.array(FIRST), 40_000, TYPE, CPU, None, 40_000)
        raise AssertionError("it was fast")
    except StorageError as error:
        assert "was not answered in time" in str(error) or store.controller.aborted, str(error)
    for _ in range(20):  # until it is as fast as it was at first
        time.sleep(1)
        try:
            with store.live():
                found, _ = read_elements(store.array(FIRST), 100, TYPE, CPU, None, 100)
            break
        except StorageError:
            passed("late again")
    assert (reopened or store.controller.aborted) and not found.any()
    passed(f"late, {store.controller.aborted} aborted")
    store.close()


x = written(PLAIN)
passed("arrays")
for forwards in (False, True):
    driven(PLAIN, x, forwards, 512, channels=2, depth=64)
    driven(PLAIN, x, forwards, 4096, channels=8, depth=8)
    driven(PLAIN, x, forwards, 16384, depth=4)
driven(SMALL, written(SMALL), False, 8192)
assert drivable(SMALL, 16384) is None, "commands of 8 KiB at most"
served = DeviceStore(Backing(path=SMALL), CPU, "1MiB", 16384, threads=1)
assert not isinstance(served.controller, DrivenDevice)
served.close()
late()
