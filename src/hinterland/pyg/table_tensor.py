"""Tables of a Data object as PyG's own code meets them: tensors whose rows are gathered, never copied as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..memory import allocator
from ..runtime import devices
from ..runtime.errors import ConfigError
from ..table import UnifiedTensor, as_table
from ..training.row_gather import gather_blocks_for, rows_of
from .counted import read
from .once import once

aten = torch.ops.aten


class TableTensor(torch.Tensor):
    """A table that says it is a tensor on ``device``, and knows only how to give rows: ``index_select`` along ``dim``.

    PyG's loaders read node and edge attributes by nothing else (torch_geometric/loader/utils.py), so their code fetches from
    a table in host memory without knowing it.

    Args:
        table: a UnifiedTensor, or anything with its ``gather``, ``shape`` and ``dtype``.
        device: where rows are wanted.
        dim: the dimension that counts the rows; the table has it first.
    """

    table: Any
    dim_of_rows: int

    @staticmethod
    def __new__(cls, table: Any, device: torch.device, dim: int = 0) -> TableTensor:
        shape = list(table.shape)
        shape.insert(dim, shape.pop(0))
        made: TableTensor = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=table.dtype, device=device)
        made.table, made.dim_of_rows = table, dim
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Rows({self.table!r}, device={self.device})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        if func is aten.index_select.default:
            rows, dim, index = args
            if dim % rows.ndim == rows.dim_of_rows:
                return _gathered(rows.table, index).movedim(0, rows.dim_of_rows)
        if func in (aten.detach.default, aten.alias.default):
            return args[0]
        raise ConfigError(
            f"a table that stays in host memory is read by rows, not by {func}; give the loader a torch tensor instead, or do "
            "this to the batch"
        )


def _gathered(table: Any, index: torch.Tensor) -> torch.Tensor:
    if as_table(table) is not None:
        with read() as stats:
            return rows_of(table, index, gather_blocks_for(table, index.device), stats=stats)
    found: torch.Tensor = table.gather(index)  # the user's own kind of table
    return found


def is_table(value: Any) -> bool:
    """Whether ``value`` is a table, as UnifiedTensor, TieredTensor and StorageArray are."""
    return not isinstance(value, torch.Tensor) and all(hasattr(value, name) for name in ("gather", "shape", "dtype"))


def table_of(value: Any, placement: str, dim: int = 0) -> Any:
    """The table of a node's or edge's attribute, its rows along the first dimension. ``ut.cpu()`` is read where it lies; any
    other tensor is copied once."""
    if is_table(value):
        return value
    if isinstance(value, np.ndarray):
        return UnifiedTensor.from_tensor(torch.from_numpy(value).movedim(dim, 0), placement)
    own = table_over(value) if dim == 0 else None
    if own is not None:
        return own
    return once(value, ("table", placement, dim), lambda: UnifiedTensor.from_tensor(value.movedim(dim, 0), placement))


def table_over(tensor: torch.Tensor) -> UnifiedTensor | None:
    """The table whose ``cpu()`` the tensor is, over the same memory; None of other tensors, and of pageable memory where there
    is a GPU, which does not see it."""
    if not tensor.is_cpu or not tensor.is_contiguous() or tensor.ndim == 0 or tensor.numel() == 0:
        return None
    held = allocator.buffer_at(tensor.data_ptr())
    if held is None or held.nbytes < tensor.nbytes or (held.mapping == "pageable" and devices.cuda_available()):
        return None
    return UnifiedTensor(held, tensor.dtype, tensor.shape)
