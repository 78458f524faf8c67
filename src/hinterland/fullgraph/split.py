"""Which part of a partition owns which vertices, so that all parts have about as many edges.

MGG (OSDI 2023, section 4.1, algorithm 1) cuts the vertices into ranges by a binary search among the offsets. Its search, as
printed, halves values instead of positions and does not end; what it looks for is a lower bound. Ranges have equal edges, and
then perhaps very unequal rows: where that is so, the vertices are dealt out. No range is even where one vertex has a large part
of all edges: the lists of such hubs are shared by all parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ..graph import arrays
from ..graph.graph import Graph, require_graph
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.thresholds import LONG_CHUNK

BALANCES = ("auto", "contiguous", "dealt")
_UNEVEN = 1.05  # the largest part over the mean, above which "auto" deals the vertices out
_HUBS_PER_SHARE = 20  # a hub's list is more than this fraction of a part's edges, so that no row tips a balance of 1.05


@dataclass(frozen=True, repr=False, eq=False)
class Split(Repr):
    """Which part owns which rows.

    Attributes:
        bounds: ``parts + 1`` numbers; part p owns rows ``[bounds[p], bounds[p + 1])`` of the partition.
        order: int64 ``[num_vertices]``; the user's number of the vertex that is row i. None: every vertex is the row of its
            number.
        numbers: int64 ``[num_vertices]``; the way back, the row that each of the user's vertices is, or None.
        hubs: int64 ``[H]``, ascending; rows whose lists all parts share. Each part sums over the neighbours that it owns, and
            the hub's owner adds these sums up.
    """

    bounds: tuple[int, ...]
    order: torch.Tensor | None
    numbers: torch.Tensor | None
    hubs: torch.Tensor

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self.bounds) - 1

    def graph_numbers(self, graph: Graph) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The number that ``graph`` itself, which may be reordered, has for each row, and the row of each of its vertices.

        int64 ``[num_vertices]``; None where they are the same.

        Raises:
            ConfigError: the split is one of a graph with another number of vertices.
        """
        if self.bounds[-1] != graph.num_vertices:
            raise ConfigError(
                f"the split is one of {self.bounds[-1]} vertices, but the graph has {graph.num_vertices}; split this graph"
            )
        known = graph.numbering
        if known is None:
            return self.order, self.numbers
        if self.order is known.original_ids:
            return None, None
        if self.order is None or self.numbers is None:
            return known.internal_ids, known.original_ids
        return known.internal_ids[self.order], self.numbers[known.original_ids]


@dataclass(frozen=True)
class Balance:
    """How evenly a split divides a graph: what the largest part has over the mean of all parts; 1.0 is even.

    Attributes:
        edges: neighbours that a part sums over, its share of the hubs' included.
        rows: vertices that a part owns.
        served: bytes that others read of a part's rows, each row once for each reader, as ``"halo"`` sends them; None where
            parts were not made. Sums of hubs are not counted: every part has as many.
    """

    edges: float
    rows: float
    served: float | None = None


def split(graph: Graph, parts: int, balance: str = "auto", *, hubs: bool = True) -> Split:
    """Divides the vertices of a graph among ``parts`` parts, whose edges are about equally many.

    Args:
        graph: any graph.
        parts: 1 or more, and more than there are vertices if need be.
        balance: ``"contiguous"``: each part owns a range of vertices, cut so that the edges are even (MGG's algorithm 1); of a
            reordered graph by its own numbers. ``"dealt"``: the vertices, those with most edges first, are dealt out to and
            fro, so that the numbers of rows differ by one at most and the edges are about even; within a part the user's order
            is kept. ``"auto"``: contiguous, or where that is of a reordered graph and uneven, ranges of the user's numbers;
            where rows or edges of the largest part are over 1.05 times the mean, dealt.
        hubs: whether lists are shared at all.

    Returns:
        The split, on the CPU. Its hubs are the vertices with more neighbours than a twentieth of a part's share of all edges
        and than there are parts (else their partial sums would be more to move than their neighbours); with one part none.

    Raises:
        ConfigError: ``parts`` or ``balance`` is something else.
        GraphError: the graph's arrays were changed since it was made.
    """
    require_graph(graph)
    parts = arguments.at_least_one("parts", parts, "leaves no part for the vertices; use 1 or more")
    arguments.one_of("balance", balance, BALANCES)
    own = _hubs(graph, parts if hubs else 1)
    edges, known = _edges_read(graph, own), graph.numbering
    if balance != "dealt":
        found = _contiguous(edges, own, parts)
        if balance == "contiguous" or _is_even(found, edges):
            return found if known is None else replace(found, order=known.original_ids, numbers=known.internal_ids)
    if known is not None:
        edges, own = graph.to_original(edges), known.original_ids[own].sort().values
        found = _contiguous(edges, own, parts)
        if balance == "auto" and _is_even(found, edges):
            return found
    return _dealt(edges, own, parts)


def imbalance(split: Split, graph: Graph) -> Balance:
    """How evenly ``split`` divides ``graph``, of which it is one.

    Raises:
        ConfigError: it is one of a graph with another number of vertices.
        GraphError: the graph's arrays were changed since it was made.
    """
    require_graph(graph)
    own, _ = split.graph_numbers(graph)
    edges = _edges_read(graph, split.hubs if own is None else own[split.hubs])
    return _balance(split, edges if own is None else edges[own])


def turned(split: Split, transposed: Graph, *, hubs: bool = True) -> Split:
    """The same parts for the graph with its edges turned round, which has hubs of its own, if there are to be ``hubs``."""
    own, (_, rows) = _hubs(transposed, split.parts if hubs else 1), split.graph_numbers(transposed)
    return replace(split, hubs=own if rows is None else rows[own].sort().values)


def _hubs(graph: Graph, parts: int) -> torch.Tensor:
    """The graph's own numbers of the vertices whose lists are shared, ascending."""
    if parts == 1:
        return torch.empty(0, dtype=torch.int64)
    most = max(graph.num_edges // (_HUBS_PER_SHARE * parts), parts)
    return (graph.neighbor_lists.checked_offsets().diff() > most).nonzero()[:, 0]


def _edges_read(graph: Graph, hubs: torch.Tensor) -> torch.Tensor:
    """Edges that whoever owns a vertex reads for it: its list unless it is a hub, and its part of the hubs' lists.

    int64 ``[num_vertices]``, by the graph's own numbers, as ``hubs`` are.
    """
    indptr = graph.neighbor_lists.checked_offsets()
    edges = indptr.diff()
    if not len(hubs):
        return edges
    edges[hubs] = 0
    indices = graph.indices.cpu()
    for begin, end in zip(indptr[hubs].tolist(), indptr[hubs + 1].tolist(), strict=True):
        for first in range(begin, end, LONG_CHUNK):
            sources = indices[first : min(first + LONG_CHUNK, end)]
            arrays.check_neighbors(sources, graph.num_vertices, first)
            edges.index_add_(0, sources, torch.ones(len(sources), dtype=torch.int64))
    return edges


def _contiguous(edges: torch.Tensor, hubs: torch.Tensor, parts: int) -> Split:
    """Ranges: each ends before the first row in front of which there are as many edges as it and those before it should have.

    What they should have is counted from the first row on, not from the end of the range before as in MGG, so that what one has
    too much is not missing from the last.
    """
    before = torch.zeros(len(edges) + 1, dtype=torch.int64)
    torch.cumsum(edges, 0, out=before[1:])
    if not int(before[-1]):
        before = torch.arange(len(before))
    wanted = torch.tensor([int(before[-1]) * part // parts for part in range(1, parts)], dtype=torch.int64)
    return Split((0, *torch.searchsorted(before, wanted).tolist(), len(edges)), None, None, hubs)


def _dealt(edges: torch.Tensor, hubs: torch.Tensor, parts: int) -> Split:
    """The vertices with most edges first, dealt to the parts from the first to the last and back."""
    turn = torch.arange(len(edges)) % (2 * parts)
    owner = torch.empty_like(turn)
    owner[edges.sort(descending=True, stable=True).indices] = torch.minimum(turn, 2 * parts - 1 - turn)
    order = owner.sort(stable=True).indices
    numbers = torch.empty_like(order)
    numbers[order] = torch.arange(len(order))
    ends = torch.bincount(owner, minlength=parts).cumsum(0)
    return Split((0, *ends.tolist()), order, numbers, numbers[hubs].sort().values)


def _balance(split: Split, edges: torch.Tensor) -> Balance:
    """The balance, by the edges of each vertex, or of each row of the partition; they are the same where ranges are cut."""
    bounds = torch.tensor(split.bounds)
    before = torch.zeros(len(edges) + 1, dtype=torch.int64)
    torch.cumsum(edges, 0, out=before[1:])
    return Balance(over_mean(before[bounds].diff()), over_mean(bounds.diff()))


def _is_even(split: Split, edges: torch.Tensor) -> bool:
    reached = _balance(split, edges)
    return max(reached.edges, reached.rows) <= _UNEVEN


def over_mean(counts: torch.Tensor) -> float:
    """The largest of what parts have, over the mean; 1.0 where they have nothing."""
    total = int(counts.sum())
    return int(counts.max()) * len(counts) / total if total else 1.0
