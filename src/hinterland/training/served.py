"""From where the reads of a mini-batch are served: the GPU's own memory, other GPUs, the host over the link, or storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..graph.traversal_stats import link_ceiling
from ..memory import UnifiedTensor
from ..memory.count import Metered
from ..memory.stored import StoredTable
from ..memory.tiered_storage import TieredStorage
from ..sampling import NeighborSampler, Sample
from ..sampling.sample_stats import read_of
from ..storage import StorageStats


@dataclass(frozen=True)
class Served:
    """Reads of one batch.

    Attributes:
        local, peers, host, storage: rows of features by the tier that they came from.
        edges: sampled edges; kept: those of them that were read from GPU memory.
        link: bytes that came over the link from the host at least: the rows, also those on storage, and the sectors of 32 that
            edges lie in, and offsets that are not kept.
    """

    local: int
    peers: int
    host: int
    edges: int
    kept: int
    link: int
    storage: int = 0


FIELDS = tuple(field.name for field in dataclasses.fields(Served))


def tiers_of(features: Any, node: torch.Tensor) -> dict[str, int]:
    """From where the rows of ``node`` come, if they are fetched now: how many by tier. Waits for the device."""
    if hasattr(features, "count") and not isinstance(features, UnifiedTensor):  # a table of several tiers
        return dict(features.count(node).rows)
    tier = "local" if isinstance(features, torch.Tensor) and features.is_cuda else "host"
    return {"local": 0, "peers": 0, "host": 0, tier: len(node)}


def served(sample: Sample, sampler: NeighborSampler, rows: Mapping[str, int], row_bytes: int) -> Served:
    """Counts one batch. Waits for the device, on the current stream.

    Args:
        sample: what ``sampler`` gave.
        rows: of its vertices by tier (:func:`tiers_of`), of ``row_bytes`` each.
    """
    drawn, stored, link = sampler.drawn(sample), rows.get("storage", 0), 0
    if sampler.device.type == "cuda":
        link = (rows["host"] + stored) * row_bytes + read_of([drawn]).get("host", Metered.sum([])).bytes
    kept = drawn.edges()["local"].hits
    return Served(rows["local"], rows["peers"], rows["host"], len(sample.edge), kept, link, stored)


def moved(features: Any) -> StorageStats | None:
    """What the cache of features on storage has moved so far; None of features that lie elsewhere."""
    return features.stats() if isinstance(features, StoredTable | TieredStorage) else None


def rates(summed: Mapping[str, float], counted: float, batches: float, seconds: float, gpus: int) -> dict[str, Any]:
    """Shares of reads by tier, and the use of the link, as a record of an epoch holds them.

    Args:
        summed: sums of the fields of :class:`Served` over ``counted`` batches.
        batches, seconds: of the epoch; bytes are those of the counted batches times what was not counted.
        gpus: that read at the same time, each over a link of its own.
    """
    by_tier = {tier: summed[tier] for tier in ("local", "peers", "host")}
    if summed.get("storage"):
        by_tier["storage"] = summed["storage"]
    rows = sum(by_tier.values())
    found: dict[str, Any] = {"served": None, "link": None}
    if not counted:
        return found
    found["served"] = {
        "batches": int(counted),
        "rows": {tier: count / rows if rows else 0.0 for tier, count in by_tier.items()},
        "edges": summed["kept"] / summed["edges"] if summed["edges"] else 0.0,
    }
    if summed["link"]:
        moved, ceiling = summed["link"] * batches / counted, link_ceiling()
        bandwidth = moved / gpus / seconds
        share = bandwidth / ceiling if ceiling else None
        found["link"] = {"bytes": int(moved), "bandwidth": bandwidth, "ceiling": ceiling, "share": share}
    return found
