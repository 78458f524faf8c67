"""From where the rows of a gather come, and what that takes of each tier: launches memory/count.cu, or loops on the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from .. import _core
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, leaves, struct
from .gather import _THREADS, PLACEMENTS, row_copy

TIERS: tuple[str, ...] = _core.TIERS  # the reader's own memory, other GPUs', and the CPU's
COUNTS = ("bytes", "requests", "hits")  # what is said of a tier
METERED = leaves("memory::TierCount")  # what a meter counts of one
_SIZES = METERED.index("hits")
SIZES = tuple(_core.LINE_BYTES // _SIZES * count for count in range(1, _SIZES + 1))  # bytes that a request can have

_PARAMS = {name: struct(f"memory::CountParams<memory::{name}>") for name in PLACEMENTS}
KERNELS = KernelFile("memory/count.cu", tuple(f"count_kernel<{name}>" for name in PLACEMENTS))


class Metered(NamedTuple):
    """What a meter counted of one tier (include/hinterland/memory/meter.hpp).

    Attributes:
        requests: for cache lines, by the bytes of them that are asked for: ``{"32": n, "64": n, "96": n, "128": n}``.
        hits: elements or rows that were found there.
        useful: bytes of those themselves.
    """

    requests: dict[str, int]
    hits: int
    useful: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> Metered:
        """Of the numbers that METERED names."""
        *requests, hits, useful = counts
        return cls(dict(zip(map(str, SIZES), requests, strict=True)), hits, useful)

    @classmethod
    def sum(cls, parts: Iterable[Metered]) -> Metered:
        """All of them together."""
        numbers = [[*part.requests.values(), part.hits, part.useful] for part in parts]
        return cls.of([sum(column) for column in zip(*numbers, strict=True)] or [0] * len(METERED))

    @property
    def bytes(self) -> int:
        """In whole sectors."""
        return sum(int(size) * count for size, count in self.requests.items())

    @property
    def tier(self) -> dict[str, int]:
        """In the words of COUNTS."""
        return {"bytes": self.bytes, "requests": sum(self.requests.values()), "hits": self.hits}


def count_accesses(by: torch.Tensor, begin: torch.Tensor, size: int) -> Metered:
    """What it takes to read ``size`` bytes, a sector at most, from each of some places on.

    What one reader reads of a sector is moved once, and what it reads of a line is one request.

    Args:
        by: int64 ``[n]``: the number of who reads each, from 0 on.
        begin: int64 ``[n]``, on the same device: bytes from the beginning of an array, which begins on a line.
    """
    if not begin.numel():
        return Metered.sum([])
    sectors = torch.stack([begin, begin + (size - 1)]) // SIZES[0]
    lines = int(sectors.max()) // _SIZES + 1
    at = (by * (lines * _SIZES) + sectors).unique()  # of each reader one after another
    sizes = (at // _SIZES).unique_consecutive(return_counts=True)[1].bincount(minlength=1 + _SIZES)
    return Metered(dict(zip(map(str, SIZES), sizes[1:].tolist(), strict=True)), begin.numel(), begin.numel() * size)


def no_requests() -> dict[str, int]:
    """None of any size."""
    return dict.fromkeys(map(str, SIZES), 0)


@dataclass(frozen=True)
class TierCount:
    """Rows of a gather by where they come from: the reader's own memory, other GPUs' (``peers``), or the host's.

    Attributes:
        tiers: by tier, in the words of a traversal's ``stats``: ``bytes`` in whole 32-byte sectors, ``requests`` for cache
            lines of 128 bytes, each row on its own, and ``hits``, the rows.
        row_bytes: of a row.
        requests: those to the host by their bytes.
    """

    tiers: dict[str, dict[str, int]]
    row_bytes: int
    requests: dict[str, int] = field(default_factory=no_requests)

    @classmethod
    def of(cls, met: Mapping[str, Metered], row_bytes: int) -> TierCount:
        """Of what meters counted, by tier; nothing of those that are left out."""
        by_tier = {tier: met.get(tier, Metered.sum([])) for tier in dict.fromkeys([*TIERS, *met])}
        return cls({tier: one.tier for tier, one in by_tier.items()}, row_bytes, by_tier["host"].requests)

    @property
    def on_gpu(self) -> TierCount:
        """The same of rows at a bare address, which are taken to be the host's, where they are the reader's own."""
        return TierCount({**self.tiers, "local": self.tiers["host"], "host": self.tiers["local"]}, self.row_bytes)

    @property
    def rows(self) -> dict[str, int]:
        """How many come from each tier."""
        return {tier: counts["hits"] for tier, counts in self.tiers.items()}

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes of those rows themselves; ``tiers`` has those of all sectors that they lie in."""
        return {tier: rows * self.row_bytes for tier, rows in self.rows.items()}


def count_rows(table: int | Params, rows: int, row_bytes: int, index: torch.Tensor) -> TierCount:
    """What copying the rows at ``index`` out of the table would read.

    Args:
        table: address of ``rows`` rows in host memory, of which none is read, or their Tiers.
        index: contiguous int64 row numbers on the reader, all of them rows of the table.
    """
    device = index.device
    found = torch.zeros((len(TIERS), len(METERED)), dtype=torch.int64, device=device)
    placement = "OneRange" if isinstance(table, int) else type(table).__name__
    copy = row_copy(table, rows, row_bytes, 0, index, index.element_size(), False)
    params = _PARAMS[placement](rows=copy, tiers=found.data_ptr())
    if device.type == "cpu":
        count = _core.count_rows if isinstance(table, int) else _core.count_tiered_rows
        count(params.address)
    elif index.numel():
        grid = min(devices.sm_count(device), -(-index.numel() // _THREADS))
        launch(KERNELS, f"count_kernel<{placement}>", device, grid, _THREADS, params)
    return TierCount.of(dict(zip(TIERS, map(Metered.of, found.tolist()), strict=True)), row_bytes)
