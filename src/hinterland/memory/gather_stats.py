"""What one gather or scatter did (``stats=``): in the words of a traversal's stats, and of traffic's requests. Samplers and
loaders say theirs in the same words, and add them up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from ..machine import measured_link
from ..runtime import arguments
from ..runtime.capture import require_running
from ..runtime.errors import ConfigError
from .count import TierCount

_AWAY = ("host", "storage")  # tiers that are no memory of a GPU


class Counted(Protocol):
    """A table whose gathers are counted."""

    @property
    def row_bytes(self) -> int: ...

    def count(self, index: torch.Tensor) -> TierCount: ...

    def stats(self) -> Any:
        """What its cache has read from the disk so far (StorageStats); None of a table in memory."""


@contextmanager
def measured(table: Counted, rows: torch.Tensor, stats: dict[str, Any]) -> Iterator[None]:
    """Fills ``stats`` with what the gather or scatter of ``rows`` within does (docs/memory.md says which fields).

    Raises:
        ConfigError: ``stats`` is no dict.
    """
    require_dict(stats)
    counted = table.count(rows)
    before = table.stats()
    with timed(rows.device) as took:
        yield
    storage = None if before is None else table.stats().since(before).report()
    away = sum(counted.tiers[tier]["hits"] for tier in _AWAY if tier in counted.tiers)
    stats.update(rows=rows.numel(), **report(rows.device, took[0], counted, away * table.row_bytes, storage))


def report(device: torch.device, seconds: float, counted: TierCount, useful: int, storage: Any) -> dict[str, Any]:
    """What all stats say of reads by ``device``, of which ``useful`` bytes were wanted from beyond the GPUs."""
    moved = sum(counted.tiers[tier]["bytes"] for tier in _AWAY if tier in counted.tiers)
    crossed = counted.tiers["host"]["bytes"]
    return {
        "device": str(device),
        "seconds": seconds,
        "bytes": moved,
        "useful_bytes": useful,
        "amplification": amplification(moved, useful),
        "requests": counted.requests,
        "cached": sum(counts["bytes"] for tier, counts in counted.tiers.items() if tier not in _AWAY),
        "tiers": counted.tiers,
        "storage": storage,
        "link": link(crossed, seconds) if device.type == "cuda" and crossed else None,
    }


def add(total: dict[str, Any], one: Mapping[str, Any]) -> None:
    """Adds the stats of one call to those of several: counts and seconds are summed, rates are those of the sums."""
    for name, value in one.items():
        so_far = total.get(name)
        if isinstance(value, Mapping):
            total[name] = so_far = {} if so_far is None else so_far
            add(so_far, value)
        elif isinstance(value, list):
            total[name] = value if so_far is None else [a + b for a, b in zip(so_far, value, strict=True)]
        elif isinstance(value, bool):
            total[name] = value and so_far is not False
        elif isinstance(value, int | float):
            total[name] = value if so_far is None else so_far + value
        else:
            total[name] = value if so_far is None else so_far
    if "useful_bytes" in total:
        total["amplification"] = amplification(total["bytes"], total["useful_bytes"])
    if total.get("link") is not None:
        total["link"] = link(total["link"]["bytes"], total["seconds"])
    if "cpu_us_per_request" in total:
        total["cpu_us_per_request"] = 1e6 * total["cpu_seconds"] / total["requests"] if total["requests"] else 0.0


def amplification(moved: int, useful: int) -> float:
    """Bytes that were moved over those that were wanted; 1 where none were."""
    return moved / useful if useful else 1.0


def require_dict(stats: Any) -> None:
    """Refuses ``stats=`` that cannot be filled.

    Raises:
        ConfigError: it is no dict; or a CUDA graph is captured, and nothing runs that could be counted.
    """
    if not isinstance(stats, dict):
        raise ConfigError(f"stats={arguments.repr_of(stats)} is no dict, which is filled; pass one, as stats={{}} is")
    require_running("stats= cannot be filled", "leave it out")


@contextmanager
def timed(device: torch.device) -> Iterator[list[float]]:
    """Waits for the device before and after, and then puts the seconds between into what it gives."""
    took: list[float] = []
    _wait(device)
    begin = time.perf_counter()
    yield took
    _wait(device)
    took.append(time.perf_counter() - begin)


def link(moved: int, seconds: float) -> dict[str, float | None]:
    """Bytes that crossed the link, and the share of what it can."""
    found = measured_link()
    ceiling, bandwidth = None if found is None else found.h2d, moved / seconds if seconds > 0 else 0.0
    return {"bytes": moved, "bandwidth": bandwidth, "ceiling": ceiling, "share": bandwidth / ceiling if ceiling else None}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
