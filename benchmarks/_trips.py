"""Trips with the distributions of New York's taxis, in Arrow and Parquet files, and the questions of BaM to them (Mailthody
2022, sections 3.3 and 7.2.3), put to this library, DuckDB and, where they are installed, polars and cuDF, which needs a GPU.

Q0 is the mean distance of trips of at least some miles; Q1 dollars a mile, the ratio of sums; Q2 to Q5 add surcharge, hail fee,
tolls and taxes to it. Distances, totals and tolls are drawn, each by itself, from the quantiles of the taxi trips of
``taxis.csv``; surcharges, fees and taxes, which it lacks, are the tariffs' amounts.
"""

from __future__ import annotations

import functools
import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hinterland as hl
from hinterland.runtime import devices

SHARES = (0.0003, 0.0047, 0.5)
ADDED = ("total", "surcharge", "hail_fee", "tolls", "taxes")
# Of taxis.csv, 6,433 trips of March 2019: the quantiles at these shares. Most trips pay no toll.
QUANTILES_AT = [*(share / 32 for share in range(32)), 0.98, 0.99, 0.995, 0.998, 0.999, 0.9997, 1]
DISTANCE = [0.0, 0.4, 0.5, 0.6, 0.7, 0.78, 0.83, 0.9, 0.98, 1.04, 1.1, 1.2, 1.28, 1.37, 1.45, 1.54, 1.64, 1.76, 1.9, 2.02]
DISTANCE += [2.2, 2.4, 2.61, 2.9, 3.21, 3.6, 4.1, 4.8, 6.03, 7.77, 9.97, 14.2, 17.1, 18.93, 21.07, 24.49, 27.62, 33.96, 36.7]
TOTAL = [1.3, 6.8, 7.8, 8.75, 9.3, 9.49, 9.96, 10.38, 10.8, 11.3, 11.75, 11.8, 12.35, 12.8, 13.3, 13.57, 14.16, 14.76, 15.35]
TOTAL += [15.96, 16.8, 17.3, 18.35, 19.24, 20.3, 21.8, 23.45, 25.8, 29.15, 34.3, 43.25, 57.67, 66.36, 73.27, 78.66, 90.46]
TOTAL += [119.13, 166.26, 174.82]
TOLLS = [0.0] * 31 + [5.76, 5.76, 5.76, 5.76, 6.43, 11.52, 17.39, 24.02]


def write(folder: Path, rows: int, rounded: bool = True) -> dict[str, Path]:
    """An Arrow and a Parquet file of the same trips, by their kind; of those that are not ``rounded`` to hundredths nearly all
    distances, totals and tolls that are paid differ."""
    rng = np.random.default_rng(1)
    drawn = {"distance": DISTANCE, "total": TOTAL, "tolls": TOLLS}
    columns = {name: np.interp(rng.random(rows), QUANTILES_AT, known) for name, known in drawn.items()}
    if rounded:
        columns = {name: np.round(values, 2) for name, values in columns.items()}
    columns["surcharge"] = rng.choice([0.0, 0.5, 1.0], rows)
    columns["hail_fee"] = rng.choice([0.0, 2.5, 2.75], rows)
    columns["taxes"] = np.full(rows, 0.5)
    return written(folder, columns)


def written(folder: Path, columns: dict[str, Any]) -> dict[str, Path]:
    """An Arrow and a Parquet file of these columns, by their kind."""
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    table = pyarrow.table(columns)
    paths = {"arrow": folder / "table.arrow", "parquet": folder / "table.parquet"}
    pyarrow.feather.write_feather(table, paths["arrow"], compression="uncompressed", chunksize=1 << 20)
    pyarrow.parquet.write_table(table, paths["parquet"], write_page_index=True)
    return paths


class Question:
    """Of at least as many miles as a share of the trips has.

    Args:
        kind: of the file: ``"arrow"`` or ``"parquet"``.
        path: of the file.
        share: of the trips that match.
        number: of the question.
    """

    def __init__(self, kind: str, path: Path, share: float, number: int) -> None:
        self.kind, self.path, self.share, self.name = kind, path, share, f"Q{number}"
        self.miles = float(np.interp(1 - share, QUANTILES_AT, DISTANCE))
        self.where = f"distance >= {self.miles!r}"
        self.added = ADDED[:number]
        summed = " + ".join(f"sum({name})" for name in self.added)
        self.what = f"({summed}) / sum(distance)" if summed else "mean(distance)"

    def ours(self) -> hl.QueryResult:
        """Of this library, the file opened for it."""
        return hl.query(self.path).filter(self.where).agg(self.what)

    def duckdb(self) -> float:
        """Of DuckDB, which reads Arrow from a memory map."""
        import duckdb

        source = f"'{self.path}'"
        if self.kind == "arrow":
            trips = self._mapped()  # noqa: F841  found by its name
            source = "trips"
        asked = self.what.replace("mean(", "avg(")
        return float(duckdb.sql(f"select {asked} from {source} where {self.where}").fetchall()[0][0])

    def polars(self) -> float:
        """Of polars' scans."""
        import polars

        frame = polars.scan_ipc(self.path) if self.kind == "arrow" else polars.scan_parquet(self.path)
        sums = [polars.col(name).sum() for name in (*self.added, "distance")]
        answer = sum(sums[1:-1], sums[0]) / sums[-1] if self.added else sums[0] / polars.len()
        return float(frame.filter(polars.col("distance") >= self.miles).select(answer.alias("a")).collect().item())

    def cudf(self) -> float:
        """Of cuDF's own calls (pylibcudf), which bring the columns to the GPU each time."""
        cudf = _cudf()
        sums, columns = cudf.aggregation.sum(), [*self.added, "distance"]
        miles = cudf.Scalar.from_py(self.miles)
        if self.kind == "arrow":
            trips = cudf.Table.from_arrow(self._mapped().select(columns))
            at_least, bools = cudf.binaryop.BinaryOperator.GREATER_EQUAL, cudf.DataType(cudf.TypeId.BOOL8)
            met = cudf.binaryop.binary_operation(trips.columns()[-1], miles, at_least, bools)
            found = cudf.stream_compaction.apply_boolean_mask(trips, met)
        else:
            of, at_least = cudf.expressions, cudf.expressions.ASTOperator.GREATER_EQUAL
            where = of.Operation(at_least, of.ColumnNameReference("distance"), of.Literal(miles))
            asked = cudf.io.parquet.ParquetReaderOptions.builder(cudf.io.SourceInfo([str(self.path)]))
            found = cudf.io.parquet.read_parquet(asked.columns(columns).filter(where).build()).tbl
        *added, distance = (cudf.reduce.reduce(column, sums, column.type()).to_py() for column in found.columns())
        return float(sum(added) / distance if added else distance / found.num_rows())

    def _mapped(self) -> Any:
        """The Arrow file's table, from a memory map."""
        import pyarrow

        return pyarrow.ipc.open_file(pyarrow.memory_map(str(self.path))).read_all()

    def all(self) -> dict[str, Callable[[], Any]]:
        """Who is asked, by name."""
        polars = {"polars": self.polars} if importlib.util.find_spec("polars") else {}
        with_gpu = {"cudf": self.cudf} if devices.cuda_available() and importlib.util.find_spec("pylibcudf") else {}
        return {"ours": self.ours, "duckdb": self.duckdb, **polars, **with_gpu}

    def checked(self) -> hl.QueryResult:
        """Ours, once all have answered, and alike to 10 digits."""
        asked = self.all()
        found = asked.pop("ours")()
        answers = [found.rows[0][self.what], *(ask() for ask in asked.values())]
        if not all(math.isclose(answer, answers[0], rel_tol=1e-10) for answer in answers):
            raise AssertionError(f"{self.name} of {self.kind}: {answers} differ")
        return found


def faster_rival(took: dict[str, float]) -> float:
    """Of what each of ``Question.all`` took."""
    return min(each for who, each in took.items() if who != "ours")


@functools.cache
def _cudf() -> Any:
    """cuDF, its memory from a pool, as its guide advises."""
    import pylibcudf
    import rmm

    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    return pylibcudf
