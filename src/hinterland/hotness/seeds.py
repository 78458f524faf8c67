"""What scores that know where sampling begins are given."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..graph import Graph
from ..runtime import arguments
from ..runtime.errors import ConfigError


def integers(seeds: torch.Tensor | Sequence[int]) -> torch.Tensor:
    """Seeds as a tensor ``[n]``; ConfigError unless they are a row of integers, at least one."""
    try:
        found = torch.as_tensor(seeds)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"seeds are a row of vertex numbers, not {arguments.repr_of(seeds)}") from error
    arguments.dense("seeds", found)
    if found.ndim != 1 or found.numel() == 0:
        raise ConfigError(f"seeds have shape {tuple(found.shape)}, but must be a row of at least one vertex number")
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool:
        raise ConfigError(f"seeds are vertex numbers, not {found.dtype}; of a mask, give mask.nonzero()[:, 0]")
    return found.long()


def checked_seeds(seeds: torch.Tensor | Sequence[int], graph: Graph) -> torch.Tensor:
    """Seeds as the graph numbers them, each once: int64 ``[n]``.

    Raises:
        ConfigError: there is none, or they are no integers.
        IndexOutOfRange: one of them is no vertex.
    """
    return graph.to_internal(integers(seeds)).unique()
