"""Files of other writers give the answers that DuckDB and pyarrow give over them."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
from pyarrow import feather, orc, parquet  # noqa: E402

import hinterland as hl  # noqa: E402

from .written.make import COLUMNS  # noqa: E402

WRITTEN = Path(__file__).parent / "written"
TABLE = pa.table(COLUMNS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))


def by_duckdb(path, options=""):
    made = duckdb.connect()
    made.register("made", TABLE)
    made.execute(f"copy made to '{path}' {options}")


def by_csv(path):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(COLUMNS))
        writer.writeheader()
        writer.writerows(TABLE.to_pylist())


WRITERS = {
    "fastparquet.parquet": None,
    "polars.parquet": None,
    "polars.arrow": None,
    "parquet-rs.parquet": None,
    "arrow-rs.arrow": None,
    "pages of version 1.parquet": lambda path: parquet.write_table(TABLE, path, data_page_version="1.0", row_group_size=64),
    "pages of version 2.parquet": lambda path: parquet.write_table(TABLE, path, data_page_version="2.0", row_group_size=64),
    "duckdb.parquet": lambda path: by_duckdb(path, "(row_group_size 100, compression zstd)"),
    "duckdb v2.parquet": lambda path: by_duckdb(path, "(parquet_version v2)"),
    "duckdb.csv.gz": by_duckdb,
    "pandas.parquet": lambda path: TABLE.to_pandas().to_parquet(path),
    "feather.arrow": lambda path: feather.write_feather(TABLE, path, compression="zstd", chunksize=64),
    "orc.orc": lambda path: orc.write_table(TABLE, path, stripe_size=1024, compression="snappy"),
    "csv.csv": by_csv,
}


@pytest.fixture(params=WRITERS)
def written(request, tmp_path):
    """A file, and what pyarrow or DuckDB reads in it."""
    if WRITERS[request.param] is None:
        path = WRITTEN / request.param
    else:
        path = tmp_path / request.param
        WRITERS[request.param](path)
    read = {".arrow": feather.read_table, ".orc": orc.read_table}.get(path.suffix)
    if read is None:
        function = "read_parquet(?)" if path.suffix == ".parquet" else "read_csv(?, allow_quoted_nulls=false)"
        read = lambda name: duckdb.connect().sql(f"select * from {function}", params=[str(name)]).to_arrow_table()  # noqa: E731
    return path, read(path)


QUESTIONS = [
    ("fare > 5 and small in (1, 3)", "count(*), sum(number), sum(fare), min(moment), max(moment), mean(small)"),
    ("number is null or not flag", "count(number), count(*), sum(fare * small), max(number - small), avg(fare / 2)"),
    ("color like '%e%'", "count(*), sum(small), min(number)"),
    ("note not like 'ride 1%' and moment >= '2024-01-10'", "count(*), sum(fare + small)"),
    ("number + small > 2000", "count(*), sum(number)"),
]


@pytest.mark.parametrize(("predicate", "aggregates"), QUESTIONS)
def test_answers_are_duckdbs(written, predicate, aggregates):
    path, table = written
    database = duckdb.connect()
    database.register("rows", table)
    expected = database.execute(f"select {aggregates} from rows where {predicate}").fetchone()
    found = hl.query(path).filter(predicate).agg(aggregates).rows[0]
    for value, wanted in zip(found.values(), expected, strict=True):
        if isinstance(value, np.datetime64):  # of nanoseconds
            value = value.astype("datetime64[us]").item()
        assert math.isclose(value, wanted, rel_tol=1e-12) if isinstance(wanted, float) else value == wanted


def test_groups_and_rows_are_those_that_are_read(written):
    path, table = written
    query = hl.query(path).filter("small < 2")
    rows = [{**values, "row": row} for row, values in enumerate(table.to_pylist()) if values["small"] < 2]
    assert query.rows().tolist() == [row["row"] for row in rows]
    names = ("number", "fare", "flag", "color", "note", "moment")
    assert query.to_arrow(*names).to_pylist() == [{name: row[name] for name in names} for row in rows]
    colors = [row["color"] for row in rows]
    groups = {row["color"]: row["count()"] for row in query.group_by("color").agg("count()").rows}
    assert groups == {color: colors.count(color) for color in set(colors)}
