"""Where traversals begin: vertices drawn at random among those that have neighbours."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime.errors import GraphError
from .graph import Graph


def draw_sources(graph: Graph, count: int, seed: int) -> list[int]:
    """``count`` vertex numbers, drawn with Philox; the same for the same graph and ``seed`` on every machine.

    Raises:
        GraphError: no vertex has a neighbour.
    """
    candidates = graph.degrees().cpu().nonzero()[:, 0]
    if len(candidates) == 0:
        raise GraphError(f"none of the graph's {graph.num_vertices} vertices has a neighbour; name a --source")
    return candidates[torch.tensor(_core.draw_below(len(candidates), count, seed % 2**64))].tolist()
