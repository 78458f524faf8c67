"""Queries Q0 to Q5 of BaM (Mailthody 2022, sections 3.3 and 7.2.3) over Arrow and Parquet files, beside DuckDB and polars.

Q0 is the mean distance of trips of at least some miles; Q1 dollars a mile, the ratio of sums; Q2 to Q5 add surcharge, hail fee,
tolls and taxes to it. The table is made: distances are exponential, with a mean as those of taxi trips have, so that bounds
meet 0.03, 0.47 and 50 % of the rows. Files lie in the page cache. Times are the least of three, in milliseconds, opening
counted; answers agree to 10 digits before anything is timed. ``over_duckdb`` is ours divided by DuckDB's.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hinterland as hl

REPEATS = 3
MEAN_MILES = 3.0
SHARES = (0.0003, 0.0047, 0.5)
ADDED = ("total", "surcharge", "hail_fee", "tolls", "taxes")


def run(small: bool) -> dict[str, Any]:
    """All figures; ``small`` takes a small table."""
    rows = 200_000 if small else 8_000_000
    with tempfile.TemporaryDirectory() as folder:
        paths = _write(Path(folder), rows)
        runs = [_one(kind, path, share, number) for kind, path in paths.items() for share in SHARES for number in range(6)]
    return {"rows": rows, "queries": runs}


def _write(folder: Path, rows: int) -> dict[str, Path]:
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    rng = np.random.default_rng(1)
    columns = {"distance": rng.exponential(MEAN_MILES, rows)}
    columns.update({name: np.round(rng.exponential(5.0, rows), 2) for name in ADDED})
    table = pyarrow.table(columns)
    paths = {"arrow": folder / "trips.arrow", "parquet": folder / "trips.parquet"}
    pyarrow.feather.write_feather(table, paths["arrow"], compression="uncompressed", chunksize=1 << 20)
    pyarrow.parquet.write_table(table, paths["parquet"])
    return paths


def _one(kind: str, path: Path, share: float, number: int) -> dict[str, Any]:
    import duckdb
    import polars
    import pyarrow

    miles = -MEAN_MILES * math.log(share)
    added = ADDED[:number]
    what = "mean(distance)" if not added else f"({' + '.join(f'sum({name})' for name in added)}) / sum(distance)"
    query = hl.query(path).filter(f"distance >= {miles!r}")
    sql = what.replace("mean(", "avg(")

    def duck() -> float:
        source = f"'{path}'"
        if kind == "arrow":
            trips = pyarrow.ipc.open_file(pyarrow.memory_map(str(path))).read_all()  # noqa: F841  DuckDB finds it by its name
            source = "trips"
        return float(duckdb.sql(f"select {sql} from {source} where distance >= {miles!r}").fetchall()[0][0])

    def pole() -> float:
        frame = polars.scan_ipc(path) if kind == "arrow" else polars.scan_parquet(path)
        column = polars.col
        over = sum((column(name).sum() for name in added[1:]), column(added[0]).sum()) if added else column("distance").sum()
        under = column("distance").sum() if added else polars.len()
        return float(frame.filter(column("distance") >= miles).select((over / under).alias("a")).collect().item())

    found = query.agg(what)
    answers = [found.rows[0][what], duck(), pole()]
    if not all(math.isclose(answer, answers[0], rel_tol=1e-10) for answer in answers):
        raise AssertionError(f"Q{number} of {kind}: {answers} differ")
    ours, duck_ms, pole_ms = (_least_ms(call) for call in (lambda: query.agg(what), duck, pole))
    return {
        "file": kind,
        "query": f"Q{number}",
        "match": share,
        "ours_ms": ours,
        "duckdb_ms": duck_ms,
        "polars_ms": pole_ms,
        "over_duckdb": ours / duck_ms,
        "bytes_over_least": found.bytes / found.least_bytes,
    }


def _least_ms(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return 1e3 * min(times)
