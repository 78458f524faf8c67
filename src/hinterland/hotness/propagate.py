"""The step that all scores of a graph share: every vertex gives a number to all vertices in its list."""

from __future__ import annotations

import torch

from .. import _core
from ..graph import Graph, ResidentGraph, prepare
from ..graph.algorithms import Algorithm, register
from ..graph.device_graph import allocated
from ..graph.prepare import prepared_for
from ..graph.traversal import ScratchLayout, clear, finish, kernel_file, original_bytes, runner, scratch_for, to_original
from ..runtime.params import struct
from ..runtime.thresholds import CHUNK, PULLED_SHARE

ARRAYS = 3  # numbers for each vertex that a score keeps at once, at most

KERNELS = kernel_file("hotness/propagate")
_PARAMS = struct("hotness::PropagateParams")


def _layout(graph: Graph) -> ScratchLayout:
    return ScratchLayout(*_core.frontier_layout(graph.num_vertices, graph.num_edges))


def _state_bytes(graph: Graph) -> int:
    """GPU memory of a score, its result included: arrays and scratch, or what it takes to renumber the result."""
    each = allocated(8 * graph.num_vertices)
    seeds = allocated(8 * min(graph.num_vertices, CHUNK))
    return max(ARRAYS * each + seeds + allocated(_layout(graph).bytes), each + original_bytes(graph, 8))


register(Algorithm("hotness", _state_bytes))


def prepared_graph(graph: Graph | ResidentGraph, device: torch.device | str | int | None, steps: int) -> ResidentGraph:
    """``graph`` itself if it is prepared; for several steps otherwise with as many of its edges on the GPU as fit."""
    if isinstance(graph, ResidentGraph) or steps < 2:
        return prepared_for(graph, "hotness", None, device)
    return prepare(graph, device=device, algorithms="hotness")


class Steps:
    """Steps on one graph, and the arrays around them, all float64 ``[num_vertices]`` on the device that runs them."""

    def __init__(self, prepared: ResidentGraph) -> None:
        self.prepared = prepared
        self._layout = _layout(prepared.graph)
        self._scratch = scratch_for(self._layout, prepared.device)
        self._run = runner(prepared, _core.propagate, KERNELS)

    def array(self) -> torch.Tensor:
        """A new array of zeros."""
        return torch.zeros(self.prepared.graph.num_vertices, dtype=torch.float64, device=self.prepared.device)

    def degrees(self, out: torch.Tensor) -> torch.Tensor:
        """Writes how long each vertex's list is."""
        return self.prepared.out.degrees(out)

    def fill(self, array: torch.Tensor, vertices: torch.Tensor, value: float) -> None:
        """Writes one value for some vertices, int64 ``[n]`` on any device."""
        for part in vertices.split(CHUNK):
            array.index_fill_(0, part.to(array.device), value)

    def add(self, values: torch.Tensor, sums: torch.Tensor, givers: int | None = None) -> None:
        """Adds to ``sums[u]`` the ``values[v]`` of all lists v that hold u.

        Args:
            values, sums: as :meth:`array` makes them.
            givers: how many values are not 0, if that is known.

        Raises:
            GraphError: a neighbour list is broken.
        """
        prepared = self.prepared
        clear(self._scratch, self._layout)
        pull = not prepared.graph.directed and (givers is None or PULLED_SHARE * givers > len(values))
        self._run(
            _PARAMS(
                graph=prepared.out.words,
                values=values.data_ptr(),
                sums=sums.data_ptr(),
                pull=pull,
                scratch=self._scratch.data_ptr(),
            )
        )
        finish(prepared, self._scratch, self._layout)

    def result(self, values: torch.Tensor) -> torch.Tensor:
        """The values in the order of the graph before it was reordered. No steps follow."""
        del self._scratch
        return to_original(self.prepared.order_on(self.prepared.device), values)
