"""Samples with padding for tests: what kernels make of fixed shape, made from ordinary samples on any device."""

from __future__ import annotations

import torch

from hinterland.sampling import Envelope, PaddedSample, Sample
from hinterland.sampling.envelope import ends_of


def padded(sample: Sample, envelope: Envelope) -> PaddedSample:
    """``sample`` with padding up to ``envelope``, which holds it (not checked where the counts are on a GPU). Of a sample of a
    CUDA graph that is captured, arrays are cut to the envelope."""
    device = sample.node.device
    ends = ends_of(sample).to(device)
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
        fitted(sample.row, most_edges, end[1], most_vertices - 1),
        fitted(sample.col, most_edges, end[1], most_vertices - 1),
        fitted(sample.edge, most_edges, end[1], 0),
        envelope.num_sampled_nodes,
        envelope.num_sampled_edges,
        ends=ends,
    )
