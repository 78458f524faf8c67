"""What a traversal reports: totals, steps, and its share of the link's ceiling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..machine import load as load_machine
from ..runtime.params import leaves
from .prepare import Prepared
from .traversal import FIELDS, Finished

TIERS = "local", "peers", "host"  # where bytes come from: the device's own memory, other GPUs', the CPU's
_COUNTS = leaves("memory::TierCount")
_HEAVY = 0.9  # the heavy levels are the fewest that move this share of all bytes: a definition


def link_ceiling() -> float | None:
    """Bytes per second that the copy engine moves from host to GPU here, if ``hinterland probe`` has measured it."""
    machine = load_machine()
    return machine.link.h2d if machine is not None and machine.link is not None else None


def summarise(finished: Finished, seconds: float, prepared: Prepared, mode: str) -> dict[str, Any]:
    """The ``stats`` of a traversal.

    Args:
        finished: what the run left in its control block; steps past the last record share it.
        seconds: time of the whole run.
        prepared: what it ran on.
        mode: the mode that was asked for.

    Returns:
        A dict that JSON can take: ``device``, ``mode``, ``seconds``, ``levels`` (steps), ``reached``, ``edges`` (out of
        the vertices of all frontiers; not all of them need be examined), ``tiers`` (what reading edges and their weights
        took of each of TIERS: ``bytes`` in whole 32-byte sectors, ``requests`` for cache lines, and ``hits``, the elements
        that were found there), ``bytes`` (those from where the edges lie), ``cached`` (those from what the GPU keeps of
        them), ``held`` (bytes of GPU memory kept between runs), ``link`` (None unless the edges crossed it: ``bytes``,
        ``bandwidth``, ``ceiling``, ``share``, and ``heavy``, the same over the fewest levels that moved nine tenths of all
        bytes), ``per_level``.
    """
    rows = [dict(zip(FIELDS, row, strict=True)) for row in finished.records.tolist()]
    starts = [*(row["start_ns"] for row in rows), finished.end_ns]
    levels: list[dict[str, Any]] = []
    home = prepared.out.home
    for number, row in enumerate(rows):
        parts = {part: [row.pop(f"{part}_{count}") for count in _COUNTS] for part in ("home", "kept")}
        row |= {"bytes": parts["home"][0], "cached": parts["kept"][0], "tiers": _by_tier(home, **parts)}
        row["direction"] = "pull" if row.pop("pulled") else "push"
        start, visit = row.pop("start_ns"), row.pop("visit_ns")
        collecting = visit - start if visit else 0  # 0 where a step is one loop
        took = {"seconds": (starts[number + 1] - start) / 1e9, "collect_seconds": collecting / 1e9}
        levels.append({"level": number, **row, **took})
    total = {field: sum(level[field] for level in levels) for field in ("vertices", "edges", "bytes", "cached")}
    over_link = prepared.out.over_link
    return {
        "device": str(prepared.device),
        "mode": mode,
        "seconds": seconds,
        "levels": finished.depth,
        "reached": total["vertices"],
        "edges": total["edges"],
        "tiers": sum_tiers([level["tiers"] for level in levels]),
        "bytes": total["bytes"],
        "cached": total["cached"],
        "held": prepared.held,
        "link": _link(levels, total["bytes"], seconds) if over_link else None,
        "per_level": levels,
    }


def _by_tier(at: str, home: list[int], kept: list[int]) -> dict[str, dict[str, int]]:
    """What edges where they lie, in tier ``at``, and what the GPU keeps of them were read for."""
    tiers = {tier: dict.fromkeys(_COUNTS, 0) for tier in TIERS}
    for tier, counts in ((at, home), ("local", kept)):
        for name, count in zip(_COUNTS, counts, strict=True):
            tiers[tier][name] += count
    return tiers


def sum_tiers(parts: Iterable[dict[str, dict[str, int]]]) -> dict[str, dict[str, int]]:
    """The ``tiers`` of several parts together."""
    parts = list(parts)
    return {tier: {count: sum(part[tier][count] for part in parts) for count in _COUNTS} for tier in TIERS}


def _link(levels: list[dict[str, Any]], moved: int, seconds: float) -> dict[str, Any]:
    ceiling = link_ceiling()
    heavy: list[dict[str, Any]] = []
    heavy_bytes = 0
    for level in sorted(levels, key=lambda level: -level["bytes"]):
        if heavy_bytes >= _HEAVY * moved:
            break
        heavy.append(level)
        heavy_bytes += level["bytes"]
    heavy_seconds = sum(level["seconds"] for level in heavy)
    return {
        "bytes": moved,
        **_rate(moved, seconds, ceiling),
        "ceiling": ceiling,
        "heavy": {
            "levels": sorted(level["level"] for level in heavy),
            "bytes": heavy_bytes,
            "seconds": heavy_seconds,
            **_rate(heavy_bytes, heavy_seconds, ceiling),
        },
    }


def _rate(moved: int, seconds: float, ceiling: float | None) -> dict[str, float | None]:
    bandwidth = moved / seconds if seconds > 0 else 0.0
    return {"bandwidth": bandwidth, "share": bandwidth / ceiling if ceiling else None}
