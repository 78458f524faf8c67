"""What gives way in the software cache, against simulators: CLOCK, Belady, and the batches that are known to come."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, StorageError

from .simulators import POLICIES, in_sets, set_of

LINE = 4096
SET = 8 * (LINE + 64)  # holds one set of lines


class Table:
    """A table of a row a page, behind a cache of so many sets; and what its gathers read."""

    def __init__(self, folder: Path, rows: int, sets: int, mode: str = "r") -> None:
        path = folder / "x.bin"
        self.x = torch.arange(rows * 64, dtype=torch.int32).view(rows, 64).repeat(1, 16)
        self.x.numpy().tofile(path)
        self.cache = hl.StorageCache(sets * SET, LINE)
        self.array = hl.StorageArray.open(path, mode, dtype=torch.int32, shape=tuple(self.x.shape), cache=self.cache)
        self.sets = self.cache.native.num_slots // 8

    def gather(self, index: torch.Tensor) -> None:
        assert torch.equal(self.array[index], self.x[index])

    def misses(self, trace: list[int], policy: str) -> int:
        return len(trace) - in_sets(trace, self.sets, 8, POLICIES[policy])

    @property
    def reads(self) -> int:
        return self.array.stats().reads

    @property
    def expects(self) -> bool:
        return self.array.stats().expected_bytes > 0


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 120), length=st.integers(1, 120), sets=st.integers(1, 4))
def test_known_gathers_read_as_few_pages_as_can_be(tmp_path_factory, seed, rows, length, sets):
    """One row after the other: as Belady's optimum in the same sets; and by CLOCK where nothing is known."""
    table = Table(tmp_path_factory.mktemp("x"), rows, sets)
    trace = np.random.default_rng(seed).integers(0, rows, length).tolist()
    gathers = [torch.tensor([row]) for row in trace]
    for index in gathers:
        table.gather(index)
    assert table.reads == table.misses(trace, "clock")

    table = Table(tmp_path_factory.mktemp("x"), rows, sets)
    assert table.array.expect(gathers) == length and table.expects
    for index in gathers:
        table.gather(index)
    assert table.reads == table.misses(trace, "belady") and not table.expects


def batch_by_batch(batches: list[list[int]], sets: int, ways: int) -> int:
    """The fewest pages read by a cache that has all pages of a batch at its end, none of which needs more than a set has."""
    parts = [[[page for page in batch if set_of(page, sets) == one] for batch in batches] for one in range(sets)]
    reads = 0
    for part in parts:
        there: set[int] = set()
        for at, batch in enumerate(part):
            reads += len(set(batch) - there)
            there |= set(batch)
            later = part[at + 1 :]
            others = sorted(
                there - set(batch), key=lambda page: next((i for i, b in enumerate(later) if page in b), len(later))
            )
            there -= set(others[max(ways - len(batch), 0) :])
    return reads


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), sets=st.integers(2, 10), rows=st.integers(20, 400), size=st.integers(1, 30))
def test_known_mini_batches_read_as_few_pages_as_can_be(tmp_path_factory, seed, sets, rows, size):
    """A batch's pages are asked for together: between the optimum page by page and that batch by batch, fewer than by CLOCK."""
    random = np.random.default_rng(seed)
    batches = [np.unique(random.integers(0, rows, size)).tolist() for _ in range(min(20, sets * 256 // (size + 1)))]
    table = Table(tmp_path_factory.mktemp("x"), rows, sets)
    assert table.array.expect([torch.tensor(batch) for batch in batches]) == len(batches)
    for batch in batches:
        table.gather(torch.tensor(batch))
    flat = [page for batch in batches for page in batch]
    assert table.misses(flat, "belady") <= table.reads <= table.misses(flat, "clock")
    if all(np.bincount([set_of(page, sets) for page in batch]).max() <= 8 for batch in batches):
        assert table.reads <= batch_by_batch(batches, table.sets, 8)


def test_a_scan_over_twice_the_cache_finds_half_of_it(tmp_path):
    """Where CLOCK gives each page away before it comes again."""
    table = Table(tmp_path, 256, 16)
    scan = [torch.arange(begin, begin + 32) for begin in range(0, 256, 32)] * 6
    for index in scan:
        table.gather(index)
    without = table.reads
    assert table.array.expect(scan) == len(scan)
    for index in scan:
        table.gather(index)
    assert without > 1400 and table.reads - without < 0.65 * without


def test_a_batch_is_known_by_its_rows(tmp_path):
    """In any order, type and sign; what is none of them changes nothing, and what does not come is passed over."""
    table = Table(tmp_path, 100, 4)
    batches = [torch.arange(begin, begin + 5) for begin in range(0, 40, 5)]
    assert table.array.expect(batches) == 8
    held = table.array.stats().expected_bytes
    assert held == 8 * (8 * 5 + 8) <= table.cache.host_budget // 16
    table.gather(batches[0].flip(0).int())
    table.gather(batches[1] - 100)
    table.gather(torch.arange(100))  # none of them
    table.gather(batches[4])
    assert table.expects
    table.gather(batches[3])  # late
    table.gather(batches[7])  # others do not come
    assert not table.expects
    table.gather(batches[5])


def test_told_rows_are_forgotten_or_replaced(tmp_path):
    table = Table(tmp_path, 1000, 4)
    some = torch.arange(10)
    assert table.array.expect([some, some, some]) == 3
    table.gather(some)
    assert table.array.expect([some + 20]) == 1
    table.gather(some)
    assert table.expects
    with pytest.raises(IndexOutOfRange):
        table.array.expect([some, some + 995])
    with pytest.raises(ConfigError):
        table.array.expect([some.float()])
    assert table.expects, "what was told before holds"
    assert table.array.expect([]) == 0 and not table.expects
    taken = table.array.expect([torch.arange(1000)] * 5)
    assert taken == 1 and table.array.stats().expected_bytes <= table.cache.host_budget // 16
    table.gather(torch.arange(1000))
    assert not table.expects
    assert table.array.expect([some]) == 1 and table.cache.stats().expected_bytes > 0
    table.array.close()
    assert table.cache.stats().expected_bytes == 0
    with pytest.raises(StorageError, match="was closed"):
        table.array.expect([some])


def test_a_gather_in_a_graph_is_a_batch(tmp_path):
    """As the driver's thread runs it."""
    table = Table(tmp_path, 100, 4)
    rows = torch.tensor([3, -1, 5])
    out = torch.empty(3, 1024, dtype=torch.int32)
    task = _core.GatherTask(table.array._table, rows.data_ptr(), 3, out.data_ptr(), True)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(task.function)
    table.array.expect([torch.tensor([3, 99, 5]), torch.tensor([7])])
    run(task.address)
    assert torch.equal(out, table.x[[3, 99, 5]]) and task.take_error() == ("", -1, 0, 0)
    table.gather(torch.tensor([7]))
    assert not table.expects


def test_what_a_gather_in_a_graph_asks_for(tmp_path):
    """Some rows, where others are given by somebody else; and what it tells of a bad number."""
    table = Table(tmp_path, 100, 4)
    rows, out = torch.tensor([3, _core.NOT_ASKED, 5]), torch.full((3, 1024), -1, dtype=torch.int32)
    task = _core.GatherTask(table.array._table, rows.data_ptr(), 3, out.data_ptr(), False)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(task.function)
    run(task.address)
    assert torch.equal(out[[0, 2]], table.x[[3, 5]]) and bool((out[1] == -1).all())
    rows.fill_(_core.NOT_ASKED)
    before = table.array.stats()
    run(task.address)
    assert table.array.stats() == before
    for bad in (-1, 100, 7):
        rows.copy_(torch.tensor([3, bad, bad]))
        run(task.address)
        assert bad == 7 or not out.any()
    assert task.take_error() == ("row -1", 1, -1, 3)
    assert task.take_error()[:2] == ("", -1)


def test_what_nothing_is_known_of_gives_way_first(tmp_path):
    """Of an array that shares the cache, and of the same."""
    table = Table(tmp_path, 400, 16)
    (tmp_path / "other.bin").write_bytes(bytes(LINE * 400))
    other = hl.StorageArray.open(tmp_path / "other.bin", dtype=torch.uint8, shape=(400, LINE), cache=table.cache)
    known = torch.arange(48)
    assert np.bincount([set_of(page, table.sets) for page in range(48)]).max() < 8, "no set is full of them"
    table.gather(known)
    assert table.array.expect([known]) == 1
    for row in range(200, 400):  # one at a time: what is on its way cannot give way
        other[row]
        table.gather(torch.tensor([row]))
    before = table.reads
    table.gather(known)
    assert table.reads == before


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_reads_and_writes_in_any_order_while_batches_are_known(tmp_path_factory, data):
    """Results, and the file, are what they are without: also where dirty pages have to give way."""
    folder = tmp_path_factory.mktemp("any")
    table = Table(folder, 60, data.draw(st.integers(1, 3)), "r+")
    seeds = data.draw(st.lists(st.integers(0, 2**16), min_size=1, max_size=8))
    batches = [torch.randint(0, 60, (12,), generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    table.array.expect(batches)
    for turn, index in enumerate(batches):
        if data.draw(st.booleans()):
            table.array.prefetch(index)
        if not data.draw(st.booleans()):
            continue
        table.gather(index)
        if data.draw(st.booleans()):
            table.x[index] += turn + 1
            table.array[index] = table.x[index]
        if data.draw(st.booleans()):
            table.array.flush()
    table.array.close()
    assert np.array_equal(np.fromfile(folder / "x.bin", dtype=np.int32), table.x.numpy().ravel())


def test_threads_share_what_is_known(tmp_path):
    """Batches that begin in any order are all found, and nothing stays known in the end."""
    table = Table(tmp_path, 300, 12)
    batches = [torch.randperm(300, generator=torch.Generator().manual_seed(i))[:8] for i in range(150)]
    assert table.array.expect(batches) == 150
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(table.gather, batches))
    assert not table.expects


@pytest.mark.gpu
def test_rows_for_a_gpu_are_one_batch(tmp_path, monkeypatch):
    """Also where they pass through pinned memory in several parts."""
    table = Table(tmp_path, 100, 4)
    monkeypatch.setattr("hinterland.table.array.BOUNCE_BYTES", 10 * LINE)
    table.array.expect([torch.arange(50), torch.arange(5)])
    for count in (50, 5):
        index = torch.arange(count, device="cuda")
        assert torch.equal(table.array[index].cpu(), table.x[:count])
    assert not table.expects
