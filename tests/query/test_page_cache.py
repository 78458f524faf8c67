"""Files that the page cache does not have: which pages are asked for, what is counted, and that answers do not change."""

import dataclasses
import mmap
import os
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hinterland as hl
from hinterland import _core, machine
from hinterland.machine.model import Disk
from hinterland.query import arrow, page_cache
from hinterland.query.page_cache import PAGE, MappedFile, Values, bytes_of_request
from hinterland.query.parquet import ParquetFile
from hinterland.query.rows import between

ROWS = 1_000_000
_ADDRESSES = st.integers(0, 200_000)


def _there(path):
    """Of each page whether the page cache has it."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    pages = np.frombuffer(mapped, np.uint8).ctypes.data + np.arange(0, len(mapped), PAGE)
    return np.array([not _core.pages_missing(page.ctypes.data, 1) for page in pages.reshape(-1, 1)])


def _dropped(path):
    """Has the page cache forget a file."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if _there(path).any():
        pytest.skip("this file system's pages stay in memory")
    return path


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    return pa.table(
        {"at": np.arange(ROWS), "x": rng.random(ROWS), "y": rng.random(ROWS), "text": ["long enough", "b"] * (ROWS // 2)}
    )


@pytest.fixture
def path(table, tmp_path):
    pyarrow.feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed", chunksize=300_000)
    return tmp_path / "t.arrow"


def test_pages_with_matching_rows_are_read_and_few_others(path, table, monkeypatch):
    monkeypatch.setattr(page_cache, "bytes_of_request", lambda device: 0)
    wanted = "at in (5, 6, 100000, 299999, 700000)"
    hl.query(_dropped(path)).agg("count()")
    opening = _there(path)  # also what the disk reads ahead
    _dropped(path)
    found = hl.query(path).filter(wanted).agg("sum(x)", "count()")
    rows = [5, 6, 100_000, 299_999, 700_000]
    assert found.rows == [{"sum(x)": pytest.approx(table["x"].to_numpy()[rows].sum(), rel=1e-15), "count()": 5}]
    at, x = found.plans
    pages = 4  # but for one, if values begin in the middle of one
    assert x.bytes == x.least_bytes == pages * PAGE
    assert "from the disk in 2 parts" in x.why or "from the disk in 1 parts" in x.why
    assert 8 * ROWS <= at.bytes == at.least_bytes <= 8 * ROWS + 8 * PAGE
    read = int((_there(path) & ~opening).sum()) * PAGE
    assert found.bytes - opening.sum() * PAGE <= read <= found.bytes


def test_pages_between_are_read_along_where_a_request_costs_more(path, monkeypatch):
    monkeypatch.setattr(page_cache, "bytes_of_request", lambda device: 2 * PAGE)
    _dropped(path)
    each = PAGE // 8
    x = hl.query(path).filter(f"at in ({10 * each}, {13 * each}, {20 * each})").agg("sum(x)").plans[1]
    assert (x.bytes, x.least_bytes) == (5 * PAGE, 3 * PAGE)


@pytest.mark.parametrize("share", (0.001, 0.2))
def test_answers_are_those_of_a_file_in_memory(path, share):
    query = (f"x < {share} and text == 'b'", "sum(y)", "mean_ratio(y, x)", "max(at)")
    _dropped(path)
    cold = hl.query(path).filter(query[0]).agg(*query[1:])
    warm = hl.query(path).filter(query[0]).agg(*query[1:])
    assert cold.rows == warm.rows
    assert "from the disk" in cold.explain() and "from the disk" not in warm.explain()
    assert warm.bytes < cold.bytes


def test_a_file_that_stays_open_is_asked_for_once(path, monkeypatch):
    monkeypatch.setattr(arrow, "_PART_ROWS", 1)
    asked = hl.query(_dropped(path)).filter("x >= 0")
    cold, warm = asked.agg("sum(y)"), asked.agg("sum(y)")
    assert cold.rows == warm.rows and "from the disk in 4 parts" in cold.explain() and "from the disk" not in warm.explain()
    assert [plan.bytes for plan in warm.plans] == [8 * ROWS] * 2


def test_a_column_of_which_pages_are_asked_for_is_read_in_batches_of_no_match(path):
    _dropped(path)
    found = hl.query(path).filter("at >= 999990 and x >= 0").group_by("text").agg("sum(y)", "count(text)")
    assert [row["count(text)"] for row in found.rows] == [5, 5]


def test_compressed_batches_are_no_part_of_the_file(table, tmp_path):
    pyarrow.feather.write_feather(table, tmp_path / "t.arrow", compression="lz4", chunksize=300_000)
    path = _dropped(tmp_path / "t.arrow")
    found = hl.query(path).filter("at < 10").agg("count()", "sum(x)")
    assert found.rows[0]["count()"] == 10 and "from the disk" not in found.explain()


def test_parquet_begins_with_a_row_group_while_the_disk_brings_more(table, tmp_path, monkeypatch):
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=50_000)
    taken, read = {}, ParquetFile.read
    monkeypatch.setattr(ParquetFile, "read", lambda self, part, *rest: (taken.update({part: 1}), read(self, part, *rest))[1])
    cold = hl.query(_dropped(tmp_path / "t.parquet")).agg("sum(x)", "max(at)")
    assert [part.end for part in taken] == [50_000, 450_000, ROWS]
    taken.clear()
    warm = hl.query(tmp_path / "t.parquet").agg("sum(x)", "max(at)")
    assert [part.end for part in taken] == [ROWS]
    assert cold.rows == warm.rows == [{"sum(x)": pytest.approx(table["x"].to_numpy().sum(), rel=1e-12), "max(at)": ROWS - 1}]


def test_small_row_groups_do_not_make_small_parts(table, tmp_path):
    with pyarrow.parquet.ParquetWriter(tmp_path / "t.parquet", table.schema) as writer:
        writer.write_table(table.slice(0, 1))
        writer.write_table(table.slice(1), row_group_size=50_000)
    parts = ParquetFile(str(_dropped(tmp_path / "t.parquet"))).parts_left(names=["x"])
    assert 1 < len(parts) <= 4


@pytest.mark.parametrize("first", (1, 50_000, 70_000, 100_000, 10**9))
def test_parts_have_twice_as_many_rows_each_time(table, tmp_path, first):
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=50_000)
    parts = ParquetFile(str(tmp_path / "t.parquet")).parts_left(first_rows=first)
    assert [part.begin for part in parts] == [0, *(part.end for part in parts[:-1])] and parts[-1].end == ROWS
    most = [max(first * 2**number, 50_000) for number in range(len(parts))]
    assert all(0 < part.end - part.begin <= rows for part, rows in zip(parts, most, strict=True))
    assert all(part.end - part.begin > rows - 50_000 for part, rows in zip(parts[:-1], most, strict=False))


@pytest.mark.parametrize("missing", (0, 1))
def test_a_column_is_missed_beside_one_that_is_there(table, tmp_path, missing):
    """The chunks of both alternate in the file, and not all are looked at."""
    pyarrow.parquet.write_table(table.select(["x", "y"]), tmp_path / "t.parquet", row_group_size=50_000)
    file = ParquetFile(str(_dropped(tmp_path / "t.parquet")))
    begins = file._footer.chunks["data_at"] + file._buffer.address
    ranges = np.stack([begins, begins + 1000], axis=2)
    file._mapped.ask_for_bytes(ranges[:, 1 - missing])
    deadline = time.monotonic() + 30
    while file._mapped.lacks(ranges[:, 1 - missing]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert file._mapped.lacks(ranges[:, missing]) and file._mapped.lacks(ranges.reshape(-1, 2))


@pytest.mark.parametrize("known, bytes_", (("8192\n", 8 << 20), ("0\n", 128 << 10), ("many", 128 << 10), (None, 128 << 10)))
@pytest.mark.parametrize("partition", (False, True))
def test_as_much_is_asked_for_at_a_time_as_the_system_takes(tmp_path, monkeypatch, known, bytes_, partition):
    folder = tmp_path / ("dev/block/disk" if partition else "class/bdi/253:7")
    (tmp_path / "dev/block/disk/part").mkdir(parents=True)
    (tmp_path / "dev/block/253:7").symlink_to("disk/part" if partition else "disk")
    (folder / "bdi" if partition else folder).mkdir(parents=True)
    if known is not None:
        ((folder / "bdi" if partition else folder) / "read_ahead_kb").write_text(known)
    monkeypatch.setattr(page_cache, "_SYS", tmp_path)
    assert page_cache.readahead_of.__wrapped__(os.makedev(253, 7)) == bytes_


@pytest.mark.parametrize("begin, size", ((0, PAGE), (5 * PAGE + 7, 20), (100, 3 << 20), ((1 << 20) - 1, 5 << 20)))
def test_ranges_of_any_length_are_asked_for_whole(tmp_path, begin, size):
    (tmp_path / "some").write_bytes(bytes(8 << 20))
    _dropped(tmp_path / "some")
    with open(tmp_path / "some", "rb") as file:
        mapped = MappedFile(file.fileno())
    at = np.frombuffer(mapped.map, np.uint8).ctypes.data + begin
    ranges = np.array([[at, at + size]])
    assert mapped.lacks(ranges)
    mapped.ask_for_bytes(ranges)
    wanted = np.zeros((8 << 20) // PAGE, bool)
    wanted[begin // PAGE : -(-(begin + size) // PAGE)] = True
    for _ in range(200):  # the disk is not waited for, and now and then the system leaves some pages out
        if _there(tmp_path / "some")[wanted].all():
            break
        time.sleep(0.01)
        mapped.ask_for_bytes(ranges)
    np.testing.assert_array_equal(_there(tmp_path / "some"), wanted)
    assert not mapped.lacks(ranges)


@given(
    address=_ADDRESSES, bits=st.sampled_from((1, 8, 16, 32, 64, 128, 3 * 8)), count=st.integers(1, 40_000),
    begin=st.integers(0, 1000), low=st.integers(0, 50_000), rows=st.integers(1, 50_000),
)  # fmt: skip
def test_pages_hold_a_bit_of_a_wanted_value(address, bits, count, begin, low, rows):
    values = Values(begin, 8 * address, bits, count)
    bit = np.arange(count, dtype=np.int64) * bits + 8 * address
    row = np.arange(count) + begin
    wanted = (row >= low) & (row < low + rows)
    ends = np.concatenate([bit[wanted] // (8 * PAGE), (bit[wanted] + bits - 1) // (8 * PAGE)])
    np.testing.assert_array_equal(values.pages(between(np.array([[low, low + rows]]))), np.unique(ends) * PAGE)
    everything = np.arange(bit[0] // (8 * PAGE), (bit[-1] + bits - 1) // (8 * PAGE) + 1)
    np.testing.assert_array_equal(values.pages(None), everything * PAGE)


def test_what_lies_elsewhere_is_not_asked_for(path):
    with open(path, "rb") as file:
        mapped = MappedFile(file.fileno())
    other = np.zeros(100)
    assert mapped.ask_for([Values(0, 8 * other.ctypes.data, 64, 100)], None) is None
    assert mapped.ask_for([], None) is None


def test_what_a_request_costs_is_the_probes(tmp_path, monkeypatch):
    device = os.stat(tmp_path).st_dev
    assert bytes_of_request(device) == 16384
    measured = Disk(str(tmp_path), True, 6e9, 3e9, {1: 1e4, 256: 1e6})
    monkeypatch.setattr(machine, "load", lambda: SimpleNamespace(disk=measured))
    assert bytes_of_request(device) == 6000
    assert bytes_of_request(device + 1) == 16384
    measured = dataclasses.replace(measured, path="/is/not/there")
    assert bytes_of_request(device) == 16384


@pytest.mark.parametrize("index", (False, True))
def test_pages_of_parquet_are_asked_for_before_they_are_touched(table, tmp_path, index, monkeypatch):
    options = {"row_group_size": 300_000, "data_page_size": 64 << 10, "use_dictionary": ["text"], "write_page_index": index}
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", **options)
    path = _dropped(tmp_path / "t.parquet")
    asked, ask = [], page_cache.MappedFile._ask
    for where in ("y < 0.5", "at between 350000 and 360000"):
        asked.clear()
        _dropped(path)
        with monkeypatch.context() as patched:
            patched.setattr(MappedFile, "_ask", lambda file, *ranges: asked.append(ask(file, *ranges)) or asked[-1])
            cold = hl.query(path).filter(where).agg("sum(x)", "count(text)")
        read = int(_there(path).sum()) * PAGE
        headers = 0 if index else 100  # of pages, from each of which the next is found
        assert read <= sum(asked) + (headers + 16) * PAGE
        warm = hl.query(path).filter(where).agg("sum(x)", "count(text)")
        assert (cold.rows, cold.bytes) == (warm.rows, warm.bytes)
        assert where.startswith("y") or read < 0.2 * path.stat().st_size


def test_what_was_asked_for_ahead_is_no_later_querys(path, monkeypatch):
    monkeypatch.setattr(arrow, "_PART_ROWS", ROWS // 2)
    asked = hl.query(_dropped(path))
    asked.filter("x > 2").agg("count()")
    path.read_bytes()  # now the page cache has all of it
    x = asked.filter(f"at == {ROWS - 1}").agg("sum(x)").plans[1]
    assert x.bytes == x.least_bytes == 32
    assert "disk" not in x.why
