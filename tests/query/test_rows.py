"""The rows that match: their numbers, as Arrow's, as tensors, and the first of them; beside pyarrow's own filters."""

from __future__ import annotations

import sys
import threading
from decimal import Decimal

import numpy as np
import pytest
import torch

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
from pyarrow import compute, feather, parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError  # noqa: E402

from .tables import made, write  # noqa: E402

TABLE = made(3000).append_column("row", pa.array(range(3000)))
FILTERS = {
    "int8 == 5": compute.field("int8") == 5,
    "float64 > 0.25 and text != 'cash'": (compute.field("float64") > 0.25) & (compute.field("text") != "cash"),
    "row between 700 and 702": (compute.field("row") >= 700) & (compute.field("row") <= 702),
    "row < 0": compute.field("row") < 0,
    "text is null or flag": compute.field("text").is_null() | compute.field("flag"),
}


@pytest.fixture(scope="module", params=["parquet", "arrow", "lz4"])
def file(request, tmp_path_factory):
    return write(TABLE, tmp_path_factory.mktemp("t") / "t", request.param, 450)


@pytest.mark.parametrize("predicate", FILTERS)
@pytest.mark.parametrize("threads", [1, 4])
def test_rows_are_those_that_pyarrow_finds(file, predicate, threads, set_threads):
    set_threads(threads)
    query, wanted = hl.query(file).filter(predicate), TABLE.filter(FILTERS[predicate])
    found = query.rows()
    assert found.dtype == torch.int64 and found.tolist() == wanted["row"].to_pylist()
    names = ["moment", "text", "money", "half", "uint64", "flag", "day", "float64"]
    arrow = query.to_arrow(*names)
    assert repr(arrow.to_pylist()) == repr(wanted.select(names).to_pylist())  # NaN is no NaN
    assert [str(type_) for type_ in arrow.schema.types if not pa.types.is_dictionary(type_)] == [
        str(wanted.schema.field(name).type) for name in names if name != "text"
    ]
    every = query.to_arrow()
    assert every.schema.names == TABLE.schema.names and len(every) == len(wanted)
    frame = query.to_pandas("row", "plain")
    assert list(frame.columns) == ["row", "plain"] and frame["row"].tolist() == found.tolist()


@pytest.mark.parametrize("most", [0, 1, 7, 10**6])
def test_the_first_rows(file, most):
    query = hl.query(file).filter("int8 >= 0")
    every = query.rows()
    assert torch.equal(query.limit(most).rows(), every[:most])
    assert query.limit(most).to_arrow("row")["row"].to_pylist() == every[:most].tolist()
    assert torch.equal(hl.query(file).limit(most).rows(), torch.arange(3000)[:most])


def test_the_first_groups(file):
    query = hl.query(file).group_by("text")
    every = query.agg("count()")
    some = query.limit(2).agg("count()")
    assert some.rows == every.rows[:2] and some.matched == every.matched == 3000


def test_where_the_limit_is_reached_reading_ends(tmp_path):
    file = write(pa.table({"x": range(2_000_000)}), tmp_path / "t", "parquet", 10_000)
    before = threading.active_count()
    for _ in range(5):
        assert hl.query(file).filter("x >= 5").limit(2).rows().tolist() == [5, 6]
    assert threading.active_count() <= before + 2


def test_tensors_have_the_types_of_their_columns(tmp_path, device):
    types = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
    table = pa.table({name: pa.array(np.arange(20).astype(name)) for name in types})
    table = table.append_column("bool", pa.array([row % 2 == 0 for row in range(20)]))
    table = table.append_column("coded", pa.array([row % 3 for row in range(20)]).dictionary_encode())
    found = hl.query(write(table, tmp_path / "t", "arrow", 7), device).filter("int8 > 4").to_tensors()
    for name in [*types, "bool"]:
        assert found[name].dtype == getattr(torch, name) and found[name].device.type == device.type
        assert found[name].cpu().tolist() == table[name].to_pylist()[5:]
    assert found["coded"].tolist() == table["coded"].to_pylist()[5:]


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda query: query.to_tensors("int8"), "filter 'int8 is not null'"),
        (lambda query: query.to_tensors("text"), r"of which torch has no tensors; take it by to_arrow\(\)"),
        (lambda query: query.to_tensors("day"), "of which torch has no tensors"),
        (lambda query: query.to_arrow("int65"), "did you mean"),
        (lambda query: query.filter("int65 > 1").rows(), "did you mean"),
        (lambda query: query.group_by("text").rows(), r"leave group_by\(\) out"),
        (lambda query: query.limit(-1), "limit -1 is not a whole number from 0 on"),
        (lambda query: query.limit("many"), "is not a whole number"),
        (lambda query: query.filter("uint64 + 1 > 5").rows(), "divide a number by 1"),
    ],
)
def test_what_has_no_rows_gets_a_sentence(file, ask, said):
    with pytest.raises(ConfigError, match=said):
        ask(hl.query(file))


def test_columns_of_types_that_filters_do_not_take(tmp_path):
    """Rows of them are as the file has them; lists and structs are left out, unless they are asked for."""
    table = pa.table({
        "x": [1, 2, 3], "big": pa.array([Decimal(1), None, Decimal(3)], pa.decimal128(38, 0)), "bytes": [b"a", b"b", None],
        "view": pa.array(["one", None, "long enough to be elsewhere"]).cast(pa.string_view()), "list": [[1], [], None],
    })  # fmt: skip
    with pa.OSFile(str(tmp_path / "t.arrow"), "w") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    parquet.write_table(table.drop(["view"]), tmp_path / "t.parquet")
    wanted = table.slice(1).to_pylist()
    for path, names in ((tmp_path / "t.arrow", ["x", "big", "bytes", "view"]), (tmp_path / "t.parquet", ["x", "big", "bytes"])):
        query = hl.query(path).filter("x > 1")
        assert query.to_arrow().to_pylist() == [{name: row[name] for name in names} for row in wanted]
        with pytest.raises(ConfigError, match="'list' is list<.*name columns without parts"):
            query.to_arrow("list")


def test_where_pandas_is_missing(file, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for ask in (hl.query(file).limit(1).to_pandas, hl.query(file).agg("count()").to_pandas):
        with pytest.raises(ConfigError, match="pip install pandas"):
            ask()


def test_codes_that_a_dictionary_does_not_have(tmp_path):
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 9, 1], pa.int8()), pa.array(["a", "b"]), safe=False)
    feather.write_feather(pa.table({"t": bad, "x": [1, 2, 3]}), tmp_path / "t.arrow", compression="uncompressed")
    with pytest.raises(FormatError, match="damaged"):
        hl.query(tmp_path / "t.arrow").filter("x > 1").to_arrow()


def test_parts_without_a_row_are_not_read(tmp_path):
    path = write(pa.table({"x": range(100), "y": range(100)}), tmp_path / "t", "parquet", 10)
    content = bytearray(path.read_bytes())
    first = parquet.ParquetFile(path).metadata.row_group(0).column(1)
    content[first.dictionary_page_offset : first.dictionary_page_offset + first.total_compressed_size] = bytes(
        first.total_compressed_size
    )
    path.write_bytes(content)
    assert hl.query(path).filter("x >= 95").to_arrow("y")["y"].to_pylist() == list(range(95, 100))
    with pytest.raises(FormatError):
        hl.query(path).filter("x >= 5").to_arrow("y")


def test_answers_are_tables_as_well(tmp_path):
    columns = {
        "key": ["a", None, "a"], "x": pa.array([2**64 - 1, 1, 5], "uint64"), "y": [0.5, None, 1.0],
        "money": pa.array([Decimal("1.10"), Decimal("2.20"), None], pa.decimal128(5, 2)),
        "ns": pa.array([5, None, 7], pa.timestamp("ns")), "day": pa.array([1, None, 2], pa.date32()),
    }  # fmt: skip
    query = hl.query(write(pa.table(columns), tmp_path / "t", "arrow", 2)).group_by("key")
    found = query.agg("sum(x), max(x), min(x), mean(y), sum(money), max(ns), max(day), count()")
    table = found.to_arrow()
    types = [str(type_) for type_ in table.schema.types]
    assert types[1:] == ["decimal128(20, 0)", "decimal128(20, 0)", "int64", "double", "decimal128(3, 2)",
                         "timestamp[ns]", "date32[day]", "int64"]  # fmt: skip
    assert table["sum(x)"].to_pylist() == [row["sum(x)"] for row in found.rows] == [2**64 + 4, 1]
    assert table["sum(money)"].to_pylist() == [Decimal("1.10"), Decimal("2.20")]
    frame = found.to_pandas()
    assert frame["key"].tolist()[0] == "a" and frame["count()"].tolist() == [2, 1]
    assert query.filter("x < 0").agg("count()").to_arrow().shape == (0, 0)


def test_dates_that_python_does_not_know_are_dates_of_arrow(tmp_path):
    days = pa.array([-719_163, None, 3_000_000], pa.date32())  # the last day before year 1, and one after 9999
    path = write(pa.table({"k": [1, 2, 3], "day": days}), tmp_path / "t", "arrow", 3)
    assert hl.query(path).group_by("k").agg("max(day)").to_arrow()["max(day)"].combine_chunks().equals(days)
    assert hl.query(path).group_by("day").agg("count()").to_arrow()["day"].type == pa.date32()


def test_answers_that_arrow_has_no_type_for(tmp_path):
    path = write(pa.table({"k": [1, 2], "x": [2**60 + 1, 3]}), tmp_path / "t", "arrow", 2)
    halves = hl.query(path).group_by("k").agg("sum(x) * 2 - 0.5", "sum(x) * 0.5 + 0.5")
    assert halves.to_arrow()["sum(x) * 0.5 + 0.5"].to_pylist() == [2.0**59 + 1, 2.0]
    whole = hl.query(path).agg(" * ".join(["max(x)"] * 5))
    with pytest.raises(ConfigError, match="at most 76 digits; take the answer's .rows"):
        whole.to_arrow()


def test_decimals_beside_literals_are_exact(tmp_path):
    money = pa.array([Decimal("9999999999999998.24"), Decimal("0.01")], pa.decimal128(18, 2))
    row = hl.query(write(pa.table({"d": money}), tmp_path / "t", "arrow", 2)).agg("sum(d) * 2", "0.5 - max(d)").rows[0]
    assert row == {"sum(d) * 2": Decimal("19999999999999996.50"), "0.5 - max(d)": Decimal("-9999999999999997.74")}
    assert all(type(one) is Decimal for one in row.values())


def test_columns_that_are_named_twice_or_hold_views(tmp_path):
    table = pa.table({"x": [1], "t": pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["a"], pa.string_view()))})
    with pa.OSFile(str(tmp_path / "t.arrow"), "w") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    query = hl.query(tmp_path / "t.arrow")
    assert query.to_tensors("x", "x")["x"].tolist() == [1]
    with pytest.raises(ConfigError, match="of which torch has no tensors"):
        query.to_tensors("t")


def test_what_pandas_and_this_machine_do_not_know(tmp_path):
    columns = {"zone": pa.array([0], pa.timestamp("s", "Mars/Olympus")), "day": pa.array([-719_163], pa.date32())}
    query = hl.query(write(pa.table(columns), tmp_path / "t", "arrow", 1))
    for name in columns:
        with pytest.raises(ConfigError, match="pandas does not take it: .*take it by to_arrow"):
            query.to_pandas(name)
    with pytest.raises(ConfigError, match="does not know; write an offset"):
        query.filter("zone < '2024-01-01'").rows()
    assert query.filter("zone < '2024-01-01 00:00:00Z'").rows().tolist() == [0]


def test_columns_and_types_are_known_before_a_question(file):
    query = hl.query(file)
    assert query.columns == TABLE.schema.names
    assert query.schema.field("money").type == pa.decimal128(18, 2)


def test_what_a_query_says_of_itself(file):
    query = hl.query(file).filter("int8 > 1").filter("flag").group_by("text").limit(3)
    said = repr(query)
    assert said == f"Query(path={str(file)!r}, device=cpu, filter=('int8 > 1', 'flag'), group_by=('text'), limit=3)"
    assert "\n" not in repr(query.agg("count(*)"))
