"""Parquet files as pyarrow reads them: encodings, what statistics rule out, counts that the footer says, damaged metadata."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.query.parquet import ParquetFile  # noqa: E402
from hinterland.query.parquet_pages import page_index  # noqa: E402
from hinterland.query.thrift import INT64, LIST, STRUCT, list_of, number_at, number_of, struct_of  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError, HinterlandError  # noqa: E402


def written(table, path, rows=1100, **options):
    pyarrow.parquet.write_table(table, path, row_group_size=rows, max_rows_per_page=170, write_batch_size=17, **options)


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
def test_other_encodings(tmp_path, encoding):
    written(pa.table({"x": [None, *range(4999)]}), tmp_path / "t", use_dictionary=False, column_encoding={"x": encoding})
    found = hl.query(tmp_path / "t").filter("x > 4000 or x is null").agg("count()", "sum(x)").rows
    assert found == [{"count()": 999, "sum(x)": sum(range(4001, 4999))}]


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_that_pyarrow_reads_into_no_dictionary(tmp_path, encoding):
    given = pa.table({"x": ["cash", "card", None] * 1000, "y": range(3000)})
    written(given, tmp_path / "t", use_dictionary=False, column_encoding={"x": encoding})
    found = hl.query(tmp_path / "t").filter("x == 'cash'").group_by("x").agg("count()", "sum(y)")
    assert found.rows == [{"x": "cash", "count()": 1000, "sum(y)": sum(range(0, 3000, 3))}]


MONTHS = [datetime.datetime(2019, month, 1) for month in (1, 2, 3, 4)]


def groups_left(path, predicate):
    """How many row groups are read, and how many rows match."""
    found = hl.query(path).filter(predicate).agg("count()")
    why = found.explain()
    left_out = int(why.split("but for ")[1].split(" of ")[0]) if "but for" in why else 0
    return hl.query(path).held.table().groups - left_out, found.rows[0]["count()"]


@pytest.mark.parametrize(
    ("column", "predicate", "left", "rows"),
    [
        (pa.array(MONTHS).cast(pa.date32()), "x >= '2019-04-01'", 1, 1),
        (pa.array(MONTHS, pa.timestamp("ms")), "x < '2019-02-01 00:00:00'", 1, 1),
        (pa.array(MONTHS, pa.timestamp("ns", "Asia/Tokyo")), "x == '2019-02-01 09:00'", 1, 1),
        (pa.array([False, False, True, False]), "x", 1, 1),
        (pa.array([1.0, 2.0, 3.0, math.nan], pa.float64()).cast(pa.float16()), "x >= 2.5", 2, 1),  # of NaN nothing is known
        (pa.array([-0.0, 0.0, 1.0, 2.0]), "x == 0", 2, 2),
        (pa.array([0.0, -0.0, 1.0, 2.0]), "x < 0", 0, 0),
        (pa.array([1.0, math.nan, 3.0, 4.0]), "x != 1", 4, 3),  # NaN is not 1, and nothing says where it is
        (pa.array([1, None, 3, 4]), "x is null", 1, 1),
        (pa.array([1, None, 3, 4]), "x is not null", 3, 3),
        (pa.array([1, None, 3, 4]), "not (x < 3)", 2, 2),
        (pa.array([2**64 - 1, 2**63, 1, 2], pa.uint64()), "x > 9223372036854775807", 2, 2),
        (pa.array(["a", "b", "é", "z"]), "x > 'c'", 2, 2),
    ],
)  # fmt: skip
def test_row_groups_are_ruled_out(tmp_path, column, predicate, left, rows):
    pyarrow.parquet.write_table(pa.table({"x": column}), tmp_path / "t", row_group_size=1)
    assert groups_left(tmp_path / "t", predicate) == (left, rows)


def changed(path, old, new):
    """The file with other bytes where these are, which is in one place."""
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


ASKED = {
    "filtered": lambda query: query.filter("x is not null"),
    "grouped": lambda query: query.group_by("x"),
    "counted": lambda query: query,
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("texts", [False, True], ids=["decoded here", "left to pyarrow"])
def test_a_chunk_of_another_type_than_its_column(tmp_path, asked, texts):
    """pyarrow ends the process over it (statistics, and values that it decodes)."""
    table = pa.table({"x": ["a", "b"] if texts else pa.array([1, 2], pa.int32())})
    pyarrow.parquet.write_table(table, tmp_path / "t", use_dictionary=False)
    changed(tmp_path / "t", b"\x15\x0c\x19" if texts else b"\x15\x02\x19", b"\x15\x0a\x19")  # the chunk's type: double
    with pytest.raises(FormatError, match="values that are no (INT32|BYTE_ARRAY); the file is damaged"):
        ASKED[asked](hl.query(tmp_path / "t")).agg("count(x)")


def test_bounds_that_contradict_themselves_rule_nothing_out(tmp_path):
    table = pa.table({"x": pa.array([5, 5, 5], pa.int64())})
    pyarrow.parquet.write_table(table, tmp_path / "t", use_dictionary=False, compression="none")
    data, five = (tmp_path / "t").read_bytes(), (5).to_bytes(8, "little")
    at = data.rindex(five)  # the row group's least value: the greatest comes before it
    (tmp_path / "t").write_bytes(data[:at] + (99).to_bytes(8, "little") + data[at + 8 :])
    assert hl.query(tmp_path / "t").filter("x == 5").agg("count()").rows == [{"count()": 3}]


@pytest.mark.parametrize(
    ("version", "compression"),
    [
        ("1.0", "none"),
        ("2.0", "snappy"),
        pytest.param("1.0", "snappy", marks=pytest.mark.nightly),
        pytest.param("2.0", "none", marks=pytest.mark.nightly),
    ],
)
def test_pages_whose_bytes_are_zeros_or_ones(tmp_path, version, compression):
    """Every byte of pages and their headers, one after another: an answer or a sentence."""
    path = tmp_path / "t"
    table = pa.table({"x": [None, *range(20), 7, 7], "t": ["a", "b", None] * 7 + ["c", "c"]})
    pyarrow.parquet.write_table(table, path, compression=compression, data_page_version=version, write_statistics=False)
    good = path.read_bytes()
    end = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    answers = set()
    for at in range(4, end):
        for byte in (0, 0xFF):
            path.write_bytes(good[:at] + bytes([byte]) + good[at + 1 :])
            try:
                answers.add(str(hl.query(path).group_by("t").agg("sum(x)", "count()").rows))
            except HinterlandError as error:
                answers.add(str(error).split("damaged:")[-1])
    assert len(answers) > 2


def test_row_groups_of_more_rows_than_can_be_counted(tmp_path):
    pyarrow.parquet.write_table(pa.table({"x": range(2 * 1117)}), tmp_path / "t", row_group_size=1117)
    data = (tmp_path / "t").read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(b"\xba\x11", b"\x80" * 9 + b"\x01")  # 1117, and 2**62, as zigzag numbers
    (tmp_path / "t").write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FormatError, match="more rows than can be counted"):
        hl.query(tmp_path / "t").agg("count()")


def test_chunks_that_lie_over_each_other(tmp_path):
    """Of a large one a small file could have thousands, which are read together."""
    x = np.append(np.random.default_rng(1).random(5000), np.zeros(10_000))
    pyarrow.parquet.write_table(pa.table({"x": x}), tmp_path / "t", row_group_size=5000)
    query = hl.query(tmp_path / "t")
    assert query.agg("max(x)").rows == [{"max(x)": x.max()}]
    table = query.held.table()
    chunks = np.repeat(table._footer.chunks[:1], 3, axis=0)
    table._footer = table._footer._replace(chunks=chunks)
    with pytest.raises(FormatError, match="lie over each other"):
        query.agg("max(x)")


def test_of_several_row_groups_one_has_a_damaged_page(tmp_path):
    given = pa.table({"x": [0, 2] * 100 + [1, 3] * 100, "y": range(400)})
    options = {"max_rows_per_page": 100, "write_batch_size": 100, "write_page_index": True, "use_dictionary": False}
    pyarrow.parquet.write_table(given, tmp_path / "t", row_group_size=200, **options)
    at = pyarrow.parquet.read_metadata(tmp_path / "t").row_group(1).column(1).data_page_offset
    data = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(data[:at] + b"\xff" * 8 + data[at + 8 :])
    with pytest.raises(FormatError, match="damaged"):
        hl.query(tmp_path / "t").filter("x == 1").agg("sum(y)")


def test_statistics_of_texts_that_end_in_zeros(tmp_path):
    pa.parquet.write_table(pa.table({"s": ["a\0"] * 3}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"s": ["", "b"]}), tmp_path / "b.parquet")
    for name, where, count in [("a", "s = 'a\0'", 3), ("a", "s = 'a'", 0), ("b", "s < '\0'", 1), ("b", "s in ('', 'c')", 1)]:
        assert hl.query(tmp_path / f"{name}.parquet").filter(where).agg("count()").rows == [{"count()": count}]


@pytest.mark.parametrize("said", [True, False], ids=["said", "not said"])
def test_counts_that_the_footer_says(tmp_path, said):
    """Nothing else is read for them."""
    values = [None if row % 7 == 0 else row for row in range(5000)]
    table = pa.table({"x": values, "t": [None if one is None else f"{one}" for one in values], "y": range(5000)})
    table = table.cast(table.schema.set(2, pa.field("y", pa.int64(), nullable=False)))
    pyarrow.parquet.write_table(table, tmp_path / "t", row_group_size=1500, write_statistics=said)
    query, there = hl.query(tmp_path / "t"), 5000 - values.count(None)
    found = query.agg("count(x)", "count(t)", "count(y)", "count()", "count(x) / count()")
    counts = {"count(x)": there, "count(t)": there, "count(y)": 5000, "count()": 5000, "count(x) / count()": there / 5000}
    assert found.rows == [counts]
    assert {plan.how for plan in found.plans} == {"not read" if said else "streamed"}
    assert query.filter("y >= 0").agg("count(x)").rows == [{"count(x)": there}]
    found = query.filter("x > 2499").agg("count(y)", "count(t)")
    assert found.rows == [dict.fromkeys(["count(y)", "count(t)"], sum(one is not None for one in values[2500:]))]
    assert query.agg("count(x)", "sum(y)").rows == [{"count(x)": there, "sum(y)": sum(range(5000))}]


def test_a_page_of_version_2_that_claims_other_rows_than_values(tmp_path):
    path, table = tmp_path / "t", pa.table({"n": range(200), "s": [f"t{row}" for row in range(200)]})
    way = {"compression": "none", "use_dictionary": False, "data_page_version": "2.0", "write_statistics": False}
    pyarrow.parquet.write_table(table, path, max_rows_per_page=50, write_batch_size=50, **way)
    data = bytearray(path.read_bytes())
    at = data.index(b"\x5c\x15\x64\x15", pyarrow.parquet.read_metadata(path).row_group(0).column(1).data_page_offset)
    data[at + 2 : at + 7] = b"\xfe\xff\xff\xff\x0f"  # 2^31 - 1 values
    path.write_bytes(data)
    with pytest.raises(FormatError) as refused:
        hl.query(path).filter("n == 7").agg("sum(n)", "count(s)")
    assert "IndexError" not in str(refused.value)


def test_a_file_without_columns(tmp_path):
    """As pyarrow writes it it has no rows either."""
    pyarrow.parquet.write_table(pa.table({"x": range(7)}).select([]), tmp_path / "t")
    assert hl.query(tmp_path / "t").agg("count()").rows == [{"count()": 0}]
    with pytest.raises(ConfigError, match="has no column 'x'"):
        hl.query(tmp_path / "t").agg("count(x)")


def test_what_pyarrow_does_not_read_is_not_called_damaged(tmp_path):
    """It writes it all the same: texts in dictionaries of Arrow's, which Parquet has in encodings of their differences."""
    texts = pa.array(["a", "b"] * 10).dictionary_encode()
    pyarrow.parquet.write_table(
        pa.table({"t": texts}), tmp_path / "t", use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY"
    )
    with pytest.raises(ConfigError, match="pyarrow does not read it: .*; write it with other encodings"):
        hl.query(tmp_path / "t").group_by("t").agg("count()")


def test_a_name_that_is_a_path_as_well(tmp_path):
    """Of a field of a struct, as parquet calls it."""
    table = pa.table({"a": [{"b": 1}, {"b": 2}], "a.b": [10, 20]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    assert hl.query(tmp_path / "t.parquet").agg('sum("a.b")').rows[0].popitem()[1] == 30


def test_small_row_groups_are_read_together(tmp_path, monkeypatch):
    """Each call of pyarrow's has its price: what statistics leave of 900 row groups comes in a few, and in its order."""
    calls = []
    read = ParquetFile._read
    monkeypatch.setattr(ParquetFile, "_read", lambda self, run, *rest: calls.append(len(run)) or read(self, run, *rest))
    text = pa.array([str(row % 7) for row in range(2700)])
    pa.parquet.write_table(pa.table({"x": range(2700), "t": text}), tmp_path / "t", row_group_size=3)
    query = hl.query(tmp_path / "t").filter("x >= 6 and x <= 1000 or x > 2000 and t != '3'")
    wanted = [row for row in range(2700) if 6 <= row <= 1000 or (row > 2000 and row % 7 != 3)]
    assert query.rows().tolist() == wanted
    assert len(calls) == 2 and sum(calls) == 332 + 233
    assert query.to_arrow("t")["t"].to_pylist() == [str(row % 7) for row in wanted]


def test_damage_among_small_row_groups(tmp_path):
    written(pa.table({"x": [row / 3 for row in range(300)]}), tmp_path / "t", rows=3, use_dictionary=False, compression="zstd")
    chunk = pyarrow.parquet.read_metadata(tmp_path / "t").row_group(60).column(0)
    damaged = bytearray((tmp_path / "t").read_bytes())
    damaged[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = (
        b"\xff" * chunk.total_compressed_size
    )
    (tmp_path / "t").write_bytes(damaged)
    with pytest.raises(FormatError):
        hl.query(tmp_path / "t").agg("sum(x)")


def index_of(*pages):
    """An offset index of (first byte, bytes, first row)."""
    fields = [struct_of([(i, INT64, number_of(value)) for i, value in enumerate(page, 1)]) for page in pages]
    return struct_of([(1, LIST, list_of(STRUCT, fields))])


@pytest.mark.parametrize(
    "data",
    [
        b"\x1c" * 5000,  # structs in structs
        b"\x19" * 5000,  # lists in lists
        index_of((4, 10, 0), (2**63 - 5, 100, 5)),
        index_of((4, 2**63 - 2, 0), (100, 100, 5)),
        index_of((4, 10, 0), (14, 10, 0)),
    ],
)
def test_an_index_that_cannot_be(data):
    chunk = {"dictionary_at": 0, "data_at": 4, "bytes": 1000}
    assert page_index(index_of((4, 10, 0), (14, 100, 5)), chunk, 10).rows.tolist() == [0, 5]
    with np.errstate(all="raise"):
        assert page_index(data, chunk, 10) is None


def test_a_number_of_too_many_bits():
    """Not gone through: that takes quadratic time."""
    with pytest.raises(ValueError, match="64 bits"):
        number_at(b"\xff" * 10 + b"\0", 0)
    assert number_at(b"\xff" * 9 + b"\1", 0) == (2**64 - 1, 10)
