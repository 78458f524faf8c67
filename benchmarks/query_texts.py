"""Queries to columns of texts in Arrow and Parquet files in the page cache, beside DuckDB and polars, which get the same SQL.

``name`` differs in every row, so that no dictionary helps; ``key`` is one of 60,000 texts, ``color`` one of three. Times are
the least of five, in milliseconds, opening counted; answers agree before that. ``over_faster_rival`` is ours divided by the
faster rival's.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import hinterland as hl

from ._rows import Rows
from ._timing import milliseconds
from ._trips import written

REPEATS, CPU = 5, [torch.device("cpu")]


class Asked(NamedTuple):
    """A filter, or none; a key, or none; and an aggregate, all of which SQL has, too."""

    where: str
    by: str
    what: str


QUESTIONS = (
    Asked("name = 'name 00000077'", "", "count()"),
    Asked("name < 'name 00001'", "", "sum(x)"),
    Asked("name in ('name 00000001', 'name 00000020', 'name 00000300')", "", "sum(x)"),
    Asked("", "", "count(name)"),
    Asked("x < 0.001", "", "count(name)"),
    Asked("key = 'key 77'", "", "sum(x)"),
    Asked("color != 'red'", "", "sum(x)"),
    Asked("", "color", "sum(x)"),
    Asked("key < 'key 2'", "color", "sum(x)"),
    Asked("x < 0.01", "key", "count()"),
    Asked("", "key", "sum(x)"),
)


def run(small: bool) -> dict[str, Any]:
    """All figures; ``small`` takes a small table."""
    rows, runs = 200_000 if small else 4_000_000, Rows()
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in _write(Path(folder), rows).items():
            for asked in QUESTIONS:
                who = {"ours": _ours, "duckdb": _duckdb, "polars": _polars}
                answers = {name: answer(path, kind, asked) for name, answer in who.items()}
                for name, answer in answers.items():
                    _require_same(answers["ours"], answer, f"{name}, {kind}: {asked}")
                ms = {
                    name: milliseconds(partial(answer, path, kind, asked), CPU, repeats=REPEATS) for name, answer in who.items()
                }
                over = ms["ours"] / min(ms["duckdb"], ms["polars"])
                times = {f"{name}_ms": each for name, each in ms.items()}
                runs.append({"file": kind, **asked._asdict(), **times, "over_faster_rival": over})
    return {"rows": rows, "queries": runs}


def _write(folder: Path, rows: int) -> dict[str, Path]:
    import pyarrow

    rng = np.random.default_rng(1)
    columns = {
        "name": pyarrow.array([f"name {number:08d}" for number in rng.permutation(rows)]),
        "key": pyarrow.array([f"key {number}" for number in range(60_000)]).take(rng.integers(0, 60_000, rows)),
        "color": pyarrow.array(["red", "green", "blue"]).take(rng.integers(0, 3, rows)),
        "x": rng.random(rows),
    }
    return written(folder, columns)


def _ours(path: Path, kind: str, asked: Asked) -> list[tuple[Any, ...]]:
    query = hl.query(path)
    query = query.filter(asked.where) if asked.where else query
    query = query.group_by(asked.by) if asked.by else query
    return [tuple(row.values()) for row in query.agg(asked.what).rows]


def _sql(asked: Asked) -> str:
    by = f"{asked.by}, " if asked.by else ""
    where = f" where {asked.where}" if asked.where else ""
    grouped = f" group by {asked.by}" if asked.by else ""
    return f"select {by}{asked.what.replace('()', '(*)')} from texts{where}{grouped}"


def _duckdb(path: Path, kind: str, asked: Asked) -> list[tuple[Any, ...]]:
    import duckdb
    import pyarrow

    if kind == "arrow":
        texts = pyarrow.ipc.open_file(pyarrow.memory_map(str(path))).read_all()
    else:
        texts = duckdb.read_parquet(str(path))  # noqa: F841  both are found by their name
    return duckdb.sql(_sql(asked)).fetchall()


def _polars(path: Path, kind: str, asked: Asked) -> list[tuple[Any, ...]]:
    import polars

    frame = polars.scan_ipc(path) if kind == "arrow" else polars.scan_parquet(path)
    return polars.SQLContext(texts=frame).execute(_sql(asked), eager=True).rows()


def _require_same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], what: str) -> None:
    same = len(ours) == len(theirs)
    for a, b in zip(ours, sorted(theirs), strict=False):
        same = same and a[:-1] == b[:-1] and bool(np.isclose(a[-1], b[-1], rtol=1e-10, atol=0))
    if not same:
        raise AssertionError(f"{what}: another answer than ours")
