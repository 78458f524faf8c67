"""EMOGI's ``.bel``: ``NAME.bel.col`` (offsets), ``NAME.bel.dst`` (neighbours), and if weighted ``NAME.bel.val``.

Layout (illinois-impact/EMOGI, bfs.cu and sssp.cu): each file begins with two 8-byte words, the number of elements and a
placeholder. Offsets and neighbours take 8 bytes each; the count of ``.col`` is the number of vertices plus one. Weights
take 4 bytes: uint32 for EMOGI's sssp, float32 for its sssp_float; nothing in the file says which.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import torch

from ...memory import UnifiedTensor
from ...runtime.errors import ConfigError, FormatError
from ...runtime.files import replacing
from ...runtime.progress import progress
from ..arrays import index_dtype
from ..graph import Graph
from .content import Options, Rows, csr, store_ids
from .files import read_head, read_into, size_of
from .gr import whole

_HEADER = struct.Struct("<qq")
_CHUNK = 1 << 23
PARTS = (".col", ".dst", ".val")


def stem(path: str) -> str | None:
    """``x.bel`` for the names ``x.bel``, ``x.bel.col``, ``x.bel.dst`` and ``x.bel.val``; None for others."""
    base = path[:-4] if path.endswith(PARTS) else path
    return base if base.endswith(".bel") else None


def matches(path: str) -> bool:
    """Whether ``path`` names a graph of this format that is there, by its offsets' file."""
    base = stem(path)
    return base is not None and os.path.exists(base + ".col")


def read(path: str, options: Options) -> Rows:
    """The graph, directed. ``weight_dtype=torch.float32`` reads ``.val`` as floats; otherwise it holds integers."""
    base = stem(path)
    if base is None:
        raise ConfigError(f"{path}: EMOGI's graphs are named x.bel (files x.bel.col, x.bel.dst and x.bel.val)")
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
        wide = torch.empty(min(_CHUNK, edges), dtype=torch.int64)
        for begin in range(0, edges, _CHUNK):
            part = wide[: min(_CHUNK, edges - begin)]
            read_into(base + ".dst", _HEADER.size + 8 * begin, part)
            store_ids(base + ".dst", "neighbours", part, indices.cpu()[begin : begin + len(part)], vertices, begin)
            step(8 * len(part))
        weights = _weights(base + ".val", edges, options) if weighted else None
    return Rows(indptr, indices, weights, directed=True)


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


def _weights(path: str, edges: int, options: Options) -> UnifiedTensor:
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
    if weights is None:
        Path(base + ".val").unlink(missing_ok=True)  # weights of an earlier graph would be taken for this one's
    else:
        _write_part(base + ".val", weights, lambda part: _four_bytes(path, part), 4)
    _write_part(base + ".dst", indices, lambda part: part.to(torch.int64), 8)
    _write_part(base + ".col", indptr, lambda part: part, 8)


def _write_part(path: str, values: torch.Tensor, convert: Callable[[torch.Tensor], torch.Tensor], element: int) -> None:
    with replacing(path) as output:
        output.write(_HEADER.pack(values.numel(), 0))
        for begin in range(0, values.numel(), _CHUNK):
            part = convert(values[begin : begin + _CHUNK]).contiguous()
            output.write_tensor(part, _HEADER.size + element * begin)


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
