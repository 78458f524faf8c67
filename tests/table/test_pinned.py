"""Rows that stay in memory: StorageArray.pin against a tensor, and what happens to all others meanwhile."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland.runtime.errors import ConfigError, IndexOutOfRange, OutOfMemory, StorageError

from ..storage.simulators import set_of
from ..together import by_threads

LINE = 512
SET = 8 * (LINE + 64)  # holds one set of lines
WIDTH = LINE // 4


def opened(folder, rows=400, sets=8, mode="r", **given):
    """A table of a row a page, behind a cache of so many sets, and what it holds."""
    x = torch.arange(rows * WIDTH, dtype=torch.int32).view(rows, WIDTH)
    x.numpy().tofile(folder / "x.bin")
    cache = hl.StorageCache(sets * SET, LINE, **given)
    return hl.StorageArray.open(folder / "x.bin", mode, dtype=torch.int32, shape=(rows, WIDTH), cache=cache), x


def reads_of(array, index):
    before = array.stats().reads
    array[index]
    return array.stats().reads - before


@pytest.mark.parametrize("engine", ("auto", "threads"))
def test_pinned_rows_stay_whatever_else_is_read(tmp_path, engine):
    array, x = opened(tmp_path, engine=engine)
    hot = torch.tensor([3, 50, 51, 200, 399, -2])
    with array.pin(hot) as pinned:
        assert pinned.pages == 6 and pinned.left_out == 0 and array.stats().pinned == 6
        for _ in range(4):
            assert torch.equal(array[:], x)
        assert reads_of(array, hot) == 0 and torch.equal(array[hot], x[hot])
    assert array.stats().pinned == 0 and pinned.pages == 0
    for _ in range(4):
        assert torch.equal(array[:], x)
    assert reads_of(array, hot) > 0


def test_a_page_stays_as_long_as_any_has_it_pinned(tmp_path):
    array, _ = opened(tmp_path)
    first, second = array.pin([1, 2]), array.pin(torch.tensor([2, 3]))
    assert array.stats().pinned == 3
    first.unpin()
    first.unpin()
    array[:]
    assert array.stats().pinned == 2 and reads_of(array, [2, 3]) == 0
    del second
    gc.collect()
    assert array.stats().pinned == 0, "nobody has it any more"
    assert array.pin([]).pages == 0


def test_half_of_the_cache_may_be_pinned(tmp_path):
    array, x = opened(tmp_path)
    slots = array.cache.native.num_slots
    with pytest.raises(OutOfMemory, match=rf"these rows lie in {slots // 2 + 1} pages: half of the cache may be pinned"):
        array.pin(torch.arange(slots // 2 + 1))
    assert array.stats().pinned == array.stats().reads == 0
    held = [array.pin(torch.arange(begin, begin + 8)) for begin in range(0, slots // 2, 8)]
    while array.stats().pinned < slots // 2:  # some sets were full
        held.append(array.pin([int(torch.randint(100, 400, ()))]))
    with pytest.raises(OutOfMemory, match=f"and {slots // 2} are; pin fewer rows"):
        array.pin(torch.arange(60, 100))
    assert array.stats().pinned == slots // 2, "what was refused is let go of"
    assert torch.equal(array[:], x)
    for one in held:
        one.unpin()
    assert array.stats().pinned == 0


def test_two_places_of_a_set_are_left_to_others(tmp_path):
    """Pages of one set: six stay, the others are said, and still all rows are read, by several threads."""
    array, x = opened(tmp_path, rows=2000)
    sets = array.cache.native.num_slots // 8
    of_one = [page for page in range(2000) if set_of(page, sets) == 3]
    pinned = array.pin(of_one[:20])
    assert (pinned.pages, pinned.left_out, array.stats().pinned) == (6, 14, 6)
    wrong = []

    def read(seed):
        index = torch.tensor(of_one)[torch.randint(0, len(of_one), (300,), generator=torch.Generator().manual_seed(seed))]
        if not torch.equal(array[index], x[index]):
            wrong.append(seed)

    by_threads(read, 4)
    assert not wrong and reads_of(array, of_one[:6]) == 0


def test_a_cache_of_one_set(tmp_path):
    array, x = opened(tmp_path, rows=100, sets=1)
    with array.pin([0, 1, 2, 3]) as pinned:
        assert pinned.pages == 4 and torch.equal(array[:], x) and reads_of(array, [0, 1, 2, 3]) == 0
        with pytest.raises(OutOfMemory):
            array.pin([4])


def test_what_is_written_to_pinned_pages_is_flushed(tmp_path):
    array, x = opened(tmp_path, mode="r+")
    pinned = array.pin(torch.arange(10))
    for version in (5, 6):
        array[0:20] = torch.full((20, WIDTH), version, dtype=torch.int32)
        array.flush()
        held = np.fromfile(tmp_path / "x.bin", dtype=np.int32).reshape(-1, WIDTH)
        assert (held[:20] == version).all() and np.array_equal(held[20:], x[20:].numpy())
    array[3] = 9
    array.close()
    assert (np.fromfile(tmp_path / "x.bin", dtype=np.int32).reshape(-1, WIDTH)[3] == 9).all() and pinned.pages == 0


def test_a_closed_array_unpins(tmp_path):
    """Its places are others' again, and its file may be written by others."""
    array, x = opened(tmp_path, sets=1, mode="r+")
    pinned = array.pin([0, 1, 2, 3])
    array.close()
    assert pinned.pages == 0 and array.stats().pinned == 0
    with pytest.raises(StorageError, match="was closed"):
        array.pin([0])
    again = hl.StorageArray.open(tmp_path / "x.bin", "r+", dtype=torch.int32, shape=tuple(x.shape), cache=array.cache)
    with again.pin([4, 5, 6, 7]):
        assert torch.equal(again[:], x)
    pinned.unpin()
    assert again.stats().pinned == 0


def test_another_array_of_the_file_may_be_closed(tmp_path):
    array, x = opened(tmp_path)
    other = hl.StorageArray.open(tmp_path / "x.bin", dtype=torch.int32, shape=tuple(x.shape), cache=array.cache)
    with array.pin([1, 2]):
        other.close()
        array[:]
        assert reads_of(array, [1, 2]) == 0


def test_a_page_that_cannot_be_read_is_said(tmp_path):
    array, x = opened(tmp_path)
    os.truncate(tmp_path / "x.bin", 100 * LINE)
    with pytest.raises(StorageError, match="shorter than when it was opened"):
        array.pin(torch.arange(90, 110))
    assert array.stats().pinned == 0 and torch.equal(array[:90], x[:90])


def test_wrong_rows_get_a_sentence(tmp_path):
    array, _ = opened(tmp_path)
    with pytest.raises(IndexOutOfRange, match="index 400 at position 1"):
        array.pin([1, 400])
    with pytest.raises(ConfigError):
        array.pin(torch.tensor([1.0]))
    assert "pages=2" in repr(array.pin([1, 2]))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_reads_writes_and_pins_in_any_order(tmp_path_factory, data):
    """Against a tensor; in the end nothing is pinned, and the file is as it should be."""
    folder = tmp_path_factory.mktemp("any")
    rows, width = data.draw(st.integers(1, 80)), data.draw(st.sampled_from((1, 3, 64, 700)))
    x = torch.randint(-(2**15), 2**15, (rows, width), dtype=torch.int16)
    x.numpy().tofile(folder / "x.bin")
    cache = hl.StorageCache(data.draw(st.integers(1, 5)) * SET, LINE)
    held = []
    with hl.StorageArray.open(folder / "x.bin", "r+", dtype=torch.int16, shape=(rows, width), cache=cache) as array:
        for turn in range(data.draw(st.integers(1, 10))):
            index = torch.tensor(data.draw(st.lists(st.integers(-rows, rows - 1), max_size=20)), dtype=torch.int64)
            action = data.draw(st.sampled_from(("read", "write", "pin", "unpin", "flush")))
            if action == "read":
                assert torch.equal(array[index], x[index])
            elif action == "write":
                x[index] = turn
                array[index] = turn
            elif action == "pin":
                try:
                    held.append(array.pin(index))
                except OutOfMemory:
                    begins = {row % rows * width * 2 for row in index.tolist()}
                    pages = {page for at in begins for page in range(at // LINE, (at + width * 2 - 1) // LINE + 1)}
                    assert len(pages) > 4 or held  # more than a set has
            elif action == "unpin" and held:
                held.pop(data.draw(st.integers(0, len(held) - 1))).unpin()
            elif action == "flush":
                array.flush()
        assert torch.equal(array[:], x)
    assert cache.stats().pinned == 0
    assert (folder / "x.bin").read_bytes() == x.numpy().tobytes()


def test_threads_pin_at_once(tmp_path):
    """What they pinned stays theirs, and counts return to zero."""
    array, x = opened(tmp_path, rows=1000, sets=16)
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(40):
            index = torch.randint(0, 1000, (6,), generator=generator)
            with array.pin(index):
                everything = torch.randint(0, 1000, (100,), generator=generator)
                if not torch.equal(array[everything], x[everything]):
                    wrong.append(seed)

    by_threads(work, 6)
    assert not wrong and array.stats().pinned == 0
    with array.pin(torch.arange(0, 1000, 25)) as pinned:
        assert pinned.pages + pinned.left_out == 40
