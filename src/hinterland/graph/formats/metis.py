"""METIS graphs (.graph): ``N M [FORMAT [COUNT]]``, then a line for each vertex with its neighbours, from 1; % begins a comment.

The digits of FORMAT say, from the last on: a weight follows each neighbour; COUNT weights of the vertex (1) begin its line; its
size stands before these. The latter two are left out. M counts each edge once, and both its ends list it.
Source: Karypis, "METIS: A Software Package for Partitioning Unstructured Graphs, ..., Version 5.1.0", section 4.1.1 (2013).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ...runtime.errors import FormatError
from ...runtime.thresholds import METIS_BYTES
from ..arrays import index_dtype
from .content import EdgeList, LoadOptions, check_counts, check_sparsity
from .text import TextReader, passing

_PASSED = passing(rb"%[^\n]*+")
_WRONG = re.compile(rb"[^0-9 \t\r\n]+|[0-9]{19,}")  # what is no number of 64 bits

_Lists = tuple[np.ndarray, np.ndarray, np.ndarray | None]  # sources, targets, weights


class _Wrong(Exception):
    """What is wrong, in words."""


@dataclass(frozen=True)
class _Header:
    """The first line; ``passed`` numbers stand before the neighbours of a vertex."""

    vertices: int
    edges: int
    passed: int
    weighted: bool

    @classmethod
    def of(cls, line: bytes) -> _Header:
        """_Wrong, with what is wrong, if it is none."""
        fields = line.split()
        if not 2 <= len(fields) <= 4 or not all(field.isdigit() and len(field) <= 18 for field in fields):
            shown = line.strip()[:40].decode("ascii", "replace")
            raise _Wrong(f"the first line is {shown!r}; it must read: VERTICES EDGES [FORMAT [COUNT]]")
        form, count = int(fields[2]) if len(fields) > 2 else 0, int(fields[3]) if len(fields) > 3 else 1
        if form not in (0, 1, 10, 11, 100, 101, 110, 111):
            raise _Wrong(f"the format is {form}; it must be three digits, each 0 or 1")
        return cls(int(fields[0]), int(fields[1]), form // 100 + count * (form // 10 % 10), bool(form % 10))


def matches(text: bytes) -> bool:
    """Whether a whole text is of this format for sure: as many lines as the first promises, and each edge with its reverse.
    There are no self loops."""
    lines = _vertex_lines(text.splitlines(keepends=True))
    try:
        header = _Header.of(lines[0] if lines else b"")
        sources, targets, weights = _lists(header, lines[1:], 0)
    except _Wrong:
        return False
    values = np.zeros(len(sources), np.int64) if weights is None else weights
    if header.vertices != len(lines) - 1 or not 0 < 2 * header.edges == len(sources) or (sources == targets).any():
        return False
    there, back = (np.sort(np.rec.fromarrays([*ends, values])) for ends in ((sources, targets), (targets, sources)))
    return bool((there == back).all())


def read(path: str, options: LoadOptions) -> EdgeList:
    """Both directions of each edge, as the vertices list them: undirected."""
    with TextReader(path) as reader:
        try:
            header = _Header.of(reader.readline_behind(_PASSED))
            check_counts(path, header.vertices, 2 * header.edges)
            parts = list(_parts(reader, header))
        except _Wrong as error:
            raise FormatError(f"{path}: {error}; correct it, or say format='edges' if this is an edge list") from None
    check_sparsity(path, header.vertices, header.edges, " in the first line")
    sources, targets, weights = ([torch.from_numpy(part[i]) for part in parts if part[i] is not None] for i in range(3))
    held = torch.cat(weights) if header.weighted else None
    if held is not None and int(held.amax() if held.numel() else 0) <= torch.iinfo(torch.int32).max:
        held = held.int()
    return EdgeList(torch.cat(sources), torch.cat(targets), held, header.vertices, directed=False)


def _parts(reader: TextReader, header: _Header) -> Iterator[_Lists]:
    """The lists of some vertices after the other. _Wrong if they are not as the header says."""
    dtype = np.int32 if index_dtype(header.vertices) == torch.int32 else np.int64
    first = found = 0
    while lines := reader.readlines(METIS_BYTES):
        lines = _vertex_lines(lines)
        sources, targets, weights = _lists(header, lines, first)
        first, found = first + len(lines), found + len(sources)
        if found > 2 * header.edges:
            break
        yield sources.astype(dtype), targets.astype(dtype), weights
    if found != 2 * header.edges:  # lines that are missing at the end may be blank ones
        raise _Wrong(
            f"the first line promises {header.vertices} vertices and {header.edges} edges, which list {2 * header.edges} "
            f"neighbours, but {min(first, header.vertices)} vertices list {found}"
        )
    yield np.empty(0, dtype), np.empty(0, dtype), np.empty(0, np.int64) if header.weighted else None


def _vertex_lines(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if not line.lstrip().startswith(b"%")]


def _lists(header: _Header, lines: list[bytes], first: int) -> _Lists:
    """The lists of the vertices from ``first`` on, a line each. _Wrong, with the vertex and the value, for a wrong one."""
    text = b"".join(lines)
    if wrong := _WRONG.search(text):
        vertex = first + text[: wrong.start()].count(b"\n") + 1
        raise _Wrong(f"the list of vertex {vertex} has {wrong[0][:20].decode('ascii', 'replace')!r}, which is no number")
    characters = np.frombuffer(text, np.uint8)
    begins = characters >= ord("0")
    begins[1:] &= characters[:-1] < ord("0")
    line_of = np.cumsum(characters == ord("\n"))[begins]
    numbers = np.fromstring(text, np.int64, sep=" ") if len(line_of) else np.empty(0, np.int64)
    counts, step = np.bincount(line_of, minlength=len(lines)), 1 + header.weighted
    wanted = (counts >= header.passed) & ((counts - header.passed) % step == 0)
    last = max(header.vertices - first, 0)
    wanted[last:] = counts[last:] == 0
    if not wanted.all():
        vertex = int(wanted.argmin())
        what = f"of which {header.passed} are its own and the rest its neighbours{', each with a weight' * header.weighted}"
        what = what if vertex < last else f"but there are {header.vertices} vertices"
        raise _Wrong(f"the list of vertex {first + vertex + 1} has {counts[vertex]} numbers, {what}")
    place = np.arange(len(numbers)) - (np.cumsum(counts) - counts)[line_of] - header.passed
    own = (place >= 0) & (place % step == 0)
    targets = numbers[own]
    if len(targets) and not 1 <= int(targets.min()) <= int(targets.max()) <= header.vertices:
        bad = int(((targets < 1) | (targets > header.vertices)).argmax())
        vertex = first + int(line_of[own][bad]) + 1
        raise _Wrong(f"vertex {vertex} lists {targets[bad]}, but the vertices are 1 to {header.vertices}")
    weights = numbers[(place >= 0) & (place % step == 1)] if header.weighted else None
    return first + line_of[own], targets - 1, weights
