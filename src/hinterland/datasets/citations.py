"""Lists as those of papers that cite each other (``include/hinterland/datasets/citations.hpp``), made where they are to lie.

Offsets come first, from the length of each list. So each list is made by itself: on the CPU by a thread, or on a GPU some at a
time, which are then copied to their place. Nothing is counted or thrown away, and numbers of edges are exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import _core
from ..graph import arrays
from ..graph.build import rebuilt
from ..graph.lists import NeighborLists
from ..memory import report
from ..memory.copies import copy
from ..memory.limits import require_host_memory
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, struct
from ..runtime.thresholds import FEATURE_BYTES
from ..table import UnifiedTensor

BLOCK = 256
BLOCKS_PER_SM = 8  # of 256 threads, all that a multiprocessor holds
FEATURES = "fill_features"
KERNELS = KernelFile("datasets/generate.cu", (FEATURES, "fill_citations<int32_t>", "fill_citations<int64_t>"))
_CitationParams = struct("datasets::CitationParams")
_ID = {torch.int32: "int32_t", torch.int64: "int64_t"}


def citation_lists(
    edges: int,
    seed: int,
    vertices: tuple[int, int],
    fields: tuple[int, int],
    mirror: bool,
    placement: str | Mapping[str, str],
    device: torch.device,
) -> NeighborLists:
    """Lists with so many entries in all, sorted; with ``mirror`` each edge is in the lists of both its ends.

    Args:
        edges: at most n (n - 1) / 2.
        seed: of lengths and neighbours.
        vertices: the seed of their numbers, as of ``_core.CommunityVertices``, and how many they are.
        fields: of an area, and areas.
        placement: of each array.
        device: where neighbours are drawn. Lists are sorted, and mirrored, on the CPU.
    """
    count, final = vertices[1], arrays.placements(placement)
    host = dict.fromkeys(arrays.NAMES, "pageable") if mirror else arrays.host_places(final)
    dtype = arrays.index_dtype(count)
    # Mirrored lists are made beside these.
    require_host_memory((3 if mirror else 1) * edges * dtype.itemsize, report().nbytes)
    params = _CitationParams(seed=seed, vertices_seed=vertices[0], vertices=count, fields=fields[0], areas=fields[1])
    held = {
        "indptr": UnifiedTensor.empty((count + 1,), torch.int64, placement=host["indptr"]),
        "indices": UnifiedTensor._allocate((edges,), dtype, host["indices"]),
    }
    indptr, indices = held["indptr"].cpu(), held["indices"].cpu()
    _core.citation_offsets(params.address, edges, indptr.data_ptr())
    if device.type == "cuda":
        _fill_by_gpu(params, indptr, indices, device)
    else:
        params.end, params.indptr, params.indices = count, indptr.data_ptr(), indices.data_ptr()
        _core.fill_citations(params.address, dtype.itemsize)
    if mirror:  # no edge leads to an older vertex, so none is its own reverse
        return rebuilt(NeighborLists(held), _core.EdgeRules(mirror=True), placement=final)
    _core.sort_rows(indptr.data_ptr(), count, indices.data_ptr(), dtype.itemsize, 0, 0, 0, 0)
    return NeighborLists(held, is_sorted=True).moved(final)


def _fill_by_gpu(params: Params, indptr: torch.Tensor, indices: torch.Tensor, device: torch.device) -> None:
    """The same numbers, drawn by the GPU and copied to their place."""
    grid = devices.sm_count(device) * BLOCKS_PER_SM
    piece, vertices, first = FEATURE_BYTES // indices.itemsize, len(indptr) - 1, 0
    while first < vertices:
        most = indptr[first] + piece
        end = min(max(int(torch.searchsorted(indptr, most, right=True)) - 1, first + 1), first + piece, vertices)
        begin, until = int(indptr[first]), int(indptr[end])
        here = indptr[first : end + 1].to(device)
        made = torch.empty(until - begin, dtype=indices.dtype, device=device)
        params.first, params.end, params.indptr, params.indices = first, end, here.data_ptr(), made.data_ptr()
        launch(KERNELS, f"fill_citations<{_ID[indices.dtype]}>", device, grid, BLOCK, params)
        copy(indices[begin:until], made)
        first = end
