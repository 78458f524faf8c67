"""``hinterland query``: several files, rows and the first of them, as tables and as JSON."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")
from pyarrow import parquet  # noqa: E402

from hinterland import cli  # noqa: E402


@pytest.fixture
def query(command_line, tmp_path, monkeypatch):
    """Runs ``hinterland query`` where trips of two years lie: exit status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    for year in (2023, 2024):
        folder = tmp_path / "trips" / f"year={year}"
        folder.mkdir(parents=True)
        table = {"fare": [1.5, 2.5, None], "tip": [0.5, 3.0, 1.0], "color": ["green", None, "null"]}
        table["paid"] = pa.array([Decimal("1.10")] * 3, pa.decimal128(5, 2))
        parquet.write_table(pa.table(table), folder / "t.parquet")
    return lambda *words: command_line(cli.main, "hinterland", "query", *words)


def test_a_pattern_is_one_table(query):
    status, out, _ = query("trips/*/*.parquet", "fare + tip > 3", "--select", "count(*), sum(fare * tip), avg(tip)", "--json")
    found = json.loads(out)
    assert status == 0 and found["path"] == "trips/*/*.parquet" and found["matched"] == 2
    assert found["rows"] == [{"count(*)": 2, "sum(fare * tip)": 15.0, "avg(tip)": 3.0}]


def test_rows_are_printed(query):
    status, out, _ = query("trips", "year == 2024", "--columns", "color,fare,paid", "--json")
    assert status == 0 and json.loads(out)["rows"] == [
        {"color": "green", "fare": 1.5, "paid": "1.10"},
        {"color": None, "fare": 2.5, "paid": "1.10"},
        {"color": "null", "fare": None, "paid": "1.10"},
    ]
    status, out, _ = query("trips", "tip >= 1", "--columns", "*", "--limit", "3")
    lines = [line.split() for line in out.splitlines()]
    assert status == 0 and lines[0][:3] == ["trips:", "3", "rows;"]
    assert lines[1:5] == [
        ["fare", "tip", "color", "paid", "year"],
        ["2.5", "3.0", "null", "1.10", "2023"],
        ["null", "1.0", "'null'", "1.10", "2023"],
        ["2.5", "3.0", "null", "1.10", "2024"],
    ]
    assert query("trips", "tip >= 1", "--limit", "3")[1].splitlines()[1:5] == out.splitlines()[1:5]
    status, out, _ = query("trips", "tip > 100", "--columns", "fare", "--json")
    assert status == 0 and json.loads(out)["rows"] == []


def test_the_first_groups(query):
    status, out, _ = query("trips", "--group-by", "year", "--limit", "1", "--json")
    assert status == 0 and json.loads(out)["rows"] == [{"year": 2023, "count()": 3}]


def test_a_year_that_python_does_not_know(query):
    parquet.write_table(pa.table({"day": pa.array([2**30], pa.date32()), "x": [1]}), "far.parquet")
    assert query("far.parquet", "--columns", "day")[2].startswith(
        "hinterland: far.parquet: a row has a value that is not shown"
    )
    assert query("far.parquet", "--columns", "x", "--json")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trips/year=2023/t.parquet", "trips/year=2024/t.parquet"], "is a file; write a pattern between quotes"),
        (["trips", "--columns", "fare", "--group-by", "year"], "ask for one of both"),
        (["trips", "--columns", "fare", "--select", "sum(fare)"], "ask for one of both"),
        (["nothing/*.parquet"], "no file has such a name"),
        (["trips", "--columns", "fair"], "did you mean 'fare'?"),
    ],
)
def test_what_cannot_be_asked_gets_a_sentence(query, words, said):
    status, out, error = query(*words)
    assert (status, out) == (1, "") and said in error
