"""One line on a terminal that says how far a long task has come; silent wherever standard error is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from .units import format_bytes, format_rate

_INTERVAL = 0.1  # seconds between two lines: the eye needs no more, and writing to a terminal costs
_CLEAR = "\r\x1b[K"


class _Line:
    """The line of one task: what is done, the rate so far, and the time left at that rate."""

    def __init__(self, what: str, total: float | None, unit: str, stream: TextIO) -> None:
        self.what, self.total, self.unit, self.stream = what, total, unit, stream
        self.done = 0.0
        self.start = self.printed = time.monotonic()

    def step(self, n: float = 1) -> None:
        self.done += n
        now = time.monotonic()
        if now - self.printed >= _INTERVAL:
            self.printed = now
            self.write(f"{_CLEAR}{self.text(now - self.start)}")

    def write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):  # the terminal went away: the task itself goes on
            self.printed = float("inf")

    def text(self, seconds: float) -> str:
        rate = self.done / seconds if seconds > 0 else 0.0
        parts = [self.what]
        if self.total:
            parts.append(f"{min(self.done / self.total, 1.0):4.0%}")
        of_total = f" of {self.amount(self.total)}" if self.total else ""
        parts.append(f"{self.amount(self.done)}{of_total}")
        parts.append(format_rate(rate) if self.unit == "B" else f"{rate:,.0f} {self.unit}/s")
        if self.total and rate > 0 and self.done < self.total:
            parts.append(f"{_duration((self.total - self.done) / rate)} left")
        return "  ".join(parts)

    def amount(self, n: float) -> str:
        return format_bytes(n) if self.unit == "B" else f"{n:,.0f} {self.unit}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _silent(n: float = 1) -> None:
    pass


def notice(sentence: str) -> None:
    """One line on standard error that says why it takes a while, where that is a terminal; silent elsewhere."""
    if sys.stderr is not None and sys.stderr.isatty():
        with suppress(OSError, ValueError):  # the terminal went away
            print(sentence, file=sys.stderr, flush=True)


@contextmanager
def progress(
    what: str, total: float | None = None, unit: str = "B", stream: TextIO | None = None
) -> Iterator[Callable[[float], None]]:
    """Shows the progress of one task: ``with progress("reading g.mtx", size) as step: step(n)``.

    ``what`` begins the line. ``total`` is the amount of work in ``unit`` ("B" for bytes, otherwise a plural noun such
    as ``"edges"``), or None where it is not known; ``step(n)`` says that ``n`` more are done. The line goes to
    ``stream`` (standard error), at most ten times a second, and is wiped at the end, also after an exception. Where the
    stream is no terminal nothing is written at all.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None or not stream.isatty():
        yield _silent
        return
    line = _Line(what, total, unit, stream)
    try:
        yield line.step
    finally:
        line.write(_CLEAR)
