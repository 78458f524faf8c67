"""All rows of a table at once: for checkpoints, and to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from ..memory.allocator import require_room
from ..memory.copies import copy
from ..runtime.errors import OutOfMemory
from ..runtime.thresholds import BOUNCE_BYTES
from .host import HostTable
from .table import Table
from .tiered import TieredTensor

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
    if isinstance(table, HostTable):
        return table.cpu()
    if isinstance(table, TieredTensor) and table.in_reach:
        table.flush()
        return table.host.cpu()
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
    if table.in_reach:
        rows = read_all(table)
        if values.data_ptr() != rows.data_ptr():
            copy(rows, values)
        if not isinstance(table, TieredTensor):
            return
        values = rows
    for part in _parts(table):
        table.scatter_(_numbers(part), values[part].to("cpu", table.dtype, copy=True))


def fill_all(table: Table, fill: Callable[[torch.Tensor], object]) -> None:
    """Has the table hold what ``fill`` fills tensors with: one of all rows, or some of parts of them."""
    if table.in_reach:
        rows = read_all(table)
        fill(rows)
        write_all(table, rows)
        return
    for part in _parts(table):
        numbers = _numbers(part)
        rows = torch.empty((len(numbers), *table.shape[1:]), dtype=table.dtype)
        fill(rows)
        table.scatter_(numbers, rows)


def _numbers(part: slice) -> torch.Tensor:
    return torch.arange(part.start, part.stop)
