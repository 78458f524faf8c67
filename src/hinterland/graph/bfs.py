"""Breadth-first search over a graph whose edges may lie in host memory (EMOGI; Min 2022, chapter 2)."""

from __future__ import annotations

import operator
import time
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime import devices
from ..runtime.errors import ConfigError, GraphError, IndexOutOfRange, OutOfMemory
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.units import format_bytes, parse_bytes
from .bfs_stats import summarise
from .graph import Graph

MODES = ("auto", "top-down")

_BLOCK = 512  # kBfsBlock of bfs.cu
_WIDE_FROM = 2**31  # vertices from which a parent takes eight bytes
_NO_VERTEX = 2**63 - 1  # BfsControl::kNone


def _instance(edge_bytes: int, id_bytes: int) -> str:
    edge, parent = f"hinterland::int{8 * edge_bytes}_t", f"hinterland::uint{8 * id_bytes}_t"
    return f"hinterland::bfs_top_down<{edge}, {parent}>"


KERNELS = KernelFile("graph/bfs.cu", (_instance(4, 4), _instance(8, 4), _instance(8, 8)))


@dataclass(frozen=True)
class BfsResult:
    """What a breadth-first search found, on the device that ran it.

    Attributes:
        levels: int32 ``[num_vertices]``; edges on a shortest path from the source, -1 where unreachable.
        parents: int64 ``[num_vertices]``; the smallest-numbered neighbour one level nearer to the source (the source is its
            own parent), -1 where unreachable.
        stats: what the search did (see :func:`bfs`), or None unless asked for.
    """

    levels: torch.Tensor
    parents: torch.Tensor
    stats: dict[str, Any] | None = None


def bfs(
    graph: Graph,
    source: int,
    mode: str = "auto",
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> BfsResult:
    """Levels and parents of every vertex that ``source`` reaches along out-edges.

    On a GPU the whole search is one cooperative kernel, which reads the edges where they lie, in merged and aligned cache
    lines (Min 2022, section 2.4.3). Levels and parents are the same on every device and for any number of threads.

    Args:
        graph: the graph; edges ``u -> v`` are followed from u to v.
        source: a vertex number.
        mode: ``"top-down"``, or ``"auto"``, which chooses among the modes there are (one, so far).
        gpu_budget: most bytes of GPU memory that the call may take, result included (``"1GiB"`` or a number); None is what
            is free. Where the offsets fit, those that lie in host memory are copied to the GPU first.
        device: where to run; None is the current GPU, or the CPU on a machine without one.
        stats: also report seconds, edges, bytes read from the edge array, and the same for each level.

    Returns:
        ``BfsResult(levels int32 [V], parents int64 [V], stats)``, tensors on ``device``.

    Raises:
        ConfigError: an unknown mode, a source that is no integer, a budget that is no size.
        IndexOutOfRange: ``source`` is no vertex.
        GraphError: an offset or neighbour met on the way is out of range.
        OutOfMemory: the result and the search's state exceed ``gpu_budget`` or the free GPU memory.
    """
    if mode not in MODES:
        raise ConfigError(f"mode {mode!r} is not one of {', '.join(MODES)}")
    source = _check_source(graph, source)
    device = devices.as_device(device)
    run = _Run(graph, device, None if gpu_budget is None else parse_bytes(gpu_budget))
    if device.type == "cuda":
        with torch.cuda.device(device):
            return run(source, stats)
    return run(source, stats)


def csr_arrays(graph: Graph, device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """Offsets and neighbours as ``device`` addresses them."""
    offsets, edges = graph.array("indptr", device), graph.array("indices", device)
    assert offsets is not None and edges is not None
    return offsets, edges


def _check_source(graph: Graph, source: int) -> int:
    try:
        vertex = operator.index(source)
    except TypeError:
        raise ConfigError(f"source {source!r} is not a vertex number") from None
    if not 0 <= vertex < graph.num_vertices:
        raise IndexOutOfRange(f"source {vertex} is not a vertex: the graph has {graph.num_vertices} vertices, numbered from 0")
    return vertex


class _Run:
    """One search: sizes are planned when it is made, memory is taken when it is called."""

    def __init__(self, graph: Graph, device: torch.device, budget: int | None) -> None:
        self.graph, self.device = graph, device
        self.vertices, self.edges = graph.num_vertices, graph.num_edges
        self.id_bytes = 8 if self.vertices >= _WIDE_FROM else 4
        self.scratch_bytes, self.zeroed_bytes = _core.bfs_scratch(self.vertices, self.edges)
        self.copies_offsets = False
        if device.type == "cuda":
            self._fit(budget)

    def _fit(self, budget: int | None) -> None:
        free = devices.free_bytes(self.device)
        limit = free if budget is None else min(budget, free)
        result = _allocated(4 * self.vertices) + _allocated(self.id_bytes * self.vertices)
        homes = (self.graph.indptr, self.graph.indices)
        # Arrays on another GPU come over whole; those in host memory are read in place.
        fetched = sum(_allocated(a.nbytes) for a in homes if a.is_cuda and a.device != self.device)
        state = result + _allocated(self.scratch_bytes) + fetched
        widened = result + (_allocated(8 * self.vertices) if self.id_bytes == 4 else 0)
        self.need = need = max(state, widened + fetched)
        if need > limit:
            have = f"gpu_budget is {format_bytes(limit)}" if limit == budget else f"{format_bytes(free)} are free"
            raise OutOfMemory(
                f"breadth-first search over {self.vertices} vertices needs {format_bytes(need)} on {self.device} and "
                f"{have}; give it more, or run it with device='cpu'"
            )
        self.copies_offsets = not homes[0].is_cuda and state + _allocated(homes[0].nbytes) <= limit

    def __call__(self, source: int, stats: bool) -> BfsResult:
        clock = _Clock(self.device)
        offsets, edges = csr_arrays(self.graph, self.device)
        traverse = self._prepare(edges.element_size())
        with clock:
            if self.copies_offsets:
                offsets = offsets.clone()
            id_type = torch.int64 if self.id_bytes == 8 else torch.int32
            levels = torch.full((self.vertices,), -1, dtype=torch.int32, device=self.device)
            parents = torch.full((self.vertices,), -1, dtype=id_type, device=self.device)
            scratch = torch.empty(self.scratch_bytes, dtype=torch.uint8, device=self.device)
            scratch[: self.zeroed_bytes].zero_()
            traverse(offsets, edges, source, parents, levels, scratch)
        depth, bad_vertex, end_ns = scratch[:24].view(torch.int64).tolist()
        if bad_vertex == self.vertices:
            raise GraphError(
                f"the neighbour lists of the {self.vertices} vertices overlap: their offsets do not lie in order within the "
                f"{self.edges} edges; check the file they came from"
            )
        if bad_vertex != _NO_VERTEX:
            raise GraphError(
                f"the neighbour list of vertex {bad_vertex} is broken: its offsets do not lie in order within the "
                f"{self.edges} edges, or it names a vertex outside [0, {self.vertices}); check the file it came from"
            )
        records = _records(scratch, depth) if stats else None
        del scratch, offsets
        with clock:
            parents = parents.to(torch.int64)
        if records is None:
            return BfsResult(levels, parents)
        over_link = self.device.type == "cuda" and not self.graph.indices.is_cuda
        return BfsResult(levels, parents, summarise(records, end_ns, depth, clock.seconds(), self.device, over_link))

    def _prepare(self, edge_bytes: int) -> Any:
        """The traversal as a function of its arrays; compiles the kernel if need be, before any clock runs."""
        instance = _instance(edge_bytes, self.id_bytes)
        shape = (edge_bytes, self.vertices, self.edges)
        if self.device.type == "cpu":

            def on_cpu(offsets: Any, edges: Any, source: int, parents: Any, levels: Any, scratch: Any) -> None:
                pointers = (parents.data_ptr(), self.id_bytes, levels.data_ptr(), scratch.data_ptr())
                _core.bfs_top_down(offsets.data_ptr(), edges.data_ptr(), *shape, source, *pointers)

            return on_cpu

        # A small graph cannot occupy the whole GPU, and fewer blocks wait for each other in less time.
        grid = min(resident_blocks(KERNELS, instance, self.device, _BLOCK), 1 + self.edges // (8 * _BLOCK))

        def on_gpu(offsets: Any, edges: Any, source: int, parents: Any, levels: Any, scratch: Any) -> None:
            arrays = (offsets.data_ptr(), edges.data_ptr(), self.vertices, self.edges, source)
            results = (parents.data_ptr(), levels.data_ptr(), scratch.data_ptr())
            launch(KERNELS, instance, self.device, grid, _BLOCK, *arrays, *results, cooperative=True)

        return on_gpu


class _Clock:
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


def _allocated(size: int) -> int:
    """What torch's caching allocator may set aside for ``size`` bytes: multiples of 512 B, and from large blocks up to 1 MiB
    that is not worth splitting off."""
    rounded = -(-size // 512) * 512
    return rounded if rounded <= 1 << 20 else rounded + (1 << 20)


def _records(scratch: torch.Tensor, depth: int) -> torch.Tensor:
    """The levels' records (struct LevelRecord): int64 ``[levels, 6]`` on the CPU."""
    begin, row = _core.BFS_CONTROL_BYTES, 48
    rows = min(depth, _core.BFS_LEVEL_RECORDS + 1)
    return scratch[begin : begin + rows * row].view(torch.int64).view(rows, 6).cpu()
