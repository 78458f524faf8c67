"""The algorithms that run on a graph: what each takes, gives and needs, in one record for each, which stands in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from .graph import Graph


@dataclass(frozen=True)
class Algorithm:
    """An algorithm. :func:`prepare` plans by its record, its command is made of it, and tests and benchmarks go through all.

    The command line answers ``--help`` before torch is there, so it reads ``name``, ``run``, ``help``, ``options`` and
    ``weights`` from the text of the file: there the record is called ``ALGORITHM``, ``run`` is a function of that file, and
    the others are literals.
    """

    name: str  # of the command, and by which prepare() knows it
    state_bytes: Callable[[Graph], int]  # GPU memory that it takes besides a graph at least, its result included
    searching: bool = False  # it looks for one neighbour in the lists of in-neighbours, so their prefixes help
    incoming_only: bool = False  # it reads the lists of in-neighbours only, all of them and several times in one run
    ample_bytes: Callable[[Graph], int] | None = None  # with which the result stays there; None where state_bytes is that
    beside: bool = False  # it runs beside others, as a sampler does beside training, and leaves them memory
    # What users call, with a graph or what is prepared of it, and `device`, `gpu_budget` and `stats`. It begins at a `source`,
    # at `sources` together, or nowhere. None for what is only planned for.
    run: Callable[..., Any] | None = None
    kernels: KernelFile | None = None
    modes: tuple[str, ...] = ("auto",)  # what `run` takes for `mode`
    weights: str | None = None  # "needed"; "unused", of which the command tells whoever has some; None: nobody expects any
    # The verifier, by its name in hinterland.graph. It takes the graph, the result, and of what `run` was given what has the
    # same name.
    verify: str = ""
    help: str = ""  # what the command says of itself
    # Numbers that `run` takes and the command too, by name what it says of each. Of what is on by default: the option that
    # turns it off, and what the command says of that.
    options: Mapping[str, str | tuple[str, str]] = field(default_factory=dict)
    # Of the result, what the command writes as .npy. If `run` takes a switch of this name, it is made only to be looked at.
    array: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)  # what it writes as a table, by the columns' names
    rows: str = "vertex"  # what a row of the table is: a vertex, or a "source"
    found: Callable[[Mapping[str, Any]], str] = lambda _: ""  # what a run found, for people, from its object in the JSON
    fields: Callable[[Any], dict[str, Any]] = lambda _: {}  # what the result adds to that object

    def __post_init__(self) -> None:
        """A user's algorithm lacks nothing that its command needs; ConfigError says what."""
        needed = ("kernels", "verify", "help", "array", "columns")
        if self.run is not None and (missing := [one for one in needed if not getattr(self, one)]):
            raise ConfigError(
                f"the record of {self.name} has a run, and no {', '.join(missing)}; its command needs all of them"
            )

    def ample(self, graph: Graph) -> int:
        """GPU memory that it takes besides ``graph`` where there is room."""
        return (self.ample_bytes or self.state_bytes)(graph)


_known: dict[str, Algorithm] = {}


def register(algorithm: Algorithm) -> Algorithm:
    """Makes an algorithm known by its name."""
    _known[algorithm.name] = algorithm
    return algorithm


def known() -> list[Algorithm]:
    """Those that users call by themselves."""
    return [algorithm for algorithm in _known.values() if algorithm.run is not None]


def named(names: Iterable[str]) -> list[Algorithm]:
    """The algorithms of these names; ConfigError where there is none of a name."""
    names = set(names)
    if unknown := names - _known.keys():
        raise ConfigError(f"{', '.join(sorted(unknown))}: not among the algorithms, {', '.join(sorted(_known))}")
    return [_known[name] for name in names]


def state_bytes(name: str, graph: Graph) -> int:
    """What the algorithm of this name takes on the GPU besides ``graph``."""
    return named([name])[0].state_bytes(graph)
