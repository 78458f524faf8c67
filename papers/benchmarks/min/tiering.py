"""Min 2022, figures 4.8 to 4.11: which score foretells what is sampled, how deep samples change that, and what rows in GPU
memory save.

- 4.8: the share of fetches that the rows of the highest scores serve, for three sets and three scores
- 4.9: a training step whose rows the CPU gathers, that reads them from the host, and with the hottest tenth in the GPU. What
  the tenth saves shows in captured steps, for launches bind others. The host's memory is managed, where the paper's was pinned
- 4.10: as 4.8 with 2 to 5 hops of 10
- 4.11: rows that come over the link, and the step's time, for growing shares in the GPU

ogbn-papers100M and MAG240M are shapes with edges both ways; MAG240M's types are one. WikiKG90M, whose hubs are heavier, is a
Kronecker graph of 67 M vertices, of which a hundredth are seeds. The text gives bounds over all sets, few values, and no batch
size: ours is 1024. Features are those of papers100M alone: MAG240M's take 375 GB, WikiKG90M's 134.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import hinterland as hl
from benchmarks._rows import Rows
from benchmarks.gnn import BATCH, random_seeds
from hinterland import hotness, sampling
from hinterland.datasets import SHAPES, Shape
from hinterland.runtime import devices
from hinterland.training.reads_by_tier import fetched

from .._figures import (
    LEFT_OUT,
    GatheredBy,
    Limit,
    add_sets,
    beside,
    by_cpu,
    by_sets,
    case_of,
    device_for,
    graph_bytes,
    over,
    some,
    step_ms,
    wanted,
)

HARDWARE = "two Xeon Gold 6230, four V100 of 32 GB with NVLink (section 4.4.1)"
SCORES = {
    "degree": lambda graph, seeds, device: hotness.degree(graph, device=device),
    "R-Pagerank": lambda graph, seeds, device: hotness.reverse_pagerank(graph, device=device),
    "Weighted R-Pagerank": lambda graph, seeds, device: hotness.weighted_reverse_pagerank(graph, seeds, device=device),
}
_Scores = dict[str, torch.Tensor]  # of one set, by name
WEIGHTED = "Weighted R-Pagerank"
FANOUTS = {"papers100M": [12, 12, 12], "WikiKG90M": [12, 12, 12], "MAG240M": [25, 15]}
ENDS = {"papers100M": 0.32, "MAG240M": 0.46, "WikiKG90M": 0.80}  # of the edges, at a hundredth of the vertices
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)
LEAST = {0.1: (0.35, 1.0), 0.25: (0.56, 1.0)}  # figure 4.8, whatever the score and the set
LESS_LINK = (0.87, 0.95)  # by a tenth of the rows, by the weighted score (section 4.1)
DEPTHS = (2, 3, 4, 5)
DEEPEST = {"degree": 0.28, WEIGHTED: 0.52}  # a tenth of the rows with five hops
IN_GPU = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
TIMES = {0.05: 0.67, 0.25: 0.58}  # of the step without: 33 % and 42 % less
LINK = {0.25: 0.03}
CPU_GATHER, ZERO_COPY, TIERED = "CPU gathering", "zero-copy", "tiered, captured"
CAPTURED = "zero-copy, captured"
FASTER = ((CPU_GATHER, ZERO_COPY, (2.5, 4.6)), (CAPTURED, TIERED, (1.6, 2.1)))  # over all sets
BATCHES, DEEP_BATCHES, SMALL_BATCH, SMALL_BATCHES = 40, 10, 8, 3
add_options, title = add_sets, by_sets


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The rows of all four figures; those of papers100M first."""
    bench = _Bench(options.small, options.seconds)
    figures = Rows()
    for name in wanted(options, FANOUTS):
        if name == "papers100M":
            made, why = bench.papers()
            scores, rows = bench.scores(name, made and made.graph, made and made.splits["train"], why)
            figures.extend(rows)
            for part in (bench.depths, bench.shares, bench.placements):
                figures.extend(part(made, scores, why))
            del made
        else:
            graph, seeds, why = bench.other(name)
            figures.extend(bench.scores(name, graph, seeds, why)[1])
    return {"paper's hardware": HARDWARE, "figures": list(figures), "cases": list(bench.cases)}


class _Bench:
    """What is measured, within a limit."""

    def __init__(self, small: bool, seconds: float | None) -> None:
        self.small, self.device = small, devices.as_device(device_for(small))
        self.limit, self.cases = Limit(seconds, self.device), Rows()
        self._size, self._batches = (SMALL_BATCH, SMALL_BATCHES) if small else (BATCH, BATCHES)

    def papers(self) -> tuple[Any, str | None]:
        """papers100M's shape with features."""
        shape, scale = SHAPES["papers100M"], 1e-4 if self.small else 1.0
        (vertices,), (edges,), (columns,) = (kinds.values() for kinds in (shape.vertices, shape.edges, shape.columns))
        if why := self.limit.refuses("papers100M", scale * (graph_bytes(vertices, 2 * edges) + 4 * vertices * columns)):
            return None, why
        return hl.datasets.generate(shape, scale=scale, symmetrize=True), None

    def other(self, name: str) -> tuple[Any, Any, str | None]:
        """Graph and seeds of a set without features."""
        scale = 1e-4 if self.small else 1.0
        vertices, edges = (244_160_499, 1_728_364_232) if name == "MAG240M" else (1 << 26, 8 << 26)
        if why := self.limit.refuses(name, scale * graph_bytes(vertices, 2 * edges)):
            return None, None, why
        if name == "MAG240M":
            node, cites = SHAPES["papers100M"].columns, SHAPES["papers100M"].edges
            counts = dict.fromkeys(node, vertices), dict.fromkeys(node, 1), dict.fromkeys(cites, edges)
            made = hl.datasets.generate(Shape(*counts, (1_112_392, 138_949, 146_818), 153), scale=scale, symmetrize=True)
            return made.graph, made.splits["train"], None
        graph = hl.generate("kronecker", scale=12 if self.small else 26, edge_factor=8, device=self.device)
        return graph, random_seeds(graph, graph.num_vertices // 100), None

    def scores(self, name: str, graph: Any, seeds: Any, why: str | None) -> tuple[_Scores, list[dict[str, Any]]]:
        """Figure 4.8 for one set, and how many edges its hubs have."""
        of = {} if graph is None else {score: make(graph, seeds, self.device) for score, make in SCORES.items()}
        if graph is not None:
            counts = self._fetches(graph, seeds, FANOUTS[name], self._batches)
        rows = []
        for score in SCORES:
            rates = hotness.hit_rate(of[score], counts, SHARES) if of else [None] * len(SHARES)
            for share, ours in zip(SHARES, rates, strict=True):
                paper = LESS_LINK if score == WEIGHTED and share == 0.1 else LEAST.get(share)
                rows.append(beside("4.8", f"{name}: {score}, fetches that {share:.0%} of the rows serve", paper, ours, why))
        hubs = hotness.hit_rate(of["degree"], of["degree"], [0.01])[0] if of else None
        return of, [*rows, beside("4.8", f"{name}: edges at 1% of the vertices", ENDS[name], hubs, why)]

    def _fetches(self, graph: Any, seeds: torch.Tensor, fanouts: list[int], batches: int) -> torch.Tensor:
        """How often each vertex is in some batches."""
        sampler = sampling.NeighborSampler(graph, fanouts, seed=1, device=self.device)
        return hotness.presample(sampler, some(seeds, batches * self._size), self._size, epochs=1)

    def depths(self, made: Any, scores: _Scores, why: str | None) -> list[dict[str, Any]]:
        """Figure 4.10."""
        rows = []
        for depth in DEPTHS:
            row = f"papers100M: {{}}, {depth} hops of 10, fetches that 10% of the rows serve"
            counts = None
            if made is not None and not (why := self.limit.refuses(f"{depth} hops")):
                counts = self._fetches(made.graph, made.splits["train"], [10] * depth, min(self._batches, DEEP_BATCHES))
            for score in (WEIGHTED, "degree"):
                ours = None if counts is None else hotness.hit_rate(scores[score], counts, [0.1])[0]
                rows.append(beside("4.10", row.format(score), DEEPEST[score] if depth == max(DEPTHS) else None, ours, why))
        return rows

    def placements(self, made: Any, scores: _Scores, why: str | None) -> list[dict[str, Any]]:
        """Figure 4.9; of papers100M, and two sets that do not fit."""
        times: dict[Any, float] = {}
        if made is not None:
            for case, table in ((ZERO_COPY, made.features), (CPU_GATHER, GatheredBy(made.features.cpu(), by_cpu))):
                times |= self._timed("4.9", case, made, table)
            times |= self._timed("4.9", CAPTURED, made, made.features, captured=True)
            times |= self._timed("4.9", TIERED, made, self._tiered(made, scores, 0.1), captured=True)
        rows = []
        for name in FANOUTS:
            lacking = why if name == "papers100M" else "its features do not fit the host's memory"
            for slow, fast, paper in FASTER:
                ours = over(times, slow, fast) if name == "papers100M" else None
                rows.append(beside("4.9", f"{name}: {fast} over {slow}", paper, ours, lacking or LEFT_OUT))
        return rows

    def shares(self, made: Any, scores: _Scores, why: str | None) -> list[dict[str, Any]]:
        """Figure 4.11, by captured steps: rows over the link, and times, against those without rows in the GPU."""
        times: dict[Any, float] = {}
        host: dict[Any, float] = {}
        if made is not None:
            sampler = sampling.NeighborSampler(made.graph, FANOUTS["papers100M"], seed=6, device=self.device)
            node = sampler.sample(some(made.splits["train"], self._size)).node
            for share in IN_GPU:
                table = self._tiered(made, scores, share)
                times |= self._timed("4.11", f"{share:.0%}", made, table, captured=True)
                host[f"{share:.0%}"] = fetched(table, node).tiers.get("host", 0)
                del table
        rows = []
        for share in IN_GPU[1:]:
            for what, paper, found in (("rows over the link", LINK, host), ("a step's time", TIMES, times)):
                ours = over(found, f"{share:.0%}", "0%")
                rows.append(beside("4.11", f"{what} with {share:.0%} in the GPU", paper.get(share), ours, why or LEFT_OUT))
        return rows

    def _tiered(self, made: Any, scores: _Scores, share: float) -> Any:
        """The features with this share of the rows, by the weighted score, in GPU memory."""
        if not share:
            return made.features
        room = int(made.features.nbytes * share) + 4 * made.num_vertices + 4096
        return made.features.tiered(local=room, scores=scores[WEIGHTED], devices=[self.device])

    def _timed(self, figure: str, case: str, made: Any, table: Any, captured: bool = False) -> dict[Any, float]:
        """Milliseconds of a step, by the case's name."""
        if self.limit.refuses(f"{figure}, {case}"):
            return {}
        seeds = some(made.splits["train"], self._batches * self._size)
        shape = FANOUTS["papers100M"], self._size, made.num_classes
        steps = case_of(case, made.graph, table, seeds, made.labels, shape, self.device, captured=captured)
        ms = step_ms(steps)
        self.cases.append({"figure": figure, "case": case, "ms_a_step": ms, "replayed": steps.loader.captured.replayed})
        return {case: ms}
