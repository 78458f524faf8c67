"""Breadth-first search over a graph whose edges may lie in host memory (EMOGI; Min 2022, chapter 2; Beamer et al. 2012)."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError, IndexOutOfRange
from ..runtime.params import struct
from ..runtime.repr import Repr
from . import passes
from .algorithms import Algorithm, register
from .device_graph import allocated
from .graph import Graph
from .prepare import ResidentGraph, graph_of, prepared_for
from .traversal import (
    NUMBERED_FORMS,
    ScratchLayout,
    Stopwatch,
    finish,
    id_bytes,
    kernel_file,
    original_bytes,
    runner,
    scratch_for,
    to_original,
)
from .traversal_stats import TraversalRun, with_stats

MODES = ("auto", "top-down")

KERNELS = kernel_file("graph/bfs", NUMBERED_FORMS)
_PARAMS = struct("graph::BfsParams")


@dataclass(frozen=True, repr=False)
class BfsResult(Repr):
    """What a breadth-first search found, on the device that ran it; on the CPU where a ``gpu_budget`` has no room for it.

    Attributes:
        levels: int32 ``[num_vertices]``; edges on a shortest path from the source, -1 where unreachable.
        parents: int64 ``[num_vertices]``; the smallest-numbered neighbour one level nearer to the source (the source is its
            own parent), -1 where unreachable. Of several such neighbours in a reordered graph it is the one that comes first
            in the new order.
        stats: what the search did (see :func:`bfs`), or None unless asked for.
    """

    levels: torch.Tensor
    parents: torch.Tensor
    stats: IfRequested[dict[str, Any]] = None


def bfs(
    graph: Graph | ResidentGraph,
    source: int,
    mode: str = "auto",
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> BfsResult:
    """Levels and parents of every vertex that ``source`` reaches along out-edges.

    On a GPU the whole search is one cooperative kernel, which reads the edges where they lie, in merged and aligned cache
    lines (Min 2022, section 2.4.3). Levels and parents are the same in every mode, on every device and for any number of
    threads. Of a reordered graph, too, vertices have their first numbers; but which of a vertex's possible parents is found
    depends on the order.

    Args:
        graph: the graph, or what :func:`prepare` made of it for many searches; edges ``u -> v`` are followed from u to v.
        source: a vertex number.
        mode: ``"top-down"``, or ``"auto"``, which also searches bottom-up where that reads less, if lists of neighbours
            ascend: in undirected graphs, and in directed ones whose transpose is known, because ``transpose()`` was called,
            the file carried it (``load_graph``) or :func:`prepare` has built it. A call builds none: that takes longer than
            a search.
        gpu_budget: most bytes of GPU memory that the call may take, result included (``"1GiB"`` or a number); None is what
            is free. Where it has no room for the result as it is returned (12 bytes a vertex, and 4 while it is made), the
            result goes to the CPU; where it has none for the search's state (about 9 bytes a vertex), the CPU does the work,
            and a warning says what would be enough.
        device: where to run; None is the current GPU, or the CPU on a machine without one.
        stats: also report seconds, edges, bytes read from the edge array, and the same for each level.

    Raises:
        ConfigError: an unknown mode, a source that is no integer, a budget that is no size.
        IndexOutOfRange: ``source`` is no vertex.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: the result and the search's state exceed the free GPU memory.
    """
    arguments.one_of("mode", mode, MODES)
    given = graph_of(graph)
    internal = int(given.to_internal(check_source(given, source)))
    prepared = prepared_for(graph, "bfs", gpu_budget, device)
    (levels, parents), report = with_stats(functools.partial(_run, prepared, internal, mode), stats, prepared, mode)
    return BfsResult(levels, parents, report)


def check_source(graph: Graph, source: int) -> int:
    """``source`` as an int, if it is a vertex of the graph."""
    try:
        vertex = operator.index(source)
    except (TypeError, ValueError, RuntimeError):  # the last two are a tensor's
        raise ConfigError(f"source {arguments.repr_of(source)} is not a vertex number") from None
    if not 0 <= vertex < graph.num_vertices:
        raise IndexOutOfRange(
            f"source {arguments.repr_of(vertex)} is not a vertex: the graph has {graph.num_vertices} vertices, numbered from 0"
        )
    return vertex


def _state_bytes(graph: Graph) -> int:
    """GPU memory of one search: levels, narrow parents and scratch. They are widened and renumbered on the CPU."""
    return _found_bytes(graph) + allocated(ScratchLayout(*_core.bfs_layout(graph.num_vertices, graph.num_edges)).bytes)


def _ample_bytes(graph: Graph) -> int:
    """The same, or without the scratch what it takes besides to renumber the result on the GPU and to widen the parents."""
    vertices, width = graph.num_vertices, id_bytes(graph.num_vertices)
    widened = allocated(8 * vertices) if width == 4 else 0
    return max(_state_bytes(graph), _found_bytes(graph) + max(widened, original_bytes(graph, width)))


def _found_bytes(graph: Graph) -> int:
    """Levels and parents as the search finds them."""
    return allocated(4 * graph.num_vertices) + allocated(id_bytes(graph.num_vertices) * graph.num_vertices)


ALGORITHM = register(
    Algorithm(
        "bfs",
        _state_bytes,
        searching=True,
        ample_bytes=_ample_bytes,
        run=bfs,
        kernels=KERNELS,
        modes=MODES,
        verify="verify_bfs",
        help="""Find the distance of every vertex from a source, and how fast that went.

        Edges per second (TEPS) are the out-edges of all reached vertices, divided by the time of the search. Bytes are what was
        read from the edge array, in whole 32-byte sectors. The array of --output is the levels (int32, -1 where unreachable).
        With --access no parents are found, and the table has none.
        """,
        array="levels",
        columns={"level": "levels", "parent": "parents"},
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} levels",
    )
)


def _unset(vertices: int, width: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Levels and parents for a search to fill in: on a GPU as if nothing were reached, on the CPU of any content."""
    if device.type == "cpu":
        return passes.empty(vertices, torch.int32, device), passes.empty(vertices, torch.int64, device)
    id_type = torch.int64 if width == 8 else torch.int32
    return passes.full(vertices, -1, torch.int32, device), passes.full(vertices, -1, id_type, device)


def _run(
    prepared: ResidentGraph, source: int, mode: str, counts: bool
) -> tuple[tuple[torch.Tensor, torch.Tensor], TraversalRun]:
    graph, device = prepared.graph, prepared.device
    vertices, width = graph.num_vertices, id_bytes(graph.num_vertices)
    layout = ScratchLayout(*_core.bfs_layout(vertices, graph.num_edges))
    on_cpu = functools.partial(_core.bfs, id_bytes=width)
    search = runner(prepared, on_cpu, KERNELS, f"uint{8 * width}_t", counts=counts)
    incoming = prepared.incoming
    pulls = mode == "auto" and incoming is not None and incoming.lists.is_sorted
    clock = Stopwatch(device)
    with clock:
        levels, parents = _unset(vertices, width, device)
        scratch = scratch_for(layout, device)
        search(
            _PARAMS(
                graph=prepared.out.words_for(counts),
                incoming=incoming.words_for(counts) if pulls and incoming else 0,
                source=source,
                parents=parents.data_ptr(),
                levels=levels.data_ptr(),
                scratch=scratch.data_ptr(),
            )
        )
    finished = finish(prepared, scratch, layout)
    del scratch
    home = device if prepared.reserved >= _ample_bytes(graph) else torch.device("cpu")
    with clock:
        order = prepared.order_on(home)
        levels = to_original(order, levels.to(home))
        parents = to_original(order, parents.to(home), vertices=True)
        del order
        parents = parents.to(torch.int64)
    return (levels, parents), TraversalRun(finished, clock)
