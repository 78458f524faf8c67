"""The models: layers against torch_geometric's on the same sample, trimming against the whole graph."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn import functional as F

import hinterland as hl
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler
from hinterland.training.blocks import Block, blocks
from hinterland.training.models import MODELS, GATConv, GCNConv, PinSAGEConv, SAGEConv, make_model

INPUTS, HIDDEN, CLASSES = 6, 8, 5


pytestmark = pytest.mark.usefixtures("doubles")


@pytest.fixture(scope="module")
def graph():
    """Symmetric, without loops, with vertices that have no neighbour."""
    return hl.generate("kronecker", scale=8, edge_factor=4, seed=3)


def features(graph):
    return torch.randn(graph.num_vertices, INPUTS)


def whole(graph):
    """All edges as one block."""
    offsets = graph.indptr.cpu()
    col = torch.repeat_interleave(torch.arange(graph.num_vertices), offsets.diff())
    return Block(graph.indices.cpu().long(), col, offsets, graph.degrees().cpu())


def edge_index(block):
    return torch.stack([block.row, block.col])


def sampled(graph, fanouts, seeds=None, device="cpu"):
    seeds = torch.arange(0, 200, 7) if seeds is None else seeds
    return NeighborSampler(graph, fanouts, seed=1, device=device).sample(seeds.to(device), batch=3)


def sage_pair():
    pyg = pytest.importorskip("torch_geometric.nn")
    mine, other = SAGEConv(INPUTS, CLASSES), pyg.SAGEConv(INPUTS, CLASSES)
    other.lin_l.weight, other.lin_l.bias, other.lin_r.weight = mine.neighbors.weight, mine.neighbors.bias, mine.self_.weight
    return mine, other


def gcn_pair():
    pyg = pytest.importorskip("torch_geometric.nn")
    mine, other = GCNConv(INPUTS, CLASSES), pyg.GCNConv(INPUTS, CLASSES)
    torch.nn.init.normal_(mine.bias)
    other.lin.weight, other.bias = mine.linear.weight, mine.bias
    return mine, other


def gat_pair(channels=4):
    pyg = pytest.importorskip("torch_geometric.nn")
    mine, other = GATConv(INPUTS, 3 * channels, heads=3), pyg.GATConv(INPUTS, channels, heads=3)
    other.lin.weight, other.bias = mine.linear.weight, mine.bias
    other.att_src.data, other.att_dst.data = mine.from_source.data[None], mine.to_target.data[None]
    return mine, other


def wide_gat_pair():
    """Heads of more channels than a kernel takes at once."""
    return gat_pair(1031)


@pytest.mark.parametrize("pair", [sage_pair, gcn_pair, gat_pair, wide_gat_pair], ids=lambda pair: pair.__name__)
def test_a_layer_is_that_of_pyg(graph, pair):
    """Outputs, and gradients of inputs and of the first parameter."""
    mine, other = pair()
    block = whole(graph)
    found = []
    for layer, edges in ((mine, block), (other, edge_index(block))):
        x = features(graph).fill_(0) + torch.randn(graph.num_vertices, INPUTS, generator=torch.Generator().manual_seed(0))
        x.requires_grad_()
        out = layer(x, edges)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        weight = next(p for p in layer.parameters() if p.dim() == 2 and p.shape[1] == INPUTS)
        found.append((out.detach(), x.grad, weight.grad.clone()))
        weight.grad = None  # both layers hold the same
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_pinsage_is_algorithm_1(graph):
    """Against loops over vertices and neighbours."""
    conv, x, block = PinSAGEConv(INPUTS, CLASSES), features(graph), whole(graph)
    block = dataclasses.replace(block, weight=torch.rand(len(block.row)))
    found = conv(x, block)
    for v in range(0, graph.num_vertices, 9):
        pooled, total = torch.zeros(CLASSES), 0.0
        for e in (block.col == v).nonzero().view(-1).tolist():
            pooled += block.weight[e] * F.relu(conv.neighbors(x[block.row[e]]))
            total += block.weight[e]
        z = F.relu(conv.both(torch.cat([x[v], pooled / total if total else pooled])))
        torch.testing.assert_close(found[v], z / z.norm().clamp(min=1e-12))


def of_all(model, h, block):
    """Scores of which every layer is computed over every vertex."""
    for i in range(len(model.convs)):
        h = model.layer(i, h, block)
    return h


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_full_neighbourhoods_give_what_the_whole_graph_gives(graph, name, layers):
    """Trimmed to what each layer needs, a mini-batch has the scores that every layer over every vertex has."""
    model = make_model(name, INPUTS, HIDDEN, CLASSES, layers).eval()
    x, every = features(graph), whole(graph)
    sample = sampled(graph, [-1] * layers)
    found = model(x[sample.node], sample, every.degree[sample.node])
    torch.testing.assert_close(found, of_all(model, x, every)[sample.node[: len(found)]])


@pytest.mark.parametrize("name", MODELS)
def test_trimming_changes_nothing(graph, name):
    """Each layer on all of the sample's edges and vertices, against each layer on what it needs."""
    sample = sampled(graph, [3, 4, 2])
    model, x = make_model(name, INPUTS, HIDDEN, CLASSES, 3).eval(), features(graph)
    degree = graph.degrees().cpu()[sample.node]
    offsets = torch.searchsorted(sample.col, torch.arange(len(sample.node) + 1))
    everything = Block(sample.row, sample.col, offsets, degree)
    found = model(x[sample.node], sample, degree)
    torch.testing.assert_close(found, of_all(model, x[sample.node], everything)[: len(found)])
    trimmed = blocks(sample)
    assert [b.targets for b in trimmed] == [sum(sample.num_sampled_nodes[:n]) for n in (3, 2, 1)]
    assert [len(b.row) for b in trimmed] == [sum(sample.num_sampled_edges[:n]) for n in (3, 2, 1)]


def test_a_sampled_gcn_layer_expects_the_whole_sum(graph):
    """Its mean over many samples is the layer over all neighbours, within five standard errors."""
    conv, x, every = GCNConv(INPUTS, 2), features(graph), whole(graph)
    seed = graph.degrees().cpu().argmax().view(1)
    sampler = NeighborSampler(graph, [5], seed=2, device="cpu")
    drawn = []
    for batch in range(600):
        sample = sampler.sample(seed, batch=batch)
        drawn.append(conv(x[sample.node], blocks(sample, every.degree[sample.node])[0]).detach()[0])
    drawn = torch.stack(drawn)
    error = (drawn.mean(0) - conv(x, every)[seed[0]]).abs()
    assert bool((error < 5 * drawn.std(0) / len(drawn) ** 0.5).all())


@pytest.mark.parametrize("name", MODELS)
def test_vertices_without_neighbours(name):
    graph = hl.from_edges(torch.tensor([0]), torch.tensor([1]), num_vertices=4)
    model = make_model(name, INPUTS, HIDDEN, CLASSES, 2)
    sample = sampled(graph, [2, 2], torch.tensor([2, 3]))
    assert not len(sample.row)
    scores = model(torch.randn(2, INPUTS), sample, torch.zeros(2))
    assert scores.shape == (2, CLASSES) and bool(scores.isfinite().all())
    scores.sum().backward()


@pytest.mark.parametrize("name", MODELS)
def test_both_processors_agree(graph, name, device):
    model = make_model(name, INPUTS, HIDDEN, CLASSES, 2).eval()
    sample, x = sampled(graph, [4, 3]), features(graph)
    degree = graph.degrees().cpu()[sample.node]
    expected = model(x[sample.node], sample, degree)
    there = sampled(graph, [4, 3], device=device)
    found = model.to(device)(x[sample.node].to(device), there, degree.to(device))
    torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("name", MODELS)
def test_autocast_is_close(graph, name):
    torch.set_default_dtype(torch.float32)
    sample = sampled(graph, [4, 3])
    model, x = make_model(name, INPUTS, HIDDEN, CLASSES, 2), torch.randn(len(sample.node), INPUTS)
    degree = graph.degrees()[sample.node].float()
    found = []
    for half in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            scores = model(x, sample, degree)
        scores.float().square().sum().backward()
        found.append([scores.float(), *(parameter.grad for parameter in model.parameters())])
    for whole, short in zip(*found, strict=True):
        assert (short - whole).norm() <= 0.2 * whole.norm()  # of 8 bits, through relu


def test_bad_models():
    with pytest.raises(ConfigError, match="model 'mlp' is not one of sage, gcn, gat, pinsage"):
        make_model("mlp", 1, 1, 1, 1)
    with pytest.raises(ConfigError, match="hidden=0 and 2 layers make no model"):
        make_model("sage", 1, 0, 1, 2)
    with pytest.raises(ConfigError, match="layers are more than"):
        make_model("sage", 2, 4, 2, 2**31)
    with pytest.raises(ConfigError, match="hidden=6 cannot be shared by gat's 4 heads"):
        make_model("gat", 1, 6, 1, 2)
    with pytest.raises(ConfigError, match="7 outputs cannot be shared by 2 heads"):
        GATConv(3, 7, heads=2)
    with pytest.raises(ConfigError, match="dropout=1.0 is not a share below 1"):
        make_model("sage", 1, 4, 1, 2, dropout=1.0)


def test_bad_samples(graph):
    sample = sampled(graph, [3, 3])
    with pytest.raises(ConfigError, match="the sample has 2 hops, but the model 3 layers"):
        make_model("sage", INPUTS, HIDDEN, CLASSES, 3)(torch.randn(len(sample.node), INPUTS), sample)
    with pytest.raises(ConfigError, match="pass degree=graph.degrees"):
        make_model("gcn", INPUTS, HIDDEN, CLASSES, 2)(torch.randn(len(sample.node), INPUTS), sample)
    for x in (torch.zeros((len(sample.node), INPUTS), dtype=dtype) for dtype in (torch.int64, torch.float32)):
        with pytest.raises(ConfigError, match=f"x is {x.dtype}, but the model's parameters are torch.float64; give x.to"):
            make_model("sage", INPUTS, HIDDEN, CLASSES, 2)(x, sample)
    turned = dataclasses.replace(sample, row=sample.row.flip(0), col=sample.col.flip(0))
    with pytest.raises(ConfigError, match="the sample's edges do not lie by target; sort row and col by col"):
        blocks(turned)
