"""What a cache of pages has moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields, replace

from ..runtime.repr import Repr
from ..runtime.units import format_bytes


@dataclass(frozen=True, repr=False)
class StorageStats(Repr):
    """What a cache has moved since it was made.

    Attributes:
        reads, writes: transfers between files and memory.
        bytes_read, bytes_written: what they moved.
        hits, misses: pages that were in memory as rows were asked for, and that were not. On a device hits are elements that
            were there as kernels of the user's own asked for them, and misses are lines that were read. References count theirs
            when they leave a line.
        cpu_seconds: processor time of the threads that gathered, scattered and flushed, or served a device, all together.
        failed_reads: of one copy of a file, so that another was read.
        pinned: pages that are pinned at present.
        expected_bytes: what is known of batches to come takes at present, beside the cache's budget.
        waited: elements that were not on the device as kernels of the user's own asked for them.
        wanted_bytes: of all elements that these kernels asked for; 0 where nobody counts.
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
    waited: int = 0
    wanted_bytes: int = 0

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
    def amplification(self) -> float:
        """Bytes read for each byte that was asked for (I/O amplification, Mailthody 2022); 0 where nobody counts these."""
        return self.bytes_read / self.wanted_bytes if self.wanted_bytes else 0.0

    def explain(self) -> str:
        """What the disk did for those who asked, in a sentence."""
        said = f"{format_bytes(self.bytes_read)} were read from the disk in {self.reads:,} requests"
        if not self.wanted_bytes:
            return said
        share = self.waited / (self.hits + self.waited)
        wanted = f"{self.amplification:.2f} times the {format_bytes(self.wanted_bytes)} that kernels asked for"
        return f"{said}, {wanted}, of which {share:.1%} waited for the disk"

    @property
    def cpu_us_per_request(self) -> float:
        """Microseconds of processor time for each transfer; 0 without any."""
        requests = self.reads + self.writes
        return self.cpu_seconds * 1e6 / requests if requests else 0.0


def together(stats: Iterable[StorageStats]) -> StorageStats:
    """The sums."""
    none = (0,) * len(fields(StorageStats))
    return StorageStats(*map(sum, zip(none, *map(astuple, stats), strict=True)))
