"""Tables of all types that queries take, and files of them."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def write(table, path, kind, rows):
    """A file of several batches or row groups."""
    if kind == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=rows)
    else:
        pyarrow.feather.write_feather(table, path, compression="lz4" if kind == "lz4" else "uncompressed", chunksize=rows)
    return path


def made(rows, seed=1):
    """All types, with nulls, NaN, ends of ranges."""
    rng = random.Random(seed)
    maybe = lambda value: None if rng.random() < 0.2 else value  # noqa: E731
    columns = {}
    for name in INTEGERS:
        bits, signed = int(name.strip("uint")), name[0] == "i"
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        columns[name] = pa.array([maybe(rng.choice([low, high, 0, 1, 5, 7])) for _ in range(rows)], name)
    for name in ("float32", "float64"):
        values = [maybe(rng.choice([0.5, -0.0, 1e30, math.nan, -math.inf, rng.random()])) for _ in range(rows)]
        columns[name] = pa.array(values, name)
    columns["half"] = pa.array([maybe(rng.choice([0.5, 1.5, -2.0])) for _ in range(rows)]).cast(pa.float16())
    columns["money"] = pa.array(
        [maybe(Decimal(rng.randrange(-(10**9), 10**9)) / 100) for _ in range(rows)], pa.decimal128(18, 2)
    )
    columns["flag"] = pa.array([maybe(rng.random() < 0.5) for _ in range(rows)])
    columns["day"] = pa.array([maybe(datetime.date(2019, 1, 1 + rng.randrange(28))) for _ in range(rows)])
    columns["moment"] = pa.array(
        [maybe(datetime.datetime(2019, 1, 1, rng.randrange(24))) for _ in range(rows)], pa.timestamp("us")
    )
    texts = pa.array([maybe(rng.choice(["cash", "card", "", "é"])) for _ in range(rows)])
    columns["plain"], columns["text"] = texts, texts.dictionary_encode()
    return pa.table(columns)
