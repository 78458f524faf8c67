"""Attention over the neighbours of every vertex of a partitioned graph, with gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .aggregate_launch import PartRows, RowEntries, compute_type, dense
from .attend import AttentionSums, Scores, attend, joined
from .host import HostRows, RowsOf
from .host_passes import AttentionReduction
from .partitioned import PartitionedGraph
from .plan import choose
from .strategies import STRATEGIES, with_all_columns

Parts = Sequence[Tensor]


def attention(
    p: PartitionedGraph, scores: Scores, strategy: str, rows: RowsOf, mine: RowsOf, vector: RowsOf | None = None
) -> RowsOf:
    """The sums of neighbours' rows, weighted by a softmax of their scores; 0 for a vertex without neighbours.

    Args:
        scores: says what the others are.
        strategy: as of :func:`.aggregate`; ``"auto"`` chooses for both directions by the forward one.
        rows: for each of this process's parts ``[n, width]``, what is summed: x; of ``"dot"`` ``[n, 2 width]``: k and value.
        mine: ``[n, heads]`` of ``"gat"``: t, of the vertex that sums; else ``[n, width]``: y or q.
        vector: of ``"gat"`` ``[n, heads]``: s, of the vertex that is summed; of ``"gatv2"`` ``[width]``: a, on every device.
    """
    p.compare("attention", rows, **vars(scores), strategy=strategy)
    if isinstance(rows, HostRows):
        return _put_off(p, scores, rows, mine, vector)
    # Kernels read s, t and a in the type that is computed in.
    kind = compute_type(rows[0].dtype)
    mine = [one.to(kind if scores.kind == "gat" else rows[0].dtype) for one in mine]
    given = [*rows, *mine, *(one.to(kind) for one in vector or ())]
    return list(_Attention.apply(p, scores, strategy, *given))


def _put_off(p: PartitionedGraph, scores: Scores, rows: HostRows, mine: HostRows, vector: RowsOf) -> HostRows:
    """The same of rows that go through host memory."""
    width = rows.shape[1] // (2 if scores.kind == "dot" else 1)
    reduction = AttentionReduction(p.unshared, scores, width)
    if scores.kind == "gat":
        return rows.reduced(reduction, vector, mine)
    return rows.reduced(reduction, mine, parameters=vector[:1] if vector else (), width=width)


class _Attention(Function):
    """The gradients by what belongs to a vertex as the one that sums are made along the edges, those by what belongs to it as a
    neighbour along the edges turned round, from scores that are computed anew."""

    @staticmethod
    def forward(ctx: Any, p: PartitionedGraph, scores: Scores, strategy: str, *given: Tensor) -> tuple[Tensor, ...]:
        rows, mine, vector = _thirds(given, len(p.parts))
        numbers = vector if scores.kind == "gat" else None

        def run(by: str) -> list[AttentionSums]:
            return _passed(p, scores, by, "forward", rows, numbers, _own_of_targets(scores, mine), vector)

        if strategy == "auto":
            strategy = choose(p, f"{scores.kind} attention", rows, run, whole_rows=True)
        ctx.p, ctx.scores, ctx.strategy = p, scores, strategy
        found = run(strategy)
        out = [one.out.to(of.dtype) for one, of in zip(found, rows, strict=True)]
        logarithms = [one.number for one in found]
        ctx.save_for_backward(*given, *out, *logarithms)
        return tuple(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        p, scores, count = ctx.p, ctx.scores, len(grads)
        held = ctx.saved_tensors
        rows, mine, vector = _thirds(held[: -2 * count], count)
        out, logarithms = held[-2 * count : -count], held[-count:]
        given = dense(grads)
        kind = compute_type(rows[0].dtype)
        channels = out[0].shape[1] // scores.heads
        deltas = [(g.to(kind) * one).view(len(g), scores.heads, channels).sum(2) for g, one in zip(given, out, strict=True)]
        own = {**_own_of_targets(scores, mine), "gradient": given, "logarithm": logarithms, "delta": deltas}
        numbers = vector if scores.kind == "gat" else None
        targets = _passed(p, scores, ctx.strategy, "target", rows, numbers, own, vector)
        others = [torch.zeros_like(one) for one in deltas] if scores.kind != "gat" else mine
        numbers = [torch.cat(of, 1) for of in zip(others, logarithms, deltas, strict=True)]
        read = given if scores.kind == "gat" else [torch.cat(of, 1) for of in zip(given, mine, strict=True)]
        own = {"row": rows, **({"number": vector} if scores.kind == "gat" and vector is not None else {})}
        sources = _passed(p.transposed, scores, ctx.strategy, "source", read, numbers, own, vector)
        found = _gradients(scores.kind, targets, sources)
        return None, None, None, *(g.to(of.dtype) for g, of in zip(found, held, strict=False))


def _own_of_targets(scores: Scores, mine: Parts) -> dict[str, Parts]:
    return {"number" if scores.kind == "gat" else "row": mine}


def _thirds(given: Parts, count: int) -> tuple[Parts, Parts, Parts | None]:
    rows = dense(given)
    return rows[:count], rows[count : 2 * count], rows[2 * count :] or None


def _gradients(kind: str, targets: list[AttentionSums], sources: list[AttentionSums]) -> list[Tensor]:
    """By what :func:`attention` was given, in its order."""
    if kind == "gat":
        return [s.out for s in sources] + [t.number for t in targets] + [s.number for s in sources]
    if kind == "gatv2":
        return [s.out for s in sources] + [t.out for t in targets] + [t.second.sum(0) for t in targets if t.second is not None]
    return [torch.cat([s.second, s.out], 1) for s in sources if s.second is not None] + [t.out for t in targets]


def _passed(
    p: PartitionedGraph,
    scores: Scores,
    strategy: str,
    way: str,
    rows: Parts,
    numbers: Parts | None,
    own: dict[str, Parts],
    vector: Parts | None,
) -> list[AttentionSums]:
    """One pass over all entries of this process's parts, stage by stage, and of the hubs."""
    a = vector if scores.kind == "gatv2" else None
    width = rows[0].shape[1]
    if (scores.kind == "dot" and way != "source") or (scores.kind != "gat" and way == "source"):
        width //= 2
    results: list[AttentionSums | None] = [None] * len(rows)
    kept: list[Tensor] = []
    with p.world.turn(kept):
        for stage in _staged(p, strategy, rows, numbers):
            for i, (entries, where, also) in enumerate(stage):
                # A row is its own neighbour in the first stage alone; the others have no entry that names it.
                before = results[i]
                one = scores if before is None else replace(scores, loops=False)
                mine: dict[str, Any] = {name: of[i] for name, of in own.items()} | ({} if a is None else {"vector": a[i]})
                with p.world.on(i):
                    more = attend(one, way, entries, where, also, width, **mine)
                    results[i] = more if before is None else _together([before, more], way)
        found = [one for one in results if one is not None]
        if len(p.split.hubs):
            _add_hubs(p, scores, way, rows, numbers, own, a, found)
        kept += [part for one in found for part in one if part is not None]
    return found


def _staged(
    p: PartitionedGraph, strategy: str, rows: Parts, numbers: Parts | None
) -> Iterator[list[tuple[RowEntries, PartRows, PartRows | None]]]:
    """The stages of a strategy, with where rows and numbers lie."""
    strategy = with_all_columns(strategy)
    read = STRATEGIES[strategy](p, rows, None)
    if numbers is None:
        for stage in read:
            yield [(entries, where, None) for entries, where in stage.reads]
        return
    for stage, other in zip(read, STRATEGIES[strategy](p, numbers, None), strict=True):
        yield [(e, where, also) for (e, where), (_, also) in zip(stage.reads, other.reads, strict=True)]


def _together(results: list[AttentionSums], way: str) -> AttentionSums:
    """What several stages, or parts, found for the same rows."""
    outs, seconds, numbers = zip(*results, strict=True)
    if way == "forward":
        out, number = joined(torch.stack(outs), torch.stack(numbers))
        return AttentionSums(out, None, number)
    return AttentionSums(sum(outs), None if seconds[0] is None else sum(seconds), sum(numbers))


def _add_hubs(
    p: PartitionedGraph,
    scores: Scores,
    way: str,
    rows: Parts,
    numbers: Parts | None,
    own: dict[str, Parts],
    a: Parts | None,
    found: list[AttentionSums],
) -> None:
    """What every part found of the neighbours of hubs that it owns, put together by the hubs' owners."""
    of_hubs = {name: p.of_hubs(of) for name, of in own.items()}
    width = found[0].out.shape[1]
    shares = []
    for i, entries in enumerate(p.entries("hubs", None)):
        which, at = p.hubs[i]
        with p.world.on(i):
            skipped = torch.full((len(p.split.hubs),), -1, device=which.device)
            if scores.loops:
                skipped[which] = at
            given: dict[str, Any] = {name: of[i] for name, of in of_hubs.items()} | ({} if a is None else {"vector": a[i]})
            also = None if numbers is None else PartRows(numbers[i])
            shares.append(attend(scores, way, entries, PartRows(rows[i]), also, width, skipped=skipped, **given))
    stacks = [p.world.stacked(list(one)) if one[0] is not None else None for one in zip(*shares, strict=True)]
    for i, one in enumerate(found):
        which, at = p.hubs[i]
        with p.world.on(i):
            mine: list[Any] = [None if of is None else of[at] for of in one]
            theirs: list[list[Any]] = [[None if of is None else of[i][k][which] for of in stacks] for k in range(p.world.parts)]
            whole = _together([AttentionSums(*mine), *(AttentionSums(*of) for of in theirs)], way)
            for part, to in zip(whole, one, strict=True):
                if to is not None and part is not None:
                    to[at] = part
