"""GNNLab's tables IV to VI (Wang's survey): how alike two epochs' fetches are, the sets, and where an epoch's time goes.

- IV: of the fetches of an epoch's hottest tenth of the vertices, the share that another epoch's hottest tenth has as well. The
  survey gives no formula; this is the sum of the smaller counts over the sum of one.
- V: bytes of lists and features. Its times of whole epochs take eight GPUs.
- VI: seconds an epoch of sampling (S), of gathering (E) and of training (T), each by itself, for three models: without a cache,
  gathered by the CPU (DGL), with the rows of the highest degree (T_SOTA), and with those that pre-sampling of one epoch counted
  most (GNNLab), by the paper's shares of the rows (R); H is what they serve. The lists lie in GPU memory. One GPU does all in
  turn, so nothing is copied to a queue; T is one for all three. Seconds are those of some batches, times the epoch's.

Fanouts, walks and batches of 8,000 are those of GNNLab's own paper: GCN 15, 10, 5; GraphSAGE 25, 10; PinSAGE 3 hops of 5 by 4
walks of 3 steps.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

import hinterland as hl
from benchmarks._rows import Rows
from benchmarks._timing import each_of
from benchmarks.gnn import CLASSES, HIDDEN, new_optimizer, random_features, random_labels
from hinterland import hotness
from hinterland.graph.generate import random_weights
from hinterland.runtime import devices
from hinterland.sampling import NeighborSampler, PinSAGESampler
from hinterland.training import make_model
from hinterland.training.reads_by_tier import fetched

from .._figures import LEFT_OUT, GatheredBy, Limit, add_sets, beside, by_cpu, by_sets, device_for, some, wanted
from ._sets import bytes_of, make

HARDWARE = "two Xeon Platinum 8163 of 24 cores, 512 GB, eight V100 of 16 GB (section VI-C); table VI: two of them"
BATCH, BATCHES, SMALL_BATCH, SMALL_BATCHES = 8000, 20, 8, 2
HOTTEST = 0.1
COLUMNS = {"PA": 128, "TW": 256, "PR": 100, "UK": 256}
VOLUMES = {"PA": (6.4, 53.0), "TW": (5.6, 40.0), "PR": (0.481, 0.934), "UK": (11.3, 74.0)}  # GB of lists, of features
ALIKE = {"3-hop random": {"PR": 73.97, "TW": 78.89, "PA": 91.29, "UK": 77.46}}
ALIKE["random walks"] = {"PR": 78.16, "TW": 72.68, "PA": 87.14, "UK": 64.40}
ALIKE["3-hop weighted"] = {"PR": 77.69, "TW": 66.64, "PA": 89.57, "UK": 72.96}
SYSTEMS = ("DGL", "T_SOTA", "GNNLab")
# By model and set: S, E and T of DGL; S, E, R, H, T of T_SOTA and of GNNLab. None: out of memory.
TABLE: dict[str, dict[str, tuple[Any, Any, Any]]] = {
    "GCN": {
        "PA": ((1.20, 10.70, 4.00), (0.79, 3.64, 7, 38, 4.00), (0.96, 0.49, 21, 99, 3.82)),
        "TW": ((0.74, 9.44, 1.48), (0.29, 3.68, 1, 29, 1.53), (0.37, 0.76, 25, 89, 1.51)),
        "PR": ((0.35, 2.81, 1.22), (0.30, 0.04, 100, 100, 1.18), (0.39, 0.15, 100, 100, 1.18)),
        "UK": (None, None, (0.56, 3.06, 14, 70, 3.09)),
    },
    "GraphSAGE": {
        "PA": ((0.56, 6.06, 1.25), (0.38, 1.42, 11, 56, 1.18), (0.46, 0.28, 25, 99, 1.15)),
        "TW": ((0.38, 4.65, 0.44), (0.12, 0.62, 15, 77, 0.44), (0.16, 0.41, 32, 89, 0.43)),
        "PR": ((0.13, 1.92, 0.23), (0.16, 0.03, 100, 100, 0.25), (0.20, 0.08, 100, 100, 0.24)),
        "UK": (None, (0.19, 4.49, 0, 0, 1.08), (0.26, 1.39, 18, 72, 1.01)),
    },
    "PinSAGE": {
        "PA": ((1.86, 4.85, 5.78), (0.54, 1.68, 6, 37, 6.09), (0.61, 0.33, 22, 97, 6.01)),
        "TW": ((0.72, 5.22, 2.59), (0.23, 1.12, 4, 60, 2.60), (0.28, 0.51, 26, 86, 2.52)),
        "PR": ((0.40, 1.64, 1.75), (0.16, 0.03, 100, 100, 1.74), (0.20, 0.08, 100, 100, 1.72)),
        "UK": (None, None, (0.65, 3.37, 13, 57, 7.00)),
    },
}
FASTER = 4.2  # GNNLab's E over T_SOTA's, on average of all but PR

Sampler = NeighborSampler | PinSAGESampler
add_options, title = add_sets, by_sets


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The rows of the three tables, set by set."""
    small = options.small
    limit, rows = Limit(options.seconds, devices.as_device(device_for(small))), Rows()
    for name in wanted(options, COLUMNS):
        columns = COLUMNS[name]
        lists, features = bytes_of(name, columns)
        bench, why = None, limit.refuses(name, 0 if small else features, 0 if small else 2 * lists)
        if why is None:
            graph, seeds = make(name, small, "gpu" if limit.device.type == "cuda" else "host")
            bench = _Bench(limit, graph, random_features(graph.num_vertices, limit.device.type, columns), seeds, small)
            lists, features = graph.indptr.nbytes + graph.indices.nbytes, bench.features.nbytes
        for what, paper, ours in zip(("lists", "features"), VOLUMES[name], (lists, features), strict=True):
            rows.append(beside("V", f"{name}: GB of {what}", paper, None if why else ours / 1e9, why))
        for model, table in TABLE.items():
            rows.extend(_breakdown(f"{name}, {model}", model, table[name], bench, why))
        for algorithm, papers in ALIKE.items():
            ours = bench.alike(algorithm) if bench is not None and not limit.refuses(f"{name}, {algorithm}") else None
            rows.append(beside("IV", f"{name}: {algorithm}, % alike", papers[name], ours, why or LEFT_OUT))
    found = {row["row"]: row["ours"] for row in rows}
    gains = [
        found[f"{name}, {model}, T_SOTA: E"] / found[f"{name}, {model}, GNNLab: E"]
        for model, table in TABLE.items()
        for name in table
        if name != "PR" and found.get(f"{name}, {model}, T_SOTA: E") is not None
    ]
    rows.append(
        beside("VI", "mean but PR: E of GNNLab over T_SOTA", FASTER, statistics.mean(gains) if gains else None, LEFT_OUT)
    )
    rows.append(beside("V", "epochs of GNNLab over DGL", (2.4, 9.1), None, "takes eight GPUs"))
    return {"paper's hardware": HARDWARE, "figures": list(rows)}


def _breakdown(where: str, model: str, papers: Any, bench: _Bench | None, why: str | None) -> list[dict[str, Any]]:
    """Table VI's row of one model and one set: R is the paper's, where it has one."""
    names = (("S", "E", "T"), ("S", "E", "R", "H", "T"), ("S", "E", "R", "H", "T"))
    known = [dict(zip(of, values, strict=True)) if values else {} for of, values in zip(names, papers, strict=True)]
    shares = [of.get("R", 0) / 100 for of in known]
    found = bench.stages(model, shares) if bench is not None and not bench.limit.refuses(where) else {}
    rows = []
    for system, of in zip(SYSTEMS, known, strict=True):
        for stage in ("S", "E", "T") if system == "DGL" else ("S", "E", "H", "T"):
            rows.append(beside("VI", f"{where}, {system}: {stage}", of.get(stage), found.get((system, stage)), why or LEFT_OUT))
    return rows


class _Bench:
    """One set."""

    def __init__(self, limit: Limit, graph: hl.Graph, features: Any, seeds: torch.Tensor, small: bool) -> None:
        self.limit, self.graph, self.features = limit, graph, features
        self._size, batches = (SMALL_BATCH, SMALL_BATCHES) if small else (BATCH, BATCHES)
        self._seeds = seeds[: SMALL_BATCHES * SMALL_BATCH] if small else seeds
        self._epoch = len(self._seeds) / self._size  # batches
        self._parts = some(self._seeds, batches * self._size).split(self._size)
        self._labels = random_labels(graph).to(limit.device)

    def stages(self, model: str, shares: list[float]) -> dict[tuple[str, str], float]:
        """Seconds an epoch by system and stage, and shares of rows that are served in %."""
        device, sampler = self.limit.device, self._sampler(model)
        calls = [partial(sampler.sample, part, batch=i) for i, part in enumerate(self._parts)]
        sampling = self._seconds(calls)
        nodes = [call().node for call in calls]
        found: dict[tuple[str, str], float] = {}
        scores: dict[str, Callable[[], torch.Tensor]] = {
            "T_SOTA": partial(hotness.degree, self.graph, device=device),
            "GNNLab": partial(hotness.presample, sampler, self._seeds, self._size, epochs=1),
        }
        training = self._training(model, sampler)
        for system, share in zip(SYSTEMS, shares, strict=True):
            table: Any = GatheredBy(self.features.cpu(), by_cpu)
            if system != "DGL":
                room = int(share * self.features.nbytes) + 4 * len(self.features) + 4096
                table = self.features.tiered(local=room, scores=scores[system](), devices=[device])
                served = [fetched(table, node).tiers for node in nodes]
                local, rows = sum(tiers.get("local", 0) for tiers in served), sum(sum(tiers.values()) for tiers in served)
                found[system, "H"] = 100 * local / rows
            found[system, "E"] = self._seconds([partial(table.gather, node) for node in nodes])
            found |= {(system, "S"): sampling, (system, "T"): training}
            del table
        return found

    def alike(self, algorithm: str) -> float:
        """How alike the fetches of two epochs are, in %."""
        sampler: Sampler = self._sampler("PinSAGE" if algorithm == "random walks" else "GCN")
        if algorithm == "3-hop weighted":
            weighted = random_weights(self.graph, "uint8", placement="gpu" if self.limit.device.type == "cuda" else "host")
            sampler = NeighborSampler(weighted, [15, 10, 5], weighted=True, seed=1, device=self.limit.device)
        counts = [hotness.presample(sampler, self._seeds, self._size, epochs=1, first_epoch=epoch) for epoch in (0, 1)]
        return 100 * similarity(*counts)

    def _sampler(self, model: str) -> Sampler:
        if model == "PinSAGE":
            return PinSAGESampler(self.graph, [5, 5, 5], walks=4, length=3, seed=1, device=self.limit.device)
        return NeighborSampler(self.graph, [15, 10, 5] if model == "GCN" else [25, 10], seed=1, device=self.limit.device)

    def _training(self, model: str, sampler: Sampler) -> float:
        """Seconds of all training steps of an epoch."""
        layers, name = len(sampler.fanouts), {"GCN": "gcn", "GraphSAGE": "sage", "PinSAGE": "pinsage"}[model]
        net = make_model(name, self.features.shape[1], HIDDEN, CLASSES, layers).to(self.limit.device)
        sample = sampler.sample(self._parts[0])
        x, y = self.features.gather(sample.node), self._labels[self._parts[0].to(self.limit.device)]
        degree, optimizer = self.graph.degrees().to(self.limit.device)[sample.node], new_optimizer(net)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(net(x, sample, degree), y).backward()
            optimizer.step()

        return self._seconds([step] * len(self._parts))

    def _seconds(self, calls: list[Callable[[], Any]]) -> float:
        """Of an epoch, by the median of these calls, one for each batch; the first warms up."""
        calls[0]()
        return self._epoch * statistics.median(each_of(calls, self.limit.device))


def similarity(first: torch.Tensor, second: torch.Tensor) -> float:
    """Of the fetches that the second epoch makes of its hottest tenth, the share that is in the first one's as well."""
    kept = round(HOTTEST * len(first)) or 1
    tops = [torch.zeros_like(counts).scatter_(0, top := counts.topk(kept).indices, counts[top]) for counts in (first, second)]
    return float(torch.minimum(*tops).sum() / tops[1].sum())
