"""The host memory that is held, and the lock under which it is taken: what there is and what is planned belong together."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

buffers: weakref.WeakSet[Any] = weakref.WeakSet()  # allocator.Buffer
lock = threading.RLock()
os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined]  # who had it is not in the child


def host_bytes() -> int:
    """Host memory that was allocated here and is held, of all mappings."""
    with lock:
        return sum(buffer.nbytes for buffer in buffers if buffer.ours)


def managed_bytes() -> int:
    """Managed memory that is held."""
    with lock:
        return sum(buffer.managed for buffer in buffers if buffer.ours)
