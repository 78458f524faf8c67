"""Training on two GPUs against one: GraphSAGE as in ``gnn``, batches of 1024 on each GPU.

Each case runs on one GPU and on two, in processes of torchrun (data parallel) or in one process (factored); ``speedup`` is the
seeds a second of two over those of one in the same case. Without ``small``: a Kronecker graph of 2^25 vertices, 17 GB of
features. With it: 2^10 vertices and two processes on the CPU.

- own: each process has the graph and the features in mapped memory of its own
- shared: the features lie in registered memory that both share, and are visited in the order of their pages
- cached: the same, with the hottest tenth of the rows in each GPU
- factored: one process whose threads sample on one GPU and train on the other, or do both where that is profitable
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland import hotness, sampling
from hinterland.training import Batch, Factored, Loader, joined, make_model

from .gnn import CLASSES, COLUMNS, FANOUTS, HIDDEN, random_features

CASES = ("own", "shared", "cached")
TARGET = 1.8
WARM_UP = 10


def run(small: bool) -> dict[str, Any]:
    """The cases, and how two GPUs compare with one."""
    count = 2 if small else min(2, torch.cuda.device_count())
    found: list[dict[str, Any]] = []
    for processes in (1, count) if count > 1 else (1,):
        found += _launched(processes, small)
    one = {case["case"]: case["seeds_a_second"] for case in found if case["gpus"] == 1}
    for case in found:
        case["speedup"] = case["seeds_a_second"] / one.get(case["case"], one["own"])
    return {"target_speedup": TARGET, "cases": found}


def _launched(processes: int, small: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
        subprocess.run([*command, "-m", "benchmarks.ranks", str(output), *(["small"] if small else [])], check=True)
        found: list[dict[str, Any]] = json.loads(output.read_text())
        return found


def measure_as_rank(output: Path, small: bool) -> None:
    """What each process does; the first writes what was found."""
    device = "cpu" if small else "cuda"
    with joined(device) as ranks:
        scale, batches, size = (10, 6, 32) if small else (25, 100, 1024)
        graph = hl.generate("kronecker", scale=scale, edge_factor=12, seed=1, device=ranks.device)
        own = random_features(graph.num_vertices, ranks.device.type)
        shared = own
        if ranks.world_size > 1:
            shared = ranks.from_node(lambda: hl.UnifiedTensor.from_tensor(own.cpu(), "registered"))
        labels = torch.randint(CLASSES, (graph.num_vertices,), generator=torch.Generator().manual_seed(2)).to(ranks.device)
        candidates = graph.degrees().cpu().nonzero()[:, 0]
        order = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(3))
        seeds = candidates[order[: (WARM_UP + batches) * size * ranks.world_size]]
        found = []
        for case in CASES:
            if case == "own" or ranks.world_size > 1 or case == "cached":
                table: Any = own if case == "own" else shared
                if case == "cached":
                    room = table.nbytes // 10 + 4 * len(table) + 4096
                    table = table.tiered(local=room, scores=hotness.degree(graph), devices=[ranks.device])
                loader = Loader(
                    sampling.NeighborSampler(graph, FANOUTS, seed=6, device=ranks.device),
                    seeds,
                    size,
                    features=table,
                    labels=labels,
                    device=ranks.device,
                    prefetch=3,
                    rank=ranks.rank,
                    world_size=ranks.world_size,
                )
                model = ranks.parallel(_model().to(ranks.device))
                optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=ranks.device.type == "cuda")
                seconds = _seconds(_steps(model, loader, optimizer), batches)
                (most,) = ranks.sum([seconds])
                found.append(_case(case, ranks.world_size, batches * size * ranks.world_size, most / ranks.world_size))
        if ranks.world_size == 1 and (small or torch.cuda.device_count() > 1):
            found.append(_factored(graph, own, labels, seeds, size, batches, small))
        if ranks.is_first:
            output.write_text(json.dumps(found))


def _case(case: str, gpus: int, seeds: int, seconds: float, **more: Any) -> dict[str, Any]:
    return {"case": case, "gpus": gpus, "seeds_a_second": seeds / seconds, "seconds": seconds, **more}


def _factored(
    graph: hl.Graph, table: hl.UnifiedTensor, labels: torch.Tensor, seeds: torch.Tensor, size: int, batches: int, small: bool
) -> dict[str, Any]:
    devices = ["cpu", "cpu"] if small else ["cuda:0", "cuda:1"]
    model = _model().to(devices[0])
    loader = Loader(
        sampling.NeighborSampler(graph, FANOUTS, seed=6, device=devices[0]),
        seeds,
        size,
        features=table,
        labels=labels.cpu(),
        device=devices[0],
    )
    factored = Factored(
        loader,
        lambda device: sampling.NeighborSampler(graph, FANOUTS, seed=6, device=device),
        model,
        lambda replica, batch: F.cross_entropy(replica(batch.x, batch.sample), batch.y),
        devices,
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=not small)

    def steps() -> Iterable[int]:
        for averaged in factored:
            optimizer.step()
            yield len(averaged.losses)

    return _case(
        "factored", 2, batches * size, _seconds(steps(), batches), roles="; ".join(factored.plan.explain().split("\n"))
    )


def _model() -> torch.nn.Module:
    torch.manual_seed(5)
    return make_model("sage", COLUMNS, HIDDEN, CLASSES, len(FANOUTS))


def _steps(model: torch.nn.Module, loader: Iterable[Batch], optimizer: torch.optim.Optimizer) -> Iterable[int]:
    """One step for each batch, and how many batches it was of."""
    for batch in loader:
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(batch.x, batch.sample), batch.y).backward()
        optimizer.step()
        yield 1


def _seconds(steps: Iterable[int], batches: int) -> float:
    """Seconds of ``batches`` batches, after some that do not count."""
    done, began = 0, 0.0
    for count in steps:
        done += count
        if began == 0.0 and done >= WARM_UP:
            _wait()
            began, first = time.perf_counter(), done
    _wait()
    return (time.perf_counter() - began) * batches / (done - first)


def _wait() -> None:
    for device in range(torch.cuda.device_count()):
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    measure_as_rank(Path(sys.argv[1]), "small" in sys.argv[2:])
