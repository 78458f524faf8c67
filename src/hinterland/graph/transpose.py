"""Lists turned round a part at a time: those of in-neighbours, of lists that may lie on storage, within a budget.

``Graph.transpose()`` builds them at once, in memory (:mod:`.build`).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from .. import _core
from ..runtime.errors import GraphError
from . import arrays
from .device_graph import DeviceGraph
from .lists import NeighborLists


class Turned:
    """The lists of in-neighbours of plain, checked lists of a graph, sorted by (number, weight), in the lists' own types. Those
    on storage are all read once here, and once for each part, of so many bytes of host memory, but at least one vertex's list.

    ``offsets``: int64 ``[num_lists + 1]``, where the list of each vertex begins. Raises GraphError: a neighbour is no vertex.
    """

    def __init__(self, lists: NeighborLists, budget: int) -> None:
        self._view, self._weight_type = DeviceGraph(lists, torch.device("cpu")), lists.weight_type
        self.offsets = torch.zeros(lists.num_lists + 1, dtype=torch.int64)
        with self._view.reading():
            bad = _core.count_listed(self._view.words, self.offsets[1:].data_ptr())
        if bad >= 0:
            raise GraphError(f"indices[{bad}] is no vertex: the file that it came from is damaged; restore it")
        torch.cumsum(self.offsets, 0, out=self.offsets)
        each = lists.listed_type.itemsize + (0 if self._weight_type is None else self._weight_type.itemsize)
        self._entries = max(1, budget // (2 * each))  # half of it, for what sorting takes
        self._vertices = max(1, budget // 32)

    def parts(self) -> Iterator[dict[str, torch.Tensor]]:
        """``indices`` and, if there are any, ``weights`` of vertices that follow each other, all of them in order."""
        first, vertices = 0, len(self.offsets) - 1
        while first < vertices:
            most = int(torch.searchsorted(self.offsets, int(self.offsets[first]) + self._entries, right=True)) - 1
            last = max(first + 1, min(most, first + self._vertices, vertices))
            yield self._part(first, last)
            first = last

    def _part(self, first: int, last: int) -> dict[str, torch.Tensor]:
        own = self.offsets[first : last + 1] - self.offsets[first]
        count, kind = int(own[-1]), arrays.WeightType(0, 0)
        found = {"indices": torch.empty(count, dtype=self._view.edge_type)}
        weights = 0
        if self._weight_type is not None:
            found["weights"] = torch.empty(count, dtype=self._weight_type)
            weights, kind = found["weights"].data_ptr(), arrays.WEIGHT_TYPES[self._weight_type]
        taken = torch.zeros(last - first, dtype=torch.int64)
        neighbors = found["indices"].data_ptr()
        with self._view.reading():
            place = (self._view.words, kind.bytes, first, last, self.offsets.data_ptr(), taken.data_ptr())
            _core.list_in_neighbors(*place, neighbors, weights)
        if not torch.equal(taken, own.diff()):
            raise GraphError("the edges changed while they were turned round; do it when nobody writes to them")
        width = self._view.edge_type.itemsize
        _core.sort_rows(own.data_ptr(), last - first, neighbors, width, weights, kind.bytes, kind.order, 0)
        return found
