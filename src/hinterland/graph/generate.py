"""Random graphs and grids, made on the CPU or on a GPU: the same graph from the same seed.

``include/hinterland/graph/generate.hpp`` says what each edge is. On the CPU the builder of :mod:`.build` walks the generator
as it walks any other edges. On a GPU the rows are made in pieces that fit its memory: the entries of a range of rows, as keys,
are sorted and thinned out by torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from .. import _core
from ..memory import UnifiedTensor
from ..memory.copies import copy
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, struct
from ..runtime.shown import type_name
from . import arrays
from .build import build
from .graph import Graph, require_graph
from .lists import NeighborLists

_CLASSES = {"kronecker": "Kronecker", "uniform": "Uniform", "grid": "Grid"}
KINDS = tuple(_CLASSES)

_WEIGHT_CLASSES = {
    torch.uint8: "uint8_t",
    torch.int32: "int32_t",
    torch.float32: "float",
}

_KERNELS = KernelFile(
    "graph/generate.cu",
    (
        *(f"{kernel}<{name}>" for name in _CLASSES.values() for kernel in ("count_rows", "row_keys")),
        *(f"key_weights<{name}>" for name in _WEIGHT_CLASSES.values()),
    ),
    apart=True,
)
_SHAPE, _COUNT, _LIST, _WEIGH = (
    struct(f"graph::{name}") for name in ("GraphShape", "CountRowsParams", "RowKeysParams", "KeyWeightsParams")
)
_BLOCK = 256
# Chosen, not measured: entries sorted at once, if there is room (more would not be faster), those of which the CPU is faster,
# and one part in so many of what is free, which is left so.
_PIECE, _LEAST_PIECE, _LEFT = 1 << 28, 1 << 20, 10
_BLOCKS_PER_SM = 8  # of 256 threads, all that a multiprocessor holds
_SORT_BYTES = 64  # GPU memory for each entry of a piece: its key, torch.sort's outputs and buffers, the unique keys


@dataclass(frozen=True)
class _Recipe:
    """Everything that decides the graph, but for its weights."""

    kind: str
    edges: int
    vertices: int
    scale: int
    columns: int
    seed: int

    def source(self) -> _core.EdgeSource:
        kind = KINDS.index(self.kind)
        return _core.generated_edges(kind, self.edges, self.seed, self.vertices, self.scale, self.columns)

    def kernel(self, name: str) -> str:
        return f"{name}<{_CLASSES[self.kind]}>"

    def shape(self) -> Params:
        return _SHAPE(seed=self.seed, vertices=self.vertices, scale=self.scale, columns=self.columns)


def generate(
    kind: str,
    *,
    scale: int | None = None,
    edge_factor: int = 16,
    vertices: int | None = None,
    rows: int | None = None,
    cols: int | None = None,
    seed: int = 1,
    weights: str | torch.dtype | bool | None = None,
    placement: str | Mapping[str, str] = "host",
    device: torch.device | str | None = None,
) -> Graph:
    """An undirected graph without self loops and duplicates, neighbours sorted.

    Vertex numbers are permuted, but for uniform graphs, whose numbers tell nothing.

    Args:
        kind: ``"kronecker"``: Graph500's, 2^scale vertices, A, B, C = 0.57, 0.19, 0.19. ``"uniform"``: both ends of each
            edge uniform among 2^scale, or ``vertices``. ``"grid"``: two-dimensional, ``rows`` x ``cols``, or as near to a
            square as 2^scale vertices can be.
        edge_factor: edges drawn for each vertex, before self loops and duplicates go; a grid has its own.
        seed: 0 to 2^64 - 1. The same seed gives the same graph on every device, for any number of threads.
        weights: ``"uint8"``, ``"int32"`` or ``"float32"`` (see :func:`random_weights`); True is ``"int32"``.
        placement: where each array goes; see Graph.
        device: where it is made; by default on the GPU, if there is one. What does not fit a GPU's memory is made on the
            CPU.

    Raises:
        ConfigError: sizes that do not go with the kind, or are out of range.
        OutOfMemory: the graph, or what building it needs, does not fit.
    """
    recipe = _recipe(kind, scale, edge_factor, vertices, rows, cols, seed)
    dtype = None if weights is None or weights is False else _weight_dtype(weights)
    device = devices.as_device(device)
    if device.type == "cpu":
        return _on_cpu(recipe, dtype, placement)
    with torch.cuda.device(device):  # where placement "gpu" goes, too
        graph = _on_gpu(recipe, dtype, placement, device)
        return _on_cpu(recipe, dtype, placement) if graph is None else graph


def random_weights(
    graph: Graph, dtype: str | torch.dtype = "int32", seed: int = 1, placement: str | Mapping[str, str] = "host"
) -> Graph:
    """``graph`` with random weights: the same arrays, and new weights that take the place of any it has.

    A weight depends on the seed and the edge's two ends alone, so both directions of an edge and parallel edges have the same,
    and a generated graph has those that ``generate(..., weights=dtype, seed=seed)`` gives it, reordered or not.

    Args:
        graph: any graph.
        dtype: ``"uint8"`` or ``"int32"``: uniform from 1 to 255, as in the GAP suite. ``"float32"``: uniform in [1/256, 1).
        seed: 0 to 2^64 - 1.
        placement: where the weights go; see Graph.

    Raises:
        ConfigError: another type, seed or placement.
        OutOfMemory: the weights do not fit.
    """
    drawn = _weight_dtype(dtype)
    require_graph(graph)
    seed = _check_seed(seed)
    place = arrays.placements(placement)["weights"]
    held = UnifiedTensor.empty((graph.num_edges,), drawn, placement=arrays.host_place(place))
    indptr, indices, _ = graph.checked_rows()
    kind = arrays.WEIGHT_TYPES[drawn]
    _core.generate_weights(
        indptr.data_ptr(),
        graph.num_vertices,
        indices.data_ptr(),
        indices.element_size(),
        graph.num_edges,
        0 if graph.outer is None else graph.outer.data_ptr(),
        seed,
        held.cpu().data_ptr(),
        kind.bytes,
        kind.order,
    )
    return graph.with_weights(arrays.placed(held.cpu(), drawn, "gpu") if place == "gpu" else held)


def _weight_dtype(name: str | torch.dtype | bool) -> torch.dtype:
    names = {type_name(dtype): dtype for dtype in _WEIGHT_CLASSES}
    known = isinstance(name, str | torch.dtype)
    found = names.get("int32" if name is True else str(name).removeprefix("torch.") if known else "")
    if found is None:
        raise ConfigError(f"random weights are {', '.join(names)}, not {arguments.shown(name)}")
    return found


def _check_seed(seed: int) -> int:
    return arguments.whole_number("seed", seed, 0, 2**64 - 1)


def _recipe(
    kind: str,
    scale: int | None,
    edge_factor: int,
    vertices: int | None,
    rows: int | None,
    cols: int | None,
    seed: int,
) -> _Recipe:
    if not isinstance(kind, str) or kind not in KINDS:
        raise ConfigError(f"no generator is called {arguments.shown(kind)}; there are {', '.join(KINDS)}")
    seed, edge_factor = _check_seed(seed), arguments.whole_number("edge_factor", edge_factor)
    sizes = {"scale": scale, "vertices": vertices, "rows": rows, "cols": cols}
    given = {name: arguments.whole_number(name, size) for name, size in sizes.items() if size is not None}
    scale = given.get("scale")
    if scale is not None and not 0 <= scale <= 40:
        raise ConfigError(f"scale {scale} is not from 0 to 40: a graph has 2^scale vertices")
    if not 0 <= edge_factor <= 1 << 16:
        raise ConfigError(f"edge_factor {edge_factor} is not from 0 to {1 << 16}")
    ways = {"kronecker": [{"scale"}], "uniform": [{"scale"}, {"vertices"}], "grid": [{"scale"}, {"rows", "cols"}]}[kind]
    if given.keys() not in ways:
        wanted = ", or ".join(" and ".join(sorted(way, reverse=True)) for way in ways)
        raise ConfigError(f"a {kind} graph is sized by {wanted}, but {', '.join(given) or 'nothing'} was given")
    for name in ("vertices", "rows", "cols"):
        if name in given and not 1 <= given[name] <= 1 << 40:
            raise ConfigError(f"{name} {given[name]} is not from 1 to 2^40")

    if kind == "grid":
        rows, cols = (1 << scale // 2, 1 << scale - scale // 2) if scale is not None else (given["rows"], given["cols"])
        if rows * cols > 1 << 40:
            raise ConfigError(f"a grid of {rows} x {cols} has more than 2^40 vertices")
        return _Recipe(kind, rows * (cols - 1) + (rows - 1) * cols, rows * cols, 0, cols, seed)
    count = given["vertices"] if scale is None else 1 << scale
    return _Recipe(kind, count * edge_factor, count, scale or 0, 1, seed)


def _on_cpu(recipe: _Recipe, weights: torch.dtype | None, placement: str | Mapping[str, str]) -> Graph:
    rules = _core.EdgeRules(mirror=True, drop_loops=True)
    lists = build(
        recipe.source(),
        rules,
        recipe.vertices,
        remove_duplicates=True,
        placement=placement,
    )
    graph = Graph.of(lists, directed=False)
    return graph if weights is None else random_weights(graph, weights, recipe.seed, placement)


def _on_gpu(
    recipe: _Recipe, weights: torch.dtype | None, placement: str | Mapping[str, str], device: torch.device
) -> Graph | None:
    """The graph made by ``device``; None where its memory is too small for that."""
    bits = max((recipe.vertices - 1).bit_length(), 1)
    place = arrays.placements(placement)
    if 2 * bits > 62:
        return None  # a row and a neighbour do not fit one key
    piece = _piece_size(recipe, weights, place, devices.free_bytes(device))
    if piece is None:
        return None
    try:
        parts = _rows_in_pieces(recipe, weights, bits, piece, device)
        if parts is None:
            return None
        indptr, indices, edge_weights = parts
        held = {
            "indptr": _join([indptr], torch.int64, place["indptr"], device),
            "indices": _join(indices, arrays.index_dtype(recipe.vertices), place["indices"], device),
        }
        if weights is not None:
            held["weights"] = _join(edge_weights, weights, place["weights"], device)
    except torch.OutOfMemoryError:
        return None
    return Graph.of(NeighborLists(held, is_sorted=True), directed=False)


def _piece_size(recipe: _Recipe, weights: torch.dtype | None, place: dict[str, str], free: int) -> int | None:
    """How many entries are sorted at once so that all fits into ``free`` bytes of GPU memory; None if nothing does."""
    entries = 2 * recipe.edges
    element = arrays.index_dtype(recipe.vertices).itemsize
    results = element * entries * (2 if place["indices"] == "gpu" else 1)
    if weights is not None:
        results += weights.itemsize * entries * (2 if place["weights"] == "gpu" else 1)
    offsets = 8 * 5 * recipe.vertices  # degrees, their sums, the offsets, and what finds the rows of a piece
    room = (free - free // _LEFT - results - offsets) // _SORT_BYTES
    return min(_PIECE, room) if room >= min(_LEAST_PIECE, entries) else None


def _rows_in_pieces(
    recipe: _Recipe, weights: torch.dtype | None, bits: int, piece: int, device: torch.device
) -> tuple[torch.Tensor, list[torch.Tensor], list[torch.Tensor]] | None:
    """Offsets, and neighbours and weights piece by piece; None if one row alone is larger than ``piece``."""
    grid = devices.sm_count(device) * _BLOCKS_PER_SM
    ends = torch.zeros(recipe.vertices + 1, dtype=torch.int64, device=device)
    counting = _COUNT(shape=recipe.shape(), edges=recipe.edges, degrees=ends[1:].data_ptr())
    launch(_KERNELS, recipe.kernel("count_rows"), device, grid, _BLOCK, counting)
    if int(ends.max()) > piece:
        return None
    ends = ends.cumsum(0)
    total = int(ends[-1])

    indptr = torch.zeros(recipe.vertices + 1, dtype=torch.int64, device=device)
    indices: list[torch.Tensor] = []
    edge_weights: list[torch.Tensor] = []
    cursor = torch.zeros(1, dtype=torch.int64, device=device)
    row, done, kept = 0, 0, 0
    while done < total:
        # As many whole rows as a piece holds.
        limit = torch.tensor([done + piece], device=device)
        end = recipe.vertices if total <= done + piece else int(torch.searchsorted(ends, limit, right=True)) - 1
        until = int(ends[end])
        keys = torch.empty(until - done, dtype=torch.int64, device=device)
        cursor.zero_()
        listing = _LIST(
            shape=recipe.shape(),
            edges=recipe.edges,
            first_row=row,
            end_row=end,
            bits=bits,
            cursor=cursor.data_ptr(),
            keys=keys.data_ptr(),
        )
        launch(_KERNELS, recipe.kernel("row_keys"), device, grid, _BLOCK, listing)
        keys = torch.unique_consecutive(keys.sort().values)
        firsts = torch.arange(row + 1, end + 1, dtype=torch.int64, device=device) << bits
        indptr[row + 1 : end + 1] = torch.searchsorted(keys, firsts) + kept
        if weights is not None:
            drawn = torch.empty(keys.numel(), dtype=weights, device=device)
            weighing = _WEIGH(keys=keys.data_ptr(), count=keys.numel(), bits=bits, seed=recipe.seed, weights=drawn.data_ptr())
            launch(_KERNELS, f"key_weights<{_WEIGHT_CLASSES[weights]}>", device, grid, _BLOCK, weighing)
            edge_weights.append(drawn)
        kept += keys.numel()
        indices.append((keys & ((1 << bits) - 1)).to(arrays.index_dtype(recipe.vertices)))
        row, done = end, until
        del keys  # before the next piece is allocated
    return indptr, indices, edge_weights


def _join(parts: list[torch.Tensor], dtype: torch.dtype, place: str, device: torch.device) -> arrays.Array:
    """One array in its place from GPU tensors, each of which is let go as soon as it is copied."""
    shape = (sum(part.numel() for part in parts),)
    held: arrays.Array
    if place == "gpu":
        held = into = torch.empty(shape, dtype=dtype, device=device)
    else:
        held = UnifiedTensor.empty(shape, dtype, placement=place)
        into = held.cpu()  # a copy to the CPU's view waits until the data is there
    at = 0
    while parts:
        part = parts.pop(0)
        copy(into[at : at + part.numel()], part)
        at += part.numel()
    return held
