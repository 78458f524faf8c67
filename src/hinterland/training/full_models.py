"""Graph neural networks over whole graphs: layers of hinterland.nn one after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from ..fullgraph import PartitionedGraph
from ..nn import GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv, each
from ..nn.layer import Layer
from .models import GAT_HEADS, built, check_model

Rows = Tensor | list[Tensor]  # of one part, or of each of several


class FullGNN(nn.Module):
    """Convolutions one after another, with dropout before and ``activation`` between them.

    Attributes:
        convs: layers of hinterland.nn, whose parameters have the names that PyG gives them.
    """

    def __init__(self, convs: Sequence[Layer], activation: Callable[[Tensor], Tensor], dropout: float = 0.0) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Rows, p: PartitionedGraph) -> Rows:
        """Scores of all vertices, ``[n, classes]``, in the form and order of ``x``.

        Args:
            x: features ``[n, inputs]``, as ``p.scatter`` gives them.
        """
        for i, conv in enumerate(self.convs):
            x = each(partial(F.dropout, p=self.dropout, training=self.training), x)
            x = conv(x, p)
            if i < len(self.convs) - 1:
                x = each(self.activation, x)
        return x


def _plain(conv: Callable[[int, int], Layer], widths: Sequence[int], dropout: float) -> FullGNN:
    return FullGNN([conv(a, b) for a, b in pairwise(widths)], F.relu, dropout)


def _gin(inputs: int, outputs: int) -> GINConv:
    return GINConv(nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs)))


def _attention(conv: Callable[..., Layer], widths: Sequence[int], dropout: float) -> FullGNN:
    hidden = [conv(a, b // GAT_HEADS, heads=GAT_HEADS) for a, b in pairwise(widths[:-1])]
    return FullGNN([*hidden, conv(*widths[-2:])], F.elu, dropout)


FULL_MODELS: dict[str, Callable[[Sequence[int], float], FullGNN]] = {
    "gcn": partial(_plain, GCNConv),
    "sage": partial(_plain, SAGEConv),
    "gin": partial(_plain, _gin),
    "gat": partial(_attention, GATConv),
    "gatv2": partial(_attention, GATv2Conv),
}

# What the tuner takes layers' sums for. Those in GIN, and means, are one kernel: they do not take the edges' weights.
SUMMED = {"gcn": "sum", "sage": "mean", "gin": "mean"}


class Sum(NamedTuple):
    """A layer's sum: how wide its rows are, and whether a gradient goes back through it."""

    width: int
    has_gradient: bool


def sums(name: str, widths: Sequence[int]) -> list[Sum]:
    """The sums of a model that is in SUMMED, layer by layer: GCN and GraphSAGE make them of the narrower rows.

    Args:
        widths: of the features, of what lies between layers, and of the output.
    """
    if name == "gin":
        return [Sum(taken, i > 0) for i, taken in enumerate(widths[:-1])]
    return [Sum(min(taken, made), i > 0 or made <= taken) for i, (taken, made) in enumerate(pairwise(widths))]


def make_full_model(
    name: str, inputs: int, hidden: int, classes: int, layers: int, dropout: float = 0.0, strategy: str = "auto"
) -> FullGNN:
    """A model for the classification of all vertices of a partitioned graph.

    Args:
        name: "gcn", "sage", "gin", "gat" or "gatv2".
        inputs, hidden, classes: the width of features, of what lies between layers, and of the output.
        layers: at least 1.
        dropout: the share of each layer's inputs that is set to 0 in training.
        strategy: how layers read rows of other parts: a key of ``hinterland.fullgraph.STRATEGIES``, or ``"auto"``.
    """
    check_model(name, hidden, layers, dropout, FULL_MODELS)
    model = built(FULL_MODELS[name], inputs, hidden, classes, layers, dropout)
    for conv in model.convs:
        conv.strategy = strategy  # type: ignore[assignment]
    return model
