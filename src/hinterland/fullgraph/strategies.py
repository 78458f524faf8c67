"""Ways to read the rows of other parts, each for any aggregation.

A strategy goes through stages: entries of each of this process's parts, and where the rows lie that they name. Each stage adds
to what those before it found. What a strategy costs, docs/fullgraph.md says; :mod:`.plan` chooses one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor

from .aggregate_launch import PartRows, RowEntries
from .partitioned import PartitionedGraph


class ReadStage(NamedTuple):
    """For each of this process's parts what is read, and of which rows; these hold until the next stage is asked for.

    Attributes:
        columns: which columns of the result it makes, all of them at once; None: of all columns a part of each sum.
    """

    reads: list[tuple[RowEntries, PartRows]]
    is_last: bool = True
    columns: slice | None = None


COLUMNS = 256  # bytes of columns that go together: what a peer gives at full rate (docs/notes/fullgraph-on-h200.md)
VECTOR = 16  # bytes that rows are whole numbers of, if they come by columns
Weights = torch.dtype | None  # the type of the weights by which rows count, or None
Strategy = Callable[[PartitionedGraph, Sequence[Tensor], Weights], Iterator[ReadStage]]


def halo(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[ReadStage]:
    """Each remote row is fetched once; then all entries are read here."""
    halos = p.fetch(x)
    yield _stage(p.entries("all", weights), map(PartRows, x, halos))


def halo_pipelined(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[ReadStage]:
    """Local entries are read, and then those of one owner after another, while the rows of the next are on their way (a ring,
    in which every part begins with the one behind it)."""
    coming = p.fetch_in_turns(x)
    next(coming)  # all is asked for
    others = p.world.parts - 1
    yield _stage(p.entries("local", weights), map(PartRows, x), is_last=not others)
    for turn, halos in enumerate(coming, 1):
        yield _stage(p.entries(turn, weights), map(PartRows, x, halos), is_last=turn == others)


def halo_columns(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[ReadStage]:
    """Some columns' halo is on its way while all entries are read of those before (a ring of two buffers)."""
    entries = p.entries("all", weights)
    ranges = _columns(x[0])
    arrived = p.fetch_ahead([one[:, ranges[0]] for one in x])
    for k, columns in enumerate(ranges):
        halos, is_last = arrived(), k + 1 == len(ranges)
        if not is_last:
            arrived = p.fetch_ahead([one[:, ranges[k + 1]] for one in x])
        yield _stage(entries, map(PartRows, [one[:, columns] for one in x], halos), is_last, columns)


def _columns(x: Tensor) -> list[slice]:
    """Ranges of COLUMNS bytes, where rows begin at addresses that vectors are loaded from; else one of all columns."""
    width, size = x.shape[1], x.element_size()
    step = COLUMNS // size if width * size % VECTOR == 0 else width
    return [slice(first, min(first + step, width)) for first in range(0, width, max(step, 1))] or [slice(0, width)]


def direct(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[ReadStage]:
    """Warps read remote rows where they are, as often as entries name them (MGG)."""
    with p.world.reachable(x) as owners:
        entries = p.entries("direct", weights)
        wide = [e.places is not None and e.places.dtype == torch.int64 for e in entries]
        yield _stage(entries, map(PartRows, x, repeat(None), owners, p.world.mine, wide))


def all_gather(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[ReadStage]:
    """Every part gets all rows of all others."""
    yield _stage(p.entries("whole", weights), map(PartRows, x, p.world.whole(x, p.sizes)))


def replicate(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[ReadStage]:
    """As all_gather, and the rows are kept: as long as they are the same tensors, unchanged, they are not gathered again."""
    yield _stage(p.entries("whole", weights), map(PartRows, x, p.replicas(x)))


STRATEGIES: dict[str, Strategy] = {
    "direct": direct,
    "halo": halo,
    "halo-pipelined": halo_pipelined,
    "halo-columns": halo_columns,
    "all-gather": all_gather,
    "replicate": replicate,
}


def with_all_columns(strategy: str) -> str:
    """A strategy of whose stages each reads all columns of the rows, as attention does."""
    return "halo" if strategy == "halo-columns" else strategy


def _stage(
    entries: list[RowEntries], rows: Iterable[PartRows], is_last: bool = True, columns: slice | None = None
) -> ReadStage:
    return ReadStage(list(zip(entries, rows, strict=True)), is_last, columns)
