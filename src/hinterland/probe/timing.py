"""How long something takes, on the CPU and on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """One run of ``work``, in seconds: on a GPU between two events of the current stream, otherwise by the clock."""
    if device.type == "cpu":
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    with torch.cuda.device(device):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


def best(work: Callable[[], object], device: torch.device, repeats: int = 2) -> float:
    """The shorter of two runs after one that warms up: what disturbs a run only ever adds time."""
    work()
    return min(seconds(work, device) for _ in range(repeats))
