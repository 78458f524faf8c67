"""What all layers share: arguments that they take or refuse, their input, and PyG's initial weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from ..fullgraph import PartitionedGraph
from ..fullgraph.aggregate import WAYS
from ..fullgraph.host import HostRows, RowsOf, through_host
from ..runtime import arguments
from ..runtime.errors import ConfigError
from .parts import Given, of_parts

# Options of PyG's MessagePassing, with what a partitioned graph does.
_OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "aggr": ("add", "sum"),
    "flow": ("source_to_target",),
    "node_dim": (-2, 0),
    "decomposed_layers": (1,),
    "aggr_kwargs": (None,),
}
_NO_EDGES = "nothing is kept for an edge"
_REMEDIES = {
    "aggr": "use SAGEConv, which has mean, max and sum",
    "dropout": f"{_NO_EDGES}, so none is dropped: use dropout=0, and torch.nn.functional.dropout on x",
    "edge_attr": f"{_NO_EDGES}: leave it out",
    "edge_dim": f"{_NO_EDGES}: leave it out",
    "edge_weight": "the graph has them: make it by hl.from_edges(edge_index[1], edge_index[0], edge_weight)",
    "flow": "partition graph.transpose() instead",
    "return_attention_weights": f"{_NO_EDGES}: leave it out",
}


class Layer(torch.nn.Module):
    """A layer over a partitioned graph.

    Attributes:
        strategy: how rows are read: as of ``hl.aggregate``.
    """

    def __init__(self, strategy: str, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.strategy = arguments.one_of("strategy", strategy, WAYS)
        for name, value in options.items():
            if not isinstance(value, str | int | None) or value not in _OPTIONS.get(name, ()):
                self._refuse(name, value)

    def reset_parameters(self) -> None:
        """Draws the weights anew."""
        for one in self._modules.values():  # twice what is there twice, as PyG draws
            if isinstance(one, torch.nn.Linear):
                one.reset_parameters()
        for name, own in self.named_parameters(recurse=False):
            if name == "bias":
                own.data.zero_()
            else:
                glorot(own)

    def refuse(self, **given: Any) -> None:
        """Refuses arguments of PyG's, but for None.

        Raises:
            ConfigError: names the argument and the remedy.
        """
        for name, value in given.items():
            if value is not None:
                self._refuse(name, value)

    def _refuse(self, name: str, value: Any) -> None:
        remedy = _REMEDIES.get(name, "leave it out")
        shown = arguments.repr_of(value)
        raise ConfigError(f"{type(self).__name__} cannot do {name}={shown} on a partitioned graph; {remedy}")

    def refuse_dropout(self, dropout: Any) -> float:
        """Refuses to drop out scores of edges."""
        if arguments.number("dropout", dropout) != 0:
            self._refuse("dropout", dropout)
        return 0.0

    def rows(self, x: Given, p: PartitionedGraph, width: int | None = None) -> RowsOf:
        """The rows of each of this process's parts; as HostRows where they go through host memory.

        Raises:
            ConfigError: ``p`` is no partitioned graph, or ``x`` is not what belongs to it, or not ``width`` wide.
        """
        remedy = "make one by PartitionedGraph.from_graph(hl.from_edges(edge_index[1], edge_index[0], num_vertices=len(x)))"
        arguments.instance("p", p, PartitionedGraph, remedy)
        away = through_host(p, x, self.strategy)
        found: RowsOf = p.each(x) if away is None else away
        given = found.shape[1] if isinstance(found, HostRows) else found[0].shape[1]
        if width is not None and given != width:
            raise ConfigError(f"x is {given} wide, but {self!r} takes {width}; give the one or make the other so")
        return found


def channels(name: str, value: Any) -> int:
    """A width of rows.

    Raises:
        ConfigError: it is none, as PyG's -1 and pairs are.
    """
    if isinstance(value, tuple | list):
        raise ConfigError(f"{name}={arguments.repr_of(value)} is of two kinds of vertices, and a graph has one; give one width")
    return arguments.at_least_one(name, value, "is not derived from the first x; give its width")


def added(rows: RowsOf, bias: Tensor | None) -> RowsOf:
    """Rows plus a bias, where there is one."""
    return rows if bias is None else of_parts(_plus, rows, parameters=(bias,))


def _plus(rows: Tensor, bias: Tensor) -> Tensor:
    return rows + bias.to(rows.dtype)  # under autocast rows are narrower than parameters, and stay so


def glorot(weight: Tensor) -> None:
    """Glorot and Bengio 2010, equation 16; of the last two dimensions, as PyG takes it."""
    bound = math.sqrt(6 / (weight.shape[-2] + weight.shape[-1]))
    torch.nn.init.uniform_(weight, -bound, bound)


class GlorotLinear(torch.nn.Linear):
    """torch's Linear with PyG's initial weights."""

    def reset_parameters(self) -> None:
        glorot(self.weight)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features)
            torch.nn.init.uniform_(self.bias, -bound, bound)


def new_bias(size: int, wanted: bool) -> Parameter | None:
    return Parameter(torch.zeros(size)) if arguments.switch("bias", wanted) else None
