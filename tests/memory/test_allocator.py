"""Buffers: released exactly once, counted while they are held, shared between processes."""

import dataclasses
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from contextlib import ExitStack

import pytest
import torch

import hinterland
from hinterland import UnifiedTensor, memory
from hinterland.machine.model import Cpu
from hinterland.memory import allocator, copies, mapping, plan, rate
from hinterland.runtime import devices, warned
from hinterland.runtime.errors import ConfigError, DeviceError, OutOfMemory

from .. import forked
from .conftest import has

CPU_MAPPINGS = ["pageable", "pinned"]


def _mapped_bytes():
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[0]) * 4096


def _is_mapped(address):
    """Whether a mapping has it. It need not begin there: the kernel makes one of neighbours that are alike."""
    with open("/proc/self/maps") as maps:
        ranges = [[int(end, 16) for end in line.split(maxsplit=1)[0].split("-")] for line in maps]
    return any(begin <= address < end for begin, end in ranges)


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
    assert _is_mapped(address)
    row += 1
    del row
    gc.collect()
    assert memory.report().nbytes == 0
    assert not _is_mapped(address)
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
    table = UnifiedTensor.empty(10, placement="pageable")
    address = table.cpu().data_ptr()
    views = [table.cpu()[i:] for i in range(5)]
    del table, views
    gc.collect()
    assert released == [address]


@pytest.mark.parametrize("mapping", [*CPU_MAPPINGS, pytest.param("managed", marks=pytest.mark.gpu)])
def test_exit_is_clean_while_tensors_are_held(mapping):
    if mapping == "managed" and not devices.cuda_available():
        pytest.skip("no GPU here")
    code = f"""
import torch, hinterland as hl
a = hl.UnifiedTensor.empty((1000, 50), placement={mapping!r})
b = a.cpu()[3:]
c = a[torch.tensor([1, 2])]
if {mapping!r} != "pageable" and torch.cuda.is_available():
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
    assert UnifiedTensor.empty(3).placement == "pageable"
    for placement in ("managed", "system"):
        with pytest.raises(DeviceError, match=f"placement='{placement}' needs an NVIDIA GPU"):
            UnifiedTensor.empty(3, placement=placement)
    with pytest.raises(DeviceError, match="GPU"):
        UnifiedTensor.empty(3).cuda()


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_pinned_memory_is_shared_between_processes(start, tmp_path):
    if start == "fork" and devices.cuda_available():
        pytest.skip("a forked child cannot use CUDA")
    code = f"""
import multiprocessing, sys, torch
sys.path.insert(0, {str(tmp_path)!r})
from child import double
from hinterland import UnifiedTensor
if __name__ == "__main__":
    mp = multiprocessing.get_context({start!r})
    table = UnifiedTensor.from_tensor(torch.arange(1000.0), placement="pinned")
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
    done = forked.run(main)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["999000.0 pinned (1000,)", "0 999000.0"]


def test_only_pinned_memory_can_be_sent():
    table = UnifiedTensor.empty(3, placement="pageable")
    for send in (multiprocessing.reduction.ForkingPickler.dumps, memory.pickle_shared):
        with pytest.raises(ConfigError, match="pageable memory belongs to one process.*placement='pinned'"):
            send(table)


def test_sending_through_a_queue_keeps_the_memory_alive():
    """The pickled form holds a descriptor of its own: the sender may drop its table."""
    table = UnifiedTensor.from_tensor(torch.arange(10), placement="pinned")
    blob = multiprocessing.reduction.ForkingPickler.dumps(table)
    del table
    gc.collect()
    back = pickle.loads(bytes(blob))
    assert torch.equal(back.cpu(), torch.arange(10))


def test_a_process_that_was_not_started_here_maps_the_same_memory(tmp_path):
    """As torchrun's do: what pickle_shared sends. One that is killed takes nothing with it; one that comes too late is told."""
    table = UnifiedTensor.from_tensor(torch.arange(10.0), placement="pinned")
    blob = memory.pickle_shared(table)
    (tmp_path / "blob").write_bytes(blob)
    attach = "import os, pickle, sys; t = pickle.load(open(sys.argv[1], 'rb')); t.cpu().mul_(2); os.kill(os.getpid(), 9)"
    killed = forked.run("-c", attach, tmp_path / "blob")
    assert killed.returncode == -9, killed.stderr
    assert torch.equal(table.cpu(), torch.arange(0.0, 20, 2))
    del table
    gc.collect()
    with pytest.raises(ConfigError, match=f"memory of process {os.getpid()} cannot be opened .*must run on this machine"):
        pickle.loads(blob)
    gone = pickle.dumps(allocator._Held(1 << 30, 3, 4))
    with pytest.raises(ConfigError, match="No such file or directory.*and still hold its table"):
        pickle.loads(gone).detach()


def test_managed_until_the_gpus_memory_is_reached(driver, nothing_left):
    first = memory.allocate(600 << 10)
    second = memory.allocate(600 << 10)
    third = memory.allocate(300 << 10)
    assert [buffer.mapping for buffer in (first, second, third)] == ["managed", "pinned", "managed"]
    with pytest.raises(
        OutOfMemory, match="with 900.00 KiB held, but all of it may be .*by the GPU's free memory .*; use placement='host'"
    ):
        memory.allocate(600 << 10, "managed")
    del first
    assert memory.allocate(600 << 10, "managed").mapping == "managed"
    del second, third
    assert driver.count("allocate") == driver.count("keep") == driver.count("free") == 3
    assert driver.count("register") == driver.count("unregister") == 1


@pytest.fixture
def gpu_of_80_mib(driver, monkeypatch):
    monkeypatch.setattr(devices, "free_bytes", lambda device: 80 << 20)
    monkeypatch.setattr(warned, "_told", set())
    monkeypatch.setattr(mapping, "_SMALL", 1 << 20)
    yield driver
    memory.set_managed_limit(None)


def test_what_exceeds_the_limit_has_two_mappings(gpu_of_80_mib, monkeypatch, nothing_left):
    files = _open_files()
    monkeypatch.setattr(plan, "REACH", 1 << 20)
    with pytest.warns(
        UserWarning, match="the first 64.00 MiB mapped in large pages, 36.00 MiB pinned; random rows of 128 B .* M/s"
    ):
        table = UnifiedTensor.empty((100, 1 << 20), torch.uint8)
    assert (table.placement, table.managed_bytes) == ("split", 64 << 20)
    assert table.explain().startswith("100.00 MiB of host memory, the first 64.00 MiB mapped")
    assert memory.report().totals == {"split": 100 << 20}
    parts = table.cpu().data_ptr(), table.cpu().data_ptr() + (64 << 20)
    assert all(map(_is_mapped, parts))
    rows = torch.randint(0, 256, (100, 64), dtype=torch.uint8)
    table.cpu()[:, :64] = rows
    shuffled = torch.randperm(100)
    assert torch.equal(table[shuffled][:, :64], rows[shuffled])
    assert memory.allocate(20 << 20).mapping == "pinned"  # what is left is less than the driver's grain; no second warning
    assert memory.allocate(8 << 20).mapping == "managed"
    del table
    gc.collect()
    assert gpu_of_80_mib.count("allocate") == gpu_of_80_mib.count("free") >= 2
    assert gpu_of_80_mib.count("register") == gpu_of_80_mib.count("unregister") == 2
    assert _open_files() == files and not any(map(_is_mapped, parts))


def test_mappings_lie_beside_each_other_whatever_the_driver_takes_first(gpu_of_80_mib, monkeypatch, nothing_left):
    """A driver that finds higher holes of just the right size, two of them."""
    real, holes = allocator.cuda.allocate_managed, []

    def elsewhere(nbytes):
        if len(holes) < 2:
            holes.append(allocator._core.reserve_pages(nbytes, 32 << 20))
            allocator._core.unmap_pages(holes[-1], nbytes)
        return real(nbytes)

    monkeypatch.setattr(allocator.cuda, "allocate_managed", elsewhere)
    before = _mapped_bytes()
    buffer = memory.allocate(100 << 20)
    assert (buffer.mapping, buffer.managed) == ("split", 64 << 20)
    assert _mapped_bytes() < before + (110 << 20)


@pytest.mark.unsanitized  # it was when the driver's place was guessed; not tried since
def test_pinned_where_the_mappings_find_no_place(gpu_of_80_mib, monkeypatch, nothing_left):
    real, reserve, bases, taken = allocator.cuda.allocate_managed, allocator._core.reserve_pages, [], []

    def reserve_pages(nbytes, alignment):
        bases.append(reserve(nbytes, alignment))
        return bases[-1]

    def never_beside(nbytes):
        while (address := real(nbytes)) == bases[-1]:
            taken.append(address)
        return address

    monkeypatch.setattr(allocator._core, "reserve_pages", reserve_pages)
    monkeypatch.setattr(allocator.cuda, "allocate_managed", never_beside)
    monkeypatch.setattr(plan, "REACH", 1 << 20)
    with pytest.warns(UserWarning, match="100.00 MiB of host memory, all pinned"):  # what was planned did not come about
        assert memory.allocate(100 << 20).mapping == "pinned"
    for address in taken:
        allocator.cuda.free_managed(address)


def test_two_mappings_are_released_after_an_exception_half_way(gpu_of_80_mib, monkeypatch, nothing_left):
    files, before = _open_files(), _mapped_bytes()

    def fail(address, nbytes):
        raise DeviceError("injected")

    monkeypatch.setattr(allocator.cuda, "register", fail)
    with pytest.raises(DeviceError, match="injected"):
        memory.allocate(100 << 20)
    assert gpu_of_80_mib.count("allocate") == gpu_of_80_mib.count("free") >= 1  # more where there were higher holes
    assert _open_files() == files and _mapped_bytes() < before + (8 << 20)


def test_the_limit_can_be_said(gpu_of_80_mib, monkeypatch, nothing_left):
    monkeypatch.setattr(mapping, "load", lambda: None)
    assert memory.managed_limit().source == "the GPU's free memory"
    monkeypatch.setattr(mapping, "load", lambda: dataclasses.replace(machine(), managed_limit=50 << 20))
    assert memory.managed_limit().nbytes == 50 << 20
    monkeypatch.setenv("HINTERLAND_MANAGED_LIMIT", "40MiB")
    limit = memory.managed_limit()
    assert (limit.nbytes, limit.source) == (40 << 20, "HINTERLAND_MANAGED_LIMIT")
    assert memory.allocate(40 << 20).mapping == "managed"
    assert memory.allocate(41 << 20).managed == 32 << 20
    memory.set_managed_limit("1GiB")  # more than the GPU has free is not allowed by a size,
    assert memory.managed_limit().source == "the GPU's free memory"
    assert memory.allocate(100 << 20).mapping == "split"
    memory.set_managed_limit("unlimited")  # but by the word
    assert memory.allocate(100 << 20).mapping == "managed"
    memory.set_managed_limit(0)
    assert memory.allocate(1 << 20).mapping == "pinned"
    with pytest.raises(ConfigError, match="may also be 'unlimited'"):
        memory.set_managed_limit("much")


def test_small_tables_are_not_split(gpu_of_80_mib, monkeypatch, nothing_left):
    monkeypatch.setattr(mapping, "_SMALL", 1 << 30)
    assert memory.allocate(100 << 20).mapping == "pinned"


def test_copies_are_cut_at_a_boundary(monkeypatch):
    """What is copied is the same for any number of boundaries; on the CPU nothing needs cutting, so the cut itself is asked."""
    source = torch.arange(24, dtype=torch.float64).view(6, 4)
    at = source.data_ptr()
    monkeypatch.setattr(copies, "boundaries", lambda: [at, at + 8, at + 80, at + source.nbytes, at + 10_000])
    assert copies.cuts(source) == [1, 10] and copies.cuts(source[3:]) == []
    assert torch.equal(copies.copied(source, torch.device("cpu")), source)


def test_more_managed_memory_than_the_limit_is_never_asked_for(gpu_of_80_mib, nothing_left):
    """Whoever asks for it: the last thing before the driver's call refuses."""
    held = memory.allocate(60 << 20)
    with ExitStack() as undo, pytest.raises(AssertionError, match="more than Limit"):
        allocator.take_managed(32 << 20, undo)
    assert held.managed == 60 << 20 and gpu_of_80_mib.count("allocate") == 1


def machine():
    return hinterland.Machine("2026-11-23", "x", False, Cpu("a CPU", 2, 1 << 34, 1e10, 1e10, 1e-7, 1e7))


def test_what_is_let_go_during_a_capture_is_given_back_after_it(driver, monkeypatch, nothing_left):
    """Whoever waits for a GPU ends a capture, and memory is only given back after its kernels."""
    table, other = memory.allocate(10), memory.allocate(10)
    capture = [True]
    monkeypatch.setattr(allocator, "captures", lambda: capture[0])
    del driver[:], table
    gc.collect()
    assert driver == []
    capture[0] = False
    del other
    gc.collect()
    assert driver == ["free", "free"]


def test_where_managed_memory_does_not_work(driver, monkeypatch):
    """As on WSL, where concurrentManagedAccess is 0."""
    has(monkeypatch)
    assert memory.allocate(10).mapping == "pinned"
    with pytest.raises(DeviceError, match="pinned"):
        memory.allocate(10, "managed")


@pytest.fixture(params=["HMM", "Grace"])
def reads_plain_memory(request, driver, monkeypatch):
    """A machine whose GPU reads plain memory, by page tables of its own or by the CPU's."""
    tables = ["PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES"] if request.param == "Grace" else []
    has(monkeypatch, "CONCURRENT_MANAGED_ACCESS", "PAGEABLE_MEMORY_ACCESS", *tables)
    return request.param


def test_plain_memory_that_gpus_read(reads_plain_memory, driver, nothing_left):
    table = UnifiedTensor.empty((1000, 50), placement="system")
    assert (table.placement, table.managed_bytes, driver) == ("system", 0, ["keep"])
    assert memory.report().totals["system"] == 200_000
    assert "all plain, read by page tables that GPUs share with the CPU (not tried by us" in table.explain()
    address = table.cpu().data_ptr()
    with pytest.raises(ConfigError, match="system memory belongs to one process; .* placement='pinned'"):
        memory.pickle_shared(table)
    again = pickle.loads(pickle.dumps(table))
    assert again.placement == "system"
    del table, again
    gc.collect()
    assert not _is_mapped(address) and driver == ["keep", "keep", "wait", "wait"]  # for kernels that may read it still


def test_plain_memory_is_what_a_coherent_machine_gives(reads_plain_memory, driver, nothing_left):
    grace = reads_plain_memory == "Grace"
    assert memory.allocate(600 << 10).mapping == ("system" if grace else "managed")
    larger = UnifiedTensor.empty(3 << 20, torch.uint8)  # than the GPU's free memory
    assert larger.placement == ("system" if grace else "pinned")
    assert memory.allocate(600 << 10, "managed").mapping == "managed"


def test_plain_memory_is_refused_where_a_gpu_does_not_read_it(driver, monkeypatch, nothing_left):
    with pytest.raises(DeviceError, match=r"placement='system' needs GPUs .* cuda:0 does not .*; use placement='host'"):
        UnifiedTensor.empty(3, placement="system")
    assert driver == [] and "system" not in memory.report().totals
    load, (held, dtype, shape, _, learns) = UnifiedTensor.from_tensor(torch.arange(3.0), "pageable").__reduce__()
    elsewhere = load(held, dtype, shape, "system", learns)  # what was saved on another machine
    assert elsewhere.placement == "managed" and elsewhere.cpu().tolist() == [0, 1, 2]


def test_plain_memory_that_is_slow_says_so(reads_plain_memory, monkeypatch, nothing_left):
    monkeypatch.setattr(warned, "_told", set())
    monkeypatch.setattr(allocator, "LEAST_MEASURED", 1 << 20)
    monkeypatch.setattr(rate, "random_rows", lambda memory: 3e7)
    monkeypatch.setattr(allocator.Buffer, "tensor", lambda self, dtype, shape, device=None: torch.empty(shape, dtype=dtype))
    with pytest.warns(UserWarning, match=r"1.00 MiB of plain host memory, .* at 30 M/s, .* try placement='managed'"):
        memory.allocate(1 << 20, "system")


@pytest.mark.parametrize(("mapping", "step"), [("managed", "keep_on_host"), ("pinned", "register")])
def test_the_driver_refuses_half_way(driver, mapping, step, monkeypatch, nothing_left):
    def refuse(*args):
        raise DeviceError("refused")

    files = _open_files()
    monkeypatch.setattr(allocator.cuda, step, refuse)
    with pytest.raises(DeviceError, match="refused"):
        memory.allocate(100_000, mapping)
    assert driver == (["allocate", "free"] if mapping == "managed" else [])
    assert _open_files() == files


_LIMITED = """
import resource
from hinterland import UnifiedTensor
from hinterland.runtime.errors import OutOfMemory
UnifiedTensor.empty(1)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), resource.RLIM_INFINITY))
try:
    UnifiedTensor.empty(64 << 20, placement="pageable")
except OutOfMemory as error:
    print(error)
"""


def test_the_limit_of_a_process_is_named():
    said = forked.run("-c", _LIMITED, check=True).stdout
    assert "the system refused to map 268435456 bytes: Cannot allocate memory; release some memory, or raise" in said
