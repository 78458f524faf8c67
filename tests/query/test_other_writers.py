"""Parquet files as other programs write them, or wrote them once: with statistics that are not true, and in other forms."""

from __future__ import annotations

import datetime
import gzip
import random
import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.query.writer import Writer  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError  # noqa: E402

from .rewritten import (  # noqa: E402
    BINARY,
    CREATED_BY,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    chunks,
    counted,
    required,
    with_footer,
    with_indexes,
    with_pages,
)

ORDERS = {"<": int.__lt__, "<=": int.__le__, "==": int.__eq__, "!=": int.__ne__, ">=": int.__ge__, ">": int.__gt__}


def set_writer(footer, name):
    if name is None:
        footer.pop(CREATED_BY, None)
    else:
        footer[CREATED_BY] = BINARY, name.encode()


# Column indexes that cannot be true


def all_are_found(path, rows, bound, text):
    """Of x, which counts the rows, and t, the same as texts."""
    for order, holds in ORDERS.items():
        expected = sum(holds(row, bound) for row in range(rows))
        assert counted(path, f"x {order} {bound}") == expected == counted(path, f"t {order} '{text}'")
    for name in ("x", "t"):
        assert [counted(path, f"{name} is not null"), counted(path, f"{name} is null")] == [rows, 0]


@pytest.mark.parametrize("null_counts", ["as they were", -1, 0, None])
@pytest.mark.parametrize("optional", [True, False], ids=["optional", "required"])
@pytest.mark.parametrize("rows", [40, 5120])
def test_an_index_that_says_that_pages_have_no_value_though_they_do(tmp_path, rows, optional, null_counts):
    path = tmp_path / "t"
    table = pa.table({"x": pa.array(range(rows), pa.int32()), "t": [f"{row:05}" for row in range(rows)]})
    options = {"max_rows_per_page": 10, "write_batch_size": 10, "use_dictionary": ["t"], "write_page_index": True}
    pyarrow.parquet.write_table(table if optional else required(table), path, row_group_size=rows // 2, **options)

    def change(column, index):
        index[1] = LIST, (TRUE, [True] * len(index[1][1][1]))
        if null_counts is None:
            index.pop(5, None)
        elif null_counts != "as they were":
            index[5] = LIST, (I64, [null_counts] * len(index[1][1][1]))

    with_indexes(path, change)
    all_are_found(path, rows, 7, "00007")


@pytest.mark.parametrize(("writer", "bounds"), [
    (None, "as they were"), ("DuckDB version v1.2.0", "as they were"), ("DuckDB version v1.2.0", "none"),
])  # fmt: skip
@pytest.mark.parametrize("false", [[True] * 4, [False, True, False, False]], ids=["all", "one"])
def test_an_index_whose_counts_of_nulls_agree_with_what_is_not_true(tmp_path, writer, bounds, false):
    """There are bounds of pages that are said to have no value, or no nulls by the footer."""
    path = tmp_path / "t"
    table = pa.table({"x": pa.array(range(40), pa.int32()), "t": [f"{row:02}" for row in range(40)]})
    options = {"max_rows_per_page": 10, "write_batch_size": 10, "use_dictionary": ["t"], "write_page_index": True}
    pyarrow.parquet.write_table(table, path, **options)

    def change(column, index):
        index[1] = LIST, (TRUE, false)
        index[5] = LIST, (I64, [10 * one for one in false])
        if bounds == "none":
            for field in (2, 3):
                index[field] = (
                    LIST,
                    (BINARY, [b"" if one else bound for one, bound in zip(false, index[field][1][1], strict=True)]),
                )

    with_indexes(path, change)
    with_footer(path, lambda footer: set_writer(footer, writer))
    all_are_found(path, 40, 17, "17")


@pytest.mark.parametrize("writer", [None, "parquet-cpp-arrow version 26.0.1"])
def test_an_index_that_may_be_true_is_believed(tmp_path, writer):
    """Of each writer, also that pages have no value, if all their rows are nulls."""
    path, nulls = tmp_path / "t", [None] * 1000
    table = pa.table({"x": pa.array([*nulls, *range(1000), *nulls, *range(1000)], pa.int64())})
    options = {"max_rows_per_page": 100, "write_batch_size": 100, "write_page_index": True, "use_dictionary": False}
    pyarrow.parquet.write_table(table, path, **options)
    with_footer(path, lambda footer: set_writer(footer, writer))
    found = hl.query(path).filter("x >= 950").agg("count()")
    assert found.rows == [{"count()": 100}]
    assert counted(path, "x is null") == 2000 and counted(path, "x is not null") == 2000


@pytest.mark.parametrize("change", [
    lambda index: index[5][1][1].__setitem__(0, 10**6),  # more nulls than rows
    lambda index: index[5][1][1].__setitem__(0, 100),  # all nulls, though it has bounds
    lambda index: index[5][1][1].__setitem__(0, 3),  # in a required column
])  # fmt: skip
def test_counts_of_nulls_that_cannot_be(tmp_path, change):
    path = tmp_path / "t"
    options = {"max_rows_per_page": 100, "write_batch_size": 100, "write_page_index": True}
    pyarrow.parquet.write_table(required(pa.table({"x": range(300)})), path, **options)
    with_indexes(path, lambda column, index: change(index))
    assert [counted(path, "x < 50"), counted(path, "x is null"), counted(path, "x is not null")] == [50, 0, 300]


# Counts of nulls that contradict the levels


OTHERS = [
    "parquet-cpp-arrow version 4.0.1", "parquet-cpp-arrow version 11.0.0", "parquet-cpp version 1.5.1-SNAPSHOT", "Polars",
    "Polars (python) version 1.9.0", "", None,
]  # fmt: skip


@pytest.mark.parametrize("writer", OTHERS[::2])
@pytest.mark.parametrize("said", [0, 1, 500, 2500, 10**6, -7])
@pytest.mark.parametrize("index", [True, False])
def test_counts_of_nulls_of_writers_that_are_not_known_to_count_right(tmp_path, writer, said, index):
    """Levels are counted, whatever the footer, pages' headers and indexes say."""
    path, rng = tmp_path / "t", random.Random(said)
    values = [None if rng.random() < 0.05 else row for row in range(5000)]
    table = pa.table({"k": values, "t": pa.array([None if one is None else f"{one % 9}" for one in values])})
    table = table.set_column(1, "t", table["t"].dictionary_encode())
    options = {"max_rows_per_page": 500, "write_batch_size": 500, "write_page_index": index}
    pyarrow.parquet.write_table(table, path, row_group_size=2500, **options)

    def change_footer(footer):
        set_writer(footer, writer)
        for chunk in chunks(footer):
            chunk[3][1][12][1][3] = I64, said

    def change_page(column, header, body):
        if 5 in header and 5 in header[5][1]:
            header[5][1][5][1][3] = I64, said
        return body

    if index:
        with_indexes(path, lambda column, one: one.update({5: (LIST, (I64, [said] * len(one[5][1][1])))}))
    else:
        with_pages(path, change_page)
    with_footer(path, change_footer)
    nulls = values.count(None)
    for name in ("k", "t"):
        assert counted(path, asked=f"count({name})") == 5000 - nulls
        assert counted(path, f"{name} is null") == nulls
        assert counted(path, f"{name} is not null") == 5000 - nulls
        assert counted(path, f"not ({name} is null) or {name} is null") == 5000
    assert counted(path, "k >= 2500") == sum(one is not None and one >= 2500 for one in values)


def test_a_count_of_all_rows_as_nulls_beside_bounds(tmp_path):
    """Of whatever writer: one of both is wrong."""
    pyarrow.parquet.write_table(pa.table({"x": range(300)}), tmp_path / "t", row_group_size=100)

    def change(footer):
        for chunk in chunks(footer):
            chunk[3][1][12][1][3] = I64, 100

    with_footer(tmp_path / "t", change)
    asked = [counted(tmp_path / "t", where) for where in ("x < 150", "x is not null", "x is null")]
    assert asked == [150, 300, 0] and counted(tmp_path / "t", asked="count(x)") == 300


def test_bounds_of_texts_that_are_those_of_the_first_batch_alone(tmp_path):
    """As Arrow wrote them before its version 12, of dictionaries in several batches."""
    path = tmp_path / "t"
    table = pa.table({"t": pa.array(["aa", "rusty", "sean", "zzz", "frank"] * 20).dictionary_encode(), "x": range(100)})
    pyarrow.parquet.write_table(table, path)

    def change(footer):
        set_writer(footer, "parquet-cpp-arrow version 10.0.1")
        statistics = chunks(footer)[0][3][1][12][1]
        statistics[5], statistics[6] = (BINARY, b"sean"), (BINARY, b"aa")

    with_footer(path, change)
    assert [counted(path, "t = 'zzz'"), counted(path, "t = 'sean'"), counted(path, "x < 0")] == [20, 20, 0]


def test_names_of_writers():
    assert Writer.of("parquet-mr version 1.12.3 (build f8dced182c4c1fbdec6ccb3185537b5a01e6ed6b)") == ("parquet-mr", 1)
    assert Writer.of("DuckDB version v1.2.0 (build 5f5512b827)") == ("DuckDB", 1)
    right = ["parquet-cpp-arrow version 26.0.1", "parquet-rs version 53.0.0", "DuckDB version v2.0.1 (build 8d78114e90)"]
    assert all(Writer.of(one).counts_nulls for one in right)
    assert not any(Writer.of(one).counts_nulls for one in OTHERS)


# Pages of version 2 that deny that they are compressed


@pytest.mark.parametrize("compression", ["snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("writer", ["parquet-cpp version 1.5.1-SNAPSHOT", "parquet-cpp-arrow version 26.0.1"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_of_version_2_that_deny_that_they_are_compressed(tmp_path, dictionary, writer, compression):
    path = tmp_path / "t"
    values = [None, 1, 2, 3, 4, 5] * 50
    texts = [None if one is None else f"text {one}" for one in values]
    table = pa.table({"x": pa.array(values, pa.int64()), "t": texts, "nothing": pa.array([None] * 300, pa.int32())})
    options = {"use_dictionary": dictionary, "compression": compression, "data_page_version": "2.0"}
    pyarrow.parquet.write_table(table, path, max_rows_per_page=100, write_batch_size=100, **options)
    codec = pa.Codec("lz4_raw" if compression == "lz4" else compression)

    def change(column, header, body):
        if header[1][1] == 3:
            levels, is_compressed = header[8][1][5][1], header[8][1][7][1]
            if not is_compressed:  # as pyarrow leaves short ones
                body = body[:levels] + codec.compress(body[levels:], asbytes=True)
            header[8][1][7] = TRUE, False
            assert header[2][1] != len(body)
        return body

    with_pages(path, change)
    with_footer(path, lambda footer: set_writer(footer, writer))
    if not writer.startswith("parquet-cpp "):  # of which pyarrow knows that they deny it
        with pytest.raises(FormatError, match="damaged"):
            hl.query(path).agg("sum(x)")
        return
    assert hl.query(path).agg("sum(x)", "count(x)", "count(nothing)").rows == [
        {"sum(x)": 750, "count(x)": 250, "count(nothing)": 0}
    ]
    groups = [{"x": key, "count()": 50} for key in (1, 2, 3, 4, 5, None)]
    assert hl.query(path).group_by("x").agg("count()").rows == groups
    assert [counted(path, "t = 'text 3'"), counted(path, "x > 3")] == [50, 100]
    groups = [{"t": key and f"text {key}", "count()": 50} for key in (1, 2, 3, 4, 5, None)]
    assert hl.query(path).group_by("t").agg("count()").rows == groups


def test_compressed_pages_of_parquet_cpp_of_as_many_bytes_as_without(tmp_path):
    """Of which nothing is seen in sizes."""
    path, values = tmp_path / "t", [36722, 1628980321, 168]
    stored = pa.Codec("snappy").compress(b"".join(one.to_bytes(8, "little") for one in values), asbytes=True)
    assert len(stored) == 24
    table = required(pa.table({"x": pa.array(values, pa.int64())}))
    pyarrow.parquet.write_table(table, path, use_dictionary=False, compression="snappy", data_page_version="2.0")

    def change(column, header, body):
        header[8][1][7] = TRUE, False
        return stored

    with_pages(path, change)
    with_footer(path, lambda footer: set_writer(footer, "parquet-cpp version 1.5.1-SNAPSHOT"))
    assert counted(path, asked="sum(x)") == sum(values)


# INT96


MOMENTS = [
    datetime.datetime(1, 1, 1), datetime.datetime(1677, 9, 21, 0, 12, 43), datetime.datetime(1969, 12, 31),
    datetime.datetime(2019, 3, 1, 12, 30, 0, 123456), None, datetime.datetime(2262, 4, 11, 23, 47, 17),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
]  # fmt: skip


@pytest.mark.parametrize("dictionary", [True, False])
def test_times_of_96_bits_before_1677_and_after_2262(tmp_path, dictionary):
    path = tmp_path / "t"
    table = pa.table({"t": pa.array(MOMENTS * 3, pa.timestamp("us")), "x": range(3 * len(MOMENTS))})
    pyarrow.parquet.write_table(table, path, use_deprecated_int96_timestamps=True, use_dictionary=dictionary)
    there = [one for one in MOMENTS if one is not None]
    found = hl.query(path).agg("min(t)", "max(t)", "count(t)").rows
    assert found == [{"min(t)": there[0], "max(t)": there[-1], "count(t)": 3 * len(there)}]
    assert [counted(path, "t > '2262-04-12'"), counted(path, "t < '1677-09-01'"), counted(path, "t = '1969-12-31'")] == [
        3,
        3,
        3,
    ]
    assert hl.query(path).filter("t <= '1969-12-31'").agg("max(t)").rows == [{"max(t)": there[2]}]
    assert hl.query(path).group_by("t").agg("count()").rows == [{"t": one, "count()": 3} for one in [*there, None]]


DAY_OF_1970, NANOSECONDS = 2440588, 86_400 * 10**9  # Julian, and of a day


def write_times(path, times, **options):
    """``times``: (Julian day, nanoseconds), all different, as any writer may have them."""
    table = pa.table({"t": pa.array(range(len(times)), pa.timestamp("us")), "x": range(len(times))})
    options = {"compression": "none", "use_dictionary": False} | options
    pyarrow.parquet.write_table(required(table), path, use_deprecated_int96_timestamps=True, **options)
    stored, dictionary = b"".join(struct.pack("<qi", rest, day) for day, rest in times), options["use_dictionary"]

    def change(column, header, body):
        return stored if column == "t" and (header[1][1] == 2 or not dictionary) else body

    with_pages(path, change)


def microseconds(day, rest):
    return ((day - DAY_OF_1970) * NANOSECONDS + rest) // 1000


@pytest.mark.parametrize("options", [
    {}, {"use_dictionary": True}, {"data_page_version": "2.0"}, {"data_page_version": "2.0", "use_dictionary": True},
], ids=str)  # fmt: skip
def test_times_of_96_bits_before_1970_as_arrow_wrote_them(tmp_path, options):
    """Arrow 10 and 20 had them as a day and negative nanoseconds."""
    path, rng = tmp_path / "t", random.Random(1)
    times = [(DAY_OF_1970, -1000), (DAY_OF_1970, -1001), (DAY_OF_1970, -NANOSECONDS + 1), (0, 0), (DAY_OF_1970 - 700_000, -1)]
    times += [(DAY_OF_1970 + 106751991, 14454775807999), (DAY_OF_1970 - 106751992, 71945224192000), (DAY_OF_1970, 0)]
    times += [(rng.randrange(2 * DAY_OF_1970), rng.randrange(-NANOSECONDS, NANOSECONDS)) for _ in range(5000)]
    write_times(path, times, **options)
    stored = np.array([microseconds(*one) for one in times])
    assert stored.min() == -(2**63) and stored.max() == 2**63 - 1
    asked = hl.query(path)
    found = asked.agg("min(t)", "max(t)").rows[0]
    assert [one.astype(np.int64) for one in found.values()] == [stored.min(), stored.max()]
    found = asked.filter("x < 100").group_by("t").agg("sum(x)").rows  # single values
    wanted = sorted((stored[row], row) for row in range(100))
    assert [(row["t"].astype(np.int64), row["sum(x)"]) for row in found] == wanted
    for row in (0, 1, 2, 7):
        where = np.datetime64(int(stored[row]), "us")
        assert counted(path, f"t = '{where}'") == 1
        assert counted(path, f"t < '{where}'") == (stored < stored[row]).sum()
    assert asked.filter("x = 0").agg("min(t)").rows == [{"min(t)": datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)}]


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize(("time", "year"), [
    ((DAY_OF_1970 + 106751992, 0), 294247), ((DAY_OF_1970 + 106751991, 14454775808000), 294247),
    ((DAY_OF_1970 - 106751992, 71945224191999), -290308), ((2**31 - 1, 0), 5874898), ((-(2**31), 0), -5884323),
])  # fmt: skip
def test_times_of_96_bits_that_64_do_not_hold(tmp_path, time, year, dictionary):
    path = tmp_path / "t"
    write_times(path, [(DAY_OF_1970, 1), time, (DAY_OF_1970, 2)], use_dictionary=dictionary)
    why = rf"'t' in row group 0 has a time of the Julian day {time[0]} \(about the year {year}\), which 64 bits of micro"
    for asks in (lambda: hl.query(path).agg("max(t)"), lambda: counted(path, "t > '2000-01-01'")):
        with pytest.raises(ConfigError, match=why):
            asks()
    assert counted(path, asked="sum(x)") == 3


@pytest.mark.parametrize("codec", ["snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_times_of_96_bits_of_all_codecs(tmp_path, codec, dictionary):
    """Also the one of LZ4 that says less of itself."""
    path = tmp_path / "t"
    table = pa.table({"t": pa.array(MOMENTS * 3, pa.timestamp("us")), "x": range(3 * len(MOMENTS))})
    options = {"use_deprecated_int96_timestamps": True, "use_dictionary": dictionary, "compression": codec}
    pyarrow.parquet.write_table(table, path, **options)
    wanted = [{"min(t)": MOMENTS[0], "max(t)": MOMENTS[-1]}]
    assert hl.query(path).agg("min(t)", "max(t)").rows == wanted

    def change(footer):
        for chunk in chunks(footer):
            chunk[3][1][4] = I32, 5

    if codec == "lz4":
        with_footer(path, change)
        assert hl.query(path).agg("min(t)", "max(t)").rows == wanted


def test_bounds_of_times_of_96_bits(tmp_path):
    """Are not believed: no order of them is told."""
    write_times(tmp_path / "t", [(DAY_OF_1970 + day, 0) for day in range(10)])

    def change(footer):
        for bounds in (b"\0", b"\0" * 12):
            chunks(footer)[0][3][1][12] = STRUCT, {3: (I64, 0), 5: (BINARY, bounds), 6: (BINARY, bounds)}

    with_footer(tmp_path / "t", change)
    assert counted(tmp_path / "t", "t > '1970-01-05'") == 5


# Pages of several members of gzip


def in_members(body, cuts):
    cuts = [0, *cuts, len(body)]
    return b"".join(gzip.compress(body[first:last]) for first, last in pairwise(cuts))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("form", [
    lambda body: in_members(body, [len(body) // 2]),
    lambda body: in_members(body, [0, 1, len(body) // 3, len(body)]),  # the first one and the last are empty
    zlib.compress,  # no member at all, as some writers have it
], ids=["two", "four", "zlib"])  # fmt: skip
def test_pages_of_several_members_of_gzip(tmp_path, form, dictionary, version):
    path = tmp_path / "t"
    values = [None if row % 7 == 0 else row % 100 for row in range(2000)]
    table = pa.table({"x": pa.array(values, pa.int64()), "t": [None if one is None else f"{one}" for one in values]})
    options = {"use_dictionary": dictionary, "compression": "gzip", "data_page_version": version}
    pyarrow.parquet.write_table(table, path, max_rows_per_page=500, write_batch_size=500, **options)

    def change(column, header, body):
        levels, is_compressed = (header[8][1][5][1], header[8][1][7][1]) if header[1][1] == 3 else (0, True)
        return body[:levels] + form(gzip.decompress(body[levels:])) if is_compressed else body

    with_pages(path, change)
    there = [one for one in values if one is not None]
    found = hl.query(path).agg("sum(x)", "count(x)", "count(t)").rows
    assert found == [{"sum(x)": sum(there), "count(x)": len(there), "count(t)": len(there)}]
    assert [counted(path, "t = '5'"), counted(path, "x = 5")] == [there.count(5)] * 2


@pytest.mark.parametrize("form", [
    lambda body: in_members(body, [len(body) // 2])[:-20],
    lambda body: in_members(body, [len(body) // 2, len(body) - 8])[:-28],
    lambda body: in_members(body + b"more", [len(body)]),
    lambda body: in_members(body[:-8], [len(body) // 2]),
    lambda body: zlib.compress(body)[:-9],
    lambda body: gzip.compress(body)[:-1],
])  # fmt: skip
def test_damaged_pages_of_several_members_of_gzip(tmp_path, form):
    pyarrow.parquet.write_table(pa.table({"x": range(2000)}), tmp_path / "t", use_dictionary=False, compression="gzip")
    with_pages(tmp_path / "t", lambda column, header, body: form(gzip.decompress(body)))
    with pytest.raises(FormatError, match="damaged"):
        hl.query(tmp_path / "t").agg("sum(x)")
