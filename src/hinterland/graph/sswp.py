"""Widest paths from one vertex: over all paths to a vertex, the largest of their least weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..runtime.annotations import IfRequested
from ..runtime.errors import GraphError
from ..runtime.repr import Repr
from . import arrays, passes
from .algorithms import Algorithm, register
from .bfs import check_source
from .graph import Graph
from .prepare import ResidentGraph, graph_of, prepared_for
from .sssp import (
    MODES,
    PATH_FORMS,
    Paths,
    bucket_edges,
    bucket_width,
    check_width,
    mean_degree,
    path_state_bytes,
    require_weights,
    search,
)
from .traversal import kernel_file

KERNELS = kernel_file("graph/sswp", PATH_FORMS)
# Buckets from the least to the largest weight, at first: at most so many; on a CPU 64 to 2^18 are as good. On a GPU each should
# have so many times the edges that pay for it, where edges come over the link; a GPU reads its own memory again sooner than it
# begins another bucket. But where vertices have fewer neighbours than that, as on roads, ways are long, and every bucket is
# worth its time (docs/notes/thresholds.md).
_MOST_BUCKETS, _TIMES_PAID, _FEW_NEIGHBORS = 4096, 8, 5


@dataclass(frozen=True, repr=False)
class SswpResult(Repr):
    """What :func:`sswp` found, on the device that ran it.

    Attributes:
        widths: ``[num_vertices]``. For integer weights int64, -2^63 where unreachable; for float weights of their type, -inf
            where unreachable. The source has the largest number of the weights' type, or inf.
        stats: what the search did (see :func:`sssp`), or None unless asked for.
    """

    widths: torch.Tensor
    stats: IfRequested[dict[str, Any]] = None


def sswp(
    graph: Graph | ResidentGraph,
    source: int,
    mode: str = "auto",
    delta: float | None = None,
    gpu_budget: int | str | None = None,
    device: torch.device | str | int | None = None,
    stats: bool = False,
) -> SswpResult:
    """How wide the widest path from ``source`` along out-edges is, for every vertex; a path is as wide as its least weight.

    Widths are weights of the graph: the same in every mode, for every delta, on every device, for any number of threads.

    Args:
        graph: the graph, with weights uint8, int32, int64, float32 or float64; they may be negative. An edge of weight -inf
            leads nowhere.
        source: a vertex number.
        mode: ``"auto"``: the widest vertices first, bucket by bucket. ``"bellman-ford"``: as they are found.
        delta: width of a bucket, in weights if they are integers, else in steps from a float to the next; None begins with
            a fraction of the weights' range, or without an end where the GPU holds all edges and lists are not short.
        gpu_budget, device, stats: as for :func:`sssp`.

    Raises:
        ConfigError: as for :func:`sssp`.
        IndexOutOfRange: ``source`` is no vertex.
        GraphError: a weight is the least number of int32 or int64; an offset or neighbour met on the way is out of range.
        OutOfMemory: the result and the search's state exceed the free GPU memory.
    """
    given = graph_of(graph)
    source = check_source(given, source)
    weights = require_weights(given, "sswp")
    check_width(mode, delta)
    dtype = given.weight_type
    assert dtype is not None
    if dtype in (torch.int32, torch.int64) and weights.least == torch.iinfo(dtype).min:
        assert given.weights is not None
        at = arrays.first_where(given.weights, lambda part: part == weights.least)
        raise GraphError(f"weights[{at}] is {weights.least}, which stands for no path at all; raise it by one")
    prepared = prepared_for(graph, "sswp", gpu_budget, device, weighted=True)
    width = bucket_width(mode, delta, _first_width(prepared, _key(weights.least, dtype) - _key(weights.most, dtype)))
    return SswpResult(*search(_PATHS, prepared, source, mode, width, stats))


def _first_width(prepared: ResidentGraph, span: int) -> float:
    """The width to begin with; ``span``: from the key of the largest weight to that of the least."""
    graph, device = prepared.graph, prepared.device
    buckets = _MOST_BUCKETS
    if device.type == "cuda" and mean_degree(graph) >= _FEW_NEIGHBORS:
        if not prepared.out.over_link:
            return float("inf")
        paid = _TIMES_PAID * bucket_edges(graph.num_vertices, device)
        buckets = max(1, min(_MOST_BUCKETS, graph.num_edges // paid))
    return max(1.0, span / buckets)


def _key(weight: float, dtype: torch.dtype) -> int:
    """The key of a width (``Widest::key_of``)."""
    if not dtype.is_floating_point:
        return (2 ** (8 * max(4, dtype.itemsize) - 1) - 1) - int(weight)
    sign = 1 << (8 * dtype.itemsize - 1)
    bits = int(torch.tensor(weight + 0.0, dtype=dtype).view(torch.int64 if dtype.itemsize == 8 else torch.int32)) % (2 * sign)
    return bits if bits & sign else bits ^ (sign - 1)


def _unset(weights: torch.dtype) -> int:
    """``Widest::kUnset``."""
    return arrays.WEIGHT_TYPES[weights].infinity - (1 << (8 * weights.itemsize - 1)) if weights.is_floating_point else -1


def _unreachable(widths: torch.Tensor) -> float:
    return float("-inf") if widths.is_floating_point() else torch.iinfo(torch.int64).min


_PATHS = Paths("sswp", KERNELS, _core.sswp, _unset, passes.widths, _unreachable)
ALGORITHM = register(
    Algorithm(
        "sswp",
        path_state_bytes,
        run=sswp,
        kernels=KERNELS,
        modes=MODES,
        weights="needed",
        verify="verify_sswp",
        help="""Find the widest path to every vertex from a source: its narrowest edge is as wide as can be.

        The array of --output is the widths (-2^63, or -inf for float weights, where unreachable).
        """,
        array="widths",
        columns={"width": "widths"},
        found=lambda run: f"{run['reached']:,} vertices in {run['levels']} steps",
    )
)
