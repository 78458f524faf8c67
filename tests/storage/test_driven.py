"""Doorbells that kernels write by themselves: how they are mapped, what is said where they cannot be, and what a store to
one is. Devices are met in tests/storage/qemu, and queues in tests/storage/nvme_device.cpp."""

import ctypes
import gc
import mmap
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hinterland import _core
from hinterland.memory import cuda
from hinterland.runtime import inspection, jit
from hinterland.runtime.errors import ConfigError, DeviceError
from hinterland.storage import driven
from hinterland.storage.driven import DrivenDevice, drivable
from hinterland.storage.on_device import Backing, DeviceStore
from hinterland_papers.bam.elements import read_elements

PAGE = 4096
GPU = torch.device("cuda", 0)
NAME = "nvme:0000:01:00.0"


@pytest.fixture
def device():
    """What is known of a device, with two pages of memory for its doorbells."""
    memory = mmap.mmap(-1, 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    facts = {"block_bytes": 512, "bytes": 1 << 20, "most_bytes": 8192, "namespace_number": 1, "free_queues": 2}
    return SimpleNamespace(memory=memory, doorbells=(address, 2 * PAGE), most_entries=64, **facts)


@pytest.fixture
def made(monkeypatch):
    """How the native queues were asked for; they stand at two registers."""
    asked = []

    def queues(device, places, nbytes, forwards, memory):
        asked.append((nbytes, forwards))
        first = device.doorbells[0] + 8
        return SimpleNamespace(address=1 << 32, doorbells=[(first, first + 4), (first + 8, first + 12)], cpu_ns=5)

    monkeypatch.setattr(_core, "DrivenQueues", queues)
    return asked


def joined(device, gpu=GPU, **how):
    serves = DrivenDevice(Backing(path=NAME), device, **how)
    memory = SimpleNamespace(address=1 << 20)
    return serves, serves.join(memory, (1 << 20, 2, 16, 16), ((1 << 20) + 100, PAGE), gpu)


def test_registers_are_mapped_once_and_as_long_as_a_store_has_them(device, made, monkeypatch):
    mapped, ended = [], []
    monkeypatch.setattr(cuda, "register_registers", lambda at, nbytes: mapped.append((at, nbytes)) or at + (1 << 40))
    monkeypatch.setattr(cuda, "unregister", ended.append)
    (first, found), (second, _) = joined(device), joined(device)
    assert mapped == [device.doorbells] and made == [(2 * PAGE, False)] * 2
    at = device.doorbells[0] + (1 << 40)
    bells = [{"submission_doorbell": at + 8 * i, "completion_doorbell": at + 8 * i + 4} for i in (1, 2)]
    assert found == (1 << 32, bells) and "written by kernels" in repr(first) and first.served() == []
    first.leave()
    gc.collect()
    assert ended == []
    second.leave()
    gc.collect()
    assert ended == [device.doorbells[0]]


def test_a_driver_that_maps_no_registers_is_named_and_a_thread_forwards(device, made, monkeypatch):
    def refuse(at, nbytes):
        raise DeviceError("CUDA could not map a device's registers for GPUs: CUDA_ERROR_INVALID_VALUE")

    monkeypatch.setattr(cuda, "register_registers", refuse)
    monkeypatch.setattr(driven.machine, "driver", lambda: "570.1")
    with pytest.warns(UserWarning, match=f"{NAME}: NVIDIA's driver 570.1 does not map.*INVALID_VALUE.*732.*thread forwards"):
        serves, found = joined(device)
    assert found == (1 << 32, []) and made == [(2 * PAGE, True)]
    assert "forwarded by a host thread" in repr(serves) and serves.served() == [{"cpu_ns": 5, "failed": 0}]
    with pytest.raises(ConfigError, match="belong to one store"):
        serves.join(SimpleNamespace(address=0), (0, 2, 16, 16), (0, 0), GPU)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert joined(device, forwards=True)[1] == (1 << 32, [])  # as was asked for
        assert joined(device, torch.device("cpu"))[1][1][0] == {
            "submission_doorbell": device.doorbells[0] + 8, "completion_doorbell": device.doorbells[0] + 12
        }  # fmt: skip


def test_what_a_device_can_serve_by_itself(device, monkeypatch):
    monkeypatch.setattr(_core, "bare_device", lambda name: device if name == NAME else None)
    monkeypatch.setattr(_core, "NvmeDevice", SimpleNamespace)
    assert drivable("a file", 4096) is None
    assert drivable(NAME, 512) is drivable(NAME, 8192) is device
    assert drivable(NAME, 16384) is None, "longer than a command"
    device.bytes += 512
    assert drivable(NAME, 4096) is None, "the last line is not whole"
    assert drivable(NAME, 512) is device
    device.block_bytes = 4096
    assert drivable(NAME, 512) is None, "less than a block"
    device.block_bytes, device.free_queues = 512, 0
    assert drivable(NAME, 512) is None


RING = """
#include "hinterland/core/system.hpp"
namespace hinterland::storage {
__global__ void ring(uint32_t* doorbell, uint32_t tail) { system_store_release(*doorbell, tail); }
}
"""


def test_a_doorbell_is_one_store_after_a_fence(tmp_path, monkeypatch):
    """As NVMe wants it: what lies in the ring is there first, and four bytes are written at once."""
    pytest.importorskip("cuda.bindings.nvrtc")
    if inspection.disassembler() is None:
        pytest.skip("no nvdisasm: pip install nvidia-cuda-nvdisasm")
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "ring.cu").write_text(RING)
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    monkeypatch.setattr(jit, "REGISTRY", {})
    jit.KernelFile("storage/ring.cu", ("ring",))
    text = [path.read_text() for path in inspection.dump(["sm_90"], tmp_path / "text") if path.suffix == ".sass"]
    orders = re.findall(r"MEMBAR\.\S+|\bSTG?\.\S+|\bATOMG?\.\S+|\bRED\.\S+", text[0])
    assert orders == ["MEMBAR.ALL.SYS", "STG.E.STRONG.SYS"]


@pytest.mark.gpu
def test_nobody_but_a_gpu_writes_the_doorbells(tmp_path):
    """A device in software, whose doorbells lie in a page that this process may only read."""
    x = torch.from_numpy(np.random.default_rng(0).integers(-(2**31), 2**31, 100_000, dtype=np.int32))
    (tmp_path / "x").write_bytes(bytes(PAGE) + x.numpy().tobytes())
    channels, depth = 16, 16  # doorbells of a page, which rings follow
    store = DeviceStore(Backing(path=str(tmp_path / "x")), GPU, "4MiB", channels=channels, depth=depth, threads=2)
    base, layout = store._shared.address, _core.queue_layout(channels, depth, depth)
    assert layout["queues"][-1]["completion_doorbell"] < PAGE <= layout["queues"][0]["submissions"]
    doorbells = lambda name: [ctypes.c_uint32.from_address(base + at[name]).value for at in layout["queues"]]  # noqa: E731
    libc = ctypes.CDLL(None, use_errno=True)
    protect = lambda how: libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(PAGE), how)  # noqa: E731
    assert not any(doorbells("submission_doorbell") + doorbells("completion_doorbell"))
    assert protect(mmap.PROT_READ) == 0, ctypes.get_errno()
    try:
        with store.live():
            found, _ = read_elements(store.array(PAGE), len(x), x.dtype, GPU, None, len(x))
    finally:
        assert protect(mmap.PROT_READ | mmap.PROT_WRITE) == 0
    assert found is not None and torch.equal(found.cpu(), x)
    assert any(doorbells("submission_doorbell")) and any(doorbells("completion_doorbell"))
    assert store.counts()["reads"] >= x.nbytes // PAGE
    store.close()
