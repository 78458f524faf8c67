"""What binds an epoch: the GPU, the link, a disk or the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..runtime.thresholds import BINDING_SHARE


class IdleSteps:
    """Counts the steps of an epoch at whose launch the GPU had nothing left of the step before."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._steps = self._idle = 0
        self._last: torch.cuda.Event | None = None

    def count(self) -> None:
        """Looks at the GPU, where there is one, when a step has been launched; it waits for nothing."""
        if self._device.type == "cuda":
            self._steps += 1
            self._idle += self._last is not None and self._last.query()
            self._last = torch.cuda.current_stream(self._device).record_event()

    def share(self) -> float | None:
        """Of the steps since it was asked last; None without a GPU."""
        share = self._idle / self._steps if self._steps else None
        self._steps, self._idle, self._last = 0, 0, None
        return share


def binds(epoch: Mapping[str, Any], *, launched: bool, idle: float | None) -> str:
    """What an epoch would be faster with more of, and what says so: ``"link: gather was at work 97% of the time"``.

    A stage that is at work nearly always binds. Without one, steps follow each other as fast as the CPU launches them, or else
    as the GPU makes them.

    Args:
        epoch: its record, with ``stages``, ``seconds``, ``link`` and ``storage``.
        launched: whether ``sample`` and ``gather`` are seconds of a GPU; else they are their threads'.
        idle: of :class:`IdleSteps`.
    """
    stages, seconds, storage = epoch["stages"], epoch["seconds"], epoch["storage"]
    busiest = max(("sample", "gather"), key=lambda name: stages.get(name, 0.0))
    share = stages.get(busiest, 0.0) / seconds
    why = f"{busiest} was at work {share:.0%} of the time"
    if share >= BINDING_SHARE:
        if launched:
            return f"{'GPU' if epoch['link'] is None else 'link'}: {why}"
        waits = storage is not None and storage["bytes"] and 2 * storage["cpu_seconds"] < stages[busiest]
        return f"{'disk' if waits else 'CPU'}: {why}"
    if idle is None:
        return f"CPU: it trained {stages.get('train', 0.0) / seconds:.0%} of the time"
    if 2 * idle > 1:
        return f"CPU: the GPU had nothing left to do before {idle:.0%} of the steps"
    return f"GPU: it had a step to do while {1 - idle:.0%} of the next ones were launched"
