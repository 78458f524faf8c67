"""Edges to CSR: counted, placed, sorted and thinned out in parallel by ``native/graph/build.cpp``.

The builder walks the edges twice, once to count and once to place them, and never stores them as a list or mirrors them in
memory: at its peak it holds the graph, 8 bytes a vertex and, only if duplicates are removed, the entries with their duplicates;
8 bytes an entry more where the order of the input is kept. The entries of a text, which are the readers' own, are given back
as they are placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .. import _core
from ..memory import report
from ..memory.limits import require_host_memory, returning
from ..runtime import arguments
from ..runtime.errors import GraphError
from ..table import UnifiedTensor
from . import arrays
from .lists import NeighborLists


def transposed(lists: NeighborLists) -> NeighborLists:
    """The lists with every edge turned round, in the same places, sorted by (number, weight). GraphError as ``rebuilt``."""
    return rebuilt(lists, _core.EdgeRules(flip=True), placement=lists.places)


def rebuilt(lists: NeighborLists, rules: _core.EdgeRules, **options: Any) -> NeighborLists:
    """New lists of the edges of old ones, whose vertices are those that have lists; ``options`` are those of :func:`build`.
    Raises GraphError: the arrays were changed since the lists were made; OutOfMemory: the new arrays, or what building them
    needs, do not fit."""
    indptr, indices, weights = lists.checked_rows()
    vertices = lists.num_lists
    edges = _core.csr_edges(indptr.data_ptr(), indices.data_ptr(), vertices, lists.num_edges, indices.element_size())
    try:
        return build(edges, rules, vertices, weights, **options)
    except EdgeOutside as outside:
        arrays.check_neighbors(indices, vertices)
        raise _changed() from outside


def _changed() -> GraphError:
    return GraphError("the edges changed while a graph was being built from them; build it when nobody writes to them")


class EdgeOutside(Exception):
    """An edge with an end that is no vertex."""

    def __init__(self, position: int) -> None:
        self.position = position


def build(
    edges: _core.EdgeSource,
    rules: _core.EdgeRules,
    num_vertices: int,
    weights: torch.Tensor | torch.dtype | None = None,
    *,
    remove_duplicates: bool = False,
    sort_neighbors: bool = True,
    placement: str | Mapping[str, str] = "host",
    runs: int = 0,
) -> NeighborLists:
    """Neighbour lists from any native edge source; ``weights`` are those of its edges, on the CPU.

    ``runs``: the source is a parser's runs (``EdgeParser.runs``), which hold so many bytes; ``weights`` is then their type.
    """
    remove_duplicates, sort_neighbors = arguments.switches(remove_duplicates=remove_duplicates, sort_neighbors=sort_neighbors)
    final = arrays.placements(placement)
    host = arrays.host_places(final)
    # What will be copied once more, without its duplicates, is in pageable memory first, too.
    first = dict.fromkeys(arrays.NAMES, "pageable") if remove_duplicates else host

    held = {"indptr": UnifiedTensor.empty((num_vertices + 1,), torch.int64, placement=first["indptr"])}
    offsets = _address(held["indptr"])
    entries, bad = _core.count_entries(edges, rules, num_vertices, offsets)
    if bad >= 0:
        raise EdgeOutside(bad)
    dtype = arrays.index_dtype(num_vertices)
    given = weights.dtype if isinstance(weights, torch.Tensor) else weights
    types = {"indices": dtype} if given is None else {"indices": dtype, "weights": given}
    with returning(runs):
        require_host_memory(entries * sum(kind.itemsize for kind in types.values()), report().nbytes)
        for name, kind in types.items():  # runs give memory back where untouched pages are filled
            held[name] = UnifiedTensor._allocate((entries,), kind, first[name], touch=not runs)
    neighbors = (_address(held["indices"]), dtype.itemsize)
    how = (0, 0) if given is None else arrays.WEIGHT_TYPES[given][:2]
    weights_from = (weights.data_ptr() if isinstance(weights, torch.Tensor) else 0, *how)
    weights_to = (0 if given is None else _address(held["weights"]), *how)

    if sort_neighbors or remove_duplicates:
        if runs:
            _core.scatter_runs(edges, offsets, num_vertices, *neighbors, *weights_to)
        else:
            _core.scatter_entries(edges, rules, num_vertices, offsets, *neighbors, *weights_from, *weights_to)
        _check_placed(held["indptr"], entries)
        kept = None
        if remove_duplicates:
            kept = UnifiedTensor.empty((num_vertices + 1,), torch.int64, placement="pageable")
        _core.sort_rows(offsets, num_vertices, *neighbors, *weights_to, 0 if kept is None else _address(kept))
        if kept is not None:
            held = _compact(held, kept, host)
    else:
        slots = UnifiedTensor.empty((entries,), torch.int64, placement="pageable")
        _core.scatter_order(edges, rules, num_vertices, offsets, _address(slots))
        _check_placed(held["indptr"], entries)
        _core.sort_rows(offsets, num_vertices, _address(slots), slots.dtype.itemsize, 0, 0, 0, 0)
        _core.resolve_entries(edges, rules, _address(slots), entries, *neighbors, *weights_from, *weights_to)
    return NeighborLists(held, is_sorted=True if sort_neighbors or remove_duplicates else None).moved(final)


def _check_placed(offsets: UnifiedTensor, entries: int) -> None:
    """GraphError where the edges that were placed are not those that were counted: rows would overlap."""
    if _core.first_wrong_offset(_address(offsets), offsets.shape[0] - 1, entries) >= 0:
        raise _changed()


def _compact(held: dict[str, UnifiedTensor], kept: UnifiedTensor, host: dict[str, str]) -> dict[str, UnifiedTensor]:
    """The arrays without the entries that ``kept``, the new offsets, leaves out. Lets the old ones go one by one."""
    old_offsets = held.pop("indptr")
    num_vertices, stay = kept.shape[0] - 1, int(kept.cpu()[-1])
    result = {"indptr": UnifiedTensor.from_tensor(kept.cpu(), placement=host["indptr"])}
    for name in list(held):
        old = held.pop(name)
        new = result[name] = UnifiedTensor.empty((stay,), old.dtype, placement=host[name])
        _core.compact_rows(
            _address(old_offsets), _address(kept), num_vertices, _address(old), _address(new), old.dtype.itemsize
        )
    return result


def _address(array: UnifiedTensor) -> int:
    return array.cpu().data_ptr()
