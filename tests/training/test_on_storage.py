"""Features and graphs that stay in their files: the same batches, and the same training, as from memory."""

import dataclasses
import gc
import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import datasets
from hinterland.memory.plan import fetch_rate
from hinterland.runtime.errors import ConfigError
from hinterland.training import Loader, checkpoint, train
from hinterland.training.cache_costs import Costs
from hinterland.training.epoch_line import epoch_line

from .cache_cases import same_batches


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
        stored.graph.neighbor_lists.stored.caches == [stored.features.cache]
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
    assert same_batches(loader(held, device), loader(stored, device))


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
    assert len({id(graph.neighbor_lists.stored.caches[0]) for graph in stored.graphs.values()}) == 1
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


@pytest.fixture
def opened(folder):
    """The data set in memory, and with its features in their file, behind a cache of 64 pages."""
    return datasets.open(folder), datasets.open(folder, placement="storage", host_budget="300KiB")


def loader(data, device, **options):
    sampler = hl.sampling.NeighborSampler(data.graph, [5, 5], device=device, seed=1)
    return Loader(sampler, data.splits["train"], 32, features=data.features, labels=data.labels, device=device, **options)


@pytest.mark.parametrize("cache", ["auto", "features", "degree", None])
def test_hot_rows_lie_in_gpu_memory(opened, device, cache):
    """Batches stay the same, less is read, and what was served from where is counted."""
    held, stored = opened
    budget = held.features.nbytes // 2 + held.graph.lists.nbytes // 4
    plain = loader(stored, device)
    batches = [(batch.x.clone(), batch.y.clone(), batch.sample.node.clone()) for batch in plain]
    before = plain.storage
    ours = loader(stored, device, cache=cache, gpu_budget=budget)
    assert isinstance(ours.features, hl.TieredTensor) and ours.cache_plan.policy == (cache or "auto")
    costs, array = ours.cache_plan.costs, stored.features
    assert 0 < ours.cache_plan.held_bytes <= budget and "rows of a disk" in costs.source
    assert costs.row_host == 1 / fetch_rate(array.row_bytes, array.line_bytes)[0]
    filled, rows = ours.storage, held.features.cpu()
    for batch, (x, y, node) in zip(ours, batches, strict=True):
        assert torch.equal(batch.x, x) and torch.equal(batch.y, y) and torch.equal(batch.sample.node, node)
        assert torch.equal(x.cpu(), rows[node.cpu()])
        if batch.served is not None:
            counted = ours.features.count(node).rows
            assert (batch.served.local, batch.served.storage) == (counted["local"], counted["storage"])
            assert batch.served.local > 0 and batch.served.host == 0
    moved, without = ours.storage.since(filled), before
    assert 0 < moved.hits + moved.misses < without.hits + without.misses and moved.cpu_seconds > 0


def test_training_says_what_storage_gave(opened, device):
    held, stored = (dataclasses.replace(data, splits={"train": data.splits["train"]}) for data in opened)
    options = {"epochs": 2, "hidden": 16, "device": device, "seed": 3, "batch_size": 128}
    plain = train(held, "sage", [5, 5], **options)
    found = train(stored, "sage", [5, 5], gpu_budget=held.features.nbytes // 2, **options)
    assert found.cache.policy == "auto"
    for epoch, other in zip(found.history, plain.history, strict=True):
        assert other["storage"] is None and "storage" not in other["served"]["rows"]
        assert epoch["loss"] == pytest.approx(other["loss"], rel=1e-4)
        shares, moved = epoch["served"]["rows"], epoch["storage"]
        assert 0 < shares["local"] < 1 and shares["storage"] == pytest.approx(1 - shares["local"])
        assert 0 < moved["bytes"] <= 4096 * moved["requests"] and moved["hits"] > 0 and moved["misses"] > 0
        assert moved["cpu_us_per_request"] == pytest.approx(moved["cpu_seconds"] * 1e6 / moved["requests"])
        line = epoch_line(epoch)
        assert (
            f"in {moved['requests']:,} requests" in line
            and "us of a CPU for each" in line
            and "storage" not in epoch_line(other)
        )


def test_several_devices_read_one_file(opened):
    held, stored = (dataclasses.replace(data, splits={"train": data.splits["train"]}) for data in opened)
    options = {"epochs": 1, "hidden": 8, "seed": 3, "batch_size": 128, "devices": ["cpu", "cpu"]}
    found, plain = (train(data, "sage", [5], **options).history[0] for data in (stored, held))
    assert found["loss"] == pytest.approx(plain["loss"], rel=1e-4) and found["storage"]["bytes"] > 0


def test_a_checkpoint_keeps_the_counts_of_its_epoch(opened, tmp_path):
    stored = dataclasses.replace(opened[1], splits={"train": opened[1].splits["train"]})
    options = {"epochs": 1, "hidden": 8, "device": "cpu", "seed": 3, "batch_size": 64}

    def pages(found):
        moved = found.history[0]["storage"]
        return moved["hits"] + moved["misses"]

    whole = pages(train(stored, "sage", [5], **options))
    assert pages(train(stored, "sage", [5], checkpoint=tmp_path / "a.pt", checkpoint_every=2, **options)) == whole
    saved = []

    def stop(path, state):
        saved.append(state["totals"]["storage"]["reads"])
        save(path, state)
        if len(saved) == 2:
            raise KeyboardInterrupt

    save = checkpoint.save
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkpoint, "save", stop)
        train(stored, "sage", [5], checkpoint=tmp_path / "c.pt", checkpoint_every=2, **options)
    resumed = train(stored, "sage", [5], checkpoint=tmp_path / "c.pt", resume=True, **options)
    assert 0 < saved[0] < saved[1] < resumed.history[0]["storage"]["requests"] and pages(resumed) >= whole


def test_rows_on_storage_are_not_launched_ahead(opened):
    """The thread that trains does not wait for a disk: a thread beside it does."""
    _, stored = opened
    for features in (stored.features, stored.features.tiered(host="10KiB")):
        made = loader(stored, "cpu")
        made.features, made.device = features, torch.device("cuda:0")  # is not touched: no batch is made
        assert not made._only_launches()


def test_rows_of_later_batches_are_read_while_one_trains(opened, every_thread_ends):
    _, stored = opened
    batches = iter(loader(stored, "cpu", prefetch=2))
    next(batches)
    asked, deadline = stored.features.stats(), time.monotonic() + 20
    while time.monotonic() < deadline:  # as long as the first one would train
        now = stored.features.stats()
        if now.hits + now.misses > asked.hits + asked.misses:
            break
        time.sleep(0.01)
    else:
        pytest.fail("nothing is gathered beside training")
    batches.close()


def held_by_process():
    """Open files, threads of any kind, and resident bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("gpu_budget", [None, "1MiB"])
def test_an_epoch_that_is_left_early_leaves_nothing_behind(folder, opened, device, gpu_budget, every_thread_ends):
    held = None
    for turn in range(25):
        features = hl.StorageArray.open(folder / "features.npy", host_budget="4MiB")
        made = loader(dataclasses.replace(opened[0], features=features), device, gpu_budget=gpu_budget)
        batches = iter(made)
        features.prefetch(torch.arange(len(features)))  # and a step that asks ahead is abandoned
        for _ in range(turn % 3):
            next(batches)
        del batches, made, features
        if turn == 5:
            held = held_by_process()
    files, threads, resident = held_by_process()
    assert files <= held[0] and threads <= held[1]
    assert resident <= held[2] + (16 << 20)  # of the 80 MiB of 20 caches


@pytest.mark.parametrize("compressed", [False, True])
def test_a_cache_beside_a_graph_on_storage_is_for_rows(folder, device, tmp_path, monkeypatch, compressed):
    """No lists are planned, and none is read whole; also of fanouts alone."""
    held = datasets.open(folder)
    graph = hl.compress(held.graph) if compressed else held.graph
    hl.save_graph(graph, tmp_path / "g.hl")
    graph = hl.load_graph(tmp_path / "g.hl", "storage", host_budget="256KiB")
    monkeypatch.setattr(hl.StorageArray, "read_into", None)
    sampler = hl.sampling.NeighborSampler(graph, [5, 5], device=device, seed=1)
    budget = held.features.nbytes // 2
    costs = Costs(6e-9, 1e-9, 5e-9, 2e-10, 5e-9, 2e-10)  # rows so few take as long from anywhere as a launch does
    for given in (sampler, [5, 5]):
        plan = hl.training.plan_cache(graph, held.features, given, held.splits["train"], 32, budget, costs=costs)
        assert plan.split.rows and not plan.split.pages and not plan.split.offsets and not plan.split.whole
        assert plan.held_bytes <= budget and plan.predicted.edges == 0 and "read where they lie" in plan.explain()
    over, table = plan.apply()
    assert over.graph is graph and table.plan.local_rows == plan.split.rows
    ours = Loader(sampler, held.splits["train"], 32, features=held.features, device=device, cache="auto", gpu_budget=budget)
    plain = hl.sampling.NeighborSampler(held.graph, [5, 5], device=device, seed=1)
    assert same_batches(ours, Loader(plain, held.splits["train"], 32, features=held.features, device=device))


def test_what_is_not_for_features_on_storage(opened):
    _, stored = opened
    with pytest.raises(ConfigError, match="policy 'clock' is of features in host memory"):
        loader(stored, "cpu", cache="clock", gpu_budget="1MiB")
    with pytest.raises(ConfigError, match="features are a TieredStorage"):
        data = dataclasses.replace(stored, features=stored.features.tiered(host="10KiB"))
        loader(data, "cpu", cache="auto", gpu_budget="1MiB")


def test_pyg_keeps_hot_rows_of_it(folder):
    pyg = pytest.importorskip("torch_geometric")
    from hinterland.pyg import NeighborLoader
    from hinterland.pyg.cache import widest
    from hinterland.pyg.readable import readable
    from hinterland.pyg.user_data import UserData

    data = pyg.data.Data(edge_index=torch.randint(0, 50, (2, 300)), num_nodes=50)
    np.save(folder.with_name("x.npy"), np.random.default_rng(1).random((50, 9), dtype=np.float32))
    data.x = hl.StorageArray.open(folder.with_name("x.npy"))
    found = widest(readable(UserData(data), data, torch.device("cpu"), "host")[0], {None: 50})
    assert found[None].table is data.x
    with pytest.raises(ConfigError, match="put one into the data, as in data.x"):
        NeighborLoader(data, [2], placement="storage", device="cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("cache", ["auto", "presample"])
def test_pyg_keeps_hot_rows_of_it_in_gpu_memory(folder, tmp_path, cache):
    pyg = pytest.importorskip("torch_geometric")
    from hinterland.pyg import NeighborLoader

    x = torch.rand(300, 9)
    np.save(tmp_path / "x.npy", x.numpy())
    data = pyg.data.Data(edge_index=torch.randint(0, 300, (2, 3000)), num_nodes=300)
    data.x = hl.StorageArray.open(tmp_path / "x.npy")
    loader = NeighborLoader(data, [3, 2], batch_size=32, cache=cache, gpu_budget=220 * 36 + 2048, device="cuda")
    assert isinstance(loader._read.x.table, hl.TieredTensor) and loader._read.x.table.plan.local_rows
    for batch in loader:
        assert torch.equal(batch.x.cpu(), x[batch.n_id.cpu()])


@pytest.mark.gpu
def test_what_a_step_leaves_keeps_hot_rows(opened):
    """The cache is filled after the first batches, in whose epoch rows come from the file alone before."""
    held, stored = opened
    ours = loader(stored, "cuda:0", cache="features")
    rows = held.features.cpu()
    for _ in range(2):
        for batch in ours:
            assert torch.equal(batch.x.cpu(), rows[batch.sample.node.cpu()])
    assert ours.features.plan.local_rows == len(rows)
