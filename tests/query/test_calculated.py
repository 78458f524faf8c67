"""What is calculated row by row, and ``like``: as DuckDB has them."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
duckdb = pytest.importorskip("duckdb")

import hinterland as hl  # noqa: E402
from hinterland.query.texts import TextCodes  # noqa: E402
from hinterland.runtime import warned  # noqa: E402
from hinterland.runtime.errors import ConfigError  # noqa: E402

from .tables import write  # noqa: E402

CELLS = {
    "a": (pa.int8(), st.integers(-128, 127)),
    "b": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "c": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)),
    "d": (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 9)),
    "f": (pa.float32(), st.floats(width=32) | st.sampled_from([0.0, 1.5])),
    "g": (pa.float64(), st.floats() | st.sampled_from([0.0, -0.5])),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | cells for name, (_, cells) in CELLS.items()}), min_size=1, max_size=5)
NUMBERS = st.sampled_from(["0", "2", "-7", "1.5", "0.25"])


def joined(parts):
    one_number = st.tuples(parts, st.sampled_from("+-*/"), NUMBERS) | st.tuples(NUMBERS, st.sampled_from("+-*/"), parts)
    return (one_number | st.tuples(parts, st.sampled_from("+-*/"), parts)).map(lambda found: f"({' '.join(found)})")


TERMS = st.recursive(st.sampled_from(list(CELLS)), joined, max_leaves=5).filter(lambda term: term[0] == "(")
DATABASE = duckdb.connect()


def by_duckdb(table, term, sign, bound, whole="bigint"):
    """How many rows there are of which ``term sign bound`` is true; None where a whole number is beyond its type."""
    DATABASE.register("given", table)
    casts = ", ".join(f"{name}::{'double' if name in 'fg' else whole} {name}" for name in CELLS if name in term)
    sql = term.replace("1.5", "1.5e0").replace("0.25", "0.25e0")  # these are decimals in SQL
    try:
        # NaN compares as IEEE 754 has it here, and is greater than all else in DuckDB.
        asked = f"select count(*) from (select {sql} x from (select {casts} from given)) where x {sign} {bound}"
        return DATABASE.execute(f"{asked} and not isnan(x::double)").fetchall()[0][0]
    except (duckdb.OutOfRangeException, duckdb.ConversionException):
        return None


@settings(max_examples=80, deadline=None)
@given(ROWS, TERMS, st.sampled_from(["<", "<=", "=", ">=", ">"]), st.integers(-9, 9))
def test_filters_find_what_duckdb_finds(tmp_path_factory, rows, term, sign, bound):
    table = pa.table({name: pa.array([row[name] for row in rows], type_) for name, (type_, _) in CELLS.items()})
    path = write(table, tmp_path_factory.mktemp("t") / "t", "arrow", 2)
    wanted = by_duckdb(table, term, sign, bound)
    query = hl.query(path).filter(f"{term} {sign} {bound}")
    try:
        found = query.agg("count(*)").rows[0]["count(*)"]
    except ConfigError as error:
        assert wanted is None and "divide a number by 1" in str(error)
    else:  # of ``x * 2 = 0`` DuckDB may make ``x = 0``, of which nothing overflows
        assert found == (by_duckdb(table, term, sign, bound, "hugeint") if wanted is None else wanted)


@pytest.fixture(params=["duckdb", "lanes"])
def fares(request, tmp_path):
    """Asked of DuckDB, and of a GPU of 32 lanes."""
    columns = {
        "fare": [1.5, None, 8.0, 0.0], "tip": [2.0, 1.0, None, -0.5], "riders": pa.array([1, 2, 3, None], pa.int8()),
        "cents": pa.array([100, 127, -128, 5], pa.int8()), "zero": [0, 0, 0, 0], "big": [2**62, 1, 2, 3],
        "unsigned": pa.array([2**64 - 1, 1, 2, 3], pa.uint64()),
        "money": pa.array([Decimal("1.25"), None, Decimal("-3.10"), Decimal("0.01")], pa.decimal128(10, 2)),
    }  # fmt: skip
    file = write(pa.table(columns), tmp_path / "fares", "parquet", 3)
    if request.param == "duckdb":
        return hl.query(file)
    request.getfixturevalue("on_lanes")
    return hl.query(file, host_budget="1MiB")


@pytest.mark.parametrize(
    ("aggregate", "value"),
    [
        ("sum(fare * tip)", 3.0),
        ("sum(cents + cents)", 208),  # beyond int8
        ("max(cents * cents)", 128 * 128),
        ("min(-riders)", -3),
        ("count(fare + tip)", 2),
        ("avg(riders * 2)", 4.0),
        ("mean(fare / riders)", (1.5 + 8 / 3) / 2),
        ("max(riders / zero)", math.inf),
        ("sum(riders / 2)", 3.0),
        ("sum(riders * 0.5)", 3.0),
        ("sum(money + 1)", Decimal("1.16")),
        ("sum(money * 1.5)", Decimal("-2.760")),
        ("max(money * money)", Decimal("9.6100")),
        ("min(money - riders)", Decimal("-6.10")),
        ("max(money / riders)", 1.25),
        ("sum(2 * 3 + zero)", 24),
        ("max((fare + 1) * (tip - 1))", 2.5),
        ("sum(fare * 2) / sum(riders + 0)", 19 / 6),
        ("mean_ratio(fare + tip, riders)", 3.5),
        ("max(unsigned / 1)", float(2**64 - 1)),
    ],
)  # fmt: skip
def test_aggregates_of_what_is_calculated(fares, aggregate, value):
    found = fares.agg(aggregate).rows[0][aggregate]
    assert type(found) is type(value)
    assert math.isclose(found, value, rel_tol=1e-15) if isinstance(value, float) else found == value


@pytest.mark.filterwarnings("ignore:.*answered by the CPU")
@pytest.mark.parametrize("aggregate", ["sum(big * 4)", "sum(big + big)", "max(unsigned + 0)", "min(0 - big - big - big)"])
def test_whole_numbers_beyond_64_bits_are_refused(fares, aggregate):
    with pytest.raises(ConfigError, match="out of range|Overflow in .*; divide a number by 1"):
        fares.agg(aggregate)


@pytest.mark.parametrize(
    ("predicate", "count"),
    [
        ("fare + tip > 3", 1),
        ("3 < fare + tip", 1),
        ("fare + tip is null", 2),
        ("not fare + tip > 100", 2),
        ("(fare + tip) * 2 > 6 or (riders > 1)", 3),
        ("riders + 1 in (2, 3)", 2),
        ("riders * 2 not between riders and 4", 1),
        ("money * 2 > money", 2),
        ("money + money == money * 2", 3),
        ("riders / zero > 1000", 3),
        ("-riders < -2", 1),
        ("riders > 1 + 1", 1),
        ("fare > riders + 0.25", 2),
    ],
)
def test_filters_by_what_is_calculated(fares, predicate, count):
    assert fares.filter(predicate).agg("count(*)").rows == [{"count(*)": count}]


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("money * money * money * money * money * money * money * money * money * money > 1", "more than 18 digits"),
        ("fare + 'a' > 1", "a number"),
        ("fare > 1 / 0", "is no number"),
        ("fare > 1e300 * 1e300 / 0", "is no number"),
        ("fare + tip", "a comparison is missing"),
        (" + ".join(["fare"] * 200) + " > 1", "levels deep"),
    ],
)
def test_what_cannot_be_calculated_gets_a_sentence(fares, predicate, said):
    with pytest.raises(ConfigError, match=said):
        fares.filter(predicate).agg("count()")


def test_a_column_that_is_called_as_what_is_calculated(tmp_path):
    path = write(pa.table({"a": [1], "b": [2], "a + b": [7]}), tmp_path / "t", "arrow", 1)
    assert hl.query(path).agg("sum(`a + b`)").rows == [{"sum(`a + b`)": 7}]
    with pytest.raises(ConfigError, match="and it is calculated"):
        hl.query(path).agg("sum(a + b)")


def test_statistics_know_nothing_of_what_is_calculated(tmp_path):
    path = write(pa.table({"x": list(range(10_000)), "y": [1] * 10_000}), tmp_path / "t", "parquet", 1000)
    found = hl.query(path).filter("x >= 9000 and x + y > 9999").agg("sum(x * y)")
    assert found.rows == [{"sum(x * y)": 9999}] and found.matched == 1
    assert "9 of 10 row groups that statistics leave out" in found.explain()


def test_a_gpu_answers_what_is_calculated(tmp_path, on_lanes):
    table = pa.table({"x": [1, 2, 3, None] * 3000, "y": [0.0, None, 2.0, 1.0] * 3000, "t": ["a", "b", "b"] * 4000})
    file = write(table, tmp_path / "t", "arrow", 700)
    asked = ["sum(x * y)", "max(y / x)", "count(x + 1)", "mean_ratio(x + x, y)", "count(y / (x - 1))", "sum(y / (x - 1))"]
    wanted, found = (
        query.filter("x * 2 + y > 2.6 or t == 'a'").group_by("t").agg(*asked)
        for query in (hl.query(file), hl.query(file, host_budget="1MiB"))
    )
    assert repr(found.rows) == repr(wanted.rows) and found.bytes is not None  # zero by zero is NaN


def test_a_number_that_overflows_where_no_row_matches(tmp_path, on_lanes, monkeypatch):
    """A GPU's columns are calculated for all rows, so that the CPU has to answer."""
    monkeypatch.setattr(warned, "_told", set())
    file = write(pa.table({"x": [2**62, 2, 3]}), tmp_path / "t", "arrow", 2)
    with pytest.warns(UserWarning, match=r"answered by the CPU: over all rows 'x \* 4' cannot be calculated: .*[Oo]verflow"):
        found = hl.query(file, host_budget="1MiB").filter("x < 9").agg("sum(x * 4)")
    assert found.rows == [{"sum(x * 4)": 20}]


TEXTS = st.text(st.sampled_from("ab%_\\\n.*é日") | st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | TEXTS, min_size=1, max_size=6), TEXTS)
def test_like_is_duckdbs_on_both_processors(tmp_path_factory, texts, pattern):
    path = write(pa.table({"t": pa.array(texts, pa.string())}), tmp_path_factory.mktemp("t") / "t", "arrow", 3)
    wanted = [
        None if text is None else DATABASE.execute("select $1 like $2", [text, pattern]).fetchall()[0][0] for text in texts
    ]
    quoted = pattern.replace("'", "''")
    for column in ("t", "((t))"):
        found = hl.query(path).filter(f"{column} like '{quoted}'").rows().tolist()
        assert found == [at for at, is_like in enumerate(wanted) if is_like]
    assert hl.query(path).filter(f"t not like '{quoted}'").rows().tolist() == [
        at for at, is_like in enumerate(wanted) if is_like is False
    ]
    codes = TextCodes()  # as a GPU looks texts up
    some = [text for text in texts if text is not None]
    numbers = codes.codes(pa.array(some, pa.string()))
    assert codes.truths(("like", (pattern,)))[numbers].tolist() == [is_like for is_like in wanted if is_like is not None]
