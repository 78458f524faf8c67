"""What one gather or scatter did (``stats=``): in the words of a traversal's stats, and of traffic's requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from .. import _core
from ..machine import measured_link
from ..runtime import arguments
from ..runtime.errors import ConfigError
from .count import TierCount

_SECTOR, _SECTORS = 32, 4  # bytes that are the least of a request, and how many of these are the most
SIZES = tuple(str(_SECTOR * count) for count in range(1, _SECTORS + 1))
assert _SECTOR * _SECTORS == _core.LINE_BYTES


class Counted(Protocol):
    """A table whose gathers are counted."""

    @property
    def row_bytes(self) -> int: ...

    def count(self, index: torch.Tensor) -> TierCount: ...

    def _from_host(self, rows: torch.Tensor) -> tuple[int, torch.Tensor]:
        """Of ``rows`` (int64 ``[n]``, from 0 on, on the reader) those that come out of host memory: an address there, and their
        numbers from it on."""

    def _storage_stats(self) -> Any:
        """What its cache has read from the disk so far (StorageStats); None of a table in memory."""


@contextmanager
def measured(table: Counted, rows: torch.Tensor, stats: dict[str, Any]) -> Iterator[None]:
    """Fills ``stats`` with what the gather or scatter of ``rows`` within does (docs/memory.md says which fields).

    Raises:
        ConfigError: ``stats`` is no dict.
    """
    if not isinstance(stats, dict):
        raise ConfigError(f"stats={arguments.shown(stats)} is no dict, which is filled; pass one, as stats={{}} is")
    device, row_bytes = rows.device, table.row_bytes
    counted = table.count(rows)
    requests = requests_by_size(*table._from_host(rows), row_bytes)
    before = table._storage_stats()
    _wait(device)
    begin = time.perf_counter()
    yield
    _wait(device)
    seconds = time.perf_counter() - begin
    storage = None if before is None else table._storage_stats().since(before).report()
    away = [counted.tiers[tier] for tier in ("host", "storage") if tier in counted.tiers]
    moved, useful = sum(one["bytes"] for one in away), sum(one["hits"] for one in away) * row_bytes
    crossed = counted.tiers["host"]["bytes"]
    stats.update(
        device=str(device),
        seconds=seconds,
        rows=rows.numel(),
        bytes=moved,
        useful_bytes=useful,
        amplification=moved / useful if useful else 1.0,
        requests=requests,
        cached=sum(counts["bytes"] for tier, counts in counted.tiers.items() if tier in ("local", "peers")),
        tiers=counted.tiers,
        storage=storage,
        link=_link(crossed, seconds) if device.type == "cuda" and crossed else None,
    )


def requests_by_size(base: int, rows: torch.Tensor, row_bytes: int) -> dict[str, int]:
    """The requests for the rows of these numbers at the address ``base``, by their bytes: whole sectors of 32 bytes, of one
    cache line each (Min 2022, section 2.5.3). Each row is on its own."""
    found = [0] * (1 + _SECTORS)
    if row_bytes and rows.numel():
        begin = rows * row_bytes + base
        first, last = begin // _SECTOR, (begin + (row_bytes - 1)) // _SECTOR
        lines = last // _SECTORS - first // _SECTORS
        inside = lines == 0
        heads = torch.where(inside, last - first + 1, _SECTORS - first % _SECTORS)
        tails = (last % _SECTORS + 1)[~inside]
        sizes = torch.bincount(heads, minlength=1 + _SECTORS) + torch.bincount(tails, minlength=1 + _SECTORS)
        found = sizes.tolist()
        found[_SECTORS] += int((lines - 1).clamp_(min=0).sum())
    return dict(zip(SIZES, found[1:], strict=True))


def _link(moved: int, seconds: float) -> dict[str, float | None]:
    link = measured_link()
    ceiling, bandwidth = None if link is None else link.h2d, moved / seconds if seconds > 0 else 0.0
    return {"bytes": moved, "bandwidth": bandwidth, "ceiling": ceiling, "share": bandwidth / ceiling if ceiling else None}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
