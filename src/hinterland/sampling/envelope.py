"""Samples of fixed shape, as CUDA graphs need them: room for so many vertices and edges, and padding behind what was drawn.

A layer's targets are the vertices of the hops before it, which lie one behind another. So padding is needed behind all of them
only. What a layer must not read is told by counts that stay on the device (``PaddedSample.ends``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from .bound import bound, check_fanouts
from .sample import Sample

_MULTIPLE = 64  # of vertices and edges: shapes that matrix products take well
_SIGMAS, _MARGIN = 3, 1.01  # over the mean of many samples, and times the most of what was met


@dataclass(frozen=True)
class Envelope:
    """The most that a sample of fixed shape has, counted up to each hop.

    Attributes:
        vertices: of the seeds, of them and the first hop, and so on; one more than hops. The first is the batch size. Of the
            others a sample has fewer, so that the last row is always padding.
        edges: of the first hop, of the first two, and so on.
    """

    vertices: tuple[int, ...]
    edges: tuple[int, ...]

    def __post_init__(self) -> None:
        for name, sizes, least in (("vertices", self.vertices, 1), ("edges", self.edges, 0)):
            arguments.instance(name, sizes, tuple, "as in Envelope((1024, 6500), (7000,))")
            for before, size in zip((least, *sizes), sizes, strict=False):
                arguments.whole_number(f"{name} of an envelope, which are counted up,", size, before)
        if len(self.vertices) != len(self.edges) + 1:
            raise ConfigError(
                f"an envelope has {len(self.vertices)} counts of vertices and {len(self.edges)} of edges; give one more"
            )

    @classmethod
    def of(cls, counts: torch.Tensor, most: Envelope) -> Envelope:
        """An envelope that nearly all samples fit.

        Args:
            counts: int64 ``[n, 2, hops + 1]``, of ``n`` samples, one at least, what ``PaddedSample.ends`` and :func:`ends_of`
                say. Each number gets the mean and three standard deviations, more where few samples tell them (4.7 of 8), and
                1 % more than the largest at least.
            most: where it ends, as :meth:`largest` gives it. It is passed by less than 64, to which all is rounded up.

        Raises:
            ConfigError: counts of no sample, or of another shape or type.
        """
        arguments.instance("most", most, Envelope, "as Envelope.largest() gives")
        shape, kind = tuple(arguments.dense("counts", counts).shape), counts.dtype
        if shape != (len(counts) or 1, 2, len(most.vertices)) or kind != torch.int64:
            raise ConfigError(f"counts are {kind} of shape {shape}, but must be int64 [samples, 2, {len(most.vertices)}]")
        met = counts.double()
        deviation = met.std(0, correction=min(1, len(met) - 1))
        # Not less than for the hop before, where what was met varied more.
        sizes = (
            torch.maximum(met.mean(0) + _deviations(len(met)) * deviation, _MARGIN * met.amax(0)).cummax(1).values.ceil().long()
        )
        found = sizes[0, 1:].clamp(min=most.vertices[0])  # a batch of fewer seeds may be all that was met
        vertices = [_rounded(min(n + 1, limit)) for n, limit in zip(found.tolist(), most.vertices[1:], strict=True)]
        edges = [_rounded(min(n, limit)) for n, limit in zip(sizes[1, 1:].tolist(), most.edges, strict=True)]
        return cls((most.vertices[0], *vertices), tuple(edges))

    @classmethod
    def largest(cls, batch_size: int, fanouts: Iterable[int], num_vertices: int) -> Envelope:
        """What holds every sample of so many seeds from a graph of ``num_vertices``.

        Raises:
            ConfigError: a fanout is -1, or a number is none.
        """
        drawn, seeds = tuple(check_fanouts(fanouts)), (arguments.whole_number("batch_size", batch_size, 1),)
        limits = (arguments.whole_number("num_vertices", num_vertices, 0),)
        bounds = (bound(seeds, limits, ((0, 0, drawn[:hop]),)) for hop in range(1, len(drawn) + 1))
        found = [most for most in bounds if most is not None]
        if len(found) < len(drawn):
            raise ConfigError(f"fanouts {list(drawn)} take whole lists, which nothing bounds; give numbers from 0 on")
        return cls((batch_size, *(most.vertices[0] + 1 for most in found)), tuple(most.edges[0] for most in found))

    @property
    def num_sampled_nodes(self) -> list[int]:
        """The seeds, then the most that each hop adds, as a Sample says it."""
        return [self.vertices[0], *(after - before for before, after in pairwise(self.vertices))]

    @property
    def num_sampled_edges(self) -> list[int]:
        """The most edges that each hop adds."""
        return [after - before for before, after in pairwise((0, *self.edges))]

    def holds(self, vertices: list[int], edges: list[int]) -> bool:
        """Whether a sample with so many, counted up to each hop, fits."""
        fits = all(n < most for n, most in zip(vertices[1:], self.vertices[1:], strict=True))
        return fits and vertices[0] <= self.vertices[0] and all(e <= m for e, m in zip(edges, self.edges, strict=True))


@dataclass(frozen=True, repr=False)
class PaddedSample(Sample):
    """A :class:`Sample` of fixed shape: it has as many vertices and edges as its envelope has in all.

    Behind what was drawn ``node`` and ``edge`` are 0, and ``row`` and ``col`` name the last vertex, which is never one that was
    drawn. ``num_sampled_nodes`` and ``num_sampled_edges`` are the envelope's. Where more was drawn than there is place for,
    what is there is no sample, but all numbers can be read by: an edge of hop ``h`` names no vertex behind the envelope's
    ``vertices[h]``.

    Attributes:
        ends: int64 ``[2, hops + 1]``, on the device: vertices and edges that were drawn up to each hop, the seeds' first. They
            are those that were drawn, also where these are more than the envelope's.
    """

    ends: torch.Tensor = None  # type: ignore[assignment]  # fields behind those with defaults need one

    @property
    def seeds(self) -> torch.Tensor:
        """How many seeds there are, int64 of one number."""
        return self.ends[0, 0]


def ends_of(sample: Sample) -> torch.Tensor:
    """Vertices and edges of ``sample`` up to each hop, as :attr:`PaddedSample.ends`, where its counts are: on the CPU, unless a
    CUDA graph makes it."""
    return torch.stack([_summed(counts) for counts in (sample.num_sampled_nodes, [0, *sample.num_sampled_edges])])


def _summed(counts: Sequence[int | torch.Tensor]) -> torch.Tensor:
    device = next((n.device for n in counts if isinstance(n, torch.Tensor)), None)
    each = [n if isinstance(n, torch.Tensor) else torch.full((), n, device=device) for n in counts]
    return torch.stack(each).cumsum(0)


def _rounded(size: int) -> int:
    return -(-size // _MULTIPLE) * _MULTIPLE


def _deviations(samples: int) -> float:
    """How many standard deviations over the mean another sample seldom lies, where so many told what these are: the quantile of
    Student's t that belongs to three of the normal distribution, by the expansion of Cornish and Fisher, and the mean's own
    error. 4.7 of 8 samples, 3.0 of a thousand."""
    z, free = _SIGMAS, max(samples - 1, 1)
    t = z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
    return t * math.sqrt(1 + 1 / samples)
