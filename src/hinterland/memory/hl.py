"""The header of Hinterland's own graph files, ``.hl``, which says where each array lies.

Layout, little-endian::

    0     magic  89 48 4C 47 0D 0A 1A 0A (a transfer as text damages it visibly)
    8     version (uint32, 1 to 4), flags (uint32: 1 directed, 2 neighbours ascend, 4 weighted; of version 2: 8 compressed,
          16 reordered; of version 3: 32 with lists of in-neighbours; of version 4: 64 with names)
    16    vertices, edges (int64)
    32    type names of offsets, neighbours, weights (16 bytes each, padded with zeros)
    80    checksum block in bytes (uint64)
    88    bytes of the packed lists, and of those of in-neighbours (int64 each; 0 where there are none)
    104   type name of the names (16 bytes), and their bytes (int64)
    4088  checksum of bytes 0..4087 (uint64)
    4096  offsets, neighbours, weights, order, the same three of in-neighbours, names, checksums: each from the next multiple
          of 4096 on, padded with zeros

Compressed neighbours are two sections: where each packed list begins (int64), and the lists, whose layout
include/hinterland/graph/compress.hpp states. The order (int64) has each vertex's number before the graph was reordered. Lists
of in-neighbours, of a directed graph, hold its edges turned round, with their weights, have the form and types of the others,
and ascend. Names, by the numbers that the graph had first, are int64 or uint64, or texts in UTF-8 (uint8) with a line end
between two. A file is of the first version that has what it holds.

The last section holds one uint64 for each block of each array, arrays in order; native/storage/checksum.hpp defines it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import torch

from .. import _core
from ..runtime.checksums import checksums
from ..runtime.errors import FormatError
from ..runtime.repr import type_name

MAGIC = b"\x89HLG\r\n\x1a\n"
VERSION = 4
PAGE = 4096
_FIELDS = struct.Struct("<8sIIqq16s16s16sQqq16sq")
_SUM = struct.Struct("<Q")
DIRECTED, SORTED, WEIGHTED, COMPRESSED, REORDERED, TRANSPOSED, NAMED = 1, 2, 4, 8, 16, 32, 64
_FLAGS = DIRECTED | SORTED | WEIGHTED | COMPRESSED | REORDERED | TRANSPOSED | NAMED
INCOMING = "in_"  # before the name of an array of lists of in-neighbours
_MOST = 1 << 48  # vertices, and edges, that a graph has at most
_TYPES = {
    type_name(dtype): dtype
    for dtype in (
        *(torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    )
}


@dataclass
class HlHeader:
    """What the first page says."""

    flags: int
    vertices: int
    edges: int
    types: tuple[torch.dtype, ...]
    packed_bytes: int = 0
    incoming_bytes: int = 0  # of the packed lists of in-neighbours
    names: torch.dtype = torch.uint8
    names_bytes: int = 0

    @property
    def version(self) -> int:
        """The first version of the format that has what the flags ask for."""
        return 4 if self.flags & NAMED else 3 if self.flags & TRANSPOSED else 2 if self.flags & (COMPRESSED | REORDERED) else 1

    def arrays(self) -> list[tuple[str, torch.dtype, int]]:
        """(Name, type, elements) of each array, in the order of the file."""
        found = self._lists("", self.packed_bytes)
        if self.flags & REORDERED:
            found.append(("order", torch.int64, self.vertices))
        if self.flags & TRANSPOSED:
            found += self._lists(INCOMING, self.incoming_bytes)
        if self.flags & NAMED:
            found.append(("names", self.names, self.names_bytes // self.names.itemsize))
        return found

    def _lists(self, prefix: str, packed_bytes: int) -> list[tuple[str, torch.dtype, int]]:
        found = [(f"{prefix}indptr", self.types[0], self.vertices + 1)]
        if self.flags & COMPRESSED:
            found.append((f"{prefix}packed_offsets", torch.int64, self.vertices + 1))
            found.append((f"{prefix}packed", self.types[1], packed_bytes))
        else:
            found.append((f"{prefix}indices", self.types[1], self.edges))
        if self.flags & WEIGHTED:
            found.append((f"{prefix}weights", self.types[2], self.edges))
        return found

    def sections(self) -> list[tuple[int, int]]:
        """(Offset, bytes) of each array, then of the checksums."""
        found, at, sums = [], PAGE, 0
        for _, dtype, count in self.arrays():
            size = count * dtype.itemsize
            found.append((at, size))
            sums += -(-size // _core.CHECKSUM_BLOCK)
            at = -(-(at + size) // PAGE) * PAGE
        return [*found, (at, 8 * sums)]

    def pack(self) -> bytes:
        """The first page."""
        names = [type_name(dtype).encode() for dtype in self.types] + [b""] * (3 - len(self.types))
        counts = (self.version, self.flags, self.vertices, self.edges)
        called = (type_name(self.names).encode(), self.names_bytes) if self.flags & NAMED else (b"", 0)
        sizes = (_core.CHECKSUM_BLOCK, self.packed_bytes, self.incoming_bytes)
        fields = _FIELDS.pack(MAGIC, *counts, *names, *sizes, *called)
        page = bytearray(fields.ljust(PAGE, b"\0"))
        _SUM.pack_into(page, PAGE - _SUM.size, _page_sum(page))
        return bytes(page)


def _page_sum(page: bytes | bytearray) -> int:
    covered = torch.frombuffer(bytearray(page[: PAGE - _SUM.size]), dtype=torch.uint8)
    return int(checksums(covered, 0)[0]) & (2**64 - 1)


def matches(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is one of ours."""
    return head.startswith(MAGIC)


def parse(path: str, page: bytes, size: int) -> HlHeader:
    """The header in the first page, checked against its checksum and the file's size.

    Args:
        path: the file, for sentences.
        page: its first ``PAGE`` bytes, or all where there are fewer.
        size: its bytes.

    Raises:
        FormatError: the header is damaged, of a version that cannot be read, or promises another size.
    """
    if not matches(page):
        raise FormatError(f"{path}: does not begin with the magic bytes of an .hl file; it is of another format or damaged")
    if len(page) < PAGE:
        raise FormatError(f"{path}: truncated: {size} bytes, but the header alone takes {PAGE}")
    _, version, flags, vertices, edges, *names, block, packed_bytes, incoming_bytes, called, called_bytes = _FIELDS.unpack_from(
        page
    )
    if not 1 <= version <= VERSION:
        raise FormatError(f"{path}: version {version} of the format; this library reads versions up to {VERSION}: update it")
    if _SUM.unpack_from(page, PAGE - _SUM.size)[0] != _page_sum(page):
        raise FormatError(f"{path}: the header's checksum does not match: the file is damaged; restore or convert it again")
    for what, count in (("vertices", vertices), ("edges", edges)):
        if not 0 <= count <= _MOST:
            raise FormatError(f"{path}: the header promises {count} {what}; the file is damaged or of another format")
    for size_of_part in (packed_bytes, incoming_bytes, called_bytes):
        if not 0 <= size_of_part <= 8 * _MOST:
            raise FormatError(f"{path}: the header promises {size_of_part} bytes of packed lists or names; the file is damaged")
    found = [_type(name) for name in names[: 2 + bool(flags & WEIGHTED)]]
    called_by = _type(called)
    types = tuple(dtype for dtype in found if dtype is not None)
    if (
        block != _core.CHECKSUM_BLOCK
        or len(types) != len(found)
        or types[0] != torch.int64
        or types[1] not in ((torch.uint8,) if flags & COMPRESSED else (torch.int32, torch.int64))
        or flags & ~_FLAGS
        or (flags & TRANSPOSED and not flags & DIRECTED)
        or version != HlHeader(flags, vertices, edges, types).version
        or (flags & NAMED and not _are_names(called_by, called_bytes, vertices))
    ):
        raise FormatError(
            f"{path}: array types {names} and flags {flags} with checksums of {block} bytes are not known to version {version}"
        )
    header = HlHeader(flags, vertices, edges, types, packed_bytes, incoming_bytes, called_by or torch.uint8, called_bytes)
    expected = sum(header.sections()[-1])
    if size != expected:
        raise FormatError(
            f"{path}: the header promises {vertices} vertices and {edges} edges, {expected} bytes, but the file holds {size}; "
            f"it is {'truncated' if size < expected else 'damaged'}"
        )
    return header


def _type(name: bytes) -> torch.dtype | None:
    return _TYPES.get(name.rstrip(b"\0").decode("ascii", "replace"))


def _are_names(dtype: torch.dtype | None, nbytes: int, vertices: int) -> bool:
    """Whether so many bytes can be names of so many vertices."""
    if dtype == torch.uint8:
        return nbytes >= vertices - 1
    return dtype in (torch.int64, torch.uint64) and nbytes == 8 * vertices
