"""GraphSAGE (Hamilton et al. 2017)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.nn import Linear

from ..fullgraph import PartitionedGraph
from ..fullgraph.aggregate import apply, mean
from ..fullgraph.aggregate_launch import compute_type
from ..fullgraph.host import RowsOf, row_type
from ..fullgraph.reduce import Operation
from ..runtime import arguments
from .layer import Layer, added, channels
from .parts import Given, of_parts

AGGREGATIONS = ("mean", "max", "sum", "add")


class SAGEConv(Layer):
    """The rows of W1 aggr(x_u) + b + W2 x_v, as ``torch_geometric.nn.SAGEConv``. The edges' weights do not count.

    Args:
        in_channels, out_channels: the widths of ``x`` and of the result.
        aggr: ``"mean"``, ``"max"``, ``"sum"`` or ``"add"`` of the neighbours' rows, 0 where there are none.
        normalize: True: each row of the result is divided by its length.
        root_weight: False: without W2 x_v.
        project: True: the neighbours' rows go through a Linear and a ReLU before.
        bias: whether there is a b.
        strategy: see :class:`.layer.Layer`.
        options: of PyG's MessagePassing, with their defaults.

    Raises:
        ConfigError: an argument that cannot be honoured.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        aggr: str = "mean",
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
        *,
        strategy: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(strategy, options)
        self.in_channels, self.out_channels = channels("in_channels", in_channels), channels("out_channels", out_channels)
        self.aggr = arguments.one_of("aggr", aggr, AGGREGATIONS)
        self.normalize, self.root_weight, self.project, bias = arguments.switches(
            normalize=normalize, root_weight=root_weight, project=project, bias=bias
        )
        if self.project:
            self.lin = Linear(self.in_channels, self.in_channels)
        self.lin_l = Linear(self.in_channels, self.out_channels, bias=bias)
        if self.root_weight:
            self.lin_r = Linear(self.in_channels, self.out_channels, bias=False)
        self.reset_parameters()

    def forward(self, x: Given, p: PartitionedGraph, size: None = None) -> Any:
        """``[n, out_channels]`` of ``x`` ``[n, in_channels]``; a list where ``x`` is one.

        Raises:
            ConfigError: ``x`` is not what belongs to ``p``, or ``size`` is given.
        """
        self.refuse(size=size)
        rows = self.rows(x, p, self.in_channels)
        theirs = of_parts(torch.relu, of_parts(self.lin, rows)) if self.project else rows
        if self.aggr != "max" and self.out_channels < self.in_channels:  # sums are made of the narrower rows
            narrow = of_parts(F.linear, theirs, parameters=(self.lin_l.weight,))
            out = added(self._aggregated(p, narrow), self.lin_l.bias)
        else:
            out = of_parts(self.lin_l, self._aggregated(p, theirs))
        if self.root_weight:
            out = of_parts(torch.add, out, of_parts(self.lin_r, rows))
        if self.normalize:
            out = of_parts(F.normalize, out)
        return p.as_given(out)

    def _aggregated(self, p: PartitionedGraph, rows: RowsOf) -> RowsOf:
        if self.aggr == "mean":
            return apply(p, mean(p, compute_type(row_type(rows))), rows, self.strategy)
        return apply(p, Operation("max" if self.aggr == "max" else "sum"), rows, self.strategy)

    def __repr__(self) -> str:
        return f"SAGEConv({self.in_channels}, {self.out_channels}, aggr={self.aggr})"
