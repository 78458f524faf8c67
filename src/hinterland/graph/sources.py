"""Where traversals begin: vertices drawn at random among those that have neighbours, or listed in a file."""

from __future__ import annotations

import operator
import os
from collections.abc import Hashable, Mapping, Sequence

import torch

from .. import _core
from ..runtime.errors import FormatError, GraphError, IndexOutOfRange, OutOfMemory
from ..runtime.files import opening
from .formats.arrays import MAGIC, open_npy
from .graph import Graph

_LONGEST = 20  # digits of the largest 64-bit number
_BLANKS = " \t\r"  # what else Unicode calls blank is part of a name, as edge lists have it


def draw_sources(graph: Graph, count: int, seed: int) -> list[int]:
    """``count`` vertex numbers, drawn with Philox; the same for the same graph and ``seed`` on every machine. Raises
    GraphError: no vertex has a neighbour."""
    candidates = graph.to_original(graph.degrees().cpu()).nonzero()[:, 0]
    if len(candidates) == 0:
        raise GraphError(f"none of the graph's {graph.num_vertices} vertices has a neighbour; name where to begin")
    return candidates[torch.tensor(_core.draw_below(len(candidates), count, operator.index(seed) % 2**64))].tolist()


def read_sources(path: str | os.PathLike[str], graph: Graph) -> list[int]:
    """Vertex numbers from a file: a one-dimensional ``.npy`` array of integers, or text with one number a line.

    Of a graph whose vertices have names, ``graph.labels``, the file lists these. In text, empty lines and what follows a ``#``
    are left out, unless it belongs to a name.

    Raises:
        FormatError: the file holds something else, or no number, or less than its header promises; names the line or position.
        IndexOutOfRange: a number, or a name, is that of no vertex of ``graph``.
        StorageError: the file is missing or cannot be read.
    """
    path = os.fsdecode(path)
    try:
        with opening(path, "read"), open(path, "rb") as file:
            head = file.read(len(MAGIC))
            if head == MAGIC:
                found = _of_array(path)
            elif graph.labels is None:
                found = _of_text(path, head + file.read())
            else:
                return _of_names(path, head + file.read(), graph.labels)
    except MemoryError as error:
        raise OutOfMemory(f"{path}: not enough host memory for the vertices that it lists; list fewer") from error
    if not found:
        raise FormatError(f"{path}: holds no vertex number; write one a line")
    if graph.labels is not None:
        return _called(path, found, _by_name(graph.labels))
    for place, vertex in found:
        if not 0 <= vertex < graph.num_vertices:
            raise IndexOutOfRange(
                f"{path}, {place}: source {vertex} is not a vertex: the graph has {graph.num_vertices} vertices, "
                "numbered from 0"
            )
    return [vertex for _, vertex in found]


def _of_names(path: str, content: bytes, labels: Sequence[Hashable]) -> list[int]:
    """The vertices that a text names, one a line."""
    vertices, found = _by_name(labels), []
    for number, line in enumerate(content.decode("utf-8-sig", errors="replace").split("\n"), start=1):
        word = line.strip(_BLANKS)
        if word not in vertices:
            word = line.partition("#")[0].strip(_BLANKS)
        if word:
            found.append((f"line {number}", word))
    if not found:
        raise FormatError(f"{path}: holds no name of a vertex; write one a line")
    return _called(path, found, vertices)


def _by_name(labels: Sequence[Hashable]) -> dict[str, int]:
    return {str(label): vertex for vertex, label in enumerate(labels)}


def _called(path: str, found: Sequence[tuple[str, object]], vertices: Mapping[str, int]) -> list[int]:
    for place, name in found:
        if str(name) not in vertices:
            raise IndexOutOfRange(f"{path}, {place}: no vertex is called {name!r}; one is called {next(iter(vertices))!r}")
    return [vertices[str(name)] for _, name in found]


def _of_array(path: str) -> list[tuple[str, int]]:
    try:
        array = open_npy(path)
    except MemoryError as error:  # of Python's parser
        raise FormatError(f"{path}: the header of the array cannot be read; the file is damaged") from error
    if len(array.shape) != 1 or array.dtype.kind not in "iu":
        raise FormatError(f"{path}: an array of shape {array.shape} and type {array.dtype}; sources are one row of integers")
    return [(f"position {i}", vertex) for i, vertex in enumerate(array.integers(array.count).tolist())]


def _of_text(path: str, content: bytes) -> list[tuple[str, int]]:
    found = []
    for number, line in enumerate(content.decode("utf-8-sig", errors="replace").splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if not word:
            continue
        if not (word.isascii() and word.removeprefix("-").isdigit()):
            raise FormatError(f"{path}, line {number}: {word[:40]!r} is no vertex number; write one a line")
        if len(word) > _LONGEST:
            raise FormatError(f"{path}, line {number}: a number of {len(word)} digits is no vertex number; write one a line")
        found.append((f"line {number}", int(word)))
    return found
