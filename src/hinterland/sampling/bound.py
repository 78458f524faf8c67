"""The most that a mini-batch can come to, by its seeds and fanouts."""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Iterable
from typing import NamedTuple

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.params import struct

ENTRY_BYTES = ctypes.sizeof(struct("sampling::NumberEntry"))


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
        tables = sum(ENTRY_BYTES << max(2 * n - 1, 1).bit_length() for n in self.vertices)
        arrays = 16 * sum(self.vertices) + 24 * sum(self.edges)
        return tables + arrays + 24 * self.frontier + 16 * self.picks + 8 * self.step_edges

    def holding(self, vertices: int, edges: int) -> Bound:
        """This, of one type and relation, or so many vertices and edges, where these are more."""
        return self._replace(vertices=(max(vertices, *self.vertices),), edges=(max(edges, *self.edges),))


@functools.lru_cache
def bound(
    seeds: tuple[int, ...], limits: tuple[int, ...], relations: tuple[tuple[int, int, tuple[int, ...]], ...]
) -> Bound | None:
    """The most that a batch can come to, or None where a step takes whole lists. ``seeds`` are those of each type, ``limits``
    the vertices that can be found besides them; ``relations``: of each (source, target, fanouts)."""
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


def check_fanouts(fanouts: Iterable[int]) -> list[int]:
    """``fanouts`` as a list, if it is one that can be used."""
    try:
        checked = [operator.index(fanout) for fanout in fanouts]
    except (TypeError, ValueError, RuntimeError):  # the last two are a tensor's
        raise ConfigError(
            f"fanouts are numbers, one for each hop, as in [15, 10, 5], not {arguments.repr_of(fanouts)}"
        ) from None
    if not checked:
        raise ConfigError("fanouts is empty; name how many neighbours each hop draws, as in [15, 10, 5]")
    for hop, fanout in enumerate(checked):
        if not -1 <= fanout <= _core.SAMPLE_MOST_FANOUT:
            raise ConfigError(
                f"fanout {arguments.repr_of(fanout)} of hop {hop} is not between 0 and {_core.SAMPLE_MOST_FANOUT}; "
                "-1 takes whole lists"
            )
    return checked
