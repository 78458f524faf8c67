"""Two measurements of one machine: the better figure of each, and a sentence where they are far apart.

What disturbs a measurement only ever adds time: of two rates the higher is nearer to what the machine can do.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import time
from pathlib import Path
from typing import Any

from ..runtime.thresholds import BUSY_SHARE, LOOK_SECONDS

_TIMES = ("latency", "sort")  # figures that are times; all others are rates
_FAR = 1.5  # times; of six probes of two idle cores one was beyond it, in one figure of a disk that others share


def better(first: Any, second: Any, name: str = "") -> tuple[Any, list[str]]:
    """Of two machines measured alike, or of the part ``name`` of both: the better figures, and sentences about them."""
    ratios: dict[str, float] = {}
    found = _better(first, second, name, ratios)
    parts: dict[str, list[str]] = {}
    for figure in ratios:
        parts.setdefault(re.split(r"[.[]", figure)[0], []).append(figure)
    return found, [_sentence(part, names, ratios) for part, names in parts.items()]


def _sentence(part: str, names: list[str], ratios: dict[str, float]) -> str:
    worst = max(names, key=ratios.__getitem__)
    count = "one figure lies" if len(names) == 1 else f"{len(names)} figures lie"
    return (
        f"{part}: {count} up to {ratios[worst]:.1f} times apart in two measurements ({worst}); the better is kept. "
        "Measure again when nothing else runs: hinterland probe --refresh"
    )


def _better(first: Any, second: Any, name: str, ratios: dict[str, float]) -> Any:
    if first is None or second is None:  # measured once
        return second if first is None else first
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        below = {f.name: (getattr(first, f.name), getattr(second, f.name)) for f in dataclasses.fields(first)}
        values = {key: _better(*pair, f"{name}.{key}" if name else key, ratios) for key, pair in below.items()}
        return dataclasses.replace(first, **values)
    if isinstance(first, dict):
        shared = {key: _better(first[key], second[key], f"{name}[{key}]", ratios) for key in first if key in second}
        return {**second, **first, **shared}
    if isinstance(first, tuple):
        if len(first) != len(second):  # memory did not suffice for all of one
            return max(first, second, key=len)
        return tuple(_better(*pair, f"{name}[{at}]", ratios) for at, pair in enumerate(zip(first, second, strict=True)))
    if not isinstance(first, float):
        return first
    if math.isnan(first) or math.isnan(second):  # which no measurement is
        return second if math.isnan(first) else first
    low, high = sorted((first, second))
    if high > _FAR * low:
        ratios[name] = high / low if low else math.inf
    return low if re.split(r"[.[]", name.rstrip("0123456789[]"))[-1] in _TIMES else high


def busy() -> list[str]:
    """A sentence where other programs use the cores that this process may use; looks for a quarter of a second."""
    before = _jiffies()
    time.sleep(LOOK_SECONDS)
    worked, idle = (now - was for now, was in zip(_jiffies(), before, strict=True))
    share = worked / max(1, worked + idle)
    cores = len(os.sched_getaffinity(0))
    if share <= BUSY_SHARE:
        return []
    return [f"other programs kept {share * cores:.1f} of {cores} cores busy while this machine was measured"]


def _jiffies() -> tuple[int, int]:
    """What the cores that this process may use have worked, and have been idle, since the machine began."""
    worked = idle = 0
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *counts = line.split()
        if name in cores:
            times = [int(count) for count in counts[:8]]  # user nice system idle iowait irq softirq steal
            idle += times[3] + times[4]
            worked += sum(times) - times[3] - times[4]
    return worked, idle
