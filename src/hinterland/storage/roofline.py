"""How many requests a disk needs at a time, and what it gives to fewer (Mailthody 2022, sections 4.5 and 6.1.1)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from ..machine import load
from ..machine.model import Disk
from ..runtime.repr import Repr

_ENOUGH = 0.95  # of a disk's most
_SPARE = 2.5  # times Little's number: twice to three times, since requests do not come evenly


@dataclass(frozen=True, repr=False)
class Roofline(Repr):
    """What a disk gives to requests of one size.

    Attributes:
        seconds: that one request takes alone.
        most: requests a second, with any number under way.
        measured: requests a second, by how many were under way.
    """

    seconds: float
    most: float
    measured: dict[int, float]

    @classmethod
    def of(cls, measured: dict[int, float]) -> Roofline:
        """From requests a second by how many were under way, of which the fewest tell the time of one."""
        fewest = min(measured)
        return cls(fewest / measured[fewest], max(measured.values()), measured)

    def at(self, under_way: int) -> float:
        """Requests a second that so many at a time can reach: each takes its time, until the disk can do no more."""
        return min(under_way / self.seconds, self.most)

    @property
    def little(self) -> float:
        """Requests that have to be under way for the most, if each took no longer than one alone: throughput times latency."""
        return self.most * self.seconds

    @property
    def needed(self) -> int:
        """Requests that queues should have room for: two and a half times Little's number, and no fewer than those with which
        0.95 of the most were measured, for a busy disk's requests take longer."""
        reached = min(n for n, rate in self.measured.items() if rate >= _ENOUGH * self.most)
        return max(math.ceil(_SPARE * self.little), reached)


def probed(path: str, block_bytes: int) -> Roofline | None:
    """What ``hinterland probe`` has found of the disk that a file lies on; None if it has not looked at that disk.

    Larger blocks are taken to come as fast as those of 4 KiB, up to the disk's rate in sequence.
    """
    machine = load()
    disk = machine.disk if machine is not None else None
    if disk is None or not disk.random4k or not _same_disk(path, disk):
        return None
    most = disk.sequential / block_bytes if block_bytes > 4096 else math.inf
    return Roofline.of({under_way: min(rate, most) for under_way, rate in disk.random4k.items()})


def _same_disk(path: str, disk: Disk) -> bool:
    try:
        return os.stat(path).st_dev == os.stat(disk.path).st_dev
    except OSError:
        return False
