"""What each part's rows become, by the stages of a strategy: sums, maxima and the gradient of maxima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .aggregate_launch import PartRows, aggregate_rows, compute_type
from .partitioned import PartitionedGraph
from .strategies import STRATEGIES, ReadStage, with_all_columns


@dataclass(frozen=True)
class Operation:
    """What is computed of the neighbours' rows.

    Attributes:
        reduce: a key of ``rows.REDUCES``.
        weighted: whether rows count by the graph's weights.
        scale: for each part, what each sum is multiplied by, ``[n]``.
        own: for each part, how often each row counts itself, ``[n]``.
    """

    reduce: str = "sum"
    weighted: bool = False
    scale: Sequence[Tensor] | None = None
    own: Sequence[Tensor] | None = None

    def finish(self, p: PartitionedGraph, i: int) -> dict[str, Tensor | None]:
        """What the last stage of the i-th part does to each row's result."""
        if self.reduce == "max":
            return {"degrees": p.parts[i].degrees}
        held = {"scale": self.scale, "own": self.own}
        return {name: None if of is None else of[i] for name, of in held.items()}


def summed(p: PartitionedGraph, operation: Operation, x: Sequence[Tensor], strategy: str) -> list[Tensor]:
    """The sums of the rows of this process's parts."""
    kind = compute_type(x[0].dtype) if operation.weighted else None
    out: list[Tensor] = []
    with p.world.turn(out):
        for _ in _reduced(p, operation, x, STRATEGIES[strategy](p, x, kind), out):
            pass
    return out


def maxima(p: PartitionedGraph, x: Sequence[Tensor], strategy: str, counted: bool) -> tuple[list[Tensor], list[Tensor]]:
    """The maxima of the rows of this process's parts, and by how many entries each is reached, if that is to be ``counted``."""
    out: list[Tensor] = []
    counts: list[Tensor] = []
    kept: list[Tensor] = []
    if counted:  # whole rows are compared
        strategy = with_all_columns(strategy)
    with p.world.turn(kept):
        for stages in _reduced(p, Operation("max"), x, STRATEGIES[strategy](p, x, None), out):
            if counted:  # while what the stages read is there
                counts = _counted(p, x, stages, out)
        kept += out + counts
    return out, counts


def matched(
    p: PartitionedGraph,
    x: Sequence[Tensor],
    found: Sequence[Tensor],
    counts: Sequence[Tensor],
    grads: Sequence[Tensor],
    strategy: str,
) -> list[Tensor]:
    """The gradient of maxima by ``x``: each is shared by the entries that reach it. ``p``: the transposed graph."""
    sources = [torch.cat([y, g / n.clamp(min=1).to(g.dtype)], 1) for y, g, n in zip(found, grads, counts, strict=True)]
    out: list[Tensor] = []
    with p.world.turn(out):
        stages = STRATEGIES[with_all_columns(strategy)](p, sources, None)
        for _ in _reduced(p, Operation("match"), sources, stages, out, x):
            pass
    return out


def _reduced(
    p: PartitionedGraph,
    operation: Operation,
    x: Sequence[Tensor],
    stages: Iterator[ReadStage],
    out: list[Tensor],
    mine: Sequence[Tensor] | None = None,
) -> Iterator[list[ReadStage]]:
    """Goes through the stages of a strategy and fills ``out``; gives all stages before it lets go of what they read.

    Every stage but the last leaves what it found in the type that is computed in; one of some columns is the last of those.
    """
    width = x[0].shape[1] if mine is None else mine[0].shape[1]
    before: list[Tensor | None] = [None] * len(x)
    seen = []
    for stage in stages:
        seen += [stage] if stage.columns is None else []  # those of columns are let go of one after another
        for i, (entries, rows) in enumerate(stage.reads):
            with p.world.on(i):
                is_whole = stage.is_last or stage.columns is not None
                kind = x[i].dtype if is_whole else compute_type(x[i].dtype)
                to = earlier = before[i]
                if to is None or to.dtype != kind:
                    to = torch.empty(len(x[i]), width, dtype=kind, device=x[i].device)
                if stage.columns is not None:  # columns beside those of before, not more of each sum
                    earlier = None
                done: dict[str, Any] = operation.finish(p, i) if is_whole else {}
                of = None if mine is None else mine[i]
                part = to if stage.columns is None else to[:, stage.columns]
                aggregate_rows(entries, rows, part, operation.reduce, mine=of, before=earlier, **done)
                before[i] = to
        if stage.is_last:
            out += [one for one in before if one is not None]
            if len(p.split.hubs):
                add_hubs(p, operation, x, out, mine)
            yield seen
        del stage, entries, rows  # the next one's halo takes their place


def reduced_here(
    p: PartitionedGraph, operation: Operation, kind: str, x: Sequence[Tensor], mine: Sequence[Tensor] | None = None
) -> list[Tensor]:
    """What is found in entries of one ``kind`` and those of hubs, of rows ``x`` that are all here, in their type."""
    weights = x[0].dtype if operation.weighted else None
    out: list[Tensor] = []
    with p.world.turn(out):
        for i, entries in enumerate(p.entries(kind, weights)):
            with p.world.on(i):
                to = x[i].new_empty(p.parts[i].rows, x[i].shape[1])
                of = None if mine is None else mine[i]
                out.append(aggregate_rows(entries, PartRows(x[i]), to, operation.reduce, mine=of))
        if len(p.split.hubs):
            add_hubs(p, operation, x, out, mine)
    return out


def add_hubs(
    p: PartitionedGraph, operation: Operation, x: Sequence[Tensor], out: list[Tensor], mine: Sequence[Tensor] | None
) -> None:
    """Every part's sums over the neighbours of hubs that it owns, added up by the hubs' owners."""
    kind = compute_type(x[0].dtype)
    theirs = [None] * len(x) if mine is None else p.of_hubs(mine)
    parts = []
    for i, entries in enumerate(p.entries("hubs", kind if operation.weighted else None)):
        with p.world.on(i):
            to = torch.empty(len(p.split.hubs), out[i].shape[1], dtype=kind, device=x[i].device)
            parts.append(aggregate_rows(entries, PartRows(x[i]), to, operation.reduce, mine=theirs[i]))
    for i, total in enumerate(p.world.combined(parts, operation.reduce)):
        which, rows = p.hubs[i]
        with p.world.on(i):
            own = total[which]
            if operation.own is not None:
                own += operation.own[i][rows, None] * x[i][rows]
            if operation.scale is not None:
                own *= operation.scale[i][rows, None]
            out[i][rows] = own.to(out[i].dtype)


def _counted(p: PartitionedGraph, x: Sequence[Tensor], stages: list[ReadStage], found: list[Tensor]) -> list[Tensor]:
    """How many entries reach each maximum, in the type that is computed in."""
    kind = compute_type(x[0].dtype)
    counts: list[Tensor | None] = [None] * len(x)
    for stage in stages:
        for i, (entries, rows) in enumerate(stage.reads):
            with p.world.on(i):
                to = torch.empty_like(found[i], dtype=kind)
                counts[i] = aggregate_rows(entries, rows, to, "count", mine=found[i], before=counts[i])
    whole = [one for one in counts if one is not None]
    if len(p.split.hubs):
        add_hubs(p, Operation("count"), x, whole, found)
    return whole
