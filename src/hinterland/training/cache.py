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
from ..graph.device_graph import DeviceGraph, allocated
from ..graph.device_graph import Kept as KeptLists
from ..graph.plan import GraphPlan
from ..hotness.presample import mini_batches
from ..memory import hottest_first
from ..memory.plan import fetch_rate
from ..runtime import arguments, devices
from ..runtime.budget import BudgetItem, Explained, share
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.thresholds import TRIAL_BYTES
from ..runtime.units import format_bytes
from ..sampling import NeighborSampler
from ..table import CachedTensor, TieredShards, TieredTensor, as_table
from .cache_choice import POLICIES, bytes_of, checked_scores, parse_budget
from .cache_costs import Costs, measured, rated
from .cache_plot import Curve, plot
from .cache_reads import Keepable, PlannedReads, ReadCounts, bare_graph, counted, crosswise, last, ranking, ratio
from .cache_split import CacheCandidates, CacheSplit, rows_within, slots_within, split

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
    """

    rows: float
    edges: float
    sampling: float
    gathering: float


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
    _given: PlannedReads = field(repr=False)
    _counts: ReadCounts = field(repr=False)  # without the vertices' own
    _hottest: torch.Tensor = field(repr=False)  # int64: as many rows as the budget holds, the hottest first; or none
    _shares: torch.Tensor = field(repr=False)  # of reads that the first of them serve, the first two, and so on
    _pages: list[torch.Tensor] = field(repr=False)  # drawn from each page of the lists in either half of the epochs

    @property
    def held_bytes(self) -> int:
        """Bytes of both caches."""
        return self.split.held

    def about(self) -> str:
        """The policy, and what a batch reads."""
        return f"policy {self.policy}: of a batch's {self.rows:,.0f} rows of features and {self.edges:,.0f} edges"

    def parts(self) -> list[BudgetItem]:
        """What is kept of the lists, as a graph's plan says it, and rows of features."""
        said = f"{self.split.rows:,} rows {share(self.split.rows, self._given.graph.num_vertices)}"
        lists = _lists_plan(self._given.sampler.lists, self.split, self._given.sampler.weighted)
        return [*lists.parts(), BudgetItem("features", said, self.split.feature_bytes)]

    def notes(self) -> list[str]:
        """Predicted hit rates and seconds, and where they come from."""
        p = self.predicted
        return [
            f"rows are ranked by {self.ranked}",
            f"predicted: {p.rows:.1%} of rows and {p.edges:.1%} of edges served from {self.batches} batches' hit rates",
            f"a batch: {p.sampling * 1e3:.3f} ms to sample, {p.gathering * 1e3:.3f} ms to gather; costs {self.costs.source}",
        ]

    def row_reads(self) -> torch.Tensor:
        """int32 ``[V]`` on the CPU: how often each row was fetched in advance. The batches are sampled again for it."""
        return sum(self._recounted().fetched).cpu()  # type: ignore[union-attr]

    def page_reads(self) -> torch.Tensor:
        """float64 ``[pages]`` on the CPU: how many edges were drawn in advance from each page of the lists, ``page_bytes``
        large. The batches are sampled again for it."""
        first, second = _page_reads(self._given, self._recounted())
        return (first + second).cpu()

    def _recounted(self) -> ReadCounts:
        return counted(self._given, most=self._counts.places)

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
        Rows of a ShardedTensor come from all machines, so there all ranks call this at once.

        Raises:
            OutOfMemory: less GPU memory is free than the plan takes.
            RankLost: of a ShardedTensor, another rank died, or did not take part in time.
        """
        sampler = self.keep_lists(self._given.sampler)
        return sampler, self.keep_rows(sampler.device)

    def keep_lists(self, sampler: NeighborSampler) -> NeighborSampler:
        """``sampler``, one of the graph on any device, over the lists that the plan keeps there; as it is where they are on
        storage."""
        if sampler.lists.stored:
            return sampler
        prepared = bare_graph(self._given.graph, sampler.device)
        with devices.on(prepared.device):
            prepared.plan = _lists_plan(prepared.out, self.split, sampler.weighted)
            prepared.out.keep(prepared.plan.of(prepared.out), self._pages[0] + self._pages[1])
        devices.idle_at(sampler.device)  # samplers draw on streams of their own
        return sampler.over(prepared)

    def keep_rows(self, device: torch.device) -> Kept:
        """The table of features over the rows that the plan keeps on a device."""
        features: Any = self._given.features  # of the kind that the policy takes
        s, home, hottest = self.split, str(device), self._hottest[: self.split.rows]
        table: Kept
        if self.policy == "clock":
            table = slots = features.cached(s.local, home)
            slots.admit(hottest.to(device))
        elif features.collective:
            scores = torch.zeros(len(features), dtype=torch.int32, device=device)
            scores[hottest.to(device)] = torch.arange(len(hottest), 0, -1, dtype=torch.int32, device=device)
            table = TieredShards(features, s.local, scores, home)
        else:
            order = hottest.to(device) if s.rows < len(features) else None
            table = features.tiered(local=s.local, order=order, devices=[home])
        devices.idle_at(device)  # loaders read on streams of their own
        return table

    def lists_first(self) -> CachePlan:
        """The plan, within the same budget, of a device that samples for others: as much of the lists as it holds, and rows in
        what they leave (GNNLab, section 5)."""
        given = self._given
        candidates = _entries(given, self._counts, self.costs, torch.zeros(0), self._pages[0] + self._pages[1])
        lists = split(self.budget, candidates)
        left = self.budget - lists.adjacency_bytes
        rows, local, held = rows_within(left, given.graph.num_vertices, given.features.row_bytes)
        kept = replace(lists, rows=rows, local=local, feature_bytes=held)
        served = 1.0 if rows == given.graph.num_vertices else last(self._shares[:rows])
        predicted = _predicted(given.sampler.lists, self._counts, self.costs, kept, served, self._pages)
        return replace(self, split=kept, predicted=predicted)

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
        batches = rows = edges = row_hits = edge_hits = 0
        sampling = gathering = 0.0
        parts = mini_batches(given.graph.num_vertices, given.seeds, given.batch_size, epochs, given.seed, first)
        for number, part in parts:
            begin = devices.idle_at(sampler.device)
            sample = sampler.sample(part, batch=number)
            sampling += devices.idle_at(sampler.device) - begin
            row_hits += table.count(sample.node).rows["local"]  # before the gather, which may keep them
            begin = devices.idle_at(sampler.device)
            table.gather(sample.node)
            gathering += devices.idle_at(sampler.device) - begin
            batches, rows, edges = batches + 1, rows + len(sample.node), edges + len(sample.edge)
            edge_hits += len(sample.edge) if view.lists.on_gpu else int(view.keeps(sample.edge).sum())
        found = HitRates(ratio(row_hits, rows), ratio(edge_hits, edges), sampling / batches, gathering / batches)
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
        lines += [
            f"{n + ' served':<16} {a:>10.1%} {b:>10.1%}" for n, a, b in (("rows", p.rows, f.rows), ("edges", p.edges, f.edges))
        ]
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
    epochs: int | None = None,
    seed: int = 0,
    costs: Costs | None = None,
    device: torch.device | str | int | None = None,
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
        policy: ``"auto"``, both by benefit per byte (DUCATI); ``"features"``, rows alone (GNNLab). Rows are ranked by their
            inclusion probability as the counts correct it (``hotness.corrected_probability``), or by the counts alone with one
            epoch, of a graph on storage, and where the GPU has no room for the former. ``"presample"``, rows by the counts
            alone (PreSC#K with K = ``epochs``, at most 2 if None); ``"degree"``, rows by in how many lists they are (PaGraph);
            scores, of any real type ``[V]``, rows with the highest; ``"clock"``, rows fetched lately, which follow training
            (table/cached.py), of a table in host memory; ``"none"``.
        costs: seconds of reads; None measures them on a GPU, and on the CPU takes those of the probe or built-in ones.
        device: where to sample with fanouts; None is the current GPU, or the CPU on a machine without one.

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
    most = 2 if epochs is None else arguments.whole_number("epochs", epochs, 1)
    given = PlannedReads(graph, features, _sampler(graph, sampler, device), seeds, batch_size, most, seed)
    slots = slots_within(size, len(features), features.row_bytes) if policy == "clock" else None
    if epochs is None and slots is None and (chosen := _unchosen(given, policy, size)) is not None:
        return _plan_of_few(given, policy, size, chosen, costs)
    rank = ranking(given, policy, size, scores)
    rows, local, held = rows_within(size if policy != "none" else 0, graph.num_vertices, features.row_bytes)

    def rate(counts: ReadCounts) -> float:
        return last(crosswise(rank(counts.fetched).halves, counts.fetched, counts.rows, rows))

    counts = counted(given, slots, rate if epochs is None else None)
    pages = _page_reads(given, counts)
    if costs is None:
        costs = _costs(given, counts, pages, size)
    ranked = rank(counts.fetched)
    if policy == "auto":
        kept = split(size, _entries(given, counts, costs, ranked.scores, pages[0] + pages[1]))
    elif slots is not None:
        kept = CacheSplit(slots.capacity, slots.held_bytes, allocated(slots.held_bytes))
    else:
        kept = CacheSplit(rows, local, held)
    rows = max(rows, kept.rows)  # of other splits as well
    shares = crosswise(ranked.halves, counts.fetched, counts.rows, rows).cpu()
    served = last(shares[: kept.rows]) if slots is None else ratio(counts.hits, counts.replayed)
    hottest = hottest_first(ranked.scores.float(), len(features), rows)  # of 32 bits all threads sort
    pages = [half.cpu() for half in pages]
    return _plan(given, policy, size, kept, costs, counts, ranked.by, served, (hottest, shares, pages))


def _plan(
    given: PlannedReads,
    policy: str,
    size: int,
    kept: CacheSplit,
    costs: Costs,
    counts: ReadCounts,
    ranked: str,
    served: float,
    chosen: tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]],
) -> CachePlan:
    predicted = _predicted(given.sampler.lists, counts, costs, kept, served, chosen[2])
    each = counts.each(sum(counts.rows)), counts.each(sum(counts.edges))
    totals = replace(counts, fetched=(), drawn=())  # a plan holds no memory of a GPU
    hottest, shares, pages = chosen
    return CachePlan(policy, size, kept, costs, counts.batches, *each, predicted, ranked, given, totals, hottest, shares, pages)


def _unchosen(given: PlannedReads, policy: str, size: int) -> CacheSplit | None:
    """What is kept where nothing is to be chosen: all rows and lists, for which there is room, or nothing."""
    if policy == "none":
        return CacheSplit()
    bare, vertices, adjacency = given.sampler.lists, given.graph.num_vertices, 0
    if kept_lists := not bare.lists.on_gpu and not bare.stored:
        adjacency = bare.kept_bytes(KeptLists(offsets=True, whole=True, weighted=given.sampler.weighted))
    rows, local, held = rows_within(size - adjacency, vertices, given.features.row_bytes)
    if rows < vertices:
        return None
    if policy != "auto" or not kept_lists:
        return CacheSplit(rows, local, held)
    return CacheSplit(rows, local, held, bare.offsets_bytes > 0, bare.num_pages, True, adjacency)


def _plan_of_few(given: PlannedReads, policy: str, size: int, kept: CacheSplit, costs: Costs | None) -> CachePlan:
    """Of batches as few as tell how large they are."""
    counts = counted(given, most=_MEASURED_BATCHES)
    none = torch.zeros(given.sampler.lists.num_pages, dtype=torch.float64)
    if costs is None:
        costs = _costs(given, counts, [none, none], size) if given.features.collective else _rated(given, counts)
    said = "nothing, since all are kept" if kept.rows else "nothing, since none is kept"
    chosen = torch.zeros(0, dtype=torch.int64), torch.zeros(0), [none, none]
    return _plan(given, policy, size, kept, costs, counts, said, float(kept.rows > 0), chosen)


def _page_reads(given: PlannedReads, counts: ReadCounts) -> list[torch.Tensor]:
    """What was drawn from each page of the lists in either half of the epochs."""
    work, order = given.workplace, given.graph.original_ids
    drawn = [half.to(work) for half in counts.drawn]
    if order is not None:
        order = order.to(work)
        drawn = [half[order] for half in drawn]
    return [given.sampler.lists.page_reads(half) for half in drawn]


def _entries(
    given: PlannedReads, counts: ReadCounts, costs: Costs, row_scores: torch.Tensor, page_reads: torch.Tensor
) -> CacheCandidates:
    bare, features, each = given.sampler.lists, given.features, counts.each(1)
    lists = not bare.lists.on_gpu and not bare.stored
    pages = page_reads.sort(descending=True).values if lists else torch.zeros(0)
    edge, row = costs.edge_host - costs.edge_gpu, costs.row_host - costs.row_gpu
    return CacheCandidates(
        rows=_falling(row_scores) * (each * row),
        row_bytes=features.row_bytes,
        pages=pages * (each * edge),
        all_edges=sum(counts.edges) * each * edge,
        offsets=counts.lists * each * (costs.list_host - costs.list_gpu),
        offsets_bytes=bare.offsets_bytes if lists else 0,
        lists=bare if lists else None,
        weighted=given.sampler.weighted,
    )


def _falling(scores: torch.Tensor) -> torch.Tensor:
    """Sorted as numbers of 32 bits, which takes a fifth of the time."""
    return scores.float().sort(descending=True).values.double()


def _predicted(
    lists: DeviceGraph, counts: ReadCounts, costs: Costs, kept: CacheSplit, served: float, pages: list[torch.Tensor]
) -> HitRates:
    """What ``kept`` gives, where it serves that share of rows; ``pages``: draws from each, in either half of the epochs."""
    drawn = 0.0
    if lists.lists.on_gpu or kept.whole:
        drawn = 1.0
    elif kept.pages:
        drawn = last(crosswise(pages, pages, counts.edges, kept.pages))
    rows, vertices, edges = (counts.each(n) for n in (sum(counts.rows), counts.lists, sum(counts.edges)))
    at_lists = costs.list_gpu if kept.offsets or lists.lists.on_gpu else costs.list_host
    sampling = vertices * at_lists + edges * (drawn * costs.edge_gpu + (1 - drawn) * costs.edge_host)
    gathering = rows * (served * costs.row_gpu + (1 - served) * costs.row_host)
    return HitRates(served, drawn, sampling, gathering)


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


def _lists_plan(view: DeviceGraph, split: CacheSplit, weighted: bool) -> GraphPlan:
    """The plan that keeps of a view's lists what a split does."""
    plan = GraphPlan(split.adjacency_bytes, weighted)
    plan.of(view)
    if split.offsets:
        plan.keep_offsets(view)
    if split.whole:
        plan.keep_all_edges(view)
    else:
        plan.keep_pages(view, split.pages)
    return plan


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
