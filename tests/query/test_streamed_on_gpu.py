"""Queries on a GPU to columns that host memory does not hold: chunks of the file through rooms of it, and pages on demand.

A GPU of 32 lanes runs the kernels (conftest.py); those marked ``gpu`` ask a real one the same.
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

import hinterland as hl  # noqa: E402
from benchmarks._cold import forget, resident  # noqa: E402
from hinterland import _core  # noqa: E402
from hinterland.query.file_set import files_of, open_files  # noqa: E402
from hinterland.query.parquet import ParquetFile  # noqa: E402
from hinterland.query.pinned_columns import PinnedTable  # noqa: E402
from hinterland.runtime import warned  # noqa: E402
from hinterland.runtime.errors import ConfigError, FormatError  # noqa: E402

from .sums import summed  # noqa: E402
from .tables import made  # noqa: E402

ROWS, PAGE = 40_011, _core.FILE_PAGE
TABLE = made(ROWS).append_column("row", pa.array(range(ROWS)))
NUMBERS = ["int8", "uint64", "half", "float32", "money", "flag", "day"]


def write(table, path, kind, rows):
    if kind in ("parquet", "pages"):
        pages = {"data_page_size": 2048, "write_batch_size": 256, "write_page_index": True} if kind == "pages" else {}
        pyarrow.parquet.write_table(table, path, row_group_size=rows, **pages)
    else:
        pyarrow.feather.write_feather(table, path, compression="lz4" if kind == "lz4" else "uncompressed", chunksize=rows)
    return path


FILES = [("arrow", 6001), ("lz4", 9000), ("parquet", 7000), ("pages", 15_000), ("several", 5000)]


@pytest.fixture(scope="module", params=FILES, ids=lambda one: one[0])
def file(request, tmp_path_factory):
    kind, rows = request.param
    folder = tmp_path_factory.mktemp("tables")
    if kind != "several":
        return write(TABLE, folder / f"table.{kind}", kind, rows)
    for number, (begin, other) in enumerate([(0, "arrow"), (17_000, "pages"), (29_000, "parquet")]):
        end = [17_000, 29_000, ROWS][number]
        write(TABLE.slice(begin, end - begin), folder / f"{number}.{'arrow' if other == 'arrow' else 'parquet'}", other, rows)
    return folder


@settings(max_examples=25)
@given(data=st.data())
def test_values_at_rows_are_the_tables(file, data):
    table = open_files(files_of([str(file)]), str(file))
    name = data.draw(st.sampled_from(TABLE.column_names))
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, ROWS - 1), max_size=60))), np.int64)
    if data.draw(st.booleans()) and len(rows):
        rows = np.arange(rows[0], rows[-1] + 1)
    kept, found, size = {}, [], 0
    for piece in table.values_at(name, rows, kept):
        assert piece.at == sum(map(len, found))
        found.append(plain(piece.values))
        size += piece.bytes
    wanted = plain(TABLE[name].combine_chunks().take(pa.array(rows)))
    assert repr(pa.chunked_array(found, wanted.type).to_pylist()) == repr(wanted.to_pylist())
    assert (size > 0) == (len(rows) > 0)


def plain(array):
    """Without a dictionary, which not all files of several have."""
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


@settings(max_examples=25)
@given(data=st.data())
def test_pages_hold_the_rows_that_they_are_asked_for(file, data):
    table = open_files(files_of([str(file)]), str(file))
    begin = data.draw(st.integers(0, ROWS - 1))
    end = data.draw(st.integers(begin + 1, ROWS))
    pages = table.pages(data.draw(st.sampled_from(["int8", "money", "flag", "float64"])), begin, end)
    assert len(pages.begins) == len(pages.bytes) + 1
    assert (np.diff(pages.begins) > 0).all() and pages.begins[0] <= begin < pages.begins[1] and pages.begins[-1] == end


QUESTIONS = [
    (None, ()),
    ("int8 > 1", ()),
    ("row > 20000 and row < 20030 or row == 39999", ()),
    ("row >= 30000 and row < 38000 and flag", ("flag",)),
    ("text == 'cash' and int16 is null or not (uint32 <= 5)", ("text", "flag")),
    ("int64 == 1 and int64 == 5", ()),
    ("int32 < uint64 or money == money", ()),
]
FLOATS = [f"{function}({name})" for name in ("half", "float32") for function in ("sum", "mean")]
ASKED = [f"{f}({name})" for name in NUMBERS[:5] for f in ("sum", "min", "max", "count")] + [
    "count(flag)",
    "max(day)",
    "count()",
]


BUDGET = 700_000  # bytes: two or three blocks of rows twice, and what is held of texts and groups


@pytest.mark.parametrize(("predicate", "keys"), QUESTIONS)
def test_answers_are_the_cpus(file, predicate, keys, on_lanes):
    answers_are_the_cpus(file, predicate, keys, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize(("predicate", "keys"), QUESTIONS)
def test_answers_of_a_gpu_are_the_cpus(file, predicate, keys):
    answers_are_the_cpus(file, predicate, keys, "cuda")


def answers_are_the_cpus(file, predicate, keys, device):
    queries = [hl.query(file), hl.query(file, device, host_budget=BUDGET)]
    cpu, gpu = ((one if predicate is None else one.filter(predicate)).group_by(*keys) for one in queries)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that the CPU answers
        wanted, found = (query.agg(*ASKED) for query in (cpu, gpu))
    assert found.matched == wanted.matched
    assert len(found.rows) == len(wanted.rows)
    for ours, other in zip(found.rows, wanted.rows, strict=True):
        for text in ours:
            same = np.isclose(ours[text], other[text], rtol=1e-12, equal_nan=True) if text in FLOATS else None
            assert same or repr(ours[text]) == repr(other[text]), text
    assert {plan.how for plan in found.plans} <= {"streamed", "on demand", "on demand and streamed", "not read", "held"}
    assert {plan.how for plan in found.plans} != {"held"} and found.least_bytes <= found.bytes


@pytest.mark.parametrize("kind", ["arrow", "pages"])
def test_sums_are_those_of_held_columns_to_the_bit(tmp_path, kind, on_lanes):
    """Whatever chunks are, and though blocks of rows are cut by row groups that statistics leave out."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=30_000) * 10.0 ** rng.integers(-12, 12, 30_000)
    chosen = np.where(np.arange(30_000) // 7000 % 2 == 0, 2.0, rng.random(30_000))
    path = write(pa.table({"x": values, "c": chosen}), tmp_path / "t", kind, 7000)
    for least in (0.5, 1.5):
        found = hl.query(path, "cpu", host_budget=4 * 4096 * 20).filter(f"c < {least}").agg("sum(x)", "count()")
        rows = np.flatnonzero(chosen < least)
        assert found.rows == [{"sum(x)": summed(values, rows, False) if len(rows) else 0, "count()": len(rows)}]


@pytest.fixture(scope="module", params=["arrow", "pages"])
def clustered(request, tmp_path_factory):
    """Two columns of 1,000,000 rows, of which 60 match alone, and 25,000 together."""
    rng, rows = np.random.default_rng(3), 1_000_000
    x = rng.random(rows)
    x[rng.choice(500_000, 60, replace=False)] = 2
    x[700_000:725_000] = 3
    y = rng.random(rows)
    path = tmp_path_factory.mktemp("disk") / f"t.{request.param}"
    options = {"use_dictionary": False, "compression": "none"}
    if request.param == "pages":
        pyarrow.parquet.write_table(
            pa.table({"x": x, "y": y}), path, row_group_size=1 << 18, data_page_size=PAGE, write_page_index=True, **options
        )
    else:
        write(pa.table({"x": x, "y": y}), path, "arrow", 1 << 18)
    return path, x, y


@pytest.mark.parametrize(("predicate", "least"), [("x >= 2 and x < 2.5", 2), ("x >= 3", 3)])
def test_the_disk_brings_the_filters_column_and_pages_that_hold_a_match(clustered, predicate, least, on_lanes):
    """Counted by the kernel (mincore): the filter's column, and pages with a match, times 1.1 at most."""
    path, x, y = clustered
    if not forget(path):
        pytest.skip("this file system keeps what it was told to drop")
    query = hl.query(path, "cpu", host_budget="6MB").filter(predicate)
    found = query.agg("sum(y)")
    rows = np.flatnonzero((x >= least) & (x < least + 0.5))
    assert found.matched == len(rows)
    assert np.isclose(found.rows[0]["sum(y)"], y[rows].sum())
    assert found.bytes <= 1.1 * found.least_bytes
    assert found.least_bytes <= 1.05 * (x.nbytes + PAGE * (60 * 1.7 if least == 2 else 25_000 * 8 / PAGE + 4))
    assert [plan.how for plan in found.plans] == ["streamed", "on demand"]
    assert resident(path) <= 1.1 * found.least_bytes


def test_both_sides_of_the_crossover(tmp_path, on_lanes):
    """By what the filter finds in each chunk: few rows of the first half match, and nearly half of the second."""
    rng, rows = np.random.default_rng(7), 400_000
    x, y = rng.random(rows), rng.random(rows)
    x[: rows // 2] = np.where(rng.random(rows // 2) < 3e-5, 1, 0)
    path = write(pa.table({"x": x, "y": y}), tmp_path / "t", "arrow", 70_000)
    found = hl.query(path, "cpu", host_budget="2MB").filter("x > 0.5").agg("sum(y)", "count()")
    assert found.rows == [{"sum(y)": summed(y, np.flatnonzero(x > 0.5), False), "count()": int((x > 0.5).sum())}]
    assert found.plans[1].how == "on demand and streamed"
    assert x.nbytes + y.nbytes // 2 < found.bytes < 1.1 * found.least_bytes
    assert re.search(
        r"y: on demand and streamed, .*: 25 % of 400,000 rows match: pages that hold a match in \d chunks, .* to .* % of whose "
        r"pages match, and all of them in \d chunks, .* to 100 % of whose pages match", found.explain(),
    )  # fmt: skip


def test_columns_that_the_control_group_has_no_room_for(tmp_path, on_lanes, monkeypatch):
    """Without a budget they are held where they can be."""
    x, y = np.random.default_rng(7).random((2, 150_000))
    path = write(pa.table({"x": x, "y": y}), tmp_path / "t", "arrow", 70_000)
    monkeypatch.setattr(PinnedTable, "on_gpu", True)
    hows = []
    for room in (4 * x.nbytes, 1.5 * x.nbytes):
        monkeypatch.setenv("HINTERLAND_HOST_MEMORY", str(int(room) + hl.memory.report().nbytes))
        found = hl.query(path, "cpu").filter("x > 0.9999").agg("sum(y)")
        assert found.rows == [{"sum(y)": summed(y, np.flatnonzero(x > 0.9999), False)}]
        hows.append([plan.how for plan in found.plans])
    assert hows == [["streamed", "gathered"], ["streamed", "on demand"]]


@pytest.mark.parametrize(
    ("predicate", "keys", "budget", "said"),
    [
        ("x > 1", (), 4000, "do not hold 4,096 rows of its columns twice"),
        ("x > 1", ("z",), 40_000, "does not hold the groups' keys"),
        ("z == 'a'", (), 40_000, "does not hold the texts' codes"),
        ("x + 1 > 2", (), 200_000, "'x \\+ 1' is calculated row by row"),
    ],
)
def test_what_a_budget_is_too_small_for_is_the_cpus(tmp_path, on_lanes, monkeypatch, predicate, keys, budget, said):
    monkeypatch.setattr(warned, "_told", set())
    table = pa.table({"x": np.arange(50_000.0), "y": np.arange(50_000.0), "z": ["a", "b"] * 25_000})
    path = write(table, tmp_path / "t", "arrow", 9000)
    with pytest.warns(UserWarning, match=f"answered by the CPU: .*{said}"):
        found = hl.query(path, host_budget=budget).filter(predicate).group_by(*keys).agg("sum(y)")
    assert found.rows == hl.query(path).filter(predicate).group_by(*keys).agg("sum(y)").rows


def test_a_budget_is_a_gpus(tmp_path):
    with pytest.raises(ConfigError, match="host_budget='1GiB' bounds copies for a GPU"):
        hl.query(tmp_path, host_budget="1GiB")


@pytest.mark.parametrize(
    ("codec", "version", "dictionary"),
    [("none", "1.0", True), ("snappy", "2.0", True), ("zstd", "1.0", False), ("snappy", "2.0", False)],
)
def test_pages_of_parquet(tmp_path, codec, version, dictionary):
    """However they are stored; and where the index of them is damaged the row group is read."""
    rows = np.array([3, 4, 1000, 2999, 3000, 5500])
    table = pa.table({"a.b": [None if row % 5 == 0 else row % 90 for row in range(6000)], "c": np.arange(6000) % 97 / 3})
    options = {"compression": codec, "data_page_version": version, "use_dictionary": dictionary, "write_page_index": True}
    pyarrow.parquet.write_table(
        table, tmp_path / "t", row_group_size=3000, data_page_size=256, write_batch_size=64, **options
    )  # fmt: skip
    found = ParquetFile(str(tmp_path / "t"))
    index_at, index_bytes = (found._footer.chunks[0, 0][name] for name in ("index_at", "index_bytes"))
    for name in table.column_names:
        pieces = list(found.values_at(name, rows, {}))
        assert pa.concat_arrays([one.values for one in pieces]).to_pylist() == table[name].take(pa.array(rows)).to_pylist()
        assert sum(one.bytes for one in pieces) < 0.5 * found.stored_bytes(name, found.parts())
    content = (tmp_path / "t").read_bytes()
    for place in range(index_at, index_at + index_bytes, 7):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "t").write_bytes(damaged)
        try:
            pieces = list(ParquetFile(str(tmp_path / "t")).values_at("a.b", rows, {}))
        except (FormatError, OSError):
            continue
        assert sum(len(one.values) for one in pieces) == len(rows)
