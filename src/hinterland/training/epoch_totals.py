"""What one epoch of training comes to: sums over its batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..sampling.envelope import PaddedSample
from .mini_batch import Batch
from .reads_by_tier import FIELDS as SERVED
from .row_gather import each_of

COUNTED = ("seeds", "vertices", "edges", "bytes")
CAPTURED = ("replayed", "overflowed", "rows", "real_rows")
SUMMED = ("loss", "correct", *COUNTED, *CAPTURED, "batches", "counted", *(f"served_{name}" for name in SERVED))


@dataclass
class EpochTotals:
    """What one epoch has come to so far."""

    summed: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SUMMED, 0.0))
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    storage: dict[str, Any] = field(default_factory=dict)  # of StorageStats, this rank's


def add_to(to: dict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, 0) + amount


def counts_of(batch: Batch) -> dict[str, int]:
    served = {} if batch.served is None else vars(batch.served)
    found = {**{f"served_{name}": count for name, count in served.items()}, "batches": 1, "counted": int(bool(served))}
    if isinstance(batch.sample, PaddedSample):  # its loader counts the others
        return found
    return {
        **found,
        "seeds": batch.batch_size,
        "vertices": sum(map(len, each_of(batch.sample.node))),
        "edges": sum(map(len, each_of(batch.sample.row))),
        "bytes": sum(x.nbytes for x in each_of(batch.x)),
    }
