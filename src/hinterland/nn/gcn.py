"""Graph convolution (Kipf and Welling 2017)."""

from __future__ import annotations

from typing import Any

from torch.nn import Parameter

from ..fullgraph import PartitionedGraph
from ..fullgraph.aggregate import apply, normalized
from ..fullgraph.reduce import Operation
from ..runtime import arguments
from ..runtime.errors import ConfigError
from .layer import GlorotLinear, Layer, added, channels, new_bias
from .parts import Given, of_parts


class GCNConv(Layer):
    """The rows of D^-1/2 (A + I) D^-1/2 x W + b, as ``torch_geometric.nn.GCNConv``. The edges' weights are the graph's.

    Args:
        in_channels, out_channels: the widths of ``x`` and of the result.
        improved: A + 2 I instead.
        cached: changes nothing: a partitioned graph keeps its normalisation.
        add_self_loops: False: A instead; by default ``normalize``. A vertex that is its own neighbour stays as it is.
        normalize: False: the rows of A x W + b.
        bias: whether there is a b.
        strategy: see :class:`.layer.Layer`.
        options: of PyG's MessagePassing, with their defaults.

    Raises:
        ConfigError: an argument that cannot be honoured.
    """

    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        improved: bool = False,
        cached: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        bias: bool = True,
        *,
        strategy: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(strategy, options)
        self.in_channels, self.out_channels = channels("in_channels", in_channels), channels("out_channels", out_channels)
        self.improved, self.cached, self.normalize = arguments.switches(improved=improved, cached=cached, normalize=normalize)
        adds = self.normalize if add_self_loops is None else arguments.switch("add_self_loops", add_self_loops)
        self.add_self_loops = adds
        if adds and not self.normalize:
            raise ConfigError(
                "add_self_loops=True needs normalize=True; leave it out, and give the graph what loops it shall have"
            )
        self.lin = GlorotLinear(self.in_channels, self.out_channels, bias=False)
        self.register_parameter("bias", new_bias(self.out_channels, bias))
        self.reset_parameters()

    def forward(self, x: Given, p: PartitionedGraph, edge_weight: None = None) -> Any:
        """``[n, out_channels]`` of ``x`` ``[n, in_channels]``; a list where ``x`` is one.

        Raises:
            ConfigError: ``x`` is not what belongs to ``p``, or ``edge_weight`` is given.
        """
        self.refuse(edge_weight=edge_weight)
        rows = self.rows(x, p, self.in_channels)
        narrows = self.out_channels <= self.in_channels  # sums are made of the narrower rows
        if narrows:
            rows = of_parts(self.lin, rows)
        if self.normalize:
            rows = normalized(p, rows, self.strategy, (2.0 if self.improved else 1.0) if self.add_self_loops else 0.0)
        else:
            rows = apply(p, Operation("sum", p.has_weights), rows, self.strategy)
        if not narrows:
            rows = of_parts(self.lin, rows)
        return p.as_given(added(rows, self.bias))

    def __repr__(self) -> str:
        return f"GCNConv({self.in_channels}, {self.out_channels})"
