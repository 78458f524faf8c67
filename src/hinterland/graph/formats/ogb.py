"""OGB's node data sets as they lie on disk: ``raw/edge.csv.gz`` and ``raw/num-node-list.csv.gz``, or ``raw/data.npz``.

The edges are those of the raw files: where OGB's own loader adds inverse edges (ogbn-products), pass ``symmetrize=True``.
"""

from __future__ import annotations

import os

from ... import _core
from ...runtime.errors import FormatError, StorageError
from .arrays import Archive, ArrayFile
from .content import EdgeList, EdgeRuns, LoadOptions, check_counts, check_sparsity
from .npy import read_pairs
from .text import TextReader, integers, parsed


def raw_folder(path: str) -> str | None:
    """The folder of the raw files of the data set in the folder ``path``; None if there is none."""
    for folder in (os.path.join(path, "raw"), path):
        if any(os.path.exists(os.path.join(folder, name)) for name in ("edge.csv.gz", "data.npz")):
            return folder
    return None


def read(path: str, options: LoadOptions) -> EdgeList | EdgeRuns:
    """The data set's one graph, directed."""
    folder = raw_folder(path)
    if folder is None:
        if os.path.exists(os.path.join(path, "raw", "edge_index_dict.npz")):
            raise FormatError(f"{path}: this data set has vertices of several types; hl.datasets.open reads it")
        raise StorageError(
            f"{path}: this folder is no OGB data set: it has neither raw/edge.csv.gz nor raw/data.npz; name a file to load"
        )
    packed = os.path.join(folder, "data.npz")
    if os.path.exists(packed):
        return read_packed(packed, options)
    parser, vertices = parse_text(folder, options.rules)
    return parsed(parser, vertices, options.rules)


def count_vertices(folder: str) -> int:
    """What ``num-node-list.csv.gz`` in the folder of raw files says."""
    sizes = os.path.join(folder, "num-node-list.csv.gz")
    with TextReader(sizes) as reader:
        vertices = integers(reader, reader.readline().strip().split(b","), "the number of vertices")[0]
        if reader.readline().strip():
            raise FormatError(f"{sizes}: the data set has more than one graph; only data sets of one graph are read")
    check_counts(sizes, vertices, 0)
    return vertices


def parse_text(folder: str, rules: _core.EdgeRules | None) -> tuple[_core.EdgeParser, int]:
    """A parser that has read the folder's edges, and the number of vertices."""
    vertices = count_vertices(folder)
    path = os.path.join(folder, "edge.csv.gz")
    with TextReader(path) as reader:
        parser = _core.EdgeParser(path, comments="", separator=",", vertices=vertices, rules=rules)
        reader.parse(parser)
    check_sparsity(path, vertices, parser.edges, " in num-node-list.csv.gz")
    return parser, vertices


def read_packed(path: str, options: LoadOptions) -> EdgeList:
    """The edges of a data set's ``raw/data.npz``."""
    with Archive(path) as archive:
        vertices = count_packed_vertices(archive)
        return read_pairs(path, lambda: archive.open("edge_index"), options, vertices)


def count_packed_vertices(archive: Archive) -> int:
    """What ``num_nodes_list`` in ``raw/data.npz`` says."""
    return one_count(archive.open("num_nodes_list"))


def one_count(sizes: ArrayFile) -> int:
    """The one number in an array that holds a number of vertices for each graph."""
    if sizes.dtype.kind not in "iu" or sizes.count != 1:
        raise FormatError(
            f"{sizes.path}: {sizes.name} has {sizes.count} elements of type {sizes.dtype}, one for each graph; only data "
            "sets of one graph are read"
        )
    count = int(sizes.take(1)[0])
    check_counts(sizes.path, count, 0)
    return count
