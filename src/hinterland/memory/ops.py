"""``torch.ops.hinterland.gather``: the gather as an operator that torch.compile and autograd know."""

from __future__ import annotations

from typing import Any

import torch

from ..runtime.errors import ConfigError
from .gather import copy_rows

_library = torch.library.Library("hinterland", "FRAGMENT")
_library.define("gather(Tensor table, Tensor index, int max_blocks=-1) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))


def _gather(table: torch.Tensor, index: torch.Tensor, max_blocks: int = -1) -> torch.Tensor:
    """Rows of ``table`` at ``index`` (int32 or int64, any shape): shape ``index.shape + table.shape[1:]``.

    ``table`` is contiguous, on the device of ``index``; ``UnifiedTensor.cuda()`` is host memory as such a table.
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
    # A graph that is being captured cannot be waited for: its faults are met by the next call.
    capturing = index.is_cuda and torch.cuda.is_current_stream_capturing()
    copy_rows(
        table.data_ptr(),
        rows,
        row_bytes,
        out,
        index.contiguous(),
        max_blocks=None if max_blocks == -1 else max_blocks,
        check="async" if capturing else "sync",
    )
    return out


_library.impl("gather", _gather, "CPU")
_library.impl("gather", _gather, "CUDA")


@torch.library.register_fake("hinterland::gather", lib=_library)
def _(table: torch.Tensor, index: torch.Tensor, max_blocks: int = -1) -> torch.Tensor:
    return table.new_empty(index.shape + table.shape[1:])


def _setup(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor, int], output: torch.Tensor) -> None:
    table, index, _ = inputs
    ctx.save_for_backward(index)
    ctx.table_shape = table.shape


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, None, None]:
    (index,) = ctx.saved_tensors
    shape = ctx.table_shape
    flat = index.reshape(-1)
    flat = torch.where(flat < 0, flat + shape[0], flat)
    # A table may be larger than its gradient's device; who asks for the gradient of all of it accepts that.
    rows = gradient.reshape(flat.shape + shape[1:])
    return gradient.new_zeros(shape).index_add(0, flat, rows), None, None


torch.library.register_autograd("hinterland::gather", _backward, setup_context=_setup, lib=_library)
