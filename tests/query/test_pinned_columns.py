"""Tables that stay open, and their columns in one piece."""

from __future__ import annotations

import os
import threading
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

import hinterland as hl  # noqa: E402
from hinterland.query.bounds import kind_of  # noqa: E402
from hinterland.query.pinned_columns import PinnedTable, _Copy  # noqa: E402

from .tables import made, write  # noqa: E402

CPU = torch.device("cpu")


@pytest.mark.parametrize(("kind", "rows"), [("arrow", 1000), ("arrow", 77), ("lz4", 333), ("parquet", 500)])
def test_columns_are_the_files(tmp_path, kind, rows):
    table = made(1000)
    held = PinnedTable(str(write(table, tmp_path / "t", kind, rows)), CPU)
    kinds = {field.name: kind_of(field.type) for field in table.schema}
    columns = held.columns(kinds, {})
    assert held.columns(kinds, {})["int8"] is columns["int8"]
    for name, column in columns.items():
        require_same(column, kinds[name], table.column(name).to_pylist())


def require_same(column, kind, wanted):
    """That a held column has these values."""
    rows = len(wanted)
    bits = np.unpackbits(column.valid.cpu().numpy(), bitorder="little")[:rows] if column.valid is not None else np.ones(rows)
    values = column.values.cpu().numpy()
    if column.element == "bool":
        found = np.unpackbits(values, bitorder="little")[:rows].astype(bool).tolist()
    else:
        found = values.view(column.element)[:rows]
        if column.entries is not None:
            codes = found.tolist()
            found = column.entries.numpy().view(column.taken)[found]
        found = found.tolist()
    for row in range(rows):
        assert bool(bits[row]) == (wanted[row] is not None)
        if bits[row] and kind.family == "text":
            assert column.texts.texts(np.array(found[row : row + 1]))[0] == [wanted[row]]
        elif bits[row] and kind.family == "float":
            assert np.array_equal(found[row], wanted[row], equal_nan=True)
        elif bits[row]:
            assert kind.values([int(found[row])]) == [wanted[row]]
    if kind.family in ("integer", "bool", "text"):
        low, count = column.span
        numbers = found if column.entries is None else codes
        assert all(low <= numbers[row] < low + count for row in range(rows))
    assert len(values) * 8 == 4096 * column.bits


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    first=st.integers(0, 70),
    cuts=st.lists(st.integers(1, 199), max_size=4, unique=True),
    name=st.sampled_from(made(1).column_names),
)
def test_slices_that_are_not_aligned(seed, first, cuts, name):
    """Bits of truth values and of nulls may begin anywhere in a byte, and values anywhere in memory."""
    column = made(300, seed).column(name).chunk(0).slice(first, 200)
    kind = kind_of(column.type)
    copy = _Copy(kind, 200, CPU)
    for begin, end in pairwise([0, *sorted(cuts), 200]):
        array = column.slice(begin, end - begin)
        if kind.bits >= 8 and kind.family != "text":  # and values at an odd address
            valid, values = array.buffers()
            moved = pa.py_buffer(b"\0" + values.to_pybytes()).slice(1)
            array = pa.Array.from_buffers(array.type, len(array), [valid, moved], offset=array.offset)
        copy.add("a column", array, begin)
    require_same(copy.done(), kind, column.to_pylist())


def test_bits_of_no_null_are_not_kept():
    """Pyarrow has some of Parquet's columns that may have nulls."""
    values, bits = pa.py_buffer(np.arange(9, dtype=np.int64).tobytes()), pa.py_buffer(b"\xff\x01")
    for array, kept in ((pa.Array.from_buffers(pa.int64(), 9, [bits, values]), False), (pa.array([1, None]), True)):
        copy = _Copy(kind_of(array.type), len(array), CPU)
        copy.add("a column", array, 0)
        assert (copy.done().valid is not None) == kept


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
