"""What kernels write is what numpy would have written, in the cache and, once it was flushed, in the file."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import ConfigError, StorageError
from hinterland.storage.on_device import Backing, DeviceStore, hole_of
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.elements import read_elements, write_elements

PAGE = 4096
LINES = (512, 4096, 8192, 65536)


def stored(path: Path, count: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> np.ndarray:
    """A file of a page and random numbers; the numbers."""
    kind = np.int64 if dtype == torch.int64 else np.int32
    x = np.random.default_rng(seed).integers(-(2**31), 2**31, count, dtype=kind)
    path.write_bytes(bytes(PAGE) + x.tobytes())
    return x


def file_store(path: Path, device: torch.device, sets: int = 20, line_bytes: int = PAGE, **more) -> DeviceStore:
    budget = sets * 8 * (line_bytes + 16)
    more = {"channels": 2, "depth": 64, "threads": 2, "mode": "r+", **more}
    return DeviceStore(Backing(path=str(path)), device, budget, line_bytes, **more)


def in_file(path: Path, like: np.ndarray) -> np.ndarray:
    return np.fromfile(path, dtype=like.dtype, offset=PAGE, count=len(like))


@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
@pytest.mark.parametrize("line_bytes", LINES)
def test_elements_are_those_that_were_written(
    device: torch.device, tmp_path: Path, dtype: torch.dtype, line_bytes: int
) -> None:
    x = stored(tmp_path / "x", 40_000, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = file_store(tmp_path / "x", device, line_bytes=line_bytes)
        for turn in range(3):
            at = torch.randperm(len(x), generator=torch.Generator().manual_seed(turn))[:2000]
            values = torch.randint(-(2**31), 2**31, (len(at),), dtype=torch.int64).to(dtype)
            with store.live():
                write_elements(store.array(PAGE), len(x), dtype, device, at.to(device), len(at), values.to(device))
            x[at] = values
            with store.live():
                found, _ = read_elements(store.array(PAGE), len(x), dtype, device, None, len(x))
            assert found is not None and np.array_equal(found.cpu(), x)
        store.flush()
        assert np.array_equal(in_file(tmp_path / "x", x), x)
        counts = store.counts()
        store.flush()
        assert counts["writes"] > 0 and store.counts() == counts  # what was flushed is clean
        store.close()


def test_warps_write_neighbours_in_a_cache_of_eight_lines(device: torch.device, tmp_path: Path) -> None:
    """Every element, in an order in which neighbours belong to different warps, through one set."""
    x = stored(tmp_path / "x", 8000, torch.int32)
    store = file_store(tmp_path / "x", device, sets=1, line_bytes=512, depth=16)
    assert store.num_slots == 8
    order = torch.arange(len(x)).view(-1, 100).T.reshape(-1)
    with store.live():
        write_elements(store.array(PAGE), len(x), torch.int32, device, order.to(device), len(order))
    assert store.counts()["writes"] >= x.nbytes // 512 - 8  # they have made room for others
    store.close()
    assert np.array_equal(in_file(tmp_path / "x", x), np.arange(len(x)))


@pytest.mark.parametrize("line_bytes", LINES)
def test_lines_that_are_overwritten_are_not_read(device: torch.device, tmp_path: Path, line_bytes: int) -> None:
    x = stored(tmp_path / "x", 1 << 17)
    line = line_bytes // 8
    store = file_store(tmp_path / "x", device, line_bytes=line_bytes)
    begin = -PAGE % line_bytes // 8  # of the first line that is the array's alone
    at = begin + line * torch.randperm((len(x) - begin) // line, generator=torch.Generator().manual_seed(1))
    values = torch.arange(len(at) * line)
    with store.live():
        write_elements(store.array(PAGE), len(x), torch.int64, device, at.to(device), len(at), values.to(device), run=line)
    assert store.counts()["reads"] == 0
    x[(at[:, None] + torch.arange(line)).view(-1)] = values
    with store.live():  # parts of lines
        write_elements(store.array(PAGE), len(x), torch.int64, device, at[:3].to(device), 3, run=line - 1)
    x[(at[:3, None] + torch.arange(line - 1)).view(-1)] = (at[:3, None] + torch.arange(line - 1)).view(-1)
    store.close()
    assert np.array_equal(in_file(tmp_path / "x", x), x)


def test_a_file_has_one_writer(device: torch.device, tmp_path: Path) -> None:
    x = stored(tmp_path / "x", 1000)
    store = file_store(tmp_path / "x", device)
    with pytest.raises(StorageError, match="open for writing already"):
        file_store(tmp_path / "x", device)
    with pytest.raises(StorageError, match="open for writing already"):
        hl.StorageArray.open(tmp_path / "x", "r+", dtype=torch.int64, shape=(-1,))
    reader = file_store(tmp_path / "x", device, mode="r")
    store.close()
    file_store(tmp_path / "x", device).close()  # whoever still has the first
    assert store.controller.served() and not store.stats().writes
    with pytest.raises(ConfigError, match="mode 'w' is not one of r, r\\+"):
        file_store(tmp_path / "x", device, mode="w")
    with reader.live():
        assert int(read_elements(reader.array(PAGE), len(x), torch.int64, device, None, len(x))[1]) == x.sum()
    reader.close()
    (tmp_path / "x").chmod(0o400)
    if os.geteuid() != 0:
        with pytest.raises(StorageError, match="Permission denied"):
            file_store(tmp_path / "x", device)


def test_a_store_that_only_reads_says_that_it_was_written(device: torch.device, tmp_path: Path) -> None:
    """A kernel that writes to what was opened for reading is told when its lines have to make room."""
    x = stored(tmp_path / "x", 30_000)
    store = file_store(tmp_path / "x", device, sets=1, mode="r")
    with pytest.raises(StorageError, match="could not be written: NVMe status 0x020"), store.live():
        write_elements(store.array(PAGE), len(x), torch.int64, device, None, len(x))
    store.close()
    assert np.array_equal(in_file(tmp_path / "x", x), x)


def test_a_full_disk(device: torch.device, small_disk: Path) -> None:
    """What could not be written is said, is still held, and is written once there is room."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (700 << 10))
    path, elements = small_disk / "x", 100 * 512
    with path.open("wb") as file:
        file.truncate(PAGE + elements * 8)
    store = file_store(path, device, sets=40)
    with store.live():
        write_elements(store.array(PAGE), elements, torch.int64, device, None, elements)
    with pytest.raises(StorageError, match=f"{path}: the bytes from .* could not be written: NVMe status .*the next flush"):
        store.flush()
    with pytest.raises(StorageError, match="could not be written"):
        store.close()
    ballast.unlink()
    store.flush()
    assert np.array_equal(np.fromfile(path, dtype=np.int64, offset=PAGE), np.arange(elements))
    store.close()


def test_writers_that_find_no_room_are_told_why(device: torch.device, tmp_path: Path) -> None:
    """No write succeeds. The kernel comes to its end, and says which page it was."""
    held = torch.zeros(1 << 20, dtype=torch.uint8)
    broken = Device(address=held.data_ptr(), bytes=len(held), faults=(("fatal", 1000),), seed=3)
    store = DeviceStore(broken, device, 8 * (PAGE + 16), channels=1, depth=16, threads=1, mode="r+")
    with pytest.raises(StorageError, match="memory: the bytes from \\d+ on could not be written"), store.live():
        write_elements(store.array(PAGE), 100 * 512, torch.int64, device, None, 100, run=512)
    with pytest.raises(StorageError, match="could not be"):
        store.flush()
    with pytest.warns(ResourceWarning, match="what kernels wrote last is lost"):
        del store
        gc.collect()


def test_faults_end_in_a_sentence_or_in_the_file(device: torch.device) -> None:
    """Errors that a retry may mend, late answers, another order."""
    held = torch.zeros(1 << 20, dtype=torch.uint8)
    faults = (("reorder", True), ("late", 50), ("retryable", 20))
    store = DeviceStore(
        Device(address=held.data_ptr(), bytes=len(held), faults=faults, seed=5),
        device,
        "128KiB",
        depth=32,
        threads=2,
        mode="r+",
    )
    elements = (len(held) - 2 * PAGE) // 8
    for _ in range(20):
        try:
            with store.live():
                write_elements(store.array(PAGE), elements, torch.int64, device, None, elements // 512, run=512)
            store.close()  # flushes, and stays open where that fails
            break
        except StorageError as error:
            assert "NVMe status" in str(error)
    else:
        pytest.fail("no try of twenty wrote all")
    assert torch.equal(held[PAGE:-PAGE].view(torch.int64), torch.arange(elements))


@pytest.mark.parametrize("line_bytes", LINES)
def test_lines_of_a_hole_are_not_read_before_they_were_written(device: torch.device, tmp_path: Path, line_bytes: int) -> None:
    """Of a file with numbers at its beginning and in its middle; through a cache that has to give lines away, and with room."""
    path, count, middle = tmp_path / "x", 200_000, 70_000
    for sets in (2, (4 << 20) // line_bytes // 8):
        with path.open("wb") as file:
            file.write(np.arange(1000).tobytes())
            file.seek(middle * 8)
            file.write(np.arange(1000).tobytes())
            file.truncate(count * 8)
        first, end = hole_of(str(path), (middle + 1000) * 8)
        if not end:
            pytest.skip("this file system does not say what was written")
        assert (middle + 1000) * 8 <= first < (middle + 1000) * 8 + 65536 and end >= count * 8
        assert hole_of(str(path), 8000)[1] <= middle * 8
        x = np.fromfile(path, dtype=np.int64)
        store = file_store(path, device, sets=sets, line_bytes=line_bytes, hole=(0, first, end))
        begin = -(-first // line_bytes) * line_bytes // 8
        at = begin + torch.randperm(count - begin, generator=torch.Generator().manual_seed(1))[: 4000 if sets == 2 else 40_000]
        with store.live():
            write_elements(store.array(PAGE), count, torch.int64, device, (at - PAGE // 8).to(device), len(at), at.to(device))
        reads = store.counts()["reads"]
        with store.live():
            everywhere = count - PAGE // 8
            found, _ = read_elements(store.array(PAGE), everywhere, torch.int64, device, None, everywhere)
        x[at] = at
        assert found is not None and np.array_equal(found.cpu(), x[PAGE // 8 :])
        store.close()
        assert np.array_equal(np.fromfile(path, dtype=np.int64), x)
        assert reads == 0 or sets == 2
        if device.type == "cpu":  # on a GPU whether lines stay is a matter of time
            assert reads > 0 or sets > 2
        path.unlink()


def test_a_hole_that_the_budget_has_not_bits_for(device: torch.device, tmp_path: Path) -> None:
    path, count = tmp_path / "x", 8 << 20
    with path.open("wb") as file:
        file.truncate(count * 8)
    store = file_store(path, device, sets=2, line_bytes=512, hole=(0, 0, count * 8))
    at = torch.tensor([1000, count - 5 - PAGE // 8])
    with store.live():
        write_elements(store.array(PAGE), count, torch.int64, device, at.to(device), 2, at.to(device))
    assert store.counts()["reads"] == 1  # the line far behind
    store.close()
    found = np.fromfile(path, dtype=np.int64, offset=PAGE)
    assert found.nonzero()[0].tolist() == at.tolist() == found[at].tolist()
