"""What a reordered graph remembers: which vertex of the graph that a user knows each of its own vertices is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .. import _core
from ..memory.copies import moved
from ..runtime import arguments
from ..runtime.capture import beside_capture, capturing
from ..runtime.errors import ConfigError, GraphError, IndexOutOfRange
from ..table import UnifiedTensor
from . import arrays
from .lists import NeighborLists

_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # which torch neither clamps nor compares


class Order:
    """A permutation of the vertices: ``original_ids[i]`` is the user's number of vertex i of the graph, int64 on the CPU."""

    def __init__(self, original_ids: torch.Tensor) -> None:
        self.original_ids = original_ids

    @cached_property
    def copied(self) -> torch.Tensor:
        """A copy of ``original_ids`` for users, who may change it; ``original_ids`` itself indexes arrays, and must stay a
        permutation."""
        return self.original_ids.clone()

    @cached_property
    def internal_ids(self) -> torch.Tensor:
        """The way back: ``internal_ids[v]`` is the graph's own number of the user's vertex v, int64 on the CPU."""
        numbers = np.empty_like(self.original_ids.numpy())  # of numpy, which wakes no threads for short loops
        numbers[self.original_ids.numpy()] = np.arange(len(numbers))
        return torch.from_numpy(numbers)

    def original_ids_on(self, device: torch.device, lookups: int) -> torch.Tensor:
        """``original_ids`` for ``lookups`` of its numbers on ``device``: a GPU reads few of them in host memory, and otherwise
        gets a copy."""
        stays = self._stays(device, lookups)
        with beside_capture(device):
            return self._original_table.cuda(device) if stays else moved(self.original_ids, device)

    def internal_ids_on(self, device: torch.device, lookups: int) -> torch.Tensor:
        """``internal_ids`` in the same way."""
        stays = self._stays(device, lookups)
        with beside_capture(device):
            return self._internal_table.cuda(device) if stays else moved(self.internal_ids, device)

    def _stays(self, device: torch.device, lookups: int) -> bool:
        # A lookup over the link is a request of 32 bytes, a number that is copied 8. A copy would not outlive a capture.
        return device.type != "cpu" and (4 * lookups < len(self.original_ids) or capturing())

    @cached_property
    def _original_table(self) -> UnifiedTensor:
        table = UnifiedTensor.from_tensor(self.original_ids)
        self.original_ids = table.cpu()  # the only copy
        return table

    @cached_property
    def _internal_table(self) -> UnifiedTensor:
        table = UnifiedTensor.from_tensor(self.internal_ids)
        self.internal_ids = table.cpu()
        return table

    def __reduce__(self) -> tuple[Any, ...]:
        return Order, (self.original_ids,)

    def after(self, before: Order | None) -> Order:
        """The order of a graph that was reordered ``before`` and then once more, by this one."""
        return self if before is None else Order(before.original_ids[self.original_ids])

    def to_original(self, values: torch.Tensor, vertices: bool) -> torch.Tensor:
        """Per-vertex values ``[..., V]`` in the user's order; with ``vertices``, values from 0 on are renumbered too."""
        if arguments.dense("values", values).ndim == 0 or values.shape[-1] != len(self.original_ids):
            raise ConfigError(
                f"values have shape {tuple(values.shape)}, but the last extent must be the graph's {len(self.original_ids)} "
                f"vertices"
            )
        if vertices:
            if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
                raise ConfigError(f"values are {values.dtype}, but with vertices=True they are vertex numbers, as int64")
            values = values.long() if values.dtype in _UNSIGNED else values
            most = int(values.max()) if values.numel() else -1
            if most >= len(self.original_ids):
                raise IndexOutOfRange(f"values name vertex {most}, but there are {len(self.original_ids)}, numbered from 0")
            numbers = self.original_ids.to(values.device)[values.clamp(min=0).long()].to(values.dtype)
            values = torch.where(values < 0, values, numbers)
        return values[..., self.internal_ids.to(values.device)]


def checked(original_ids: torch.Tensor, num_vertices: int) -> Order:
    """The order, once it is known to be a permutation; GraphError otherwise."""
    if tuple(original_ids.shape) != (num_vertices,):
        raise GraphError(f"the order holds {tuple(original_ids.shape)} numbers, but the graph has {num_vertices} vertices")
    at = _core.first_wrong_neighbor(original_ids.data_ptr(), original_ids.element_size(), num_vertices, num_vertices)
    seen = np.zeros(num_vertices, np.bool_)
    if at < 0:
        seen[original_ids.numpy()] = True
    if not seen.all():
        raise GraphError(
            f"order[{at}] is {int(original_ids[at])}, which is no vertex"
            if at >= 0
            else f"the order is no permutation: it leaves out vertex {int(seen.argmin())}"
        )
    return Order(original_ids)


def reordered(lists: NeighborLists, order: Order, placement: str | Mapping[str, str] | None) -> NeighborLists:
    """The lists in which vertex i is vertex ``order.original_ids[i]`` of these: plain, sorted, by default placed as these are.
    Raises
    GraphError: the arrays were changed since the lists were made; OutOfMemory: the new arrays do not fit beside the old
    ones."""
    indptr, indices, weights = lists.checked_rows()
    places = arrays.placements(lists.places if placement is None else placement)
    host = arrays.host_places(places)
    vertices, edges, dtype = lists.num_lists, lists.num_edges, arrays.index_dtype(lists.num_lists)
    held = {
        "indptr": UnifiedTensor.empty((vertices + 1,), torch.int64, placement=host["indptr"]),
        "indices": UnifiedTensor.empty((edges,), dtype, placement=host["indices"]),
    }
    starts = held["indptr"].cpu()
    starts[0] = 0
    np.cumsum(np.diff(indptr.numpy())[order.original_ids.numpy()], out=starts.numpy()[1:])
    arrays.check_offsets(starts, edges)  # wrong if others are changing the graph's just now
    if weights is not None:
        held["weights"] = UnifiedTensor.empty((edges,), weights.dtype, placement=host["weights"])
    new_weights = arrays.weights_of(held["weights"].cpu() if "weights" in held else None)
    old = (indptr.data_ptr(), indices.data_ptr(), indices.element_size(), *arrays.weights_of(weights), edges)
    rows = arrays.rows_of(starts, held["indices"].cpu())
    if not _core.renumber_rows(*old, order.original_ids.data_ptr(), order.internal_ids.data_ptr(), *rows, *new_weights):
        arrays.check_neighbors(indices, vertices)
    _core.sort_rows(*rows, *new_weights, 0)
    return NeighborLists(held, is_sorted=True).moved(places)


def renumber(vertices: torch.Tensor | int, numbers: torch.Tensor | None, num_vertices: int) -> torch.Tensor:
    """``numbers[vertices]``, or the vertices themselves without ``numbers``; all of them must be vertices."""
    try:
        asked = arguments.dense("vertices", torch.as_tensor(vertices))
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"vertices are whole numbers of 64 bits, not {arguments.repr_of(vertices)}") from None
    if asked.numel() == 0:
        asked = asked.long()  # an empty list is one of floats to torch
    if asked.is_floating_point() or asked.is_complex() or asked.dtype == torch.bool:
        raise ConfigError(f"vertices are whole numbers, not {asked.dtype}")
    asked = asked.long()
    wrong = (asked < 0) | (asked >= num_vertices)
    if bool(wrong.any()):
        raise IndexOutOfRange(
            f"vertex {int(asked[wrong][0])} is not in the graph, which has {num_vertices} vertices, numbered from 0"
        )
    return asked if numbers is None else numbers.to(asked.device)[asked]
