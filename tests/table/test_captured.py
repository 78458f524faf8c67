"""Gathers, bags and samples that are part of a CUDA graph: the first time, by default arguments, on any stream."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland import memory
from hinterland.runtime.errors import ConfigError, IndexOutOfRange
from hinterland.training import SparseAdagrad, SparseSGD, UnifiedEmbeddingBag

from ..split import across_boundary
from .far_rows import FarRows

pytestmark = pytest.mark.gpu
ROWS, TAKEN = 4000, 3000
KINDS = ["managed", "pinned", "split", "tiered", "renumbered", "cached", "all cached", "storage", "stored tiers", "host tiers"]


def table_of(kind: str, source: torch.Tensor, folder):
    """A table of a kind with the rows of ``source``."""
    if kind in ("managed", "pinned"):
        return hl.UnifiedTensor.from_tensor(source, kind)
    if kind == "split":
        return across_boundary(source)
    row, scores = source[0].nbytes, torch.rand(len(source))
    if "stor" in kind or kind == "host tiers":
        np.save(folder / "x.npy", source.numpy())
        file = hl.StorageArray.open(folder / "x.npy", host_budget="1MiB")
        if kind == "storage":
            return file
        local = None if kind == "host tiers" else 700 * row + 4 * len(source)
        return file.tiered(local=local, host=900 * row, scores=scores)
    table = hl.UnifiedTensor.from_tensor(source)
    if kind == "tiered":
        return table.tiered(local=1000 * row)
    if kind == "renumbered":
        return table.tiered(local=1000 * row + 4 * len(source), scores=scores)
    return table.cached((500 if kind == "cached" else len(source)) * (row + 9) + 4 * len(source) + 4096)


def captured(call: Callable[[], object], stream: torch.cuda.Stream | None = None) -> tuple[torch.cuda.CUDAGraph, object]:
    """A graph of what ``call`` launches, and what it gave."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        given = call()
    return graph, given


@pytest.fixture(autouse=True)
def told():
    """Faults are told by the test that makes them."""
    yield
    memory.synchronize()


@pytest.mark.parametrize(("width", "dtype"), [(33, torch.int32), (128, torch.int64)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_table(kind, width, dtype, tmp_path, gpu):
    source = torch.randn(ROWS, width)
    table = table_of(kind, source, tmp_path)
    index = torch.zeros(TAKEN, dtype=dtype, device=gpu)
    made = []
    for how in ({}, {"check": "async"}, {"sort": True, "max_blocks": 3}, {"sort": False}):
        taken = functools.partial(table.gather, index, **how)
        made.append(captured(lambda taken=taken: (rows := taken(), rows * 2), torch.cuda.Stream()))
    for _ in range(3):
        wanted = torch.randint(-ROWS, ROWS, (TAKEN,))
        index.copy_(wanted)
        for graph, (rows, double) in made:
            graph.replay()
            assert torch.equal(rows.cpu(), source[wanted]) and torch.equal(double.cpu(), source[wanted] * 2)
    assert torch.equal(table[index].cpu(), source[wanted])  # not captured, on another stream
    table.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_row_is_told_once(kind, tmp_path, gpu):
    source = torch.randn(ROWS, 33)
    table, other = table_of(kind, source, tmp_path), hl.UnifiedTensor.from_tensor(source)
    index = torch.arange(300, device=gpu)
    graph, rows = captured(lambda: table[index])
    calls = (lambda: (other if table.file is None else table)[index], table.synchronize, table.synchronize)
    for turn, call in enumerate(calls):
        index[7] = ROWS
        graph.replay()
        torch.cuda.synchronize()
        index[7] = 3
        told = rf"index {ROWS} at position 7 .* {ROWS} rows.* \(in replay {1 + 2 * turn} of a CUDA graph\)"
        with pytest.raises(IndexOutOfRange, match=told):
            call()
        table.synchronize()
        assert not rows[7].any()
        graph.replay()
        assert torch.equal(other[index].cpu(), source[index.cpu()]) and torch.equal(rows[7].cpu(), source[3])
    table.close()


def test_scatters_and_two_graphs_of_a_table(gpu):
    source = torch.randn(ROWS, 64)
    table = hl.UnifiedTensor.from_tensor(source)
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    index, new = torch.arange(TAKEN, device=gpu), torch.randn(TAKEN, 64, device=gpu)
    writes, _ = captured(lambda: table.scatter_(index, new), streams[0])
    reads, rows = captured(lambda: table[index], streams[1])
    writes.replay()
    reads.replay()
    assert torch.equal(rows, new)
    bad = torch.full((5,), ROWS, device=gpu)
    graphs = [captured(lambda: table[bad], stream)[0] for stream in streams]
    torch.cuda.synchronize()
    for stream, graph in zip(streams, graphs, strict=True):
        with torch.cuda.stream(stream):
            graph.replay()
    with pytest.raises(IndexOutOfRange, match=r"10 such positions.*\(in replay 1 of a CUDA graph\)"):
        memory.synchronize()


def test_each_graph_counts_its_replays_on_each_of_its_streams(gpu):
    table = hl.UnifiedTensor.from_tensor(torch.randn(ROWS, 64))
    here, there = (torch.zeros(100, dtype=torch.int64, device=gpu) for _ in range(2))
    other = torch.cuda.Stream()

    def both():
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            found = table[there]
        rows = table[here], table[here]
        torch.cuda.current_stream().wait_stream(other)
        return rows, found

    forked, _ = captured(both)
    forked_again, _ = captured(both)
    for turn, index in ((1, None), (2, here), (3, there), (4, None), (5, there)):
        for one in (here, there):
            one.zero_()
            if one is index:
                one[turn] = -ROWS - 1
        forked.replay()
        if index is None:
            memory.synchronize()
            continue
        with pytest.raises(IndexOutOfRange, match=rf"index -4001 at position {turn} .*\(in replay {turn} of a CUDA graph\)"):
            memory.synchronize()
    forked_again.replay()
    with pytest.raises(IndexOutOfRange, match=r"position 5 .*\(in replay 1 of a CUDA graph\)"):
        memory.synchronize()


def test_a_file_is_asked_for_what_no_tier_holds(tmp_path, gpu):
    source = torch.randn(ROWS, 33)
    np.save(tmp_path / "x.npy", source.numpy())
    scores = torch.rand(ROWS)
    file = hl.StorageArray.open(tmp_path / "x.npy", host_budget="1MiB")
    table = file.tiered(local=300 * 132 + 4 * ROWS, host=900 * 132, scores=scores)
    order = scores.argsort(descending=True, stable=True).to(gpu)
    index = torch.zeros(500, dtype=torch.int64, device=gpu)
    graph, rows = captured(lambda: table[index])
    asked = []
    for far in (0, 1, 0):
        index.copy_(order[torch.randint(1000, (500,), device=gpu)])
        index[:far] = order[-1]
        torch.cuda.synchronize()
        before = file.stats()
        graph.replay()
        table.synchronize()
        after = file.stats()
        asked.append(after.hits + after.misses - before.hits - before.misses)
        assert torch.equal(rows.cpu(), source[index.cpu()])
    assert asked[0] == asked[2] == 0 < asked[1] <= 2
    table.close()


def test_replays_and_gathers_of_a_cached_table_take_turns(tmp_path, gpu):
    source = torch.randn(ROWS, 64)
    table = table_of("cached", source, tmp_path)
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    index = torch.zeros(TAKEN, dtype=torch.int64, device=gpu)
    graph, rows = captured(lambda: table[index], streams[0])
    found = []
    for _ in range(50):
        with torch.cuda.stream(streams[0]):
            index.random_(ROWS)
            graph.replay()
            found.append((index.clone(), rows.clone()))
        with torch.cuda.stream(streams[1]):
            other = torch.randint(ROWS, (TAKEN,), device=gpu)
            found.append((other, table.gather(other, check="async")))
    torch.cuda.synchronize()
    assert all(torch.equal(rows.cpu(), source[index.cpu()]) for index, rows in found)


def test_a_thread_captures(gpu):
    source = torch.randn(ROWS, 64)
    table = hl.UnifiedTensor.from_tensor(source).tiered(local=100 * 256)
    index, found = torch.zeros(TAKEN, dtype=torch.int64, device=gpu), []
    thread = threading.Thread(target=lambda: found.extend(captured(lambda: table[index], torch.cuda.Stream())))
    thread.start()
    thread.join()
    graph, rows = found
    index.random_(ROWS)
    graph.replay()
    assert torch.equal(rows.cpu(), source[index.cpu()])


_FIRST = """
import sys, torch, hinterland as hl
source = torch.randn(1000, int(sys.argv[1]))
table = hl.UnifiedTensor.from_tensor(source)
index = torch.zeros(70_000, dtype=torch.int64, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    rows = table.gather(index, sort={sort})
index.random_(1000)
graph.replay()
assert torch.equal(rows.cpu(), source[index.cpu()])
"""


@pytest.mark.parametrize(("width", "sort"), [(32, True), (33, False), (128, False)])
def test_the_first_call_of_a_process(width, sort, gpu):
    script = _FIRST.replace("{sort}", str(sort))
    done = subprocess.run([sys.executable, "-c", script, str(width)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-800:]


@pytest.mark.parametrize(
    ("kind", "mode"), [("managed", "reduce-overhead"), ("tiered", "reduce-overhead"), ("pinned", "default")]
)
def test_compiled(kind, mode, tmp_path, gpu):
    torch._dynamo.reset()
    source = torch.randn(100_000, 64)
    table = table_of(kind, source, tmp_path)
    taken = torch.compile(lambda index: table[index] * 2, fullgraph=True, mode=mode)
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        index = torch.randint(-len(table), len(table), (TAKEN,), device=gpu)
        assert torch.equal(taken(index).cpu(), source[index.cpu()] * 2)
    assert torch.cuda.memory_allocated() - before < table.nbytes // 2  # the table is not copied to where its graph is replayed
    torch._dynamo.reset()


def torch_bags(entries, source, offsets, mode):
    return torch.nn.functional.embedding_bag(entries.cpu(), source, offsets.cpu(), mode=mode, padding_idx=3)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode, gpu):
    source = torch.randn(ROWS, 24)
    bag = UnifiedEmbeddingBag.from_pretrained(source, mode=mode, padding_idx=3)
    entries, offsets = torch.zeros(TAKEN, dtype=torch.int64, device=gpu), torch.arange(0, TAKEN, 7, device=gpu)
    graph, bags = captured(lambda: bag(entries, offsets), torch.cuda.Stream())
    for _ in range(3):
        entries.random_(ROWS)
        graph.replay()
        torch.testing.assert_close(bags.cpu(), torch_bags(entries, source, offsets, mode))
    entries[9] = -1
    graph.replay()
    with pytest.raises(IndexOutOfRange, match=r"index -1 at position 9 .*\(in replay 4 of a CUDA graph\)"):
        memory.synchronize()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("kind", ["storage", "stored tiers", "host tiers"])
def test_bags_of_files(kind, mode, tmp_path, gpu):
    source = torch.randn(ROWS, 24)
    table = table_of(kind, source, tmp_path)
    bag = UnifiedEmbeddingBag.from_pretrained(table, mode=mode, padding_idx=3)
    entries, offsets = torch.zeros(TAKEN, dtype=torch.int64, device=gpu), torch.arange(0, TAKEN, 7, device=gpu)
    graph, bags = captured(lambda: bag(entries, offsets), torch.cuda.Stream())
    for _ in range(3):
        entries.random_(ROWS)
        entries[::5] = 3
        graph.replay()
        torch.testing.assert_close(bags.cpu(), torch_bags(entries, source, offsets, mode))
    for wrong in (-1, ROWS):
        entries[9] = wrong
        graph.replay()
        torch.cuda.synchronize()
        entries[9] = 5
        with pytest.raises(IndexOutOfRange, match=rf"index {wrong} at position 9 .* 0 to {ROWS - 1} \(in replay \d of a CUDA"):
            bag(entries, offsets)
        torch.testing.assert_close(bag(entries, offsets).cpu(), torch_bags(entries, source, offsets, mode))
    table.close()


def test_gradients_of_bags_of_files(tmp_path, gpu):
    """The backward pass is captured, and the step follows each replay."""
    source = torch.randn(200, 16)
    np.save(tmp_path / "x.npy", source.numpy())
    file = hl.StorageArray.open(tmp_path / "x.npy", "r+")
    bag = UnifiedEmbeddingBag.from_pretrained(file, freeze=False, mode="sum")
    theirs = torch.nn.EmbeddingBag.from_pretrained(source.clone(), freeze=False, mode="sum")
    mine, other = SparseSGD(bag.parameters(), lr=0.1), torch.optim.SGD(theirs.parameters(), lr=0.1)
    entries = torch.zeros(50, 4, dtype=torch.int64, device=gpu)
    weights = torch.rand(50, 4, device=gpu, requires_grad=True)
    torch.ones(1, device=gpu, requires_grad=True).square().sum().backward()  # torch starts its own threads
    graph, _ = captured(lambda: bag(entries, None, weights).square().sum().backward())
    for _ in range(2):
        entries.random_(200)
        graph.replay()
        mine.step()
        factors = weights.detach().cpu().requires_grad_()
        other.zero_grad()
        theirs(entries.cpu(), per_sample_weights=factors).square().sum().backward()
        other.step()
        torch.testing.assert_close(weights.grad.cpu(), factors.grad)
        torch.testing.assert_close(file[:], theirs.weight.detach())
    with pytest.raises(ConfigError, match="the CPU puts rows"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        entries.add_(0)
        mine.step()


@pytest.mark.parametrize("optimizer", [SparseSGD, SparseAdagrad])
def test_steps_of_bags(optimizer, gpu):
    """A whole step is one graph, and steps that are captured and others follow each other."""
    torch.manual_seed(5)
    source = torch.randn(200, 16)
    ours, theirs = (UnifiedEmbeddingBag.from_pretrained(source, freeze=False, mode="sum") for _ in range(2))
    entries = torch.zeros(60, 4, dtype=torch.int64, device=gpu)

    def step_of(bag, rate):
        bag(entries).square().sum().backward()
        rate.step()
        rate.zero_grad()

    mine, other = (optimizer(bag.parameters(), lr=0.01) for bag in (ours, theirs))
    torch.ones(1, device=gpu, requires_grad=True).square().sum().backward()  # torch starts its own threads
    graph, _ = captured(lambda: step_of(ours, mine))
    for turn in range(4):
        entries.random_(200)
        graph.replay() if turn % 2 == 0 else step_of(ours, mine)
        step_of(theirs, other)
    torch.testing.assert_close(ours.weight.cpu(), theirs.weight.cpu())


def test_what_a_graph_cannot_do(tmp_path, gpu):
    source = torch.randn(ROWS, 16)
    far = FarRows(source)
    index, bag = torch.arange(50, device=gpu), UnifiedEmbeddingBag.from_pretrained(far)
    table = hl.UnifiedTensor.from_tensor(source)
    for call, sentence in (
        (lambda: bag(index.view(5, 10)), "not gathered in a CUDA graph; gather them before it"),
        (lambda: table.gather(index, stats={}), "stats= cannot be filled while a CUDA graph is captured; leave it out"),
    ):
        with pytest.raises(ConfigError, match=sentence), torch.cuda.graph(torch.cuda.CUDAGraph()):
            index.add_(1)
            call()
    assert torch.equal(table[torch.arange(50, device=gpu)].cpu(), source[:50])
