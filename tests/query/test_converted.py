"""CSV and ORC files: converted part by part, types as pyarrow finds them in the file as a whole, and one copy for each file."""

from __future__ import annotations

import os
import random

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.csv  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.query.files import open_table  # noqa: E402
from hinterland.runtime.errors import FormatError  # noqa: E402


@pytest.fixture(autouse=True)
def copies(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))
    return lambda: sorted((tmp_path / "cache").rglob("*.arrow"))


COLUMNS = {
    "whole": lambda row, late: row,
    "later 1.5": lambda row, late: 1.5 if late else row,
    "later text": lambda row, late: "soon" if late else row,
    "later anything": lambda row, late: row if late else "",
    "later true": lambda row, late: "true" if late else row % 2,
    "later a time": lambda row, late: "2019-01-02 03:04:05" if late else "2019-01-02",
    "few": lambda row, late: ["a", "b", "", '"c, d"'][row % 4] if not late else "e",
    "many": lambda row, late: f"text {row}",
}


def test_types_are_those_of_the_whole_file(tmp_path):
    """Parts are of a megabyte: what comes late comes in the last of several."""
    rows = 75_000
    lines = [",".join(COLUMNS)] + [",".join(str(make(row, row > rows - 9)) for make in COLUMNS.values()) for row in range(rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    assert (tmp_path / "t.csv").stat().st_size > 3 << 20
    options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    expected = pyarrow.csv.read_csv(tmp_path / "t.csv", convert_options=options)
    table = open_table(str(tmp_path / "t.csv"))
    assert len(table._batches) > 2
    found = table._reader().read_all()
    for name in COLUMNS:
        column = found[name]
        if pa.types.is_dictionary(column.type):
            assert name != "many"  # which are more than a dictionary takes
            column = column.cast(pa.string())
        assert column.equals(expected[name]), name
    rows = hl.query(tmp_path / "t.csv").group_by("few").agg("count()").rows
    assert [row["few"] for row in rows] == ["a", "b", "c, d", "e", None]


def test_a_copy_gives_way_to_the_next(tmp_path, copies, capsys):
    path, other = tmp_path / "t.csv", tmp_path / "other.csv"
    other.write_text("x\n7\n")
    assert hl.query(other).agg("sum(x)").rows == [{"sum(x)": 7}]
    for number in range(3):
        path.write_text(f"x\n{number}\n")
        os.utime(path, ns=(number, number))
        for _ in range(2):
            assert hl.query(path).agg("sum(x)").rows == [{"sum(x)": number}]
        assert len(copies()) == 2
    assert capsys.readouterr().err.count("converted once") == 4
    assert hl.query(other).agg("sum(x)").rows == [{"sum(x)": 7}]


def test_stripes_one_by_one(tmp_path):
    orc = pytest.importorskip("pyarrow.orc")
    rng = random.Random(1)
    table = pa.table({"x": [rng.random() for _ in range(50_000)], "t": [rng.choice(["a", "b", None]) for _ in range(50_000)]})
    orc.write_table(table, tmp_path / "t", stripe_size=1 << 16, batch_size=1024)
    found = open_table(str(tmp_path / "t"))._reader()
    assert found.num_record_batches == orc.ORCFile(tmp_path / "t").nstripes > 1
    assert found.read_all().cast(table.schema).equals(table)


def test_a_csv_file_that_is_none(tmp_path, copies):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(FormatError, match="damaged"):
        hl.query(tmp_path / "t.csv").agg("count()")
    assert not copies()


def test_lines_that_end_within_quotes(tmp_path):
    """More of them than a block of pyarrow's holds."""
    lines = "".join(f'{i % 7},"\n{i},x\n"\n' for i in range(100_000))
    (tmp_path / "a.csv").write_text("v,txt\n" + lines)
    found = hl.query(tmp_path / "a.csv").agg("count()", "sum(v)").rows
    assert found == [{"count()": 100_000, "sum(v)": sum(i % 7 for i in range(100_000))}]


def test_columns_without_values(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n,1\n,2\n")
    (tmp_path / "b.csv").write_text("a,b\n")
    for name, nulls, rows in [("a", 2, 2), ("b", 0, 0)]:
        asked = hl.query(tmp_path / f"{name}.csv")
        assert asked.filter("a is null").agg("count()", "sum(a)").rows == [{"count()": nulls, "sum(a)": pytest.approx(0)}]
        assert asked.filter("a > 1").agg("count()").rows == [{"count()": 0}]
        assert asked.agg("count(b)").rows == [{"count(b)": rows}]


@pytest.mark.parametrize("codec", ["gz", "bz2", "zst", "lz4"])
def test_csv_files_are_decompressed(tmp_path, copies, codec):
    """By their names; one that ends too soon is a damaged file."""
    path = tmp_path / f"t.csv.{codec}"
    with pa.output_stream(path) as file:
        file.write(b"x,t\n" + b"".join(b"%d,text %d\n" % (row, row % 7) for row in range(20_000)))
    found = hl.query(path).filter("t == 'text 3'").agg("count()", "sum(x)").rows
    assert found == [{"count()": len(range(3, 20_000, 7)), "sum(x)": sum(range(3, 20_000, 7))}]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(FormatError, match="damaged"):
        hl.query(path).agg("count()")


def test_lines_longer_than_a_block(tmp_path):
    lines = "".join(f"{'y' * 3_000_000},{row}\n" for row in range(3))
    (tmp_path / "a.csv").write_text("s,n\n" + "short,7\n" * 200_000 + lines)
    rows = hl.query(tmp_path / "a.csv").filter("s >= 'y'").group_by("s").agg("sum(n)").rows
    assert rows == [{"s": "y" * 3_000_000, "sum(n)": 3}]
    (tmp_path / "b.csv").write_text("s,n\n" + lines)
    assert hl.query(tmp_path / "b.csv").agg("count()").rows == [{"count()": 3}]
