"""The collections of Shchur et al. (Pitfalls of graph neural network evaluation, 2018): one ``.npz`` for each graph.

Layout: CSR arrays ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape`` of the adjacency matrix, ``attr_*`` of the
attributes, and ``labels``. As in their evaluation, the graph becomes undirected and simple; ``largest_component`` and
``random_splits`` do the rest of it.
"""

from __future__ import annotations

import os
import zipfile

import numpy as np
import torch

from ..graph import Graph, load_graph
from ..graph.formats.arrays import Archive, ArrayFile
from ..graph.formats.files import require_memory
from ..runtime.errors import FormatError
from ..runtime.thresholds import CHUNK
from .source import HOMOGENEOUS, Placement, RelationSource, Source, Vertices, array_labels, classes_of

_NAMES = ("adj_indptr.npy", "attr_indptr.npy", "labels.npy")


def matches(path: str) -> bool:
    """Whether ``path`` is one of their archives."""
    if not os.path.isfile(path) or not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return set(_NAMES) <= set(archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def read(path: str, num_classes: int | None) -> Source:
    """The data set in the file ``path``; it has no splits."""
    archive = Archive(path)  # open as long as features are read
    features = _SparseRows(archive)
    labels = array_labels(archive.open("labels"), features.shape[0])

    def edges(symmetrize: bool, placement: Placement) -> Graph:
        graph = load_graph(path, placement, symmetrize=True, remove_self_loops=True, remove_duplicates=True, format="npz")
        return graph.without_weights()

    name = os.path.basename(path).removesuffix(".npz")
    vertices = {HOMOGENEOUS[0]: Vertices(features.shape[0], features)}
    relations = {HOMOGENEOUS: RelationSource(path, edges)}
    return Source(path, name, vertices, relations, HOMOGENEOUS[0], labels, {}, classes_of(labels), places={"labels": path})


class _SparseRows:
    """Rows of the sparse matrix of attributes, as float32. Of the matrix only the offsets, 8 bytes a row, are kept."""

    dtype, in_place = torch.float32, False

    def __init__(self, archive: Archive) -> None:
        self.path = archive.path
        shape = archive.open("attr_shape").small()
        if shape.dtype.kind not in "iu" or shape.shape != (2,) or int(shape.min()) < 0:
            raise FormatError(f"{self.path}: attr_shape is {shape}; a matrix has two extents")
        self.shape = (int(shape[0]), int(shape[1]))
        indptr, self._indices, self._values = (_flat(archive, f"attr_{name}") for name in ("indptr", "indices", "data"))
        entries = self._indices.count
        if indptr.dtype.kind + self._indices.dtype.kind in ("ii", "iu", "ui", "uu") and indptr.count == self.shape[0] + 1:
            require_memory(self.path, indptr.name, (8 + indptr.dtype.itemsize) * indptr.count)
            self._offsets = indptr.take(indptr.count).astype(np.int64, copy=False)
            falls = (self._offsets[1:] < self._offsets[:-1]).any() or (self._offsets[0], self._offsets[-1]) != (0, entries)
            if not falls and self._values.count == entries:
                self._at = 0
                return
        raise FormatError(
            f"{self.path}: attr_indptr, attr_indices and attr_data are no matrix of {self.shape[0]} rows; fetch the file again"
        )

    def read(self, target: torch.Tensor) -> None:
        table = target.zero_().numpy()
        first, last = self._at, self._at + len(target)
        stop = int(self._offsets[last])
        for begin in range(int(self._offsets[first]), stop, CHUNK):
            end = min(begin + CHUNK, stop)
            columns = self._columns(begin, end)
            low, high = np.searchsorted(self._offsets, (begin, end - 1), "right")
            rows = np.arange(low - 1, high).repeat(np.diff(self._offsets[low - 1 : high + 1].clip(begin, end)))
            np.add.at(table, (rows - first, columns), self._values.take(end - begin).astype(np.float32))
        self._at = last

    def skip(self, count: int) -> None:
        entries = int(self._offsets[self._at + count] - self._offsets[self._at])
        self._indices.skip(entries)
        self._values.skip(entries)
        self._at += count

    def _columns(self, begin: int, end: int) -> np.ndarray:
        """The columns of the entries from ``begin`` to ``end``, the next ones in the file."""
        columns = self._indices.take(end - begin)
        wrong = np.flatnonzero((columns < 0) | (columns >= self.shape[1]))
        if len(wrong):
            bad = int(wrong[0])
            raise FormatError(
                f"{self.path}: attr_indices[{begin + bad}] is {columns[bad]}, but there are {self.shape[1]} columns; fetch the "
                "file again"
            )
        return columns.astype(np.int64, copy=False)


def _flat(archive: Archive, name: str) -> ArrayFile:
    array = archive.open(name)
    if len(array.shape) != 1 or array.dtype.kind not in "iuf":
        raise FormatError(f"{archive.path}: {name} is {array.dtype} of shape {array.shape}; it must be a list of numbers")
    return array
