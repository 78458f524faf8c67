"""Graph neural networks over sampled neighbourhoods, in torch: GraphSAGE, GCN, GAT and PinSAGE's convolution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..memory.allocator import require_room
from ..runtime import arguments
from ..runtime.errors import ConfigError
from .attention import SLOPE, attended
from .blocks import Block, blocks

M = TypeVar("M", bound=nn.Module)

_MOST_LAYERS = 1000
GAT_HEADS = 4  # of the hidden layers; the last has one


class SAGEConv(nn.Module):
    """The mean aggregator of Hamilton et al. 2017, Algorithm 1, lines 4 and 5: W [x_v, mean of x_u] + b, as two matrices."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.neighbors = nn.Linear(inputs, outputs)
        self.self_ = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, block: Block) -> Tensor:
        mean, own = block.mean_and_own(x)
        given = [mean, self.neighbors.weight, self.neighbors.bias, own, self.self_.weight]
        if torch.is_autocast_enabled(x.device.type):
            given = [one.to(torch.get_autocast_dtype(x.device.type)) for one in given]
        out: Tensor = _TwoProducts.apply(*given)
        return out


class _TwoProducts(torch.autograd.Function):
    """x a^T + y b^T + bias, the second product onto the first. The bias's gradient is ones times that of the rows: on an H200 a
    third of the time of torch's sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, a: Tensor, bias: Tensor, y: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(x, a, y, b)
        return torch.addmm(bias, x, a.t()).addmm_(y, b.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor | None, Tensor]:
        x, a, y, b = ctx.saved_tensors
        of_x, of_y = (grad @ matrix if ctx.needs_input_grad[i] else None for i, matrix in ((0, a), (3, b)))
        of_bias = (grad.new_ones(1, len(grad)) @ grad)[0]
        return of_x, grad.t() @ x, of_bias, of_y, grad.t() @ y


class GCNConv(nn.Module):
    """Kipf and Welling 2017, equation 2: D^-1/2 (A + I) D^-1/2 X W, with the degrees of the whole graph.

    Where d_v neighbours of v were sampled down to s_v, each counts d_v / s_v times: the sum's expectation is that over all
    neighbours, and with full neighbourhoods it is exactly that.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.xavier_uniform_(self.linear.weight)

    def forward(self, x: Tensor, block: Block) -> Tensor:
        if block.degree is None:
            raise ConfigError("GCN weighs neighbours by their degrees; pass degree=graph.degrees()[sample.node]")
        degree, mine = block.degree.to(x.dtype), slice(block.targets)
        scale = (degree + 1).rsqrt()
        drawn = block.counts(x).clamp(min=1)
        summed = block.sum(x, scale[block.row]) * (degree[mine, None] / drawn) + x[mine] * scale[mine, None]
        return F.linear(summed * scale[mine, None], self.linear.weight, self.bias)


class GATConv(nn.Module):
    """Velickovic et al. 2018, equations 1 to 5: neighbours and the vertex itself, weighted by attention; heads side by side."""

    def __init__(self, inputs: int, outputs: int, heads: int = 1) -> None:
        super().__init__()
        if outputs % heads:
            raise ConfigError(f"{outputs} outputs cannot be shared by {heads} heads; use a multiple of {heads}")
        self.heads = heads
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.from_source = nn.Parameter(torch.empty(heads, outputs // heads))
        self.to_target = nn.Parameter(torch.empty(heads, outputs // heads))
        self.bias = nn.Parameter(torch.zeros(outputs))
        for weights in (self.linear.weight, self.from_source, self.to_target):
            nn.init.xavier_uniform_(weights)

    def forward(self, x: Tensor, block: Block) -> Tensor:
        h = self.linear(x).view(len(x), self.heads, -1)
        mine = slice(block.targets)
        source, target = (h * self.from_source).sum(-1), (h[mine] * self.to_target).sum(-1)
        out, logarithm = attended(block, h, source, target)
        # A vertex is its own neighbour too.
        own = torch.sigmoid(F.leaky_relu(source[mine] + target, SLOPE) - logarithm)
        return torch.lerp(out, h[mine], own[..., None].to(h.dtype)).flatten(1) + self.bias


class PinSAGEConv(nn.Module):
    """Ying et al. 2018, Algorithm 1: neighbours pass a layer and are averaged by importance; outputs have length 1.

    The importance of a neighbour is how often random walks met it (section 3.1); without weights all count alike.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.neighbors = nn.Linear(inputs, outputs)  # Q, q
        self.both = nn.Linear(inputs + outputs, outputs)  # W, w

    def forward(self, x: Tensor, block: Block) -> Tensor:
        pooled = block.mean(F.relu(self.neighbors(x)))
        return F.normalize(F.relu(self.both(torch.cat([x[: block.targets], pooled], 1))), dim=1)


class GNN(nn.Module):
    """Convolutions one after another, with dropout before and ``activation`` between them.

    ``head`` makes class scores of the last one's output; without it that has the scores itself.
    """

    def __init__(
        self,
        convs: Sequence[nn.Module],
        activation: Callable[[Tensor], Tensor],
        dropout: float = 0.0,
        head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.activation, self.dropout, self.head = activation, dropout, head

    def forward(self, x: Tensor, sample: Any, degree: Tensor | None = None, weight: Tensor | None = None) -> Tensor:
        """Scores of the seeds, ``[seeds, classes]``.

        Args:
            x: features of ``sample.node``, ``[n, inputs]``, of the parameters' dtype unless autocast is on.
            sample, degree, weight: as for :func:`blocks`.
        """
        layers = blocks(sample, degree, weight)
        if len(layers) != len(self.convs):
            raise ConfigError(f"the sample has {len(layers)} hops, but the model {len(self.convs)} layers; make them equal")
        dtype = next(self.parameters()).dtype
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise ConfigError(f"x is {x.dtype}, but the model's parameters are {dtype}; give x.to({dtype})")
        for i, block in enumerate(layers):
            x = self.layer(i, x, block)
        return x

    def layer(self, i: int, x: Tensor, block: Block) -> Tensor:
        """What layer ``i`` makes of its inputs: the last one of all, the scores.

        Args:
            x: rows of the block's sources, its targets' first.
        """
        x = self.convs[i](F.dropout(x, self.dropout, self.training), block)
        if i < len(self.convs) - 1:
            return self.activation(x)
        return x if self.head is None else self.head(x)


def _plain(conv: Callable[[int, int], nn.Module], widths: Sequence[int], dropout: float) -> GNN:
    return GNN([conv(a, b) for a, b in pairwise(widths)], F.relu, dropout)


def _gat(widths: Sequence[int], dropout: float) -> GNN:
    hidden = [GATConv(a, b, GAT_HEADS) for a, b in pairwise(widths[:-1])]
    return GNN([*hidden, GATConv(*widths[-2:])], F.elu, dropout)


def _pinsage(widths: Sequence[int], dropout: float) -> GNN:
    # Outputs of length 1 are embeddings; dense layers stand behind the last (Algorithm 2, line 15), here the classifier.
    inner = [*widths[:-1], widths[-2] if len(widths) > 2 else widths[-1]]
    convs = [PinSAGEConv(a, b) for a, b in pairwise(inner)]
    return GNN(convs, nn.Identity(), dropout, nn.Linear(inner[-1], widths[-1]))


MODELS: dict[str, Callable[[Sequence[int], float], GNN]] = {
    "sage": partial(_plain, SAGEConv),
    "gcn": partial(_plain, GCNConv),
    "gat": _gat,
    "pinsage": _pinsage,
}


def make_model(name: str, inputs: int, hidden: int, classes: int, layers: int, dropout: float = 0.0) -> GNN:
    """A model for node classification.

    Args:
        name: "sage", "gcn", "gat" or "pinsage".
        inputs, hidden, classes: the width of features, of what lies between layers, and of the output.
        layers: at least 1, one for each hop that is sampled.
        dropout: the share of each layer's inputs that is set to 0 in training.
    """
    check_model(name, hidden, layers, dropout)
    return built(MODELS[name], inputs, hidden, classes, layers, dropout)


def built(made: Callable[[Sequence[int], float], M], inputs: int, hidden: int, classes: int, layers: int, dropout: float) -> M:
    """What ``made`` makes of the widths between layers and of the dropout, if its parameters fit into host memory, where they
    are made.

    Raises:
        OutOfMemory: they do not.
    """
    for what, width in (("inputs", inputs), ("classes", classes)):
        arguments.whole_number(what, width, 0)
    widths = [int(inputs), *[int(hidden)] * (int(layers) - 1), int(classes)]
    return with_room(lambda: made(widths, float(dropout)), 4 * sum(a * b for a, b in pairwise(widths)))


def with_room(made: Callable[[], M], least: int) -> M:
    """What ``made`` makes, if its parameters, ``least`` bytes of them, fit into host memory, where they are made.

    Raises:
        OutOfMemory: they do not.
    """
    try:
        with torch.device("meta"):  # has sizes and takes no memory
            asked = sum(parameter.nbytes for parameter in made().parameters())
    except (RuntimeError, TypeError):  # more elements than torch counts
        asked = least
    require_room(asked)
    return made()


def check_model(name: str, hidden: int, layers: int, dropout: float, known: Collection[str] = tuple(MODELS)) -> None:
    """Refuses, before data is loaded, what :func:`make_model` would; ``known``: the models that there are."""
    arguments.one_of("model", name, known)
    hidden, layers = arguments.whole_number("hidden", hidden), arguments.whole_number("layers", layers)
    dropout = arguments.number("dropout", dropout)
    if layers > _MOST_LAYERS:
        raise ConfigError(f"{layers} layers are more than the {_MOST_LAYERS} that a model can have; use 2 or 3")
    if hidden < 1 or layers < 1:
        raise ConfigError(f"hidden={hidden} and {layers} layers make no model; use 1 or more")
    if name in ("gat", "gatv2") and layers > 1 and hidden % GAT_HEADS:
        raise ConfigError(f"hidden={hidden} cannot be shared by {name}'s {GAT_HEADS} heads; use a multiple of {GAT_HEADS}")
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout={dropout} is not a share below 1; use 0.5, or 0 for none")
