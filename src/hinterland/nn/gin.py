"""Graph isomorphism networks (Xu et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import Module, Parameter, SyncBatchNorm
from torch.nn.modules.batchnorm import _BatchNorm

from ..fullgraph import PartitionedGraph
from ..fullgraph.aggregate import apply
from ..fullgraph.reduce import Operation
from ..runtime import arguments
from ..runtime.errors import ConfigError
from .layer import Layer
from .parts import Given, of_parts, refuse_statistics


class GINConv(Layer):
    """nn((1 + eps) x_v + sum of x_u), as ``torch_geometric.nn.GINConv``. The edges' weights do not count.

    Args:
        nn: what is applied to the sums: a module, or a function of ``[n, width]``.
        eps: the first value of eps.
        train_eps: whether eps is a parameter.
        strategy: see :class:`.layer.Layer`.
        options: of PyG's MessagePassing, with their defaults.

    Raises:
        ConfigError: an argument that cannot be honoured.
    """

    def __init__(
        self, nn: Callable[..., Any], eps: float = 0.0, train_eps: bool = False, *, strategy: str = "auto", **options: Any
    ) -> None:
        super().__init__(strategy, options)
        if not callable(nn):
            raise ConfigError(f"nn={arguments.repr_of(nn)} is no module; pass one, such as a torch.nn.Sequential")
        self.nn, self.initial_eps = nn, arguments.number("eps", eps)
        if arguments.switch("train_eps", train_eps):
            self.eps: torch.Tensor = Parameter(torch.empty(1))
        else:
            self.register_buffer("eps", torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights of ``nn`` anew."""
        _reset(self.nn)
        self.eps.data.fill_(self.initial_eps)

    def forward(self, x: Given, p: PartitionedGraph, size: None = None) -> Any:
        """What ``nn`` makes of ``x`` ``[n, width]``; a list where ``x`` is one.

        Raises:
            ConfigError: ``x`` is not what belongs to ``p``, ``size`` is given, or ``nn`` takes statistics, of several parts.
        """
        self.refuse(size=size)
        rows = self.rows(x, p)
        if isinstance(self.nn, Module) and p.world.parts > 1:
            refuse_statistics(self.nn, _BatchNorm, SyncBatchNorm)
        sums = apply(p, Operation("sum"), rows, self.strategy)
        sums = of_parts(_with_own, sums, rows, parameters=(self.eps,))
        return p.as_given(of_parts(self.nn, sums))

    def __repr__(self) -> str:
        return f"GINConv(nn={self.nn})"


def _with_own(total: torch.Tensor, own: torch.Tensor, eps: torch.Tensor) -> torch.Tensor:
    return total + (1 + eps) * own


def _reset(module: Any) -> None:
    """Draws the weights of a module and of those in it anew."""
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()
    elif isinstance(module, Module):
        for one in module.children():
            _reset(one)
