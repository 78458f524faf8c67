"""What mini-batches read, counted before training, and by what rows of features are ranked for a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from .. import hotness
from ..graph import Graph
from ..graph.algorithms import state_bytes
from ..graph.device_graph import WORDS_BYTES, allocated
from ..graph.prepare import ResidentGraph
from ..hotness.corrected import believed, trust
from ..hotness.presample import mini_batches
from ..memory import SlotPlan
from ..memory.clock import Clock
from ..runtime import devices
from ..sampling import NeighborSampler, Sample
from ..table import ShardedTensor, StorageArray, UnifiedTensor

Keepable = UnifiedTensor | StorageArray | ShardedTensor  # tables of which rows can be kept in GPU memory


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


@dataclass
class ReadCounts:
    """Of even and of odd epochs: fetches of each vertex's row, edges drawn from its list; and sums over all of them.

    Of the later half of the epochs: rows fetched from a cache that follows the batches (``replayed``), and those that it had.
    """

    fetched: list[torch.Tensor]
    drawn: list[torch.Tensor]
    batches: int = 0
    rows: int = 0
    edges: int = 0
    lists: int = 0
    replayed: int = 0
    hits: int = 0


def counted(given: PlannedReads, slots: SlotPlan | None) -> ReadCounts:
    """Samples the epochs; with ``slots`` rows go through a cache that follows the batches."""
    vertices, device = given.graph.num_vertices, given.sampler.device
    fetched, drawn = (torch.zeros((2, vertices), dtype=torch.int32, device=device) for _ in range(2))
    counts = ReadCounts([], [])
    replay = None if slots is None else Clock(replace(slots, row_bytes=0), device)  # without the rows
    for number, part in mini_batches(vertices, given.seeds, given.batch_size, given.epochs, given.seed):
        sample: Sample = given.sampler.sample(part, batch=number)
        epoch = number // -(-len(given.seeds) // given.batch_size)
        if replay is not None:
            if epoch >= given.epochs // 2:
                counts.replayed += len(sample.node)
                counts.hits += int(replay.holds(sample.node).sum())
            replay.admit(sample.node)
        for into, which in ((fetched, sample.node), (drawn, sample.node[sample.col])):
            into[epoch % 2].index_add_(0, which, torch.ones(len(which), dtype=torch.int32, device=device))
        counts.batches += 1
        counts.rows += len(sample.node)
        counts.edges += len(sample.edge)
        counts.lists += len(sample.node) - sample.num_sampled_nodes[-1]
    counts.fetched, counts.drawn = ([half.to("cpu", torch.float64) for half in both] for both in (fetched, drawn))
    return counts


@dataclass(frozen=True)
class RowRanking:
    """By what rows are chosen: ``scores``, and the same as either half of the epochs alone would have them."""

    by: str
    scores: torch.Tensor
    halves: Sequence[torch.Tensor]


def ranked(given: PlannedReads, policy: str, counts: ReadCounts, budget: int, scores: torch.Tensor | None = None) -> RowRanking:
    """By what a policy chooses rows; by ``scores`` where the user has given some."""
    if scores is not None:
        given_scores = scores.to("cpu", torch.float64)
        return RowRanking("scores given", given_scores, [given_scores, given_scores])
    if policy == "degree":
        degree = hotness.degree(given.graph, device=given.sampler.device).cpu()
        return RowRanking("degree", degree, [degree, degree])
    chance = None if policy in ("presample", "none") else _inclusion(given, budget)
    if chance is None:
        return RowRanking("fetches counted", counts.fetched[0] + counts.fetched[1], counts.fetched)
    known = trust(chance, *counts.fetched)
    both = believed(chance, counts.fetched[0] + counts.fetched[1], known)
    said = f"inclusion probability, corrected by fetches counted (a = {known:.3g})"
    return RowRanking(said, both, [believed(chance, half, known) for half in counts.fetched])


def _inclusion(given: PlannedReads, budget: int) -> torch.Tensor | None:
    """Inclusion probabilities on the CPU, made where batches are sampled, with half of the budget for the graph; None where
    counts cannot correct them, where all lists would have to be read from storage, or there is no room for it."""
    graph, sampler = given.graph, given.sampler
    device = sampler.device
    if given.epochs < 2 or graph.neighbor_lists.stored:
        return None
    if device.type == "cuda" and reserve(graph, "hotness") > devices.free_bytes(device):
        return None
    with graph_for(graph, device, "hotness", budget // 2) as prepared:
        return hotness.inclusion_probability(prepared, given.seeds, sampler.fanouts, given.batch_size).cpu()


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
    ranks: Sequence[torch.Tensor], counts: Sequence[torch.Tensor], kept: int, totals: Sequence[float] | None = None
) -> float:
    """The share of reads that the hottest entries serve, ranked by one half of the epochs and counted in the other, both ways.

    Ranked and counted by the same batches, entries that are hot by chance would flatter the share.
    """
    totals = [float(half.sum()) for half in counts] if totals is None else totals
    ways = ((0, 1), (1, 0)) if min(totals) > 0 else ((0, 0),)
    hits = sum(float(counts[other][torch.topk(ranks[one], kept).indices].sum()) for one, other in ways)
    return ratio(hits, sum(totals[other] for _, other in ways))


def ratio(hits: float, of: float) -> float:
    """``hits / of``; 0 of nothing."""
    return hits / of if of else 0.0
