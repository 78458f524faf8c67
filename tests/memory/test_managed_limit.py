"""How much managed memory is taken on machines of both kinds, and what becomes of what is more than the GPU has free."""

import gc
import threading
import time
import warnings
from contextlib import ExitStack

import pytest
import torch

from hinterland import UnifiedTensor, memory
from hinterland.machine import MachineKind
from hinterland.memory import allocator, cuda, limits, mapping, plan, rate
from hinterland.runtime import devices, warned
from hinterland.runtime.errors import OutOfMemory

from .. import forked

MIB = 1 << 20
PHYSICAL = MachineKind(False, "a test says so")


class System:
    """A host that has 320 MiB, and a GPU that has 80 MiB free; what was asked of them."""

    def __init__(self, root, driver):
        self.root, self.driver = root, driver
        self.kind = PHYSICAL
        self.free = 80 * MIB
        self.rates: list[float] = []  # of what is measured, one after the other; 300 M/s past them
        self.measured: list[int] = []
        self.falls = 0
        self.write("proc/meminfo", f"MemAvailable: {320 << 10} kB\n")
        self.write("proc/self/cgroup", "")

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def group(self, limit):
        self.write("proc/self/cgroup", "0::/a\n")
        for name, text in {"max": str(limit), "current": "0", "stat": "inactive_file 0\n"}.items():
            self.write(f"sys/fs/cgroup/a/memory.{name}", text)

    def random_rows(self, seen):
        self.measured.append(seen.numel())
        self.free -= self.falls
        return self.rates.pop(0) if self.rates else 3e8


@pytest.fixture
def system(driver, tmp_path, monkeypatch, nothing_left):
    made = System(tmp_path, driver)
    monkeypatch.delenv("HINTERLAND_HOST_MEMORY", raising=False)
    monkeypatch.delenv("HINTERLAND_MANAGED_LIMIT", raising=False)
    monkeypatch.setattr(mapping, "load", lambda: None)
    for module in (mapping, limits):
        monkeypatch.setattr(module, "machine_kind", lambda: made.kind)
    monkeypatch.setattr(limits, "Path", lambda name: tmp_path / str(name).lstrip("/"))
    monkeypatch.setattr(devices, "free_bytes", lambda device: made.free)
    monkeypatch.setattr(rate, "random_rows", made.random_rows)
    monkeypatch.setattr(rate, "LEAST_FALLEN", MIB)
    monkeypatch.setattr(mapping, "_SMALL", MIB)
    monkeypatch.setattr(plan, "REACH", MIB)
    monkeypatch.setattr(warned, "_told", set())
    tensor = allocator.Buffer.tensor
    monkeypatch.setattr(allocator.Buffer, "tensor", lambda self, dtype, shape, device=None: tensor(self, dtype, shape))
    memory.set_managed_limit(None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield made
    gc.collect()
    memory.set_managed_limit(None)
    assert driver.count("allocate") == driver.count("free") and driver.count("register") == driver.count("unregister")


def test_on_a_physical_machine_the_limit_is_what_the_host_can_give(system):
    limit = memory.managed_limit()
    assert (limit.nbytes, limit.source) == (310 * MIB, "the system's available memory")  # one part in 32 is left
    assert limit.explain().endswith(
        "memory (this machine counts as physical: a test says so; more than the GPU has free is not measured by us)"
    )
    held = memory.allocate(50 * MIB)
    assert memory.managed_limit().nbytes == 360 * MIB  # what the system had available then is as if that were touched
    del held
    system.group(200 * MIB)
    limit = memory.managed_limit()
    assert (limit.nbytes, limit.source) == (200 * MIB - 200 * MIB // 32, "the control group's memory limit")
    system.group(400 * MIB)  # a group may be promised more than there is
    assert memory.managed_limit().source == "the system's available memory"


@pytest.mark.parametrize("said", [None, "70MiB", "200MiB"])
def test_on_a_virtual_machine_no_more_is_asked_for_than_the_gpu_has_free(system, said, monkeypatch):
    """Whatever the host has, whoever asks, and also where what is unknown counts as virtual."""
    system.kind = MachineKind(True, "nobody knows")
    memory.set_managed_limit(said)
    asked, real = [], cuda.allocate_managed

    def allocate_managed(nbytes):
        asked.append(sum(one.managed for one in allocator._held) + nbytes)
        return real(nbytes)

    monkeypatch.setattr(cuda, "allocate_managed", allocate_managed)
    monkeypatch.setattr(mapping, "host_memory", lambda held: pytest.fail("the host is asked for nothing"))
    limit = memory.managed_limit()
    assert limit.nbytes == (70 * MIB if said == "70MiB" else 80 * MIB - 1)
    if said != "70MiB":
        assert limit.explain().endswith("by the GPU's free memory (this machine counts as virtual: nobody knows)")
    with pytest.warns(UserWarning, match="the first 64.00 MiB mapped in large pages, 136.00 MiB pinned"):
        held = [memory.allocate(200 * MIB)]
    held += [memory.allocate(nbytes * MIB, touch=touch) for nbytes in (1, 5, 40) for touch in (False, True)]
    with pytest.raises(OutOfMemory, match="with .* held, but all of it may be"):
        memory.allocate(80 * MIB, "managed")
    with ExitStack() as undo, pytest.raises(AssertionError):
        allocator.take_managed(80 * MIB, undo)
    assert max(asked) <= limit.nbytes and system.measured == []


def test_what_exceeds_the_gpus_free_memory_is_measured_and_stays(system):
    table = UnifiedTensor.empty((200, MIB), torch.uint8)
    assert table.placement == "managed" and system.driver == ["allocate", "keep"] and system.measured == [200 * MIB]
    assert table.explain().endswith(
        "All managed memory may be 310.00 MiB, by the system's available memory (this machine counts as physical: a test says "
        "so; more than the GPU has free is not measured by us), and 0 B was held before"
    )


def test_of_several_tables_those_are_measured_that_exceed_it_together(system):
    tables = [memory.allocate(nbytes * MIB) for nbytes in (60, 60, 4, 50)]
    assert {table.mapping for table in tables} == {"managed"}
    assert system.measured == [60 * MIB, 50 * MIB]  # not what is small
    system.rates = [2e7]
    with pytest.warns(UserWarning) as told:
        assert memory.allocate(64 * MIB).mapping == "pinned"
        assert memory.allocate(60 * MIB).mapping == "pinned"  # nothing more is tried
    assert [str(one.message)[:9] for one in told] == ["64.00 MiB", "60.00 MiB"]
    assert {table.mapping for table in tables} == {"managed"} and len(system.measured) == 3
    assert [table.plan.held // MIB for table in tables] == [0, 60, 120, 124]


def fallen(system):
    system.falls = 4 * MIB  # of 200 MiB, more than one part in 64
    return "the GPU's free memory fell by 4.00 MiB as 200.00 MiB were mapped and read"


def slow(system):
    system.rates = [99e6]
    return "random rows of 200.00 MiB came at 99 M/s, where 300 M/s are usual"


def crowded(system):
    def random_rows(seen):
        raise torch.OutOfMemoryError("injected")

    system.random_rows = random_rows
    return "the GPU has no room to measure at what rate random rows of 200.00 MiB come"


@pytest.mark.parametrize("break_", [fallen, slow, crowded])
def test_what_is_no_good_is_given_back_before_other_memory_is_taken(system, break_, monkeypatch):
    why = break_(system)
    monkeypatch.setattr(rate, "random_rows", system.random_rows)
    with pytest.warns(UserWarning) as told:
        table = UnifiedTensor.empty((200, MIB), torch.uint8)
    given_back = f"by the GPU's free memory (200.00 MiB were tried and given back: {why})"
    assert len(told) == 1 and given_back in str(told[0].message) and given_back in table.explain()
    assert str(told[0].message).startswith("200.00 MiB of host memory, the first 64.00 MiB mapped in large pages")
    assert (table.placement, table.managed_bytes) == ("split", 64 * MIB)
    calls = system.driver
    assert calls[:4] == ["allocate", "keep", "free", "allocate"] and calls[-1] == "register"
    assert calls.count("allocate") - calls.count("free") == 1
    tries = len(system.measured)
    with pytest.warns(UserWarning, match="100.00 MiB of host memory, all pinned.*200.00 MiB were tried and given back"):
        assert memory.allocate(100 * MIB).mapping == "pinned" and len(system.measured) == tries
    memory.set_managed_limit(None)  # who says a limit wants it tried again
    assert memory.managed_limit().nbytes > 310 * MIB


def test_that_it_was_given_back_is_told_even_if_little_is_lost(system):
    system.free, system.rates = 200 * MIB, [2e7]
    with pytest.warns(UserWarning, match="201.00 MiB were tried and given back"):
        buffer = memory.allocate(201 * MIB)
    assert buffer.managed == 192 * MIB and not buffer.plan.is_slow


@pytest.mark.parametrize(("fall", "least", "mapping"), [(3, 1, "managed"), (4, 8, "managed"), (4, 1, "split"), (9, 8, "split")])
def test_free_memory_that_falls_a_little_is_no_reason(system, fall, least, mapping, monkeypatch):
    system.falls = fall * MIB
    monkeypatch.setattr(rate, "LEAST_FALLEN", least * MIB)
    warnings.simplefilter("ignore")
    assert memory.allocate(200 * MIB).mapping == mapping


def test_what_the_driver_refuses_is_split_too(system, monkeypatch):
    real = cuda.allocate_managed

    def allocate_managed(nbytes):
        if nbytes > 100 * MIB:
            raise OutOfMemory("the driver has no more")
        return real(nbytes)

    monkeypatch.setattr(cuda, "allocate_managed", allocate_managed)
    with pytest.warns(UserWarning, match="200.00 MiB were tried and given back: the driver has no more"):
        assert memory.allocate(200 * MIB).managed == 64 * MIB


def test_what_is_asked_for_by_name_is_never_other_memory(system):
    assert memory.allocate(200 * MIB, "managed").mapping == "managed"
    gc.collect()
    slow(system)
    with pytest.raises(
        OutOfMemory, match="may be 80.00 MiB, by the GPU's free memory .200.00 MiB were tried and given back: ran"
    ):
        memory.allocate(200 * MIB, "managed")
    assert memory.report().nbytes == 0


def test_what_is_filled_later_stays_below(system):
    """Its rate cannot be measured, and when it could there is no room for the same once more."""
    with pytest.warns(
        UserWarning, match="by the GPU's free memory .of memory that is filled later nothing can be measured now"
    ):
        assert memory.allocate(200 * MIB, touch=False).managed == 64 * MIB
    with ExitStack() as undo, pytest.raises(AssertionError):
        allocator.take_managed(100 * MIB, undo)
    assert system.measured == []


@pytest.mark.parametrize(
    ("said", "nbytes", "source"),
    [
        ("40MiB", 40 * MIB, "set_managed_limit()"),
        ("200MiB", 200 * MIB, "set_managed_limit()"),
        ("1GiB", 310 * MIB, "the system's available memory"),
        ("unlimited", mapping.UNLIMITED, "set_managed_limit()"),
    ],
)
def test_what_is_said_lowers_the_limit_or_lifts_it(system, said, nbytes, source):
    memory.set_managed_limit(said)
    limit = memory.managed_limit()
    assert (limit.nbytes, limit.source) == (nbytes, source)
    if said != "40MiB":
        assert memory.allocate(150 * MIB).mapping == "managed"
        assert system.measured == ([] if said == "unlimited" else [150 * MIB])


def test_a_split_of_more_than_the_gpu_has_free_is_measured(system):
    memory.set_managed_limit("200MiB")
    with pytest.warns(UserWarning, match="the first 192.00 MiB mapped in large pages, 58.00 MiB pinned"):
        assert memory.allocate(250 * MIB).managed == 192 * MIB
    assert system.measured == [192 * MIB]


def test_memory_that_is_pinned_anyway_is_no_trial(system):
    held = memory.allocate(120 * MIB)
    memory.set_managed_limit("100MiB")
    with pytest.warns(UserWarning, match="all pinned.*100.00 MiB, by set_managed_limit.., and 120.00 MiB was held"):
        pinned = memory.allocate(50 * MIB)
    assert not pinned.plan.is_trial and held.plan.is_trial


def test_the_least_that_is_free_counts_of_the_gpus_that_are_in_use(system, monkeypatch):
    """To ask the others would take memory of them."""
    first, second, third = (torch.device("cuda", i) for i in range(3))
    free = {first: 80 * MIB, second: 50 * MIB}
    monkeypatch.setattr(devices, "gpus", lambda: [first, second, third])
    monkeypatch.setattr(devices, "as_device", lambda device: first)
    monkeypatch.setattr(devices, "free_bytes", free.__getitem__)
    monkeypatch.setattr(cuda, "devices", devices)
    monkeypatch.setattr(cuda, "_works_on", lambda gpu: gpu in free)
    system.kind = MachineKind(True, "a test says so")
    assert memory.managed_limit().nbytes == 50 * MIB - 1


def test_one_is_tried_at_a_time(system, monkeypatch):
    """Two that are measured at once would halve each other's rate."""
    running, together = [], []

    def random_rows(seen):
        running.append(seen)
        together.append(len(running))
        time.sleep(0.02)
        running.pop()
        return 3e8

    monkeypatch.setattr(rate, "random_rows", random_rows)
    held = []
    threads = [threading.Thread(target=lambda: held.append(memory.allocate(70 * MIB))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [buffer.mapping for buffer in held] == ["managed"] * 4 and together == [1, 1, 1]


def test_a_fork_may_come_while_memory_is_tried():
    """The thread that holds the lock is not in the child."""
    code = """
import os, signal, threading, warnings, torch
from hinterland import UnifiedTensor
from hinterland.memory import registry
held, done = threading.Event(), threading.Event()
def hold():
    with registry.lock:
        held.set()
        done.wait()
threading.Thread(target=hold).start()
held.wait()
warnings.simplefilter("ignore")
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if UnifiedTensor.empty(10, placement="pageable").nbytes else 1)
print(os.waitpid(child, 0)[1])
done.set()
"""
    done = forked.run("-c", code)
    assert (done.stdout, done.stderr) == ("0\n", "")
