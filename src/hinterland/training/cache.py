"""What mini-batch training keeps in GPU memory: neighbour lists and rows of features, within one budget.

The dual cache of DUCATI (Zhang et al. 2023), and the single caches of GNNLab (Yang et al. 2022) and PaGraph (Lin et al.
2020); Wang's survey, sections VI and VII. What these keep does not change while training goes on; what CLOCK keeps does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..graph import Graph
from ..graph.device_graph import Kept as KeptLists
from ..graph.device_graph import allocated
from ..graph.plan import GraphPlan
from ..hotness.presample import mini_batches
from ..memory import hottest_first
from ..memory.plan import fetch_rate
from ..runtime import arguments, devices
from ..runtime.errors import ConfigError
from ..runtime.thresholds import TRIAL_BYTES
from ..sampling import NeighborSampler
from ..table import as_table
from ..table.tiered import Devices, listed_devices, unlinked_pair
from .cache_choice import POLICIES, bytes_of, checked_scores, parse_budget
from .cache_costs import Costs, measured, rated
from .cache_plan import CachePlan, HitRates, gpus_sharing, sharers
from .cache_reads import (
    Keepable,
    PlannedReads,
    ReadCounts,
    RowRanking,
    bare_graph,
    counted,
    crosswise,
    last,
    page_reads,
    ranking,
    ratio,
)
from .cache_split import CacheCandidates, CacheSplit, rows_in_tiers, rows_within, slots_within, split
from .cache_tiers import TierGains

_MEASURED_BATCHES = 4
_MEASURED_ROWS = 256 << 20  # bytes
_NO_RANKING = RowRanking("nothing", torch.zeros(0), [torch.zeros(0), torch.zeros(0)])


@dataclass(frozen=True)
class CountedReads:
    """What a plan is made of: the batches that were counted, and how rows are ranked by them.

    Attributes:
        given, policy, budget, scores, costs: as of CachePlan.
        counts: with those of the vertices.
        pages: what was drawn from each page of the lists, in either half of the epochs.
    """

    given: PlannedReads
    policy: str
    budget: int
    scores: torch.Tensor | None
    costs: Costs
    counts: ReadCounts
    ranked: RowRanking
    pages: list[torch.Tensor]

    def plan(self, devices: tuple[torch.device, ...], lists_first: bool = False) -> CachePlan:
        """The plan of devices that share what they keep."""
        costs = replace(self.costs, row_peer=None, edge_peer=None) if unlinked_pair(devices) else self.costs
        gpus = gpus_sharing(self.policy, self.given, devices)
        if lists_first:
            lists = split(self.budget, self._entries(costs.of_lists(), gpus, self.ranked.scores[:0]))
            left = self._rows_within(self.budget - lists.adjacency_bytes, costs, gpus)
            rows = {name: getattr(left, name) for name in ("rows", "local", "feature_bytes", "peers", "dealt_rows")}
            kept = replace(lists, **rows)
        elif self.policy == "auto":
            kept = split(self.budget, self._entries(costs, gpus, self.ranked.scores))
        else:
            kept = self._rows_within(self.budget if self.policy != "none" else 0, costs, gpus)
        return self.keeping(kept, costs, devices)

    def keeping(self, kept: CacheSplit, costs: Costs, devices: tuple[torch.device, ...]) -> CachePlan:
        """The plan that keeps this, and what is expected of it."""
        counts, given = self.counts, self.given
        hottest, predicted = self._hottest(kept.rows), self._predicted(kept, costs, gpus_sharing(self.policy, given, devices))
        totals = replace(counts, fetched=(), drawn=())  # a plan holds no memory of a GPU
        again = replace(self, counts=totals, ranked=_NO_RANKING, pages=[])._again
        return CachePlan(
            policy=self.policy,
            budget=self.budget,
            split=kept,
            costs=costs,
            batches=counts.batches,
            rows=counts.each(sum(counts.rows)),
            edges=counts.each(sum(counts.edges)),
            predicted=predicted,
            ranked=self.ranked.by,
            devices=devices,
            _given=given,
            _again=again,
            _places=counts.places or None,
            _hottest=hottest.clone(),  # which is cut from an order of all rows
            _pages=(self.pages[0] + self.pages[1]).cpu(),
        )

    def _again(self, devices: Sequence[torch.device], lists_first: bool) -> CachePlan:
        """:meth:`plan` by the same batches, sampled again."""
        given, before = self.given, self.counts
        counts = replace(counted(given, most=before.places or None), replayed=before.replayed, hits=before.hits)
        ranked = ranking(given, self.policy, self.budget, self.scores)(counts.fetched)
        known = replace(self, counts=counts, ranked=ranked, pages=page_reads(given, counts))
        return known.plan(tuple(devices), lists_first)

    def _hottest(self, count: int) -> torch.Tensor:
        scores = self.ranked.scores.float()  # of 32 bits all threads sort
        return hottest_first(scores, len(scores), min(count, len(scores)))

    def _rows_within(self, room: int, costs: Costs, gpus: int) -> CacheSplit:
        """The rows that are ranked highest, or slots for those that come and go, in so much of each device."""
        features, counts = self.given.features, self.counts
        if self.policy == "clock":
            slots = slots_within(room, len(features), features.row_bytes)
            return CacheSplit(slots.capacity, slots.held_bytes, allocated(slots.held_bytes))
        if gpus == 1:
            return CacheSplit(*rows_within(room, len(features), features.row_bytes))
        order = self._hottest(len(features))
        reads = (counts.fetched[0] + counts.fetched[1]).to(order.device)[order]
        gains = reads.double() * counts.each(costs.row_host - costs.row_gpu)
        return rows_in_tiers(room, TierGains(gains, gpus, costs.dealt(gpus)[0]), features.row_bytes)

    def _entries(self, costs: Costs, gpus: int, row_scores: torch.Tensor) -> CacheCandidates:
        """What may be kept, of rows and of pages of the lists."""
        given, counts, each = self.given, self.counts, self.counts.each(1)
        bare = given.sampler.lists
        lists = not bare.lists.on_gpu and not bare.stored
        pages = (self.pages[0] + self.pages[1]).sort(descending=True).values if lists else torch.zeros(0)
        edge, row = costs.edge_host - costs.edge_gpu, costs.row_host - costs.row_gpu
        row_left, page_left = costs.dealt(gpus)
        return CacheCandidates(
            rows=_falling(row_scores) * (each * row),
            row_bytes=given.features.row_bytes,
            pages=pages * (each * edge),
            all_edges=sum(counts.edges) * each * edge,
            offsets=counts.lists * each * (costs.list_host - costs.list_gpu),
            offsets_bytes=bare.offsets_bytes if lists else 0,
            lists=bare if lists else None,
            weighted=given.sampler.weighted,
            gpus=gpus,
            dealt_row=row_left,
            dealt_page=page_left if lists and len(bare.page_sizes(given.sampler.weighted)) == 1 else 0.0,
        )

    def _predicted(self, kept: CacheSplit, costs: Costs, gpus: int) -> HitRates:
        counts, lists, drawn, dealt_edges = self.counts, self.given.sampler.lists, 0.0, 0.0
        if self.policy == "clock":
            served, dealt_rows = ratio(counts.hits, counts.replayed), 0.0
        elif kept.rows == self.given.graph.num_vertices and not kept.dealt_rows:
            served, dealt_rows = 1.0, 0.0
        else:
            shares = crosswise(self.ranked.halves, counts.fetched, counts.rows, kept.rows)
            served = last(shares)
            dealt_rows = served - last(shares[: kept.rows - kept.dealt_rows])
        if lists.lists.on_gpu or kept.whole:
            drawn = 1.0
        elif kept.pages:
            shares = crosswise(self.pages, self.pages, counts.edges, kept.pages)
            drawn = last(shares)
            dealt_edges = drawn - last(shares[: kept.pages - kept.dealt_pages])
        rows, vertices, edges = (counts.each(n) for n in (sum(counts.rows), counts.lists, sum(counts.edges)))
        at_lists = costs.list_gpu if kept.offsets or lists.lists.on_gpu else costs.list_host
        sampling = vertices * at_lists + edges * (drawn * costs.edge_gpu + (1 - drawn) * costs.edge_host)
        gathering = rows * (served * costs.row_gpu + (1 - served) * costs.row_host)
        row, edge = costs.dealt(gpus)
        gathering += rows * dealt_rows * (1 - row) * (costs.row_host - costs.row_gpu)
        sampling += edges * dealt_edges * (1 - edge) * (costs.edge_host - costs.edge_gpu)
        return HitRates(served, drawn, sampling, gathering, dealt_rows * (1 - 1 / gpus))


def plan_cache(
    graph: Graph,
    features: Keepable,
    sampler: NeighborSampler | Iterable[int],
    seeds: torch.Tensor | Sequence[int],
    batch_size: int,
    budget: int | str,
    policy: str | torch.Tensor = "auto",
    *,
    epochs: int | None = None,
    seed: int = 0,
    costs: Costs | None = None,
    device: torch.device | str | int | None = None,
    devices: Devices | None = None,
) -> CachePlan:
    """Splits ``budget`` bytes of GPU memory between neighbour lists and rows of features, by what mini-batches read.

    Args:
        graph: whose lists are sampled from, in host memory, compressed or not; or on storage, with a cache of its own beside
            the budget.
        features: ``[V, ...]``, in host memory; on storage, whose pages lie in its own cache (``host_budget=``); or dealt out
            over machines, where all ranks plan at once, each for its own GPU and as many batches.
        sampler: a NeighborSampler of ``graph``, or fanouts for one.
        seeds, batch_size, epochs, seed: as in ``hotness.presample``: the batches of ``epochs`` epochs of a Loader that
            shuffles with ``seed`` are sampled and counted. One epoch flatters its own prediction; two or more check each other.
            None takes the first batches of two epochs, until rows that the one ranks highest serve the other's batches hardly
            better for twice as many; and four of each where the budget holds everything, and nothing is to be chosen.
        budget: bytes, which everything that is kept takes together at most. A batch's own memory is not part of it. Or a share,
            as ``"10%"``: the bytes that this share of the rows of features takes there, whatever is kept in them.
        policy: ``"auto"``, both by benefit per byte (DUCATI); ``"features"``, rows alone. Rows are ranked by their
            inclusion probability as the counts correct it (``hotness.corrected_probability``), or by the counts alone with one
            epoch, of a graph on storage, and where the GPU has no room for the former. ``"presample"``, rows by the counts
            alone (PreSC#K with K = ``epochs``, at most 2 if None); ``"degree"``, rows by in how many lists they are (PaGraph);
            scores, of any real type ``[V]``, rows with the highest; ``"clock"``, rows fetched lately, which follow training
            (table/cached.py), of a table in host memory; ``"none"``.
        costs: seconds of reads; None measures them on a GPU, and on the CPU takes those of the probe or built-in ones.
        device: where to sample with fanouts; None is the current GPU, or the CPU on a machine without one.
        devices: GPUs of this process that share one plan, each within the budget, as :meth:`CachePlan.over` says; None is the
            sampler's alone.

    Raises:
        ConfigError: an unknown policy, scores that are not one number for each vertex, a budget that is no size, or for
            ``"clock"`` holds no row; features that are no UnifiedTensor, StorageArray or ShardedTensor, or not one row for each
            vertex, a sampler of another graph, no seeds.
        IndexOutOfRange: a seed is no vertex.
        OutOfMemory: a batch does not fit into the free GPU memory.
    """
    require_plannable(graph, features, policy)
    if costs is not None:
        arguments.instance("costs", costs, Costs, "or leave it out, and they are measured")
    size = bytes_of(parse_budget(budget), len(features), features.row_bytes)
    scores: torch.Tensor | None = None
    if not isinstance(policy, str):
        policy, scores = "scores", checked_scores(policy, {None: graph.num_vertices})[None]
    shared = None if devices is None else tuple(sharers(devices))
    if devices is not None and device is None and not isinstance(sampler, NeighborSampler):
        device = listed_devices(devices)[0]
    most = 2 if epochs is None else arguments.whole_number("epochs", epochs, 1)
    given = PlannedReads(graph, features, _sampler(graph, sampler, device), seeds, batch_size, most, seed)
    homes = shared or (given.sampler.device,)
    slots = slots_within(size, len(features), features.row_bytes) if policy == "clock" else None
    if epochs is None and slots is None and (kept := _unchosen(given, policy, size, homes)) is not None:
        return _plan_of_few(given, policy, size, scores, costs, kept, homes)
    rank = ranking(given, policy, size, scores)
    rows, _, _ = rows_within(size if policy != "none" else 0, graph.num_vertices, features.row_bytes)

    def rate(counts: ReadCounts) -> float:
        return last(crosswise(rank(counts.fetched).halves, counts.fetched, counts.rows, rows))

    counts = counted(given, slots, rate if epochs is None else None)
    pages = page_reads(given, counts)
    if costs is None:
        costs = _costs(given, counts, pages, size)
    return CountedReads(given, policy, size, scores, costs, counts, rank(counts.fetched), pages).plan(homes)


def _unchosen(given: PlannedReads, policy: str, size: int, homes: tuple[torch.device, ...]) -> CacheSplit | None:
    """What is kept where nothing is to be chosen: all rows and lists, for which there is room, or nothing."""
    if policy == "none":
        return CacheSplit()
    bare, vertices, adjacency = given.sampler.lists, given.graph.num_vertices, 0
    if kept_lists := not bare.lists.on_gpu and not bare.stored:
        adjacency = bare.kept_bytes(KeptLists(offsets=True, whole=True, weighted=given.sampler.weighted))
    rows, local, held = rows_within(size - adjacency, vertices, given.features.row_bytes, gpus_sharing(policy, given, homes))
    if rows < vertices:
        return None
    if policy != "auto" or not kept_lists:
        return CacheSplit(rows, local, held)
    return CacheSplit(rows, local, held, bare.offsets_bytes > 0, bare.num_pages, True, adjacency)


def _plan_of_few(
    given: PlannedReads,
    policy: str,
    size: int,
    scores: torch.Tensor | None,
    costs: Costs | None,
    kept: CacheSplit,
    devices: tuple[torch.device, ...],
) -> CachePlan:
    """Of batches as few as tell how large they are."""
    counts = counted(given, most=_MEASURED_BATCHES)
    none = torch.zeros(given.sampler.lists.num_pages, dtype=torch.float64)
    if costs is None:
        costs = _costs(given, counts, [none, none], size) if given.features.collective else _rated(given, counts)
    said = "nothing, since all are kept" if kept.rows else "nothing, since none is kept"
    ranked = replace(_NO_RANKING, by=said)
    return CountedReads(given, policy, size, scores, costs, counts, ranked, [none, none]).keeping(kept, costs, devices)


def _falling(scores: torch.Tensor) -> torch.Tensor:
    """Sorted as numbers of 32 bits, which takes a fifth of the time."""
    return scores.float().sort(descending=True).values.double()


def require_plannable(graph: Graph, features: Keepable, policy: Any) -> None:
    """Raises ConfigError unless ``policy``, a name or scores, can plan for this graph and these features."""
    if not isinstance(graph, Graph):
        raise ConfigError(f"plan_cache() takes a Graph, not a {type(graph).__name__}")
    if isinstance(policy, str):
        arguments.one_of("policy", policy, POLICIES)
    else:
        checked_scores(policy, {None: graph.num_vertices})
    table = as_table(features)
    if table is None or not table.keepable:
        raise ConfigError(
            f"features are a {type(features).__name__}; make a table of them, UnifiedTensor.from_tensor(features)"
        )
    if isinstance(policy, str) and policy == "clock" and not features.in_reach:
        where = "dealt out over machines" if features.collective else "on storage"
        raise ConfigError(f"policy 'clock' is of features in host memory; of those {where} take 'auto' or 'features'")
    if len(features) != graph.num_vertices:
        raise ConfigError(f"features have {len(features)} rows, but the graph has {graph.num_vertices} vertices")


def _sampler(graph: Graph, given: NeighborSampler | Iterable[int], device: torch.device | str | int | None) -> NeighborSampler:
    if not isinstance(given, NeighborSampler):
        device = devices.as_device(device)
        return NeighborSampler(graph if graph.neighbor_lists.stored else bare_graph(graph, device), given, device=device)
    if device is not None and devices.as_device(device) != given.device:
        raise ConfigError(f"the sampler is on {given.device}; leave out device")
    if given.graph is not graph:
        raise ConfigError(f"the sampler draws from {given.graph!r}, not from the graph that was given")
    return given if graph.neighbor_lists.stored else given.over(bare_graph(graph, given.device))


def _rated(given: PlannedReads, counts: ReadCounts) -> Costs:
    features, sampler, rows = given.features, given.sampler, int(counts.each(sum(counts.rows)))
    table = features.part
    costs = rated(features.row_bytes, table.nbytes, rows, sampler.lists.edges.nbytes, table.placement, table.managed_bytes)
    if features.collective:
        costs = replace(costs, source=f"{costs.source}; rows of other machines as if they were here")
    if features.file is not None:
        rate, whose = fetch_rate(features.row_bytes, features.file.line_bytes)
        costs = replace(costs, row_host=1 / rate, source=f"{costs.source}; rows of a disk {whose}")
    return costs


def _costs(given: PlannedReads, counts: ReadCounts, pages: list[torch.Tensor], budget: int) -> Costs:
    graph, features, sampler, costs = given.graph, given.features, given.sampler, _rated(given, counts)
    if sampler.device.type != "cuda":
        return costs
    first = mini_batches(graph.num_vertices, given.seeds, given.batch_size, 1, given.seed)
    trial = None
    if not sampler.lists.lists.on_gpu and not sampler.lists.stored:
        prepared = bare_graph(graph, sampler.device)
        with devices.on(sampler.device):
            prepared.plan = plan = GraphPlan(min(budget // 2, TRIAL_BYTES), given.sampler.weighted)
            plan.keep_offsets(prepared.out)
            plan.keep_edges(prepared.out)
            prepared.out.keep(plan.of(prepared.out), pages[0] + pages[1])
        if prepared.out.held:
            trial = sampler.over(prepared), prepared.out
    room = min(budget // 2, _MEASURED_ROWS)
    with devices.on(sampler.device):
        return measured(costs, sampler, sampler.lists, trial, features, [*itertools.islice(first, _MEASURED_BATCHES)], room)
