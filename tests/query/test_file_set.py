"""Several files as one table: patterns, folders, Hive's partitions; beside what DuckDB and pyarrow make of the same folders."""

from __future__ import annotations

import os
import pickle
import warnings

import pytest
import torch

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")
from pyarrow import csv, dataset, feather, orc, parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.query.bounds import kind_of  # noqa: E402
from hinterland.query.pinned_columns import PinnedTable  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError, StorageError  # noqa: E402

from .tables import made, write  # noqa: E402

ROWS = 300


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))


def trips():
    return pa.table(
        {
            "year": pa.array([2022 + row % 3 for row in range(ROWS)]),
            "day": pa.array([None if row % 50 == 7 else f"2024-01-0{1 + row % 2}" for row in range(ROWS)]),
            "city": pa.array([["a b", "ü", "x/y"][row // 7 % 3] for row in range(ROWS)]),
            "fare": pa.array([None if row % 9 == 0 else row / 4 for row in range(ROWS)]),
            "riders": pa.array([row % 5 for row in range(ROWS)], pa.int32()),
            "color": pa.array([None if row % 11 == 0 else ["green", "yellow"][row % 2] for row in range(ROWS)]),
        }
    )


@pytest.fixture
def hive(tmp_path):
    """A folder of Hive's, by pyarrow, with what other programs leave beside the files."""
    folder = tmp_path / "trips"
    dataset.write_dataset(trips(), folder, format="parquet", partitioning=["year", "day", "city"], partitioning_flavor="hive")
    (folder / "_SUCCESS").touch()
    (folder / ".part.parquet.crc").write_bytes(b"crc")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "half.parquet").write_bytes(b"PAR1")
    (folder / "notes.txt").write_text("no table")
    return folder


def without_data(path):
    """Damages all pages, and leaves the footer."""
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(content[:4] + bytes([255]) * (len(content) - 4 - footer) + content[-footer:])


@pytest.mark.parametrize(
    "predicate",
    [
        "fare > 10",
        "year == 2023",
        "year in (2022, 2024) and riders < 3",
        "day >= '2024-01-02'",
        "day is null",
        "day is not null and city == 'x/y'",
        "city > 'b' or fare < 3",
        "year - 2000 > riders + 20",
        "city like '_ _'",
        "not (year > 2022)",
    ],
)
def test_partitions_are_columns(hive, predicate):
    database = duckdb.connect()
    database.register("trips", trips())
    wanted = database.execute(
        f"""select year, day, city, count(*), coalesce(sum(fare), 0), max(riders) from (select * replace (day::date as day)
        from trips) where {predicate} group by all order by year, day nulls last, city"""
    ).fetchall()
    found = hl.query(hive).filter(predicate).group_by("year", "day", "city").agg("count(*)", "sum(fare)", "max(riders)")
    assert [tuple(row.values()) for row in found.rows] == wanted
    assert found.matched == sum(row[3] for row in wanted)


def test_partitions_leave_files_out(hive):
    """No page of the others is read: their data are damaged."""
    for path in hive.glob("year=2023/**/*.parquet"):
        without_data(path)
    asked = hl.query(hive).filter("year == 2022").agg("sum(riders)", "count()")
    expected = [row for row in trips().to_pylist() if row["year"] == 2022]
    assert asked.rows == [{"sum(riders)": sum(row["riders"] for row in expected), "count()": len(expected)}]
    assert "row groups that statistics leave out" in asked.explain()
    with pytest.raises(FormatError, match="year=2023"):
        hl.query(hive).agg("sum(riders)")


def test_of_folders_alone_nothing_is_read(hive):
    for path in hive.glob("year=*/**/*.parquet"):
        without_data(path)
    found = hl.query(hive).filter("city != 'ü'").group_by("year").agg("count()")
    assert [row["count()"] for row in found.rows] == [
        sum(year == row["year"] and row["city"] != "ü" for row in trips().to_pylist()) for year in (2022, 2023, 2024)
    ]


def test_names_that_shells_know(hive, tmp_path, monkeypatch):
    monkeypatch.chdir(hive)
    every = hl.query(str(hive / "year*" / "**" / "*.parquet")).filter("year > 0").agg("count()").rows
    assert every == hl.query("year=*/*/*/*").agg("count()").rows == [{"count()": ROWS}]
    some = hl.query(["year=2022", hive / "year=2024"])
    assert some.agg("count()").rows == [{"count()": 200}]
    assert hl.query("year=2023/*/*/*.parquet").agg("min(year), max(year)").rows == [{"min(year)": 2023, "max(year)": 2023}]
    one = next((hive / "year=2023").rglob("*.parquet"))
    assert "year" in hl.query(one).columns  # as DuckDB has it of one file
    odd = tmp_path / "t[1].parquet"  # there, so it is no pattern
    write(made(10), odd, "parquet", 10)
    assert hl.query(odd).agg("count()").rows == [{"count()": 10}]


@pytest.mark.parametrize(
    ("path", "said"),
    [("nothing/*.parquet", "no file has such a name"), ("empty", "no file that ends in"), ([], "no files"), (["a", 3], "path")],
)
def test_names_of_nothing(tmp_path, monkeypatch, path, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=said):
        hl.query(path).agg("count()")


def test_a_file_that_is_gone(tmp_path):
    with pytest.raises(StorageError, match=r"gone\.parquet"):
        hl.query(tmp_path / "gone.parquet").agg("count()")


def test_files_of_all_formats_are_one_table(tmp_path):
    """Columns in other orders, texts in dictionaries or not, and columns of nulls alone."""
    folder = tmp_path / "t"  # beside the copy of the CSV file
    folder.mkdir()
    table = pa.table({"x": [1, 2, None], "t": ["a", None, "c"], "y": [0.5, 1.5, 2.5]})
    write(table, folder / "1.parquet", "parquet", 2)
    write(table.select(["y", "t", "x"]), folder / "2.arrow", "lz4", 2)
    feather.write_feather(table.set_column(1, "t", table["t"].dictionary_encode()), folder / "3.feather")
    feather.write_feather(table.set_column(1, "t", table["t"].cast(pa.large_string())), folder / "4.arrow")
    parquet.write_table(table.set_column(0, "x", pa.nulls(3)), folder / "5.parquet")
    (folder / "6.csv").write_text("t,x,y\na,1,0.5\n,2,1.5\nc,,2.5\n")
    query = hl.query(folder)
    assert query.filter("t == 'a'").agg("count(), sum(x), sum(y)").rows == [{"count()": 6, "sum(x)": 5, "sum(y)": 3.0}]
    assert query.group_by("t").agg("count(x)").rows == [
        {"t": "a", "count(x)": 5}, {"t": "c", "count(x)": 0}, {"t": None, "count(x)": 5},
    ]  # fmt: skip
    assert query.to_arrow("x", "t").to_pylist() == [*table.select(["x", "t"]).to_pylist()] * 4 + [
        *({"x": None, "t": text} for text in ("a", None, "c")),
        *table.select(["x", "t"]).to_pylist(),
    ]
    assert query.filter("t is null").rows().tolist() == [1, 4, 7, 10, 13, 16]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing", r"'missing' is not in .*b\.parquet; query such files apart"),
        ("later", r"'later' is not in .*a\.parquet"),
        ("other", r"'other' is int64 in .*a\.parquet, and double in .*b\.parquet; write them as one type"),
    ],
)
def test_columns_that_differ_are_refused_when_they_are_asked_for(tmp_path, name, said):
    write(pa.table({"x": [1], "missing": [1], "other": [1]}), tmp_path / "a.parquet", "parquet", 1)
    write(pa.table({"x": [2], "later": [1], "other": [1.5]}), tmp_path / "b.parquet", "parquet", 1)
    query = hl.query(tmp_path)
    assert query.agg("sum(x)").rows == [{"sum(x)": 3}]
    assert query.to_arrow().schema.names == ["x"]
    for ask in (lambda: query.agg(f"count({name})"), lambda: query.filter(f"{name} > 0").rows(), lambda: query.to_arrow(name)):
        with pytest.raises(ConfigError, match=said):
            ask()


def test_folders_that_say_other_columns(tmp_path):
    for folder in ("year=2024", "month=1"):
        (tmp_path / folder).mkdir()
        write(pa.table({"x": [1]}), tmp_path / folder / "t.parquet", "parquet", 1)
    with pytest.raises(ConfigError, match=r"'year' is not said by the folders of .*month=1"):
        hl.query(tmp_path).filter("year == 2024").agg("count()")
    assert hl.query(tmp_path).agg("count()").rows == [{"count()": 2}]


def test_a_column_of_the_file_counts_more_than_its_folder(tmp_path):
    (tmp_path / "x=9").mkdir()
    write(pa.table({"x": [1, 2]}), tmp_path / "x=9" / "t.parquet", "parquet", 1)
    assert hl.query(tmp_path).agg("sum(x)").rows == [{"sum(x)": 3}]


@pytest.mark.parametrize(
    ("values", "type_"), [(["01", "-2"], "int64"), (["2024-01-31", "2023-02-28"], "date32[day]"), (["2024-02-31"], "text"),
                          (["1", "b"], "text"), (["1" * 30], "text")],
)  # fmt: skip
def test_types_of_what_folders_say(tmp_path, values, type_):
    for value in values:
        (tmp_path / f"k={value}").mkdir()
        write(pa.table({"x": [1]}), tmp_path / f"k={value}" / "t.parquet", "parquet", 1)
    found = hl.query(tmp_path).schema.field("k").type
    assert str(found) == type_ if type_ != "text" else pa.types.is_dictionary(found)


def test_files_that_come_and_go_between_questions(tmp_path):
    write(pa.table({"x": [1]}), tmp_path / "1.parquet", "parquet", 1)
    query = hl.query(tmp_path / "*.parquet")
    assert query.agg("sum(x)").rows == [{"sum(x)": 1}]
    write(pa.table({"x": [10]}), tmp_path / "2.parquet", "parquet", 1)
    assert query.agg("sum(x)").rows == [{"sum(x)": 11}]
    os.remove(tmp_path / "1.parquet")
    assert pickle.loads(pickle.dumps(query)).agg("sum(x)").rows == query.agg("sum(x)").rows == [{"sum(x)": 10}]


def test_columns_for_a_gpu_are_those_of_all_files(hive):
    """In the order of the files, codes of texts being of all dictionaries together."""
    held = PinnedTable(str(hive), torch.device("cpu"))
    table = held.table()
    kinds = {name: kind_of(table.schema.field(name).type) for name in ("riders", "city", "color")}
    columns = held.columns(kinds, {})
    rows = hl.query(hive).to_arrow("riders", "city", "color").to_pylist()
    entries = columns["riders"].entries
    codes = columns["riders"].values.cpu().view(torch.uint8)[:ROWS].long()
    assert entries[codes].tolist() == [row["riders"] for row in rows]
    texts, _ = columns["city"].texts.texts(columns["city"].values.cpu()[:ROWS].numpy())
    assert texts == [row["city"] for row in rows]


@pytest.mark.parametrize("threads", [1, 4])
def test_many_small_files(tmp_path, threads, set_threads):
    set_threads(threads)
    for number in range(40):
        write(pa.table({"x": range(number, number + 3)}), tmp_path / f"{number:02}.parquet", "parquet", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query = hl.query(tmp_path)
    assert query.filter("x >= 40").rows().tolist() == [116, 118, 119]
    assert query.agg("sum(x)", "count(x)").rows == [{"sum(x)": sum(3 * n + 3 for n in range(40)), "count(x)": 120}]


@pytest.mark.parametrize("part", [b"city=\xff", b"city=%FF", b"\xff=1"])
def test_a_folder_that_is_no_utf8_says_no_column(tmp_path, part):
    folder = os.fsencode(tmp_path) + b"/" + part
    os.mkdir(folder)
    write(pa.table({"x": [1]}), tmp_path / "t", "parquet", 1).rename(os.fsdecode(folder) + "/t.parquet")
    with pytest.raises(ConfigError, match="is no UTF-8 as texts are; rename it"):
        hl.query(tmp_path).agg("count()")


@pytest.mark.parametrize("ending", ["csv", "orc"])
def test_a_converted_file_whose_name_is_no_utf8(tmp_path, ending):
    table, path = pa.table({"x": [1, 2]}), tmp_path / f"t.{ending}"
    csv.write_csv(table, path) if ending == "csv" else orc.write_table(table, path)
    odd = path.rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff." + ending.encode()))
    assert hl.query(odd).agg("sum(x)").rows == [{"sum(x)": 3}]


def test_open_files_keep_no_descriptor(tmp_path):
    for number in range(6):
        write(
            pa.table({"x": [number]}),
            tmp_path / f"{number}.{'arrow' if number % 2 else 'parquet'}",
            "arrow" if number % 2 else "parquet",
            1,
        )
    query, before = hl.query(tmp_path), len(os.listdir("/proc/self/fd"))
    assert query.agg("sum(x)").rows == [{"sum(x)": 15}] and query.columns == ["x"]
    assert len(os.listdir("/proc/self/fd")) < before + 6


def test_patterns_name_each_file_once(tmp_path, monkeypatch):
    (tmp_path / "a [1]" / "b").mkdir(parents=True)
    for folder in ("a [1]", "a [1]/b"):
        write(pa.table({"x": [1]}), tmp_path / folder / "t.parquet", "parquet", 1)
    for link in ("around", "beside"):  # by two links there are 2^40 names
        (tmp_path / "a [1]" / link).symlink_to(tmp_path)
    for pattern, count in (("**", 2), ("**/*.parquet", 2), ("*/**/*.parquet", 2), ("**/**/t.*", 2), ("**/b/**/*.parquet", 1)):
        assert hl.query(tmp_path / pattern).agg("count()").matched == count
        monkeypatch.chdir(tmp_path)
        assert hl.query(pattern).agg("count()").matched == count
