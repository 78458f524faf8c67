"""The watch over stages: who is named when nothing comes, and who is not."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import pytest

from hinterland.runtime import watch as watches
from hinterland.runtime.errors import PipelineStalled
from hinterland.runtime.watch import Watch


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
