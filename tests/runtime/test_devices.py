"""Machines whose GPUs cannot be used: the CPU runs everything, and who asks for a GPU gets a sentence."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.machine.model import Cpu
from hinterland.memory import cuda
from hinterland.probe import measure
from hinterland.runtime import devices, launch, warned
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
    forget()
    monkeypatch.setattr(warned, "_told", set())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    spoil, sentence = LACKS[request.param]
    spoil(monkeypatch)
    yield request.param, sentence
    forget()


def forget() -> None:
    """What is known of this machine's GPUs."""
    devices.cuda_available.cache_clear()
    devices._lacking.cache_clear()


def test_what_asks_for_no_gpu_runs_on_the_cpu_with_one_warning(lack) -> None:
    x = torch.arange(6.0)
    with pytest.warns(UserWarning, match="everything runs on the CPU: kernels " + lack[1].replace("needs", "need")) as told:
        assert devices.as_device() == torch.device("cpu") and devices.gpus() == []
        held = hl.UnifiedTensor.from_tensor(x)
    assert len(told) == 1
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
        with pytest.raises(DeviceError, match=sentence), warnings.catch_warnings(action="error"):  # the error says it all
            ask()
    if kind == "cuda-core":  # which one line installs
        with pytest.raises(DeviceError, match=f"placement 'gpu' {sentence}"):
            devices.keeps_on_gpu("placement 'gpu'")
    else:  # as where there is no GPU
        with pytest.warns(UserWarning, match="no GPU is used"):
            assert not devices.keeps_on_gpu("placement 'gpu'")


def test_the_probe_measures_no_gpu(lack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(measure.host, "measure", lambda full: Cpu("a CPU", 2, 1, 1.0, 1.0, 1.0, 1.0))
    monkeypatch.setattr(measure.disk, "measure", lambda folder, full: (None, []))
    with pytest.warns(UserWarning, match="no GPU is used, and everything runs on the CPU"):
        machine = hl.probe()
    assert (machine.gpus, machine.link, machine.rows) == ((), None, ()) and "no GPU" in machine.left_out[0]


FAKED = """
import sys, warnings
import torch

kind = sys.argv[1]
if kind != "hidden":
    torch.cuda.is_available = lambda: kind != "no GPU"
    torch.cuda.device_count = lambda: int(kind != "no GPU")
    torch.version.cuda, torch.version.hip = (None, "6.4") if kind == "AMD" else ("13.0", None)
if kind == "driver":
    from cuda.bindings import driver

    def refuses():
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    driver.cuDriverGetVersion = refuses
"""
USES = (
    FAKED
    + """
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import hinterland as hl
    from hinterland.runtime.errors import DeviceError
    from hinterland.sampling import NeighborSampler
    from hinterland.training import Loader

    graph = hl.generate("kronecker", scale=8, placement="gpu")
    x = hl.UnifiedTensor.from_tensor(torch.arange(512.0).view(256, 2))
    assert x[torch.tensor([7, 1])].tolist() == [[14, 15], [2, 3]]
    assert x.tiered(local="1KiB")[torch.tensor([7])].tolist() == [[14, 15]]
    assert hl.bfs(graph, 3).levels[3] == 0
    batches = list(Loader(NeighborSampler(graph, [3, 2]), torch.arange(64), 16, features=x))
    assert len(batches) == 4 and all(batch.x.device.type == "cpu" for batch in batches)
    for ask in (lambda: hl.bfs(graph, 3, device="cuda"), lambda: x.cuda()):
        try:
            ask()
        except DeviceError as error:
            print(error)
print(*[one.message for one in told if "no GPU is used" in str(one.message)], sep="\\n")
"""
)


@pytest.mark.parametrize("kind", ["AMD", "driver", "no GPU", "hidden"])
def test_a_fresh_process_runs_on_the_cpu(kind: str) -> None:
    """What torch says of its GPUs may be wrong from the first import on; a GPU that is hidden is nothing to warn of."""
    pytest.importorskip("cuda.bindings")
    env = {"CUDA_VISIBLE_DEVICES": ""} if kind == "hidden" else {}
    said = forked.run("-c", USES, kind, check=True, env=env).stdout.splitlines()
    lack = {"AMD": "one for AMD's", "driver": "libcuda.so.1 is not to be had"}.get(kind, "sees none on this machine")
    assert len([line for line in said if line.startswith("device cuda needs") and lack in line]) == 2
    warned_of = [line for line in said if line.startswith("no GPU is used, and everything runs on the CPU: kernels need")]
    assert len(warned_of) == (kind in LACKS) and all(lack in line for line in warned_of)


@pytest.mark.parametrize("kind", ["AMD", "driver"])
def test_commands_run_on_the_cpu(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings")
    command = "import runpy; del sys.argv[1]; runpy.run_module('hinterland', run_name='__main__')"
    env = {"HINTERLAND_CACHE_DIR": str(tmp_path)}
    made = forked.run(
        "-c", FAKED + command, kind, "generate", "kronecker", "--scale", "8", "--output", str(tmp_path / "g.hl"), env=env
    )
    assert made.returncode == 0 and made.stderr.count("no GPU is used") == 1
    found = forked.run("-c", FAKED + command, kind, "bfs", str(tmp_path / "g.hl"), "--verify", env=env)
    assert found.returncode == 0, found.stderr
    asked = forked.run("-c", FAKED + command, kind, "bfs", str(tmp_path / "g.hl"), "--device", "cuda", env=env)
    assert asked.returncode != 0 and "hinterland: device cuda needs" in asked.stderr and "Traceback" not in asked.stderr


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
