"""How long a part takes to read rows of its own memory and of others', as far as it can be said beforehand.

Rows lie in the L2 cache, as far as it holds them, or in memory, which gives narrow rows one by one and wide ones at its
bandwidth. That rows are named at random is the worst case: where some are named most, more of them are found in the cache.
Where each number is from, docs/notes/fullgraph-on-h200.md says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import torch

from ..machine import cache
from ..runtime import devices
from ..runtime.thresholds import CPU_RATE, CPU_STEP

OF_CACHE = 0.6  # of the L2 cache that tiles of all rows may take
OFTEN = 64  # entries of a row from which on tiles are worth it
LEAST_TILE = 128  # bytes: a line
_FULL = 256  # bytes of a row that a link gives at its full rate
_TOGETHER = 0.85  # of what a peer gives one reader, that it gives when all read


@dataclass(frozen=True)
class ReadRates:
    """What a part's device reads.

    Attributes:
        cache: bytes of the L2 cache that rows take.
        cached, memory: bytes a second from there, and from memory.
        rows, entries: rows a second from memory, and entries a second from anywhere.
        narrow, wide: bytes a second of other parts' rows, of 64 bytes and of 256 or more.
        step: seconds between two launches of a process, with what stands around each.
    """

    cache: float
    cached: float
    memory: float
    rows: float
    entries: float
    narrow: float
    wide: float
    step: float

    def reading(self, entries: float, row: int, held: int, mean: float) -> float:
        """Seconds for as many entries, which name ``held`` rows of ``row`` bytes; ``mean``: entries of a list."""
        if not row or not entries:
            return 0.0
        tile = tile_bytes(row, held, self.cache) if mean >= OFTEN else row
        hits = min(1.0, self.cache / (held * tile))
        missed = max(tile / self.memory, 1 / self.rows)
        each = max(hits * tile / self.cached + (1 - hits) * missed, 1 / self.entries)
        return entries * (row / tile * each + 4 / self.memory)

    def fetching(self, nbytes: float, row: int) -> float:
        """Seconds for as many bytes of other parts' rows of ``row`` bytes, all parts reading at once."""
        return nbytes / (self.wide if row >= _FULL else self.narrow)


def tile_bytes(row: int, held: int, room: float) -> int:
    """So much of each of ``held`` rows of ``row`` bytes that these of all rows fit into ``room``; the row, where none does."""
    tile = row
    while held * tile > room and tile % 2 == 0 and tile >= 2 * LEAST_TILE:
        tile //= 2
    return tile if held * tile <= room else row


def cache_room(device: torch.device) -> float:
    """Bytes of a GPU's L2 cache that rows may take."""
    return devices.cache_bytes(device) * OF_CACHE


H200 = ReadRates(
    cache=OF_CACHE * 60e6,
    cached=7.2e12,
    memory=3.7e12,
    rows=15e9,
    entries=50e9,
    narrow=270e9,
    wide=325e9,
    step=4e-5,
)
_CPU = ReadRates(
    cache=0.0, cached=CPU_RATE, memory=CPU_RATE, rows=inf, entries=inf, narrow=CPU_RATE, wide=CPU_RATE, step=CPU_STEP
)


def rates_of(device: torch.device) -> ReadRates:
    """Those of an H200, but for what is known of a GPU, and of its peers by the machine's probe."""
    if device.type != "cuda":
        return _CPU
    known = cache.load()
    peers = () if known is None else known.peers
    narrow = min((_TOGETHER * peer.random64 for peer in peers), default=H200.narrow)
    wide = min((_TOGETHER * peer.bandwidth for peer in peers), default=H200.wide)
    return replace(H200, cache=cache_room(device), narrow=narrow, wide=wide)
