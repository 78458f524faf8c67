"""GAP's serialized graphs, ``.sg`` and ``.wsg`` (sbeamer/gapbs, src/reader.h).

Layout, little-endian, without padding: directed (1 byte), edges (int64), vertices (int64), vertices + 1 offsets (int64),
then the neighbours: int32 (.sg), or pairs of int32 neighbour and int32 weight (.wsg). A directed graph is followed by the
offsets and neighbours of its inverse. Of an undirected graph both directions are stored and counted.
"""

from __future__ import annotations

import struct

import torch

from ...runtime.errors import ConfigError, FormatError
from ...runtime.files import Output, replacing
from ...runtime.progress import progress
from ...runtime.thresholds import LONGEST_CHUNK
from ...table import UnifiedTensor
from ..graph import Graph
from ..spare_memory import is_little
from .content import CsrArrays, LoadOptions, check_counts, csr, store_ids
from .files import read_head, read_into, size_of
from .gr import whole

_HEADER = struct.Struct("<Bqq")
_LIMIT = 1 << 31


def _expected(directed: int, edges: int, vertices: int, weighted: bool) -> int:
    """Bytes of a whole file."""
    return _HEADER.size + (1 + directed) * (8 * (vertices + 1) + (8 if weighted else 4) * edges)


def matches(head: bytes, path: str) -> str | None:
    """``"sg"`` or ``"wsg"`` if the header's counts explain the file's size exactly."""
    if len(head) < _HEADER.size:
        return None
    directed, edges, vertices = _HEADER.unpack_from(head)
    if directed > 1 or edges < 0 or not 0 <= vertices < _LIMIT:
        return None
    fitting = [kind for kind in ("sg", "wsg") if _expected(directed, edges, vertices, kind == "wsg") == size_of(path)]
    if len(fitting) == 2:  # without edges both look alike
        return "wsg" if path.endswith(".wsg") else "sg"
    return fitting[0] if fitting else None


def read(path: str, options: LoadOptions, weighted: bool = False) -> CsrArrays:
    """The graph of a ``.sg`` or ``.wsg`` file (with int32 weights), and the inverse of a directed one if it is wanted."""
    head = read_head(path, _HEADER.size)
    if len(head) < _HEADER.size:
        raise FormatError(f"{path}: truncated: {len(head)} bytes, but the header of a GAP graph takes {_HEADER.size}")
    directed, edges, vertices = _HEADER.unpack(head)
    if directed > 1:
        raise FormatError(f"{path}: byte 0 is {directed}, but a GAP graph starts with 0 (undirected) or 1 (directed)")
    check_counts(path, vertices, edges)
    if vertices >= _LIMIT:
        raise FormatError(f"{path}: the header promises {vertices} vertices, but GAP's files hold fewer than 2^31")
    expected, size = _expected(directed, edges, vertices, weighted), size_of(path)
    if size != expected:
        raise FormatError(
            f"{path}: the header promises {vertices} vertices and {edges} {'weighted ' if weighted else ''}edges, "
            f"{expected} bytes, but the file holds {size}; it is {'truncated' if size < expected else 'of another format'}"
        )
    rows = _read_rows(path, options, _HEADER.size, vertices, edges, weighted)
    rows.directed = bool(directed)
    nbytes = (expected - _HEADER.size) // (1 + directed)
    wanted = is_little(nbytes, options.placement["indices"]) if options.transpose is None else options.transpose
    if directed and wanted:
        rows.inverse = _read_rows(path, options, _HEADER.size + nbytes, vertices, edges, weighted)
    return rows


def _read_rows(path: str, options: LoadOptions, at: int, vertices: int, edges: int, weighted: bool) -> CsrArrays:
    """The offsets that lie at ``at``, and the neighbours after them."""
    indptr = UnifiedTensor.empty((vertices + 1,), torch.int64, options.place("indptr"))
    indices = UnifiedTensor.empty((edges,), torch.int32, options.place("indices"))
    weights = UnifiedTensor.empty((edges,), torch.int32, options.place("weights")) if weighted else None
    start = at + 8 * (vertices + 1)
    with progress(f"reading {path}", 8 * vertices + (8 if weighted else 4) * edges) as step:
        read_into(path, at, indptr.cpu())
        step(8 * vertices)
        if weights is None:
            read_into(path, start, indices.cpu())
        else:
            pairs = torch.empty((min(LONGEST_CHUNK, edges), 2), dtype=torch.int32)
            for begin in range(0, edges, LONGEST_CHUNK):
                part = pairs[: min(LONGEST_CHUNK, edges - begin)]
                read_into(path, start + 8 * begin, part)
                end = begin + len(part)
                store_ids(path, "neighbours", part[:, 0], indices.cpu()[begin:end], vertices, begin)
                weights.cpu()[begin:end].copy_(part[:, 1])
                step(8 * len(part))
    return CsrArrays(indptr, indices, weights, directed=True)


def write(graph: Graph, path: str) -> None:
    """Writes ``.sg`` for a graph without weights, ``.wsg`` (int32 weights) for one with them."""
    weighted = graph.array("weights", "cpu") is not None
    if weighted == path.endswith(".sg"):
        raise ConfigError(
            f"{path}: the graph has {'weights, which .sg cannot hold; write .wsg' if weighted else 'no weights; write .sg'}"
        )
    if graph.num_vertices >= _LIMIT:
        raise ConfigError(f"{path}: GAP's files hold fewer than 2^31 vertices, the graph has {graph.num_vertices}")
    with replacing(path) as output:
        output.write(_HEADER.pack(graph.directed, graph.num_edges, graph.num_vertices))
        at = _write_rows(graph, path, output, _HEADER.size)
        if graph.directed:
            _write_rows(graph.transpose(), path, output, at)


def _write_rows(graph: Graph, path: str, output: Output, at: int) -> int:
    """Writes offsets and neighbours at ``at``; returns where they end."""
    (indptr, indices), weights = csr(graph), graph.array("weights", "cpu")
    output.write_tensor(indptr.contiguous(), at)
    at += 8 * (graph.num_vertices + 1)
    if weights is None:
        output.write_tensor(indices.contiguous(), at)
        return at + 4 * graph.num_edges
    for begin in range(0, graph.num_edges, LONGEST_CHUNK):
        end = min(begin + LONGEST_CHUNK, graph.num_edges)
        lengths = whole(path, weights[begin:end])
        large = (lengths < -_LIMIT) | (lengths >= _LIMIT)
        if bool(large.any()):
            raise ConfigError(f"{path}: GAP's weights take 4 bytes, but one is {int(lengths[large][0])}; write .hl instead")
        output.write_tensor(torch.stack([indices[begin:end], lengths.to(torch.int32)], dim=1), at + 8 * begin)
    return at + 8 * graph.num_edges
