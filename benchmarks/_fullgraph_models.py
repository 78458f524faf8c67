"""Epochs of MGG's two models on whole graphs: forward, cross entropy on all vertices, backward and a step of Adam.

Features and classes follow from a vertex's number, so that every division of the graph trains on the same. Rows and parameters
are float32 where one GPU has room for that, else bfloat16, and where it has none for that either the shape is made smaller: the
row says which. Each count of GPUs takes the first of them, in one process; or one GPU, and then all of them with a process for
each (``models in processes``), whose gradients are added up before the step. ``host``: milliseconds until all of an epoch is
queued. ``captured``: the first model's epochs as a CUDA graph, of all GPUs of the process, beside those that the host queues.

Before anything is measured, ``predicted`` says how many times as fast as one GPU all are: the aggregations by plan.costs, of
which the quickest strategy's is taken, and what is done to the rows of vertices at the speed of memory, divided evenly.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

import hinterland as hl
from hinterland.fullgraph import PartitionedGraph, plan
from hinterland.runtime import devices
from hinterland.runtime.errors import OutOfMemory
from hinterland.training.capture import CapturedSteps
from hinterland.training.full import FullBatch
from hinterland.training.full_models import FullGNN, make_full_model
from hinterland.training.gradients import GradientAllReduce

from ._fullgraph_shapes import SHAPES, Shape, draw, scaled
from ._rows import told

STREAM = 3e12  # bytes a second of an H200's memory, read or written in order: for predictions
SHARE = 0.8  # of a GPU's memory, that an epoch may be expected to take
EPOCHS = 4  # that are timed, after some that are not
KINDS = 8191  # different rows of features


@dataclass(frozen=True)
class Model:
    """A model of MGG's evaluation, or a wider one."""

    label: str
    name: str
    hidden: int
    layers: int

    def widths(self, shape: Shape) -> list[int]:
        """Of the features, of what lies between layers, and of the classes."""
        return [shape.columns, *[self.hidden] * (self.layers - 1), shape.classes]

    def summed(self, shape: Shape) -> list[int]:
        """The widths of the rows that an epoch aggregates: each layer's, and its gradient's, which features do not need."""
        forward = [min(a, b) if self.name == "gcn" else a for a, b in pairwise(self.widths(shape))]
        backward = forward if forward[0] < shape.columns else forward[1:]
        return forward + backward

    def kept(self, shape: Shape) -> int:
        """Elements that an epoch holds for a vertex at its peak, about, its features included."""
        first = 3 if self.name != "gcn" or self.hidden > shape.columns else 1
        inner = 6 * self.hidden * (self.layers - 1 if self.name == "gcn" else self.layers)
        return first * shape.columns + inner + 4 * shape.classes


MODELS = (Model("GCN 2 x 16", "gcn", 16, 2), Model("GIN 5 x 64", "gin", 64, 5), Model("GCN-256", "gcn", 256, 2))


def models(shape: str, gpus: Sequence[torch.device], counts: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each model. ``counts``: of parts, the first of which is 1; on a CPU, virtual ranks."""
    name, _, scale = shape.partition(":")
    rows, drawn = [], {}
    for model in MODELS:
        kind, fits = fitting(model, name, float(scale or 1), min(map(memory_of, gpus)))
        if fits not in drawn:
            drawn.clear()  # one graph is held at a time
            drawn[fits] = draw(name, fits, gpus[0]).to_graph()
        released(gpus)
        rows.append(told(_row(model, name, fits, kind, drawn[fits], gpus, counts)))
    return rows


def captured(shape: str, gpus: Sequence[torch.device], counts: Sequence[int]) -> dict[str, Any]:
    """A row for GCN 2 x 16, as of :func:`models`, without and with a CUDA graph; ``replayed``: how many epochs were replays.
    ``"auto"`` measures what the host queues, so other strategies are captured as well."""
    name, _, scale = shape.partition(":")
    graph = draw(name, float(scale or 1), gpus[0]).to_graph()
    row = _heading(MODELS[0], name, float(scale or 1), torch.float32, graph)
    for count in counts:
        where = [gpus[i % len(gpus)] for i in range(count)]
        for way in ("", "captured "):
            released(gpus)
            found, loss = epoch(MODELS[0], SHAPES[name], torch.float32, graph, where, captures=bool(way))
            row |= {f"{way}{count}": found["ms"], f"{way}host {count}": found["host"], f"{way}loss {count}": loss}
        row |= {f"replayed {count}": found["replayed"], f"strategies {count}": found["strategies"]}
        row[f"times {count}"] = row["captured 1"] / found["ms"]
        for strategy in ("halo-pipelined", "all-gather") if count > 1 else ():
            found, _ = epoch(MODELS[0], SHAPES[name], torch.float32, graph, where, captures=True, strategy=strategy)
            row[f"captured {strategy} {count}"] = found["ms"]
    return told(row)


def models_in_processes(shape: str, where: Sequence[torch.device]) -> list[dict[str, Any]]:
    """A row for each model: one device in this process, and then a process for each."""
    name, _, scale = shape.partition(":")
    count, on_gpus = len(where), where[0].type == "cuda"
    rows = []
    for number, model in enumerate(MODELS):
        kind, fits = fitting(model, name, float(scale or 1), min(map(memory_of, where)))
        graph = draw(name, fits, where[0]).to_graph()
        released(where)
        one, loss = epoch(model, SHAPES[name], kind, graph, where[:1])
        row = _heading(model, name, fits, kind, graph)
        del graph
        released(where)
        with tempfile.TemporaryDirectory() as folder:
            to = Path(folder) / "epoch.json"
            hl.launch(_rank, number, name, fits, kind, str(to), **{"gpus" if on_gpus else "cpus": count})
            all_of_them, of_all = json.loads(to.read_text())
        row |= _columns(1, one) | _columns(count, all_of_them)
        row |= {f"times {count}": one["ms"] / all_of_them["ms"], f"differs {count}": abs(of_all / loss - 1)}
        rows.append(told(row))
    return rows


def _rank(rank: int, number: int, name: str, scale: float, kind: torch.dtype, to: str) -> None:
    here = devices.as_device()  # launch has made a rank's GPU the current one
    found = epoch(MODELS[number], SHAPES[name], kind, draw(name, scale, here).to_graph(), [here])
    if rank == 0:
        Path(to).write_text(json.dumps(found))


def memory_of(device: torch.device) -> float:
    """Bytes of a GPU; a CPU's are taken to be enough."""
    return float(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else float("inf")


def fitting(model: Model, name: str, scale: float, memory: float) -> tuple[torch.dtype, float]:
    """The type of rows, and the scale at which an epoch on one GPU has room."""
    room = SHARE * memory
    for kind in (torch.float32, torch.bfloat16):
        needed = nbytes(model, scaled(name, scale), kind)
        if needed <= room:
            return kind, scale
    return torch.bfloat16, int(100 * scale * room / needed) / 100


def nbytes(model: Model, shape: Shape, kind: torch.dtype) -> int:
    """What an epoch holds on one GPU, about: entries and offsets, turned round too, scales, classes, and rows."""
    ways = 2 if shape.directed else 1
    return ways * (4 * shape.edges + 24 * shape.vertices) + shape.vertices * (24 + kind.itemsize * model.kept(shape))


def released(gpus: Sequence[torch.device]) -> None:
    """Gives back what nothing holds any more."""
    gc.collect()
    if gpus[0].type == "cuda":
        torch.cuda.empty_cache()


def _row(
    model: Model,
    name: str,
    scale: float,
    kind: torch.dtype,
    graph: hl.Graph,
    gpus: Sequence[torch.device],
    counts: Sequence[int],
) -> dict[str, Any]:
    shape = SHAPES[name]
    row = _heading(model, name, scale, kind, graph)
    where = {count: [gpus[i % len(gpus)] for i in range(count)] for count in counts}
    expected = predicted(model, shape, kind, graph, (where[1], where[counts[-1]]))
    row["predicted"] = expected[0] / expected[1]
    losses = {}
    for count, on in where.items():
        released(gpus)
        try:
            found, losses[count] = epoch(model, shape, kind, graph, on)
        except (OutOfMemory, torch.cuda.OutOfMemoryError) as error:
            print(error, file=sys.stderr, flush=True)
            continue
        row |= _columns(count, found)
        if count > 1 and "1" in row:
            row |= {f"times {count}": row["1"] / found["ms"], f"differs {count}": abs(losses[count] / losses[1] - 1)}
    return row


def predicted(
    model: Model, shape: Shape, kind: torch.dtype, graph: hl.Graph, divisions: Sequence[Sequence[torch.device]]
) -> list[float]:
    """Seconds of an epoch, for each division."""
    found = []
    for where in divisions:
        p = PartitionedGraph.from_graph(graph, devices=where)
        sums = [min(cost.predicted for cost in plan.costs(p, width, kind)) for width in model.summed(shape)]
        rows = 3 * graph.num_vertices * model.kept(shape) * kind.itemsize / STREAM / len(where)
        found.append(sum(sums) + rows)
    return found


def _heading(model: Model, name: str, scale: float, kind: torch.dtype, graph: hl.Graph) -> dict[str, Any]:
    shape = f"{name}:{scale:g}" if scale != 1 else name
    sizes = {"vertices": graph.num_vertices, "edges": graph.num_edges}
    return {"shape": shape, "model": model.label, **sizes, "dtype": str(kind).removeprefix("torch.")}


def _columns(count: int, found: dict[str, Any]) -> dict[str, Any]:
    return {f"{count}": found["ms"], **{f"{name} {count}": found[name] for name in ("host", "mb", "strategies")}}


def epoch(
    model: Model,
    shape: Shape,
    kind: torch.dtype,
    graph: hl.Graph,
    where: Sequence[torch.device],
    captures: bool = False,
    strategy: str = "auto",
) -> tuple[dict[str, Any], float]:
    """The least milliseconds of some epochs, and until they are queued; the most memory of a GPU, the strategies by which rows
    of others were read, how many epochs were replays; and the loss after the first step. In a process group, of which ``where``
    is a rank's device: of all ranks, but for memory. ``captures``: on GPUs, all of this process."""
    p = PartitionedGraph.from_graph(graph, devices=where[0] if dist.is_initialized() else where)
    x, y = _features(p, shape.columns, kind), _classes(p, shape.classes)
    torch.manual_seed(1)
    net = make_full_model(model.name, shape.columns, model.hidden, shape.classes, model.layers, strategy=strategy)
    net = net.to(where[0], kind)
    cuda = [on for on in set(where) if on.type == "cuda"]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, fused=bool(cuda))
    steps = CapturedSteps(
        net,
        lambda net, batch: _loss(net, p, batch.x, y),
        optimizer,
        [],
        all_reduce=GradientAllReduce(optimizer) if dist.is_initialized() else None,
        others=[on for on in cuda if on != where[0]] if captures else (),
    )
    batch = FullBatch(p.as_given(x), {}, y[0], 0 if captures and cuda else None)

    def step() -> Tensor:
        return steps.step(batch)[1]

    step()
    loss = float(_over_ranks(step(), dist.ReduceOp.SUM))
    step()
    for on in cuda:
        torch.cuda.reset_peak_memory_stats(on)
    times = _over_ranks(torch.tensor([_seconds(step, where) for _ in range(EPOCHS)], device=where[0]), dist.ReduceOp.MAX)
    least, queued = (1e3 * times).amin(0).tolist()
    chosen = {choice.strategy for side in (p, p.transposed) for choice in plan.choices(side)}
    most = max((torch.cuda.max_memory_allocated(on) for on in cuda), default=0)
    return {
        "ms": least,
        "host": queued,
        "mb": most / 1e6,
        "strategies": "+".join(sorted(chosen)),
        "replayed": steps.replayed,
    }, loss


def _over_ranks(values: Tensor, reduce: Any) -> Tensor:
    if dist.is_initialized():
        dist.all_reduce(values, reduce)
    return values


def _seconds(work: Callable[[], Any], where: Sequence[torch.device]) -> tuple[float, float]:
    """Until all is done, and until all is queued."""
    if dist.is_initialized():
        dist.barrier()
    begin = max(map(devices.idle_at, where))
    work()
    queued = time.perf_counter() - begin
    return max(map(devices.idle_at, where)) - begin, queued


def _loss(net: FullGNN, p: PartitionedGraph, x: Any, y: Sequence[Tensor]) -> Tensor:
    scores = p.each(net(x, p))
    losses = [F.cross_entropy(rows, classes, reduction="none").float() for rows, classes in zip(scores, y, strict=True)]
    return torch.stack([one.sum().to(losses[0].device) for one in losses]).sum() / p.num_vertices


def _features(p: PartitionedGraph, columns: int, kind: torch.dtype) -> list[Tensor]:
    kinds = torch.randn(KINDS, columns, generator=torch.Generator().manual_seed(1)).to(kind)
    return [kinds.to(on)[v.to(on) % KINDS] for v, on in zip(p.vertices, p.world.devices, strict=True)]


def _classes(p: PartitionedGraph, classes: int) -> list[Tensor]:
    return [v.to(on) % KINDS % classes for v, on in zip(p.vertices, p.world.devices, strict=True)]
