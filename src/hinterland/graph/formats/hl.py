"""Hinterland's own graph files, ``.hl``: CSR arrays that can be mapped or read in place, with a version and checksums.

``src/hinterland/storage/hl.py`` has their layout.
"""

from __future__ import annotations

import torch

from ... import _core
from ...memory import UnifiedTensor
from ...runtime.checksums import checksums
from ...runtime.errors import ConfigError, FormatError
from ...runtime.files import replacing
from ...runtime.progress import progress
from ...storage import StorageArray
from ...storage.hl import COMPRESSED, DIRECTED, PAGE, REORDERED, SORTED, WEIGHTED, Header, parse
from ...storage.layout import Extent, Layout, Volume
from ..arrays import index_dtype
from ..graph import Graph
from .content import CsrArrays, Options, PackedArrays
from .files import read_head, read_into, size_of

_HOMES = {"packed_offsets": "indptr", "packed": "indices"}  # whose placement they take


def _checksums(array: torch.Tensor, number: int) -> torch.Tensor:
    """The checksums of an array, which depend on its number in the file and on each block's place."""
    return checksums(array, number << 48)


def read_header(path: str) -> Header:
    """The header, checked against its checksum and the file's size."""
    return parse(path, read_head(path, PAGE), size_of(path))


def read(path: str, options: Options) -> CsrArrays | PackedArrays:
    """The graph, each array read straight to its place, then checked against its checksums; or left in the file."""
    header = read_header(path)
    *places, (sums_at, sums_bytes) = header.sections()
    sums = _sums(path, sums_at, sums_bytes)
    for copy in options.copies:
        if read_header(copy) != header or not torch.equal(_sums(copy, sums_at, sums_bytes), sums):
            raise ConfigError(f"{copy} is no copy of {path}: its header or its checksums differ; copy one over the other")
    volume = Volume((path, *options.copies)) if options.copies else None
    held: dict[str, UnifiedTensor] = {}
    stored: dict[str, StorageArray] = {}
    checked = 0
    with progress(f"reading {path}", sums_at) as step:
        for number, ((name, dtype, count), (at, size)) in enumerate(zip(header.arrays(), places, strict=True)):
            place = "heap" if name == "order" else options.place(_HOMES.get(name, name))
            if place == "storage" and options.cache is not None:
                stored[name] = StorageArray(Layout(path, dtype, (count,), (Extent(count, at),), volume), "r", options.cache)
                checked += -(-size // _core.CHECKSUM_BLOCK)
                continue
            array = UnifiedTensor.empty((count,), dtype, place)
            read_into(path, at, array.cpu())
            found = _checksums(array.cpu(), number)
            wrong = (found != sums[checked : checked + len(found)]).nonzero()
            if len(wrong):
                bad = at + int(wrong[0]) * _core.CHECKSUM_BLOCK
                raise FormatError(
                    f"{path}: damaged: the checksum of {name} does not match between the offsets {bad} and "
                    f"{min(bad + _core.CHECKSUM_BLOCK, at + size)}; restore the file or convert it again"
                )
            checked += len(found)
            held[name] = array
            step(size)
    order = held["order"].cpu() if "order" in held else None
    directed, weights = bool(header.flags & DIRECTED), stored.get("weights", held.get("weights"))
    if header.flags & COMPRESSED:
        packed = stored.get("packed", held.get("packed"))
        assert packed is not None
        return PackedArrays(held["indptr"], held["packed_offsets"], packed, weights, directed, order)
    indices = stored["indices"] if "indices" in stored else _narrow(held["indices"], header.vertices, options)
    return CsrArrays(held["indptr"], indices, weights, directed, bool(header.flags & SORTED), order=order)


def _sums(path: str, at: int, nbytes: int) -> torch.Tensor:
    """The checksums that a file holds."""
    sums = torch.empty(nbytes // 8, dtype=torch.int64)
    read_into(path, at, sums)
    return sums


def _narrow(indices: UnifiedTensor, vertices: int, options: Options) -> UnifiedTensor:
    """Neighbours in the type that a graph of this size has."""
    dtype = index_dtype(vertices)
    if indices.dtype == dtype:
        return indices
    narrow = UnifiedTensor.empty(tuple(indices.shape), dtype, options.place("indices"))
    narrow.cpu().copy_(indices.cpu())
    return narrow


def write(graph: Graph, path: str) -> None:
    """Writes the graph as it is: the arrays that it has, in their types, and its order."""
    names = ("packed_offsets", "packed") if graph.is_compressed else ("indices",)
    found = [*(graph.array(name, "cpu") for name in ("indptr", *names, "weights")), graph.outer]
    arrays = [array.contiguous() for array in found if array is not None]
    flags = (
        DIRECTED * graph.directed
        | SORTED * graph.has_sorted_lists
        | WEIGHTED * (graph.weights is not None)
        | COMPRESSED * graph.is_compressed
        | REORDERED * (graph.outer is not None)
    )
    types = (torch.int64, arrays[len(names)].dtype, *(() if graph.weights is None else (graph.weights.dtype,)))
    packed_bytes = arrays[2].numel() if graph.is_compressed else 0
    header = Header(flags, graph.num_vertices, graph.num_edges, types, packed_bytes)
    *places, (sums_at, sums_bytes) = header.sections()
    with replacing(path) as output, progress(f"writing {path}", sums_at) as step:
        output.write(header.pack())
        for array, (at, size) in zip(arrays, places, strict=True):
            output.write_tensor(array, at)
            step(size)
        sums = torch.cat([_checksums(array, number) for number, array in enumerate(arrays)])
        output.write_tensor(sums, sums_at)
        output.resize(sums_at + sums_bytes)
