"""Which strategy reads the rows of other parts: what each moves and holds, how long it should take, and what it took.

Bytes are counted, and exact; times are those bytes over the machine's rates (rates.py), with what the launches of a process
cost that go one after another, and only say what is worth trying. What is tried is measured, once for each operation, width
and type of a graph; all ranks choose alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..runtime import devices
from ..runtime.errors import OutOfMemory
from ..runtime.repr import Repr
from ..runtime.thresholds import STRATEGIES_TRIED
from ..runtime.units import format_bytes
from .aggregate_launch import compute_type
from .partitioned import PartitionedGraph
from .rates import ReadRates, rates_of
from .strategies import COLUMNS, VECTOR
from .world import SMALL

_SHARING = ("direct", "halo", "halo-pipelined")  # strategies by which kernels read the memory of other processes
_ENOUGH, _LEAST, _MOST = 0.03, 3, 20  # seconds that an operation is timed for, and how often at least and at most


@dataclass(frozen=True)
class Load:
    """What a part reads: entries of its own and of others' rows, rows of others without repetition, and rows that it owns."""

    local: int
    remote: int
    halo: int
    rows: int

    @property
    def entries(self) -> int:
        return self.local + self.remote

    @property
    def mean_length(self) -> float:
        """Entries of a row."""
        return self.entries / max(self.rows, 1)


@dataclass(frozen=True)
class Cost:
    """A strategy for one operation, of the part that has most to do.

    Attributes:
        moved: bytes that the part gets from others.
        peak: bytes of its device's memory that the operation holds at once, its result included, its arguments not.
        predicted: seconds.
        measured: seconds, or None where it was not tried.
    """

    strategy: str
    moved: int
    peak: int
    predicted: float
    measured: float | None = None


@dataclass(frozen=True, repr=False)
class Choice(Repr):
    """What was chosen for an operation, and why."""

    what: str
    strategy: str
    costs: tuple[Cost, ...]
    reuse: float

    def explain(self) -> str:
        """A line for each strategy, and one that says why."""
        lines = [f"{self.what}: {self.strategy}; a row of another part is needed {self.reuse:.1f} times by a part"]
        for cost in sorted(self.costs, key=lambda one: one.measured or one.predicted + 1e6):
            took = "not tried" if cost.measured is None else f"{1e3 * cost.measured:.3f} ms"
            lines.append(
                f"  {cost.strategy:15} moves {format_bytes(cost.moved)}, holds {format_bytes(cost.peak)}, "
                f"{1e3 * cost.predicted:.3f} ms predicted, {took}"
            )
        return "\n".join(lines)


def loads(p: PartitionedGraph) -> list[Load]:
    """Of all parts, those of other processes too."""

    def made() -> list[Load]:
        mine = []
        for part in p.parts:
            n = part.rows
            local = int((part.split[:n] - part.offsets[:n]).sum()) + int(part.offsets[-1] - part.offsets[n])
            mine.append(Load(local, len(part.places) - local, len(part.halo), n))
        return p.world.gathered(mine)

    return p.kept("loads", made)


@dataclass(frozen=True)
class _Seconds:
    """What a part should take by each strategy.

    Attributes:
        rates: of its device.
        row, summed: bytes of a row, and of its sum between two stages.
        vertices: of the graph.
        others: how many other parts there are, 1 at least.
        step: seconds for a launch of each of the process's parts.
    """

    rates: ReadRates
    row: int
    summed: int
    vertices: int
    others: int
    step: float

    def direct(self, part: Load) -> float:
        reading = self.rates.reading(part.local, self.row, part.rows, 0)  # there are no tiles
        return max(self.rates.fetching(part.remote * self.row, self.row), reading) + self.step

    def halo(self, part: Load) -> float:
        steps = 2 if part.halo * self.row <= SMALL else self.others + 2
        return self._coming(part) + self._reading(part, part.entries) + steps * self.step

    def halo_pipelined(self, part: Load) -> float:
        between = 2 * self.others * part.rows * self.summed / self.rates.memory
        last = self._reading(part, part.remote / self.others)
        steps = 2 * self.others + 1
        return max(self._coming(part), self._reading(part, part.entries) + between) + last + steps * self.step

    def halo_columns(self, part: Load) -> float:
        ranges = -(-self.row // COLUMNS)
        sums = self.rates.reading(ranges * part.entries, COLUMNS, part.rows + part.halo, part.mean_length)
        first = self.rates.fetching(part.halo * COLUMNS, COLUMNS)
        return max(self._coming(part), sums) + first + ranges * (self.others + 2) * self.step

    def all_gather(self, part: Load) -> float:
        coming = self.rates.fetching((self.vertices - part.rows) * self.row, self.row)
        reading = self.rates.reading(part.entries, self.row, self.vertices, part.mean_length)
        return coming + reading + (self.others + 2) * self.step

    def _coming(self, part: Load) -> float:
        return self.rates.fetching(part.halo * self.row, self.row)

    def _reading(self, part: Load, entries: float) -> float:
        return self.rates.reading(entries, self.row, part.rows + part.halo, part.mean_length)


def costs(p: PartitionedGraph, width: int, dtype: torch.dtype) -> list[Cost]:
    """What each strategy costs for sums of rows of ``width`` elements of type ``dtype``."""
    of_all, row = loads(p), width * dtype.itemsize
    summed = width * compute_type(dtype).itemsize
    vertices, rates = p.num_vertices, p.kept("rates", lambda: p.world.gathered([rates_of(on) for on in p.world.devices])[0])
    shared = p.world.shared_bytes(max(part.rows for part in of_all) * row)
    by = _Seconds(rates, row, summed, vertices, max(p.world.parts - 1, 1), rates.step * len(p.parts))

    def cost(name: str, moved: Callable[[Load], int], held: Callable[[Load], int], seconds: Callable[[Load], float]) -> Cost:
        peak = max(held(part) + part.rows * row for part in of_all) + (shared if name in _SHARING else 0)
        return Cost(name, max(map(moved, of_all)), peak, max(map(seconds, of_all)))

    def fetched(part: Load) -> int:
        return part.halo * row

    def others(part: Load) -> int:
        return (vertices - part.rows) * row

    def pipelined(part: Load) -> int:
        return fetched(part) + (part.rows * summed if summed > row else 0)

    has_ranges = row > COLUMNS and row % VECTOR == 0

    return [
        cost("direct", lambda part: part.remote * row, lambda part: 0, by.direct),
        cost("halo", fetched, fetched, by.halo),
        cost("halo-pipelined", fetched, pipelined, by.halo_pipelined),
        *([cost("halo-columns", fetched, lambda part: 2 * part.halo * COLUMNS, by.halo_columns)] if has_ranges else []),
        *(cost(name, others, lambda part: vertices * row, by.all_gather) for name in ("all-gather", "replicate")),
    ]


def choose(p: PartitionedGraph, what: str, x: Sequence[Tensor], run: Callable[[str], Any], *, whole_rows: bool = False) -> str:
    """The strategy for an operation: where the process has one part of several, the quickest of all that fit.

    Args:
        what: the operation, by which the choice is kept with the graph.
        x: the rows that are read.
        run: does it by a strategy; called several times, by all ranks alike.
        whole_rows: it reads whole rows at once, so that they cannot come by columns.

    Raises:
        OutOfMemory: none fits.
    """
    if p.world.parts == 1:
        return "halo"
    width, dtype = x[0].shape[1], x[0].dtype
    name = f"{what} of {width} x {str(dtype).removeprefix('torch.')}"
    return p.kept(("choice", name), lambda: _chosen(p, name, width, dtype, run, whole_rows)).strategy


def choices(p: PartitionedGraph) -> list[Choice]:
    """What was chosen so far."""
    return [made for made in p.all_kept() if isinstance(made, Choice)]


def _chosen(
    p: PartitionedGraph, name: str, width: int, dtype: torch.dtype, run: Callable[[str], Any], whole_rows: bool
) -> Choice:
    room = min(p.world.gathered([room_of(on) for on in p.world.devices]))
    never = ("replicate", "halo-columns") if whole_rows else ("replicate",)
    all_costs = [cost for cost in costs(p, width, dtype) if cost.strategy not in never]
    direct = p.world.all(p.world.reads_others)
    fitting = [cost for cost in all_costs if cost.peak <= room and (direct or cost.strategy != "direct")]
    if not fitting:
        least = min(all_costs, key=lambda cost: cost.peak)
        raise OutOfMemory(
            f"{name}: {format_bytes(least.peak)} by strategy {least.strategy!r}, which takes least, and "
            f"{format_bytes(int(room))} are free; use more parts, narrower or shorter rows"
        )
    quickest = min(cost.predicted for cost in fitting)
    tried = [cost for cost in fitting if cost.predicted <= STRATEGIES_TRIED * quickest]
    found = {cost.strategy: replace(cost, measured=_measured(p, functools.partial(run, cost.strategy))) for cost in tried}
    best = min(found.values(), key=lambda cost: cost.measured or 0)
    of_all = loads(p)
    reuse = sum(part.remote for part in of_all) / max(sum(part.halo for part in of_all), 1)
    return Choice(name, best.strategy, tuple(found.get(cost.strategy, cost) for cost in all_costs), reuse)


def _measured(p: PartitionedGraph, run: Callable[[], Any]) -> float:
    first = seconds(p, run, 1)
    return min(first, seconds(p, run, repeats(first)))


def repeats(took: float) -> int:
    """How often an operation that took so many seconds is timed, so that noise decides little."""
    return min(max(math.ceil(_ENOUGH / max(took, 1e-9)), _LEAST), _MOST)


def seconds(p: PartitionedGraph, run: Callable[[], Any], steps: int) -> float:
    """What a step takes the slowest process: of each the least of so many, after one that is not timed."""
    times = []
    for _ in range(steps + 1):
        p.world.gathered([None] * len(p.parts))  # all begin together
        begin = max(map(devices.idle_at, p.world.devices))
        run()
        times.append(max(map(devices.idle_at, p.world.devices)) - begin)
    return max(p.world.gathered([min(times[1:])] * len(p.parts)))


def room_of(device: torch.device) -> float:
    """Bytes that may still be allocated on a device."""
    return devices.free_bytes(device) if device.type == "cuda" else float("inf")
