"""Mini-batch training of GraphSAGE (3 layers, 256 hidden, fanout 15, 10, 5, batches of 1024) on a graph of papers100M's size.

The same model and the same samples, with the graph and the features in different places; all in one run. Without ``small``: a
Kronecker graph of 2^26 vertices and some 1.6 G stored edges, 128 float32 features a vertex (34 GB), on one GPU. With it: 2^12
vertices on the CPU, to see that it runs.

- managed: graph and features in host memory, read by the GPU (what this library does by default)
- cached: the same with the hottest tenth of the feature rows in GPU memory, by degree
- gpu: everything in GPU memory, the ceiling
- pinned: graph and features in pinned memory, rows in the order of sampling, as UVA libraries do it
- cpu: sampled and gathered by all CPU cores (with this library's sampler), then copied; PyG's way
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland import hotness, sampling
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices
from hinterland.training import Batch, Loader, make_model

FANOUTS, HIDDEN, COLUMNS, CLASSES = [15, 10, 5], 256, 128, 172
SEEDS = 1_207_179  # papers100M's training vertices: 1179 batches an epoch
BATCH, SMALL_BATCH = 1024, 64
TARGETS = {"cpu": 3.0, "pinned": 2.0}  # times as long as managed
WARM_UP = 8


def run(small: bool) -> dict[str, Any]:
    """A case for each placement; then what the gather costs the training step beside it."""
    scale, batches, device = (12, 3, "cpu") if small else (26, 120, "cuda")
    graph = hl.generate("kronecker", scale=scale, edge_factor=12, seed=1, placement="host", device=device)
    features = random_features(graph.num_vertices, device)
    labels, seeds = random_labels(graph), random_seeds(graph, SEEDS)
    bench = _Bench(graph, features, labels, seeds, batches, torch.device(device))
    results: dict[str, Any] = {
        "graph": {"kind": "kronecker", "vertices": graph.num_vertices, "edges": graph.num_edges, "features": features.nbytes},
        "batches": batches,
        "cases": [],
    }
    if small:
        results["cases"] = [bench.measure("managed", graph, features)]
        return results
    results["copy_engine"] = copy_rates(torch.device("cuda", 0), 1 << 30)[0]
    for name, make in _cases(graph, features).items():
        here, table = make()
        results["cases"].append(bench.measure(name, here, table))
        del here, table
        torch.cuda.empty_cache()
    _compare(results)
    results["overlap"] = bench.overlap()
    return results


def random_features(vertices: int, device: str) -> hl.UnifiedTensor:
    """Random numbers; the GPU writes them to host memory, which is faster than the CPU makes them."""
    table = hl.UnifiedTensor.empty((vertices, COLUMNS))
    to = table.cuda() if device == "cuda" else table.cpu()
    generator = torch.Generator(device=device).manual_seed(4)
    for part in to.split(1 << 20):
        part.copy_(torch.randn(part.shape, generator=generator, device=device))
    return table


def random_labels(graph: hl.Graph) -> torch.Tensor:
    """A class for each vertex."""
    return torch.randint(CLASSES, (graph.num_vertices,), generator=torch.Generator().manual_seed(2))


def random_seeds(graph: hl.Graph, count: int) -> torch.Tensor:
    """``count`` vertices that have neighbours, or all of those."""
    candidates = graph.degrees().cpu().nonzero()[:, 0]
    return candidates[torch.randperm(len(candidates), generator=torch.Generator().manual_seed(3))[:count]]


def new_model() -> torch.nn.Module:
    """The same GraphSAGE each time."""
    torch.manual_seed(5)
    return make_model("sage", COLUMNS, HIDDEN, CLASSES, len(FANOUTS))


def new_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Adam, in one kernel where the model is on a GPU."""
    return torch.optim.Adam(model.parameters(), 1e-3, fused=next(model.parameters()).is_cuda)


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: Any, sample: Any, y: Any) -> None:
    """One training step."""
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(x, sample), y).backward()
    optimizer.step()


def _unsorted(table: hl.UnifiedTensor) -> hl.UnifiedTensor:
    """A pinned table whose rows are read in the order of sampling."""
    pinned = hl.UnifiedTensor.from_tensor(table.cpu(), "pinned")
    pinned._sorts = lambda rows: False  # type: ignore[method-assign]
    return pinned


def _cases(graph: hl.Graph, features: hl.UnifiedTensor) -> dict[str, Callable[[], tuple[hl.Graph, Any]]]:
    def moved(placement: str) -> hl.Graph:
        return hl.Graph(graph.indptr.clone(), graph.indices.clone(), directed=graph.directed, placement=placement)

    def cached() -> tuple[hl.Graph, Any]:
        room = features.nbytes // 10 + 4 * len(features) + 4096  # a tenth of the rows, and the map of all
        return graph, features.tiered(local=room, scores=hotness.degree(graph), devices=["cuda"])

    return {
        "managed": lambda: (graph, features),
        "cached": cached,
        "gpu": lambda: (moved("gpu"), features.cuda().clone()),
        "pinned": lambda: (moved("pinned"), _unsorted(features)),
        "cpu": lambda: (graph, features.cpu()),
    }


class _Bench:
    def __init__(
        self,
        graph: hl.Graph,
        features: hl.UnifiedTensor,
        labels: torch.Tensor,
        seeds: torch.Tensor,
        batches: int,
        device: torch.device,
    ) -> None:
        self.graph, self.features, self.labels, self.seeds = graph, features, labels.to(device), seeds
        self.batches, self.device = batches, device
        self.batch_size = SMALL_BATCH if device.type == "cpu" else BATCH
        self.model = new_model().to(device)
        self.optimizer = new_optimizer(self.model)

    def loader(self, graph: hl.Graph, table: Any, device: torch.device, blocks: int | None = None) -> Loader:
        neighbors = sampling.NeighborSampler(graph, FANOUTS, seed=6, device=device)
        seeds = self.seeds[: (WARM_UP + self.batches) * self.batch_size]
        labels = self.labels.to(device)
        return Loader(
            neighbors, seeds, self.batch_size, features=table, labels=labels, device=device, gather_blocks=blocks, prefetch=3
        )

    def step(self, batch: Batch) -> None:
        learn(self.model, self.optimizer, batch.x, batch.sample, batch.y)

    def measure(self, name: str, graph: hl.Graph, table: Any) -> dict[str, Any]:
        """Seconds of a batch, everything included, and what came over."""
        where = torch.device("cpu") if name == "cpu" else self.device
        loader = self.loader(graph, table, where)
        began, done, edges, rows = 0.0, 0, 0, 0
        for i, batch in enumerate(self._on_device(loader)):
            if i == WARM_UP:
                began = devices.idle_at(self.device)
                for stage in loader.stages:
                    stage.seconds, stage.items = 0.0, 0
            self.step(batch)
            if i >= WARM_UP:
                done, edges, rows = done + 1, edges + len(batch.sample.row), rows + len(batch.sample.node)
        seconds = (devices.idle_at(self.device) - began) / max(done, 1)
        hit = table.count(batch.sample.node).rows if hasattr(table, "count") else {}
        return {
            "case": name,
            "ms_a_batch": 1e3 * seconds,
            "epoch_s": seconds * -(-SEEDS // self.batch_size),
            "edges_a_batch": edges // max(done, 1),
            "rows_a_batch": rows // max(done, 1),
            "rows_gb_s": rows / max(done, 1) * COLUMNS * 4 / seconds / 1e9,
            "local_rows": hit.get("local", 0) / max(sum(hit.values()), 1),
            **{f"{stage.name}_ms": 1e3 * stage.seconds / max(stage.items, 1) for stage in loader.stages},
        }

    def _on_device(self, loader: Iterable[Batch]) -> Iterator[Batch]:
        for batch in loader:
            yield batch if batch.seeds.device.type == self.device.type else _copied(batch, self.device)

    def _captured(self, batch: Batch) -> torch.cuda.CUDAGraph:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(3):
                self.step(batch)
        torch.cuda.synchronize()
        step = torch.cuda.CUDAGraph()
        with torch.cuda.graph(step):
            self.step(batch)
        return step

    def overlap(self) -> list[dict[str, Any]]:
        """The training step alone, on average of some batches, and with a gather beside it all the time. Steps are CUDA graphs,
        so that no CPU thread waits for another, and what shows is what the gather takes of the GPU."""
        some = self.loader(self.graph, self.features, self.device)
        batches = [batch for batch, _ in zip(some, range(6), strict=False)]
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3, capturable=True, fused=True)
        steps = [self._captured(batch) for batch in batches]
        index = torch.cat([batch.sample.node for batch in batches])
        out = torch.empty(len(index), COLUMNS, device=self.device)
        alone = _replay(steps)
        cases = [{"blocks": 0, "step_ms": 1e3 * alone, "slower": 0.0, "gather_gb_s": 0.0}]
        for blocks in (1, 2, 3, 4, 8):
            stop, moved, began = threading.Event(), [0], time.perf_counter()

            def gather(blocks: int = blocks, stop: threading.Event = stop, moved: list[int] = moved) -> None:
                with torch.cuda.stream(torch.cuda.Stream()):
                    while not stop.is_set():
                        moved[0] += self.features.gather(index, out=out, max_blocks=blocks).nbytes

            beside = threading.Thread(target=gather)
            beside.start()
            time.sleep(0.05)
            with_it = _replay(steps)
            stop.set()
            beside.join()
            rate = moved[0] / (time.perf_counter() - began) / 1e9
            cases.append({"blocks": blocks, "step_ms": 1e3 * with_it, "slower": with_it / alone - 1, "gather_gb_s": rate})
        return cases


def _replay(steps: list[torch.cuda.CUDAGraph], times: int = 50) -> float:
    """Seconds of one replay."""
    for step in steps:
        step.replay()
    torch.cuda.current_stream().synchronize()
    began = time.perf_counter()
    for _ in range(times):
        for step in steps:
            step.replay()
    torch.cuda.current_stream().synchronize()
    return (time.perf_counter() - began) / (times * len(steps))


def _copied(batch: Batch, device: torch.device) -> Batch:
    """A CPU batch on the GPU, through pinned memory."""

    def over(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.pin_memory().to(device, non_blocking=True)

    sample = batch.sample
    arrays = (over(array) for array in (sample.node, sample.row, sample.col, sample.edge))
    there = sampling.Sample(*arrays, sample.num_sampled_nodes, sample.num_sampled_edges, None)
    assert batch.x is not None and batch.y is not None
    return Batch(there, over(batch.x), over(batch.y), over(batch.seeds))


def _compare(results: dict[str, Any]) -> None:
    of = {case["case"]: case["ms_a_batch"] for case in results["cases"]}
    for case in results["cases"]:
        case["times_managed"] = case["ms_a_batch"] / of["managed"]
        case["target_times_managed"] = TARGETS.get(case["case"])
        case["times_gpu"] = case["ms_a_batch"] / of["gpu"]
