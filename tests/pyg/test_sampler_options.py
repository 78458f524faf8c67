"""Sampler's options beside those of the loaders, and what is no usual graph: other directions, no hops, no edges."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NeighborSampler, NodeSamplerInput

import hinterland as hl
from hinterland.pyg import FeatureStore, GraphStore, LinkNeighborLoader, NeighborLoader, Sampler


def sampled(data, nodes, fanouts=(2, 2), node_type=None, time=None, **options):
    torch.manual_seed(3)
    return Sampler(data, list(fanouts), **options).sample_from_nodes(NodeSamplerInput(None, nodes, time, node_type))


def test_arguments_are_in_pygs_order():
    theirs = list(inspect.signature(NeighborSampler).parameters.values())
    mine = list(inspect.signature(Sampler).parameters.values())[: len(theirs)]
    assert [(p.name, p.default) for p in mine] == [(p.name, p.default) for p in theirs]


def test_a_window_goes_along_and_can_be_changed(data):
    sampler = Sampler(data, [-1], time_attr="time", time_window=4)
    seeds = NodeSamplerInput(None, torch.arange(40))

    def oldest(sampler):
        found = sampler.sample_from_nodes(seeds)
        return int((data.time[found.node[found.batch]] - data.time[found.node])[40:].max())

    copies = [copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler)), copy.copy(sampler)]
    assert [made.time_window for made in copies] == [4] * 3 and [oldest(made) for made in copies] == [4] * 3
    copies[-1].time_window = 20
    assert 4 < oldest(copies[-1]) <= 20 and oldest(sampler) == 4


def test_share_memory(data):
    one, other = (sampled(data, torch.arange(9), share_memory=share) for share in (False, True))
    assert torch.equal(one.edge, other.edge)


KINDS = {
    "uniform": {},
    "weighted": {"weight_attr": "weight"},
    "times of nodes": {"time_attr": "time"},
    "times of edges": {"time_attr": "when"},
    "induced": {"subgraph_type": "induced"},
    "all": {"fanouts": (-1, -1)},
}


def turned(data):
    """The same attributes, each edge the other way round."""
    other = data.clone()
    other.edge_index = data.edge_index.flip(0)
    return other


@pytest.mark.parametrize("kind", KINDS)
def test_backward_is_forward_over_edges_turned_round(data, kind, device):
    data.when = torch.randint(9, (data.num_edges,))
    nodes, time = torch.arange(40), torch.full((40,), 50) if "time_attr" in KINDS[kind] else None
    back = sampled(data, nodes, time=time, sample_direction="backward", device=device, **KINDS[kind])
    fore = sampled(turned(data), nodes, time=time, device=device, **KINDS[kind])
    assert torch.equal(back.node, fore.node) and torch.equal(back.row, fore.col) and torch.equal(back.col, fore.row)
    assert back.num_sampled_edges == fore.num_sampled_edges and len(back.row)
    order = Sampler(data, [1], sample_direction="backward").edge_permutation
    assert torch.equal(back.node[torch.stack([back.row, back.col])].cpu(), data.edge_index[:, order[back.edge.cpu()]])


def in_stores(data, layout):
    features, graphs = FeatureStore(), GraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    if layout == "graph":
        graphs.put_edge_index(hl.from_edges(*data.edge_index.flip(0), num_vertices=300), edge_type=None, layout="csc")
    else:
        row, col = data.edge_index
        order = {"coo": torch.arange(len(row)), "csr": row.argsort(stable=True), "csc": col.argsort(stable=True)}[layout]
        pointers = torch.zeros(301, dtype=torch.int64)
        pointers[1:] = (col if layout == "csc" else row).bincount(minlength=300).cumsum(0)
        pair = {"coo": (row, col), "csr": (pointers, col[order]), "csc": (row[order], pointers)}[layout]
        graphs.put_edge_index(pair, edge_type=None, layout=layout, size=(300, 300))
    return features, graphs


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "graph"])
def test_backward_over_stores(data, layout):
    """Of all edges the same are found, whatever their order."""
    stores = in_stores(data, layout)
    out = sampled(stores, torch.arange(40), (-1,), sample_direction="backward")
    found = out.node[torch.stack([out.row, out.col])]
    wanted = data.edge_index[:, data.edge_index[0] < 40]
    assert sorted(map(tuple, found.T.tolist())) == sorted(map(tuple, wanted.T.tolist()))
    forward = sampled(stores, torch.arange(40), (-1,))
    assert set(out.edge.tolist()) & set(forward.edge.tolist())  # both number edges alike: those among the 40 are in both
    loader = NodeLoader(stores, Sampler(stores, [2], sample_direction="backward"), torch.arange(40), batch_size=20)
    assert all(torch.equal(batch.x, data.x[batch.n_id]) for batch in loader)


@pytest.fixture
def typed():
    random = torch.Generator().manual_seed(1)
    data = HeteroData()
    for name, count in (("user", 20), ("item", 30), ("shop", 10)):
        data[name].x = torch.rand(count, 2, generator=random)
    data["user", "sees", "item"].edge_index = torch.randint(20, (2, 90), generator=random)
    data["item", "like", "item"].edge_index = torch.randint(30, (2, 90), generator=random)
    return data


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
def test_backward_over_types(typed, subgraph_type):
    fanouts = {("user", "sees", "item"): [3, 2], ("item", "like", "item"): [2, 2]}
    loader = NeighborLoader(
        typed,
        fanouts,
        "user",
        neighbor_sampler=Sampler(typed, fanouts, subgraph_type, sample_direction="backward"),
        batch_size=5,
        device="cpu",
    )
    for batch in loader:
        assert batch["user"].num_nodes == 5  # no edge leads to another user
        for edge_type in typed.edge_types:
            source, target = batch[edge_type[0]].n_id, batch[edge_type[2]].n_id
            row, col = batch[edge_type].edge_index
            assert torch.equal(torch.stack([source[row], target[col]]), typed[edge_type].edge_index[:, batch[edge_type].e_id])
        sees = batch["user", "sees", "item"].edge_index
        assert sees.shape[1] and (subgraph_type == "induced" or sees[0].bincount().max() <= 3)


@pytest.mark.parametrize("group", [None, "default"])
def test_groups_of_stores_without_types(data, group):
    """PyG looks for times by their name alone."""
    data.when = torch.randint(100, (data.num_edges,))
    features, graphs = FeatureStore(), GraphStore()
    for name in ("x", "time", "when", "weight"):
        features.put_tensor(data[name], group_name=group, attr_name=name, index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(300, 300))
    nodes, time = torch.arange(30), torch.full((30,), 50)
    for name in ("time", "when", "weight"):
        options = {"weight_attr": name} if name == "weight" else {"time_attr": name}
        asked = None if name == "weight" else time
        stored, plain = (sampled(given, nodes, time=asked, **options) for given in ((features, graphs), data))
        assert torch.equal(stored.node, plain.node) and torch.equal(stored.edge, plain.edge) and len(stored.edge)
        for batch in NeighborLoader((features, graphs), [2], nodes, input_time=asked, device="cpu", **options):
            assert torch.equal(batch.x, data.x[batch.n_id]) and torch.equal(batch.time, data.time[batch.n_id])
            assert "when" not in batch and "weight" not in batch  # of edges, which PyG would read by numbers of nodes


def test_features_of_more_nodes_than_have_edges(data):
    features, graphs = in_stores(data, "coo")
    features.put_tensor(torch.arange(400), group_name=None, attr_name="x", index=None)
    (batch,) = NeighborLoader((features, graphs), [2], torch.arange(395, 400), batch_size=5, device="cpu")
    assert batch.x.tolist() == batch.n_id.tolist() == [395, 396, 397, 398, 399]


@pytest.mark.parametrize("disjoint", [False, True])
def test_supervision_of_edges_that_are_not_sampled(typed, disjoint, device):
    """Labels join types that no message does, or a type that has none at all."""
    for ends in (("user", "item"), ("user", "shop"), ("shop", "shop")):
        edges = torch.randint(10, (2, 12))
        given = {"edge_label_index": ((ends[0], "buys", ends[1]), edges), "neg_sampling": "binary", "disjoint": disjoint}
        for number, batch in enumerate(LinkNeighborLoader(typed, [2, 2], batch_size=6, device=device, **given)):
            batch = batch.cpu()
            store = batch[ends[0], "buys", ends[1]]
            row, col = store.edge_label_index[:, :6]
            found = torch.stack([batch[ends[0]].n_id[row], batch[ends[1]].n_id[col]])
            assert (
                torch.equal(found, edges[:, 6 * number : 6 * number + 6]) and store.edge_label.tolist() == [1.0] * 6 + [0.0] * 6
            )
            assert torch.equal(batch["shop"].x, typed["shop"].x[batch["shop"].n_id])


@pytest.mark.parametrize("options", [{}, {"disjoint": True}, {"subgraph_type": "induced"}], ids=str)
def test_no_hops(data, typed, options, device):
    """The seeds alone."""
    (batch,) = NeighborLoader(data, num_neighbors=[], batch_size=300, device=device, **options)
    batch = batch.cpu()
    assert torch.equal(batch.n_id, torch.arange(300)) and torch.equal(batch.x, data.x)
    assert batch.num_edges == (data.num_edges if "subgraph_type" in options else 0)
    if "subgraph_type" not in options:
        assert batch.num_sampled_nodes == [300] and batch.num_sampled_edges == []
    (batch,) = NeighborLoader(typed, [], "item", batch_size=30, device=device, **options)
    batch = batch.cpu()
    assert torch.equal(batch["item"].x, typed["item"].x) and batch["user"].num_nodes == 0
    assert batch["item", "like", "item"].num_edges == (90 if "subgraph_type" in options else 0)


def test_no_edges():
    edges = torch.randint(100, (2, 40))
    for batch in LinkNeighborLoader(Data(num_nodes=100), num_neighbors=[], edge_label_index=edges, batch_size=20, device="cpu"):
        assert batch.edge_label_index.shape == (2, 20) and batch.num_nodes == batch.edge_label_index.unique().numel()
    data = HeteroData(paper={"num_nodes": 100})
    for fanouts in ([], [2]):
        index = (("paper", "paper"), edges)
        for batch in LinkNeighborLoader(data, fanouts, edge_label_index=index, batch_size=20, device="cpu"):
            found = batch["paper"].n_id[batch["paper", "paper"].edge_label_index]
            assert torch.equal(found, edges[:, batch["paper", "paper"].input_id])
