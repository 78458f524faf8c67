"""The memory of one mini-batch, and its launches: what samplers of homogeneous and of heterogeneous graphs share.

Everything lies on the device that samples. Where the outcome is bounded and its bound is affordable, all hops are one launch
and the counts are read back once. Otherwise (whole lists, or many wide hops) memory is allocated step by step, once the number
of a step's edges is known; the sample is the same.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from .. import _core
from ..graph.device_graph import DeviceGraph, all_through, allocated, array_words
from ..graph.traversal import BLOCK, FORMS, csr_type, on_storage
from ..runtime import devices
from ..runtime.capture import capturing, require_running
from ..runtime.errors import GraphError, HinterlandError, IndexOutOfRange, OutOfMemory
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.params import Params, address, struct
from ..runtime.thresholds import MOST_AHEAD
from ..runtime.units import format_bytes
from ..table.device import reading
from .bound import ENTRY_BYTES, Bound, bound
from .envelope import Envelope
from .replayed import Replayed, in_batch

WEIGHT_KINDS = {getattr(torch, name): kind for name, kind in _core.SAMPLE_WEIGHTS.items() if name != "none"}
NO_WEIGHTS: tuple[int, float] = (_core.SAMPLE_WEIGHTS["none"], 1.0)  # weight_kind and most_weight of a Relation
RULE = struct("sampling::SampleRule")
_PARAMS, _SET, _RELATION = (struct(f"sampling::{name}") for name in ("SampleParams", "VertexSet", "Relation"))
_CONTROL, _TEAM, _FIXED = struct("sampling::BatchControl"), struct("TeamControl"), struct("sampling::FixedShape")
_PLACES = 1 << _core.SAMPLE_PLACE_BITS
_LINE = 16  # words of a cache line
_ARRAYS, _LARGE = 11, 1 << 21  # of a batch and its result, and bytes from which on the allocator may waste some of each
_LITTLE = 128 << 20  # bytes that are allocated without asking how many are free, which takes long: docs/notes/thresholds.md


def _instance(lists: str, compares: bool) -> str:
    return f"sample_kernel<{lists}, {str(compares).lower()}>"


_INSTANCES = tuple(_instance(form, compares) for form in FORMS for compares in (False, True))
KERNELS = KernelFile("sampling/neighbor.cu", _INSTANCES, separate_module=True)


@dataclass
class VertexSet:
    """Vertices of one type: what a sampler knows of them, and those of the batch."""

    num_vertices: int  # of the type
    seeds: torch.Tensor  # int64 [s], on the device
    trees: torch.Tensor | None = None  # int64 [s]: of each seed among those of all types; None where subtrees share vertices
    times: torch.Tensor | None = None  # int64 [num_vertices] as the device reads it
    node: torch.Tensor = field(init=False)
    tree: torch.Tensor | None = field(init=False, default=None)
    entries: torch.Tensor = field(init=False)
    known: int = field(init=False)  # vertices so far, or, ahead of the read-back, the most there can be

    def reserve(self, capacity: int) -> bool:
        """Makes room for ``capacity`` vertices. Returns whether the table is new, and empty."""
        first = not hasattr(self, "node")
        if first:
            self.known = len(self.seeds)
            self.node, self.tree = self.seeds, self.trees
        if first or capacity > len(self.node):
            self.node = _grown(self.node, capacity)
            self.tree = None if self.tree is None else _grown(self.tree, capacity)
        size = 1 << max(2 * capacity - 1, 1).bit_length()
        if not first and size <= self.entries.shape[0]:
            return False
        self.entries = torch.full((size, ENTRY_BYTES // 8), -1, dtype=torch.int64, device=self.seeds.device)
        return True


@dataclass
class Relation:
    """Lists of neighbours of one type for vertices of another, and the edges sampled from them."""

    view: DeviceGraph
    source: int  # the type of those that are listed, by its position among the batch's vertex sets
    target: int  # and of those that have the lists
    fanouts: Sequence[int]  # for each hop how many neighbours a vertex draws; -1 is all
    weight_kind: int  # how weights are stored (SAMPLE_WEIGHTS)
    most_weight: float  # the largest one
    times: torch.Tensor | None = None  # int64 [edges of the lists] as the device reads it
    edges: torch.Tensor = field(init=False)  # [3, capacity]: row, col and edge of a Sample
    count: int = field(init=False, default=0)  # edges so far

    def reserve(self, capacity: int) -> None:
        """Makes room for ``capacity`` edges."""
        if not hasattr(self, "edges"):
            self.edges = torch.empty((3, capacity), dtype=torch.int64, device=self.view.device)
        elif capacity > self.edges.shape[1]:
            self.edges = _grown(self.edges, capacity)

    @property
    def form(self) -> str:
        """The C++ type through which kernels see the lists."""
        family = on_storage() if self.view.stored else None
        return csr_type(self.view.edge_type.itemsize, packed=self.view.lists.is_compressed, family=family)


class Fixed(NamedTuple):
    """What makes a sample one of fixed shape."""

    given: torch.Tensor  # int64 [2] on the device, read when the sample is made: batch, and how many of the seeds count
    envelope: Envelope
    original_ids: torch.Tensor | None  # as the device reads them, of a reordered graph


@functools.lru_cache
def _block(types: int, relations: int, hops: int) -> Any:
    """The class of what a batch keeps in one array of its device; its state is what the CPU reads back."""
    ends = ctypes.c_int64 * (hops + 1)  # of a type's vertices or a relation's edges

    class State(Params):
        __slots__ = ()
        _fields_ = (("control", _CONTROL), ("ends", ends * (types + relations)))

    class Block(Params):
        __slots__ = ()
        _fields_ = (
            # Sent to the device at each launch:
            ("team", _TEAM),
            ("types", _SET * types),
            ("relations", _RELATION * relations),
            # Sent with the first launch:
            ("state", State),
            ("fanouts", ctypes.c_int64 * hops * relations),
            ("envelope", ends * 2),  # of vertices and of edges; of samples of fixed shape
            # Never sent:
            ("sums", ctypes.c_int64 * _core.SAMPLE_TILES),
        )

    return Block


class BatchSampler:
    """Samples one mini-batch.

    Args:
        types: the vertex sets, each with its seeds.
        relations: in the order in which a hop goes through them.
        rule: how vertices draw, a ``RULE``.
        limits: int64 ``[seeds of all types]``, the latest time of each subtree's vertices; None without times.
        device: where to sample, and where everything lies.
        fixed: for a sample of fixed shape, of one type and relation: arrays are then padded up to its envelope.

    After :meth:`finish`, ``vertex_ends[t]`` and ``edge_ends[r]`` hold how many vertices and edges there are after each hop.
    """

    def __init__(
        self,
        types: Sequence[VertexSet],
        relations: Sequence[Relation],
        rule: Params,
        limits: torch.Tensor | None,
        device: torch.device,
        fixed: Fixed | None = None,
    ) -> None:
        self.types, self.relations, self.rule, self.limits, self.device = types, relations, rule, limits, device
        self.fixed = fixed
        self.hops = len(relations[0].fanouts)
        self._block, self._sent = _block(len(types), len(relations), self.hops)(), False
        state = self._block.state
        state.control.bad_seed = state.control.bad_list = _core.SAMPLE_NONE
        for number, t in enumerate(types):
            state.ends[number][0] = len(t.seeds)
        for number, r in enumerate(relations):
            self._block.fanouts[number][:] = r.fanouts
        if fixed is not None:
            self._block.envelope[0][:], self._block.envelope[1][1:] = fixed.envelope.vertices, fixed.envelope.edges
        self._on_cpu = device.type == "cpu"
        if self._on_cpu:  # which reads and writes the block where it is
            self._memory = torch.frombuffer(self._block, dtype=torch.uint8)
        else:
            self._memory = torch.empty(ctypes.sizeof(self._block), dtype=torch.uint8, device=device)
        at = type(self._block).state
        self._state = self._memory[at.offset : at.offset + at.size]
        self._choice: torch.Tensor | None = None  # what choosing needs in a step, one after another
        self._chosen: dict[str, int] = {}  # where each is, by its name in SampleParams
        self._found: torch.Tensor | None = None
        self._counts: _Counts | None = None
        self._disjoint = types[0].trees is not None
        self.replayed = not self._on_cpu and capturing()
        if self.replayed:  # of the types what sentences need, and no tensor
            sizes, sources = [t.num_vertices for t in types], [r.source for r in relations]
            batch = rule.batch if fixed is None else None
            self._wrong = Replayed(device, batch, 2, lambda *bad: _wrong(sizes, sources, *bad))
        self._compares = any(
            r.weight_kind != NO_WEIGHTS[0] or r.times is not None or types[r.source].times is not None for r in relations
        )

    def begin(self) -> None:
        """Samples, but does not wait for the counts where all hops are one launch. Raises IndexOutOfRange, GraphError: as
        :meth:`finish`, where there are several launches; OutOfMemory: the batch does not fit on the device."""
        seeds = tuple(len(t.seeds) for t in self.types)
        trees = sum(seeds) if self._disjoint else 1
        limits = tuple(t.num_vertices * trees for t in self.types)
        most = bound(seeds, limits, tuple((r.source, r.target, tuple(r.fanouts)) for r in self.relations))
        if most is not None and self.fixed is not None:
            most = most.holding(self.fixed.envelope.vertices[-1], self.fixed.envelope.edges[-1])
        try:
            if most is not None and self._affords(most.bytes):
                self._run_at_once(most)
            else:
                require_running("whole lists, and batches of more than 1 GiB, are not sampled", "draw fewer neighbours")
                self._run_by_step(trees)
        except torch.OutOfMemoryError as error:
            raise OutOfMemory(
                f"a batch of {sum(seeds)} seeds does not fit on {self.device}, where "
                f"{format_bytes(devices.free_bytes(self.device))} are free; take fewer seeds or smaller fanouts"
            ) from error

    def is_ready(self) -> bool:
        """Whether :meth:`finish` does not have to wait."""
        return self._counts is None or self._counts.are_there()

    def finish(self) -> None:
        """Waits for the counts, if they have not been read. Raises IndexOutOfRange: a seed is no vertex; GraphError: a list
        that the sample met is broken."""
        if self.replayed:
            if self.fixed is None:
                self._pad()
        elif self._counts is not None:
            self._take(self._counts.read())

    def _affords(self, size: int) -> bool:
        if size <= _LITTLE or size > MOST_AHEAD or self._on_cpu or self.replayed:
            return size <= MOST_AHEAD
        return 2 * size <= devices.free_bytes(self.device)

    def _run_at_once(self, most: Bound) -> None:
        for vertices, capacity in zip(self.types, most.vertices, strict=True):
            vertices.reserve(capacity)
        for relation, capacity in zip(self.relations, most.edges, strict=True):
            relation.reserve(capacity)
        self._reserve_choice(most.frontier, most.picks)
        self._reserve_found(most.step_edges)
        forms = [r.form for r in self.relations]
        halves = range(1 + 2 * self.hops * len(self.relations))
        if len(set(forms)) == 1:
            self._launch(0, len(halves), most.step_edges)
        else:  # a launch for those that follow each other and are alike
            for _, alike in itertools.groupby(halves, lambda half: forms[self._number(half)]):
                first, *others = alike
                self._launch(first, first + 1 + len(others), most.step_edges)
        if not self.replayed:
            self._counts = _Counts(self._state)

    def _number(self, half: int) -> int:
        """The relation of a half of a step; the first one for what comes before."""
        return max(half - 1, 0) // 2 % len(self.relations)

    def _run_by_step(self, trees: int) -> None:
        for vertices in self.types:
            vertices.reserve(len(vertices.seeds))
        frontiers = [len(t.seeds) for t in self.types]
        seeds = sum(frontiers)
        for relation in self.relations:
            relation.reserve(0)
        self._launch(0, 1, seeds)
        for hop in range(self.hops):
            found = [0] * len(self.types)
            for number, relation in enumerate(self.relations):
                half = 1 + 2 * (hop * len(self.relations) + number)
                size, fanout = frontiers[relation.target], relation.fanouts[hop]
                self._reserve_choice(size, size * max(fanout, 0))
                self._launch(half, half + 1, size * max(fanout, 1))
                edges = self._read()
                # Each vertex draws once a hop and tree, but a seed may be given several times.
                lists = seeds if hop == 0 or self._disjoint else 1
                if fanout < 0 and edges > lists * relation.view.lists.num_edges:
                    raise GraphError(
                        f"lists of {edges} neighbours were met, but there are {relation.view.lists.num_edges} edges: the "
                        "offsets do not lie in order; check the file they came from"
                    )
                relation.reserve(relation.count + edges)
                source = self.types[relation.source]
                new = min(edges, trees * source.num_vertices)
                if source.reserve(source.known + new):
                    self._launch(0, 1, source.known, entering=relation.source)
                self._reserve_found(edges)
                self._launch(half + 1, half + 2, edges)
                found[relation.source] += new
            frontiers = found  # at most
        self._read()

    def _reserve_choice(self, frontier: int, picks: int) -> None:
        frontier, picks = -(-frontier // _LINE) * _LINE, -(-picks // _LINE) * _LINE
        size = 3 * frontier + (2 if self._compares else 1) * picks
        if self._choice is None or size > self._choice.shape[0]:
            self._choice = self._array(size)
        begins = self._choice.data_ptr()
        degrees, firsts, picked = (begins + 8 * frontier * before for before in (1, 2, 3))
        self._chosen = {"begins": begins, "degrees": degrees, "firsts": firsts, "picks": picked, "keys": picked + 8 * picks}

    def _reserve_found(self, edges: int) -> None:
        if self._found is None or edges > len(self._found):
            self._found = self._array(edges)

    def _launch(self, first: int, end: int, work: int, entering: int | None = None) -> None:
        """Halves [first, end) of the steps. ``entering``: the only type whose known vertices are entered."""
        params = self._params(first, end, entering)
        through = all_through(r.view for r in self.relations)
        if self._on_cpu:
            with reading(through):
                return _core.sample_neighbors(params.address)
        size = (type(self._block).state if self._sent else type(self._block).sums).offset
        if self.replayed:
            given = self._wrong.sent(self._block, size)
        else:
            given = torch.frombuffer(self._block, dtype=torch.uint8, count=size)
        self._memory[:size].copy_(given, non_blocking=True)
        self._sent = True
        instance = _instance(self.relations[self._number(first)].form, self._compares)
        # Few edges cannot occupy the whole GPU, and fewer blocks wait for each other in less time. Where the link bounds a
        # sample, few blocks are as fast as all, and leave the GPU to training (docs/notes/training-on-h200.md). All blocks of a
        # launch start together: beside other graphs many would wait until the whole GPU is free.
        grid = min(resident_blocks(KERNELS, instance, self.device, BLOCK), 1 + work // BLOCK)
        if self.replayed or any(r.view.over_link for r in self.relations):
            grid = min(grid, devices.quarter(self.device))
        with reading(through):
            launch(KERNELS, instance, self.device, grid, BLOCK, params, cooperative=True)

    def _params(self, first: int, end: int, entering: int | None) -> Params:
        """Those of a launch, whose block is filled in."""
        block, parts, base = self._block, type(self._block), self._memory.data_ptr()
        state, of_state = base + parts.state.offset, type(block.state)
        ends = itertools.count(state + of_state.ends.offset, 8 * (self.hops + 1))
        fanouts = itertools.count(base + parts.fanouts.offset, 8 * self.hops)
        for number, t in enumerate(self.types):
            block.types[number] = _SET(
                num_vertices=t.num_vertices,
                node=address(t.node),
                tree=address(t.tree),
                ends=next(ends),
                entries=address(t.entries),
                table_size=t.entries.shape[0],
                num_known=t.known if entering in (None, number) else 0,
                times=address(t.times),
            )
        for number, r in enumerate(self.relations):
            edges, stride = r.edges.data_ptr(), 8 * r.edges.shape[1]
            block.relations[number] = _RELATION(
                lists=r.view.words,
                source=r.source,
                target=r.target,
                fanouts=next(fanouts),
                ends=next(ends),
                row=edges,
                col=edges + stride,
                edge=edges + 2 * stride,
                weights=r.weight_kind,
                most_weight=r.most_weight,
                times=array_words(r.times),
            )
        return _PARAMS(
            first=first,
            end=end,
            rule=self.rule,
            num_types=len(self.types),
            num_relations=len(self.relations),
            types=base + parts.types.offset,
            relations=base + parts.relations.offset,
            control=state + of_state.control.offset,
            team=base + parts.team.offset,
            limits=address(self.limits),
            **self._chosen,
            found=address(self._found),
            sums=base + parts.sums.offset,
            fixed=self._fixed_shape(base + parts.envelope.offset),
        )

    def _fixed_shape(self, envelope: int) -> Params:
        if self.fixed is None:
            return _FIXED()
        return _FIXED(
            given=address(self.fixed.given),
            hops=self.hops,
            vertices=envelope,
            edges=envelope + 8 * (self.hops + 1),
            original_ids=address(self.fixed.original_ids),
            **(self._wrong.words if self.replayed else {}),
        )

    def _read(self) -> int:
        """Waits for what was launched, and takes the counts. Returns the edges of the step under way. Raises IndexOutOfRange,
        GraphError: as :meth:`finish`."""
        return self._take(self._state)

    def _take(self, counts: torch.Tensor) -> int:
        state = self._block.state if self._on_cpu else type(self._block.state).read(counts)
        self._check(state.control.bad_seed, state.control.bad_list)
        ends = [of_one[:] for of_one in state.ends]
        self.vertex_ends, self.edge_ends = ends[: len(self.types)], ends[len(self.types) :]
        for t, at in zip(self.types, self.vertex_ends, strict=True):
            t.known = max(at)
        for r, at in zip(self.relations, self.edge_ends, strict=True):
            r.count = max(at)
        return int(state.control.num_edges)

    @property
    def ends(self) -> torch.Tensor:
        """Vertices of each type, then edges of each relation, before each hop and after the last: int64 ``[types + relations,
        hops + 1]`` on the device."""
        return self._state.view(torch.int64)[type(self._block.state).ends.offset // 8 :].view(-1, self.hops + 1)

    def _pad(self) -> None:
        """Puts -1 behind what a replay samples, and leaves the counts where they are: nobody knows them now."""
        self._wrong.note(self._state.view(torch.int64))
        ends = self.ends
        arrays = [[t.node] if t.tree is None else [t.node, t.tree] for t in self.types] + [[r.edges] for r in self.relations]
        for of_one, end in zip(arrays, ends.amax(1), strict=True):
            for array in of_one:
                array.masked_fill_(torch.arange(array.shape[-1], device=self.device) >= end, -1)
        counts = [list(of_one) for of_one in ends]
        self.vertex_ends, self.edge_ends = counts[: len(self.types)], counts[len(self.types) :]
        for t in self.types:
            t.known = len(t.node)
        for r in self.relations:
            r.count = r.edges.shape[1]

    def _check(self, bad_seed: int, bad_list: int) -> None:
        sizes, sources = [t.num_vertices for t in self.types], [r.source for r in self.relations]
        seeds = [t.seeds for t in self.types]
        if error := _wrong(sizes, sources, bad_seed, bad_list, seeds):
            raise in_batch(error, self.rule.batch)

    def _array(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int64, device=self.device)


def _wrong(
    sizes: list[int], sources: list[int], bad_seed: int, bad_list: int, seeds: list[torch.Tensor] | None = None
) -> HinterlandError | None:
    """The sentence for what a batch met, of types of so many vertices and relations with these sources; without ``seeds`` of a
    batch whose seeds may not be there any more."""
    if bad_seed != _core.SAMPLE_NONE:
        at, number = bad_seed % _PLACES, bad_seed // _PLACES
        named = "the seed" if seeds is None else f"seed {int(seeds[number][at])}"
        return IndexOutOfRange(f"{named} at position {at} is no vertex: there are {sizes[number]}, numbered from 0")
    if bad_list != _core.SAMPLE_NONE:
        return GraphError(
            f"the neighbour list of vertex {bad_list % _PLACES} is broken: its offsets do not lie in order, or it "
            f"names a vertex outside [0, {sizes[sources[bad_list // _PLACES]]}); check the file it came from"
        )
    return None


class _Counts:
    """What a launch will have counted, on its way to the CPU."""

    def __init__(self, state: torch.Tensor) -> None:
        self._here = state.to("cpu", non_blocking=True)  # torch pins what it does not wait for
        self._copied: torch.cuda.Event | None = None
        if state.is_cuda:
            self._copied = torch.cuda.Event()
            self._copied.record()

    def are_there(self) -> bool:
        return self._copied is None or self._copied.query()

    def read(self) -> torch.Tensor:
        if self._copied is not None:
            self._copied.synchronize()
        return self._here


def state_bytes(num_vertices: int, seeds: int, fanouts: Sequence[int]) -> int:
    """GPU memory of one batch of a homogeneous graph at most, its result included."""
    most = bound((seeds,), (num_vertices,), ((0, 0, tuple(fanouts)),))
    assert most is not None
    copied = 8 * sum(most.vertices) + 12 * sum(most.edges)  # half of the arrays at most: see cut()
    return most.bytes + copied + _ARRAYS * (allocated(_LARGE) - _LARGE)


def cut(array: torch.Tensor, size: int) -> torch.Tensor:
    """The first ``size`` elements of each row; a copy where the array is much larger, so that it can be released."""
    part = array[..., :size]
    return part if 2 * size >= array.shape[-1] else part.clone()


def _grown(array: torch.Tensor, capacity: int) -> torch.Tensor:
    grown = torch.empty((*array.shape[:-1], capacity), dtype=array.dtype, device=array.device)
    grown[..., : array.shape[-1]] = array
    return grown
