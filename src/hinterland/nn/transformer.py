"""Attention by dot products (Vaswani et al. 2017), as graphs have it (Shi et al. 2021)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Linear

from ..fullgraph import PartitionedGraph
from ..fullgraph.attend import Scores
from ..fullgraph.attention import attention
from ..fullgraph.host import RowsOf
from ..runtime import arguments
from .gat import head_mean
from .layer import Layer, channels
from .parts import Given, of_parts


class TransformerConv(Layer):
    """Sums of the neighbours' values, weighted by a softmax of q_v . k_u / sqrt(out_channels), plus a Linear of x_v, as
    ``torch_geometric.nn.TransformerConv``.

    Args:
        in_channels: the width of ``x``.
        out_channels: of each head; at most 1024.
        heads: how many there are.
        concat: whether the result has the heads side by side, ``heads * out_channels`` wide; False: their mean.
        beta: whether a gate decides how much the Linear of x_v counts.
        dropout: 0; scores of edges are not kept, so that none can be dropped.
        edge_dim: None; a partitioned graph has no features of edges.
        bias: whether queries, keys, values and the Linear of x_v have one.
        root_weight: False: without the Linear of x_v.
        strategy: see :class:`.layer.Layer`.
        options: of PyG's MessagePassing, with their defaults.

    Raises:
        ConfigError: an argument that cannot be honoured.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        dropout: float = 0.0,
        edge_dim: None = None,
        bias: bool = True,
        root_weight: bool = True,
        *,
        strategy: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(strategy, options)
        self.refuse(edge_dim=edge_dim)
        self.in_channels, self.out_channels = channels("in_channels", in_channels), channels("out_channels", out_channels)
        self.heads = arguments.at_least_one("heads", heads, "leaves nothing to attend with; use 1 or more")
        self.dropout = self.refuse_dropout(dropout)
        self.concat, self.root_weight, beta, bias = arguments.switches(
            concat=concat, root_weight=root_weight, beta=beta, bias=bias
        )
        self.beta = beta and self.root_weight
        width = self.heads * self.out_channels
        own = width if self.concat else self.out_channels
        self.lin_key, self.lin_query, self.lin_value = (Linear(self.in_channels, width, bias=bias) for _ in range(3))
        self.lin_skip = Linear(self.in_channels, own, bias=bias)
        self.lin_beta = Linear(3 * own, 1, bias=False) if self.beta else None
        self.reset_parameters()

    def forward(self, x: Given, p: PartitionedGraph, edge_attr: None = None, return_attention_weights: None = None) -> Any:
        """``[n, heads * out_channels]``, or ``[n, out_channels]``, of ``x`` ``[n, in_channels]``; a list where ``x`` is one.

        Raises:
            ConfigError: ``x`` is not what belongs to ``p``, or something else is given.
        """
        self.refuse(edge_attr=edge_attr, return_attention_weights=return_attention_weights)
        rows = self.rows(x, p, self.in_channels)
        query, key, value = (of_parts(lin, rows) for lin in (self.lin_query, self.lin_key, self.lin_value))
        read = of_parts(_beside, key, value)
        out = attention(p, Scores("dot", self.heads, scale=1 / math.sqrt(self.out_channels)), self.strategy, read, query)
        if not self.concat:
            out = of_parts(partial(head_mean, heads=self.heads), out)
        if self.root_weight:
            out = self._with_own(out, of_parts(self.lin_skip, rows))
        return p.as_given(out)

    def _with_own(self, out: RowsOf, own: RowsOf) -> RowsOf:
        if self.lin_beta is None:
            return of_parts(torch.add, out, own)
        gates = of_parts(torch.sigmoid, of_parts(self.lin_beta, of_parts(_all_three, out, own)))
        return of_parts(_mixed, out, own, gates)

    def __repr__(self) -> str:
        return f"TransformerConv({self.in_channels}, {self.out_channels}, heads={self.heads})"


def _beside(key: Tensor, value: Tensor) -> Tensor:
    return torch.cat([key, value], 1)


def _all_three(out: Tensor, own: Tensor) -> Tensor:
    return torch.cat([out, own, out - own], 1)


def _mixed(out: Tensor, own: Tensor, gate: Tensor) -> Tensor:
    return gate * own + (1 - gate) * out
