"""Tables whose rows lie in host memory: what tables above them, with rows in GPU memory, stand on."""

from __future__ import annotations

from abc import abstractmethod

import torch

from .rows import RowTable


class HostTable(RowTable):
    """A table in host memory. There is one, UnifiedTensor, which makes the tables that stand on it."""

    @property
    @abstractmethod
    def placement(self) -> str:
        """``"mapped"``, ``"split"``, ``"registered"`` or ``"heap"``: what ``placement="host"`` has become here."""

    @abstractmethod
    def cpu(self) -> torch.Tensor:
        """The table as a CPU tensor: the same memory."""

    @abstractmethod
    def cuda(self, device: torch.device | str | int | None = None) -> torch.Tensor:
        """The table as a CUDA tensor over the same host memory, for any torch operation: nothing is copied."""

    @abstractmethod
    def _beside(self, index: torch.Tensor) -> torch.Tensor:
        """The table as a tensor on the device of ``index``; a compiled function may call it."""
