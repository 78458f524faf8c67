"""Pairs of vertices that are no edges, for link prediction."""

from __future__ import annotations

import torch

from .. import _core
from ..graph.graph import Graph
from ..graph.prepare import ResidentGraph, graph_of, prepared_for
from ..graph.traversal import broken_list, kernel_file, runner
from ..memory.allocator import require_room
from ..runtime import arguments, devices
from ..runtime.capture import require_running
from ..runtime.errors import ConfigError, GraphError, IndexOutOfRange, OutOfMemory
from ..runtime.params import Params, address, struct
from ..runtime.units import format_bytes
from .neighbor import integer, numbered_inside, vertices_on

KERNELS = kernel_file("sampling/negatives")
_PARAMS, _CONTROL = struct("sampling::NegativeParams"), struct("sampling::NegativeControl")
_NONE = _core.SAMPLE_NONE


def negative_edges(
    graph: Graph | ResidentGraph,
    count: int,
    *,
    positives: torch.Tensor | None = None,
    seed: int = 0,
    batch: int = 0,
    exact: bool = True,
    device: torch.device | str | int | None = None,
) -> torch.Tensor:
    """Pairs (source, target) of different vertices such that the source's list does not name the target.

    Every such pair is equally likely; with ``positives``, every such target of the source. Pairs are independent, so one may
    come twice. Up to 64 pairs are tried and looked up in sorted lists by bisection; where all are edges, in a nearly complete
    graph or for a vertex with nearly all others as neighbours, those that are left are counted and one of them is drawn. The
    result depends on the graph, ``seed``, ``batch`` and ``positives`` alone: it is the same on every device, for any number of
    threads.

    Args:
        graph: the graph, in any memory, or what :func:`prepare` made of it with ``algorithms="sampling"``. Its lists must be
            sorted, which those of ``from_edges``, ``transpose`` and compressed graphs are.
        count: how many pairs; with ``positives`` how many for each of them.
        positives: edges, int64 ``[2, e]``, whose sources (row 0) are kept and whose targets are drawn. Row 1 is not read.
        seed: of all random draws.
        batch: the number of the mini-batch: another one draws anew.
        exact: False looks nothing up and reads no list: pairs are uniform among all of different vertices, and a few are edges,
            as many as the graph is dense.
        device: where to draw; None is the current GPU, or the CPU on a machine without one.

    Returns:
        int64 ``[2, count]``, or ``[2, e * count]`` with those of positive edge i from ``i * count`` on, on that device.

    Raises:
        ConfigError: ``count`` is no number from 0 on; positives of another shape or type; lists that are not sorted.
        IndexOutOfRange: a source is no vertex.
        GraphError: there is no such pair: the graph is complete, or the source is a neighbour of all others. A list is broken.
    """
    internal, exact = graph_of(graph), arguments.switch("exact", exact)
    count = arguments.whole_number("count", count)
    if count < 0:
        raise ConfigError(f"count {count} is not a number of pairs from 0 on")
    if exact and not internal.has_sorted_lists:
        raise ConfigError(
            "negative_edges looks edges up in sorted lists, but the neighbours of some vertex do not ascend; pass "
            "compress(graph), whose lists are sorted, or exact=False"
        )
    require_running("pairs are not drawn, since the CPU counts those that are left,", "draw them outside of it")
    seed, batch = integer("seed", seed), integer("batch", batch)
    prepared = prepared_for(graph, "sampling", None, device)
    place = prepared.device
    with devices.on(place):
        sources = None if positives is None else _sources(place, positives)
        if sources is not None:
            sources = numbered_inside(prepared, sources)
        total = count if sources is None else count * len(sources)
        if place.type == "cpu":
            require_room(16 * total)
        try:
            pairs = torch.empty((2, total), dtype=torch.int64, device=place)
        except RuntimeError as error:
            raise OutOfMemory(
                f"{total} pairs take {format_bytes(16 * total)}, which {place} does not have; draw fewer at a time"
            ) from error
        if total > 0:
            _draw(prepared, pairs, sources, count, seed, batch, exact)
        order = prepared.order_for(pairs.numel()) if total else None
        return pairs if order is None else order[pairs]


def _draw(
    prepared: ResidentGraph, pairs: torch.Tensor, sources: torch.Tensor | None, count: int, seed: int, batch: int, exact: bool
) -> None:
    """Fills in ``pairs``, in the graph's own numbers."""
    vertices, place, total = prepared.graph.num_vertices, prepared.device, pairs.shape[1]
    if vertices < 2:
        raise GraphError(f"a graph of {vertices} vertices has no pair of different ones; there is no negative edge")
    absent: torch.Tensor | None = None

    def run(phase: str, items: int) -> Params:
        control = _CONTROL(bad_source=_NONE, full_source=_NONE, bad_list=_NONE).on(place)
        params = _PARAMS(
            graph=prepared.out.words,
            phase=_core.NEGATIVE_PHASES[phase],
            seed=seed,
            batch=batch,
            count=total,
            each=max(count, 1),
            sources=address(sources),
            exact=int(exact),
            source=pairs[0].data_ptr(),
            target=pairs[1].data_ptr(),
            absent=address(absent),
            control=control.data_ptr(),
        )
        runner(prepared, _core.negative_edges, KERNELS, items=items)(params)
        found = _CONTROL.read(control)
        _check(prepared, sources, count, found)
        return found

    if run("try", total).left == 0:
        return
    absent = torch.zeros(vertices + 1, dtype=torch.int64, device=place)
    run("count", vertices)
    absent = torch.cat([absent.new_zeros(1), absent[:-1].cumsum(0)])
    if int(absent[-1]) == 0:
        raise GraphError(
            f"the graph of {vertices} vertices is complete: every pair of different ones is an edge, and there is no negative "
            "edge; exact=False draws pairs without looking them up"
        )
    run("pick", total)


def _sources(device: torch.device, positives: torch.Tensor) -> torch.Tensor:
    if not isinstance(positives, torch.Tensor) or positives.is_nested or positives.ndim != 2 or positives.shape[0] != 2:
        is_plain = isinstance(positives, torch.Tensor) and not positives.is_nested
        what = f"shape {tuple(positives.shape)}" if is_plain else f"type {type(positives).__name__}"
        raise ConfigError(f"positives have {what}, but must be a tensor [2, edges]: sources, then targets")
    return vertices_on(device, "positives", arguments.dense("positives", positives)[0])


def _check(prepared: ResidentGraph, sources: torch.Tensor | None, count: int, control: Params) -> None:
    graph = prepared.graph
    if sources is not None and control.bad_source != _NONE:
        at = control.bad_source // count
        raise IndexOutOfRange(
            f"source {int(sources[at])} of positive edge {at} is no vertex: there are {graph.num_vertices}, numbered from 0"
        )
    if control.bad_list != _NONE:
        raise broken_list(graph, control.bad_list)
    if sources is not None and control.full_source != _NONE:
        at = control.full_source // count
        source = int(sources[at])
        source = source if graph.original_ids is None else int(graph.original_ids[source])
        raise GraphError(
            f"vertex {source}, the source of positive edge {at}, has all other vertices as neighbours, and no negative edge; "
            "leave it out, or exact=False draws pairs without looking them up"
        )
