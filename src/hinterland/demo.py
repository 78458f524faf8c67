"""The demonstration: a graph and a feature table in host memory, a verified traversal and a checked gather, and what moved.

It is the library's main job in one short run, on whatever this machine has; ``hinterland demo`` prints what :func:`run`
returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from .graph import Graph, bfs, generate, load_graph
from .graph.verify import verify_bfs
from .machine import cache
from .memory.limits import host_memory
from .probe import link
from .runtime import devices
from .runtime.engine import why_threads
from .runtime.errors import GraphError, VerificationError
from .runtime.thresholds import DEMO_ROWS, DEMO_TABLE_BYTES
from .runtime.units import format_bytes
from .table import UnifiedTensor

COLUMNS = 128
SCALE_CPU, SCALE_GPU = 16, 22  # a second or two of work for a traversal on either
_SOURCES = 3

PYTHON = """\
import torch, hinterland as hl
graph = {graph}
levels = hl.bfs(graph, source={source}).levels
table = hl.UnifiedTensor.empty((graph.num_vertices, 128), torch.float32)
rows = table[torch.randint(graph.num_vertices, ({rows},), device="{device}")]"""


def run(
    path: str | Path | None = None, scale: int | None = None, say: Callable[[str], None] = lambda phrase: None
) -> dict[str, Any]:
    """Runs the demonstration.

    Args:
        path: a graph file of any format that ``load_graph`` reads; None generates a Kronecker graph.
        scale: two to this power is the number of its vertices; None suits the machine.
        say: called with a phrase as each part begins.

    Returns:
        What was found, in JSON types; bytes, seconds, and bytes a second. ``graph``, ``tiers`` (what lies where), ``runs``
        (one a source, with the vertices on each level), ``gather``, ``link`` (the copy engine's rate and the shares of it
        that were reached; None without a GPU), ``storage`` (the engine that would read files, and why it is not io_uring),
        ``bytes`` (all that was read from host memory), ``python``.

    Raises:
        VerificationError: a result is wrong.
        HinterlandError: the graph cannot be loaded, or memory does not suffice.
    """
    began = time.perf_counter()
    device = devices.as_device()
    say(f"preparing the graph for {device}")
    graph, made = _graph(path, scale, device)
    say("filling the feature table")
    table = _features(graph.num_vertices)
    ceiling = link.copy_rates(device)[0] if device.type == "cuda" else None
    say("breadth-first search, each run verified")
    runs = [_traverse(graph, source, device, ceiling) for source in _sources(graph)]
    say("gathering random rows, checked against torch")
    gathered = _gather(table, device, ceiling)
    held = {name: graph.array(name) for name in ("indptr", "indices", "weights")}
    return {
        "device": str(device),
        "machine": _describe(device),
        "graph": {"vertices": graph.num_vertices, "edges": graph.num_edges, **made},
        "tiers": [
            *(_tier(name, graph.placement[name], array) for name, array in held.items() if array is not None),
            _tier("features", str(table.placement), table.cpu()),
        ],
        "runs": runs,
        "gather": gathered,
        "bytes": sum(run["bytes"] for run in runs) + gathered["bytes"],
        "link": _link(ceiling, runs, gathered),
        "storage": {"engine": "threads" if (why := why_threads()) else "io_uring", "why": why},
        "seconds": time.perf_counter() - began,
        "python": PYTHON.format(
            graph=f"hl.load_graph({str(path)!r})" if path else f'hl.generate("kronecker", scale={made["scale"]})',
            source=runs[0]["source"],
            rows=gathered["rows"],
            device=device.type,
        ),
    }


def _graph(path: str | Path | None, scale: int | None, device: torch.device) -> tuple[Graph, dict[str, Any]]:
    start = time.perf_counter()
    if path is not None:
        graph = load_graph(path)
        made: dict[str, Any] = {"file": str(path)}
    else:
        scale = scale if scale is not None else (SCALE_GPU if device.type == "cuda" else SCALE_CPU)
        graph = generate("kronecker", scale=scale)
        made = {"kind": "kronecker", "scale": scale}
    if graph.num_vertices == 0:
        raise GraphError(f"{path or 'the graph'} has no vertices: there is nothing to show; choose another graph")
    return graph, {**made, "seconds": time.perf_counter() - start}


def _features(vertices: int) -> UnifiedTensor:
    """A row of 128 floats for each vertex, or for as many as memory is well able to hold. No two entries of a row, nor
    of a column, are equal, and all are exact: a row that comes from elsewhere shows."""
    room = min(DEMO_TABLE_BYTES, host_memory(0)[0] // 4)
    table = UnifiedTensor.empty((max(1, min(vertices, room // (4 * COLUMNS))), COLUMNS), torch.float32)
    column = torch.arange(COLUMNS, dtype=torch.float32) * 65536
    begin = 0
    for part in table.cpu().split(1 << 16):
        torch.sub(torch.arange(begin, begin + len(part))[:, None].float(), column, out=part)
        begin += len(part)
    return table


def _sources(graph: Graph) -> list[int]:
    """The vertex with the most neighbours and a few others that have some, the same on every machine."""
    degrees = graph.degrees().cpu()
    hub = int(degrees.argmax())
    candidates = degrees.nonzero().flatten()
    if len(candidates) == 0:
        return [hub]
    chosen = torch.randint(len(candidates), (_SOURCES - 1,), generator=torch.Generator().manual_seed(1))
    return list(dict.fromkeys([hub, *candidates[chosen].tolist()]))


def _traverse(graph: Graph, source: int, device: torch.device, ceiling: float | None) -> dict[str, Any]:
    bfs(graph, source, device=device)  # compiles the kernel, and brings the edges' pages in
    result = bfs(graph, source, device=device, stats=True)
    verify_bfs(graph, source, result)
    stats = result.stats
    assert stats is not None
    levels = result.levels[result.levels >= 0]
    return {
        "source": source,
        "seconds": stats["seconds"],
        "reached": len(levels),
        "levels": torch.bincount(levels).tolist(),
        "edges": stats["edges"],
        "teps": stats["edges"] / stats["seconds"],
        "bytes": stats["bytes"],
        "verified": True,
        **_rate(stats["bytes"], stats["seconds"], ceiling),
    }


def _gather(table: UnifiedTensor, device: torch.device, ceiling: float | None) -> dict[str, Any]:
    rows = table.shape[0]
    count = min(DEMO_ROWS, max(rows, 1 << 16))
    times = []
    for seed in range(5):
        index = torch.randint(rows, (count,), generator=torch.Generator().manual_seed(seed)).to(device)
        start = devices.idle_at(device)
        found = table[index]
        times.append(devices.idle_at(device) - start)
        if not torch.equal(found.cpu(), table.cpu()[index.cpu()]):
            raise VerificationError(f"gathered rows differ from torch's own (row numbers of seed {seed})")
    seconds = median(times[1:])  # the first run compiles
    moved = count * 4 * COLUMNS
    return {
        "rows": count,
        "row_bytes": 4 * COLUMNS,
        "seconds": seconds,
        "bytes": moved,
        "checked": True,
        **_rate(moved, seconds, ceiling),
    }


def _rate(moved: int, seconds: float, ceiling: float | None) -> dict[str, float | None]:
    rate = moved / seconds
    return {"bandwidth": rate, "share": rate / ceiling if ceiling else None}


def _link(ceiling: float | None, runs: list[dict[str, Any]], gathered: dict[str, Any]) -> dict[str, Any] | None:
    if ceiling is None:
        return None
    return {"h2d": ceiling, "bfs_share": max(run["share"] for run in runs), "gather_share": gathered["share"]}


def _tier(name: str, placement: str, array: torch.Tensor) -> dict[str, Any]:
    return {"what": name, "placement": placement, "bytes": array.nbytes}


def _describe(device: torch.device) -> str:
    cpu = f"{cache.cpu_model()}, {cache.cores()} cores"
    if device.type == "cpu":
        return f"{cpu}, no GPU: the same programs run on the CPU"
    gpu = torch.cuda.get_device_properties(device)
    return f"{gpu.name} ({format_bytes(gpu.total_memory)}), {cpu}"
