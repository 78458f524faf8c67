"""Where traversals begin: vertices drawn at random among those that have neighbours, or listed in a file."""

from __future__ import annotations

import operator
import os

import numpy as np
import torch

from .. import _core
from ..runtime.errors import FormatError, GraphError, IndexOutOfRange
from ..runtime.files import refused
from .graph import Graph

_NPY_MAGIC = b"\x93NUMPY"


def draw_sources(graph: Graph, count: int, seed: int) -> list[int]:
    """``count`` vertex numbers, drawn with Philox; the same for the same graph and ``seed`` on every machine.

    Raises:
        GraphError: no vertex has a neighbour.
    """
    candidates = graph.to_outer(graph.degrees().cpu()).nonzero()[:, 0]
    if len(candidates) == 0:
        raise GraphError(f"none of the graph's {graph.num_vertices} vertices has a neighbour; name a --source")
    return candidates[torch.tensor(_core.draw_below(len(candidates), count, operator.index(seed) % 2**64))].tolist()


def read_sources(path: str | os.PathLike[str], graph: Graph) -> list[int]:
    """Vertex numbers from a file: a one-dimensional ``.npy`` array of integers, or text with one number a line.

    In text, empty lines and what follows a ``#`` are left out.

    Raises:
        FormatError: the file holds something else, or no number; names the line or position.
        IndexOutOfRange: a number is no vertex of ``graph``.
        StorageError: the file is missing or cannot be read.
    """
    path = os.fsdecode(path)
    try:
        with open(path, "rb") as file:
            is_array = file.read(len(_NPY_MAGIC)) == _NPY_MAGIC
            file.seek(0)
            found = _of_array(path, np.load(file, allow_pickle=False)) if is_array else _of_text(path, file.read())
    except OSError as error:
        raise refused(path, "read", error) from error
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{path}: this array cannot be read: {error}; write it with numpy.save") from error
    if not found:
        raise FormatError(f"{path}: holds no vertex number; write one a line")
    for place, vertex in found:
        if not 0 <= vertex < graph.num_vertices:
            raise IndexOutOfRange(
                f"{path}, {place}: source {vertex} is not a vertex: the graph has {graph.num_vertices} vertices, "
                "numbered from 0"
            )
    return [vertex for _, vertex in found]


def _of_array(path: str, array: np.ndarray) -> list[tuple[str, int]]:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise FormatError(f"{path}: an array of shape {array.shape} and type {array.dtype}; sources are one row of integers")
    return [(f"position {i}", vertex) for i, vertex in enumerate(array.tolist())]


def _of_text(path: str, content: bytes) -> list[tuple[str, int]]:
    found = []
    for number, line in enumerate(content.decode(errors="replace").splitlines(), start=1):
        word = line.partition("#")[0].strip()
        if not word:
            continue
        if not (word.isascii() and word.removeprefix("-").isdigit()):
            raise FormatError(f"{path}, line {number}: {word[:40]!r} is no vertex number; write one a line")
        found.append((f"line {number}", int(word)))
    return found
