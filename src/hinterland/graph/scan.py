"""Reads every list of a graph once on the GPU: what decoding and the link cost before an algorithm does anything."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime import devices
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from .prepare import Prepared
from .traversal import BLOCK, ScratchLayout, csr_type, graph_type, scratch_for


def _instance(graph: str) -> str:
    return f"scan_lists<{graph}>"


KERNELS = KernelFile(
    "graph/scan.cu",
    tuple(_instance(csr_type(edge, packed=packed)) for edge in (4, 8) for packed in (False, True)),
    apart=True,
)


class Scan:
    """Reads all lists of a prepared graph whenever it is called, on the current stream.

    Raises:
        DeviceError: the machine has no GPU.
        ConfigError: the graph is prepared for the CPU.
    """

    def __init__(self, prepared: Prepared) -> None:
        devices.require_cuda("a scan of all lists")
        if prepared.device.type != "cuda":
            raise ConfigError("the graph is prepared for the CPU; prepare it with device='cuda' and a larger gpu_budget")
        graph, device = prepared.graph, prepared.device
        self._view, self._device = prepared.opened().out, device
        self._layout = ScratchLayout(*_core.bfs_layout(graph.num_vertices, graph.num_edges))
        self._scratch = scratch_for(self._layout, device)
        self._found = torch.empty(2, dtype=torch.int64, device=device)
        self._instance = _instance(graph_type(prepared))
        self._grid = resident_blocks(KERNELS, self._instance, device, BLOCK)

    def __call__(self) -> None:
        """Launches a scan."""
        self._found.zero_()
        self._scratch[: self._layout.zeroed].zero_()
        arrays = (self._scratch.data_ptr(), self._found.data_ptr())
        launch(KERNELS, self._instance, self._device, self._grid, BLOCK, self._view.words, *arrays, cooperative=True)

    def result(self) -> tuple[int, int]:
        """(Sum of all neighbours, bytes of their lists in whole sectors) of the last scan; waits for it."""
        total, moved = self._found.tolist()
        return total, moved
