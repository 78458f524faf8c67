"""Plans whether the CPU helps a gather: who reads the rows of a batch, and the rates that decide it.

Random rows of pinned memory cost a GPU a walk of its page tables for each 64 KiB that they lie in. A core's walks are shorter,
and many cores pack short rows faster than the GPU reads them. Long rows are read by both at once.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass

import numpy as np

from .. import _core
from ..machine import HelpPoint, Machine, load
from ..machine.cache import cores
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.thresholds import HELP_BESIDE, HELP_GAIN, HELP_PAUSE, HELP_ROWS, HELP_SECONDS, LONGEST_PAUSE, SPLIT_SECONDS
from ..runtime.units import format_bytes
from .plan import REACH, link_rate, plan_sort, row_rate

WAYS = ("gpu", "cpu", "both")
_HELPED = ("pinned", "split")  # mappings
WALK_BYTES = 64 << 10  # that one walk of a GPU's page tables finds: 16 entries of 4 KiB lie in a sector
# Bytes a second of 96 GiB of an H200 machine by 16 cores; of the GPU alone, rows as they come of 32 GiB (gather-on-h200.md).
_CORES = 16
_KNOWN = tuple(
    HelpPoint(96 << 30, row_bytes, gpu * 1e9, cpu * 1e9, both * 1e9)
    for row_bytes, gpu, cpu, both in (
        (64, 2.0, 12.6, 11.6),
        (128, 3.8, 19.9, 21.6),
        (256, 7.4, 29.1, 29.4),
        (512, 14.4, 34.3, 36.1),
        (1024, 28.4, 34.8, 45.0),
    )
)


@dataclass(frozen=True, repr=False)
class HelpPlan(Repr):
    """Who reads the rows of a gather, and what decides it.

    Attributes:
        by: ``"gpu"``, ``"cpu"`` or ``"both"``.
        threads: of the CPU, at most.
        gpu, cpu, both: seconds that each way is expected to take.
        reads, packs: rows a second of the GPU alone, and of the CPU with the copies behind it.
        walks: page walks a second of the GPU beside the CPU.
        payload: seconds that a row's bytes take on the link.
        share: of the rows that the GPU reads, so that both are expected to end together.
        pace: what the CPU packs, beside what is known of it.
    """

    by: str
    mapping: str
    rows: int
    row_bytes: int
    table_bytes: int
    threads: int
    gpu: float
    cpu: float
    both: float
    reads: float
    packs: float
    walks: float
    payload: float
    share: float = 0.0
    pace: float = 1.0

    def explain(self) -> str:
        """The plan in one sentence."""
        who = {"gpu": "the GPU alone", "cpu": "the CPU", "both": "the GPU and the CPU at once"}[self.by]
        rates = ", ".join(
            f"{self.rows * self.row_bytes / seconds / 1e9:.1f} GB/s by {way}"
            for way, seconds in (("gpu", self.gpu), ("cpu", self.cpu), ("both", self.both))
            if math.isfinite(seconds) and seconds > 0
        )
        helping = "" if self.by == "gpu" else f" on {self.threads} threads"
        return (
            f"{self.rows} rows of {self.row_bytes} B from {format_bytes(self.table_bytes)} of {self.mapping} memory are read "
            f"by {who}{helping}: {rates or 'nothing to weigh'} expected"
        )


def plan_help(
    mapping: str, rows: int, row_bytes: int, table_bytes: int, managed_bytes: int = 0, by: str | None = None
) -> HelpPlan:
    """Weighs the ways of a gather of random rows to a GPU.

    Args:
        mapping: where the table lies, as ``UnifiedTensor.placement`` says.
        rows: how many rows one call takes.
        row_bytes, table_bytes: sizes in bytes.
        managed_bytes: of a split table, how many from its beginning on are mapped in large pages.
        by: the way, where somebody has chosen it.

    Raises:
        ConfigError: a size that is none, or a way that is none.
    """
    rows, row_bytes = arguments.whole_number("rows", rows, 0), arguments.whole_number("row_bytes", row_bytes, 0)
    table_bytes = arguments.whole_number("table_bytes", table_bytes, 0)
    if by is not None and (not isinstance(by, str) or by not in WAYS):
        raise ConfigError(f"by={arguments.repr_of(by)} is none of 'gpu', 'cpu' and 'both'")
    return planned(mapping, rows, row_bytes, table_bytes, managed_bytes, by, threads=_core.num_threads())


def planned(
    mapping: str,
    rows: int,
    row_bytes: int,
    table_bytes: int,
    managed_bytes: int,
    by: str | None = None,
    *,
    threads: int,
    pace: float = 1.0,
    ahead: bool = False,
) -> HelpPlan:
    """As ``plan_help``.

    Args:
        threads: of the CPU, at most.
        pace: what the CPU packs, beside what is known of it.
        ahead: nobody waits for it, as in training: what it takes to begin is hidden, and help has to be worth more.
    """
    sort = plan_sort(mapping, rows, row_bytes, table_bytes, managed_bytes)
    machine, width = load(), max(row_bytes, 1)
    points = _points(machine)
    packs = pace * _packed(points, width) / width * min(1, threads / (_CORES if points is _KNOWN else cores()))
    walks = max((point.both - point.cpu) / point.row_bytes for point in points)
    walks = walks if walks > 0 else min(point.gpu / point.row_bytes for point in points) / 2
    gpu = sort.sorted + sort.sorting if sort.sort else sort.as_given
    payload = width / link_rate(machine)
    managed = {"managed": table_bytes, "split": managed_bytes}.get(mapping, 0) / max(table_bytes, 1) * rows
    both, share = _both(rows, managed, packs, walks, payload, row_rate("managed", width, table_bytes), table_bytes)
    if mapping == "pageable":
        gpu = both = math.inf
    cpu = rows / packs
    if not ahead:
        cpu, both = cpu + HELP_SECONDS, both + SPLIT_SECONDS
    if by is None:
        seconds = {"cpu": cpu, "both": both}
        gain = HELP_BESIDE if ahead else HELP_GAIN
        best = "both" if both < HELP_GAIN * cpu else "cpu"  # which deals no rows out
        helps = mapping == "pageable" or (
            mapping in _HELPED and rows >= HELP_ROWS and table_bytes > REACH and seconds[best] < gain * gpu
        )
        by = best if helps else "gpu"
    reads = rows / gpu if gpu and math.isfinite(gpu) else 0.0
    sizes, rates = (mapping, rows, row_bytes, table_bytes, threads), (reads, packs, walks, payload, share, pace)
    return HelpPlan(by, *sizes, gpu, cpu, both, *rates)


def _points(machine: Machine | None) -> tuple[HelpPoint, ...]:
    return machine.helped if machine is not None and machine.helped else _KNOWN


def _packed(points: tuple[HelpPoint, ...], row_bytes: int) -> float:
    """Bytes a second; of rows shorter than those that were measured as many rows, of longer ones as many bytes."""
    points = tuple(sorted(points, key=lambda point: point.row_bytes))
    found = np.interp(math.log2(row_bytes), [math.log2(p.row_bytes) for p in points], [p.cpu for p in points])
    return float(found) * min(1.0, row_bytes / points[0].row_bytes)


def _both(
    rows: int, managed: float, packs: float, walks: float, payload: float, managed_rate: float, table_bytes: int
) -> tuple[float, float]:
    """Seconds of both at once, and the share of the GPU: it reads managed rows and as many others as let both end together."""
    pinned = rows - managed
    crowd = pinned * WALK_BYTES / max(table_bytes, 1)  # rows of the batch for each 64 KiB; they share its walk
    walk = (1 - math.exp(-crowd)) / crowd if crowd > 0 else 1.0
    near = managed * max(1 / managed_rate, payload)
    reading, packing = pinned * max(walk / walks, payload), pinned / packs
    share = min(max((packing - near) / max(reading + packing, 1e-12), 0.0), 1.0)
    seconds = max(near + share * reading, (1 - share) * packing, rows * payload)
    return seconds, (managed + share * pinned) / max(rows, 1)


class Help:
    """Whether gathers of one table are helped, by what is planned and by how fast the CPU was of late."""

    def __init__(self, mapping: str, row_bytes: int, table_bytes: int, managed_bytes: int) -> None:
        self._table = mapping, row_bytes, table_bytes, managed_bytes
        self._plans: tuple[Machine | None, dict[tuple[int, int, float, bool], HelpPlan]] = None, {}
        self._pace: float | None = None  # of the last gather since help was planned again
        self._resumes, self._pause = 0.0, HELP_PAUSE

    def plan(self, rows: int, threads: int, ahead: bool = False) -> HelpPlan | None:
        """A plan for a gather of about so many rows; None: the GPU reads alone.

        It does so for a while where the CPU was too slow, and twice as long each time that it still is.

        Args:
            threads: of the CPU, at most; also no more than there are idle cores.
            ahead: as of ``planned``. Cores that pack for earlier gathers look busy then, so all count as idle.
        """
        if rows < HELP_ROWS or self._table[0] not in _HELPED or time.monotonic() < self._resumes:
            return None
        machine = load()
        if self._plans[0] is not machine:
            self._plans = machine, {}
        if self._known(rows, threads, 1.0, ahead).by == "gpu":
            return None
        threads = threads if ahead else min(threads, idle_cores())
        plan = self._known(rows, threads, 1.0, ahead)
        if plan.by == "gpu" or self._pace is None:
            return None if plan.by == "gpu" else plan
        plan = self._known(rows, threads, self._pace, ahead)
        if plan.by == "gpu":
            self._resumes, self._pause = time.monotonic() + self._pause, min(2 * self._pause, LONGEST_PAUSE)
            self._pace = None
            return None
        self._pause = HELP_PAUSE
        return plan

    def learn(self, plan: HelpPlan, packs: float) -> None:
        """Takes the rows a second that the CPU packed in a gather; of few rows none is known, and 0 is given."""
        if packs > 0 and time.monotonic() >= self._resumes:  # in steps of a fifth, of which plans are kept
            self._pace = 2.0 ** (round(4 * math.log2(min(max(plan.pace * packs / plan.packs, 1 / 64), 4))) / 4)

    def _known(self, rows: int, threads: int, pace: float, ahead: bool) -> HelpPlan:
        """A plan takes a tenth of a small gather's time, so it is kept until the machine is measured again."""
        shift = max(0, rows.bit_length() - 4)
        key = rows >> shift << shift, threads, pace, ahead
        mapping, row_bytes, table_bytes, managed_bytes = self._table
        if key not in self._plans[1]:
            self._plans[1][key] = planned(
                mapping, key[0], row_bytes, table_bytes, managed_bytes, threads=threads, pace=pace, ahead=ahead
            )
        return self._plans[1][key]


def idle_cores() -> int:
    """Cores of this process on which nothing else runs at this moment, as Linux counts; one at least."""
    try:
        with open("/proc/loadavg") as file:
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        running = 1
    return max(1, min(cores(), (os.cpu_count() or 1) + 1 - running))
