"""Graph neural networks over sampled neighbourhoods where vertices and edges have types: R-GraphSAGE and R-GAT.

Every relation has a convolution of its own. What relations bring to a vertex is added up, with its own row through a matrix of
its type (Schlichtkrull et al. 2018, equation 2). Averages over neighbours make that R-GraphSAGE, attention R-GAT; the baselines
of MAG240M (Hu et al. 2021, "OGB-LSC") are both, and MLPerf trains R-GAT on IGBH.

A type may have no features, as authors and institutions of MAG240M. Its vertices then have no row until a layer has made one of
what they hear: a layer reads only relations whose sources have rows before it. So there is neither a table to compute and keep
for such a type, nor anything to learn for each of its vertices; but it is heard a layer later than one with features.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..runtime.errors import ConfigError
from ..sampling import HeteroSample
from ..sampling.sample import EdgeType
from .attention import attended
from .blocks import Block, blocks
from .models import GAT_HEADS, with_room


@dataclass(frozen=True)
class TypedLayer:
    """What one layer reads and makes.

    Attributes:
        inputs: types whose rows it reads.
        relations: those along which it reads them.
        outputs: types of the rows that it makes.
    """

    inputs: tuple[str, ...]
    relations: tuple[EdgeType, ...]
    outputs: tuple[str, ...]


def typed_layers(relations: Collection[EdgeType], featured: Collection[str], target: str, count: int) -> tuple[TypedLayer, ...]:
    """What ``count`` layers read, first to last, so that the last makes rows of ``target``, and nothing is made in vain.

    Args:
        relations: all that there are.
        featured: types that have features.

    Raises:
        ConfigError: nothing that has features is heard by ``target`` within so many layers.
    """
    have = [set(featured)]  # types with rows before each layer, and after the last
    for _ in range(count):
        have.append(have[-1] | {t for s, _, t in relations if s in have[-1]})
    layers: list[TypedLayer] = []
    outputs = {target}
    for before in reversed(have[:-1]):
        read = tuple(r for r in relations if r[0] in before and r[2] in outputs)
        inputs = {s for s, _, _ in read} | outputs & before
        layers.append(TypedLayer(tuple(sorted(inputs)), read, tuple(sorted(outputs))))
        outputs = inputs
    if not layers[0].relations:
        raise ConfigError(
            f"{target!r} hears from no type with features within {count} hops; add hops, give types features, or open the data "
            "set with symmetrize=True, so that both ends of an edge hear each other"
        )
    return tuple(layers[::-1])


def heard_from(layers: Sequence[TypedLayer], kind: str) -> int | None:
    """The first layer, counted from 1, that reads rows of a type; None if none does."""
    return next((number for number, layer in enumerate(layers, 1) if kind in layer.inputs), None)


def typed_fanouts(layers: Sequence[TypedLayer], fanouts: Sequence[int]) -> dict[EdgeType, list[int]]:
    """Of each relation that a layer reads the fanouts by hop: 0 where no layer would read what is drawn.

    What hop h draws is read by all layers but the last h - 1, and what the last of these does not read, none does: types that
    have rows before a layer have them before later ones, too.
    """
    read = dict.fromkeys(relation for layer in reversed(layers) for relation in layer.relations)
    hops = list(zip(reversed(layers), fanouts, strict=True))
    return {relation: [fanout if relation in layer.relations else 0 for layer, fanout in hops] for relation in read}


@dataclass(frozen=True)
class TypedBlock:
    """What one layer reads: the block of each of its relations, and of each type how many vertices it makes rows of."""

    edges: dict[EdgeType, Block]
    targets: dict[str, int]


def typed_blocks(sample: HeteroSample, layers: Sequence[TypedLayer]) -> list[TypedBlock]:
    """The blocks of the layers, first to last, as many as the sample has hops; see :func:`.blocks.blocks`."""
    read = dict.fromkeys(relation for layer in layers for relation in layer.relations)
    of_relations = {relation: blocks(sample.of(relation)) for relation in read}
    return [
        TypedBlock(
            {relation: of_relations[relation][i] for relation in layer.relations},
            {kind: sum(sample.num_sampled_nodes[kind][: len(layers) - i]) for kind in layer.outputs},
        )
        for i, layer in enumerate(layers)
    ]


class RelationMean(nn.Module):
    """W times the mean of a vertex's neighbours (Schlichtkrull et al. 2018, equation 2, where c is their number)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor, own: Tensor | None, block: Block) -> Tensor:
        out: Tensor = self.linear(block.mean(x))
        return out


class RelationAttention(nn.Module):
    """Neighbours, without the vertex, weighted by attention; heads side by side (Velickovic et al. 2018, equations 1 to 5).

    Neighbour and vertex are of different types, and so have a matrix each. That of the vertex is only ever multiplied with the
    attention's vector, and so the product of both is the parameter. A vertex without a row attends by its neighbours' alone.
    """

    def __init__(self, inputs: int, own: int | None, outputs: int, heads: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.from_source = nn.Parameter(torch.empty(heads, outputs // heads))
        self.to_target = None if own is None else nn.Linear(own, heads, bias=False)
        for weights in (self.linear.weight, self.from_source, *(() if self.to_target is None else self.to_target.parameters())):
            nn.init.xavier_uniform_(weights)

    def forward(self, x: Tensor, own: Tensor | None, block: Block) -> Tensor:
        h = self.linear(x).view(len(x), *self.from_source.shape)
        source = (h * self.from_source).sum(-1)
        if self.to_target is None or own is None:
            target = source.new_zeros(block.targets, source.shape[1])
        else:
            target = self.to_target(own)
        return attended(block, h, source, target)[0].flatten(1)


class HeteroConv(nn.Module):
    """One layer: the sum of what relations bring, of each vertex's own row through its type's matrix, and of a bias."""

    def __init__(
        self,
        layer: TypedLayer,
        widths: Mapping[str, int],
        outputs: int,
        relation: Callable[[int, int | None, int], nn.Module],
    ) -> None:
        super().__init__()
        self.layer = layer
        self.self_types = [kind for kind in layer.outputs if kind in layer.inputs]
        own = {kind: widths[kind] for kind in self.self_types}
        self.convs = nn.ModuleList(relation(widths[s], own.get(t), outputs) for s, _, t in layer.relations)
        self.self_ = nn.ModuleList(nn.Linear(width, outputs, bias=False) for width in own.values())
        self.bias = nn.ParameterList(nn.Parameter(torch.zeros(outputs)) for _ in layer.outputs)

    def forward(self, x: Mapping[str, Tensor], block: TypedBlock) -> dict[str, Tensor]:
        own = {kind: x[kind][: block.targets[kind]] for kind in self.self_types}
        brought: dict[str, list[Tensor]] = {kind: [] for kind in self.layer.outputs}
        for (source, _, target), conv, edges in zip(self.layer.relations, self.convs, block.edges.values(), strict=True):
            brought[target].append(conv(x[source], own.get(target), edges))
        for (kind, rows), linear in zip(own.items(), self.self_, strict=True):
            brought[kind].append(linear(rows))
        return {kind: sum(parts[1:], parts[0]) + bias for (kind, parts), bias in zip(brought.items(), self.bias, strict=True)}


class HeteroGNN(nn.Module):
    """Layers one after another, with dropout before and ``activation`` between them; the last makes the scores."""

    def __init__(self, convs: Sequence[HeteroConv], activation: Callable[[Tensor], Tensor], dropout: float) -> None:
        super().__init__()
        self.convs = nn.ModuleList(convs)
        self.layers = [conv.layer for conv in convs]
        self.activation, self.dropout = activation, dropout

    def forward(self, x: Mapping[str, Tensor], sample: HeteroSample) -> Tensor:
        """Scores of the seeds, ``[seeds, classes]``.

        Args:
            x: by type, the features of ``sample.node``, ``[n, inputs]``.
            sample: edges by relation; those that no layer reads change nothing.
        """
        hops = {len(edges) for edges in sample.num_sampled_edges.values()}
        if hops != {len(self.convs)}:
            raise ConfigError(f"the sample has {max(hops)} hops, but the model {len(self.convs)} layers; make them equal")
        rows = dict(x)
        for i, (conv, block) in enumerate(zip(self.convs, typed_blocks(sample, self.layers), strict=True)):
            kept = {kind: F.dropout(rows[kind], self.dropout, self.training) for kind in self.layers[i].inputs}
            rows = conv(kept, block)
            if i < len(self.convs) - 1:
                rows = {kind: self.activation(made) for kind, made in rows.items()}
        (scores,) = rows.values()
        return scores


HETERO_MODELS = ("sage", "gat")


def make_hetero_model(
    name: str,
    layers: Sequence[TypedLayer],
    widths: Mapping[str, int],
    hidden: int,
    classes: int,
    dropout: float = 0.0,
) -> HeteroGNN:
    """A model that classifies vertices of the one type that the last layer makes rows of.

    Args:
        name: "sage" (R-GraphSAGE) or "gat" (R-GAT; 4 heads, 1 in the last layer).
        layers: of :func:`typed_layers`.
        widths: of the features of each type that has any.
        hidden, classes: the width of what lies between layers, and of the output.
        dropout: the share of each layer's inputs that is set to 0 in training.

    Raises:
        ConfigError: another name.
        OutOfMemory: the parameters do not fit into host memory.
    """
    check_hetero_model(name)

    def made() -> HeteroGNN:
        convs, before = [], widths
        for i, layer in enumerate(layers):
            last = i == len(layers) - 1
            relation = partial(_relation, name, 1 if last else GAT_HEADS)
            convs.append(HeteroConv(layer, before, classes if last else hidden, relation))
            before = dict.fromkeys(layer.outputs, hidden)
        return HeteroGNN(convs, F.relu if name == "sage" else F.elu, dropout)

    return with_room(made, 4 * (sum(widths.values()) + hidden) * (hidden + classes))


def _relation(name: str, heads: int, inputs: int, own: int | None, outputs: int) -> nn.Module:
    return RelationMean(inputs, outputs) if name == "sage" else RelationAttention(inputs, own, outputs, heads)


def check_hetero_model(name: str) -> None:
    """Refuses models that there are for vertices of one type only."""
    if name not in HETERO_MODELS:
        raise ConfigError(
            f"model {name!r} takes vertices of one type, and the data set has several; use one of {', '.join(HETERO_MODELS)}"
        )
