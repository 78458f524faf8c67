"""A copy of a model on another device, which takes its parameters by one copy."""

from __future__ import annotations

import copy

import torch
from torch import nn

from .pipeline import in_one


class Replica:
    """A copy of ``model``, with parameters of its own, on a trainer's device."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.origin, self.device = model, device
        self.home = next(model.parameters()).device
        self.model = copy.deepcopy(model).to(device)
        theirs = [parameter.data for parameter in model.parameters()]
        self._memory, self._sent = in_one(theirs, device)
        for parameter, place in zip(self.model.parameters(), self._sent, strict=True):
            parameter.data, parameter.grad = place, None
        self._at_home = self._memory
        if device != self.home:
            self._at_home, self._sent = in_one(theirs, self.home)
        self._round: int | None = None

    def begin(self) -> None:
        """Before an epoch: the model may have changed."""
        self._round = None
        for mine, its in zip(self.model.modules(), self.origin.modules(), strict=True):
            mine.training = its.training

    @torch.no_grad()
    def follow(self, round: int, ready: torch.cuda.Event | None) -> None:
        """Takes the parameters of a round, and its buffers again, which a batch before changed."""
        if ready is not None:
            torch.cuda.current_stream(self.home).wait_event(ready)  # the stream that copies from there
        if self._round != round:
            torch._foreach_copy_(self._sent, [parameter.data for parameter in self.origin.parameters()])
            if self._at_home is not self._memory:
                self._memory.copy_(self._at_home)
            self._round = round
        for buffer, its in zip(self.model.buffers(), self.origin.buffers(), strict=True):
            buffer.copy_(its)
