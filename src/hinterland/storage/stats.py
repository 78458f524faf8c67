"""What a cache of pages has moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields, replace

from ..runtime.repr import Repr


@dataclass(frozen=True, repr=False)
class StorageStats(Repr):
    """What a cache has moved since it was made.

    Attributes:
        reads, writes: transfers between files and memory.
        bytes_read, bytes_written: what they moved.
        hits, misses: pages that were in memory as rows were asked for, and that were not.
        cpu_seconds: processor time of the threads that gathered, scattered and flushed, all together.
        failed_reads: of one copy of a file, so that another was read.
        pinned: pages that are pinned at present.
        expected_bytes: what is known of batches to come takes at present, beside the cache's budget.
    """

    reads: int
    writes: int
    bytes_read: int
    bytes_written: int
    hits: int
    misses: int
    cpu_seconds: float
    failed_reads: int = 0
    pinned: int = 0
    expected_bytes: int = 0

    def since(self, before: StorageStats) -> StorageStats:
        """What was moved since ``before`` was said, and what is pinned and expected now."""
        moved = StorageStats(*(now - was for now, was in zip(astuple(self), astuple(before), strict=True)))
        return replace(moved, pinned=self.pinned, expected_bytes=self.expected_bytes)

    def report(self) -> dict[str, float]:
        """What was read, in the words of a traversal's ``stats["storage"]``."""
        return {
            "bytes": self.bytes_read,
            "requests": self.reads,
            "hits": self.hits,
            "misses": self.misses,
            "cpu_seconds": self.cpu_seconds,
            "cpu_us_per_request": self.cpu_us_per_request,
        }

    @property
    def cpu_us_per_request(self) -> float:
        """Microseconds of processor time for each transfer; 0 without any."""
        requests = self.reads + self.writes
        return self.cpu_seconds * 1e6 / requests if requests else 0.0


def together(stats: Iterable[StorageStats]) -> StorageStats:
    """The sums."""
    none = (0,) * len(fields(StorageStats))
    return StorageStats(*map(sum, zip(none, *map(astuple, stats), strict=True)))
