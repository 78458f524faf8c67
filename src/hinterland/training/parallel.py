"""A model that several processes train together."""

from __future__ import annotations

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..memory.ranks import Ranks


def data_parallel(model: nn.Module, ranks: Ranks) -> nn.Module:
    """The model whose gradients are averaged over all ranks; they are views of what was summed: clone those to be kept."""
    if ranks.world_size == 1:
        return model
    # The CPU bounds a step, so as little as possible is done beside it: gradients are views of what is summed, batches are not
    # looked through for tensors to move (no device_ids), and 25 MB are summed at a time. (Named, this holds for the first piece
    # too, which by default ends at 1 MB.)
    return DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=25)
