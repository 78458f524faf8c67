"""Many breadth-first searches at once, a bit a source (Then et al., "The more the merrier", VLDB 2014)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..memory.copies import copy
from ..runtime import arguments, devices
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError
from ..runtime.params import struct
from ..runtime.repr import Repr
from ..table import UnifiedTensor
from . import passes
from .algorithms import Algorithm, register
from .bfs import MODES, check_source
from .device_graph import WORDS_BYTES, allocated
from .graph import Graph
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

MOST_SOURCES = _core.MSBFS_SOURCES
KERNELS = kernel_file("graph/msbfs", (f"{form}, uint{8 * mask_bytes}_t" for form in FORMS for mask_bytes in (4, 8)))
_PARAMS, _CONTROL = struct("graph::MsBfsParams"), struct("graph::MsBfsControl")


@dataclass(frozen=True, repr=False)
class MultiBfsResult(Repr):
    """What searches from several sources found; row i belongs to source i.

    Attributes:
        levels: int32 ``[num_sources, num_vertices]``; edges on a shortest path, -1 where unreachable. None unless asked for.
            On the device that ran the searches, or in host memory where that has no room for them.
        reached: int64 ``[num_sources]``, on the CPU; vertices at any distance, the source among them.
        distance_sum: int64 ``[num_sources]``, on the CPU; sum of the distances to those vertices. Closeness is
            ``(reached - 1) / distance_sum``.
        eccentricity: int32 ``[num_sources]``, on the CPU; the largest of those distances.
        stats: what the searches did (see :func:`multi_source_bfs`), or None unless asked for.
    """

    levels: IfRequested[torch.Tensor]
    reached: torch.Tensor
    distance_sum: torch.Tensor
    eccentricity: torch.Tensor
    stats: IfRequested[dict[str, Any]] = None


def multi_source_bfs(
    graph: Graph | ResidentGraph,
    sources: Iterable[int] | torch.Tensor,
    levels: bool = True,
    mode: str = "auto",
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> MultiBfsResult:
    """Distances along out-edges from each of several sources, 64 sources in one search.

    Edges that many searches have in common are read once for all of them. Results are the same in every mode, on every
    device and for any number of threads.

    Args:
        graph: the graph, or what :func:`prepare` made of it for many searches; edges ``u -> v`` are followed from u to v.
        sources: vertex numbers, any number of them; the same one may come up again.
        levels: False leaves out the levels, which take 4 bytes for each source and vertex; the sums are found without them.
        mode: ``"top-down"``, or ``"auto"``, which also searches bottom-up where that reads less: in undirected graphs, and in
            directed ones whose ``transpose()`` has been made.
        gpu_budget, device: as for :func:`pagerank`. Levels for which there is no room go to host memory.
        stats: also report ``device``, ``mode``, ``seconds``, ``edges``, ``bytes``, ``cached``, ``tiers``, ``held``, and the
            same and more for each search of up to 64 sources (``searches``; see ``traversal_stats.summarise``).

    Raises:
        ConfigError: an unknown mode, sources that are no integers, a budget that is no size.
        IndexOutOfRange: a source is no vertex.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: the search's state exceeds the free GPU memory, or the levels the host's.
    """
    arguments.one_of("mode", mode, MODES)
    given = graph_of(graph)
    internal = to_internal(given, check_sources(given, sources))
    prepared = prepared_for(graph, "msbfs", gpu_budget, device)
    run = functools.partial(_run, prepared, internal, arguments.switch("levels", levels), mode)
    found, report = with_stats(run, stats, prepared, mode, summarise_all)
    return MultiBfsResult(*found, report)


def check_sources(graph: Graph, sources: Iterable[int] | torch.Tensor) -> list[int]:
    """``sources`` as ints, if all are vertices of the graph."""
    listed = arguments.dense("sources", sources).tolist() if isinstance(sources, torch.Tensor) else sources
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise ConfigError(f"sources are a list or a tensor of vertex numbers, not {arguments.repr_of(sources)}")
    return [check_source(graph, source) for source in listed]


def to_internal(graph: Graph, sources: list[int]) -> list[int]:
    """The user's vertices as the graph numbers them."""
    return graph.to_internal(torch.tensor(sources, dtype=torch.int64)).tolist()


def _state_bytes(graph: Graph) -> int:
    """GPU memory of a search without levels: 17.6 bytes a vertex, and 1/128 of a byte for each edge."""
    scratch = ScratchLayout.of(_core.msbfs_layout, graph).bytes
    return max(allocated(scratch), original_bytes(graph, 4)) + allocated(8 * MOST_SOURCES)


ALGORITHM = register(
    Algorithm(
        "msbfs",
        _state_bytes,
        searching=True,
        run=multi_source_bfs,
        kernels=KERNELS,
        modes=MODES,
        verify="verify_multi_source_bfs",
        help="""Find the distance of every vertex from each of many sources, reading the edges for all of them together.

        The array of --output is the levels (int32, a row for each source, -1 where unreachable); the table says what each
        reached.
        """,
        array="levels",
        columns={"reached": "reached", "distance_sum": "distance_sum", "eccentricity": "eccentricity"},
        rows="source",
        found=lambda run: f"{len(run['sources'])} sources reach {run['reached_by_all']:,} vertices together",
        fields=lambda result: {"reached_by_all": int(result.reached.sum())},
    )
)


def _run(
    prepared: ResidentGraph, sources: list[int], wants_levels: bool, mode: str, counts: bool
) -> tuple[tuple[torch.Tensor | None, torch.Tensor, torch.Tensor, torch.Tensor], list[TraversalRun]]:
    graph, device = prepared.graph, prepared.device
    layout = ScratchLayout.of(_core.msbfs_layout, graph)
    mask_bytes = 4 if len(sources) <= 32 else 8
    on_cpu = functools.partial(_core.msbfs, mask_bytes=mask_bytes)
    search = runner(prepared, on_cpu, KERNELS, f"uint{8 * mask_bytes}_t", counts=counts)
    incoming = prepared.incoming if mode == "auto" else None
    written, levels = _room_for_levels(prepared, len(sources)) if wants_levels else (None, None)
    scratch = scratch_for(layout, device)
    totals: list[torch.Tensor] = []
    runs: list[TraversalRun] = []
    for first in range(0, len(sources), MOST_SOURCES):
        some = torch.tensor(sources[first : first + MOST_SOURCES]).to(device)
        rows = 0
        clock = Stopwatch(device)
        with clock:
            clear(scratch, layout)
            if written is not None:
                rows = passes.fill(written[first : first + MOST_SOURCES], -1).data_ptr()
            search(
                _PARAMS(
                    graph=prepared.out.words_for(counts),
                    incoming=incoming.words_for(counts) if incoming else 0,
                    sources=some.data_ptr(),
                    num_sources=len(some),
                    levels=rows,
                    scratch=scratch.data_ptr(),
                )
            )
        finished = finish(prepared, scratch, layout)
        found = _CONTROL.read(scratch, layout.left)
        each = (found.reached, found.distance_sum, found.eccentricity)
        totals.append(torch.stack([torch.frombuffer(one, dtype=torch.int64)[: len(some)] for one in each]))
        runs.append(TraversalRun(finished, clock))
    del scratch
    if levels is not None and graph.original_ids is not None:
        order = prepared.order_on(levels.device)
        for row in levels:
            copy(row, to_original(order, row))
    reached, distance_sum, eccentricity = torch.cat([torch.empty((3, 0), dtype=torch.int64), *totals], dim=1)
    return (levels, reached, distance_sum, eccentricity.int()), runs


def _room_for_levels(prepared: ResidentGraph, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Levels ``[count, num_vertices]`` as the device writes them and as the caller gets them: on the device, or in host memory
    where the budget or the GPU has no room for them besides the search's state."""
    shape, device = (count, prepared.graph.num_vertices), prepared.device
    if device.type == "cuda":
        state = _state_bytes(prepared.graph)
        room = devices.free_bytes(device) - state
        if prepared.budget is not None:
            room = min(room, prepared.budget - prepared.held - 2 * allocated(WORDS_BYTES) - state)
        if allocated(4 * count * prepared.graph.num_vertices) > room:
            table = UnifiedTensor.empty(shape, torch.int32)
            return table.cuda(device), table.cpu()
    levels = torch.empty(shape, dtype=torch.int32, device=device)
    return levels, levels
