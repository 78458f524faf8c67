"""Shortest paths from one vertex, over a graph whose edges and weights may lie in host memory (delta-stepping)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .. import _core
from ..runtime import arguments
from ..runtime.annotations import IfRequested
from ..runtime.errors import ConfigError, GraphError
from ..runtime.jit import KernelFile
from ..runtime.params import struct
from ..runtime.repr import Repr, type_name
from . import arrays, passes
from .algorithms import Algorithm, register
from .bfs import check_source
from .device_graph import allocated
from .graph import Graph
from .prepare import ResidentGraph, graph_of, prepared_for
from .traversal import (
    ScratchLayout,
    Stopwatch,
    csr_type,
    finish,
    kernel_file,
    original_bytes,
    runner,
    scratch_for,
    to_original,
)
from .traversal_stats import TraversalRun, with_stats

MODES = ("auto", "bellman-ford")
_INTEGERS = {torch.uint8: "uint8_t", torch.int32: "int32_t", torch.int64: "int64_t"}
WEIGHT_CLASSES = {**_INTEGERS, torch.float32: "float", torch.float64: "double"}
# Edges that are read in the time that a step takes without any. Chosen for GPUs: a step takes 11 us, and the link brings 2^17
# edges in it at most (docs/notes/traversal-on-h200.md). Each thread of a CPU needs some to be worth waking, or waiting for.
_GPU_STEP_EDGES, _CPU_THREAD_EDGES = 1 << 15, 1 << 9
_STEP_VERTICES = 256  # for which a bucket's look at the bitmap takes as long as an edge: eight words. docs/notes/thresholds.md


# All weights with neighbours of four bytes, and those wider than one with eight.
WEIGHTED_FORMS = tuple(
    csr_type(edge, name, packed)
    for packed in (False, True)
    for edge in (4, 8)
    for weight, name in WEIGHT_CLASSES.items()
    if edge + weight.itemsize != 9
)
# Each has a first kernel and a second, which goes on where steps are small.
PATH_FORMS = tuple(f"{form}, {second}" for form in WEIGHTED_FORMS for second in ("false", "true"))
KERNELS = kernel_file("graph/sssp", PATH_FORMS)
_PARAMS, _CONTROL = struct("graph::PathParams"), struct("graph::PathControl")


@dataclass(frozen=True, repr=False)
class SsspResult(Repr):
    """What :func:`sssp` found, on the device that ran it.

    Attributes:
        distances: ``[num_vertices]``. For integer weights int64, -1 where unreachable; for float weights of their type,
            inf where unreachable.
        stats: what the search did (see :func:`sssp`), or None unless asked for.
    """

    distances: torch.Tensor
    stats: IfRequested[dict[str, Any]] = None


def sssp(
    graph: Graph | ResidentGraph,
    source: int,
    mode: str = "auto",
    delta: float | None = None,
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> SsspResult:
    """The least sum of weights over all paths from ``source`` along out-edges, for every vertex.

    Distances are the same, to the last bit, in every mode, for every delta, on every device and for any number of threads:
    floats are added along the path, in their own type, and the least sum is unique.

    Args:
        graph: the graph, with weights that are not negative: uint8, int32, int64, float32 or float64. An edge of weight inf
            leads nowhere.
        source: a vertex number.
        mode: ``"auto"``: vertices are visited in order of their distance, bucket by bucket. ``"bellman-ford"``: as they are
            found, however often.
        delta: width of a bucket; None begins with a small one, chosen from the weights, and widens it where buckets are
            nearly empty.
        gpu_budget, device: as for :func:`pagerank`.
        stats: also report what :func:`bfs` does for each step (``bytes`` include weights), and ``visits`` (a vertex counts
            as often as its list was read), ``buckets`` and the first ``delta``.

    Raises:
        ConfigError: no weights, or of another type; an unknown mode, a delta that is no positive number, a source that is no
            integer, a budget that is no size.
        IndexOutOfRange: ``source`` is no vertex.
        GraphError: a negative weight; a distance that exceeds 2^32 - 3, the most for uint8 and int32 weights, or 2^63 - 1; an
            offset or neighbour met on the way is out of range.
        OutOfMemory: the result and the search's state exceed the free GPU memory.
    """
    given = graph_of(graph)
    source = check_source(given, source)
    weights = require_weights(given, "sssp")
    if weights.least < 0:
        raise negative_weight(given)
    check_width(mode, delta)
    prepared = prepared_for(graph, "sssp", gpu_budget, device, weighted=True)
    width = bucket_width(mode, delta, _first_delta(given, weights, prepared.device))
    return SsspResult(*search(_PATHS, prepared, source, mode, width, stats))


def negative_weight(graph: Graph) -> GraphError:
    """What to raise for a graph with one."""
    weights = graph.weights
    assert weights is not None
    at = arrays.first_where(weights, lambda part: part < 0)
    return GraphError(
        f"weights[{at}] is {weights[at].item()}, but shortest paths are found only where no weight is negative; "
        "raise all weights, or use another program for negative ones"
    )


def _first_delta(graph: Graph, weights: arrays.WeightRange, device: torch.device) -> float:
    """The width to begin with, for which few vertices are visited twice.

    With the least weight no vertex is visited twice. Where that is next to nothing: in a random graph the number of vertices
    within a distance grows e-fold over about mean weight / mean degree. Half of that hardly makes a GPU read a list again; a
    CPU, to which a list costs less and a bucket more, does best with twice that (docs/sssp.md has counts).
    """
    growth = weights.mean / max(1.0, mean_degree(graph))
    delta = max(weights.least, growth * (2 if device.type == "cpu" else 0.5))
    return float(delta) if delta > 0 else 1.0


def distances_of(keys: torch.Tensor, weights: torch.dtype) -> torch.Tensor:
    """Keys as distances."""
    if weights.is_floating_point:
        return keys.view(weights)
    distances, at = passes.distances(keys)
    if at >= 0:
        most, remedy = (2**63 - 1, "float64") if weights == torch.int64 else (2**32 - 3, "int64 or float64")
        raise GraphError(
            f"the distance of vertex {at} exceeds {most}, the most for {type_name(weights)} weights; "
            f"convert the weights to {remedy}"
        )
    return distances


def require_weights(graph: Graph, algorithm: str) -> arrays.WeightRange:
    """The range of the graph's weights, if it has some of a type that searches for paths take."""
    kind, known = graph.weight_type, ", ".join(type_name(dtype) for dtype in WEIGHT_CLASSES)
    if kind is None:
        raise ConfigError(
            f"{algorithm} needs weights, and the graph has none; give it some, as in Graph(indptr, indices, weights) or "
            "random_weights(graph), or count edges with bfs"
        )
    neighbors = arrays.index_dtype(graph.num_vertices) if graph.is_compressed else graph.neighbor_lists.listed_type
    if kind not in WEIGHT_CLASSES or kind.itemsize + neighbors.itemsize == 9:
        raise ConfigError(
            f"the weights are {type_name(kind)} with {neighbors} neighbours, but "
            f"{algorithm} takes {known} (uint8 only below 2^31 vertices); convert them, as in "
            "Graph(graph.indptr, graph.indices, graph.weights.int())"
        )
    found = graph.weight_range
    assert found is not None
    return found


class BucketWidth(NamedTuple):
    """How wide buckets are: at first, and whether that may change."""

    delta: float
    adapts: bool


def check_width(mode: str, delta: float | None) -> None:
    """Raises ConfigError unless the mode is known, and ``delta`` a width that goes with it."""
    arguments.one_of("mode", mode, MODES)
    if delta is None:
        return
    if mode == "bellman-ford":
        raise ConfigError(f"delta {delta!r} is given, but mode 'bellman-ford' has one bucket; leave one of them out")
    if not arguments.number("delta", delta) > 0:
        raise ConfigError(f"delta {delta!r} is not a positive number")


def bucket_width(mode: str, delta: float | None, first: float) -> BucketWidth:
    """The width that mode and ``delta=`` ask for; ``first`` where they leave it open."""
    if mode == "bellman-ford":
        return BucketWidth(float("inf"), False)
    return BucketWidth(first, True) if delta is None else BucketWidth(float(delta), False)


class Paths(NamedTuple):
    """What a search for shortest or widest paths has of its own. Keys are signed numbers here."""

    name: str  # of the algorithm
    kernels: KernelFile
    on_cpu: Callable[..., None]
    unset: Callable[[torch.dtype], int]  # the key of vertices that no path leads to, by the type of the weights
    values: Callable[[torch.Tensor, torch.dtype], torch.Tensor]  # of keys and that type; in place as far as that goes
    unreachable: Callable[[torch.Tensor], float]  # the value of vertices that no path leads to, by the values


def search(
    paths: Paths, prepared: ResidentGraph, source: int, mode: str, width: BucketWidth, stats: bool
) -> tuple[torch.Tensor, dict[str, Any] | None]:
    """The values ``[num_vertices]`` of paths from the user's vertex ``source``, and the stats if they are asked for."""
    (values, buckets), report = with_stats(functools.partial(_run, paths, prepared, source, width), stats, prepared, mode)
    if report is not None:
        reached = int((values != paths.unreachable(values)).sum())
        report |= {"reached": reached, "visits": report["reached"], "buckets": buckets, "delta": width.delta}
    return values, report


def _run(
    paths: Paths, prepared: ResidentGraph, source: int, width: BucketWidth, counts: bool
) -> tuple[tuple[torch.Tensor, int], TraversalRun]:
    """Values, and how many buckets there were."""
    graph, device, view = prepared.graph, prepared.device, prepared.out
    if view.slots is not None and view.hot_weights is None and not graph.is_compressed:
        raise ConfigError(f"the graph is prepared without its weights; use prepare(graph, ..., weighted=True) for {paths.name}")
    dtype, vertices = graph.weight_type, graph.num_vertices
    assert dtype is not None
    kind = arrays.WEIGHT_TYPES[dtype]
    layout = ScratchLayout.of(_core.path_layout, graph)
    on_cpu = functools.partial(paths.on_cpu, weight_bytes=kind.bytes, weight_order=kind.order)
    kernel = functools.partial(runner, prepared, on_cpu, paths.kernels, weight=WEIGHT_CLASSES[dtype], counts=counts)
    runs = [kernel("false"), kernel("true")] if device.type == "cuda" else [kernel()]
    light = bucket_edges(vertices, device) if width.adapts else -1
    internal = int(graph.to_internal(source))
    clock = Stopwatch(device)
    with clock:
        key_type = torch.int64 if dtype.itemsize == 8 else torch.int32
        keys = passes.full(vertices, paths.unset(dtype), key_type, device)
        scratch = scratch_for(layout, device)
        params = _PARAMS(
            graph=view.words_for(counts),
            source=internal,
            keys=keys.data_ptr(),
            scratch=scratch.data_ptr(),
            delta=width.delta,
            light=light,
        )
        for run in runs:
            run(params)
    finished = finish(prepared, scratch, layout)
    buckets = 1 + _CONTROL.read(scratch, layout.left).buckets
    del scratch
    with clock:
        values = paths.values(to_original(prepared.order_on(device), keys), dtype)
    return (values, buckets), TraversalRun(finished, clock)


def mean_degree(graph: Graph) -> float:
    """Neighbours of a vertex that has some, on the average."""
    return graph.num_edges / max(1, graph.num_vertices - graph.num_isolated)


def bucket_edges(vertices: int, device: torch.device) -> int:
    """Edges that take as long as a bucket does without any."""
    if device.type == "cpu":
        return _CPU_THREAD_EDGES * _core.num_threads()
    return _GPU_STEP_EDGES + vertices // _STEP_VERTICES  # a new bucket looks at a word for each 32 vertices


def path_state_bytes(graph: Graph) -> int:
    """GPU memory of one search: keys, and besides them scratch, or what it takes to renumber them, or to make the result of
    them."""
    vertices, dtype = graph.num_vertices, graph.weight_type or torch.int32
    wide = dtype.itemsize == 8
    result = allocated(8 * vertices) + allocated(vertices) if wide or not dtype.is_floating_point else allocated(4 * vertices)
    scratch = allocated(ScratchLayout.of(_core.path_layout, graph).bytes)
    key_bytes = 8 if wide else 4
    return allocated(key_bytes * vertices) + max(scratch, result, original_bytes(graph, key_bytes))


def unset_key(weights: torch.dtype) -> int:
    """``Shortest::kUnset``."""
    return arrays.WEIGHT_TYPES[weights].infinity if weights.is_floating_point else -1


_PATHS = Paths("sssp", KERNELS, _core.sssp, unset_key, distances_of, lambda d: float("inf") if d.is_floating_point() else -1)
ALGORITHM = register(
    Algorithm(
        "sssp",
        path_state_bytes,
        run=sssp,
        kernels=KERNELS,
        modes=MODES,
        weights="needed",
        verify="verify_sssp",
        help="""Find the shortest distance of every vertex from a source by edge weights, and how fast that went.

        The array of --output is the distances (-1, or inf for float weights, where unreachable).
        """,
        array="distances",
        columns={"distance": "distances"},
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} steps",
    )
)
