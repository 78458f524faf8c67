"""The split that ``cache="auto"`` makes of a budget between lists and features, against every other: an exhaustive sweep.

The budget is a tenth of lists and features together. Without ``small``: a Kronecker graph of scale 25 in host memory, 128
float32 features a vertex, fanout 15, 10, 5, batches of 1024, on one GPU. With it: scale 12 on the CPU, where host memory stands
for a GPU's: hit rates mean something, times do not.

- auto: the plan of DUCATI's benefit model
- 0% to 100%: so much of the budget for rows of features, the rest for offsets and pages of the lists, both hottest first
- degree: rows alone, by degree (PaGraph); rows alone by counts (GNNLab) are 100%
- clock: rows alone, those that were fetched lately
- none: nothing is kept

Times are those of the batches of two epochs after the ones that the plan has counted, sampled and gathered one after the other.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import torch

import hinterland as hl
from hinterland.graph.device_graph import DeviceGraph, Kept
from hinterland.runtime.shuffle import shuffled
from hinterland.training import CachePlan, plan_cache
from hinterland.training.cache_split import CacheSplit, rows_within

FANOUTS, COLUMNS = [15, 10, 5], 128
BATCHES, SMALL_BATCHES = 100, 12  # of an epoch
SHARE = 0.1  # of lists and features
TARGET = 1.1  # times the best split's seconds, at most
SEED = 1


def run(small: bool) -> dict[str, Any]:
    """One row for each split."""
    scale, batch_size, batches, device = (12, 16, SMALL_BATCHES, "cpu") if small else (25, 1024, BATCHES, "cuda")
    graph = hl.generate("kronecker", scale=scale, edge_factor=16, seed=SEED, placement="host", device=device)
    features = hl.UnifiedTensor.empty((graph.num_vertices, COLUMNS))
    (features.cuda() if device == "cuda" else features.cpu()).fill_(1.0)
    seeds = shuffled(graph.degrees().cpu().nonzero()[:, 0], SEED, 0)[: batches * batch_size]
    budget = int(SHARE * (graph.lists.nbytes + graph.indptr.nbytes + features.nbytes))

    began = time.perf_counter()
    auto = plan_cache(graph, features, FANOUTS, seeds, batch_size, budget, seed=SEED, device=device)
    planning = time.perf_counter() - began
    lists = DeviceGraph(graph.neighbor_lists, torch.device(device))
    cases = [_measured("auto", auto)]
    cases += [_measured(f"{10 * tenths}%", _fixed(auto, tenths / 10, features, lists)) for tenths in range(11)]
    for policy in ("degree", "clock"):
        plan = plan_cache(
            graph, features, FANOUTS, seeds, batch_size, budget, policy, seed=SEED, costs=auto.costs, device=device
        )
        cases.append(_measured(policy, plan))
    cases.append(_measured("none", dataclasses.replace(auto, split=CacheSplit())))
    swept = {case["split"]: case["ms"] for case in cases if case["split"].endswith("%")}
    best = min(swept, key=lambda split: swept[split])
    for case in cases:
        case["times_best"] = case["ms"] / swept[best]
    return {
        "graph": {"kind": "kronecker", "scale": scale, "edges": graph.num_edges, "features": features.nbytes},
        "batches": {"seeds": batch_size, "rows": round(auto.rows), "edges": round(auto.edges)},
        "auto": {"budget": budget, "planned_in_s": planning, "costs": auto.costs.source, **dataclasses.asdict(auto.costs)},
        "cases": cases,
        "best": {"split": best, "auto_over_best": cases[0]["times_best"], "target": TARGET},
    }


def _fixed(auto: CachePlan, share: float, features: hl.UnifiedTensor, lists: DeviceGraph) -> CachePlan:
    """The plan with this share of the budget for rows, and as many pages of the lists as the rest has room for."""
    rows, local, held = rows_within(int(auto.budget * share), len(features), features.row_bytes)
    room = int(auto.budget * (1 - share))
    kept = Kept(offsets=True, whole=True)
    if lists.kept_bytes(kept) > room:
        kept = Kept(offsets=True, pages=lists.pages_within(room - lists.offsets_bytes, weighted=False))
    split = CacheSplit(
        rows, local, held, offsets=True, pages=kept.pages, whole=kept.whole, adjacency_bytes=lists.kept_bytes(kept)
    )
    return dataclasses.replace(auto, split=split)


def _measured(name: str, plan: CachePlan) -> dict[str, Any]:
    sampler, table = plan.apply()
    plan.measure(sampler, table)  # warms up
    found = plan.measure(sampler, table, epochs=2, first_epoch=3).found
    kept = sampler.lists.held
    table.close()
    return {
        "split": name,
        "features_mb": plan.split.feature_bytes / 1e6,
        "lists_mb": kept / 1e6,
        "rows_served": found.rows,
        "edges_served": found.edges,
        "sampling_ms": 1e3 * found.sampling,
        "gathering_ms": 1e3 * found.gathering,
        "ms": 1e3 * (found.sampling + found.gathering),
    }
