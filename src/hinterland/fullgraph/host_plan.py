"""What lies where while rows go through a GPU in blocks: which rows stay on the GPU between passes, and which in host memory.

The whole computation is known before it begins: which pass reads and writes which rows, and what each holds meanwhile. So its
peak is added up, not guessed, and rows stay on the GPU wherever the peak allows it, those first that would cross most often.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from ..machine import cache
from ..runtime.errors import OutOfMemory
from ..runtime.repr import Repr
from ..runtime.thresholds import HOST_BLOCK_BYTES, HOST_BLOCK_SHARE
from ..runtime.units import format_bytes
from .host_files import AHEAD, disk_rates
from .host_nodes import InputRows, Node, Reduced, RowWise, parameters_of, row_wise, stored
from .host_passes import HostPass, Name
from .partitioned import PartitionedGraph

Key = tuple[Node, str]  # rows between passes: a node's "out", "extra" or "grad"
Life = tuple[int, int, int]  # halves of passes, as Planner.lives has them

_LEAST = 64  # rows of a block
_OWN = 1e12  # bytes a second of its own memory that a GPU goes through, about
_QUEUED = 3e-4  # seconds in which the host queues a block's work (docs/notes/fullgraph-on-h200.md)
_LINK = 55e9  # bytes a second each way, where the machine has not been probed (PCIe 5.0 x16)
_PIECES = 2 / 128  # pieces of long rows for an entry, at most: aggregate_launch.py, attend.py


@dataclass(frozen=True, eq=False)
class PassVisit:
    """A pass of a stage over all rows of a part, and which rows it reads and writes.

    Attributes:
        fills, steps: what blocks bring in its first and second half.
        writes: what is made.
        taken: bytes that functions of rows take of a row in each half, in the second with their gradients.
        parameters: of functions through which gradients go, those that get one.
    """

    stage: Reduced
    run: HostPass
    fills: tuple[Key, ...]
    steps: tuple[Key, ...]
    writes: tuple[Key, ...]
    taken: tuple[int, int]
    parameters: tuple[Tensor, ...]

    @cached_property
    def is_gradient(self) -> bool:
        return bool(self.run.gives) or "grad" in (*self.run.needs, *self.run.fills)

    @cached_property
    def of_row(self) -> tuple[int, int]:
        """Bytes that a row of a block takes in each half: what is brought is there twice, what leaves as often as it waits."""
        (filling, stepping), run = self.taken, self.run
        fill = 2 * sum(map(_size, self.fills)) + filling + run.table
        return fill, 2 * sum(map(_size, self.steps)) + stepping + run.made + 4 * sum(map(_size, self.writes))

    @property
    def keys(self) -> tuple[Key, ...]:
        return (*self.fills, *self.steps, *self.writes)


@dataclass(frozen=True)
class GpuShare:
    """How many of the rows between passes lie on the GPU, the first ones: until nothing needs them (``kept``), and until no
    more sums are made of them (``ahead``, at least as many). Gradients find those from ``kept`` on in host memory."""

    kept: int = 0
    ahead: int = 0


@dataclass(frozen=True)
class InFiles:
    """What lies in files of a folder, and what that costs a step.

    Attributes:
        hosted: of rows between passes, as HostPlan.places, how many lie in host memory, behind those on the GPU and before
            those in files.
        taken: bytes of the disk.
        read, written: bytes.
        rates: bytes a second that the disk reads and writes.
    """

    hosted: dict[tuple[int, str], int]
    taken: int
    read: int
    written: int
    rates: tuple[float, float]

    @property
    def seconds(self) -> float:
        """What reading and writing take at the disk's rates."""
        return self.read / self.rates[0] + self.written / self.rates[1]

    def explain(self) -> str:
        reads, writes = (format_bytes(int(rate)) for rate in self.rates)
        return (
            f"{format_bytes(self.taken)} lie in files; a step reads {format_bytes(self.read)} of files and writes "
            f"{format_bytes(self.written)}, {self.seconds:.3g} s of a disk that reads {reads} and writes {writes} a second"
        )


@dataclass(frozen=True, repr=False, eq=False)
class HostPlan(Repr):
    """Where rows lie, and what that costs a step of the part that has most to do.

    Attributes:
        block: rows that are computed together.
        columns: for each stage, into how many ranges of columns it is divided.
        places: of rows between passes, by the number of their node (first all stages, then what was given) and their name.
        budget, graph, peak: bytes of the GPU's memory: what may be taken, of which the graph takes, and that all takes at most.
        up, down: bytes that cross to the GPU and back.
        seconds: what that takes at the link's rate, both ways at once where a pass has both; of files the disk's beside it.
        in_host: bytes of host memory that rows between passes take, those that were given included.
        in_files: what lies in files, where some may.
    """

    block: int
    columns: tuple[int, ...]
    places: dict[tuple[int, str], GpuShare]
    budget: float
    graph: int
    peak: int
    up: int
    down: int
    seconds: float
    in_host: int
    in_files: InFiles | None

    def hosted(self, number: int, name: str, rest: int) -> int:
        """How many of the ``rest`` rows that are not on the GPU lie in host memory."""
        return rest if self.in_files is None else min(rest, self.in_files.hosted.get((number, name), 0))

    def explain(self) -> str:
        """Where rows lie and what crosses, in words."""
        split = max(self.columns, default=1)
        among = f", columns in {split} ranges" if split > 1 else ""
        seconds = self.seconds - (0 if self.in_files is None else self.in_files.seconds)
        link = f", {1e3 * seconds:.1f} ms of the link" if seconds else ""
        files = "" if self.in_files is None else f"; {self.in_files.explain()}"
        return (
            f"{format_bytes(self.peak)} of the device at most, of which the graph takes {format_bytes(self.graph)}; blocks of "
            f"{self.block:,} rows{among}; {format_bytes(self.in_host)} lie in host memory; {format_bytes(self.up)} go up and "
            f"{format_bytes(self.down)} down a step{link}{files}"
        )

    def _facts(self) -> dict[str, str]:
        return {"plan": self.explain()}


def stages_of(node: Reduced) -> list[Reduced]:
    """All reductions that one depends on, and itself, in an order in which they can be made."""
    found: dict[Reduced, None] = {}

    def add(one: Reduced) -> None:
        for before in stored(one.inputs):
            if isinstance(before, Reduced) and before not in found:
                add(before)
        found[one] = None

    add(node)
    return list(found)


def visits_of(stages: Sequence[Reduced], with_gradient: bool) -> list[PassVisit]:
    """All passes, in their order."""
    samples = {stage: [one.sample for one in stage.inputs] for stage in stages}
    found = [_visit(stage, stage.reduction.forward(samples[stage], stage.sample), with_gradient) for stage in stages]
    if with_gradient:
        for stage in reversed(stages):
            if stage.needs:
                found += [_visit(stage, run, True) for run in stage.reduction.backward(samples[stage], stage.sample)]
    return found


def _visit(stage: Reduced, run: HostPass, with_gradient: bool) -> PassVisit:
    computed = [stage.inputs[j] for j in run.gives if stage.inputs[j].needs]
    through = [one for one in computed if not isinstance(one, InputRows | Reduced)]
    grads: list[Key] = [(one, "grad") for one in stored(computed) if one.needs]
    results = grads
    if not run.gives and "grad" not in run.needs:
        results = [(stage, "out")]
        if with_gradient and stage.reduction.extra(stage.sample) is not None:
            results.append((stage, "extra"))
    steps = dict.fromkeys((*_keys(stage, run.needs), *((one, "out") for one in stored(through)), *grads))
    filled, needed = (row_wise(stage.inputs[j] for j in names if isinstance(j, int)) for names in (run.fills, run.needs))
    stepped = list(dict.fromkeys([*needed, *row_wise(through)]))
    filling, stepping = (sum(one.taken for one in half) + _passing(half) for half in (filled, stepped))
    if through:  # gradients are there for the function that they go through, and what it gives them to
        held = sum(one.taken for one in stepped)
        stepping = max(stepping + _passing(stepped), min(3 * held, held + 3 * max((one.taken for one in stepped), default=0)))
    owned = tuple(one for one in parameters_of(through) if one.requires_grad)
    return PassVisit(stage, run, _keys(stage, run.fills), tuple(steps), tuple(results), (filling, stepping), owned)


def _passing(functions: Iterable[RowWise]) -> int:
    """Bytes of a row that one function after another takes while it is computed."""
    return max((one.passing for one in functions), default=0)


def _keys(stage: Reduced, names: Iterable[Name]) -> tuple[Key, ...]:
    found: dict[Key, None] = {}
    for name in names:
        if isinstance(name, int):
            found.update({(one, "out"): None for one in stored([stage.inputs[name]])})
        else:
            found[stage, name] = None
    return tuple(found)


def key_form(key: Key) -> tuple[int, torch.dtype]:
    """Width and type of rows between passes."""
    node, name = key
    if name == "extra":
        assert isinstance(node, Reduced)
        form = node.reduction.extra(node.sample)
        assert form is not None
        return form
    return node.sample.shape[1], node.sample.dtype


def _size(key: Key) -> int:
    width, dtype = key_form(key)
    return width * dtype.itemsize


class Planner:
    """Adds up what a computation holds in each half of each pass: while tables are filled, and while results are made.

    Args:
        numbers: of all nodes that have rows between passes.
        always: rows that lie on the GPU whatever the plan: what was given there, and what is asked for there.
        fixed: these, and such as lie in host memory or files whatever the plan.
        filed: of these, such as lie in files.
    """

    def __init__(
        self,
        p: PartitionedGraph,
        visits: Sequence[PassVisit],
        numbers: dict[Node, int],
        always: set[Key],
        fixed: set[Key],
        filed: set[Key],
    ) -> None:
        self.visits, self.numbers, self.always, self.fixed, self.filed = visits, numbers, always, fixed, filed
        self.host_room = math.inf if p.files is None else p.files.host_budget / len(p.parts)
        self.rates = None if p.files is None else disk_rates(p.files.folder)
        self.stages_blocks = p.files is not None and p.world.devices[0].type == "cuda"
        turns = p.directed and any(one.run.turned and one.run.fills for one in visits)
        self.graphs = [p, p.transposed] if turns else [p]
        self.rows = max(part.rows for part in p.parts)
        self.halo = max(len(part.halo) for graph in self.graphs for part in graph.parts)
        self.graph = sum(map(_graph_bytes, self.graphs))
        self.sizes = {key: _size(key) for visit in visits for key in visit.keys}
        self._lives: dict[frozenset[Reduced], dict[Key, Life]] = {}

    def plan(self, budget: float) -> HostPlan:
        """The plan for the length of blocks with which the link, the host that queues their work and the GPU have least to do:
        long ones are few, but leave less room for rows between passes, and for tables of all columns.

        Raises:
            OutOfMemory: even with all rows between passes in host memory there is not enough.
        """
        room = budget - self.graph
        found = list(self._plans(budget, room))
        if not found:
            _, usage = self._divided(_LEAST, room)
            if max(usage) <= room:
                raise OutOfMemory(
                    f"{format_bytes(max(self._staged(_LEAST)))} of host memory are needed at least for blocks of rows, and "
                    f"{format_bytes(int(self.host_room))} may be taken for each part; raise host_budget"
                )
            bound = "gpu_budget" if self.host_room else "host_budget"
            raise OutOfMemory(
                f"{format_bytes(int(max(usage) + self.graph))} are needed at least, of which the graph takes "
                f"{format_bytes(self.graph)}, and {format_bytes(int(budget))} may be taken; raise {bound}, or use more devices"
            )
        return min(found, key=lambda one: one[0].seconds + one[1])[0]

    def _plans(self, budget: float, room: float) -> Iterator[tuple[HostPlan, float]]:
        """Plans with blocks of each length for which there is room, and how long the host and the GPU take, about."""
        alone = {key: GpuShare(self.rows, self.rows) for key in self.always}
        for block in self._lengths(room):
            columns, usage = self._divided(block, room)
            if max(usage) > room or max(self._staged(block)) > self.host_room:
                return
            places = self._placed(columns, block, alone, room)
            halves = sum(columns[visit.stage] * (1 + bool(visit.run.fills)) for visit in self.visits)
            touched = sum(columns[visit.stage] * sum(visit.of_row) for visit in self.visits) * self.rows
            yield self._costs(columns, block, places, budget), _QUEUED * halves * -(-self.rows // block) + touched / _OWN

    def _divided(self, block: int, room: float) -> tuple[dict[Reduced, int], list[float]]:
        """Into how many ranges of columns each stage is divided so that it fits, if it can, and the bytes of each half then."""
        columns, alone = {visit.stage: 1 for visit in self.visits}, {key: GpuShare(self.rows, self.rows) for key in self.always}
        for i, visit in enumerate(self.visits):
            while visit.run.splits and columns[visit.stage] < visit.stage.sample.shape[1]:
                if max(self._halves(i, columns, block, alone)) <= room:
                    break
                columns[visit.stage] += 1
        return columns, self._usage(columns, block, alone)

    def form(self) -> tuple[Any, ...]:
        """All that a plan depends on besides the budget."""

        def named(keys: Iterable[Key]) -> tuple[Any, ...]:
            return tuple((self.numbers[node], name, key_form((node, name))) for node, name in keys)

        visits = []
        for one in self.visits:
            run = one.run
            sizes = (run.table, run.kept, run.made, run.splits, one.taken, one.is_gradient, run.turned)
            visits.append((self.numbers[one.stage], sizes, named(one.fills), named(one.steps), named(one.writes)))
        fixed = tuple(sorted((self.numbers[node], name, (node, name) in self.always) for node, name in self.fixed))
        return (*visits, fixed)

    def lives(self, columns: dict[Reduced, int]) -> dict[Key, Life]:
        """Of rows between passes the first half in which they are there, the last, and the last in which a sum needs them."""
        divided = frozenset(stage for stage, count in columns.items() if count > 1)
        if divided not in self._lives:
            self._lives[divided] = self._lived(columns)
        return self._lives[divided]

    def _lived(self, columns: dict[Reduced, int]) -> dict[Key, Life]:
        found: dict[Key, Life] = {}
        for i, visit in enumerate(self.visits):
            halves = [(key, 2 * i + (columns[visit.stage] > 1)) for key in visit.fills]
            for key, half in (*halves, *((key, 2 * i + 1) for key in (*visit.steps, *visit.writes))):
                first, _, ahead = found.get(key, (2 * i if key in visit.fills else 2 * i + 1, 0, 0))
                found[key] = (first, half, ahead if visit.is_gradient else half)
        sums = sum(not visit.is_gradient for visit in self.visits)
        for key in self.fixed & set(found):  # the caller's, who has them to the end, and gradients before we are given them
            first, _, ahead = found[key]
            found[key] = (min(first, 2 * sums - 1), 2 * len(self.visits) - 1, ahead)
        return found

    def _usage(self, columns: dict[Reduced, int], block: int, places: dict[Key, GpuShare]) -> list[float]:
        """Bytes in each half."""
        return [used for i in range(len(self.visits)) for used in self._halves(i, columns, block, places)]

    def _halves(self, i: int, columns: dict[Reduced, int], block: int, places: dict[Key, GpuShare]) -> list[float]:
        """Bytes in the two halves of the i-th pass."""
        lives, held = self.lives(columns), self._held(self.visits[i], columns[self.visits[i].stage], block)
        for key, place in places.items():
            if key in lives:
                held = [used + self._there(key, lives[key], place, half) for half, used in enumerate(held, 2 * i)]
        return held

    def _there(self, key: Key, life: Life, place: GpuShare, half: int) -> int:
        """Bytes that rows between passes take of the GPU in a half."""
        first, last, ahead = life
        if not first <= half <= last:
            return 0
        return self.sizes[key] * (max(place.ahead, place.kept) if half <= ahead else place.kept)

    def _placed(self, columns: dict[Reduced, int], block: int, places: dict[Key, GpuShare], room: float) -> dict[Key, GpuShare]:
        """As many rows on the GPU as there is room for; those first that cross most often for as long as they are there."""
        lives, found, crossings = self.lives(columns), dict(places), self._crossings(columns)
        slack = [room - used for used in self._usage(columns, block, places)]
        wanted = []
        for key, (first, last, ahead) in lives.items():
            if key in self.fixed:
                continue
            ups, backs = crossings[key, False], crossings[key, True]
            wanted.append(((ups + backs + 1) / (last - first + 1), key, True))
            if first <= ahead < last:
                wanted.append((ups / (ahead - first + 1), key, False))
        for _, key, for_long in sorted(wanted, key=lambda one: -one[0]):
            first, last, ahead = life = lives[key]
            before = found.get(key, GpuShare())
            for half in range(first, last + 1):
                slack[half] += self._there(key, life, before, half)
            rows = self._fitting(min(slack[first : (last if for_long else ahead) + 1]), self.sizes[key], block)
            found[key] = GpuShare(rows, max(rows, before.ahead)) if for_long else GpuShare(before.kept, max(rows, before.kept))
            for half in range(first, last + 1):
                slack[half] -= self._there(key, life, found[key], half)
        return found

    def _fitting(self, slack: float, size: int, block: int) -> int:
        """Rows for which there is room: whole blocks, or all."""
        if slack >= self.rows * size:
            return self.rows
        return max(int(slack // max(size, 1)) // block * block, 0)

    def _crossings(self, columns: dict[Reduced, int]) -> Counter[tuple[Key, bool]]:
        """How often rows go up that lie in host memory, in passes that make sums and in such that make gradients."""
        found: Counter[tuple[Key, bool]] = Counter()
        for visit in self.visits:
            for key in (*visit.fills, *visit.steps):
                found[key, visit.is_gradient] += columns[visit.stage]
        return found

    def _held(self, visit: PassVisit, columns: int, block: int) -> list[float]:
        """What each half of a pass holds beside rows between passes."""
        table = -(-visit.run.table // columns)
        lasting = (self.rows + self.halo) * table + self.rows * visit.run.kept
        return [lasting + used for used in self._scratch(visit, block)]

    def _scratch(self, visit: PassVisit, block: int) -> tuple[int, float]:
        """What a block takes in each half."""
        fill, step = visit.of_row
        return block * fill, block * step + self._most_entries(block) * _PIECES * visit.run.made * bool(visit.fills)

    def _most_entries(self, block: int) -> int:
        """Entries of a block, at most."""

        def most(graph: PartitionedGraph) -> int:
            found = 0
            for part in graph.parts:
                ends = torch.arange(0, part.rows + block, block, device=part.offsets.device).clamp(max=part.rows)
                found = max(found, int(part.offsets[ends].diff().max()) if len(ends) > 1 else 0)
            return found

        return max(graph.kept(("entries of a block", block), partial(most, graph)) for graph in self.graphs)

    def _lengths(self, room: float) -> list[int]:
        """Rows that may be computed together: as many in each pass, since what was found about their lists is kept."""
        most, found = min(HOST_BLOCK_BYTES, max(room, 0) / HOST_BLOCK_SHARE), [_LEAST]
        while found[-1] < self.rows and all(max(self._scratch(visit, 2 * found[-1])) <= most for visit in self.visits):
            found.append(2 * found[-1])
        return [min(block, max(self.rows, 1)) for block in found]

    def _costs(self, columns: dict[Reduced, int], block: int, places: dict[Key, GpuShare], budget: float) -> HostPlan:
        """What crosses, by pass."""
        files = None if self.rates is None else self._in_files(columns, block, places, self.rates)
        up = down = 0
        seconds, rate, seen = 0.0, _link(), set(self.always)

        def away(keys: Iterable[Key], is_gradient: bool) -> int:
            held = {key: places.get(key, GpuShare()) for key in keys}
            return sum(
                (self.rows - (one.kept if is_gradient else max(one.kept, one.ahead))) * _size(key) for key, one in held.items()
            )

        for visit in self.visits:
            times = columns[visit.stage]
            fills = times * away(visit.fills, visit.is_gradient)
            steps = times * away([key for key in visit.steps if key not in visit.writes or key in seen], visit.is_gradient)
            writes = (times if visit.run.gives else 1) * away(visit.writes, True)
            seen.update(visit.writes)
            up, down = up + fills + steps, down + writes
            seconds += (fills + max(steps, writes)) / rate
        numbered = {(self.numbers[node], name): place for (node, name), place in places.items()}
        host = sum(self._hosted_rows(key, places, files) * _size(key) for key in self.lives(columns))
        seconds += 0 if files is None else files.seconds
        peak = int(max(self._usage(columns, block, places))) + self.graph
        each = tuple(columns.get(node, 1) for node in self.numbers if isinstance(node, Reduced))
        return HostPlan(block, each, numbered, budget, self.graph, peak, up, down, seconds, host, files)

    def _hosted_rows(self, key: Key, places: dict[Key, GpuShare], files: InFiles | None) -> int:
        """How many rows lie in host memory."""
        rest = self.rows - places.get(key, GpuShare()).kept
        if files is None or key in self.fixed - self.filed:
            return rest
        return min(rest, files.hosted.get((self.numbers[key[0]], key[1]), 0))

    def _staged(self, block: int) -> list[int]:
        """Host memory that blocks on their way between files and a GPU take in each half: page-locked, so as much as the next
        power of two. On a CPU they are there once, and counted as the device's."""
        if not self.stages_blocks:
            return [0]
        found = []
        for visit in self.visits:
            read = AHEAD * sum(map(_size, visit.fills)), AHEAD * sum(map(_size, visit.steps))
            found += [2 * block * read[0], 2 * block * (read[1] + (AHEAD + 2) * sum(map(_size, visit.writes)))]
        return found

    def _in_files(
        self, columns: dict[Reduced, int], block: int, places: dict[Key, GpuShare], rates: tuple[float, float]
    ) -> InFiles:
        """As many rows in host memory as there is room for, those first that are read and written most often for as long as
        they are there; the others lie in files."""
        lives, moved = self.lives(columns), self._moved(columns)
        room = self.host_room - max(self._staged(block))
        slack, hosted = [room] * (2 * len(self.visits)), dict[Key, int]()
        wanted = [key for key in lives if key not in self.fixed]
        for key in sorted(wanted, key=lambda key: -sum(moved[key]) / (lives[key][1] - lives[key][0] + 1)):
            first, last, _ = lives[key]
            rest = self.rows - places.get(key, GpuShare()).kept
            fits = self._fitting(min(slack[first : last + 1]), self.sizes[key], block)
            hosted[key] = min(fits, rest)
            for half in range(first, last + 1):
                slack[half] -= hosted[key] * self.sizes[key]
        read = written = 0
        there: dict[tuple[Any, ...], list[int]] = {}  # of files of a shape, which others take over, in each half
        for key in [*wanted, *(key for key in self.filed if key in lives)]:
            place, (first, last, _) = places.get(key, GpuShare()), lives[key]
            rows = self.rows - place.kept - hosted.get(key, 0)
            ahead = max(place.ahead - place.kept - hosted.get(key, 0), 0)
            sums, all_rows, writes = moved[key]
            read += (sums * (rows - ahead) + all_rows * rows) * self.sizes[key]
            written += writes * rows * self.sizes[key]
            if rows and key not in self.filed:
                counts = there.setdefault((rows, *key_form(key)), [0] * len(slack))
                for half in range(first, last + 1):
                    counts[half] += rows * self.sizes[key]
        numbered = {(self.numbers[node], name): rows for (node, name), rows in hosted.items()}
        return InFiles(numbered, sum(map(max, there.values())), read, written, rates)

    def _moved(self, columns: dict[Reduced, int]) -> dict[Key, tuple[int, int, int]]:
        """How often rows are read of which the device may have the first ones ahead, how often all that are not kept there, and
        how often they are written. Where columns go one after another, what the ones before have written is read again."""
        found, seen = {key: [0, 0, 0] for key in self.sizes}, set(self.fixed)
        for visit in self.visits:
            times = columns[visit.stage]
            for key in visit.fills:
                found[key][visit.is_gradient] += times
            for key in {*visit.steps, *visit.writes}:
                of_all = visit.is_gradient or key in visit.writes
                found[key][of_all] += times - (key in visit.writes and key not in seen)
            for key in visit.writes:
                found[key][2] += times
            seen.update(visit.writes)
        return {key: (sums, all_rows, writes) for key, (sums, all_rows, writes) in found.items()}


def _graph_bytes(p: PartitionedGraph) -> int:
    """What the parts of this process take on the device that has most of them, with what is kept of their lists."""
    taken: dict[torch.device, int] = {}
    for part, on in zip(p.parts, p.world.devices, strict=True):
        arrays = (part.offsets, part.split, part.places, part.weights, part.halo, part.degrees)
        held = sum(one.nbytes for one in arrays if one is not None)
        kept = len(part.places) * (1 if part.weights is None else 9) + 32 * part.rows  # pieces; weights widened; scales
        taken[on] = taken.get(on, 0) + held + kept
    return max(taken.values())


def _link() -> float:
    known = cache.measured_link()
    return _LINK if known is None else known.h2d
