"""Training on two GPUs against one: GraphSAGE as in ``gnn``, batches of 1024 on each GPU.

Each case runs on one GPU and on two, in the processes of torchrun (data parallel) or in one process (factored); ``speedup`` is
the seeds a second of two over those of one. Launches bound a step, and CPUs that others use too are faster now and slower
then: so one and two take turns, and a case's figure is the median of its rounds. Without ``small``: a Kronecker graph of 2^25
vertices, 17 GB of features. With it: 2^12 vertices and two processes on the CPU. Steps are captured, but for ``eager`` and
``factored``.

- own: each process has the graph and the features in managed memory of its own
- eager: the same, nothing captured; against eager on one
- cached: the same, with the hottest tenth of the rows in each GPU
- shared, shared_cached: the features lie in pinned memory that both share, and are visited in the order of their pages;
  against own and cached on one
- shared_dealt: as shared_cached, with two tenths dealt over the GPUs in place of the same tenth in each: equal bytes of both
- factored: eager; one process whose threads sample on one GPU and train on the other, or do both where that is profitable;
  against own on one
- factored_captured: the same by graphs, launched by one thread. ``factored`` has its target, what each stage takes of a batch,
  the share of the time in which each role's devices were at work, and the bound (S + T) / max(S, T): S is the time of a sample
  and T that of a gather or a step, the longer of the two
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

import hinterland as hl
from hinterland import hotness, sampling
from hinterland.training import Batch, Factored, Loader, Ranks, capture, joined

from .gnn import FANOUTS, new_model, new_optimizer, random_features, random_labels, random_seeds

TARGET, FACTORED_TARGET = 1.9, 1.2
WARM_UP = 20  # batches: the shape of captured ones, and captures
# What each case is compared with.
ONE = {
    "own": "own",
    "eager": "eager",
    "cached": "cached",
    "shared": "own",
    "shared_cached": "cached",
    "shared_dealt": "cached",
    "factored": "own",
    "factored_captured": "own",
}


def run(small: bool) -> dict[str, Any]:
    """The cases, and how two GPUs compare with one."""
    if not small and torch.cuda.device_count() < 2:
        raise SystemExit(f"benchmarks ranks compares two GPUs with one, but there are {torch.cuda.device_count()}; try --small")
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
        subprocess.run([*command, "-m", "benchmarks.ranks", str(output), *(["small"] if small else [])], check=True)
        found = json.loads(output.read_text())
    middle = {key: statistics.median(rates) for key, rates in found["seeds_a_second"].items()}
    cases = [
        {
            "case": case,
            "gpus": int(gpus),
            "seeds_a_second": rate,
            "least": min(found["seeds_a_second"][f"{case} {gpus}"]),
            "most": max(found["seeds_a_second"][f"{case} {gpus}"]),
            "speedup": rate / middle[f"{ONE[case]} 1"],
        }
        for (case, gpus), rate in ((key.split(), rate) for key, rate in middle.items())
    ]
    dealt = middle["shared_dealt 2"] / middle["shared_cached 2"]
    return {
        "target_speedup": TARGET,
        "rounds": len(found["seeds_a_second"]["own 1"]),
        "cases": cases,
        "dealt_over_copied": dealt,
        "roles": found["roles"],
        "factored": {"target_speedup": FACTORED_TARGET, **found["factored"]},
    }


def measure_as_rank(output: Path, small: bool) -> None:
    """What each process does; the first writes what was found."""
    with joined("cpu" if small else "cuda") as ranks:
        bench = _Bench(ranks, *((12, 6, 32, 1) if small else (25, 60, 1024, 5)))
        found: defaultdict[str, list[float]] = defaultdict(list)
        for _ in range(bench.rounds):
            for case, gpus, measure in (
                ("own", 1, lambda: bench.alone(bench.own)),
                ("own", 2, lambda: bench.together(bench.own)),
                ("eager", 1, lambda: bench.alone(bench.own, captured=False)),
                ("eager", 2, lambda: bench.together(bench.own, captured=False)),
                ("cached", 1, lambda: bench.alone(bench.cached)),
                ("cached", 2, lambda: bench.together(bench.cached)),
                ("shared", 2, lambda: bench.together(bench.shared)),
                ("shared_cached", 2, lambda: bench.together(bench.shared_cached)),
                ("shared_dealt", 2, lambda: bench.together(bench.shared_dealt)),
                ("factored", 2, lambda: bench.factored(captured=False)),
                ("factored_captured", 2, lambda: bench.factored(captured=True)),
            ):
                found[f"{case} {gpus}"].append(bench.in_turn(measure, alone=gpus == 1 or case.startswith("factored")))
        bench.close()
        if ranks.is_first:
            output.write_text(json.dumps({"seeds_a_second": found, "roles": bench.roles, "factored": bench.by_role}))


class _Bench:
    """The graph and the tables of one process."""

    def __init__(self, ranks: Ranks, scale: int, batches: int, size: int, rounds: int) -> None:
        self.ranks, self.batches, self.size, self.rounds = ranks, batches, size, rounds
        device = ranks.device
        self.graph = hl.generate("kronecker", scale=scale, edge_factor=12, seed=1, device=device)
        self.own = random_features(self.graph.num_vertices, device.type)
        self.shared = ranks.from_node(lambda: hl.UnifiedTensor.from_tensor(self.own.cpu(), "pinned"))
        room = self.own.nbytes // 10 + 4 * len(self.own) + 4096
        scores = hotness.degree(self.graph)
        self.cached, self.shared_cached = (
            table.tiered(local=room, scores=scores, devices=[device]) for table in (self.own, self.shared)
        )
        gpus = [torch.device(device.type, i) for i in range(ranks.world_size)]  # those of the ranks, or the CPU in their place
        dealt = {"peers": len(gpus) * room, "scores": scores, "devices": gpus}
        self.shared_dealt = ranks.from_node(lambda: self.shared.tiered(**dealt))
        self.labels = random_labels(self.graph).to(device)
        self.seeds = random_seeds(self.graph, (WARM_UP + batches) * size * ranks.world_size)
        self.roles, self.by_role = "", dict[str, Any]()
        self._turns = dist.new_group(backend="gloo")  # waits without a GPU

    def close(self) -> None:
        """Who made the table that all read lets go last."""
        if not self.ranks.is_first:
            self.shared_dealt.close()
        dist.barrier(self._turns)
        self.shared_dealt.close()

    def in_turn(self, measure: Callable[[], float], alone: bool) -> float:
        """What ``measure`` gives in all processes, or in the first while the others wait; the first's."""
        dist.barrier(self._turns)
        rate = measure() if self.ranks.is_first or not alone else 0.0
        dist.barrier(self._turns)
        return rate

    def alone(self, table: Any, captured: bool = True) -> float:
        """Seeds a second of one process."""
        loader = self._loader(table, self.seeds[: len(self.seeds) // self.ranks.world_size], captured)
        return self.batches * self.size / _seconds(self._steps(loader), self.batches)

    def together(self, table: Any, captured: bool = True) -> float:
        """Seeds a second of all, by the slowest."""
        loader = self._loader(table, self.seeds, captured, rank=self.ranks.rank, world_size=self.ranks.world_size)
        seconds = torch.tensor(_seconds(self._steps(loader, self.ranks), self.batches))
        dist.all_reduce(seconds, dist.ReduceOp.MAX, group=self._turns)
        return self.ranks.world_size * self.batches * self.size / float(seconds)

    def factored(self, captured: bool) -> float:
        """Seeds a second of one process on both devices."""
        devices = ["cpu", "cpu"] if self.ranks.device.type == "cpu" else ["cuda:0", "cuda:1"]
        model = new_model().to(devices[0])

        def sampler_on(device: Any) -> sampling.NeighborSampler:
            return sampling.NeighborSampler(self.graph, FANOUTS, seed=6, device=device)

        options: dict[str, Any] = {"device": devices[0], "capture": captured and "auto"}
        loader = Loader(sampler_on(devices[0]), self.seeds, self.size, features=self.own, labels=self.labels.cpu(), **options)
        factored = Factored(
            loader,
            sampler_on,
            model,
            _loss,
            devices,
        )
        optimizer, before = new_optimizer(model), dict[str, float]()

        def steps() -> Iterable[int]:
            done = 0
            for averaged in factored:
                optimizer.step()
                done += len(averaged.losses)
                if done <= WARM_UP:
                    before.update(factored.seconds)
                yield len(averaged.losses)

        seconds = _seconds(steps(), self.batches)
        self.roles = "; ".join(factored.plan.explain().split("\n"))
        if captured:
            batches = len(loader) - WARM_UP
            stages = {name: (took - before[name]) / batches for name, took in factored.seconds.items()}
            self.by_role = _by_role(stages, seconds / self.batches, factored)
        return self.batches * self.size / seconds

    def _loader(self, table: Any, seeds: torch.Tensor, captured: bool, **share: int) -> Loader:
        device = self.ranks.device
        sampler = sampling.NeighborSampler(self.graph, FANOUTS, seed=6, device=device)
        more = {"prefetch": 3, "capture": captured and "auto", **share}
        return Loader(sampler, seeds, self.size, features=table, labels=self.labels, device=device, **more)

    def _steps(self, loader: Loader, ranks: Ranks | None = None) -> Iterable[int]:
        """One step for each batch, and how many batches it was of."""
        model = new_model().to(self.ranks.device)
        for _ in capture(model, _loss, new_optimizer(model), loader, ranks=ranks):
            yield 1


def _loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch.x, batch.sample), batch.y)


def _by_role(stages: dict[str, float], batch: float, factored: Factored) -> dict[str, Any]:
    """What is said of factored execution, from seconds of each stage for a batch, and of a batch in all."""
    sample, trained = stages["sample"], max(stages["gather"], stages["train"])
    samplers, trainers = len(factored.plan.samplers), len(factored.plan.trainers)
    return {
        "ms_a_batch": {name: 1e3 * took for name, took in stages.items()},
        "shares": {"samplers": sample / batch / samplers, "trainers": trained / batch / trainers},
        "bound": (sample + trained) / max(sample, trained),
        "trained": factored.trained,
        "replayed": factored.replayed,
    }


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
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    measure_as_rank(Path(sys.argv[1]), "small" in sys.argv[2:])
