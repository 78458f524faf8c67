"""BaM's ways of giving a traversal's work to warps, over edges on a device in memory.

Sections 6.3, 7.1.3 and 7.1.6 of Mailthody 2022. Each way runs three times, which tells where its time goes: over edges in this
processor's memory (computing), through a cache that has all of them (what the cache takes more), and through one that has
``--room`` of them (what storage takes more). ``of host`` is the last beside edges in host memory by the same kernel;
``library``, the library's own traversal through as large a cache. ``planner``: the way that the planner finds for each case by
what the other graphs' cases have shown and by a few runs, and ``untried``, the one that it runs first, beside the best of the
sweep.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

import hinterland as hl
from benchmarks._rows import Rows
from benchmarks.storage_graphs import RUNS as _TRAVERSALS
from benchmarks.storage_graphs import counted, median_seconds
from hinterland.graph.algorithms import state_bytes
from hinterland.memory.allocator import allocate
from hinterland.runtime import devices
from hinterland.storage import device_pages
from hinterland.storage.on_device import Backing, DeviceStore, Queues
from hinterland_papers.bam import stored
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.plan import WAYS, Case, MeasuredRun, Way, choose, rank
from hinterland_papers.bam.stored import StoredEdges
from hinterland_papers.emogi import traversal as emogi

_FIRST = 65536  # the edges begin there, which is a line whatever its size
RUNS = 2
QUEUES = Queues.within(1 << 30, 4096)  # as the library's own traversals have them
THREADS = 8  # that serve them
NAMES = {"bfs": "bfs", "cc": "components"}  # of the same in LIBRARY
KINDS = ("kronecker", "uniform", "web")
CONTROLS = (Way("far", 1),)
LIBRARY = {name: _TRAVERSALS[name] for name in ("bfs", "components", "components, all lists")}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=int, default=21, help="of the graphs: 2^scale vertices")
    parser.add_argument("--room", type=float, default=0.25, help="of the edges that the cache has room for")
    parser.add_argument("--timing", default="none", help="of the device: none, optane, z-nand, nand")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a folder whose files lie in memory")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(None)
    small = options.small or device.type == "cpu"
    scale = 12 if options.small else min(options.scale, 14) if small else options.scale
    cases = (
        [(4096, options.room)] if small else [(512, options.room), (4096, options.room), (4096, 1 / 16), (8192, options.room)]
    )
    rows = Rows()
    placed = {"placement": "gpu"} if device.type == "cuda" else {}
    graphs = {kind: hl.generate(kind, scale=scale, seed=1) for kind in KINDS}
    benches = {
        kind: _Bench(graph, hl.generate(kind, scale=scale, seed=1, **placed), device, options, small)
        for kind, graph in graphs.items()
    }
    table: dict[str, list[MeasuredRun]] = {kind: [] for kind in KINDS}
    for kind, bench in benches.items():
        for line, room in cases:
            for row, measured in bench.sweep(line, room):
                rows.append({"graph": kind, **row})
                table[kind] += measured
    grid = hl.generate("grid", scale=scale, seed=1)
    deep = _deep(_Bench(grid, grid, device, options, small), *cases[-1 if small else 1])
    return {
        "device": str(device),
        "ways": rows,
        "planner": _planner(benches, table),
        "deep": deep,
        "beside host memory": _beside_host(scale, device, options, small),
        "first vertices": _first_vertices(device, small),
    }


def _deep(bench: _Bench, line: int, room: float) -> list[dict[str, Any]]:
    """A search of many levels: by tiles that have active vertices, beside the library's, which keeps a list of them."""
    way = Way("odt-active")
    size = way.size(Case("bfs", bench.nbytes / bench.graph.num_vertices, line, room), bench.edge_bytes)
    edges = bench.store(int(room * bench.nbytes), line, bench.options.timing)
    tiles, lines = bench.seconds("bfs", bench.graph, edges, way, size)
    edges.store.close()
    frontier, its_lines = bench.library("bfs", line, int(room * bench.nbytes))
    row: dict[str, Any] = {"graph": "grid", "levels": int(bench.expected["bfs"].max()) + 1}
    row |= {"tiles s": tiles, "lines": lines, "frontier s": frontier, "its lines": its_lines, "times": tiles / frontier}
    return [row]


def _beside_host(scale: int, device: torch.device, options: argparse.Namespace, small: bool) -> list[dict[str, Any]]:
    """The library's traversals of larger graphs, as if what holds the edges were as fast as the link, beside the same over
    edges in host memory of which a GPU keeps none."""
    found = Rows()
    for kind in ("kronecker", "web"):
        graph = hl.generate(kind, scale=scale if small else scale + 3, seed=1)
        bench = _Bench(graph, graph, device, options, small)
        for name in LIBRARY:
            host, asked = bench.in_host_memory(name)
            for line in (4096,) if small else (512, 4096):
                for cache in (bench.nbytes // 4,) if small else (64 << 20, 32 << 20):
                    seconds, lines = bench.library(name, line, cache)
                    row = {"graph": kind, "run": name, "line": line, "cache": cache, "s": seconds, "host s": host}
                    read = lines * line
                    rates = {"times": seconds / host, "read of edges": read / bench.nbytes, "GB/s": read / seconds / 1e9}
                    rates["amplification"] = read / asked
                    found.append({**row, **rates})
    return found


class _Bench:
    """A graph, and its edges as a device in memory has them."""

    def __init__(self, graph: hl.Graph, near: hl.Graph, device: torch.device, options: argparse.Namespace, small: bool) -> None:
        self.graph, self.near, self.device, self.options, self.small = graph, near, device, options, small
        edges = graph.array("indices")
        assert isinstance(edges, torch.Tensor)
        self.edge_bytes, self.nbytes = edges.element_size(), edges.nbytes
        self.buffer = allocate(_FIRST + 65536 + edges.nbytes, "pinned" if device.type == "cuda" else "pageable")
        self.buffer.tensor(torch.uint8, torch.Size([self.buffer.nbytes]))[_FIRST:][: edges.nbytes] = edges.view(torch.uint8)
        self.source = int(graph.degrees().argmax())
        self.expected = {
            "bfs": hl.bfs(graph, self.source, device="cpu").levels,
            "cc": hl.connected_components(graph, device="cpu").labels,
        }

    def store(self, nbytes: int, line: int, timing: str = "none") -> StoredEdges:
        backing = Device(address=self.buffer.address, bytes=self.buffer.nbytes, timing=timing)
        given = {"channels": 2, "threads": 2, "depth": 64} if self.small else {**QUEUES._asdict(), "threads": THREADS}
        return StoredEdges(DeviceStore(backing, self.device, max(nbytes, 8 * (line + 64)), line, **given), _FIRST)

    def sweep(self, line: int, room: float) -> Iterator[tuple[dict[str, Any], list[MeasuredRun]]]:
        real = self.store(int(room * self.nbytes), line, self.options.timing)
        hits = self.store(2 * self.nbytes, line)
        for algorithm in ("bfs", "cc"):
            case = Case(algorithm, self.nbytes / self.graph.num_vertices, line, room)
            library, _ = self.library(NAMES[algorithm], line, int(room * self.nbytes))
            for way in (*WAYS, *CONTROLS):
                size = way.size(case, self.edge_bytes)
                times = {
                    name: self.seconds(algorithm, graph, edges, way, size)
                    for name, graph, edges in (
                        ("memory", self.near, None),
                        ("host", self.graph, None),
                        ("hits", self.graph, hits),
                        ("real", self.graph, real),
                    )
                }
                seconds, lines = times["real"]
                compute, cache = times["memory"][0], max(times["hits"][0] - times["memory"][0], 0.0)
                yield (
                    {
                        **{"run": algorithm, "line": line, "room": room, "way": way.assignment, "size": size, "s": seconds},
                        **{"compute": compute / seconds, "cache": cache / seconds, "storage": 1 - (compute + cache) / seconds},
                        **{"read of edges": lines * line / self.nbytes, "GB/s": lines * line / seconds / 1e9},
                        **{"of host": seconds / times["host"][0], "memory s": compute, "library s": library},
                    },
                    [MeasuredRun(case, way, seconds)] if way in WAYS else [],
                )
        real.store.close()
        hits.store.close()

    def once(self, algorithm: str, graph: hl.Graph, edges: StoredEdges | None, way: Way, size: int) -> tuple[float, int]:
        """Seconds of a run, and the lines that it read."""
        if algorithm == "bfs":
            found = stored.bfs(graph, self.source, edges, way.assignment, size)
        else:
            found = stored.cc(graph, edges, way.assignment, size)
        assert torch.equal(found.values.cpu(), self.expected[algorithm]), f"{way} finds something else"
        return found.stats["seconds"], found.stats["lines"]

    def seconds(self, algorithm: str, graph: hl.Graph, edges: StoredEdges | None, way: Way, size: int) -> tuple[float, int]:
        """The same of a run after one that has warmed it."""
        runs = [self.once(algorithm, graph, edges, way, size) for _ in range(2 if self.small else 1 + RUNS)]
        return statistics.median(took for took, _ in runs[1:]), runs[-1][1]

    def planned(self, case: Case, others: list[MeasuredRun]) -> Way:
        """The planner's choice, whose trials' cache has been used before."""
        edges = self.store(int(case.room * self.nbytes), case.line_bytes, self.options.timing)
        run = lambda way: self.once(case.algorithm, self.graph, edges, way, way.size(case, self.edge_bytes))[0]  # noqa: E731
        run(Way("warp"))
        way = choose(case, others, run)
        edges.store.close()
        return way

    def in_host_memory(self, name: str) -> tuple[float, int]:
        """Seconds of the library's own traversal of edges in host memory, and the bytes of them that it asks for, in sectors; a
        GPU keeps next to none."""
        algorithm, run = LIBRARY[name]
        budget = None
        if self.device.type == "cuda":
            budget = state_bytes(algorithm, self.graph) + 4 * self.graph.num_vertices + (2 << 20)  # and the offsets
        with hl.prepare(self.graph, gpu_budget=budget, device=self.device, algorithms=algorithm) as prepared:
            asked = run(prepared, self.source, stats=True).stats
            return median_seconds(lambda: run(prepared, self.source)), asked["bytes"] + asked["cached"]

    def library(self, name: str, line: int, room: int) -> tuple[float, float]:
        """Seconds of the library's own traversal through as large a cache, and the lines that it read; a GPU's reads the same
        device in memory."""
        algorithm, run = LIBRARY[name]
        with tempfile.TemporaryDirectory(dir=self.options.memory, prefix="hinterland-bench-") as folder:
            path = Path(folder) / "graph.hl"
            hl.save_graph(self.graph, path)
            size = path.stat().st_size
            held = torch.zeros(-(-size // 65536) * 65536, dtype=torch.uint8)  # whole lines, whatever their size
            held[:size] = torch.from_file(str(path), size=size, dtype=torch.uint8)
            in_memory = lambda *_: Device(address=held.data_ptr(), bytes=held.nbytes, timing=self.options.timing)  # noqa: E731
            on_gpu = self.device.type == "cuda"
            with (
                patch.object(Backing, "of", in_memory),
                patch.object(device_pages, "_MOST_THREADS", THREADS),
            ):
                host_budget = 1 << 30 if on_gpu else max(room, 8 * (line + 64))
                cache = hl.StorageCache(host_budget, line, device_budget=room + QUEUES.device_bytes)
                on_disk = hl.load_graph(path, "storage", cache=cache)
                with hl.prepare(on_disk, device=self.device, algorithms=algorithm) as prepared:
                    return counted(lambda: run(prepared, self.source), prepared)


def _planner(benches: dict[str, _Bench], table: dict[str, list[MeasuredRun]]) -> list[dict[str, Any]]:
    """What is found for each case by those of other graphs and by trying, beside the best for it."""
    found = Rows()
    named = lambda way: f"{way.assignment} {way.number:g}"  # noqa: E731
    for kind, own in table.items():
        others = [row for other, rows in table.items() if other != kind for row in rows]
        for case in dict.fromkeys(row.case for row in own):
            seconds = {row.way: row.seconds for row in own if row.case == case}
            first, way = rank(case, others)[0], benches[kind].planned(case, others)
            best = min(seconds, key=lambda one: seconds[one])
            times = {"times the best": seconds[way] / seconds[best], "untried": seconds[first] / seconds[best]}
            found.append({"graph": kind, **case._asdict(), "chosen": named(way), "best": named(best), **times})
    return found


def _first_vertices(device: torch.device, small: bool) -> list[dict[str, Any]]:
    """A binary search for each tile, of 512 edges of 8 bytes (section 6.3.5: under 10 ms)."""
    vertices = 1 << (20 if small else 27)
    offsets = torch.randint(0, 63, (vertices + 1,), device=device)
    offsets[0] = 0
    torch.cumsum(offsets, 0, out=offsets)
    edges, took = int(offsets[-1]), []
    for _ in range(5):
        begin = devices.idle_at(device)
        firsts = emogi.first_vertices(offsets, edges, 512)
        took.append(devices.idle_at(device) - begin)
    return [{"vertices": vertices, "edges": edges, "tiles": len(firsts) - 1, "ms": statistics.median(took) * 1e3}]
