"""Verdicts on a dictionary's entries: rows are judged by their codes as they would be by their values."""

import contextlib
import math

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.query.bounds import kind_of  # noqa: E402
from hinterland.query.expression import predicate  # noqa: E402
from hinterland.query.filtering import Verdicts  # noqa: E402
from hinterland.query.parquet import ParquetFile  # noqa: E402
from hinterland.query.program import Program  # noqa: E402
from hinterland.query.run import Run  # noqa: E402

from .tables import made  # noqa: E402

ROWS = 20_000
TABLE = made(ROWS)
PREDICATES = [
    "int64 >= 3.5",
    "uint64 > 3 and uint64 != 9",
    "int32 between -1 and 6 or int32 == 50",
    "not (int16 < 2)",
    "int16 is null or int16 > 5",
    "uint32 in (1, 5, 7)",
    f"uint32 in ({', '.join(map(str, range(3, 400, 3)))}) and uint32 != 6",
    "float64 > 0.25 and not (float64 >= 0.75)",
    "float32 <= 0.1 or float64 != 0",
    "half <= 0.5",
    "money > 0.015 and money <= 3",
    "day >= '2019-01-15' and text == 'cash'",
    "moment < '2019-01-01 12:00'",
]


@contextlib.contextmanager
def judging():
    """Columns that verdicts stand for, part by part, while queries run."""
    judged, filtered = [], Run._filter

    def filter_(self, *given):
        found = filtered(self, *given)
        judged.append(found[1])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_filter", filter_)
        yield judged


def answers(path, where):
    """What is asked of rows, and the columns that were judged."""
    with judging() as judged:
        found = (
            hl.query(path).filter(where).agg("count()", "sum(int64)", "sum(float64)", "max(int16)", "min(half)", "sum(money)")
        )
    return found.rows, judged


def without_verdicts(path, where):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Verdicts, "of", classmethod(lambda cls, kind, tests: None))
        return answers(path, where)


@pytest.fixture(scope="module", params=["one row group", "row groups of 3,000 rows", "dictionaries that end early"])
def path(request, tmp_path_factory):
    options = {"row_group_size": 3000} if "3,000" in request.param else {}
    if "early" in request.param:
        options = {"dictionary_pagesize_limit": 64, "data_page_size": 500}
    path = tmp_path_factory.mktemp(request.param.split()[-1]) / "t.parquet"
    pyarrow.parquet.write_table(TABLE, path, **options)
    return path


@pytest.mark.parametrize("where", PREDICATES)
def test_rows_are_those_that_their_values_choose(path, where):
    found, judged = answers(path, where)
    expected, none = without_verdicts(path, where)
    assert repr(found) == repr(expected)  # to the bit, NaN included
    assert not any(none)
    assert any(judged) or path.parent.name.startswith("early")


def test_columns_in_dictionaries_are_judged_and_others_are_not(tmp_path):
    table = pa.table(
        {"x": np.arange(ROWS) % 7 * 1.5, "y": np.arange(ROWS) / 3, "small": (np.arange(ROWS) % 9).astype(np.uint8)}
    )
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", use_dictionary=["x", "small"])
    with judging() as judged:
        found = hl.query(tmp_path / "t.parquet").filter("x > 3 and y < 100 and small != 2").agg("count()", "sum(x)")
    assert judged == [{"x"}]
    x, y, small = (table[name].to_numpy() for name in ("x", "y", "small"))
    matching = (x > 3) & (y < 100) & (small != 2)
    assert found.rows == [{"count()": matching.sum(), "sum(x)": x[matching].sum()}]


def test_a_column_whose_values_many_rows_need_is_judged_no_more(tmp_path, monkeypatch):
    pyarrow.parquet.write_table(pa.table({"x": np.arange(ROWS) % 7}), tmp_path / "t.parquet", row_group_size=4096)
    parts = ParquetFile.parts_left
    monkeypatch.setattr(ParquetFile, "parts_left", lambda self, program, names, rows: parts(self, program, names, 4096))
    with judging() as judged:
        sums = hl.query(tmp_path / "t.parquet").filter("x > 2").agg("sum(x)")
        assert judged[0] == {"x"} and not any(judged[1:]) and len(judged) > 2
        judged.clear()
        count = hl.query(tmp_path / "t.parquet").filter("x > 2").agg("count()")
        assert judged == [{"x"}] * len(judged)
    x = np.arange(ROWS) % 7
    assert sums.rows == [{"sum(x)": x[x > 2].sum()}] and count.rows == [{"count()": (x > 2).sum()}]


def test_more_tests_than_a_byte_has_bits(tmp_path):
    pyarrow.parquet.write_table(pa.table({"x": np.arange(ROWS) % 100}), tmp_path / "t.parquet")
    x = np.arange(ROWS) % 100
    for tests in (8, 9):
        where = " or ".join(f"x between {10 * k} and {10 * k + 2}" for k in range(tests // 2))
        where += " or x == 99" if tests % 2 else ""
        matching = np.isin(x, [10 * k + j for k in range(tests // 2) for j in range(3)] + [99] * (tests % 2))
        rows = hl.query(tmp_path / "t.parquet").filter(where).agg("count()").rows
        assert rows == [{"count()": matching.sum()}]


@pytest.mark.parametrize("where", ["money > 0.015", "float64 > 0.25 and money < 3"])
def test_a_dictionary_that_cannot_be_judged_is_left_to_pyarrow(path, monkeypatch, where):
    """As one with decimals of more than 18 digits, which are damage only where a row has one."""
    expected = hl.query(path).filter(where).agg("count()", "sum(money)")
    monkeypatch.setattr(Verdicts, "of_entries", lambda self, address, count: None)
    assert hl.query(path).filter(where).agg("count()", "sum(money)").rows == expected.rows


def test_wide_decimals_are_no_entries_to_judge():
    kind = kind_of(pa.decimal128(18, 2))
    verdicts = Verdicts.of(kind, Program(predicate("money > 1"), {"money": kind}).tests)
    narrow, wide = np.array([[50, 0], [200, 0], [-300, -1]]), np.array([[50, 0], [200, 7]])
    assert verdicts.of_entries(narrow.ctypes.data, 3).tolist() == [0, 1, 0]
    assert verdicts.of_entries(wide.ctypes.data, 2) is None


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.none(), st.floats(width=64), st.sampled_from([0.0, -0.0, math.nan, math.inf])), max_size=300),
    low=st.floats(allow_nan=False, allow_infinity=False),
    high=st.floats(allow_nan=False, allow_infinity=False),
)
def test_floats_are_compared_as_pyarrow_compares_them(tmp_path_factory, values, low, high):
    import pyarrow.compute as pc

    path = tmp_path_factory.mktemp("floats") / "t.parquet"
    column = pa.array(values, pa.float64())
    pyarrow.parquet.write_table(pa.table({"x": column}), path)
    found = hl.query(path).filter(f"x >= {low!r} and not (x > {high!r})").agg("count()")
    both = pc.and_kleene(pc.greater_equal(column, low), pc.invert(pc.greater(column, high)))
    assert found.rows == [{"count()": pc.sum(both).as_py() or 0}]
