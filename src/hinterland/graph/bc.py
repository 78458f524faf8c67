"""Betweenness centrality from all vertices or a sample of them (Brandes 2001; Brandes and Pich 2007)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError, GraphError
from ..runtime.params import struct
from ..runtime.repr import Repr
from ..runtime.thresholds import HISTORY_SHARE
from . import passes
from .algorithms import Algorithm, register
from .device_graph import allocated
from .edge_list import edge_list
from .graph import Graph
from .msbfs import check_sources, to_internal
from .prepare import ResidentGraph, graph_of, prepared_for
from .traversal import (
    ScratchLayout,
    Stopwatch,
    broken_list,
    clear,
    finish,
    kernel_file,
    original_bytes,
    runner,
    scratch_for,
    to_original,
)
from .traversal_stats import TraversalRun, summarise_all, with_stats

KERNELS = kernel_file("graph/bc")
_PARAMS, _LISTS = struct("graph::BcParams"), struct("BcListsParams")
# Vertices and edges of graphs whose searches are a thread's each (docs/bc.md): at most; and beside a GPU for each thread, which
# looks at so many while the GPU does its shortest search.
_SHORT, _SHORT_OF_THREAD = 1 << 20, 1 << 18


@dataclass(frozen=True, repr=False)
class BetweennessResult(Repr):
    """How many shortest paths lead through each vertex.

    Attributes:
        scores: float64 ``[num_vertices]``, on the device that was asked for; on the CPU where a budget had no room.
        sources: int64 ``[k]``, on the CPU; the vertices that paths were counted from, in that order.
        stats: what the searches did (see :func:`betweenness_centrality`), or None unless asked for.
    """

    scores: torch.Tensor
    sources: torch.Tensor
    stats: IfRequested[dict[str, Any]] = None


@dataclass(frozen=True, repr=False)
class EdgeBetweennessResult(Repr):
    """How many shortest paths lead over each edge.

    Attributes:
        scores: float64 ``[num_edges]``, in the order of ``indices``, on the device that was asked for. Of an undirected edge
            both entries have all of it.
        sources: int64 ``[k]``, on the CPU; the vertices that paths were counted from, in that order.
    """

    scores: torch.Tensor
    sources: torch.Tensor


def betweenness_centrality(
    graph: Graph | ResidentGraph,
    sources: int | Iterable[int] | torch.Tensor | None = None,
    normalized: bool = True,
    seed: int = 1,
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> BetweennessResult:
    """The share of shortest paths between other vertices that lead through each vertex, as networkx defines it.

    For each source one search counts its shortest paths to every vertex, and goes back level by level to sum up their shares
    (Brandes 2001). Paths follow out-edges; parallel edges are paths of their own, where a networkx ``Graph`` has one
    (``simplify(graph, remove_duplicates=True)`` drops the others). Self loops are on no shortest path. Scores are the same on
    every device and for any number of threads, up to the rounding of double sums; path counts are exact up to 2**53.

    Args:
        graph: the graph, or what :func:`prepare` made of it for many searches. No transposed graph is needed.
        sources: where paths begin: None for all vertices, how many to draw among them, or their numbers, each once.
        normalized: divides by the number of pairs of other vertices; otherwise paths are counted, in undirected graphs once
            for both directions. Scores from a sample are scaled to estimate those from all vertices: those of the sources by
            one source less than the others, since no path from a vertex leads through it. A lone source's own is NaN.
        seed: draws the sources (Philox); the same ones on every machine.
        gpu_budget, device: as for :func:`pagerank`. Many searches of a small graph are the CPU's in any case (docs/bc.md), and
            the scores lie on the device.
        stats: leave them to the device, and also report ``device``, ``seconds``, ``edges``, ``bytes``, ``cached``, ``tiers``,
            ``held``, and the same and more for each source (``searches``; see ``traversal_stats.summarise``; their levels are
            those on the way there, then those on the way back).

    Raises:
        ConfigError: more sources than vertices or fewer than one to draw, a source twice, sources that are no integers, a
            budget that is no size.
        IndexOutOfRange: a source is no vertex.
        GraphError: an offset or neighbour met on the way is out of range, or there are more paths than a double counts.
        OutOfMemory: the search's state exceeds the free GPU memory.
    """
    chosen, normalized = choose_sources(graph_of(graph), sources, seed), arguments.switch("normalized", normalized)
    prepared = prepared_for(graph, "bc", gpu_budget, device)
    stats = arguments.switch("stats", stats)
    threads = None if stats else _for_threads(prepared, chosen)
    if threads is not None:
        scores = to_original(threads.order_on(threads.device), _search_by_lists(threads, chosen)).to(prepared.device)
        report = None
    else:
        scores, report = with_stats(functools.partial(_run, prepared, chosen), stats, prepared, "auto", summarise_all)
    _rescale(scores, chosen, normalized, prepared.graph.directed)
    return BetweennessResult(scores, torch.tensor(chosen, dtype=torch.int64), report)


def edge_betweenness_centrality(
    graph: Graph,
    sources: int | Iterable[int] | torch.Tensor | None = None,
    normalized: bool = True,
    seed: int = 1,
    device: torch.device | str | int | None = None,
) -> EdgeBetweennessResult:
    """The share of shortest paths between all vertices that lead over each edge, as networkx defines it (Brandes, "On variants
    of shortest-path betweenness centrality and their generic computation", 2008).

    Each source is a search as of :func:`betweenness_centrality`; then all edges are looked at, which takes some 60 bytes an
    edge of the device's memory.

    Args:
        graph, sources, seed, device: as of :func:`betweenness_centrality`. Of parallel edges each has its part.
        normalized: divides by the number of pairs of vertices; otherwise paths are counted, in undirected graphs once for both
            directions. Scores from a sample are scaled to estimate those from all vertices.

    Raises:
        ConfigError, IndexOutOfRange, GraphError, OutOfMemory: as :func:`betweenness_centrality`.
    """
    chosen, normalized = choose_sources(graph_of(graph), sources, seed), arguments.switch("normalized", normalized)
    prepared = prepared_for(graph, "bc", None, device)
    graph, on = prepared.graph, prepared.device
    with devices.on(on):
        src, dst, _ = edge_list(Graph.of(graph.neighbor_lists, graph.directed))  # as the lists are numbered
        src, dst = src.to(on), dst.to(on)
        threads = _for_threads(prepared, chosen)
        if threads is not None:
            scores = _search_by_lists(threads, chosen, of_edges=True).to(on)
        else:
            scores, searches = passes.full(graph.num_edges, 0, torch.float64, on), _Searches(prepared, keeps=True)
            for source, internal in zip(chosen, to_internal(graph, chosen), strict=True):
                searches.begin_again()
                searches.search(source, internal)
                levels, sigma, c = searches.levels, searches.sigma, searches.scores
                scores += torch.where(levels[dst] == levels[src] + 1, sigma[src] * c[dst], 0)
        if not graph.directed:
            scores = _of_both_entries(scores, src, dst, graph.num_vertices)
    vertices = graph.num_vertices
    if vertices > 1 and chosen:
        scores *= (1 / (vertices - 1) if normalized else vertices / (1 if graph.directed else 2)) / len(chosen)
    return EdgeBetweennessResult(scores, torch.tensor(chosen, dtype=torch.int64))


def _of_both_entries(scores: torch.Tensor, src: torch.Tensor, dst: torch.Tensor, vertices: int) -> torch.Tensor:
    """What both entries of an undirected edge have together, for each; parallel edges have equal parts."""
    edges, entry, entries = (torch.minimum(src, dst) * vertices + torch.maximum(src, dst)).unique(
        return_inverse=True, return_counts=True
    )
    return (torch.zeros_like(edges, dtype=torch.float64).index_add_(0, entry, scores) / entries * 2)[entry]


def choose_sources(graph: Graph, sources: int | Iterable[int] | torch.Tensor | None, seed: int) -> list[int]:
    """What ``sources`` asks for: all vertices, so many of them, or these, each once."""
    vertices = graph.num_vertices
    if sources is None:
        return list(range(vertices))
    if isinstance(sources, int):
        seed = arguments.whole_number("seed", seed, -(2**63), 2**64 - 1)
        if not 1 <= sources <= vertices:
            raise ConfigError(
                f"{arguments.repr_of(sources)} sources cannot be drawn from {vertices} vertices; leave out sources for all"
            )
        return _draw(vertices, sources, seed)
    listed = check_sources(graph, sources)
    if len(set(listed)) < len(listed):
        twice = next(v for i, v in enumerate(listed) if v in listed[:i])
        raise ConfigError(f"source {twice} is there more than once; name each source once")
    return listed


def _draw(vertices: int, count: int, seed: int) -> list[int]:
    """The first ``count`` different numbers of a stream of random ones."""
    tries = 2 * count
    while len(found := dict.fromkeys(_core.draw_below(vertices, tries, seed % 2**64))) < count:
        tries *= 2
    return list(found)[:count]


def _history_size(graph: Graph, device: torch.device) -> int:
    """Numbers for the way back. Enough for any graph on the CPU, which is slow to look through all vertices for a level's; on a
    GPU, which is fast, part of a number a vertex."""
    return graph.num_vertices // HISTORY_SHARE if device.type == "cuda" else 2 * graph.num_vertices + 2


def _state_bytes(graph: Graph) -> int:
    """GPU memory of a search: scores, and besides them levels, path counts and scratch, together about 30 bytes a vertex, or
    what it takes to renumber the scores."""
    layout = ScratchLayout.of(_core.bc_layout, graph, _history_size(graph, torch.device("cuda")))
    arrays = (4 * graph.num_vertices, 8 * graph.num_vertices, layout.bytes)
    search = sum(allocated(size) for size in arrays)
    return allocated(8 * graph.num_vertices) + max(search, original_bytes(graph, 8))


ALGORITHM = register(
    Algorithm(
        "bc",
        _state_bytes,
        run=betweenness_centrality,
        kernels=KERNELS,
        weights="unused",
        verify="verify_betweenness",
        help="""Find how many shortest paths lead through each vertex, and how fast that went.

        Paths are as long as they have edges: weights in the file are not used, and a line says so.
        The array of --output is the scores (float64).
        """,
        options={"normalized": ("--raw", "Do not divide by the number of pairs of vertices.")},
        array="scores",
        columns={"score": "scores"},
        found=lambda run: f"from {run['count']:,} sources",
        fields=lambda result: {"count": len(result.sources)},
    )
)


class _Searches:
    """Searches from one source after another, with memory for one; ``scores``, float64 ``[num_vertices]``, are sums over all.

    ``counts``: what is read is counted. ``keeps``: of each search alone, with its ``levels`` and ``sigma``, int32 and float64;
    in ``scores`` is the header's c then, 0 where nothing was reached.
    """

    def __init__(self, prepared: ResidentGraph, counts: bool = False, keeps: bool = False) -> None:
        graph, device = prepared.graph, prepared.device
        self._prepared, self._counts, self._keeps = prepared, counts, keeps
        self._history_size = _history_size(graph, device)
        self._layout = ScratchLayout.of(_core.bc_layout, graph, self._history_size)
        self._run = runner(prepared, _core.betweenness, KERNELS, counts=counts)
        self.levels = passes.full(graph.num_vertices, -1, torch.int32, device)
        self.sigma = passes.full(graph.num_vertices, 0, torch.float64, device)
        self.scores = passes.full(graph.num_vertices, 0, torch.float64, device)
        self._scratch = scratch_for(self._layout, device)

    def begin_again(self) -> None:
        """Forgets what the last search left."""
        passes.fill(self.levels, -1)
        for sums in (self.sigma, self.scores):
            passes.fill(sums, 0)

    def search(self, source: int, internal: int) -> TraversalRun:
        """From the vertex ``internal``, which the user calls ``source``."""
        prepared, clock = self._prepared, Stopwatch(self._prepared.device)
        with clock:
            clear(self._scratch, self._layout)
            self._run(
                _PARAMS(
                    graph=prepared.out.words_for(self._counts),
                    source=internal,
                    undirected=not prepared.graph.directed,
                    levels=self.levels.data_ptr(),
                    sigma=self.sigma.data_ptr(),
                    scores=self.scores.data_ptr(),
                    keeps=self._keeps,
                    scratch=self._scratch.data_ptr(),
                    history_size=self._history_size,
                )
            )
        finished = finish(prepared, self._scratch, self._layout)
        if self._scratch[self._layout.left : self._layout.left + 8].view(torch.int64).item():  # a mark
            raise _too_many_paths(source)
        return TraversalRun(finished, clock)


def _too_many_paths(source: int) -> GraphError:
    return GraphError(
        f"there are more shortest paths from vertex {source} than a double counts (1.8e308); leave that source out, or "
        "remove parallel edges with simplify(graph, remove_duplicates=True)"
    )


def _for_threads(prepared: ResidentGraph, sources: list[int]) -> ResidentGraph | None:
    """The graph on the CPU, if searches are a thread's each: where they are short, and all threads have some; beside a GPU,
    too, where a level takes as long as thousands of a thread's edges, and so does a launch."""
    graph, on_cpu, threads = prepared.graph, prepared.device.type == "cpu", _core.num_threads()
    most = _SHORT if on_cpu else min(_SHORT, _SHORT_OF_THREAD * threads)
    least = threads if on_cpu else threads * _core.BC_SOURCES_TOGETHER
    if graph.neighbor_lists.stored or graph.num_vertices + graph.num_edges > most or len(sources) < least:
        return None
    return prepared if on_cpu else prepared_for(graph, "bc", None, "cpu")


def _search_by_lists(prepared: ResidentGraph, sources: list[int], of_edges: bool = False) -> torch.Tensor:
    """The sums of all sources' shares: of vertices, or of edges, as the lists have them. On the CPU."""
    graph = prepared.graph
    scores = passes.full(graph.num_edges if of_edges else graph.num_vertices, 0, torch.float64, prepared.device)
    internal, found = torch.tensor(to_internal(graph, sources), dtype=torch.int64), torch.full((2,), _core.NO_VERTEX)
    params = _LISTS(
        graph=prepared.out.words,
        sources=internal.data_ptr(),
        count=len(sources),
        undirected=not graph.directed,
        of_edges=of_edges,
        scores=scores.data_ptr(),
        broken=found.data_ptr(),
        overflow=found.data_ptr() + found.itemsize,
    )
    _core.betweenness_by_lists(params.address)
    broken, overflow = found.tolist()
    if broken != _core.NO_VERTEX:
        raise broken_list(graph, broken)
    if overflow != _core.NO_VERTEX:
        raise _too_many_paths(sources[overflow])
    return scores


def _run(prepared: ResidentGraph, sources: list[int], counts: bool) -> tuple[torch.Tensor, list[TraversalRun]]:
    searches = _Searches(prepared, counts)
    internal = to_internal(prepared.graph, sources)
    runs = [searches.search(source, at) for source, at in zip(sources, internal, strict=True)]
    scores = searches.scores
    del searches
    return to_original(prepared.order_on(prepared.device), scores), runs


def _rescale(scores: torch.Tensor, sources: list[int], normalized: bool, directed: bool) -> None:
    """From sums over the sources to what was asked for, in place."""
    own, other = scales(len(scores), len(sources), normalized, directed)
    chosen = torch.tensor(sources, dtype=torch.int64, device=scores.device)
    own_scores = scores[chosen] * own
    passes.scale(scores, other)
    scores[chosen] = own_scores


def scales(vertices: int, count: int, normalized: bool, directed: bool) -> tuple[float, float]:
    """What the sums over ``count`` sources are multiplied by, for the sources themselves and for other vertices: the mean over
    the sources that count for a vertex, times the number of such sources among all vertices, or by the number of targets."""
    others = vertices - 1  # sources of paths through a vertex; each has one target less
    if others < 2:
        return 1.0, 1.0
    scale = 1 / (others - 1) if normalized else others / (1 if directed else 2)
    return scale / (count - 1) if count > 1 else float("nan"), scale / max(min(count, others), 1)
