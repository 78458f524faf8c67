"""Hinterland's own graph files, ``.hl``: CSR arrays that can be mapped or read in place, with a version and checksums.

Layout, little-endian::

    0     magic  89 48 4C 47 0D 0A 1A 0A (a transfer as text damages it visibly)
    8     version (uint32, 1 or 2), flags (uint32: 1 directed, 2 neighbours ascend, 4 weighted; of version 2: 8 compressed,
          16 reordered)
    16    vertices, edges (int64)
    32    type names of offsets, neighbours, weights (16 bytes each, padded with zeros)
    80    checksum block in bytes (uint64)
    88    bytes of the packed lists (int64; 0 where the neighbours are not compressed)
    4088  checksum of bytes 0..4087 (uint64)
    4096  offsets, neighbours, weights, order, checksums: each from the next multiple of 4096 on, padded with zeros

Compressed neighbours are two sections: where each packed list begins (int64), and the lists, whose layout
include/hinterland/graph/compress.hpp states. The order (int64) has each vertex's number before the graph was reordered. A file
without either is of version 1.

The last section holds one uint64 for each block of each array, arrays in order; native/storage/checksum.hpp defines it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import torch

from ... import _core
from ...memory import UnifiedTensor
from ...runtime.checksums import checksums
from ...runtime.errors import FormatError
from ...runtime.files import replacing
from ...runtime.progress import progress
from ...runtime.shown import type_name
from ...storage import StorageArray
from ...storage.layout import Extent, Layout
from ..arrays import WEIGHT_TYPES, index_dtype
from ..graph import Graph
from .content import LARGEST_VERTEX, CsrArrays, Options, PackedArrays, check_counts
from .files import read_head, read_into, size_of

MAGIC = b"\x89HLG\r\n\x1a\n"
VERSION = 2
_PAGE = 4096
_FIELDS = struct.Struct("<8sIIqq16s16s16sQq")
_SUM = struct.Struct("<Q")
_DIRECTED, _SORTED, _WEIGHTED, _COMPRESSED, _REORDERED = 1, 2, 4, 8, 16
_FLAGS = _DIRECTED | _SORTED | _WEIGHTED | _COMPRESSED | _REORDERED
_HOMES = {"packed_offsets": "indptr", "packed": "indices"}  # whose placement they take
_TYPES = {type_name(dtype): dtype for dtype in WEIGHT_TYPES}


@dataclass
class Header:
    """What the first page says."""

    flags: int
    vertices: int
    edges: int
    types: tuple[torch.dtype, ...]
    packed_bytes: int = 0

    @property
    def version(self) -> int:
        """The first version of the format that has what the flags ask for."""
        return 2 if self.flags & (_COMPRESSED | _REORDERED) else 1

    def arrays(self) -> list[tuple[str, torch.dtype, int]]:
        """(Name, type, elements) of each array, in the order of the file."""
        found = [("indptr", self.types[0], self.vertices + 1)]
        if self.flags & _COMPRESSED:
            found.append(("packed_offsets", torch.int64, self.vertices + 1))
            found.append(("packed", self.types[1], self.packed_bytes))
        else:
            found.append(("indices", self.types[1], self.edges))
        if self.flags & _WEIGHTED:
            found.append(("weights", self.types[2], self.edges))
        if self.flags & _REORDERED:
            found.append(("order", torch.int64, self.vertices))
        return found

    def sections(self) -> list[tuple[int, int]]:
        """(Offset, bytes) of each array, then of the checksums."""
        found, at, sums = [], _PAGE, 0
        for _, dtype, count in self.arrays():
            size = count * dtype.itemsize
            found.append((at, size))
            sums += -(-size // _core.CHECKSUM_BLOCK)
            at = -(-(at + size) // _PAGE) * _PAGE
        return [*found, (at, 8 * sums)]

    def pack(self) -> bytes:
        """The first page."""
        names = [type_name(dtype).encode() for dtype in self.types] + [b""] * (3 - len(self.types))
        counts = (self.version, self.flags, self.vertices, self.edges)
        fields = _FIELDS.pack(MAGIC, *counts, *names, _core.CHECKSUM_BLOCK, self.packed_bytes)
        page = bytearray(fields.ljust(_PAGE, b"\0"))
        _SUM.pack_into(page, _PAGE - _SUM.size, _page_sum(page))
        return bytes(page)


def _page_sum(page: bytes | bytearray) -> int:
    covered = torch.frombuffer(bytearray(page[: _PAGE - _SUM.size]), dtype=torch.uint8)
    return int(_checksums(covered, 0)[0]) & (2**64 - 1)


def _checksums(array: torch.Tensor, number: int) -> torch.Tensor:
    """The checksums of an array, which depend on its number in the file and on each block's place."""
    return checksums(array, number << 48)


def matches(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is one of ours."""
    return head.startswith(MAGIC)


def read_header(path: str) -> Header:
    """The header, checked against its checksum and the file's size."""
    page, size = read_head(path, _PAGE), size_of(path)
    if not matches(page):
        raise FormatError(f"{path}: does not begin with the magic bytes of an .hl file; it is of another format or damaged")
    if len(page) < _PAGE:
        raise FormatError(f"{path}: truncated: {size} bytes, but the header alone takes {_PAGE}")
    _, version, flags, vertices, edges, *names, block, packed_bytes = _FIELDS.unpack_from(page)
    if not 1 <= version <= VERSION:
        raise FormatError(f"{path}: version {version} of the format; this library reads versions up to {VERSION}: update it")
    if _SUM.unpack_from(page, _PAGE - _SUM.size)[0] != _page_sum(page):
        raise FormatError(f"{path}: the header's checksum does not match: the file is damaged; restore or convert it again")
    check_counts(path, vertices, edges)
    if not 0 <= packed_bytes <= 8 * LARGEST_VERTEX:
        raise FormatError(f"{path}: the header promises {packed_bytes} bytes of packed lists; the file is damaged")
    found = [_TYPES.get(name.rstrip(b"\0").decode("ascii", "replace")) for name in names[: 2 + bool(flags & _WEIGHTED)]]
    types = tuple(dtype for dtype in found if dtype is not None)
    if (
        block != _core.CHECKSUM_BLOCK
        or len(types) != len(found)
        or types[0] != torch.int64
        or types[1] not in ((torch.uint8,) if flags & _COMPRESSED else (torch.int32, torch.int64))
        or flags & ~_FLAGS
        or version != Header(flags, vertices, edges, types).version
    ):
        raise FormatError(
            f"{path}: array types {names} and flags {flags} with checksums of {block} bytes are not known to version {version}"
        )
    header = Header(flags, vertices, edges, types, packed_bytes)
    expected = sum(header.sections()[-1])
    if size != expected:
        raise FormatError(
            f"{path}: the header promises {vertices} vertices and {edges} edges, {expected} bytes, but the file holds {size}; "
            f"it is {'truncated' if size < expected else 'damaged'}"
        )
    return header


def read(path: str, options: Options) -> CsrArrays | PackedArrays:
    """The graph, each array read straight to its place, then checked against its checksums; or left in the file."""
    header = read_header(path)
    *places, (sums_at, sums_bytes) = header.sections()
    sums = torch.empty(sums_bytes // 8, dtype=torch.int64)
    read_into(path, sums_at, sums)
    held: dict[str, UnifiedTensor] = {}
    stored: dict[str, StorageArray] = {}
    checked = 0
    with progress(f"reading {path}", sums_at) as step:
        for number, ((name, dtype, count), (at, size)) in enumerate(zip(header.arrays(), places, strict=True)):
            place = "heap" if name == "order" else options.place(_HOMES.get(name, name))
            if place == "storage" and options.cache is not None:
                stored[name] = StorageArray(Layout(path, dtype, (count,), (Extent(count, at),)), "r", options.cache)
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
    directed, weights = bool(header.flags & _DIRECTED), stored.get("weights", held.get("weights"))
    if header.flags & _COMPRESSED:
        packed = stored.get("packed", held.get("packed"))
        assert packed is not None
        return PackedArrays(held["indptr"], held["packed_offsets"], packed, weights, directed, order)
    indices = stored["indices"] if "indices" in stored else _narrow(held["indices"], header.vertices, options)
    return CsrArrays(held["indptr"], indices, weights, directed, bool(header.flags & _SORTED), order=order)


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
        _DIRECTED * graph.directed
        | _SORTED * graph.has_sorted_lists
        | _WEIGHTED * (graph.weights is not None)
        | _COMPRESSED * graph.is_compressed
        | _REORDERED * (graph.outer is not None)
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
