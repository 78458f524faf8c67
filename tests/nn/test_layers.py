"""Layers over partitioned graphs: PyG's own, over the same edges, as the oracle."""

from __future__ import annotations

import copy
import warnings
from itertools import product

import pytest
import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland import nn
from hinterland.fullgraph import STRATEGIES
from hinterland.runtime.errors import ConfigError
from tests.covering import covering, on_devices
from tests.nn.nets import EDGES, VERTICES, Net, graph, mlp, rows

pyg = pytest.importorskip("torch_geometric.nn")

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
WEIGHTS = torch.rand(EDGES.shape[1], generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 0.1


def parted(parts, device="cpu", weights=None):
    return hl.PartitionedGraph.from_graph(graph(weights), parts, devices=device)


# The layer's name, and its arguments; GINConv's network is made anew for each layer.
LAYERS = {
    "GCN": ("GCNConv", (6, 5), {}),
    "GCN that widens": ("GCNConv", (6, 17), {"cached": True}),
    "GCN without loops": ("GCNConv", (6, 5), {"add_self_loops": False, "bias": False}),
    "GCN as it is": ("GCNConv", (6, 5), {"normalize": False}),
    "SAGE": ("SAGEConv", (6, 5), {}),
    "SAGE that widens": ("SAGEConv", (6, 9), {"normalize": True}),
    "SAGE by sums": ("SAGEConv", (6, 5), {"aggr": "sum", "root_weight": False, "bias": False}),
    "SAGE by add": ("SAGEConv", (6, 7), {"aggr": "add"}),
    "SAGE by maxima": ("SAGEConv", (6, 5), {"aggr": "max", "project": True}),
    "GIN": ("GINConv", (mlp,), {}),
    "GIN with eps": ("GINConv", (mlp,), {"eps": 0.3, "train_eps": True}),
    "GAT": ("GATConv", (6, 5), {}),
    "GAT of heads": ("GATConv", (6, 4), {"heads": 3, "negative_slope": 0.1, "residual": True}),
    "GAT, mean": ("GATConv", (6, 4), {"heads": 3, "concat": False, "bias": False}),
    "GAT without loops": ("GATConv", (6, 4), {"heads": 2, "add_self_loops": False}),
    "GATv2": ("GATv2Conv", (6, 5), {}),
    "GATv2 of heads": ("GATv2Conv", (6, 4), {"heads": 3, "negative_slope": 0.1, "residual": True}),
    "GATv2, mean, shared": ("GATv2Conv", (6, 4), {"heads": 3, "concat": False, "share_weights": True}),
    "GATv2 without loops": ("GATv2Conv", (6, 4), {"heads": 2, "add_self_loops": False, "bias": False}),
    "Transformer": ("TransformerConv", (6, 5), {}),
    "Transformer, mean, gated": ("TransformerConv", (6, 4), {"heads": 3, "concat": False, "beta": True}),
    "Transformer alone": ("TransformerConv", (6, 4), {"heads": 2, "root_weight": False, "bias": False}),
}


def made(package, name, **more):
    kind, given, options = LAYERS[name]
    return getattr(package, kind)(*(one() if callable(one) else one for one in given), **options, **more)


def both(name, dtype=torch.float64, **more):
    """A layer of PyG's and ours with the same weights, none of which is 0 as biases are at first."""
    torch.manual_seed(3)
    theirs, ours = made(pyg, name), made(nn, name, **more)
    for one in theirs.parameters():
        one.data += 0.1 * torch.randn_like(one)
    ours.load_state_dict(theirs.state_dict())
    return theirs.to(dtype), ours.to(dtype)


def factor(x):
    """What a result is multiplied by to make one number of it."""
    return torch.linspace(-1, 1, x.numel(), dtype=torch.float64).view_as(x).to(x)


def close(found, wanted, dtype):
    assert found.dtype == wanted.dtype == dtype
    scale = wanted.abs().max().clamp(min=1)
    assert ((found.cpu() - wanted).abs() <= TOLERANCE[dtype] * scale).all()


def total(p, out):
    """The sum of a whole result times :func:`factor`, of its parts."""
    one = p.each(out)[0]
    by = p.scatter(factor(torch.empty(VERTICES, one.shape[1], dtype=one.dtype)))
    sums = [(part * f).sum().to(p.world.devices[0]) for part, f in zip(p.each(out), p.each(by), strict=True)]
    return torch.stack(sums).sum()


def compare(theirs, ours, p, dtype, weights=None):
    x, y = rows(dtype).requires_grad_(), rows(dtype).requires_grad_()
    given = () if weights is None else (weights.to(dtype),)
    wanted = theirs(x, EDGES, *given)
    (wanted * factor(wanted)).sum().backward()
    out = ours(p.scatter(y), p)
    close(p.gather(out), wanted.detach(), dtype)
    total(p, out).backward()
    close(y.grad, x.grad, dtype)
    for (name, one), (same, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert name == same
        if other.grad is None:
            assert one.grad is None, name
        else:
            close(one.grad, other.grad, dtype)


@pytest.mark.parametrize(
    ("name", "parts", "dtype", "device"), on_devices(LAYERS, [1, 3, 8], TOLERANCE, together=2), indirect=["device"], ids=str
)
def test_layers_are_pygs(name, parts, dtype, device):
    theirs, ours = both(name, dtype)
    compare(theirs, ours.to(device), parted(parts, device), dtype)


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("options", [{}, {"improved": True}, {"normalize": False}, {"add_self_loops": False}], ids=str)
def test_gcn_takes_the_weights_of_the_graph(options, parts, device):
    theirs, ours = pyg.GCNConv(6, 5, **options).double(), nn.GCNConv(6, 5, **options).double()
    ours.load_state_dict(theirs.state_dict())
    compare(theirs, ours.to(device), parted(parts, device, WEIGHTS), torch.float64, WEIGHTS)


@pytest.mark.parametrize("parts", [1, 3])
def test_improved_counts_a_vertex_twice_without_weights_as_well(parts):
    """PyG does so only where it is given weights."""
    theirs, ours = pyg.GCNConv(6, 5, improved=True).double(), nn.GCNConv(6, 5, improved=True).double()
    ours.load_state_dict(theirs.state_dict())
    compare(theirs, ours, parted(parts), torch.float64, torch.ones(EDGES.shape[1]))


@pytest.mark.parametrize("name", ["SAGE", "SAGE by sums", "GIN", "GAT"])
def test_other_layers_do_not_count_weights(name):
    theirs, ours = both(name)
    compare(theirs, ours, parted(3, weights=WEIGHTS), torch.float64)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["GCN", "SAGE by maxima", "GIN", "GAT of heads", "GATv2", "Transformer"])
def test_strategies_are_handed_on(name, strategy):
    theirs, ours = both(name, strategy=strategy)
    compare(theirs, ours, parted(3), torch.float64)


@pytest.mark.parametrize("name", LAYERS)
def test_weights_go_both_ways(name):
    theirs, ours = both(name)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for one in ours.parameters():
        one.data.mul_(2)
    theirs.load_state_dict(ours.state_dict())
    assert all((a == b).all() for a, b in zip(theirs.state_dict().values(), ours.state_dict().values(), strict=True))


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_seed_draws_the_same_weights(name):
    found = []
    for package in (pyg, nn):
        torch.manual_seed(5)
        layer = made(package, name)
        first = copy.deepcopy(layer.state_dict())
        layer.reset_parameters()
        found.append((first, layer.state_dict()))
    for wanted, drawn in zip(*found, strict=True):
        torch.testing.assert_close(drawn, wanted)
    assert any((a != b).any() for a, b in zip(found[1][0].values(), found[1][1].values(), strict=True))


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_printed_as_pygs(name):
    theirs, ours = both(name)
    assert repr(ours) == repr(theirs)


class ListNet(Net):
    """The same, where a process has several parts."""

    def forward(self, x, p):
        return self.conv2(nn.each(torch.relu, self.conv1(x, p)), p)


def losses(model, x, adjacency, labels, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    found = []
    for _ in range(epochs):
        optimizer.zero_grad()
        sums = nn.each(lambda out, y: F.cross_entropy(out, y, reduction="sum"), model(x, adjacency), labels)
        loss = sum(one.cpu() for one in ([sums] if isinstance(sums, torch.Tensor) else sums)) / VERTICES
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found, dtype=torch.float64)


KINDS = ("GCNConv", "SAGEConv", "GINConv", "GATConv", "GATv2Conv", "TransformerConv")
COLUMNS = (KINDS, (3, 1), (torch.float64, torch.float32))
FEW = [(*row, 50 if row[0] in ("GCNConv", "GATConv") else 20) for row in covering(COLUMNS, 2)]
ALL = [(*row, 50) for row in product(*COLUMNS)]
TRAINED = [
    *(pytest.param(*row, "cpu") for row in FEW),
    *(pytest.param(*row, "cpu", marks=pytest.mark.nightly) for row in ALL if row not in FEW),
    *(pytest.param(*row, "cuda:0", marks=pytest.mark.gpu) for row in ALL),
]


@pytest.mark.parametrize(("kind", "parts", "dtype", "epochs", "device"), TRAINED, indirect=["device"], ids=str)
def test_a_model_of_pygs_trains_alike(kind, parts, dtype, epochs, device):
    tolerance = 1e-9 if dtype == torch.float64 else 1e-3
    labels = torch.randint(4, (VERTICES,), generator=torch.Generator().manual_seed(6))
    torch.manual_seed(7)
    theirs = Net(pyg, kind).to(dtype)
    ours = (Net if parts == 1 else ListNet)(nn, kind).to(dtype)
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    p = parted(parts, device)
    wanted = losses(theirs, rows(dtype), EDGES, labels, epochs)
    found = losses(ours.to(device), p.scatter(rows(dtype)), p, p.scatter(labels), epochs)
    assert wanted[-1] < 0.95 * wanted[0]
    assert (found[0] - wanted[0]).abs() <= min(tolerance, 1e-5) * wanted[0]
    assert ((found - wanted).abs() <= tolerance * wanted).all()


REFUSED = [
    ("GCNConv", (6, 5), {"normalize": False, "add_self_loops": True}, "normalize=True"),
    ("GCNConv", (-1, 5), {}, "in_channels=-1"),
    ("GCNConv", (6, 0), {}, "out_channels=0"),
    ("GCNConv", (6, 5), {"aggr": "max"}, "aggr='max'.*SAGEConv"),
    ("GCNConv", (6, 5), {"flow": "target_to_source"}, "flow=.*transpose"),
    ("GCNConv", (6, 5), {"strategy": "fastest"}, "strategy 'fastest' is not one of auto, "),
    ("SAGEConv", ((6, 6), 5), {}, "in_channels=.*two kinds"),
    ("SAGEConv", (6, 5), {"aggr": "lstm"}, "aggr 'lstm' is not one of mean, max"),
    ("SAGEConv", (6, 5), {"aggr": ["mean", "max"]}, "aggr .* is not one of mean, max"),
    ("GINConv", (3,), {}, "nn=3"),
    ("GATConv", (6, 5), {"edge_dim": 3}, "edge_dim=3"),
    ("GATConv", (6, 5), {"dropout": 0.6}, "dropout=0.6.*functional.dropout"),
    ("GATConv", (6, 5), {"heads": 0}, "heads=0"),
    ("GATv2Conv", (6, 5), {"dropout": "much"}, "dropout 'much' is not a number"),
    ("GATv2Conv", (6, 5), {"edge_dim": 3}, "edge_dim=3"),
    ("GATv2Conv", (6, 5), {"bios": False}, "bios=False"),
    ("TransformerConv", (6, 5), {"edge_dim": 3}, "edge_dim=3"),
    ("TransformerConv", (6, 5), {"dropout": 0.1}, "dropout=0.1"),
]


@pytest.mark.parametrize(("kind", "given", "options", "sentence"), REFUSED)
def test_arguments_that_cannot_be_honoured_are_refused(kind, given, options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        getattr(nn, kind)(*given, **options)


@pytest.mark.parametrize("kind", ["GCNConv", "SAGEConv", "GATConv", "GATv2Conv", "TransformerConv"])
def test_pygs_own_defaults_are_taken(kind):
    more = {} if kind == "SAGEConv" else {"aggr": "add"}
    getattr(nn, kind)(6, 5, flow="source_to_target", node_dim=-2, decomposed_layers=1, **more)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("GCNConv", {"edge_weight": torch.ones(3)}),
        ("SAGEConv", {"size": (3, 4)}),
        ("GATConv", {"edge_attr": torch.ones(3, 2)}),
        ("GATConv", {"return_attention_weights": True}),
        ("GATv2Conv", {"return_attention_weights": True}),
        ("TransformerConv", {"edge_attr": torch.ones(3, 2)}),
    ],
)
def test_what_belongs_to_edges_is_refused(kind, more):
    p = parted(1)
    with pytest.raises(ConfigError, match=next(iter(more))):
        getattr(nn, kind)(6, 5)(p.scatter(rows(torch.float32)), p, **more)


def test_input_that_is_not_the_graphs_is_refused():
    p, layer = parted(1), nn.GCNConv(6, 5)
    with pytest.raises(ConfigError, match="p is a Tensor.*edge_index"):
        layer(rows(torch.float32), EDGES)
    with pytest.raises(ConfigError, match=r"x is 7 wide, but GCNConv\(6, 5\) takes 6"):
        layer(rows(torch.float32, 7), p)
    with pytest.raises(ConfigError, match="pass what scatter"):
        layer(rows(torch.float32)[:9], p)
    with pytest.raises(ConfigError, match="rows of 1 parts"):
        layer(rows(torch.float32), parted(2))


def test_too_wide_heads_are_refused():
    p = parted(1)
    with pytest.raises(ConfigError, match="1025 channels"):
        nn.GATConv(6, 1025)(p.scatter(rows(torch.float32)), p)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_short_types(name, kind, device):
    """Against the same in float64, with weights and rows that the short type has."""
    _, ours = both(name, kind)
    p, x = parted(3, device), rows(kind)
    found = p.gather(ours.to(device)(p.scatter(x), p))
    wanted = p.gather(ours.double()(p.scatter(x.double()), p))
    assert found.dtype == kind
    assert (found.double() - wanted).abs().max() <= (0.02 if kind == torch.float16 else 0.15) * wanted.abs().max()


@pytest.mark.parametrize("name", LAYERS)
def test_autocast(name, device):
    _, ours = both(name, torch.float32)
    p = parted(2, device)
    wanted = p.gather(ours.to(device)(p.scatter(rows(torch.float32)), p))
    with torch.autocast(device.type, torch.bfloat16):
        out = ours(p.scatter(rows(torch.float32)), p)
    total(p, out).backward()
    assert (p.gather(out).float() - wanted).abs().max() <= 0.15 * wanted.abs().max()
    assert all(one.grad is None or one.grad.isfinite().all() for one in ours.parameters())


class TestEach:
    """Functions and modules on lists."""

    def test_a_tensor_gives_a_tensor(self):
        assert (nn.each(torch.relu, torch.tensor([[-1.0, 2.0]])) == torch.tensor([[0.0, 2.0]])).all()

    def test_a_list_gives_a_list(self):
        out = nn.each(torch.add, [torch.ones(2), torch.ones(3)], [torch.ones(2), torch.zeros(3)])
        assert [one.tolist() for one in out] == [[2, 2], [1, 1, 1]]

    def test_other_numbers_of_parts_are_refused(self):
        with pytest.raises(ConfigError, match="arguments of 1, 2 parts"):
            nn.each(torch.add, torch.ones(2), [torch.ones(2)] * 2)

    def test_statistics_of_one_part_are_refused(self):
        norm = torch.nn.Sequential(torch.nn.BatchNorm1d(3))
        nn.each(norm, torch.randn(4, 3))
        with pytest.raises(ConfigError, match="BatchNorm1d.*LayerNorm"):
            nn.each(norm, [torch.randn(4, 3)] * 2)
        nn.each(norm.eval(), [torch.randn(4, 3)] * 2)

    def test_gin_refuses_them_too(self):
        layer = nn.GINConv(torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5)))
        p = parted(2)
        with pytest.raises(ConfigError, match="BatchNorm1d"):
            layer(p.scatter(rows(torch.float32)), p)

    def test_a_module_goes_where_the_rows_are(self):
        """The meta device stands for another one."""
        module = torch.nn.Linear(3, 2)
        out = nn.each(module, [torch.randn(4, 3), torch.randn(5, 3, device="meta")])
        assert [one.device.type for one in out] == ["cpu", "meta"] and module.weight.device.type == "cpu"

    @pytest.mark.gpu
    def test_gradients_of_all_copies_are_added_up(self):
        module = torch.nn.Linear(3, 2)
        given = [torch.randn(4, 3), torch.randn(5, 3)]
        wanted = torch.autograd.grad(module(torch.cat(given)).sum(), list(module.parameters()))
        out = nn.each(module, [given[0], given[1].cuda()])
        found = torch.autograd.grad(out[0].sum() + out[1].sum().cpu(), list(module.parameters()))
        torch.testing.assert_close(found, wanted)

    @pytest.mark.gpu
    def test_gradients_come_from_another_gpu_without_a_warning(self):
        if torch.cuda.device_count() < 2:
            pytest.skip("one GPU")
        module = torch.nn.Linear(3, 2).to("cuda:0")
        with warnings.catch_warnings(action="error"):
            for _ in range(2):
                out = nn.each(module, [torch.randn(4, 3, device=f"cuda:{i}") for i in range(2)])
                (out[0].sum() + out[1].sum().to("cuda:0")).backward()
