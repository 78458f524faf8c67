"""Machines whose GPUs cannot be used: the CPU runs everything, and who asks for a GPU gets a sentence."""

from __future__ import annotations

import sys

import pytest
import torch

import hinterland as hl
from hinterland.memory import cuda
from hinterland.runtime import devices, launch
from hinterland.runtime.errors import DeviceError

from .. import forked

GPU = torch.device("cuda", 0)


def no_driver() -> None:
    raise RuntimeError("Failed to dlopen libcuda.so.1")


LACKS = {
    "AMD": (
        lambda m: m.setattr(torch.version, "hip", "6.2.41133"),
        r"needs an NVIDIA GPU, and torch .* is one for AMD's \(ROCm\)",
    ),
    "driver": (
        lambda m: m.setattr("cuda.bindings.driver.cuDriverGetVersion", no_driver),
        r"needs NVIDIA's driver, and libcuda.so.1 is not to be had \(Failed to dlopen libcuda.so.1\); install the driver",
    ),
    "cuda-core": (lambda m: m.setitem(sys.modules, "cuda.core", None), r"needs cuda-core.*pip install 'hinterland\[cuda\]'"),
}


@pytest.fixture(params=LACKS)
def lack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """The sentence of a machine on which torch says that there is a GPU, and something else is missing."""
    pytest.importorskip("cuda.core")
    devices.cuda_available.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    spoil, sentence = LACKS[request.param]
    spoil(monkeypatch)
    yield request.param, sentence
    devices.cuda_available.cache_clear()


def test_what_asks_for_no_gpu_runs_on_the_cpu(lack) -> None:
    x = torch.arange(6.0)
    assert devices.as_device() == torch.device("cpu") and devices.gpus() == []
    held = hl.UnifiedTensor.from_tensor(x)
    assert held.placement == "pageable"
    assert torch.equal(hl.kernels.map_chunks(lambda v: v + 1, held), x + 1)
    ends = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3])
    assert hl.bfs(hl.from_edges(*ends), 0).levels.tolist() == [0, 1, 2, 3]


def test_what_asks_for_a_gpu_says_what_is_missing(lack) -> None:
    kind, sentence = lack
    kernel = hl.kernel("__global__ void k(int* x) {}")._text(1)
    asks = [
        lambda: devices.as_device("cuda"),
        lambda: hl.kernels.map_chunks(lambda v: v + 1, torch.ones(3), device="cuda:0"),
        lambda: hl.UnifiedTensor.empty((3, 3), placement="managed"),
        lambda: cuda.register(0, 4096),
        lambda: launch._function(kernel, "k", GPU),
    ]
    for ask in asks:
        with pytest.raises(DeviceError, match=sentence):
            ask()
    if kind == "AMD":  # as where there is no GPU
        assert not devices.keeps_on_gpu("placement 'gpu'")
    else:
        with pytest.raises(DeviceError, match=f"placement 'gpu' {sentence}"):
            devices.keeps_on_gpu("placement 'gpu'")


THREADS = """
import sys, threading, time
from hinterland.runtime import devices
assert "cuda.core" not in sys.modules
sys.setswitchinterval(1e-5)
wrong = []

def asks(after):
    time.sleep(after)
    try:
        devices.cuda_core().Device
    except (ImportError, AttributeError) as error:
        wrong.append(error)

threads = [threading.Thread(target=asks, args=(0.004 * i,)) for i in range(100)]
for one in threads:
    one.start()
for one in threads:
    one.join()
assert not wrong, wrong[0]
"""


def test_threads_that_need_cuda_core_at_once_get_the_whole_of_it() -> None:
    """Some got "cannot import name 'Device'" while another imported it: the watch ended by it, and was silent from then on."""
    pytest.importorskip("cuda.core")
    forked.run("-c", THREADS, check=True)
