"""Neighbour sampling, hop by hop, from a graph that may lie in host memory (Hamilton, Ying, Leskovec 2017, "GraphSAGE")."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..graph import arrays
from ..graph.algorithms import Algorithm, register
from ..graph.device_graph import DeviceGraph
from ..graph.graph import Graph
from ..graph.lists import NeighborLists
from ..graph.prepare import ResidentGraph, graph_of, kept_for
from ..runtime import arguments, devices
from ..runtime.capture import capturing, require_running
from ..runtime.errors import ConfigError, GraphError
from ..runtime.repr import type_name
from ..runtime.thresholds import MOST_AHEAD
from ..runtime.units import format_bytes
from .batch import NO_WEIGHTS, RULE, WEIGHT_KINDS, BatchSampler, Fixed, Relation, VertexSet, cut, state_bytes
from .bound import bound, check_fanouts
from .envelope import Envelope, PaddedSample
from .sample import Sample
from .sample_stats import Drawn, Taken, with_stats

STRATEGIES = ("uniform", "last")
_ANY_TIME = 2**64 - 1  # as a window: no two times are further apart
UNTIMED = "seed_times say how new neighbours may be, and need a sampler with times= or edge_times="
_NO_INTEGERS = (torch.bool, torch.quint8, torch.qint8, torch.qint32)


def usual_bytes(num_vertices: int) -> int:
    """What is left free for a batch of the usual size."""
    return state_bytes(num_vertices, 1024, (15, 10, 5))


register(Algorithm("sampling", lambda graph: usual_bytes(graph.num_vertices), beside=True))


class NeighborSampler:
    """Samples the neighbourhoods of seed vertices, a few neighbours for each vertex and hop.

    In the first hop the seeds draw from their lists, in every further one the vertices that the hop before added. A sample
    depends on ``(seed, batch, seeds)`` and the graph alone: it is the same on every device, for any number of threads, wherever
    the graph lies. A compressed graph's lists are the sorted ones, and its samples those of the same graph with sorted lists.

    On a GPU a batch is one cooperative launch, if its largest possible outcome is affordable. Only what the draws name
    is read over the link, one request for each sampled edge; weights and times are read for whole lists, up to
    hubs (docs/sampling.md).

    Args:
        graph: the graph whose lists are drawn from, in any memory, or what :func:`prepare` made of it. A vertex draws from its
            own list: for messages along the edges pass ``graph.transpose()``.
        fanouts: neighbours that each vertex draws, hop by hop; -1 takes the whole list.
        replace: draw with replacement: ``fanout`` edges for each vertex that has neighbours. Otherwise all neighbours of a
            vertex that has no more than ``fanout``.
        weighted: draw in proportion to the graph's weights. Edges of weight 0 are never drawn, also not by -1.
        disjoint: each seed has a subtree of its own, and subtrees share no vertices.
        times: int64 ``[num_vertices]``, when each vertex appeared, a tensor or a UnifiedTensor. Neighbours are then drawn among
            those that are not newer than the subtree's seed, and samples are disjoint.
        edge_times: int64 ``[num_edges]``, when each edge appeared, in the order of the graph's lists, as its weights are; a
            tensor, or a UnifiedTensor, which is read where it lies. Edges are then drawn among those that are not newer than
            the subtree's seed. With ``times`` as well a neighbour counts from the later of both.
        temporal_strategy: ``"uniform"``, or ``"last"``, which takes the newest ones, newest first.
        time_window: how much older than the subtree's seed a neighbour may be, in the unit of the times: those are drawn whose
            time lies in ``[seed time - time_window, seed time]``. None is any time.
        seed: of all random draws.
        device: where to sample; None is the current GPU, or the CPU on a machine without one.

    Raises:
        ConfigError: fanouts that are no list of numbers from -1 to 65535, an unknown strategy, ``last`` with ``replace`` or
            ``weighted``; no weights, or of a type that is not uint8, int32, int64, float32 or float64; times of another length
            or type; a window without times, or that is no whole number from 0 on.
        GraphError: a weight is negative or infinite.
    """

    def __init__(
        self,
        graph: Graph | ResidentGraph,
        fanouts: Iterable[int],
        *,
        replace: bool = False,
        weighted: bool = False,
        disjoint: bool = False,
        times: arrays.Array | None = None,
        edge_times: arrays.Array | None = None,
        temporal_strategy: str = "uniform",
        time_window: int | None = None,
        seed: int = 0,
        device: torch.device | str | int | None = None,
    ) -> None:
        self.graph = graph_of(graph)
        self.fanouts = check_fanouts(fanouts)
        self._temporal = times is not None or edge_times is not None
        check_rule(replace, weighted, self._temporal, temporal_strategy)
        self._window = window_of(time_window, self._temporal)
        self.replace, self.weighted, self.temporal_strategy = replace, weighted, temporal_strategy
        self.disjoint = arguments.switch("disjoint", disjoint) or self._temporal
        self.seed = integer("seed", seed)
        self._weights = weights_of(self.graph.neighbor_lists) if weighted else NO_WEIGHTS
        # The last: it allocates.
        self._prepared = kept_for(graph, "sampling", None, device, weighted)
        self.device = self._prepared.device
        self._times = vertex_times_on(self.device, times, self.graph.num_vertices, self.graph.original_ids)
        self._edge_times = edge_times_on(self.device, edge_times, self.graph.num_edges)

    def sample(
        self,
        seeds: torch.Tensor | Sequence[int],
        batch: int = 0,
        seed_times: torch.Tensor | Sequence[int] | None = None,
        *,
        stats: dict[str, Any] | None = None,
    ) -> Sample:
        """The sampled neighbourhood of ``seeds``.

        Args:
            seeds: vertices, ``[s]``, any integer type, on any device. A vertex that is given twice is in ``node`` twice
                and draws twice, as in PyG; edges to it name the first.
            batch: the number of the mini-batch: another one draws anew.
            seed_times: int64 ``[s]``, the moment of each seed; None takes its own of ``times``, and is refused where
                only edges have times.
            stats: a dict that is filled with what was sampled and read, and how long it took (docs/sampling.md); the GPU
                is waited for.

        Raises:
            ConfigError: seeds or their times have another type or shape; the graph was prepared and closed; ``stats`` is
                no dict.
            IndexOutOfRange: a seed is no vertex.
            GraphError: a list that was met is broken.
            OutOfMemory: the batch does not fit on the device.
        """
        if stats is None:
            return self.begin(seeds, batch, seed_times).finish()
        return with_stats(
            lambda: self.begin(seeds, batch, seed_times).finish(),
            stats,
            self.device,
            [self.lists],
            lambda sample: Taken(sample.num_sampled_nodes, sample.num_sampled_edges, self.drawn(sample)),
            exact=not (self.weighted or self._temporal),
        )

    def begin(
        self, seeds: torch.Tensor | Sequence[int], batch: int = 0, seed_times: torch.Tensor | Sequence[int] | None = None
    ) -> PendingSample:
        """Begins a :meth:`sample` on the current stream, and does not wait for a GPU where a batch is one launch: meanwhile
        the caller can launch something else. Its ``finish()`` is the sample. Until then seeds and times in pinned memory
        must not be overwritten.

        Raises:
            ConfigError, OutOfMemory: as :meth:`sample`; IndexOutOfRange and GraphError may come from ``finish()`` instead.
        """
        prepared = self._prepared.opened()
        with devices.on(self.device):
            given = numbered_inside(prepared, vertices_on(self.device, "seeds", seeds))
            run = self._run(prepared, given, integer("batch", batch), self._limits(given, seed_times))
            run.begin()
            return PendingSample(run, prepared)

    def captured(self, seeds: torch.Tensor, given: torch.Tensor, envelope: Envelope) -> PaddedSample:
        """A sample of fixed shape, for a CUDA graph: each replay samples anew what ``seeds`` and ``given`` are then. Its draws
        are those of ``sample(seeds[:count], batch)``. On a CPU, where nothing is captured, it samples at once.

        The sampler and all tensors must live as long as the graph is replayed. A replay with more vertices or edges than
        the envelope has is told by ``ends``, and what it found is not to be used; what is wrong with its seeds or lists is
        raised by a later call (docs/cuda_graphs.md).

        Args:
            seeds: int64 ``[envelope.vertices[0]]`` on the sampler's device.
            given: int64 ``[2]`` there: the number of the batch, and how many of the seeds count.
            envelope: the shape, of as many hops as there are fanouts.

        Raises:
            ConfigError: no graph is captured, ``seeds`` or ``given`` have another type, shape or device, the envelope has
                other hops, or the sampler cannot do so (:meth:`refuses_capture`); the graph was prepared and closed.
            OutOfMemory: the batch does not fit on the device.
        """
        arguments.instance("envelope", envelope, Envelope, "as Envelope.of() gives")
        on_cpu = self.device.type == "cpu"
        if refusal := self.refuses_capture(envelope.vertices[0]):
            raise ConfigError(refusal)
        if not on_cpu and not capturing():
            raise ConfigError("captured() is called while a CUDA graph is captured, and none is; call sample()")
        if len(envelope.edges) != len(self.fanouts):
            raise ConfigError(
                f"the envelope has {len(envelope.edges)} hops, but fanouts are {self.fanouts}; give one of theirs"
            )
        for name, array, size in (("seeds", seeds, envelope.vertices[0]), ("given", given, 2)):
            there = arguments.dense(name, array).device == self.device
            if not there or array.shape != (size,) or array.dtype != torch.int64 or not array.is_contiguous():
                raise ConfigError(
                    f"{name} are {array.dtype} of shape {tuple(array.shape)} on {array.device}; a graph reads int64 of shape "
                    f"({size},) on {self.device}, one behind another"
                )
        prepared = self._prepared.opened()
        with devices.on(self.device):
            fixed = Fixed(given, envelope, prepared.order_for(envelope.vertices[-1]))
            run = self._run(prepared, numbered_inside(prepared, seeds), int(given[0]) if on_cpu else 0, None, fixed)
            run.begin()
            run.finish()
        (vertices,), (relation,) = run.types, run.relations
        row, col, edge = relation.edges[:, : envelope.edges[-1]].unbind()
        return PaddedSample(
            vertices.node[: envelope.vertices[-1]],
            row,
            col,
            edge,
            envelope.num_sampled_nodes,
            envelope.num_sampled_edges,
            ends=run.ends,
        )

    def refuses_capture(self, batch_size: int) -> str | None:
        """Why batches of so many seeds cannot be :meth:`captured`, a sentence; None where they can."""
        what = "samples of fixed shape are of fanouts from 0 on, without times and disjoint subtrees, of lists in memory"
        if self.disjoint:
            return f"{what}: this sampler has {'times' if self._temporal else 'disjoint=True'}"
        if -1 in self.fanouts:
            return f"{what}: fanouts are {self.fanouts}"
        if self.lists.stored:
            return f"{what}: the graph's lie on storage"
        most = bound((batch_size,), (self.graph.num_vertices,), ((0, 0, tuple(self.fanouts)),))
        if most is not None and most.bytes > MOST_AHEAD:
            return (
                f"a batch of {batch_size} seeds with fanouts {self.fanouts} could take {format_bytes(most.bytes)}, and one of "
                f"fixed shape at most {format_bytes(MOST_AHEAD)}; take fewer seeds or smaller fanouts"
            )
        return None

    def _run(
        self, prepared: ResidentGraph, seeds: torch.Tensor, batch: int, limits: torch.Tensor | None, fixed: Fixed | None = None
    ) -> BatchSampler:
        trees = torch.arange(len(seeds), device=self.device) if self.disjoint else None
        vertices = VertexSet(prepared.graph.num_vertices, seeds, trees, self._times)
        relation = Relation(prepared.out, 0, 0, self.fanouts, *self._weights, self._edge_times)
        newest = self.temporal_strategy == "last"
        rule = RULE(seed=self.seed, batch=batch, replace=bool(self.replace), newest=newest, window=self._window)
        return BatchSampler([vertices], [relation], rule, limits, self.device, fixed)

    def _limits(self, seeds: torch.Tensor, seed_times: torch.Tensor | Sequence[int] | None) -> torch.Tensor | None:
        if not self._temporal:
            if seed_times is not None:
                raise ConfigError(UNTIMED)
            return None
        limits = limits_on(self.device, seeds, seed_times, self._times)
        if limits is None:
            raise ConfigError("edges have times, but the seeds have none of their own to compare with them; pass seed_times=")
        return limits

    @property
    def lists(self) -> DeviceGraph:
        """The lists as the device reads them."""
        return self._prepared.opened().out

    def drawn(self, sample: Sample) -> list[Drawn]:
        """What ``sample``, one of this sampler's, drew from the lists: for counting what that read."""
        drew = len(sample.node) - sample.num_sampled_nodes[-1]
        with devices.on(self.device):
            return [Drawn(self.lists, numbered_inside(self._prepared, sample.node[:drew]), sample.edge, sample.col)]

    def over(self, prepared: ResidentGraph) -> NeighborSampler:
        """This sampler, with the same draws, over what ``prepare`` made of its graph.

        Raises:
            ConfigError: it was made of another graph, or for another device.
        """
        arguments.instance("prepared", prepared, ResidentGraph, "as prepare(graph) gives")
        if graph_of(prepared) is not self.graph or prepared.device != self.device:
            raise ConfigError(f"the prepared graph is {prepared.graph!r} on {prepared.device}, not this sampler's, {self!r}")
        other = copy.copy(self)
        other._prepared = prepared
        return other

    def __repr__(self) -> str:
        kind = [name for name in ("replace", "weighted", "disjoint") if getattr(self, name)]
        return f"NeighborSampler({', '.join([str(self.fanouts), *kind])}, seed {self.seed}, on {self.device}; {self.graph!r})"


class PendingSample:
    """A sample that a GPU may still be working on; :meth:`NeighborSampler.begin` gives one."""

    def __init__(self, run: BatchSampler, prepared: ResidentGraph) -> None:
        self._run, self._prepared = run, prepared

    def is_ready(self) -> bool:
        """Whether :meth:`finish` does not have to wait."""
        return self._run.is_ready()

    def finish(self) -> Sample:
        """The sample, once the GPU is done with it. On another stream than that of ``begin()`` it is like any tensor of another
        stream: this must be kept, or the tensors recorded there (``Tensor.record_stream``), until that stream is done. Raises
        IndexOutOfRange, GraphError: as :meth:`NeighborSampler.sample`."""
        run = self._run
        with devices.on(run.device):
            run.finish()
            (vertices,), (relation,) = run.types, run.relations
            order, node = self._prepared.order_for(vertices.known), cut(vertices.node, vertices.known)
            if order is not None:
                at = node.clamp(0, len(order) - 1) if run.replayed else node  # of a bad seed: told at a later call
                node = torch.where(node < 0, node, order[at]) if run.replayed else order[at]
            row, col, edge = cut(relation.edges, relation.count).unbind()
            return Sample(
                node,
                row,
                col,
                edge,
                [len(vertices.seeds), *steps(run.vertex_ends[0])],
                steps(run.edge_ends[0]),
                None if vertices.tree is None else cut(vertices.tree, vertices.known),
            )


def steps(ends: list[int]) -> list[int]:
    """What each hop added."""
    return [after - before for before, after in itertools.pairwise(ends)]


def check_rule(replace: bool, weighted: bool, temporal: bool, strategy: str) -> None:
    """Raises ConfigError where options contradict each other."""
    arguments.switches(replace=replace, weighted=weighted)
    arguments.one_of("temporal_strategy", strategy, STRATEGIES)
    if strategy == "last" and not temporal:
        raise ConfigError("temporal_strategy 'last' takes the newest neighbours and needs times= or edge_times=")
    if strategy == "last" and (replace or weighted):
        which = "replace" if replace else "weighted"
        raise ConfigError(f"temporal_strategy 'last' draws nothing at random; leave out {which}=True")


def window_of(time_window: int | None, temporal: bool) -> int:
    """How long before its seed's time a neighbour's may be, as kernels take it."""
    if time_window is None:
        return _ANY_TIME
    if not temporal:
        raise ConfigError("time_window counts back from the seeds' times and needs times= or edge_times=")
    return arguments.whole_number("time_window", time_window, 0)


def weights_of(lists: NeighborLists) -> tuple[int, float]:
    """How the weights are stored (``WEIGHT_KINDS``), and the largest."""
    kind, spread = lists.weight_type, lists.weight_range
    if kind is None or spread is None:
        raise ConfigError("weighted=True needs a graph with weights, as in Graph(indptr, indices, weights)")
    if kind not in WEIGHT_KINDS:
        names = ", ".join(type_name(dtype) for dtype in WEIGHT_KINDS)
        raise ConfigError(f"weights are {kind}, but sampling takes {names}; convert them, as in weights.float()")
    if spread.least < 0:
        raise GraphError(f"a weight is {spread.least}, but sampling in proportion needs weights from 0 on")
    if spread.most == float("inf"):
        raise GraphError("a weight is inf, but sampling in proportion needs finite ones; replace it")
    return WEIGHT_KINDS[kind], float(spread.most)


def vertex_times_on(
    device: torch.device, times: arrays.Array | None, num_vertices: int, order: torch.Tensor | None
) -> torch.Tensor | None:
    """Times of vertices as ``device`` reads them: a UnifiedTensor where it lies, a tensor copied there."""
    if times is None:
        return None
    there = _times_on(device, "times", times, num_vertices, "vertices")
    return there if order is None else there[order.to(there.device)].to(device)


def edge_times_on(device: torch.device, times: arrays.Array | None, num_edges: int) -> torch.Tensor | None:
    """Times of edges, in the order of the lists, in the same way."""
    return None if times is None else _times_on(device, "edge_times", times, num_edges, "edges")


def _times_on(device: torch.device, name: str, times: arrays.Array, count: int, whose: str) -> torch.Tensor:
    arrays.require_array(name, times)
    if tuple(times.shape) != (count,):
        raise ConfigError(f"{name} have shape {tuple(times.shape)}, but there are {count} {whose}; give one time for each")
    if times.dtype != torch.int64:
        raise ConfigError(f"{name} are {times.dtype}, but must be int64; convert them, as in {name}.long()")
    there = None if isinstance(times, torch.Tensor) else times.tensor_on(device)
    return arrays.tensor_of(times).to(device).contiguous() if there is None else there


def vertices_on(device: torch.device, name: str, vertices: torch.Tensor | Sequence[int]) -> torch.Tensor:
    """``vertices`` as int64 ``[s]`` on ``device``."""
    try:
        given = torch.as_tensor(vertices)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(f"{name} must be a tensor or a list of numbers, not {arguments.repr_of(vertices)}") from None
    if given.layout is not torch.strided or given.is_nested or given.is_meta:
        raise arguments.not_dense(name, given)
    if given.ndim == 1 and given.numel() == 0:
        given = given.long()  # an empty list is one of floats to torch
    if given.ndim != 1 or given.is_floating_point() or given.is_complex() or given.dtype in _NO_INTEGERS:
        raise ConfigError(
            f"{name} have shape {tuple(given.shape)} and type {given.dtype}, but must be integers of one dimension"
        )
    if given.is_cpu and device.type == "cuda":
        require_running(f"{name} on the CPU are not read again", f"give those of {device}")
    # From the CPU the copy is queued, and nobody waits for it.
    return given.to(device, torch.int64, non_blocking=given.is_cpu).contiguous()


def numbered_inside(prepared: ResidentGraph, vertices: torch.Tensor) -> torch.Tensor:
    """The user's ``vertices``, int64 on the prepared device, as a reordered graph numbers them. What is no vertex stays as it
    is, for the kernel to refuse."""
    order, count = prepared.graph.numbering, prepared.graph.num_vertices
    if order is None or not count:
        return vertices
    inside = vertices.clamp(0, count - 1)
    return torch.where(inside == vertices, order.internal_ids_on(prepared.device, len(vertices))[inside], vertices)


def limits_on(
    device: torch.device, seeds: torch.Tensor, seed_times: torch.Tensor | Sequence[int] | None, times: torch.Tensor | None
) -> torch.Tensor | None:
    """The latest time of each seed's subtree; None where neither the seeds nor the vertices have times."""
    if seed_times is not None:
        limits = vertices_on(device, "seed_times", seed_times)
        if len(limits) != len(seeds):
            raise ConfigError(f"{len(limits)} seed_times were given for {len(seeds)} seeds; give one for each")
        return limits
    if times is None:
        return None
    # Seeds that are no vertices are reported by the sampler.
    return times[seeds.clamp(0, len(times) - 1)] if len(times) else torch.zeros_like(seeds)


def integer(name: str, value: int) -> int:
    """``value`` as a signed number of 64 bits, if it is an integer that these hold, with a sign or without."""
    return (arguments.whole_number(name, value, -(2**63), 2**64 - 1) + 2**63) % 2**64 - 2**63
