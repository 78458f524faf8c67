"""What samplers return."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..runtime.annotations import IfRequested
from ..runtime.repr import Repr


@dataclass(frozen=True, repr=False)
class Sample(Repr):
    """A sampled subgraph, on the device that sampled it. Its fields are those of PyG's ``SamplerOutput``.

    Of a CUDA graph that is captured, arrays are as long as they can become, with -1 behind what a replay samples, and counts
    are tensors of one number, int64 on the GPU.

    Attributes:
        node: int64 ``[n]``; the vertices: the seeds as given, then the others in order of first appearance among the edges.
            Without ``disjoint`` no vertex is there twice, except seeds that were given twice.
        row: int64 ``[e]``; of each edge the sampled neighbour, the source of a message, as a position in ``node``.
        col: int64 ``[e]``; of each edge the vertex that sampled it. Edges are in order of hops, within a hop of ``col``, and
            within that of the draws.
        edge: int64 ``[e]``; where each edge stands in the graph's lists: its weight is ``graph.weights[edge]``. -1 where the
            sampler joins vertices that are no neighbours.
        num_sampled_nodes: the seeds, then how many vertices each hop added; one more than hops.
        num_sampled_edges: how many edges each hop added.
        batch: int64 ``[n]``; the seed, by its position, whose subtree each vertex is in; None unless ``disjoint``.
        weight: float32 ``[e]``; how much each edge counts among those of its ``col``; None where all count alike.
    """

    node: torch.Tensor
    row: torch.Tensor
    col: torch.Tensor
    edge: torch.Tensor
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    batch: IfRequested[torch.Tensor] = None
    weight: IfRequested[torch.Tensor] = None


EdgeType = tuple[str, str, str]


@dataclass(frozen=True, repr=False)
class HeteroSample(Repr):
    """A sampled subgraph of several types of vertices and edges. Its fields are those of PyG's ``HeteroSamplerOutput``.

    All are as in :class:`Sample`, by type: ``node``, ``num_sampled_nodes`` and ``batch`` by the type of vertices, the others by
    relation ``(src, rel, dst)``. Every type and relation is there, with or without edges. Vertices of a type are numbered
    apart: ``row`` is a position in ``node[src]``, ``col`` one in ``node[dst]``. ``batch`` counts the seeds of all types, in the
    order in which they were given.
    """

    node: dict[str, torch.Tensor]
    row: dict[EdgeType, torch.Tensor]
    col: dict[EdgeType, torch.Tensor]
    edge: dict[EdgeType, torch.Tensor]
    num_sampled_nodes: dict[str, list[int]]
    num_sampled_edges: dict[EdgeType, list[int]]
    batch: IfRequested[dict[str, torch.Tensor]] = None

    def of(self, relation: EdgeType) -> Sample:
        """One relation's edges, with the vertices that have its lists: ``row`` stays a position in ``node[src]``."""
        target = relation[2]
        return Sample(
            self.node[target],
            self.row[relation],
            self.col[relation],
            self.edge[relation],
            self.num_sampled_nodes[target],
            self.num_sampled_edges[relation],
        )
