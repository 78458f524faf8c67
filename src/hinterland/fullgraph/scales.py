"""Numbers of each row that sums are weighed by: degrees, and GCN's normalisation. Made once for a graph and kept with it."""

from __future__ import annotations

import torch
from torch import Tensor

from .partitioned import PartitionedGraph
from .reduce import Operation, reduced_here


def inverse_degrees(p: PartitionedGraph, kind: torch.dtype) -> list[Tensor]:
    """One over the neighbours of each row, and 1 where there are none: ``[n]`` for each of this process's parts."""
    return p.kept(("inverse degrees", kind), lambda: [1 / part.degrees.clamp(min=1).to(kind) for part in p.parts])


def loops(p: PartitionedGraph, kind: torch.dtype, fill: float = 1.0) -> list[Tensor]:
    """How often GCN adds each row to its sum: ``fill``, but 0 where the vertex is its own neighbour (PyG's
    add_remaining_self_loops)."""

    def made() -> list[Tensor]:
        numbers = [
            torch.arange(p.bounds[part.rank], p.bounds[part.rank + 1], dtype=torch.float64, device=on)[:, None]
            for part, on in zip(p.parts, p.world.devices, strict=True)
        ]
        counts = reduced_here(p, Operation("count"), "local", numbers, numbers)
        return [(count[:, 0] == 0).to(kind) * fill for count in counts]

    return p.kept(("loops", kind, fill), made)


def gcn_scale(p: PartitionedGraph, kind: torch.dtype, fill: float = 1.0) -> list[Tensor]:
    """D^-1/2 of A + ``fill`` I, whose degrees are sums of weights; 0 where a degree is not above 0, as PyG has it."""

    def inverted(degrees: list[Tensor]) -> list[Tensor]:
        return [torch.where(degree > 0, degree, torch.inf).rsqrt() for degree in degrees]

    def made() -> list[Tensor]:
        own = loops(p, kind, fill)
        if not p.has_weights:
            return inverted([part.degrees.to(kind) + once for part, once in zip(p.parts, own, strict=True)])
        ones = [
            torch.ones(part.rows + len(part.halo), 1, dtype=kind, device=once.device)
            for part, once in zip(p.parts, own, strict=True)
        ]
        sums = reduced_here(p, Operation(weighted=True), "all", ones)
        return inverted([total[:, 0] + once for total, once in zip(sums, own, strict=True)])

    return p.kept(("gcn", kind, fill), made)
