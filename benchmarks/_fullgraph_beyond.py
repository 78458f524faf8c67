"""Training epochs of models whose rows do not fit the GPU memory that they may take.

``in gpu``: everything stays on the GPU, where that fits. ``save_on_cpu``: the same, under torch's own
``torch.autograd.graph.save_on_cpu``, as users without this library have it. ``budget``: rows in host memory, blocks on the GPU.
``link ms``: the larger of the bytes that cross each way over that way's rate, both ways at once; ``of link``: the epoch over
that. Peaks are torch's, without the model's parameters; ``predicted`` is what the plan said before.
"""

from __future__ import annotations

import gc
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hinterland.fullgraph import PartitionedGraph
from hinterland.fullgraph.host_program import plans
from hinterland.runtime.units import parse_bytes
from hinterland.table import UnifiedTensor
from hinterland.training.full_models import FullGNN

from ._fullgraph_shapes import draw
from ._timing import milliseconds

REPEATS = 3
# Shape, model, budget: a share of what it takes in GPU memory, or bytes.
CASES = (
    ("products", "GCN-256", 0.5),
    ("products", "GAT 4 x 64", 0.5),
    ("igb-medium", "GCN-256", "24GiB"),
    ("igb-medium", "GAT 4 x 64", "24GiB"),
)


def model_of(name: str, columns: int, classes: int) -> FullGNN:
    """Two hidden layers of 256, and one of the classes."""
    from hinterland.nn import GATConv, GCNConv

    if name == "GCN-256":
        return FullGNN([GCNConv(columns, 256), GCNConv(256, 256), GCNConv(256, classes)], F.relu)
    return FullGNN([GATConv(columns, 64, 4), GATConv(256, 64, 4), GATConv(256, classes)], F.elu)


def beyond(case: tuple[str, str, float | str], device: torch.device) -> dict[str, Any]:
    (shape, name, budget), is_gpu = case, device.type == "cuda"
    kind, _, scale = shape.partition(":")
    drawn = draw(kind, float(scale or 1), device)
    graph, sizes = drawn.to_graph(), drawn.shape
    del drawn
    row: dict[str, Any] = {"shape": shape, "vertices": graph.num_vertices, "edges": graph.num_edges, "model": name}
    row |= {"columns": sizes.columns, "directed": sizes.directed}
    if is_gpu and isinstance(budget, float):
        plain = PartitionedGraph.from_graph(graph, devices=device)
        row["in gpu ms"], row["in gpu gb"], losses = _epoch(plain, name, sizes, device)
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            row["save_on_cpu ms"], row["save_on_cpu gb"], _ = _epoch(plain, name, sizes, device)
        budget = int(budget * row["in gpu gb"] * 1e9)
        row["loss"] = losses
        del plain
    allowed = parse_bytes(budget) if isinstance(budget, str) else int(budget) if budget > 1 else 1 << 23
    # The loss makes two arrays more like the scores, which are not the graph's to count.
    of_loss = 2 * 4 * graph.num_vertices * sizes.classes if is_gpu else 0
    p = PartitionedGraph.from_graph(graph, devices=device, gpu_budget=allowed - of_loss)
    row["ms"], row["gb"], row["loss with budget"] = _epoch(p, name, sizes, device)
    made = plans(p)[-1]
    row |= {"budget gb": allowed / 1e9, "predicted gb": made.peak / 1e9, "up gb": made.up / 1e9, "down gb": made.down / 1e9}
    row |= {"host gb": made.in_host / 1e9, "block": made.block, "placed": len(made.places), "plan": made.explain()}
    if is_gpu:
        up, down = link(device)
        row["link ms"] = max(made.up / up, made.down / down) / 1e6
        row |= {"gbs up": up, "gbs down": down, "of link": row["ms"] / row["link ms"]}
        if "in gpu ms" in row:
            row["times in gpu"] = row["ms"] / row["in gpu ms"]
    return row


def _epoch(p: PartitionedGraph, name: str, sizes: Any, device: torch.device) -> tuple[float, float, list[float]]:
    """Milliseconds of a step, gigabytes at its peak, the graph's included, and the losses of the first steps."""
    gc.collect()
    torch.manual_seed(1)
    model = model_of(name, sizes.columns, sizes.classes).to(device)
    x = _features(p.num_vertices, sizes.columns, p.gpu_budget is not None, device)
    y = torch.randint(sizes.classes, (p.num_vertices,), device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    before = _taken(device) - sum(one.nbytes for one in _held(p)) - (x.nbytes if x.is_cuda else 0)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    losses: list[float] = []

    def step() -> None:
        optimizer.zero_grad()
        loss = F.cross_entropy(p.each(model(x, p))[0], y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))

    ms = milliseconds(step, [device], repeats=REPEATS)
    peak = torch.cuda.max_memory_allocated(device) - before if device.type == "cuda" else 0
    return ms, peak / 1e9, losses


def _held(p: PartitionedGraph) -> list[Tensor]:
    arrays = [(one.offsets, one.split, one.places, one.halo, one.degrees) for one in p.parts]
    return [array for part in arrays for array in part if array.is_cuda]


def _features(n: int, columns: int, in_host: bool, device: torch.device) -> Tensor:
    """Normal values, drawn on the device; the same ones wherever they are to lie."""
    if not in_host:
        to = torch.empty(n, columns, device=device)
    else:
        to = UnifiedTensor.empty((n, columns), torch.float32, "pinned" if device.type == "cuda" else "pageable").cpu()
    generator = torch.Generator(device).manual_seed(2)
    for part in to.split(1 << 20):
        part.copy_(torch.randn(part.shape, device=device, generator=generator))
    return to


def _taken(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def link(device: torch.device) -> tuple[float, float]:
    """GB/s up and down, both ways at once."""
    size = 1 << 30
    up, down = (UnifiedTensor.empty(size, torch.uint8, "pinned").cpu() for _ in range(2))
    here, there = (torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2))
    streams = [torch.cuda.Stream(device) for _ in range(2)]
    pairs, best = [(here, up), (down, there)], [float("inf")] * 2
    for _ in range(4):
        torch.cuda.synchronize(device)
        events = []
        for stream, (to, source) in zip(streams, pairs, strict=True):
            with torch.cuda.stream(stream):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                to.copy_(source, non_blocking=True)
                end.record()
                events.append((begin, end))
        torch.cuda.synchronize(device)
        best = [min(had, begin.elapsed_time(end)) for had, (begin, end) in zip(best, events, strict=True)]
    return size / best[0] / 1e6, size / best[1] / 1e6
