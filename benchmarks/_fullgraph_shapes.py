"""Graphs with the shapes of MGG's table 1, of ogbn-products and of IGB-medium, drawn in seconds on a GPU.

What is drawn is no copy of the real graph: vertices, stored edges, direction and columns are those of the data set; ``longest``
and ``near`` were chosen to resemble it.

- Popularity: vertices are ranked at random, and rank r is drawn with density r ** -skew. The skew is such that the first is
  expected in ``longest`` lists of the whole shape; smaller scales keep it.
- A directed graph's list of the vertex of rank r has as many entries as the density gives, rounded so that the sum is exact:
  the lists' lengths are skewed like the popularity. An undirected one's first ends are drawn by popularity, half of the stored
  edges, and each edge is stored in both lists.
- The other end of an edge is near with probability ``near``: before or behind by a distance whose logarithm is uniform between
  those of 1 and of a 64th of the vertices, round about. Else it is drawn by popularity.
- Lists are sorted. No edge joins a vertex with itself; the same edge may be drawn twice (``repeated`` of ``described``).

The same seed gives the same graph on the same kind of device and version of torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import hinterland as hl

PIECE = 1 << 26  # edges drawn at once: some 5 GB of numbers beside the graph


@dataclass(frozen=True)
class Shape:
    """A graph's sizes. ``edges`` counts what is stored: an undirected edge twice."""

    vertices: int
    edges: int
    directed: bool
    columns: int
    classes: int
    longest: int
    near: float

    @property
    def exponent(self) -> float:
        """1 - skew: ranks below r are drawn with probability (r / vertices) ** exponent."""
        return math.log(self.edges / self.longest) / math.log(self.vertices)


# MGG's table counts the undirected edges of products, proteins and orkut once (61,859,140, 39,561,252 and 117,185,083), and
# those of reddit and enwiki twice, as here.
SHAPES = {
    "reddit": Shape(232_965, 114_615_892, False, 602, 41, 22_000, 0.2),
    "enwiki": Shape(4_203_323, 202_623_226, False, 300, 12, 430_000, 0.1),
    "it-2004": Shape(41_291_594, 1_150_725_437, True, 256, 64, 1_300_000, 0.9),
    "papers100M": Shape(111_059_956, 1_615_685_872, True, 128, 64, 250_000, 0.1),
    "products": Shape(2_449_029, 123_718_280, False, 100, 47, 17_500, 0.3),
    "proteins": Shape(132_534, 79_122_504, False, 8, 112, 7_800, 0.5),
    "orkut": Shape(3_072_441, 234_370_166, False, 128, 32, 33_000, 0.2),
    "igb-medium": Shape(10_000_000, 120_077_694, True, 1024, 19, 50_000, 0.1),
}


@dataclass(frozen=True)
class Drawn:
    """A CSR: ``indptr`` int64 ``[vertices + 1]`` and ``indices`` int32 ``[edges]`` on one device; ``shape`` at its scale."""

    name: str
    shape: Shape
    indptr: Tensor
    indices: Tensor

    def to_graph(self, placement: str = "pageable") -> hl.Graph:
        """The graph in host memory."""
        return hl.Graph(self.indptr.cpu(), self.indices.cpu(), directed=self.shape.directed, placement=placement)

    def described(self) -> dict[str, Any]:
        """What a page says of it, and what was drawn: the longest list, vertices without one, and the share of edges that are
        in a list a second time."""
        degrees = self.indptr.diff()
        same = 0
        for begin in range(0, len(self.indices) - 1, PIECE):
            part = self.indices[begin : begin + PIECE + 1]
            same += int((part[1:] == part[:-1]).sum())
        first = self.indptr[1:-1]  # where a list begins, an entry may equal that of the list before
        first = first[(first > 0) & (first < len(self.indices)) & (degrees[1:] > 0)]
        same -= int((self.indices[first] == self.indices[first - 1]).sum())
        return {
            "shape": self.name,
            "vertices": self.shape.vertices,
            "stored_edges": self.shape.edges,
            "directed": self.shape.directed,
            "columns": self.shape.columns,
            "classes": self.shape.classes,
            "longest": int(degrees.max()),
            "empty": int((degrees == 0).sum()),
            "repeated": same / max(len(self.indices), 1),
        }


def scaled(name: str, scale: float) -> Shape:
    """The shape with its vertices and edges multiplied by ``scale``, and the same skew."""
    full = SHAPES[name]
    vertices, edges = max(round(full.vertices * scale), 2), max(round(full.edges * scale), 2)
    edges -= 0 if full.directed else edges % 2
    return replace(full, vertices=vertices, edges=edges, longest=max(round(edges * vertices**-full.exponent), 1))


def draw(name: str, scale: float = 1.0, device: torch.device | str = "cuda", seed: int = 1) -> Drawn:
    """A graph of the shape ``name``, made on ``device``; at scale 1 of papers100M's that takes some 20 GB of memory there."""
    maker = _Maker(scaled(name, scale), SHAPES[name].exponent, torch.device(device), seed)
    return Drawn(name, maker.shape, *(maker.directed() if maker.shape.directed else maker.undirected()))


def shaped(shape: str, device: torch.device, share: float = 1.0) -> Drawn:
    """``NAME`` or ``NAME:SCALE``, drawn on a device; ``share``: of that scale."""
    name, _, scale = shape.partition(":")
    return draw(name, share * float(scale or 1), device)


class _Maker:
    def __init__(self, shape: Shape, exponent: float, device: torch.device, seed: int) -> None:
        self.shape, self.exponent, self.device = shape, exponent, device
        self.random = torch.Generator(device).manual_seed(seed)
        self.by_rank = torch.randperm(shape.vertices, generator=self.random, device=device)

    def directed(self) -> tuple[Tensor, Tensor]:
        vertices, edges = self.shape.vertices, self.shape.edges
        below = torch.arange(vertices + 1, device=self.device, dtype=torch.float64).div_(vertices).pow_(self.exponent)
        below = below.mul_(edges).round_().long()  # edges of the ranks before each
        degrees = torch.empty(vertices, dtype=torch.int64, device=self.device)
        degrees[self.by_rank] = below.diff()
        del below
        indptr = _sums(degrees)
        indices = torch.empty(edges, dtype=torch.int32, device=self.device)
        for first, last in self._pieces(indptr):
            begin, end = indptr[[first, last]].tolist()
            rows = torch.arange(first, last, device=self.device)
            rows = torch.repeat_interleave(rows, degrees[first:last], output_size=end - begin)
            indices[begin:end] = _columns(_sorted(rows, self._others(rows)))
        return indptr, indices

    def undirected(self) -> tuple[Tensor, Tensor]:
        halves = []
        for begin in range(0, self.shape.edges // 2, PIECE):
            ends = self._popular(min(PIECE, self.shape.edges // 2 - begin))
            halves.append((ends, self._others(ends)))
        one, other = (torch.cat(parts) for parts in zip(*halves, strict=True))
        del halves
        keys = _sorted(torch.cat((one, other)), torch.cat((other, one)))
        del one, other
        rows = torch.arange(self.shape.vertices + 1, device=self.device)
        return torch.searchsorted(keys, rows << 32), _columns(keys)

    def _pieces(self, indptr: Tensor) -> list[tuple[int, int]]:
        """Ranges of rows with at most PIECE edges each, or with one row."""
        found, first = [], 0
        while first < self.shape.vertices:
            wanted = indptr[first] + PIECE
            last = max(int(torch.searchsorted(indptr, wanted, right=True)) - 1, first + 1)
            found.append((first, last))
            first = last
        return found

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(count, generator=self.random, device=self.device, dtype=torch.float64)

    def _popular(self, count: int) -> Tensor:
        """Vertices by popularity."""
        ranks = self._uniform(count).pow_(1 / self.exponent).mul_(self.shape.vertices).long()
        return self.by_rank[ranks.clamp_(max=self.shape.vertices - 1)]

    def _others(self, ends: Tensor) -> Tensor:
        """The other end of an edge of each of ``ends``."""
        vertices, far = self.shape.vertices, self._popular(len(ends))
        far = torch.where(far == ends, (far + 1) % vertices, far)
        away = self._uniform(len(ends)).mul_(math.log(max(vertices // 64, 2))).exp_().long().clamp_(1, vertices - 1)
        chance = self._uniform(len(ends))
        away = torch.where(chance < self.shape.near / 2, -away, away)  # half of the near ones lie before
        return torch.where(chance < self.shape.near, (ends + away) % vertices, far)


def _sorted(rows: Tensor, columns: Tensor) -> Tensor:
    return ((rows << 32) | columns).sort().values


def _columns(keys: Tensor) -> Tensor:
    return (keys & 0xFFFFFFFF).int()


def _sums(counts: Tensor) -> Tensor:
    """What comes before each, and the total."""
    sums = counts.new_zeros(len(counts) + 1)
    torch.cumsum(counts, 0, out=sums[1:])
    return sums
