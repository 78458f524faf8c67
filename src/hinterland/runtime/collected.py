"""What a thread's garbage collector finds while the thread is where it must not wait for others, or for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Waiting(threading.local):
    def __init__(self) -> None:
        self.blocks, self.calls = 0, list[Callable[[], None]]()


_waiting = _Waiting()


@contextmanager
def finalized_later() -> Iterator[None]:
    """A with-block at whose end finalizers are called that this thread met in it."""
    _waiting.blocks += 1
    try:
        yield
    finally:
        _waiting.blocks -= 1
        while _waiting.calls and not _waiting.blocks:
            _waiting.calls.pop(0)()


def is_later(finalizer: Callable[[], None]) -> bool:
    """Whether a finalizer, a bound method, is called at the end of a with-block, and not now."""
    if _waiting.blocks:
        _waiting.calls.append(finalizer)
    return bool(_waiting.blocks)
