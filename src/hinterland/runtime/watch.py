"""A watch over stages that work in threads for one consumer: it says which one is stuck when nothing comes any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import PipelineStalled

_GLANCE = 0.2  # seconds after which a waiting consumer looks whether it was interrupted


@dataclass(frozen=True)
class Work:
    """What a stage does, and since when."""

    stage: str
    number: int
    since: float

    @property
    def seconds(self) -> float:
        """How long it has worked."""
        return time.monotonic() - self.since


class Watch:
    """What each stage works on, and since when the consumer has waited.

    Args:
        timeout: seconds without an item after which :meth:`look` raises; infinity never does.
        item: what the stages work on, as a message calls it.
    """

    def __init__(self, timeout: float, item: str = "item") -> None:
        self._timeout, self._item = timeout, item
        self._busy: dict[int, Work] = {}  # by thread
        self.came()

    @contextmanager
    def over(self, stage: str, number: int) -> Iterator[Work]:
        """Around the calling thread's work on an item."""
        work = self._busy[threading.get_ident()] = Work(stage, number, time.monotonic())
        try:
            yield work
        finally:
            del self._busy[threading.get_ident()]

    def came(self) -> None:
        """The consumer begins to wait anew: it got an item, or has done what the next one needs."""
        self._since = time.monotonic()

    @property
    def glance(self) -> float:
        """Seconds for which the consumer may wait between two looks."""
        return min(_GLANCE, self._timeout)

    def look(self) -> None:
        """Looks whether an item should have come by now.

        Raises:
            PipelineStalled: it should; names the stage that has worked longest.
        """
        if time.monotonic() - self._since < self._timeout:
            return
        waited = f"no {self._item} came for {self._timeout:g} s"
        busy = list(self._busy.values())
        if not busy:
            raise PipelineStalled(f"{waited} although no stage works on one; the source may wait for something") from None
        stuck = min(busy, key=lambda work: work.since)
        raise PipelineStalled(
            f"stage {stuck.stage} has worked on {self._item} {stuck.number} for {stuck.seconds:.0f} s, and {waited} in all; "
            "raise timeout= if it may take that long"
        ) from None
