"""Tables whose rows are put into another order."""

from __future__ import annotations

import torch

from ..runtime import arguments
from .gather import copy_rows
from .order import permutation
from .unified import UnifiedTensor


def reorder_rows(table: UnifiedTensor, order: torch.Tensor, placement: str | None = None) -> UnifiedTensor:
    """A table whose row i is row ``order[i]`` of ``table``, copied by all threads, with no memory beside the two tables.

    Args:
        table: the rows.
        order: int64 ``[rows]``, each row once.
        placement: where the new table goes; by default where the old one is.

    Raises:
        ConfigError: ``order`` is no permutation of the rows.
        OutOfMemory: the new table does not fit beside the old one.
    """
    arguments.instance("table", table, UnifiedTensor, "make one with UnifiedTensor.from_tensor(tensor)")
    order = permutation(order, len(table))
    if placement is None:  # asked for by name, mapped memory is an error where it has run out
        placement = "host" if table.placement == "mapped" else table.placement
    made = UnifiedTensor._allocate(tuple(table.shape), table.dtype, placement, False, touch=False)
    copy_rows(table.cpu().data_ptr(), len(table), table.row_bytes, made.cpu(), order)
    return made
