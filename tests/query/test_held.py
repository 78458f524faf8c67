"""Tables that stay open, and their columns in one piece."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch

pa = pytest.importorskip("pyarrow")

import hinterland as hl  # noqa: E402
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
                assert kinds[name].values([int(found[row])]) == [wanted[row]]
        if kinds[name].family in ("integer", "bool", "text"):
            low, count = column.span
            numbers = found if column.entries is None else codes
            assert all(low <= numbers[row] < low + count for row in range(1000))
        assert len(values) * 8 == 4096 * column.bits


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
