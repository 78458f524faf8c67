"""EMOGI's ``.bel``: ``NAME.bel.col`` (offsets), ``NAME.bel.dst`` (neighbours), and if weighted ``NAME.bel.val``.

Layout (illinois-impact/EMOGI, bfs.cu and sssp.cu): each file begins with two 8-byte words, the number of elements and one
that EMOGI's programs read and do not use. Offsets and neighbours take 8 bytes each; the count of ``.col`` is the number of
vertices plus one. Weights take 4 bytes: uint32 for EMOGI's sssp, float32 for its sssp_float; nothing in the file says which.

Our second word is a stamp: "HLG" and a byte with its highest bit, then 4 bytes of the CRC-32 of the whole graph. A crash while
the files of one graph replace those of another leaves different stamps, which are refused. Files of others have none.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable

import torch

from ...runtime.errors import ConfigError, FormatError
from ...runtime.files import replacing_all
from ...runtime.progress import progress
from ...runtime.thresholds import LONGEST_CHUNK
from ...table import UnifiedTensor
from ..arrays import index_dtype
from ..graph import Graph
from .content import CsrArrays, LoadOptions, csr, store_ids
from .files import read_head, read_into, size_of
from .gr import whole

_HEADER = struct.Struct("<qQ")
_STAMP = int.from_bytes(b"HLG\x89", "little") << 32
_STAMP_BYTES = 0xFFFFFFFF << 32
PARTS = (".col", ".dst", ".val")
_Part = tuple[str, torch.Tensor, Callable[[torch.Tensor], torch.Tensor], int]  # ending, elements, as stored, bytes of one


def stem(path: str) -> str | None:
    """``x.bel`` for the names ``x.bel``, ``x.bel.col``, ``x.bel.dst`` and ``x.bel.val``; None for others."""
    base = path[:-4] if path.endswith(PARTS) else path
    return base if base.endswith(".bel") else None


def matches(path: str) -> bool:
    """Whether ``path`` names a graph of this format that is there, by its offsets' file."""
    base = stem(path)
    return base is not None and os.path.exists(base + ".col")


def read(path: str, options: LoadOptions) -> CsrArrays:
    """The graph, directed. ``weight_dtype=torch.float32`` reads ``.val`` as floats; otherwise it holds integers."""
    base = stem(path)
    if base is None:
        raise ConfigError(f"{path}: EMOGI's graphs are named x.bel (files x.bel.col, x.bel.dst and x.bel.val)")
    stamps = _stamps(base)
    if len({*stamps.values()}) > 1:
        raise FormatError(
            f"{base}: {' and '.join(sorted(stamps))} were not saved together: a save was interrupted, or one of them was "
            "replaced; save the graph again"
        )
    offsets = _count(base + ".col", 8)
    if offsets < 1:
        raise FormatError(f"{base}.col: the header counts {offsets} offsets, but a graph of V vertices has V + 1")
    vertices, edges = offsets - 1, _count(base + ".dst", 8)
    weighted = os.path.exists(base + ".val")
    if weighted and _count(base + ".val", 4) != edges:
        raise FormatError(
            f"{base}.val: holds {_count(base + '.val', 4)} weights for {edges} neighbours in {base}.dst; "
            "the files belong to different graphs"
        )
    indptr = UnifiedTensor.empty((offsets,), torch.int64, options.place("indptr"))
    indices = UnifiedTensor.empty((edges,), index_dtype(vertices), options.place("indices"))
    with progress(f"reading {base}", 8 * (offsets + edges)) as step:
        read_into(base + ".col", _HEADER.size, indptr.cpu())
        step(8 * offsets)
        wide = torch.empty(min(LONGEST_CHUNK, edges), dtype=torch.int64)
        for begin in range(0, edges, LONGEST_CHUNK):
            part = wide[: min(LONGEST_CHUNK, edges - begin)]
            read_into(base + ".dst", _HEADER.size + 8 * begin, part)
            store_ids(base + ".dst", "neighbours", part, indices.cpu()[begin : begin + len(part)], vertices, begin)
            step(8 * len(part))
        weights = _weights(base + ".val", edges, options) if weighted else None
    if _stamps(base) != stamps:
        raise FormatError(f"{base}: another graph was saved under this name while this one was read; load it again")
    return CsrArrays(indptr, indices, weights, directed=True)


def _count(path: str, element: int) -> int:
    """The number of elements that a file's header gives, checked against its size."""
    head, size = read_head(path, _HEADER.size), size_of(path)
    if len(head) < _HEADER.size:
        raise FormatError(f"{path}: truncated: {size} bytes, but the header takes {_HEADER.size}")
    count = _HEADER.unpack(head)[0]
    held = (size - _HEADER.size) // element
    if count != held or (size - _HEADER.size) % element:
        hint = ""
        if path.endswith(".col"):
            hint = "; some converters write the number of edges there: it must be the number of vertices plus one"
        raise FormatError(
            f"{path}: the header promises {count} elements of {element} bytes, but the file holds {held}; "
            f"it is truncated or was written wrongly{hint}"
        )
    return count


def _weights(path: str, edges: int, options: LoadOptions) -> UnifiedTensor:
    if options.weight_dtype not in (None, torch.int32, torch.int64, torch.float32):
        raise ConfigError(
            f"weight_dtype={options.weight_dtype}: {path} holds 4-byte values, unsigned integers or float32; "
            "choose torch.int32, torch.int64 or torch.float32"
        )
    stored = torch.float32 if options.weight_dtype == torch.float32 else torch.int32
    weights = UnifiedTensor.empty((edges,), stored, options.place("weights"))
    read_into(path, _HEADER.size, weights.cpu())
    if stored == torch.float32 or edges == 0 or int(weights.cpu().min()) >= 0:
        return weights
    # uint32 values from 2^31 on: no signed 4-byte integer holds them.
    wide = UnifiedTensor.empty((edges,), torch.int64, options.place("weights"))
    wide.cpu().copy_(weights.cpu()).bitwise_and_(0xFFFFFFFF)
    return wide


def write(graph: Graph, path: str) -> None:
    """Writes two files, or three with weights: integers as uint32, others as float32 (refused where that would round)."""
    base = stem(path)
    if base is None:
        raise ConfigError(f"{path}: EMOGI's graphs are named x.bel")
    (indptr, indices), weights = csr(graph), graph.array("weights", "cpu")
    parts: list[_Part] = [(".dst", indices, lambda part: part.to(torch.int64), 8), (".col", indptr, lambda part: part, 8)]
    if weights is not None:
        parts.insert(0, (".val", weights, lambda part: _four_bytes(path, part), 4))
    stamp = _stamp([values for _, values, _, _ in parts])
    # Weights of an earlier graph would be taken for this one's.
    unwanted = [base + ".val"] if weights is None else []
    with replacing_all([base + part[0] for part in parts], unwanted) as outputs:
        for output, (_, values, convert, element) in zip(outputs, parts, strict=True):
            output.write(_HEADER.pack(values.numel(), stamp))
            for begin in range(0, values.numel(), LONGEST_CHUNK):
                part = convert(values[begin : begin + LONGEST_CHUNK]).contiguous()
                output.write_tensor(part, _HEADER.size + element * begin)


def _stamp(arrays: list[torch.Tensor]) -> int:
    """The second word of the files of a graph of these arrays."""
    crc = len(arrays)
    for array in arrays:
        crc = zlib.crc32(array.contiguous().view(torch.uint8).numpy().data, crc)
    return _STAMP | crc


def _stamps(base: str) -> dict[str, int | None]:
    """The stamp of each file that is there, None for one of others."""
    words = {part: read_head(base + part, _HEADER.size) for part in PARTS if os.path.exists(base + part)}
    stamps = {part: _HEADER.unpack(head)[1] for part, head in words.items() if len(head) == _HEADER.size}
    return {part: word if word & _STAMP_BYTES == _STAMP else None for part, word in stamps.items()}


def _four_bytes(path: str, weights: torch.Tensor) -> torch.Tensor:
    if weights.is_floating_point():
        single = weights.to(torch.float32)
        if not bool((single.to(weights.dtype) == weights).all()):
            bad = weights[single.to(weights.dtype) != weights][0].item()
            raise ConfigError(f"{path}: this format holds float32 weights, which would round {bad}; write .hl instead")
        return single
    lengths = whole(path, weights)
    if bool(((lengths < 0) | (lengths >= 1 << 32)).any()):
        bad = int(lengths[(lengths < 0) | (lengths >= 1 << 32)][0])
        raise ConfigError(f"{path}: this format holds unsigned 4-byte weights, but one is {bad}; write .hl instead")
    return torch.where(lengths >= 1 << 31, lengths - (1 << 32), lengths).to(torch.int32)
