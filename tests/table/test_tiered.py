"""Rows over several tiers: the same rows as one table has, wherever they lie."""

from __future__ import annotations

import copy
import ctypes
import gc
import multiprocessing
import os
import pickle
import weakref

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.memory import hottest_first, peers, pickle_shared
from hinterland.memory.faults import _IndexFault
from hinterland.memory.gather import DealtRound, OneRange, TieredCopy, Tiers, row_cut
from hinterland.memory.plan import cut_rows
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError, DeviceError, IndexOutOfRange, OutOfMemory
from hinterland.table import plan_tiers, reorder_rows, tiered

ONE = ["cpu"]  # host memory in the part of a GPU
TWO = ["cpu", "cpu"]
THREE = ["cpu"] * 3
BUDGETS = st.sampled_from([0, 1, 3000, 20_000, 70_000, 1 << 22])


def fresh(rows: int, row_bytes: int, placement: str = "host") -> tuple[torch.Tensor, hl.UnifiedTensor]:
    """Random rows, and the table of them."""
    source = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    return source, hl.UnifiedTensor.from_tensor(source, placement=placement)


def homes_of(device: torch.device) -> list[str]:
    """The tiers' homes for the tests that run on every device."""
    return TWO if device.type == "cpu" else [str(device)]


def same_for_every_reader(table, source, index, changes, new):
    """Reads, also after each has written."""
    for reader in range(len(table.devices) or 1):
        table._tiers.reader = reader
        assert torch.equal(table[index], source[index.long()])
        table.scatter_(changes - len(source) if reader else changes, new)
        source[changes] = new
        new = new.flip(0)
    for reader in range(len(table.devices) or 1):
        table._tiers.reader = reader
        assert torch.equal(table[index], source[index.long()])


@settings(deadline=None, max_examples=40)
@given(
    row_bytes=st.integers(1, 300) | st.sampled_from([512, 516, 1028, 4100, 5000]),
    rows=st.integers(1, 200),
    local=BUDGETS,
    shared=BUDGETS,
    homes=st.integers(1, 5),
    by=st.sampled_from(["first", "scores", "order"]),
    wide=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_any_tiers_give_the_same_rows(row_bytes, rows, local, shared, homes, by, wide, seed):
    torch.manual_seed(seed)
    source, host = fresh(rows, row_bytes)
    scores = torch.randint(0, 5, (rows,)).float() if by == "scores" else None
    order = torch.randperm(rows) if by == "order" else None
    table = host.tiered(local, shared, scores, order, ["cpu"] * homes)
    index = torch.randint(-rows, rows, (150,)).to(torch.int64 if wide else torch.int32)
    changes = torch.randperm(rows)[: rows // 2 + 1]
    new = torch.randint(0, 256, (len(changes), row_bytes), dtype=torch.uint8)
    same_for_every_reader(table, source, index, changes, new)
    assert sum(table.count(index).rows.values()) == 150
    for held in table.held.values():
        assert held <= local + shared // homes
    table.close()
    assert torch.equal(host.cpu(), source)


@settings(deadline=None, max_examples=50)
@given(
    row_bytes=st.integers(1, 300) | st.sampled_from([512, 516, 1028, 4100]),
    rows=st.integers(1, 120),
    local=BUDGETS,
    shared=BUDGETS,
    homes=st.integers(1, 3),
    ordered=st.booleans(),
    warps=st.integers(1, 4),
    shift=st.sampled_from([0, 0, 4, 1, 72]),
    into=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_gpus_code_thread_by_thread(emulation, row_bytes, rows, local, shared, homes, ordered, warps, shift, into, seed):
    """The launches that a GPU would run, emulated; bad row numbers among the good ones."""
    torch.manual_seed(seed)
    source, host = fresh(rows, row_bytes)
    table = host.tiered(local, shared, order=torch.randperm(rows) if ordered else None, devices=["cpu"] * homes)
    assume(table.devices)
    tiers = table._tiers
    tiers.state.written = int(into)
    count = rows if into else 90
    index = torch.randperm(rows) if into else torch.randint(-rows, rows, (count,))
    bad = sorted({int(i) for i in torch.randint(0, count, (count // 20,))})
    index[bad] = rows + 7
    memory = torch.randint(0, 256, (count * row_bytes + 256,), dtype=torch.uint8)
    start = -memory.data_ptr() % 128 + shift
    packed = memory[start : start + count * row_bytes].view(count, row_bytes)
    expected = torch.where((index < rows)[:, None], source[index % rows], 0) if not into else packed.clone()
    good = index < rows
    if into:
        source[index[good]] = packed[good]
    cut = cut_rows(row_bytes, 0, packed.data_ptr(), into)
    copy = TieredCopy(
        placement=tiers.table(tiers.homes[-1]),
        packed=packed.data_ptr(),
        indices=index.data_ptr(),
        index_bytes=8,
        count=count,
        row_bytes=row_bytes,
        into_table=into,
        cut=row_cut(cut),
    )
    fault = _IndexFault()
    shape = map(ctypes.c_int64, (cut.unit, cut.chunks, warps * 32))
    flag = emulation.emulate_tiered(ctypes.byref(copy), *shape, ctypes.byref(fault))
    assert flag == bool(bad)
    assert fault.count == len(bad)
    assert not bad or (fault.first, fault.value, fault.table_rows) == (bad[0], rows + 7, rows)
    assert torch.equal(packed, expected)
    for reader in range(homes):
        tiers.reader = reader
        assert torch.equal(table[torch.arange(rows)], source)


def test_what_is_being_read_stays_when_the_table_is_closed():
    _, host = fresh(4, 64)
    table = host.tiered("1MiB", devices=TWO)
    reader = table.reach(torch.arange(3))
    memory = [weakref.ref(home.memory) for home in table._tiers.homes]
    table.close()
    gc.collect()
    assert all(held() is not None for held in memory)
    del reader
    gc.collect()
    assert all(held() is None for held in memory)


def test_a_row_written_twice_is_the_same_in_every_gpu(emulation):
    """Which row wins is not said, but all replicas have the same."""
    _, host = fresh(4, 64)
    table = host.tiered("1MiB", devices=THREE)
    rows = torch.arange(100, dtype=torch.uint8)[:, None].expand(100, 64)
    table.scatter_(torch.zeros(100, dtype=torch.int32), rows)
    found = []
    for table._tiers.reader in range(3):
        found.append(table[[0]])
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


@given(row_bytes=st.integers(1, 40), rows=st.integers(1, 20), begin=st.integers(0, 15))
def test_only_the_ends_of_the_host_table_are_read_in_parts(emulation, row_bytes, rows, begin):
    host = (1 << 20) + begin
    table = Tiers(host=OneRange(base=host, rows=rows), local=1 << 30, local_rows=5, resident=5)
    end = host + rows * row_bytes
    for at in range((1 << 20) - 16, end + 32, 16):
        torn = at < host < at + 16 or at < end < at + 16
        assert emulation.whole(ctypes.byref(table), ctypes.c_int64(at), ctypes.c_int64(row_bytes)) == (not torn)
    for at in range(1 << 30, (1 << 30) + 6 * row_bytes, 16):
        assert emulation.whole(ctypes.byref(table), ctypes.c_int64(at), ctypes.c_int64(row_bytes))


@given(gpus=st.integers(2, 64), dealt=st.integers(0, 2**40) | st.integers(0, 2**20))
def test_rows_are_dealt_out_in_turn(emulation, gpus, dealt):
    """The division by multiplication is one."""
    shards = torch.arange(gpus) << 48
    dealt_round = DealtRound(memories=shards.data_ptr(), count=gpus, reciprocal=(1 << 63) // gpus + 1)
    table = Tiers(local_rows=3, resident=1 << 62, dealt=dealt_round)
    emulation.dealt_to.restype = ctypes.c_int64
    at = emulation.dealt_to(ctypes.byref(table), ctypes.c_int64(dealt))
    assert (at >> 48, at & (1 << 48) - 1) == (dealt % gpus, dealt // gpus)


@given(
    rows=st.integers(0, 5000),
    row_bytes=st.integers(0, 3000),
    gpus=st.integers(0, 9),
    local=st.integers(0, 1 << 21),
    shared=st.integers(0, 1 << 22),
    ordered=st.booleans(),
    unlinked=st.sampled_from(["", "cuda:0 cannot read the memory of cuda:1"]),
)
def test_budgets_are_kept_and_used(rows, row_bytes, gpus, local, shared, ordered, unlinked):
    plan = plan_tiers(rows, row_bytes, gpus, local, shared, ordered=ordered, unlinked=unlinked)
    share = shared // gpus if gpus else 0
    assert plan.held_bytes <= local + share
    assert 0 <= plan.resident <= rows and plan.peer_rows <= plan.shard_rows * max(gpus, 1)
    if gpus == 1 or unlinked:
        assert plan.peer_rows == 0
    if not plan.resident:
        assert plan.held_bytes == 0
    if plan.slot_bytes:
        assert ordered
    elif ordered:
        assert plan.local_rows in (0, rows) and plan.peer_rows in (0, rows)
    if gpus and row_bytes and plan.resident < rows and (gpus == 1 or not unlinked):
        spare = local + share - max(plan.held_bytes, rows * 4 * ordered)
        assert spare < 2 * row_bytes + 4 * 512  # nothing more would fit into either tier
    assert f"{rows:,} rows" in plan.explain()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64, torch.float64])
@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 5), (50, 0), (0, 4)])
def test_types_and_shapes(device, dtype, shape):
    source = torch.randint(0, 2, shape).to(dtype)
    host = hl.UnifiedTensor.from_tensor(source)
    with host.tiered(2000, scores=torch.rand(shape[0]), devices=homes_of(device)) as table:
        assert (table.shape, table.dtype, table.ndim, len(table)) == (source.shape, dtype, source.ndim, shape[0])
        assert (table.row_bytes, table.nbytes) == (host.row_bytes, source.nbytes)
        for index in (torch.zeros(0, dtype=torch.int64), torch.zeros((0, 3), dtype=torch.int32)):
            assert torch.equal(table[index.to(device)].cpu(), source[index.long()])
        if shape[0]:
            index = torch.randint(-50, 50, (4, 5), device=device)
            assert torch.equal(table[index].cpu(), source[index.cpu()])
            assert table[index].device == index.device


def test_every_way_to_ask():
    source, host = fresh(60, 36)
    table = host.tiered("2KiB", order=torch.randperm(60), devices=ONE)
    assert 0 < table.plan.local_rows < 60
    assert torch.equal(table[-1], source[-1]) and torch.equal(table[[5, -60, 5]], source[[5, -60, 5]])
    for part in (slice(None), slice(3, 50, 7), slice(-5, None), slice(9, 3)):
        assert torch.equal(table[part], source[part])
    assert table[[]].shape == (0, 36)
    out = torch.empty(2, 36, dtype=torch.uint8)
    assert table.gather([1, 2], out=out) is out and torch.equal(out, source[1:3])
    assert torch.equal(table.gather(torch.tensor([7]), check="async", max_blocks=1), source[7:8])
    for wrong in (1.5, "a", True, None):
        with pytest.raises(ConfigError):
            table[wrong]


def test_bad_row_numbers_are_named(device):
    source, host = fresh(30, 8)
    table = host.tiered("2KiB", order=torch.randperm(30), devices=homes_of(device))
    assert table.plan.resident
    index = torch.tensor([3, 30, -31, 4], device=device)
    for call in (lambda: table[index], lambda: table.count(index)):
        with pytest.raises(IndexOutOfRange, match="index 30 at position 1 is outside a table of 30 rows"):
            call()
    rows = torch.full((4, 8), 9, dtype=torch.uint8, device=device)
    with pytest.raises(IndexOutOfRange, match="position 1"):
        table.scatter_(index, rows)
    source[[3, 4]] = 9
    assert torch.equal(table[torch.arange(30, device=device)].cpu(), source)
    with pytest.raises(IndexOutOfRange, match="30"):
        table[30]


def test_the_hottest_rows_come_first():
    _source, host = fresh(100, 64)
    scores = torch.zeros(100)
    scores[[70, 8, 33]] = torch.tensor([1.0, 3.0, 2.0])
    table = host.tiered(local=1024, scores=scores, devices=ONE)  # 512 bytes of map, and 8 rows
    hot = [8, 33, 70, 0, 1, 2, 3, 4]  # ties by number
    assert table.count(torch.tensor(hot)).rows == {"local": 8, "peers": 0, "host": 0}
    assert table.count([5, 99]).bytes == {"local": 0, "peers": 0, "host": 128}
    both = host.tiered(local=1536, peers=1024, scores=scores, devices=TWO)
    assert (both.plan.local_rows, both.plan.peer_rows) == (8, 16)
    for both._tiers.reader in range(2):  # of 16 rows dealt out each has half
        assert both.count(range(100)).rows == {"local": 16, "peers": 8, "host": 76}
    assert "8 rows" in both.explain() and "16 rows" in both.explain()
    assert both.held == {"cpu:0": 1536 + 512, "cpu:1": 1536 + 512}


def test_small_and_large_budgets():
    source, host = fresh(100, 100)
    for local in (None, 0, "0", 511):
        table = host.tiered(local, devices=TWO)
        assert (table.plan.resident, table.held, table.devices) == (0, {}, [])
        assert torch.equal(table[torch.arange(100)], source)
    whole = host.tiered("1GiB", scores=torch.rand(100), devices=TWO)
    assert whole.plan.local_rows == 100 and whole.plan.slot_bytes == 0  # any order does
    assert set(whole.held.values()) == {10240 + 512}
    dealt = host.tiered(peers="1GiB", scores=torch.rand(100), devices=THREE)
    assert dealt.plan.peer_rows == 100 and set(dealt.held.values()) == {3584 + 512}
    for table in (whole, dealt):
        assert torch.equal(table[torch.arange(100)], source)


def test_a_plan_that_does_not_fit_allocates_nothing(monkeypatch, nothing_left):
    _source, host = fresh(1000, 1024)
    before = hl.memory.report().nbytes
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", str(before + 5000))
    with pytest.raises(OutOfMemory):
        host.tiered("500KiB", devices=TWO)
    gc.collect()
    assert hl.memory.report().nbytes == before


def test_free_gpu_memory_is_asked_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(devices, "free_bytes", lambda gpu: 100_000)
    plan = plan_tiers(1000, 512, 2, 90_000, 40_000, ordered=True)
    with pytest.raises(OutOfMemory, match=r"cuda:1 .*97.66 KiB is free.*smaller local="):
        tiered._require_free(plan, torch.device("cuda", 1))
    tiered._require_free(plan_tiers(1000, 512, 2, 60_000, 40_000), torch.device("cuda", 1))


@pytest.mark.parametrize("count", [200, 63, 60])
def test_an_order_names_the_rows_that_tiers_hold_and_may_leave_out_others(count):
    source, host = fresh(200, 512)
    order = torch.randperm(200)[:count]
    table = host.tiered(60 * 512 + 1024, order=order, devices=ONE)
    assert table.plan.local_rows == 60 and torch.equal(table.gather(torch.arange(200)), source)
    assert table.count(order[:60]).rows["local"] == 60 and table.count(order[60:]).rows["local"] == 0
    with pytest.raises(ConfigError, match="every row once"):
        host.tiered(60 * 512 + 1024, order=order[:59], devices=ONE)


def test_what_cannot_be_used_is_refused():
    _, host = fresh(10, 4)
    nan = torch.rand(10)
    nan[4] = float("nan")
    for wrong, words in [
        ({"scores": nan}, r"scores\[4\] is NaN"),
        ({"scores": torch.rand(9)}, "one for each"),
        ({"scores": torch.rand(10) > 0.5}, "bool"),
        ({"scores": [1.0] * 10}, "list"),
        ({"scores": torch.rand(10), "order": torch.arange(10)}, "leave one out"),
        ({"order": torch.arange(9)}, "every row once"),
        ({"order": torch.arange(10) + 1}, r"order\[9\] is 10"),
        ({"order": torch.zeros(10, dtype=torch.int64)}, "leaves out row 1"),
        ({"order": torch.rand(10)}, "int64"),
        ({"local": "some"}, "not a size"),
        ({"peers": -1}, "negative"),
    ]:
        with pytest.raises(ConfigError, match=words):
            host.tiered(**{"local": 600} | wrong, devices=ONE)
    with pytest.raises(DeviceError):
        host.tiered(600, devices=["meta"])
    table = host.tiered(4000, devices=ONE)
    with pytest.raises(ConfigError, match="shape"):
        table.scatter_([1], torch.zeros(1, 5, dtype=torch.uint8))
    with pytest.raises(ConfigError, match="own memory"):
        table.scatter_(torch.arange(10), host.cpu())
    own = table._tiers.homes[0].memory.tensor(torch.uint8, torch.Size([10, 4]))
    with pytest.raises(ConfigError, match="own memory"):
        table.gather(torch.arange(10), out=own)


def test_closed_tables_say_so_and_leave_nothing(nothing_left):
    source, host = fresh(100, 64)
    with host.tiered("1MiB", devices=TWO) as table:
        table.scatter_([0, 5], torch.ones(2, 64, dtype=torch.uint8))
        source[[0, 5]] = 1
        assert not torch.equal(host.cpu(), source)
        table.flush()
        assert torch.equal(host.cpu(), source)
        table.scatter_([1], torch.ones(1, 64, dtype=torch.uint8))
        source[1] = 1
    assert torch.equal(host.cpu(), source)
    assert table.held == {}
    table.close()
    for call in (lambda: table[[1]], lambda: table.scatter_([1], source[:1]), table.flush):
        with pytest.raises(ConfigError, match="closed"):
            call()


def test_nothing_written_is_lost_with_the_last_reference(nothing_left):
    _source, host = fresh(20, 16)
    host.tiered("1MiB", devices=TWO).scatter_([3], torch.full((1, 16), 7, dtype=torch.uint8))
    gc.collect()
    assert host.cpu()[3].tolist() == [7] * 16


def test_gpus_that_cannot_reach_each_other(monkeypatch):
    """What the plan does without links; GPUs are host memory here."""
    monkeypatch.setattr(tiered, "unlinked", lambda gpus: (torch.device("cuda", 0), torch.device("cuda", 1)))
    source, host = fresh(100, 64)
    table = host.tiered(local=2048, peers=4096, scores=torch.rand(100), devices=TWO)
    assert table.plan.local_rows > 0 and table.plan.peer_rows == 0
    assert "cuda:0 cannot read the memory of cuda:1" in table.explain()
    for table._tiers.reader in range(2):
        assert torch.equal(table[torch.arange(100)], source)
    with pytest.raises(ConfigError, match="use one GPU"):
        table.scatter_([1], source[:1])


def test_links_are_asked_for_each_pair(monkeypatch):
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda a, b: (a.index, b.index) != (2, 1))
    gpus = [torch.device("cuda", i) for i in range(3)]
    assert peers.unlinked(gpus) == (gpus[2], gpus[1])
    assert peers.unlinked(gpus[:2]) is None


def test_without_a_gpu_everything_stays_on_the_host(monkeypatch):
    if devices.cuda_available():
        pytest.skip("there is one")
    source, host = fresh(100, 64)
    table = host.tiered("1GiB", "1GiB", scores=torch.rand(100))
    assert table.devices == [] and table.held == {} and "tiers: 0" in table.explain()
    assert torch.equal(table[torch.arange(100)], source)
    table.scatter_([2], source[:1])
    assert torch.equal(host.cpu()[2], source[0])
    assert table.count([1, 2]).rows == {"local": 0, "peers": 0, "host": 2}


def test_only_what_the_host_has_is_sorted(monkeypatch):
    """A large pinned table is worth sorting for; one whose rows are nearly all in GPU memory is not."""
    _, host = fresh(1000, 64)
    asked = []
    monkeypatch.setattr(tiered, "sorts", lambda *args: asked.append(args) or False)
    host.tiered(local=16_000 - 16_000 % 512, devices=ONE)._sorts(100_000)
    assert asked == [(host.placement, 75_200, 64, 64_000, host.managed_bytes)]


def _child(table, work, done):
    try:
        index = torch.arange(len(table))
        done.put(table[index].sum(0).tolist())
        table.scatter_(torch.tensor([1, 999]), torch.full((2, 8), 5.0))
        done.put(table.count(index).rows)
        work.get(timeout=60)
        table[index]
    except ConfigError as error:
        done.put(str(error))


@pytest.mark.unsanitized
def test_the_same_memory_in_another_process(nothing_left):
    context = multiprocessing.get_context("spawn")
    source = torch.randn(1000, 8).round()
    host = hl.UnifiedTensor.from_tensor(source, placement="pinned")
    table = host.tiered(local=12_000, peers=8_000, scores=torch.rand(1000), devices=TWO)
    work, done = context.Queue(), context.Queue()
    child = context.Process(target=_child, args=(table, work, done))
    child.start()
    assert done.get(timeout=100) == source.sum(0).tolist()
    rows = done.get(timeout=60)
    assert rows["local"] and rows["peers"] and rows["host"]
    source[[1, 999]] = 5
    for table._tiers.reader in range(2):
        assert torch.equal(table[torch.arange(1000)], source)
    table.close()
    work.put("read on")
    assert "closed by the process that made it" in done.get(timeout=60)
    child.join(60)
    assert torch.equal(host.cpu(), source)


def test_tables_of_one_process_are_not_sent():
    _, host = fresh(10, 8, "pageable")
    table = host.tiered(4000, devices=ONE)
    with pytest.raises(ConfigError, match="pinned"):
        pickle_shared(table)
    for use in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ConfigError, match=r"save table.host after table.flush\(\), and call tiered\(\)"):
            use(table)


@given(
    st.lists(st.floats(allow_nan=False, width=32), max_size=60),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32]),
)
def test_the_order_of_scores_is_torchs(scores, dtype):
    values = torch.tensor(scores, dtype=torch.float32)
    values = values.clamp(-1e9, 1e9).to(dtype) if dtype == torch.int32 else values.to(dtype)
    found = hottest_first(values, len(values))
    assert torch.equal(found, torch.sort(values, descending=True, stable=True).indices)


def test_rows_in_another_order():
    source, host = fresh(5000, 37, "pinned")
    order = torch.randperm(5000)
    made = reorder_rows(host, order)
    assert torch.equal(made.cpu(), source[order]) and made.placement == "pinned"
    assert reorder_rows(host, order.int(), "pageable").placement == "pageable"
    with pytest.raises(ConfigError, match="leaves out"):
        reorder_rows(host, torch.zeros_like(order))


def test_a_forked_child_leaves_the_tiers_alone(nothing_left):
    """Writing back, or giving up GPU memory, is its parent's business."""
    source, host = fresh(10, 8)
    table = host.tiered(4000, devices=ONE)
    table.scatter_([1], torch.zeros(1, 8, dtype=torch.uint8))
    pid = os.fork()
    if pid == 0:
        del table
        gc.collect()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    source[1] = 0
    assert table._tiers.state.written and torch.equal(table[:], source)
    table.close()
    assert torch.equal(host.cpu(), source)


# What only a GPU can show.


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["managed", "pinned"])
@pytest.mark.parametrize("row_bytes", [9, 12, 64, 480, 512, 516, 656, 1028, 4100])
def test_rows_in_gpu_memory(gpu, placement, row_bytes):
    rows = 20_000
    source, host = fresh(rows, row_bytes, placement)
    budget = rows * row_bytes // 3 + 4 * rows
    before = torch.cuda.memory_allocated(gpu)
    table = host.tiered(budget, scores=torch.rand(rows), devices=[gpu])
    assert 0 < table.plan.local_rows < rows
    assert torch.cuda.memory_allocated(gpu) - before <= table.held[str(gpu)] <= budget
    index = torch.randint(-rows, rows, (50_000,), device=gpu)
    for options in ({}, {"sort": True}, {"max_blocks": 2}):
        assert torch.equal(table.gather(index, **options).cpu(), source[index.cpu()])
    for stride in (1, 3):  # also to packed rows that do not begin at a line
        room = torch.empty(len(index) * row_bytes + stride, dtype=torch.uint8, device=gpu)[stride:].view(-1, row_bytes)
        assert torch.equal(table.gather(index, out=room).cpu(), source[index.cpu()])
    changes = torch.randperm(rows)[:5000]
    new = torch.randint(0, 256, (5000, row_bytes), dtype=torch.uint8)
    table.scatter_(changes.to(gpu), new.to(gpu))
    source[changes] = new
    assert torch.equal(table[index].cpu(), source[index.cpu()])
    assert torch.equal(table[index.cpu()], source[index.cpu()])  # the CPU reads no row that is out of date
    table.scatter_(changes[:100], new.flip(0)[:100])
    source[changes[:100]] = new.flip(0)[:100]
    assert torch.equal(table[index].cpu(), source[index.cpu()])
    counted = table.count(index).rows
    assert counted["local"] + counted["host"] == 50_000 and counted["peers"] == 0
    table.close()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated(gpu) <= before + room.nbytes + index.nbytes + (1 << 20)
    assert torch.equal(host.cpu(), source)


@pytest.mark.gpu
def test_what_a_gpu_lacks(gpu):
    _, host = fresh(10, 8, "pageable")
    with pytest.raises(ConfigError, match="pageable"):
        host.tiered(4000, devices=[gpu])
    _, host = fresh(10, 8)
    with pytest.raises(ConfigError, match="not in both"):
        host.tiered(4000, devices=[gpu, "cpu"])
    with pytest.raises(ConfigError, match="once"):
        host.tiered(4000, devices=[gpu, gpu])


@pytest.mark.gpu
def test_deferred_checks_and_streams(gpu):
    source, host = fresh(20_000, 256)
    table = host.tiered(1 << 20, order=torch.randperm(20_000), devices=[gpu])
    index = torch.randint(0, 20_000, (30_000,), device=gpu)
    bad = index.clone()
    bad[11] = 20_000
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    rows = table.gather(index, stream=stream, check="async", max_blocks=4)
    table.gather(bad, stream=stream, check="async")
    with pytest.raises(IndexOutOfRange, match="position 11"):
        table.synchronize()
    assert torch.equal(rows.cpu(), source[index.cpu()])
