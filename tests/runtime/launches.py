"""What test_launch.py runs in a process of its own: launches through the driver of driver.cpp, of which torch is told nothing.

Argument: that driver. Prints as JSON what became of each launch.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import sys
import threading
from types import SimpleNamespace
from typing import Any

DRIVER = ctypes.CDLL(sys.argv[1])  # before torch, so that this is the library that is found under the name libcuda.so.1

import torch  # noqa: E402

from hinterland.runtime import devices  # noqa: E402
from hinterland.runtime.errors import DeviceError  # noqa: E402
from hinterland.runtime.launch import launch  # noqa: E402
from hinterland.runtime.params import struct  # noqa: E402

GPU, OTHER = torch.device("cuda", 0), torch.device("cuda", 1)
PARAMS = struct("graph::BfsParams")(graph=2**64 - 1, source=-3, scratch=5)


class Kernels:
    """Stands for a KernelFile."""

    def kernel(self, instance: str, device: torch.device) -> Any:
        return SimpleNamespace(handle=700 + device.index)


@contextlib.contextmanager
def on(device: torch.device):
    """As torch.cuda.device: a thread that has no context is given none."""
    before = DRIVER.get_device()
    if before >= 0:
        DRIVER.set_device(device.index)
    yield
    if before >= 0:
        DRIVER.set_device(before)


def stand_in() -> None:
    torch.cuda.device = on
    torch._C._cuda_getCurrentRawStream = lambda index: 900 + index
    devices.require_cuda = lambda what: None
    devices.give_context = lambda device: DRIVER.set_device(device.index)
    DRIVER.get_seen.restype = ctypes.POINTER(ctypes.c_int64)
    DRIVER.get_params.restype = ctypes.POINTER(ctypes.c_char)
    DRIVER.is_waiting.restype = ctypes.c_bool
    DRIVER.set_params_bytes(ctypes.c_size_t(ctypes.sizeof(PARAMS)))


KERNELS = Kernels()


def queued(device: torch.device = GPU, **options: Any) -> Any:
    """What the driver got from a launch, or the sentence; and the thread's device afterwards."""
    try:
        launch(KERNELS, "some_kernel", device, 12, 256, PARAMS, **options)
    except DeviceError as error:
        return str(error), DRIVER.get_device()
    assert DRIVER.get_params()[: ctypes.sizeof(PARAMS)] == bytes(PARAMS)
    return DRIVER.get_seen()[:12], DRIVER.get_device()


def refused(error: int) -> Any:
    DRIVER.set_refusal(error)
    found = queued()
    DRIVER.set_refusal(0)
    return found


def in_thread(meanwhile: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(queued()))
    thread.start()
    meanwhile(thread)
    thread.join()
    return found[0]


def make_room(thread: threading.Thread) -> None:
    while thread.is_alive() and not DRIVER.is_waiting():
        pass
    DRIVER.set_full(False)


if __name__ == "__main__":
    stand_in()
    outcome = {"first": queued(), "cooperative": queued(cooperative=True, shared=4096), "other": queued(OTHER)}
    outcome |= {"thread": in_thread(lambda thread: None), "refused": refused(1), "unknown": refused(12345)}
    DRIVER.set_full(True)
    print(json.dumps(outcome | {"full": in_thread(make_room)}))
