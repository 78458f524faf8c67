"""The memory of one mini-batch, and its launches: what samplers of homogeneous and of heterogeneous graphs share.

Everything lies on the device that samples. Where the outcome is bounded and its bound is affordable, all hops are one launch
and the counts are read back once. Otherwise (whole lists, or many wide hops) memory is allocated step by step, once the number
of a step's edges is known; the sample is the same.
"""

from __future__ import annotations

import functools
import itertools
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from .. import _core
from ..graph.traversal import BLOCK, csr_type
from ..graph.view import View, allocated
from ..runtime import devices
from ..runtime.errors import GraphError, IndexOutOfRange, OutOfMemory
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.units import format_bytes

WEIGHT_KINDS = {torch.uint8: 0, torch.int32: 1, torch.int64: 2, torch.float32: 3, torch.float64: 4}  # SampleWeights::Kind
_NONE = 2**63 - 1  # BatchControl::kNone
_PLACE_BITS = 48  # Draws::kPlaceBits
_TEAM_WORDS, _BATCH_WORDS, _SET_WORDS, _RELATION_WORDS = 32, 17, 8, 11  # TeamControl, BatchWords, VertexSet, Relation
_LINE = 16  # words of a cache line
_ENTRY_BYTES = 16  # of NumberEntry
_MOST_AHEAD = 1 << 30  # bytes that are allocated for any outcome; with more it pays to wait for what is needed
_ARRAYS, _LARGE = 11, 1 << 21  # of a batch and its result, and bytes from which on the allocator may waste some of each
_LITTLE = 128 << 20  # bytes that are allocated without asking how many are free, which takes long on some GPUs


def _instance(lists: str, compares: bool) -> str:
    return f"sample_kernel<{lists}, {str(compares).lower()}>"


_FORMS = tuple(csr_type(edge, packed=packed) for edge in (4, 8) for packed in (False, True))
_INSTANCES = tuple(_instance(form, compares) for form in _FORMS for compares in (False, True))
KERNELS = KernelFile("sampling/neighbor.cu", _INSTANCES, apart=True)


class Rule(NamedTuple):
    """How vertices draw from their lists."""

    replace: bool
    newest: bool
    disjoint: bool
    seed: int
    batch: int


@dataclass
class VertexSet:
    """Vertices of one type: what a sampler knows of them, and those of the batch.

    Attributes:
        num_vertices: of the type.
        seeds: int64 ``[s]``, on the device.
        trees: int64 ``[s]``: the number of each seed among those of all types; None where subtrees share vertices.
        times: int64 ``[num_vertices]`` as the device reads it, or None.
    """

    num_vertices: int
    seeds: torch.Tensor
    trees: torch.Tensor | None = None
    times: torch.Tensor | None = None
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
        if not first and size * 2 <= self.entries.numel():
            return False
        self.entries = torch.full((2 * size,), -1, dtype=torch.int64, device=self.seeds.device)
        return True


@dataclass
class Relation:
    """Lists of neighbours of one type for vertices of another, and the edges sampled from them.

    Attributes:
        view: the lists as the device reads them.
        source, target: the types, by position among the batch's vertex sets: whose vertices are listed, and who has the lists.
        fanouts: for each hop how many neighbours a vertex draws; -1 is all.
        weight_kind, most_weight: how weights are stored, -1 to ignore them, and the largest one.
        times: int64 ``[edges of the lists]`` as the device reads it, or None.
    """

    view: View
    source: int
    target: int
    fanouts: Sequence[int]
    weight_kind: int = -1
    most_weight: float = 1.0
    times: torch.Tensor | None = None
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
        return csr_type(self.view.edge_type.itemsize, packed=self.view.lists.is_compressed)


class Bound(NamedTuple):
    """The most that a batch can come to: vertices of each type, edges of each relation, and of any one step the frontier,
    its picks and its edges."""

    vertices: tuple[int, ...]
    edges: tuple[int, ...]
    frontier: int
    picks: int
    step_edges: int

    @property
    def bytes(self) -> int:
        """What arrays of these sizes take together."""
        tables = sum(_ENTRY_BYTES << max(2 * n - 1, 1).bit_length() for n in self.vertices)
        arrays = 16 * sum(self.vertices) + 24 * sum(self.edges)
        return tables + arrays + 24 * self.frontier + 16 * self.picks + 8 * self.step_edges


@functools.lru_cache
def bound(
    seeds: tuple[int, ...], limits: tuple[int, ...], relations: tuple[tuple[int, int, tuple[int, ...]], ...]
) -> Bound | None:
    """The most that a batch can come to, or None where a step takes whole lists.

    Args:
        seeds: seeds of each type.
        limits: vertices of each type that can be found besides them.
        relations: of each (source, target, fanouts).
    """
    frontier, vertices = list(seeds), list(seeds)
    edges = [0] * len(relations)
    most = [0, 0, 0]
    for hop in range(len(relations[0][2])):
        found = [0] * len(seeds)
        for number, (source, target, fanouts) in enumerate(relations):
            if fanouts[hop] < 0:
                return None
            picks = frontier[target] * fanouts[hop]
            edges[number] += picks
            found[source] += picks
            most = [max(pair) for pair in zip(most, (frontier[target], picks, picks), strict=True)]
        frontier = [min(pair) for pair in zip(found, limits, strict=True)]
        vertices = [n + new for n, new in zip(vertices, frontier, strict=True)]
    vertices = [min(n, given + limit) for n, given, limit in zip(vertices, seeds, limits, strict=True)]
    return Bound(tuple(vertices), tuple(edges), *most)


class Batch:
    """Samples one mini-batch.

    Args:
        types: the vertex sets, each with its seeds.
        relations: in the order in which a hop goes through them.
        rule: how vertices draw.
        limits: int64 ``[seeds of all types]``, the latest time of each subtree's vertices; None without times.
        device: where to sample, and where everything lies.

    After :meth:`finish`, ``vertex_ends[t]`` and ``edge_ends[r]`` hold how many vertices and edges there are after each hop.
    """

    def __init__(
        self,
        types: Sequence[VertexSet],
        relations: Sequence[Relation],
        rule: Rule,
        limits: torch.Tensor | None,
        device: torch.device,
    ) -> None:
        self.types, self.relations, self.rule, self.limits, self.device = types, relations, rule, limits, device
        self.hops = len(relations[0].fanouts)
        # What the kernel writes and the CPU reads back: control, the ends of types and relations, the fanouts.
        start = [_NONE, _NONE, 0, 0]
        self._ends: list[int] = []
        for counts in ([len(t.seeds) for t in types], [0] * len(relations)):
            for count in counts:
                self._ends.append(len(start))
                start += [count] + [0] * self.hops
        self._fanouts = [len(start) + number * self.hops for number in range(len(relations))]
        for relation in relations:
            start += relation.fanouts
        # One array: the words that kernels read, this state (the first launch sends both in one copy), and the sums.
        told = _TEAM_WORDS + _BATCH_WORDS + _SET_WORDS * len(types) + _RELATION_WORDS * len(relations)
        self._memory = self._array(told + len(start) + _core.SAMPLE_TILES)
        self._state, self._unsent = self._memory[told : told + len(start)], start
        self._choice: torch.Tensor | None = None  # begins, degrees, firsts, picks and keys of a step, one after another
        self._offsets = [0] * 5  # of these, in words
        self._found: torch.Tensor | None = None
        self._counts: _Counts | None = None
        self._compares = any(r.weight_kind >= 0 or r.times is not None or types[r.source].times is not None for r in relations)

    def begin(self) -> None:
        """Samples, but does not wait for the counts where all hops are one launch.

        Raises:
            IndexOutOfRange, GraphError: as :meth:`finish`, where there are several launches.
            OutOfMemory: the batch does not fit on the device.
        """
        seeds = tuple(len(t.seeds) for t in self.types)
        trees = sum(seeds) if self.rule.disjoint else 1
        limits = tuple(t.num_vertices * trees for t in self.types)
        most = bound(seeds, limits, tuple((r.source, r.target, tuple(r.fanouts)) for r in self.relations))
        try:
            if most is not None and self._affords(most.bytes):
                self._run_at_once(most)
            else:
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
        """Waits for the counts, if they have not been read.

        Raises:
            IndexOutOfRange: a seed is no vertex.
            GraphError: a list that the sample met is broken.
        """
        if self._counts is not None:
            self._take(self._counts.read())

    def _affords(self, size: int) -> bool:
        if size <= _LITTLE or size > _MOST_AHEAD or self.device.type == "cpu":
            return size <= _MOST_AHEAD
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
        for _, alike in itertools.groupby(halves, lambda half: forms[self._number(half)]):  # one launch, if all are alike
            first, *others = alike
            self._launch(first, first + 1 + len(others), most.step_edges)
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
                lists = seeds if hop == 0 or self.rule.disjoint else 1
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
        sizes = (frontier, frontier, frontier, picks, picks if self._compares else 0)
        *self._offsets, size = itertools.accumulate((-(-size // _LINE) * _LINE for size in sizes), initial=0)
        if self._choice is None or size > len(self._choice):
            self._choice = self._array(size)

    def _reserve_found(self, edges: int) -> None:
        if self._found is None or edges > len(self._found):
            self._found = self._array(edges)

    def _launch(self, first: int, end: int, work: int, entering: int | None = None) -> None:
        """Halves [first, end) of the steps. ``entering``: the only type whose known vertices are entered."""
        words = self._words(entering) + self._unsent
        self._unsent = []
        self._memory[: len(words)].copy_(torch.frombuffer(array("q", words), dtype=torch.int64), non_blocking=True)
        base = self._memory.data_ptr()
        if self.device.type == "cpu":
            _core.sample_neighbors(base + 8 * _TEAM_WORDS, base, first, end)
            return
        instance = _instance(self.relations[self._number(first)].form, self._compares)
        # Few edges cannot occupy the whole GPU, and fewer blocks wait for each other in less time. Where the link bounds a
        # sample, few blocks are as fast as all, and leave the GPU to training (docs/notes/training-on-h200.md).
        grid = min(resident_blocks(KERNELS, instance, self.device, BLOCK), 1 + work // BLOCK)
        if any(r.view.over_link for r in self.relations):
            grid = min(grid, devices.quarter(self.device))
        launch(KERNELS, instance, self.device, grid, BLOCK, base + 8 * _TEAM_WORDS, base, first, end, cooperative=True)

    def _words(self, entering: int | None) -> list[int]:
        """TeamControl, BatchWords, then the types and the relations."""
        state, choice = self._state.data_ptr(), _address(self._choice)
        ends = [state + 8 * at for at in self._ends]
        types: list[int] = []
        for number, t in enumerate(self.types):
            arrays = (_address(t.node), _address(t.tree), ends[number], _address(t.entries))
            known = t.known if entering in (None, number) else 0
            types += [t.num_vertices, *arrays, t.entries.numel() // 2, known, _address(t.times)]
        relations: list[int] = []
        for number, r in enumerate(self.relations):
            relations += [r.view.words, r.source, r.target, state + 8 * self._fanouts[number], ends[len(self.types) + number]]
            relations += [r.edges.data_ptr() + 8 * r.edges.shape[1] * row for row in range(3)]
            relations += [r.weight_kind, _bits(r.most_weight), _address(r.times)]
        at = self._memory.data_ptr() + 8 * (_TEAM_WORDS + _BATCH_WORDS)
        rule = self.rule
        batch = [rule.seed, rule.batch, rule.replace, rule.newest, len(self.types), len(self.relations)]
        batch += [at, at + 8 * len(types), state, _address(self.limits), *(choice + 8 * part for part in self._offsets)]
        batch += [_address(self._found), state + 8 * self._state.numel()]
        return [0] * _TEAM_WORDS + batch + types + relations

    def _read(self) -> int:
        """Waits for what was launched, and takes the counts. Returns the edges of the step under way.

        Raises:
            IndexOutOfRange, GraphError: as :meth:`finish`.
        """
        return self._take(self._state.tolist())

    def _take(self, state: list[int]) -> int:
        self._check(*state[:2])
        ends = [state[at : at + self.hops + 1] for at in self._ends]
        self.vertex_ends, self.edge_ends = ends[: len(self.types)], ends[len(self.types) :]
        for t, at in zip(self.types, self.vertex_ends, strict=True):
            t.known = max(at)
        for r, at in zip(self.relations, self.edge_ends, strict=True):
            r.count = max(at)
        return state[2]

    def _check(self, bad_seed: int, bad_list: int) -> None:
        if bad_seed != _NONE:
            at = bad_seed % 2**_PLACE_BITS
            vertices = self.types[bad_seed >> _PLACE_BITS]
            raise IndexOutOfRange(
                f"seed {int(vertices.seeds[at])} at position {at} is no vertex: there are {vertices.num_vertices}, "
                "numbered from 0"
            )
        if bad_list != _NONE:
            relation = self.relations[bad_list >> _PLACE_BITS]
            raise GraphError(
                f"the neighbour list of vertex {bad_list % 2**_PLACE_BITS} is broken: its offsets do not lie in order, or it "
                f"names a vertex outside [0, {self.types[relation.source].num_vertices}); check the file it came from"
            )

    def _array(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int64, device=self.device)


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

    def read(self) -> list[int]:
        if self._copied is not None:
            self._copied.synchronize()
        return self._here.tolist()


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


def _address(array: torch.Tensor | None) -> int:
    return 0 if array is None else array.data_ptr()


def _bits(value: float) -> int:
    """A double's bits as a signed number."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])
