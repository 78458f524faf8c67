"""What PyG's own tests of its loaders and samplers look at, on graphs of ours: the released package has no tests in it.

Headings name the file of PyG's (in test/loader and test/sampler) that looks at the same; test_pygs_suite.py runs these.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import CachedLoader, ImbalancedSampler, PrefetchLoader
from torch_geometric.nn import GraphConv, to_hetero
from torch_geometric.sampler import BidirectionalNeighborSampler, NodeSamplerInput
from torch_geometric.testing import MyFeatureStore, MyGraphStore
from torch_geometric.utils import is_undirected

from hinterland.pyg import LinkNeighborLoader, NeighborLoader, Sampler

SUBGRAPHS = ["directional", "bidirectional", "induced"]
DTYPES = [torch.int64, torch.int32]
CITES, WRITES, WRITTEN = ("paper", "cites", "paper"), ("author", "writes", "paper"), ("paper", "rev_writes", "author")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(12)


def edges(sources, targets, count, dtype=torch.int64):
    return torch.stack([torch.randint(sources, (count,)), torch.randint(targets, (count,))]).to(dtype)


def pairs(edge_index):
    return set(map(tuple, edge_index.T.tolist()))


def numbered(dtype=torch.int64):
    """Features are the nodes' own numbers, those of authors from 60 on."""
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.arange(60), torch.arange(60, 160)
    for edge_type, sizes, count in ((CITES, (60, 60), 300), (WRITES, (100, 60), 400), (WRITTEN, (60, 100), 400)):
        data[edge_type].edge_index = edges(*sizes, count, dtype)
        data[edge_type].edge_attr = torch.arange(count)
    return data


# test_neighbor_loader.py


@pytest.mark.parametrize("filter_per_worker", [None, True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("subgraph_type", SUBGRAPHS)
def test_batches(subgraph_type, dtype, filter_per_worker):
    data = Data(x=torch.arange(80), edge_index=edges(80, 80, 400, dtype), edge_attr=torch.arange(400))
    options = {"subgraph_type": subgraph_type, "filter_per_worker": filter_per_worker, "device": "cpu"}
    loader = NeighborLoader(data, [4, 4], batch_size=16, **options)
    assert str(loader) == "NeighborLoader()" and len(loader) == 5
    one = loader([7])
    assert type(one) is Data and one.n_id[0] == 7
    for number, batch in enumerate(loader):
        assert type(batch) is Data and type(batch.edge_index) is torch.Tensor
        assert batch.batch_size == batch.input_id.numel() == 16 and batch.n_id.shape == (batch.num_nodes,)
        assert batch.x[:16].tolist() == list(range(16 * number, 16 * number + 16))
        assert len(batch.edge_attr) == batch.num_edges
        if subgraph_type != "bidirectional":
            assert torch.equal(batch.x[batch.edge_index], data.edge_index[:, batch.e_id].long())
            assert torch.equal(batch.edge_attr, batch.e_id)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("subgraph_type", SUBGRAPHS)
def test_batches_of_types(subgraph_type, dtype):
    data = numbered(dtype)
    short = {CITES: [-1], WRITES: [-1, -1], WRITTEN: [-1, -1]}
    with pytest.raises(ValueError, match="hops must be the same across all"):
        NeighborLoader(data, short, "paper", device="cpu")
    loader = NeighborLoader(data, [6, 6], "paper", batch_size=15, subgraph_type=subgraph_type, device="cpu")
    assert len(loader) == 4
    for batch in loader:
        assert type(batch) is HeteroData and batch.input_type == "paper" and not batch.has_isolated_nodes()
        assert set(batch.node_types) == {"paper", "author"} and set(batch.edge_types) == {CITES, WRITES, WRITTEN}
        assert batch["paper"].batch_size == batch["paper"].input_id.numel() == 15
        for source, rel, target in batch.edge_types:
            store = batch[source, rel, target]
            if subgraph_type == "bidirectional":
                assert store.get("e_id") is None and store.get("edge_attr") is None
                continue
            row, col = (
                nodes[ends] - (60 if name == "author" else 0)
                for name, nodes, ends in zip(
                    (source, target), (batch[source].x, batch[target].x), store.edge_index, strict=True
                )
            )
            assert torch.equal(torch.stack([row, col]), data[source, rel, target].edge_index[:, store.e_id].long())
        if subgraph_type == "bidirectional":
            assert is_undirected(batch[CITES].edge_index)
            assert pairs(batch[WRITES].edge_index) == pairs(batch[WRITTEN].edge_index.flip(0))


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphConv(5, 8), GraphConv(8, 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


@pytest.fixture(params=["no store", "stores"])
def small(request):
    """An undirected graph as Data, and as of one type."""
    half = edges(34, 34, 60)
    data = Data(x=torch.randn(34, 5), edge_index=torch.cat([half, half.flip(0)], 1).unique(dim=1))
    typed = HeteroData()
    typed["v"].x, typed["v", "to", "v"].edge_index = data.x, data.edge_index
    if request.param == "no store":
        return data, typed, typed
    features, graphs = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name="v", attr_name="x", index=None)
    graphs.put_edge_index(data.edge_index, edge_type=("v", "to", "v"), layout="coo", size=(34, 34))
    return data, typed, (features, graphs)


@pytest.mark.parametrize("subgraph_type", SUBGRAPHS)
def test_whole_neighbourhoods_give_what_the_whole_graph_gives(small, subgraph_type):
    data, typed, given = small
    model, seeds = Convolutions(), torch.tensor([5, 6, 30])
    expected = model(data.x, data.edge_index)[seeds]
    options = {"batch_size": 3, "subgraph_type": subgraph_type, "device": "cpu"}
    (batch,) = NeighborLoader(data, [-1, -1], seeds, **options)
    assert torch.allclose(model(batch.x, batch.edge_index)[:3], expected, atol=1e-5)
    (batch,) = NeighborLoader(given, [-1, -1], ("v", seeds), **options)
    found = to_hetero(model, typed.metadata())(batch.x_dict, batch.edge_index_dict)["v"][:3]
    assert torch.allclose(found, expected, atol=1e-5)


def stores_of(data):
    """PyG's own stores of what HeteroData has."""
    features, graphs = MyFeatureStore(), MyGraphStore()
    for node_type in data.node_types:
        for name, value in data[node_type].items():
            features.put_tensor(value, group_name=node_type, attr_name=name, index=None)
    for edge_type in data.edge_types:
        size = data[edge_type[0]].num_nodes, data[edge_type[2]].num_nodes
        graphs.put_edge_index(tuple(data[edge_type].edge_index), edge_type=edge_type, layout="coo", size=size)
    return features, graphs


@pytest.mark.parametrize("links", [False, True])
def test_stores_hold_what_data_holds(links):
    data = numbered()
    both = []
    for given in (data, stores_of(data)):
        kind, inputs = (LinkNeighborLoader, WRITES) if links else (NeighborLoader, ("paper", torch.arange(30)))
        both.append(list(kind(given, [-1, -1], inputs, batch_size=10, device="cpu")))
    assert len(both[0]) == (40 if links else 3)
    for one, other in zip(*both, strict=True):
        for node_type in data.node_types:
            assert torch.equal(one[node_type].x.sort().values, other[node_type].x.sort().values)
        assert all(one[t].num_edges == other[t].num_edges for t in data.edge_types)


def test_a_type_that_is_drawn_whole():
    features, graphs = MyFeatureStore(), MyGraphStore()
    features.put_tensor(torch.arange(9), group_name="user", attr_name="x", index=None)
    edge_index = edges(9, 9, 30).unique(dim=1)
    graphs.put_edge_index(tuple(edge_index), edge_type=("user", "is", "user"), layout="coo", size=(9, 9))
    (batch,) = NeighborLoader((features, graphs), [-1, -1], ("user", range(9)), batch_size=9, device="cpu")
    assert batch.node_types == ["user"] and batch.edge_types == [("user", "is", "user")]
    assert batch["user"].num_nodes == 9 and batch["user", "user"].num_edges == edge_index.shape[1]


@pytest.mark.parametrize("stores", [False, True])
def test_no_node_is_newer_than_its_seed(small, stores):
    _, typed, _ = small
    typed["v"].time = torch.arange(34, 0, -1)
    given = stores_of(typed) if stores else typed
    for batch in NeighborLoader(given, [-1, -1], "v", time_attr="time", batch_size=1, device="cpu"):
        assert (batch["v"].time <= batch["v"].time[0]).all()


def test_no_node_is_newer_than_input_time():
    data = HeteroData()
    for name in "abc":
        data[name].x = torch.arange(10)
    data["b"].time, data["c"].time = torch.arange(10), torch.arange(1, 11)
    for name in "bc":
        data["a", "to", name].edge_index = data[name, "to", "a"].edge_index = torch.arange(10).repeat(2, 1)
    (batch,) = NeighborLoader(data, [-1], "a", time_attr="time", input_time=torch.arange(10), batch_size=10, device="cpu")
    assert [batch[name].num_nodes for name in "abc"] == [10, 10, 0]


@pytest.mark.parametrize("typed", [False, True])
def test_no_edge_is_newer_than_input_time(typed):
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    data = Data(edge_index=path, when=torch.arange(6), num_nodes=4)
    if typed:
        data = HeteroData(n={"num_nodes": 4}, n__to__n={"edge_index": path, "when": torch.arange(6)})
    inputs = {"input_nodes": "n" if typed else None, "input_time": torch.full((4,), 3), "time_attr": "when"}
    times = []
    for batch in NeighborLoader(data, [-1, -1], batch_size=1, device="cpu", **inputs):
        store = batch["n", "to", "n"] if typed else batch
        assert store.when.numel() == store.num_edges
        times += store.when.tolist()
    assert set(times) == {0, 1, 2, 3}


def test_a_memory_mapped_array(tmp_path):
    np.save(tmp_path / "x.npy", np.random.rand(50, 8).astype(np.float32))
    data = Data(x=np.load(tmp_path / "x.npy", mmap_mode="r"), edge_index=edges(50, 50, 200))
    assert data.num_nodes == 50
    for batch in NeighborLoader(data, [3, 3], batch_size=10, device="cpu"):
        assert torch.equal(batch.x, torch.from_numpy(data.x[batch.n_id.numpy()]))


@pytest.fixture
def tree():
    """The list of a node holds what hangs from it."""
    return torch.tensor([[1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 2, 3, 3]])


def test_counts_by_hop(tree):
    (batch,) = NeighborLoader(Data(edge_index=tree, num_nodes=8), [1, 2, 5], [0], batch_size=1, device="cpu")
    first = int(batch.n_id[1])
    assert batch.num_sampled_nodes == ([1, 1, 2, 2] if first == 1 else [1, 1, 1, 0])
    assert batch.num_sampled_edges == batch.num_sampled_nodes[1:]
    data = HeteroData(a={"num_nodes": 8}, b={"num_nodes": 8})
    for ends in (("a", "a"), ("a", "b"), ("b", "a")):
        data[ends[0], "to", ends[1]].edge_index = tree
    (batch,) = NeighborLoader(data, [-1, -1, -1], ("a", [0]), batch_size=1, device="cpu")
    assert batch["a"].num_sampled_nodes == [1, 2, 3, 2] and batch["b"].num_sampled_nodes == [0, 2, 3, 2]
    assert batch["a", "b"].num_sampled_edges == [0, 3, 2] and batch["b", "a"].num_sampled_edges == [2, 3, 2]


@pytest.mark.parametrize("links", [False, True])
def test_batches_are_parts_of_the_graph(tree, links):
    data = Data(edge_index=tree, num_nodes=8)
    kind = LinkNeighborLoader if links else NeighborLoader
    for batch in kind(data, [1], batch_size=2, shuffle=True, device="cpu"):
        assert torch.equal(batch.n_id[batch.edge_index], tree[:, batch.e_id])


@pytest.mark.parametrize("typed", [False, True])
def test_edges_of_no_weight_are_not_drawn(tree, typed):
    weight = torch.tensor([0.0, 1, 0, 0, 1, 0, 1])
    data = Data(edge_index=tree, heft=weight, num_nodes=8)
    if typed:
        data = HeteroData(n={"num_nodes": 8}, n__to__n={"edge_index": tree, "heft": weight})
    (batch,) = NeighborLoader(data, [1, 1], ("n", [0]) if typed else [0], weight_attr="heft", batch_size=1, device="cpu")
    nodes, links = (batch["n"], batch["n", "to", "n"]) if typed else (batch, batch)
    assert nodes.n_id.tolist() == [0, 2, 5] and nodes.n_id[links.edge_index].tolist() == [[2, 5], [0, 2]]


def test_input_ids_of_a_mask():
    data = HeteroData(a={"num_nodes": 10}, b={"num_nodes": 12}, b__to__a={"edge_index": edges(12, 10, 40)})
    mask = torch.arange(10) > 0
    found = [b["a"].input_id.tolist() for b in NeighborLoader(data, [2, 2], ("a", mask), batch_size=4, device="cpu")]
    assert found == [[1, 2, 3, 4], [5, 6, 7, 8], [9]]


# test_link_neighbor_loader.py


@pytest.mark.parametrize("filter_per_worker", [None, True, False])
@pytest.mark.parametrize("ratio", [None, 1.0])
@pytest.mark.parametrize("subgraph_type", SUBGRAPHS[:2])
def test_links(subgraph_type, ratio, filter_per_worker):
    """True edges are between the first nodes, false ones between the others."""
    true, false = edges(40, 40, 300), edges(40, 40, 300) + 40
    data = Data(x=torch.arange(80), edge_index=true, edge_attr=torch.arange(300))
    asked, labels = torch.cat([true, false], 1), torch.cat([torch.ones(300), torch.zeros(300)])
    loader = LinkNeighborLoader(
        data,
        [-1, -1],
        edge_label_index=asked,
        edge_label=labels if ratio is None else None,
        subgraph_type=subgraph_type,
        neg_sampling_ratio=ratio,
        filter_per_worker=filter_per_worker,
        batch_size=30,
        shuffle=True,
        device="cpu",
    )
    assert str(loader) == "LinkNeighborLoader()" and len(loader) == 20
    assert set(asked[:, 0].tolist()) <= set(loader([0]).n_id.tolist())
    for batch in loader:
        assert batch.input_id.numel() == 30 and batch.e_id.shape == (batch.num_edges,)
        ends = batch.n_id[batch.edge_label_index]
        assert torch.equal(ends[:, :30], asked[:, batch.input_id])
        inside = pairs(batch.edge_index)
        if ratio is None:
            assert pairs(batch.edge_label_index[:, batch.edge_label == 1]) <= inside
            assert not pairs(batch.edge_label_index[:, batch.edge_label == 0]) & inside
        else:
            assert batch.edge_label.tolist() == [1.0] * 30 + [0.0] * 30


@pytest.mark.parametrize("ratio", [None, 1.0])
@pytest.mark.parametrize("ends", [("author", "paper"), ("paper", "paper")])
@pytest.mark.parametrize("subgraph_type", SUBGRAPHS[:2])
def test_links_of_types(subgraph_type, ends, ratio):
    data = numbered()
    options = {"subgraph_type": subgraph_type, "neg_sampling_ratio": ratio, "device": "cpu"}
    loader = LinkNeighborLoader(data, [-1, -1], ends, batch_size=20, shuffle=True, **options)
    full = CITES if ends[0] == ends[1] else WRITES
    for batch in loader:
        assert batch.input_type == full
        store = batch[full]
        assert pairs(store.edge_label_index[:, :20]) <= pairs(store.edge_index)
        assert store.edge_label_index.shape[1] == (20 if ratio is None else 40)
        assert ratio is None or store.edge_label.tolist() == [1.0] * 20 + [0.0] * 20


def test_labels_keep_their_type():
    data = Data(x=torch.arange(50), edge_index=edges(50, 50, 90))
    for labels, dtype in ((None, torch.float32), (torch.ones(90, dtype=torch.int64), torch.int64)):
        for batch in LinkNeighborLoader(data, [-1], edge_label=labels, batch_size=9, neg_sampling_ratio=1.0, device="cpu"):
            assert batch.edge_label.dtype == dtype and batch.edge_label.tolist() == [1] * 9 + [0] * 9


def test_no_node_is_newer_than_its_link():
    data = Data(x=torch.randn(10, 3), edge_index=edges(10, 10, 60), time=torch.arange(10))
    latest = data.edge_index.amax(0)
    times = {"time_attr": "time", "edge_label_time": latest, "edge_label": torch.ones(60)}
    for batch in LinkNeighborLoader(data, [-1], batch_size=1, shuffle=True, device="cpu", **times):
        assert batch.edge_label_index.shape == (2, 1) and batch.edge_label.shape == batch.edge_label_time.shape == (1,)
        assert (batch.time <= batch.edge_label_time).all()


def test_no_node_of_a_type_is_newer_than_its_link():
    data = numbered()
    data["paper"].time, data["author"].time = torch.arange(60) - 100, torch.arange(100)
    options = {"time_attr": "time", "batch_size": 32, "device": "cpu"}
    with pytest.raises(ValueError, match="'edge_label_time' is not set"):
        LinkNeighborLoader(data, [-1, -1], ("paper", "cites", "paper"), **options)
    options |= {"edge_label_time": torch.arange(300), "neg_sampling_ratio": 1.0, "drop_last": True}
    for batch in LinkNeighborLoader(data, [-1, -1], CITES, **options):
        assert batch["paper"].batch.max() == 31  # each link has a subgraph of its own
        times = batch[CITES].edge_label_time[:32]
        assert (batch["author"].time <= times[batch["author"].batch]).all()


@pytest.mark.parametrize("amount", [1, 2])
@pytest.mark.parametrize("mode", ["joint", "disjoint", "temporal"])
@pytest.mark.parametrize("typed", [False, True])
def test_triplets(typed, mode, amount):
    data, asked, size = numbered(), edges(60, 60, 100), 20
    times: dict = {}
    if mode == "temporal":
        data["paper"].time, data["author"].time = torch.arange(60), torch.arange(100)
        times = {"time_attr": "time", "edge_label_time": asked.amax(0) + 20}
    if not typed:
        data = Data(**data["paper"].to_dict(), **data[CITES].to_dict())
    weight = torch.rand(60) if typed and mode != "temporal" else None
    negatives = {"mode": "triplet", "amount": amount, "src_weight": weight, "dst_weight": weight}
    inputs = {"edge_label_index": (CITES, asked) if typed else asked, "neg_sampling": negatives, "batch_size": size}
    loader = LinkNeighborLoader(data, [-1, -1], disjoint=mode == "disjoint", shuffle=True, device="cpu", **inputs, **times)
    assert len(loader) == 5
    for batch in loader:
        nodes, ids = (batch["paper"], batch[CITES].input_id) if typed else (batch, batch.input_id)
        assert torch.equal(nodes.x[nodes.src_index], asked[0, ids])
        assert torch.equal(nodes.x[nodes.dst_pos_index], asked[1, ids])
        assert nodes.dst_neg_index.shape == ((size,) if amount == 1 else (size, amount))
        assert nodes.dst_neg_index.min() >= 0 and nodes.dst_neg_index.max() < nodes.num_nodes
        if mode != "joint":  # seeds come first, each in the subgraph of its link
            assert nodes.src_index.tolist() == list(range(size))
            assert nodes.dst_pos_index.tolist() == list(range(size, 2 * size))
            assert sorted(nodes.dst_neg_index.flatten().tolist()) == list(range(2 * size, (2 + amount) * size))
            assert nodes.batch[: (2 + amount) * size].tolist() == list(range(size)) * (2 + amount)
        if mode == "temporal":
            assert (nodes.time <= nodes.seed_time[nodes.batch]).all()


# test_cache.py, test_prefetch.py, test_imbalanced_sampler.py


def test_pygs_wrappers_of_loaders():
    data = Data(x=torch.arange(80), edge_index=edges(80, 80, 400), y=torch.arange(80) // 72)
    loader = NeighborLoader(data, [3], batch_size=20, device="cpu")
    cached = CachedLoader(loader, device=torch.device("cpu"))
    first, second = list(cached), list(cached)
    assert len(cached) == len(first) == 4 and all(torch.equal(a.n_id, b.n_id) for a, b in zip(first, second, strict=True))
    fetched = PrefetchLoader(loader, device=torch.device("cpu"))
    assert len(fetched) == 4 and [batch.x[0].item() for batch in fetched] == [0, 20, 40, 60]
    rare = [
        int((batch.y[: batch.batch_size] == 1).sum())
        for batch in NeighborLoader(data, [3], sampler=ImbalancedSampler(data.y), batch_size=20, device="cpu")
    ]
    assert sum(rare) > 20  # of 8 nodes in 80


# test_sampler_neighbor_sampler.py


@pytest.mark.parametrize("stores", [False, True])
def test_pygs_sampler_of_both_directions(stores):
    """It asks one sampler forward and one backward, hop by hop."""
    data = Data(x=torch.arange(4), edge_index=torch.tensor([[0, 0, 2], [1, 2, 3]]))
    if stores:
        features, graphs = MyFeatureStore(), MyGraphStore()
        features.put_tensor(data.x, group_name="default", attr_name="x", index=None)
        graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", is_sorted=True, size=(4, 4))
        data = features, graphs
    theirs = BidirectionalNeighborSampler.__new__(BidirectionalNeighborSampler)
    theirs.forward_sampler = Sampler(data, [1])
    theirs.backward_sampler = Sampler(data, [1], sample_direction="backward")
    theirs.num_neighbors, theirs.subgraph_type = [2, 2], "directional"
    out = theirs.sample_from_nodes(NodeSamplerInput(None, torch.tensor([2])))
    assert sorted(out.node.tolist()) == [0, 1, 2, 3] and sorted(out.edge.tolist()) == [0, 1, 2]
    ends = out.node[torch.stack([out.row, out.col])]
    assert pairs(ends) == {(0, 1), (0, 2), (2, 3)}
