"""What mini-batches read, counted before training, and by what rows of features are ranked for a cache."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from .. import hotness
from ..graph import Graph
from ..graph.algorithms import state_bytes
from ..graph.device_graph import WORDS_BYTES, allocated
from ..graph.prepare import ResidentGraph
from ..hotness.corrected import believed, trust
from ..hotness.presample import mini_batches, until_steady
from ..memory import SlotPlan
from ..memory.clock import Clock
from ..runtime import devices
from ..runtime.thresholds import PLAN_BYTES
from ..sampling import NeighborSampler, Sample
from ..table import ShardedTensor, StorageArray, UnifiedTensor

Keepable = UnifiedTensor | StorageArray | ShardedTensor  # tables of which rows can be kept in GPU memory


def workplace(device: torch.device, vertices: int) -> torch.device:
    """Where arrays of a number for each vertex are made and sorted: ``device``, or the CPU where a GPU has no room."""
    has_room = device.type == "cpu" or PLAN_BYTES * vertices <= devices.free_bytes(device)
    return device if has_room else torch.device("cpu")


@dataclass(frozen=True)
class PlannedReads:
    """What is read in the epochs that a plan looks at, as of ``plan_cache``."""

    graph: Graph
    features: Keepable
    sampler: NeighborSampler  # over lists of which nothing is kept, or that are on storage
    seeds: torch.Tensor | Sequence[int]
    batch_size: int
    epochs: int
    seed: int

    @functools.cached_property
    def workplace(self) -> torch.device:
        """As of :func:`workplace`, when this is asked first."""
        return workplace(self.sampler.device, self.graph.num_vertices)

    def batches(self) -> Iterator[tuple[tuple[int, torch.Tensor], ...]]:
        """Number and seeds of the batches, those of one place in all epochs together."""
        one = (self.graph.num_vertices, self.seeds, self.batch_size, 1, self.seed)
        return zip(*(mini_batches(*one, first_epoch=epoch) for epoch in range(self.epochs)), strict=True)


@dataclass
class ReadCounts:
    """What batches read; of even and of odd epochs, and as sums over all.

    Attributes:
        fetched, drawn: int32 ``[V]`` on the sampler's device, of either half: fetches of each vertex's row, edges drawn from
            its list.
        rows, edges: of either half, how many were fetched and drawn.
        places: of an epoch's batches, how many were sampled of each epoch.
        lists: vertices that drew.
        replayed, hits: of the later half of the epochs, rows fetched from a cache that follows the batches, and those it had.
    """

    fetched: Sequence[torch.Tensor]
    drawn: Sequence[torch.Tensor]
    rows: list[int] = field(default_factory=lambda: [0, 0])
    edges: list[int] = field(default_factory=lambda: [0, 0])
    batches: int = 0
    places: int = 0
    lists: int = 0
    replayed: int = 0
    hits: int = 0

    def each(self, number: float) -> float:
        """So many of a batch, on average."""
        return number / self.batches

    def take(self, half: int, sample: Sample) -> None:
        """Counts a batch's sample."""
        for into, which in ((self.fetched, sample.node), (self.drawn, sample.node[sample.col])):
            into[half].index_add_(0, which, torch.ones(len(which), dtype=torch.int32, device=which.device))
        self.batches += 1
        self.rows[half] += len(sample.node)
        self.edges[half] += len(sample.edge)
        self.lists += len(sample.node) - sample.num_sampled_nodes[-1]


def counted(
    given: PlannedReads,
    slots: SlotPlan | None = None,
    rate: Callable[[ReadCounts], float] | None = None,
    most: int | None = None,
) -> ReadCounts:
    """Samples the epochs, or the first batches of each.

    Args:
        slots: has rows go through a cache that follows the batches: one epoch after the other.
        rate: what a ranking by these counts serves; ends once that is steady.
        most: batches of each epoch, at most; None is all.
    """
    vertices, device = given.graph.num_vertices, given.sampler.device
    fetched, drawn = (torch.zeros((2, vertices), dtype=torch.int32, device=device).unbind() for _ in range(2))
    counts = ReadCounts(fetched, drawn)
    if slots is not None:
        replay = Clock(replace(slots, row_bytes=0), device)  # without the rows
        for epoch, batches in enumerate(zip(*given.batches(), strict=True)):
            for number, part in batches:
                sample: Sample = given.sampler.sample(part, batch=number)
                if epoch >= given.epochs // 2:
                    counts.replayed += len(sample.node)
                    counts.hits += int(replay.holds(sample.node).sum())
                replay.admit(sample.node)
                counts.take(epoch % 2, sample)
        return counts
    places = itertools.islice(given.batches(), most)
    for together in places if rate is None else until_steady(places, lambda: rate(counts)):
        for epoch, (number, part) in enumerate(together):
            counts.take(epoch % 2, given.sampler.sample(part, batch=number))
        counts.places += 1
    return counts


def page_reads(given: PlannedReads, counts: ReadCounts) -> list[torch.Tensor]:
    """What was drawn from each page of the lists in either half of the epochs."""
    work, order = given.workplace, given.graph.original_ids
    drawn = [half.to(work) for half in counts.drawn]
    if order is not None:
        order = order.to(work)
        drawn = [half[order] for half in drawn]
    return [given.sampler.lists.page_reads(half) for half in drawn]


@dataclass(frozen=True)
class RowRanking:
    """By what rows are chosen: ``scores``, and the same as either half of the epochs alone would have them."""

    by: str
    scores: torch.Tensor
    halves: Sequence[torch.Tensor]


Ranking = Callable[[Sequence[torch.Tensor]], RowRanking]  # by the fetches of either half


def ranking(given: PlannedReads, policy: str, budget: int, scores: torch.Tensor | None = None) -> Ranking:
    """What ranks rows as a policy does; by ``scores`` where the user has given some."""
    work = given.workplace
    if scores is not None or policy == "degree":
        by, known = "degree" if scores is None else "scores given", scores
        known = hotness.degree(given.graph, device=given.sampler.device) if known is None else known
        known = known.to(work, torch.float32)
        return lambda fetched: RowRanking(by, known, [known, known])
    chance = None if policy in ("presample", "none") else _inclusion(given, budget, work)

    def ranked(fetched: Sequence[torch.Tensor]) -> RowRanking:
        first, second = (half.to(work) for half in fetched)
        if chance is None:
            return RowRanking("fetches counted", first + second, [first, second])
        a = trust(chance, first, second)
        said = f"inclusion probability, corrected by fetches counted (a = {a:.3g})"
        return RowRanking(said, believed(chance, first + second, a), [believed(chance, half, a) for half in (first, second)])

    return ranked


def _inclusion(given: PlannedReads, budget: int, work: torch.device) -> torch.Tensor | None:
    """Inclusion probabilities, float32 at ``work``, made where batches are sampled, with half of the budget for the graph; None
    where counts cannot correct them, where all lists would have to be read from storage, or there is no room for it."""
    graph, sampler = given.graph, given.sampler
    device = sampler.device
    if given.epochs < 2 or graph.neighbor_lists.stored:
        return None
    if device.type == "cuda" and reserve(graph, "hotness") > devices.free_bytes(device):
        return None
    with graph_for(graph, device, "hotness", budget // 2) as prepared:
        chance = hotness.inclusion_probability(prepared, given.seeds, sampler.fanouts, given.batch_size)
        return chance.to(work, torch.float32)


def bare_graph(graph: Graph, device: torch.device) -> ResidentGraph:
    """The graph with room for a batch, and nothing kept of it yet."""
    return graph_for(graph, device, "sampling")


def graph_for(graph: Graph, device: torch.device, algorithm: str, room: int = 0) -> ResidentGraph:
    """The graph for an algorithm, and ``room`` bytes for what is kept of it."""
    return ResidentGraph(graph, device, reserve(graph, algorithm) + room, (algorithm,), False, many_runs=True)


def reserve(graph: Graph, algorithm: str) -> int:
    """Bytes of the device's memory that an algorithm needs."""
    return state_bytes(algorithm, graph) + 2 * allocated(WORDS_BYTES)


def crosswise(
    ranks: Sequence[torch.Tensor] | torch.Tensor,
    counts: Sequence[torch.Tensor] | torch.Tensor,
    totals: Sequence[float],
    kept: int,
) -> torch.Tensor:
    """The share of reads that the hottest entries serve, ranked by one half of the epochs and counted in the other, both ways:
    float32 ``[kept]``, of the first one, of the first two, and so on.

    Ranked and counted by the same batches, entries that are hot by chance would flatter the share.
    """
    ways = ((0, 1), (1, 0)) if min(totals) > 0 else ((0, 0),)
    hits = torch.zeros(kept, dtype=torch.float64, device=ranks[0].device)
    for one, other in ways:
        hits += counts[other].to(hits.device)[torch.topk(ranks[one], kept).indices].cumsum(0, dtype=torch.float64)
    return (hits / max(sum(totals[other] for _, other in ways), 1)).float()


def last(shares: torch.Tensor) -> float:
    """The last of them; 0 of none."""
    return float(shares[-1]) if len(shares) else 0.0


def ratio(hits: float, of: float) -> float:
    """``hits / of``; 0 of nothing."""
    return hits / of if of else 0.0
