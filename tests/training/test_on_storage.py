"""Features and graphs that stay in their files: the same batches, and the same training, as from memory."""

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import datasets
from hinterland.runtime.errors import ConfigError
from hinterland.training import Loader, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "products"
    datasets.save(datasets.generate("products", scale=0.004, seed=1), path)
    return path


def test_training_is_the_same(folder, device):
    held = datasets.open(folder)
    stored = datasets.open(folder, placement="storage", host_budget="1MiB")
    assert isinstance(stored.features, hl.StorageArray)
    assert stored.graph.placement["indices"] == "storage" and stored.graph.placement["indptr"] != "storage"
    halves = 1 + torch.cuda.is_available()  # the other one is for the way to a GPU
    assert (
        stored.graph.neighbor_lists.caches == [stored.features.cache]
        and stored.features.cache.host_budget == (1 << 20) // halves
    )
    results = [train(ds, "sage", [5, 5], epochs=1, hidden=16, device=device, seed=3) for ds in (held, stored)]
    assert results[0].test["loss"] == pytest.approx(results[1].test["loss"], rel=1e-4)
    assert results[0].history[0]["loss"] == pytest.approx(results[1].history[0]["loss"], rel=1e-4)
    assert stored.features.stats().bytes_read > 0


@pytest.mark.parametrize("place", ["storage", {"features": "storage"}, {"graph": "storage"}, {"indices": "storage"}], ids=str)
def test_batches_are_the_same(folder, device, place):
    held, stored = datasets.open(folder), datasets.open(folder, placement=place, host_budget="256KiB")
    on_storage = (isinstance(stored.features, hl.StorageArray), stored.graph.placement["indices"] == "storage")
    assert on_storage == (place == "storage" or "features" in place, place != {"features": "storage"})
    loaders = [
        Loader(
            hl.sampling.NeighborSampler(ds.graph, [5, 5], device=device, seed=1),
            held.splits["train"],
            32,
            features=ds.features,
            device=device,
        )
        for ds in (held, stored)
    ]
    for one, other in zip(*loaders, strict=True):
        assert one.x.device == other.x.device and torch.equal(one.x, other.x)
        assert torch.equal(one.edge_index, other.edge_index) and torch.equal(one.sample.edge, other.sample.edge)


def test_pinsage_trains_on_a_graph_there(folder, device):
    losses = [
        train(datasets.open(folder, placement=place), "pinsage", [4, 4], epochs=1, hidden=8, device=device, seed=3).test["loss"]
        for place in ("host", "storage")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_several_types(tmp_path, device, monkeypatch):
    relations = {("paper", "cites", "paper"): 6000, ("author", "writes", "paper"): 4000, ("paper", "by", "author"): 4000}
    shape = datasets.Shape({"paper": 900, "author": 300}, {"paper": 8}, relations, (90, 30, 60), 3, target="paper")
    made = datasets.generate(shape, seed=1, device="cpu")
    datasets.save(made, tmp_path / "mag")
    with monkeypatch.context() as patched:
        patched.setattr(hl.StorageArray, "read_into", None)  # nothing is read whole
        stored = datasets.open(tmp_path / "mag", placement={"graph": "storage"}, host_budget="1MiB")
    assert all(graph.placement["indices"] == "storage" for graph in stored.graphs.values())
    assert len({id(graph.neighbor_lists.caches[0]) for graph in stored.graphs.values()}) == 1
    found = []
    for ds in (made, stored):
        lists = {
            kind: hl.sampling.Adjacency.of(graph, ds.num_vertices[kind[2]], ds.num_vertices[kind[0]])
            for kind, graph in ds.graphs.items()
        }
        sampler = hl.sampling.HeteroSampler(lists, [4, 3], seed=2, device=device)
        found.append(sampler.sample({"paper": made.splits["train"][:40]}))
    for kind in found[0].edge:
        assert torch.equal(found[0].edge[kind], found[1].edge[kind])
        assert len(found[0].edge[kind])
    datasets.save(stored, tmp_path / "again")  # a piece at a time
    for file in (tmp_path / "mag").glob("*.hl"):
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


def test_graphs_that_cannot_stay(folder, tmp_path):
    """Of original files the graph is built, and one that becomes another is."""
    ours = datasets.open(folder)
    path = tmp_path / "cora.npz"
    adjacency = ours.graph.to_scipy().tocsr()
    np.savez(
        path,
        **{f"adj_{name}": getattr(adjacency, name) for name in ("data", "indices", "indptr", "shape")},
        attr_data=np.ones(0, np.float32),
        attr_indices=np.zeros(0, np.int32),
        attr_indptr=np.zeros(ours.num_vertices + 1, np.int32),
        attr_shape=np.array([ours.num_vertices, 3]),
        labels=ours.labels.numpy(),
    )
    remedy = "hinterland dataset convert makes a folder whose graph can be read in place"
    with pytest.raises(ConfigError, match=f"its graph cannot stay there, since its edges are no .hl file; {remedy}"):
        datasets.open(path, placement={"graph": "storage"})
    directed = datasets.generate("papers100M", scale=2e-5, seed=1)
    datasets.save(directed, tmp_path / "papers")
    with pytest.raises(ConfigError, match="since symmetrize=True makes another graph of it"):
        datasets.open(tmp_path / "papers", placement={"graph": "storage"}, symmetrize=True)
    with pytest.warns(UserWarning, match="the graph is read into host memory, since symmetrize=True"):
        both_ways = datasets.open(tmp_path / "papers", placement="storage", symmetrize=True)
    assert not both_ways.graph.directed and "storage" not in both_ways.graph.placement.values()
    with pytest.raises(ConfigError, match="offsets are read all the time"):
        datasets.open(folder, placement={"indptr": "storage"})


def test_a_graph_of_one_component_is_made_in_memory(folder):
    stored = datasets.open(folder, placement="storage")
    part, whole = datasets.largest_component(stored), datasets.largest_component(datasets.open(folder))
    assert torch.equal(part.graph.indices, whole.graph.indices) and torch.equal(part.features.cpu(), whole.features.cpu())


def test_pyg_reads_it(folder, device):
    pyg = pytest.importorskip("torch_geometric")
    from hinterland.pyg import NeighborLoader

    held = datasets.open(folder)
    indptr, indices, _ = held.graph.checked_rows()
    targets = torch.repeat_interleave(indptr.diff())
    data = pyg.data.Data(edge_index=torch.stack([indices.long(), targets]), num_nodes=held.num_vertices)
    data.x = datasets.open(folder, placement={"features": "storage"}).features
    loader = NeighborLoader(data, [5, 5], input_nodes=held.splits["train"][:64], batch_size=32, device=device)
    x = held.features.cpu()
    for batch in loader:
        assert torch.equal(batch.x.cpu(), x[batch.n_id.cpu()])


def test_pyg_samples_a_graph_there(folder, device, monkeypatch):
    pytest.importorskip("torch_geometric")
    from hinterland.pyg import FeatureStore, GraphStore, NeighborLoader

    held, stored = datasets.open(folder), datasets.open(folder, placement="storage", host_budget="1MiB")
    monkeypatch.setattr(hl.StorageArray, "read_into", None)  # nothing is read whole
    batches = []
    for ds in (held, stored):
        features, graphs = FeatureStore(), GraphStore()
        features.put_tensor(ds.features, group_name=None, attr_name="x", index=None)
        graphs.put_edge_index(ds.graph, edge_type=None, layout="csc")
        torch.manual_seed(3)
        seeds = held.splits["train"][:64]
        batches.append(list(NeighborLoader((features, graphs), [5, 5], input_nodes=seeds, batch_size=32, device=device)))
    for one, other in zip(*batches, strict=True):
        assert torch.equal(one.n_id, other.n_id) and torch.equal(one.edge_index, other.edge_index)
        assert torch.equal(one.x.cpu(), other.x.cpu())


def test_no_cache_is_planned_over_a_graph_there(folder):
    stored = datasets.open(folder, placement={"graph": "storage"})
    sampler = hl.sampling.NeighborSampler(stored.graph, [5], device="cpu")
    for policy in ("auto", "features", "clock"):
        with pytest.raises(ConfigError, match="a graph on storage has a cache of its own"):
            Loader(sampler, torch.arange(10), 5, features=stored.features, cache=policy, gpu_budget="1MiB", device="cpu")


def test_a_cache_of_a_gpu_is_not_for_it_yet(folder):
    with pytest.raises(ConfigError, match="plan_cache|UnifiedTensor"):
        Loader(
            hl.sampling.NeighborSampler(datasets.open(folder).graph, [5], device="cpu"),
            torch.arange(10),
            5,
            features=datasets.open(folder, placement="storage").features,
            cache="features",
            gpu_budget="1MiB",
            device="cpu",
        )
