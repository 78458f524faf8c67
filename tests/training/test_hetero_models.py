"""Models of several types: layers against torch_geometric's, whole models against products of dense matrices."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from hinterland.runtime.errors import ConfigError
from hinterland.sampling import Adjacency, HeteroSampler
from hinterland.training.blocks import Block
from hinterland.training.hetero_models import (
    HETERO_MODELS,
    RelationAttention,
    RelationMean,
    TypedLayer,
    heard_from,
    make_hetero_model,
    typed_fanouts,
    typed_layers,
)

SIZES, CLASSES, HIDDEN = {"paper": 60, "author": 40, "institution": 7}, 5, 8
CITES, WRITES, AT = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("author", "at", "institution")
WRITTEN, HOUSES = ("paper", "rev_writes", "author"), ("institution", "rev_at", "author")
RELATIONS = (AT, HOUSES, WRITES, WRITTEN, CITES)  # MAG240M's, both ways

pytestmark = pytest.mark.usefixtures("doubles")


@pytest.fixture(scope="module")
def dense():
    """Of each relation which vertex hears which, as a matrix; every third vertex hears nobody."""
    random = torch.Generator().manual_seed(1)
    matrices = {r: torch.rand(SIZES[r[2]], SIZES[r[0]], generator=random) < 0.12 for r in RELATIONS}
    for matrix in matrices.values():
        matrix[::3] = False
    return matrices


def listed(matrix):
    target, source = matrix.nonzero().unbind(1)
    indptr = torch.searchsorted(target, torch.arange(len(matrix) + 1))
    return Adjacency(indptr, source, matrix.shape[1])


def sampler(dense, fanouts, layers):
    drawn = typed_fanouts(layers, fanouts)
    return HeteroSampler({r: listed(dense[r]) for r in drawn}, drawn, target="paper", device="cpu")


def test_what_layers_read_where_papers_alone_have_features():
    layers = typed_layers(RELATIONS, ["paper"], "paper", 4)
    assert layers == (
        TypedLayer(("paper",), (WRITTEN, CITES), ("author", "paper")),
        TypedLayer(("author", "paper"), (AT, WRITES, WRITTEN, CITES), ("author", "institution", "paper")),
        TypedLayer(("author", "institution", "paper"), (HOUSES, WRITES, WRITTEN, CITES), ("author", "paper")),
        TypedLayer(("author", "paper"), (WRITES, CITES), ("paper",)),
    )
    assert typed_fanouts(layers, [4, 3, 2, 1]) == {
        CITES: [4, 3, 2, 1],
        WRITES: [4, 3, 2, 0],
        WRITTEN: [0, 3, 2, 1],
        HOUSES: [0, 3, 0, 0],
        AT: [0, 0, 2, 0],
    }
    assert [heard_from(layers, kind) for kind in SIZES] == [1, 2, 3]
    assert heard_from(typed_layers(RELATIONS, ["paper"], "paper", 3), "institution") is None


def test_what_layers_read_where_all_have_features():
    layers = typed_layers(RELATIONS, SIZES, "paper", 2)
    assert [set(layer.inputs) for layer in layers] == [set(SIZES), {"paper", "author"}]
    assert typed_fanouts(layers, [4, 3]) == {CITES: [4, 3], WRITES: [4, 3], WRITTEN: [0, 3], HOUSES: [0, 3]}


@pytest.mark.parametrize("relations", [(AT,), (WRITTEN,), (WRITES,)])
def test_papers_that_hear_nothing(relations):
    with pytest.raises(ConfigError, match="'paper' hears from no type with features within 3 hops; add hops, give types"):
        typed_layers(relations, ["paper"], "paper", 3)


def by_products(model, x, dense):
    """The scores of all papers: every layer for every vertex of every type that it makes rows of."""
    for i, conv in enumerate(model.convs):
        layer = conv.layer
        rows = {kind: bias.expand(SIZES[kind], -1) for kind, bias in zip(layer.outputs, conv.bias, strict=True)}
        for kind, linear in zip(conv.self_types, conv.self_, strict=True):
            rows[kind] = rows[kind] + x[kind] @ linear.weight.t()
        for relation, one in zip(layer.relations, conv.convs, strict=True):
            source, _, target = relation
            h = x[source] @ one.linear.weight.t()
            heard = dense[relation].double()
            if isinstance(one, RelationMean):
                rows[target] = rows[target] + heard / heard.sum(1, keepdim=True).clamp(min=1) @ h
                continue
            heads = []
            for head, part in enumerate(h.chunk(len(one.from_source), 1)):
                score = (part @ one.from_source[head])[None, :].expand(heard.shape)
                if one.to_target is not None:
                    score = score + (x[target] @ one.to_target.weight[head])[:, None]
                score = F.leaky_relu(score, 0.2).masked_fill(heard == 0, -torch.inf)
                heads.append(score.softmax(1).nan_to_num(0) @ part)
            rows[target] = rows[target] + torch.cat(heads, 1)
        x = {kind: model.activation(made) for kind, made in rows.items()} if i < len(model.convs) - 1 else rows
    return x["paper"]


@pytest.mark.parametrize("name", HETERO_MODELS)
@pytest.mark.parametrize("featured", [("paper",), ("author",), ("paper", "institution"), tuple(SIZES)])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_whole_neighbourhoods_give_what_dense_matrices_give(dense, name, featured, count):
    """Whatever types have features, and however little of the sample each layer reads."""
    layers = typed_layers(RELATIONS, featured, "paper", count)
    widths = {kind: 4 + len(kind) for kind in featured}
    model = make_hetero_model(name, layers, widths, HIDDEN, CLASSES).eval()
    for bias in (bias for conv in model.convs for bias in conv.bias):
        torch.nn.init.normal_(bias)
    x = {kind: torch.randn(SIZES[kind], width) for kind, width in widths.items()}
    sample = sampler(dense, [-1] * count, layers).sample(torch.arange(0, 60, 4))
    held = {kind: x[kind][sample.node[kind]] for kind in layers[0].inputs}
    torch.testing.assert_close(model(held, sample), by_products(model, x, dense)[::4])


def block_of(matrix):
    target, source = matrix.nonzero().unbind(1)
    return Block(source, target, torch.searchsorted(target, torch.arange(len(matrix) + 1)))


@pytest.mark.parametrize("kind", ["mean", "attention"])
def test_a_relation_is_a_layer_of_pyg(dense, kind):
    """Outputs, and gradients of both ends' rows."""
    pyg = pytest.importorskip("torch_geometric.nn")
    matrix, found = dense[WRITES], []
    if kind == "mean":
        mine, other = RelationMean(6, 12), pyg.SAGEConv((6, 9), 12, root_weight=False, bias=False)
        other.lin_l.weight = mine.linear.weight
    else:
        mine, other = RelationAttention(6, 9, 12, 3), pyg.GATConv((6, 9), 4, 3, add_self_loops=False, bias=False)
        other.lin_src.weight, other.att_src.data = mine.linear.weight, mine.from_source.data[None]
        theirs = (other.lin_dst.weight.view(3, 4, 9) * other.att_dst.view(3, 4, 1)).sum(1)
        mine.to_target.weight.data = theirs.detach()
    target, source = matrix.nonzero().unbind(1)
    for layer in (mine, other):
        x, own = (torch.linspace(-1, 1, n * width).sin().view(n, width).requires_grad_() for n, width in ((40, 6), (60, 9)))
        out = mine(x, own, block_of(matrix)) if layer is mine else other((x, own), torch.stack([source, target]), size=(40, 60))
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        found.append((out.detach(), x.grad, *([own.grad] if kind == "attention" else [])))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", HETERO_MODELS)
def test_every_parameter_has_a_gradient_in_every_batch(dense, name):
    """Ranks that train together wait for it, also where a batch has no edge of a relation, or no edges at all."""
    layers = typed_layers(RELATIONS, ["paper"], "paper", 3)
    model = make_hetero_model(name, layers, {"paper": 4}, HIDDEN, CLASSES)
    for seeds in (torch.tensor([0, 3, 6]), torch.arange(60)):
        model.zero_grad()
        sample = sampler(dense, [2, 2, 2], layers).sample(seeds)
        model({"paper": torch.randn(len(sample.node["paper"]), 4)}, sample).sum().backward()
        assert all(p.grad is not None for p in model.parameters())
    assert sum(bool(p.grad.any()) for p in model.parameters()) > 10


def test_bad_models(dense):
    layers = typed_layers(RELATIONS, ["paper"], "paper", 2)
    with pytest.raises(ConfigError, match="model 'gcn' takes vertices of one type, and the data set has several; use one"):
        make_hetero_model("gcn", layers, {"paper": 4}, HIDDEN, CLASSES)
    model = make_hetero_model("sage", layers, {"paper": 4}, HIDDEN, CLASSES)
    other = typed_layers(RELATIONS, ["paper"], "paper", 3)
    sample = sampler(dense, [2, 2, 2], other).sample(torch.arange(9))
    with pytest.raises(ConfigError, match="the sample has 3 hops, but the model 2 layers; make them equal"):
        model({"paper": torch.randn(len(sample.node["paper"]), 4)}, sample)
