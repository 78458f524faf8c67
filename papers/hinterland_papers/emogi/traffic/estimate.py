"""The time that the link alone would take for what users run, beside the time that was measured.

What is read is counted where it is read (include/hinterland/memory/meter.hpp): traversals in every mode, over plain and packed
lists, with ``stats=True``; gathers by ``table.count(index)``. Of a sample it follows from what was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from hinterland.graph.graph import Graph, require_graph
from hinterland.memory.count import Metered, TierCount, count_accesses
from hinterland.runtime import arguments
from hinterland.runtime.errors import ConfigError
from hinterland.runtime.repr import Repr

from .requests import LinkModel

_OFFSET_BYTES = 8


class SampleLike(Protocol):
    """What samplers return (:class:`hinterland.sampling.Sample`)."""

    @property
    def node(self) -> torch.Tensor: ...
    @property
    def col(self) -> torch.Tensor: ...
    @property
    def edge(self) -> torch.Tensor: ...


@dataclass(frozen=True, repr=False)
class Estimate(Repr):
    """What the link has to do, and how long it takes at least.

    Attributes:
        link: the model of the link.
        bytes: that come over it, in whole sectors.
        requests: for cache lines, or parts of them.
        seconds: by the model: of each step its bytes, its requests, or one latency, whichever takes longest.
        measured: seconds that the run took, or None; of a run on a CPU, which has no link, too.
        levels: of a traversal the same for each step.
    """

    link: LinkModel
    bytes: int
    requests: int
    seconds: float
    measured: float | None
    levels: list[dict[str, Any]]


def estimate(counted: Mapping[str, Any] | TierCount, link: LinkModel | None = None) -> Estimate:
    """What crosses the link, and the time for it.

    Args:
        counted: the ``stats`` of a traversal, in any mode and over plain or compressed lists; ``table.count(index)`` of a
            gather; or :func:`drawn` of a sample. Of a run on a CPU all that it reads of the lists counts.
        link: the model of the link; None is ``LinkModel.here()``.

    Raises:
        ConfigError: ``counted`` or ``link`` is something else.
    """
    link = LinkModel.here() if link is None else link
    arguments.instance("link", link, LinkModel, "as LinkModel(rate=25e9) is")
    if isinstance(counted, TierCount):
        steps: list[dict[str, Any]] = [{"tiers": counted.tiers, "seconds": None}]
        measured = None
    elif isinstance(counted, Mapping) and {"device", "seconds", "tiers"} <= counted.keys():
        searches = counted.get("searches", [counted])
        steps = [step for search in searches for step in search["per_level"]]
        measured = float(counted["seconds"])
    else:
        raise ConfigError(
            f"counted is {arguments.repr_of(counted)}, but must be the stats of a traversal, the count of a gather, or what "
            "traffic.drawn says of a sample"
        )
    everything = isinstance(counted, Mapping) and counted["device"] == "cpu"
    levels = []
    for step in steps:
        tiers = step["tiers"].values() if everything else [step["tiers"]["host"]]
        nbytes, requests = (sum(tier[name] for tier in tiers) for name in ("bytes", "requests"))
        row = {"bytes": nbytes, "requests": requests, "seconds": link.seconds(nbytes, requests, min(requests, 1))}
        levels.append({**row, "measured": step["seconds"]})
    total = {name: sum(level[name] for level in levels) for name in ("bytes", "requests")}
    return Estimate(link, **total, seconds=math.fsum(level["seconds"] for level in levels), measured=measured, levels=levels)


def drawn(graph: Graph, sample: SampleLike) -> TierCount:
    """What drawing ``sample`` read of the plain lists of ``graph``: the offsets of each vertex that drew, and its draws.

    The draws of a vertex that lie in one sector are read once, those in one line with one request. Arrays in GPU memory do not
    cross the link. What a prepared graph keeps there of others is not known here, and counts.

    Raises:
        ConfigError: a compressed graph, or something else.
    """
    require_graph(graph)
    for name in ("node", "col", "edge"):
        arguments.dense(f"sample.{name}", getattr(sample, name, None))
    indices = graph.neighbor_lists.arrays.get("indices")
    if indices is None:
        raise ConfigError("the lists are compressed, and a draw from one reads what lies around it; count a plain graph")
    read, width = [], indices.dtype.itemsize
    if graph.placement["indices"] != "gpu":
        kept = sample.edge >= 0
        read.append(count_accesses(sample.col[kept], sample.edge[kept] * width, width))
    if graph.placement["indptr"] != "gpu":
        owners = graph.to_internal(sample.node[sample.col.unique()].cpu())
        read.append(count_accesses(owners, owners * _OFFSET_BYTES, 2 * _OFFSET_BYTES))
    return TierCount.of({"host": Metered.sum(read)}, width)
