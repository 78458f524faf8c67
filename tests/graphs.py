"""Graphs that tests of several capabilities use."""

from __future__ import annotations

import numpy as np
import torch

import hinterland as hl
from hinterland.graph.lists import NeighborLists

# Generated graphs of every shape, by what sets each apart: hubs, nothing, depth, depth and numbers row by row, hubs and numbers
# by host and path, few far edges.
FAMILIES = {
    "kronecker": ("kronecker", {}),
    "uniform": ("uniform", {}),
    "grid": ("grid", {}),
    "grid by rows": ("grid", {"permute": False, "missing": 0.1}),
    "web": ("web", {}),
    "ring": ("ring", {"edge_factor": 4}),
}


def family(name, scale, **options):
    """A graph of a family, with ``options`` of ``generate``."""
    kind, own = FAMILIES[name]
    return hl.generate(kind, scale=scale, **{**options, **own})


def skewed(vertices, edges, seed=1, **options):
    """A random graph in which few vertices have most of the edges."""
    generator = np.random.default_rng(seed)
    order = torch.from_numpy(generator.permutation(vertices))
    ends = torch.from_numpy((generator.random((2, edges)) ** 3 * vertices).astype(np.int64))
    return hl.from_edges(order[ends[0]], order[ends[1]], num_vertices=vertices, **options)


def with_wide_edges(graph):
    """The same graph with eight-byte neighbours."""
    indices = hl.UnifiedTensor.from_tensor(graph.indices.to(torch.int64))
    return hl.Graph.of(NeighborLists(graph.neighbor_lists.arrays | {"indices": indices}), graph.directed)
