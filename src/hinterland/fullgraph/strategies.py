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

from .partitioned import PartitionedGraph
from .rows import Entries, Rows


class Stage(NamedTuple):
    """For each of this process's parts what is read, and of which rows; these hold until the next stage is asked for."""

    reads: list[tuple[Entries, Rows]]
    is_last: bool = True


Weights = torch.dtype | None  # the type of the weights by which rows count, or None
Strategy = Callable[[PartitionedGraph, Sequence[Tensor], Weights], Iterator[Stage]]


def halo(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[Stage]:
    """Each remote row is fetched once; then all entries are read here."""
    halos = p.fetch(x)
    yield _stage(p.entries("all", weights), map(Rows, x, halos))


def halo_pipelined(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[Stage]:
    """Local entries are read while the halo is on its way."""
    arrived = p.fetch_ahead(x)
    yield _stage(p.entries("local", weights), map(Rows, x), is_last=False)
    yield _stage(p.entries("remote", weights), map(Rows, x, arrived()))


def direct(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[Stage]:
    """Warps read remote rows where they are, as often as entries name them (MGG)."""
    with p.world.reachable(x) as owners:
        entries = p.entries("direct", weights)
        wide = [e.places is not None and e.places.dtype == torch.int64 for e in entries]
        yield _stage(entries, map(Rows, x, repeat(None), owners, p.world.mine, wide))


def all_gather(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[Stage]:
    """Every part gets all rows of all others."""
    yield _stage(p.entries("whole", weights), map(Rows, x, p.world.whole(x, p.sizes)))


def replicate(p: PartitionedGraph, x: Sequence[Tensor], weights: Weights) -> Iterator[Stage]:
    """As all_gather, and the rows are kept: as long as they are the same tensors, unchanged, they are not gathered again."""
    yield _stage(p.entries("whole", weights), map(Rows, x, p.replicas(x)))


STRATEGIES: dict[str, Strategy] = {
    "direct": direct,
    "halo": halo,
    "halo-pipelined": halo_pipelined,
    "all-gather": all_gather,
    "replicate": replicate,
}


def _stage(entries: list[Entries], rows: Iterable[Rows], is_last: bool = True) -> Stage:
    return Stage(list(zip(entries, rows, strict=True)), is_last)
