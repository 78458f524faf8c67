"""Sums, means and maxima over the neighbours of every vertex of a partitioned graph, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..runtime import arguments
from .aggregate_launch import compute_type, dense
from .host import HostRows, RowsOf, row_type, through_host
from .host_passes import Maxima, Sums
from .partitioned import PartitionedGraph
from .plan import choose
from .reduce import Operation, matched, maxima, summed
from .scales import gcn_scale, inverse_degrees, loops
from .strategies import STRATEGIES

WAYS = ("auto", *STRATEGIES, "host")  # all strategies that users can name
REDUCES = ("sum", "mean", "max", "gcn")


def aggregate(p: PartitionedGraph, x: Any, reduce: str = "sum", *, strategy: str = "auto") -> Any:
    """Combines the rows of every vertex's neighbours. Differentiable with respect to ``x``.

    In a process group all ranks call it together, with rows of the same type and width, and the gradient as well: a rank whose
    loss does not depend on its part calls ``backward`` all the same.

    Args:
        p: a partitioned graph.
        x: ``[n, width]`` of float32, float64, float16 or bfloat16: the rows of this part, as ``p.scatter`` gives them;
            a list of them where it has several.
        reduce: ``"sum"`` over the neighbours, each times its edge's weight where the graph has weights: the rows of A x;
            ``"mean"`` and ``"max"``, by element, without weights, and 0 for a vertex without neighbours; ``"gcn"``: those of
            D^-1/2 (A + I) D^-1/2 x (Kipf and Welling 2017), with weights; a vertex that is its own neighbour stays as it is.
        strategy: how rows of other parts are read: a key of ``hinterland.fullgraph.STRATEGIES``, or ``"auto"``; ``"host"``:
            rows go through the GPU in blocks, results lie where ``x`` does. So do rows in host memory, and all with a
            ``gpu_budget``, whatever is named.

    Returns:
        As ``x``; of rows that were put off (HostRows), such.
        Sums are made in float32, of float64 rows in float64, in an order that depends on the partition.

    Raises:
        ConfigError: arguments that are none of these; in all ranks alike, in one of the first calls over the graph: ranks that
            call it otherwise.
        RankLost: another rank died, or gave no answer within the timeout of the process group.
    """
    arguments.instance("p", p, PartitionedGraph, "make one with PartitionedGraph.from_graph(graph)")
    arguments.one_of("reduce", reduce, REDUCES)
    arguments.one_of("strategy", strategy, WAYS)
    rows = through_host(p, x, strategy)
    if rows is None:
        return p.as_given(_aggregated(p, p.each(x), reduce, strategy))
    found = _aggregated(p, rows, reduce, strategy)
    if isinstance(x, HostRows) or not isinstance(found, HostRows):
        return found
    return p.as_given(found.computed(on_host=rows.is_away))


def _aggregated(p: PartitionedGraph, rows: RowsOf, reduce: str, strategy: str) -> RowsOf:
    kind = compute_type(row_type(rows))
    if reduce == "gcn":
        return normalized(p, rows, strategy)
    if reduce == "mean":
        return apply(p, mean(p, kind), rows, strategy)
    return apply(p, Operation(reduce, reduce == "sum" and p.has_weights), rows, strategy)


def normalized(p: PartitionedGraph, rows: RowsOf, strategy: str, fill: float = 1.0) -> RowsOf:
    """The rows of D^-1/2 (A + ``fill`` I) D^-1/2 x, with a gradient; a vertex that is its own neighbour stays as it is."""
    kind = compute_type(row_type(rows))
    scale = gcn_scale(p, kind, fill)
    operation = Operation("sum", p.has_weights, scale, loops(p, kind, fill) if fill else None)
    return apply(p, operation, _scaled(rows, scale), strategy)


def mean(p: PartitionedGraph, kind: torch.dtype) -> Operation:
    """The mean over the neighbours, computed in ``kind``."""
    return Operation("sum", False, inverse_degrees(p, kind))


def apply(p: PartitionedGraph, operation: Operation, rows: RowsOf, strategy: str) -> RowsOf:
    """An operation on the rows of this process's parts, with its gradient."""
    finish = (name for name in ("scale", "own") if getattr(operation, name) is not None)
    told = ", ".join([operation.reduce, *finish])  # a mean is a sum that is scaled
    p.compare("aggregate", rows, reduce=told, weighted=operation.weighted, strategy=strategy)
    if isinstance(rows, HostRows):
        return rows.reduced(Maxima(p.unshared) if operation.reduce == "max" else Sums(p.unshared, operation))
    return list(_Aggregate.apply(p, operation, strategy, *rows))


class _Aggregate(Function):
    """The gradient is pulled along the edges turned round, by the same kernels: no addition in it is atomic either."""

    @staticmethod
    def forward(ctx: Any, p: PartitionedGraph, operation: Operation, strategy: str, *x: Tensor) -> tuple[Tensor, ...]:
        ctx.p, ctx.operation, ctx.strategy = p, operation, strategy
        if operation.reduce == "sum":
            return tuple(_summed(p, operation, dense(x), strategy))
        rows, counted = dense(x), any(ctx.needs_input_grad)
        if strategy == "auto":
            strategy = choose(p, "max", rows, lambda by: maxima(p, rows, by, counted), whole_rows=True)
        found, counts = maxima(p, rows, strategy, counted)
        ctx.save_for_backward(*x, *found, *counts)
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        p, operation, given = ctx.p, ctx.operation, dense(grads)
        if operation.reduce == "sum":
            if operation.scale is not None:
                given = _scaled(given, operation.scale)
            turned = Operation("sum", operation.weighted, None, operation.own)
            found = _summed(p.transposed, turned, given, ctx.strategy)
        else:
            held, count = ctx.saved_tensors, len(grads)
            x, highest, counts = held[:count], held[count : 2 * count], held[2 * count :]
            strategy = "halo" if ctx.strategy == "auto" else ctx.strategy
            found = matched(p.transposed, dense(x), highest, counts, given, strategy)
        return None, None, None, *found


def _summed(p: PartitionedGraph, operation: Operation, x: Sequence[Tensor], strategy: str) -> list[Tensor]:
    what = "weighted sum" if operation.weighted else "sum"
    return summed(p, operation, x, _chosen(p, what, x, strategy, lambda by: summed(p, operation, x, by)))


def _chosen(p: PartitionedGraph, what: str, x: Sequence[Tensor], strategy: str, run: Callable[[str], Any]) -> str:
    return choose(p, what, x, run) if strategy == "auto" else strategy


def _scaled(rows: RowsOf, by: Sequence[Tensor]) -> RowsOf:
    if isinstance(rows, HostRows):
        return rows.map(_times, [factor[:, None].to(rows.dtype) for factor in by])
    return [one * factor[:, None].to(one.dtype) for one, factor in zip(rows, by, strict=True)]


def _times(rows: Tensor, factor: Tensor) -> Tensor:
    return rows * factor
