"""What a cache plan keeps in GPU memory, how it is filled, and whether it served what was predicted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ..graph.dealt_pages import deal_pages
from ..graph.device_graph import DealtPages, DeviceGraph
from ..graph.plan import GraphPlan
from ..hotness.presample import mini_batches
from ..runtime import devices
from ..runtime.budget import BudgetItem, Explained, share
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.units import format_bytes
from ..sampling import NeighborSampler
from ..table import CachedTensor, TieredShards, TieredTensor
from ..table.tiered import Devices, holders
from .cache_costs import Costs
from .cache_plot import Curve, plot
from .cache_reads import PlannedReads, ReadCounts, bare_graph, counted, page_reads, ratio
from .cache_split import CacheSplit

Kept = TieredTensor | CachedTensor | TieredShards  # tables of which rows are kept


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
    _again: Callable[[Sequence[torch.device], bool], CachePlan] = field(repr=False)  # by the same batches, sampled again
    _places: int | None = field(repr=False)  # batches of each epoch that were sampled; None: all
    _hottest: torch.Tensor = field(repr=False)  # int64: the rows that are kept, the hottest first; none where all are
    _pages: torch.Tensor = field(repr=False)  # drawn from each page of the lists, on the CPU

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
        return gpus_sharing(self.policy, self._given, self.devices)

    def parts(self) -> list[BudgetItem]:
        """What is kept of the lists, as a graph's plan says it, and rows of features."""
        s, of = self.split, self._given.graph.num_vertices
        said = f"{s.rows - s.dealt_rows:,} rows {share(s.rows - s.dealt_rows, of)}"
        if self.gpus > 1:
            said += f" in each of {self.gpus} GPUs, {s.dealt_rows:,} {share(s.dealt_rows, of)} dealt over them"
        lists = lists_plan(self._given.sampler.lists, s, self._given.sampler.weighted, self.gpus)
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
        """int32 ``[V]`` on the CPU: how often each row was fetched in advance. The batches are sampled again for it."""
        return sum(self._recounted().fetched).cpu()  # type: ignore[union-attr]

    def page_reads(self) -> torch.Tensor:
        """float64 ``[pages]`` on the CPU: how many edges were drawn in advance from each page of the lists, ``page_bytes``
        large. The batches are sampled again for it."""
        first, second = page_reads(self._given, self._recounted())
        return (first + second).cpu()

    def _recounted(self) -> ReadCounts:
        return counted(self._given, most=self._places)

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
        given, reads = self._given, self._pages
        if given.sampler.lists.stored:
            return list(samplers)
        homes = [sampler.device for sampler in samplers]
        if self.split.dealt_pages:  # "cpu:1" stands for a GPU, and samplers are on "cpu"
            homes = [torch.device("cpu") if home.type == "cpu" else home for home in self.devices]
        graphs = [bare_graph(given.graph, home) for home in homes]
        for prepared in graphs:
            prepared.plan = lists_plan(prepared.out, self.split, given.sampler.weighted, self.gpus)
        dealt: Sequence[DealtPages | None] = [None] * len(graphs)
        if self.split.dealt_pages:
            dealt = deal_pages([one.out for one in graphs], graphs[0].plan.of(graphs[0].out), reads)
        for prepared, pages in zip(graphs, dealt, strict=True):
            with devices.on(prepared.device):
                prepared.out.keep(prepared.plan.of(prepared.out), reads, pages)
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
        s, home, hottest = self.split, str(device), self._hottest.to(device)
        table: Kept
        if self.policy == "clock":
            table = slots = features.cached(s.local, home)
            slots.admit(hottest)
        elif features.collective:
            scores = torch.zeros(len(features), dtype=torch.int32, device=device)
            scores[hottest] = torch.arange(len(hottest), 0, -1, dtype=torch.int32, device=device)
            table = TieredShards(features, s.local, scores, home)
        else:
            homes = [home] if self.gpus == 1 else self.devices
            order = None if s.rows - s.dealt_rows == len(features) else hottest
            table = features.tiered(local=s.local, peers=s.peers, order=order, devices=homes)
        devices.idle_at(device)  # loaders read on streams of their own
        return table

    def over(self, devices: Devices) -> CachePlan:
        """The plan, by the same counts and within the same budget in each, of several GPUs of this process.

        They share what they keep: each row is copied to all of them, dealt to one for all, or left, as saves most.

        Raises:
            ConfigError, DeviceError: devices that cannot hold tiers (``UnifiedTensor.tiered``).
        """
        return self._again(sharers(devices), False)

    def lists_first(self, devices: Devices | None = None) -> CachePlan:
        """The plan, within the same budget, of devices that sample for others: as much of the lists as they hold, and rows in
        what they leave (GNNLab, section 5)."""
        return self._again(self.devices if devices is None else sharers(devices), True)

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


def sharers(devices: Devices | None) -> list[torch.device]:
    """The devices that a plan is for: :func:`.holders`, of which there are some."""
    found = holders(devices)
    if not found:
        raise ConfigError("devices names no GPU that could hold a cache; name one or more, as ['cuda:0', 'cuda:1']")
    return found


def gpus_sharing(policy: str, given: PlannedReads, devices: Sequence[torch.device]) -> int:
    """How many devices share what they keep."""
    return 1 if policy == "clock" or given.features.collective else len(devices)


def lists_plan(view: DeviceGraph, split: CacheSplit, weighted: bool, gpus: int) -> GraphPlan:
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
