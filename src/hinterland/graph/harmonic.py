"""Harmonic centrality: how near to all others a vertex lies (Boldi and Vigna, "Axioms for centrality", 2014)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError, VerificationError
from ..runtime.params import struct
from ..runtime.repr import Repr
from . import passes
from .algorithms import Algorithm, register
from .bc import choose_sources
from .bfs import MODES
from .checks import require_result
from .device_graph import allocated
from .graph import Graph
from .msbfs import MOST_SOURCES, multi_source_bfs, to_internal
from .prepare import ResidentGraph, graph_of, prepared_for
from .traversal import (
    FORMS,
    ScratchLayout,
    Stopwatch,
    clear,
    finish,
    kernel_file,
    original_bytes,
    runner,
    scratch_for,
    to_original,
)
from .traversal_stats import TraversalRun, summarise_all, with_stats

KERNELS = kernel_file("graph/harmonic", FORMS)
_PARAMS = struct("graph::HarmonicParams")


@dataclass(frozen=True, repr=False)
class HarmonicResult(Repr):
    """How near to all others each vertex lies.

    Attributes:
        scores: float64 ``[num_vertices]``, on the device that ran it.
        sources: int64 ``[k]``, on the CPU; the vertices that distances were counted from, in that order.
        stats: what the searches did (see :func:`harmonic_centrality`), or None unless asked for.
    """

    scores: torch.Tensor
    sources: torch.Tensor
    stats: IfRequested[dict[str, Any]] = None


def harmonic_centrality(
    graph: Graph | ResidentGraph,
    sources: int | Iterable[int] | torch.Tensor | None = None,
    seed: int = 1,
    mode: str = "auto",
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> HarmonicResult:
    """Of each vertex the sum of 1 / distance over all vertices that reach it along out-edges, as networkx defines it.

    Distances are counted in edges, from 64 sources in one search. Scores are the same, to the bit, in every mode, on every
    device and for any number of threads.

    Args:
        graph: the graph, or what :func:`prepare` made of it for many searches.
        sources: where distances are counted from: None for all vertices, how many to draw among them, or their numbers, each
            once. Scores from a sample are scaled to estimate those from all: those of the sources by one source less than the
            others, since no vertex counts for itself. A lone source's own is NaN.
        seed: draws the sources (Philox); the same ones on every machine.
        mode: as of :func:`multi_source_bfs`.
        gpu_budget, device: as for :func:`pagerank`.
        stats: also report what :func:`multi_source_bfs` does.

    Raises:
        ConfigError: an unknown mode, more sources than vertices or fewer than one to draw, a source twice, sources that are no
            integers, a budget that is no size.
        IndexOutOfRange: a source is no vertex.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: the search's state exceeds the free GPU memory.
    """
    arguments.one_of("mode", mode, MODES)
    chosen = choose_sources(graph_of(graph), sources, seed)
    prepared = prepared_for(graph, "harmonic", gpu_budget, device)
    scores, report = with_stats(functools.partial(_run, prepared, chosen, mode), stats, prepared, mode, summarise_all)
    listed = torch.tensor(chosen, dtype=torch.int64)
    return HarmonicResult(_scaled(scores, listed), listed, report)


def _state_bytes(graph: Graph) -> int:
    """GPU memory of a search: scores, and besides them scratch, or what it takes to renumber them. About 26 bytes a vertex."""
    scratch = allocated(ScratchLayout.of(_core.msbfs_layout, graph).bytes) + allocated(8 * MOST_SOURCES)
    return allocated(8 * graph.num_vertices) + max(scratch, original_bytes(graph, 8))


def _run(prepared: ResidentGraph, sources: list[int], mode: str, counts: bool) -> tuple[torch.Tensor, list[TraversalRun]]:
    """Sums over the sources, and the searches."""
    graph, device = prepared.graph, prepared.device
    layout = ScratchLayout.of(_core.msbfs_layout, graph)
    search = runner(prepared, _core.harmonic, KERNELS, counts=counts)
    incoming = prepared.incoming if mode == "auto" else None
    scores, scratch = passes.full(graph.num_vertices, 0, torch.float64, device), scratch_for(layout, device)
    runs: list[TraversalRun] = []
    internal = to_internal(graph, sources)
    for first in range(0, len(internal), MOST_SOURCES):
        some, clock = torch.tensor(internal[first : first + MOST_SOURCES]).to(device), Stopwatch(device)
        with clock:
            clear(scratch, layout)
            search(
                _PARAMS(
                    graph=prepared.out.words_for(counts),
                    incoming=incoming.words_for(counts) if incoming else 0,
                    sources=some.data_ptr(),
                    num_sources=len(some),
                    scores=scores.data_ptr(),
                    scratch=scratch.data_ptr(),
                )
            )
        runs.append(TraversalRun(finish(prepared, scratch, layout), clock))
    del scratch
    return to_original(prepared.order_on(device), scores), runs


def _scaled(sums: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
    """Sums over the sources as estimates of those over all vertices, in place."""
    others, count = len(sums) - 1, len(sources)
    if others > 0 and count > 0:
        at = sources.to(sums.device)
        own = sums[at] * (others / (count - 1) if count > 1 else float("nan"))
        passes.scale(sums, others / count)
        sums[at] = own
    return sums


ALGORITHM = register(
    Algorithm(
        "harmonic",
        _state_bytes,
        searching=True,
        run=harmonic_centrality,
        kernels=KERNELS,
        modes=MODES,
        weights="unused",
        verify="verify_harmonic",
        help="""Find how near to all others each vertex lies: the sum of 1 / distance, and how fast that went.

        Distances are counted in edges: weights in the file are not used, and a line says so.
        The array of --output is the scores (float64).
        """,
        array="scores",
        columns={"score": "scores"},
        found=lambda run: f"from {run['count']:,} sources",
        fields=lambda result: {"count": len(result.sources)},
    )
)


def verify_harmonic(graph: Graph, result: HarmonicResult) -> None:
    """Checks harmonic centrality against distances, which the CPU writes down source by source.

    1. A lone source's score is not a number, and every other one is.
    2. A vertex's score is the sum of 1 / distance over the sources that reach it, scaled as :func:`harmonic_centrality` says
       (to nine digits).

    Raises:
        VerificationError: names the rule, the vertex and the values.
        ConfigError: scores of another type or shape.
    """
    require_result(graph, result, HarmonicResult)
    scores, sources = result.scores.cpu(), result.sources
    if scores.dtype != torch.float64 or scores.shape != (graph.num_vertices,):
        raise ConfigError(f"scores are {scores.dtype} {tuple(scores.shape)}, but must be float64 ({graph.num_vertices},)")
    sums = torch.zeros_like(scores)
    for first in range(0, len(sources), MOST_SOURCES):
        levels = multi_source_bfs(graph, sources[first : first + MOST_SOURCES], device="cpu").levels
        sums += torch.where(levels > 0, 1 / levels.double(), 0.0).sum(0)
    expected = _scaled(sums, sources)
    wrong = (scores.isnan() != expected.isnan()).nonzero()
    if len(wrong):
        raise VerificationError(f"rule 1: vertex {int(wrong[0])} has score {float(scores[wrong[0]])}")
    wrong = ((scores - expected).abs() > 1e-9 * expected.clamp(min=1)).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise VerificationError(
            f"rule 2: vertex {at} has score {float(scores[at])}, but {float(expected[at])} by the distances"
        )
