"""How many requests a disk needs at a time, and what it gives to fewer (Mailthody 2022, sections 4.5 and 6.1.1)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import torch

from .. import _core
from ..machine import load
from ..machine.model import Disk
from ..runtime.errors import StorageError
from ..runtime.shown import Shown

UNDER_WAY = (1, 4, 16, 64, 256)  # requests at a time that are measured
_LEAST, _PER_REQUEST = 1024, 16  # that are measured: at least, and for each that is under way
_ENOUGH = 0.95  # of a disk's most
_SPARE = 2.5  # times Little's number: twice to three times, since requests do not come evenly


@dataclass(frozen=True, repr=False)
class Roofline(Shown):
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


def measure(path: str | os.PathLike[str], block_bytes: int = 4096, *, engine: str = "auto", seed: int = 1) -> Roofline:
    """Random reads of a file's blocks, by one thread (native/storage/raw.hpp).

    Args:
        path: holds at least a block.
        block_bytes: of a read.
        engine: as of StorageCache.

    Raises:
        StorageError: the file cannot be read, or holds no block.
    """
    blocks = os.stat(path).st_size // block_bytes
    if blocks == 0:
        raise StorageError(f"{os.fspath(path)} holds no {block_bytes} bytes; take a larger file")
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for under_way in UNDER_WAY:
        offsets = torch.randint(0, blocks, (max(_LEAST, _PER_REQUEST * under_way),), generator=generator) * block_bytes
        ns, _ = _core.run_raw(os.fspath(path), offsets.data_ptr(), len(offsets), block_bytes, 0, 1, under_way, engine)
        found[under_way] = len(offsets) / ns * 1e9
    return Roofline.of(found)


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
