"""Queries Q0 to Q5 of BaM over Arrow and Parquet files in the page cache, beside DuckDB, polars and cuDF (_trips.py).

Bounds on the distance meet 0.03, 0.47 and 50 % of the rows, as nearly as trips of a hundredth of a mile allow: ``matched``
rows of 8 million. Times are the least of five, in milliseconds, opening counted; answers agree to 10 digits before that.
``over_duckdb`` is ours divided by DuckDB's.

With a GPU there are 100 million rows, of Q1 and Q5, and of Q1 over trips that are not ``rounded``, of whose distances and
totals few are the same; each question is put to the GPU as well: ``gpu_ms`` once its columns lie in managed memory.
``gpu_open`` has the milliseconds for all of them and the first answer to be there, kernels compiled. ``rivals_over_gpu`` is the
faster rival's time divided by the GPU's, and ``of_link`` the time in which the copy engine brings as many bytes as were read,
divided by the GPU's.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import hinterland as hl
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices

from ._rows import Rows
from ._timing import milliseconds
from ._trips import ADDED, SHARES, Question, faster_rival, write

REPEATS, CPU = 5, [torch.device("cpu")]


def run(small: bool) -> dict[str, Any]:
    """All figures; ``small`` takes a small table."""
    on_gpu = devices.cuda_available()
    rows = 200_000 if small else 100_000_000 if on_gpu else 8_000_000
    runs, opened, links = Rows(), Rows(), list[float]()
    for rounded in (True, False) if on_gpu else (True,):
        with tempfile.TemporaryDirectory() as folder:
            for kind, path in write(Path(folder), rows, rounded).items():
                gpu = None
                if on_gpu:
                    gpu, ms = _opened(path)
                    opened.append({"file": kind, "rounded": rounded, "ms": ms})
                    # Once before everything else 51.1 GB/s were found, and queries then moved 53.8.
                    links += [copy_rates(torch.device("cuda", 0))[0] for _ in range(5)]
                numbers = range(6) if not on_gpu else (1, 5) if rounded else (1,)
                for share in SHARES:
                    for number in numbers:
                        found = _one(Question(kind, path, share, number), gpu, max(links, default=None))
                        runs.append({"rounded": rounded, **found})
    return {"rows": rows, "queries": runs, "gpu_open": opened, "link_gbs": max(links) / 1e9 if links else None}


def _opened(path: Path) -> tuple[hl.Query, float]:
    """A query to a file whose columns lie in managed memory, and the milliseconds until the first answer was there."""
    sums = [f"sum({name})" for name in ("distance", *ADDED)]
    hl.query(path, device="cuda").filter("distance >= 1").agg(*sums)  # compiles
    begun = time.perf_counter()
    gpu = hl.query(path, device="cuda")
    gpu.filter("distance >= 1").agg(*sums)
    return gpu, 1e3 * (time.perf_counter() - begun)


def _one(question: Question, gpu: hl.Query | None, link: float | None) -> dict[str, Any]:
    found = question.checked()
    ms = {who: milliseconds(ask, CPU, repeats=REPEATS) for who, ask in question.all().items()}
    there = {}
    if gpu is not None and link is not None:
        answered = gpu.filter(question.where)
        of_gpu = answered.agg(question.what)
        if not math.isclose(of_gpu.rows[0][question.what], found.rows[0][question.what], rel_tol=1e-12):
            raise AssertionError(f"{question.name} of {question.kind}: a GPU answers {of_gpu.rows}, and the CPU {found.rows}")
        assert of_gpu.bytes is not None and of_gpu.least_bytes is not None
        gpu_ms = milliseconds(lambda: answered.agg(question.what), CPU, repeats=REPEATS)
        there = {
            "gpu_ms": gpu_ms,
            "rivals_over_gpu": faster_rival(ms) / gpu_ms,
            "of_link": 1e3 * of_gpu.bytes / link / gpu_ms,
            "gpu_bytes_over_least": of_gpu.bytes / of_gpu.least_bytes,
        }
    return {
        "file": question.kind,
        "query": question.name,
        "match": question.share,
        "matched": found.matched,
        **{f"{who}_ms": each for who, each in ms.items()},
        "over_duckdb": ms["ours"] / ms["duckdb"],
        **there,
    }
