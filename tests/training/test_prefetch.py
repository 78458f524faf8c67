"""Stages launched ahead by one thread: what a pipeline does, without its threads."""

from __future__ import annotations

import threading

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import IndexOutOfRange, PipelineStalled
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader, Stage
from hinterland.training.prefetch import Prefetcher

from .test_pipeline import stages

CPU = torch.device("cpu")


def test_later_items_are_begun_before_one_is_handed_out():
    done, threads = [], threading.active_count()
    works = [lambda i, stage=stage: (done.append((stage, i)), i)[1] for stage in "ab"]
    items = iter(Prefetcher(range(10), stages(*works), CPU, depth=2))
    assert next(items) == 0
    assert done == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("a", 2), ("a", 3)]
    assert next(items) == 1
    assert done[6:] == [("b", 2), ("a", 4)]  # the later stage first
    assert list(items) == list(range(2, 10))
    assert threading.active_count() <= threads


class Slow:
    """An item that the GPU is done with after some looks, or never."""

    def __init__(self, number, looks):
        self.number, self.looks = number, looks

    def is_ready(self):
        self.looks -= 1
        return self.looks < 0


def test_an_item_is_taken_when_it_is_ready():
    works = (lambda i: Slow(i, looks=3), lambda slow: (slow.number, slow.looks))
    assert list(Prefetcher(range(4), stages(*works), CPU)) == [(i, -1) for i in range(4)]


def test_an_item_that_never_gets_ready_names_its_stage():
    works = [Stage("sample", lambda i: Slow(i, 10**9 if i == 2 else 0)), Stage("gather", lambda slow: slow.number)]
    got = []
    with pytest.raises(PipelineStalled, match=r"stage 'sample' has worked on item .* for 0.2 s .* raise timeout="):
        for item in Prefetcher(range(10), works, CPU, timeout=0.2):
            got.append(item)
    assert got == [0, 1]


@pytest.fixture(scope="module")
def graph():
    return hl.generate("kronecker", scale=10, edge_factor=8, seed=1, placement="host")


def batches(graph, device, features, labels=None, made=None, **options):
    sampler = NeighborSampler(graph, [5, 3], seed=2, device=device)
    loader = Loader(
        sampler, torch.arange(0, graph.num_vertices, 3), 64, features=features, labels=labels, device=device, **options
    )
    if made is not None:
        loader._only_launches = lambda: made
    return loader


@pytest.mark.gpu
@pytest.mark.parametrize("table", ["host", "tiered", "gpu", None])
def test_batches_are_those_of_the_pipeline(graph, table):
    rows = torch.randn(graph.num_vertices, 20)
    host = hl.UnifiedTensor.from_tensor(rows)
    features = {"host": host, "tiered": host.tiered(local="8KiB"), "gpu": rows.cuda(), None: None}[table]
    labels = torch.arange(graph.num_vertices)
    one, other = (batches(graph, "cuda", features, labels, made, shuffle=True) for made in (None, False))
    assert one._only_launches() and not other._only_launches()
    for _ in range(2):
        count = 0
        for mine, theirs in zip(one, other, strict=True):
            for name in ("node", "row", "col", "edge"):
                assert torch.equal(getattr(mine.sample, name), getattr(theirs.sample, name))
            assert torch.equal(mine.y, theirs.y) and torch.equal(mine.seeds, theirs.seeds)
            if table is not None:
                assert torch.equal(mine.x.cpu(), rows[mine.sample.node.cpu()])
            mine.sample.node.fill_(-1)  # and freed: nothing may still be read from it
            count += 1
        assert count == len(one)
    assert all(stage.seconds > 0 and stage.items == 2 * len(one) for stage in one.stages)


@pytest.mark.gpu
def test_a_stage_that_raises_leaves_nothing_under_way():
    device, streams = torch.device("cuda", torch.cuda.current_device()), []

    def breaks(item):
        streams.append(torch.cuda.current_stream(device))
        torch.cuda._sleep(10**8)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(Prefetcher(range(3), stages(lambda i: i, breaks), device))
    assert streams[0].query()


def test_items_that_were_begun_in_inference_mode_can_be_trained_on():
    items = iter(Prefetcher(range(4), stages(lambda i: torch.ones(3), lambda t: t * 2), CPU))
    with torch.inference_mode():
        next(items)
    assert not any(tensor.is_inference() for tensor in items)


def test_what_is_launched_ahead(graph):
    def is_ahead(fanouts, features):
        sampler = NeighborSampler(graph, fanouts, device="cpu")
        loader = Loader(sampler, torch.arange(10), 5, features=features, device="cpu")
        loader.device = torch.device("cuda:0")  # is not touched: no batch is made
        return loader._only_launches()

    table = hl.UnifiedTensor.from_tensor(torch.zeros(graph.num_vertices, 3))
    assert is_ahead([5, 3], table) and is_ahead([5, 3], None)
    assert not is_ahead([5, -1], table)  # taken hop by hop
    assert not is_ahead([5, 3], torch.zeros(graph.num_vertices, 3))  # on the CPU
    assert not is_ahead([5, 3], hl.UnifiedTensor.from_tensor(torch.zeros(10, 3)))  # of fewer rows than there are vertices


@pytest.mark.gpu
def test_begun_samples_are_the_samples(graph):
    sampler = NeighborSampler(graph, [5, 3], seed=2, device="cuda")
    seeds = torch.arange(200, device="cuda")
    begun = [sampler.begin(seeds, batch) for batch in range(4)]
    for batch, one in enumerate(begun):
        assert torch.equal(one.finish().node, sampler.sample(seeds, batch).node)
        assert one.is_ready()


@pytest.mark.gpu
def test_bad_seeds_and_short_tables_are_found(graph):
    with pytest.raises(IndexOutOfRange, match=f"seed {graph.num_vertices} at position 5 is no vertex"):
        loader = batches(graph, "cuda", None)
        loader.seeds[69] = graph.num_vertices
        list(loader)
    met = NeighborSampler(graph, [-1], device="cpu").sample(torch.arange(10)).node
    last = int(met.max())  # is met, but no seed
    short = hl.UnifiedTensor.from_tensor(torch.randn(last, 3))
    sampler = NeighborSampler(graph, [-1], device="cuda")
    with pytest.raises(IndexOutOfRange, match=f"outside a table of {last} rows"):
        list(Loader(sampler, torch.arange(10), 5, features=short, device="cuda"))


def held_now():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # takes back what other streams are done with
    return torch.cuda.memory_allocated()


@pytest.mark.gpu
def test_an_epoch_that_is_left_early_leaves_nothing_behind(graph):
    table = hl.UnifiedTensor.from_tensor(torch.randn(graph.num_vertices, 64))
    for round in range(30):
        for i, batch in enumerate(batches(graph, "cuda", table, shuffle=True, seed=round)):
            assert torch.equal(batch.x[:64].cpu(), table[batch.seeds.cpu()])
            if i == round % 3:
                break
        del batch
        if round == 5:
            held = held_now()
    assert held_now() <= held
