"""Layers of PyG's over trimmed samples: of the seeds they make what PyG's own trimming makes, with padding and without."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric import nn
from torch_geometric.utils import trim_to_layer as pygs

import hinterland as hl
from hinterland.pyg import trim_to_layer
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import Envelope, NeighborSampler
from tests.padding import padded

WIDTH = 6
CONVS = {
    "sage": lambda: nn.SAGEConv(WIDTH, WIDTH),
    "gat": lambda: nn.GATConv(WIDTH, WIDTH, add_self_loops=False),
    "gatv2": lambda: nn.GATv2Conv(WIDTH, WIDTH, add_self_loops=False),
    "gin": lambda: nn.GINConv(torch.nn.Linear(WIDTH, WIDTH)),
    "gcn": lambda: nn.GCNConv(WIDTH, WIDTH, add_self_loops=False),
}


@pytest.fixture(scope="module")
def graph():
    return hl.generate("kronecker", scale=8, edge_factor=4, seed=3)


def sample_of(graph, fanouts, count, first=0):
    seeds = torch.arange(first, graph.num_vertices, 7)[:count]
    return NeighborSampler(graph, fanouts, seed=1, device="cpu").sample(seeds, batch=first)


def with_room(sample, slack):
    """A sample of fixed shape: ``slack`` more of each hop than were drawn."""
    vertices = torch.tensor(sample.num_sampled_nodes).cumsum(0).tolist()
    edges = torch.tensor(sample.num_sampled_edges).cumsum(0).tolist()
    rooms = [vertices[0], *(n + 1 + sum(slack[: i + 1]) for i, n in enumerate(vertices[1:]))]
    return padded(sample, Envelope(tuple(rooms), tuple(n + sum(slack[: i + 1]) for i, n in enumerate(edges))))


def through(convs, sample, x, trim):
    for layer, conv in enumerate(convs):
        x, edge_index = trim(layer, sample, x)
        x = conv(x, edge_index).tanh()
    return x


@settings(max_examples=25)
@given(name=st.sampled_from(sorted(CONVS)), hops=st.integers(1, 3), slack=st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_the_seeds_scores_and_gradients_are_those_of_pygs_own(graph, name, hops, slack):
    torch.manual_seed(hops)
    sample = sample_of(graph, [4, 3, 2][:hops], 9)
    convs = torch.nn.ModuleList(CONVS[name]().double() for _ in range(hops))
    room, seeds = with_room(sample, slack), len(sample.node[: sample.num_sampled_nodes[0]])
    rows = torch.randn(len(sample.node), WIDTH, dtype=torch.float64)

    def of_pygs(layer, sample, x):
        counts = list(sample.num_sampled_nodes), list(sample.num_sampled_edges)
        index = torch.stack([sample.row, sample.col]) if layer == 0 else of_pygs.index
        x, of_pygs.index, _ = pygs(layer, *counts, x, index)
        return x, of_pygs.index

    found = []
    for trim, of in ((of_pygs, sample), (trim_to_layer, sample), (trim_to_layer, room)):
        x = torch.cat([rows, rows.new_full((len(of.node) - len(rows), WIDTH), 1e3)]).requires_grad_()
        out = through(convs, of, x, trim)[:seeds]
        out.square().sum().backward()
        found.append([out.detach(), x.grad[: len(rows)], *(parameter.grad.clone() for parameter in convs.parameters())])
        convs.zero_grad()
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, same)


@pytest.mark.parametrize("slack", [None, [0, 0, 0], [7, 20, 3]])
def test_bipartite_calls_make_what_plain_ones_make(graph, slack):
    """As ``benchmarks pyg`` measures them, with padding and without: scores of the seeds and all gradients."""
    benchmark = pytest.importorskip("benchmarks.pyg", reason="the benchmarks are not beside the tests")
    sample = sample_of(graph, [4, 3, 2], 9)
    rows = torch.randn(len(sample.node), benchmark.COLUMNS, dtype=torch.float64)
    sample = sample if slack is None else with_room(sample, slack)
    found = []
    for way in ("trimmed", "bipartite"):
        x = torch.cat([rows, rows.new_full((len(sample.node) - len(rows), rows.shape[1]), 1e3)]).requires_grad_()
        model = benchmark.OfPyG(way, 9).double()
        out = model(x, sample)
        out.square().sum().backward()
        found.append([out.detach(), x.grad[: len(rows)], *(parameter.grad for parameter in model.parameters())])
    for one, same in zip(*found, strict=True):
        torch.testing.assert_close(one, same)


def test_shapes_are_known_before_what_was_drawn(graph):
    for first in (0, 3):
        sample = sample_of(graph, [4, 3], 9, first)
        envelope = Envelope((9, 60, 300), (40, 300))
        fixed = padded(sample, envelope)
        x = torch.zeros(300, 2)
        for layer, (rows, edges) in enumerate([(300, 300), (60, 40)]):
            x, edge_index = trim_to_layer(layer, fixed, x)
            assert (len(x), edge_index.shape[1]) == (rows, edges) and int(edge_index.max()) < rows
            assert int((edge_index[1] < rows - 1).sum()) == int(fixed.ends[1, 2 - layer])


@pytest.mark.parametrize(
    "layer, rows, said",
    [
        (2, 300, "layer=2, but the sample has 2 hops"),
        (-1, 300, "layer -1 is not a whole number"),
        (0, 5, r"x is \[5, 2\], but layer 0 reads \d+ rows"),
    ],
)
def test_bad_arguments(graph, layer, rows, said):
    with pytest.raises(ConfigError, match=said):
        trim_to_layer(layer, sample_of(graph, [4, 3], 9), torch.zeros(rows, 2))
    with pytest.raises(ConfigError, match="sample"):
        trim_to_layer(0, "sample", torch.zeros(1, 1))
    for x in (None, torch.tensor(1.0), torch.zeros(300, 2).to_sparse()):
        with pytest.raises(ConfigError, match="^x "):
            trim_to_layer(0, sample_of(graph, [4, 3], 9), x)


@pytest.mark.gpu
def test_a_captured_model_is_the_eager_one(graph):
    """On a GPU, by graphs: the losses of an epoch, to rounding."""
    from hinterland.training import Loader, capture

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.convs = torch.nn.ModuleList([nn.SAGEConv(WIDTH, 8), nn.SAGEConv(8, 4)])

        def forward(self, batch):
            x = batch.x
            for layer, conv in enumerate(self.convs):
                x, edge_index = trim_to_layer(layer, batch.sample, x)
                x = conv(x, edge_index).relu()
            return x[: batch.batch_size]

    made = torch.Generator().manual_seed(1)
    x, y = torch.randn(graph.num_vertices, WIDTH, generator=made), torch.randint(4, (graph.num_vertices,), generator=made)
    losses = []
    for captured in (False, True):
        sampler = NeighborSampler(graph, [4, 3], seed=1, device="cuda")
        table = hl.UnifiedTensor.from_tensor(x)
        loader = Loader(sampler, torch.arange(224), 16, features=table, labels=y, device="cuda", capture=captured)
        net = Net().cuda()
        steps = capture(
            net,
            lambda net, batch: torch.nn.functional.cross_entropy(net(batch), batch.y),
            torch.optim.SGD(net.parameters(), lr=0.05),
            loader,
        )
        losses.append([loss.item() for _ in range(3) for _, loss in steps])
    assert steps.replayed > 20
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
