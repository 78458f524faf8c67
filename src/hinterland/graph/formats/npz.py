"""Sparse matrices in ``.npz``: those of ``scipy.sparse.save_npz`` (csr, csc, coo), and CSR arrays under a common prefix.

Layout: arrays ``data``, ``indices``, ``indptr``, ``shape`` and ``format``; in coo ``row`` and ``col`` instead of ``indices``
and ``indptr``. Graph collections (Shchur et al. 2018) store ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape``.
"""

from __future__ import annotations

import zipfile

import numpy as np
import torch

from ...runtime.errors import FormatError
from ...runtime.files import replacing, writing
from ...runtime.thresholds import LONG_CHUNK
from ...table import UnifiedTensor
from ..arrays import index_dtype
from ..graph import Graph
from .arrays import Archive, ArrayFile, write_header
from .content import CsrArrays, EdgeList, LoadOptions, check_counts, check_sparsity, csr
from .ogb import read_packed

_FORMATS = ("csr", "csc", "coo")


def read(path: str, options: LoadOptions) -> CsrArrays | EdgeList:
    """The matrix as a graph; boolean entries (a pattern) give no weights."""
    with Archive(path) as archive:
        if {"edge_index", "num_nodes_list"} <= archive.names:
            return read_packed(path, options)
        prefix = "adj_" if "adj_indptr" in archive.names else ""
        kind = "csr" if prefix else _kind(archive)
        shape = archive.open(prefix + "shape").small()
        if shape.dtype.kind not in "iu" or shape.shape != (2,):
            raise FormatError(f"{path}: {prefix}shape is {shape}; a matrix has two extents")
        rows, columns = (int(extent) for extent in shape)
        if rows != columns:
            raise FormatError(f"{path}: the matrix has {rows} rows and {columns} columns; only a square one is a graph")
        if kind == "coo":
            return _read_coo(archive, rows, options)
        return _read_rows(archive, prefix, kind, rows, options)


def _kind(archive: Archive) -> str:
    value = archive.open("format").small()
    text = value.item() if value.shape == () else value
    kind = text.decode("ascii", "replace") if isinstance(text, bytes) else str(text)
    if kind not in _FORMATS:
        raise FormatError(f"{archive.path}: a matrix in {kind!r} form; read are {', '.join(_FORMATS)}: call .tocsr() first")
    return kind


def _flat(array: ArrayFile, count: int | None = None) -> ArrayFile:
    if len(array.shape) != 1 or (count is not None and array.count != count):
        expected = "one dimension" if count is None else f"{count} elements"
        raise FormatError(f"{array.path}: {array.name} has the shape {array.shape}, but {expected} is expected")
    return array


def _read_rows(archive: Archive, prefix: str, kind: str, vertices: int, options: LoadOptions) -> CsrArrays:
    indices = _flat(archive.open(prefix + "indices"))
    check_counts(archive.path, vertices, indices.count)
    indptr = _flat(archive.open(prefix + "indptr"), vertices + 1)
    held = UnifiedTensor.empty((vertices + 1,), torch.int64, options.place("indptr"))
    indptr.read_ids(held.cpu())
    neighbours = UnifiedTensor.empty((indices.count,), index_dtype(vertices), options.place("indices"))
    indices.read_ids(neighbours.cpu(), vertices)
    weights = _values(archive, prefix + "data", indices.count, options)
    return CsrArrays(held, neighbours, weights, directed=True, columns=kind == "csc")


def _read_coo(archive: Archive, vertices: int, options: LoadOptions) -> EdgeList:
    rows = _flat(archive.open("row"))
    check_counts(archive.path, vertices, rows.count)
    check_sparsity(archive.path, vertices, rows.count, " in its shape")
    columns = _flat(archive.open("col"), rows.count)
    ends = []
    for array in (rows, columns):
        ids = UnifiedTensor.empty((array.count,), index_dtype(vertices), "pageable").cpu()
        array.read_ids(ids, vertices)
        ends.append(ids)
    weights = _values(archive, "data", rows.count, options)
    return EdgeList(ends[0], ends[1], None if weights is None else weights.cpu(), vertices)


def _values(archive: Archive, name: str, edges: int, options: LoadOptions) -> UnifiedTensor | None:
    values = _flat(archive.open(name), edges)
    if values.torch_dtype() == torch.bool:
        values.skip(edges)  # whose checksum says that the type is no damage
        return None
    weights = UnifiedTensor.empty((edges,), values.torch_dtype(), options.place("weights"))
    values.read_values(weights.cpu())
    return weights


def write(graph: Graph, path: str) -> None:
    """Writes what ``scipy.sparse.load_npz`` reads, uncompressed. Without weights the entries are True."""
    weights = graph.array("weights", "cpu")
    indptr, indices = csr(graph)
    if weights is None:
        weights = torch.ones(1, dtype=torch.bool).expand(graph.num_edges)
    elif weights.dtype == torch.bfloat16:
        weights = weights.to(torch.float32)  # NumPy has no bfloat16; float32 holds every value of it
    # SciPy wants both index arrays of one type.
    wide = torch.int64 if indices.dtype == torch.int64 or graph.num_edges >= 1 << 31 else torch.int32
    n = graph.num_vertices
    with (
        replacing(path) as output,
        writing(path),
        zipfile.ZipFile(output.file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive,  # type: ignore[arg-type]
    ):
        _put(archive, "indices", indices, wide)
        _put(archive, "indptr", indptr, wide)
        _put_array(archive, "format", np.array(b"csr"))
        _put_array(archive, "shape", np.array([n, n], np.int64))
        _put(archive, "data", weights, weights.dtype)


def _put_array(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(name + ".npy", "w") as member:
        np.lib.format.write_array(member, array, allow_pickle=False)


def _put(archive: zipfile.ZipFile, name: str, values: torch.Tensor, dtype: torch.dtype) -> None:
    with archive.open(name + ".npy", "w", force_zip64=True) as member:
        write_header(member, dtype, (values.numel(),))
        for begin in range(0, values.numel(), LONG_CHUNK):
            member.write(values[begin : begin + LONG_CHUNK].to(dtype).contiguous().numpy().tobytes())
