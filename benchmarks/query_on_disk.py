"""Queries Q1 and Q5 of BaM to files on a disk, of which the page cache has nothing, beside DuckDB, polars and cuDF
(_trips.py).

Before each question the file is dropped from the page cache. ``ms`` are medians of three, all asked in turn, opening counted;
``over_faster_rival`` is ours divided by the faster rival's; ``of_disk`` the time in which the disk brings in sequence, past the
page cache, what it brought (``/proc/self/io``), divided by ours.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hinterland.probe import disk

from ._rows import Rows
from ._trips import SHARES, Question, faster_rival, write

REPEATS = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured files go: the disk in question")
    parser.add_argument("--rows", type=int, default=16_000_000, help="of the table")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All figures; ``--small`` takes a small table."""
    rows = 400_000 if options.small else options.rows
    measured, left_out = disk.measure(options.folder)
    if measured is None:
        raise SystemExit(left_out[0])
    figures = {name: figure for name, figure in dataclasses.asdict(measured).items() if name != "path"}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="hinterland-bench-") as name:
        runs = Rows()
        for kind, path in write(Path(name), rows).items():
            for share in SHARES:
                for number in (1, 5):
                    runs.append(_one(Question(kind, path, share, number), measured.sequential))
            path.unlink()
        return {"rows": rows, "disk": figures, "queries": runs}


def _one(question: Question, rate: float) -> dict[str, Any]:
    question.checked()
    took: dict[str, list[float]] = {who: [] for who in question.all()}
    for _ in range(REPEATS):
        for who, ask in question.all().items():
            seconds, read = _cold(question.path, ask)
            took[who].append(1e3 * seconds)
            if who == "ours":
                ours_read = read
    ms = {who: statistics.median(each) for who, each in took.items()}
    return {
        "file": question.kind,
        "query": question.name,
        "match": question.share,
        **{f"{who}_ms": each for who, each in ms.items()},
        "over_faster_rival": ms["ours"] / faster_rival(ms),
        "of_disk": 1e3 * ours_read / rate / ms["ours"],
    }


def _cold(path: Path, ask: Callable[[], Any]) -> tuple[float, int]:
    """Seconds, and bytes from the disk, once the page cache has dropped the file."""
    gc.collect()  # pages that are mapped would stay
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    read, begun = _bytes_read(), time.perf_counter()
    ask()
    return time.perf_counter() - begun, _bytes_read() - read


def _bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])
