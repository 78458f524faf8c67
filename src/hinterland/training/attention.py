"""Attention of a block's targets over their edges, with gradients: nothing is kept for an edge."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from .. import _core
from ..fullgraph.aggregate_launch import PartRows, RowEntries, compute_type, dense
from ..fullgraph.attend import Scores, attend
from .blocks import Block, turned

SLOPE = 0.2  # of the leaky ReLU below 0


def attended(block: Block, h: Tensor, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of the rows that the edges bring to each target, each head's by attention (Velickovic et al. 2018, equation 3).

    Args:
        h: ``[sources, heads, channels]``.
        source, target: ``[sources, heads]`` and ``[targets, heads]``: an edge's score is the leaky ReLU of their sum.

    Returns:
        ``[targets, heads, channels]``, 0 for a target without edges; and ``[targets, heads]``, the logarithm of the sum of what
        the scores are exponentiated to, of none minus infinity.
    """
    kind, (heads, channels) = compute_type(h.dtype), h.shape[1:]
    parts = -(-channels // _core.MOST_CHANNELS)
    each = -(-channels // parts)
    if parts > 1:  # a head of many channels is several that attend alike
        h = F.pad(h, (0, parts * each - channels)).view(len(h), heads * parts, each)
        source, target = (score.repeat_interleave(parts, 1) for score in (source, target))
    out, logarithm = _Attention.apply(h, source.to(kind), target.to(kind), block)
    return out.view(len(out), heads, parts * each)[..., :channels], logarithm[:, ::parts]


class _Attention(torch.autograd.Function):
    """The gradient by what belongs to targets is made along the edges, that by what belongs to sources along the edges turned
    around, from scores that are computed anew."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, source: Tensor, target: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        (rows,), scores = dense([h.flatten(1)]), Scores("gat", h.shape[1], SLOPE)
        source, target = source.contiguous(), target.contiguous()
        found = attend(scores, "forward", block.entries, PartRows(rows), PartRows(source), rows.shape[1], number=target)
        ctx.block, ctx.scores = block, scores
        ctx.save_for_backward(rows, source, target, found.out, found.number)
        return found.out.view(block.targets, *h.shape[1:]).to(h.dtype), found.number

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, of_logarithm: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, source, target, out, logarithm = ctx.saved_tensors
        block, scores, width = ctx.block, ctx.scores, rows.shape[1]
        (given,) = dense([grad.flatten(1)])
        delta = (grad * out.view_as(grad)).sum(2) - of_logarithm
        own: dict[str, Any] = {"number": target, "gradient": given, "logarithm": logarithm, "delta": delta}
        targets = attend(scores, "target", block.entries, PartRows(rows), PartRows(source), width, **own)
        offsets, order = turned(block, len(rows))
        entries = RowEntries(offsets[:-1], offsets[1:], block.col[order], most=len(order))
        numbers = PartRows(torch.cat([target, logarithm, delta], 1))
        sources = attend(scores, "source", entries, PartRows(given), numbers, width, row=rows, number=source)
        return sources.out.view(len(rows), *grad.shape[1:]).to(grad.dtype), sources.number, targets.number, None
