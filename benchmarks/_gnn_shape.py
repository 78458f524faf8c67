"""Captured epochs of ``gnn`` on a data set of a known shape in host memory: without a cache, with a tenth of the rows cached,
and with ``cache="auto"``, whose first epoch plans and fills."""

from __future__ import annotations

import resource
import time
from typing import Any

import torch

import hinterland as hl
from hinterland.runtime import devices

from ._gnn_case import Case, counts, mean

TARGET_SECONDS = 3.5  # of papers100M's epoch with a tenth cached
TARGETS = {"auto, first": 1.2, "auto, second": 0.9}  # times as long as without a cache


def run(shape: str, scale: float, symmetrize: bool) -> dict[str, Any]:
    """Seconds of making the data set and of each epoch."""
    device = devices.as_device(None)
    began = time.perf_counter()
    made = hl.datasets.generate(shape, scale=scale, symmetrize=symmetrize)
    seconds = time.perf_counter() - began
    return {
        "set": {
            "shape": shape,
            "vertices": made.num_vertices,
            "edges": made.graph.num_edges,
            "messages": "both ways" if symmetrize else "one way",
            "features": made.features.nbytes,
            "seconds": seconds,
            "peak_host_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        },
        "epochs": _epochs(made, device),
    }


def _epochs(made: hl.datasets.Dataset, device: torch.device) -> list[dict[str, Any]]:
    from .gnn import make_loader, new_model

    labels, seeds = made.labels.to(device), made.splits["train"]
    tenth = made.features.nbytes // 10 + 4 * made.num_vertices
    found = []
    caches: dict[str, dict[str, Any]] = {"none": {}}
    if device.type == "cuda":
        caches |= {"tenth": {"cache": "features", "gpu_budget": tenth}, "auto": {"cache": "auto"}}
    for name, cache in caches.items():
        began = devices.idle_at(device)
        loader = make_loader(made.graph, made.features, seeds, labels, device.type, True, **cache)
        model = new_model(made.features.shape[1], made.num_classes).to(device)
        case = Case(name, loader, model, captured=True)
        for epoch in ("first", "second"):
            counted = [counts(batch) for batch in case.batches()]
            ended = devices.idle_at(device)
            rows, edges = mean(counted)
            found.append(
                {
                    "case": f"{name}, {epoch}",
                    "seconds": ended - began,
                    "batches": len(loader),
                    "edges_a_batch": round(edges),
                    "rows_a_batch": round(rows),
                }
            )
            began = devices.idle_at(device)
        del loader, case
    none = found[1]["seconds"]
    for epoch in found:
        epoch["times_none"] = epoch["seconds"] / none
        epoch["target_times_none"] = TARGETS.get(epoch["case"])
        if epoch["case"] == "tenth, second":
            epoch["target_seconds"] = TARGET_SECONDS
    return found
