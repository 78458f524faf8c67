"""Hinterland's own graph files, ``.hl``: CSR arrays that can be mapped or read in place, with a version and checksums.

``src/hinterland/memory/hl.py`` has their layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ... import _core
from ...memory.hl import COMPRESSED, DIRECTED, INCOMING, NAMED, PAGE, REORDERED, SORTED, TRANSPOSED, WEIGHTED, HlHeader, parse
from ...runtime.checksums import Running, checksums
from ...runtime.errors import ConfigError, FormatError
from ...runtime.files import Output, replacing
from ...runtime.progress import progress
from ...runtime.thresholds import BLOCKS_CHECKED
from ...runtime.warned import warn
from ...table import StorageArray, UnifiedTensor
from ..arrays import index_dtype, pieces, tensor_of
from ..graph import Graph
from ..spare_memory import is_little
from ..transpose import Turned
from . import labels
from .content import CsrArrays, LoadOptions, PackedArrays
from .files import read_head, read_into, size_of

_HOMES = {"packed_offsets": "indptr", "packed": "indices"}  # whose placement they take

_Arrays = Mapping[str, UnifiedTensor | StorageArray]


def read_header(path: str) -> HlHeader:
    """The header, checked against its checksum and the file's size."""
    return parse(path, read_head(path, PAGE), size_of(path))


def has_incoming(path: str) -> bool:
    """Whether the file has lists of in-neighbours beside the others."""
    return bool(read_header(path).flags & TRANSPOSED)


def read(path: str, options: LoadOptions) -> CsrArrays | PackedArrays:
    """The graph, each array read straight to its place, then checked against its checksums; or left in the file."""
    header = read_header(path)
    sums_of = _sums(path, header)
    for copy in options.copies:
        if read_header(copy) != header or not torch.equal(_sums(copy, header), sums_of):
            raise ConfigError(f"{copy} is no copy of {path}: its header or its checksums differ; copy one over the other")
    where: dict[str, Any] = {"path": [path, *options.copies], "spread": "replicated"} if options.copies else {"path": path}
    incoming = bool(header.flags & TRANSPOSED) and _wants_incoming(header, options)
    held: dict[str, UnifiedTensor | StorageArray] = {}
    with progress(f"reading {path}", header.sections()[-1][0]) as step:
        for number, (name, dtype, count), (at, size), sums in _sections(header, sums_of):
            if name.startswith(INCOMING) and not incoming:
                continue
            own = name.removeprefix(INCOMING)
            place = "pageable" if own in ("order", "names") else options.place(_HOMES.get(own, own))
            if place == "storage" and options.opener is not None:
                held[name] = options.opener(**where, name=name)
                continue
            array = UnifiedTensor.empty((count,), dtype, place)
            read_into(path, at, array.cpu())
            _require_sums(path, name, (at, size), checksums(array.cpu(), number << 48), sums)
            held[name] = array
            step(size)
    content = _content(header, held, "", options)
    if header.flags & NAMED:
        content.labels = labels.held(path, tensor_of(held["names"]), header.vertices)
    if incoming:
        content.inverse = _content(header, held, INCOMING, options)  # type: ignore[assignment]  # of the same form
    return content


def check(path: str) -> None:
    """Looks at every checksum, a few MiB at a time. Raises FormatError: names the array, and where it is damaged; StorageError:
    the file cannot be read."""
    header = read_header(path)
    block = torch.empty(BLOCKS_CHECKED * _core.CHECKSUM_BLOCK, dtype=torch.uint8)
    with progress(f"reading {path}", header.sections()[-1][0]) as step:
        for number, (name, _, _), (at, size), sums in _sections(header, _sums(path, header)):
            for first in range(0, len(sums), BLOCKS_CHECKED):
                begin = first * _core.CHECKSUM_BLOCK
                part = block[: min(size - begin, len(block))]
                read_into(path, at + begin, part)
                found = checksums(part, (number << 48) + first)
                _require_sums(path, name, (at + begin, len(part)), found, sums[first : first + len(found)])
                step(len(part))


def _sums(path: str, header: HlHeader) -> torch.Tensor:
    """The checksums that a file holds."""
    at, nbytes = header.sections()[-1]
    sums = torch.empty(nbytes // 8, dtype=torch.int64)
    read_into(path, at, sums)
    return sums


def _sections(
    header: HlHeader, sums: torch.Tensor
) -> Iterator[tuple[int, tuple[str, torch.dtype, int], tuple[int, int], torch.Tensor]]:
    """Of each array its number, what it is, (offset, bytes), and its checksums, of those of all."""
    places = header.sections()[:-1]
    parts = sums.split([-(-size // _core.CHECKSUM_BLOCK) for _, size in places])
    return zip(range(len(places)), header.arrays(), places, parts, strict=True)


def _require_sums(path: str, name: str, place: tuple[int, int], found: torch.Tensor, sums: torch.Tensor) -> None:
    wrong = (found != sums).nonzero()
    if not len(wrong):
        return
    at, size = place
    bad = at + int(wrong[0]) * _core.CHECKSUM_BLOCK
    raise FormatError(
        f"{path}: damaged: the checksum of {name} does not match between the offsets {bad} and "
        f"{min(bad + _core.CHECKSUM_BLOCK, at + size)}; restore the file or convert it again"
    )


def _wants_incoming(header: HlHeader, options: LoadOptions) -> bool:
    """Whether lists of in-neighbours are read: where they stay in the file, or where little of the free memory is enough."""
    if options.transpose is not None:
        return options.transpose
    if options.placement["indices"] == "storage":
        return True
    nbytes = sum(count * dtype.itemsize for name, dtype, count in header.arrays() if name.startswith(INCOMING))
    return is_little(nbytes, options.placement["indices"])


def _content(header: HlHeader, held: _Arrays, prefix: str, options: LoadOptions) -> CsrArrays | PackedArrays:
    """Lists whose arrays' names begin with ``prefix``."""

    def in_memory(name: str) -> UnifiedTensor:
        return UnifiedTensor.holding(held[name])

    order = in_memory("order").cpu() if header.flags & REORDERED else None
    directed, weights = bool(header.flags & DIRECTED), held.get(f"{prefix}weights")
    indptr = in_memory(f"{prefix}indptr")
    if header.flags & COMPRESSED:
        starts = in_memory(f"{prefix}packed_offsets")
        return PackedArrays(indptr, starts, held[f"{prefix}packed"], weights, directed, order)
    indices = held[f"{prefix}indices"]
    if indices.file is None:
        indices = _narrow(indices, header.vertices, options)
    is_sorted = bool(header.flags & SORTED) or prefix == INCOMING
    return CsrArrays(indptr, indices, weights, directed, is_sorted, order=order)


def _narrow(indices: UnifiedTensor, vertices: int, options: LoadOptions) -> UnifiedTensor:
    """Neighbours in the type that a graph of this size has."""
    dtype = index_dtype(vertices)
    if indices.dtype == dtype:
        return indices
    narrow = UnifiedTensor.empty(tuple(indices.shape), dtype, options.place("indices"))
    narrow.cpu().copy_(indices.cpu())
    return narrow


class _Section:
    """An array of a file that is written front to back."""

    def __init__(self, output: Output, number: int, at: int) -> None:
        self._output, self._at, self._sums = output, at, Running(number << 48)

    def add(self, piece: torch.Tensor) -> None:
        self._output.write_tensor(piece, self._at)
        self._at += piece.nbytes
        self._sums.add(piece)

    def end(self) -> torch.Tensor:
        return self._sums.end()


def write(graph: Graph, path: str, transpose_in: int | None = None) -> None:
    """Writes the graph as it is: the arrays that it has, in their types, and its order. What lies on storage passes through
    memory a piece at a time. ``transpose_in``: the lists of in-neighbours of a directed graph as well, built a part at a time
    in about so many bytes of host memory; those of a compressed graph whole."""
    lists = graph.neighbor_lists
    turns = transpose_in is not None and graph.directed
    packed = graph.transpose().neighbor_lists if turns and graph.is_compressed else None
    called = labels.stored(graph.labels)
    if graph.labels and called is None:
        warn(f"{path}: the vertices' names are left out; .hl holds texts of one line, or integers of 64 bits")
    flags = (
        DIRECTED * graph.directed
        | SORTED * graph.has_sorted_lists
        | WEIGHTED * (graph.weight_type is not None)
        | COMPRESSED * graph.is_compressed
        | REORDERED * (graph.original_ids is not None)
        | TRANSPOSED * turns
        | NAMED * (called is not None)
    )
    types = (torch.int64, lists.listed_type, *(() if graph.weight_type is None else (graph.weight_type,)))
    sizes = [0 if held is None or not held.is_compressed else held.arrays["packed"].nbytes for held in (lists, packed)]
    header = HlHeader(flags, graph.num_vertices, graph.num_edges, types, sizes[0], sizes[1])
    if called is not None:
        header.names, header.names_bytes = called.dtype, called.nbytes
    found = {**lists.arrays, "order": graph.original_ids, "names": called}
    if packed is not None:
        found |= {f"{INCOMING}{name}": array for name, array in packed.arrays.items()}
    turned = Turned(lists, transpose_in) if turns and packed is None and transpose_in is not None else None
    *places, (sums_at, sums_bytes) = header.sections()
    with replacing(path) as output, progress(f"writing {path}", sums_at) as step:
        output.write(header.pack())
        names = [name for name, _, _ in header.arrays()]
        sections = {
            name: _Section(output, number, at) for number, (name, (at, _)) in enumerate(zip(names, places, strict=True))
        }
        for name, section in sections.items():
            array = found.get(name)
            for piece in () if array is None else pieces(array):
                section.add(piece)
                step(piece.nbytes)
        if turned is not None:
            sections[f"{INCOMING}indptr"].add(turned.offsets)
            for part in turned.parts():
                for name, piece in part.items():
                    sections[f"{INCOMING}{name}"].add(piece)
                    step(piece.nbytes)
        output.write_tensor(torch.cat([section.end() for section in sections.values()]), sums_at)
        output.resize(sums_at + sums_bytes)
