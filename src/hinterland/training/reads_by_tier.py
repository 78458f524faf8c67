"""From where the reads of a mini-batch are served: the GPU's own memory, other GPUs, the host over the link, or storage."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..graph.traversal_stats import link_ceiling
from ..memory.count import Metered
from ..sampling import HeteroSampler, NeighborSampler
from ..sampling.sample_stats import read_of
from ..storage import StorageStats
from ..table.sharded import REMOTE
from .row_gather import each_of, kept_table

_BELOW = ("storage", REMOTE)  # tiers that some tables have


@dataclass(frozen=True)
class Served:
    """Reads of one batch.

    Attributes:
        local, peers, host, storage, remote: rows of features by the tier that they came from; remote is another machine.
        edges: sampled edges; kept: those of them that were read from GPU memory.
        link: bytes that came over the link from the host at least: the rows, also those on storage and those of other
            machines, which came over a link there; and the sectors of 32 that edges lie in, and offsets that are not kept.
    """

    local: int
    peers: int
    host: int
    edges: int
    kept: int
    link: int
    storage: int = 0
    remote: int = 0


FIELDS = tuple(field.name for field in dataclasses.fields(Served))


@dataclass(frozen=True)
class FetchedRows:
    """Rows of one table, of ``row_bytes`` each: how many by tier."""

    tiers: Mapping[str, int]
    row_bytes: int


def fetched(table: Any, node: torch.Tensor) -> FetchedRows:
    """From where the rows of ``node`` come, if they are fetched now. Waits for the device."""
    row_bytes = getattr(table, "row_bytes", math.prod(table.shape[1:]) * table.dtype.itemsize)
    if hasattr(table, "tiers_of"):
        return FetchedRows(table.tiers_of(node), row_bytes)
    tier = "local" if isinstance(table, torch.Tensor) and table.is_cuda else "host"
    return FetchedRows({tier: len(node)}, row_bytes)


def served(sample: Any, sampler: NeighborSampler | HeteroSampler, rows: Sequence[FetchedRows]) -> Served:
    """Counts one batch. Waits for the device, on the current stream.

    Args:
        sample: what ``sampler`` gave.
        rows: of its vertices, from each table.
    """
    tiers = {tier: sum(one.tiers.get(tier, 0) for one in rows) for tier in ("local", "peers", "host", *_BELOW)}
    drawn, link = sampler.drawn(sample), 0
    if sampler.device.type == "cuda":
        link = sum(one.tiers.get(tier, 0) * one.row_bytes for one in rows for tier in ("host", *_BELOW))
        link += read_of(drawn).get("host", Metered.sum([])).bytes
    edges, kept = sum(len(one.edge) for one in drawn), sum(one.edges()["local"].hits for one in drawn)
    return Served(**tiers, edges=edges, kept=kept, link=link)


def moved(features: Any) -> StorageStats | None:
    """What the cache of features on storage has moved so far; None of features that lie elsewhere. Tables of several types that
    ``datasets.open`` left there have one cache."""
    tables = [table for one in each_of(features) if (table := kept_table(one)) is not None]
    return next((found for table in tables if (found := table.stats()) is not None), None)


def rates(summed: Mapping[str, float], counted: float, batches: float, seconds: float, gpus: int) -> dict[str, Any]:
    """Shares of reads by tier, and the use of the link, as a record of an epoch holds them.

    Args:
        summed: sums of the fields of :class:`Served` over ``counted`` batches.
        batches, seconds: of the epoch; bytes are those of the counted batches times what was not counted.
        gpus: that read at the same time, each over a link of its own.
    """
    by_tier = {tier: summed[tier] for tier in ("local", "peers", "host")}
    by_tier |= {tier: summed[tier] for tier in _BELOW if summed.get(tier)}
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
