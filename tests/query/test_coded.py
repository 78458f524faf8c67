"""Numbers of which few differ are held as codes; others as they are."""

from __future__ import annotations

import decimal

import numpy as np
import pytest
import torch

pa = pytest.importorskip("pyarrow")

from hinterland import _core  # noqa: E402
from hinterland.query import coded  # noqa: E402
from hinterland.query.bounds import kind_of  # noqa: E402
from hinterland.query.pinned_columns import PinnedTable  # noqa: E402
from hinterland.table import UnifiedTensor  # noqa: E402

from .tables import write  # noqa: E402

CPU = torch.device("cpu")


def held_column(folder, values):
    """A column of these values, as it is held, and the values that it gives back."""
    table = pa.table({"x": values})
    (column,) = (
        PinnedTable(str(write(table, folder / "t.arrow", "arrow", 10_000)), CPU)
        .columns({"x": kind_of(values.type)}, {})
        .values()
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
def test_codes_are_the_same_for_any_number_of_threads(tmp_path, threads, set_threads):
    rng = np.random.default_rng(7)
    set_threads(threads)
    numbers = rng.integers(0, 40_000, 300_000)
    column, found = held_column(tmp_path, pa.array(numbers))
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


@pytest.mark.filterwarnings("error")
def test_signalling_nan(tmp_path):
    numbers = np.array([0x7F800001, 0x3F800000] * 50, np.uint32)
    column, found = held_column(tmp_path, pa.array(numbers.view(np.float32)))
    assert column.bits == 8 and np.isnan(found[::2]).all() and (found[1::2] == 1).all()


def test_there_is_no_room_for_codes_that_soon_do_not_suffice(tmp_path, monkeypatch):
    """Also where batches are small: 10,000 rows each."""
    rooms = []
    made = coded.NumberCopy.__init__
    monkeypatch.setattr(
        coded.NumberCopy,
        "__init__",
        lambda self, bits, rows, room: made(self, bits, rows, lambda bits: (rooms.append(bits), room(bits))[1]),
    )
    numbers = np.random.default_rng(1).random(500_000)
    assert np.array_equal(held_column(tmp_path, pa.array(numbers))[1], numbers) and rooms == [64]
    rooms.clear()
    assert held_column(tmp_path, pa.array(np.round(numbers, 3)))[0].bits == 16 and rooms == [16]


@pytest.mark.parametrize("seed", range(5))
def test_any_numbers_in_any_pieces(seed):
    rng = np.random.default_rng(seed)
    for element in ("int32", "uint64", "float64"):
        rows, few = int(rng.integers(1, 600_000)), int(rng.choice([1, 100, 5000, 65_536, 65_600, 10**6]))
        numbers = rng.integers(0, few, rows).astype(element)
        copy = coded.NumberCopy(8 * numbers.itemsize, rows, lambda bits, rows=rows: room_of(rows, bits))
        cuts = np.unique(np.append(rng.integers(0, rows, int(rng.integers(0, 50))), [0, rows]))
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            copy.add(numbers.ctypes.data + begin * numbers.itemsize, begin, end - begin)
        values, bits, entries = copy.done()
        stored = values.cpu().numpy()[: rows * bits // 8].view(element if entries is None else f"uint{bits}")
        assert np.array_equal(stored if entries is None else entries.view(element)[stored], numbers)
        assert (entries is None) == (len(np.unique(numbers)) > 65_536)


def room_of(rows, bits):
    return UnifiedTensor.empty((rows * bits // 8,), torch.uint8, "pageable")


def test_numbers_made_to_collide():
    """Words whose hashes would share their low bits without a seed: chosen by going the hash's steps back."""
    word, mask = np.uint64, (1 << 64) - 1
    hashes = np.arange(1, 30_001, dtype=np.uint64) << word(20)
    back = hashes ^ (hashes >> word(32))
    back = back * word(pow(0xD6E8FEB86659FD93, -1, 1 << 64) & mask)
    back ^= back >> word(32)
    back *= word(pow(0x9E3779B97F4A7C15, -1, 1 << 64) & mask)
    numbers = np.tile(back, 20)
    known, codes = _core.QueryCodes(8), np.empty(len(numbers), np.uint16)
    assert known.add(numbers.ctypes.data, len(numbers), codes.ctypes.data)  # which took minutes
    entries = np.empty(len(known), np.uint64)
    known.copy_to(entries.ctypes.data)
    assert len(known) == 30_000 and np.array_equal(entries[codes], numbers)
