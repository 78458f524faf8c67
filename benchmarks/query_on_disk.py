"""Queries Q1 and Q5 of BaM to files on a disk, of which the page cache has nothing, beside DuckDB and, with a GPU, cuDF
(_trips.py).

Before each question the file is dropped from the page cache, which mincore confirms. ``ms`` are medians of as many rounds as
time is left for, three at most, all asked in turn, opening counted. ``ours`` is the CPU's answer, and ``gpu`` a GPU's, which
streams the columns through a gibibyte of host memory. ``over_faster_rival`` is the latter, where there is a GPU, divided by
the faster rival's. ``ceiling_ms`` is the time in which the disk brings in sequence, past the page cache, what it brought for
that answer (``/proc/self/io``), and ``of_disk`` is that divided by its time.

A run takes ``--seconds``, and begins no round that would take longer: questions to Parquet files come last. With ``--output``
each figure is kept as it comes.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hinterland as hl
from hinterland.probe import disk
from hinterland.runtime import devices

from ._cold import forget
from ._rows import told
from ._trips import SHARES, Question, faster_rival, write

ROUNDS = 3
BUDGET = "1GiB"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured files go: the disk in question")
    parser.add_argument("--rows", type=int, default=100_000_000, help="of the table")
    parser.add_argument("--seconds", type=float, default=140, help="for all of it, the making of files too")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All figures; ``--small`` takes a small table."""
    end = time.perf_counter() + options.seconds
    rows = 400_000 if options.small else options.rows
    measured, left_out = disk.measure(options.folder)
    if measured is None:
        raise SystemExit(left_out[0])
    figures = {name: figure for name, figure in dataclasses.asdict(measured).items() if name != "path"}
    found: dict[str, Any] = {"rows": rows, "disk": figures, "queries": []}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="hinterland-bench-") as name:
        for kind, path in write(Path(name), rows).items():
            _warm_up(path)
            for number in (1, 5):
                for share in SHARES[:2]:
                    if row := _one(Question(kind, path, share, number), measured.sequential, end):
                        found["queries"].append(told(row))
                        if options.output is not None:
                            options.output.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _streamed(question: Question) -> hl.QueryResult:
    """A GPU's answer."""
    query = hl.query(question.path, device="cuda", host_budget=BUDGET)
    return query.filter(question.where).agg(question.what)


def _warm_up(path: Path) -> None:
    """Has kernels compiled, and libraries loaded."""
    for ask in _asked(Question(path.suffix[1:], path, SHARES[0], 1)).values():
        ask()


def _asked(question: Question) -> dict[str, Callable[[], Any]]:
    """Who is asked, by name."""
    every = {who: ask for who, ask in question.all().items() if who != "polars"}
    return every | ({"gpu": lambda: _streamed(question)} if devices.cuda_available() else {})


def _one(question: Question, rate: float, end: float) -> dict[str, Any] | None:
    """A question's figures; None where no time is left for it."""
    took: dict[str, list[float]] = {who: [] for who in _asked(question)}
    best, begun = "gpu" if "gpu" in took else "ours", time.perf_counter()
    read, answers, round_took = 0, dict[str, float](), 0.0
    for number in range(ROUNDS):
        if time.perf_counter() + round_took > end:
            break
        for who, ask in _asked(question).items():
            if not forget(question.path):
                raise SystemExit(f"{question.path}: the page cache keeps what it was told to drop; --folder names another disk")
            before, began = _bytes_read(), time.perf_counter()
            answer = ask()
            took[who].append(1e3 * (time.perf_counter() - began))
            read = _bytes_read() - before if who == best else read
            answers[who] = answer.rows[0][question.what] if isinstance(answer, hl.QueryResult) else answer
        round_took = (time.perf_counter() - begun) / (number + 1)
    if not answers:
        return None
    if not all(math.isclose(answer, answers["ours"], rel_tol=1e-10) for answer in answers.values()):
        raise AssertionError(f"{question.name} of {question.kind}: {answers} differ")
    ms = {who: statistics.median(each) for who, each in took.items()}
    rivals = {who: each for who, each in ms.items() if who != "gpu"}
    return {
        "file": question.kind,
        "query": question.name,
        "match": question.share,
        "rounds": len(took["ours"]),
        **{f"{who}_ms": each for who, each in ms.items()},
        "over_faster_rival": ms[best] / faster_rival(rivals),
        "read_bytes": read,
        "ceiling_ms": 1e3 * read / rate,
        "of_disk": 1e3 * read / rate / ms[best],
    }


def _bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])
