"""Graphs that tests of several capabilities use."""

from __future__ import annotations

import numpy as np
import torch

import hinterland as hl
from hinterland.graph.lists import NeighborLists


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
