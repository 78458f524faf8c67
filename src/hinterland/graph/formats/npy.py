"""Edge arrays in ``.npy``: ``[2, E]`` (sources, then targets) as PyG has them, or ``[E, 2]`` (pairs) as IGB has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from ...runtime.errors import ConfigError, FormatError
from ...runtime.files import replacing
from ...runtime.progress import progress
from ...runtime.thresholds import NPY_EDGES
from ...table import UnifiedTensor
from ..arrays import index_dtype
from ..graph import Graph
from . import labels
from .arrays import ArrayFile, open_npy, write_header
from .content import EdgeList, LoadOptions, check_counts, check_sparsity, csr, store_ids
from .files import require_memory

_INT32_LIMIT = 1 << 31


def read(path: str, options: LoadOptions) -> EdgeList:
    """The edges as they stand, directed. The largest number plus one is the number of vertices, or, with ``options.named``, as
    many as there are numbers."""
    if options.named:
        return _named(path, options)
    return read_pairs(path, lambda: open_npy(path), options)


def _named(path: str, options: LoadOptions) -> EdgeList:
    """Edges between vertices that are called by any integers."""
    held = open_npy(path)
    edges = _edges(held, options)
    if held.dtype.kind not in "iu":
        raise FormatError(f"{path}: the elements are {held.dtype}; what an edge array calls its vertices are integers")
    require_memory(path, "the numbers and their order", 4 * held.count * torch.int64.itemsize)
    names, ends = np.unique(held.take(held.count), return_inverse=True)
    columns = ends.reshape(edges, 2).T if _interleaved(held, options) else ends.reshape(2, edges)
    sources, targets = (torch.from_numpy(column).to(index_dtype(len(names))) for column in columns)
    return EdgeList(sources, targets, None, len(names), labels=labels.of_integers(names))


def read_pairs(path: str, open_array: Callable[[], ArrayFile], options: LoadOptions, vertices: int | None = None) -> EdgeList:
    """An edge array, from a file of its own or from an archive, with 4-byte numbers where they fit."""
    limit = _INT32_LIMIT if vertices is None else vertices
    array = open_array()
    edges = _edges(array, options)
    check_counts(path, vertices or 0, edges)
    narrow = limit <= _INT32_LIMIT
    try:
        sources, targets, largest = _read(array, edges, torch.int32 if narrow else torch.int64, options, limit)
    except _Wide:
        sources, targets, largest = _read(open_array(), edges, torch.int64, options, None)
    if vertices is None:
        vertices = largest + 1
    check_sparsity(path, vertices, edges)
    return EdgeList(sources, targets, None, vertices)


def read_columns(path: str, array: ArrayFile, options: LoadOptions, vertices: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources and targets of an edge array whose number of vertices is known from elsewhere."""
    edges = _edges(array, options)
    check_counts(path, vertices, edges)
    dtype = torch.int32 if vertices <= _INT32_LIMIT else torch.int64
    try:
        return _read(array, edges, dtype, options, vertices)[:2]
    except _Wide:
        raise FormatError(f"{path}: a vertex number is 2^31 or more, but there are {vertices} vertices") from None


class _Wide(Exception):
    """A vertex number needs 8 bytes: the array is read again."""


def _edges(array: ArrayFile, options: LoadOptions) -> int:
    if len(array.shape) != 2 or 2 not in array.shape:
        raise FormatError(
            f"{array.path}: {array.name} has the shape {array.shape}; edges have [2, E] or [E, 2]. "
            "For a table of rows use UnifiedTensor.from_file"
        )
    if array.shape == (2, 2) and options.layout is None:
        raise ConfigError(
            f"{array.path}: the shape [2, 2] can be read both ways; say format='npy[2,E]' (sources, then targets) "
            "or format='npy[E,2]' (pairs)"
        )
    return array.count // 2


def _interleaved(array: ArrayFile, options: LoadOptions) -> bool:
    """Whether source and target lie side by side in the file."""
    pairs = options.layout == "[E,2]" if array.shape == (2, 2) else array.shape[1] == 2
    return pairs != array.fortran


def _read(
    array: ArrayFile, edges: int, dtype: torch.dtype, options: LoadOptions, limit: int | None
) -> tuple[torch.Tensor, torch.Tensor, int]:
    sources, targets = (UnifiedTensor.empty((edges,), dtype, "pageable").cpu() for _ in range(2))
    largest = -1
    with progress(f"reading {array.path}", array.count * array.dtype.itemsize) as step:
        for begin, part, places in _parts(array, sources, targets, _interleaved(array, options)):
            step(part.numel() * array.dtype.itemsize)
            if limit == _INT32_LIMIT and part.numel() and int(part.max()) >= _INT32_LIMIT:
                raise _Wide
            for column, place in zip(part, places, strict=True):
                bound = 1 << 48 if limit is None else limit
                largest = max(largest, store_ids(array.path, array.name, column, place, bound, begin))
    return sources, targets, largest


def _parts(
    array: ArrayFile, sources: torch.Tensor, targets: torch.Tensor, interleaved: bool
) -> Iterator[tuple[int, torch.Tensor, tuple[torch.Tensor, ...]]]:
    """Runs of the file: (first position, numbers as [columns, n], where each column goes)."""
    edges = sources.numel()
    if interleaved:
        for begin in range(0, edges, NPY_EDGES):
            part = array.integers(2 * min(NPY_EDGES, edges - begin)).view(-1, 2).T
            run = slice(begin, begin + part.shape[1])
            yield begin, part, (sources[run], targets[run])
    else:
        for column in (sources, targets):
            for begin in range(0, edges, NPY_EDGES):
                part = array.integers(min(NPY_EDGES, edges - begin)).view(1, -1)
                yield begin, part, (column[begin : begin + part.shape[1]],)


def write(graph: Graph, path: str) -> None:
    """Writes ``[2, E]`` with the type of the neighbours. Weights have no place in it and are refused."""
    if graph.array("weights", "cpu") is not None:
        raise ConfigError(f"{path}: an edge array holds no weights; write .npz or .hl instead")
    indptr, indices = csr(graph)
    edges = graph.num_edges
    with replacing(path) as output:
        write_header(output, indices.dtype, (2, edges))
        for begin in range(0, edges, NPY_EDGES):
            places = torch.arange(begin, min(begin + NPY_EDGES, edges))
            rows = torch.searchsorted(indptr, places, right=True) - 1
            output.write(rows.to(indices.dtype).numpy())
        for begin in range(0, edges, NPY_EDGES):
            output.write(indices[begin : begin + NPY_EDGES].contiguous().numpy())
