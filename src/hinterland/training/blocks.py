"""What a layer reads of a sample, and sums over it: rows are read where they lie, and none is kept for an edge, which for wide
rows is most of the memory and the time.

The layer nearest the seeds needs the seeds' neighbours only, the one before it theirs as well: each layer computes just the
vertices that a later one reads. In a sample of fixed shape a layer has room for more of both. How much of it counts stays on
the device: sums end where edges that count do, and what lies in rows behind is read by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..fullgraph.aggregate_launch import PartRows, RowEntries, aggregate_rows, compute_type, dense
from ..runtime.capture import capturing
from ..runtime.errors import ConfigError
from ..sampling.envelope import PaddedSample


@dataclass(frozen=True)
class Block:
    """What one layer reads and makes: vertices 0 to ``targets`` from the edges that lead to them.

    Attributes:
        row: int64 ``[e]``, the row of ``x`` that an edge brings; with padding the last of ``x``, for edges that do not count.
        col: int64 ``[e]``, ascending, the vertex it goes to; anything for edges that do not count.
        offsets: int64 ``[targets + 1]``, where each vertex's edges begin, and where the last one's end.
        degree: ``[sources]``, each vertex's neighbours in the whole graph; for GCN.
        weight: ``[e]``, how much an edge counts; for PinSAGE. None counts all alike.
        count: int64 of one number, how many edges count, where there is padding behind them.
    """

    row: Tensor
    col: Tensor
    offsets: Tensor
    degree: Tensor | None = None
    weight: Tensor | None = None
    count: Tensor | None = None

    @property
    def targets(self) -> int:
        return len(self.offsets) - 1

    def counts(self, like: Tensor) -> Tensor:
        """Edges of each target, ``[targets, 1]``."""
        return self.offsets.diff().to(like.dtype)[:, None]

    @property
    def entries(self) -> RowEntries:
        """The edges of the targets; nobody waits for how many they are."""
        return RowEntries(self.offsets[:-1], self.offsets[1:], self.row, most=len(self.row))

    def sum(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """The sum of the rows that the edges bring to each target, each times its ``weight`` ``[e]``, which has no gradient."""
        out: Tensor = _Sum.apply(x, self, weight, False)[0]
        return out

    def mean(self, x: Tensor) -> Tensor:
        """Their mean, by the edges' weights; 0 for a target without edges."""
        return self.mean_and_own(x)[0]

    def mean_and_own(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Their mean, and each target's own row of ``x``."""
        if self.weight is None:
            mean, own = _Sum.apply(x, self, None, True)
            return mean, own
        weight = self.weight.to(x.dtype)
        total = x.new_zeros(self.targets).index_add(0, self.col.clamp(max=self.targets - 1), weight)
        return self.sum(x, weight) / torch.where(total == 0, 1, total)[:, None], x[: self.targets]

    @property
    def is_captured(self) -> bool:
        """Whether sums are to end where edges that count do, or become part of a CUDA graph: then they are our kernels'. Else
        they are torch's, which are slower, but sooner launched."""
        return self.count is not None or (self.row.is_cuda and capturing())


def _summed(
    block: Block, x: Tensor, places: Tensor, offsets: Tensor, weight: Tensor | None = None, lengths: Tensor | None = None
) -> Tensor:
    """For each two offsets the sum, or with ``lengths`` the mean, of the rows of ``x`` at the places between; of none 0."""
    if x.is_cuda and block.is_captured:
        entries, (rows,) = RowEntries(offsets[:-1], offsets[1:], places, weight, most=len(places)), dense([x])
        return aggregate_rows(entries, PartRows(rows), x.new_empty(len(offsets) - 1, x.shape[1]), degrees=lengths)
    if block.count is not None:
        places = places[: offsets[-1]]
    if not len(places):
        return x.new_zeros(len(offsets) - 1, x.shape[1])
    mode, weight = "sum" if lengths is None else "mean", None if weight is None else weight[: len(places)].to(x.dtype)
    return F.embedding_bag(places, x.contiguous(), offsets, mode=mode, per_sample_weights=weight, include_last_offset=True)


class _Sum(torch.autograd.Function):
    """Weighted sums, or means, of the edges' rows, and the targets' own rows.

    The gradient is gathered along the edges turned around: one sort, and each sum in one order; what comes through the own rows
    is added where it belongs, without an array of zeros around it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Block, weight: Tensor | None, is_mean: bool) -> tuple[Tensor, Tensor]:
        # Autocast makes rows shorter than what they are multiplied by.
        weight = None if weight is None else weight.to(compute_type(x.dtype))
        lengths = block.offsets.diff() if is_mean else None
        ctx.block, ctx.weight, ctx.lengths, ctx.sources = block, weight, lengths, len(x)
        ctx.set_materialize_grads(False)
        return _summed(block, x, block.row, block.offsets, weight, lengths), x[: block.targets]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, own: Tensor | None) -> tuple[Tensor, None, None, None]:
        block, weight = ctx.block, ctx.weight
        if ctx.lengths is not None:
            grad = grad / ctx.lengths.clamp(min=1).to(grad.dtype)[:, None]
        offsets, order = turned(block, ctx.sources)
        found = _summed(block, grad, block.col[order], offsets, None if weight is None else weight[order])
        if own is not None:
            found[: block.targets] += own
        return found, None, None, None


def turned(block: Block, sources: int) -> tuple[Tensor, Tensor]:
    """The edges by the rows that they bring: where those of each begin and the last one's end, and which they are."""
    # Sorts go through all bits: of short numbers they take seven tenths of the time.
    first, kind = (-(1 << 15), torch.int16) if sources < 1 << 16 else (0, torch.int32)
    row, order = (block.row + first).to(kind).sort(stable=True)
    rows = torch.arange(first, first + sources + 1, device=row.device, dtype=kind)
    if block.count is not None:  # the last row is padding, and its edges do not count
        rows.clamp_(max=first + sources - 1)
    return torch.searchsorted(row, rows), order


def blocks(sample: Any, degree: Tensor | None = None, weight: Tensor | None = None) -> list[Block]:
    """The blocks of the layers, first to last, as many as the sample has hops.

    Vertices of hop h are sampled from those of hop h - 1, so the layer that is followed by k others needs the edges of the
    first k + 1 hops only.

    Args:
        sample: a hinterland.sampling.Sample, or what has its ``row``, ``col``, ``num_sampled_nodes`` and
            ``num_sampled_edges``. Its edges lie by target, as every sampler gives them.
        degree, weight: of the sample's vertices and edges; see Block.

    Raises:
        ConfigError: the edges are in another order (seen on the CPU, where looking costs nothing).
    """
    row, col = sample.row, sample.col
    if col.device.type == "cpu" and bool((col[1:] < col[:-1]).any()):
        raise ConfigError("the sample's edges do not lie by target; sort row and col by col, keeping the hops apart")
    nodes, edges = list(accumulate(sample.num_sampled_nodes)), list(accumulate(sample.num_sampled_edges))
    # The edges of a hop come after those of the hops before, and so do their targets: each layer's offsets are the first ones.
    offsets = torch.searchsorted(col, torch.arange(nodes[-2] + 1, device=col.device))
    found = []
    for hops in range(len(edges), 0, -1):
        end, sources, targets = edges[hops - 1], nodes[hops], nodes[hops - 1]
        block = Block(
            row[:end],
            col[:end],
            offsets[: targets + 1],
            None if degree is None else degree[:sources],
            None if weight is None else weight[:end],
        )
        if isinstance(sample, PaddedSample):
            block = _bounded(block, sources, sample.ends[1, hops], is_all=hops == len(edges))
        found.append(block)
    return found


def _bounded(block: Block, sources: int, count: Tensor, is_all: bool) -> Block:
    """``block``, of whose edges the first ``count`` count. Behind them are those of the next hop, unless it has all edges, and
    padding."""
    row, weight = block.row, block.weight
    if not is_all or weight is not None:
        behind = torch.arange(len(row), device=count.device) >= count
        row = row.masked_fill(behind, sources - 1)
        weight = None if weight is None else weight.masked_fill(behind, 0)
    return replace(block, row=row, offsets=torch.minimum(block.offsets, count), weight=weight, count=count)
