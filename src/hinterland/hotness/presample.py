"""Counting what sampling touches: before training to rank vertices (pre-sampling), or afterwards, as the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch

from ..graph import Graph
from ..graph.order import renumber
from ..runtime.arguments import whole_number
from ..runtime.errors import ConfigError
from ..runtime.shuffle import shuffled
from ..runtime.thresholds import STEADY_BATCHES, STEADY_RATE
from .seeds import integers

T = TypeVar("T")


class SeedSampler(Protocol):
    """What samples the neighbourhood of seeds, as ``hinterland.sampling.NeighborSampler`` does."""

    @property
    def graph(self) -> Graph: ...

    def sample(self, seeds: torch.Tensor, batch: int = 0) -> Any: ...


def presample(
    sampler: SeedSampler,
    seeds: torch.Tensor | Sequence[int],
    batch_size: int,
    epochs: int = 2,
    seed: int = 0,
    first_epoch: int = 0,
) -> torch.Tensor:
    """How often each vertex is in a mini-batch of ``epochs`` epochs: PreSC#K of GNNLab, with K = ``epochs``.

    The mini-batches are those of a ``training.Loader`` that shuffles with the same ``seed``: number, seeds and so samples of
    every batch are the same. K of 1 or 2 ranks vertices nearly as well as the counts of a whole training do (Wang's survey,
    figure 15). Those counts, the oracle, are what this function gives for the epochs that are really run, say
    ``presample(..., epochs=100, first_epoch=2)``.

    Args:
        sampler: a NeighborSampler, or anything with its ``graph`` and ``sample(seeds, batch)``; the result has a ``node``
            tensor of vertex numbers. A vertex that is there twice (as with disjoint samples) counts twice.
        seeds: the vertices that mini-batches begin at, integers ``[n]`` on any device.
        batch_size: seeds of a mini-batch; the last of an epoch may have fewer.
        epochs: how many are sampled, from 1 on.
        seed: of the order of the seeds in each epoch, not negative. The sampler has its own.
        first_epoch: the number of the first one, from 0 on.

    Returns:
        float64 ``[num_vertices]``, whole numbers, on the sampler's device.

    Raises:
        ConfigError: no seed, seeds that are no integers, a number out of its range.
        IndexOutOfRange: a seed is no vertex.
    """
    if not hasattr(sampler, "graph") or not hasattr(sampler, "sample"):
        raise ConfigError(f"sampler is a {type(sampler).__name__}; pass a NeighborSampler, or what has its graph and sample()")
    vertices = sampler.graph.num_vertices
    counts: torch.Tensor | None = None
    for number, part in mini_batches(vertices, seeds, batch_size, epochs, seed, first_epoch):
        node = sampler.sample(part, batch=number).node
        if counts is None:
            counts = torch.zeros(vertices, dtype=torch.float64, device=node.device)
        counts.index_add_(0, node, torch.ones(len(node), dtype=torch.float64, device=node.device))
    assert counts is not None
    return counts


def mini_batches(
    num_vertices: int,
    seeds: torch.Tensor | Sequence[int],
    batch_size: int,
    epochs: int,
    seed: int = 0,
    first_epoch: int = 0,
) -> Iterator[tuple[int, torch.Tensor]]:
    """Number and seeds of each mini-batch of a shuffling ``training.Loader``; arguments and errors as in :func:`presample`."""
    size = whole_number("batch_size", batch_size, 1)
    first, seed = whole_number("first_epoch", first_epoch, 0), whole_number("seed", seed, 0)
    count = whole_number("epochs", epochs, 1)
    known = renumber(integers(seeds), None, num_vertices).cpu()
    batches = -(-len(known) // size)
    for epoch in range(first, first + count):
        for i, part in enumerate(shuffled(known, seed, epoch).split(size)):
            yield epoch * batches + i, part


def until_steady(batches: Iterable[T], rate: Callable[[], float]) -> Iterator[T]:
    """The first of ``batches``, each one batch of either half, until ``rate`` of what was counted has grown by less than
    STEADY_RATE while their number doubled; or all. What the next doubling brings is less than what the last one brought."""
    before, ask = -1.0, STEADY_BATCHES
    for number, both in enumerate(batches, 1):
        yield both
        if number == ask:
            found = rate()
            if found - before < STEADY_RATE:
                return
            before, ask = found, 2 * ask
