"""``torch.ops.hinterland.gather`` and ``tiered_gather``: the gather as operators that torch.compile and autograd know.

An operator takes tensors and numbers. Rows of tiers lie in no one tensor, so tiered tables are numbered, and the operator takes
the number beside the tensor in host memory, which says what rows are and takes their gradient.
"""

from __future__ import annotations

from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import torch

from ..memory.gather import copy_rows
from ..runtime.errors import ConfigError
from .table import Table

_tiered: WeakValueDictionary[int, Table] = WeakValueDictionary()
_numbers = count()

_library = torch.library.Library("hinterland", "FRAGMENT")
for _schema in (
    "gather(Tensor table, Tensor index, int max_blocks=-1, bool sparse=False) -> Tensor",
    "tiered_gather(Tensor table, Tensor index, int tiers, int max_blocks=-1, bool sparse=False) -> Tensor",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


def _gather(table: torch.Tensor, index: torch.Tensor, max_blocks: int = -1, sparse: bool = False) -> torch.Tensor:
    """Rows of ``table`` at ``index`` (int32 or int64, any shape): shape ``index.shape + table.shape[1:]``.

    ``table`` is contiguous, on the device of ``index``; ``UnifiedTensor.cuda()`` is host memory as such a table.
    With ``sparse`` its gradient is a sparse tensor of the rows that were taken, as torch.nn.Embedding's is.
    """
    if table.dim() == 0 or not table.is_contiguous():
        raise ConfigError("gather needs a contiguous table of at least one dimension; use table.contiguous()")
    if table.device != index.device:
        raise ConfigError(
            f"the table is on {table.device} and the row numbers are on {index.device}; "
            "for a UnifiedTensor pass ut.cuda(index.device) or ut.cpu()"
        )
    rows = table.shape[0]
    out = table.new_empty(index.shape + table.shape[1:])
    row_bytes = table[:0].new_empty(table.shape[1:]).nbytes if rows == 0 else table.nbytes // rows
    copy_rows(
        table.data_ptr(),
        rows,
        row_bytes,
        out,
        index.contiguous(),
        max_blocks=None if max_blocks == -1 else max_blocks,
    )
    return out


def number(table: Table) -> int:
    """The number by which ``tiered_gather`` knows ``table``, for as long as it lives."""
    named = next(_numbers)
    _tiered[named] = table
    return named


def _tiered_gather(
    table: torch.Tensor, index: torch.Tensor, tiers: int, max_blocks: int = -1, sparse: bool = False
) -> torch.Tensor:
    """As ``gather``, but each row comes from the tier where it lives: of the TieredTensor numbered ``tiers`` over ``table``."""
    rows = _tiered.get(tiers)
    if rows is None or rows.shape != table.shape or rows.dtype != table.dtype:
        raise ConfigError(
            f"tiers {tiers} are none over a table of shape {tuple(table.shape)}; keep the TieredTensor, and index it"
        )
    return rows.gather(index, max_blocks=None if max_blocks == -1 else max_blocks)


_library.impl("gather", _gather, "CPU")
_library.impl("gather", _gather, "CUDA")
_library.impl("tiered_gather", _tiered_gather, "CPU")
_library.impl("tiered_gather", _tiered_gather, "CUDA")


def _fake(table: torch.Tensor, index: torch.Tensor, *_: int) -> torch.Tensor:
    return table.new_empty(index.shape + table.shape[1:])


def _setup(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    table, index, *others = inputs
    ctx.save_for_backward(index)
    ctx.table_shape, ctx.others, ctx.sparse = table.shape, len(others), others[-1]


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    (index,) = ctx.saved_tensors
    shape = ctx.table_shape
    flat = index.reshape(-1)
    flat = torch.where(flat < 0, flat + shape[0], flat)
    rows = gradient.reshape(flat.shape + shape[1:])
    if ctx.sparse:
        whole = torch.sparse_coo_tensor(flat.view(1, -1).long(), rows, shape, check_invariants=False)
    else:  # a table may be larger than its gradient's device; who asks for the gradient of all of it accepts that
        whole = gradient.new_zeros(shape).index_add(0, flat, rows)
    return whole, *[None] * (1 + ctx.others)


for _operator in ("hinterland::gather", "hinterland::tiered_gather"):
    torch.library.register_fake(_operator, _fake, lib=_library)
    torch.library.register_autograd(_operator, _backward, setup_context=_setup, lib=_library)
