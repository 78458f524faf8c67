"""The watch over stages: who is named when nothing comes, and who is not."""

from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace

import pytest

from hinterland.runtime import watch as watches
from hinterland.runtime.errors import PipelineStalled
from hinterland.runtime.watch import StageWork, Watch


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds, which passes when a test says so."""
    now = [100.0]
    monkeypatch.setattr(watches, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def working():
    """Starts threads that work on an item of a stage until the test ends."""
    ends, threads = threading.Event(), []

    def begin(watch, stage, number):
        begun = threading.Event()

        def work():
            with watch.over(stage, number):
                begun.set()
                ends.wait(20)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        assert begun.wait(20)

    yield begin
    ends.set()
    for thread in threads:
        thread.join()


def test_who_has_worked_longest_is_named(clock, working):
    watch = Watch(5, "batch")
    clock[0] += 1
    working(watch, "'gather' on cuda:1", 7)
    clock[0] += 1
    working(watch, "'train' on cuda:0", 3)
    watch.look()
    clock[0] += 3
    said = "^stage 'gather' on cuda:1 has worked on batch 7 for 4 s, and no batch came for 5 s in all; raise timeout="
    with pytest.raises(PipelineStalled, match=said) as caught:
        watch.look()
    assert isinstance(caught.value, TimeoutError)


def test_where_nobody_works_the_source_is_named(clock):
    watch = Watch(0.5)
    with watch.over("'sample'", 0):
        pass
    with pytest.raises(ZeroDivisionError), watch.over("'sample'", 1):
        raise ZeroDivisionError
    clock[0] += 1
    with pytest.raises(PipelineStalled, match="^no item came for 0.5 s although no stage works on one; the source may wait"):
        watch.look()


def test_an_item_begins_the_wait_anew(clock):
    watch = Watch(2)
    for _ in range(5):
        clock[0] += 1.5
        watch.look()
        watch.came()
    clock[0] += 2
    with pytest.raises(PipelineStalled):
        watch.look()


def test_a_watch_that_waits_for_ever(clock):
    watch = Watch(math.inf)
    clock[0] += 1e12
    watch.look()
    assert 0 < watch.glance < 1 and Watch(0.01).glance == 0.01


def test_work_is_timed(clock):
    with Watch(1).over("'sample'", 0) as work:
        clock[0] += 3
    assert work.seconds == 3


@pytest.fixture
def told(monkeypatch):
    """What the watch says beside a consumer, and how often it takes that back."""
    said = []
    monkeypatch.setattr(watches, "on_stuck", lambda sentence: said.append(sentence) or (lambda: said.append("undone")))
    return said


def waited_for(count, said):
    deadline = time.monotonic() + 20
    while len(said) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return said


def test_what_follows_an_item_and_does_not_end_is_told_beside_the_consumer(told):
    reached, watch = threading.Event(), Watch(0.3, "batch")
    with watch.beside(lambda: reached.is_set, "cuda:1"):
        watch.leaves()
        (said,) = waited_for(1, told)
        assert said.startswith("what was launched on cuda:1 with batch 0 or before it has run for ") and watch.stalled
        reached.set()  # it was slow, and no more
        assert waited_for(2, told)[1] == "undone"
    assert len(told) == 2 and not watch.stalled


def test_a_stage_on_the_device_is_named(told):
    watch = Watch(0.3, "batch", under_way=lambda: StageWork("'gather' on cuda:1", 7, time.monotonic() - 5))
    with watch.beside(lambda: lambda: False, "cuda:1"):
        watch.leaves()
        assert waited_for(1, told) == ["stage 'gather' on cuda:1 has worked on batch 7 for 5 s and does not end"]
    watch.came()
    time.sleep(0.35)
    with pytest.raises(PipelineStalled, match="^stage 'gather' on cuda:1 has worked on batch 7 for . s, and no batch came for"):
        watch.look()


def test_a_call_for_a_stage_that_does_not_return_is_told(told):
    watch = Watch(0.3)
    with watch.beside(lambda: None, "cuda:0"), watch.over("'sample'", 4):
        assert waited_for(1, told)[0] == "stage 'sample' has worked on item 4 for 0 s and does not return"


def test_what_goes_on_is_not_told_of(told):
    """Marks are reached, or none can be put, or the consumer looks by itself."""
    for mark, away in ((lambda: lambda: True, True), (lambda: None, True), (lambda: lambda: False, False)):
        watch = Watch(0.2)
        with watch.beside(mark, "cuda:0"):
            if away:
                watch.leaves()
            time.sleep(0.5)
        assert told == []
    with Watch(math.inf).beside(lambda: pytest.fail("nobody asks"), "cuda:0"):
        pass


def test_a_consumer_that_waits_is_told_of_what_was_launched_before(told):
    watch = Watch(0.4)
    with watch.beside(lambda: lambda: False, "cuda:0"):
        time.sleep(0.7)
        with pytest.raises(PipelineStalled, match="^what was launched on cuda:0 before the first item has run for . s, and no"):
            watch.look()


def test_a_device_that_fails_ends_the_watch_alone(told):
    def broken():
        raise RuntimeError("CUDA error")

    watch = Watch(0.2)
    with watch.beside(lambda: broken, "cuda:0"):
        watch.leaves()
        time.sleep(0.5)
    assert told == []
