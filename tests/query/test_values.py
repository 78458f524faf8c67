"""Values of different types beside each other, as Python compares them: exactly; and times, all of a column of one type."""

from __future__ import annotations

import datetime
import math
import operator

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

import hinterland as hl  # noqa: E402
from hinterland.runtime.errors import ConfigError  # noqa: E402

from .tables import write  # noqa: E402

ORDERS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
EDGES = [0, *(2**power + step for power in (53, 62, 63, 64) for step in (-1025, -1024, -513, -512, -1, 0, 1, 2, 3, 1024))]
WHOLES = {
    "int64": [one for edge in EDGES for one in (edge, -edge) if -(2**63) <= one < 2**63],
    "uint64": [edge for edge in EDGES if edge < 2**64],
}
FLOATS = [sign * float(edge) for edge in EDGES for sign in (1, -1)] + [0.5, -0.5, 1e300, math.inf, -math.inf, math.nan]
FLOATS += [2048.0, 65504.0]


def narrowed(kind):
    """As floats of fewer bits have them."""
    with np.errstate(over="ignore"):
        return np.array(FLOATS, kind).astype(np.float64).tolist()


@pytest.mark.parametrize("first", ["int64", "uint64", "float64", "float32"])
@pytest.mark.parametrize("second", ["int64", "uint64", "float64"])
def test_columns_compare_exactly(tmp_path, first, second, device):
    """2**53 + 1 is not 2.0**53, its nearest float64. Small numbers, which are compared as floats, come blocks later."""
    values = WHOLES | {"float64": FLOATS, "float32": narrowed("float32")}
    pairs = [(a, b) for a in values[first] for b in values[second]] + [(7, 7), (6, 7)] * 2500
    table = pa.table({name: pa.array([pair[at] for pair in pairs], kind) for at, (name, kind) in enumerate(
        [("a", first), ("b", second)])})  # fmt: skip
    asked = hl.query(write(table, tmp_path / "t", "arrow", 3000), device=device)
    for order, holds in ORDERS.items():
        assert asked.filter(f"a {order} b").agg("count()").matched == sum(holds(a, b) for a, b in pairs), order


@pytest.mark.parametrize("kind", ["float64", "float32", "float16"])
def test_floats_compare_with_whole_literals_exactly(tmp_path, kind, device):
    values = narrowed(kind)
    table = pa.table({"x": pa.array(np.array(values, kind))})
    asked = hl.query(write(table, tmp_path / "t", "arrow", 3000), device=device)
    for literal in (*EDGES, *(-edge for edge in EDGES), 2049, 65505, 10**308, 10**399, -(10**399)):
        for order, holds in ORDERS.items():
            found = asked.filter(f"x {order} {literal}").agg("count()").matched
            assert found == sum(holds(value, literal) for value in values), (order, literal)
    assert asked.filter(f"x == {float(2**53 + 1)!r}").agg("count()").matched == values.count(2.0**53)


def test_times_with_a_zone_do_not_compare_with_those_without(tmp_path):
    moments = [datetime.datetime(2019, 3, 1)]
    zoned = [pa.array(moments, pa.timestamp("us", zone)) for zone in ("UTC", "Europe/Berlin", None)]
    asked = hl.query(write(pa.table(dict(zip("abc", zoned, strict=True))), tmp_path / "t", "arrow", 10))
    assert asked.filter("a == b").agg("count()").matched == 1
    with pytest.raises(ConfigError, match="do not compare"):
        asked.filter("a == c").agg("count()")


FAR = 2**40  # seconds: in the year 36812


@pytest.mark.parametrize(
    ("kind", "stored", "wanted"),
    [
        (pa.timestamp("ns"), [1, 1000], "datetime64[ns]"),
        (pa.timestamp("ns"), [2000, 1000], "datetime64[ns]"),
        (pa.timestamp("ns", "Europe/Berlin"), [1, 1000], "datetime64[ns]"),
        (pa.timestamp("us"), [1, 1000], datetime.datetime),
        (pa.timestamp("us", "Europe/Berlin"), [1, 1000], datetime.datetime),
        (pa.timestamp("s"), [1, FAR], "datetime64[s]"),
        (pa.timestamp("s", "Europe/Berlin"), [1, FAR], "datetime64[s]"),
        (pa.timestamp("ms", "Nowhere/Known"), [1, 1000], "datetime64[ms]"),
        (pa.date32(), [1, 18000], datetime.date),
        (pa.date32(), [1, 2**30], "datetime64[D]"),
        (pa.date64(), [86_400_000, 2 * 86_400_000], datetime.date),
        (pa.date64(), [0, FAR * 86_400], "datetime64[ms]"),
    ],
    ids=str,
)
def test_times_of_a_column_are_of_one_type(tmp_path, kind, stored, wanted, device):
    """Whether pandas is there or not, whatever the values' digits: never numbers, nor one type beside another."""
    width = np.int32 if kind == pa.date32() else np.int64
    array = pa.array(np.array(stored, width)).view(kind)
    asked = hl.query(write(pa.table({"t": array}), tmp_path / "t", "arrow", 10), device=device)
    rows = [*asked.group_by("t").agg("count()").rows, *({"t": one} for one in asked.agg("min(t)", "max(t)").rows[0].values())]
    found = [row["t"] for row in rows]
    if isinstance(wanted, str):
        expected = [np.int64(one).view(wanted) for one in sorted(stored)]
        assert {one.dtype for one in found} == {np.dtype(wanted)}
    else:
        expected = pa.array(np.array(sorted(stored), width)).view(kind).to_pylist()
        assert {type(one) for one in found} == {wanted}
    assert found == expected * 2


def test_the_bounds_of_groups_without_values(tmp_path):
    """Do not make the type of others."""
    table = pa.table({"k": [1, 2, 2], "t": pa.array([None, 5, 7], pa.timestamp("us"))})
    rows = hl.query(write(table, tmp_path / "t", "arrow", 10)).group_by("k").agg("min(t)", "max(t)").rows
    epoch = datetime.datetime(1970, 1, 1)
    ends = [epoch + datetime.timedelta(microseconds=one) for one in (5, 7)]
    assert rows == [{"k": 1, "min(t)": None, "max(t)": None}, {"k": 2, "min(t)": ends[0], "max(t)": ends[1]}]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("0.1", 0.1),
        ("2", 2),
        ("2.0", 2),
        ("-1e-3", -0.001),
        ("(.5)", 0.5),
        ("1e30", 10**30),
        ("0.5 + 0.5", 1),
    ],
)
def test_a_number_by_itself_is_an_int_or_a_float(tmp_path, asked, wanted, device):
    """And calculates exactly: a tenth of ten is 1."""
    query = hl.query(write(pa.table({"x": [4, 6], "k": [1, 2]}), tmp_path / "t", "arrow", 10), device=device)
    found = query.agg(asked, "0.1 * sum(x)").rows[0]
    assert (found[asked], type(found[asked])) == (wanted, type(wanted))
    assert (found["0.1 * sum(x)"], type(found["0.1 * sum(x)"])) == (1, int)
    assert [row[asked] for row in query.group_by("k").agg(asked).rows] == [wanted] * 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("test", "matched"), [("> 3.4028235e38", 1), (">= 340282346638528859811704183484516925441", 1)])
def test_bounds_beyond_what_a_column_holds(test, matched, tmp_path):
    file = write(pa.table({"f": pa.array([1.0, float("inf")], "float32")}), tmp_path / "t", "arrow", 10)
    assert hl.query(file).filter(f"f {test}").agg("count()").rows == [{"count()": matched}]
