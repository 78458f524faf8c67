"""CSV and ORC files: converted part by part, types as pyarrow finds them in the file as a whole, and one copy for each file."""

from __future__ import annotations

import datetime
import gzip
import os
import random

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.csv  # noqa: E402
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.query.files import open_table  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError, StorageError  # noqa: E402

from .. import forked  # noqa: E402
from ..covering import covering  # noqa: E402


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
    assert table._batches > 2
    found = table._reader(()).read_all()
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
    assert capsys.readouterr().err.count("converting it, once") == 4
    assert hl.query(other).agg("sum(x)").rows == [{"sum(x)": 7}]


def write_orc(table, path):
    pytest.importorskip("pyarrow.orc").write_table(table, path)


@pytest.mark.parametrize("write", [pyarrow.csv.write_csv, write_orc], ids=["csv", "orc"])
def test_a_copy_that_cannot_be_written(tmp_path, monkeypatch, write):
    """The input is good: the copy is named, and where others may lie."""
    write(pa.table({"x": range(100_000)}), tmp_path / "t.csv")
    (tmp_path / "file").write_text("")
    for folder in ("/proc/none", str(tmp_path / "file")):
        monkeypatch.setenv("HINTERLAND_CACHE_DIR", folder)
        why = rf"the Arrow copy of {tmp_path}/t.csv: {folder}/.*arrow: cannot be written: .*set HINTERLAND_CACHE_DIR to another"
        with pytest.raises(StorageError, match=why):
            hl.query(tmp_path / "t.csv").agg("count()")


@pytest.mark.parametrize("write", [pyarrow.csv.write_csv, write_orc], ids=["csv", "orc"])
def test_a_copy_on_a_full_disk(tmp_path, write):
    write(pa.table({"x": range(100_000)}), tmp_path / "t.csv")
    program = """
import resource, signal, sys
import hinterland as hl
from hinterland.runtime.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))
try:
    hl.query(sys.argv[1]).agg("count()")
except StorageError as error:
    print(error)
"""
    said = forked.run("-c", program, tmp_path / "t.csv", check=True).stdout
    assert said.startswith(f"the Arrow copy of {tmp_path}/t.csv: {tmp_path}/cache/tables/")
    assert "cannot be written" in said and "or set HINTERLAND_CACHE_DIR to another folder" in said
    assert os.listdir(tmp_path / "cache" / "tables") == []


def test_stripes_one_by_one(tmp_path):
    orc = pytest.importorskip("pyarrow.orc")
    rng = random.Random(1)
    table = pa.table({"x": [rng.random() for _ in range(50_000)], "t": [rng.choice(["a", "b", None]) for _ in range(50_000)]})
    orc.write_table(table, tmp_path / "t", stripe_size=1 << 16, batch_size=1024)
    found = open_table(str(tmp_path / "t"))._reader(())
    assert found.num_record_batches == orc.ORCFile(tmp_path / "t").nstripes > 1
    assert found.read_all().cast(table.schema).equals(table)


def test_a_csv_file_that_is_none(tmp_path, copies):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(FormatError, match="damaged"):
        hl.query(tmp_path / "t.csv").agg("count()")
    assert not copies()


def test_fields_between_semicolons(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1,5;2\n")
    with pytest.raises(ConfigError, match="its heading has no comma, and a line has: .* write fields between commas"):
        hl.query(tmp_path / "t.csv").agg("count()")


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


def write_compressed(path, codec, data):
    with pa.output_stream(path, compression=codec) as file:
        file.write(data)


ENCODINGS, CODECS = ["utf8", "utf-8-sig", "utf-16", "utf-32"], ["gzip", "bz2", "zstd", "lz4", None]


@pytest.mark.parametrize("name, codec, encoding", covering([["T.CSV.GZ", "t.csv", "t.csv.zst"], CODECS, ENCODINGS], together=2))
def test_csv_files_are_what_their_first_bytes_say(tmp_path, name, codec, encoding):
    """Whatever their names are."""
    text = "BZh1,t\n" + "".join(f"{row},é\n" for row in range(50_000))
    write_compressed(tmp_path / name, codec, text.encode(encoding))
    rows = hl.query(tmp_path / name).group_by("t").agg("sum(BZh1)").rows
    assert rows == [{"t": "é", "sum(BZh1)": sum(range(50_000))}]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_orders_of_bytes(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes("\ufeffx,t\n1,é\n".encode(encoding))
    assert hl.query(tmp_path / "t.csv").filter("t = 'é'").agg("sum(x)").rows == [{"sum(x)": 1}]


@pytest.mark.parametrize("zeros", [1, 3, 512, 1 << 20])
def test_zeros_after_a_member_of_gzip(tmp_path, zeros):
    """Which gzip ignores; what is no zero is damage."""
    members = gzip.compress(b"x\n1\n") + gzip.compress(b"2\n" * 40_000)
    (tmp_path / "t.csv.gz").write_bytes(members + b"\0" * zeros)
    assert hl.query(tmp_path / "t.csv.gz").agg("sum(x)").rows == [{"sum(x)": 80_001}]
    (tmp_path / "t.csv.gz").write_bytes(members + b"\0" * zeros + b"more")
    with pytest.raises(FormatError, match="damaged"):
        hl.query(tmp_path / "t.csv.gz").agg("sum(x)")


@pytest.mark.parametrize("rows, end", [(2, ""), (0, "\n"), (0, "")])
def test_a_heading_longer_than_a_block(tmp_path, rows, end):
    names = [f"a column of a rather long name and of the number {number}" for number in range(25_000)]
    lines = [",".join(names), *[",".join(["7"] * len(names))] * rows]
    assert len(lines[0]) > 1 << 20
    (tmp_path / "t.csv").write_text("\n".join(lines) + end)
    asked = f"count(`{names[-1]}`)"
    assert hl.query(tmp_path / "t.csv").agg(asked).rows == [{asked: rows}]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_what_is_no_file(tmp_path, name):
    """A pipe would be waited for."""
    os.mkfifo(tmp_path / name)
    for path in (tmp_path / name, "/dev/null"):
        with pytest.raises(ConfigError, match="is a pipe or a device, and a file is read more than once"):
            hl.query(path).agg("count()")
    end, other = os.pipe()
    with pytest.raises(ConfigError, match="is a pipe or a device"):
        hl.query(f"/dev/fd/{end}").agg("count()")
    os.close(end)
    os.close(other)


@pytest.mark.parametrize("name", ["t", "t.arrow", "t.csv"])
def test_forms_of_arrow_that_are_not_read(tmp_path, name):
    table = pa.table({"x": [1]})
    with pa.ipc.new_stream(tmp_path / name, table.schema) as writer:
        writer.write(table)
    with pytest.raises(ConfigError, match="is an Arrow stream, which has no index; write an Arrow file"):
        hl.query(tmp_path / name).agg("count()")
    (tmp_path / name).write_bytes(b"FEA1" + b"\0" * 20 + b"FEA1")
    with pytest.raises(ConfigError, match="is a Feather file of version 1; write it again"):
        hl.query(tmp_path / name).agg("count()")


def test_lines_longer_than_a_block(tmp_path):
    lines = "".join(f"{'y' * 3_000_000},{row}\n" for row in range(3))
    (tmp_path / "a.csv").write_text("s,n\n" + "short,7\n" * 200_000 + lines)
    rows = hl.query(tmp_path / "a.csv").filter("s >= 'y'").group_by("s").agg("sum(n)").rows
    assert rows == [{"s": "y" * 3_000_000, "sum(n)": 3}]
    (tmp_path / "b.csv").write_text("s,n\n" + lines)
    assert hl.query(tmp_path / "b.csv").agg("count()").rows == [{"count()": 3}]


BIG = 2**63 + 1


@pytest.mark.parametrize("before", [0, 400_000], ids=["at once", "parts later"])
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((BIG, 1), BIG),  # as uint64
        ((2**64 - 1, "", "NULL"), 2**64 - 1),
        ((BIG, 1.5), float(BIG)),  # floats
        (("+7", 5), 7.0),
        ((BIG, "inf"), float("inf")),
        ((BIG, -1), None),  # texts, for no type holds them
        ((2**64, 1), None),
        ((f"+{BIG}",), None),
    ],
    ids=str,
)
def test_whole_numbers_are_never_other_numbers(tmp_path, before, values, wanted, capsys):
    """Of more than a megabyte's rows, the first part of a file is of int64; that more is needed is found later."""
    (tmp_path / "t.csv").write_text("u,v\n" + "".join(f"{value},x\n" for value in (*[3] * before, *values)))
    asked = hl.query(tmp_path / "t.csv")
    assert asked.agg("count(v)").rows == [{"count(v)": before + len(values)}]  # other columns are there
    if wanted is not None:
        found = asked.agg("max(u)").rows[0]["max(u)"]
        assert (found, type(found)) == (wanted, type(wanted))
    else:
        for value in values:
            assert asked.filter(f"u == '{value}'").agg("count()").matched == 1
        with pytest.raises(ConfigError, match="holds texts, which do not compare with a number; write a text"):
            asked.filter(f"u == {BIG}").agg("count()")
        with pytest.raises(ConfigError, match="has none"):
            asked.agg("sum(u)")
    assert ("whole numbers that 64 bits do not hold: taken as texts" in capsys.readouterr().err) == (wanted is None)


def test_columns_of_large_numbers_beside_others(tmp_path):
    """Which are found in one pass over all."""
    lines = [("a", "b", "c", "d", "e"), (BIG, 1.5, -BIG, "+7", 2), (1, BIG, 1, 1, ""), (2, 2, 2, 2, "nan")]
    (tmp_path / "t.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    asked = hl.query(tmp_path / "t.csv")
    assert asked.agg("max(a)", "sum(b)", "sum(d)", "sum(e)").rows == [
        {"max(a)": BIG, "sum(b)": 3.5 + BIG, "sum(d)": 10.0, "sum(e)": 2}
    ]
    assert asked.filter(f"c = '{-BIG}'").agg("count()").matched == 1


def test_whole_numbers_above_int64(tmp_path):
    (tmp_path / "t.csv").write_text(f"u\n{2**63}\n{BIG}\n1\n")
    asked = hl.query(tmp_path / "t.csv")
    assert asked.filter(f"u == {BIG}").agg("count()").matched == 1
    assert asked.agg("sum(u)").rows == [{"sum(u)": 2**63 + BIG + 1}]
    assert [row["u"] for row in asked.group_by("u").agg("count()").rows] == [1, 2**63, BIG]


def test_copies_of_other_versions_are_made_again(tmp_path, copies, monkeypatch):
    (tmp_path / "t.csv").write_text("x\n1\n")
    hl.query(tmp_path / "t.csv").agg("count()")
    first = copies()
    monkeypatch.setattr(pa, "__version__", "99.0.0")
    hl.query(tmp_path / "t.csv").agg("count()")
    assert len(copies()) == 1
    assert copies() != first


@pytest.mark.parametrize("heading", ["a,b", "a,b\n", "a,b\r\n", "\ufeffa,b"])
@pytest.mark.parametrize("encoding", ["utf8", "utf-16"])
def test_a_heading_alone(tmp_path, heading, encoding):
    (tmp_path / "t.csv").write_bytes(heading.encode(encoding))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(heading.encode("utf8")))
    for name in ("t.csv", "t.csv.gz"):
        asked = hl.query(tmp_path / name)
        assert asked.agg("count()", "count(a)").rows == [{"count()": 0, "count(a)": 0}]
        assert asked.filter("b is null").agg("count()").matched == 0


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.orc", "t"])
def test_an_empty_file(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=f"{name} is empty; it is no Arrow, Parquet or ORC file"):
        hl.query(tmp_path / name).agg("count()")


@pytest.mark.parametrize("name", ["ORCID", "PAR1", "PARE", "ARROW1", "ARROW1\0\0"])
@pytest.mark.parametrize("ending", ["csv", "CSV"])
def test_headings_that_begin_as_other_files_do(tmp_path, name, ending):
    path = tmp_path / f"t.{ending}"
    path.write_text(f"{name},n\n1,2\n3,4\n")
    assert hl.query(path).agg(f"sum(`{name}`)", "sum(n)").rows == [{f"sum(`{name}`)": 4, "sum(n)": 6}]


@pytest.mark.parametrize("write", [
    pyarrow.parquet.write_table, write_orc, lambda table, path: pyarrow.feather.write_feather(table, path),
], ids=["parquet", "orc", "arrow"])  # fmt: skip
def test_other_files_by_the_name_of_a_csv_file(tmp_path, write):
    write(pa.table({"n": [1, 2]}), tmp_path / "t.csv")
    assert hl.query(tmp_path / "t.csv").agg("sum(n)").rows == [{"sum(n)": 3}]


@pytest.mark.parametrize("text", ["", "\n", "\ufeff"])
def test_no_heading(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(FormatError, match="t.csv is empty; the first line of a CSV file names its columns"):
        hl.query(tmp_path / "t.csv").agg("count()")


def test_texts_of_other_encodings(tmp_path):
    """UTF-16 is read; of Latin-1 the columns that are ASCII are."""
    (tmp_path / "wide.csv").write_text("x,t\n" + "1,é\n" * 200_000, "utf-16")
    assert hl.query(tmp_path / "wide.csv").group_by("t").agg("sum(x)").rows == [{"t": "é", "sum(x)": 200_000}]
    for before in (0, 400_000):
        (tmp_path / "t.csv").write_text("x,t\n" + "1,e\n" * before + "1,é\n", "latin-1")
        asked = hl.query(tmp_path / "t.csv")
        assert asked.agg("sum(x)").rows == [{"sum(x)": before + 1}]
        with pytest.raises(ConfigError, match="'t' is binary, which queries do not take"):
            asked.agg("count(t)")
    (tmp_path / "t.csv").write_text("x,é\n1,2\n", "latin-1")
    with pytest.raises(ConfigError, match="names of its columns are no UTF-8"):
        hl.query(tmp_path / "t.csv").agg("count()")


@pytest.mark.parametrize("late", ["2020-01-01T00:00:00.5Z", "soon"])
def test_times_with_a_zone_that_change_late(tmp_path, late):
    (tmp_path / "t.csv").write_text("t,x\n" + "2020-01-01T00:00:00Z,1\n" * 60_000 + f"{late},1\n")
    assert hl.query(tmp_path / "t.csv").agg("count(t)", "sum(x)").rows == [{"count(t)": 60_001, "sum(x)": 60_001}]


def test_a_long_line_after_a_type_that_changed(tmp_path):
    (tmp_path / "t.csv").write_text("x,t\n" + "1,a\n" * 400_000 + "1.5,a\n" + f"1,{'a' * (3 << 20)}\n")
    assert hl.query(tmp_path / "t.csv").agg("sum(x)").rows == [{"sum(x)": 400_002.5}]


FAR = pa.array([datetime.datetime(9999, 12, 31), datetime.datetime(2020, 1, 1), None], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (FAR, "out of range"),
        (FAR.cast(pa.timestamp("us", "UTC")), "out of range"),
        (pa.StructArray.from_arrays([FAR], ["t"]), "out of range"),
        (pa.array([b"a", b"\xff", b"a"]).view(pa.string()), "UTF8"),
    ],
    ids=["times", "with a zone", "in a structure", "no UTF-8"],
)
def test_orc_columns_that_pyarrow_does_not_read(tmp_path, column, said):
    """The others are there."""
    orc = pytest.importorskip("pyarrow.orc")
    table = pa.table({"x": [1, 2, 3], "t": ["u", "v", "u"], "c": column})
    orc.write_table(table, tmp_path / "t")
    asked = hl.query(tmp_path / "t")
    assert asked.agg("count()").rows == [{"count()": 3}]
    assert asked.group_by("t").agg("sum(x)").rows == [{"t": "u", "sum(x)": 4}, {"t": "v", "sum(x)": 2}]
    for asks in (lambda: asked.agg("count(c)"), lambda: asked.filter("c is null").agg("count()")):
        with pytest.raises(ConfigError, match=f"'c' is not read by pyarrow: .*{said}.*; ask for other columns"):
            asks()
    orc.write_table(table.select(["c"]), tmp_path / "t")
    assert hl.query(tmp_path / "t").agg("count()").rows == [{"count()": 3}]


@pytest.mark.parametrize("version", [None, "24.0.0"])
@pytest.mark.parametrize("far", [True, False], ids=["left out", "read"])
def test_orc_columns_that_pyarrow_does_not_read_beside_several_of_a_name(tmp_path, monkeypatch, far, version):
    """It reads some of a file's columns by their names alone, and those of a name's last column."""
    orc = pytest.importorskip("pyarrow.orc")
    names = ["x", "x", "y", "t", "a.b", "a", "c", "c.d", "a.e"]
    times = FAR if far else pa.array([0, 1, None], pa.timestamp("us"))
    structures = [pa.StructArray.from_arrays([pa.array([base + row for row in range(3)])], [name])
                  for base, name in [(60, "b"), (70, "d")]]  # fmt: skip
    numbers = [pa.array([base + row for row in range(3)]) for base in (10, 20, 30, 50, 80, 90)]
    columns = [*numbers[:3], times, numbers[3], *structures, *numbers[4:]]
    orc.write_table(pa.table(columns, names=names), tmp_path / "t")
    if version is not None:
        monkeypatch.setattr(pa, "__version__", version)
    asked = hl.query(tmp_path / "t")
    assert asked.agg("count()", "sum(y)", "sum(`a.e`)").rows == [{"count()": 3, "sum(y)": 93, "sum(`a.e`)": 273}]
    with pytest.raises(FormatError, match="several columns called 'x'; rename them"):
        asked.agg("sum(x)")
    with pytest.raises(ConfigError, match="'a' is struct<b: int64>, which queries do not take"):
        asked.agg("count(a)")
    for name, total in [("a.b", 153), ("c.d", 243)]:
        try:
            assert asked.agg(f"sum(`{name}`)").rows == [{f"sum(`{name}`)": total}]
        except ConfigError as error:
            assert far or version
            assert f"'{name}' has the name of another column, or of a part of one" in str(error)


def test_orc_times_by_a_pyarrow_that_wraps_them(tmp_path, monkeypatch):
    """It would say 1816 for 9999."""
    orc = pytest.importorskip("pyarrow.orc")
    orc.write_table(pa.table({"x": [1, 2], "t": pa.array([1, 2], pa.timestamp("ns"))}), tmp_path / "t")
    monkeypatch.setattr(pa, "__version__", "24.0.0")
    asked = hl.query(tmp_path / "t")
    assert asked.agg("sum(x)").rows == [{"sum(x)": 3}]
    with pytest.raises(ConfigError, match="'t' holds an ORC file's times, and pyarrow 24.0.0 .* pip install -U 'pyarrow>=25'"):
        asked.agg("max(t)")


def test_orc_where_there_are_no_time_zones(tmp_path, monkeypatch):
    """The file is good. What zones liborc has found it keeps for the whole process, so its words are put into its mouth."""
    orc = pytest.importorskip("pyarrow.orc")
    orc.write_table(pa.table({"t": pa.array([1, 2], pa.timestamp("ns"))}), tmp_path / "t")

    def read_stripe(*given):
        raise pa.ArrowException(
            "Unknown error: Time zone file /none/GMT does not exist. Please install IANA time zone database"
        )

    monkeypatch.setattr(orc.ORCFile, "read_stripe", read_stripe)
    with pytest.raises(ConfigError, match="this machine has no time zones, .*: Unknown error: Time zone file"):
        hl.query(tmp_path / "t").agg("count()")
