"""Which of BaM's ways of giving a traversal's work to warps suits a graph: by what was measured of others, and by trying.

In the dissertation stride and coarsening are found by hand, for each graph (Mailthody 2022, sections 6.3 and 7.1.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log2
from typing import NamedTuple

from .. import _core

_LEAST = 2.0**-20  # of a line, and of the edges: a graph has no edges, or a cache hardly any room
_NEIGHBOURS = 3  # cases that a choice goes by: a guess
# Ways that are tried. In 20 cases on an H100 one of the first five was within 10 % of the best, one of the first four in 19,
# the first of all in 10 (docs/notes/storage-on-h100.md).
_TRIED = 5


class Case(NamedTuple):
    """What a choice depends on."""

    algorithm: str  # "bfs" or "cc"
    list_bytes: float  # of a vertex, in the mean
    line_bytes: int
    room: float  # the cache's bytes over those of the edges

    def doublings_from(self, other: Case) -> float:
        """How far apart two are: in the lists of a line, and in room."""
        return sum(abs(log2(mine / its)) for mine, its in zip(self._ratios, other._ratios, strict=True))

    @property
    def _ratios(self) -> tuple[float, float]:
        return max(self.list_bytes / self.line_bytes, _LEAST), max(self.room, _LEAST)


class Way(NamedTuple):
    """An assignment of :mod:`.stored`, and its number in terms that suit any graph."""

    assignment: str
    number: float = 1  # lines that a worker's vertices, or its tile, fill; of "transposed": vertices between workers

    def size(self, case: Case, edge_bytes: int) -> int:
        """The assignment's size for a graph."""
        if self.assignment == "warp":
            return 1
        if self.assignment == "transposed":
            return int(self.number)
        filled = self.number * case.line_bytes
        if self.assignment == "odt-copied":  # through shared memory, which has room for so much
            filled = min(filled, _core.EMOGI_TILE_BYTES)
        return max(round(filled / (edge_bytes if self.assignment.startswith("odt") else max(case.list_bytes, edge_bytes))), 1)


class MeasuredRun(NamedTuple):
    """A run."""

    case: Case
    way: Way
    seconds: float


WAYS = (
    Way("warp"),
    *(Way("coarsened", lines) for lines in (0.25, 1, 4)),
    *(Way("transposed", stride) for stride in (32, 128, 512)),
    Way("odt"),
    Way("odt-active"),
    Way("odt-copied"),
)


def rank(case: Case, table: Iterable[MeasuredRun]) -> list[Way]:
    """Ways by their worst time beside the best, in the measured cases that are most like this one; without any, tiles alone.

    The worst, for graphs that are alike by their lists may differ in what a way costs: lists in a row suit uniform graphs, and
    take three times as long as tiles where a few lists are long. Where two are as bad, the sum decides.

    Args:
        case: for which a way is wanted.
        table: what was measured, as ``python -m benchmarks storage_assignments`` does.
    """
    cases: dict[Case, dict[Way, float]] = {}
    for row in table:
        if row.case.algorithm == case.algorithm:
            cases.setdefault(row.case, {})[row.way] = row.seconds
    nearest = sorted(cases, key=case.doublings_from)[:_NEIGHBOURS]
    times = [{way: seconds / min(cases[one].values()) for way, seconds in cases[one].items()} for one in nearest]
    common = set.intersection(*map(set, times)) if times else set()
    regrets = {way: [each[way] for each in times] for way in common}
    return sorted(common, key=lambda way: (max(regrets[way]), sum(regrets[way]))) or [Way("odt")]


def choose(case: Case, table: Iterable[MeasuredRun], seconds: Callable[[Way], float]) -> Way:
    """The way that a graph's own runs show to be fastest, of the five that others' make likely (:func:`rank`).

    Web graphs' lists are local and skewed, and nothing that a case is known by tells them from uniform ones: so the ways are
    tried. Each that is left runs, and the faster half is left, until one is: seven runs at the most, for a graph that is
    searched often.

    Args:
        case: for which a way is wanted.
        table: what was measured of other graphs.
        seconds: runs the graph a way, and says how long it took.
    """
    left = rank(case, table)[:_TRIED]
    while len(left) > 1:
        took = {way: seconds(way) for way in left}
        left = sorted(left, key=lambda way: took[way])[: len(left) // 2]
    return left[0]
