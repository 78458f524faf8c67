"""Graph attention networks (Velickovic et al. 2018; Brody et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from ..fullgraph import PartitionedGraph
from ..fullgraph.attend import Scores
from ..fullgraph.attention import attention
from ..fullgraph.host import HostRows, RowsOf
from ..runtime import arguments
from .layer import GlorotLinear, Layer, added, channels, new_bias
from .parts import Given, copied, of_parts


class AttentionLayer(Layer):
    """What GATConv and GATv2Conv share."""

    bias: Parameter | None
    concat: bool
    add_self_loops: bool
    residual: bool

    def __init__(
        self,
        strategy: str,
        options: Mapping[str, Any],
        edge_dim: None,
        sizes: tuple[int, int, int],
        negative_slope: float,
        dropout: float,
    ) -> None:
        super().__init__(strategy, options)
        self.refuse(edge_dim=edge_dim)
        in_channels, out_channels, heads = sizes
        self.in_channels, self.out_channels = channels("in_channels", in_channels), channels("out_channels", out_channels)
        self.heads = arguments.at_least_one("heads", heads, "leaves nothing to attend with; use 1 or more")
        self.negative_slope, self.dropout = arguments.number("negative_slope", negative_slope), self.refuse_dropout(dropout)

    def projection(self, bias: bool) -> GlorotLinear:
        """From a row to the heads' rows."""
        bias = arguments.switch("bias", bias)
        return GlorotLinear(self.in_channels, self.heads * self.out_channels, bias=bias)

    def finish(self, bias: bool) -> None:
        """Makes the parameters that come last, and draws all."""
        size = self.out_channels * (self.heads if self.concat else 1)
        self.res = GlorotLinear(self.in_channels, size, bias=False) if self.residual else None
        self.register_parameter("bias", new_bias(size, bias))
        self.reset_parameters()

    def scores(self, kind: str) -> Scores:
        return Scores(kind, self.heads, self.negative_slope, loops=self.add_self_loops)

    def finished(self, out: RowsOf, rows: RowsOf) -> RowsOf:
        """The heads' sums side by side, or their mean, with what is added."""
        if not self.concat:
            out = of_parts(partial(head_mean, heads=self.heads), out)
        if self.res is not None:
            out = of_parts(torch.add, out, of_parts(self.res, rows))
        return added(out, self.bias)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, heads={self.heads})"


class GATConv(AttentionLayer):
    """Sums of the neighbours' W x_u, weighted by a softmax of leaky(a_src . W x_u + a_dst . W x_v), as
    ``torch_geometric.nn.GATConv``.

    Args:
        in_channels: the width of ``x``.
        out_channels: of each head; at most 1024.
        heads: how many there are.
        concat: whether the result has the heads side by side, ``heads * out_channels`` wide; False: their mean.
        negative_slope: of the leaky ReLU.
        dropout: 0; scores of edges are not kept, so that none can be dropped.
        add_self_loops: whether each vertex is its own neighbour once, whatever the graph says.
        edge_dim: None; a partitioned graph has no features of edges.
        fill_value: of features of edges; changes nothing.
        bias: whether one is added.
        residual: whether a Linear of ``x`` is added.
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
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: None = None,
        fill_value: Any = "mean",
        bias: bool = True,
        residual: bool = False,
        *,
        strategy: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(strategy, options, edge_dim, (in_channels, out_channels, heads), negative_slope, dropout)
        self.concat, self.add_self_loops, self.residual = arguments.switches(
            concat=concat, add_self_loops=add_self_loops, residual=residual
        )
        self.lin = self.projection(bias=False)
        self.att_src = Parameter(torch.empty(1, self.heads, self.out_channels))
        self.att_dst = Parameter(torch.empty(1, self.heads, self.out_channels))
        self.finish(bias)

    def forward(
        self, x: Given, p: PartitionedGraph, edge_attr: None = None, size: None = None, return_attention_weights: None = None
    ) -> Any:
        """``[n, heads * out_channels]``, or ``[n, out_channels]``, of ``x`` ``[n, in_channels]``; a list where ``x`` is one.

        Raises:
            ConfigError: ``x`` is not what belongs to ``p``, or something else is given.
        """
        self.refuse(edge_attr=edge_attr, size=size, return_attention_weights=return_attention_weights)
        given = self.rows(x, p, self.in_channels)
        rows = of_parts(self.lin, given)
        numbers = of_parts(_numbers, rows, parameters=(self.att_src, self.att_dst))
        s, t = (of_parts(partial(_columns, first=first, last=first + self.heads), numbers) for first in (0, self.heads))
        out = attention(p, self.scores("gat"), self.strategy, rows, t, s)
        return p.as_given(self.finished(out, given))


class GATv2Conv(AttentionLayer):
    """Sums of the neighbours' W_l x_u, weighted by a softmax of a . leaky(W_l x_u + W_r x_v), as
    ``torch_geometric.nn.GATv2Conv``.

    Args:
        share_weights: whether W_r is W_l.
        in_channels, out_channels, heads, concat, negative_slope, dropout, add_self_loops, edge_dim, fill_value, bias, residual,
            strategy, options: as of GATConv; with ``bias`` both products have one as well.

    Raises:
        ConfigError: an argument that cannot be honoured.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: None = None,
        fill_value: Any = "mean",
        bias: bool = True,
        share_weights: bool = False,
        residual: bool = False,
        *,
        strategy: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(strategy, options, edge_dim, (in_channels, out_channels, heads), negative_slope, dropout)
        self.concat, self.add_self_loops, self.residual = arguments.switches(
            concat=concat, add_self_loops=add_self_loops, residual=residual
        )
        self.share_weights = share_weights = arguments.switch("share_weights", share_weights)
        self.lin_l = self.projection(bias)
        self.lin_r = self.lin_l if share_weights else self.projection(bias)
        self.att = Parameter(torch.empty(1, self.heads, self.out_channels))
        self.finish(bias)

    def forward(self, x: Given, p: PartitionedGraph, edge_attr: None = None, return_attention_weights: None = None) -> Any:
        """``[n, heads * out_channels]``, or ``[n, out_channels]``, of ``x`` ``[n, in_channels]``; a list where ``x`` is one.

        Raises:
            ConfigError: ``x`` is not what belongs to ``p``, or something else is given.
        """
        self.refuse(edge_attr=edge_attr, return_attention_weights=return_attention_weights)
        given = self.rows(x, p, self.in_channels)
        rows = of_parts(self.lin_l, given)
        mine = rows if self.share_weights else of_parts(self.lin_r, given)
        att = [self.att.flatten()] if isinstance(rows, HostRows) else copied(self.att.flatten(), rows)
        out = attention(p, self.scores("gatv2"), self.strategy, rows, mine, att)
        return p.as_given(self.finished(out, given))


def head_mean(rows: Tensor, heads: int) -> Tensor:
    """``[n, channels]`` of ``[n, heads * channels]``."""
    return rows.view(len(rows), heads, rows.shape[1] // heads).mean(1)


def _columns(rows: Tensor, first: int, last: int) -> Tensor:
    return rows[:, first:last]


def _numbers(rows: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """``[n, 2 heads]``: each head of a row times its vector of ``source``, and behind it of ``target``.

    A product with a matrix keeps no second copy of the rows, which products by element and sums of those would.
    """
    return rows @ torch.cat([_blocks(source), _blocks(target)], 1)


def _blocks(vectors: Tensor) -> Tensor:
    """``[heads * channels, heads]``; times it, a row of all heads is each head times its vector of ``[1, heads, channels]``."""
    return torch.block_diag(*(one[:, None] for one in vectors[0]))
