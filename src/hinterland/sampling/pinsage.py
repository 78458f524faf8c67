"""The neighbourhoods of PinSAGE: whom short random walks meet most often (Ying et al. 2018, section 3.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ..graph.graph import Graph
from ..graph.prepare import ResidentGraph, graph_of, kept_for, prepared_for
from ..memory.allocator import require_room
from ..memory.gather_stats import require_dict, timed
from ..runtime import devices
from ..runtime.arguments import whole_number
from ..runtime.capture import capturing
from ..runtime.errors import ConfigError
from ..runtime.thresholds import STEPS_TOGETHER
from .neighbor import check_fanouts, integer, vertices_on
from .sample import Sample
from .walks import WalkRule, walks_from


def pinsage_neighbors(
    graph: Graph | ResidentGraph,
    seeds: torch.Tensor | Sequence[int],
    *,
    walks: int = 10,
    length: int = 3,
    neighbors: int = 10,
    restart: float = 0.0,
    weighted: bool = False,
    seed: int = 0,
    batch: int = 0,
    device: torch.device | str | int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The vertices that random walks from each seed visit most, and how much of all visits each had.

    The importance of u to v is its L1-normalized visit count: visits to u over visits to all vertices, by ``walks`` walks from
    v (section 3.1). Visits to v itself do not count, since a convolution takes v's own features apart (Algorithm 1, line 2).
    A neighbourhood is made of the most visited vertices; of equally visited ones, those with lower numbers.

    Args:
        graph, seeds, length, restart, weighted, seed, batch, device: as for :func:`random_walks`.
        walks: walks from each seed, at least 1.
        neighbors: vertices of each neighbourhood, at least 1.

    Returns:
        The neighbours, int64 ``[n, neighbors]``, most visited first, and their importance, float32 ``[n, neighbors]``: what an
        edge weighs in ``GNN.forward``. Where walks met fewer vertices, -1 and 0 fill the row.

    Raises:
        ConfigError, IndexOutOfRange, GraphError, OutOfMemory: as :func:`random_walks`; ``walks`` or ``neighbors`` below 1.
    """
    rule = WalkRule.of(graph_of(graph), length, weighted, restart, seed)
    walks, neighbors, batch = _at_least_one("walks", walks), _at_least_one("neighbors", neighbors), integer("batch", batch)
    prepared = prepared_for(graph, "sampling", None, device, weighted)
    with devices.on(prepared.device):
        return _neighborhoods(prepared, vertices_on(prepared.device, "seeds", seeds), walks, neighbors, rule, batch)


class PinSAGESampler:
    """Samples several hops of PinSAGE's neighbourhoods (Ying et al. 2018, Algorithm 2).

    In the first hop the seeds have neighbourhoods, in every further one the vertices that the hop before added: those that
    random walks from them visit most, as :func:`pinsage_neighbors` finds them, whether or not an edge leads there. A
    sample depends on ``(seed, batch, seeds)`` and the graph alone, and its first hops are those of a sampler with fewer.

    Args:
        graph: in any memory, or what :func:`prepare` made of it. Walks go from v to vertices of v's list.
        fanouts: the most vertices of a neighbourhood, hop by hop; -1 takes all that walks visit.
        walks: from each vertex, at least 1.
        length, restart, weighted, seed, device: as for :func:`random_walks`.

    Raises:
        ConfigError, GraphError: as :func:`random_walks`; fanouts that are no list of numbers from -1 to 65535.
    """

    def __init__(
        self,
        graph: Graph | ResidentGraph,
        fanouts: Iterable[int],
        *,
        walks: int = 10,
        length: int = 3,
        restart: float = 0.0,
        weighted: bool = False,
        seed: int = 0,
        device: torch.device | str | int | None = None,
    ) -> None:
        self.graph, self.fanouts, self.walks = graph_of(graph), check_fanouts(fanouts), _at_least_one("walks", walks)
        self._rule = WalkRule.of(self.graph, length, weighted, restart, seed)
        self._prepared = kept_for(graph, "sampling", None, device, weighted)
        self.device = self._prepared.device

    def sample(self, seeds: torch.Tensor | Sequence[int], batch: int = 0, *, stats: dict[str, Any] | None = None) -> Sample:
        """The neighbourhoods of ``seeds``, of their neighbours, and so on.

        Args:
            seeds: vertices, ``[s]``, any integer type, on any device; one that is given twice walks twice.
            batch: the number of the mini-batch: another one draws anew.
            stats: a dict that is filled with what was sampled, how long it took, and the ``steps`` of all walks; what these
                read is not counted.

        Returns:
            A :class:`Sample` on the sampler's device. Edges of a vertex come in order of importance, which is their
            ``weight``; their ``edge`` is -1.

        Raises:
            ConfigError, IndexOutOfRange, GraphError, OutOfMemory: as :func:`random_walks`.
        """
        if stats is None:
            return self._sample(seeds, batch)
        require_dict(stats)
        with timed(self.device) as took:
            sample = self._sample(seeds, batch)
        vertices, edges = sample.num_sampled_nodes, sample.num_sampled_edges
        steps = self.walks * self._rule.length * sum(vertices[:-1])
        stats.update(device=str(self.device), seconds=took[0], vertices=vertices, edges=edges, steps=steps)
        return sample

    def _sample(self, seeds: torch.Tensor | Sequence[int], batch: int) -> Sample:
        batch, prepared = integer("batch", batch), self._prepared.opened()
        with devices.on(self.device):
            node = vertices_on(self.device, "seeds", seeds)
            if self.device.type == "cuda" and capturing():
                return self._padded(prepared, node, batch)
            known, nodes, edges = 0, [len(node)], []
            rows, cols, weights = [], [], []
            for fanout in self.fanouts:
                count = self.walks * self._rule.length if fanout < 0 else fanout
                # A vertex walks once in a batch, so that its number makes its draws its own.
                found, shares = _neighborhoods(
                    prepared, node[known:], self.walks, count, self._rule, batch, first=known * self.walks
                )
                there = found >= 0
                cols.append(known + there.nonzero()[:, 0])
                weights.append(shares[there])
                known = len(node)
                node, row = _numbered(node, found[there])
                rows.append(row)
                nodes.append(len(node) - known)
                edges.append(len(row))
            edge = torch.full((sum(edges),), -1, dtype=torch.int64, device=self.device)
            return Sample(node, torch.cat(rows), torch.cat(cols), edge, nodes, edges, weight=torch.cat(weights))

    def _padded(self, prepared: ResidentGraph, node: torch.Tensor, batch: int) -> Sample:
        """The same for a graph that is captured: arrays as long as they can become, with -1 behind the sample, and counts that
        the CPU does not know."""
        frontier, before, known = len(node), node.new_zeros(()), node.new_full((), len(node))
        nodes: list[Any] = [len(node)]
        edges: list[Any] = []
        rows, cols, weights = [], [], []
        for fanout in self.fanouts:
            count = self.walks * self._rule.length if fanout < 0 else fanout
            # A vertex draws by its number, so walks start from all; of those that are not the last hop's, anywhere.
            number = torch.arange(len(node), device=self.device)
            starts = node.masked_fill((number < before) | (number >= known), 0)
            found, shares = _neighborhoods(prepared, starts, self.walks, count, self._rule, batch)
            col = before + torch.arange(frontier, device=self.device)
            at = col.clamp(max=len(node) - 1)
            found = found[at].masked_fill((col >= known)[:, None], -1).view(-1)
            room = min(len(found), prepared.graph.num_vertices)
            node, row, after = _numbered_behind(node, known, found, room)
            rows.append(row)
            cols.append(col.repeat_interleave(count))
            weights.append(shares[at].view(-1))
            nodes.append(after - known)
            edges.append((row >= 0).sum())
            before, known, frontier = known, after, room
        row, col, weight = torch.cat(rows), torch.cat(cols), torch.cat(weights)
        there = row >= 0
        row, col, weight = (_to_front(there, array) for array in (row, col, weight))
        return Sample(node, row, col, torch.full_like(row, -1), nodes, edges, weight=weight)

    def __repr__(self) -> str:
        return f"PinSAGESampler({self.fanouts}, {self.walks} walks of {self._rule.length}, on {self.device}; {self.graph!r})"


def _at_least_one(name: str, number: int) -> int:
    number = whole_number(name, number)
    if number < 1:
        raise ConfigError(f"{name} {number} leaves no neighbourhood; use 1 or more")
    return number


def _neighborhoods(
    prepared: ResidentGraph, seeds: torch.Tensor, walks: int, count: int, rule: WalkRule, batch: int, first: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``count`` most visited vertices of each seed and their importance, ``[n, count]``; ``first`` is the number of the
    first of its walks."""
    if prepared.device.type == "cpu":
        require_room(12 * len(seeds) * count)  # neighbours and their shares
    rows = max(1, STEPS_TOGETHER // (walks * rule.length))
    parts = []
    for at, own in enumerate(seeds.split(rows)):
        paths = walks_from(prepared, "seed", own, rule, batch, each=walks, first=first + at * rows * walks)
        parts.append(most_visited(paths[:, 1:].reshape(len(own), walks * rule.length), own, count))
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _numbered(node: torch.Tensor, found: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """``node`` with those of ``found`` that are new to it, in order of first appearance, and the place of each of ``found``."""
    known = len(node)
    vertices, which = torch.cat([node, found]).unique(return_inverse=True)
    places = torch.arange(len(which), device=node.device)
    first = torch.full_like(vertices, len(which)).scatter_reduce_(0, which, places, "amin")[which[known:]]
    is_new = first == places[known:]
    numbers = torch.cat([places[:known], known - 1 + is_new.cumsum(0)])
    return torch.cat([node, found[is_new]]), numbers[first]


def _numbered_behind(
    node: torch.Tensor, known: torch.Tensor, found: torch.Tensor, room: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As :func:`_numbered`, of the first ``known`` of ``node`` and those of ``found`` that are not -1; and how many vertices
    there are then: at most ``room`` more, with -1 behind them. The CPU waits for nothing."""
    longest = len(node)
    vertices, order = torch.cat([node, found]).sort(stable=True)
    places = torch.arange(len(order), device=node.device)
    goes_on = torch.zeros_like(vertices, dtype=torch.bool)
    torch.eq(vertices[1:], vertices[:-1], out=goes_on[1:])
    begin = places.masked_fill(goes_on, 0).cummax(0).values  # of those of the same vertex
    first = torch.empty_like(order).scatter_(0, order, order[begin])[longest:]
    is_new = (found >= 0) & (first == places[longest:])
    new = known - 1 + is_new.cumsum(0)
    numbers = torch.cat([places[:longest], new])[first].masked_fill(found < 0, -1)
    more = torch.cat([node, node.new_full((room + 1,), -1)])
    more.scatter_(0, new.masked_fill(~is_new, longest + room), found)
    return more[:-1], numbers, known + is_new.sum()


def _to_front(there: torch.Tensor, array: torch.Tensor) -> torch.Tensor:
    """The elements that are ``there``, in their order, with -1 behind them."""
    place = (there.cumsum(0) - 1).masked_fill(~there, len(there))
    return array.new_full((len(array) + 1,), -1).scatter_(0, place, array)[:-1]


def most_visited(visits: torch.Tensor, own: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``count`` commonest vertices of each row of ``visits``, int64 ``[n, m]`` with -1 for no visit, and their shares of
    the row's visits: int64 and float32 ``[n, count]``, filled up with -1 and 0. The row's ``own`` vertex does not count."""
    rows, width = visits.shape
    visits = torch.where(visits == own[:, None], -1, visits).sort(dim=1).values
    first = torch.ones_like(visits, dtype=torch.bool)
    torch.ne(visits[:, 1:], visits[:, :-1], out=first[:, 1:])
    run = first.cumsum(1) - 1  # which of the row's runs of equal vertices a visit is in
    lengths = torch.zeros_like(visits).scatter_add_(1, run, (visits >= 0).long())
    vertices = torch.full_like(visits, -1).scatter_(1, run, visits)
    # Runs ascend by vertex, and a stable sort leaves equally long ones so.
    lengths, order = lengths.sort(dim=1, descending=True, stable=True)
    kept = min(count, width)
    neighbors = visits.new_full((rows, count), -1)
    shares = visits.new_zeros((rows, count), dtype=torch.float32)
    neighbors[:, :kept] = torch.where(lengths > 0, vertices.gather(1, order), -1)[:, :kept]
    shares[:, :kept] = (lengths.double() / lengths.sum(1, keepdim=True).clamp(min=1))[:, :kept].float()
    return neighbors, shares
