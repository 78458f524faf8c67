"""Random graphs and grids, made on the CPU or on a GPU: the same graph from the same seed.

``include/hinterland/graph/generate.hpp`` says what each edge is. On the CPU the builder of :mod:`.build` walks the generator
as it walks any other edges; :mod:`.generate_on_gpu` is the GPU's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import torch

from .. import _core
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.params import address
from ..runtime.repr import type_name
from ..table import UnifiedTensor
from . import arrays
from .build import build
from .generate_on_gpu import WEIGHT_CLASSES, on_gpu
from .graph import Graph, require_graph
from .recipe import OfKind, Recipe, check_seed, recipe


def generate(
    kind: str,
    *,
    scale: int | None = None,
    edge_factor: int = 16,
    seed: int = 1,
    directed: bool = False,
    permute: bool | None = None,
    weights: str | torch.dtype | bool | None = None,
    placement: str | Mapping[str, str] = "host",
    device: torch.device | str | None = None,
    **of_kind: Unpack[OfKind],
) -> Graph:
    """A graph without self loops and duplicates, neighbours sorted.

    Args:
        kind: ``"kronecker"``: Graph500's, 2^scale vertices, A, B, C = 0.57, 0.19, 0.19. ``"uniform"``: both ends of each
            edge uniform among 2^scale, or ``vertices``. ``"web"``: pages that link to each other as those of the web do,
            mostly near, and more to the popular. ``"ring"``: each vertex is joined with the next ``edge_factor``.
            ``"grid"``: two-dimensional, ``rows`` x ``cols``, or as near to a square as 2^scale vertices can be.
        edge_factor: edges drawn for each vertex, before self loops and duplicates go; a grid has its own.
        seed: 0 to 2^64 - 1. The same seed gives the same graph on every device, for any number of threads.
        directed: keeps only the direction in which each edge is drawn (a grid's lead right and down, a ring's ahead).
        permute: whether vertices get random numbers, instead of a grid's row by row, a ring's round about and a web's by
            host and path. By default those of Kronecker graphs and grids do. Uniform graphs have none to permute.
        weights: ``"uint8"``, ``"int32"`` or ``"float32"`` (see :func:`random_weights`); True is ``"int32"``.
        placement: where each array goes; see Graph.
        device: where it is made; by default on the GPU, if there is one, which needs room for what is placed there and for
            a piece of the graph. What does not fit is made on the CPU.
        of_kind: what only some kinds have: ``vertices``, instead of ``scale``, of a uniform graph, a web or a ring;
            ``rows`` and ``cols`` of a grid, and ``missing``, the part of its edges that are left out (none); ``rewired``,
            the part of a ring's edges that lead to any vertex instead (0.02).

    Raises:
        ConfigError: sizes or options that do not go with the kind, or are out of range.
        OutOfMemory: the graph, or what building it needs, does not fit.
    """
    wanted = recipe(kind, scale, edge_factor, seed, directed, permute, **of_kind)
    dtype = None if weights is None or weights is False else _weight_dtype(weights)
    device = devices.as_device(device)
    if device.type == "cpu":
        return _on_cpu(wanted, dtype, placement)
    with torch.cuda.device(device):  # where placement "gpu" goes, too
        graph = on_gpu(wanted, dtype, placement, device)
        return _on_cpu(wanted, dtype, placement) if graph is None else graph


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
    seed = check_seed(seed)
    place = arrays.placements(placement)["weights"]
    held = UnifiedTensor.empty((graph.num_edges,), drawn, placement=arrays.host_place(place))
    indptr, indices, _ = graph.checked_rows()
    names = (graph.num_edges, address(graph.original_ids), seed)
    _core.generate_weights(*arrays.rows_of(indptr, indices), *names, *arrays.weights_of(held.cpu()))
    return graph.with_weights(arrays.placed(held.cpu(), drawn, "gpu") if place == "gpu" else held)


def _weight_dtype(name: str | torch.dtype | bool) -> torch.dtype:
    names = {type_name(dtype): dtype for dtype in WEIGHT_CLASSES}
    known = isinstance(name, str | torch.dtype)
    found = names.get("int32" if name is True else str(name).removeprefix("torch.") if known else "")
    if found is None:
        raise ConfigError(f"random weights are {', '.join(names)}, not {arguments.repr_of(name)}")
    return found


def _on_cpu(recipe: Recipe, weights: torch.dtype | None, placement: str | Mapping[str, str]) -> Graph:
    rules = _core.EdgeRules(mirror=not recipe.directed, drop_loops=True)
    lists = build(recipe.source(), rules, recipe.vertices, remove_duplicates=True, placement=placement)
    graph = Graph.of(lists, directed=recipe.directed)
    return graph if weights is None else random_weights(graph, weights, recipe.seed, placement)
