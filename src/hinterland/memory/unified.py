"""STUB until the memory work lands: heap memory only."""

from __future__ import annotations

import torch


class UnifiedTensor:
    """A tensor in host memory that every GPU and the CPU address alike (Min 2022, chapter 3)."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._cpu = tensor

    @classmethod
    def empty(cls, shape: tuple[int, ...] | int, dtype: torch.dtype, placement: str = "host") -> UnifiedTensor:
        return cls(torch.empty(shape, dtype=dtype))

    @classmethod
    def from_tensor(cls, tensor: torch.Tensor, placement: str = "host") -> UnifiedTensor:
        return cls(tensor.contiguous())

    @property
    def shape(self) -> torch.Size:
        return self._cpu.shape

    @property
    def dtype(self) -> torch.dtype:
        return self._cpu.dtype

    def cpu(self) -> torch.Tensor:
        return self._cpu

    def cuda(self, device: torch.device | str | None = None) -> torch.Tensor:
        return self._cpu.to(device or "cuda")
