"""Generated graphs made by a GPU: the lists of some vertices at a time, which go to their place as they are made.

A kernel runs through all edges and appends, as keys, the entries of a range of rows; torch sorts them and thins them out. So
GPU memory holds a piece, whatever the size of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import _core
from ..memory.copies import copy
from ..memory.rate import LEAST_MEASURED, check_rate
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import struct
from ..runtime.thresholds import LEAST_SORTED, LEFT_SHARE, MOST_PASSES, MOST_SORTED, SORTED_ENTRIES
from ..table import UnifiedTensor
from . import arrays
from .graph import Graph
from .lists import NeighborLists
from .recipe import CLASSES, Recipe

WEIGHT_CLASSES = {torch.uint8: "uint8_t", torch.int32: "int32_t", torch.float32: "float"}

_KERNELS = KernelFile(
    "graph/generate.cu",
    (
        *(f"{kernel}<{name}>" for name in CLASSES.values() for kernel in ("count_rows", "row_keys")),
        *(f"key_weights<{name}>" for name in WEIGHT_CLASSES.values()),
    ),
    separate_module=True,
)
_COUNT, _LIST, _WEIGH = (struct(f"graph::{name}") for name in ("CountRowsParams", "RowKeysParams", "KeyWeightsParams"))
_BLOCK = 256
_BLOCKS_PER_SM = 8  # of 256 threads, all that a multiprocessor holds
_SORT_BYTES = 64  # GPU memory for each entry of a piece: its key, torch.sort's outputs and buffers, the unique keys


def on_gpu(
    recipe: Recipe, weights: torch.dtype | None, placement: str | Mapping[str, str], device: torch.device
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
        held = _in_pieces(recipe, weights, bits, piece, place, device)
    except torch.OutOfMemoryError:
        return None
    return None if held is None else Graph.of(NeighborLists(held, is_sorted=True), directed=recipe.directed)


def _piece_size(recipe: Recipe, weights: torch.dtype | None, place: Mapping[str, str], free: int) -> int | None:
    """How many entries are sorted at once so that all fits into ``free`` bytes of GPU memory; None if nothing does."""
    entries = recipe.entries
    index = arrays.index_dtype(recipe.vertices)
    bytes_each = {"indices": index.itemsize, "weights": 0 if weights is None else weights.itemsize}
    here = sum(size * entries for name, size in bytes_each.items() if place[name] == "gpu")
    there = sum(size * entries for name, size in bytes_each.items() if place[name] != "gpu")
    offsets = 8 * 2 * recipe.vertices  # degrees and their sums
    room = free - free // LEFT_SHARE - 2 * here - (8 * recipe.vertices if place["indptr"] == "gpu" else 0)
    if room < offsets:
        return None
    # Beside managed memory, which counts as if it were the GPU's; where both do not fit, half of what there is is left to that.
    most, least = (min(MOST_SORTED, max(SORTED_ENTRIES, entries // passes)) for passes in (MOST_PASSES, 2 * MOST_PASSES))
    beside, alone = (room - there) // _SORT_BYTES, room // 2 // _SORT_BYTES
    if beside >= min(LEAST_SORTED, entries) and beside >= min(least, entries):
        return min(most, beside)
    return min(least, alone) if alone >= min(LEAST_SORTED, entries) else None


def _in_pieces(
    recipe: Recipe, weights: torch.dtype | None, bits: int, piece: int, place: Mapping[str, str], device: torch.device
) -> dict[str, arrays.Array] | None:
    """The arrays, filled piece by piece; None if one row alone is larger than ``piece``."""
    grid = devices.sm_count(device) * _BLOCKS_PER_SM
    ends = _row_ends(recipe, piece, grid, device)
    if ends is None:
        return None
    total = int(ends[-1])
    room = torch.empty(min(piece, total) * _SORT_BYTES, dtype=torch.uint8, device=device)  # that managed memory leaves free
    indptr = _Filling((recipe.vertices + 1), torch.int64, place["indptr"], device)
    indices = _Filling(total, arrays.index_dtype(recipe.vertices), place["indices"], device)
    edge_weights = None if weights is None else _Filling(total, weights, place["weights"], device)
    del room

    indptr.append(torch.zeros(1, dtype=torch.int64, device=device))
    cursor = torch.zeros(1, dtype=torch.int64, device=device)
    row, done = 0, 0
    while row < recipe.vertices:
        # As many whole rows as a piece holds; of empty ones not many more.
        end = int(torch.searchsorted(ends, torch.tensor([done + piece]), right=True)) - 1
        end = min(end, row + max(piece, LEAST_SORTED))
        until = int(ends[end])
        keys = torch.empty(until - done, dtype=torch.int64, device=device)
        cursor.zero_()
        listing = _LIST(
            shape=recipe.shape(),
            edges=recipe.edges,
            mirror=int(not recipe.directed),
            first_row=row,
            end_row=end,
            bits=bits,
            cursor=cursor.data_ptr(),
            keys=keys.data_ptr(),
        )
        if until > done:
            launch(_KERNELS, recipe.kernel("row_keys"), device, grid, _BLOCK, listing)
        keys = torch.unique_consecutive(keys.sort().values)
        firsts = torch.arange(row + 1, end + 1, dtype=torch.int64, device=device) << bits
        indptr.append(torch.searchsorted(keys, firsts) + indices.filled)
        if edge_weights is not None and weights is not None:
            drawn = torch.empty(keys.numel(), dtype=weights, device=device)
            weighing = _WEIGH(keys=keys.data_ptr(), count=keys.numel(), bits=bits, seed=recipe.seed, weights=drawn.data_ptr())
            if keys.numel():
                launch(_KERNELS, f"key_weights<{WEIGHT_CLASSES[weights]}>", device, grid, _BLOCK, weighing)
            edge_weights.append(drawn)
        indices.append((keys & ((1 << bits) - 1)).to(indices.dtype))
        row, done = end, until
        del keys, firsts  # before the next piece is allocated
    held = {"indptr": indptr.whole(), "indices": indices.whole()}
    return held if edge_weights is None else {**held, "weights": edge_weights.whole()}


def _row_ends(recipe: Recipe, piece: int, grid: int, device: torch.device) -> torch.Tensor | None:
    """Where rows end, with their duplicates, on the CPU; None if a row is larger than ``piece``."""
    ends = torch.zeros(recipe.vertices + 1, dtype=torch.int64, device=device)
    if recipe.edges:
        degrees = ends[1:].data_ptr()
        counting = _COUNT(shape=recipe.shape(), edges=recipe.edges, mirror=int(not recipe.directed), degrees=degrees)
        launch(_KERNELS, recipe.kernel("count_rows"), device, grid, _BLOCK, counting)
    if int(ends.max()) > piece:
        return None
    held = UnifiedTensor.empty((recipe.vertices + 1,), torch.int64, placement="pageable").cpu()
    return held.copy_(ends.cumsum(0))


class _Filling:
    """An array that is filled from its beginning on, with what a GPU makes, and is at last as long as that.

    In host memory its pages are there once they are filled, so what is not needed takes none (but of pinned memory).
    """

    def __init__(self, most: int, dtype: torch.dtype, place: str, device: torch.device) -> None:
        self.dtype = dtype
        self.filled = 0
        self._held: UnifiedTensor | None = None
        if place == "gpu":
            self._into = torch.empty(most, dtype=dtype, device=device)
        else:
            self._held = UnifiedTensor._allocate((most,), dtype, place, touch=False)
            self._into = self._held.cpu()

    def append(self, part: torch.Tensor) -> None:
        """Waits until the data is there: ``part`` may go."""
        into = self._into[self.filled : self.filled + part.numel()]
        if self._held is not None:
            _core.touch(into.data_ptr(), into.nbytes)  # by all threads; a copy would fetch the pages one by one
        copy(into, part)
        self.filled += part.numel()

    def whole(self) -> arrays.Array:
        if self._held is not None:
            made = self._held.view((self.filled,))
            if made.managed_bytes >= LEAST_MEASURED:
                check_rate(made.view((made.managed_bytes,), torch.uint8).cuda())
            return made
        return self._into if self.filled == self._into.numel() else self._into[: self.filled].clone()
