"""How long work takes, on one device or on several."""

from __future__ import annotations

import itertools
import time
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


def each_of(calls: Sequence[Callable[[], Any]], device: torch.device) -> list[float]:
    """Seconds of each call, by the GPU's clock where the GPU works. All are queued before the first is waited for, which hides
    what Python costs."""
    if device.type == "cpu":
        times = [time.perf_counter()]
        for call in calls:
            call()
            times.append(time.perf_counter())
        return [end - start for start, end in itertools.pairwise(times)]
    torch.cuda.synchronize(device)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(calls) + 1)]
    marks[0].record()
    for call, mark in zip(calls, marks[1:], strict=True):
        call()
        mark.record()
    torch.cuda.synchronize(device)
    return [start.elapsed_time(end) / 1e3 for start, end in itertools.pairwise(marks)]
