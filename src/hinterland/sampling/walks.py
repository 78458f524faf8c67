"""Random walks with restart on a graph that may lie in host memory (Tong, Faloutsos, Pan 2006)."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import torch

from .. import _core
from ..graph.graph import Graph
from ..graph.prepare import ResidentGraph, graph_of, prepared_for
from ..graph.traversal import broken_list, kernel_file, runner
from ..memory.allocator import require_room
from ..runtime import devices
from ..runtime.arguments import number, switch, whole_number
from ..runtime.capture import capturing
from ..runtime.errors import ConfigError, HinterlandError, IndexOutOfRange, OutOfMemory
from ..runtime.params import struct
from ..runtime.units import format_bytes
from .batch import NO_WEIGHTS
from .neighbor import integer, numbered_inside, vertices_on, weights_of
from .replayed import Replayed, in_batch

KERNELS = kernel_file("sampling/walks")
_PARAMS, _CONTROL = struct("sampling::WalkParams"), struct("sampling::WalkControl")


def random_walks(
    graph: Graph | ResidentGraph,
    starts: torch.Tensor | Sequence[int],
    length: int,
    *,
    weighted: bool = False,
    restart: float = 0.0,
    seed: int = 0,
    batch: int = 0,
    device: torch.device | str | int | None = None,
) -> torch.Tensor:
    """A random walk from each start.

    A step leads back to the walk's start with probability ``restart``, and otherwise to a neighbour. Where the vertex has none
    (or, with ``weighted``, none whose weight is above 0), the walk ends, and -1 follows. Walks depend on the graph and
    ``(seed, batch, starts)`` alone, and a shorter walk is the beginning of a longer one: they are the same on every device, for
    any number of threads, wherever the graph lies. A compressed graph's walks are those of the graph with sorted lists.

    On a GPU all walks are one launch, and a step reads a neighbour, and the list's offsets unless they are kept there.

    Args:
        graph: the graph, in any memory, or what :func:`prepare` made of it with ``algorithms="sampling"``, which saves many
            calls the copy of the offsets. A walk goes from v to a vertex of v's list.
        starts: vertices, ``[n]``, any integer type, on any device; one that is given twice starts two walks.
        length: steps of each walk, 1 to 65535.
        weighted: draw neighbours in proportion to the graph's weights.
        restart: in [0, 1).
        seed: of all random draws.
        batch: the number of the mini-batch: another one draws anew.
        device: where to walk; None is the current GPU, or the CPU on a machine without one.

    Returns:
        int64 ``[n, length + 1]`` on that device: the start, then where each step led.

    Raises:
        ConfigError: ``length`` or ``restart`` out of range, starts that are no list of integers; no weights, or of a type that
            is not uint8, int32, int64, float32 or float64.
        IndexOutOfRange: a start is no vertex.
        GraphError: a weight is negative, infinite or NaN; a list that was met is broken.
        OutOfMemory: the walks do not fit on the device.
    """
    rule = WalkRule.of(graph_of(graph), length, weighted, restart, seed)
    batch = integer("batch", batch)
    prepared = prepared_for(graph, "sampling", None, device, weighted)
    with devices.on(prepared.device):
        return walks_from(prepared, "start", vertices_on(prepared.device, "starts", starts), rule, batch)


class WalkRule(NamedTuple):
    """How walks go, fields of WalkParams: their steps, how weights are stored (``SAMPLE_WEIGHTS``) and the largest one."""

    length: int
    weights: int
    most_weight: float
    restart: float
    seed: int

    @classmethod
    def of(cls, graph: Graph, length: int, weighted: bool, restart: float, seed: int) -> WalkRule:
        """The rule that a user gave, if it can be used."""
        length = whole_number("length", length)
        if not 0 <= number("restart", restart) < 1:
            raise ConfigError(f"restart {restart!r} is not a probability from 0 to below 1; use 0.15, or 0 for none")
        if not 1 <= length <= _core.WALK_MOST_STEPS:
            raise ConfigError(f"length {length} is not between 1 and {_core.WALK_MOST_STEPS} steps")
        weights = weights_of(graph.neighbor_lists) if switch("weighted", weighted) else NO_WEIGHTS
        return cls(length, *weights, float(restart), integer("seed", seed))


def walks_from(
    prepared: ResidentGraph, name: str, starts: torch.Tensor, rule: WalkRule, batch: int, *, each: int = 1, first: int = 0
) -> torch.Tensor:
    """``each`` walks from every start, int64 ``[n]`` on the prepared device, one start's after another's: int64 ``[n * each,
    length + 1]``. ``name``: what a start is called where it is no vertex; ``first``: the first walk's number, a multiple of
    ``each``: walks with other numbers have other draws."""
    internal, device = graph_of(prepared), prepared.device
    starts = numbered_inside(prepared, starts)
    shape = (len(starts) * each, rule.length + 1)
    try:
        if device.type == "cpu":
            require_room(8 * shape[0] * (shape[1] + 1))
        given = starts.repeat_interleave(each)
        walks = torch.empty(shape, dtype=torch.int64, device=device)
    except (RuntimeError, OutOfMemory) as error:
        raise OutOfMemory(
            f"{shape[0]} walks of {rule.length} steps take {format_bytes(8 * shape[0] * shape[1])}, which {device} "
            "does not have; walk from fewer starts at a time"
        ) from error
    clear, replayed = _CONTROL(bad_start=_core.SAMPLE_NONE, bad_list=_core.SAMPLE_NONE), None
    if device.type == "cuda" and capturing():
        known = weakref.ref(internal)  # who replays walks has the graph
        replayed = Replayed(device, batch, 2, lambda *bad: _wrong(known(), name, first, each, None, *bad))
        control = replayed.sent(clear).clone()
    else:
        control = clear.on(device)
    params = _PARAMS(
        graph=prepared.out.words,
        batch=batch,
        first=first,
        num_walks=len(given),
        **rule._asdict(),
        starts=given.data_ptr(),
        walks=walks.data_ptr(),
        control=control.data_ptr(),
    )
    runner(prepared, _core.random_walks, KERNELS, items=len(given))(params)
    if replayed is not None:
        replayed.note(control[_CONTROL.bad_start.offset :].view(torch.int64))
    else:
        found = _CONTROL.read(control)
        wrong = _wrong(internal, name, first, each, given, found.bad_start, found.bad_list)
        if wrong is not None:
            raise in_batch(wrong, batch)
    order = prepared.order_for(walks.numel())
    return walks if order is None else torch.where(walks < 0, walks, order[walks.clamp(min=0)])


def _wrong(
    graph: Graph | None, name: str, first: int, each: int, given: torch.Tensor | None, bad_start: int, bad_list: int
) -> HinterlandError | None:
    """The sentence for what walks met on a graph that is still there; without ``given`` of walks whose starts may not be."""
    if graph is not None and bad_start != _core.SAMPLE_NONE:
        named = f"the {name}" if given is None else f"{name} {int(given[bad_start])}"
        at = (first + bad_start) // each
        return IndexOutOfRange(f"{named} at position {at} is no vertex: there are {graph.num_vertices}, numbered from 0")
    return broken_list(graph, bad_list) if graph is not None and bad_list != _core.SAMPLE_NONE else None
