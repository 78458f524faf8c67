"""Buffers: released exactly once, counted while they are held, shared between processes."""

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys

import pytest
import torch

from hinterland import UnifiedTensor, memory
from hinterland.memory import allocator
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError, DeviceError, OutOfMemory

CPU_MAPPINGS = ["heap", "registered"]


def _mapped_bytes():
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[0]) * 4096


def _begins_a_mapping(address):
    with open("/proc/self/maps") as maps:
        return any(int(line.partition("-")[0], 16) == address for line in maps)


def _open_files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.unsanitized  # the sanitizer maps other memory where ours was
@pytest.mark.parametrize("mapping", CPU_MAPPINGS)
def test_released_with_the_last_tensor(mapping, nothing_left):
    UnifiedTensor.empty(1, placement=mapping)  # what CUDA opens on first use is not ours
    files = _open_files()
    table = UnifiedTensor.empty((1000, 50), placement=mapping)
    assert table.placement == mapping
    held = memory.report()
    assert (held.nbytes, held.totals, len(held.buffers)) == (200_000, {mapping: 200_000}, 1)
    assert held.buffers[0].name == "float32 [1000, 50]"
    assert "195.31 KiB" in str(held)
    address = table.cpu().data_ptr()
    row = table[3]
    part = table.view((500, 100))
    del table
    row.zero_()
    del part
    gc.collect()
    assert memory.report().nbytes == 200_000
    assert _begins_a_mapping(address)
    row += 1
    del row
    gc.collect()
    assert memory.report().nbytes == 0
    assert not _begins_a_mapping(address)
    assert _open_files() == files


@pytest.mark.parametrize("mapping", CPU_MAPPINGS)
@pytest.mark.parametrize("step", ["touch", "map_pages"])
def test_released_after_an_exception_half_way(mapping, step, monkeypatch, nothing_left):
    UnifiedTensor.empty(1, placement=mapping)
    files, before = _open_files(), _mapped_bytes()
    real = getattr(allocator._core, step)
    calls = []

    class Core:
        def __getattr__(self, name):
            return getattr(real_core, name)

    real_core = allocator._core
    core = Core()

    def fail(*args):
        calls.append(args)
        if step == "map_pages":
            raise MemoryError("injected")
        real(*args)
        raise MemoryError("injected")

    setattr(core, step, fail)
    monkeypatch.setattr(allocator, "_core", core)
    with pytest.raises(MemoryError, match="injected"):
        memory.allocate(64 << 20, mapping)
    assert len(calls) == 1
    assert _open_files() == files
    assert _mapped_bytes() < before + (64 << 20)


def test_released_once(monkeypatch):
    released = []
    real_core = allocator._core

    class Core:
        def __getattr__(self, name):
            return getattr(real_core, name)

        def unmap_pages(self, address, nbytes):
            released.append(address)
            real_core.unmap_pages(address, nbytes)

    monkeypatch.setattr(allocator, "_core", Core())
    table = UnifiedTensor.empty(10, placement="heap")
    address = table.cpu().data_ptr()
    views = [table.cpu()[i:] for i in range(5)]
    del table, views
    gc.collect()
    assert released == [address]


@pytest.mark.parametrize("mapping", [*CPU_MAPPINGS, pytest.param("mapped", marks=pytest.mark.gpu)])
def test_exit_is_clean_while_tensors_are_held(mapping):
    if mapping == "mapped" and not devices.cuda_available():
        pytest.skip("no GPU here")
    code = f"""
import torch, hinterland as hl
a = hl.UnifiedTensor.empty((1000, 50), placement={mapping!r})
b = a.cpu()[3:]
c = a[torch.tensor([1, 2])]
if {mapping!r} != "heap" and torch.cuda.is_available():
    d = a.cuda()
    e = a[torch.tensor([1, 2], device="cuda")]
keep = [a, b]; keep.append(keep)
print(len(hl.memory.report().buffers))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.parametrize("mapping", CPU_MAPPINGS)
def test_empty_buffers(mapping, nothing_left):
    table = UnifiedTensor.empty((0, 7), torch.bfloat16, mapping)
    assert table.cpu().shape == (0, 7)
    assert table.nbytes == 0
    assert UnifiedTensor.from_tensor(torch.empty(5, 0), mapping).cpu().shape == (5, 0)


def test_mappings_that_this_machine_lacks():
    if devices.cuda_available():
        pytest.skip("there is a GPU here")
    assert UnifiedTensor.empty(3).placement == "heap"
    with pytest.raises(DeviceError, match="GPU"):
        UnifiedTensor.empty(3, placement="mapped")
    with pytest.raises(DeviceError, match="GPU"):
        UnifiedTensor.empty(3).cuda()


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_registered_memory_is_shared_between_processes(start, tmp_path):
    if start == "fork" and devices.cuda_available():
        pytest.skip("a forked child cannot use CUDA")
    code = f"""
import multiprocessing, sys, torch
sys.path.insert(0, {str(tmp_path)!r})
from child import double
from hinterland import UnifiedTensor
if __name__ == "__main__":
    mp = multiprocessing.get_context({start!r})
    table = UnifiedTensor.from_tensor(torch.arange(1000.0), placement="registered")
    done = mp.Queue()
    child = mp.Process(target=double, args=(table, done))
    child.start()
    print(*done.get(timeout=60))
    child.join(60)
    print(child.exitcode, float(table.cpu().sum()))
"""
    (tmp_path / "child.py").write_text(
        "def double(table, done):\n"
        "    table.cpu().mul_(2)\n"
        "    done.put((float(table.cpu().sum()), table.placement, tuple(table.shape)))\n"
    )
    main = tmp_path / "main.py"
    main.write_text(code)
    done = subprocess.run([sys.executable, str(main)], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["999000.0 registered (1000,)", "0 999000.0"]


def test_only_registered_memory_can_be_sent():
    with pytest.raises(ConfigError, match="registered"):
        pickle.dumps(UnifiedTensor.empty(3, placement="heap"))


def test_sending_through_a_queue_keeps_the_memory_alive():
    """The pickled form holds a descriptor of its own: the sender may drop its table."""
    table = UnifiedTensor.from_tensor(torch.arange(10), placement="registered")
    blob = multiprocessing.reduction.ForkingPickler.dumps(table)
    del table
    gc.collect()
    back = pickle.loads(bytes(blob))
    assert torch.equal(back.cpu(), torch.arange(10))


def test_a_process_that_was_not_started_here_maps_the_same_memory():
    """As torchrun's do: what plain pickle sends. One that is killed takes nothing with it; one that comes too late is told."""
    table = UnifiedTensor.from_tensor(torch.arange(10.0), placement="registered")
    blob = pickle.dumps(table)
    attach = "import os, pickle, sys; t = pickle.load(sys.stdin.buffer); t.cpu().mul_(2); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", attach], input=blob, capture_output=True, timeout=120)
    assert killed.returncode == -9, killed.stderr
    assert torch.equal(table.cpu(), torch.arange(0.0, 20, 2))
    del table
    gc.collect()
    with pytest.raises(ConfigError, match=f"memory of process {os.getpid()} cannot be opened .*must run on this machine"):
        pickle.loads(blob)
    gone = pickle.dumps(allocator._Held(1 << 30, 3, 4))
    with pytest.raises(ConfigError, match="No such file or directory.*and still hold its table"):
        pickle.loads(gone).detach()


@pytest.fixture
def driver(monkeypatch):
    """A machine with a GPU of 1 MiB, as far as the allocator can tell; the list holds what it asked of CUDA."""
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
        "managed_memory_works": lambda: True,
        "allocate_managed": managed,
        "free_managed": free,
        "keep_on_host": lambda address, nbytes: calls.append("keep"),
        "register": lambda address, nbytes: calls.append("register"),
        "unregister": lambda address: calls.append("unregister"),
    }.items():
        monkeypatch.setattr(allocator.cuda, name, call)
    monkeypatch.setattr(devices, "cuda_available", lambda: True)
    monkeypatch.setattr(devices, "as_device", torch.device)
    monkeypatch.setattr(devices, "free_bytes", lambda device: 1 << 20)
    gc.collect()
    return calls


def test_mapped_until_the_gpus_memory_is_reached(driver, nothing_left):
    first = memory.allocate(600 << 10)
    second = memory.allocate(600 << 10)
    third = memory.allocate(300 << 10)
    assert [buffer.mapping for buffer in (first, second, third)] == ["mapped", "registered", "mapped"]
    assert memory.allocate(2 << 20, oversubscribe=True).mapping == "mapped"
    with pytest.raises(OutOfMemory, match="oversubscribe"):
        memory.allocate(600 << 10, "mapped")
    del first
    assert memory.allocate(600 << 10, "mapped").mapping == "mapped"
    del second, third
    assert driver.count("allocate") == driver.count("keep") == driver.count("free") == 4
    assert driver.count("register") == driver.count("unregister") == 1


def test_where_managed_memory_does_not_work(driver, monkeypatch):
    monkeypatch.setattr(allocator.cuda, "managed_memory_works", lambda: False)
    assert memory.allocate(10).mapping == "registered"
    with pytest.raises(DeviceError, match="registered"):
        memory.allocate(10, "mapped")


@pytest.mark.parametrize(("mapping", "step"), [("mapped", "keep_on_host"), ("registered", "register")])
def test_the_driver_refuses_half_way(driver, mapping, step, monkeypatch, nothing_left):
    def refuse(*args):
        raise DeviceError("refused")

    files = _open_files()
    monkeypatch.setattr(allocator.cuda, step, refuse)
    with pytest.raises(DeviceError, match="refused"):
        memory.allocate(100_000, mapping)
    assert driver == (["allocate", "free"] if mapping == "mapped" else [])
    assert _open_files() == files
