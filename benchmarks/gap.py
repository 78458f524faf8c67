"""Ours and GAP's programs (sbeamer/gapbs) on the same graphs, sources and threads, in one command; the runs alternate.

A row for each graph, algorithm and way of running: GAP on the CPU; ours there, and on a GPU if there is one, with the graph
in host memory, prepared within a quarter of its bytes besides the algorithm's state, and by a direct call. Times are medians.
GAP's delta is the best of those tried. Betweenness is of one source. ``limit_ms`` is the least that must be read once, at the
rate at which this run reads memory with all threads, or the link: all lists (for PageRank in each iteration), for searches
and components a line of each.
One result of each row is verified.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import hinterland as hl
from hinterland import _core
from hinterland.graph import Graph, verify_betweenness, verify_bfs, verify_components, verify_pagerank, verify_sssp
from hinterland.graph.algorithms import state_bytes
from hinterland.graph.sources import draw_sources
from hinterland.probe import timing
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices
from hinterland.runtime.errors import GraphError

from ._rivals import GAP
from ._rows import Rows

SEED = 27491095
TOLERANCE = 1e-4
DELTAS = (1, 4, 16, 64, 256, 1024)
TRIALS = 3  # of each program, ours or GAP's, for each source; the first warms up
LINES = {"cpu": 64, "cuda": 32}  # bytes that a read takes at least: a line, a sector of the link


def families(scale: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each graph with some 2^scale vertices, or a fourth or half of them, that issues, papers and users ask for."""
    return {
        "kronecker": ("kronecker", {"scale": scale}),
        "uniform": ("uniform", {"scale": scale}),
        "web": ("web", {"scale": scale}),
        "web one way": ("web", {"scale": scale, "directed": True}),
        "rmat one way": ("kronecker", {"scale": scale - 2, "edge_factor": 24, "directed": True}),
        "grid by rows": ("grid", {"scale": scale, "permute": False, "missing": 0.1}),
        "ring": ("ring", {"scale": scale - 1, "edge_factor": 4, "rewired": 0.02}),
    }


@dataclass(frozen=True)
class Algorithm:
    """``lists``: whether all lists are read, or a line of each. ``program`` and ``options`` are GAP's."""

    program: str
    call: Callable[..., Any]
    verify: Callable[[Graph, int, Any], None]
    rooted: bool = True
    weighted: bool = False
    lists: bool = True
    options: tuple[object, ...] = ()


ALGORITHMS = {
    "bfs": Algorithm("bfs", hl.bfs, verify_bfs, lists=False),
    "cc": Algorithm(
        "cc",
        lambda g, s, **on: hl.connected_components(g, **on),
        lambda g, s, r: verify_components(g, r),
        rooted=False,
        lists=False,
    ),
    "sssp": Algorithm("sssp", hl.sssp, verify_sssp, weighted=True),
    "pagerank": Algorithm(
        "pr",
        lambda g, s, **on: hl.pagerank(g, tolerance=TOLERANCE, max_iterations=1000, **on),
        lambda g, s, r: verify_pagerank(g, r, tolerance=TOLERANCE),
        rooted=False,
        options=("-i", 1000, "-t", TOLERANCE),
    ),
    "bc": Algorithm(
        "bc",
        lambda g, s, **on: hl.betweenness_centrality(g, sources=[s], **on),
        lambda g, s, r: verify_betweenness(g, r),
        options=("-i", 1),
    ),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gap", type=Path, help="folder of GAP's programs; by default the variable GAPBS")
    parser.add_argument("--scale", type=int, help="2^SCALE vertices (25; --small: 15)")
    parser.add_argument("--family", action="append", choices=list(families(25)), help="only this one; again for more")
    parser.add_argument("--algorithm", action="append", choices=list(ALGORITHMS), help="only this one; again for more")
    parser.add_argument("--sources", type=int, help="vertices to begin at; runs of what begins at none (4; --small: 2)")
    parser.add_argument("--folder", type=Path, help="where graphs are written for GAP, and removed; a temporary one")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All rows; VerificationError where a result is wrong."""
    scale = options.scale or (15 if options.small else 25)
    programs = GAP.folder(options.gap)
    rates = {"cpu": _memory_rate(64 << 20 if options.small else 1 << 30)}
    if devices.cuda_available():
        rates["cuda"] = copy_rates(devices.as_device("cuda"), 1 << 30)[0]
    results: dict[str, Any] = {"threads": _core.num_threads(), "bytes_a_second": rates, "graphs": [], "cases": Rows()}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for family, (kind, sizes) in families(scale).items():
            if options.family and family not in options.family:
                continue
            graph = hl.generate(kind, **sizes, weights="int32", seed=1)
            known = {"family": family, "vertices": graph.num_vertices, "edges": graph.num_edges}
            results["graphs"].append({**known, "directed": graph.directed})
            for name, algorithm in ALGORITHMS.items():
                if not options.algorithm or name in options.algorithm:
                    here = graph if algorithm.weighted else graph.without_weights()
                    case = _Case(name, algorithm, here, options.sources or (2 if options.small else 4))
                    file = Path(folder) / ("graph.wsg" if algorithm.weighted else "graph.sg")
                    for row in case.measure(programs, file, rates):
                        results["cases"].append({"family": family, "algorithm": name, **row})
                    del case, here
            del graph
            gc.collect()
            for file in Path(folder).iterdir():
                file.unlink()
    return results


def _memory_rate(size: int) -> float:
    """Bytes a second that all threads read of memory, in sequence."""
    held = torch.ones(size, dtype=torch.uint8)
    return size / timing.best(lambda: _core.read_sequence(held.data_ptr(), size), torch.device("cpu"))


def best_delta(programs: Path, file: Path, source: int) -> int:
    """Of those tried, the delta with which GAP's program finds shortest paths from ``source`` soonest."""
    return min((min(GAP.run(programs, "sssp", "-f", file, "-n", 2, "-r", source, "-d", delta)), delta) for delta in DELTAS)[1]


class _Case:
    """One algorithm on one graph, by every program and processor."""

    def __init__(self, name: str, algorithm: Algorithm, graph: Graph, sources: int) -> None:
        self.name, self.algorithm, self.graph = name, algorithm, graph
        self.sources = draw_sources(graph, sources, SEED)
        if graph.directed:  # GAP's files have the transposed graph in them
            graph.transpose()

    def measure(self, programs: Path | None, file: Path, rates: dict[str, float]) -> list[dict[str, Any]]:
        """A row for each way to run; GAP's median is in all of them."""
        prepared = self._prepared("cpu")
        ways: dict[str, Callable[[int], Any]] = {"cpu": lambda source: self.algorithm.call(prepared, source)}
        if "cuda" in rates:
            on_gpu = self._prepared("cuda")
            ways["gpu, prepared"] = lambda source: self.algorithm.call(on_gpu, source)
            ways["gpu, direct"] = lambda source: self.algorithm.call(self.graph, source, device="cuda")
        try:
            results = {name: way(self.sources[0]) for name, way in ways.items()}  # compiles, loads and warms up
        except GraphError as error:  # more shortest paths than a double counts
            return [{"run": "cpu", "ms": f"refused: {str(error)[:60]}"}]
        for result in results.values():
            self.algorithm.verify(self.graph, self.sources[0], result)
        iterations = {name: getattr(result, "iterations", 1) for name, result in results.items()}
        del results

        times: dict[str, list[float]] = {name: [] for name in (*ways, "gap")}
        more = self._gap_options(programs, file)
        for source in self.sources:
            if programs is not None:
                times["gap"] += self._gap(programs, file, source, TRIALS, more)[1:]
            for name, way in ways.items():
                way(source)
                for _ in range(TRIALS - 1):
                    start = time.perf_counter()
                    way(source)
                    times[name].append(time.perf_counter() - start)
        gap = statistics.median(times["gap"]) if times["gap"] else math.nan
        rows = []
        for name in ways:
            ours = statistics.median(times[name])
            limit = self._limit("cpu" if name == "cpu" else "cuda", iterations[name], rates)
            row = {"run": name, "ms": ours * 1e3, "best_ms": min(times[name]) * 1e3, "limit_ms": limit * 1e3}
            if programs is not None:
                row |= {"gap_ms": gap * 1e3, "gap_best_ms": min(times["gap"]) * 1e3, "ours_over_gap": ours / gap}
                row |= {"delta": more[1]} if self.algorithm.weighted else {}
            rows.append(row)
        return rows

    def _prepared(self, device: str) -> Any:
        state = state_bytes(self.name, self.graph)
        budget = None if device == "cpu" else self.graph.nbytes // 4 + state
        options = {"algorithms": self.name, "weighted": self.algorithm.weighted}
        return hl.prepare(self.graph, budget, device, **options)

    def _gap(self, programs: Path, file: Path, source: int, trials: int, more: tuple[object, ...]) -> list[float]:
        root = ("-r", source) if self.algorithm.rooted else ()
        return GAP.run(programs, self.algorithm.program, "-f", file, "-n", trials, *root, *self.algorithm.options, *more)

    def _gap_options(self, programs: Path | None, file: Path) -> tuple[object, ...]:
        """Writes the graph if need be; for shortest paths the best delta for the first source."""
        if programs is None:
            return ()
        if not file.exists():
            hl.save_graph(self.graph, file)
        if not self.algorithm.weighted:
            return ()
        return ("-d", best_delta(programs, file, self.sources[0]))

    def _limit(self, device: str, iterations: int, rates: dict[str, float]) -> float:
        graph = self.graph
        lists = graph.indices.nbytes + (graph.weights.nbytes if graph.weights is not None else 0)
        if not self.algorithm.lists:
            return min(lists, graph.num_vertices * LINES[device]) / rates[device]
        return lists * iterations / rates[device]
