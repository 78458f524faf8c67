"""Rows that slots in GPU memory have for a while: always the host's rows, kept by CLOCK, within the budget."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.memory import SlotPlan, clock, plan_slots
from hinterland.memory.clock import Clock
from hinterland.memory.faults import _IndexFault
from hinterland.memory.gather import TieredCopy, row_cut
from hinterland.memory.plan import cut_rows
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory
from hinterland.runtime.jit import INCLUDE_DIR

CPU = torch.device("cpu")
TESTS = Path(__file__).resolve().parent.parent


class Ring:
    """CLOCK by batches, as the header says it, slot by slot."""

    def __init__(self, capacity: int) -> None:
        self.row_of, self.used, self.at = [-1] * capacity, [False] * capacity, 0

    def admit(self, asked: list[int]) -> None:
        rows = [row for row in asked if row >= 0]
        new = [row for row in dict.fromkeys(rows) if row not in self.row_of]
        marked = {self.row_of.index(row) for row in set(rows) if row in self.row_of}
        capacity = len(self.row_of)
        for row in new[: capacity - len(marked)]:
            while self.at in marked or self.used[self.at]:
                if self.at not in marked:
                    self.used[self.at] = False
                self.at = (self.at + 1) % capacity
            self.row_of[self.at] = row
            marked.add(self.at)  # what this batch takes in stays as well
            self.at = (self.at + 1) % capacity
        for slot, row in enumerate(self.row_of):
            if row in rows and row not in new:
                self.used[slot] = True


def fresh(rows: int, row_bytes: int, placement: str = "host") -> tuple[torch.Tensor, hl.UnifiedTensor]:
    """Random rows, and the table of them."""
    source = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8)
    return source, hl.UnifiedTensor.from_tensor(source, placement=placement)


def state(ring: Clock) -> tuple[list[int], list[Any], int]:
    """The rows of the slots, their bits, or of LRU their order, and the hand; what is kept between batches must agree."""
    capacity, words = ring.plan.capacity, ring.plan.words
    rows = ring.row_of.tolist()
    slots = ring.slots.tolist()
    assert sorted(row for row in rows if row >= 0) == [row for row, slot in enumerate(slots) if slot >= 0]
    assert all(rows[slot] == row for row, slot in enumerate(slots) if slot >= 0)
    assert all(slot == -1 for slot in slots if slot < 0)  # no claim is left
    bits, hand = ring._bits.view(torch.int32).tolist(), int(ring._state[clock._CONTROL_BYTES :].view(torch.int64)[0])
    assert not any(bits[words : 2 * words])  # and no mark
    if ring.log.numel():
        slot_at, place_of, taken, marked, _ = (part.tolist() for part in ring._log_parts())
        order = sorted(range(capacity), key=lambda slot: place_of[slot])
        places = [at for at in range(len(slot_at)) if taken[at // 32] >> at % 32 & 1]
        assert [slot_at[at] for at in places] == order and sorted(place_of) == places and not any(marked)
        return rows, order, hand
    used = [bool(bits[slot // 32] >> slot % 32 & 1) for slot in range(capacity)]
    return rows, used, hand


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """What clock_lanes.cpp has."""
    library = tmp_path_factory.mktemp("lanes") / "clock.so"
    paths = ["-I", str(TESTS / "lanes"), "-I", str(INCLUDE_DIR), "-I", str(TESTS.parent / "native")]
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-fsanitize=undefined", "-fno-sanitize-recover", *paths]
    subprocess.run(["g++", *flags, str(TESTS / "memory" / "clock_lanes.cpp"), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


@pytest.fixture(scope="session")
def lanes(library):
    """``_core.admit_rows`` by a warp of 32 emulated lanes."""
    return lambda params: library.admit_rows(ctypes.c_void_p(params))


@pytest.mark.unsanitized  # its code has a sanitizer of its own
@pytest.mark.parametrize("row", [-1, 300, 1 << 50])
def test_a_claim_of_row_numbers_that_were_changed_meanwhile(library, row):
    """Nobody wrote down whose it was, and memory may hold anything there."""
    ring = Clock(SlotPlan(300, 0, 64), CPU)
    ring.admit(torch.arange(40))
    before = state(ring)
    library.give(ctypes.c_void_p(ring._admit.address), ctypes.c_int64(7), ctypes.c_int64(row))
    assert state(ring) == before


@pytest.mark.unsanitized
@settings(max_examples=80)
@given(
    rows=st.integers(1, 300),
    capacity=st.integers(1, 150),
    sizes=st.lists(st.integers(0, 200), min_size=1, max_size=12),
    hot=st.floats(1, 4),
    seed=st.integers(0, 1000),
)
def test_what_is_kept_is_what_clock_keeps(lanes, rows, capacity, sizes, hot, seed):
    """Threads, lanes and a ring that is gone through slot by slot; some row numbers count from the end, and some are bad."""
    generator = torch.Generator().manual_seed(seed)
    plan = SlotPlan(rows, 0, min(rows, capacity))
    by_threads, by_lanes, ring = Clock(plan, CPU), Clock(plan, CPU), Ring(plan.capacity)
    for size in sizes:
        index = (torch.rand(size, generator=generator) ** hot * (rows + 2)).long()
        index = torch.where(torch.rand(size, generator=generator) < 0.3, index - rows, index)
        by_threads.admit(index)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_core, "admit_rows", lanes)
            by_lanes.admit(index.int())
        ring.admit([i + rows * (i < 0) if -rows <= i < rows else -1 for i in index.tolist()])
        assert state(by_threads) == state(by_lanes) == (ring.row_of, ring.used, ring.at)


@pytest.mark.unsanitized
@settings(max_examples=60)
@given(
    rows=st.integers(1, 300),
    capacity=st.integers(1, 150),
    batches=st.lists(st.lists(st.integers(-3, 303), max_size=200), min_size=1, max_size=8),
)
def test_rows_that_lanes_ask_for_one_by_one_are_a_batch(library, lanes, rows, capacity, batches):
    """In the order of their numbers, whoever came first; nothing moves meanwhile, and what there is not is not noted."""
    held, ring = Clock(SlotPlan(rows, 1, min(rows, capacity)), CPU), Ring(min(rows, capacity))
    table = torch.arange(rows, dtype=torch.int32).to(torch.uint8)
    for batch in batches:
        slots, asked = torch.empty(len(batch), dtype=torch.int64), torch.tensor(batch, dtype=torch.int64)
        words = held.requested(table.data_ptr())
        there = [ring.row_of.index(row) if row >= 0 and row in ring.row_of else -1 for row in batch]
        library.ask_rows(
            *map(ctypes.c_void_p, (words.address, asked.data_ptr())), len(batch), ctypes.c_void_p(slots.data_ptr())
        )
        assert slots.tolist() == there
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_core, "admit_rows", lanes)
            held.admit(None, table.data_ptr())
        ring.admit(sorted({row for row in batch if 0 <= row < rows}))
        assert state(held) == (ring.row_of, ring.used, ring.at)
        kept = [(slot, row) for slot, row in enumerate(ring.row_of) if row >= 0]
        assert all(held.block[slot] == table[row] for slot, row in kept)


def test_a_kernel_fills_a_cached_table(device):
    """What it missed the next one finds; where two read it, and one beside a table in tiers, the same."""
    source = torch.arange(600, dtype=torch.float32).view(200, 3)
    host = hl.UnifiedTensor.from_tensor(source)
    table, tiers = host.cached(SlotPlan(200, 12, 40).held_bytes, device), host.tiered(local="1KiB", devices=device)
    ring = Ring(table.plan.capacity)
    get = hl.kernel(
        """
        __global__ void get(array<const float> x, array<const float> y, const int64_t* at, float* out, int64_t n) {
          const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
          if (i < n) out[i] = x[at[i]] + y[at[i]];
        }"""
    )
    generator = torch.Generator().manual_seed(3)
    for other in (table, tiers, source.to(device), table):
        at = (torch.rand(150, generator=generator) ** 3 * 600).long()
        out = torch.empty(150, device=device)
        get(table, other, at.to(device), out, 150)
        assert torch.equal(out.cpu(), 2 * source.flatten()[at])
        ring.admit((at // 3).unique().tolist())
        assert state(table._clock) == (ring.row_of, ring.used, ring.at)
    assert torch.equal(table[torch.arange(200, device=device)].cpu(), source)
    before = state(table._clock)
    with pytest.raises(ConfigError, match="requires a gradient"):
        get(table, source.to(device).requires_grad_(), at.to(device), out, 150)
    assert state(table._clock) == before
    table.close()
    with pytest.raises(ConfigError, match="closed"):
        get(table, tiers, at.to(device), out, 150)


@settings(max_examples=60)
@given(
    row_bytes=st.integers(1, 300) | st.sampled_from([512, 516, 1028, 4100]),
    rows=st.integers(1, 200),
    share=st.floats(0, 1.2),
    sizes=st.lists(st.integers(0, 250), min_size=1, max_size=8),
    wide=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_rows_are_the_hosts_rows(row_bytes, rows, share, sizes, wide, seed):
    torch.manual_seed(seed)
    source, host = fresh(rows, row_bytes)
    budget = SlotPlan(rows, row_bytes, 1).held_bytes + int(share * rows * row_bytes)
    table = host.cached(budget, device="cpu")
    assert table.held == {"cpu": table.plan.held_bytes} and table.plan.held_bytes <= budget
    for size in sizes:
        index = (torch.rand(size) ** 2 * 2 * rows).long() - rows
        index = index if wide else index.int()
        before = table.count(index).rows["local"]
        assert torch.equal(table[index], source[index.long()])
        after = table.count(index).rows
        assert before <= after["local"] == size - after["host"]
        unique = (index.long() % rows).unique()
        assert table.count(unique).rows["local"] == min(len(unique), table.plan.capacity)
        kept = table._clock.row_of >= 0  # and what the slots hold is what they are said to
        held = table._clock.block[: table.plan.capacity * row_bytes].view(-1, row_bytes)
        assert torch.equal(held[kept], source[table._clock.row_of[kept]])


@pytest.mark.unsanitized
@settings(max_examples=40)
@given(
    row_bytes=st.integers(1, 300) | st.sampled_from([512, 516, 1028, 4100]),
    rows=st.integers(1, 120),
    capacity=st.integers(1, 60),
    warps=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_the_gpus_launches_thread_by_thread(emulation, lanes, row_bytes, rows, capacity, warps, seed):
    """Slots by lanes, then the copies to them and the gather, as a GPU cuts them."""
    torch.manual_seed(seed)
    source, host = fresh(rows, row_bytes)
    plan = SlotPlan(rows, row_bytes, min(rows, capacity))
    table = hl.CachedTensor(host, plan, CPU)
    ours = table._clock
    base, local = host.cpu().data_ptr(), ours.block.data_ptr()
    index, found = torch.randint(-rows, rows, (70,)), []
    first = len((index % rows).unique())

    def fill(params):
        given = clock._FillParams.from_address(params)
        admitted = int(ours._state[clock._CONTROL_BYTES :].view(torch.int64)[2])
        cut = cut_rows(row_bytes, base & 127, local & 127)
        given.copy.cut = row_cut(cut)
        flag, _ = emulate(emulation.emulate_fill, given, cut)
        found.append((flag, admitted))

    def emulate(function, given, cut):
        fault = _IndexFault()
        shape = map(ctypes.c_int64, (cut.unit, cut.chunks, warps * 32))
        return function(ctypes.byref(given), *shape, ctypes.byref(fault)), fault

    for _ in range(3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_core, "admit_rows", lanes)
            patch.setattr(_core, "fill_slots", fill)
            table.admit(index)
        packed = torch.randint(0, 256, (70, row_bytes), dtype=torch.uint8)
        cut = cut_rows(row_bytes, 0, packed.data_ptr())
        copy = TieredCopy(placement=table.reach(index), packed=packed.data_ptr(), indices=index.data_ptr(), index_bytes=8)
        copy.count, copy.row_bytes, copy.cut = 70, row_bytes, row_cut(cut)
        flag, fault = emulate(emulation.emulate_tiered, copy, cut)
        assert flag == 0 and fault.count == 0
        assert torch.equal(packed, source[index])
        index = torch.randint(-rows, rows, (70,))
    assert [flag for flag, _ in found] == [0] * 3
    assert found[0][1] == min(plan.capacity, first)


@pytest.mark.parametrize("lru", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_keeps_the_same(threads, lru, set_threads):
    """Batches and rings of several chunks, which threads share."""
    plan = SlotPlan(200_000, 0, 90_001)
    generator = torch.Generator().manual_seed(5)
    kept = []
    for count in (threads, 1):
        set_threads(count)
        ring = Clock(plan, CPU, lru)
        for _ in range(6):
            ring.admit((torch.rand(40_000, generator=generator) ** 3 * plan.rows).long())
        generator.manual_seed(5)
        kept.append(state(ring))
    assert kept[0] == kept[1]


@pytest.mark.unsanitized
@pytest.mark.parametrize("lru", [False, True])
def test_lanes_share_chunks_as_threads_do(lanes, monkeypatch, lru):
    """Batches and rings of more than one chunk each."""
    plan = SlotPlan(90_000, 0, 40_000)
    generator = torch.Generator().manual_seed(7)
    batches = [(torch.rand(5000, generator=generator) ** 2 * plan.rows).long() for _ in range(14)]
    by_threads, by_lanes = Clock(plan, CPU, lru), Clock(plan, CPU, lru)
    for index in batches:
        by_threads.admit(index)
    monkeypatch.setattr(_core, "admit_rows", lanes)
    for index in batches:
        by_lanes.admit(index)
    assert state(by_threads) == state(by_lanes)
    assert int((by_threads.row_of >= 0).sum()) == plan.capacity  # so that rows gave way


def test_clock_keeps_more_of_what_is_asked_for_than_chance_does():
    """A stream by Zipf's law, whose hot rows change half-way; 10% of the rows have slots."""
    generator = torch.Generator().manual_seed(1)
    rows, capacity, size = 4000, 400, 100
    weights = 1 / torch.arange(1, rows + 1, dtype=torch.float64)
    numbers = [torch.randperm(rows, generator=generator) for _ in range(2)]
    ring, kept = Clock(SlotPlan(rows, 0, capacity), CPU), set()
    clock_hits = chance_hits = 0
    for batch in range(200):
        index = numbers[batch >= 100][torch.multinomial(weights, size, replacement=True, generator=generator)]
        clock_hits += int(ring.holds(index).sum())
        ring.admit(index)
        asked = set(index.tolist())
        chance_hits += sum(row in kept for row in index.tolist())
        others = torch.tensor(sorted(kept - asked), dtype=torch.int64)
        stay = max(0, capacity - len(asked))
        kept = asked | set(others[torch.randperm(len(others), generator=generator)[:stay]].tolist())
    assert clock_hits > chance_hits + 0.03 * 200 * size  # three points; it is four and a half


def test_a_new_row_crosses_the_link_once_and_stays_for_its_batch():
    source, host = fresh(100, 8)
    table = host.cached(plan_slots(100, 8, 1 << 20).held_bytes, device="cpu")
    assert table.plan.capacity == 100
    assert table.count([3, 3, -97]).rows == {"local": 0, "peers": 0, "host": 3}
    table.admit([3, 3, -97, 1000])
    assert int((table._clock.row_of >= 0).sum()) == 1
    assert table.count([3, 3, 5]).bytes == {"local": 16, "peers": 0, "host": 8}
    assert torch.equal(table[[3, 5]], source[[3, 5]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.bool])
@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 2), (50, 0), (0, 4)])
def test_types_shapes_and_every_way_to_ask(dtype, shape):
    source = torch.rand(shape).mul(4).round().to(dtype)
    table = hl.UnifiedTensor.from_tensor(source).cached("1 MiB", device="cpu")
    assert table.shape == source.shape and table.dtype == dtype and len(table) == shape[0] and table.ndim == len(shape)
    for index in (torch.tensor([], dtype=torch.int64), torch.zeros((0, 3), dtype=torch.int32)):
        assert torch.equal(table[index], source[index.long()])
    if shape[0]:
        assert torch.equal(table[torch.tensor([[1, -1], [1, 0]])], source[torch.tensor([[1, -1], [1, 0]])])
        assert torch.equal(table[7], source[7]) and torch.equal(table[3:9:2], source[3:9:2])
        out = torch.empty_like(source[:2])
        assert table.gather([4, 4], out) is out and torch.equal(out, source[[4, 4]])
        assert sum(table.count([1, -1, 7]).rows.values()) == 3


def test_more_new_rows_than_slots():
    source, host = fresh(64, 4)
    table = hl.CachedTensor(host, SlotPlan(64, 4, 5), CPU)
    for index in (torch.arange(64), torch.arange(64).flip(0), torch.arange(3), torch.arange(64)):
        assert torch.equal(table[index], source[index])
    assert table.count(range(64)).rows["local"] == 5
    assert table.count(range(3)).rows["local"] == 3  # asked for by the last gather: they stay


def test_bad_row_numbers_are_named_and_do_no_harm():
    source, host = fresh(20, 8)
    table = host.cached("1 MiB", device="cpu")
    for call in (table.gather, table.count, host.gather):
        with pytest.raises(IndexOutOfRange, match=r"index 20 at position 1 is outside a table of 20 rows \(2 such positions\)"):
            call(torch.tensor([0, 20, 3, -21]))
    assert torch.equal(table[torch.arange(20)], source)


def test_rows_beyond_32_bits_have_short_numbers_too():
    rows = 3 << 30  # of no bytes
    table = hl.UnifiedTensor.from_tensor(torch.empty(rows, 0)).cached("1 KiB", device="cpu")
    assert table.count(torch.tensor([5, -1], dtype=torch.int32)).rows == {"local": 0, "peers": 0, "host": 2}
    with pytest.raises(IndexOutOfRange, match=f"index {rows} at position 0"):
        table.count([rows])


def test_what_cannot_be_used_is_refused(monkeypatch):
    _, host = fresh(1000, 64)
    least = SlotPlan(1000, 64, 1).held_bytes
    with pytest.raises(ConfigError, match=f"holds no row.*{least:,} bytes"):
        host.cached(least - 1, device="cpu")
    assert host.cached(least, device="cpu").plan.capacity >= 1
    with pytest.raises(ConfigError, match="negative"):
        host.cached(-1)
    table = host.cached("20 KiB", device="cpu")
    for call in (lambda: table.scatter_([1], torch.zeros(1, 64, dtype=torch.uint8)), lambda: table.writer(CPU)):
        with pytest.raises(ConfigError, match="read only"):
            call()
    with pytest.raises(ConfigError, match=r"save or send its UnifiedTensor, cached.host, and call cached\(\)"):
        table.__reduce__()
    with pytest.raises(ConfigError, match="max_blocks"):
        table.gather([1], max_blocks=0)
    monkeypatch.setattr(clock.devices, "free_bytes", lambda device: 100)
    with pytest.raises(OutOfMemory, match="smaller budget"):
        clock._block(101, torch.device("cuda", 0))


def test_rows_that_were_written_are_read_again():
    source, host = fresh(30, 16)
    table = host.cached("1 MiB", device="cpu")
    _ = table[torch.arange(30)]
    host.scatter_([4], torch.full((1, 16), 7, dtype=torch.uint8))
    table.clear()
    assert table[4].tolist() == [7] * 16 and torch.equal(table[5], source[5])
    assert state(table._clock)[0][:2] == [4, 5]


def test_closed_tables_say_so_and_leave_nothing(nothing_left):
    _, host = fresh(30, 16)
    with host.cached("1 MiB", device="cpu") as table:
        assert table.held and "slots" in table.explain() and "slots=30" in repr(table)
    assert not table.held
    for call in (lambda: table[[1]], lambda: table.admit([1]), lambda: table.count([1]), table.clear):
        with pytest.raises(ConfigError, match="closed"):
            call()
    assert len(host[[1]]) == 1


def test_ctrl_c_between_two_steps_leaves_an_empty_cache(monkeypatch):
    source, host = fresh(30, 16)
    table = host.cached("1 MiB", device="cpu")
    _ = table[torch.arange(9)]

    def interrupted(words, *_):
        table._clock.slots[20] = -5  # a claim that nobody would take back
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_core, "admit_rows", interrupted)
        _ = table[[20]]
    assert state(table._clock) == ([-1] * 30, [False] * 30, 0)
    assert torch.equal(table[torch.arange(30)], source)


def test_threads_take_turns():
    source, host = fresh(500, 32)
    table = host.cached(plan_slots(500, 32, 9000).held_bytes, device="cpu")
    assert 0 < table.plan.capacity < 250
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(60):
            index = torch.randint(0, 500, (80,), generator=generator)
            if not torch.equal(table[index], source[index]):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong
    state(table._clock)


@given(rows=st.integers(0, 5000), row_bytes=st.integers(0, 5000), budget=st.integers(0, 1 << 21))
def test_budgets_are_kept_and_used(rows, row_bytes, budget):
    least = SlotPlan(rows, row_bytes, 1).held_bytes
    if rows and row_bytes and budget < least:
        with pytest.raises(ConfigError, match="holds no row"):
            plan_slots(rows, row_bytes, budget)
        return
    plan = plan_slots(rows, row_bytes, budget)
    assert plan.held_bytes <= budget
    if rows and row_bytes and plan.capacity < rows:
        assert SlotPlan(rows, row_bytes, plan.capacity + 1).held_bytes > budget


@pytest.mark.gpu
@pytest.mark.parametrize("placement", ["managed", "pinned"])
@pytest.mark.parametrize("row_bytes", [4, 512, 516, 1030])
def test_a_gpu_keeps_what_the_cpu_keeps(gpu, placement, row_bytes):
    torch.manual_seed(3)
    rows = 20_000
    source, host = fresh(rows, row_bytes, placement)
    source = source.to(gpu)
    plan = SlotPlan(rows, row_bytes, 3001)
    ours, theirs = hl.CachedTensor(host, plan, gpu), hl.CachedTensor(host, plan, CPU)
    for turn, size in enumerate((5000, 1, 700, 40_000, 2500, 3000, 2500)):
        index = (torch.rand(size) ** 4 * 2 * rows).long() - rows
        index = index if turn % 2 else index.int()
        assert torch.equal(ours.gather(index.to(gpu), max_blocks=None if turn % 3 else 1), source[index.to(gpu).long()])
        _ = theirs[index]
        assert state(ours._clock) == state(theirs._clock)
        assert ours.count(index.to(gpu)).rows == theirs.count(index).rows
    assert torch.equal(ours[index], source.cpu()[index.long()])  # row numbers on the CPU
    with pytest.raises(IndexOutOfRange, match="position 2"):
        ours[torch.tensor([0, 1, rows], device=gpu)]
    assert torch.equal(ours[torch.arange(rows, device=gpu)], source)


@pytest.mark.gpu
def test_a_gpus_budget_is_kept(gpu):
    _, host = fresh(100_000, 64)
    for budget in (500_000, 1 << 20, 5_000_000):
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated(gpu)
        table = host.cached(budget, gpu)
        taken = torch.cuda.memory_allocated(gpu) - before
        unsplit = 1 << 20 if budget > 1 << 20 else 0  # what torch's allocator does not split off large blocks
        assert taken - unsplit <= table.plan.held_bytes <= min(taken, budget)
        table.gather(torch.arange(50_000, device=gpu))
        assert torch.cuda.memory_allocated(gpu) - before <= taken + 4096  # the record of bad row numbers
        table.close()
    with pytest.raises(OutOfMemory, match="free"):
        clock._block(1 << 50, gpu)


@pytest.mark.gpu
def test_streams_of_a_gpu_take_turns(gpu):
    source, host = fresh(50_000, 256, "managed")
    source = source.to(gpu)
    table = host.cached(6_000_000, gpu)
    torch.manual_seed(0)
    indices = [(torch.rand(20_000, device=gpu) ** 3 * 50_000).long() for _ in range(24)]
    streams = [torch.cuda.Stream(gpu) for _ in range(4)]
    torch.cuda.synchronize()
    found = [table.gather(index, stream=streams[i % 4], check="async") for i, index in enumerate(indices)]
    table.synchronize()
    for index, rows in zip(indices, found, strict=True):
        assert torch.equal(rows, source[index])
    one = host.cached(6_000_000, gpu)
    for index in indices:
        one.admit(index)
    assert state(one._clock) == state(table._clock)  # the same order, whatever the streams


def test_a_table_that_requires_grad_is_refused():
    table = hl.UnifiedTensor.from_tensor(torch.zeros(10, 4))
    table.cpu().requires_grad_()
    with pytest.raises(ConfigError, match="gradients do not pass through a cached table"):
        table.cached("1 MiB", "cpu")
