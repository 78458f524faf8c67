"""Graph neural networks over sampled neighbourhoods, in torch alone: GraphSAGE, GCN, GAT and PinSAGE's convolution.

The layer nearest the seeds needs the seeds' neighbours only, the one before it theirs as well: each layer computes just the
vertices that a later one reads (:class:`Block`). Sums over neighbours read the rows where they lie and keep no row for each
edge, which for wide rows is most of the memory and the time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..memory.allocator import require_room
from ..runtime import arguments
from ..runtime.errors import ConfigError

M = TypeVar("M", bound=nn.Module)

_MOST_LAYERS = 1000
GAT_HEADS = 4  # of the hidden layers; the last has one


@dataclass(frozen=True)
class Block:
    """What one layer reads and makes: vertices 0 to ``targets`` from the edges that lead to them.

    Attributes:
        row: int64 ``[e]``, the row of ``x`` that an edge brings.
        col: int64 ``[e]``, ascending, the vertex it goes to.
        offsets: int64 ``[targets + 1]``, where each vertex's edges begin, and where the last one's end.
        degree: ``[sources]``, each vertex's neighbours in the whole graph; for GCN.
        weight: ``[e]``, how much an edge counts; for PinSAGE. None counts all alike.
    """

    row: Tensor
    col: Tensor
    offsets: Tensor
    degree: Tensor | None = None
    weight: Tensor | None = None

    @property
    def targets(self) -> int:
        return len(self.offsets) - 1

    def counts(self, like: Tensor) -> Tensor:
        """Edges of each target, ``[targets, 1]``."""
        return self.offsets.diff().to(like.dtype)[:, None]

    def sum(self, x: Tensor, weight: Tensor | None = None) -> Tensor:
        """The sum of the rows that the edges bring to each target, each times its ``weight`` ``[e]``."""
        weight = None if weight is None else weight.to(x.dtype)  # autocast makes rows shorter than what is exponentiated
        if weight is not None and weight.requires_grad:
            return _bags(self.row, x, self.offsets, "sum", weight)
        out: Tensor = _Aggregate.apply(x, self, "sum", weight)[0]
        return out

    def mean(self, x: Tensor) -> Tensor:
        """Their mean, by the edges' weights; 0 for a target without edges."""
        return self.mean_and_own(x)[0]

    def mean_and_own(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Their mean, and each target's own row of ``x``."""
        if self.weight is None:
            mean, own = _Aggregate.apply(x, self, "mean", None)
            return mean, own
        weight = self.weight.to(x.dtype)
        total = x.new_zeros(self.targets).index_add(0, self.col, weight)
        return self.sum(x, weight) / torch.where(total == 0, 1, total)[:, None], x[: self.targets]


def _bags(row: Tensor, x: Tensor, offsets: Tensor, mode: str, weight: Tensor | None = None) -> Tensor:
    """Sums or means of the rows of ``x`` between two offsets each; 0 where there are none."""
    if not len(row):  # zeros with gradients of zeros, for which the ranks of DistributedDataParallel wait
        rows = x[row] if weight is None else x[row] * weight[:, None]
        return x.new_zeros(len(offsets) - 1, x.shape[1]).index_add(0, row, rows)
    return F.embedding_bag(row, x.contiguous(), offsets, mode=mode, per_sample_weights=weight, include_last_offset=True)


class _Aggregate(torch.autograd.Function):
    """:func:`_bags`, and the targets' own rows. The gradient is gathered along the edges turned around: one sort, and each sum
    in one order; what comes through the own rows is added where it belongs, without an array of zeros around it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Block, mode: str, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.block, ctx.mode, ctx.weight, ctx.sources = block, mode, weight, len(x)
        ctx.set_materialize_grads(False)
        return _bags(block.row, x, block.offsets, mode, weight), x[: block.targets]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, own: Tensor | None) -> tuple[Tensor, None, None, None]:
        block, weight = ctx.block, ctx.weight
        if ctx.mode == "mean":
            grad = grad / block.counts(grad).clamp_(min=1)
        row, order = block.row.int().sort(stable=True)
        offsets = torch.searchsorted(row, torch.arange(ctx.sources + 1, device=row.device, dtype=row.dtype))
        found = _bags(block.col[order], grad, offsets, "sum", None if weight is None else weight[order])
        if own is not None:
            found[: block.targets] += own
        return found, None, None, None


def blocks(sample: Any, degree: Tensor | None = None, weight: Tensor | None = None) -> list[Block]:
    """The blocks of the layers, first to last, as many as the sample has hops.

    Vertices of hop h are sampled from those of hop h - 1, so the layer that is followed by k others needs the edges of the
    first k + 1 hops only.

    Args:
        sample: a hinterland.sampling.Sample, or what has its ``row``, ``col``, ``num_sampled_nodes`` and
            ``num_sampled_edges``. Its edges lie by target, as every sampler gives them.
        degree, weight: of the sample's vertices and edges; see Block.

    Raises:
        ConfigError: the edges are in another order (seen on the CPU, where looking costs nothing).
    """
    row, col = sample.row, sample.col
    if col.device.type == "cpu" and bool((col[1:] < col[:-1]).any()):
        raise ConfigError("the sample's edges do not lie by target; sort row and col by col, keeping the hops apart")
    nodes, edges = list(accumulate(sample.num_sampled_nodes)), list(accumulate(sample.num_sampled_edges))
    # The edges of a hop come after those of the hops before, and so do their targets: each layer's offsets are the first ones.
    offsets = torch.searchsorted(col, torch.arange(nodes[-2] + 1, device=col.device))
    return [
        Block(
            row[: edges[hops - 1]],
            col[: edges[hops - 1]],
            offsets[: nodes[hops - 1] + 1],
            None if degree is None else degree[: nodes[hops]],
            None if weight is None else weight[: edges[hops - 1]],
        )
        for hops in range(len(edges), 0, -1)
    ]


class SAGEConv(nn.Module):
    """The mean aggregator of Hamilton et al. 2017, Algorithm 1, lines 4 and 5: W [x_v, mean of x_u] + b, as two matrices."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.neighbors = nn.Linear(inputs, outputs)
        self.self_ = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, block: Block) -> Tensor:
        mean, own = block.mean_and_own(x)
        return torch.addmm(self.neighbors(mean), own, self.self_.weight.t())


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
        out: Tensor = self.linear(summed * scale[mine, None]) + self.bias
        return out


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
        # A vertex is its own neighbour too.
        attention, own = softmax(block, source[block.row] + target[block.col], source[mine] + target)
        return (attended(block, h, attention) + own[..., None] * h[mine]).flatten(1) + self.bias


def softmax(block: Block, score: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Velickovic et al. 2018, equation 3: what each target attends to of its edges and of its own row, together 1.

    Args:
        score: ``[e, heads]``, of the edges, before the leaky ReLU.
        own: ``[targets, heads]``, of the targets themselves; minus infinity leaves them out.
    """
    score, own = F.leaky_relu(score, 0.2), F.leaky_relu(own, 0.2)
    highest = own.detach().scatter_reduce(0, block.col[:, None].expand_as(score), score.detach(), "amax")
    score, own = (score - highest[block.col]).exp(), (own - highest).exp()
    total = own.index_add(0, block.col, score)
    return score / total[block.col], own / total


def attended(block: Block, h: Tensor, attention: Tensor) -> Tensor:
    """The sum of the rows that the edges bring to each target, each head's by its attention: ``[targets, heads, width]``.

    Args:
        h: ``[sources, heads, width]``.
        attention: ``[e, heads]``.
    """
    heads = zip(h.unbind(1), attention.unbind(1), strict=True)
    return torch.stack([block.sum(part, weight.contiguous()) for part, weight in heads], 1)


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
            x: features of ``sample.node``, ``[n, inputs]``.
            sample, degree, weight: as for :func:`blocks`.
        """
        layers = blocks(sample, degree, weight)
        if len(layers) != len(self.convs):
            raise ConfigError(f"the sample has {len(layers)} hops, but the model {len(self.convs)} layers; make them equal")
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


def _sage(widths: Sequence[int], dropout: float) -> GNN:
    return GNN(_chain(SAGEConv, widths), F.relu, dropout)


def _gcn(widths: Sequence[int], dropout: float) -> GNN:
    return GNN(_chain(GCNConv, widths), F.relu, dropout)


def _gat(widths: Sequence[int], dropout: float) -> GNN:
    hidden = [GATConv(a, b, GAT_HEADS) for a, b in pairwise(widths[:-1])]
    return GNN([*hidden, GATConv(*widths[-2:])], F.elu, dropout)


def _pinsage(widths: Sequence[int], dropout: float) -> GNN:
    # Outputs of length 1 are embeddings; dense layers stand behind the last (Algorithm 2, line 15), here the classifier.
    inner = [*widths[:-1], widths[-2] if len(widths) > 2 else widths[-1]]
    return GNN(_chain(PinSAGEConv, inner), nn.Identity(), dropout, nn.Linear(inner[-1], widths[-1]))


def _chain(conv: Callable[[int, int], nn.Module], widths: Sequence[int]) -> list[nn.Module]:
    return [conv(a, b) for a, b in pairwise(widths)]


MODELS: dict[str, Callable[[Sequence[int], float], GNN]] = {"sage": _sage, "gcn": _gcn, "gat": _gat, "pinsage": _pinsage}


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
