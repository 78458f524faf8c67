"""Tables that stay open, and their columns in one piece."""

from __future__ import annotations

import decimal
import os
import threading

import numpy as np
import pytest
import torch

pa = pytest.importorskip("pyarrow")

import hinterland as hl  # noqa: E402
from hinterland import _core  # noqa: E402
from hinterland.query.bounds import kind_of  # noqa: E402
from hinterland.query.held import HeldTable  # noqa: E402

from .tables import made, write  # noqa: E402

CPU = torch.device("cpu")


@pytest.mark.parametrize(("kind", "rows"), [("arrow", 1000), ("arrow", 77), ("lz4", 333), ("parquet", 500)])
def test_columns_are_the_files(tmp_path, kind, rows):
    table = made(1000)
    held = HeldTable(str(write(table, tmp_path / "t", kind, rows)), CPU)
    kinds = {field.name: kind_of(field.type) for field in table.schema}
    columns = held.columns(kinds)
    assert held.columns(kinds)["int8"] is columns["int8"]
    for name, column in columns.items():
        bits = np.unpackbits(column.valid.cpu().numpy(), bitorder="little")[:1000]
        values = column.values.cpu().numpy()
        if column.element == "bool":
            found = np.unpackbits(values, bitorder="little")[:1000].astype(bool).tolist()
        else:
            found = values.view(column.element)[:1000]
            if column.entries is not None:
                codes = found.tolist()
                found = column.entries.numpy().view(column.taken)[found]
            found = found.tolist()
        wanted = table.column(name).to_pylist()
        for row in range(1000):
            assert bool(bits[row]) == (wanted[row] is not None)
            if bits[row] and kinds[name].family == "text":
                assert column.texts.texts(np.array(found[row : row + 1]))[0] == [wanted[row]]
            elif bits[row] and kinds[name].family == "float":
                assert np.array_equal(found[row], wanted[row], equal_nan=True)
            elif bits[row]:
                assert kinds[name].value(int(found[row])) == wanted[row]
        if kinds[name].family in ("integer", "bool", "text"):
            low, count = column.span
            numbers = found if column.entries is None else codes
            assert all(low <= numbers[row] < low + count for row in range(1000))
        assert len(values) * 8 == 4096 * column.bits


def held_column(folder, values):
    """A column of these values, as it is held, and the values that it gives back."""
    table = pa.table({"x": values})
    (column,) = (
        HeldTable(str(write(table, folder / "t.arrow", "arrow", 10_000)), CPU).columns({"x": kind_of(values.type)}).values()
    )
    stored = column.values.cpu().numpy().view(column.element)[: len(values)]
    return column, stored if column.entries is None else column.entries.numpy().view(column.taken)[stored]


@pytest.mark.parametrize(("differing", "bits"), [(1, 8), (256, 8), (257, 16), (65_536, 16), (65_537, None), (100_000, None)])
@pytest.mark.parametrize("element", ["int32", "int64", "uint32", "uint64", "float32", "float64"])
def test_numbers_of_which_few_differ_are_codes(tmp_path, element, differing, bits):
    rng = np.random.default_rng(differing)
    some = rng.permutation(differing)[np.append(np.arange(differing), rng.integers(0, differing, 120_000 - differing))]
    numbers = (some - differing // 2 if element.startswith("int") else some).astype(element)
    column, found = held_column(tmp_path, pa.array(numbers))
    assert column.bits == (bits or 8 * numbers.itemsize) and (column.entries is None) == (bits is None)
    assert np.array_equal(found.astype(element), numbers)
    assert len(column.values) * 8 == 30 * 4096 * column.bits  # rows of whole blocks
    assert element.startswith("float") or column.span == (0 if bits else int(numbers.min()), differing)


@pytest.mark.parametrize("element", ["int8", "int16", "uint16", "float16"])
def test_narrow_numbers_are_as_they_are(tmp_path, element):
    numbers = np.tile(np.arange(3), 2000).astype(element)
    column, found = held_column(tmp_path, pa.array(numbers))
    assert column.entries is None and np.array_equal(found, numbers)


@pytest.mark.parametrize("late", [1, 9999, 10_000, 50_000, 119_999])
@pytest.mark.parametrize("element", ["int32", "float64", "decimal"])
def test_codes_that_do_not_suffice_are_values_again(tmp_path, element, late):
    """Batches have 10,000 rows: what differs too much may come in the first, at the end of one, or last of all."""
    rng = np.random.default_rng(late)
    numbers = rng.integers(1, 65_537 if late > 100_000 else 1000, 200_000)
    numbers[late:] = np.arange(70_000, 270_000 - late)
    column, found = held_column(
        tmp_path, pa.array(numbers, "int32").cast(pa.decimal128(18) if element == "decimal" else element)
    )
    assert column.entries is None and np.array_equal(found.astype(np.int64), numbers)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_codes_are_the_same_for_any_number_of_threads(tmp_path, threads):
    rng = np.random.default_rng(7)
    before = _core.num_threads()
    try:
        _core.set_num_threads(threads)
        numbers = rng.integers(0, 40_000, 300_000)
        column, found = held_column(tmp_path, pa.array(numbers))
    finally:
        _core.set_num_threads(before)
    assert column.bits == 16 and len(column.entries) == len(np.unique(numbers)) and np.array_equal(found, numbers)


def test_codes_tell_zeros_and_nans_apart(tmp_path):
    """By their bits, for the answers are those of the CPU in every digit."""
    bits = [0, 1 << 63, 0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000000, 0x3FF0000000000000, 1]
    numbers = np.array(bits * 1000, np.uint64)
    column, found = held_column(tmp_path, pa.array(numbers.view(np.float64)))
    assert column.bits == 8 and len(column.entries) == len(bits) and np.array_equal(found.view(np.uint64), numbers)


def test_decimals_and_dates_are_codes(tmp_path):
    prices = pa.array([decimal.Decimal(row % 300 - 150) / 100 for row in range(5000)], pa.decimal128(12, 2))
    column, found = held_column(tmp_path, prices)
    assert column.bits == 16 and found.tolist() == [row % 300 - 150 for row in range(5000)]
    days = pa.array([18_000 + row % 30 for row in range(5000)], "int32").cast("date32")
    column, found = held_column(tmp_path, days)
    assert column.bits == 8 and column.span == (0, 30) and found[31] == 18_001


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_changes_is_read_again(tmp_path, replaced, device):
    file = write(pa.table({"x": [1, 2, 3]}), tmp_path / "t.arrow", "arrow", 10)
    query = hl.query(file, device=device)
    assert query.agg("sum(x)").rows == [{"sum(x)": 6}]
    other = write(pa.table({"x": [5, 6, 7, 8]}), tmp_path / "other.arrow", "arrow", 10)
    if replaced:
        os.replace(other, file)
    else:
        file.write_bytes(other.read_bytes())
    assert query.agg("sum(x)").rows == [{"sum(x)": 26}]


def test_threads_ask_one_table(tmp_path, device):
    query = hl.query(write(made(5000), tmp_path / "t.arrow", "arrow", 700), device=device)
    wanted = query.filter("int8 >= 0").agg("sum(int64)", "count()").rows
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(query.filter("int8 >= 0").agg("sum(int64)", "count()").rows))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 8
