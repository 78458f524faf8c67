"""All rows of a table at once: for checkpoints, and to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from ..memory.allocator import require_room
from ..memory.copies import copy
from ..runtime.errors import OutOfMemory
from ..runtime.thresholds import BOUNCE_BYTES
from .table import Table

_TOGETHER = 16  # elements that torch draws together; fewer it draws otherwise


def _parts(table: Table) -> Iterator[slice]:
    """Runs of rows of bounded size. Drawn one after another, they are what torch draws of all rows at once."""
    rows = len(table)
    step = max(1, BOUNCE_BYTES // max(table.row_bytes, 1) // _TOGETHER) * _TOGETHER
    few = -(-_TOGETHER * table.dtype.itemsize // max(table.row_bytes, 1))  # rows of as many elements
    begin = 0
    while begin < rows:
        end = rows if rows - begin < step + few else begin + step
        yield slice(begin, end)
        begin = end


def read_all(table: Table) -> torch.Tensor:
    """All rows in host memory: the table's own where they lie there, tiers being written back first; or else a copy.

    Raises:
        OutOfMemory: a table that lies in a file does not fit.
    """
    if (held := table._in_memory()) is not None:
        return held
    try:
        require_room(table.nbytes)
    except OutOfMemory as error:
        raise OutOfMemory(f"{table!r} does not fit into memory: {error}. After flush() its file has all rows") from None
    rows = torch.empty(table.shape, dtype=table.dtype)
    for part in _parts(table):
        table.gather(_numbers(part), rows[part])
    return rows


def write_all(table: Table, values: torch.Tensor) -> None:
    """Has the table hold ``values``, wherever its rows are."""
    table.require_writable()
    if (held := table.tensor_on(torch.device("cpu"))) is not None:
        if values.data_ptr() != held.data_ptr():
            copy(held, values)
        return
    for part in _parts(table):
        table.scatter_(_numbers(part), values[part].to("cpu", table.dtype, copy=True))


def fill_all(table: Table, fill: Callable[[torch.Tensor], object]) -> None:
    """Has the table hold what ``fill`` fills tensors with: one of all rows, or some of parts of them."""
    table.require_writable()
    if (held := table._in_memory()) is not None:
        fill(held)
        write_all(table, held)
        return
    for part in _parts(table):
        numbers = _numbers(part)
        rows = torch.empty((len(numbers), *table.shape[1:]), dtype=table.dtype)
        fill(rows)
        table.scatter_(numbers, rows)


def _numbers(part: slice) -> torch.Tensor:
    return torch.arange(part.start, part.stop)
