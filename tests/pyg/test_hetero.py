"""Both loaders where nodes and edges have types."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.utils import trim_to_layer

import hinterland as hl
from hinterland.pyg import FeatureStore, GraphStore, LinkNeighborLoader, NeighborLoader, Sampler
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange

SIZES = {"paper": 200, "author": 90, "venue": 7}
WRITES, CITES, AT, WRITTEN = (
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "at", "venue"),
    ("paper", "rev_writes", "author"),
)


@pytest.fixture
def data():
    random = torch.Generator().manual_seed(2)
    data = HeteroData()
    for name, size in SIZES.items():
        data[name].x = torch.randn(size, 4 + len(name), generator=random)
        data[name].time = torch.randint(50, (size,), generator=random)
    data["paper"].y = torch.randint(3, (200,), generator=random)
    data["paper"].train_mask = torch.rand(200, generator=random) < 0.5
    for key, count in ((WRITES, 600), (CITES, 900), (AT, 200)):
        sources, targets = SIZES[key[0]], SIZES[key[2]]
        data[key].edge_index = torch.stack(
            [torch.randint(sources, (count,), generator=random), torch.randint(targets, (count,), generator=random)]
        )
    data[WRITTEN].edge_index = data[WRITES].edge_index.flip(0)
    data[CITES].edge_attr = torch.randn(900, 2, generator=random)
    data[CITES].weight = torch.randint(3, (900,), generator=random).float()
    return data


def batches_of(data, fanouts=(4, 3), device="cpu", seed=0, **options):
    torch.manual_seed(seed)
    fanouts = fanouts if isinstance(fanouts, dict) else list(fanouts)
    options.setdefault("input_nodes", ("paper", data["paper"].train_mask if isinstance(data, HeteroData) else None))
    options.setdefault("batch_size", 16)
    return NeighborLoader(data, fanouts, device=device, **options)


def check(batch, data, features=("x", "time")):
    batch = batch.cpu()
    for name in data.node_types:
        for key in features:
            assert torch.equal(batch[name][key], data[name][key][batch[name].n_id])
    for key in data.edge_types:
        src, _, dst = key
        row, col = batch[key].edge_index
        if "e_id" in batch[key]:
            ends = torch.stack([batch[src].n_id[row], batch[dst].n_id[col]])
            assert torch.equal(ends, data[key].edge_index[:, batch[key].e_id])
    if "e_id" in batch[CITES] and "edge_attr" in batch[CITES]:
        assert torch.equal(batch[CITES].edge_attr, data[CITES].edge_attr[batch[CITES].e_id])


def test_batches_are_those_of_pygs_loader(data):
    nodes = ("paper", data["paper"].train_mask)
    stock = NodeLoader(data, Sampler(data, [4, 3]), nodes, batch_size=16)
    for batch, other in zip(batches_of(data), stock, strict=True):
        assert batch.node_types == other.node_types and batch.edge_types == other.edge_types
        for store, theirs in zip(batch.stores, other.stores, strict=True):
            assert list(store.keys()) == list(theirs.keys())
            for key, value in store.items():
                if isinstance(value, torch.Tensor):
                    assert value.dtype == theirs[key].dtype and value.dim() == theirs[key].dim()
        assert torch.equal(batch["paper"].input_id, other["paper"].input_id)


def test_an_epoch(data, device):
    seeds = []
    for batch in batches_of(data, device=device, shuffle=True):
        tensors = [v for store in batch.stores for v in store.values() if isinstance(v, torch.Tensor)]
        assert {tensor.device for tensor in tensors} == {device}
        check(batch, data)
        seeds.append(batch["paper"].n_id[: batch["paper"].batch_size].cpu())
        for name, counts in batch.num_sampled_nodes_dict.items():
            assert len(counts) == 3 and sum(counts) == len(batch[name].n_id)
        for key, counts in batch.num_sampled_edges_dict.items():
            assert len(counts) == 2 and sum(counts) == batch[key].edge_index.shape[1]
    assert torch.equal(torch.cat(seeds).sort().values, data["paper"].train_mask.nonzero().view(-1))


def test_whole_neighbourhoods(data):
    """One hop of everything, then of one relation alone."""
    (batch,) = batches_of(data, [-1], input_nodes=("paper", torch.arange(9)))
    for key in (WRITES, CITES):
        assert torch.equal(batch[key].e_id.sort().values, (data[key].edge_index[1] < 9).nonzero().view(-1))
    for key in (AT, WRITTEN):
        assert batch[key].e_id.numel() == batch[key].edge_index.numel() == 0
    fanouts = {key: [-1 if key == WRITES else 0] for key in data.edge_types}
    (batch,) = batches_of(data, fanouts, input_nodes=("paper", torch.arange(9)))
    assert batch[WRITES].e_id.numel() > 0 and batch[CITES].e_id.numel() == 0
    authors = data[WRITES].edge_index[0][data[WRITES].edge_index[1] < 9].unique()
    assert torch.equal(batch["author"].n_id.sort().values, authors)


@pytest.mark.parametrize("nodes", ["author", ("author", None), ("author", [3, 4]), ("author", torch.tensor([3, 4]))])
def test_input_nodes(data, nodes):
    batch = next(iter(batches_of(data, input_nodes=nodes)))
    assert batch["author"].n_id[:2].tolist() == ([0, 1] if nodes == "author" or nodes[1] is None else [3, 4])


def test_tables(data, device):
    given = data.clone()
    given["author"].x = hl.UnifiedTensor.from_tensor(data["author"].x)
    given[CITES].edge_attr = hl.UnifiedTensor.from_tensor(data[CITES].edge_attr)
    for batch in batches_of(given, device=device):
        check(batch, data)


def test_stores(data, device):
    features, graphs = FeatureStore(), GraphStore()
    for name in data.node_types:
        for key in ("x", "time"):
            features.put_tensor(data[name][key], group_name=name, attr_name=key, index=None)
    for key in data.edge_types:
        size = (SIZES[key[0]], SIZES[key[2]])
        graphs.put_edge_index(data[key].edge_index, edge_type=key, layout="coo", size=size)
    for batch in batches_of((features, graphs), device=device):
        check(batch, data)
    loader = LinkNeighborLoader((features, graphs), [2], WRITES, batch_size=50, device=device)
    for batch in loader:
        check(batch, data)


def test_disjoint_times_and_weights(data, device):
    for batch in batches_of(data, device=device, disjoint=True):
        check(batch, data)
        for src, rel, dst in data.edge_types:
            row, col = batch[src, rel, dst].edge_index
            assert torch.equal(batch[src].batch[row], batch[dst].batch[col])
    times = torch.arange(int(data["paper"].train_mask.sum())) % 40
    for batch in batches_of(data, device=device, time_attr="time", input_time=times):
        check(batch, data)
        limit = batch["paper"].seed_time
        for name in data.node_types:
            first = batch["paper"].batch_size if name == "paper" else 0
            assert (batch[name].time[first:] <= limit[batch[name].batch[first:]]).all()
    met = torch.cat([b[CITES].weight.cpu() for b in batches_of(data, device=device, weight_attr="weight")])
    assert met.numel() and met.min() > 0


def test_times_of_edges(data, device):
    """Of two relations; what has no times is always there."""
    random = torch.Generator().manual_seed(6)
    for key in (WRITES, CITES):
        data[key].when = torch.randint(50, (data[key].num_edges,), generator=random)
    times = torch.arange(int(data["paper"].train_mask.sum())) % 40
    numbers = dict.fromkeys(data.edge_types, 0)
    for batch in batches_of(data, [-1, -1], device=device, time_attr="when", input_time=times):
        check(batch, data)
        limit = batch["paper"].seed_time
        for key in data.edge_types:
            of = batch[key[2]].batch[batch[key].edge_index[1]]
            if "when" in batch[key]:
                assert (batch[key].when <= limit[of]).all()
            numbers[key] += len(of)
        # The first hop has all that may be seen.
        for i, seed in enumerate(batch["paper"].n_id[: batch["paper"].batch_size].tolist()):
            for key in (WRITES, CITES):
                first = batch[key].edge_index[1] == i
                wanted = (data[key].edge_index[1] == seed) & (data[key].when <= int(limit[i]))
                assert sorted(batch[key].e_id[first].tolist()) == wanted.nonzero().view(-1).tolist()
    assert numbers[WRITES] and numbers[CITES] and numbers[WRITTEN]
    data["paper"].when = torch.zeros(200).long()
    with pytest.raises(ConfigError, match="'when' is an attribute of nodes and of edges"):
        Sampler(data, [2], time_attr="when")


@pytest.mark.parametrize("layout", ["coo", "csc", "csr"])
def test_weights_and_times_of_edges_in_stores(data, device, layout):
    """As a feature store holds them: by edge type, in the order in which the edges were put."""
    features, graphs = FeatureStore(), GraphStore()
    for name in data.node_types:
        features.put_tensor(data[name].x, group_name=name, attr_name="x", index=None)
    for key in data.edge_types:
        pair, size = data[key].edge_index, (SIZES[key[0]], SIZES[key[2]])
        if layout != "coo":
            by = 1 if layout == "csc" else 0
            pair = pair[:, pair[by].argsort(stable=True)]
            pointers = torch.searchsorted(pair[by].contiguous(), torch.arange(size[by] + 1))
            pair = (pair[0], pointers) if layout == "csc" else (pointers, pair[1])
        graphs.put_edge_index(pair, edge_type=key, layout=layout, size=size)
    _, col, _ = graphs.coo()
    weight = torch.randint(2, (900,), generator=torch.Generator().manual_seed(1)).float()
    when = torch.arange(900) % 50
    features.put_tensor(weight, group_name=CITES, attr_name="weight", index=None)
    features.put_tensor(when, group_name=CITES, attr_name="when", index=None)
    nodes = {"input_nodes": ("paper", torch.arange(40)), "batch_size": 40, "device": device}
    for options in ({"weight_attr": "weight"}, {"time_attr": "when", "input_time": torch.full((40,), 20)}):
        (batch,) = batches_of((features, graphs), [-1], **nodes, **options)
        wanted = (weight > 0) if "weight_attr" in options else (when <= 20)
        expected = (wanted & (col[CITES] < 40)).nonzero().view(-1)
        assert torch.equal(batch[CITES].e_id.cpu().sort().values, expected)
    with pytest.raises(ConfigError, match="in the feature store under the edge type"):
        batches_of((features, graphs), [2], **nodes, weight_attr="heft")


def test_subgraph_types(data, device):
    for batch in batches_of(data, [2], device=device, subgraph_type="induced"):
        check(batch, data)
        batch = batch.cpu()
        for key in data.edge_types:
            inside = torch.isin(data[key].edge_index[0], batch[key[0]].n_id)
            inside &= torch.isin(data[key].edge_index[1], batch[key[2]].n_id)
            assert torch.equal(batch[key].e_id.sort().values, inside.nonzero().view(-1))
    for batch in batches_of(data, [2, 2], device=device, subgraph_type="bidirectional"):
        forth = {tuple(pair) for pair in batch[WRITES].edge_index.t().tolist()}
        assert forth == {tuple(pair) for pair in batch[WRITTEN].edge_index.flip(0).t().tolist()}


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
@pytest.mark.parametrize("edge_type", [WRITES, CITES])
@pytest.mark.parametrize("disjoint", [False, True])
def test_links(data, device, mode, edge_type, disjoint):
    src, _, dst = edge_type
    options = {"neg_sampling": mode, "batch_size": 64, "disjoint": disjoint}
    loader = LinkNeighborLoader(data, [3, 2], edge_type, device=device, **options)
    options.pop("disjoint")
    stock = LinkLoader(data, Sampler(data, [3, 2], disjoint=disjoint), edge_type, **options)
    for batch, other in zip(loader, stock, strict=True):
        check(batch, data)
        assert [list(s.keys()) for s in batch.stores] == [list(s.keys()) for s in other.stores]
        batch = batch.cpu()
        ids = batch[edge_type].input_id
        if mode == "triplet":
            found = torch.stack([batch[src].n_id[batch[src].src_index], batch[dst].n_id[batch[dst].dst_pos_index]])
        else:
            row, col = batch[edge_type].edge_label_index[:, : len(ids)]
            found = torch.stack([batch[src].n_id[row], batch[dst].n_id[col]])
        assert torch.equal(found, data[edge_type].edge_index[:, ids])


def test_a_model_of_several_types(data):
    convs = [HeteroConv({key: SAGEConv((-1, -1), size) for key in data.edge_types}) for size in (8, 3)]

    def model(x, edges):
        return convs[1]({name: value.relu() for name, value in convs[0](x, edges).items()}, edges)

    batch = next(iter(batches_of(data)))
    found = model(batch.x_dict, batch.edge_index_dict)["paper"][: batch["paper"].batch_size]
    torch.nn.functional.cross_entropy(found, batch["paper"].y[: batch["paper"].batch_size]).backward()
    x, edges, _ = trim_to_layer(
        1, batch.num_sampled_nodes_dict, batch.num_sampled_edges_dict, batch.x_dict, batch.edge_index_dict
    )
    assert len(x["paper"]) == sum(batch["paper"].num_sampled_nodes[:2])
    assert edges[WRITES].shape[1] == batch[WRITES].num_sampled_edges[0]


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{}, {"replace": True}, {"time_attr": "time"}, {"weight_attr": "weight"}])
def test_the_gpu_makes_the_same_batches(data, options):
    on_cpu = list(batches_of(data, shuffle=True, **options))
    for one, other in zip(on_cpu, batches_of(data, device="cuda", shuffle=True, **options), strict=True):
        for store, theirs in zip(one.stores, other.cpu().stores, strict=True):
            assert list(store.keys()) == list(theirs.keys())
            for key, value in store.items():
                assert torch.equal(value, theirs[key]) if isinstance(value, torch.Tensor) else value == theirs[key]


@pytest.mark.gpu
def test_everything_in_gpu_memory(data):
    loader = batches_of(data, device="cuda", placement="gpu", weight_attr="weight")
    assert type(loader._read["author"].x) is torch.Tensor and loader._read["author"].x.is_cuda
    on_cpu = list(batches_of(data, weight_attr="weight"))
    torch.manual_seed(0)
    for one, batch in zip(on_cpu, loader, strict=True):
        check(batch, data)
        for key in data.edge_types:
            assert torch.equal(one[key].e_id, batch[key].e_id)
    with pytest.raises(ConfigError, match="placement='gpu' is for Data and HeteroData.*GraphStore"):
        batches_of(stores_of(data), device="cuda", placement="gpu", input_nodes="paper")


def test_bad_input(data):
    def refused(error, match, make):
        with pytest.raises(error, match=match):
            make()

    refused(ConfigError, "there is no node type 'editor'; there are", lambda: batches_of(data, input_nodes="editor"))
    refused(ConfigError, "is a node type, or", lambda: batches_of(data, input_nodes=torch.arange(3)))
    refused(
        IndexOutOfRange,
        "input_nodes names 7, but there are 7 nodes of type 'venue'",
        lambda: batches_of(data, input_nodes=("venue", [7])),
    )
    refused(ConfigError, "there is no edge type", lambda: LinkNeighborLoader(stores_of(data), [2], ("a", "b", "c")))
    refused(ConfigError, "is an edge type, or", lambda: LinkNeighborLoader(data, [2], torch.zeros(2, 3).long()))
    refused(
        ConfigError,
        "num_neighbors: Number of hops must be the same",
        lambda: Sampler(data, {key: [1, 2] if key == AT else [2] for key in data.edge_types}),
    )
    refused(ConfigError, "num_neighbors: Missing number of neighbors", lambda: Sampler(data, {AT: [2]}))
    refused(ConfigError, "num_neighbors names the edge type", lambda: Sampler(data, {("a", "b", "c"): [2]}))
    data["paper"].x = data["paper"].x[:100]
    refused(GraphError, "an edge names node 199, but there are 100 nodes", lambda: Sampler(data, [2]))
    del data["venue"].x, data["venue"].time
    with pytest.warns(UserWarning, match="num_nodes"):
        refused(
            ConfigError,
            r"nothing says how many nodes data\['venue'\] has; set data\['venue'\].num_nodes",
            lambda: Sampler(data, [2]),
        )
    bare = HeteroData()
    bare[CITES].edge_index = data[CITES].edge_index
    refused(ConfigError, "type 'paper', about which the data says nothing; set", lambda: Sampler(bare, [2]))


def stores_of(data):
    features, graphs = FeatureStore(), GraphStore()
    features.put_tensor(data["paper"].x, group_name="paper", attr_name="x", index=None)
    graphs.put_edge_index(data[CITES].edge_index, edge_type=CITES, layout="coo")
    return features, graphs
