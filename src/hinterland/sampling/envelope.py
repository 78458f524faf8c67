"""Samples of fixed shape, as CUDA graphs need them: room for so many vertices and edges, and padding behind what was drawn.

A layer's targets are the vertices of the hops before it, which lie one behind another. So padding is needed behind all of them
only. What a layer must not read is told by counts that stay on the device (``PaddedSample.ends``).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch

from .sample import Sample


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

    def holds(self, vertices: list[int], edges: list[int]) -> bool:
        """Whether a sample with so many, counted up to each hop, fits."""
        fits = all(n < most for n, most in zip(vertices[1:], self.vertices[1:], strict=True))
        return fits and vertices[0] <= self.vertices[0] and all(e <= m for e, m in zip(edges, self.edges, strict=True))


@dataclass(frozen=True, repr=False)
class PaddedSample(Sample):
    """A :class:`Sample` of fixed shape: it has as many vertices and edges as its envelope has in all.

    Behind what was drawn ``node`` and ``edge`` are 0, and ``row`` and ``col`` name the last vertex, which is never one that was
    drawn. ``num_sampled_nodes`` and ``num_sampled_edges`` are the envelope's.

    Attributes:
        ends: int64 ``[2, hops + 1]``, on the device: vertices and edges that were drawn up to each hop, the seeds' first.
    """

    ends: torch.Tensor = None  # type: ignore[assignment]  # fields behind those with defaults need one

    @property
    def seeds(self) -> torch.Tensor:
        """How many seeds there are, int64 of one number."""
        return self.ends[0, 0]


def padded(sample: Sample, envelope: Envelope) -> PaddedSample:
    """``sample`` with padding up to ``envelope``, which holds it (not checked where the counts are on a GPU). Of a sample of a
    CUDA graph that is captured, arrays are cut to the envelope."""
    device = sample.node.device
    vertices, edges = (
        torch.stack([n if isinstance(n, torch.Tensor) else torch.tensor(n, device=device) for n in counts]).cumsum(0)
        for counts in (sample.num_sampled_nodes, sample.num_sampled_edges)
    )
    ends = torch.stack([vertices, torch.cat([edges.new_zeros(1), edges])])
    most_vertices, most_edges = envelope.vertices[-1], envelope.edges[-1]

    def fitted(array: torch.Tensor, size: int, end: torch.Tensor, padding: int) -> torch.Tensor:
        found = array.new_full((size,), padding)
        kept = min(size, len(array))
        behind = torch.arange(kept, device=device) >= end
        found[:kept] = array[:kept].masked_fill(behind, padding)
        return found

    end = ends[:, -1]
    return PaddedSample(
        fitted(sample.node, most_vertices, end[0], 0),
        *(fitted(array, most_edges, end[1], most_vertices - 1) for array in (sample.row, sample.col)),
        fitted(sample.edge, most_edges, end[1], 0),
        [envelope.vertices[0], *(after - before for before, after in pairwise(envelope.vertices))],
        [after - before for before, after in pairwise([0, *envelope.edges])],
        ends=ends,
    )
