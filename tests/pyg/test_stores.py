"""FeatureStore and GraphStore: what PyG asks of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import TensorAttr
from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout

import hinterland as hl
from hinterland.pyg import FeatureStore, GraphStore
from hinterland.runtime.errors import ConfigError, GraphError, IndexOutOfRange


@pytest.fixture
def x():
    return torch.randn(50, 4)


@pytest.fixture
def store(x):
    store = FeatureStore()
    assert store.put_tensor(x, group_name="paper", attr_name="x", index=None)
    assert store.put_tensor(np.arange(50), group_name="paper", attr_name="y", index=None)
    return store


def test_rows(store, x, device):
    index = torch.tensor([3, 49, 3], device=device)
    found = store.get_tensor(group_name="paper", attr_name="x", index=index)
    assert found.device == device and torch.equal(found.cpu(), x[index.cpu()])
    assert torch.equal(store["paper", "x", None], x)
    assert torch.equal(store["paper", "x", slice(5, 9)], x[5:9])
    assert torch.equal(store["paper", "x", 7], x[7])
    assert torch.equal(store["paper", "x", x[:, 0] > 0], x[x[:, 0] > 0])
    assert torch.equal(store["paper"].x[torch.tensor([1])], x[1:2])
    assert store.get_tensor_size(TensorAttr("paper", "x")) == (50, 4)
    assert store.get_tensor(TensorAttr("paper", "y", None)).dtype == torch.int64


def test_several_at_once(store, x, device):
    index = torch.tensor([4, 2], device=device)
    attrs = store.get_all_tensor_attrs()
    assert [attr.attr_name for attr in attrs] == ["x", "y"]
    for attr in attrs:
        attr.index = index
    assert all(not attr.is_set("index") for attr in store.get_all_tensor_attrs())  # new objects
    rows, labels = store.multi_get_tensor(attrs)
    assert torch.equal(rows.cpu(), x[[4, 2]]) and labels.tolist() == [4, 2]
    with pytest.raises(IndexOutOfRange, match="index 50 at position 0"):
        store.get_tensor(TensorAttr("paper", "x", torch.tensor([50], device=device)))


def test_writing(store, x):
    rows = torch.zeros(2, 4)
    store.put_tensor(rows, group_name="paper", attr_name="x", index=torch.tensor([8, 9]))
    store.put_tensor(rows + 1, group_name="paper", attr_name="x", index=slice(0, 2))
    found = store["paper", "x", None]
    assert (found[8:10] == 0).all() and (found[:2] == 1).all() and torch.equal(found[10:], x[10:])
    assert store.update_tensor(rows + 2, TensorAttr("paper", "x", torch.tensor([20, 21])))
    assert (store["paper", "x", None][20:22] == 2).all()
    with pytest.raises(ConfigError, match="'z' of 'paper' is not there yet; put all its rows first"):
        store.put_tensor(rows, group_name="paper", attr_name="z", index=torch.tensor([8, 9]))


def test_removing(store):
    assert store.remove_tensor(group_name="paper", attr_name="x", index=None)
    assert not store.remove_tensor(group_name="paper", attr_name="x", index=None)
    with pytest.raises(ConfigError, match=r"'x' of 'paper' is not in the feature store; it has \[\"'y' of 'paper'\"\]"):
        store.get_tensor(group_name="paper", attr_name="x", index=None)
    assert store.get_tensor_size(TensorAttr("paper", "x")) is None


@pytest.mark.parametrize("kind", ["tiers", "storage", "tiers of storage"])
def test_tables_that_are_no_memory(x, device, kind, tmp_path):
    tiers = {"local": "512B", "scores": torch.rand(50), "devices": [device]}
    if kind == "tiers":
        table = hl.UnifiedTensor.from_tensor(x).tiered(**tiers)
    else:
        table = hl.StorageArray.create(tmp_path / "x.bin", tuple(x.shape), x.dtype)
        table[:] = x
        table = table if kind == "storage" else table.tiered(host="256B", **tiers)
    store = FeatureStore()
    store.put_tensor(table, group_name=None, attr_name="x", index=None)
    index = torch.tensor([3, 49, 0], device=device)
    assert torch.equal(store[None, "x", index].cpu(), x[[3, 49, 0]])
    assert torch.equal(store[None, "x", None], x) and torch.equal(store[None, "x", slice(2, 5)], x[2:5])


def test_tables_are_taken_as_they_are(x):
    table = hl.UnifiedTensor.from_tensor(x, placement="pageable")
    store = FeatureStore()
    store.put_tensor(table, group_name=None, attr_name="x", index=None)
    assert store[None, "x", None].data_ptr() == table.cpu().data_ptr()


@pytest.fixture
def edges():
    return torch.randint(30, (2, 90))


def test_edges(edges):
    store = GraphStore()
    assert store.put_edge_index(edges, edge_type=("a", "to", "b"), layout="coo", size=(30, 40))
    row, col = store.get_edge_index(edge_type=("a", "to", "b"), layout="coo")
    assert torch.equal(torch.stack([row, col]), edges)
    (attr,) = store.get_all_edge_attrs()
    assert (attr.edge_type, attr.layout, attr.size) == (("a", "to", "b"), EdgeLayout.COO, (30, 40))
    attr.size = None
    assert store.get_all_edge_attrs()[0].size == (30, 40)  # new objects
    rows, pointers, order = store.csc()
    key = ("a", "to", "b")
    assert torch.equal(rows[key], edges[0][order[key]]) and len(pointers[key]) == 41
    assert store.remove_edge_index(edge_type=key, layout="coo")
    assert not store.remove_edge_index(edge_type=key, layout="coo")
    with pytest.raises(KeyError):
        store.get_edge_index(edge_type=key, layout="coo")


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_a_graph(edges, layout):
    graph = hl.from_edges(*edges, num_vertices=30)
    store = GraphStore()
    store.put_edge_index(graph, edge_type=None, layout=layout)
    pair = store[EdgeAttr(None, layout)]
    pointers, others = pair if layout == "csr" else pair[::-1]
    assert torch.equal(pointers, graph.indptr) and torch.equal(others, graph.indices.long())
    row, col, _ = store.coo()
    expected = edges if layout == "csr" else edges.flip(0)
    assert sorted(zip(row.tolist(), col.tolist(), strict=True)) == sorted(zip(*expected.tolist(), strict=True))


def test_a_graph_that_does_not_fit(edges):
    graph = hl.from_edges(*edges, num_vertices=30)
    with pytest.raises(ConfigError, match="put it with layout='csc' or layout='csr'"):
        GraphStore().put_edge_index(graph, edge_type=None, layout="coo")
    with pytest.raises(GraphError, match=r"size=\(30, 31\) does not fit a graph of 30 vertices"):
        GraphStore().put_edge_index(graph, edge_type=None, layout="csc", size=(30, 31))


def test_lists_are_made_once(edges):
    store = GraphStore()
    store.put_edge_index(edges, edge_type=None, layout="coo", size=(30, 30))
    lists = store.lists(None, (30, 30))
    assert store.lists(None, (30, 30)) is lists
    store.put_edge_index(edges.flip(0), edge_type=None, layout="coo", size=(30, 30))
    assert store.lists(None, (30, 30)) is not lists
