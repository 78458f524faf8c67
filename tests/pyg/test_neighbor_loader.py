"""NeighborLoader: batches as PyG's own, what they hold, in any option, from any kind of data."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler
from torch_geometric.utils import k_hop_subgraph

import hinterland as hl
from hinterland.pyg import FeatureStore, GraphStore, NeighborLoader, Sampler
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError


def batches_of(data, fanouts=(4, 3), device="cpu", seed=0, **options):
    torch.manual_seed(seed)
    options.setdefault("batch_size", 32)
    return NeighborLoader(data, list(fanouts), device=device, **options)


def check(batch, data):
    """Everything in a batch is what the graph holds."""
    batch = batch.cpu()
    n_id, e_id = batch.n_id, batch.e_id
    assert torch.equal(n_id[batch.edge_index], data.edge_index[:, e_id])
    for key in ("x", "y", "train_mask", "time"):
        assert torch.equal(batch[key], data[key][n_id])
        assert batch[key].dtype == data[key].dtype
    for key in ("edge_attr", "weight"):
        assert torch.equal(batch[key], data[key][e_id])
    assert batch.name == data.name and torch.equal(batch.scale, data.scale)
    assert batch.num_nodes == len(n_id)
    assert batch.input_id.shape == (batch.batch_size,)
    if "num_sampled_nodes" in batch:
        assert sum(batch.num_sampled_nodes) == len(n_id) and batch.num_sampled_nodes[0] == batch.batch_size
        assert sum(batch.num_sampled_edges) == len(e_id)


def same(one, other):
    one, other = one.cpu().to_dict(), other.cpu().to_dict()
    assert list(one) == list(other)
    for key, value in one.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, other[key]) and value.dtype == other[key].dtype, key
        else:
            assert value == other[key], key


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_are_those_of_pygs_loader(data, shuffle):
    """PyG's NodeLoader with our sampler puts batches together by PyG's own code alone."""
    torch.manual_seed(3)
    stock = NodeLoader(data, Sampler(data, [4, 3]), data.train_mask, batch_size=32, shuffle=shuffle)
    ours = batches_of(data, seed=3, input_nodes=data.train_mask, shuffle=shuffle)
    torch.manual_seed(3)
    expected = list(stock)
    torch.manual_seed(3)
    found = list(ours)
    assert len(found) == len(expected) == len(ours) == len(stock)
    for batch, other in zip(found, expected, strict=True):
        mine, theirs = batch.to_dict(), other.to_dict()
        assert list(mine) == list(theirs)
        for key in mine:
            assert type(mine[key]) is type(theirs[key])
            if isinstance(mine[key], torch.Tensor):
                assert mine[key].dtype == theirs[key].dtype and mine[key].dim() == theirs[key].dim()
        # The same seed shuffles in the same way; the draws have numbers of their own.
        assert torch.equal(batch.input_id, other.input_id)
        size = batch.batch_size
        assert torch.equal(batch.n_id[:size], other.n_id[:size])
        check(batch, data)


def test_an_epoch(data, device):
    loader = batches_of(data, device=device, shuffle=True, input_nodes=data.train_mask)
    seeds = []
    for batch in loader:
        tensors = [value for value in batch.to_dict().values() if isinstance(value, torch.Tensor)]
        assert {tensor.device for tensor in tensors} == {device}
        check(batch, data)
        assert torch.equal(batch.input_id.cpu(), batch.n_id[: batch.batch_size].cpu())  # of a mask
        seeds.append(batch.n_id[: batch.batch_size].cpu())
    assert torch.equal(torch.cat(seeds).sort().values, data.train_mask.nonzero().view(-1))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"replace": True},
        {"weight_attr": "weight"},
        {"time_attr": "time"},
        {"disjoint": True},
        {"time_attr": "edge_time", "input_time": torch.arange(300)},
    ],
)
def test_the_gpu_makes_the_same_batches(data, options):
    data.edge_time = torch.arange(data.num_edges) % 300
    on_cpu = list(batches_of(data, shuffle=True, **options))
    for one, other in zip(on_cpu, batches_of(data, device="cuda", shuffle=True, **options), strict=True):
        same(one, other)


@given(st.integers(1, 3), st.integers(1, 40), st.integers(0, 2**31))
@settings(max_examples=15)
def test_whole_neighbourhoods(hops, count, seed):
    random = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(50, (2, 80), generator=random)
    data = Data(edge_index=edge_index, num_nodes=50)
    seeds = torch.randperm(50, generator=random)[:count]
    (batch,) = NeighborLoader(data, [-1] * hops, seeds, batch_size=count, device="cpu")
    nodes, *_ = k_hop_subgraph(seeds, hops, edge_index, num_nodes=50)
    assert torch.equal(batch.n_id.sort().values, nodes)
    nearer, *_ = k_hop_subgraph(seeds, hops - 1, edge_index, num_nodes=50)
    assert torch.equal(batch.e_id.sort().values, torch.isin(edge_index[1], nearer).nonzero().view(-1))
    assert torch.equal(batch.n_id[batch.edge_index], edge_index[:, batch.e_id])


def test_fanouts_bound_what_is_sampled(data):
    for batch in batches_of(data, [4, 2]):
        drawn = batch.edge_index[1][: batch.num_sampled_edges[0]].bincount()
        in_degree = data.edge_index[1].bincount(minlength=data.num_nodes)
        wanted = in_degree[batch.n_id[: batch.batch_size]].clamp(max=4)
        assert torch.equal(torch.nn.functional.pad(drawn, (0, len(wanted) - len(drawn))), wanted)
        assert len(batch.e_id.unique()) == len(batch.e_id)


def test_seeds_repeat_batches(data):
    one, other = list(batches_of(data, shuffle=True, seed=1)), list(batches_of(data, shuffle=True, seed=1))
    for mine, theirs in zip(one, other, strict=True):
        same(mine, theirs)
    loader = batches_of(data, seed=1)
    first, second = list(loader), list(loader)
    assert any(not torch.equal(a.e_id, b.e_id) for a, b in zip(first, second, strict=True))  # epochs draw anew
    generator = torch.Generator().manual_seed(4)
    one = list(batches_of(data, seed=1, shuffle=True, generator=generator))
    other = list(batches_of(data, seed=2, shuffle=True, generator=generator.manual_seed(4)))
    for mine, theirs in zip(one, other, strict=True):
        same(mine, theirs)


def test_training_does_not_disturb_the_draws(data):
    """Dropout takes from torch's generator while batches are prepared."""
    quiet = list(batches_of(data, shuffle=True, seed=1))
    for mine, busy in zip(quiet, batches_of(data, shuffle=True, seed=1), strict=True):
        torch.rand(1000)
        same(mine, busy)


def test_options_of_data_loaders(data):
    nodes = torch.arange(100)
    assert [b.batch_size for b in batches_of(data, input_nodes=nodes, drop_last=True)] == [32, 32, 32]
    assert [b.batch_size for b in batches_of(data, input_nodes=nodes)] == [32, 32, 32, 4]
    (batch,) = batches_of(data, input_nodes=nodes, sampler=[5, 7, 5])
    assert batch.n_id[:3].tolist() == [5, 7, 5] and batch.batch_size == 3
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    (batch,) = NeighborLoader(data, [2], nodes, batch_sampler=[[1, 2]], device="cpu")
    assert batch.n_id[:2].tolist() == [1, 2]
    assert batches_of(data, input_nodes=nodes)(torch.tensor([3, 4])).n_id[:2].tolist() == [3, 4]
    (batch,) = batches_of(data, input_nodes=[9, 3])
    assert batch.n_id[:2].tolist() == [9, 3]
    (batch,) = batches_of(data, input_nodes=torch.tensor([9, 3]), input_id=torch.tensor([70, 80]))
    assert batch.input_id.tolist() == [70, 80]


def test_workers_are_not_needed(data):
    with pytest.warns(UserWarning, match="num_workers=3 starts no processes"):
        loader = batches_of(data, num_workers=3, persistent_workers=True, prefetch_factor=2, pin_memory=True)
    check(next(iter(loader)), data)


def test_transforms(data):
    def halve(out):
        out.node = out.node.clone()
        return out

    def mark(batch):
        batch.marked = batch.x.sum()
        return batch

    for batch in batches_of(data, transform=mark, transform_sampler_output=halve):
        assert torch.equal(batch.marked, batch.x.sum())


def test_errors_reach_the_caller_and_threads_end(data):
    def broken(batch):
        raise ArithmeticError("in the user's transform")

    before = threading.active_count()
    with pytest.raises(ArithmeticError, match="in the user's transform"):
        list(batches_of(data, transform=broken))
    for _ in batches_of(data):
        break
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.mark.parametrize("kind", ["table", "tiers", "storage", "tiers of storage", "array", "memmap"])
def test_features_that_are_no_tensors(data, device, kind, tmp_path):
    given = data.clone()
    if kind == "table":
        given.x = hl.UnifiedTensor.from_tensor(data.x)
        given.edge_attr = hl.UnifiedTensor.from_tensor(data.edge_attr)
    elif kind == "tiers":
        scores = torch.rand(data.num_nodes)
        given.x = hl.UnifiedTensor.from_tensor(data.x).tiered(local="4KiB", scores=scores, devices=[device])
    elif kind.endswith("storage"):
        np.save(tmp_path / "x.npy", data.x.numpy())
        given.x = hl.UnifiedTensor.from_file(tmp_path / "x.npy", placement="storage", host_budget="64KiB")
        if kind.startswith("tiers"):
            given.x = given.x.tiered(local="2KiB", host="1KiB", scores=torch.rand(data.num_nodes), devices=[device])
    elif kind == "array":
        given.x, given.y = data.x.numpy(), data.y.numpy()
    else:
        np.save(tmp_path / "x.npy", data.x.numpy())
        given.x = np.load(tmp_path / "x.npy", mmap_mode="r")
    for batch in batches_of(given, device=device, shuffle=True):
        assert isinstance(batch.x, torch.Tensor)
        check(batch, data)


def test_features_are_moved_once(data):
    """On a GPU; what it is that is kept can be seen anywhere."""
    from hinterland.pyg.table_tensor import table_of

    first = table_of(data.x, "pageable")
    assert table_of(data.x, "pageable") is first
    data.x[0] = 7  # written to since
    second = table_of(data.x, "pageable")
    assert second is not first and torch.equal(second.cpu(), data.x)
    assert torch.equal(table_of(data.edge_index, "pageable", 1).cpu(), data.edge_index.t())


@pytest.mark.parametrize("layout", ["coo", "csc", "csr", "graph"])
def test_stores(data, device, layout):
    features, graphs = FeatureStore(), GraphStore()
    for key in ("x", "y", "time", "train_mask"):
        features.put_tensor(data[key], group_name=None, attr_name=key, index=None)
    nodes = data.num_nodes
    if layout == "graph":
        graph = hl.from_edges(*data.edge_index, num_vertices=nodes).transpose()
        graphs.put_edge_index(graph, edge_type=None, layout="csc")
    elif layout == "coo":
        graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(nodes, nodes))
    else:
        by = 1 if layout == "csc" else 0
        order = data.edge_index[by].argsort(stable=True)
        pointers = torch.searchsorted(data.edge_index[by][order], torch.arange(nodes + 1))
        other = data.edge_index[1 - by][order]
        pair = (other, pointers) if layout == "csc" else (pointers, other)
        graphs.put_edge_index(pair, edge_type=None, layout=layout, size=(nodes, nodes))
    row, col, _ = graphs.coo()
    for batch in batches_of((features, graphs), device=device, input_nodes=torch.arange(0, nodes, 3)):
        assert batch.x.device == batch.edge_index.device == device
        batch = batch.cpu()
        for key in ("x", "y", "time", "train_mask"):
            assert torch.equal(batch[key], data[key][batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], torch.stack([row, col])[:, batch.e_id])


def test_stores_of_others(data):
    from torch_geometric.testing import MyFeatureStore, MyGraphStore

    features, graphs = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(data.num_nodes,) * 2)
    (batch,) = batches_of((features, graphs), input_nodes=torch.arange(7))
    assert torch.equal(batch.x, data.x[batch.n_id])
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])


@pytest.mark.gpu
def test_stores_and_samplers_of_others_on_a_gpu(data):
    from torch_geometric.testing import MyFeatureStore, MyGraphStore

    features, graphs = MyFeatureStore(), MyGraphStore()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(data.num_nodes,) * 2)
    (batch,) = batches_of((features, graphs), device="cuda", input_nodes=torch.arange(7))
    assert batch.x.is_cuda and torch.equal(batch.x.cpu(), data.x[batch.n_id.cpu()])
    for batch in NeighborLoader(data, [4], neighbor_sampler=Other(data), batch_size=32, device="cuda"):
        assert batch.x.is_cuda
        check(batch, data)


class Other(BaseSampler):
    """Stands for another library's sampler: it is not recognised as ours, and knows nothing of numbers."""

    def __init__(self, data):
        self.inner = Sampler(data, [4])

    def sample_from_nodes(self, index):
        return self.inner.sample_from_nodes(index)

    def sample_from_edges(self, index, neg_sampling=None):
        return self.inner.sample_from_edges(index, neg_sampling)

    @property
    def edge_permutation(self):
        return self.inner.edge_permutation


def test_a_sampler_of_others(data):
    for batch in NeighborLoader(data, [4], neighbor_sampler=Other(data), batch_size=32, device="cpu"):
        check(batch, data)


def test_sorted_edges(data):
    data.edge_index = data.edge_index[:, data.edge_index[1].argsort(stable=True)]
    assert Sampler(data, [3], is_sorted=True).edge_permutation is None
    for batch in batches_of(data, is_sorted=True):
        check(batch, data)


def test_replace(data):
    in_degree = data.edge_index[1].bincount(minlength=data.num_nodes)
    for batch in batches_of(data, [5], replace=True):
        check(batch, data)
        drawn = batch.edge_index[1].bincount(minlength=batch.batch_size)
        assert torch.equal(drawn, 5 * (in_degree[batch.n_id[: batch.batch_size]] > 0))


def test_weights(data, device):
    """Weights are 0, 1 and 2; that draws follow them is shown where sampling is tested."""
    seen = torch.cat([b.weight.cpu() for _ in range(5) for b in batches_of(data, [2], device, weight_attr="weight")])
    assert seen.min() > 0
    plain = torch.cat([b.weight for _ in range(5) for b in batches_of(data, [2])])
    assert plain.min() == 0
    for batch in batches_of(data, weight_attr="weight"):
        check(batch, data)


def test_disjoint(data, device):
    for batch in batches_of(data, device=device, disjoint=True):
        check(batch, data)
        batch = batch.cpu()
        size = batch.batch_size
        assert torch.equal(batch.batch[:size], torch.arange(size))
        assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
        pairs = torch.stack([batch.batch, batch.n_id])
        assert pairs.unique(dim=1).shape == pairs.shape


@pytest.mark.parametrize("strategy", ["uniform", "last"])
@pytest.mark.parametrize("own", [False, True])
def test_times(data, device, strategy, own):
    nodes = torch.arange(0, data.num_nodes, 2)
    times = None if own else torch.arange(len(nodes)) % 90
    options = {"input_nodes": nodes, "input_time": times, "time_attr": "time", "temporal_strategy": strategy}
    number = 0
    for batch in batches_of(data, device=device, **options):
        check(batch, data)
        batch = batch.cpu()
        limit = data.time[nodes[batch.input_id]] if own else times[batch.input_id]
        if not own:
            assert torch.equal(batch.seed_time, limit)
        found = torch.ones(len(batch.n_id), dtype=torch.bool)
        found[: batch.batch_size] = False
        assert (batch.time[found] <= limit[batch.batch[found]]).all()
        number += int(found.sum())
    assert number > 0
    if strategy == "last":
        options |= {"input_nodes": nodes[:1], "input_time": torch.tensor([99])}
        (batch,) = batches_of(data, [1], **options)
        sources = data.edge_index[0][data.edge_index[1] == nodes[0]]
        assert batch.time[-1] == data.time[sources].max()


def test_one_thread_makes_small_batches_on_the_cpu(data, monkeypatch):
    """And they are the same as those of two."""
    from hinterland.pyg import loader as loaders

    def small(*fanouts, **options):
        return loaders._are_small(batches_of(data, list(fanouts), device="cpu", **options))

    assert small(2, 2, batch_size=1) and small(15, 10, batch_size=6) and small(batch_size=1024)
    assert not small(15, 10, batch_size=7) and not small(-1, 2, batch_size=1)
    threads, few = threading.active_count(), []
    for batch in batches_of(data, [3, 2], device="cpu", batch_size=1):
        few.append(batch)
        assert threading.active_count() <= threads + 1
    monkeypatch.setattr(loaders, "_SMALL", 0)
    for one, other in zip(few, batches_of(data, [3, 2], device="cpu", batch_size=1), strict=True):
        same(one, other)


def whole_in_time(data, times, seed, limit, hops, window=None):
    """Edges within ``hops`` of a seed, over those that are not newer than the limit, nor older than a window, by a search."""
    frontier, seen, found = {seed}, {seed}, []
    old = times <= limit if window is None else (times <= limit) & (times >= limit - window)
    for _ in range(hops):
        met = (torch.isin(data.edge_index[1], torch.tensor(sorted(frontier))) & old).nonzero().view(-1)
        found += met.tolist()
        frontier = set(data.edge_index[0][met].tolist()) - seen
        seen |= frontier
    return sorted(found)


@pytest.mark.parametrize("strategy", ["uniform", "last"])
def test_times_of_edges(data, device, strategy):
    """As of PyG's NeighborLoader: an edge is followed if it is not newer than the seed of its subgraph."""
    data.edge_time = torch.randint(100, (data.num_edges,), generator=torch.Generator().manual_seed(3))
    nodes = torch.arange(0, data.num_nodes, 2)
    times = torch.arange(len(nodes)) % 90
    options = {"input_nodes": nodes, "input_time": times, "time_attr": "edge_time", "temporal_strategy": strategy}
    for batch in batches_of(data, [-1, -1], device=device, **options):
        check(batch, data)
        batch = batch.cpu()
        assert torch.equal(batch.seed_time, times[batch.input_id])
        of = batch.batch[batch.edge_index[1]]
        for i in range(batch.batch_size):
            expected = whole_in_time(data, data.edge_time, int(nodes[batch.input_id[i]]), int(batch.seed_time[i]), 2)
            assert sorted(batch.e_id[of == i].tolist()) == expected
    for batch in batches_of(data, [2, 2], device=device, weight_attr=None if strategy == "last" else "weight", **options):
        check(batch, data)
        assert (batch.edge_time <= batch.seed_time[batch.batch[batch.edge_index[1]]]).all()
    if strategy == "last":
        target = int(data.edge_index[1].bincount().argmax())
        options |= {"input_nodes": torch.tensor([target]), "input_time": torch.tensor([60])}
        (batch,) = batches_of(data, [2], device=device, **options)
        own = data.edge_time[data.edge_index[1] == target]
        assert batch.edge_time.tolist() == own[own <= 60].sort(descending=True).values[:2].tolist()


@pytest.mark.parametrize("window", [0, 20, 1000])
def test_a_window_of_times_of_edges(data, device, window):
    """PyG's issue 10593: input_time - time_window <= edge_time <= input_time."""
    data.edge_time = torch.randint(100, (data.num_edges,), generator=torch.Generator().manual_seed(3))
    nodes, times = torch.arange(0, data.num_nodes, 2), torch.arange(150) % 90
    options = {"input_nodes": nodes, "input_time": times, "time_attr": "edge_time", "time_window": window, "device": device}
    for batch in batches_of(data, [-1, -1], **options):
        check(batch, data)
        batch = batch.cpu()
        of = batch.batch[batch.edge_index[1]]
        for i in range(batch.batch_size):
            expected = whole_in_time(data, data.edge_time, int(nodes[batch.input_id[i]]), int(batch.seed_time[i]), 2, window)
            assert sorted(batch.e_id[of == i].tolist()) == expected
    for strategy in ("uniform", "last"):
        for batch in batches_of(data, [2, 2], temporal_strategy=strategy, **options):
            age = batch.seed_time[batch.batch[batch.edge_index[1]]] - batch.edge_time
            assert ((age >= 0) & (age <= window)).all()


def test_a_window_of_times_of_nodes(data, device):
    number = 0
    for batch in batches_of(data, time_attr="time", time_window=10, device=device):
        age = (data.time[batch.n_id[: batch.batch_size].cpu()][batch.batch.cpu()] - batch.time.cpu())[batch.batch_size :]
        assert ((age >= 0) & (age <= 10)).all()
        number += len(age)
    assert number > 0


@pytest.mark.gpu
@pytest.mark.parametrize(
    "options", [{}, {"weight_attr": "weight"}, {"time_attr": "edge_time", "input_time": torch.arange(300)}]
)
def test_everything_in_gpu_memory(data, options):
    data.edge_time = torch.arange(data.num_edges) % 300
    loader = batches_of(data, device="cuda", placement="gpu", shuffle=True, **options)
    assert set(loader.neighbor_sampler._graphs[None].placement.values()) == {"gpu"}
    assert type(loader._read.x) is torch.Tensor and loader._read.x.is_cuda and type(loader._read.edge_attr) is torch.Tensor
    other = batches_of(data, device="cuda", placement="gpu")
    assert other._read.x is loader._read.x and other.neighbor_sampler._lists[None] is loader.neighbor_sampler._lists[None]
    on_cpu = list(batches_of(data, shuffle=True, **options))
    torch.manual_seed(0)
    for one, batch in zip(on_cpu, loader, strict=True):
        same(one, batch)


@pytest.mark.skipif(devices.cuda_available(), reason="this machine has a GPU")
def test_without_a_gpu_its_memory_is_the_hosts(data):
    plain = list(batches_of(data))
    for one, batch in zip(plain, batches_of(data, placement="gpu"), strict=True):
        same(one, batch)


def test_gpu_memory_is_for_batches_on_a_gpu(data, monkeypatch):
    monkeypatch.setattr(devices, "keeps_on_gpu", lambda what: True)
    with pytest.raises(ConfigError, match="is for batches that a GPU makes, but device is cpu; name a GPU"):
        batches_of(data, placement="gpu", device="cpu")


def test_times_of_edges_need_some_of_seeds(data):
    data.edge_time = torch.arange(data.num_edges)
    with pytest.raises(ConfigError, match="the seeds have none to compare them with; pass input_time="):
        list(batches_of(data, time_attr="edge_time"))


def test_subgraph_types(data, device):
    for batch in batches_of(data, device=device, subgraph_type="induced"):
        check(batch, data)
        n_id = batch.n_id.cpu()
        inside = torch.isin(data.edge_index, n_id).all(0).nonzero().view(-1)
        assert torch.equal(batch.e_id.cpu().sort().values, inside)
    for batch in batches_of(data, device=device, subgraph_type="bidirectional"):
        pairs = {tuple(pair) for pair in batch.edge_index.t().tolist()}
        assert pairs == {(v, u) for u, v in pairs}
    with pytest.warns(UserWarning, match="subgraph_type='induced'"):
        assert batches_of(data, directed=False).neighbor_sampler.subgraph_type.value == "induced"


def test_many_epochs_leave_nothing(data):
    loader = batches_of(data, [2])
    list(loader)
    threads = threading.active_count()
    for _ in range(30):
        list(loader)
    assert threading.active_count() <= threads


def test_a_loader_that_is_let_go_waits_for_no_garbage_collector(data):
    gc.collect()
    gc.disable()
    try:
        loader = batches_of(data)
        next(iter(loader))
        alive = weakref.ref(loader)
        del loader
        assert alive() is None
    finally:
        gc.enable()
