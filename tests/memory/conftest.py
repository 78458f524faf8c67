import ctypes
import gc
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hinterland import memory
from hinterland.machine import MachineKind
from hinterland.memory import allocator, mapping
from hinterland.runtime import devices
from hinterland.runtime.jit import INCLUDE_DIR


def _need_gpu():
    if not devices.cuda_available():
        pytest.skip("no GPU here")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    """Every test that takes it runs on the CPU, and on a GPU where there is one."""
    if request.param == "cuda":
        _need_gpu()
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


@pytest.fixture
def gpu():
    """The current GPU; tests that take it carry the mark ``gpu``."""
    _need_gpu()
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture
def nothing_left():
    """Fails a test after which this library holds more host memory than before."""
    if memory.report().nbytes:  # else it takes the time of many tests
        gc.collect()
    before = memory.report().nbytes
    yield
    if memory.report().nbytes != before:
        gc.collect()
    assert memory.report().nbytes == before


@pytest.fixture(scope="session")
def emulation(tmp_path_factory):
    """The GPU's gather compiled for the CPU (emulation.cpp)."""
    library = tmp_path_factory.mktemp("emulation") / "emulation.so"
    source = Path(__file__).with_name("emulation.cpp")
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fsanitize=undefined"]
    subprocess.run(["g++", *flags, "-fno-sanitize-recover", f"-I{INCLUDE_DIR}", str(source), "-o", library], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """A virtual machine with a GPU of 1 MiB, as far as the allocator can tell; the list holds what it asked of CUDA."""
    calls, sizes = [], {}

    def managed(nbytes):
        address = allocator._core.map_pages(-1, nbytes)
        sizes[address] = nbytes
        calls.append("allocate")
        return address

    def free(address):
        calls.append("free")
        allocator._core.unmap_pages(address, sizes.pop(address))

    for name, call in {
        "wait_for_gpus": lambda: calls.append("wait"),
        "allocate_managed": managed,
        "free_managed": free,
        "keep_on_host": lambda address, nbytes: calls.append("keep"),
        "register": lambda address, nbytes: calls.append("register"),
        "unregister": lambda address: calls.append("unregister"),
    }.items():
        monkeypatch.setattr(allocator.cuda, name, call)
    monkeypatch.setattr(devices, "cuda_available", lambda: True)
    monkeypatch.setattr(allocator, "captures", lambda: False)
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))  # what the user measured is of another machine
    monkeypatch.setattr(devices, "_lacking", lambda: "")
    monkeypatch.setattr(devices, "as_device", torch.device)
    has(monkeypatch, "CONCURRENT_MANAGED_ACCESS")
    monkeypatch.setattr(devices, "free_bytes", lambda device: 1 << 20)
    monkeypatch.setattr(mapping, "machine_kind", lambda: MachineKind(True, "a test says so"))
    gc.collect()
    return calls


def has(monkeypatch, *attributes):
    """The driver says that the GPU has these attributes, and no others."""
    real = pytest.importorskip("cuda.bindings.driver")
    own = [getattr(real.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}") for name in attributes]

    class Driver:
        CUdevice_attribute = real.CUdevice_attribute

        @staticmethod
        def cuDeviceGetAttribute(attribute, gpu):
            return real.CUresult.CUDA_SUCCESS, int(attribute in own)

    only = torch.device("cuda", 0)
    gpu = SimpleNamespace(
        gpus=lambda: [only],
        cuda_available=lambda: True,
        require_cuda=lambda what: None,
        as_device=lambda device: only,
        free_bytes=lambda device: devices.free_bytes(device),
    )
    monkeypatch.setattr(allocator.cuda, "devices", gpu)
    monkeypatch.setattr(allocator.cuda, "_started", Driver)
