"""Rows that the CPU packs for a GPU, by each way and from each kind of host memory."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest
import torch

import hinterland
from hinterland import UnifiedTensor, memory
from hinterland.memory import assisted
from hinterland.memory import help_plan as planning
from hinterland.memory.help_plan import HelpPlan
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader

from ..split import across_boundary

pytestmark = pytest.mark.gpu
WAYS = ["gpu", "cpu", "both"]


def made(source, placement):
    if placement == "split":
        return across_boundary(source)
    return UnifiedTensor.from_tensor(source, placement=placement)


@pytest.mark.parametrize("placement", ["pinned", "split", "managed", "pageable"])
@pytest.mark.parametrize("row_bytes", [1, 12, 64, 100, 128, 512, 576, 656, 2408, 14_400])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_every_way_gives_the_same_rows(gpu, placement, row_bytes, dtype):
    rows = min(50_000, (24 << 20) // row_bytes)
    source = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    table = made(source, placement)
    for count in (1, 17, 70_001 if row_bytes < 1000 else 3000):
        index = torch.randint(-rows, rows, (count,))
        expected, there = source[index], index.to(gpu, dtype)
        for by in ["cpu", None] if placement == "pageable" else [*WAYS, None]:
            assert torch.equal(table.gather(there, by=by).cpu(), expected), (by, count)
        out = torch.empty(count, row_bytes, dtype=torch.uint8, device=gpu)
        assert table.gather(there, out=out, by="cpu", check="async") is out
        assert torch.equal(out.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool])
@pytest.mark.parametrize("by", WAYS)
def test_types_and_shapes(gpu, dtype, by):
    source = torch.randint(0, 2, (1000, 4, 12)).to(dtype)
    table = UnifiedTensor.from_tensor(source, placement="pinned")
    index = torch.randint(0, 1000, (7, 300), device=gpu)
    found = table.gather(index, by=by)
    assert found.dtype == dtype and found.shape == (7, 300, 4, 12)
    assert torch.equal(found.cpu().view(torch.uint8), source[index.cpu()].view(torch.uint8))
    assert table.gather(index[:0], by=by).shape == (0, 300, 4, 12)
    empty = UnifiedTensor.empty((5, 0), dtype, placement="pinned")
    assert empty.gather(index % 5, by=by).shape == (7, 300, 0)


def test_pageable_memory_is_read_by_the_cpu_alone(gpu):
    table = UnifiedTensor.from_tensor(torch.arange(40.0).view(10, 4), placement="pageable")
    with pytest.raises(IndexOutOfRange, match=r"index -11 at position 2 is outside a table of 10 rows \(2 such"):
        table[torch.tensor([1, 2, -11, 10], device=gpu)]
    with pytest.raises(ConfigError, match="none sees pageable memory"):
        table.gather(torch.tensor([1], device=gpu), by="both")
    with pytest.raises(ConfigError, match="pageable memory is not visible"):
        table.gather(torch.tensor([1], device=gpu), by="gpu")
    many = torch.zeros(90_000, dtype=torch.int64, device=gpu)
    many[70_000], many[80_000] = 10, -11
    with pytest.raises(IndexOutOfRange, match=r"index 10 at position 70000 is outside a table of 10 rows \(2 such"):
        table[many]
    long = UnifiedTensor.from_tensor(torch.randint(0, 256, (3, 9 << 20), dtype=torch.uint8), placement="pageable")
    assert torch.equal(long[torch.tensor([2, 0], device=gpu)].cpu(), long.cpu()[[2, 0]])


@pytest.mark.parametrize("by", ["cpu", "both"])
@pytest.mark.parametrize("placement", ["pinned", "split"])
def test_a_bad_number_is_told_as_the_gpu_tells_it(gpu, by, placement):
    source = torch.randn(20_000, 64)
    table = made(source, placement)
    index = torch.randint(0, 20_000, (90_000,), device=gpu)
    index[70_000], index[80_000] = -20_001, 1 << 40
    with pytest.raises(IndexOutOfRange, match=r"index -20001 at position 70000 is outside .* \(2 such"):
        table.gather(index, by=by)
    rows = table.gather(index, by=by, check="async")
    with pytest.raises(IndexOutOfRange, match="position 70000"):
        table.synchronize()
    table.synchronize()
    assert bool((rows[70_000] == 0).all()) and torch.equal(rows[:70_000].cpu(), source[index[:70_000].cpu()])
    good = index.clamp(0, 19_999)
    assert torch.equal(table.gather(good, by=by).cpu(), source[good.cpu()])


@pytest.mark.parametrize("by", ["cpu", "both"])
def test_streams_and_threads_race(gpu, by):
    source = torch.randn(20_000, 32)
    table = UnifiedTensor.from_tensor(source, placement="pinned")
    wrong = []

    def work(seed):
        stream = torch.cuda.Stream()
        random = torch.Generator(gpu).manual_seed(seed)
        for _ in range(8):
            with torch.cuda.stream(stream):
                index = torch.randint(0, 20_000, (66_000,), device=gpu, generator=random)
                torch.cuda._sleep(200_000)
                index = index.flip(0)  # not there yet when the gather is called
                rows = table.gather(index, by=by, check="async")
                if not torch.equal(rows.cpu(), source[index.cpu()]):
                    wrong.append(seed)
            del rows  # its memory goes to the next, of this stream

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    index = torch.randint(0, 20_000, (66_000,), device=gpu)
    torch.cuda.synchronize()
    rows = table.gather(index, stream=torch.cuda.Stream(), by=by)
    assert torch.equal(rows.cpu(), source[index.cpu()])


@pytest.fixture
def helped(monkeypatch):
    """The row counts of gathers that were helped."""
    counts, gather = [], assisted.gather
    monkeypatch.setattr(planning, "idle_cores", lambda: 16)
    monkeypatch.setattr(assisted, "gather", lambda *args: (counts.append(args[1].numel()), gather(*args)))
    return counts


def test_the_gpu_takes_over_where_the_cpu_is_slower(gpu, monkeypatch, helped):
    """A planned gather whose threads do not come is ended by the GPU, and none is helped for a while."""
    source = torch.randn(200_000, 16)
    table = UnifiedTensor.from_tensor(source, placement="pinned")

    def planned(*args, pace, **options):
        sizes = ("pinned", 1 << 17, 64, table.nbytes, 4)
        return HelpPlan("cpu" if pace == 1 else "gpu", *sizes, 1.0, 0.1, 1.0, 1e12, 1e12, 18e6, 1e-9, pace=pace)

    monkeypatch.setattr(planning, "planned", planned)
    now = [100.0]
    monkeypatch.setattr(planning.time, "monotonic", lambda: now[0])
    index = torch.randint(0, 200_000, (1 << 17,), device=gpu)
    for seconds, count in ((0, 1), (0, 1), (0.9, 1), (0.2, 2), (0, 2), (1.1, 2), (1, 3)):
        now[0] += seconds
        assert torch.equal(table.gather(index).cpu(), source[index.cpu()])
        assert len(helped) == count, now
    index[100_000] = 200_000
    now[0] += 100
    with pytest.raises(IndexOutOfRange, match="index 200000 at position 100000"):
        table.gather(index)


@pytest.mark.parametrize("by", ["cpu", "both"])
def test_more_than_is_staged_at_once(gpu, monkeypatch, by):
    monkeypatch.setattr(assisted, "HELP_STAGED", 1 << 20)
    source = torch.randn(90_000, 25)
    table = UnifiedTensor.from_tensor(source, placement="pinned")
    index = torch.randint(-90_000, 90_000, (150_000,))
    assert torch.equal(table.gather(index.to(gpu), by=by).cpu(), source[index])
    index[140_000] = 90_000
    with pytest.raises(IndexOutOfRange, match="index 90000 at position 140000"):
        table.gather(index.to(gpu), by=by)


@pytest.mark.parametrize("by", WAYS)
def test_options_are_looked_at_in_every_way(gpu, by):
    table = UnifiedTensor.from_tensor(torch.randn(100, 16), placement="pinned")
    index = torch.arange(50, device=gpu)
    with pytest.raises(ConfigError, match="check='later'"):
        table.gather(index, check="later", by=by)
    with pytest.raises(ConfigError, match="max_blocks=0"):
        table.gather(index, max_blocks=0, by=by)
    with pytest.raises(ConfigError, match="by='all' is none"):
        table.gather(index, by="all")
    assert torch.equal(table.gather(index, max_blocks=1, by=by).cpu(), table.cpu()[:50])


def test_planned_help_waits_for_nobody_who_does_not(gpu, monkeypatch):
    monkeypatch.setattr(planning, "planned", lambda *args, **options: pytest.fail("a plan was asked"))
    table = UnifiedTensor.from_tensor(torch.randn(100_000, 16), placement="pinned")
    index = torch.arange(1 << 16, device=gpu)
    table.gather(index, check="async")
    table.gather(index, sort=False)
    table.gather(index[:1000])
    table.synchronize()


@pytest.mark.parametrize("by", ["cpu", "both"])
def test_no_graph_has_the_cpus_part_in_it(gpu, by):
    table = UnifiedTensor.from_tensor(torch.randn(1000, 16), placement="pinned")
    index = torch.arange(500, device=gpu)
    with pytest.raises(ConfigError, match="the CPU reads no rows in a CUDA graph"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        table.gather(index, by=by)
    assert torch.equal(table.gather(index, by=by).cpu(), table.cpu()[:500])


@pytest.mark.parametrize(("by", "step"), [("cpu", "_place"), ("both", "_place"), ("both", "_balance")])
def test_an_exception_in_the_middle_leaves_nothing(gpu, by, step, monkeypatch, nothing_left):
    source = torch.randn(20_000, 64)
    table = UnifiedTensor.from_tensor(source, placement="pinned")
    index = torch.randint(0, 20_000, (80_000,), device=gpu)
    for _ in range(3):
        table.gather(index, by=by)
    held = torch.cuda.host_memory_stats()["allocated_bytes.current"]

    def interrupted(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(assisted._Gather, step, interrupted)
        patched.setattr(assisted, "HELP_SHARE", 0.01)  # so that the GPU is done first
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                table.gather(index, by=by)
    for _ in range(3):
        assert torch.equal(table.gather(index, by=by).cpu(), source[index.cpu()])
    # The numbers of one gather may be waiting for the GPU still.
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] <= held + (1 << 20)
    del table
    gc.collect()


def _share(table, done):
    index = torch.arange(0, len(table), 3, device="cuda")
    for by in WAYS:
        done.put(float(table.gather(index, by=by).sum()))
    done.put(None)


def test_memory_of_another_process(gpu):
    table = UnifiedTensor.from_tensor(torch.arange(90_000.0).view(-1, 1), placement="pinned")
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    child = context.Process(target=_share, args=(table, done))
    child.start()
    sums = [done.get(timeout=100) for _ in range(4)]
    child.join(60)
    assert sums[:3] == [float(table.cpu()[::3].double().sum().float())] * 3 or len({*sums[:3]}) == 1
    assert child.exitcode == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_reads_on_the_cpu(gpu):
    table = UnifiedTensor.from_tensor(torch.arange(80_000.0).view(-1, 1), placement="pinned")
    index = torch.arange(0, 80_000, 2)
    table.gather(index.to(gpu), by="both")
    child = os.fork()
    if child == 0:
        found = table.gather(index, by="cpu")
        os._exit(0 if torch.equal(found, table.cpu()[index]) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(table.gather(index.to(gpu), by="both").cpu(), table.cpu()[index])


def test_ctrl_c(gpu, tmp_path):
    program = (
        "import torch, sys\n"
        "from hinterland import UnifiedTensor\n"
        "table = UnifiedTensor.from_tensor(torch.randn(200_000, 64), placement='pinned')\n"
        "index = torch.randint(0, 200_000, (1 << 21,), device='cuda')\n"
        "out = table.gather(index, by='both')\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    while True: table.gather(index, out=out, by='both')\n"
        "except KeyboardInterrupt:\n"
        "    print('over', torch.equal(table.gather(index, by='cpu'), table.gather(index, by='gpu')), flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "over True\n" and child.returncode == 0


def test_statistics_and_gradients_are_as_ever(gpu):
    table = UnifiedTensor.from_tensor(torch.randn(1000, 16), placement="pinned")
    index = torch.randint(0, 1000, (300,), device=gpu)
    stats = {}
    rows = table.gather(index, stats=stats, by="both")
    assert torch.equal(rows.cpu(), table.cpu()[index.cpu()]) and stats
    assert "1048576 rows of 64 B from 62.50 KiB of pinned memory are read by" in table.explain()
    table.cuda().requires_grad_(True)
    out = torch.zeros(300, 16, device=gpu, requires_grad=True)
    assert torch.equal(table.gather(index, out=out, by="cpu").detach().cpu(), rows.cpu())
    with torch.inference_mode():
        assert torch.equal(table.gather(index, by="both"), rows)
    memory.synchronize()


@pytest.fixture
def helped_loader(gpu, monkeypatch):
    """What makes a loader whose every gather is helped in one way, and what its batches' features are."""
    random = torch.Generator().manual_seed(1)
    edges = torch.randint(0, 20_000, (2, 400_000), generator=random)
    graph = hinterland.from_edges(edges[0], edges[1], num_vertices=20_000)
    features = torch.randn(20_000, 16, generator=random)
    table = UnifiedTensor.from_tensor(features, placement="pinned")
    planned, sampler = planning.planned, NeighborSampler(graph, [5, 5], seed=3)
    monkeypatch.setattr(planning, "HELP_ROWS", 1)
    monkeypatch.setattr(assisted, "HELP_ROWS", 1)
    monkeypatch.setattr(planning, "idle_cores", lambda: 16)

    def loader(by, threads):
        monkeypatch.setattr(planning, "planned", lambda *args, **options: planned(*args, by, **options))
        return Loader(sampler, torch.arange(2000), 256, features=table, host_threads=threads)

    return loader, features


@pytest.mark.parametrize("by", WAYS)
def test_a_loader_has_its_features_gathered_with_the_cpus_help(helped_loader, monkeypatch, by):
    loader, features = helped_loader
    begun, begin, threads = [], assisted.begin, torch.get_num_threads()
    monkeypatch.setattr(assisted, "begin", lambda *args: (begun.append(args[3]), begin(*args))[1])
    with torch.inference_mode():
        batches = [list(loader(by, threads)) for threads in (0, 3)]
    assert [(plan.by, plan.threads) for plan in begun] == ([] if by == "gpu" else [(by, 3)] * 8)
    for alone, helped in zip(*batches, strict=True):
        assert torch.equal(alone.sample.node, helped.sample.node) and torch.equal(alone.x, helped.x)
        assert torch.equal(helped.x.cpu(), features[helped.sample.node.cpu()])
    assert torch.get_num_threads() == threads


def test_an_epoch_that_the_cpu_helps_is_left_or_fails(helped_loader, monkeypatch, nothing_left):
    loader, features = helped_loader
    for _ in range(3):
        for batch in loader("both", 2):
            assert torch.equal(batch.x.cpu(), features[batch.sample.node.cpu()])
            break
    del batch
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(assisted._Gather, "_place", lambda *args: 1 // 0)
        list(loader("cpu", 2))
    assert len(list(loader("cpu", 2))) == 8


def test_a_table_that_is_let_go_is_there_until_its_rows_are_packed(gpu, monkeypatch, nothing_left):
    source = torch.randn(90_000, 16)
    table = UnifiedTensor.from_tensor(source, placement="pinned")
    plan = planning.planned("pinned", 1 << 17, 64, table.nbytes, 0, "cpu", threads=2, ahead=True)
    monkeypatch.setattr(table._help, "plan", lambda *args, **options: plan)
    index, goes_on, run = torch.randint(0, 90_000, (1 << 17,), device=gpu), threading.Event(), assisted._Gather.run
    monkeypatch.setattr(assisted._Gather, "run", lambda self: goes_on.wait(60) and run(self))
    rows, packed = table.begin_gather(index, 2)
    del table
    gc.collect()
    assert not packed.done()
    goes_on.set()
    packed.result(60)
    assert torch.equal(rows.cpu(), source[index.cpu()])
