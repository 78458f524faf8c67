"""Storage: blocks through an array beside the same blocks by io_uring alone, and rows of tables read in place.

Every pair of runs takes turns on the same file with the same threads and depth, each at other offsets; medians of nine pairs.
The ceiling is the run without cache or rows (native/storage/raw.hpp), and fio's where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hinterland as hl
from hinterland import _core
from hinterland.probe.storage import DEPTH, compare

from ._rows import Rows, add_seconds, in_time

PAIRS = 9


def add_options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured files go: the disk in question")
    parser.add_argument("--gib", type=float, default=16, help="size of the measured file")
    parser.add_argument("--reads", type=int, default=100_000, help="of 4 KiB in each run; rows are five times as many")


def run(options: argparse.Namespace) -> dict[str, Any]:
    size = int((0.25 if options.small else options.gib) * (1 << 30))
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="hinterland-bench-") as folder:
        path = Path(folder) / "file.bin"
        _fill(path, size)
        reads = 5000 if options.small else options.reads
        measured = Rows()
        for case in in_time(CASES):
            measured.append(_blocks(path, reads, *case))
        return {
            "blocks": measured,
            "fio": _fio(path),
            "tables": _tables(Path(folder), size // 4, 4 * reads if options.small else 5 * reads),
        }


# Bytes of a block, in sequence or at random, one in how many is a write.
CASES = ((4096, False, 0), (65536, True, 0), (262144, True, 0), (4096, False, 1), (65536, True, 1), (4096, False, 3))


def _fill(path: Path, size: int) -> None:
    """Random bytes, so that nothing is compressed or left out."""
    random = np.random.default_rng(1)
    with path.open("wb") as file:
        for _ in range(0, size, 64 << 20):
            file.write(random.bytes(64 << 20))
        os.fsync(file.fileno())


def _blocks(path: Path, blocks: int, block_bytes: int, sequential: bool, write_every: int) -> dict[str, Any]:
    count = max(blocks * 4096 // block_bytes // (4 if block_bytes > 4096 else 1), 16)
    kinds: dict[str, Any] = {"sequential": sequential, "write_every": write_every, "blocks": count, "pairs": PAIRS}
    return asdict(compare(path, block_bytes=block_bytes, **kinds))


def fio(path: Path, options: str) -> dict[str, Any] | None:
    """What the disk benchmark that others use says of a job by io_uring; None where it is not installed, or fails."""
    if shutil.which("fio") is None:
        return None
    command = ["fio", "--name=a", f"--filename={path}", "--direct=1", "--ioengine=io_uring", f"--iodepth={DEPTH}"]
    done = subprocess.run([*command, *options.split(), "--output-format=json"], check=False, capture_output=True)
    return json.loads(done.stdout)["jobs"][0] if done.returncode == 0 else None  # type: ignore[no-any-return]


def _fio(path: Path) -> dict[str, float] | None:
    """Its random 4-KiB reads a second."""
    threads = torch.get_num_threads()
    reads = "--rw=randread --bs=4k --runtime=5 --time_based --norandommap --group_reporting"
    job = fio(path, f"{reads} --numjobs={threads}")
    return None if job is None else {"iops": job["read"]["iops"], "threads": threads}


def _tables(folder: Path, size: int, ids: int) -> list[dict[str, Any]]:
    """Rows of 256 bytes in place, in two kinds of files, as deduplicated pages a second, beside as many without a cache."""
    rows, found = size // 256, Rows()
    for path in (folder / "table.npy", folder / "table.safetensors"):
        begin = table_file(path, rows, 64)
        for name, draw in in_time(DRAWS.items()):
            found.append(_table(path, rows, begin, ids, name, draw))
        path.unlink()
    return found


def table_file(path: Path, rows: int, columns: int, dtype: torch.dtype = torch.float32) -> int:
    """Makes a file with a table of random numbers; returns the byte where its rows begin."""
    with hl.StorageArray.create(path, (rows, columns), dtype) as made:
        begin = made.file_position
    random, left = np.random.default_rng(1), rows * columns
    with path.open("r+b") as file:
        file.seek(begin)
        while left > 0:
            part = torch.from_numpy(random.random(min(left, 1 << 24), dtype=np.float32)).to(dtype)
            left -= file.write(part.numpy()) // dtype.itemsize
        os.fsync(file.fileno())
    return begin


def _uniform(rows: int, ids: int, random: np.random.Generator) -> np.ndarray:
    return random.integers(0, rows, ids)


def _zipf(rows: int, ids: int, random: np.random.Generator) -> np.ndarray:
    """As words are: rank r with probability 1 / r, dealt over the table."""
    ranks = np.exp(random.random(ids) * np.log(rows)).astype(np.int64) - 1
    return ranks * 0x9E3779B1 % rows


DRAWS: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {"uniform": _uniform, "zipf": _zipf}


def _table(path: Path, rows: int, begin: int, ids: int, name: str, draw: Callable[..., np.ndarray]) -> dict[str, Any]:
    random, threads = np.random.default_rng(2), torch.get_num_threads()
    ours, ratios, cpu = [], [], []
    opened = []
    for _ in range(PAIRS):
        start = time.perf_counter()
        array = hl.StorageArray.open(path, host_budget="128MiB")
        array[0]
        opened.append(time.perf_counter() - start)
        asked = draw(rows, ids, random)
        before, start = array.stats(), time.perf_counter()
        array[torch.from_numpy(asked)]
        seconds, after = time.perf_counter() - start, array.stats()
        array.close()
        bytes_of = np.stack([asked * 256 + begin, asked * 256 + begin + 255]) // 4096
        pages = len(np.unique(bytes_of))
        other = np.unique(np.stack([v := draw(rows, ids, random) * 256 + begin, v + 255]) // 4096) * 4096
        offsets = torch.from_numpy(np.minimum(other, (path.stat().st_size - 4096) // 4096 * 4096))
        ns, cpu_ns = _core.run_raw(str(path), offsets.data_ptr(), len(offsets), 4096, 0, threads, DEPTH, "auto")
        ours.append(pages / seconds)
        ratios.append(ours[-1] / (len(offsets) / ns * 1e9))
        cpu.append((after.cpu_seconds - before.cpu_seconds) / (after.reads - before.reads) / (cpu_ns / len(offsets) / 1e9))
    return {
        "file": path.suffix[1:],
        "ids": name,
        "rows of 256 B a second": statistics.median(ours) * ids / pages,
        "pages a second": statistics.median(ours),
        "of raw": statistics.median(ratios),
        "cpu of raw": statistics.median(cpu),
        "ms to the first row": statistics.median(opened) * 1e3,
    }
