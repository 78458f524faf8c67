"""Columns as files have them: dictionaries that grow, slices that are not aligned, texts as they are, ORC, time zones."""

from __future__ import annotations

import datetime
import random
from collections import Counter

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.ipc  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.query.arrow import ArrowFile  # noqa: E402

from .tables import made, write  # noqa: E402


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))


def test_dictionaries_that_grow_from_batch_to_batch(tmp_path):
    texts = [["a", "b"], ["b", "a", "c"], ["c"], ["d", "a", None, "b"]]
    growing, batches = [], []
    for part in texts:
        growing += [text for text in dict.fromkeys(part) if text is not None and text not in growing]
        codes = pa.array([None if text is None else growing.index(text) for text in part], pa.int8())
        batches.append(pa.record_batch({"t": pa.DictionaryArray.from_arrays(codes, pa.array(growing))}))
    options = pyarrow.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.OSFile(str(tmp_path / "t"), "w") as file, pyarrow.ipc.new_file(file, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    every = Counter(text for part in texts for text in part)
    rows = hl.query(tmp_path / "t").group_by("t").agg("count()").rows
    assert rows == [{"t": text, "count()": every[text]} for text in ["a", "b", "c", "d", None]]
    assert hl.query(tmp_path / "t").filter("t > 'a' and t != 'd'").agg("count()").rows == [{"count()": every["b"] + every["c"]}]


def test_dictionaries_that_differ_from_part_to_part(tmp_path):
    """Row groups have dictionaries of their own, whose codes mean other texts."""
    rng = random.Random(2)
    texts = [rng.choice("abcdefgh"[: 2 + row // 500]) if row % 7 else None for row in range(3000)]
    path = write(pa.table({"t": texts, "n": range(3000)}), tmp_path / "t", "parquet", 500)
    rows = hl.query(path).filter("t in ('c', 'a', 'g')").group_by("t").agg("count()", "max(n)").rows
    kept = {text: [row for row, one in enumerate(texts) if one == text] for text in "acg"}
    assert rows == [{"t": text, "count()": len(rows), "max(n)": max(rows)} for text, rows in kept.items()]


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize("type_", ["string", "large_string"])
def test_plain_texts_as_filter_and_key(tmp_path, kind, type_):
    texts = [None if row % 11 == 0 else f"text {row * row % 13}" for row in range(5000)]
    table = pa.table({"t": pa.array(texts, getattr(pa, type_)()), "n": range(5000)})
    path = tmp_path / "t"
    if kind == "parquet":
        pa.parquet.write_table(table, path, use_dictionary=False, row_group_size=1300)
    else:
        write(table, path, "arrow", 900)
    rows = hl.query(path).filter("t >= 'text 2' or t is null").group_by("t").agg("count()", "sum(n)").rows
    keys = [*sorted({text for text in texts if text is not None and text >= "text 2"}), None]
    assert rows == [
        {"t": key, "count()": texts.count(key), "sum(n)": sum(row for row, text in enumerate(texts) if text == key)}
        for key in keys
    ]


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "-03:30"])
def test_timestamps_with_a_time_zone(tmp_path, kind, zone):
    from zoneinfo import ZoneInfo

    sign = -1 if zone[0] == "-" else 1
    own = datetime.timezone(sign * datetime.timedelta(hours=3, minutes=30)) if zone[0] == "-" else ZoneInfo(zone)
    moments = [datetime.datetime(2019, 3, 30, tzinfo=datetime.UTC) + datetime.timedelta(hours=row) for row in range(72)]
    path = write(pa.table({"m": pa.array(moments, pa.timestamp("ms", zone)), "n": range(72)}), tmp_path / "t", kind, 20)
    noon = datetime.datetime(2019, 3, 31, 12, tzinfo=own)  # after the clocks of Berlin went forward
    count = sum(moment >= noon for moment in moments)
    for text in ("2019-03-31 12:00", noon.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%SZ")):
        row = hl.query(path).filter(f"m >= '{text}'").agg("count(), min(m), max(m)").rows[0]
        assert row["count()"] == count
        assert (row["min(m)"], row["max(m)"]) == (min(m for m in moments if m >= noon), max(moments))
    assert hl.query(path).filter("m < '2019-03-30 02:00Z'").group_by("m").agg("count()").rows == [
        {"m": moment, "count()": 1} for moment in moments[:2]
    ]


def test_orc(tmp_path, capsys):
    orc = pytest.importorskip("pyarrow.orc")
    table = made(4000)
    taken = table.select([name for name in table.column_names if "uint" not in name and name not in ("half", "text")])
    orc.write_table(taken, tmp_path / "t.orc", stripe_size=1 << 14, batch_size=512)
    write(taken, tmp_path / "t.arrow", "arrow", 1000)
    asked = "sum(float64), sum(money), count(), min(day)"
    for predicate in ("int64 >= 3 and money > 0.5", "plain == 'cash' or day < '2019-01-09'", "moment >= '2019-01-01 05:00'"):
        queries = [hl.query(tmp_path / name).filter(predicate).group_by("plain") for name in ("t.orc", "t.arrow")]
        found = [str(query.agg(asked).rows) for query in queries]
        assert found[0] == found[1]
    assert capsys.readouterr().err.count("converting it, once") == 1


def test_batches_of_an_arrow_file_are_read_where_they_lie(tmp_path):
    path = write(pa.table({"x": np.arange(1000)}), tmp_path / "t", "arrow", 300)
    file = ArrowFile(str(path))
    mapped = file._file.buffer
    for _, batch in file.batches(["x"], file.parts()):
        assert mapped.address <= batch.column(0).buffers()[1].address < mapped.address + mapped.size


def test_of_compressed_batches_the_columns_asked_for_are_decompressed(tmp_path):
    table = pa.table({"x": np.arange(1000), "text": ["a", "b"] * 500, "y": np.ones(1000)})
    file = ArrowFile(str(write(table, tmp_path / "t", "lz4", 300)))
    found = list(file.batches(["y", "text"], file.parts()))
    assert [(begin, batch.num_rows, batch.schema.names) for begin, batch in found] == [
        (0, 300, ["y", "text"]), (300, 300, ["y", "text"]), (600, 300, ["y", "text"]), (900, 100, ["y", "text"])
    ]  # fmt: skip
    assert found[3][1].column(1).to_pylist() == ["a", "b"] * 50
    assert file._reader(("y", "text")).get_batch(0).num_columns == 2


@pytest.mark.parametrize("legacy", (False, True))
@pytest.mark.parametrize("compression", (None, "zstd"))
def test_rows_of_batches_are_known_before_they_are_read(legacy, compression, tmp_path):
    table = pa.table({"x": pa.array([1, None, 3] * 100), "text": pa.array(["a", None, "b"] * 100).dictionary_encode()})
    options = pa.ipc.IpcWriteOptions(use_legacy_format=legacy, compression=compression)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema, options=options) as writer:
        for begin, rows in ((0, 7), (7, 0), (7, 250), (257, 43)):
            writer.write_batch(table.to_batches()[0].slice(begin, rows))
    assert ArrowFile(str(tmp_path / "t.arrow")).rows == 300
    assert hl.query(tmp_path / "t.arrow").group_by("text").agg("sum(x)").rows == [
        {"text": "a", "sum(x)": 100}, {"text": "b", "sum(x)": 300}, {"text": None, "sum(x)": 0}
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_a_column_without_any_value(tmp_path, kind):
    """As pandas writes one of nothing but None."""
    path = write(pa.table({"n": pa.nulls(5000), "x": range(5000)}), tmp_path / "t", kind, 900)
    query = hl.query(path)
    assert query.filter("n is null and x < 10").agg("count()", "count(n)", "sum(x)").rows == [
        {"count()": 10, "count(n)": 0, "sum(x)": 45}
    ]
    assert query.filter("n > 3 or n <= 3").agg("count()").rows == [{"count()": 0}]
    assert query.agg("count(n)", "min(n)", "mean(n)", "sum(n)").rows == [
        {"count(n)": 0, "min(n)": None, "mean(n)": None, "sum(n)": 0}
    ]
