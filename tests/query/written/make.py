"""Makes the files beside it, each by a library that has no code of pyarrow's: ``python make.py`` where these are installed.

They were fastparquet 2026.9.0, polars 2.1.0 and arro3-io 0.9.1 (arrow-rs and parquet-rs).
"""

from __future__ import annotations

import datetime
from pathlib import Path

FOLDER = Path(__file__).parent
ROWS = 200
COLUMNS = {
    "number": [None if row % 7 == 3 else row * row - 900 for row in range(ROWS)],
    "small": [row % 5 for row in range(ROWS)],
    "fare": [None if row % 11 == 5 else row / 8 for row in range(ROWS)],
    "flag": [row % 3 == 0 for row in range(ROWS)],
    "color": [None if row % 13 == 7 else ["green", "yellow", "", "café"][row % 4] for row in range(ROWS)],
    "note": [f"ride {row}" for row in range(ROWS)],
    "moment": [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=7 * row) for row in range(ROWS)],
}


def by_fastparquet() -> None:
    import fastparquet
    import pandas

    table = pandas.DataFrame(COLUMNS).astype({"number": "Int64", "color": "category"})
    fastparquet.write(str(FOLDER / "fastparquet.parquet"), table, row_group_offsets=[0, 90], compression="GZIP")


def by_polars() -> None:
    import polars

    table = polars.DataFrame(COLUMNS).with_columns(polars.col("color").cast(polars.Categorical))
    table.write_parquet(FOLDER / "polars.parquet", row_group_size=64)
    table.write_ipc(FOLDER / "polars.arrow", compression="lz4")


def by_arrow_rs() -> None:
    import arro3.core
    import arro3.io
    import pyarrow

    table = arro3.core.Table.from_arrow(pyarrow.table(COLUMNS))
    arro3.io.write_parquet(table, FOLDER / "parquet-rs.parquet", max_row_group_size=70, writer_version="parquet_2_0")
    arro3.io.write_ipc(table, FOLDER / "arrow-rs.arrow", compression=None)


if __name__ == "__main__":
    for make in (by_fastparquet, by_polars, by_arrow_rs):
        make()
