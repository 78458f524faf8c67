"""Training as in ``gnn`` through PyG's interface: hinterland.pyg.NeighborLoader over stores, against this library's Loader.

Without ``small``: a Kronecker graph of 2^25 vertices and 17 GB of features in host memory, on one GPU. With it: 2^10
vertices on the CPU. torch_geometric must be installed.

The best of three rounds (of PyG's own loader, one of a third of the batches); labels are in GPU memory.

- loader: hinterland.training.Loader, the ceiling
- pyg: hinterland.pyg.NeighborLoader; what it adds is PyG's own code, which puts each batch together
- pygs own: torch_geometric.loader.NodeLoader with hinterland.pyg.Sampler: sampled and gathered by the CPU, then copied

``models``: layers of PyG's over that Loader, eager, and captured on a GPU. ``bipartite``: each makes the rows that the next one
reads, by PyG's call ``conv((x, x[:targets]), edge_index)``; ``trimmed``: it makes all that it reads (``trim_to_layer``);
``whole``: all of the sample, as PyG's models do where nothing is said of hops. The median of the rounds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch_geometric.loader import NodeLoader
from torch_geometric.nn import SAGEConv

import hinterland as hl
from hinterland import pyg, sampling
from hinterland.runtime import devices
from hinterland.training import Loader

from ._gnn_case import Case
from ._rows import Rows, add_seconds, in_time
from .gnn import (
    BATCH,
    CLASSES,
    COLUMNS,
    FANOUTS,
    HIDDEN,
    SMALL_BATCH,
    learn,
    make_loader,
    new_model,
    new_optimizer,
    random_features,
    random_labels,
    random_seeds,
)

WARM_UP, ROUNDS = 8, 3
TARGET = 1.5  # times as fast as without capture
Step = tuple[torch.Tensor, Any, torch.Tensor]  # features, sample, labels of the seeds


add_options = add_seconds


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds a batch, for each model and each loader."""
    scale, batches, size, device = (10, 3, SMALL_BATCH, "cpu") if options.small else (25, 100, BATCH, "cuda")
    graph = hl.generate("kronecker", scale=scale, edge_factor=12, seed=1, device=device)
    table = random_features(graph.num_vertices, device)
    labels, seeds = random_labels(graph).to(device), random_seeds(graph, (WARM_UP + batches) * size)
    models = _models(graph, table, labels, seeds, device)
    features, graphs = pyg.FeatureStore(), pyg.GraphStore()
    features.put_tensor(table, group_name=None, attr_name="x", index=None)
    graphs.put_edge_index(graph, edge_type=None, layout="csc")  # the graph is symmetric
    data = (features, graphs)
    makers: dict[str, Callable[[], Iterable[Step]]] = {
        "loader": lambda: _of_loader(graph, table, labels, seeds, size),
        "pyg": lambda: _of_pyg(pyg.NeighborLoader(data, FANOUTS, seeds, batch_size=size, device=device), labels),
        "pygs own": lambda: _of_pyg(NodeLoader(data, pyg.Sampler(data, FANOUTS), seeds, batch_size=size), labels),
    }
    found: dict[str, list[float]] = {name: [] for name in makers}
    for number in in_time(range(ROUNDS), least=1):
        for name, make in makers.items():
            slow = name == "pygs own"
            if not (slow and number):
                steps = islice(make(), WARM_UP + (batches // 3 if slow else batches))
                found[name].append(1e3 * _seconds_a_batch(steps, device))
    least = {name: min(ms) for name, ms in found.items()}
    cases = [
        {"case": name, "ms_a_batch": ms, "most_ms": max(found[name]), "times_loader": ms / least["loader"]}
        for name, ms in least.items()
    ]
    counts = {"vertices": graph.num_vertices, "edges": graph.num_edges, "batches": batches, "rounds": ROUNDS}
    return {**counts, "cases": cases, "models": models}


class OfPyG(torch.nn.Module):
    """Three SAGEConv of PyG, called in one of the ways of ``models``."""

    def __init__(self, way: str, seeds: int) -> None:
        super().__init__()
        torch.manual_seed(5)
        widths = [COLUMNS, HIDDEN, HIDDEN, CLASSES]
        self.convs = torch.nn.ModuleList(SAGEConv(*both) for both in pairwise(widths))
        self.way, self.seeds = way, seeds

    def forward(self, x: torch.Tensor, sample: Any) -> torch.Tensor:
        for layer, conv in enumerate(self.convs):
            x, edge_index = pyg.trim_to_layer(0 if self.way == "whole" else layer, sample, x)
            if self.way == "bipartite":
                targets = sum(sample.num_sampled_nodes[: len(self.convs) - layer])
                edge_index[1].clamp_(max=targets)  # edges that do not count lead to a row more, which nobody reads
                x = conv((x, x[: targets + 1]), edge_index)
            else:
                x = conv(x, edge_index)
            x = x.relu() if layer + 1 < len(self.convs) else x
        return x[: self.seeds]


def _models(
    graph: hl.Graph, table: hl.UnifiedTensor, labels: torch.Tensor, seeds: torch.Tensor, device: str
) -> list[dict[str, Any]]:
    size = BATCH if device == "cuda" else SMALL_BATCH
    cases = [
        Case(way, make_loader(graph, table, seeds, labels, device, captured), OfPyG(way, size).to(device), captured)
        for way in ("bipartite", "trimmed", "whole")
        for captured in (False, True)[: 2 if device == "cuda" else 1]
    ]
    for _ in in_time(range(ROUNDS + 1), least=2):  # graphs are captured in the first
        for case in cases:
            case.round(WARM_UP)
    found = Rows()
    for case in cases:
        row: dict[str, Any] = {
            "case": case.name,
            "captured": case.captured,
            "ms_a_batch": 1e3 * statistics.median(case.seconds[1:]),
        }
        if case.captured:
            row["times_as_fast"] = found[-1]["ms_a_batch"] / row["ms_a_batch"]
            row |= {"target": TARGET, "reached": row["times_as_fast"] >= TARGET}
        found.append(row)
    return found


def _of_loader(
    graph: hl.Graph, table: hl.UnifiedTensor, labels: torch.Tensor, seeds: torch.Tensor, size: int
) -> Iterator[Step]:
    sampler = sampling.NeighborSampler(graph, FANOUTS, seed=6, device=labels.device)
    for batch in Loader(sampler, seeds, size, features=table, labels=labels, device=labels.device):
        assert batch.x is not None and batch.y is not None
        yield batch.x, batch.sample, batch.y


def _of_pyg(loader: Iterable[Any], labels: torch.Tensor) -> Iterator[Step]:
    for batch in loader:
        if batch.x.device != labels.device:
            batch = batch.to(labels.device)
        hops = {"num_sampled_nodes": batch.num_sampled_nodes, "num_sampled_edges": batch.num_sampled_edges}
        sample = SimpleNamespace(row=batch.edge_index[0], col=batch.edge_index[1], **hops)
        yield batch.x, sample, labels[batch.n_id[: batch.batch_size]]


def _seconds_a_batch(steps: Iterable[Step], device: str) -> float:
    """Its training step included."""
    model = new_model().to(device)
    optimizer, here = new_optimizer(model), devices.as_device(device)
    began, i = 0.0, 0
    for i, step in enumerate(steps):
        if i == WARM_UP:
            began = devices.idle_at(here)
        learn(model, optimizer, *step)
    return (devices.idle_at(here) - began) / (i + 1 - WARM_UP)
