"""LinkNeighborLoader: seeds from both ends of edges, with negatives of either kind."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.loader import LinkLoader
from torch_geometric.sampler import NegativeSampling

from hinterland.pyg import LinkNeighborLoader, NeighborLoader, Sampler
from hinterland.runtime.errors import ConfigError


def batches_of(data, device="cpu", seed=0, **options):
    torch.manual_seed(seed)
    options.setdefault("batch_size", 32)
    return LinkNeighborLoader(data, [3, 2], device=device, **options)


def check(batch, data):
    batch = batch.cpu()
    assert torch.equal(batch.x, data.x[batch.n_id])
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])


@pytest.mark.parametrize("disjoint", [False, True])
def test_positive_edges(data, device, disjoint):
    ids = []
    for batch in batches_of(data, device, shuffle=True, disjoint=disjoint):
        check(batch, data)
        batch = batch.cpu()
        assert torch.equal(batch.n_id[batch.edge_label_index], data.edge_index[:, batch.input_id])
        ids.append(batch.input_id)
    assert torch.equal(torch.cat(ids).sort().values, torch.arange(data.num_edges))


@pytest.mark.parametrize("disjoint", [False, True])
def test_binary(data, device, disjoint):
    for batch in batches_of(data, device, neg_sampling={"mode": "binary", "amount": 0.5}, disjoint=disjoint):
        assert batch.edge_label.device == batch.edge_label_index.device == device
        check(batch, data)  # which moves it
        batch = batch.cpu()
        positive = len(batch.input_id)
        assert torch.equal(batch.edge_label, torch.arange(len(batch.edge_label)).lt(positive).float())
        assert len(batch.edge_label) == positive + -(-positive // 2)
        ends = batch.n_id[batch.edge_label_index]
        assert torch.equal(ends[:, :positive], data.edge_index[:, batch.input_id])


@pytest.mark.parametrize("disjoint", [False, True])
def test_triplets(data, device, disjoint):
    for batch in batches_of(data, device, neg_sampling=NegativeSampling("triplet", 3), disjoint=disjoint):
        check(batch, data)
        batch = batch.cpu()
        positive = torch.stack([batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]])
        assert torch.equal(positive, data.edge_index[:, batch.input_id])
        assert batch.dst_neg_index.shape == (len(batch.input_id), 3)
        assert "edge_label_index" not in batch


def test_labels(data):
    edges = data.edge_index[:, 100:200]
    labels = torch.arange(100) % 3
    for batch in batches_of(data, edge_label_index=edges, edge_label=labels):
        assert torch.equal(batch.edge_label, labels[batch.input_id])
    for batch in batches_of(data, edge_label_index=edges, edge_label=labels, neg_sampling="binary"):
        size = len(batch.input_id)
        assert torch.equal(batch.edge_label[:size], labels[batch.input_id] + 1)
        assert (batch.edge_label[size:] == 0).all()


def test_times(data, device):
    times = torch.randint(100, (data.num_edges,), generator=torch.Generator().manual_seed(1))
    for batch in batches_of(data, device, edge_label_time=times, time_attr="time", neg_sampling="binary"):
        check(batch, data)
        batch = batch.cpu()
        positive = len(batch.input_id)
        assert torch.equal(batch.edge_label_time[:positive], times[batch.input_id])
        limit = times[batch.input_id][batch.batch]
        seeds = 2 * len(batch.edge_label)
        assert (batch.time[seeds:] <= limit[seeds:]).all()
    with pytest.raises(ConfigError, match="edge_label_time is compared with times of nodes or edges"):
        list(LinkLoader(data, Sampler(data, [2], disjoint=True), edge_label_time=times))


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_times_of_edges(data, device, mode):
    """Each edge to predict sees what was there before it; negatives have the moments of the edges that they belong to."""
    data.edge_time = torch.randint(100, (data.num_edges,), generator=torch.Generator().manual_seed(1))
    options = {"edge_label_time": data.edge_time - 1, "time_attr": "edge_time", "neg_sampling": mode}
    number = 0
    for batch in batches_of(data, device, **options):
        check(batch, data)
        batch = batch.cpu()
        limit = (data.edge_time - 1)[batch.input_id][batch.batch[batch.edge_index[1]]]
        assert (batch.edge_time <= limit).all()
        number += len(batch.e_id)
    assert number > 0
    del options["time_attr"]
    stock = LinkLoader(data, Sampler(data, [3, 2], time_attr="edge_time"), **options)
    assert list(next(iter(stock)).to_dict()) == list(batch.to_dict())


def test_negatives_follow_weights_and_seeds(data):
    weight = torch.zeros(data.num_nodes)
    weight[[7, 9]] = 1
    options = {"neg_sampling": NegativeSampling("triplet", 1, dst_weight=weight), "shuffle": True}
    for batch in batches_of(data, **options):
        assert set(batch.n_id[batch.dst_neg_index].tolist()) <= {7, 9}
    options = {"neg_sampling": "binary", "shuffle": True}
    one, other = list(batches_of(data, seed=1, **options)), batches_of(data, seed=1, **options)
    negatives = []
    for mine, theirs in zip(one, other, strict=True):
        torch.rand(100)  # what training does meanwhile has no part in them
        assert torch.equal(mine.n_id[mine.edge_label_index], theirs.n_id[theirs.edge_label_index])
        assert torch.equal(mine.e_id, theirs.e_id)
        negatives.append(mine.n_id[mine.edge_label_index[:, len(mine.input_id) :]])
    everywhere = torch.cat(negatives, dim=1)
    assert everywhere.unique().numel() > data.num_nodes * 0.9  # uniform over nodes
    with pytest.raises(ConfigError, match="dst_weight of neg_sampling has 3 elements, but there are 300 nodes"):
        list(batches_of(data, neg_sampling=NegativeSampling("triplet", 1, dst_weight=torch.ones(3))))


@pytest.mark.gpu
@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_the_gpu_makes_the_same_batches(data, mode):
    on_cpu = list(batches_of(data, neg_sampling=mode, shuffle=True))
    on_gpu = batches_of(data, "cuda", neg_sampling=mode, shuffle=True)
    for one, other in zip(on_cpu, on_gpu, strict=True):
        assert torch.equal(one.n_id, other.n_id.cpu()) and torch.equal(one.edge_index, other.edge_index.cpu())
        assert torch.equal(one.x, other.x.cpu()) and list(one.to_dict()) == list(other.to_dict())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
def test_pygs_loader_with_our_sampler(data, mode, workers):
    stock = LinkLoader(data, Sampler(data, [3, 2]), neg_sampling=mode, batch_size=500, num_workers=workers)
    ours = batches_of(data, neg_sampling=mode, batch_size=500)
    for batch, other in zip(ours, stock, strict=True):
        check(other, data)
        assert list(batch.to_dict()) == list(other.to_dict())
        assert torch.equal(batch.input_id, other.input_id)


def test_both_loaders_read_one_copy_of_the_graph(data):
    one, other = batches_of(data), NeighborLoader(data, [2], device="cpu")
    assert one.neighbor_sampler._lists[None] is other.neighbor_sampler._lists[None]
