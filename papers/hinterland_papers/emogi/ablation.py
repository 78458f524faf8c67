"""EMOGI's evaluation over again (Min et al. 2020, figures 5 and 7 to 11), with the widths of edges (Min 2022, figure 2.13) and
BaM's work assignments beside it.

Requests are counted by :mod:`.traffic.requests`; times are measured. On the CPU there is no link: times are those of
the CPU, bandwidths those of the model, and the columns of UVM are missing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from hinterland.graph import generate, random_weights
from hinterland.graph.graph import Graph
from hinterland.graph.lists import NeighborLists
from hinterland.graph.sources import draw_sources
from hinterland.memory.count import SIZES
from hinterland.runtime import devices
from hinterland.runtime.errors import ConfigError
from hinterland.runtime.units import parse_bytes
from hinterland.table import UnifiedTensor

from . import traversal as emogi
from .migrating import migrating
from .traffic.requests import LinkModel, Replay

KINDS = ("kronecker", "uniform")
WIDTHS = (4, 8)
PAGE_BYTES = 4096  # the least that UVM moves

Row = dict[str, Any]
Progress = Callable[[str], None]


def ablation(
    kinds: Sequence[str] = KINDS,
    scale: int = 25,
    edge_factor: int = 16,
    sources: int = 4,
    seed: int = 1,
    device: torch.device | str | int | None = None,
    uvm_budget: int | str | None = None,
    progress: Progress = lambda phrase: None,
) -> dict[str, list[Row]]:
    """Tables by the name of the figure that they correspond to.

    Args:
        kinds: of generated graphs; each has ``2**scale`` vertices, ``edge_factor`` edges for each before mirroring, and int32
            weights.
        sources: searches from so many random vertices with neighbours; a row has the mean of their times.
        device: where to run; on a GPU the edges lie in host memory.
        uvm_budget: bytes of GPU memory that migrating pages find free, as in ``"8GiB"``; plain allocations take the rest, and
            edges may exceed it where ``managed_limit`` is ``"unlimited"``. None is all that is free.
        progress: is told what is being measured.

    Raises:
        OutOfMemory: a graph does not fit in host memory, or for UVM, in what managed memory may take.
    """
    where = devices.as_device(device)

    def generated() -> Iterator[tuple[str, Graph]]:
        place = {"indptr": "gpu", "indices": "host"} if where.type == "cuda" else "host"
        options: dict[str, Any] = {"scale": scale, "edge_factor": edge_factor, "seed": seed, "placement": place}
        for kind in kinds:
            progress(f"generating {kind} of scale {scale}")
            yield kind, random_weights(generate(kind, device=where, **options), "int32", seed)

    return ablation_of(generated(), sources, seed, where, uvm_budget, progress)


def ablation_of(
    graphs: Iterable[tuple[str, Graph]],
    sources: int = 4,
    seed: int = 1,
    device: torch.device | str | int | None = None,
    uvm_budget: int | str | None = None,
    progress: Progress = lambda phrase: None,
) -> dict[str, list[Row]]:
    """The same tables of other graphs.

    Args:
        graphs: each with the name that its rows have, and its edges in host memory. One without weights that EMOGI's
            shortest paths take gets random int32 ones; components are found of undirected ones.
        sources, seed, device, uvm_budget, progress: as of :func:`ablation`.

    Raises:
        ConfigError: a graph is compressed, or has so many vertices that 4 bytes do not name each.
        OutOfMemory: as of :func:`ablation`.
    """
    where = devices.as_device(device)
    budget = None if uvm_budget is None else parse_bytes(uvm_budget)
    tables: dict[str, list[Row]] = {name: [] for name in _TABLES}
    for name, graph in graphs:
        if graph.is_compressed:
            raise ConfigError(
                f"{name} is compressed, and EMOGI's kernels read plain lists; name the file that it was made from"
            )
        if graph.num_vertices > torch.iinfo(torch.int32).max:
            raise ConfigError(f"{name} has {graph.num_vertices:,} vertices, which 4 bytes do not name; choose a smaller graph")
        if graph.weight_type not in emogi.WEIGHTS:
            graph = random_weights(graph, "int32", seed)
        bench = _Bench(graph, name, draw_sources(graph, sources, seed), where, budget, progress)
        for width in WIDTHS:
            bench.measure(width)
        bench.fill(tables)
        del bench, graph
    return tables


_TABLES = {
    "figure_5_request_sizes": "share of BFS requests by size",
    "figure_7_requests": "BFS requests",
    "figure_8_bandwidth": "GB/s over BFS",
    "figure_9_bfs_speed": "BFS by access, against UVM",
    "figure_10_amplification": "bytes read over bytes of the edge array",
    "figure_11_applications": "applications, aligned against UVM",
    "edge_widths": "4-byte against 8-byte edges, aligned (figure 2.13 of the dissertation)",
    "assignments": "BFS by work assignment, aligned",
}


def title(table: str) -> str:
    """What a table of the ablation shows."""
    return _TABLES[table]


class _Bench:
    """One graph: its measurements, by width of an edge, and its rows of every table."""

    def __init__(
        self, graph: Graph, kind: str, sources: list[int], device: torch.device, budget: int | None, progress: Progress
    ) -> None:
        self._graph, self._kind, self._sources, self._device, self._progress = graph, kind, sources, device, progress
        self._budget = budget
        self._algorithms = [name for name in emogi.ALGORITHMS if name != "cc" or not graph.directed]
        self._levels = [emogi.bfs(graph, s, device=device).values.cpu() for s in sources]  # also compiles the kernels
        self._link = LinkModel.here()
        self._ms: dict[tuple[str, str, int], float] = {}  # by algorithm, access or assignment, width
        self._moved: dict[tuple[str, str, int], float] = {}  # bytes over the link, mean of the sources
        self._replays: dict[tuple[str, int], Any] = {}  # totals of the model: access, width

    def measure(self, width: int) -> None:
        graph = _with_width(self._graph, width)
        for access in emogi.ACCESSES:
            self._count(graph, access, width)
            self._time("bfs", access, width, graph, access=access)
        for assignment in emogi.ASSIGNMENTS[1:]:
            self._time("bfs", assignment, width, graph, assignment=assignment)
        for algorithm in self._algorithms[1:]:
            self._time(algorithm, "aligned", width, graph)
        if self._device.type == "cuda":
            moved, come_home = migrating(graph, self._budget)
            with _only(self._budget, self._device):
                for algorithm in self._algorithms:
                    self._time(algorithm, "uvm", width, moved, before=come_home)
        self._moved["bfs", "uvm", width] = PAGE_BYTES * statistics.mean(_pages(graph, levels, width) for levels in self._levels)

    def _time(
        self, algorithm: str, name: str, width: int, graph: Graph, before: Callable[[], None] = lambda: None, **policies: str
    ) -> None:
        self._progress(f"{self._kind}, {width}-byte edges: {algorithm} {name}")
        seconds = []
        for source in self._sources if algorithm in ("bfs", "sssp") else self._sources[:1]:
            before()
            seconds.append(_traverse(graph, algorithm, source, device=self._device, **policies).stats["seconds"])
        self._ms[algorithm, name, width] = statistics.mean(seconds) * 1e3

    def _count(self, graph: Graph, access: str, width: int) -> None:
        totals = []
        for levels in self._levels:
            replay = Replay(graph, access, "warp", width, None)
            replay.levels(levels)
            totals.append(replay.traffic({}, self._link).total)
        self._replays[access, width] = totals

    def fill(self, tables: Mapping[str, list[Row]]) -> None:
        """Adds this graph's rows."""
        for width in WIDTHS:
            where: Row = {"graph": self._kind, "edge_bytes": width}
            self._requests(tables, where, width)
            self._speeds(tables, where, width)
        for algorithm in self._algorithms:
            narrow, wide = (self._ms[algorithm, "aligned", width] for width in WIDTHS)
            row = {"graph": self._kind, "algorithm": algorithm, "ms_4": narrow, "ms_8": wide, "speedup": wide / narrow}
            tables["edge_widths"].append(row)

    def _requests(self, tables: Mapping[str, list[Row]], where: Row, width: int) -> None:
        dataset = self._graph.num_edges * width
        counted: dict[str, float] = {}
        for access in emogi.ACCESSES:
            totals = self._replays[access, width]
            by_size = {size: sum(t["requests"][str(size)] for t in totals) for size in SIZES}
            every = max(sum(by_size.values()), 1)
            counted[access] = every / len(totals)
            shares = {f"{size} B": count / every for size, count in by_size.items()}
            tables["figure_5_request_sizes"].append({**where, "access": access, **shares})
            moved = statistics.mean(t["bytes"] for t in totals)
            self._moved["bfs", access, width] = moved
            seconds = self._ms["bfs", access, width] / 1e3
            modelled = statistics.mean(t["bandwidth"] for t in totals) / 1e9
            measured = {"measured": moved / seconds / 1e9} if self._device.type == "cuda" else {}
            tables["figure_8_bandwidth"].append({**where, "access": access, **measured, "modelled": modelled})
        fewer = {f"{access}_over_naive": counted[access] / counted["naive"] for access in ("merged", "aligned")}
        tables["figure_7_requests"].append({**where, **counted, **fewer})
        reads = {name: self._moved["bfs", name, width] / dataset for name in ("uvm", "aligned")}
        tables["figure_10_amplification"].append({**where, **reads})

    def _speeds(self, tables: Mapping[str, list[Row]], where: Row, width: int) -> None:
        ms = {access: self._ms["bfs", access, width] for access in emogi.ACCESSES}
        base = self._ms.get(("bfs", "uvm", width))
        room: Row = {} if base is None or self._budget is None else {"uvm_budget": self._budget}
        against = {} if base is None else {"uvm": base, **{f"{name}_over_uvm": base / took for name, took in ms.items()}}
        tables["figure_9_bfs_speed"].append({**where, **ms, **room, **against})
        for algorithm in self._algorithms:
            took = self._ms[algorithm, "aligned", width]
            uvm = self._ms.get((algorithm, "uvm", width))
            row = {} if uvm is None else {**room, "uvm_ms": uvm, "speedup": uvm / took}
            tables["figure_11_applications"].append({**where, "algorithm": algorithm, "aligned_ms": took, **row})
        by_assignment = {name: self._ms["bfs", name, width] for name in emogi.ASSIGNMENTS[1:]}
        tables["assignments"].append({**where, "warp": ms["aligned"], **by_assignment})


def _with_width(graph: Graph, width: int) -> Graph:
    """The same graph with neighbours of ``width`` bytes in host memory."""
    if graph.indices.element_size() == width:
        return graph
    indices = UnifiedTensor.empty((graph.num_edges,), torch.int32 if width == 4 else torch.int64)
    indices.cpu().copy_(graph.indices)
    return Graph.of(NeighborLists({**graph.neighbor_lists.arrays, "indices": indices}), graph.directed)


def _traverse(graph: Graph, algorithm: str, source: int, **options: Any) -> emogi.EmogiResult:
    begins = [source] if algorithm in ("bfs", "sssp") else []
    result: emogi.EmogiResult = getattr(emogi, algorithm)(graph, *begins, **options)
    return result


@contextmanager
def _only(budget: int | None, device: torch.device) -> Iterator[None]:
    """Plain allocations take what is free of the GPU's memory but ``budget``. The kernels' own state is taken of that."""
    if budget is None:
        yield
        return
    torch.cuda.empty_cache()
    taken = torch.empty(max(0, devices.free_bytes(device) - budget), dtype=torch.uint8, device=device)
    try:
        yield
    finally:
        del taken
        torch.cuda.empty_cache()


def _pages(graph: Graph, levels: torch.Tensor, width: int) -> int:
    """Pages of the edge array that a search touches: what UVM moves if each comes over once, alone."""
    offsets = graph.array("indptr", "cpu")
    assert offsets is not None
    pages = emogi.Division(graph, offsets, "aligned", "odt-active", PAGE_BYTES // width, width)
    return len(pages.active_tiles(levels >= 0))
