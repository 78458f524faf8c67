"""Graphs whose edges stay in a file: traversals and samples of them beside those of the same edges in memory, and reads.

The file lies on the disk, and once in memory (tmpfs), where only the controller and copies bound it. The physical limit is the
disk's own rate for such blocks in this run (native/storage/raw.hpp). ``whole`` is a program's whole life with the graph: open
the file, run, close; against loading it to host memory first. ``compute``, ``cache`` and ``storage`` are parts of the time
(Mailthody 2022, section 7.1.3): what the same run takes over edges in this processor's memory, what it takes more through a
cache that has all of them, and the rest.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import hinterland as hl
from hinterland.graph.algorithms import state_bytes
from hinterland.graph.prepare import ResidentGraph, graph_of
from hinterland.probe.storage import compare
from hinterland.runtime import devices
from hinterland.runtime.units import parse_bytes
from hinterland.sampling import NeighborSampler, Sample
from hinterland.table import device as tables

from ._rows import Rows, add_seconds, in_time

PAIRS = 3
LINES = (4096, 16384)
SEEDS = 1024


def _sampled(graph: hl.Graph | ResidentGraph, _: int) -> Sample:
    """A mini-batch of as many seeds, all over the graph."""
    seeds = torch.arange(SEEDS) * 1_000_003 % graph_of(graph).num_vertices
    return NeighborSampler(graph, [15, 10, 5], seed=1).sample(seeds)


RUNS: dict[str, tuple[str, Callable[..., Any]]] = {
    "bfs": ("bfs", lambda graph, source, **more: hl.bfs(graph, source, **more)),
    "components": ("cc", lambda graph, _, **more: hl.connected_components(graph, **more)),
    "components, all lists": ("cc", lambda graph, _, **more: hl.connected_components(graph, "all-lists", **more)),
    "a sample": ("sampling", _sampled),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured files go: the disk in question")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a folder whose files lie in memory")
    parser.add_argument("--scale", type=int, default=24, help="of the graphs: 2^scale vertices")
    parser.add_argument("--lines", default="64MiB", help="of a GPU's cache; of a CPU's, too")


def run(options: argparse.Namespace) -> dict[str, Any]:
    scale = 16 if options.small else options.scale
    lines = 2 << 20 if options.small else parse_bytes(options.lines)
    device = devices.as_device(None)
    found: dict[str, Any] = {"device": str(device), "lines": lines, "runs": Rows()}
    for kind in ("kronecker", "web"):
        graph = hl.generate(kind, scale=scale, edge_factor=16, seed=1)
        source = int(torch.argmax(graph.indptr.diff()))
        host = _in_memory(graph, source, lines, device)
        near = host
        if device.type == "cuda":
            near = _in_memory(hl.generate(kind, scale=scale, edge_factor=16, seed=1, placement="gpu"), source, None, device)
        for where in (options.memory, options.folder):
            with tempfile.TemporaryDirectory(dir=where, prefix="hinterland-bench-") as folder:
                path = Path(folder) / "graph.hl"
                hl.save_graph(graph, path)
                at = "memory" if where == options.memory else "disk"
                for row in _on_storage(path, graph, source, lines, device, host, near):
                    found["runs"].append({"graph": kind, "file in": at, **row})
    return found


def _in_memory(graph: hl.Graph, source: int, lines: int | None, device: torch.device) -> dict[str, float]:
    """Seconds of each run over the same edges in memory, of which a GPU keeps as much as it has lines; None: no budget."""
    took = {}
    for name, (algorithm, run) in RUNS.items():
        budget = None if lines is None or device.type == "cpu" else state_bytes(algorithm, graph) + lines
        with hl.prepare(graph, gpu_budget=budget, device=device, algorithms=algorithm) as prepared:
            took[name] = median_seconds(lambda run=run, prepared=prepared: run(prepared, source))  # type: ignore[misc]
    return took


def _on_storage(
    path: Path,
    graph: hl.Graph,
    source: int,
    lines: int,
    device: torch.device,
    host: dict[str, float],
    near: dict[str, float],
) -> Iterator[dict[str, Any]]:
    edges = graph.array("indices").nbytes  # type: ignore[union-attr]
    for line in LINES:
        disk = compare(path, block_bytes=line, blocks=min(20_000, edges // line), pairs=3)
        for name, (algorithm, run) in in_time(RUNS.items()):
            host_bytes = lines * (2 if device.type == "cuda" else 1)
            stored = hl.load_graph(path, "storage", cache=hl.StorageCache(host_bytes, line, device_budget=lines + (8 << 20)))
            with hl.prepare(stored, device=device, algorithms=algorithm) as prepared:
                took, read = counted(lambda run=run, prepared=prepared: run(prepared, source), prepared)  # type: ignore[misc]
            rate = read * line / took
            hits = max(_all_hits(path, line, run, source, algorithm, edges, device), near[name])
            yield {
                "line": line,
                "run": name,
                "s": took,
                "host memory s": host[name],
                "times": took / host[name],
                "compute": near[name] / took,
                "cache": (hits - near[name]) / took,
                "storage": 1 - hits / took,
                "read of edges": read * line / edges,
                "GB/s": rate / 1e9,
                "of the disk": rate / (disk.raw_requests * line),
                **_whole(path, line, run, source, lines),
            }


def _all_hits(
    path: Path, line: int, run: Callable[..., Any], source: int, algorithm: str, edges: int, device: torch.device
) -> float:
    """Seconds through a cache with room for all, once all is there: four times that on a CPU, a GPU's twice by default."""
    with patch.object(tables, "_LINES", ((0, line),)):
        stored = hl.load_graph(path, "storage", host_budget=1 << 30 if device.type == "cuda" else 4 * edges)
    with hl.prepare(stored, device=device, algorithms=algorithm) as prepared:
        return median_seconds(lambda: run(prepared, source))


def counted(run: Callable[[], Any], prepared: Any) -> tuple[float, float]:
    """Median seconds of runs that begin with what the last has left in the cache, and the lines that each read."""
    through = prepared.through
    run()
    before = sum(one.stats().reads for one in through)
    took = median_seconds(run, warm=False)
    return took, (sum(one.stats().reads for one in through) - before) / PAIRS


def _whole(path: Path, line: int, run: Callable[..., Any], source: int, lines: int) -> dict[str, float]:
    """Seconds from the file's name to the result, and of the same with all of it loaded first."""

    def stored() -> None:
        with patch.object(tables, "_LINES", ((0, line),)):
            run(hl.load_graph(path, "storage", host_budget=2 * lines), source)

    def loaded() -> None:
        run(hl.load_graph(path), source)

    return {"whole s": median_seconds(stored), "whole, loaded first s": median_seconds(loaded)}


def median_seconds(run: Callable[[], Any], warm: bool = True) -> float:
    if warm:
        run()
    took = []
    for _ in range(PAIRS):
        begin = time.perf_counter()
        run()
        took.append(devices.idle_at(devices.as_device()) - begin)
    return statistics.median(took)
