"""What mini-batch training keeps in GPU memory: neighbour lists and rows of features, within one budget.

The dual cache of DUCATI (Zhang et al. 2023), and the single caches of GNNLab (Yang et al. 2022) and PaGraph (Lin et al.
2020); Wang's survey, sections VI and VII. What these keep does not change while training goes on; what CLOCK keeps does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ..graph import Graph
from ..graph.dealt_pages import deal_pages
from ..graph.device_graph import DealtPages, DeviceGraph, allocated
from ..graph.plan import GraphPlan
from ..hotness.presample import mini_batches
from ..memory import hottest_first
from ..memory.plan import fetch_rate
from ..runtime import arguments, devices
from ..runtime.budget import BudgetItem, Explained, share
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.units import format_bytes
from ..sampling import NeighborSampler
from ..table import CachedTensor, TieredShards, TieredTensor, as_table
from ..table.tiered import Devices, holders, listed_devices, unlinked_pair
from .cache_choice import POLICIES, bytes_of, checked_scores, parse_budget
from .cache_costs import Costs, measured, rated
from .cache_plot import Curve, plot
from .cache_reads import Keepable, PlannedReads, ReadCounts, RowRanking, bare_graph, counted, crosswise, ranked, ratio
from .cache_split import CacheCandidates, CacheSplit, rows_in_tiers, rows_within, slots_within, split
from .cache_tiers import TierGains

Kept = TieredTensor | CachedTensor | TieredShards  # tables of which rows are kept
_MEASURED_BATCHES = 4
_MEASURED_ROWS = 256 << 20  # bytes


@dataclass(frozen=True)
class HitRates:
    """Shares of reads that are served from GPU memory, and seconds of one batch.

    Attributes:
        rows: of fetched rows.
        edges: of sampled edges.
        sampling, gathering: seconds.
        peers: of fetched rows, those that other GPUs serve; part of ``rows``.
    """

    rows: float
    edges: float
    sampling: float
    gathering: float
    peers: float = 0.0


@dataclass(frozen=True, repr=False)
class CachePlan(Explained, Repr):
    """What is kept, and what it is expected to save (:func:`plan_cache`).

    Attributes:
        policy, budget: as asked for.
        split: what is kept, and its bytes.
        costs: seconds of each read, by which the split was chosen.
        batches: how many were sampled in advance.
        rows, edges: of one of them on average: rows fetched, edges sampled.
        predicted: hit rates and seconds of one batch.
        ranked: by what rows were chosen.
        devices: that keep it, each within the budget.
    """

    policy: str
    budget: int
    split: CacheSplit
    costs: Costs
    batches: int
    rows: float
    edges: float
    predicted: HitRates
    ranked: str
    devices: tuple[torch.device, ...]
    _given: PlannedReads = field(repr=False)
    _counts: ReadCounts = field(repr=False)
    _ranking: RowRanking = field(repr=False)
    _drawn: list[torch.Tensor] = field(repr=False)  # from each element of a list, in either half of the epochs

    @property
    def held_bytes(self) -> int:
        """Bytes of both caches."""
        return self.split.held

    def about(self) -> str:
        """The policy, and what a batch reads."""
        return f"policy {self.policy}: of a batch's {self.rows:,.0f} rows of features and {self.edges:,.0f} edges"

    @property
    def gpus(self) -> int:
        """How many devices share what they keep. Rows that follow the batches, or come from other machines, none shares."""
        return 1 if self.policy == "clock" or self._given.features.collective else len(self.devices)

    def parts(self) -> list[BudgetItem]:
        """What is kept of the lists, as a graph's plan says it, and rows of features."""
        s, of = self.split, self._given.graph.num_vertices
        said = f"{s.rows - s.dealt_rows:,} rows {share(s.rows - s.dealt_rows, of)}"
        if self.gpus > 1:
            said += f" in each of {self.gpus} GPUs, {s.dealt_rows:,} {share(s.dealt_rows, of)} dealt over them"
        lists = _lists_plan(self._given.sampler.lists, s, self._given.sampler.weighted, self.gpus)
        return [*lists.parts(), BudgetItem("features", said, s.feature_bytes)]

    def notes(self) -> list[str]:
        """Predicted hit rates and seconds, and where they come from."""
        p = self.predicted
        peers = f" ({p.peers:.1%} by other GPUs)" if self.gpus > 1 else ""
        return [
            f"rows are ranked by {self.ranked}",
            f"predicted: {p.rows:.1%} of rows{peers} and {p.edges:.1%} of edges served from {self.batches} batches' hit rates",
            f"a batch: {p.sampling * 1e3:.3f} ms to sample, {p.gathering * 1e3:.3f} ms to gather; costs {self.costs.source}",
        ]

    def row_reads(self) -> torch.Tensor:
        """float64 ``[V]``: how often each row was fetched in advance."""
        return self._counts.fetched[0] + self._counts.fetched[1]

    def page_reads(self) -> torch.Tensor:
        """float64 ``[pages]``: how many edges were drawn in advance from each page of the lists, ``page_bytes`` large."""
        return self._given.sampler.lists.page_scores(self._drawn[0] + self._drawn[1]).clamp(min=0)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of features."""
        return self._given.features.row_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of a page of the lists, with its weights where they are read."""
        return sum(self._given.sampler.lists.page_sizes(self._given.sampler.weighted))

    def plot(self, path: str | Path) -> None:
        """Draws how many reads each further byte serves, and where the plan stops; see :func:`.cache_plot.plot`."""
        s, p = self.split, self.predicted
        curves = (
            Curve("rows of features", self.row_reads(), self.row_bytes, s.rows, s.feature_bytes, p.rows),
            Curve("neighbour lists", self.page_reads(), self.page_bytes, s.pages, s.adjacency_bytes, p.edges),
        )
        plot(f"{self.policy}: {format_bytes(s.held)} of {format_bytes(self.budget)}", curves, Path(path))

    def apply(self) -> tuple[NeighborSampler, Kept]:
        """Fills both caches: the sampler over the lists and the table of features, as ``Loader`` takes them.

        Together they hold no more than the budget until they are let go. Each call fills caches of its own; that of
        ``"clock"`` begins with the rows that are ranked highest. On a machine without a GPU host memory stands for a GPU's.
        Of several ``devices`` all read the table; :meth:`keep_lists` gives samplers of all of them.
        Rows of a ShardedTensor come from all machines, so there all ranks call this at once.

        Raises:
            OutOfMemory: less GPU memory is free than the plan takes.
            RankLost: of a ShardedTensor, another rank died, or did not take part in time.
        """
        (sampler,) = self.keep_lists([self._given.sampler])
        return sampler, self.keep_rows(sampler.device)

    def keep_lists(self, samplers: Sequence[NeighborSampler]) -> list[NeighborSampler]:
        """``samplers`` of the graph, on devices of the plan, over the lists that it keeps there; as they are where lists are on
        storage.

        Raises:
            ConfigError: a plan that deals lists over its devices, and a sampler on none of them, or more than one on one.
            OutOfMemory: less GPU memory is free than the plan takes.
        """
        given, scores = self._given, self._drawn[0] + self._drawn[1]
        if given.sampler.lists.stored:
            return list(samplers)
        homes = [sampler.device for sampler in samplers]
        if self.split.dealt_pages:  # "cpu:1" stands for a GPU, and samplers are on "cpu"
            homes = [torch.device("cpu") if home.type == "cpu" else home for home in self.devices]
        graphs = [bare_graph(given.graph, home) for home in homes]
        for prepared in graphs:
            prepared.plan = _lists_plan(prepared.out, self.split, given.sampler.weighted, self.gpus)
        dealt: Sequence[DealtPages | None] = [None] * len(graphs)
        if self.split.dealt_pages:
            dealt = deal_pages([one.out for one in graphs], graphs[0].plan.of(graphs[0].out), scores)
        for prepared, pages in zip(graphs, dealt, strict=True):
            with devices.on(prepared.device):
                prepared.plan.apply(scores, pages)
        for home in homes:
            devices.idle_at(home)  # samplers draw on streams of their own
        found = []
        for sampler in samplers:
            mine = next((one for one in graphs if one.device == sampler.device), None)
            if mine is None:
                raise ConfigError(f"lists are dealt over {', '.join(map(str, homes))}: give a sampler on each, and one alone")
            graphs.remove(mine)
            found.append(sampler.over(mine))
        return found

    def keep_rows(self, device: torch.device | None = None) -> Kept:
        """The table of features over the rows that the plan keeps: on a device (the sampler's), or on all where they share
        them."""
        features: Any = self._given.features  # of the kind that the policy takes
        device = self._given.sampler.device if device is None else device
        s, home = self.split, str(device)
        scores = self._ranking.scores.float()  # of 32 bits all threads sort; counts below 2^24 are exact
        table: Kept
        if self.policy == "clock":
            table = slots = features.cached(s.local, home)
            slots.admit(hottest_first(scores, len(slots))[: s.rows].to(device))
        elif features.collective:
            table = TieredShards(features, s.local, scores, home)
        else:
            homes = [home] if self.gpus == 1 else self.devices
            table = features.tiered(local=s.local, peers=s.peers, scores=scores, devices=homes)
        devices.idle_at(device)  # loaders read on streams of their own
        return table

    def over(self, devices: Devices) -> CachePlan:
        """The plan, by the same counts and within the same budget in each, of several GPUs of this process.

        They share what they keep: each row is copied to all of them, dealt to one for all, or left, as saves most.

        Raises:
            ConfigError, DeviceError: devices that cannot hold tiers (``UnifiedTensor.tiered``).
        """
        plan = self._on(devices)
        return plan._with(plan._best())

    def _on(self, devices: Devices) -> CachePlan:
        found = tuple(holders(devices))
        costs = replace(self.costs, row_peer=None, edge_peer=None) if unlinked_pair(found) else self.costs
        return replace(self, devices=found, costs=costs)

    def _best(self) -> CacheSplit:
        """What the policy keeps."""
        given = self._given
        if self.policy == "auto":
            return split(self.budget, self._entries(self._ranking.scores))
        if self.policy == "clock":
            slots = slots_within(self.budget, len(given.features), given.features.row_bytes)
            return CacheSplit(slots.capacity, slots.held_bytes, allocated(slots.held_bytes))
        return self._rows_within(self.budget if self.policy != "none" else 0)

    def _rows_within(self, room: int) -> CacheSplit:
        """The rows that are ranked highest, in so much of each device."""
        features, scores = self._given.features, self._ranking.scores
        if self.gpus == 1:
            return CacheSplit(*rows_within(room, len(features), features.row_bytes))
        reads = self.row_reads()[hottest_first(scores.float(), len(scores))]
        gains = reads * ((self.costs.row_host - self.costs.row_gpu) / self.batches)
        return rows_in_tiers(room, TierGains(gains, self.gpus, self.costs.dealt(self.gpus)[0]), features.row_bytes)

    def lists_first(self, devices: Devices | None = None) -> CachePlan:
        """The plan, within the same budget, of devices that sample for others: as much of the lists as they hold, and rows in
        what they leave (GNNLab, section 5)."""
        plan = self if devices is None else self._on(devices)
        lists = split(plan.budget, replace(plan, costs=plan.costs.of_lists())._entries(torch.zeros(0)))
        left = plan._rows_within(plan.budget - lists.adjacency_bytes)
        rows = {name: getattr(left, name) for name in ("rows", "local", "feature_bytes", "peers", "dealt_rows")}
        return plan._with(replace(lists, **rows))

    def _entries(self, row_scores: torch.Tensor) -> CacheCandidates:
        """What may be kept, of rows and of pages of the lists."""
        given, counts, costs, each = self._given, self._counts, self.costs, 1 / self.batches
        bare = given.sampler.lists
        lists = not bare.lists.on_gpu and not bare.stored
        scores = bare.page_scores(self._drawn[0] + self._drawn[1]) if lists else torch.zeros(0)
        edge, row = costs.edge_host - costs.edge_gpu, costs.row_host - costs.row_gpu
        row_left, page_left = costs.dealt(self.gpus)
        return CacheCandidates(
            rows=_falling(row_scores) * (each * row),
            row_bytes=given.features.row_bytes,
            pages=scores.clamp_(min=0).sort(descending=True).values * (each * edge),
            all_edges=counts.edges * each * edge,
            offsets=counts.lists * each * (costs.list_host - costs.list_gpu),
            offsets_bytes=bare.offsets_bytes if lists else 0,
            lists=bare if lists else None,
            weighted=given.sampler.weighted,
            gpus=self.gpus,
            dealt_row=row_left,
            dealt_page=page_left if lists and len(bare.page_sizes(given.sampler.weighted)) == 1 else 0.0,
        )

    def _with(self, kept: CacheSplit) -> CachePlan:
        """The plan that keeps this, and what is expected of it."""
        counts, costs, lists = self._counts, self.costs, self._given.sampler.lists
        halves, each, drawn, dealt_rows, dealt_edges = self._ranking.halves, 1 / self.batches, 0.0, 0.0, 0.0
        follows = self.policy == "clock"
        served = ratio(counts.hits, counts.replayed) if follows else crosswise(halves, counts.fetched, kept.rows)
        if kept.dealt_rows:
            dealt_rows = served - crosswise(halves, counts.fetched, kept.rows - kept.dealt_rows)
        if lists.lists.on_gpu or kept.whole:
            drawn = 1.0
        elif kept.pages:
            sums = [lists.page_scores(half) for half in self._drawn]
            totals = [float(half.sum()) for half in counts.drawn]
            drawn = crosswise(sums, sums, kept.pages, totals)
            if kept.dealt_pages:
                dealt_edges = drawn - crosswise(sums, sums, kept.pages - kept.dealt_pages, totals)
        rows, vertices, edges = counts.rows * each, counts.lists * each, counts.edges * each
        at_lists = costs.list_gpu if kept.offsets or lists.lists.on_gpu else costs.list_host
        sampling = vertices * at_lists + edges * (drawn * costs.edge_gpu + (1 - drawn) * costs.edge_host)
        gathering = rows * (served * costs.row_gpu + (1 - served) * costs.row_host)
        row, edge = costs.dealt(self.gpus)
        gathering += rows * dealt_rows * (1 - row) * (costs.row_host - costs.row_gpu)
        sampling += edges * dealt_edges * (1 - edge) * (costs.edge_host - costs.edge_gpu)
        peers = dealt_rows * (1 - 1 / self.gpus)
        return replace(self, split=kept, predicted=HitRates(served, drawn, sampling, gathering, peers))

    def measure(
        self,
        sampler: NeighborSampler,
        table: Kept,
        epochs: int = 1,
        first_epoch: int | None = None,
    ) -> PlanCheck:
        """Hit rates and times of batches of other epochs than those that the plan comes from.

        Args:
            sampler, table: what :meth:`apply` returned.
            epochs: how many.
            first_epoch: the number of the first one; None is the one after those of the plan.
        """
        given = self._given
        first = given.epochs if first_epoch is None else first_epoch
        view = sampler.lists
        batches = rows = edges = row_hits = edge_hits = peers = 0
        sampling = gathering = 0.0
        parts = mini_batches(given.graph.num_vertices, given.seeds, given.batch_size, epochs, given.seed, first)
        for number, part in parts:
            begin = devices.idle_at(sampler.device)
            sample = sampler.sample(part, batch=number)
            sampling += devices.idle_at(sampler.device) - begin
            tiers = table.count(sample.node).rows  # before the gather, which may keep them
            row_hits, peers = row_hits + tiers["local"], peers + tiers.get("peers", 0)
            begin = devices.idle_at(sampler.device)
            table.gather(sample.node)
            gathering += devices.idle_at(sampler.device) - begin
            batches, rows, edges = batches + 1, rows + len(sample.node), edges + len(sample.edge)
            edge_hits += len(sample.edge) if view.lists.on_gpu else int(view.keeps(sample.edge).sum())
        times = sampling / batches, gathering / batches
        found = HitRates(ratio(row_hits + peers, rows), ratio(edge_hits, edges), *times, ratio(peers, rows))
        return PlanCheck(self.predicted, found, batches)


@dataclass(frozen=True)
class PlanCheck:
    """What a plan predicted, what was found, and in how many batches."""

    predicted: HitRates
    found: HitRates
    batches: int

    def explain(self) -> str:
        """Both beside each other, a line each."""
        p, f = self.predicted, self.found
        lines = [f"{'of ' + str(self.batches) + ' batches':<16} {'predicted':>10} {'measured':>10}"]
        shares = [("rows served", p.rows, f.rows), ("edges served", p.edges, f.edges)]
        if p.peers or f.peers:
            shares.insert(1, ("rows by peers", p.peers, f.peers))
        lines += [f"{name:<16} {a:>10.1%} {b:>10.1%}" for name, a, b in shares]
        times = (("sampling", p.sampling, f.sampling), ("gathering", p.gathering, f.gathering))
        return "\n".join(lines + [f"{n + ', ms':<16} {a * 1e3:>10.3f} {b * 1e3:>10.3f}" for n, a, b in times])


def plan_cache(
    graph: Graph,
    features: Keepable,
    sampler: NeighborSampler | Iterable[int],
    seeds: torch.Tensor | Sequence[int],
    batch_size: int,
    budget: int | str,
    policy: str | torch.Tensor = "auto",
    *,
    epochs: int = 2,
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
        budget: bytes, which everything that is kept takes together at most. A batch's own memory is not part of it. Or a share,
            as ``"10%"``: the bytes that this share of the rows of features takes there, whatever is kept in them.
        policy: ``"auto"``, both by benefit per byte (DUCATI); ``"features"``, rows alone (GNNLab). Rows are ranked by their
            inclusion probability as the counts correct it (``hotness.corrected_probability``), or by the counts alone with one
            epoch, of a graph on storage, and where the GPU has no room for the former. ``"presample"``, rows by the counts
            alone (PreSC#K with K = ``epochs``); ``"degree"``, rows by in how many lists they are (PaGraph); scores, of any real
            type ``[V]``, rows with the highest; ``"clock"``, rows fetched lately, which follow training (table/cached.py), of a
            table in host memory; ``"none"``.
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
    if devices is not None and device is None and not isinstance(sampler, NeighborSampler):
        device = listed_devices(devices)[0]
    given = PlannedReads(graph, features, _sampler(graph, sampler, device), seeds, batch_size, epochs, seed)
    slots = slots_within(size, len(features), features.row_bytes) if policy == "clock" else None
    counts = counted(given, slots)
    bare = given.sampler.lists
    drawn = counts.drawn if graph.original_ids is None else [half[graph.original_ids] for half in counts.drawn]
    halves = [half / bare.list_sizes().clamp(min=1) for half in drawn]  # draws of each element of a list
    list_scores = halves[0] + halves[1]
    if costs is None:
        costs = _costs(given, counts, list_scores, size)
    ranking = ranked(given, policy, counts, size, scores)
    each = counts.rows / counts.batches, counts.edges / counts.batches
    nothing, home = HitRates(0.0, 0.0, 0.0, 0.0), (given.sampler.device,)
    made = policy, size, CacheSplit(), costs, counts.batches, *each, nothing, ranking.by, home
    plan = CachePlan(*made, given, counts, ranking, halves)
    return plan._with(plan._best()) if devices is None else plan.over(devices)


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


def _lists_plan(view: DeviceGraph, split: CacheSplit, weighted: bool, gpus: int) -> GraphPlan:
    """The plan that keeps of a view's lists what a split does."""
    plan = GraphPlan(split.adjacency_bytes, weighted)
    plan.of(view)
    if split.offsets:
        plan.keep_offsets(view)
    if split.whole:
        plan.keep_all_edges(view)
    else:
        plan.keep_pages(view, split.pages - split.dealt_pages, split.dealt_pages, gpus)
    return plan


def _costs(given: PlannedReads, counts: ReadCounts, scores: torch.Tensor, budget: int) -> Costs:
    graph, features, sampler = given.graph, given.features, given.sampler
    rows = counts.rows // counts.batches
    table = features.part
    costs = rated(features.row_bytes, table.nbytes, rows, sampler.lists.edges.nbytes, table.placement, table.managed_bytes)
    if features.collective:
        costs = replace(costs, source=f"{costs.source}; rows of other machines as if they were here")
    if features.file is not None:
        rate, whose = fetch_rate(features.row_bytes, features.file.line_bytes)
        costs = replace(costs, row_host=1 / rate, source=f"{costs.source}; rows of a disk {whose}")
    if sampler.device.type != "cuda":
        return costs
    first = mini_batches(graph.num_vertices, given.seeds, given.batch_size, 1, given.seed)
    trial = None
    if not sampler.lists.lists.on_gpu and not sampler.lists.stored:
        prepared = bare_graph(graph, sampler.device)
        with devices.on(sampler.device):
            prepared.plan = plan = GraphPlan(budget // 2, given.sampler.weighted)
            plan.keep_offsets(prepared.out)
            plan.keep_edges(prepared.out)
            plan.apply(scores)
        if prepared.out.held:
            trial = sampler.over(prepared), prepared.out
    room = min(budget // 2, _MEASURED_ROWS)
    with devices.on(sampler.device):
        return measured(costs, sampler, sampler.lists, trial, features, [*itertools.islice(first, _MEASURED_BATCHES)], room)
