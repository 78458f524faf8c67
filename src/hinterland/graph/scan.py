"""Reads every list of a graph once: what decoding and the link cost before an algorithm does anything."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime.jit import KernelFile
from ..runtime.params import struct
from .prepare import Prepared
from .traversal import ScratchLayout, csr_type, graph_type, runner, scratch_for


def _instance(graph: str) -> str:
    return f"scan_kernel<{graph}>"


KERNELS = KernelFile(
    "graph/scan.cu",
    tuple(_instance(csr_type(edge, packed=packed)) for edge in (4, 8) for packed in (False, True)),
    apart=True,
)
_PARAMS = struct("graph::ScanParams")


class Scan:
    """Reads all lists of a prepared graph whenever it is called: on a GPU, on the current stream."""

    def __init__(self, prepared: Prepared) -> None:
        graph, self.device = prepared.graph, prepared.device
        self._view = prepared.opened().out
        self._layout = ScratchLayout(*_core.frontier_layout(graph.num_vertices, graph.num_edges))
        self._scratch = scratch_for(self._layout, self.device)
        self._found = torch.empty(2, dtype=torch.int64, device=self.device)
        self._run = runner(prepared, _core.scan_lists, KERNELS, _instance(graph_type(prepared)))

    def __call__(self) -> None:
        """Begins a scan."""
        self._found.zero_()
        self._scratch[: self._layout.zeroed].zero_()
        self._run(_PARAMS(graph=self._view.words, scratch=self._scratch.data_ptr(), result=self._found.data_ptr()))

    def result(self) -> tuple[int, int]:
        """(Sum of all neighbours, bytes of their lists in whole sectors) of the last scan; waits for it."""
        total, moved = self._found.tolist()
        return total, moved
