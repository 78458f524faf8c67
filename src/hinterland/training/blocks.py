"""What a layer reads of a sample, and sums over it: rows are read where they lie, and none is kept for an edge, which for wide
rows is most of the memory and the time.

The layer nearest the seeds needs the seeds' neighbours only, the one before it theirs as well: each layer computes just the
vertices that a later one reads. In a sample of fixed shape a layer has room for more of both. How much of it counts stays on
the device: sums end where edges that count do, and what lies in rows behind is read by nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..fullgraph.aggregate_launch import PartRows, RowEntries, aggregate_rows, compute_type, dense
from ..runtime.errors import ConfigError
from ..sampling.envelope import PaddedSample


@dataclass(frozen=True)
class Block:
    """What one layer reads and makes: vertices 0 to ``targets`` from the edges that lead to them.

    Attributes:
        row: int64 ``[e]``, the row of ``x`` that an edge brings; with padding the last of ``x``, for edges that do not count.
        col: int64 ``[e]``, ascending, the vertex it goes to.
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
        out: Tensor = _Sum.apply(x, weight, self, None)[0]
        return out

    def mean(self, x: Tensor) -> Tensor:
        """Their mean, by the edges' weights; 0 for a target without edges."""
        return self.mean_and_own(x)[0]

    def mean_and_own(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Their mean, and each target's own row of ``x``."""
        kind = compute_type(x.dtype)
        if self.weight is None:
            total = self.offsets.diff().to(kind).clamp_(min=1)
        else:
            total = torch.zeros(self.targets, dtype=kind, device=x.device).index_add(0, self.col, self.weight.to(kind))
            total = total.masked_fill(total == 0, 1)
        mean, own = _Sum.apply(x, self.weight, self, total.reciprocal())
        return mean, own


def _summed(x: Tensor, places: Tensor, offsets: Tensor, weight: Tensor | None, scale: Tensor | None) -> Tensor:
    """For each two offsets the sum of the rows of ``x`` at the places between them, times ``scale``; 0 where there are none."""
    if x.is_cuda:
        entries, (rows,) = RowEntries(offsets[:-1], offsets[1:], places, weight, most=len(places)), dense([x])
        return aggregate_rows(entries, PartRows(rows), x.new_empty(len(offsets) - 1, x.shape[1]), scale=scale)
    if not len(places):
        return x.new_zeros(len(offsets) - 1, x.shape[1])
    places = places[: offsets[-1]]
    weight = None if weight is None else weight[: len(places)].to(x.dtype)
    out = F.embedding_bag(places, x.contiguous(), offsets, mode="sum", per_sample_weights=weight, include_last_offset=True)
    return out if scale is None else out.mul_(scale[:, None])


class _Sum(torch.autograd.Function):
    """Weighted sums of the edges' rows, each times its target's ``scale``, and the targets' own rows.

    The gradient is gathered along the edges turned around: one sort, and each sum in one order; what comes through the own rows
    is added where it belongs, without an array of zeros around it.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, block: Block, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        weight = None if weight is None else weight.to(compute_type(x.dtype))
        ctx.block, ctx.weight, ctx.scale, ctx.sources = block, weight, scale, len(x)
        ctx.set_materialize_grads(False)
        return _summed(x, block.row, block.offsets, weight, scale), x[: block.targets]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, own: Tensor | None) -> tuple[Tensor, None, None, None]:
        block, weight, scale = ctx.block, ctx.weight, ctx.scale
        offsets, order = turned(block, ctx.sources)
        places = block.col[order]
        weights = None if weight is None else weight[order]
        if scale is not None:
            weights = scale[places] if weights is None else weights * scale[places]
        found = _summed(grad, places, offsets, weights, None)
        if own is not None:
            found[: block.targets] += own
        return found, None, None, None


def turned(block: Block, sources: int) -> tuple[Tensor, Tensor]:
    """The edges by the rows that they bring: where those of each begin and the last one's end, and which they are."""
    row, order = block.row.int().sort(stable=True)
    rows = torch.arange(sources + 1, device=row.device, dtype=row.dtype)
    if block.count is not None:  # the last row is padding, and its edges do not count
        rows.clamp_(max=sources - 1)
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
        found.append(_bounded(block, sources, sample.ends[1, hops]) if isinstance(sample, PaddedSample) else block)
    return found


def _bounded(block: Block, sources: int, count: Tensor) -> Block:
    """``block``, of whose edges the first ``count`` count. Behind them are those of the next hop, whose ends are not the
    layer's, and padding."""
    offsets = torch.minimum(block.offsets, count)
    behind = torch.arange(len(block.row), device=count.device) >= count
    row, weight = block.row.masked_fill(behind, sources - 1), block.weight
    weight = None if weight is None else weight.masked_fill(behind, 0)
    return Block(row, block.col.clamp(max=block.targets - 1), offsets, block.degree, weight, count)
