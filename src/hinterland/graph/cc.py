"""Connected components over a graph whose edges may lie in host memory (Afforest; Sutton, Ben-Nun and Barak, IPDPS 2018)."""

from __future__ import annotations

import functools
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
from .checks import require_each, require_result
from .device_graph import allocated, checked_view, edge_at
from .graph import Graph
from .prepare import ResidentGraph, prepared_for
from .reorder import restored
from .traversal import (
    NUMBERED_FORMS,
    ScratchLayout,
    Stopwatch,
    finish,
    id_bytes,
    kernel_file,
    renumbering_bytes,
    runner,
    scratch_for,
    smallest_original,
)
from .traversal_stats import TraversalRun, with_stats

MODES = ("auto", "all-lists")

KERNELS = kernel_file("graph/cc", NUMBERED_FORMS)
_PARAMS, _CONTROL = struct("graph::ComponentsParams"), struct("graph::ComponentsControl")


@dataclass(frozen=True, repr=False)
class ComponentsResult(Repr):
    """The connected components of a graph; weak ones if it is directed.

    Attributes:
        labels: int64 ``[num_vertices]``; the smallest vertex number in each vertex's component, on the device that ran it.
        count: how many components there are; a vertex without neighbours is one.
        stats: what the run did (see :func:`connected_components`), or None unless asked for.
    """

    labels: torch.Tensor
    count: int
    stats: IfRequested[dict[str, Any]] = None


def connected_components(
    graph: Graph | ResidentGraph,
    mode: str = "auto",
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> ComponentsResult:
    """Labels of the vertices, equal where edges connect them, whatever the edges' directions.

    Labels are the same in every mode, on every device and for any number of threads.

    Args:
        graph: the graph, or what :func:`prepare` made of it for many runs.
        mode: ``"auto"`` links two neighbours of each vertex, and then reads only lists of vertices outside the largest
            component so far: in undirected graphs, and in directed ones whose ``transpose()`` has been made. Otherwise, and
            with ``"all-lists"``, every list is read.
        gpu_budget, device: as for :func:`pagerank`.
        stats: also report seconds, edges, bytes read from the edge array, and the same for each step: linking first
            neighbours, lists of the rest, and, in directed graphs, their lists of in-neighbours. ``reached`` counts the
            vertices whose lists were visited.

    Raises:
        ConfigError: an unknown mode, a budget that is no size.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: labels and state exceed the free GPU memory.
    """
    arguments.one_of("mode", mode, MODES)
    prepared = prepared_for(graph, "cc", gpu_budget, device)
    (labels, count), report = with_stats(functools.partial(_run, prepared, mode), stats, prepared, mode)
    return ComponentsResult(labels, count, report)


# A run's memory is that of its result, eight bytes a vertex. Labels of four bytes lie in its first half; in the second, a GPU
# has its scratch, and a CPU puts second neighbours. At the end labels are widened where they lie, unless a GPU has room for
# more.
_LINE = 128  # bytes, at which halves begin


def _half_bytes(vertices: int) -> int:
    return -(-4 * vertices // _LINE) * _LINE


def _scratch_fits(graph: Graph, layout: ScratchLayout) -> bool:
    """Whether scratch lies in the second half: from some 2^18 vertices and up to some 160 edges a vertex on."""
    return id_bytes(graph.num_vertices) == 4 and layout.bytes <= _half_bytes(graph.num_vertices)


def _state_bytes(graph: Graph) -> int:
    """GPU memory of one run: the result, and besides it scratch that has no room there, or what widening labels takes, or
    renumbering them."""
    vertices, width = graph.num_vertices, id_bytes(graph.num_vertices)
    layout = ScratchLayout.of(_core.components_layout, graph)
    scratch = 0 if _scratch_fits(graph, layout) else allocated(layout.bytes)
    widening = allocated(passes.widened_bytes(vertices))
    return allocated(2 * _half_bytes(vertices)) + max(scratch, widening, renumbering_bytes(graph, width))


ALGORITHM = register(
    Algorithm(
        "cc",
        _state_bytes,
        searching=True,
        run=connected_components,
        kernels=KERNELS,
        modes=MODES,
        verify="verify_components",
        help="""Find the connected components, whatever the directions of the edges, and how fast that went.

        The array of --output is each vertex's component, named by its smallest vertex (int64). --access takes
        undirected graphs.
        """,
        array="labels",
        columns={"component": "labels"},
        found=lambda run: f"{run['components']:,} components, the largest of {run['largest']:,} vertices",
        fields=lambda result: {"components": result.count, "largest": int(result.labels.cpu().bincount(minlength=1).max())},
    )
)


def _run(prepared: ResidentGraph, mode: str, counts: bool) -> tuple[tuple[torch.Tensor, int], TraversalRun]:
    graph, device = prepared.graph, prepared.device
    vertices, width = graph.num_vertices, id_bytes(graph.num_vertices)
    layout, half, on_gpu = ScratchLayout.of(_core.components_layout, graph), _half_bytes(vertices), device.type == "cuda"
    on_cpu = functools.partial(_core.connected_components, id_bytes=width)
    run = runner(prepared, on_cpu, KERNELS, f"uint{8 * width}_t", counts=counts)
    incoming = prepared.incoming if mode == "auto" else None
    # Over the link, the first lines of all lists are read once, not once for each neighbour that is linked.
    reread = prepared.out.adjacency_prefix is not None or not prepared.out.over_link
    clock = Stopwatch(device)
    with clock:
        memory = passes.empty(2 * half, torch.uint8, device)
        labels = memory[: width * vertices].view(torch.int64 if width == 8 else torch.int32)
        second = memory[half:] if width == 4 else None
        scratch = scratch_for(layout, device, second if on_gpu and _scratch_fits(graph, layout) else None)
        run(
            _PARAMS(
                graph=prepared.out.words_for(counts),
                incoming=incoming.words_for(counts) if incoming else 0,
                reread=reread,
                labels=labels.data_ptr(),
                seconds=0 if on_gpu or second is None else second.data_ptr(),
                scratch=scratch.data_ptr(),
            )
        )
    finished = finish(prepared, scratch, layout)
    count = _CONTROL.read(scratch, layout.left).count
    del scratch
    with clock:
        if prepared.order is not None:
            room = torch.empty_like(labels) if second is None else second[: width * vertices].view(labels.dtype)
            labels.copy_(smallest_original(prepared.order, labels, room))
        if prepared.plan.left >= allocated(8 * vertices):
            labels = labels.to(torch.int64)  # one pass in place of several, where there is room
        elif width == 4:
            labels = passes.widened(labels, memory[: 8 * vertices].view(torch.int64))
    return (labels, count), TraversalRun(finished, clock)


def verify_components(graph: Graph, result: ComponentsResult) -> None:
    """Checks connected components on the CPU, in parallel passes: labels, edges, and, joining sets edge by edge, connectedness.

    1. A label is a vertex not greater than its own, and is its own label: the smallest vertex that carries it.
    2. Both ends of every edge have the same label.
    3. Vertices of the same label are connected.
    4. ``count`` is the number of labels.

    Raises:
        VerificationError: names the rule, the vertex or edge, and the values.
        ConfigError: labels of another type.
    """
    require_result(graph, result, ComponentsResult)
    labels = result.labels.cpu().contiguous()
    if labels.dtype != torch.int64:
        raise ConfigError(f"labels are {labels.dtype}, but must be int64")
    require_each("labels", labels, graph)
    view = checked_view(restored(graph).neighbor_lists)
    with view.reading():
        rule, at = _core.verify_components(view.words, labels.data_ptr())
    if rule == _core.COMPONENTS_RULES["smallest"]:
        raise VerificationError(
            f"rule 1: vertex {at} has label {int(labels[at])}, which is not the smallest vertex that has it"
        )
    if rule == _core.COMPONENTS_RULES["connected"]:
        raise VerificationError(f"rule 3: vertices {int(labels[at])} and {at} have the same label, but no path connects them")
    if rule:
        u, v, edge = edge_at(view, at)
        if rule == _core.COMPONENTS_RULES["graph"]:
            raise VerificationError(f"the graph is broken: {edge} leads to no vertex")
        raise VerificationError(f"rule 2: {edge} leads from label {int(labels[u])} to label {int(labels[v])}")
    distinct = int((labels == torch.arange(len(labels))).sum())
    if result.count != distinct:
        raise VerificationError(f"rule 4: there are {distinct} labels, but count is {result.count}")
