"""What a generated graph is made from: its generator (``include/hinterland/graph/generate.hpp``), its sizes, its seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from .. import _core
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.params import Params, struct

CLASSES = {"kronecker": "Kronecker", "uniform": "Uniform", "grid": "Grid", "ring": "VertexRing", "web": "Web"}
KINDS = tuple(CLASSES)

_SIZES: dict[str, list[set[str]]] = {"kronecker": [{"scale"}], "grid": [{"scale"}, {"rows", "cols"}]}
_OTHER_SIZES: list[set[str]] = [{"scale"}, {"vertices"}]
_LOCAL = ("ring", "web")  # kinds whose vertices are numbered by where they are
_REWIRED = 0.02  # a ring's default: far fewer than this make it a small world (Watts and Strogatz 1998, figure 2)
_WHOLE = 1 << 32
_SHAPE = struct("graph::GraphShape")


class OfKind(TypedDict, total=False):
    """Options that only some kinds have."""

    vertices: int | None
    rows: int | None
    cols: int | None
    missing: float | None
    rewired: float | None


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the graph, but for its weights."""

    kind: str
    edges: int
    vertices: int
    scale: int
    columns: int
    seed: int
    directed: bool
    permuted: bool
    share: int  # of 2^32

    @property
    def entries(self) -> int:
        """Of all lists, with loops and duplicates."""
        return self.edges if self.directed else 2 * self.edges

    def source(self) -> _core.EdgeSource:
        kind = KINDS.index(self.kind)
        sizes = (self.vertices, self.scale, self.columns)
        return _core.generated_edges(kind, self.edges, self.seed, *sizes, self.permuted, self.share)

    def kernel(self, name: str) -> str:
        return f"{name}<{CLASSES[self.kind]}>"

    def shape(self) -> Params:
        sizes = {"vertices": self.vertices, "scale": self.scale, "columns": self.columns}
        return _SHAPE(seed=self.seed, **sizes, permuted=int(self.permuted), share=self.share)


def recipe(
    kind: str,
    scale: int | None = None,
    edge_factor: int = 16,
    seed: int = 1,
    directed: bool = False,
    permute: bool | None = None,
    vertices: int | None = None,
    rows: int | None = None,
    cols: int | None = None,
    missing: float | None = None,
    rewired: float | None = None,
) -> Recipe:
    """The recipe for what a user asks :func:`hinterland.generate` for, or ConfigError."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"no generator is called {arguments.repr_of(kind)}; there are {', '.join(KINDS)}")
    seed, edge_factor = check_seed(seed), arguments.whole_number("edge_factor", edge_factor)
    if not 0 <= edge_factor <= 1 << 16:
        raise ConfigError(f"edge_factor {edge_factor} is not from 0 to {1 << 16}")
    given = _sizes(kind, scale=scale, vertices=vertices, rows=rows, cols=cols)
    permuted = kind not in _LOCAL if permute is None else arguments.switch("permute", permute)
    directed = arguments.switch("directed", directed)
    share = _share("missing", missing, kind, "grid", 0.0) + _share("rewired", rewired, kind, "ring", _REWIRED)

    scale = given.get("scale")
    if kind == "grid":
        rows, cols = (1 << scale // 2, 1 << scale - scale // 2) if scale is not None else (given["rows"], given["cols"])
        if rows * cols > 1 << 40:
            raise ConfigError(f"a grid of {rows} x {cols} has more than 2^40 vertices")
        edges = rows * (cols - 1) + (rows - 1) * cols
        return Recipe(kind, edges, rows * cols, 0, cols, seed, directed, permuted, share)
    count = given["vertices"] if scale is None else 1 << scale
    columns = edge_factor if kind == "ring" else 1
    return Recipe(kind, count * edge_factor, count, scale or 0, columns, seed, directed, permuted, share)


def check_seed(seed: int) -> int:
    """``seed`` as an int from 0 to 2^64 - 1, or ConfigError."""
    return arguments.whole_number("seed", seed, 0, 2**64 - 1)


def _sizes(kind: str, **sizes: int | None) -> dict[str, int]:
    given = {name: arguments.whole_number(name, size) for name, size in sizes.items() if size is not None}
    scale = given.get("scale")
    if scale is not None and not 0 <= scale <= 40:
        raise ConfigError(f"scale {scale} is not from 0 to 40: a graph has 2^scale vertices")
    ways = _SIZES.get(kind, _OTHER_SIZES)
    if given.keys() not in ways:
        wanted = ", or ".join(" and ".join(sorted(way, reverse=True)) for way in ways)
        raise ConfigError(f"a {kind} graph is sized by {wanted}, but {', '.join(given) or 'nothing'} was given")
    for name in ("vertices", "rows", "cols"):
        if name in given and not 1 <= given[name] <= 1 << 40:
            raise ConfigError(f"{name} {given[name]} is not from 1 to 2^40")
    return given


def _share(name: str, value: float | None, kind: str, of: str, default: float) -> int:
    """A part of the edges of one kind of graph, of 2^32; 0 for other kinds."""
    if value is None:
        return round(default * _WHOLE) if kind == of else 0
    part = arguments.number(name, value)
    if kind != of:
        raise ConfigError(f"{name}={part:g} is for a {of}, and a {kind} graph has no such edges; leave it out")
    if not 0 <= part <= 1:  # NaN is in no range
        raise ConfigError(f"{name} {part:g} is not from 0 to 1: it is a part of the edges")
    return round(part * _WHOLE)
