"""Loaders whose batches are launched ahead by the caller's thread: they are those of threads, and no thread is started."""

from __future__ import annotations

import threading

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.testing import MyFeatureStore

from hinterland.memory import UnifiedTensor
from hinterland.pyg import FeatureStore, GraphStore, LinkNeighborLoader, NeighborLoader, Sampler
from hinterland.pyg.given import Given
from hinterland.pyg.loader import _Pipelined
from hinterland.pyg.readable import readable


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


def other_stores(data):
    features = MyFeatureStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    return features, stores(data)[1]


NODES = torch.arange(0, 300, 3)
LOADERS = {
    "nodes": lambda data, device: NeighborLoader(data, [4, 3], NODES, shuffle=True, device=device),
    "weights": lambda data, device: NeighborLoader(data, [4, 3], NODES, weight_attr="weight", device=device),
    "times": lambda data, device: NeighborLoader(data, [4, 3], NODES, time_attr="time", device=device),
    "types": lambda data, device: NeighborLoader(typed(data), [4, 3], ("a", NODES), device=device),
    "stores": lambda data, device: NeighborLoader(stores(data), [4, 3], NODES, device=device),
    "links": lambda data, device: LinkNeighborLoader(data, [4, 3], batch_size=64, neg_sampling="binary", device=device),
    "links of types": lambda data, device: LinkNeighborLoader(
        typed(data), [4, 3], ("b", "to", "a"), batch_size=64, neg_sampling="triplet", device=device
    ),
}


class Other(Sampler):
    """A sampler of the user's."""


# PyG or somebody else does something to these once they are there.
WAITED_FOR = {
    "another sampler": lambda data, device: NeighborLoader(
        data, [4, 3], NODES, neighbor_sampler=Other(data, [4, 3], device=device), device=device
    ),
    "another store": lambda data, device: NeighborLoader(other_stores(data), [4, 3], NODES, device=device),
    "whole lists": lambda data, device: NeighborLoader(data, [-1, 2], NODES, device=device),
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
    # PyG puts the edges of both ways in an order that the device decides.
    assert same([batch["n_id"] for batch in found], [batch["n_id"] for batch in expected])


def test_errors_reach_the_caller(data, monkeypatch):
    launch_ahead(monkeypatch)

    def fails(batch):
        if int(batch.input_id[0]) >= 64:
            raise ValueError("my transform failed")
        return batch

    got, threads = [], threading.active_count()
    with pytest.raises(ValueError, match="my transform failed") as caught:
        for batch in NeighborLoader(data, [4], NODES, batch_size=32, transform=fails, device="cpu"):
            got.append(batch.input_id[0].item())
    assert got == [0, 32]
    assert any(entry.name == "fails" for entry in caught.traceback)
    assert threading.active_count() == threads


@pytest.mark.gpu
def test_rows_that_a_store_lacks_are_named(data):
    features, graphs = stores(data)
    features.put_tensor(torch.zeros(50, 2), group_name=None, attr_name="extra", index=None)
    with pytest.raises(IndexError, match="50 rows"):
        for _ in NeighborLoader((features, graphs), [4, 3], NODES, device="cuda"):
            pass


@pytest.fixture
def checks(monkeypatch):
    """How the gathers from UnifiedTensors were checked."""
    found, gather = [], UnifiedTensor.gather

    def noted(table, index, check="sync", **more):
        found.append(check)
        return gather(table, index, check=check, **more)

    monkeypatch.setattr(UnifiedTensor, "gather", noted)
    return found


def test_a_store_waits_where_it_may_lack_rows(data, checks):
    features, _ = stores(data)
    features.put_tensor(torch.zeros(50, 2), group_name=None, attr_name="extra", index=None)
    bounded = features.bounded_by({None: 300})
    for reader, names, expected in (
        (features, ["x", "y"], ["async", "sync"]),
        (bounded, ["x", "y"], ["async", "async"]),
        (bounded, ["extra", "x"], ["async", "sync"]),
    ):
        attrs = [attr for attr in reader.get_all_tensor_attrs() if attr.attr_name in names]
        for attr in attrs:
            attr.index = torch.arange(5)
        checks.clear()
        reader.multi_get_tensor(attrs)
        assert sorted(checks) == expected


def swapped(out):
    out.node = out.node.flip(0)
    return out


class OwnFilter(NeighborLoader):
    def filter_fn(self, out):
        return super().filter_fn(out)


NAMED_BY_OTHERS = {
    "nobody": lambda data: NeighborLoader(data, [4], NODES, device="cpu"),
    "a transform": lambda data: NeighborLoader(data, [4], NODES, device="cpu", transform_sampler_output=swapped),
    "a subclass": lambda data: OwnFilter(data, [4], NODES, device="cpu"),
    "another graph": lambda data: NeighborLoader(data, [4], NODES, device="cpu", neighbor_sampler=Sampler(data.clone(), [4])),
}


@pytest.mark.parametrize("who", NAMED_BY_OTHERS)
def test_rows_that_others_name_are_waited_for(data, checks, monkeypatch, who):
    launch_ahead(monkeypatch)
    data.x = UnifiedTensor.from_tensor(data.x)
    next(iter(NAMED_BY_OTHERS[who](data)))
    assert set(checks) == {"async" if who == "nobody" else "sync"}


def test_batches_that_were_begun_in_inference_mode_can_be_trained_on(data, monkeypatch):
    launch_ahead(monkeypatch)
    batches = iter(NeighborLoader(data, [4], NODES, device="cpu"))
    with torch.inference_mode():
        next(batches)
    weight = torch.ones(6, requires_grad=True)
    (next(batches).x @ weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("waits", [False, True])
def test_rows_that_are_known_to_be_there_are_not_waited_for(data, checks, waits):
    data.x = UnifiedTensor.from_tensor(data.x)
    read = readable(Given(data), torch.device("cpu"), "host", waits=waits)
    index = torch.tensor([4, 2])
    assert torch.equal(read.x.index_select(0, index), data.x[index])
    assert checks[0] == ("sync" if waits else "async")
