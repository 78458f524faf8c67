"""What each of several processes does for test_ranks.py: the last one has other data or another option, and all are told."""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import hinterland as hl
from hinterland import datasets
from hinterland.fullgraph import PartitionedGraph, aggregate
from hinterland.memory.ranks import Ranks
from hinterland.runtime.errors import HinterlandError, OutOfMemory, RankLost
from hinterland.sampling import NeighborSampler
from hinterland.table.sharded import ShardedTensor, Shards
from hinterland.training import Loader, joined, open_shared, train, train_full

FOLDER, RANK, SIZE = Path(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ODD = RANK == SIZE - 1
SHAPE = datasets.Shape({"node": 300}, {"node": 16}, {("node", "to", "node"): 3000}, (120, 60, 120), 4)
OPTIONS = {"hidden": 16, "batch_size": 32, "device": "cpu", "epochs": 1, "timeout": 30.0}
same = datasets.generate(SHAPE, seed=1, device="cpu")


def told(name: str, call: Callable[[], object]) -> None:
    """What every rank gets to hear; then they meet again, so a rank that is left behind is none that is told."""
    try:
        call()
        said = "nothing"
    except HinterlandError as error:
        said = f"{type(error).__name__}: {error}"
    (FOLDER / f"{name}.{RANK}").write_text(said)
    dist.barrier()


def with_other_neighbours() -> hl.Graph:
    """The same degrees, and in the middle of the graph other neighbours."""
    indices = same.graph.indices.clone()
    indices[len(indices) // 3 :] = (indices[len(indices) // 3 :] + 1) % same.graph.num_vertices
    return hl.Graph(same.graph.indptr, indices)


def changed(name: str) -> datasets.Dataset:
    if not ODD:
        return same
    labels, features, splits = same.labels.clone(), same.features.cpu().clone(), dict(same.splits)
    if name == "labels":
        labels[:] = (labels + 1) % same.num_classes
    elif name == "features":
        features[7:] += 1
    elif name == "type":
        features = features.to(torch.float64)
    elif name == "columns":
        features = features[:, :15].contiguous()
    elif name == "split":
        splits["train"], splits["test"] = splits["test"], splits["train"]
    graph = with_other_neighbours() if name == "neighbours" else same.graph
    return replace(same, graph=graph, features=hl.UnifiedTensor.from_tensor(features), labels=labels, splits=splits)


torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))

for name in ("labels", "features", "type", "columns", "split", "neighbours"):
    told(f"train {name}", lambda name=name: train(changed(name), fanouts=(3, 2), **OPTIONS))
told("train lr", lambda: train(same, fanouts=(3, 2), **OPTIONS, lr=0.1 if ODD else 0.2))
told("train fanouts", lambda: train(same, fanouts=(3, 3) if ODD else (3, 2), **OPTIONS))
told("train wrong", lambda: train(same, fanouts=(3, 2), **{**OPTIONS, "hidden": 0 if ODD else 16}))
told("train resume", lambda: train(same, fanouts=(3, 2), **OPTIONS, checkpoint=FOLDER / f"{RANK}.pt", resume=ODD))
told("train capture", lambda: train(same, fanouts=(3, 2), **OPTIONS, capture=ODD))
told("train captures nothing", lambda: train(same, fanouts=(3, 2), **OPTIONS, capture=True))
told("train cache", lambda: train(same, fanouts=(3, 2), **OPTIONS, gpu_budget="100" if ODD else "90KiB"))


def no_room(*_: object) -> None:
    raise OutOfMemory("no room for a plan")


with pytest.MonkeyPatch.context() as patch:
    if ODD:
        patch.setattr("hinterland.training.loader.planned", no_room)
    told("train plan", lambda: train(same, fanouts=(3, 2), **OPTIONS, gpu_budget="90KiB"))
    # Sizes of a GPU that is not there: a cache is filled once the first seven of 15 batches have shown what they leave.
    patch.setattr("hinterland.training.cache_budget.room", lambda *_: 90 << 10)
    for name in ("reset_peak_memory_stats", "synchronize", "empty_cache"):
        patch.setattr(torch.cuda, name, lambda *_: None)
    patch.setattr(Loader, "_takes_cache", lambda self: None)
    small = {**OPTIONS, "batch_size": 4}
    told("train plan later", lambda: train(same, fanouts=(3, 2), **small, cache="auto"))
    told("train plan of one", lambda: train(same, fanouts=(3, 2), **small, cache="auto" if ODD else None))
    patch.undo()
    told("train goes on", lambda: train(same, fanouts=(3, 2), **OPTIONS, gpu_budget="90KiB"))
full = {name: OPTIONS[name] for name in ("hidden", "device", "epochs", "timeout")}
told("full labels", lambda: train_full(changed("labels"), "gcn", **full))
told("full strategy", lambda: train_full(same, "gcn", strategy="halo" if ODD else "auto", **full))

TYPES = datasets.Shape(
    {"paper": 200, "author": 90},
    {"paper": 16, "author": 8},
    {("author", "writes", "paper"): 800, ("paper", "cites", "paper"): 900},
    (80, 40, 80),
    4,
    target="paper",
)
of_types = datasets.generate(TYPES, seed=1, symmetrize=True, device="cpu")


def changed_type(name: str) -> datasets.HeteroDataset:
    if not ODD:
        return of_types
    graphs, features, labels = dict(of_types.graphs), dict(of_types.features), of_types.labels
    relation = ("author", "writes", "paper")
    graph = graphs[relation]
    if name == "labels":
        labels = (labels + 1) % of_types.num_classes
    elif name == "features":
        features["author"] = hl.UnifiedTensor.from_tensor(features["author"].cpu() + 1)
    elif name == "neighbours":
        graphs[relation] = hl.Graph(graph.indptr, (graph.indices + 1) % of_types.num_vertices["author"])
    elif name == "degrees":
        degrees = graph.degrees()[: of_types.num_vertices["paper"]].flip(0)  # beyond the papers lists are empty
        indptr = torch.full_like(graph.indptr, graph.num_edges)
        indptr[0], indptr[1 : len(degrees) + 1] = 0, degrees.cumsum(0)
        graphs[relation] = hl.Graph(indptr, graph.indices)
    elif name == "relations":
        graphs.pop(relation)
    return replace(of_types, graphs=graphs, features=features, labels=labels)


for name in ("labels", "features", "neighbours", "degrees", "relations"):
    told(f"types {name}", lambda name=name: train(changed_type(name), fanouts=(3, 2), **OPTIONS))
told("types lr", lambda: train(of_types, fanouts=(3, 2), **OPTIONS, lr=0.1 if ODD else 0.2))
told("types whole", lambda: train_full(same if ODD else of_types, "gcn", **full))
told("types same", lambda: train(of_types, fanouts=(3, 2), **OPTIONS))

p = PartitionedGraph.from_graph(same.graph, devices="cpu")
rows = len(p.vertices[0])
told("aggregate width", lambda: aggregate(p, torch.ones(rows, 3 if ODD else 2)))
told("aggregate reduce", lambda: aggregate(p, torch.ones(rows, 2), "mean" if ODD else "sum"))
told("gather type", lambda: p.gather(torch.ones(rows, 2, dtype=torch.float64 if ODD else torch.float32)))

os.environ["LOCAL_WORLD_SIZE"], os.environ["LOCAL_RANK"] = "1", "0"  # each rank is a machine
with joined("cpu", 30.0) as ranks:
    shards = Shards(300, SIZE)
    mine = [shards.row(RANK, number) for number in range(shards.count(RANK))]

    def sharded(table: torch.Tensor) -> ShardedTensor:
        return ShardedTensor(hl.UnifiedTensor.from_tensor(table[mine]), 300, ranks)

    whole = same.features.cpu()
    told("sharded type", lambda: sharded(whole.double() if ODD else whole))
    table = sharded(whole)
    stats: dict[str, object] = {}
    index = torch.arange(0, 300, 3)
    assert torch.equal(table.gather(index, stats=stats), whole[index])
    away = int((shards.find(index)[0] != RANK).sum())
    assert stats["network"] == {"rows": away, "bytes": away * table.part.row_bytes}

    with pytest.MonkeyPatch.context() as patch:
        if ODD:  # while the others agree on what each keeps
            patch.setattr("hinterland.training.loader.planned", no_room)
        apart = replace(same, features=table)
        told("sharded plan", lambda: train(apart, fanouts=(3, 2), **OPTIONS, gpu_budget="90KiB"))

    def lost() -> None:
        raise OutOfMemory("no room") if ODD else RankLost("the last one is lost")

    told("agreed", lambda: ranks.agreed(lost))

    def batches(seeds: int) -> None:
        sampler, share = NeighborSampler(same.graph, [2], device="cpu"), {"rank": RANK, "world_size": SIZE}
        list(Loader(sampler, torch.arange(seeds), 10, features=table, device="cpu", **share))

    told("loader seeds", lambda: batches((40 if ODD else 60) * SIZE))
    told("loader", lambda: batches(40))  # they go on

lone = Ranks(RANK, SIZE, torch.device("cpu"), SIZE, 30.0)
told("open placement", lambda: open_shared(sys.argv[2], lone, placement="storage" if ODD else "host"))
told("open missing", lambda: open_shared(FOLDER / "nowhere", lone))
dist.destroy_process_group()
