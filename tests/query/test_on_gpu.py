"""Queries on a GPU give the CPU's answers, but for sums of floats: those are made in the order that is said, to the bit."""

from __future__ import annotations

import random
import re
import sys
import warnings
from typing import NamedTuple

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

import hinterland as hl  # noqa: E402
from hinterland import _core  # noqa: E402
from hinterland.query.on_gpu import MOST_GROUPS, OnGpu  # noqa: E402
from hinterland.runtime import warned  # noqa: E402
from hinterland.runtime.errors import FormatError  # noqa: E402

from .sums import summed  # noqa: E402
from .tables import INTEGERS, made, write  # noqa: E402
from .test_query import TESTS  # noqa: E402

pytestmark = pytest.mark.gpu

ROWS = 20_011
NUMBERS = [*INTEGERS, "float32", "float64", "half", "money"]
TABLE = made(ROWS).append_column("row", pa.array(range(ROWS)))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HINTERLAND_CACHE_DIR", str(tmp_path / "cache"))


class Given(NamedTuple):
    """A file, and whether numbers that repeat are held as codes, as nearly all of these do."""

    kind: str
    rows: int
    coded: bool = True


@pytest.fixture(
    scope="module",
    params=[Given("arrow", 5000), Given("arrow", 1 << 20, False), Given("lz4", 777, False), Given("parquet", 3000)],
)
def given(request):
    return request.param


@pytest.fixture(scope="module")
def file(given, tmp_path_factory):
    return write(TABLE, tmp_path_factory.mktemp("tables") / f"table.{given.kind}", given.kind, given.rows)


@pytest.fixture(scope="module")
def on_gpu(given, file):
    query = hl.query(file, device="cuda")
    with pytest.MonkeyPatch.context() as patch:
        if not given.coded:
            patch.setattr(_core.QueryCodes, "add", lambda *given: False)
        query.agg(*everything(NUMBERS), "max(day)", "max(moment)")  # which copies all columns that may be coded
    return query


GROUPED = ("float64", "int64", "money")


def same(found, query, table, rows, keys=(), by_cpu=False):
    """Beside the CPU's answer to a query, of which ``rows`` match. By their text: NaN is NaN there, and every digit counts, but
    of sums of floats that a CPU made, in no order that is said."""
    aggregates = [name for name in (found.rows or [{}])[0] if name not in keys]
    wanted = (query.group_by(*keys) if keys else query).agg(*(aggregates or ["count()"]))
    groups = {}
    for key, row in (
        zip(zip(*(table[key].take(pa.array(rows, "int64")).to_pylist() for key in keys), strict=True), rows, strict=True)
        if keys
        else ()
    ):
        groups.setdefault(key, []).append(row)
    for one in wanted.rows if found.rows else ():
        group = groups[tuple(one[key] for key in keys)] if keys else rows
        for text in aggregates:
            one[text] = in_order(text, one[text], table, group, bool(keys))
    if by_cpu:
        for one in (*found.rows, *wanted.rows):
            for text in ("sum(float64)", "mean(float64)"):
                del one[text]
    for ours, other in zip(found.rows, wanted.rows if found.rows else (), strict=True):
        assert repr(ours) == repr(other)
    assert found.matched == wanted.matched == len(rows)


def in_order(text, found, table, rows, grouped):
    """An aggregate of rows: what the CPU found, but for sums of floats."""
    if ratio := re.fullmatch(r"mean_ratio\((\w+), (\w+)\)", text):
        (over, first), (under, second) = (floats_of(table, name) for name in ratio.groups())
        with np.errstate(all="ignore"):
            total, count = total_of(over / under, first & second, rows, grouped)
        return total / count if count else None
    if ratio := re.fullmatch(r"(sum\(\w+\)) / (sum\(\w+\))", text):
        over, under = (in_order(one, None, table, rows, grouped) for one in ratio.groups())
        return over / under if under else None
    asked = re.fullmatch(r"(sum|mean)\((\w+)\)", text)
    if asked is None or (found is not None and not pa.types.is_floating(table.schema.field(asked[2]).type)):
        return found
    total, count = total_of(*floats_of(table, asked[2]), rows, grouped)
    return total if asked[1] == "sum" else total / count if count else None


def floats_of(table, name):
    """A column, and which rows have a value."""
    values = table[name].to_pylist()
    return np.array([0.0 if one is None else float(one) for one in values]), table[name].is_valid().to_numpy()


def total_of(values, valid, rows, grouped):
    rows = np.array(rows, np.int64)
    rows = rows[valid[rows]]
    return summed(values, rows, grouped), len(rows)


def rows_of(query):
    """The rows that match, of a table that numbers them."""
    return [row["row"] for row in query.group_by("row").agg("count()").rows]


def both(file, on_gpu, predicate):
    """The query to the CPU and to the GPU, and the rows that match."""
    cpu, gpu = (query if predicate is None else query.filter(predicate) for query in (hl.query(file), on_gpu))
    return cpu, gpu, rows_of(cpu)


def everything(columns):
    return [f"{function}({name})" for name in columns for function in ("sum", "mean", "min", "max", "count")] + ["count()"]


@pytest.mark.parametrize(
    "predicate",
    [
        None,
        *(text for text, _, _ in TESTS),
        "float64 > 0.5 and not (int16 == 7 or uint64 >= 5)",
        "flag is null or flag == true and text is not null",
        "not (uint8 in (0, 5)) and float32 <= 0.75",
        "int32 < uint64 or money == money",
        "float64 >= half or int8 != int64",
        "int64 == 1 and int64 == 5",
    ],
)
class TestAnswers:
    def test_aggregates(self, file, on_gpu, predicate):
        cpu, gpu, rows = both(file, on_gpu, predicate)
        same(gpu.agg(*everything(NUMBERS), "count(flag)"), cpu, TABLE, rows)

    def test_ratios(self, file, on_gpu, predicate):
        cpu, gpu, rows = both(file, on_gpu, predicate)
        aggregates = ["mean_ratio(float64, int8)", "mean_ratio(money, float32)", "sum(float64) / sum(int8)"]
        same(gpu.agg(*aggregates), cpu, TABLE, rows)

    @pytest.mark.parametrize("keys", [("flag",), ("plain",), ("text", "flag", "day"), ("int8",)])
    def test_groups(self, file, on_gpu, predicate, keys, monkeypatch):
        monkeypatch.setattr(warned, "_told", set())  # of each question anew whether the CPU answers
        cpu, gpu, rows = both(file, on_gpu, predicate)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = gpu.group_by(*keys).agg(*everything(GROUPED))
        same(found, cpu, TABLE, rows, keys, any("answered by the CPU" in str(one.message) for one in told))

    @pytest.mark.parametrize("gather_below", [0.0, 2.0])
    def test_plans_do_not_change_answers(self, file, on_gpu, predicate, gather_below, monkeypatch):
        monkeypatch.setattr(OnGpu, "gather_below", gather_below)
        cpu, gpu, rows = both(file, on_gpu, predicate)
        same(gpu.agg("sum(float64)", "max(uint8)", "mean(half)", "min(money)"), cpu, TABLE, rows)


def test_chunks_do_not_change_answers(file, monkeypatch):
    monkeypatch.setattr(sys.modules["hinterland.query.on_gpu"], "QUERY_BYTES", 1)  # a block each
    cpu, gpu, rows = both(file, hl.query(file, "cuda"), "int8 >= 1")
    same(gpu.group_by("text").agg(*everything(NUMBERS)), cpu, TABLE, rows, ("text",))


@pytest.mark.parametrize("share", [0.003, 0.2, 0.6, 1.0])
def test_sums_are_made_in_the_order_that_is_said(tmp_path, share):
    """include/hinterland/query/aggregate.hpp: lanes of blocks, a tree, Neumaier's compensation."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=21_000) * 10.0 ** rng.integers(-12, 12, 21_000)
    values[rng.random(21_000) < 0.01] = -0.0
    chosen = rng.random(21_000) < share
    path = write(pa.table({"x": values, "c": chosen}), tmp_path / "t", "arrow", 5000)
    found = hl.query(path, "cuda").filter("c").agg("sum(x)").rows
    assert found == [{"sum(x)": summed(values, np.flatnonzero(chosen), False)}]


def test_bytes_are_the_least_where_few_rows_match(tmp_path):
    rows = 1 << 20
    rng = random.Random(3)
    table = pa.table({"x": [rng.random() for _ in range(rows)], "y": [rng.random() for _ in range(rows)]})
    file = write(table, tmp_path / "t.arrow", "arrow", 1 << 16)
    found = hl.query(file, device="cuda").filter("x < 0.003").agg("sum(y)", "sum(x)", "count(y)")
    assert found.least_bytes <= found.bytes <= 1.2 * found.least_bytes
    assert [plan.how for plan in found.plans] == ["streamed", "gathered"]
    half = hl.query(file, device="cuda").filter("x < 0.5").agg("sum(y)", "sum(x)")
    assert half.bytes <= 16 * rows * 1.1
    same(half, hl.query(file).filter("x < 0.5"), table, np.flatnonzero(table["x"].to_numpy() < 0.5))


def test_columns_of_which_nearly_all_is_needed_are_copied(tmp_path, monkeypatch):
    """Chunk by chunk: of the first half of the rows all match, of the second one in a thousand; and wider values sooner."""
    monkeypatch.setattr(sys.modules["hinterland.query.on_gpu"], "MOST_BLOCKS", 16)
    rows, rng = 1 << 19, random.Random(5)
    table = pa.table(
        {
            "x": [0.0 if row < rows // 2 else rng.random() for row in range(rows)],
            "y": [rng.random() for _ in range(rows)],
            "z": pa.array([rng.random() for _ in range(rows)], "float32"),
            "n": pa.array([row % 50 for row in range(rows)], "int32"),
        }
    )
    file = write(table, tmp_path / "t.arrow", "arrow", 1 << 16)
    asked = ["sum(y)", "sum(z)", "sum(y) / sum(z)", "max(n)", "count()"]
    for predicate, whole in (("x < 0.001", rows // 2), ("x < 0.3", rows // 2), ("x < 0.9", rows), (None, rows)):
        queries = [hl.query(file), hl.query(file, device="cuda")]
        cpu, gpu = (query if predicate is None else query.filter(predicate) for query in queries)
        rows_left = np.flatnonzero(table["x"].to_numpy() < (2.0 if predicate is None else float(predicate.split()[-1])))
        for keys in ((), ("n",)):
            found = (gpu.group_by(*keys) if keys else gpu).agg(*asked)
            same(found, cpu, table, rows_left.tolist(), keys)
            bytes_of = {plan.name: (plan.bytes, plan.least_bytes) for plan in found.plans}
            assert whole * 8 <= bytes_of["y"][0] <= 1.2 * bytes_of["y"][1]
            assert bytes_of["z"][0] <= 1.2 * bytes_of["z"][1]
    assert [plan.how for plan in hl.query(file, device="cuda").agg("sum(y)").plans] == ["streamed"]


def test_a_chunk_goes_on_over_row_groups_that_statistics_leave_out(tmp_path):
    block, rows = 4096, 64 * 4096
    lost = range(40 * block, 44 * block)
    table = pa.table({"x": [0.0 if row in lost else 1.0 + row for row in range(rows)], "y": [row / 3 for row in range(rows)]})
    file = tmp_path / "t.parquet"
    pa.parquet.write_table(table, file, row_group_size=block, use_dictionary=False)
    cpu, gpu = (query.filter("x >= 0.5") for query in (hl.query(file), hl.query(file, device="cuda")))
    found = gpu.agg("sum(x)", "sum(y)", "count()")
    same(found, cpu, table, [row for row in range(rows) if row not in lost])
    read = {plan.name: (plan.bytes, plan.least_bytes) for plan in found.plans}
    assert read["x"] == (8 * rows, 8 * (rows - len(lost)))


def test_groups_beyond_the_gpus_are_the_cpus(tmp_path, capfd):
    table = pa.table({"key": list(range(MOST_GROUPS + 5)), "x": [1.5] * (MOST_GROUPS + 5)})
    file = write(table, tmp_path / "t.arrow", "arrow", 1 << 16)
    with pytest.warns(UserWarning, match="answered by the CPU"):
        found = hl.query(file, device="cuda").group_by("key").agg("sum(x)")
    assert len(found.rows) == MOST_GROUPS + 5


def test_rows_are_found_by_the_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(warned, "_told", set())
    file = write(pa.table({"x": [1, 2, 3]}), tmp_path / "t.arrow", "arrow", 2)
    with pytest.warns(UserWarning, match="the CPU finds the rows"):
        found = hl.query(file, device="cuda").filter("x > 1").rows()
    assert found.is_cuda and found.tolist() == [1, 2]


@pytest.mark.parametrize("pattern", ["%a%", "c_sh", "", "%", "é"])
def test_patterns_of_texts(file, on_gpu, pattern):
    for predicate in (f"text like '{pattern}'", f"plain not like '{pattern}'"):
        wanted, found = (query.filter(predicate).agg("count()", "sum(int64)") for query in (hl.query(file), on_gpu))
        assert found.rows == wanted.rows and found.bytes is not None


def test_several_files_are_one_table(tmp_path):
    for number in range(3):
        write(made(5000, seed=number), tmp_path / f"{number}.parquet", "parquet", 3000)
    for predicate in ("int8 >= 0", "text == 'cash' and float64 < 1"):
        cpu, gpu = (hl.query(tmp_path, device).filter(predicate).group_by("text") for device in (None, "cuda"))
        wanted, found = (query.agg("count()", "sum(int64)", "max(moment)") for query in (cpu, gpu))
        assert found.rows == wanted.rows and found.bytes is not None


def test_keys_that_lie_far_apart(tmp_path):
    """Groups go by codes where a key has them: 900 numbers of all 64 bits."""
    rng = random.Random(11)
    some = [rng.randrange(-(2**63), 2**63) for _ in range(900)]
    table = pa.table({"key": [rng.choice(some) for _ in range(30_000)], "x": [rng.random() for _ in range(30_000)]})
    table = table.append_column(
        "other", pa.array([None if key % 3 else key % 2**64 for key in table["key"].to_pylist()], "uint64")
    )
    file = write(table, tmp_path / "t.arrow", "arrow", 7000)
    for key in ("key", "other"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that the CPU answers
            found = hl.query(file, "cuda").group_by(key).agg("sum(x)", "count()")
        assert len(found.rows) > 200
        same(found, hl.query(file), table, range(30_000), (key,))


def test_an_empty_table(tmp_path):
    file = write(pa.table({"x": pa.array([], "int64")}), tmp_path / "t.arrow", "arrow", 10)
    found = hl.query(file, device="cuda").filter("x > 1").agg("count()", "sum(x)", "max(x)")
    assert found.rows == [{"count()": 0, "sum(x)": 0, "max(x)": None}]


def test_a_query_is_asked_again_and_again(file, on_gpu):
    first = on_gpu.filter("int8 == 5").agg("sum(int64)", "sum(float64)")
    for _ in range(3):
        found = on_gpu.filter("int8 == 5").agg("sum(int64)", "sum(float64)")
        assert repr(found.rows) == repr(first.rows) and found.matched == first.matched


def test_codes_that_a_dictionary_does_not_have(tmp_path):
    good = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 3000, "int8"), pa.array(["one", "two"]))
    file = write(pa.table({"x": good}), tmp_path / "t.arrow", "arrow", 1 << 16)
    damaged = bytearray(file.read_bytes())
    at = damaged.find(bytes([0, 1] * 100))
    damaged[at + 20] = 99
    file.write_bytes(damaged)
    assert np.frombuffer(damaged, np.uint8)[at + 20] == 99
    with pytest.raises(FormatError):
        hl.query(file, device="cuda").filter("x == 'one'").agg("count()")
