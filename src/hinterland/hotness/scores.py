"""Scores that come from the graph alone: how hot each vertex will be, before anything is sampled.

In all of them the list of v holds the vertices that v samples from. A vertex's features are fetched when others sample it, so
what counts is not how long its own list is, but which lists hold it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import torch

from ..graph import Graph, ResidentGraph
from ..graph.prepare import graph_of
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from .propagate import Steps, prepared_graph
from .seeds import checked_seeds

_MOST_ITERATIONS = 2**31 - 1
_Device = torch.device | str | int | None


def degree(graph: Graph | ResidentGraph, *, device: _Device = None) -> torch.Tensor:
    """In how many lists each vertex is, parallel edges counted: the out-degree of Min 2022, section 4.2.1, whose edges point
    from the vertex that is sampled to the one that samples it.

    Of an undirected graph that is the length of its own list, and no list is read.

    Args:
        graph: the graph whose list of v is what v samples from (as ``NeighborSampler`` takes it), or what ``hl.prepare`` made
            of it for ``"hotness"``; in any place, compressed or not. Weights are not looked at.
        device: where to run; None is the current GPU, or the CPU on a machine without one. A prepared graph has its own.

    Returns:
        float64 ``[num_vertices]`` on the device that ran it, the same on every device.

    Raises:
        ConfigError: the graph is prepared, and a device is named besides.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: the state exceeds the free GPU memory.
    """
    directed = graph_of(graph).directed
    prepared = prepared_graph(graph, device, steps=1)
    with devices.on(prepared.device):
        steps = Steps(prepared)
        found = steps.array()
        if directed:
            steps.add(steps.array().add_(1), found)
        else:
            steps.degrees(found)
        return steps.result(found)


def reverse_pagerank(
    graph: Graph | ResidentGraph, iterations: int = 5, damping: float = 0.85, *, device: _Device = None
) -> torch.Tensor:
    """Reverse PageRank (Min 2022, section 4.2.1): whoever is sampled by hot vertices is hot.

    From 1 / V for all, ``iterations`` times,

        score(u) = (1 - damping) / V + damping * sum over the lists v that hold u of score(v) / length of v's list.

    As in the dissertation, what a vertex with an empty list has goes nowhere; scores then sum to less than 1.

    Args:
        graph, device: as for :func:`degree`.
        iterations: from 1 to 2**31 - 1; five are enough to rank vertices.
        damping: in [0, 1).

    Returns:
        float64 ``[num_vertices]`` on the device that ran it, the same on every device up to rounding.

    Raises:
        ConfigError: a number out of its range.
        GraphError, OutOfMemory: as :func:`degree`.
    """
    return _pagerank(graph, None, iterations, damping, device)


def weighted_reverse_pagerank(
    graph: Graph | ResidentGraph,
    seeds: torch.Tensor | Sequence[int],
    iterations: int = 5,
    damping: float = 0.85,
    *,
    device: _Device = None,
) -> torch.Tensor:
    """Reverse PageRank that begins with more at the seeds (Min 2022, Algorithm 2): each has V / (number of seeds) times 1 / V.

    The fewer the seeds, the more sampling stays around them. Iterations do not go on until that has worn off.

    Args:
        graph, iterations, damping, device: as for :func:`reverse_pagerank`.
        seeds: the vertices that mini-batches begin at, integers ``[n]`` on any device; each counts once.

    Returns:
        float64 ``[num_vertices]`` on the device that ran it, the same on every device up to rounding.

    Raises:
        ConfigError: no seed, seeds that are no integers, a number out of its range.
        IndexOutOfRange: a seed is no vertex.
        GraphError, OutOfMemory: as :func:`degree`.
    """
    return _pagerank(graph, checked_seeds(seeds, graph_of(graph)), iterations, damping, device)


def _pagerank(
    graph: Graph | ResidentGraph, seeds: torch.Tensor | None, iterations: int, damping: float, device: _Device
) -> torch.Tensor:
    iterations = arguments.whole_number("iterations", iterations, 1, _MOST_ITERATIONS)
    if not 0 <= (damping := arguments.number("damping", damping)) < 1:
        raise ConfigError(f"damping {damping} is not in [0, 1)")
    prepared = prepared_graph(graph, device, iterations)
    vertices = max(prepared.graph.num_vertices, 1)
    with devices.on(prepared.device):
        steps = Steps(prepared)
        scores, given = steps.array(), steps.array()
        scores += 1 / vertices
        if seeds is not None:
            steps.fill(scores, seeds, 1 / len(seeds))  # V / n times as much
        for _ in range(iterations):
            # No list holds what a vertex with an empty one would give, so the division by 1 there stands for no division by 0.
            torch.div(scores, steps.degrees(given).clamp_(min=1), out=given)
            steps.add(given, scores.zero_())
            scores.mul_(damping).add_((1 - damping) / vertices)
        del given
        return steps.result(scores)


def inclusion_probability(
    graph: Graph | ResidentGraph,
    seeds: torch.Tensor | Sequence[int],
    fanouts: Sequence[int],
    batch_size: int,
    *,
    device: _Device = None,
) -> torch.Tensor:
    """The chance of each vertex to be in a mini-batch (vertex-inclusion probability, VIP: Kaler et al., MLSys 2023, SALIENT++).

    p_0 is ``batch_size`` / (number of seeds), at most 1, for seeds and 0 for others. A vertex v that hop h reaches samples each
    element of its list with chance t(v) = min(1, ``fanouts[h]`` / length of the list), without replacement. So hop by hop

        p_(h+1)(u) = 1 - product over the lists v that hold u of (1 - p_h(v) t(v)),
        p(u) = 1 - product over all hops, 0 included, of (1 - p_h(u)),

    which takes all these events for independent. They are not where two ways lead to one vertex from a common one, and a vertex
    that a sampler meets twice samples once only; in forests whose seeds are roots the result is exact (docs/hotness.md).

    Args:
        graph, device: as for :func:`degree`.
        seeds: as for :func:`weighted_reverse_pagerank`.
        fanouts: what each hop samples at most; -1 is the whole list.
        batch_size: seeds of a mini-batch.

    Returns:
        float64 ``[num_vertices]`` in [0, 1] on the device that ran it, the same on every device up to rounding.

    Raises:
        ConfigError: no seed, seeds that are no integers, a fanout below -1, a batch size below 1.
        IndexOutOfRange: a seed is no vertex.
        GraphError, OutOfMemory: as :func:`degree`.
    """
    hops = _checked_fanouts(fanouts)
    batch_size = arguments.whole_number("batch_size", batch_size, 1)
    known = checked_seeds(seeds, graph_of(graph))
    chance = min(1.0, batch_size / len(known))
    prepared = prepared_graph(graph, device, len(hops))
    with devices.on(prepared.device):
        steps = Steps(prepared)
        # log(1 - p_h) of this hop, the sum of those so far, and what each vertex gives: log(1 - p_h t).
        missed, missed_always, given = steps.array(), steps.array(), steps.array()
        steps.fill(missed, known, math.log1p(-chance) if chance < 1 else -math.inf)
        missed_always += missed
        for hop, fanout in enumerate(hops):
            steps.degrees(given).clamp_(min=1)
            given.reciprocal_().mul_(fanout).clamp_(max=1)
            given.mul_(missed.expm1_()).log1p_()
            steps.add(given, missed.zero_(), givers=len(known) if hop == 0 else None)
            missed_always += missed
        del missed, given
        return steps.result(missed_always.expm1_().abs_())


def _checked_fanouts(fanouts: Sequence[int]) -> list[float]:
    """Fanouts as numbers, infinity for whole lists."""
    try:
        known = [operator.index(fanout) for fanout in fanouts]
    except (TypeError, ValueError, RuntimeError):  # the last two are a tensor's
        shown = arguments.repr_of(fanouts)
        raise ConfigError(f"fanouts are whole numbers, one for each hop, as [15, 10, 5]; got {shown}") from None
    for hop, fanout in enumerate(known):
        if fanout < -1:
            raise ConfigError(f"fanout {arguments.repr_of(fanout)} of hop {hop} is below -1; -1 samples the whole list")
    return [math.inf if fanout == -1 or fanout > arguments.MOST else float(fanout) for fanout in known]
