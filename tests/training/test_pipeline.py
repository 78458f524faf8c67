"""The pipeline: order, overlap, bounds, errors, endings."""

from __future__ import annotations

import _thread
import threading
import time
import traceback

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hinterland.runtime.errors import ConfigError, PipelineStalled
from hinterland.training import Pipeline, Stage
from hinterland.training.pipeline import in_one
from hinterland.training.prefetch import Prefetcher

CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("every_thread_ends")


def stages(*works):
    return [Stage(f"stage {i}", work) for i, work in enumerate(works)]


@pytest.mark.parametrize("kind, depth", [(Pipeline, 3), (Prefetcher, 1), (Prefetcher, 3)])
def test_items_come_in_order(device, kind, depth):
    works = (lambda i: torch.full((1000,), i, device=device), lambda t: t * 2, lambda t: t + 1)
    pipeline = kind(range(50), stages(*works), device, depth=depth)
    for _ in range(2):  # may be iterated again
        sums = [tensor.sum() for tensor in pipeline]
        assert torch.stack(sums).tolist() == [1000 * (2 * i + 1) for i in range(50)]
    assert all(stage.items == 100 for stage in pipeline.stages)
    assert all(stage.seconds > 0 and len(stage.recent) > 1 for stage in pipeline.stages)


def test_stages_work_at_the_same_time():
    """Each stage waits until the other works on another item: alone, one after another, they would wait for ever."""
    meeting = threading.Barrier(2)
    works = (lambda i: (meeting.wait(10), i)[1] if i > 0 else i, lambda i: (meeting.wait(10), i)[1] if i < 4 else i)
    assert list(Pipeline(range(5), stages(*works), CPU)) == list(range(5))


def test_no_more_waits_than_there_is_room_for():
    made, lock = [], threading.Lock()

    def make(i):
        with lock:
            made.append(i)
        return i

    items = iter(Pipeline(range(100), stages(make, lambda i: i), CPU, depth=2))
    assert next(items) == 0
    time.sleep(0.3)
    # One was taken; 2 wait for the consumer, 1 is in the second stage, 2 wait between, 1 is in the first.
    assert len(made) <= 1 + 2 + 1 + 2 + 1
    assert list(items) == list(range(1, 100))


@pytest.mark.parametrize("kind", [Pipeline, Prefetcher])
@pytest.mark.parametrize("where", [0, 1, 2, "source"])
def test_what_a_stage_raises_arrives_with_its_traceback(kind, where):
    def breaks(i):
        if i == 3:
            raise ZeroDivisionError("the third is bad")
        return i

    def source():
        for i in range(10):
            yield breaks(i) if where == "source" else i

    works = [breaks if where == i else (lambda i: i) for i in range(3)]
    got = []
    with pytest.raises(ZeroDivisionError, match="the third is bad") as caught:
        for item in kind(source(), stages(*works), CPU):
            got.append(item)
    assert got == [0, 1, 2]  # what came before it arrives
    assert "breaks" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_a_stuck_stage_is_named():
    release = threading.Event()
    works = (lambda i: i, lambda i: release.wait(20) if i == 2 else i)
    pipeline = Pipeline(range(10), [Stage("sample", works[0]), Stage("gather", works[1])], CPU, timeout=0.4)
    got = []
    try:
        with pytest.raises(PipelineStalled, match=r"stage 'gather' has worked on item 2 for .* raise timeout="):
            for item in pipeline:
                got.append(item)
    finally:
        release.set()
    assert got == [0, 1]


def test_a_stuck_source_is_named():
    release = threading.Event()

    def source():
        yield 1
        release.wait(20)

    try:
        with pytest.raises(PipelineStalled, match="no stage works on one; the source may wait"):
            list(Pipeline(source(), stages(lambda i: i), CPU, timeout=0.3))
    finally:
        release.set()


def test_a_break_ends_the_threads():
    for item in Pipeline(iter(int, 1), stages(lambda i: i, lambda i: i), CPU):  # a source without end
        assert item == 0
        break


def test_ctrl_c_ends_it_while_a_stage_is_stuck(ctrl_c):
    release, finished = threading.Event(), []

    def stuck(i):
        release.wait(20)
        finished.append(i)

    threading.Timer(0.3, _thread.interrupt_main).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            list(Pipeline(range(10), stages(stuck), CPU))
        assert not finished
    finally:
        release.set()


def test_ctrl_c_while_the_threads_are_started(monkeypatch):
    start, started = threading.Thread.start, []

    def interrupted(self):
        if started:
            raise KeyboardInterrupt
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(Pipeline(range(10), stages(lambda i: i, lambda i: i), CPU))


def test_bad_options():
    with pytest.raises(ConfigError, match="depth=0 leaves no room"):
        Pipeline(range(3), stages(lambda i: i), CPU, depth=0)
    with pytest.raises(ConfigError, match="timeout=0 gives a stage no time"):
        Pipeline(range(3), stages(lambda i: i), CPU, timeout=0)


DTYPES = st.sampled_from([torch.int64, torch.float32, torch.bfloat16, torch.uint8, torch.bool])


@given(st.lists(st.tuples(DTYPES, st.lists(st.integers(0, 7), max_size=3)), max_size=6))
def test_tensors_in_one_allocation(kinds):
    """One copy of it moves all of them; each begins a line."""
    made = [(torch.rand(shape) * 200).to(dtype) for dtype, shape in kinds]
    item = {"all": made, "none": None, "number": 3}
    memory, places = in_one(item, CPU)
    assert places["none"] is None and places["number"] == 3 and not memory.any()
    for place, one in zip(places["all"], made, strict=True):
        assert place.shape == one.shape and place.dtype == one.dtype and place.storage_offset() * one.itemsize % 128 == 0
        place.copy_(one)
    other, copies = in_one(item, CPU)
    other.copy_(memory)
    assert all(torch.equal(copy, one) for copy, one in zip(copies["all"], made, strict=True))


@pytest.mark.gpu
def test_streams_wait_for_each_other():
    """The first stage's kernel is still running when its item is handed on."""
    gpu = torch.device("cuda:0")

    def slow(i):
        torch.cuda._sleep(20_000_000)
        return torch.full((1 << 20,), float(i), device=gpu)

    pipeline = Pipeline(range(20), stages(slow, lambda t: t + 1), gpu)
    for i, tensor in enumerate(pipeline):
        assert torch.equal(tensor, torch.full_like(tensor, i + 1.0))
        tensor.fill_(-1)  # and freed at once: nobody may reuse the memory before this is done
