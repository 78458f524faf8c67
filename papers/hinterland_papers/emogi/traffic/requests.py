"""Exact counts of the link's requests by size, for a traversal of EMOGI (Min 2022, section 2.5.3), and what follows from them.

A run is replayed warp by warp with the kernels' own address arithmetic (emogi/traversal.hpp); the loads of a
warp are merged as a GPU merges them (requests.hpp). Time comes from a model of the link.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hinterland.graph.bfs import bfs
from hinterland.graph.graph import Graph, require_graph
from hinterland.machine import measured_link
from hinterland.memory.count import SIZES
from hinterland.runtime import arguments
from hinterland.runtime.errors import ConfigError
from hinterland.runtime.repr import Repr

from ... import _core
from .. import traversal as emogi

_FIELDS = ("vertices", "useful_bytes", "distinct_bytes", "waits")  # of LevelTraffic, after the requests


@dataclass(frozen=True)
class LinkModel:
    """The link between host and GPU.

    Attributes:
        rate: bytes a second on the wire, overhead included: what the copy engine reaches.
        latency: seconds from a request to its data.
        overhead: bytes that a request takes on the wire besides its data.
        measured: whether rate and latency are of this machine (``hinterland probe``).
        requests: how many it serves a second at most, which binds those of less than a line.
    """

    rate: float = 55.6e9  # PCIe 5.0 x16, an H200
    latency: float = 1.38e-6
    overhead: int = 12  # docs/notes/gather-on-h200.md
    measured: bool = False
    requests: float = 460e6  # docs/notes/traversal-on-h200.md

    def __post_init__(self) -> None:
        for name in ("rate", "latency", "requests"):
            arguments.number(name, getattr(self, name))
        arguments.whole_number("overhead", self.overhead)
        rates = 1 <= self.rate <= 1e18 and 1 <= self.requests <= 1e18  # NaN is in no range
        if not (rates and 0 < self.latency <= 1e9 and self.overhead >= 0):
            raise ConfigError(
                "a link has a rate from 1 to 1e18 bytes a second, as many requests, a latency above 0 and at most 1e9 seconds, "
                f"and no negative overhead, unlike {self}"
            )

    def seconds(self, nbytes: int, requests: int, waits: int) -> float:
        """The time for so many bytes in so many requests, if the warp with most work waits ``waits`` times."""
        wire = (nbytes + self.overhead * requests) / self.rate
        return max(wire, requests / self.requests, waits * self.latency)

    @classmethod
    def here(cls) -> LinkModel:
        """This machine's link, if a probe has measured it, else that of an H200."""
        link = measured_link()
        return cls() if link is None else cls.of(link.h2d, link.latency, measured=True)

    @classmethod
    def of(cls, rate: float, latency: float, measured: bool = False) -> LinkModel:
        """A link that serves as many requests, in proportion to its rate, as an H200's."""
        rate = arguments.number("rate", rate)
        return cls(rate, latency, measured=measured, requests=max(1.0, cls.requests * rate / cls.rate))


@dataclass(frozen=True, repr=False)
class Traffic(Repr):
    """What a run asks of the link.

    Attributes:
        run: algorithm, source, access, assignment, and bytes of an edge.
        link: the model of the link that times come from.
        total: over all levels; as a level, and ``over_dataset``: bytes over those of the whole arrays.
        levels: for each level, of each launch: ``requests`` (by their bytes), ``bytes``, ``useful_bytes`` (of the lists),
            ``distinct_bytes`` (of sectors counted once a level: what an endless cache would let through),
            ``amplification`` (bytes over useful bytes), ``vertices``, ``waits`` (of the busiest warp), and from the model
            ``start`` and ``seconds``, ``bandwidth`` (bytes a second without overhead) and ``in_flight`` (requests under
            way on average: rate times latency, Little's law).
    """

    run: dict[str, Any]
    link: LinkModel
    total: dict[str, Any]
    levels: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        return {"run": self.run, "link": dataclasses.asdict(self.link), "total": self.total, "levels": self.levels}


def analyse(
    graph: Graph,
    algorithm: str = "bfs",
    source: int | None = None,
    access: str = "aligned",
    assignment: str = "warp",
    edge_bytes: int | None = None,
    size: int | None = None,
    link: LinkModel | None = None,
) -> Traffic:
    """The link requests of one run, counted on the CPU.

    The active vertices of each level are those of a run on the CPU. For BFS they are the same on a GPU; distances, labels
    and ranks change in another order there, so ``"sssp"``, ``"cc"`` and ``"pagerank"`` describe a run, not every run.

    Args:
        graph: the graph; for ``"sssp"`` with weights, which are counted too, for ``"cc"`` undirected.
        algorithm: ``"bfs"``, ``"sssp"``, ``"cc"`` or ``"pagerank"``.
        source: where bfs and sssp begin; None is the vertex with the most neighbours.
        access, assignment, size: as for ``hinterland_papers.emogi.bfs``.
        edge_bytes: 4 or 8, whatever the graph has; None is what it has.
        link: the model of the link; None is ``LinkModel.here()``.

    Raises:
        ConfigError: an unknown algorithm, access, assignment, edge width or size.
        IndexOutOfRange: ``source`` is no vertex.
        GraphError: a graph that the algorithm cannot take.
    """
    require_graph(graph)
    arguments.one_of("algorithm", algorithm, emogi.ALGORITHMS)
    if link is not None:
        arguments.instance("link", link, LinkModel, "as LinkModel(rate=25e9) is")
    replay = Replay(graph, access, assignment, edge_bytes, size, weights=algorithm == "sssp")
    rooted = algorithm in ("bfs", "sssp")
    if not rooted:
        source = None
    elif source is None:
        source = int(graph.to_original(graph.degrees()).argmax()) if graph.num_vertices else 0
    if algorithm == "bfs":
        levels = bfs(graph, 0 if source is None else source, device="cpu").levels
        replay.levels(levels if graph.original_ids is None else levels[graph.original_ids])  # as the arrays are numbered
    else:
        run = getattr(emogi, algorithm)
        observe: Callable[[torch.Tensor], None] = lambda active: replay.levels(active.to(torch.int32) - 1)  # noqa: E731
        run(graph, *([source] if rooted else []), device="cpu", observe=observe)
    return replay.traffic({"algorithm": algorithm, "source": source}, link or LinkModel.here())


class Replay:
    """Counts levels as they come."""

    def __init__(
        self, graph: Graph, access: str, assignment: str, edge_bytes: int | None, size: int | None, weights: bool = False
    ) -> None:
        edge_bytes = graph.indices.element_size() if edge_bytes is None else edge_bytes
        if (edge_bytes := arguments.whole_number("edge_bytes", edge_bytes)) not in (4, 8):
            raise ConfigError(f"edge_bytes={edge_bytes!r} is neither 4 nor 8")
        if size is not None:
            size = arguments.whole_number("size", size)
        offsets = graph.array("indptr", "cpu")
        assert offsets is not None
        self._division = emogi.Division(graph, offsets, access, assignment, size, edge_bytes)
        self._elements = (edge_bytes, graph.weight_type.itemsize) if weights and graph.weight_type else (edge_bytes,)
        self._dataset = graph.num_edges * sum(self._elements)
        self._policies = {"access": access, "assignment": assignment, "edge_bytes": edge_bytes}
        self._counts: list[list[int]] = []

    def levels(self, stamps: torch.Tensor) -> None:
        """Adds levels: ``stamps`` (int32 ``[V]``, CPU) says in which of them each vertex is active, -1 in none."""
        levels = int(stamps.max()) + 1 if len(stamps) else 0
        counts = torch.zeros((len(self._elements), levels, _core.TRAFFIC_FIELDS), dtype=torch.int64)
        case = self._division.without_arrays()
        for size, table in zip(self._elements, counts, strict=True):
            _core.count_traffic(case, stamps.data_ptr(), size, table.data_ptr(), levels)
        total = counts.sum(0)
        total[:, len(SIZES)] = counts[0, :, len(SIZES)]  # vertices are the same for edges and weights
        self._counts += total.tolist()

    def traffic(self, run: dict[str, Any], link: LinkModel) -> Traffic:
        """All levels so far, in order."""
        levels: list[dict[str, Any]] = []
        clock = 0.0
        for row in self._counts:
            level = {"level": len(levels), **_counted(row)}
            seconds = link.seconds(level["bytes"], sum(row[: len(SIZES)]), level["waits"])
            levels.append({**level, "start": clock, **_timed(level, seconds, link)})
            clock += seconds
        total = _counted([sum(column) for column in zip(*self._counts, strict=True)] or [0] * _core.TRAFFIC_FIELDS)
        total["waits"] = sum(level["waits"] for level in levels)
        over = {"over_dataset": total["bytes"] / self._dataset if self._dataset else 0.0}
        return Traffic({**run, **self._policies}, link, {**total, **over, **_timed(total, clock, link)}, levels)


def _counted(row: list[int]) -> dict[str, Any]:
    requests = dict(zip(map(str, SIZES), row, strict=False))
    moved = sum(size * count for size, count in zip(SIZES, row, strict=False))
    known = dict(zip(_FIELDS, row[len(SIZES) :], strict=True))
    amplification = moved / known["useful_bytes"] if known["useful_bytes"] else 1.0
    return {"requests": requests, "bytes": moved, "amplification": amplification, **known}


def _timed(counted: dict[str, Any], seconds: float, link: LinkModel) -> dict[str, float]:
    if seconds == 0:
        return {"seconds": 0.0, "bandwidth": 0.0, "in_flight": 0.0}
    requests = sum(counted["requests"].values())
    return {
        "seconds": seconds,
        "bandwidth": counted["bytes"] / seconds,
        "in_flight": requests / seconds * link.latency,
    }
