"""Copies of whole arrays by torch, where one may be host memory of two mappings.

CUDA copies within one mapping at a time: across the boundary of a split table (allocator.py) it refuses, with "invalid
argument". Kernels do not see the boundary, so gathers need none of this.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from ..runtime import arguments
from ..runtime.errors import ConfigError
from .allocator import boundaries
from .existing import edges


def copy(to: torch.Tensor, source: torch.Tensor) -> None:
    """``to.copy_(source)`` of tensors of one shape, each contiguous if it lies across a boundary."""
    for name, given in (("to", to), ("source", source)):
        arguments.instance(name, given, torch.Tensor, "ut.cpu() is that of a UnifiedTensor")
    try:
        source = source.expand(to.shape)
    except RuntimeError:
        raise ConfigError(
            f"to is {arguments.repr_of(to)} and source {arguments.repr_of(source)}; give them one shape"
        ) from None
    edges = {*cuts(to), *cuts(source)} if to.is_cuda or source.is_cuda else set()
    if not edges:
        to.copy_(source)
        return
    for begin, end in pairwise([0, *sorted(edges), to.numel()]):
        to.view(-1)[begin:end].copy_(source.reshape(-1)[begin:end])


def copied(tensor: torch.Tensor, device: torch.device, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A copy on ``device``, of another type if that is asked for; where nothing lies across a boundary, one that the CPU does
    not wait for."""
    if dtype not in (None, tensor.dtype) or not cuts(tensor):  # a change of type is a kernel's work, which sees no boundary
        return tensor.to(device, dtype, non_blocking=True, copy=True)
    made = torch.empty_like(tensor, device=device)
    copy(made, tensor)
    return made


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """``tensor`` itself if it lies on ``device``, or a copy there."""
    return tensor if tensor.device == device else copied(tensor, device)


def cuts(tensor: torch.Tensor) -> list[int]:
    """The elements that are the first behind a boundary."""
    begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    return [(at - begin) // tensor.itemsize for at in {*boundaries(), *edges()} if begin < at < end]
