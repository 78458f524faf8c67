"""Queries beside the same questions answered row by row in Python, and by pandas."""

from __future__ import annotations

import contextlib
import datetime
import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError, HinterlandError  # noqa: E402

from .. import forked  # noqa: E402
from .tables import made, write  # noqa: E402

TAXIS = Path(__file__).parents[3] / "shared/data/taxis.csv"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))


# Each with the same of a row of Python's; None is unknown.
TESTS = [
    ("int64 >= 3.5", "int64", lambda v: v >= 3.5),
    (f"int64 < {2**70}", "int64", lambda v: True),
    ("uint64 > 9223372036854775807", "uint64", lambda v: v > 2**63 - 1),
    ("int8 == 300", "int8", lambda v: False),
    ("int8 != 5", "int8", lambda v: v != 5),
    ("5 <= uint16", "uint16", lambda v: v >= 5),
    ("uint32 in (1, 5, 7)", "uint32", lambda v: v in (1, 5, 7)),
    ("int16 not in (1, 5)", "int16", lambda v: v not in (1, 5)),
    ("int32 between -1 and 6", "int32", lambda v: -1 <= v <= 6),
    ("float64 > 0.25", "float64", lambda v: v > 0.25),
    ("float32 <= 0.1", "float32", lambda v: v <= 0.1),
    ("float64 != 0", "float64", lambda v: v != 0),
    ("half <= 0.5", "half", lambda v: v <= 0.5),
    ("money > 0.015", "money", lambda v: v > Fraction(15, 1000)),
    ("flag", "flag", lambda v: v),
    ("flag != true", "flag", lambda v: not v),
    ("day >= '2019-01-15'", "day", lambda v: v >= datetime.date(2019, 1, 15)),
    ("moment < '2019-01-01 12:00'", "moment", lambda v: v < datetime.datetime(2019, 1, 1, 12)),
    ("text == 'cash'", "text", lambda v: v == "cash"),
    ("plain >= 'card'", "plain", lambda v: v >= "card"),
    ("text <> 'nowhere'", "text", lambda v: True),
]
LEAVES = [(text, lambda row, n=name, f=test: None if row[n] is None else f(row[n])) for text, name, test in TESTS]
LEAVES += [
    ("text is null", lambda row: row["text"] is None),
    ("float64 is not null", lambda row: row["float64"] is not None),
    ("int64 < uint64", lambda row: None if None in (row["int64"], row["uint64"]) else row["int64"] < row["uint64"]),
    ("float32 == float64", lambda row: None if None in (row["float32"], row["float64"]) else row["float32"] == row["float64"]),
]


def kleene_not(a):
    return lambda row: None if a(row) is None else not a(row)


def kleene(a, b, decides):
    def joined(row):
        both = (a(row), b(row))
        return decides if decides in both else None if None in both else not decides

    return joined


PREDICATES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: (f"({p[0][0]}) and {p[1][0]}", kleene(p[0][1], p[1][1], False))),
        st.tuples(inner, inner).map(lambda p: (f"(({p[0][0]}) or ({p[1][0]}))", kleene(p[0][1], p[1][1], True))),
        inner.map(lambda p: (f"not ({p[0]})", kleene_not(p[1]))),
    ),
    max_leaves=6,
)
TABLE = made(9000)
ROWS = TABLE.to_pylist()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return {kind: write(TABLE, folder / kind, kind, rows) for kind, rows in (("arrow", 3001), ("lz4", 9000), ("parquet", 2500))}


@pytest.mark.parametrize(("text", "test"), LEAVES, ids=[text for text, _ in LEAVES])
def test_a_comparison_holds_for_the_rows_that_python_says(files, text, test):
    for path in files.values():
        assert hl.query(path).filter(text).agg("count()").rows == [{"count()": sum(test(row) is True for row in ROWS)}]


@settings(max_examples=40, deadline=None)
@given(predicate=PREDICATES)
def test_predicates_follow_kleene(files, predicate):
    text, test = predicate
    if text.startswith("("):
        text = f"({text})"
    rows = [row for row in ROWS if test(row) is True]
    for path in files.values():
        found = (
            hl.query(path).filter(text).agg("count(), sum(int64), sum(uint64), sum(money), count(plain), min(day), max(int8)")
        )
        numbers = {
            n: [row[n] for row in rows if row[n] is not None] for n in ("int64", "uint64", "money", "plain", "day", "int8")
        }
        assert found.matched == len(rows)
        assert list(found.rows[0].values()) == [
            len(rows),
            *(sum(numbers[n]) for n in ("int64", "uint64", "money")),
            len(numbers["plain"]),
            min(numbers["day"], default=None),
            max(numbers["int8"], default=None),
        ]


@pytest.mark.parametrize("keys", [["text"], ["plain", "flag"], ["int8", "text"], ["uint64"], ["day"], ["moment", "money"]])
def test_groups_are_sorted_with_nulls_last(files, keys):
    groups = {}
    for row in ROWS:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row["int64"])
    order = sorted(groups, key=lambda key: [(value is None, value if value is not None else 0) for value in key])
    for path in files.values():
        rows = hl.query(path).group_by(*keys).agg("count()", "sum(int64)", "count(int64)").rows
        assert [tuple(row[key] for key in keys) for row in rows] == order
        for key, row in zip(order, rows, strict=True):
            values = [value for value in groups[key] if value is not None]
            assert (row["count()"], row["sum(int64)"], row["count(int64)"]) == (len(groups[key]), sum(values), len(values))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_float_sums_are_as_good_as_compensation_makes_them(tmp_path, threads, set_threads):
    rng = random.Random(3)
    values = [rng.uniform(-1, 1) * 10.0 ** rng.randrange(-9, 9) for _ in range(60_000)]
    table = pa.table({"x": values, "k": [i % 7 for i in range(60_000)]})
    paths = [
        write(table, tmp_path / f"{kind}{rows}", kind, rows)
        for kind, rows in (("arrow", 60_000), ("arrow", 777), ("parquet", 9999))
    ]
    set_threads(threads)
    for path in paths:
        whole = hl.query(path).filter("k < 5").agg("sum(x)").rows[0]["sum(x)"]
        kept = [v for i, v in enumerate(values) if i % 7 < 5]
        assert abs(whole - math.fsum(kept)) <= 4 * 2**-53 * math.fsum(map(abs, kept))
        for row in hl.query(path).group_by("k").agg("sum(x), mean(x)").rows:
            kept = values[row["k"] :: 7]
            assert abs(row["sum(x)"] - math.fsum(kept)) <= 4 * 2**-53 * math.fsum(map(abs, kept))
            assert row["mean(x)"] == pytest.approx(row["sum(x)"] / len(kept), rel=1e-9)


@pytest.mark.parametrize(("values", "total"), [([1.0, math.inf, -3.0], math.inf), ([math.inf, -math.inf], math.nan),
    ([math.nan, 1.0], math.nan), ([1e308] * 3, math.inf), ([-0.0], 0.0)])  # fmt: skip
def test_sums_without_a_finite_value(tmp_path, values, total):
    path = write(pa.table({"x": values}), tmp_path / "t", "arrow", 10)
    assert str(hl.query(path).agg("sum(x)").rows) == str([{"sum(x)": total}])


@pytest.mark.parametrize(
    ("threads", "keys"),
    [(3, ["text"]), (2, ["small"]), (3, ["large"]), (1, ["large"]), (2, ["small", "text"]), (1, ["small", "text"])],
    ids=str,
)
def test_many_groups(tmp_path, threads, keys, set_threads):
    """Over more blocks than are kept, with keys that are looked up in an array, that are hashed, and nulls."""
    chance, rows = np.random.default_rng(7), 420_000
    numbers = chance.integers(0, 9000, rows)
    null = chance.random(rows) < 0.01
    table = pa.table(
        {
            "text": pa.array(np.char.add("text ", numbers.astype(str)).astype(object), pa.string(), mask=null),
            "small": pa.array(numbers // 9 - 3, mask=null),
            "large": pa.array((numbers - 4000) << 40, mask=null),
            "x": pa.array(chance.integers(-(2**62), 2**62, rows), mask=chance.random(rows) < 0.1),
        }
    )
    path = write(table, tmp_path / "t", "arrow", 100_000)
    asked = hl.query(path).group_by(*keys)
    set_threads(threads)
    found = asked.agg("count()", "count(x)", "min(x)", "max(x)").rows
    sums = asked.filter("x > 0").agg("sum(x)").rows
    groups, matched = {}, {}
    for *key, value in zip(*(table[name].to_pylist() for name in [*keys, "x"]), strict=True):
        groups.setdefault((*key,), []).append(value)
        if value is not None and value > 0:
            matched[*key,] = matched.get((*key,), 0) + value
    expected = {}
    for key, values in groups.items():
        there = [value for value in values if value is not None]
        expected[key] = [len(values), len(there), min(there), max(there)]
    names = ["count()", "count(x)", "min(x)", "max(x)"]
    assert {tuple(row[name] for name in keys): [row[name] for name in names] for row in found} == expected
    assert {tuple(row[name] for name in keys): row["sum(x)"] for row in sums} == matched


def test_whole_numbers_do_not_overflow(tmp_path):
    path = write(
        pa.table({"x": [2**63 - 1] * 5000, "u": pa.array([2**64 - 1] * 5000, "uint64")}), tmp_path / "t", "arrow", 5000
    )
    row = hl.query(path).agg("sum(x), mean(x), sum(u), max(u), sum(x) * 2 + 1").rows[0]
    assert list(row.values()) == [5000 * (2**63 - 1), float(2**63 - 1), 5000 * (2**64 - 1), 2**64 - 1, 10000 * (2**63 - 1) + 1]


@pytest.mark.skipif(not TAXIS.exists(), reason="the data set is not here")
def test_taxis_as_pandas_has_them(capsys):
    pd = pytest.importorskip("pandas")
    data = pd.read_csv(TAXIS)
    query = hl.query(TAXIS).filter("distance >= 10").filter("payment == 'cash'").group_by("color")
    found = query.agg(
        "mean(total)", "sum(fare)", "count()", "(sum(total) - sum(tolls)) / sum(distance)", "mean_ratio(total, distance)"
    )
    assert "converting it, once" in capsys.readouterr().err
    data = data[(data.distance >= 10) & (data.payment == "cash")]
    for row, (color, rows) in zip(found.rows, data.groupby("color"), strict=True):
        assert row["color"] == color and row["count()"] == len(rows)
        expected = [rows.total.mean(), rows.fare.sum(), len(rows)]
        expected += [(rows.total.sum() - rows.tolls.sum()) / rows.distance.sum(), (rows.total / rows.distance).mean()]
        assert list(row.values())[1:] == pytest.approx(expected)
    query.agg("count()")
    assert capsys.readouterr().err == ""


def test_of_no_row(files, tmp_path):
    empty = write(TABLE.slice(0, 0), tmp_path / "empty", "arrow", 10)
    for path in (*files.values(), empty):
        found = hl.query(path).filter("int8 == 1 and int8 == 5").agg("count(), sum(float64), sum(money), mean(int8), min(day)")
        assert list(found.rows[0].values()) == [0, 0, 0, None, None]
        assert hl.query(path).filter("int8 == 300").group_by("text").agg("count()").rows == []


def test_statistics_leave_row_groups_out(tmp_path):
    path = write(pa.table({"x": list(range(10_000)), "y": [1.0] * 10_000}), tmp_path / "t", "parquet", 1000)
    few = hl.query(path).filter("x >= 9990").agg("sum(y)")
    assert few.rows == [{"sum(y)": 10.0}]
    assert "9 of 10 row groups that statistics leave out" in few.explain()


@pytest.mark.parametrize(
    ("predicate", "aggregate", "said"),
    [
        ("int65 > 1", "count()", "did you mean"),
        ("int64 > 'a'", "count()", "does not compare with 'a'"),
        ("text > 1", "count()", "between single quotes"),
        ("text == int8", "count()", "do not compare"),
        ("day > 'soon'", "count()", "is no date"),
        ("int8 >", "count()", "missing"),
        ("int8 > null", "count()", "is null"),
        ("(" * 200 + "int8 > 1" + ")" * 200, "count()", "levels deep"),
        ("not " * 5000 + "flag", "count()", "levels deep"),
        ("int8 > 1 int8", "count()", "'and' or 'or' is missing"),
        ("int8 ; 1", "count()", "character 6: unknown operator ';'; there are == !="),
        ("int8 % 2 == 1", "count()", "character 6: unknown operator '%'"),
        ("int8 > 1 && flag", "count()", "unknown operator '&&'; write 'and'"),
        ("!flag", "count()", "unknown operator '!'; write 'not'"),
        ("int8 => 1", "count()", "unknown operator '=>'; write '>='"),
        ("text ilike 'a%'", "count()", "character 6: unknown operator 'ilike'"),
        ("flag", "sum(int8 // 2)", "unknown operator '//'"),
        ('text == "cash"', "count()", "no column 'cash'; it has .*or write the text between single quotes: 'cash'"),
        ("select count(*) from t where int8 > 1", "count()", "this is SQL, and the filter is less"),
        ("SELECT * FROM t", "count()", "this is SQL"),
        ("where int8 > 1", "count()", "this is SQL"),
        ("int8 > 1 group by text", "count()", "'group' is of SQL; write group_by() instead"),
        ("int8 > 1 LIMIT 5", "count()", "'LIMIT' is of SQL; write limit() instead"),
        ("int8 > 1 order by int8", "count()", "answers are sorted by their groups"),
        ("flag", "select sum(int8) from t", "this is SQL, and the aggregate is less"),
        ("int8 like '1'", "count()", "like is between a column of texts and a text"),
        ("text like int8", "count()", "a text between single quotes"),
        ("text not 'a'", "count()", "'in', 'between' or 'like' is missing"),
        ("1 < 2", "count()", "one side of a comparison is a column"),
        ("int8 + text > 1", "count()", "'text' is dictionary|'text' is string"),
        ("flag", "sum(day + 1)", "with which nothing is calculated"),
        ("flag", "sum(1)", "a column's name is missing"),
        ("flag", "sum(*)", "a column (odd names"),
        ("flag", "median(int8)", "use one of sum"),
        ("flag", "sum(text)", "use count(text)"),
        ("flag", "min(day) + 1", "no number to calculate with"),
        ("flag", "count()" + " + 1" * 5000, "levels deep"),
    ],
)
def test_what_cannot_be_asked_gets_a_sentence(files, predicate, aggregate, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(").replace(")", r"\)").replace("count(*", r"count(\*")):
        hl.query(files["arrow"]).filter(predicate).agg(aggregate)


def test_too_many_groups(tmp_path):
    path = write(pa.table({"x": list(range(70_000))}), tmp_path / "t", "arrow", 70_000)
    with pytest.raises(ConfigError, match="more than 65,536 values"):
        hl.query(path).group_by("x").agg("count()")
    assert len(hl.query(path).filter("x < 65536").group_by("x").agg("count()").rows) == 65536


def test_columns_of_other_types_are_no_obstacle(tmp_path):
    path = write(pa.table({"x": [1, 2], "list": [[1], []]}), tmp_path / "t", "arrow", 10)
    assert hl.query(path).agg("sum(x)").rows == [{"sum(x)": 3}]
    with pytest.raises(ConfigError, match="'list' is list<"):
        hl.query(path).agg("count(list)")


def test_a_code_that_the_dictionary_does_not_have_is_damage(tmp_path):
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 9, 1], pa.int8()), pa.array(["a", "b"]), safe=False)
    path = tmp_path / "t"
    table = pa.table({"t": bad})
    with pa.OSFile(str(path), "w") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    for query in (hl.query(path).filter("t == 'a'"), hl.query(path).group_by("t")):
        with pytest.raises(FormatError, match="damaged"):
            query.agg("count()")


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(["arrow", "parquet", "lz4"]))
def test_damaged_files_end_in_a_sentence(tmp_path_factory, files, seed, kind):
    rng, data = random.Random(seed), bytearray(files[kind].read_bytes())
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    for _ in range(rng.randrange(1, 6)):
        at = rng.choice([rng.randrange(len(data) + 1), max(len(data) - rng.randrange(1, 4000), 0)])
        data[at : at + 1] = bytes([rng.randrange(256)])
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(data)
    with contextlib.suppress(HinterlandError):
        hl.query(path).filter("text == 'cash' and int64 > 1").group_by("plain").agg("sum(float64), sum(money), min(day)")


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_floats_at_the_bound_itself(tmp_path, kind):
    """Narrow floats that are equal to the literal, and the ones next to 0.1, are on the right side of it."""
    pyarrow.feather.write_feather(pa.table({"x": np.array([-1, -0.0, 0, 0.1, 1, 2], kind)}), tmp_path / "t")
    values = np.array([-1, -0.0, 0, 0.1, 1, 2], kind).astype(np.float64)
    for literal in (-1.0, 0.0, 0.1, 1.0, 2.0):
        for order, holds in (
            ("<", np.less),
            ("<=", np.less_equal),
            (">", np.greater),
            (">=", np.greater_equal),
            ("==", np.equal),
        ):
            found = hl.query(tmp_path / "t").filter(f"x {order} {literal}").agg("count()")
            assert found.matched == int(holds(values, literal).sum()), (order, literal)


def test_what_matched_is_kept_through_parts_without_matches(tmp_path):
    """A block that ends in a later part than the one with its matches is added up after parts in which no row matches."""
    x = np.zeros(20_000)
    x[50] = 7
    pyarrow.parquet.write_table(pa.table({"x": x}), tmp_path / "t", row_group_size=100, write_statistics=False)
    assert hl.query(tmp_path / "t").filter("x > 1").agg("sum(x)", "count(x)").rows == [{"sum(x)": 7.0, "count(x)": 1}]


def test_rows_without_columns_are_counted_at_once(tmp_path):
    """A damaged head of a batch may claim any number of rows."""
    pyarrow.feather.write_feather(pa.table({"x": [1.5] * 12_345}), tmp_path / "t", compression="uncompressed")
    claimed = (tmp_path / "t").read_bytes().replace((12_345).to_bytes(8, "little"), (1 << 50).to_bytes(8, "little"))
    (tmp_path / "t").write_bytes(claimed)
    found = hl.query(tmp_path / "t")
    assert found.agg("count()").matched == 1 << 50
    with pytest.raises(FormatError, match="damaged"):
        found.agg("sum(x)")


def test_literals_beyond_a_float(tmp_path):
    pa.parquet.write_table(pa.table({"x": [1.0, 2.0, 1e308]}), tmp_path / "x.parquet")
    asked = hl.query(tmp_path / "x.parquet")
    for where, count in [("x < 1e309", 3), ("x > -1e309", 3), ("x == 1e400", 0), ("x > 1e400", 0)]:
        assert asked.filter(where).agg("count()").rows == [{"count()": count}]
    for what, value in [("1e400*sum(x)", math.inf), ("1e400/3", math.inf), ("sum(x)/1e400", 0.0), ("sum(x)/1e-330", None)]:
        assert asked.agg(what).rows == [{what: value}]


FORKED = """
import os, sys, threading, hinterland as hl
query = hl.query(sys.argv[1]).group_by("t")
query.agg("count()")
query.held.one_at_a_time.acquire()  # as a thread that asks meanwhile does
def asks_in_child():
    pid = os.fork()
    if pid == 0:
        os._exit(len(query.agg("count()").rows))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
other = threading.Thread(target=asks_in_child)
other.start()
other.join()
"""


def test_a_child_forked_while_a_thread_asks(tmp_path):
    path = write(pa.table({"t": ["a", "b", "c"] * 1000}), tmp_path / "t", "arrow", 500)
    assert forked.run("-c", FORKED, path, check=True).stdout == "3\n"


def test_a_key_that_is_called_as_an_aggregate(tmp_path):
    path = write(pa.table({"count()": ["a", "b"]}), tmp_path / "t", "arrow", 500)
    with pytest.raises(ConfigError, match="a key and an aggregate are both called 'count\\(\\)'"):
        hl.query(path).group_by("count()").agg("count()")
    assert hl.query(path).group_by("count()").agg("count( )").rows == [
        {"count()": "a", "count( )": 1}, {"count()": "b", "count( )": 1}
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_lists_of_many_numbers(tmp_path, kind):
    """More than a GPU takes comparisons are looked for together, also in statistics of pages."""
    rng = random.Random(5)
    rows = 20_000
    columns = {
        "int8": [rng.randrange(-128, 128) for _ in range(rows)],
        "uint64": sorted(rng.choice([rng.randrange(500), 2**64 - 1 - rng.randrange(500)]) for _ in range(rows)),
        "int64": [rng.choice([None, rng.randrange(-(2**63), 2**63), rng.randrange(300)]) for _ in range(rows)],
        "float64": [float(rng.randrange(300)) for _ in range(rows)],
        "money": [Decimal(rng.randrange(100_000)).scaleb(-2) for _ in range(rows)],
        "day": [datetime.date(2019, 1, 1) + datetime.timedelta(days=row % 400) for row in range(rows)],
    }
    types = [pa.int8(), pa.uint64(), pa.int64(), pa.float64(), pa.decimal128(9, 2), pa.date32()]
    table = pa.table({name: pa.array(values, type_) for (name, values), type_ in zip(columns.items(), types, strict=True)})
    path = write(table, tmp_path / "t", kind, 1500)
    for name, values in columns.items():
        some = rng.sample([value for value in values[:500] if value is not None], 90)
        beyond = [] if name == "day" else [10**25, Fraction(1, 3), -1000]
        shown = [
            f"'{one}'" if name == "day" else f"{float(one)!r}" if isinstance(one, Fraction) else str(one)
            for one in some + beyond
        ]
        asked = hl.query(path)
        there = sum(value in some for value in values)
        assert asked.filter(f"{name} in ({', '.join(shown)})").agg("count()").rows == [{"count()": there}]
        nulls = values.count(None)
        assert asked.filter(f"{name} not in ({', '.join(shown)})").agg("count()").rows == [{"count()": rows - there - nulls}]
    fractions = ", ".join(f"{number}.5" for number in range(100))  # of which none is a whole number
    assert hl.query(path).filter(f"int64 in ({fractions})").agg("count()").matched == 0
    assert hl.query(path).filter(f"int64 not in ({fractions})").agg("count()").matched == rows - table["int64"].null_count
    nowhere = ", ".join(map(str, range(10_000, 10_100)))
    found = hl.query(path).filter(f"uint64 in ({nowhere})").agg("count()")
    assert found.rows == [{"count()": 0}] and (kind == "arrow" or "13 of 14 row groups" in found.explain())
    with pytest.raises(ConfigError, match="does not compare"):
        hl.query(path).filter(f"int64 in ({nowhere}, 'x')").agg("count()")


def test_columns_may_be_called_as_sql_has_words(tmp_path):
    words = ["select", "from", "where", "like", "limit", "group"]
    path = write(pa.table({word: [1, 2] for word in words}), tmp_path / "t", "arrow", 1)
    for word in words:
        for predicate in (f"{word} > 1", f"{word} in (2, 3)", f"{word} * 2 > 2", f"1 < {word}"):
            assert hl.query(path).filter(predicate).agg(f"sum({word})").rows == [{f"sum({word})": 2}]


def test_a_column_beside_one_between_double_quotes(tmp_path):
    path = write(pa.table({"a": ["x", "y"], "b": ["x", "z"]}), tmp_path / "t", "arrow", 1)
    with pytest.raises(ConfigError) as found:
        hl.query(path).filter('a == "b"').agg("count()")  # b is there
    assert "single quotes: " not in str(found.value)
