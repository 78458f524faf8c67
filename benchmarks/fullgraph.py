"""Full-graph message passing: sums on one device beside cuSPARSE or MKL, layers beside PyG's, strategies on several GPUs beside
rivals.

Graphs have the shapes of MGG's table 1 and of IGB-medium (_fullgraph_shapes.py says what is drawn). Times are the least of some
runs, in milliseconds, everything of a row in one process on one machine.

``one gpu``, ``one cpu``, ``layers``: _fullgraph_one.py. ``parts``: a part on each GPU of one process. ``fetch``: each remote
row once, by all multiprocessors; ``local``: the aggregation of all entries with the halo there; ``of ceiling`` is the longer of
the two over the chosen strategy's time.
``halo+cusparse``, ``ring+cusparse``: _fullgraph_in_process.py. ``peers``: random rows of that width, all GPUs reading at once.
``direct gbs``: the rows of remote entries over the time of ``direct``. ``beyond``: rows in host memory, see
_fullgraph_beyond.py. ``processes``: a part in each of as many processes, beside NCCL's all-gather with torch.sparse, all-to-all
of deduplicated rows with cuSPARSE, and a ring of broadcasts. ``models``: epochs of whole models on 1, 2, 4 ... GPUs of one
process, ``models in processes``: with a process for each GPU, ``captured``: Reddit's and proteins' small GCN as CUDA graphs
(_fullgraph_models.py).
What MGG's evaluation has besides: ``mgg``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import hinterland as hl
from hinterland.fullgraph import STRATEGIES, PartitionedGraph, plan
from hinterland.fullgraph.aggregate_launch import PartRows, aggregate_rows
from hinterland.fullgraph.reduce import Operation, summed
from hinterland.fullgraph.take import take
from hinterland.memory.peers import enable_access
from hinterland.runtime import devices

from . import _fullgraph_beyond as in_host
from . import _fullgraph_in_process as in_process
from . import _fullgraph_rivals as rivals
from ._fullgraph_models import captured, models, models_in_processes
from ._fullgraph_one import layers, one_cpu, one_gpu
from ._fullgraph_shapes import shaped
from ._rows import told
from ._timing import milliseconds

SHAPES = "reddit,proteins,products,orkut,enwiki,igb-medium,it-2004:0.5,papers100M:0.3"
PARTS = ("one gpu", "one cpu", "layers", "beyond", "parts", "processes", "models", "models in processes", "captured")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--widths", default="16,64,256")
    parser.add_argument("--parts", default=",".join(PARTS), help="which tables to make")


def run(options: argparse.Namespace) -> dict[str, Any]:
    shapes, widths = options.shapes.split(","), [int(width) for width in options.widths.split(",")]
    if options.small:
        shapes, widths = ["products:0.001"], [16]
    gpus, wanted = devices.gpus(), options.parts.split(",")
    results: dict[str, Any] = {"gpus": len(gpus)}
    if "one gpu" in wanted and gpus:
        results["one gpu"] = [row for shape in shapes for row in one_gpu(shape, widths)]
    if "one cpu" in wanted:
        results["one cpu"] = [row for shape in shapes for row in one_cpu(shape, widths)]
    if "layers" in wanted:
        results["layers"] = [row for shape in shapes for row in layers(shape, devices.as_device())]
    if "beyond" in wanted:
        cases = [("products:0.001", "GCN-256", 0.5)] if options.small else in_host.CASES
        results["beyond"] = [in_host.beyond(case, devices.as_device()) for case in cases]
    if "parts" in wanted:
        where = gpus if len(gpus) > 1 else [devices.as_device()] * 2
        results["peers"] = peers(gpus, widths) if len(gpus) > 1 else []
        results["parts"] = [row for shape in shapes for row in parts(shape, widths, where)]
    if "processes" in wanted and len(gpus) > 1:
        results["processes"] = processes(shapes, widths, len(gpus))
    where = gpus or [devices.as_device()]
    counts = [1, 2] if not gpus else [1 << i for i in range(len(gpus).bit_length())]
    if "captured" in wanted:
        chosen = shapes if options.small else [shape for shape in shapes if shape in ("reddit", "proteins")]
        results["captured"] = [captured(shape, where, counts) for shape in chosen]
    if "models" in wanted:
        results["models"] = [row for shape in shapes for row in models(shape, where, counts)]
    if "models in processes" in wanted and len(gpus) > 1:
        results["models in processes"] = [row for shape in shapes for row in models_in_processes(shape, gpus)]
    return results


def peers(gpus: Sequence[torch.device], widths: Sequence[int]) -> list[dict[str, Any]]:
    """GB/s of each GPU that reads random rows of its neighbour's memory, all at once."""
    found = []
    for width in widths:
        tables = [torch.zeros((1 << 30) // (4 * width), width, device=gpu) for gpu in gpus]
        numbers = [torch.randint(len(table), (len(table),), device=table.device) for table in tables]
        outs = [torch.empty_like(table) for table in tables]
        others = tables[1:] + tables[:1]
        for gpu, other in zip(gpus, others, strict=True):
            enable_access(gpu, other.device)

        def read(others: Any = others, numbers: Any = numbers, outs: Any = outs) -> None:
            for other, number, out in zip(others, numbers, outs, strict=True):
                take(PartRows(other), number, out)

        found.append({"row bytes": 4 * width, "gbs": (1 << 30) / milliseconds(read, gpus) / 1e6})
    return found


def parts(shape: str, widths: Sequence[int], where: Sequence[torch.device]) -> list[dict[str, Any]]:
    drawn = shaped(shape, where[0])
    graph = drawn.to_graph()
    begin = time.perf_counter()
    p = PartitionedGraph.from_graph(graph, devices=where)
    built = time.perf_counter() - begin
    most = max(plan.loads(p), key=lambda part: part.halo)
    cut = rivals.even_bounds(drawn.indptr, len(where))
    shards = [rivals.cut(drawn.indptr, drawn.indices, None, cut, rank, on) for rank, on in enumerate(where)]
    theirs: dict[str, Any] = {}
    if where[0].type == "cuda":
        theirs = {"halo+cusparse": in_process.PeerHalo(shards), "ring+cusparse": in_process.PeerRing(shards)}

    def of(width: int) -> dict[str, Any]:
        x = [torch.randn(part.rows, width, device=on) for part, on in zip(p.parts, where, strict=True)]
        by = partial(summed, p, Operation(), x)
        took = {name: milliseconds(partial(by, name), where) for name in STRATEGIES if name != "replicate"}
        fetch = milliseconds(partial(p.fetch, x), where)
        local = milliseconds(partial(_here, p, x, p.fetch(x), [torch.empty_like(one) for one in x]), where)
        chosen = plan.choose(p, "sum", x, by)
        uneven = [torch.randn(end - first, width, device=on) for first, end, on in zip(cut, cut[1:], where, strict=False)]
        other = {name: milliseconds(partial(call, uneven), where) for name, call in theirs.items()}
        found = {"shape": shape, "vertices": graph.num_vertices, "edges": graph.num_edges, "built s": built, "width": width}
        found |= {"reuse": most.remote / max(most.halo, 1), **took, "fetch": fetch, "local": local, "auto": chosen}
        found["direct gbs"] = most.remote * 4 * width / took["direct"] / 1e6
        found |= {"of best": min(took.values()) / took[chosen], "of ceiling": max(fetch, local) / took[chosen], **other}
        return told(found | ({"times": min(other.values()) / took[chosen]} if other else {}))

    return [of(width) for width in widths if 4 * graph.num_vertices * width < 30e9 * len(where)]


def _here(p: PartitionedGraph, x: Sequence[Tensor], halos: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    for entries, own, halo, out in zip(p.entries("all", None), x, halos, outs, strict=True):
        aggregate_rows(entries, PartRows(own, halo), out)


def processes(shapes: Sequence[str], widths: Sequence[int], count: int) -> list[dict[str, Any]]:
    """As rank 0 sees it, which waits for the others before and after each run."""
    with tempfile.TemporaryDirectory() as folder:
        hl.launch(_rank, list(shapes), list(widths), str(Path(folder) / "rows.json"), gpus=count)
        found: list[dict[str, Any]] = json.loads((Path(folder) / "rows.json").read_text())
    return found


def _rank(rank: int, shapes: Sequence[str], widths: Sequence[int], to: str) -> None:
    rows = [row for shape in shapes for row in _of_rank(rank, shape, widths)]
    if rank == 0:
        Path(to).write_text(json.dumps(rows))


def _of_rank(rank: int, shape: str, widths: Sequence[int]) -> list[dict[str, Any]]:
    here = torch.device("cuda", rank)
    drawn = shaped(shape, here)
    graph = drawn.to_graph()
    p = PartitionedGraph.from_graph(graph)
    bounds = rivals.even_bounds(drawn.indptr, dist.get_world_size())
    shard = rivals.cut(drawn.indptr, drawn.indices, None, bounds, rank, here)
    theirs = {
        "all-gather+torch.sparse": rivals.AllGather(shard, torch.float32),
        "all-to-all+cusparse": rivals.Halo(shard),
        "broadcasts+cusparse": rivals.Ring(shard),
    }

    def timed(work: Callable[[], Any]) -> float:
        def together() -> None:
            work()
            torch.cuda.synchronize(here)
            dist.barrier()

        return milliseconds(together, [here])

    def of(width: int) -> dict[str, Any]:
        x = torch.randn(p.parts[0].rows, width, device=here)
        y = torch.randn(bounds[rank + 1] - bounds[rank], width, device=here)
        ours = timed(partial(hl.aggregate, p, x))
        other = {name: timed(partial(call, y)) for name, call in theirs.items()}
        found = {"shape": shape, "width": width, "ours": ours, "auto": plan.choices(p)[-1].strategy, **other}
        return found | {"times": min(other.values()) / ours}

    return [of(width) for width in widths if 4 * graph.num_vertices * width < 20e9]
