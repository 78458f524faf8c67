"""Loaders whose batches are launched ahead by the caller's thread: they are those of threads, and no thread is started."""

from __future__ import annotations

import threading

import pytest
import torch
from torch_geometric.data import HeteroData

from hinterland.pyg import FeatureStore, GraphStore, LinkNeighborLoader, NeighborLoader
from hinterland.pyg.loader import _Pipelined


def typed(data):
    made = HeteroData()
    made["a"].x, made["b"].x = data.x, data.x[:100] * 2
    made["a", "to", "a"].edge_index = data.edge_index
    made["b", "to", "a"].edge_index = data.edge_index % torch.tensor([[100], [300]])
    return made


def stores(data):
    features, graphs = FeatureStore(), GraphStore()
    for key in ("x", "y"):
        features.put_tensor(data[key], group_name=None, attr_name=key, index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(data.num_nodes, data.num_nodes))
    return features, graphs


NODES = torch.arange(0, 300, 3)
LOADERS = {
    "nodes": lambda data, device: NeighborLoader(data, [4, 3], NODES, shuffle=True, device=device),
    "whole lists": lambda data, device: NeighborLoader(data, [-1, 2], NODES, device=device),
    "weights": lambda data, device: NeighborLoader(data, [4, 3], NODES, weight_attr="weight", device=device),
    "times": lambda data, device: NeighborLoader(data, [4, 3], NODES, time_attr="time", device=device),
    "types": lambda data, device: NeighborLoader(typed(data), [4, 3], ("a", NODES), device=device),
    "stores": lambda data, device: NeighborLoader(stores(data), [4, 3], NODES, device=device),
    "links": lambda data, device: LinkNeighborLoader(data, [4, 3], batch_size=64, neg_sampling="binary", device=device),
    "links of types": lambda data, device: LinkNeighborLoader(
        typed(data), [4, 3], ("b", "to", "a"), batch_size=64, neg_sampling="triplet", device=device
    ),
}
# PyG or the loader changes these once they are there.
WAITED_FOR = {
    "induced": lambda data, device: NeighborLoader(data, [4, 3], NODES, subgraph_type="induced", device=device),
    "both ways": lambda data, device: NeighborLoader(data, [4, 3], NODES, subgraph_type="bidirectional", device=device),
    "disjoint links": lambda data, device: LinkNeighborLoader(data, [4, 3], batch_size=64, disjoint=True, device=device),
}


def epoch(loader):
    """The batches, and the threads there are beside the main one while they come."""
    before, threads, batches = set(threading.enumerate()), set(), []
    torch.manual_seed(3)
    for batch in loader:
        threads |= {thread.name for thread in set(threading.enumerate()) - before}
        batches.append(batch.cpu().to_dict())
    return batches, threads


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other) and one.dtype == other.dtype
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


def launch_ahead(monkeypatch):
    """On the CPU too, where a launch is the work."""
    for kind in (_Pipelined, LinkNeighborLoader):
        monkeypatch.setattr(kind, "_only_launches", True)


@pytest.mark.parametrize("kind", LOADERS)
def test_the_batches_of_threads(data, monkeypatch, kind):
    expected, threads = epoch(LOADERS[kind](data, "cpu"))
    assert "hinterland sample" in threads
    launch_ahead(monkeypatch)
    found, threads = epoch(LOADERS[kind](data, "cpu"))
    assert not threads
    assert same(found, expected) and len(found) > 1


@pytest.mark.gpu
@pytest.mark.parametrize("kind", LOADERS)
def test_a_gpu_needs_no_threads(data, kind):
    expected, _ = epoch(LOADERS[kind](data, "cpu"))
    for _ in range(2):  # memory of the first epoch is taken again
        found, threads = epoch(LOADERS[kind](data, "cuda"))
        assert not threads
        assert same(found, expected)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", WAITED_FOR)
def test_what_has_to_be_waited_for(data, kind):
    expected, _ = epoch(WAITED_FOR[kind](data, "cpu"))
    found, threads = epoch(WAITED_FOR[kind](data, "cuda"))
    assert "hinterland sample" in threads
    assert same([batch["n_id"] for batch in found], [batch["n_id"] for batch in expected])


def test_errors_reach_the_caller(data, monkeypatch):
    launch_ahead(monkeypatch)

    def fails(batch):
        if int(batch.input_id[0]) >= 64:
            raise ValueError("my transform failed")
        return batch

    got = []
    with pytest.raises(ValueError, match="my transform failed") as caught:
        for batch in NeighborLoader(data, [4], NODES, batch_size=32, transform=fails, device="cpu"):
            got.append(batch.input_id[0].item())
    assert got == [0, 32]
    assert any(entry.name == "fails" for entry in caught.traceback)


@pytest.mark.gpu
def test_rows_that_a_store_lacks_are_named(data):
    features, graphs = stores(data)
    features.put_tensor(torch.zeros(50, 2), group_name=None, attr_name="extra", index=None)
    with pytest.raises(IndexError, match="50 rows"):
        for _ in NeighborLoader((features, graphs), [4, 3], NODES, device="cuda"):
            pass


def test_a_store_waits_where_it_may_lack_rows(data, monkeypatch):
    features, _ = stores(data)
    features.put_tensor(torch.zeros(50, 2), group_name=None, attr_name="extra", index=None)
    checks = []
    gather = type(features._tables[None, "x"]).gather
    monkeypatch.setattr(
        type(features._tables[None, "x"]), "gather", lambda table, *a, check: (checks.append(check), gather(table, *a))[1]
    )
    for reader, names in (
        (features, "xy"),
        (features.asked_for({None: 300}), "xy"),
        (features.asked_for({None: 300}), ["extra", "x"]),
    ):
        attrs = [attr for attr in reader.get_all_tensor_attrs() if attr.attr_name in names]
        for attr in attrs:
            attr.index = torch.arange(5)
        reader.multi_get_tensor(attrs)
    assert checks == ["async", "sync", "async", "async", "async", "sync"]
