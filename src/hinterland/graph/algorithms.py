"""The algorithms that run on a prepared graph, and what each needs of it. :mod:`.registered` lists those of this package; other
packages register theirs in their ``__init__``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..runtime.errors import ConfigError
from .graph import Graph


@dataclass(frozen=True)
class Algorithm:
    """What planning needs to know of an algorithm.

    Attributes:
        name: by which :func:`prepare` knows it.
        state_bytes: GPU memory that it takes besides a graph at least, its result included.
        ample_bytes: the same with which the result stays there, as its users get it; None where ``state_bytes`` is that.
        searching: it looks for one neighbour in the lists of in-neighbours, so their heads help.
        incoming_only: it reads the lists of in-neighbours only, all of them and several times in one run.
        beside: it runs beside others, as a sampler does beside training, and leaves them memory that it is not given.
    """

    name: str
    state_bytes: Callable[[Graph], int]
    searching: bool = False
    incoming_only: bool = False
    ample_bytes: Callable[[Graph], int] | None = None
    beside: bool = False

    def ample(self, graph: Graph) -> int:
        """GPU memory that it takes besides ``graph`` where there is room."""
        return (self.ample_bytes or self.state_bytes)(graph)


_known: dict[str, Algorithm] = {}


def register(*algorithms: Algorithm) -> None:
    """Makes algorithms known by their names."""
    _known.update({algorithm.name: algorithm for algorithm in algorithms})


def named(names: Iterable[str]) -> list[Algorithm]:
    """The algorithms of these names; ConfigError where there is none of a name."""
    names = set(names)
    if unknown := names - _known.keys():
        raise ConfigError(f"{', '.join(sorted(unknown))}: not among the algorithms, {', '.join(sorted(_known))}")
    return [_known[name] for name in names]


def state_bytes(name: str, graph: Graph) -> int:
    """What the algorithm of this name takes on the GPU besides ``graph``."""
    return named([name])[0].state_bytes(graph)
