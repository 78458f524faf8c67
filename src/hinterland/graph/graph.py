"""STUB until the graph work lands: a graph as compressed sparse rows (CSR)."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..memory import UnifiedTensor
from ..runtime import devices


class Graph:
    """A graph in CSR form: the neighbours of v are ``indices[indptr[v]:indptr[v+1]]``."""

    def __init__(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        weights: torch.Tensor | None = None,
        *,
        directed: bool = True,
        placement: str | Mapping[str, str] = "host",
    ) -> None:
        self.directed = directed
        self._arrays = {"indptr": UnifiedTensor.from_tensor(indptr), "indices": UnifiedTensor.from_tensor(indices)}
        if weights is not None:
            self._arrays["weights"] = UnifiedTensor.from_tensor(weights)

    @property
    def num_vertices(self) -> int:
        return self._arrays["indptr"].shape[0] - 1

    @property
    def num_edges(self) -> int:
        return self._arrays["indices"].shape[0]

    def array(self, name: str, device: torch.device | str = "cpu") -> torch.Tensor | None:
        """``indptr``, ``indices`` or ``weights`` as ``device`` addresses it: no copy of what lies in host memory."""
        held = self._arrays.get(name)
        if held is None:
            return None
        return held.cpu() if devices.as_device(device).type == "cpu" else held.cuda(device)
