"""Queries on a GPU give the CPU's answers, to the bit."""

from __future__ import annotations

import random
import sys
import warnings
from typing import NamedTuple

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")

import hinterland as hl  # noqa: E402
from hinterland import _core  # noqa: E402
from hinterland.query.on_gpu import MOST_GROUPS, OnGpu  # noqa: E402
from hinterland.runtime.errors import FormatError  # noqa: E402

from .tables import INTEGERS, made, write  # noqa: E402
from .test_query import TESTS  # noqa: E402

pytestmark = pytest.mark.gpu

ROWS = 20_011
NUMBERS = [*INTEGERS, "float32", "float64", "half", "money"]


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
    return write(made(ROWS), tmp_path_factory.mktemp("tables") / f"table.{given.kind}", given.kind, given.rows)


@pytest.fixture(scope="module")
def on_gpu(given, file):
    query = hl.query(file, device="cuda")
    with pytest.MonkeyPatch.context() as patch:
        if not given.coded:
            patch.setattr(_core.QueryCodes, "add", lambda *given: False)
        query.agg(*everything(NUMBERS), "max(day)", "max(moment)")  # which copies all columns that may be coded
    return query


GROUPED = ("float64", "int64", "money")


def same(first, second):
    """By their text: NaN is NaN there, and every digit counts."""
    assert repr(first.rows) == repr(second.rows)
    assert first.matched == second.matched


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
    def test_aggregates_are_the_cpus(self, file, on_gpu, predicate):
        asked = hl.query(file), on_gpu
        wanted, found = (
            (query if predicate is None else query.filter(predicate)).agg(*everything(NUMBERS), "count(flag)")
            for query in asked
        )
        same(found, wanted)

    def test_ratios_are_the_cpus(self, file, on_gpu, predicate):
        aggregates = ["mean_ratio(float64, int8)", "mean_ratio(money, float32)", "sum(float64) / sum(int8)"]
        wanted, found = (
            (query if predicate is None else query.filter(predicate)).agg(*aggregates) for query in (hl.query(file), on_gpu)
        )
        same(found, wanted)

    @pytest.mark.parametrize("keys", [("flag",), ("plain",), ("text", "flag", "day"), ("int8",)])
    def test_groups_are_the_cpus(self, file, on_gpu, predicate, keys):
        wanted, found = (
            (query if predicate is None else query.filter(predicate)).group_by(*keys).agg(*everything(GROUPED))
            for query in (hl.query(file), on_gpu)
        )
        same(found, wanted)

    @pytest.mark.parametrize("gather_below", [0.0, 2.0])
    def test_plans_do_not_change_answers(self, file, on_gpu, predicate, gather_below, monkeypatch):
        monkeypatch.setattr(OnGpu, "gather_below", gather_below)
        aggregates = ["sum(float64)", "max(uint8)", "mean(half)", "min(money)"]
        wanted, found = (
            (query if predicate is None else query.filter(predicate)).agg(*aggregates) for query in (hl.query(file), on_gpu)
        )
        same(found, wanted)


def test_chunks_do_not_change_answers(file, monkeypatch):
    monkeypatch.setattr(sys.modules["hinterland.query.on_gpu"], "_ROOM", 1)  # a block each
    asked = [
        query.filter("int8 >= 1").group_by("text").agg(*everything(NUMBERS))
        for query in (hl.query(file), hl.query(file, "cuda"))
    ]
    same(asked[1], asked[0])


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
    same(half, hl.query(file).filter("x < 0.5").agg("sum(y)", "sum(x)"))


def test_columns_of_which_nearly_all_is_needed_are_copied(tmp_path, monkeypatch):
    """Chunk by chunk: of the first half of the rows all match, of the second one in a thousand; and wider values sooner."""
    monkeypatch.setattr(sys.modules["hinterland.query.on_gpu"], "_MOST_BLOCKS", 16)
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
        wanted, found = (query if predicate is None else query.filter(predicate) for query in queries)
        for keys in ((), ("n",)):
            both = [(one.group_by(*keys) if keys else one).agg(*asked) for one in (wanted, found)]
            same(both[1], both[0])
            bytes_of = {plan.name: (plan.bytes, plan.least_bytes) for plan in both[1].plans}
            assert whole * 8 <= bytes_of["y"][0] <= 1.2 * bytes_of["y"][1]
            assert bytes_of["z"][0] <= 1.2 * bytes_of["z"][1]
    assert [plan.how for plan in hl.query(file, device="cuda").agg("sum(y)").plans] == ["streamed"]


def test_a_chunk_goes_on_over_pages_that_statistics_leave_out(tmp_path):
    block, rows = 4096, 64 * 4096
    lost = range(40 * block, 44 * block)
    table = pa.table({"x": [0.0 if row in lost else 1.0 + row for row in range(rows)], "y": [row / 3 for row in range(rows)]})
    file = tmp_path / "t.parquet"
    pa.parquet.write_table(
        table, file, row_group_size=rows, max_rows_per_page=block, use_dictionary=False, write_page_index=True
    )
    queries = hl.query(file), hl.query(file, device="cuda")
    wanted, found = (query.filter("x >= 0.5").agg("sum(x)", "sum(y)", "count()") for query in queries)
    same(found, wanted)
    read = {plan.name: (plan.bytes, plan.least_bytes) for plan in found.plans}
    assert read["x"] == (8 * rows, 8 * (rows - len(lost)))


def test_groups_beyond_the_gpus_are_the_cpus(tmp_path, capfd):
    table = pa.table({"key": list(range(MOST_GROUPS + 5)), "x": [1.5] * (MOST_GROUPS + 5)})
    file = write(table, tmp_path / "t.arrow", "arrow", 1 << 16)
    with pytest.warns(UserWarning, match="answered by the CPU"):
        found = hl.query(file, device="cuda").group_by("key").agg("sum(x)")
    assert len(found.rows) == MOST_GROUPS + 5


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
            wanted, found = (hl.query(file, device).group_by(key).agg("sum(x)", "count()") for device in ("cpu", "cuda"))
        assert len(found.rows) > 200
        same(found, wanted)


def test_an_empty_table(tmp_path):
    file = write(pa.table({"x": pa.array([], "int64")}), tmp_path / "t.arrow", "arrow", 10)
    found = hl.query(file, device="cuda").filter("x > 1").agg("count()", "sum(x)", "max(x)")
    assert found.rows == [{"count()": 0, "sum(x)": 0, "max(x)": None}]


def test_a_query_is_asked_again_and_again(file, on_gpu):
    first = on_gpu.filter("int8 == 5").agg("sum(int64)")
    for _ in range(3):
        same(on_gpu.filter("int8 == 5").agg("sum(int64)"), first)


def test_codes_that_a_dictionary_does_not_have(tmp_path):
    import numpy as np

    good = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 3000, "int8"), pa.array(["one", "two"]))
    file = write(pa.table({"x": good}), tmp_path / "t.arrow", "arrow", 1 << 16)
    damaged = bytearray(file.read_bytes())
    at = damaged.find(bytes([0, 1] * 100))
    damaged[at + 20] = 99
    file.write_bytes(damaged)
    assert np.frombuffer(damaged, np.uint8)[at + 20] == 99
    with pytest.raises(FormatError):
        hl.query(file, device="cuda").filter("x == 'one'").agg("count()")
