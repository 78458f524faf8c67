"""What programs do with a loader after it is made: zip it, change it, copy it, send it to another process."""

from __future__ import annotations

import copy
import importlib
import pickle
from functools import partial
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import multiprocessing
from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ZipLoader

import hinterland as hl
from hinterland.pyg import FeatureStore, GraphStore, LinkNeighborLoader, NeighborLoader, Sampler
from hinterland.pyg.cache import widest
from hinterland.runtime.errors import ConfigError, GraphError
from hinterland.training.cache_choice import Wanted


def loader_of(data, **options):
    return NeighborLoader(data, [3, 2], batch_size=50, device="cpu", **options)


@pytest.mark.parametrize("filter_per_worker", [None, True, False])
def test_pygs_zip_loader(data, filter_per_worker):
    links = LinkNeighborLoader(data, [2], device="cpu")
    loader = ZipLoader([loader_of(data), links], filter_per_worker=filter_per_worker, batch_size=64)
    assert len(loader) == 5
    for number, (nodes, edges) in enumerate(loader):
        assert isinstance(nodes, Data) and isinstance(edges, Data)
        asked = torch.arange(64 * number, min(64 * number + 64, 300))
        assert torch.equal(nodes.n_id[: nodes.batch_size], asked) and torch.equal(nodes.x, data.x[nodes.n_id])
        assert torch.equal(edges.n_id[edges.edge_label_index], data.edge_index[:, asked])
    assert isinstance(loader([0, 1])[1], Data)


def test_attributes_are_changed(data):
    """As with PyG's loaders; here from the next epoch on."""
    loader = loader_of(data)
    loader.data.x = new = torch.rand(300, 2)
    loader.data.more = torch.arange(300)
    del loader.data.y
    for batch in loader:
        assert torch.equal(batch.x, new[batch.n_id]) and torch.equal(batch.more, batch.n_id) and "y" not in batch
    assert torch.equal(loader([5]).x[0], new[5])
    epoch = iter(loader)
    first = next(epoch)
    del loader.data.x
    assert all("x" in batch for batch in [first, *epoch]) and all("x" not in batch for batch in loader)


def test_tensors_that_count_no_versions(data):
    with torch.inference_mode():
        data.more = torch.arange(300) + 1
    assert all(torch.equal(batch.more, batch.n_id + 1) for batch in loader_of(data))


def test_data_is_replaced(data):
    loader = loader_of(data)
    loader.data = data.clone()
    loader.data.x = loader.data.x + 1
    assert all(torch.equal(batch.x, data.x[batch.n_id] + 1) for batch in loader)


def test_a_type_loses_an_attribute():
    data = HeteroData(a={"x": torch.rand(9, 2)}, b={"x": torch.rand(9, 3)})
    data["a", "b"].edge_index = torch.randint(9, (2, 40))
    loader = NeighborLoader(data, [2], "b", batch_size=9, device="cpu")
    del loader.data["a"].x
    data["b"].x = torch.ones(9, 1)
    (batch,) = loader
    assert "x" not in batch["a"] and len(batch["a"].n_id) and batch["b"].x.shape == (9, 1)


def test_features_of_other_nodes_are_refused(data):
    loader = loader_of(data)
    loader.data.x = torch.rand(299, 6)
    with pytest.raises(GraphError, match="data.x has 299 rows, but there are 300 nodes; it needs one row for each node"):
        iter(loader)


@pytest.mark.parametrize("links", [False, True])
def test_options_of_the_sampler_are_changed(data, links):
    loader = LinkNeighborLoader(data, [3], batch_size=50, device="cpu") if links else loader_of(data)
    sampler = loader.link_sampler if links else loader.node_sampler
    sampler.num_neighbors = [-1, -1, -1]
    assert all(len(batch.num_sampled_nodes) == 4 for batch in loader)
    sampler.disjoint = True
    assert "batch" in loader([0, 1])


def test_features_are_changed_after_the_cache_was_filled(data, device):
    """Its copies are of the ones before."""
    given = data.clone()
    given.x = hl.UnifiedTensor.from_tensor(data.x)
    loader = NeighborLoader(given, [3, 2], batch_size=32, device=device, cache="presample", gpu_budget="4KiB")
    if device.type == "cpu":
        loader._keep_hot_rows(widest(loader._read, {None: 300}), None, 4096)
    assert isinstance(loader._read.x.table, hl.TieredTensor)
    given.y = data.y + 1
    batch = next(iter(loader)).cpu()
    assert isinstance(loader._read.x.table, hl.TieredTensor) and torch.equal(batch.y, data.y[batch.n_id] + 1)
    given.x = data.x + 1
    with pytest.warns(UserWarning, match="of which GPU memory keeps rows were replaced.*make a new loader") as warned:
        assert all(torch.equal(batch.x.cpu(), data.x[batch.n_id.cpu()] + 1) for batch in loader)
    assert [w.filename for w in warned if "replaced" in str(w.message)] == [__file__]


def test_lists_in_a_cache_are_read_until_options_change(data):
    data.x = hl.UnifiedTensor.from_tensor(data.x)
    loader = loader_of(data, cache="auto")
    loader._wanted = Wanted("auto", 40_000)  # as on a GPU
    loader._fill(40_000)
    held = loader._sampler._engine().lists.held
    next(iter(loader))
    assert loader._sampler._engine().lists.held == held > 0
    loader.node_sampler.num_neighbors = [-1]
    assert all(len(batch.num_sampled_nodes) == 2 for batch in loader)
    assert loader._sampler._engine().lists.held == 0


def test_warnings_name_the_callers_line(data):
    with pytest.warns(UserWarning) as warned:
        loader_of(data, num_workers=2)
        loader_of(data, directed=False)
        Sampler(data, [2], directed=False)
    assert [str(w.message).split()[0] for w in warned] == ["num_workers=2", "directed=False", "directed=False"]
    assert {w.filename for w in warned} == {__file__}


def test_contexts_for_workers(data, monkeypatch):
    """There are no workers, so they change nothing; PyG's programs run as they are."""
    monkeypatch.setattr(multiprocessing, "get_context", partial(multiprocessing.get_context, "spawn"))  # PyG insists on it
    with pytest.warns(UserWarning, match="num_workers=2 starts no processes"):
        loader = loader_of(data, num_workers=2, worker_init_fn=print)
    assert loader.num_workers == 2
    with loader.enable_cpu_affinity([0, 1]):
        one = list(loader)
    with loader.enable_multithreading(2), loader.enable_memory_log():
        other = list(loader)
    assert len(one) == len(other) == 6 and torch.equal(one[5].x, data.x[one[5].n_id])


def same_epoch(one, other):
    """Both loaders draw the same batches."""
    batches = []
    for loader in (one, other):
        torch.manual_seed(2)
        batches.append(list(loader))
    for a, b in zip(*batches, strict=True):
        assert torch.equal(a.n_id, b.n_id) and torch.equal(a.e_id, b.e_id) and torch.equal(a.x, b.x)


def backward(data, device):
    placement = "pageable" if device.type == "cpu" else "host"
    return Sampler(data, [2], sample_direction="backward", placement=placement, device=device)


MAKERS = {
    "nodes": lambda data, **options: NeighborLoader(data, [3], data.train_mask, weight_attr="weight", shuffle=True, **options),
    "links": lambda data, **options: LinkNeighborLoader(
        data, [3], neg_sampling="binary", batch_sampler=[[4, 2], [9]], **options
    ),
    "times": lambda data, **options: NeighborLoader(
        data, [2], time_attr="time", generator=torch.Generator().manual_seed(1), shuffle=True, drop_last=True, **options
    ),
    "backward": lambda data, device, **options: NeighborLoader(
        data, [2], neighbor_sampler=backward(data, device), device=device, **options
    ),
}
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda loader: pickle.loads(pickle.dumps(loader))}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", MAKERS)
def test_copies_of_loaders(data, kind, how, device):
    """The lists of neighbours lie in memory of one process."""
    options = {} if kind == "links" else {"batch_size": 32}
    loader = MAKERS[kind](data, device=device, **options)
    loader.data.y = loader.data.y + 1
    other = COPIES[how](loader)
    if kind == "times":
        loader.generator.manual_seed(1)
        other.generator.manual_seed(1)
    same_epoch(loader, other)
    own = other.data
    assert own is not data and own is getattr(other, other._sampler_name)._given.data
    if how == "deepcopy":
        own.x = own.x + 1
        batch = next(iter(other)).cpu()
        assert torch.equal(batch.x, data.x[batch.n_id] + 1)


def test_a_copy_shares_what_it_was_made_of(data):
    loader = loader_of(data)
    other = copy.copy(loader)
    assert other.data is data and other._parts is loader._parts
    sampler = copy.deepcopy(Sampler(data, [2, 1], disjoint=True, device="cpu"))
    assert sampler.num_neighbors == [2, 1] and sampler.disjoint and sampler.subgraph_type.value == "directional"


CHILD = """
import torch

def main(rank, loader, path):
    torch.manual_seed(7)
    torch.save([batch.n_id.cpu() for batch in loader], path)
"""


def test_a_spawned_process_takes_a_loader(data, device, tmp_path, monkeypatch):
    """As PyTorch Lightning's ddp_spawn has it."""
    (tmp_path / "child_with_a_loader.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    loader = NeighborLoader(data, [3, 2], batch_size=64, device=device, shuffle=True)
    main = importlib.import_module("child_with_a_loader").main
    multiprocessing.spawn(main, args=(loader, tmp_path / "nodes.pt"))
    torch.manual_seed(7)
    for found, batch in zip(torch.load(tmp_path / "nodes.pt"), loader, strict=True):
        assert torch.equal(found, batch.n_id.cpu())


def test_stores_are_copied(data):
    """Edges and features go along; to another process, features where they lie in memory that processes share."""
    graphs = GraphStore()
    graphs.put_edge_index(data.edge_index, edge_type=None, layout="coo", size=(300, 300))
    for placement in ("pinned", "pageable"):
        features = FeatureStore(placement)
        features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
        loader = NeighborLoader((features, graphs), [2], torch.arange(60), batch_size=20, device="cpu")
        same_epoch(loader, pickle.loads(pickle.dumps(loader)))
        if placement == "pinned":
            ForkingPickler.dumps(loader)
        else:
            with pytest.raises(ConfigError, match="belongs to one process; to share a table.*placement='pinned'"):
                ForkingPickler.dumps(loader)
