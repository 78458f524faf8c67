"""What BaM's cache once got wrong, and how far pages are numbered.

Its pull request 39 mended a page number that was cut short while its slot was looked for, and one page that was loaded into
several slots. The first is ``test_page_numbers_to_their_last_bit``, and cache_stress.cpp, whose pages differ in their highest
bits alone. The second is ``test_a_page_that_many_miss_at_once_is_read_once``; in every order of steps the case "once" of
cache_model.cpp, which looks for it in every state; and under load cache_stress.cpp. Its ``find_range`` still gives wrong
elements where an array has several ranges: ``test_ranges_lie_anywhere``.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core
from hinterland.runtime.errors import StorageError

from ..programs import NATIVE, compiled, needs_compiler, run

LINE = 512
PEBIBYTE = 1 << 50


@needs_compiler
def test_page_numbers_to_their_last_bit(tmp_path: Path) -> None:
    """And arrays that begin anywhere in the space of pages, up to its end."""
    run(compiled(tmp_path, "tests/storage/page_numbers.cpp", flags=["-O1", *NATIVE]))


def largest_sparse(path: Path) -> int:
    """Bytes of the largest file that the file system takes, a power of two less a page."""
    for bits in range(50, 30, -1):
        try:
            with open(path, "wb") as file:
                file.truncate((1 << bits) - 4096)
            return (1 << bits) - 4096
        except OSError:
            continue
    pytest.skip("this file system has no large files")


def test_a_pebibyte_is_addressable(tmp_path: Path) -> None:
    """Sparse files, as large as they may be, behind one cache of the smallest pages: until its numbers are all given out."""
    size = largest_sparse(tmp_path / "0.bin")
    if size < PEBIBYTE >> 7:
        pytest.skip("this file system has no large files")
    files, rows = PEBIBYTE // (size + 4096), size // LINE
    cache = hl.StorageCache("1MiB", LINE)
    arrays = []
    for i in range(files):
        (tmp_path / f"{i}.bin").touch()
        os.truncate(tmp_path / f"{i}.bin", size)
        arrays.append(hl.StorageArray.open(tmp_path / f"{i}.bin", "r+", dtype=torch.int64, shape=(rows, 64), cache=cache))
    assert [array.position for array in arrays] == [i * (size + LINE) for i in range(files)]
    ends = torch.tensor([0, rows // 2, rows - 1])
    for i, array in enumerate(arrays):
        array[ends] = (torch.arange(3) + 10 * i)[:, None].expand(3, 64)
    for i, array in enumerate(arrays):
        assert torch.equal(array[ends][:, 7], torch.arange(3) + 10 * i)
        assert not array[torch.tensor([1, rows - 2])].any()
    cache.flush()
    for i in range(files):
        with open(tmp_path / f"{i}.bin", "rb") as file:
            file.seek((rows - 1) * LINE)
            assert set(np.frombuffer(file.read(), dtype=np.int64).tolist()) == {2 + 10 * i}
    if arrays[-1].position + 2 * size > PEBIBYTE:
        (tmp_path / "more.bin").touch()
        os.truncate(tmp_path / "more.bin", size)
        with pytest.raises(StorageError, match="no page numbers left"):
            hl.StorageArray.open(tmp_path / "more.bin", dtype=torch.int64, shape=(rows, 64), cache=cache)


def test_a_page_that_many_miss_at_once_is_read_once(tmp_path: Path) -> None:
    x = torch.arange(256 * 1024, dtype=torch.int32).view(256, 1024)
    x.numpy().tofile(tmp_path / "x.bin")
    index = torch.randperm(256, generator=torch.Generator().manual_seed(1))
    for _ in range(10):
        array = hl.StorageArray.open(tmp_path / "x.bin", dtype=torch.int32, shape=(256, 1024), host_budget="8MiB")
        wrong, start = [], threading.Barrier(6)

        def read(array: hl.StorageArray = array, wrong: list[bool] = wrong, start: threading.Barrier = start) -> None:
            start.wait()
            wrong.append(not torch.equal(array[index], x[index]))

        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == [False] * 6 and array.stats().reads == 256


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_ranges_lie_anywhere(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A table of several ranges, in any order and anywhere in one of the files of a cache, beside tables of one range."""
    folder = tmp_path_factory.mktemp("ranges")
    cache = hl.StorageCache(data.draw(st.integers(1, 4)) * 8 * (LINE + 64), LINE)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    held = []
    for i in range(data.draw(st.integers(1, 3))):
        content = random.integers(0, 256, int(random.integers(2000, 20_000)), dtype=np.uint8)
        (folder / f"{i}.bin").write_bytes(content.tobytes())
        position = cache.native.open([folder / f"{i}.bin"], False)
        row = int(random.integers(1, 200))
        parts = [int(random.integers(1, len(content) // row + 1)) for _ in range(data.draw(st.integers(1, 5)))]
        offsets = [int(random.integers(0, len(content) - rows * row + 1)) for rows in parts]
        firsts = np.concatenate([[0], np.cumsum(parts)]).tolist()
        extents = [(first, position + at) for first, at in zip(firsts, offsets, strict=False)]
        expected = np.concatenate(
            [content[at : at + rows * row].reshape(rows, row) for at, rows in zip(offsets, parts, strict=True)]
        )
        held.append((_core.StoredTable(cache.native, extents, firsts[-1], row), expected))
    for _ in range(3):
        for table, expected in held:
            index = torch.from_numpy(random.integers(0, len(expected), 30))
            out = torch.empty(30, expected.shape[1], dtype=torch.uint8)
            table.gather(index.data_ptr(), 30, out.data_ptr())
            assert np.array_equal(out.numpy(), expected[index.numpy()])
