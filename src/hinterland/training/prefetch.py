"""Stages whose work is launches on a GPU, run ahead of the model by the thread that trains it.

Every call of torch gives the interpreter's lock away and takes it again, so threads that launch beside the model delay each of
its launches (docs/notes/training-on-h200.md). A launch returns before its work is done. So one thread is enough: before a
batch is handed out, the rows of a later one are gathered and the neighbours of one after that are sampled, each stage on
a stream of its own (Min 2022, section 3.3.3), and the GPU runs them beside the model.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch

from ..memory.cuda import checked
from ..runtime.watch import Done, StageWork, Watch
from .pipeline import Pipeline, Stage, watching
from .trace import span

_NAP = 5e-5  # seconds between looks at the GPU


class Prefetcher(Pipeline):
    """A :class:`Pipeline` on a GPU whose stages only launch, without threads.

    A stage whose outcome the CPU must know before the next one can launch hands on an item with ``is_ready()``, which says
    whether the GPU is done with it. The wait for it ends after ``timeout`` seconds. ``Stage.seconds`` are the GPU's.

    Memory passes between streams without ``record_stream``, which makes the allocator ask the GPU about each tensor again and
    again: stages launch only while the caller waits here, and first have their streams wait for what it launched, so what it
    has let go is free; and what a stage takes is kept until it is done. A caller who hands items on to another thread or stream
    has to record them there (``Tensor.record_stream``).
    """

    def __iter__(self) -> Generator[Any]:
        source = iter(self.source)
        streamed = [StreamedStage(stage, stage_stream(self.device, number)) for number, stage in enumerate(self.stages)]
        begins, error = 0, None  # the first stage that goes on, and what ended the one before it
        watch = Watch(self.timeout, under_way=lambda: next(filter(None, map(StreamedStage.under_way, streamed)), None))
        with watching(watch, self.device), settling(streamed, watch):
            while True:
                caller = None if self.device.type == "cpu" else torch.cuda.current_stream(self.device)
                launched = None if caller is None else caller.record_event()
                for one in streamed:
                    one.follow(caller, launched)
                # The last stage first: what it takes was launched in an earlier round, and is done by now.
                for number in range(len(streamed) - 1, begins - 1, -1):
                    try:
                        while len(streamed[number].made) < self.depth and self._advance(number, streamed, source, watch):
                            pass
                    except Exception as raised:
                        begins, error = number + 1, raised
                        break
                if streamed[-1].made:
                    item, done = streamed[-1].made.popleft()
                    if caller is not None and done is not None:
                        caller.wait_event(done)
                    watch.leaves()
                    yield item
                    watch.came()
                elif not any(one.made for one in streamed[max(begins - 1, 0) :]):
                    break
            if error is not None:
                raise error

    def _advance(self, number: int, streamed: list[StreamedStage], source: Iterator[Any], watch: Watch) -> bool:
        """Launches a stage's work on the next item; False if there is none."""
        if number == 0:
            for item in source:
                streamed[0].launch(item, None, watch)
                return True
            return False
        before = streamed[number - 1]
        if not before.made:
            return False
        item, done = before.made[0]
        self._until_ready(item, before, watch)
        before.made.popleft()
        streamed[number].launch(item, done, watch)
        return True

    def _until_ready(self, item: Any, stage: StreamedStage, watch: Watch) -> None:
        is_ready = getattr(item, "is_ready", None)
        if is_ready is not None and not is_ready():
            watch.came()
            with nullcontext() if stage.stream is not None else watch.over(stage.name, stage.stage.items):
                wait_for(is_ready, watch)


def wait_for(done: Done, watch: Watch, nap: float = _NAP) -> None:
    """Waits until the GPU is done with something, as long as the watch lets it; between two looks for ``nap`` seconds."""
    while not done():
        watch.look()
        time.sleep(nap)


_abandoned: list[Any] = []  # what a GPU that does not end may still be reading: nobody gets its memory


@contextmanager
def settling(streamed: list[StreamedStage], watch: Watch) -> Iterator[None]:
    """In the end waits until the GPU is done with what it reads; not for one that is stuck already."""
    try:
        yield
    finally:
        watch.came()
        try:
            for one in streamed:
                one.count(None if watch.stalled else watch)
        finally:
            if watch.stalled:
                _abandoned.append(streamed)


def stage_stream(device: torch.device, number: int) -> torch.cuda.Stream | None:
    """The stream of a stage; None on the CPU."""
    if device.type == "cpu":
        return None
    return _own_stream(device, number, torch.cuda.current_stream(device).cuda_stream, threading.get_ident())


@functools.cache
def _own_stream(device: torch.device, number: int, caller: int, thread: int) -> torch.cuda.Stream:
    """A stream that nobody else launches on, for each that waits for it: torch's are shared, and so is memory that was let go
    there, whatever the others wait for. It stays, and what the allocator keeps for it can be used again."""
    from cuda.bindings import driver

    with torch.cuda.device(device):
        torch.cuda.current_stream().query()  # makes the GPU's context current
        flag = driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value
        handle = checked(driver.cuStreamCreate(flag), f"make a stream on {device}")
    return torch.cuda.ExternalStream(int(handle), device)


class _current:
    """A with-block on a stream, in a third of the time of torch.cuda.stream(): ``before`` is known to be current."""

    def __init__(self, stream: torch.cuda.Stream, before: torch.cuda.Stream | None) -> None:
        self._stream, self._before = stream, before or torch.cuda.current_stream(stream.device)

    def __enter__(self) -> None:
        self._device = torch.cuda.current_device()
        torch.cuda.set_stream(self._stream)

    def __exit__(self, *error: object) -> None:
        torch.cuda.set_stream(self._before)
        if self._device != self._stream.device_index:
            torch.cuda.set_device(self._device)


class _Launched(NamedTuple):
    """What a stage has launched: on the GPU between two events, of what it took, as its item of that number."""

    begin: torch.cuda.Event
    end: torch.cuda.Event
    item: Any
    number: int
    since: float


class StreamedStage:
    """A stage, its stream, and what it has made."""

    def __init__(self, stage: Stage, stream: torch.cuda.Stream | None) -> None:
        self.stage, self.stream = stage, stream
        # As a message calls it.
        self.name = repr(stage.name) if stream is None else f"{stage.name!r} on {stream.device}"
        self._caller: torch.cuda.Stream | None = None
        self.made = deque[tuple[Any, torch.cuda.Event | None]]()
        self._in_flight = deque[_Launched]()

    def follow(self, caller: torch.cuda.Stream | None, launched: torch.cuda.Event | None) -> None:
        """Launches are for ``caller``, the current stream of the GPU, and wait for what was ``launched`` there."""
        self._caller = caller
        self.wait(launched)

    def wait(self, event: torch.cuda.Event | None) -> None:
        """What is launched from now on waits for what was recorded."""
        if self.stream is not None and event is not None:
            self.stream.wait_event(event)

    def under_way(self) -> StageWork | None:
        """What the GPU has begun of this stage and not ended: not what waits for another."""
        try:
            first = self._in_flight[0]
        except IndexError:
            return None
        begun = first.begin.query() and not first.end.query()
        return StageWork(self.name, first.number, first.since) if begun else None

    def launch(self, item: Any, ready: torch.cuda.Event | None, watch: Watch) -> None:
        number = self.stage.items + len(self._in_flight)
        if self.stream is None:
            with watch.over(self.name, number) as work:
                self.made.append((self._work(item), None))
            self.stage.count(work.seconds)
            return
        since = time.monotonic()
        self.wait(ready)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with _current(self.stream, self._caller), watch.over(self.name, number):
            begin.record(self.stream)
            try:
                made = self._work(item)
            except BaseException:
                self.stream.synchronize()  # what it has launched reads what it took, which nobody keeps any more
                raise
            end.record(self.stream)
        self.made.append((made, end))
        self._in_flight.append(_Launched(begin, end, item, number, since))
        self.count()

    def launched(self, item: Any, ready: torch.cuda.Event | None, watch: Watch) -> tuple[Any, torch.cuda.Event | None]:
        """Launches work that nobody else takes: gives what it made, and when that is there."""
        self.launch(item, ready, watch)
        return self.made.pop()

    def _work(self, item: Any) -> Any:
        with span(self.stage.name), torch.inference_mode(False):  # the caller may be in it now, and train on the next
            return self.stage.work(item)

    def count(self, watch: Watch | None = None) -> None:
        """Lets go of what the GPU is done with, and adds its time to the stage's seconds; with a ``watch`` waits for all."""
        while self._in_flight:
            first = self._in_flight[0]
            if watch is not None:
                wait_for(first.end.query, watch)
            if not first.end.query():
                return
            self._in_flight.popleft()
            self.stage.count(first.begin.elapsed_time(first.end) / 1e3)
