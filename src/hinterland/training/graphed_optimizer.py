"""An optimizer as a CUDA graph needs it: it counts its steps on the GPU, and reads the learning rate there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer

_ON_CPU = ("step", "mu_product")  # what torch's optimizers that are not capturable keep there


class GraphedOptimizer:
    """What a user's optimizer is during a step. Outside of :meth:`settings` its groups are as the user, or a scheduler, left
    them; a rate that they have changed is copied to the GPU by :meth:`follow`.

    Args:
        optimizer: any. Those of torch that have ``capturable`` have it set; SGD and Adam become fused if nobody said otherwise.
        device: a GPU.
    """

    def __init__(self, optimizer: Optimizer, device: torch.device) -> None:
        self.optimizer, self.device = optimizer, device
        self._rates: list[torch.Tensor] = []  # of each group, float32 on the GPU
        self._values: list[Any] = []  # what is in them
        vars(optimizer)["_warned_capturable_if_run_uncaptured"] = True  # eager steps between replays are meant to be

    def follow(self) -> None:
        """Has the rates on the GPU be those of the groups, on the current stream."""
        for number, group in enumerate(self.optimizer.param_groups):
            if number == len(self._rates):
                self._rates.append(torch.zeros((), device=self.device))
                self._values.append(None)
            rate = group.get("lr")
            if isinstance(rate, torch.Tensor) and rate.is_cuda:
                self._rates[number].copy_(rate)
            elif rate is not None and float(rate) != self._values[number]:
                self._values[number] = float(rate)
                self._rates[number].fill_(self._values[number])

    def constants(self) -> dict[Any, float]:
        """The rates of groups that cannot read one on the GPU: a graph has them as numbers."""
        groups = enumerate(self.optimizer.param_groups)
        return {("lr", i): float(group["lr"]) for i, group in groups if "lr" in group and not self._reads_rate(group)}

    @contextmanager
    def settings(self) -> Iterator[None]:
        """A with-block for a step, captured or not, on the current stream."""
        self.follow()
        groups = self.optimizer.param_groups
        before: list[dict[str, Any]] = [
            {name: group[name] for name in ("capturable", "fused", "lr") if name in group} for group in groups
        ]
        try:
            for group, rate in zip(groups, self._rates, strict=False):
                if "capturable" in group:
                    self._move(group)
                    group["capturable"] = True
                reads = self._reads_rate(group)
                if self._fuses(group):
                    self._begin_momenta(group)
                    group["fused"] = True
                if reads:
                    group["lr"] = rate
            yield
        finally:
            for group, was in zip(groups, before, strict=False):  # a step may have added one
                group.update(was)

    def undo(self) -> None:
        """Puts counts of steps where the user's settings have them, on the CPU: on a GPU each step that is not captured would
        wait for them."""
        for group in self.optimizer.param_groups:
            if group.get("capturable", True) or group.get("fused"):
                continue
            for state in (self.optimizer.state.get(parameter, {}) for parameter in group["params"]):
                state.update({name: state[name].cpu() for name in _ON_CPU if isinstance(state.get(name), torch.Tensor)})

    def _move(self, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            for name, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and value.is_cpu and parameter.is_cuda:
                    self.optimizer.state[parameter][name] = value.to(parameter.device)

    def _begin_momenta(self, group: dict[str, Any]) -> None:
        """Has all parameters of a group of SGD have momentum, if some do: fused, it takes none that come later, as of layers
        that learn from now on. Theirs begins at 0, and the next step makes of it what a first one does."""
        state = self.optimizer.state
        if group.get("momentum") and any(state.get(p, {}).get("momentum_buffer") is not None for p in group["params"]):
            for p in group["params"]:
                if p.requires_grad and state[p].get("momentum_buffer") is None:
                    state[p]["momentum_buffer"] = torch.zeros_like(p, requires_grad=False)

    def _fuses(self, group: dict[str, Any]) -> bool:
        named = group.get("fused") is not None or group.get("foreach") or group.get("differentiable")
        named = named or group.get("dampening")  # whose first step is another than one from a momentum of 0
        floats = all(parameter.is_cuda and parameter.is_floating_point() for parameter in group["params"])
        return isinstance(self.optimizer, SGD | Adam | AdamW) and not named and floats

    def _reads_rate(self, group: dict[str, Any]) -> bool:
        """Whether its step takes a rate that is on the GPU, without a look at it."""
        if "lr" not in group:
            return False
        return "capturable" in group or (isinstance(self.optimizer, SGD) and bool(group.get("fused") or self._fuses(group)))
