"""What only a GPU can show: mappings, streams, deferred checks."""

import gc
import threading

import pytest
import torch
from torch.utils.data import DataLoader

from hinterland import UnifiedTensor, memory
from hinterland.machine import MachineKind, machine_kind
from hinterland.memory import cuda, rate
from hinterland.memory.rate import random_rows
from hinterland.runtime import capture, devices, warned
from hinterland.runtime.errors import ConfigError, DeviceError, IndexOutOfRange, OutOfMemory

from ..split import across_boundary

pytestmark = pytest.mark.gpu
MAPPINGS = ["managed", "pinned"]


@pytest.fixture(params=[*MAPPINGS, "system"])
def mapping(request, gpu):
    if request.param == "system" and not cuda.system_memory_works():
        pytest.skip("GPUs here do not read plain memory")
    return request.param


def test_host_is_mapped_here(gpu):
    assert UnifiedTensor.empty(3).placement == ("system" if cuda.shares_page_tables() else "managed")


def test_plain_memory_is_read_or_refused(gpu, nothing_left):
    if not cuda.system_memory_works():
        with pytest.raises(
            DeviceError, match=r"'system' .* cuda:\d does not \(its pageableMemoryAccess is 0\); use placement='host'"
        ):
            UnifiedTensor.empty(3, placement="system")
        return
    source = torch.randint(0, 256, (5003, 133), dtype=torch.uint8)
    table = UnifiedTensor.from_tensor(source, placement="system")
    index = torch.randint(0, len(source), (20_000,), device=gpu)
    assert table.placement == "system" and torch.equal(table[index].cpu(), source[index.cpu()])
    order = torch.randperm(len(source))
    table.scatter_(order.to(gpu), source.to(gpu))
    torch.cuda.synchronize()
    assert torch.equal(table.cpu()[order], source)


def test_every_processor_sees_the_same_bytes(mapping, gpu, nothing_left):
    table = UnifiedTensor.from_tensor(torch.arange(100_000.0).view(-1, 10), placement=mapping)
    on_gpu = table.cuda()
    assert (on_gpu.device, on_gpu.data_ptr()) == (gpu, table.cpu().data_ptr())
    ours = torch.ones(10_000, 10, device=gpu)
    assert torch.equal((ours + on_gpu).cpu(), table.cpu() + 1)
    on_gpu.mul_(2)
    torch.cuda.synchronize()
    assert table.cpu()[-1, -1] == 2 * 99_999
    table.cpu().zero_()
    assert on_gpu.sum().item() == 0
    for other in devices.gpus():
        assert table.cuda(other).device == other
        assert table[torch.tensor([1], device=other)].device == other


def test_nothing_moves_to_the_gpu(mapping, gpu):
    size = 256 << 20

    def taken() -> int:
        """GPU memory, by reading rows of a new table again and again."""
        table = UnifiedTensor.empty((size // 512, 512), torch.uint8, mapping)
        index = torch.randint(0, len(table), (1 << 16,), device=gpu)
        table[index]
        torch.cuda.synchronize()
        before = torch.cuda.mem_get_info()[0]
        for _ in range(20):
            table[index]
        return before - torch.cuda.mem_get_info()[0]

    assert any(taken() < size // 8 for _ in range(5))  # other tests use the GPU as well


@pytest.mark.parametrize("row_bytes", [1, 2, 12, 32, 64, 100, 128, 132, 256, 480, 512, 516, 1028, 2048, 2408, 14_400, 1 << 20])
def test_rows(mapping, gpu, row_bytes):
    rows = min(100_000, (64 << 20) // row_bytes)
    source = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    table = UnifiedTensor.from_tensor(source, placement=mapping)
    for count in (1, 7, 40_000 if row_bytes < 3000 else 20):
        index = torch.randint(-rows, rows, (count,))
        expected = source[index]
        for options in ({}, {"sort": True}, {"max_blocks": 3}):
            assert torch.equal(table.gather(index.to(gpu), **options).cpu(), expected), (count, options)
    index = torch.randperm(rows)[:20_000]
    values = torch.randint(0, 256, (len(index), row_bytes), dtype=torch.uint8)
    table.scatter_(index.to(gpu), values.to(gpu))
    source[index] = values
    assert torch.equal(table.cpu(), source)


def test_cpu_and_gpu_agree(mapping, gpu):
    table = UnifiedTensor.from_tensor(torch.randn(5000, 77), placement=mapping)
    index = torch.randint(-5000, 5000, (300, 4))
    assert torch.equal(table[index], table[index.to(gpu)].cpu())


def test_deferred_check(gpu):
    source = torch.randn(100, 4)
    table = UnifiedTensor.from_tensor(source)
    good, bad = torch.arange(100, device=gpu), torch.full((70_000,), 5, device=gpu)
    bad[60_000] = -101
    table.gather(bad, check="async")
    with pytest.raises(IndexOutOfRange, match=r"index -101 at position 60000 .* 100 rows"):
        table.synchronize()
    table.synchronize()
    table.gather(bad, check="async")
    torch.cuda.synchronize()
    with pytest.raises(IndexOutOfRange, match="position 60000"):
        table.gather(good, check="async")
    assert torch.equal(table[good].cpu(), source)
    memory.synchronize()


def test_the_context_survives(gpu):
    table = UnifiedTensor.from_tensor(torch.randn(10, 3))
    for _ in range(3):
        with pytest.raises(IndexOutOfRange, match="70000 such"):
            table[torch.full((70_000,), 10, device=gpu)]
    assert torch.ones(3, device=gpu).sum().item() == 3


def test_streams(gpu):
    source = torch.randn(20_000, 64)
    table = UnifiedTensor.from_tensor(source)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    index = torch.randint(0, 20_000, (50_000,), device=gpu)
    bad, flipped = index.clone(), index.flip(0)
    bad[7] = 20_000
    torch.cuda.synchronize()
    for _ in range(5):
        a = table.gather(index, stream=first, check="async", max_blocks=4)
        b = table.gather(flipped, stream=second, check="async")
        torch.cuda.synchronize()
        assert torch.equal(a.cpu(), source[index.cpu()])
        assert torch.equal(b.cpu(), a.cpu().flip(0))
    table.gather(bad, stream=first, check="async")
    with pytest.raises(IndexOutOfRange, match="position 7"):
        table.synchronize()
    with torch.cuda.stream(second):
        assert torch.equal(table[index].cpu(), source[index.cpu()])


def test_pageable_is_not_visible(gpu):
    table = UnifiedTensor.empty((4, 4), placement="pageable")
    for call in (table.cuda, lambda: table.gather(torch.tensor([1], device=gpu), by="gpu")):
        with pytest.raises(ConfigError, match="pageable"):
            call()


def test_managed_memory_stays_below_the_gpus(gpu, monkeypatch):
    gc.collect()
    monkeypatch.setattr("hinterland.memory.mapping.machine_kind", lambda: MachineKind(True, "a test says so"))
    monkeypatch.setattr(devices, "free_bytes", lambda device: 1 << 20)
    assert UnifiedTensor.empty(1 << 19, torch.uint8).placement == "managed"
    assert UnifiedTensor.empty(1 << 21, torch.uint8).placement == "pinned"
    with pytest.raises(OutOfMemory, match="all of it may be"):
        UnifiedTensor.empty(1 << 21, torch.uint8, placement="managed")


@pytest.mark.parametrize("row_bytes", [4, 60, 128, 512, 480])
def test_rows_on_both_sides_of_a_boundary(row_bytes, gpu, nothing_left):
    """The GPU and the CPU read and write one range of addresses, half of it managed and half of it pinned."""
    rows = 4099
    source = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    table = across_boundary(source)
    assert 0 < table.managed_bytes < table.nbytes
    index = torch.randint(0, rows, (20_000,), device=gpu)
    for sort in (False, True):
        assert torch.equal(table.gather(index, sort=sort).cpu(), source[index.cpu()])
    back, there = torch.empty_like(source), torch.empty_like(source, device=gpu)
    memory.copy(back, table.cuda())
    memory.copy(there, table.cpu())
    assert torch.equal(back, source) and torch.equal(there.cpu(), source)
    memory.copy(table.cpu(), there.flip(0))
    assert torch.equal(table.cpu(), source.flip(0))
    memory.copy(table.cpu(), source)
    written = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    order = torch.randperm(rows)
    table.scatter_(order.to(gpu), written.to(gpu))
    torch.cuda.synchronize()
    assert torch.equal(table.cpu()[order], written)
    tiered = table.tiered(local=rows * row_bytes // 3)
    assert torch.equal(tiered[index].cpu(), table.cpu()[index.cpu()])


def test_a_large_table_is_split_by_the_limit(gpu, nothing_left):
    gc.collect()
    memory.set_managed_limit("1GiB")
    try:
        table = UnifiedTensor.empty((3 << 20, 1024), torch.uint8)
    finally:
        memory.set_managed_limit(None)
    assert table.placement == "split" and table.managed_bytes <= 1 << 30
    edge = table.managed_bytes // 1024
    table.cpu()[edge - 2 : edge + 2] = torch.arange(4, dtype=torch.uint8)[:, None]
    assert table[torch.arange(edge - 2, edge + 2, device=gpu)][:, 5].tolist() == [0, 1, 2, 3]
    assert random_rows(table.cuda().view(-1)[: table.managed_bytes]) > 1e6


def test_forks_and_the_cpu_leave_the_mapping_as_fast(gpu, nothing_left):
    """Workers of a DataLoader are forked, and the CPU writes every page and reads it."""
    table = UnifiedTensor.empty((4 << 20, 1024), torch.uint8)
    assert len(list(DataLoader(range(8), num_workers=2))) == 8
    assert table.cpu().fill_(1).amax() == 1
    assert random_rows(table.cuda().view(-1)) > rate.LEAST_RATE


@pytest.fixture
def asked(monkeypatch):
    """The bytes of managed memory that the driver is asked for, and what else it is asked, in order."""
    calls = []
    for name in ("allocate_managed", "free_managed", "register"):

        def recorded(*arguments, real=getattr(cuda, name), name=name):
            calls.append((name, arguments[-1]))
            return real(*arguments)

        monkeypatch.setattr(cuda, name, recorded)
    yield calls
    memory.set_managed_limit(None)


@pytest.mark.parametrize("said", [None, "4TiB"])
def test_on_a_virtual_machine_no_more_is_asked_for_than_the_gpu_has_free(said, gpu, asked, monkeypatch, nothing_left):
    """However much the host has, and whatever size is said."""
    if not machine_kind().is_virtual:
        pytest.skip("this machine is no virtual one")
    memory.set_managed_limit(said)
    limit = memory.managed_limit()
    assert limit.source == "the GPU's free memory" and limit.nbytes < torch.cuda.mem_get_info(gpu)[1]
    assert limit.nbytes == pytest.approx(devices.free_bytes(gpu), rel=0.1)  # other processes take and free some
    monkeypatch.setattr(devices, "free_bytes", lambda device: 128 << 20)  # as if others had taken the rest
    table = UnifiedTensor.empty((5 << 18, 1024), torch.uint8)
    assert table.placement == "split" and max(nbytes for call, nbytes in asked if call == "allocate_managed") < 128 << 20
    assert f"128.00 MiB, by the GPU's free memory (this machine counts as {machine_kind()})" in table.explain()


@pytest.fixture
def physical(gpu, monkeypatch):
    """As if this were no virtual machine, and its GPU had 128 MiB free; what is tried here is less than it has."""
    gc.collect()
    torch.cuda.empty_cache()
    assert devices.free_bytes(gpu) > 8 << 30
    kind = MachineKind(False, "a test says so")
    monkeypatch.setattr("hinterland.memory.mapping.machine_kind", lambda: kind)
    monkeypatch.setattr(devices, "free_bytes", lambda device: 128 << 20)
    monkeypatch.setattr(warned, "_told", set())
    return 5 << 28


def test_what_exceeds_the_gpus_free_memory_is_measured_and_stays(physical, asked, nothing_left):
    table = UnifiedTensor.empty((physical,), torch.uint8)
    assert table.placement == "managed" and [call for call, _ in asked] == ["allocate_managed"]
    assert "counts as physical: a test says so; more than the GPU has free is not measured by us" in table.explain()


def test_what_the_gpu_reads_slowly_is_given_back_before_other_memory_is_taken(physical, asked, monkeypatch, nothing_left):
    monkeypatch.setattr(rate, "LEAST_RATE", 1e12)
    with pytest.warns(UserWarning, match="1.25 GiB were tried and given back: random rows of 1.25 GiB came at .* M/s") as told:
        table = UnifiedTensor.empty((physical // 1024, 1024), torch.uint8)
    assert len(told) == 1
    assert table.placement == "split" and table.managed_bytes < 128 << 20
    names = [call for call, _ in asked]
    assert names[:3] == ["allocate_managed", "free_managed", "allocate_managed"] and names[-1] == "register"
    edge = table.managed_bytes // 1024
    table.cpu()[edge - 2 : edge + 2] = torch.arange(4, dtype=torch.uint8)[:, None]
    assert table[torch.arange(edge - 2, edge + 2, device="cuda")][:, 5].tolist() == [0, 1, 2, 3]
    del table
    gc.collect()
    with pytest.raises(OutOfMemory, match="by the GPU's free memory .1.25 GiB were tried and given back"):
        UnifiedTensor.empty((physical,), torch.uint8, placement="managed")


def test_released_by_another_thread(mapping, gpu, nothing_left):
    """A thread that never used CUDA drops the last reference."""
    held = [UnifiedTensor.empty((1000, 100), placement=mapping).cuda()]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    gc.collect()


def test_let_go_while_a_graph_is_captured(mapping, gpu, nothing_left):
    """As the garbage collector does, at any point of a capture, which ends where somebody waits for its GPU."""
    tables, source, graph = (
        [UnifiedTensor.empty(100, placement=mapping) for _ in range(2)],
        torch.arange(99.0, device=gpu),
        torch.cuda.CUDAGraph(),
    )
    with torch.cuda.graph(graph):
        doubled = source * 2
        tables.pop()
        with capture.beside(gpu):  # as what is loaded, allocated or counted for a graph
            tables.pop()
    graph.replay()
    assert torch.equal(doubled, source * 2)
    UnifiedTensor.empty(1, placement=mapping)  # gives back what the capture left


@pytest.mark.parametrize("step", ["keep_on_host", "register"])
def test_released_after_an_exception_half_way(step, gpu, monkeypatch, nothing_left):
    def fail(*args):
        raise DeviceError("injected")

    monkeypatch.setattr(cuda, step, fail)
    with pytest.raises(DeviceError, match="injected"):
        memory.allocate(1 << 20, "managed" if step == "keep_on_host" else "pinned")


def test_shared_with_a_process_that_has_a_gpu(gpu, tmp_path):
    import subprocess
    import sys

    (tmp_path / "child.py").write_text(
        "import torch\n"
        "def double(table, done):\n"
        "    table.cuda().mul_(2)\n"
        "    torch.cuda.synchronize()\n"
        "    done.put(float(table[torch.tensor([999], device='cuda')]))\n"
    )
    (tmp_path / "main.py").write_text(
        "import multiprocessing, torch\n"
        "from child import double\n"
        "from hinterland import UnifiedTensor\n"
        "if __name__ == '__main__':\n"
        "    mp = multiprocessing.get_context('spawn')\n"
        "    table = UnifiedTensor.from_tensor(torch.arange(1000.0), placement='pinned')\n"
        "    done = mp.Queue()\n"
        "    child = mp.Process(target=double, args=(table, done))\n"
        "    child.start()\n"
        "    print(done.get(timeout=100))\n"
        "    child.join(60)\n"
        "    print(child.exitcode, float(table.cuda().sum()))\n"
    )
    done = subprocess.run([sys.executable, str(tmp_path / "main.py")], capture_output=True, text=True, timeout=200)
    assert done.stdout.splitlines() == ["1998.0", "0 999000.0"], done.stderr


def test_a_thread_may_begin_with_a_gather(gpu):
    """Before torch has given it a CUDA context: nothing is allocated there. A later thread has the number of one that ended,
    for which everything is there already."""
    table = UnifiedTensor.from_tensor(torch.arange(1000.0).view(-1, 10))
    index = torch.arange(50, device=gpu)
    for _ in range(3):
        out = torch.zeros(50, 10, device=gpu)
        thread = threading.Thread(target=table.gather, args=(index, out))
        thread.start()
        thread.join()
        torch.cuda.synchronize()
        assert torch.equal(out.cpu(), table.cpu()[:50])
