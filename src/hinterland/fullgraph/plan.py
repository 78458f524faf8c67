"""Which strategy reads the rows of other parts: what each moves and holds, how long it should take, and what it took.

Bytes are counted, and exact; times are those bytes over the rates of the machine's probe, or of the machines in
docs/fullgraph.md where there was none, and only say what is worth trying. What is tried is measured, once for each operation,
width and type of a graph; all ranks choose alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..machine import cache
from ..runtime import devices
from ..runtime.errors import OutOfMemory
from ..runtime.shown import Shown
from ..runtime.units import format_bytes
from .partitioned import PartitionedGraph
from .rows import compute_type
from .strategies import COLUMNS

_TRIED = 4.0  # a strategy is tried where it should take at most so many times as long as the quickest: chosen, not measured
_SHARING = ("direct", "halo", "halo-pipelined")  # strategies by which kernels read the memory of other processes
_ENOUGH, _LEAST, _MOST = 0.03, 3, 20  # seconds that an operation is timed for, and how often at least and at most
# Bytes a second, where the machine has not been probed: of own memory and of another GPU's, as measured on an H200.
_OWN, _PEERS, _CPU = 1.5e12, 350e9, 5e9


@dataclass(frozen=True)
class Load:
    """What a part reads: entries of its own and of others' rows, rows of others without repetition, and rows that it owns."""

    local: int
    remote: int
    halo: int
    rows: int


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
class Choice(Shown):
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


def costs(p: PartitionedGraph, width: int, dtype: torch.dtype) -> list[Cost]:
    """What each strategy costs for sums of rows of ``width`` elements of type ``dtype``."""
    of_all, row = loads(p), width * dtype.itemsize
    own, peers = _rates(p.world.devices[0])
    vertices = p.num_vertices
    shared = p.world.shared_bytes(max(part.rows for part in of_all) * row)

    def most(count: Callable[[Load], float]) -> float:
        return max(map(count, of_all))

    def cost(name: str, moved: Callable[[Load], int], held: Callable[[Load], int], seconds: Callable[[Load], float]) -> Cost:
        peak = most(lambda part: held(part) + part.rows * row) + (shared if name in _SHARING else 0)
        return Cost(name, int(most(moved)), int(peak), most(seconds))

    def reading(entries: int) -> float:
        return entries * (row + 4) / own

    def fetched(part: Load) -> int:
        return part.halo * row

    def others(part: Load) -> int:
        return (vertices - part.rows) * row

    summed = compute_type(dtype).itemsize * width  # of a row, between two stages

    others_count = max(p.world.parts - 1, 1)

    def between(part: Load) -> float:
        return 2 * part.rows * summed / own

    columns = cost(
        "halo-columns",
        fetched,
        lambda part: 2 * part.halo * min(COLUMNS, row),
        lambda part: max(fetched(part) / peers, reading(part.local + part.remote)) + part.halo * COLUMNS / peers,
    )
    return [
        cost("direct", lambda part: part.remote * row, lambda part: 0,
             lambda part: max(part.remote * row / peers, reading(part.local))),
        cost("halo", fetched, fetched, lambda part: fetched(part) / peers + reading(part.local + part.remote)),
        cost("halo-pipelined", fetched, lambda part: fetched(part) + (part.rows * summed if summed > row else 0),
             lambda part: max(fetched(part) / peers, reading(part.local + part.remote) + others_count * between(part))
             + reading(part.remote) / others_count),
        *([columns] if row > COLUMNS else []),
        *(cost(name, others, lambda part: vertices * row,
               lambda part: others(part) / peers + reading(part.local + part.remote)) for name in ("all-gather", "replicate")),
    ]  # fmt: skip


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
    tried = [cost for cost in fitting if cost.predicted <= _TRIED * quickest]
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
    if device.type != "cuda":
        return float("inf")
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def _rates(device: torch.device) -> tuple[float, float]:
    """Bytes a second at random rows of own memory, and of other parts'."""
    if device.type != "cuda":
        return _CPU, _CPU
    known = cache.load()
    peers = [peer.random64 for peer in known.peers] if known is not None else []
    return _OWN, min(peers, default=_PEERS)
