"""Pairs of vertices that are no edges, for link prediction."""

from __future__ import annotations

import weakref

import torch

from .. import _core
from ..graph.graph import Graph
from ..graph.prepare import ResidentGraph, graph_of, prepared_for
from ..graph.traversal import broken_list, kernel_file, runner
from ..memory.allocator import require_room
from ..runtime import arguments, devices
from ..runtime.capture import capturing
from ..runtime.errors import ConfigError, GraphError, HinterlandError, IndexOutOfRange, OutOfMemory
from ..runtime.params import address, struct
from ..runtime.units import format_bytes
from .neighbor import integer, numbered_inside, vertices_on
from .replayed import Replayed, in_batch

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
    threads. In a CUDA graph, the sources are those at each replay, and a pair that is not found has the target -1.

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
        if order is None:
            return pairs
        inside = (pairs >= 0) & (pairs < len(order))  # others are told at a later call
        return torch.where(inside, order[pairs.clamp(0, len(order) - 1)], pairs)


def _draw(
    prepared: ResidentGraph, pairs: torch.Tensor, sources: torch.Tensor | None, count: int, seed: int, batch: int, exact: bool
) -> None:
    """Fills in ``pairs``, in the graph's own numbers."""
    graph, place, total = prepared.graph, prepared.device, pairs.shape[1]
    vertices, drawn = graph.num_vertices, sources is None
    if vertices < 2:
        raise GraphError(f"a graph of {vertices} vertices has no pair of different ones; there is no negative edge")
    absent: torch.Tensor | None = None
    clear = _CONTROL(bad_source=_NONE, full_source=_NONE, bad_list=_NONE)
    replayed = None
    if place.type == "cuda" and capturing():
        known = weakref.ref(graph)  # who replays it has the graph
        replayed = Replayed(place, batch, 3, lambda *bad: _wrong(known(), drawn, None, count, *bad))
        control = replayed.sent(clear).clone()
    else:
        control = clear.on(place)

    def run(phase: str, items: int) -> None:
        control[: _CONTROL.bad_source.offset].zero_()  # the barrier counts from 0 on
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

    def left() -> bool:
        """Whether pairs are, once all is right. A graph is to count them where more than none is likely: of pairs of which a
        quarter are edges, one in 2^128 is left by 64 tries."""
        if replayed is not None:
            return exact and drawn and 4 * graph.num_edges > vertices**2
        found = _CONTROL.read(control)
        if wrong := _wrong(graph, drawn, sources, count, found.bad_source, found.full_source, found.bad_list):
            raise in_batch(wrong, batch)
        return bool(found.left)

    run("try", total)
    if left():
        absent = torch.zeros(vertices + 1, dtype=torch.int64, device=place)
        run("count", vertices)
        absent = torch.cat([absent.new_zeros(1), absent[:-1].cumsum(0)])
        run("pick", total)
        left()
    if replayed is not None:
        replayed.note(control[_CONTROL.bad_source.offset :].view(torch.int64))


def _sources(device: torch.device, positives: torch.Tensor) -> torch.Tensor:
    if not isinstance(positives, torch.Tensor) or positives.is_nested or positives.ndim != 2 or positives.shape[0] != 2:
        is_plain = isinstance(positives, torch.Tensor) and not positives.is_nested
        what = f"shape {tuple(positives.shape)}" if is_plain else f"type {type(positives).__name__}"
        raise ConfigError(f"positives have {what}, but must be a tensor [2, edges]: sources, then targets")
    return vertices_on(device, "positives", arguments.dense("positives", positives)[0])


def _wrong(
    graph: Graph | None,
    drawn: bool,
    sources: torch.Tensor | None,
    count: int,
    bad_source: int,
    full_source: int,
    bad_list: int,
) -> HinterlandError | None:
    """The sentence for what was met on a graph that is still there; ``sources`` are None where they were ``drawn``, or may not
    be there any more."""
    if graph is None:
        return None
    if bad_source != _NONE:
        at = bad_source // count
        named = "the source" if sources is None else f"source {int(sources[at])}"
        return IndexOutOfRange(f"{named} of positive edge {at} is no vertex: there are {graph.num_vertices}, numbered from 0")
    if bad_list != _NONE:
        return broken_list(graph, bad_list)
    if full_source == _NONE:
        return None
    if drawn:
        return GraphError(
            f"the graph of {graph.num_vertices} vertices is complete: every pair of different ones is an edge, and there is no "
            "negative edge; exact=False draws pairs without looking them up"
        )
    at, named = full_source // count, "the vertex"
    if sources is not None:
        source = int(sources[at])
        named = f"vertex {source if graph.original_ids is None else int(graph.original_ids[source])}"
    return GraphError(
        f"{named}, the source of positive edge {at}, has all other vertices as neighbours, and no negative edge; "
        "leave it out, or exact=False draws pairs without looking them up"
    )
