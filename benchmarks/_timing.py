"""How long work on several devices takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hinterland.runtime import devices

REPEATS = 4


def milliseconds(
    work: Callable[[], Any], on: Sequence[torch.device], before: Callable[[], Any] | None = None, repeats: int = REPEATS
) -> float:
    """The least of some runs, after one that warms up. ``before`` each run something may be done that is not timed."""
    times = []
    for _ in range(repeats + 1):
        if before is not None:
            before()
        begin = max(map(devices.idle_at, on))
        work()
        times.append(max(map(devices.idle_at, on)) - begin)
    return 1e3 * min(times[1:])
