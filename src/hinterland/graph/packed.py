"""Packed lists as arrays: made, decoded and checked by all threads (``native/graph/compress.cpp``).

The format is stated in ``include/hinterland/graph/compress.hpp``.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from .. import _core
from ..runtime.errors import GraphError
from ..table import UnifiedTensor
from . import arrays


class PackedLists(NamedTuple):
    """Lists of vertices for as many vertices, in host memory."""

    offsets: torch.Tensor  # neighbours before each list, int64 [num_vertices + 1]
    starts: torch.Tensor  # where each list begins in the stream, int64 [num_vertices + 1]
    stream: torch.Tensor  # the lists, uint8
    num_edges: int  # neighbours of all lists together

    def unpacked(self, placement: str = "pageable") -> UnifiedTensor:
        """The neighbours, ``[num_edges]``. Raises GraphError: names the offset that is wrong, or the vertex whose list is."""
        arrays.check_offsets(self.offsets, self.num_edges)
        dtype = arrays.index_dtype(self._num_vertices)
        indices = UnifiedTensor.empty((self.num_edges,), dtype, placement=placement)
        _refuse(_core.unpack_rows(*self._rows(), indices.cpu().data_ptr(), dtype.itemsize))
        return indices

    def first_neighbors(self, count: int) -> torch.Tensor:
        """The first ``count`` neighbours of each vertex, ``[count, num_vertices]``; -1 for none. GraphError as ``unpacked``."""
        adjacency_prefix = torch.empty((count, self._num_vertices), dtype=arrays.index_dtype(self._num_vertices))
        _refuse(_core.unpack_prefix(*self._rows(), adjacency_prefix.data_ptr(), adjacency_prefix.element_size(), count))
        return adjacency_prefix

    def check(self, weights: torch.Tensor | None = None, directed: bool = True) -> None:
        """Raises GraphError unless the lists are what their offsets promise. Each edge of an undirected graph has its reverse
        there, with the same weight."""
        vertices, starts, size = self._num_vertices, self.starts, self.stream.numel()
        arrays.check_offsets(self.offsets, self.num_edges)
        if starts.numel() != vertices + 1:
            raise GraphError(f"packed_offsets holds {starts.numel()} offsets, but {vertices} vertices need {vertices + 1}")
        wrong, last = _core.first_wrong_offset(starts.data_ptr(), vertices, int(starts[-1])), int(starts[-1])
        if wrong >= 0 or _core.packed_bytes(max(last, 0)) != size or self.num_edges > 8 * size:
            where = f"packed_offsets[{wrong}] is {int(starts[wrong])}" if wrong >= 0 else f"packed_offsets ends with {last}"
            raise GraphError(f"{where}, but the packed lists take {size} bytes; restore the graph or compress it again")
        if directed:
            wrong, mirrored = _core.first_wrong_list(*self._rows()), True
        else:
            wrong, mirrored = _core.check_undirected(*self._rows(), *arrays.weights_of(weights))
        _refuse(wrong)
        if not mirrored:
            raise GraphError(
                "not every edge of this undirected graph has its reverse, with the same weight; compress the original graph "
                "again"
            )

    @property
    def _num_vertices(self) -> int:
        return self.offsets.numel() - 1

    def _rows(self) -> tuple[int, int, int, int, int, int, int]:
        """The lists of all vertices as native code takes them: addresses, bytes of the lists, rows, vertices and edges."""
        offsets, starts, stream, edges = self
        vertices = self._num_vertices
        return offsets.data_ptr(), starts.data_ptr(), stream.data_ptr(), stream.numel(), vertices, vertices, edges


def pack(indptr: torch.Tensor, indices: torch.Tensor, host: dict[str, str]) -> tuple[UnifiedTensor, UnifiedTensor] | None:
    """``packed_offsets`` and ``packed`` of right lists on the CPU, where ``host`` says for ``indptr`` and ``indices``; None
    where a list does not ascend, or names no vertex."""
    vertices, width, edges = indptr.numel() - 1, indices.element_size(), indices.numel()
    starts = UnifiedTensor.empty((vertices + 1,), torch.int64, placement=host["indptr"])
    rows = (indptr.data_ptr(), vertices, vertices, indices.data_ptr(), width, edges, starts.cpu().data_ptr())
    size = _core.pack_offsets(*rows)
    if size < 0:
        return None
    stream = UnifiedTensor.empty((_core.packed_bytes(size),), torch.uint8, placement=host["indices"])
    _core.pack_rows(*rows, stream.cpu().data_ptr())
    return starts, stream


def _refuse(wrong: int) -> None:
    """Raises GraphError where ``wrong`` is the vertex of a packed list that is damaged, and not -1."""
    if wrong >= 0:
        raise GraphError(f"the packed list of vertex {wrong} is damaged; restore the graph or compress it again")
