"""What a traversal reports: totals, levels, and its share of the link's ceiling."""

from __future__ import annotations

from typing import Any

import torch

from ..machine import load as load_machine

_FIELDS = ("vertices", "tasks", "edges", "bytes")
_HEAVY = 0.9  # the heavy levels are the fewest that move this share of all bytes


def link_ceiling() -> float | None:
    """Bytes per second that the copy engine moves from host to GPU here, if ``hinterland probe`` has measured it."""
    machine = load_machine()
    return machine.link.h2d if machine is not None and machine.link is not None else None


def summarise(
    records: torch.Tensor, end_ns: int, depth: int, seconds: float, device: torch.device, over_link: bool
) -> dict[str, Any]:
    """The ``stats`` of a traversal.

    Args:
        records: int64 ``[levels, 6]``: vertices, tasks, edges, bytes, start and expansion in ns of the device's clock.
        end_ns: when the last level ended, on the same clock.
        depth: levels; more than ``records`` has rows where the deepest share the last row.
        seconds: time of the whole search.
        device: where it ran.
        over_link: whether the edges crossed the link between host and GPU.

    Returns:
        A dict that JSON can take: ``device``, ``mode``, ``seconds``, ``levels``, ``reached``, ``edges`` (out of
        reached vertices; those of the last level are not examined where every vertex has been reached), ``bytes`` (read from
        the edge array in whole 32-byte sectors), ``link`` (None unless the edges crossed it: ``bytes``,
        ``bandwidth``, ``ceiling``, ``share``, and ``heavy``, the same over the fewest levels that moved nine tenths of all
        bytes), ``per_level``.
    """
    starts = [*records[:, 4].tolist(), end_ns]
    levels: list[dict[str, Any]] = []
    for number, row in enumerate(records.tolist()):
        took = {"seconds": (starts[number + 1] - starts[number]) / 1e9, "collect_seconds": (row[5] - row[4]) / 1e9}
        levels.append({"level": number, **dict(zip(_FIELDS, row, strict=False)), **took})
    total = {field: sum(level[field] for level in levels) for field in _FIELDS}
    return {
        "device": str(device),
        "mode": "top-down",
        "seconds": seconds,
        "levels": depth,
        "reached": total["vertices"],
        "edges": total["edges"],
        "bytes": total["bytes"],
        "link": _link(levels, total["bytes"], seconds) if over_link else None,
        "per_level": levels,
    }


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
