"""What users share between threads: eight of them on one object, and one that closes it."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import pytest
import torch

import hinterland as hl
from hinterland.graph.device_graph import DeviceGraph
from hinterland.memory import faults
from hinterland.runtime.errors import ConfigError
from hinterland.sampling import NeighborSampler, PinSAGESampler
from hinterland.training import Loader

from .together import THREADS, by_threads


@pytest.fixture(autouse=True)
def threads_interrupt_each_other():
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


@pytest.fixture(scope="module")
def graph():
    return hl.generate("kronecker", scale=9, edge_factor=8, seed=1, placement="host")


def test_threads_that_come_first_together_read_the_same_words(graph, monkeypatch):
    view, late, real = DeviceGraph(graph.neighbor_lists, torch.device("cpu")), threading.Event(), torch.tensor

    def slow(*args, **kwargs):
        late.wait(0.02)  # the others come meanwhile
        return real(*args, **kwargs)

    monkeypatch.setattr(torch, "tensor", slow)
    assert len(set(by_threads(lambda i: view.words))) == 1


@pytest.mark.parametrize("compressed", [False, True])
def test_searches_and_samples_on_one_prepared_graph(graph, device, compressed):
    graph = hl.compress(graph) if compressed else graph
    levels = [hl.bfs(graph, i, device="cpu").levels for i in range(THREADS)]
    labels = hl.connected_components(graph, device="cpu").labels
    alone = NeighborSampler(graph, [5, 3], seed=2, device="cpu")
    seeds = torch.arange(64)
    nodes = [alone.sample(seeds, i).node for i in range(THREADS)]
    for _ in range(5):
        prepared = hl.prepare(graph, device=device, algorithms=("bfs", "cc", "sampling"))
        sampler = NeighborSampler(prepared, [5, 3], seed=2)

        def work(i, prepared=prepared, sampler=sampler):
            search, parts = hl.bfs(prepared, i), hl.connected_components(prepared)
            assert torch.equal(search.levels.cpu(), levels[i]) and torch.equal(parts.labels.cpu(), labels)
            assert torch.equal(sampler.sample(seeds, i).node.cpu(), nodes[i])

        by_threads(work)


def test_threads_get_the_same_transpose(device):
    graph = hl.from_edges(*torch.randint(0, 500, (2, 4000)), num_vertices=500, directed=True)
    assert len({id(turned) for turned in by_threads(lambda i: graph.transpose())}) == 1
    graph = hl.reorder(graph, by="degree")
    expected = hl.pagerank(graph, device="cpu").scores
    for scores in by_threads(lambda i: hl.pagerank(graph, device=device).scores):
        torch.testing.assert_close(scores.cpu(), expected)


def runs(prepared, graph):
    sampler, pinsage = NeighborSampler(prepared, [5, 3]), PinSAGESampler(prepared, [3])
    seeds = torch.arange(32)
    return [
        lambda: hl.bfs(prepared, 3),
        lambda: hl.connected_components(prepared),
        lambda: hl.multi_source_bfs(prepared, [1, 2, 3]),
        lambda: sampler.sample(seeds),
        lambda: pinsage.sample(seeds),
        lambda: hl.sampling.negative_edges(prepared, 10, seed=1),
        lambda: prepared.explain(),
    ]


def test_closing_a_prepared_graph_under_runs(graph, device):
    """A run that has begun ends as always, and one that begins later is told."""
    graph = hl.compress(graph)
    for _ in range(4):
        prepared = hl.prepare(graph, device=device, algorithms=("bfs", "cc", "msbfs", "sampling"))
        calls, told = runs(prepared, graph), []

        def work(i, prepared=prepared, calls=calls, told=told):
            if i == 0:
                try:
                    calls[0]()
                finally:
                    prepared.close()  # the others wait for it
                return
            try:
                while calls[(i - 1) % len(calls)]() != "closed":
                    pass
                told.append(i)
            except ConfigError as error:
                assert "has been closed" in str(error)
                told.append(i)

        by_threads(work)
        assert sorted(told) == list(range(1, THREADS))
        for call in calls[:-1]:
            with pytest.raises(ConfigError, match="has been closed"):
                call()


def test_a_run_keeps_what_it_reads(graph):
    """Closed in the middle of a run, between what it looks up and what it reads."""
    prepared = hl.prepare(graph, device="cpu")
    run = prepared.opened()
    view = weakref.ref(prepared.out)
    prepared.close()
    gc.collect()
    assert view() is run.out and hl.bfs(run, 3).levels[3] == 0
    del run
    assert view() is None


@pytest.fixture(params=["unified", "tiered", "cached", "storage", "tiered storage"])
def table(request, device, tmp_path):
    """A table of rows i, i, ... and what closes it."""
    rows = torch.arange(4096.0)[:, None].expand(-1, 16).contiguous()
    if request.param.endswith("storage"):
        rows.numpy().tofile(tmp_path / "x.bin")
        file = hl.StorageArray.open(tmp_path / "x.bin", dtype=rows.dtype, shape=rows.shape, host_budget="64KiB")
        on_gpu = {"local": "64KiB", "devices": [device]}
        return file if request.param == "storage" else file.tiered(host="64KiB", order=torch.randperm(4096), **on_gpu)
    host = hl.UnifiedTensor.from_tensor(rows)
    if request.param == "tiered":
        return host.tiered(local="64KiB", order=torch.randperm(4096), devices=[device])
    return host.cached("96KiB", device) if request.param == "cached" else host


def test_gathers_from_one_table(table, device):
    def work(i):
        for turn in range(20):
            index = torch.randint(0, 4096, (3000,), generator=torch.Generator().manual_seed(100 * i + turn)).to(device)
            assert torch.equal(table[index][:, 3], index.float())

    by_threads(work)


def test_closing_a_table_under_gathers(table, device):
    if isinstance(table, hl.UnifiedTensor | hl.StorageArray):
        pytest.skip("is closed by letting it go, or when nobody reads it any more")
    index = torch.randint(0, 4096, (20000,)).to(device)

    def work(i):
        if i == 0:
            for _ in range(3):
                table[index]
            table.close()
            return
        with pytest.raises(ConfigError, match="has been closed"):
            while True:
                assert torch.equal(table[index][:, 3], index.float())

    by_threads(work)


def test_iterators_of_one_loader(graph, device):
    table = hl.UnifiedTensor.from_tensor(torch.arange(graph.num_vertices)[:, None].float())
    sampler = NeighborSampler(graph, [5, 3], seed=2, device=device)
    loader = Loader(sampler, torch.arange(200), 16, features=table, device=device)
    epoch = [batch.seeds.cpu() for batch in Loader(sampler, torch.arange(200), 16, device=device)]

    def work(i):
        mine = []
        for batch in iterators[i]:
            assert torch.equal(batch.x[:, 0].long(), batch.sample.node)
            mine.append(batch.seeds.cpu())
        return mine

    iterators = [iter(loader) for _ in range(4)]
    for seeds in by_threads(work, 4):
        assert seeds and all(map(torch.equal, seeds, epoch[-len(seeds) :]))  # to the epoch's end
    assert loader.position == (1, 0)
    assert len(list(loader)) == len(epoch)


@pytest.mark.parametrize("device_of", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_loader_that_is_left_does_not_wait_for_the_garbage_collector(graph, device_of):
    loader = Loader(NeighborSampler(graph, [5, 3], device=device_of), torch.arange(200), 16, device=device_of)
    left = weakref.ref(loader)
    gc.disable()
    try:
        batches = iter(loader)
        next(batches)
        del loader, batches
        assert left() is None
    finally:
        gc.enable()


class Watch(faults.FaultWatch):
    """A watch without a GPU."""

    def __init__(self, replayed=False):
        self.left, self.replayed = 1, replayed

    def raised(self):
        return self.left > 0

    def take(self):
        self.left -= 1
        return faults.out_of_range(5, 9, 8, 1)


def test_deferred_faults_are_kept_until_they_are_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda index: faults.defer(device, late))
    monkeypatch.setattr(faults, "_unchecked", {})
    device, watches, late = torch.device("cuda", 0), [Watch(), Watch()], Watch()
    for watch in watches:
        faults.defer(device, watch)
    for _ in range(3):  # also of a launch that another thread defers while this one waits
        with pytest.raises(hl.runtime.errors.IndexOutOfRange, match="index 9 at position 5"):
            faults.synchronize()
    faults.synchronize()


def test_faults_of_graphs_are_told_after_each_replay(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda index: None)
    monkeypatch.setattr(faults, "_unchecked", {})
    device, watch, once = torch.device("cuda", 0), Watch(replayed=True), Watch()
    once.left = 0
    for one in (watch, once):
        faults.defer(device, one)
    for call in (faults.synchronize, lambda: faults.raise_deferred(0)):
        with pytest.raises(hl.runtime.errors.IndexOutOfRange, match="index 9 at position 5"):
            call()
        call()  # it is told once
        watch.left = 1
    once.left = 1  # of a launch that was over: nothing asks for it again
    watch.left = 0
    faults.synchronize()
