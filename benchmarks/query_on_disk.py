"""Queries Q1 and Q5 of BaM to files on a disk, of which the page cache has nothing, beside DuckDB, polars and cuDF (_trips.py);
and where single pages are read as quickly as whole columns.

Before each question the file is dropped from the page cache. ``ms`` are medians of three, all asked in turn, opening counted;
``over_faster_rival`` is ours divided by the faster rival's. ``read_over_planned`` is what the disk brought (``/proc/self/io``)
divided by the ``bytes`` that ours says it needs; ``of_disk`` the time in which the disk brings these in sequence, past the
page cache, divided by ours.

``pages`` has the sum of a column of float64 beside a filter that is in the page cache: ``share`` of its pages have a row that
matches. ``whole_ms`` reads all pages of blocks of 4096 rows in which any does, ``single_ms`` only those with a match, and
``chosen_ms`` what the planner does once this disk was probed: those, and short gaps between them. ``crossover`` is the share at
which the first two are equal, and ``planned`` the one for which the planner takes it: bytes of a page divided by the bytes that
the disk brings in sequence while it answers a request.
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
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import hinterland as hl
from hinterland.probe import disk
from hinterland.query import page_cache
from hinterland.query.run import Run

from ._rows import Rows
from ._trips import SHARES, Question, faster_rival, write

REPEATS = 3
PAGE_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 0.9)


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
        return {
            "rows": rows,
            "disk": figures,
            "queries": runs,
            **_pages(Path(name), rows, page_cache.request_bytes(measured)),
        }


def _one(question: Question, rate: float) -> dict[str, Any]:
    question.checked()
    took: dict[str, list[float]] = {who: [] for who in question.all()}
    for _ in range(REPEATS):
        for who, ask in question.all().items():
            seconds, read, found = _cold(question.path, ask)
            took[who].append(1e3 * seconds)
            if who == "ours":
                ours_read, ours = read, found
    ms = {who: statistics.median(each) for who, each in took.items()}
    return {
        "file": question.kind,
        "query": question.name,
        "match": question.share,
        **{f"{who}_ms": each for who, each in ms.items()},
        "over_faster_rival": ms["ours"] / faster_rival(ms),
        "of_disk": 1e3 * ours.bytes / rate / ms["ours"],
        "read_over_planned": ours_read / ours.bytes,
        "planned_over_least": ours.bytes / ours.least_bytes,
    }


def _cold(path: Path, ask: Callable[[], Any], before: Callable[[], Any] = lambda: None) -> tuple[float, int, Any]:
    """Seconds, bytes from the disk, and the answer, once the page cache has dropped the file and ``before`` was done."""
    gc.collect()  # pages that are mapped would stay
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before()
    read, begun = _bytes_read(), time.perf_counter()
    found = ask()
    return time.perf_counter() - begun, _bytes_read() - read, found


def _bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def _pages(folder: Path, rows: int, of_request: int) -> dict[str, Any]:
    import pyarrow
    import pyarrow.feather

    rng = np.random.default_rng(1)
    path, keys = folder / "pages.arrow", 1 << 30
    table = pyarrow.table({"key": rng.integers(0, keys, rows, dtype=np.int32), "x": rng.random(rows)})
    pyarrow.feather.write_feather(table, path, compression="uncompressed", chunksize=1 << 20)
    of_page = page_cache.PAGE // 8
    found = Rows()
    for share in PAGE_SHARES:
        asked = partial(_answer, path, f"key < {int(keys * (1 - (1 - share) ** (1 / of_page)))}")
        ways: dict[str, Callable[[], Any]] = {
            "whole": mock.patch.object(Run, "streamed", True),
            "single": mock.patch.object(page_cache, "bytes_of_request", lambda device: 0),
            "chosen": mock.patch.object(page_cache, "bytes_of_request", lambda device: of_request),
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(REPEATS):
            for way, chosen in ways.items():
                with chosen:
                    took[way].append(_cold(path, partial(asked, "sum(x)"), partial(asked, "count()"))[0])
        found.append({"share": share, **{f"{way}_ms": 1e3 * statistics.median(each) for way, each in took.items()}})
    return {"pages": found, "crossover": _crossing(found), "planned": page_cache.PAGE / of_request}


def _answer(path: Path, where: str, what: str) -> hl.QueryResult:
    return hl.query(path).filter(where).agg(what)


def _crossing(found: list[dict[str, Any]]) -> float | None:
    """Where single pages begin to take longer than all of them, between two shares that were measured."""
    over = [row["single_ms"] / row["whole_ms"] - 1 for row in found]
    for i in range(1, len(found)):
        if over[i - 1] <= 0 < over[i]:
            low, high = found[i - 1]["share"], found[i]["share"]
            return float(low - over[i - 1] * (high - low) / (over[i] - over[i - 1]))
    return None
