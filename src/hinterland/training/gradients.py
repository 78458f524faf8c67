"""What several ranks, or GPUs, have in common after each step. Of ranks one all-reduce of gradients, between backward and the
optimizer's step; of several GPUs of one process (:mod:`.factored`) one copy of each GPU's.

The collective is in no CUDA graph. NCCL wants one captured in all ranks or in none, and each replay of it in all of them
("Using NCCL with CUDA Graphs" in its guide: that is "uniform over all ranks"). But a rank whose batch overflows, or whose
capture fails, takes an eager step while others replay. So a replayed step is two graphs, and every rank sums between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import reduce

import torch
import torch.distributed as dist
from torch import nn


def flattened(
    parameters: Sequence[torch.Tensor], gradients: Iterable[torch.Tensor | None], out: torch.Tensor | None = None
) -> torch.Tensor:
    """The gradients of parameters one behind the other, in the widest of their dtypes. None counts as zeros."""
    dense = (torch.zeros_like(p) if g is None else g.to_dense() for p, g in zip(parameters, gradients, strict=True))
    return torch.cat([gradient.detach().flatten() for gradient in dense], out=out)


def parted(flat: torch.Tensor, parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of parameters that lie in ``flat``."""
    parts = flat.split([one.numel() for one in parameters])
    return [part.view_as(one).to(one.dtype) for one, part in zip(parameters, parts, strict=True)]


class GradientAllReduce:
    """Makes the gradients of an optimizer's parameters those of all ranks, which make the same calls in the default group.

    Args:
        optimizer: of the same parameters in all ranks. One without a gradient counts as zeros.
        mean: over ranks, as of batches of equal size; else the sum.
        model: whose buffers become those of rank 0, as statistics of BatchNorm; None has none. DistributedDataParallel
            broadcasts them before a forward, and here it is after, so that ranks agree between steps, too.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, mean: bool = False, model: nn.Module | None = None) -> None:
        self._optimizer, self._mean, self._model = optimizer, mean, model
        self._flat = torch.empty(0)  # all gradients, one behind the other
        self._bytes = torch.empty(0, dtype=torch.uint8)  # all buffers
        self._under_way: deque[tuple[torch.cuda.Event, torch.cuda.Event]] = deque()  # before and after collectives

    def pack(self) -> None:
        """Copies this rank's gradients to where all ranks sum. A step comes before a capture, which then allocates nothing."""
        held = self._parameters()
        size, widest = sum(one.numel() for one in held), reduce(torch.promote_types, {one.dtype for one in held})
        if (self._flat.numel(), self._flat.dtype, self._flat.device) != (size, widest, held[0].device):
            self._flat = torch.empty(size, dtype=widest, device=held[0].device)
        flattened(held, (one.grad for one in held), self._flat)
        if self._mean:
            self._flat.div_(dist.get_world_size())
        buffers = self._buffers()
        nbytes = sum(one.nbytes for one in buffers)
        if (len(self._bytes), self._bytes.device) != (nbytes, self._flat.device):
            self._bytes = torch.empty(nbytes, dtype=torch.uint8, device=self._flat.device)
        if nbytes:
            torch.cat([one.detach().flatten().view(torch.uint8) for one in buffers], out=self._bytes)

    def reduce(self) -> None:
        """The collectives, outside of graphs."""
        if self._flat.is_cpu:
            self._meet()
            return
        stream = torch.cuda.current_stream(self._flat.device)
        before = stream.record_event()
        self._meet()
        self._under_way.append((before, stream.record_event()))
        self._forget_ended()

    def _meet(self) -> None:
        dist.all_reduce(self._flat)
        if len(self._bytes):
            dist.broadcast(self._bytes, 0)

    def unpack(self) -> None:
        """Has the gradients be what came of it, until the next step; and the buffers."""
        held = self._parameters()
        for one, part in zip(held, parted(self._flat, held), strict=True):
            one.grad = part if one.requires_grad else None
        buffers = self._buffers()
        for buffer, part in zip(buffers, self._bytes.split([one.nbytes for one in buffers]), strict=True):
            buffer.detach().copy_(part.clone().view(buffer.dtype).view_as(buffer))  # a clone is aligned

    def waits(self) -> bool:
        """Whether this rank's GPU has done its part of a step, and waits for that of another."""
        self._forget_ended()
        return bool(self._under_way) and self._under_way[0][0].query()

    def _forget_ended(self) -> None:
        while self._under_way and self._under_way[0][1].query():
            self._under_way.popleft()

    def _buffers(self) -> list[torch.Tensor]:
        held = () if self._model is None else self._model.buffers()
        return [one for one in held if one.device == self._flat.device]

    def _parameters(self) -> list[torch.Tensor]:
        return [one for group in self._optimizer.param_groups for one in group["params"]]
