"""A watch over stages that work for one consumer: it says which one is stuck when nothing comes any more.

A consumer that waits for an item looks at the watch, and gets an exception. One that is in the middle of a call of the driver,
for a kernel that never ends, say, gets nothing: beside it a thread looks too, and says so on standard error.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .errors import PipelineStalled

_GLANCE = 0.2  # seconds after which a waiting consumer looks whether it was interrupted
_REMEDY = "raise timeout= if it may take that long"

Done = Callable[[], bool]


@dataclass(frozen=True)
class StageWork:
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
        under_way: what a device does for a stage whose call has returned; None where it does nothing.
    """

    def __init__(self, timeout: float, item: str = "item", under_way: Callable[[], StageWork | None] = lambda: None) -> None:
        self._timeout, self._item, self._under_way = timeout, item, under_way
        self._busy: dict[int, StageWork] = {}  # by thread
        self._consumer = threading.get_ident()
        self._taken = -1  # the item that the consumer has
        self._marked: tuple[str, float] | None = None  # a device, and since when it has not reached the mark put then
        self.stalled = False  # something has not ended in time, and may never
        self._process = os.getpid()
        self.came()

    @property
    def is_own(self) -> bool:
        """Whether this process began it: in one that was forked since, no stage works, and what they held stays held."""
        return os.getpid() == self._process

    def require_own(self) -> None:
        """PipelineStalled in a forked process."""
        if not self.is_own:
            raise PipelineStalled(
                "the threads of this iteration are in the process from which this one was forked; begin another here"
            )

    @contextmanager
    def over(self, stage: str, number: int) -> Iterator[StageWork]:
        """Around the calling thread's work on an item."""
        work = self._busy[threading.get_ident()] = StageWork(stage, number, time.monotonic())
        try:
            yield work
        finally:
            del self._busy[threading.get_ident()]

    def came(self) -> None:
        """The consumer begins to wait anew: it got an item, or has done what the next one needs."""
        self._since, self._away = time.monotonic(), False

    def leaves(self) -> None:
        """The consumer goes away with the next item; it is back when it calls :meth:`came`."""
        self._taken += 1
        self._away = True

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
        self.stalled = True
        waited = f"no {self._item} came for {self._timeout:g} s"
        working = [work for work in (*list(self._busy.values()), self._under_way()) if work is not None]
        if not working and self._marked is not None and time.monotonic() - self._marked[1] > self._timeout / 2:
            raise PipelineStalled(f"{self._launched(*self._marked)}, and {waited} in all; {_REMEDY}") from None
        if not working:
            raise PipelineStalled(f"{waited} although no stage works on one; the source may wait for something") from None
        stuck = min(working, key=lambda work: work.since)
        raise PipelineStalled(f"{self._worked(stuck)}, and {waited} in all; {_REMEDY}") from None

    def _worked(self, stuck: StageWork) -> str:
        return f"stage {stuck.stage} has worked on {self._item} {stuck.number} for {stuck.seconds:.0f} s"

    @contextmanager
    def beside(self, mark: Callable[[], Done | None], device: str) -> Iterator[None]:
        """Has a thread look while the consumer cannot: at its own call for a stage, and at what the device is to do.

        Args:
            mark: puts a mark behind what the consumer has launched so far, and gives what tells whether the device has
                reached it; None where no mark can be put now.
            device: that works, as a message calls it.
        """
        if self._timeout == float("inf"):
            yield
            return
        ended = threading.Event()
        watcher = threading.Thread(target=self._watches, args=(mark, device, ended), name="hinterland watch", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join(_GLANCE)  # one that waits for the driver is left behind

    def _watches(self, mark: Callable[[], Done | None], device: str, ended: threading.Event) -> None:
        done: Done | None = None
        undo: Callable[[], None] | None = None
        while not ended.wait(self.glance):
            try:
                if done is None or done():
                    done = mark()
                    self._marked = None if done is None else (device, time.monotonic())
            except RuntimeError:  # of the device, which the consumer meets too
                return
            said = self._stuck_elsewhere()
            if said is not None and undo is None:
                self.stalled = True
                undo = on_stuck(said)
            elif said is None and undo is not None:  # it was slow, and no more
                self.stalled = False
                undo()
                undo = None

    def _stuck_elsewhere(self) -> str | None:
        """What keeps the consumer from looking for too long, if anything does."""
        own, marked = self._busy.get(self._consumer), self._marked
        if own is not None and own.seconds >= self._timeout:
            return f"{self._worked(own)} and does not return"
        if not self._away or marked is None or time.monotonic() - marked[1] < self._timeout:
            return None
        work = self._under_way()
        return f"{self._launched(*marked) if work is None else self._worked(work)} and does not end"

    def _launched(self, device: str, since: float) -> str:
        of = f"with {self._item} {self._taken} or before it" if self._taken >= 0 else f"before the first {self._item}"
        return f"what was launched on {device} {of} has run for {time.monotonic() - since:.0f} s"


def say_and_let_end(sentence: str) -> Callable[[], None]:
    """Says on standard error what is stuck. From then on Ctrl-C ends the process though its main thread does not come back;
    what this gives undoes that."""
    print(f"hinterland: {sentence}; end the process, as Ctrl-C does at once now, or {_REMEDY}", file=sys.stderr, flush=True)
    # Python's own handler is heard by the main thread alone, once it is out of the driver.
    change = ctypes.CDLL(None).signal
    change.restype, change.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p]
    before = change(signal.SIGINT, int(signal.SIG_DFL))
    return lambda: change(signal.SIGINT, before)


def say_and_end(sentence: str) -> Callable[[], None]:
    """The same in a process that is the library's own: it ends, with exit status 1."""
    print(f"hinterland: {sentence}; the process ends here: {_REMEDY}", file=sys.stderr, flush=True)
    os._exit(1)


on_stuck: Callable[[str], Callable[[], None]] = say_and_let_end  # the command line sets the other
