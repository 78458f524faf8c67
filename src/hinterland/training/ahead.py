"""Stages whose work is launches on a GPU, run ahead of the model by the thread that trains it.

Every call of torch gives the interpreter's lock away and takes it again, so threads that launch beside the model delay each of
its launches (docs/notes/training-on-h200.md). A launch returns before its work is done. So one thread is enough: before a
batch is handed out, the rows of a later one are gathered and the neighbours of one after that are sampled, each stage on
a stream of its own (Min 2022, section 3.3.3), and the GPU runs them beside the model.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from ..runtime.errors import PipelineStalled
from .pipeline import Pipeline, Stage, receive

_NAP = 5e-5  # seconds between looks at the GPU


class Ahead(Pipeline):
    """A :class:`Pipeline` on a GPU whose stages only launch, without threads.

    A stage whose outcome the CPU must know before the next one can launch hands on an item with ``is_ready()``, which says
    whether the GPU is done with it. The wait for it ends after ``timeout`` seconds. ``Stage.seconds`` are the GPU's.
    """

    def __iter__(self) -> Iterator[Any]:
        source = iter(self.source)
        lines = [_Line(stage, self.device) for stage in self.stages]
        begins, error = 0, None  # the first stage that goes on, and what ended the one before it
        try:
            while True:
                # The last stage first: what it takes was launched in an earlier round, and is done by now.
                for number in range(len(lines) - 1, begins - 1, -1):
                    try:
                        while len(lines[number].made) < self.depth and self._advance(number, lines, source):
                            pass
                    except Exception as raised:
                        begins, error = number + 1, raised
                        break
                if lines[-1].made:
                    item, done = lines[-1].made.popleft()
                    receive(item, done, self.device)
                    yield item
                elif not any(line.made for line in lines[max(begins - 1, 0) :]):
                    break
            if error is not None:
                raise error
        finally:
            for line in lines:
                line.count(wait=True)

    def _advance(self, number: int, lines: list[_Line], source: Iterator[Any]) -> bool:
        """Launches a stage's work on the next item; False if there is none."""
        if number == 0:
            for item in source:
                lines[0].launch(item, None)
                return True
            return False
        before = lines[number - 1]
        if not before.made:
            return False
        item, done = before.made[0]
        self._until_ready(item, before.stage)
        before.made.popleft()
        lines[number].launch(item, done)
        return True

    def _until_ready(self, item: Any, stage: Stage) -> None:
        is_ready = getattr(item, "is_ready", None)
        if is_ready is None:
            return
        since = time.monotonic()
        while not is_ready():
            if time.monotonic() - since > self.timeout:
                raise PipelineStalled(
                    f"stage {stage.name!r} has worked on item {stage.items} for {self.timeout:g} s on {self.device}; raise "
                    "timeout= if it may take that long"
                )
            time.sleep(_NAP)


class _Line:
    """A stage, its stream, and what it has made."""

    def __init__(self, stage: Stage, device: torch.device) -> None:
        self.stage, self.device = stage, device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.made = deque[tuple[Any, torch.cuda.Event | None]]()
        self._spans = deque[tuple[torch.cuda.Event, torch.cuda.Event]]()  # of work that the GPU may still do

    def launch(self, item: Any, ready: torch.cuda.Event | None) -> None:
        if self.stream is None:
            self.made.append((self.stage.work(item), None))
            self.stage.items += 1
            return
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(self.stream):
            receive(item, ready, self.device)
            begin.record()
            made = self.stage.work(item)
            end.record()
        self.made.append((made, end))
        self._spans.append((begin, end))
        self.count(wait=False)

    def count(self, wait: bool) -> None:
        """Adds what the GPU has done to the stage's seconds."""
        while self._spans and (wait or self._spans[0][1].query()):
            begin, end = self._spans.popleft()
            end.synchronize()
            self.stage.seconds += begin.elapsed_time(end) / 1e3
            self.stage.items += 1
