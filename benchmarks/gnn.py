"""Mini-batch training of GraphSAGE (3 layers, 256 hidden, fanout 15, 10, 5, batches of 1024), captured and eager.

The same model and the same samples, with the graph and the features in different places; rounds of all cases take turns in one
run, and a figure is the median. Without ``small``: a Kronecker graph of 2^25 vertices (``--scale``), 128 float32 features a
vertex, on one GPU. With it: 2^10 vertices on the CPU, where nothing is captured, and papers100M's shape at a fraction.

- gpu: everything in GPU memory
- cached: graph and features in host memory, the hottest tenth of the rows, by degree, in GPU memory
- host: graph and features in host memory; float16: of so many bytes, for a model of float32
- bf16: features of bfloat16, the model under autocast

``bound_ms`` is the larger of what the GPU's kernels take (but for the gather, where rows come over the link) and of the bytes
that come over the link at 56 GB/s. ``batches`` are made one after another, by this library and by WholeGraph.
``--shape papers100M`` measures epochs of that shape instead (``_gnn_shape.py``).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

import hinterland as hl
from hinterland import hotness, sampling
from hinterland.probe.link import copy_rates
from hinterland.training import Loader, make_model

from . import _gnn_overlap, _wholegraph
from ._gnn_case import Case
from ._rows import add_seconds, in_time, told
from ._timing import each_of

FANOUTS, HIDDEN, COLUMNS, CLASSES = [15, 10, 5], 256, 128, 172
SEEDS = 1_207_179  # papers100M's training vertices: 1179 batches an epoch
BATCH, SMALL_BATCH = 1024, 64
WARM_UP, BATCHES, ROUNDS = 8, 60, 3
SMALL_SCALE = 5e-4  # of a shape: a tenth of its rows is more than a batch reads
LINK_GB_S = 56  # that a gather of whole lines gets of an H200's link
TARGETS = {"gpu": 2.1, "cached": 2.3, "host": 3.2, "host float16": 2.3}  # captured, ms a batch
OF_BOUND = 1.15  # or so many times the bound
TARGET_CPU_MS = 0.3


def add_options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser)
    parser.add_argument("--scale", type=float, help="of the Kronecker graph, 2^scale vertices (25); of a shape, 1 by default")
    parser.add_argument("--shape", help="measure epochs of this shape of hinterland.datasets instead, as papers100M")
    parser.add_argument("--symmetrize", action="store_true", help="with --shape: messages go both ways")


def title(options: argparse.Namespace) -> str:
    """By what the results are known."""
    return "gnn" if options.shape is None else f"gnn-{options.shape}"


def run(options: argparse.Namespace) -> dict[str, Any]:
    from . import _gnn_shape

    if options.shape is not None:
        return _gnn_shape.run(options.shape, options.scale or (SMALL_SCALE if options.small else 1.0), options.symmetrize)
    results = _kronecker(10 if options.small else int(options.scale or 25), "cpu" if options.small else "cuda")
    if options.small:
        results["epochs"] = _gnn_shape.run("papers100M", SMALL_SCALE, False)["epochs"]
    return results


def _kronecker(scale: int, device: str) -> dict[str, Any]:
    """The cases, in turn; then what the gather costs the training step beside it."""
    graph = kronecker(scale, device)
    features, labels = random_features(graph.num_vertices, device), random_labels(graph).to(device)
    seeds = random_seeds(graph, (WARM_UP + BATCHES + 1) * (BATCH if device == "cuda" else SMALL_BATCH))
    cases = [
        Case(name, make_loader(graph, table, seeds, labels, device, captured), new_model().to(device), captured, bf16)
        for name, graph, table, bf16 in _places(graph, features, device)
        for captured in (False, True)
    ]
    for case in cases:
        case.look()
    for _ in in_time(range(ROUNDS), least=1):
        for case in cases:
            case.round(WARM_UP)
    results: dict[str, Any] = {
        "graph": {"kind": "kronecker", "vertices": graph.num_vertices, "edges": graph.num_edges, "features": features.nbytes},
        "timed": {"batches": BATCHES, "rounds": ROUNDS},
        "cases": [told(_figures(case)) for case in cases],
    }
    if device == "cuda":
        cases.clear()
        torch.cuda.empty_cache()
        results["copy_engine"] = copy_rates(torch.device("cuda", 0), 1 << 30)[0]
        loader = make_loader(graph, features, seeds, labels, device, False)
        results["overlap"] = _gnn_overlap.run(loader, features, new_model().cuda(), learn)
        results["batches"] = [{"by": "hinterland", **_made(graph, features, seeds)}]
        del loader, graph, features, labels  # WholeGraph takes as much host memory
        results["batches"] += [{"by": "WholeGraph", **found} for found in _wholegraph.batches(scale)]
    return results


def kronecker(scale: int, device: str) -> hl.Graph:
    """The graph of all cases but shapes, in host memory."""
    return hl.generate("kronecker", scale=scale, edge_factor=12, seed=1, placement="host", device=device)


def _made(graph: hl.Graph, features: hl.UnifiedTensor, seeds: torch.Tensor) -> dict[str, Any]:
    """Milliseconds a batch from host memory: sampled, and gathered as well, one after the other."""
    device = torch.device("cuda", 0)
    sampler = sampling.NeighborSampler(graph, FANOUTS, seed=6, device=device)
    roots = seeds[: (WARM_UP + BATCHES) * BATCH].to(device).split(BATCH)
    calls = {"sample_ms": sampler.sample, "sample_and_gather_ms": lambda of: features[sampler.sample(of).node]}
    return {
        name: 1e3 * statistics.median(each_of([partial(call, of) for of in roots], device)[WARM_UP:])
        for name, call in calls.items()
    }


def _places(graph: hl.Graph, features: hl.UnifiedTensor, device: str) -> Iterator[tuple[str, hl.Graph, Any, bool]]:
    """Name, graph, features of each case, and whether it computes in bfloat16."""
    yield "host", graph, features, False
    if device == "cpu":
        return
    here = hl.Graph(graph.indptr.clone(), graph.indices.clone(), directed=graph.directed, placement="gpu")
    room = features.nbytes // 10 + 4 * len(features) + 4096  # a tenth of the rows, and the map of all
    bfloat16 = of_type(features, torch.bfloat16)
    yield "gpu", here, features.cuda().clone(), False
    yield "cached", graph, features.tiered(local=room, scores=hotness.degree(graph), devices=["cuda"]), False
    yield "host float16", graph, of_type(features, torch.float16), False
    yield "gpu bf16", here, bfloat16.cuda().clone(), True
    yield "host bf16", graph, bfloat16, True


def of_type(features: hl.UnifiedTensor, dtype: torch.dtype) -> hl.UnifiedTensor:
    table = hl.UnifiedTensor.empty(tuple(features.shape), dtype)
    for to, part in zip(table.cuda().split(1 << 20), features.cuda().split(1 << 20), strict=True):
        to.copy_(part)
    return table


def _figures(case: Case) -> dict[str, Any]:
    """What a case took, beside its bounds and its target."""
    kernels, wire = case.kernels_ms(), case.link_bytes() / LINK_GB_S / 1e6
    found: dict[str, Any] = {
        "case": case.name,
        "captured": case.captured,
        "ms_a_batch": 1e3 * statistics.median(case.seconds),
        "cpu_ms": 1e3 * statistics.median(case.cpu_seconds),
        "kernels_ms": kernels,
        "wire_ms": wire,
        "bound_ms": max(kernels, wire),
        "edges_a_batch": case.edges,
        "rows_a_batch": case.rows,
    }
    if case.captured:
        found |= {"padding": case.loader.captured.padding, "overflowed": case.overflowed, "target_cpu_ms": TARGET_CPU_MS}
        if target := TARGETS.get(case.name):
            found["target_ms"] = max(target, OF_BOUND * found["bound_ms"])
            found["reached"] = found["ms_a_batch"] <= found["target_ms"]
    return found


def make_loader(
    graph: Any, table: Any, seeds: torch.Tensor, labels: torch.Tensor, device: str, captured: bool, **more: Any
) -> Loader:
    """Batches of ``seeds``: of fixed shape where they are ``captured``, as far as the device takes that."""
    neighbors = sampling.NeighborSampler(graph, FANOUTS, seed=6, device=device)
    size = BATCH if device == "cuda" else SMALL_BATCH
    more = {**more, "capture": device == "cuda" or "auto"} if captured else more
    return Loader(neighbors, seeds, size, features=table, labels=labels, device=device, prefetch=3, shuffle=True, **more)


def random_features(vertices: int, device: str, columns: int = COLUMNS, placement: str = "host") -> hl.UnifiedTensor:
    """Random numbers; the GPU writes them to host memory, which is faster than the CPU makes them."""
    table = hl.UnifiedTensor.empty((vertices, columns), placement=placement)
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


def new_model(columns: int = COLUMNS, classes: int = CLASSES) -> torch.nn.Module:
    """The same GraphSAGE each time."""
    torch.manual_seed(5)
    return make_model("sage", columns, HIDDEN, classes, len(FANOUTS))


def new_optimizer(model: torch.nn.Module) -> torch.optim.Optimizer:
    """Adam, in one kernel where the model is on a GPU."""
    return torch.optim.Adam(model.parameters(), 1e-3, fused=next(model.parameters()).is_cuda)


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: Any, sample: Any, y: Any) -> None:
    """One training step."""
    optimizer.zero_grad(set_to_none=True)
    F.cross_entropy(model(x, sample), y).backward()
    optimizer.step()
