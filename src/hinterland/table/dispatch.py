"""torch's functions of tables (``__torch_function__``): of the tensor over the same bytes, or a sentence on what gives one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from ..memory import faults


class Whole(Protocol):
    """A table, as torch's functions meet it."""

    @property
    def requires_grad(self) -> bool: ...

    @property
    def shape(self) -> torch.Size: ...

    def _tensor_for(self, device: torch.device, what: str) -> torch.Tensor:
        """All of it as a tensor that ``device`` reads, for ``what``; NotATensor where there is none."""

    def __getitem__(self, index: Any) -> torch.Tensor: ...


def call(kind: type[Any], func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``func`` of arguments among which there are tables, objects of ``kind``: where some are on a GPU, it reads the tables.

    Functions that take rows by their numbers are gathers of ours, of any table.
    """
    of_rows = _OF_ROWS.get(func)
    if of_rows is not None and (rows := of_rows(kind, *args, **kwargs)) is not None:
        return rows
    leaves = pytree.tree_leaves((args, kwargs))
    device = next((one.device for one in leaves if isinstance(one, torch.Tensor) and one.is_cuda), torch.device("cpu"))
    name = getattr(func, "__name__", str(func))
    tensors = pytree.tree_map(lambda one: one._tensor_for(device, name) if isinstance(one, kind) else one, (args, kwargs))
    return func(*tensors[0], **tensors[1])


def _index_select(kind: type[Any], input: Any, dim: int, index: Any, *, out: Any = None) -> torch.Tensor | None:
    """Rows, where it is rows that are selected; None leaves it to torch."""
    if not isinstance(input, kind) or not isinstance(index, torch.Tensor) or out is not None:
        return None
    if dim not in (0, -len(input.shape)) or index.dim() > 1:
        return None
    return _rows(input, index.reshape(-1))


def _embedding(
    kind: type[Any],
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> torch.Tensor | None:
    """As above. What the other options say is of gradients, except ``max_norm``, which changes the table."""
    plain = padding_idx is None and not scale_grad_by_freq and not sparse
    if not isinstance(weight, kind) or not isinstance(input, torch.Tensor) or max_norm is not None or len(weight.shape) != 2:
        return None
    return _rows(weight, input) if plain or not (weight.requires_grad and torch.is_grad_enabled()) else None


def _rows(table: Whole, index: torch.Tensor) -> torch.Tensor:
    """Here -1 is no row: torch's functions refuse it, which indices take for the last."""
    if index.dtype in (torch.int32, torch.int64) and bool((index < 0).any()):
        flat = index.reshape(-1)
        at = int((flat < 0).nonzero()[0])
        raise faults.out_of_range(at, int(flat[at]), table.shape[0], int((flat < 0).sum()), from_end=False)
    return table[index]


_OF_ROWS: dict[Any, Callable[..., torch.Tensor | None]] = {
    torch._C._VariableFunctions.index_select: _index_select,  # torch.index_select, in whose place PyG puts one that calls it
    torch.Tensor.index_select: _index_select,
    F.embedding: _embedding,
}
