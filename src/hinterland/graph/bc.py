"""Betweenness centrality from all vertices or a sample of them (Brandes 2001; Brandes and Pich 2007)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.asked import Asked
from ..runtime.errors import ConfigError, GraphError
from ..runtime.params import struct
from ..runtime.shown import Shown
from . import passes
from .algorithms import Algorithm
from .graph import Graph
from .msbfs import check_sources, to_inner
from .prepare import Prepared, graph_of, prepared_for
from .traversal import Clock, ScratchLayout, clear, finish, kernel_file, outer_bytes, runner, scratch_for, to_outer
from .traversal_stats import Run, summarise_all, with_stats
from .view import allocated

KERNELS = kernel_file("graph/bc")
_PARAMS = struct("graph::BcParams")


@dataclass(frozen=True, repr=False)
class BetweennessResult(Shown):
    """How many shortest paths lead through each vertex, on the device that counted them.

    Attributes:
        scores: float64 ``[num_vertices]``.
        sources: int64 ``[k]``, on the CPU; the vertices that paths were counted from, in that order.
        stats: what the searches did (see :func:`betweenness_centrality`), or None unless asked for.
    """

    scores: torch.Tensor
    sources: torch.Tensor
    stats: Asked[dict[str, Any]] = None


def betweenness_centrality(
    graph: Graph | Prepared,
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
        gpu_budget: most bytes of GPU memory that the call may take, result included (``"1GiB"`` or a number); None is what
            is free. Where it has no room for the search's state, the CPU does the work.
        device: where to run; None is the current GPU, or the CPU on a machine without one.
        stats: also report ``device``, ``seconds``, ``edges``, ``bytes``, ``cached``, ``tiers``, ``held``, and the same and
            more for each source (``searches``; see ``traversal_stats.summarise``; their levels are those on the way there,
            then those on the way back).

    Returns:
        ``BetweennessResult(scores float64 [V], sources int64 [k], stats)``.

    Raises:
        ConfigError: more sources than vertices or fewer than one to draw, a source twice, sources that are no integers, a
            budget that is no size.
        IndexOutOfRange: a source is no vertex.
        GraphError: an offset or neighbour met on the way is out of range, or there are more paths than a double counts.
        OutOfMemory: the search's state exceeds the free GPU memory.
    """
    chosen = _sources(graph_of(graph), sources, seed)
    prepared = prepared_for(graph, "bc", gpu_budget, device)
    scores, report = with_stats(functools.partial(_run, prepared, chosen), stats, prepared, "auto", summarise_all)
    _rescale(scores, chosen, normalized, prepared.graph.directed)
    return BetweennessResult(scores, torch.tensor(chosen, dtype=torch.int64), report)


def _sources(graph: Graph, sources: int | Iterable[int] | torch.Tensor | None, seed: int) -> list[int]:
    vertices = graph.num_vertices
    if sources is None:
        return list(range(vertices))
    if isinstance(sources, int):
        seed = arguments.whole_number("seed", seed, -(2**63), 2**64 - 1)
        if not 1 <= sources <= vertices:
            raise ConfigError(
                f"{arguments.shown(sources)} sources cannot be drawn from {vertices} vertices; leave out sources for all"
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
    GPU, which is fast, an eighth of a number a vertex (chosen, not measured)."""
    return graph.num_vertices // 8 if device.type == "cuda" else 2 * graph.num_vertices + 2


def _state_bytes(graph: Graph) -> int:
    """GPU memory of a search: scores, and besides them levels, path counts and scratch, together about 30 bytes a vertex, or
    what it takes to renumber the scores."""
    layout = ScratchLayout.of(_core.bc_layout, graph, _history_size(graph, torch.device("cuda")))
    arrays = (4 * graph.num_vertices, 8 * graph.num_vertices, layout.bytes)
    search = sum(allocated(size) for size in arrays)
    return allocated(8 * graph.num_vertices) + max(search, outer_bytes(graph, 8))


ALGORITHM = Algorithm("bc", _state_bytes)


def _run(prepared: Prepared, sources: list[int], counts: bool) -> tuple[torch.Tensor, list[Run]]:
    graph, device = prepared.graph, prepared.device
    history_size = _history_size(graph, device)
    layout = ScratchLayout.of(_core.bc_layout, graph, history_size)
    search = runner(prepared, _core.betweenness, KERNELS, counts=counts)
    levels = passes.full(graph.num_vertices, -1, torch.int32, device)
    sigma = passes.full(graph.num_vertices, 0, torch.float64, device)
    scores = passes.full(graph.num_vertices, 0, torch.float64, device)
    scratch = scratch_for(layout, device)
    runs: list[Run] = []
    for source, inner in zip(sources, to_inner(graph, sources), strict=True):
        clock = Clock(device)
        with clock:
            clear(scratch, layout)
            search(
                _PARAMS(
                    graph=prepared.out.words_for(counts),
                    source=inner,
                    undirected=not graph.directed,
                    levels=levels.data_ptr(),
                    sigma=sigma.data_ptr(),
                    scores=scores.data_ptr(),
                    scratch=scratch.data_ptr(),
                    history_size=history_size,
                )
            )
        finished = finish(prepared, scratch, layout)
        if scratch[layout.left : layout.left + 8].view(torch.int64).item():  # a mark
            raise GraphError(
                f"there are more shortest paths from vertex {source} than a double counts (1.8e308); leave that source out, or "
                "remove parallel edges with simplify(graph, remove_duplicates=True)"
            )
        runs.append(Run(finished, clock))
    del levels, sigma, scratch
    return to_outer(prepared.order_on(device), scores), runs


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
