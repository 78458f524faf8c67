"""Signals that wait while something is done that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deferred() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP take effect after the block, not inside it.

    For short blocks. Signals interrupt only the main thread, so in others there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    inside = True

    def note(number: int, frame: FrameType | None) -> None:
        if inside:
            waiting.append(number)
        else:  # another signal kept the handler from being put back
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)

    handlers = {stop: signal.getsignal(stop) for stop in _HELD}
    before = {stop: handler for stop, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for stop in before:
            signal.signal(stop, note)
        yield
    finally:
        inside = False
        for stop, handler in before.items():
            signal.signal(stop, handler)
        for number in dict.fromkeys(waiting):
            signal.raise_signal(number)
