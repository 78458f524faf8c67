"""Reads every list of a graph once: what decoding and the link cost before an algorithm does anything."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime.params import struct
from .prepare import ResidentGraph
from .traversal import ScratchLayout, finish, kernel_file, runner, scratch_for
from .traversal_stats import met

KERNELS = kernel_file("graph/scan")
_PARAMS = struct("graph::ScanParams")


class Scan:
    """Reads all lists of a prepared graph whenever it is called: on a GPU, on the current stream.

    ``stats``: also counts the bytes, which takes time.
    """

    def __init__(self, prepared: ResidentGraph, stats: bool = False) -> None:
        self._prepared, self.device = prepared.opened(), prepared.device
        self._stats = stats
        graph = prepared.graph
        self._layout = ScratchLayout(*_core.frontier_layout(graph.num_vertices, graph.num_edges))
        self._scratch = scratch_for(self._layout, self.device)
        self._sum = torch.empty(1, dtype=torch.int64, device=self.device)
        self._run = runner(prepared, _core.scan_lists, KERNELS, counts=stats)

    def __call__(self) -> None:
        """Begins a scan."""
        self._sum.zero_()
        self._scratch[: self._layout.zeroed].zero_()
        words = self._prepared.out.words_for(self._stats)
        self._run(_PARAMS(graph=words, scratch=self._scratch.data_ptr(), sum=self._sum.data_ptr()))

    def result(self) -> tuple[int, int]:
        """(Sum of all neighbours, bytes of their lists in whole sectors, or 0 if none were counted) of the last scan; waits
        for it.

        Raises:
            GraphError: a neighbour list is broken.
        """
        (record,) = finish(self._prepared, self._scratch, self._layout).records.tolist()
        return int(self._sum), met(record)[0].bytes
