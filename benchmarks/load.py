"""Reading a ``.npy`` file into a UnifiedTensor, against the disk's own sequential rate."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hinterland import UnifiedTensor
from hinterland.memory.limits import host_memory

GIB = 1 << 30
BLOCK = 4 << 20
READERS = ((16, 4 << 20), (64, 1 << 20))  # threads and bytes of a read


def run(small: bool) -> dict[str, Any]:
    """Rates in GB/s. The file lies in the folder for temporary files (``TMPDIR``)."""
    with tempfile.TemporaryDirectory(prefix="hinterland-") as folder:
        room = min(shutil.disk_usage(folder).free // 2, host_memory(0)[0] // 2)
        size = min((64 << 20) if small else 16 * GIB, room) // BLOCK * BLOCK
        path = Path(folder) / "table.npy"
        write_table(path, size)
        disk = _sequential(path)
        start = time.perf_counter()
        table = UnifiedTensor.empty((size,), torch.uint8)
        touched = time.perf_counter() - start
        del table
        took = min(_load_seconds(path) for _ in range(2))
        table = UnifiedTensor.from_file(path)
        sample = np.load(path, mmap_mode="r")
        for row in range(0, len(sample), max(1, len(sample) // 1000)):
            assert table.cpu()[row, 0] == int(sample[row, 0])
        placement = table.placement
        del table, sample
        _forget(path)
        disk = max(disk, _sequential(path))
    rate = size / took
    return {
        "file_gib": size / GIB,
        "placement": placement,
        "load_gbs": rate / 1e9,
        "load_seconds": took,
        "of_which_allocation": touched,
        "disk_gbs": disk / 1e9,
        "ratio": rate / disk,
    }


def _load_seconds(path: Path) -> float:
    _forget(path)
    start = time.perf_counter()
    table = UnifiedTensor.from_file(path)
    took = time.perf_counter() - start
    del table  # not a moment earlier: giving 16 GiB back takes time too
    return took


def write_table(path: Path, size: int) -> None:
    """A ``.npy`` of int64 rows of 1 KiB, each its own number, written through to the disk."""
    rows = size // 1024
    with open(path, "wb") as file:
        header = {"descr": "<i8", "fortran_order": False, "shape": (rows, 128)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, 1 << 16):
            numbers = torch.arange(start, min(rows, start + (1 << 16))).view(-1, 1).expand(-1, 128).contiguous()
            file.write(numbers.numpy())
        file.flush()
        os.fsync(file.fileno())
    _forget(path)


def _forget(path: Path) -> None:
    """Drops the file from the page cache."""
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def _sequential(path: Path) -> float:
    """Bytes a second of plain reads by many threads, past the page cache where the file system allows it: the best way."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        handle = os.open(path, os.O_RDONLY)
    size = os.fstat(handle).st_size // BLOCK * BLOCK
    best = max(_read_rate(handle, size, threads, block) for threads, block in READERS)
    os.close(handle)
    return best


def _read_rate(handle: int, size: int, threads: int, block: int) -> float:
    def read(first: int) -> None:
        with mmap.mmap(-1, block) as into:  # page-aligned, as direct reads demand
            for at in range(first * block, size, threads * block):
                os.preadv(handle, [into], at)

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, range(threads)))
    return size / (time.perf_counter() - start)
