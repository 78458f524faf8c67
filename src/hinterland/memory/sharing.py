"""Tables that go to other processes of this machine as the same memory.

A copy, a pickle and a checkpoint of a table are of its rows, as of any tensor. Multiprocessing is another matter: what it
sends, processes share, as they do tensors. Processes that it has not started are sent what :func:`pickle_shared` makes.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

_SHARED: dict[type, Any] = {}


def share(kind: type, reduce: Callable[[Any], tuple[Any, ...]]) -> None:
    """From now on other processes get objects of this class as ``reduce`` says: by a function, and its arguments there."""
    _SHARED[kind] = reduce
    reduction.register(kind, reduce)


def pickle_shared(what: Any) -> bytes:
    """``what``, pickled: ``pickle.loads`` gives another process of this machine the same memory for the pinned tables in
    it, as long as this process holds them.

    Raises:
        ConfigError: a table whose memory belongs to one process.
    """
    packed = io.BytesIO()
    pickler = pickle.Pickler(packed)
    pickler.dispatch_table = copyreg.dispatch_table | _SHARED
    pickler.dump(what)
    return packed.getvalue()
