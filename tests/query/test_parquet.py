"""Pages of Parquet files that are decoded here, beside pyarrow's; what statistics rule out; damaged metadata."""

from __future__ import annotations

import datetime
import itertools
import math
import random
import resource
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland import _core  # noqa: E402
from hinterland.query.files import open_table  # noqa: E402
from hinterland.query.pages import Column  # noqa: E402
from hinterland.query.rows import Matching, between  # noqa: E402
from hinterland.query.segments import Kept  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError  # noqa: E402
from hinterland.runtime.params import struct  # noqa: E402

from .tables import made  # noqa: E402

TABLE = made(5000)
NO_NULLS = pa.table({name: TABLE[name].drop_null()[:3900] for name in TABLE.column_names})
WAYS = {
    "pyarrow's own": {},
    "plain": {"use_dictionary": False},
    "plain, not compressed": {"use_dictionary": False, "compression": "none"},
    "version 2": {"data_page_version": "2.0"},
    "version 2, plain": {"data_page_version": "2.0", "use_dictionary": False, "compression": "zstd"},
    "version 2, not compressed": {"data_page_version": "2.0", "compression": "none"},
    "gzip": {"compression": "gzip", "use_dictionary": ["text", "plain", "int8", "money"]},
    "lz4": {"compression": "lz4", "write_page_index": True},
    "an index": {"write_page_index": True, "compression": "zstd"},
    "an index of version 2": {"write_page_index": True, "data_page_version": "2.0", "use_dictionary": ["text"]},
    "whole decimals": {"store_decimal_as_integer": True},
    "dictionaries that end early": {"dictionary_pagesize_limit": 64},
}


def written(table, path, rows=1100, **options):
    pyarrow.parquet.write_table(table, path, row_group_size=rows, max_rows_per_page=170, write_batch_size=17, **options)
    return open_table(str(path))


def rows_of(table, part, name, wanted):
    """Row numbers and values as they were read."""
    found = []
    for column, begin, array in table.read(part, {name: None}, wanted):
        assert column == name
        array.validate(full=True)
        found += list(enumerate(array.to_pylist(), begin))
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("nulls", [True, False], ids=["nulls", "no nulls"])
def test_pages_hold_what_pyarrow_reads(tmp_path, way, nulls, together):
    given = TABLE if nulls else NO_NULLS
    if not nulls:
        given = given.cast(pa.schema([field.with_nullable(False) for field in given.schema]))
    table = written(given, tmp_path / "t", **WAYS[way])
    rng = random.Random(way)
    assert table.rows == len(given)
    for part in table.parts_left():
        for name in given.column_names:
            expected = given.column(name).slice(part.begin, part.end - part.begin).to_pylist()
            ends = sorted(rng.sample(range(part.begin, part.end + 1), 4))
            for ranges in ([[part.begin, part.end]], [ends[:2], ends[2:]], [[part.begin + 7, part.begin + 8]]):
                found = rows_of(table, part, name, between(np.array(ranges)))
                wanted = {row for first, last in ranges for row in range(first, last)}
                assert wanted <= {row for row, _ in found}
                assert str(found) == str([(row, expected[row - part.begin]) for row, _ in found])  # NaN is not itself
                if not left_to_pyarrow(name, way):
                    assert table._of(part, [name])[name].decoded_here
                    assert len(found) <= len(wanted) + 2 * 2 * 170
                    read, least = table.spent(name)
                    assert least <= read


def left_to_pyarrow(name, way):
    """Whether texts have pages that are not in a dictionary."""
    given = WAYS[way].get("use_dictionary", True)
    in_dictionary = name in given if isinstance(given, list) else given
    return name in ("text", "plain") and (not in_dictionary or "dictionary_pagesize_limit" in WAYS[way])


def test_bytes_of_a_query_that_is_asked_again(tmp_path, together):
    written(TABLE, tmp_path / "t", rows=5000, write_page_index=True)
    asked = hl.query(tmp_path / "t").filter("float64 > 0.5")
    assert asked.agg("sum(int64)").bytes == asked.agg("sum(int64)").bytes


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"])
def test_other_encodings_are_left_to_pyarrow(tmp_path, encoding, together):
    given = pa.table({"x": [None, *range(4999)]})
    table = written(given, tmp_path / "t", use_dictionary=False, column_encoding={"x": encoding})
    for part in table.parts_left():
        found = rows_of(table, part, "x", between(np.array([[part.begin, part.begin + 1]])))
        assert found == list(enumerate(given.column("x").to_pylist()))[part.begin : part.end]
        assert table.spent("x")[0] == table._of(part, ["x"])["x"].bytes


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_that_pyarrow_reads_into_no_dictionary(tmp_path, encoding):
    given = pa.table({"x": ["cash", "card", None] * 1000, "y": range(3000)})
    written(given, tmp_path / "t", use_dictionary=False, column_encoding={"x": encoding})
    found = hl.query(tmp_path / "t").filter("x == 'cash'").group_by("x").agg("count()", "sum(y)")
    assert found.rows == [{"x": "cash", "count()": 1000, "sum(y)": sum(range(0, 3000, 3))}]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_snappy_repeats_what_was_written_before(tmp_path, version):
    """Copies of all lengths from all distances, beside literals of all lengths."""
    rng = random.Random(1)
    found = bytearray()
    for period in range(1, 200):
        found += rng.randbytes(period) * rng.randrange(1, 9) + rng.randbytes(rng.randrange(70))
    found += rng.randbytes(70_000) + found  # beyond 64 KiB
    values = np.frombuffer(bytes(found[: len(found) // 8 * 8]), np.int64)
    given = pa.table({"x": pa.array(values, mask=values % 50 == 0), "y": values})
    pyarrow.parquet.write_table(given, tmp_path / "t", use_dictionary=False, data_page_version=version)
    table = open_table(str(tmp_path / "t"))
    for name in given.column_names:
        chunk = table._of(table.parts_left()[0], [name])[name].opened()
        assert chunk.decoded_here
        assert chunk.bytes < 0.9 * table.rows * 8
        found = rows_of(table, table.parts_left()[0], name, None)
        assert [value for _, value in found] == given.column(name).to_pylist()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", [TABLE, NO_NULLS], ids=["nulls", "no nulls"])
def test_of_pages_with_few_wanted_rows_these_are_decoded(tmp_path, way, given, together):
    table = written(given, tmp_path / "t", **WAYS[way])
    rng = np.random.default_rng(1)
    for part in table.parts_left():
        rows = rng.random(part.end - part.begin) < 0.02
        first = part.begin // 64 * 64  # of the first word
        padded = np.zeros(-(-(part.end - first) // 64) * 64, bool)
        padded[part.begin - first : part.end - first] = rows
        wanted = Matching(np.packbits(padded, bitorder="little").view(np.uint64), first, few=True)
        for name in given.column_names:
            column = given.column(name)
            expected = {row: column[row].as_py() for row in (part.begin + np.flatnonzero(rows)).tolist()}
            found = {}
            for _, begin, array in table.read(part, {name: None}, wanted):
                if isinstance(array, Kept):
                    found.update(of_kept(begin, array, [row for row in expected if begin <= row < array.end]))
                else:
                    found.update((row, value) for row, value in enumerate(array.to_pylist(), begin) if row in expected)
            assert str(found) == str(expected)


def of_kept(begin, kept, rows):
    """Rows and values, once what is said of the blocks is checked."""
    values = kept.values.to_pylist()
    assert len(values) == len(rows)
    if kept.valid is not None:
        bits = np.unpackbits(np.frombuffer(kept.valid, np.uint8), bitorder="little")[kept.valid_at :]
        values = [value if bits[row - begin] else None for row, value in zip(rows, values, strict=True)]
    for number, before in enumerate(kept.before.tolist(), begin // 4096):
        assert before == sum(row < 4096 * number for row in rows)
    return zip(rows, values, strict=True)


@pytest.mark.parametrize("way", ["pyarrow's own", "version 2, plain", "an index of version 2", "dictionaries that end early"])
@pytest.mark.parametrize("share", [0.001, 0.02])
def test_few_rows_of_all_types_are_those_of_an_arrow_file(tmp_path, way, share, together):
    """Where few rows match, only their values are kept, which Arrow's files need not do."""
    few = pa.array(np.random.default_rng(2).random(20_000) < share)
    given = pa.concat_tables([TABLE, TABLE, TABLE, TABLE]).append_column("few", few)
    written(given, tmp_path / "t", rows=3000, **WAYS[way])
    pyarrow.feather.write_feather(given, tmp_path / "arrow", compression="uncompressed")
    numbers = [name for name in given.column_names if name not in ("text", "plain", "flag", "day", "moment", "few")]
    asked = [*(f"sum({name})" for name in numbers), "min(day)", "max(moment)", "min(money)", "mean_ratio(int8, int16)"]
    for keys in ((), ("text",), ("plain", "flag")):
        answers = [
            hl.query(tmp_path / name).filter("few").group_by(*keys).agg(*asked, "count(text)", "count(plain)").rows
            for name in ("t", "arrow")
        ]
        assert len(answers[0]) > 0 and str(answers[0]) == str(answers[1])


def test_parts_of_a_block_of_which_one_has_few_matches(tmp_path, together):
    """Blocks of rows lie in several row groups, of which some are decoded in whole and others where rows match."""
    rng = np.random.default_rng(1)
    rows = np.arange(30_000)
    match = np.where(rows // 3000 % 2 == 0, rng.random(len(rows)) < 0.5, rng.random(len(rows)) < 0.01)
    text = np.array(["a", "b", "c"])[rng.integers(0, 3, len(rows))]
    given = pa.table({
        "match": match, "x": rng.random(len(rows)), "n": rng.integers(0, 99, len(rows)), "text": text,
        "money": pa.array((rows % 71).astype(np.int32)).cast(pa.decimal128(12, 2)),
    })  # fmt: skip
    pyarrow.parquet.write_table(given, tmp_path / "t", row_group_size=3000)
    kept = given.filter(given["match"])
    query = hl.query(tmp_path / "t").filter("match")
    found = query.agg("sum(x), sum(n), sum(money), min(money), count()").rows[0]
    assert found["sum(x)"] == pytest.approx(math.fsum(kept["x"].to_pylist()))
    assert [found["sum(n)"], found["sum(money)"], found["min(money)"], found["count()"]] == [
        sum(kept["n"].to_pylist()), sum(kept["money"].to_pylist()), min(kept["money"].to_pylist()), len(kept),
    ]  # fmt: skip
    grouped = query.group_by("text").agg("sum(n)", "count()").rows
    expected = kept.group_by("text").aggregate([("n", "sum"), ("n", "count")]).sort_by("text").to_pylist()
    assert grouped == [{"text": a["text"], "sum(n)": a["n_sum"], "count()": a["n_count"]} for a in expected]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.integers(0, 999), max_size=30),
    cuts=st.lists(st.integers(0, 1000), max_size=20),
    first=st.sampled_from([0, 4096]),
)
def test_which_pages_hold_rows(rows, cuts, first):
    words = np.zeros(16, np.uint64)
    for row in rows:
        words[row // 64] |= np.uint64(1 << row % 64)
    starts = np.array([0, *sorted(cuts), 1000]) + first
    expected = [any(a <= row + first < b for row in rows) for a, b in pairwise(starts)]
    assert Matching(words, first)(starts[:-1], starts[1:]).tolist() == expected
    ranges = [[row + first, row + first + 1] for row in sorted(set(rows)) if row % 2]
    expected = [any(a < d and c < b for c, d in ranges) for a, b in pairwise(starts) if a < b]
    found = between(np.array(ranges, np.int64).reshape(-1, 2))(starts[:-1], starts[1:])
    assert found[starts[:-1] < starts[1:]].tolist() == expected


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("share", [0.0003, 0.0047])
def test_bytes_are_near_the_least(tmp_path, share, index):
    rng = np.random.default_rng(1)
    given = pa.table({"x": rng.random(200_000), "y": rng.random(200_000), "z": np.arange(200_000) // 9})
    pyarrow.parquet.write_table(
        given, tmp_path / "t", row_group_size=70_000, max_rows_per_page=500, write_page_index=index, use_dictionary=["z"]
    )
    found = hl.query(tmp_path / "t").filter(f"x < {share}").agg("sum(y), sum(z)")
    kept = given.filter(pa.compute.less(given["x"], share))
    assert found.rows == [{"sum(y)": pytest.approx(sum(kept["y"].to_pylist())), "sum(z)": sum(kept["z"].to_pylist())}]
    assert found.bytes <= 1.2 * found.least_bytes
    if share == 0.0003:
        groups = [pyarrow.parquet.read_metadata(tmp_path / "t").row_group(number) for number in range(3)]
        (of_y,) = (plan.bytes for plan in found.plans if plan.name == "y")
        assert of_y < 0.25 * sum(group.column(1).total_compressed_size for group in groups)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("name", ["int32", "uint32", "float64", "day", "moment", "money", "text"])
def test_pages_are_ruled_out_by_what_is_known_of_them(tmp_path, name, index):
    number = range(10_000)
    given = pa.table({
        "int32": pa.array(number, pa.int32()), "uint32": pa.array((2**31 + i for i in number), pa.uint32()),
        "float64": [i / 7 for i in number], "day": pa.array(number, pa.int32()).cast(pa.date32()),
        "moment": pa.array(number, pa.int64()).cast(pa.timestamp("us", "Europe/Berlin")),
        "money": pa.array(map(Decimal, number), pa.decimal128(12, 0)), "text": [f"{i:05}" for i in number],
        "y": number,
    })  # fmt: skip
    table = written(given, tmp_path / "t", rows=10_000, write_page_index=index, use_dictionary=["text"])
    value = given[name][5000].as_py()
    shown = f"'{value}'" if name in ("day", "moment", "text") else str(value)
    for order, rows in (("==", 1), (">=", 5000), ("<", 5000)):
        found = hl.query(tmp_path / "t").filter(f"{name} {order} {shown}").agg("count(), min(y)")
        assert found.rows == [{"count()": rows, "min(y)": 0 if order == "<" else 5000}]
        chunk = table._of(table.parts_left()[0], [name])[name].opened()
        dictionary = int(chunk._dictionary_sizes.sum())
        assert found.plans[0].least_bytes - dictionary < (0.1 if order == "==" else 0.6) * (chunk.bytes - dictionary)
    assert hl.query(tmp_path / "t").filter(f"{name} != {shown}").agg("count()").rows == [{"count()": 9999}]


MONTHS = [datetime.datetime(2019, month, 1) for month in (1, 2, 3, 4)]


def groups_left(path, predicate):
    """Row groups that statistics leave, and rows that match."""
    found = hl.query(path).filter(predicate).agg("count()")
    table = open_table(str(path))
    why = found.explain()
    left_out = int(why.split("but for ")[1].split(" of ")[0]) if "but for" in why else 0
    return (table.groups if found.bytes else 0) - (left_out if found.bytes else 0), found.rows[0]["count()"]


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
def test_row_groups_are_ruled_out(tmp_path, column, predicate, left, rows, together):
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


@pytest.mark.parametrize("compression", ["none", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
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
            except FormatError as error:
                answers.add(str(error).split(" has ")[-1])
    assert len(answers) > 2


def test_what_is_known_of_pages_is_kept_for_the_next_query(tmp_path, monkeypatch, together):
    table = written(TABLE, tmp_path / "t")
    asked = hl.query(tmp_path / "t").filter("int16 >= 5 and text == 'cash'").group_by("text")
    first = asked.agg("sum(float64)", "min(int32)", "count(plain)")
    walked = []
    monkeypatch.setattr(Column, "_find_pages", lambda column: walked.append(column))
    again = asked.agg("sum(float64)", "min(int32)", "count(plain)")
    assert str(again.rows) == str(first.rows) and again.bytes == first.bytes and not walked
    kept = [column for columns in asked.held.table()._columns.values() for column in columns.values()]
    assert table.groups == 5 and len(kept) == 5 * (1 if together else 5)


def test_few_rows_of_texts_in_a_row_group_without_any(tmp_path, together):
    """Its dictionary is empty."""
    given = pa.table({"x": range(4000), "text": [*[None] * 2000, *["a", "b"] * 1000]})
    pyarrow.parquet.write_table(given, tmp_path / "t", row_group_size=1000)
    asked = hl.query(tmp_path / "t").filter("x in (5, 1500, 3001)")
    assert asked.agg("count(text), count()").rows == [{"count(text)": 1, "count()": 3}]
    assert asked.group_by("text").agg("count()").rows == [{"text": "b", "count()": 1}, {"text": None, "count()": 2}]


def test_row_groups_of_more_rows_than_can_be_counted(tmp_path):
    pyarrow.parquet.write_table(pa.table({"x": range(2 * 1117)}), tmp_path / "t", row_group_size=1117)
    data = (tmp_path / "t").read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(b"\xba\x11", b"\x80" * 9 + b"\x01")  # 1117, and 2**62, as zigzag numbers
    (tmp_path / "t").write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(FormatError, match="more rows than can be counted"):
        hl.query(tmp_path / "t").agg("count()")


def altered(monkeypatch, name, change):
    """Has a native function that reads metadata find others."""
    read, dtype = getattr(_core, name), np.dtype(struct("ParquetPage"))

    def other(*where):
        pages = np.frombuffer(bytearray(read(*where)), dtype)
        change(pages)
        return pages.tobytes()

    monkeypatch.setattr(_core, name, other)


def test_pages_whose_first_rows_go_around_all_numbers(tmp_path, monkeypatch):
    """Each seems to have some rows, modulo 2**64, and all of them together as many as there are."""

    def change(pages):
        pages["row"] = [0, 2**62, -(2**62) - 1]

    pyarrow.parquet.write_table(
        pa.table({"x": range(300)}), tmp_path / "t", max_rows_per_page=100, write_batch_size=100, write_page_index=True
    )
    assert hl.query(tmp_path / "t").agg("sum(x)").rows == [{"sum(x)": 44850}]
    altered(monkeypatch, "parquet_offsets", change)
    with pytest.raises(FormatError, match="pages that lie outside"):
        hl.query(tmp_path / "t").agg("sum(x)")


def test_chunks_that_lie_over_each_other(tmp_path):
    """Of a large one a small file could have thousands, which are read together."""
    x = np.append(np.random.default_rng(1).random(5000), np.zeros(10_000))
    pyarrow.parquet.write_table(pa.table({"x": x}), tmp_path / "t", row_group_size=5000)
    query = hl.query(tmp_path / "t")
    assert query.agg("max(x)").rows == [{"max(x)": x.max()}]
    table = query.held.table()
    chunks = np.repeat(table._footer.chunks[:1], 3, axis=0)
    table._footer = table._footer._replace(chunks=chunks)
    table._columns.clear()
    with pytest.raises(FormatError, match="lie over each other"):
        query.agg("max(x)")


def test_a_dictionary_that_says_it_holds_far_more_than_it_can(tmp_path, monkeypatch):
    """Room for it is not made."""
    room = []

    def change(pages):
        dictionaries = pages["kind"] == _core.PARQUET_PAGES["dictionary"]
        pages["full"][dictionaries] = (1 << 31) - 1
        room.append(dictionaries.sum())

    pyarrow.parquet.write_table(pa.table({"x": [1.5, 2.5] * 99}), tmp_path / "t", compression="snappy")
    altered(monkeypatch, "parquet_page", change)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FormatError, match="holds more or less than its header says"):
        hl.query(tmp_path / "t").agg("sum(x)")
    assert sum(room) == 1 and resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # kilobytes


def test_of_several_row_groups_the_one_with_a_damaged_page_is_named(tmp_path):
    given = pa.table({"x": [0, 2] * 100 + [1, 3] * 100, "y": range(400)})
    options = {"max_rows_per_page": 100, "write_batch_size": 100, "write_page_index": True, "use_dictionary": False}
    pyarrow.parquet.write_table(given, tmp_path / "t", row_group_size=200, **options)
    at = pyarrow.parquet.read_metadata(tmp_path / "t").row_group(1).column(1).data_page_offset
    data = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(data[:at] + b"\xff" * 8 + data[at + 8 :])
    with pytest.raises(FormatError, match="'y' in row group 1 has a header of a page that ends nowhere"):
        hl.query(tmp_path / "t").filter("x == 1").agg("sum(y)")


@pytest.mark.parametrize("codec", ("snappy", "gzip", "lz4", "zstd"))
def test_pages_that_hold_less_than_they_say(tmp_path, codec):
    """Of 20 numbers in a page of 40, by its header and the footer; pyarrow's codecs fill the rest with whatever is there."""
    schema = pa.schema([pa.field("x", pa.float64(), nullable=False)])
    options = {"use_dictionary": False, "write_statistics": False, "store_schema": False, "compression": codec}
    pyarrow.parquet.write_table(pa.table({"x": np.arange(20) * 1.5}, schema=schema), tmp_path / "t", **options)
    assert hl.query(tmp_path / "t").agg("sum(x)").rows == [{"sum(x)": 285.0}]
    data = bytearray((tmp_path / "t").read_bytes())
    of_page = data.find(b"\xc0\x02", 4, 40)  # 160 bytes, as a zigzag number
    data[of_page : of_page + 2] = b"\x80\x05"
    rows = [
        at for at in range(4, len(data) - 8) if data[at] == 40 and (at < 40 or at >= len(data) - 8 - data[-8] - 256 * data[-7])
    ]
    refused = 0
    for changed in itertools.product((False, True), repeat=len(rows)):
        made = bytearray(data)
        for at, changes in zip(rows, changed, strict=True):
            made[at] = 80 if changes else 40
        (tmp_path / "t").write_bytes(made)
        with suppress(FormatError):
            found = hl.query(tmp_path / "t").agg("sum(x)", "count()")
            assert found.rows == [{"sum(x)": 285.0, "count()": 20}]
            continue
        refused += 1
    assert refused


@given(data=st.binary(max_size=3000), repeats=st.integers(1, 40))
def test_codecs_say_how_much_they_hold(data, repeats):
    data = data * repeats
    for codec, number in (("snappy", 1), ("gzip", 2), ("lz4_raw", 7)):
        stored = pa.py_buffer(pa.Codec(codec).compress(data))
        assert _core.decompressed_bytes(number, stored.address, stored.size) == len(data)
    assert _core.decompressed_bytes(6, stored.address, stored.size) == -1


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
    assert (found.bytes == 0) == said
    assert {plan.name for plan in found.plans if plan.how == "not read"} == ({"x", "t", "y"} if said else {"y"})
    assert query.filter("y >= 0").agg("count(x)").rows == [{"count(x)": there}]
    found = query.filter("x > 2499").agg("count(y)", "count(t)")
    assert found.rows == [dict.fromkeys(["count(y)", "count(t)"], sum(one is not None for one in values[2500:]))]
    assert [plan.name for plan in found.plans if plan.how == "not read"] == ["y"]
    assert "y: not read, 0 B read of at least 0 B: the file says how many values it has" in found.explain()
    assert query.agg("count(x)", "sum(y)").rows == [{"count(x)": there, "sum(y)": sum(range(5000))}]


def test_a_page_of_version_2_that_claims_other_rows_than_values(tmp_path):
    """It is left to pyarrow, and where its rows lie is not asked."""
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
