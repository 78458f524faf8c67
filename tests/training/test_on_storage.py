"""Features that stay in their file: the same batches, and the same training, as from memory."""

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
from hinterland.training.epoch_line import epoch_line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "products"
    datasets.save(datasets.generate("products", scale=0.004, seed=1), path)
    return path


def test_training_is_the_same(folder, device):
    held = datasets.open(folder)
    stored = datasets.open(folder, placement="storage", host_budget="1MiB")
    assert isinstance(stored.features, hl.StorageArray) and stored.features.cache.host_budget == 1 << 20
    results = [train(ds, "sage", [5, 5], epochs=1, hidden=16, device=device, seed=3) for ds in (held, stored)]
    assert results[0].test["loss"] == pytest.approx(results[1].test["loss"], rel=1e-4)
    assert results[0].history[0]["loss"] == pytest.approx(results[1].history[0]["loss"], rel=1e-4)
    assert stored.features.stats().bytes_read > 0


def test_batches_are_the_same(folder, device):
    held = datasets.open(folder)
    stored = datasets.open(folder, placement={"features": "storage"})
    sampler = hl.sampling.NeighborSampler(held.graph, [5, 5], device=device, seed=1)
    loaders = [Loader(sampler, held.splits["train"], 32, features=ds.features, device=device) for ds in (held, stored)]
    for one, other in zip(*loaders, strict=True):
        assert one.x.device == other.x.device and torch.equal(one.x, other.x)


def test_pyg_reads_it(folder, device):
    pyg = pytest.importorskip("torch_geometric")
    from hinterland.pyg import NeighborLoader

    held = datasets.open(folder)
    indptr, indices, _ = held.graph.checked_rows()
    targets = torch.repeat_interleave(indptr.diff())
    data = pyg.data.Data(edge_index=torch.stack([indices.long(), targets]), num_nodes=held.num_vertices)
    data.x = datasets.open(folder, placement="storage").features
    loader = NeighborLoader(data, [5, 5], input_nodes=held.splits["train"][:64], batch_size=32, device=device)
    x = held.features.cpu()
    for batch in loader:
        assert torch.equal(batch.x.cpu(), x[batch.n_id.cpu()])


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
    from hinterland.pyg.given import Given
    from hinterland.pyg.readable import readable

    data = pyg.data.Data(edge_index=torch.randint(0, 50, (2, 300)), num_nodes=50)
    np.save(folder.with_name("x.npy"), np.random.default_rng(1).random((50, 9), dtype=np.float32))
    data.x = hl.StorageArray.open(folder.with_name("x.npy"))
    found = widest(readable(Given(data), torch.device("cpu"), "host"), {None: 50})
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
    loader = NeighborLoader(data, [3, 2], batch_size=32, cache=cache, gpu_budget=100 * 36 + 2048, device="cuda")
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
