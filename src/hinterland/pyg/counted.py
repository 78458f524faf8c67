"""``stats=`` of the loaders: what sampling a batch and gathering its attributes did. PyG's code lies between the loader and
what reads, so a thread says around it which dict is to be filled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..memory.gather_stats import add

_filled: ContextVar[dict[str, Any] | None] = ContextVar("filled", default=None)


@contextmanager
def counting(stats: dict[str, Any] | None) -> Iterator[None]:
    """What this thread reads within is added to ``stats``; None counts nothing."""
    before = _filled.set(stats)
    try:
        yield
    finally:
        _filled.reset(before)


@contextmanager
def read() -> Iterator[dict[str, Any] | None]:
    """``stats=`` for one call, None where nobody asks; what it leaves is added."""
    total = _filled.get()
    if total is None:
        yield None
        return
    one: dict[str, Any] = {}
    yield one
    add(total, one)
