"""What all traversals share: memory for a run, the launch on either processor, the check of what the run reports."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from .. import _core
from ..runtime.errors import GraphError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.params import Params, leaves, struct
from ..runtime.thresholds import LONG_CHUNK
from ..table.device import reading
from . import passes
from .device_graph import allocated
from .graph import Graph
from .prepare import ResidentGraph

BLOCK = 512  # threads of a block, as in the kernels' launch bounds
RECORDS = _core.STEP_RECORDS + 1  # the last is shared by all steps after the others
_CONTROL, _RECORD = struct("graph::FrontierControl"), struct("graph::StepRecord")
FIELDS = tuple(leaves("graph::StepRecord"))
_ID_WIDE_FROM = 2**31  # vertices from which a vertex number takes eight bytes
_EDGES_OF_THREAD = 8  # a grid has no more threads than an eighth of the edges: docs/notes/thresholds.md


class ScratchLayout(NamedTuple):
    """Bytes of a run's scratch memory, how many at its beginning must be zero, where control and records lie in it, and where
    what the algorithm leaves besides, if it leaves any."""

    bytes: int
    zeroed: int
    control: int
    records: int
    left: int = 0

    @classmethod
    def of(cls, layout: Callable[..., tuple[tuple[int, int, int, int], int]], graph: Graph, *more: int) -> ScratchLayout:
        """That of an algorithm that leaves something, by its ``layout`` of ``_core``; ``more``: what that takes besides."""
        shared, left = layout(graph.num_vertices, graph.num_edges, *more)
        return cls(*shared, left)


def id_bytes(num_vertices: int) -> int:
    """Bytes of a vertex number in the state of a run."""
    return 8 if num_vertices >= _ID_WIDE_FROM else 4


def graph_type(prepared: ResidentGraph, weight: str | None = None, metered: bool = False) -> str:
    """The C++ type through which kernels see the graph. ``metered``: it counts what it reads, which costs registers."""
    family = "memory::Metered" if metered else None
    if prepared.through:
        family = on_storage(metered)
    return csr_type(prepared.out.edge_type.itemsize, weight, prepared.graph.is_compressed, family)


def on_storage(metered: bool = False) -> str:
    """The C++ type of the sources through which a GPU reads what lies on storage."""
    return f"storage::OnDevice<memory::{'Meter' if metered else 'NoMeter'}>"


def csr_type(edge_bytes: int, weight: str | None = None, packed: bool = False, family: str | None = None) -> str:
    form, edge = "PackedCsr" if packed else "Csr", f"int{8 * edge_bytes}_t"
    if family is not None:
        return f"graph::{form}<{edge}, {weight or 'graph::NoWeight'}, {family}>"
    return f"graph::{form}<{edge}>" if weight is None else f"graph::{form}<{edge}, {weight}>"


FORMS = tuple(csr_type(edge, packed=packed) for edge in (4, 8) for packed in (False, True))  # of lists without weights
# The same with the type of vertex numbers. Lists of fewer than 2^31 vertices may be wide; packed ones are not.
NUMBERED_FORMS = tuple(
    f"{csr_type(edge, packed=packed)}, uint{8 * vertex}_t"
    for edge, vertex, packed in ((4, 4, False), (8, 4, False), (8, 8, False), (4, 4, True), (8, 8, True))
)


def kernel_file(path: str, types: Iterable[str] = FORMS) -> KernelFile:
    """The file ``PATH.cu``, with its kernel ``NAME_kernel`` for each of ``types``."""
    return KernelFile(f"{path}.cu", tuple(_instance(path, of) for of in types), separate_module=True)


def _instance(path: str, types: str) -> str:
    return f"{path.rpartition('/')[2]}_kernel<{types}>"


def scratch_for(layout: ScratchLayout, device: torch.device, memory: torch.Tensor | None = None) -> torch.Tensor:
    """A run's scratch memory, uint8 ``[layout.bytes]``, zero where it must be; of ``memory`` if that is given."""
    scratch = passes.empty(layout.bytes, torch.uint8, device) if memory is None else memory[: layout.bytes]
    clear(scratch, layout)
    return scratch


def clear(scratch: torch.Tensor, layout: ScratchLayout) -> None:
    """Zeroes what must be zero of a run's scratch memory."""
    zeroed = scratch[: layout.zeroed]
    if zeroed.is_cuda:
        zeroed.zero_()
    else:
        passes.fill(zeroed.view(torch.int64), 0)


def to_original(order: torch.Tensor | None, values: torch.Tensor, vertices: bool = False) -> torch.Tensor:
    """Per-vertex values ``[num_vertices]`` of a run, in the order of the graph before it was reordered; ``vertices``: which are
    vertex numbers, from 0 on, and renumbered too. ``order`` is int64 on their device (``ResidentGraph.order_on``); with None
    they are the result. ``Graph.to_original`` does the same, but takes more memory."""
    if order is None:
        return values
    found = torch.empty_like(values)
    for begin in range(0, len(order), LONG_CHUNK):
        at, part = order[begin : begin + LONG_CHUNK], values[begin : begin + LONG_CHUNK]
        if vertices:
            part = torch.where(part < 0, part, order[part.clamp(min=0).long()].to(part.dtype))
        found[at] = part
    return found


def smallest_original(order: torch.Tensor | None, labels: torch.Tensor, room: torch.Tensor | None = None) -> torch.Tensor:
    """Labels that are vertices, equal within a component, as the smallest vertex of each component before the reordering. They
    are overwritten; ``room``, of their length and type, is for the result. ``order`` may be on any device: a part of it is
    copied at a time."""
    if order is None:
        return labels
    parts = [slice(begin, begin + LONG_CHUNK) for begin in range(0, len(order), LONG_CHUNK)]
    found = torch.empty_like(labels) if room is None else room
    found.fill_(len(order))
    for part in parts:
        found.scatter_reduce_(0, labels[part].long(), order[part].to(labels.device, labels.dtype), "amin")
    for part in parts:
        labels[part] = found[labels[part].long()]
    for part in parts:
        found[order[part].to(labels.device)] = labels[part]
    return found


def renumbering_bytes(graph: Graph, width: int) -> int:
    """GPU memory that ``smallest_original`` takes besides labels of ``width`` bytes and, if they have four, as much room again.
    0 for graphs that were not reordered."""
    if graph.original_ids is None:
        return 0
    room = allocated(8 * graph.num_vertices) if width == 8 else 0
    return room + 5 * allocated(8 * min(graph.num_vertices, LONG_CHUNK))


def original_bytes(graph: Graph, width: int) -> int:
    """GPU memory that ``to_original`` takes besides values of ``width`` bytes: the order, the result, and what it renumbers at
    once. 0 for graphs that were not reordered."""
    vertices = graph.num_vertices
    if graph.original_ids is None:
        return 0
    return allocated(8 * vertices) + allocated(width * vertices) + 5 * allocated(8 * min(vertices, LONG_CHUNK))


def runner(
    prepared: ResidentGraph,
    on_cpu: Callable[[int], None],
    kernels: KernelFile,
    *types: str,
    weight: str | None = None,
    counts: bool = False,
    items: int | None = None,
) -> Callable[[Params], None]:
    """One run as a function of its parameters: ``on_cpu``, which takes their address, or one cooperative launch. Compiles the
    kernel if need be, before any clock runs.

    Args:
        kernels: what :func:`kernel_file` made.
        types: C++ types of the kernel's instance, after that of the graph, which ``weight`` and ``counts`` decide.
        items: what the loop goes over, a thread each; None for a traversal, which goes over the edges.
    """
    if prepared.device.type == "cpu":

        def run_on_cpu(params: Params) -> None:
            with reading(prepared.through):
                on_cpu(params.address)

        return run_on_cpu
    device, of = prepared.device, ", ".join((graph_type(prepared, weight, counts), *types))
    instance = _instance(kernels.path.removesuffix(".cu"), of)
    threads = prepared.graph.num_edges // _EDGES_OF_THREAD if items is None else items
    # Little work cannot occupy the whole GPU, and fewer blocks wait for each other in less time.
    grid = min(resident_blocks(kernels, instance, device, BLOCK), 1 + threads // BLOCK)

    def run(params: Params) -> None:
        with reading(prepared.through):
            launch(kernels, instance, device, grid, BLOCK, params, cooperative=True)

    return run


class Finished(NamedTuple):
    """What a run left in its control block."""

    depth: int
    end_ns: int
    records: torch.Tensor  # int64 [steps, len(FIELDS)]


def finish(prepared: ResidentGraph, scratch: torch.Tensor, layout: ScratchLayout) -> Finished:
    """Waits for a run and reads its control block. GraphError where a neighbour list that it met is broken."""
    control = _CONTROL.read(scratch, layout.control)
    depth, bad, end_ns = control.depth, control.bad, control.end_ns
    vertices, edges = prepared.graph.num_vertices, prepared.graph.num_edges
    if bad == vertices:
        raise GraphError(
            f"the neighbour lists of the {vertices} vertices overlap: their offsets do not lie in order within the "
            f"{edges} edges; check the file they came from"
        )
    if bad != _core.NO_VERTEX:
        raise broken_list(prepared.graph, bad)
    rows = min(depth, RECORDS)
    records = scratch[layout.records : layout.records + rows * ctypes.sizeof(_RECORD)].view(torch.int64).view(rows, len(FIELDS))
    return Finished(depth, end_ns, passes.copied(records))  # the memory may be for the next run


def broken_list(graph: Graph, vertex: int) -> GraphError:
    """What to raise for the list of a vertex, as the graph numbers it."""
    known = vertex if graph.original_ids is None else int(graph.original_ids[vertex])
    return GraphError(
        f"the neighbour list of vertex {known} is broken: its offsets do not lie in order within the {graph.num_edges} edges, "
        f"or it names a vertex outside [0, {graph.num_vertices}); check the file they came from"
    )


class Stopwatch:
    """Adds up the time of with-blocks: on a GPU that of the current stream."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._marks: list[Any] = []

    def __enter__(self) -> None:
        self._mark()

    def __exit__(self, *error: object) -> None:
        self._mark()

    def _mark(self) -> None:
        if self._on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def seconds(self) -> float:
        pairs = list(zip(self._marks[::2], self._marks[1::2], strict=True))
        if not self._on_gpu:
            return sum(end - begin for begin, end in pairs)
        self._marks[-1].synchronize()
        return sum(begin.elapsed_time(end) for begin, end in pairs) / 1e3
