"""How the software cache is organised and what gives way in it: hit rates and costs beside other ways to do both.

Organisations: sets of 4 to 32 slots, of which the library has those of 8, and a hash table whose pages may lie in any slot
(storage_cache.cpp). Traces of pages of 4 KiB: drawn, a scan, rows that mini-batches of a graph gather, lists that its searches
read. LRU, and Belady's optimum without sets, are simulated, and have no costs. ``gathers`` are the same mini-batches through a
StorageArray, without and with ``expect()``.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hinterland as hl
from hinterland.hotness.presample import mini_batches
from hinterland.sampling import NeighborSampler
from hinterland.storage import StorageCache
from hinterland.table import StorageArray

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PAGE = 4096
ROW = 512  # bytes of a vertex's features
FANOUTS = (15, 10, 5)
AHEAD = 4  # mini-batches that a loader has sampled before their rows are gathered
PARTS = (0.1, 0.25)  # of a trace's pages that there is room for


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=int, default=18, help="of the graphs: 2^scale vertices")
    parser.add_argument("--batch", type=int, default=32, help="seeds of a mini-batch")


def run(options: argparse.Namespace) -> dict[str, Any]:
    scale, batches = (14, 16) if options.small else (options.scale, 128)
    with tempfile.TemporaryDirectory(prefix="hinterland-bench-") as folder:
        program = _program(Path(folder))
        graphs = {kind: hl.generate(kind, scale=scale, edge_factor=16, seed=1) for kind in ("kronecker", "web")}
        gathers = {kind: list(_mini_batches(graph, options.batch, batches)) for kind, graph in graphs.items()}
        traces = {
            **_drawn(1 << (scale - 5), 1 << scale),
            **{f"gathers of a {kind} graph": _concatenated(rows) for kind, rows in gathers.items()},
            **{f"searches of a {kind} graph": _searches(graph) for kind, graph in graphs.items()},
        }
        costs = _costs(program, 1 << scale, 2 if options.small else 40)
        return {
            "pages": {name: len(np.unique(trace)) for name, trace in traces.items()},
            "hit rates and costs": [row for part in PARTS for row in _table(program, Path(folder), traces, part, costs)],
            "conflict misses": list(_conflicts(program, 1 << (scale - 7))),
            "gathers": [row for kind, rows in gathers.items() for row in _gathered(Path(folder), kind, graphs[kind], rows)],
        }


def _program(folder: Path) -> Path:
    command = ["g++", "-std=c++20", "-O2", "-pthread", "-I", ROOT / "include", "-I", ROOT / "papers"]
    subprocess.run([*command, HERE / "storage_cache.cpp", "-o", folder / "storage_cache"], check=True)
    return folder / "storage_cache"


def _rows_of(program: Path, *given: Any) -> Iterator[list[str]]:
    done = subprocess.run([program, *map(str, given)], check=True, capture_output=True, text=True)
    return (line.split("\t") for line in done.stdout.splitlines())


def _drawn(pages: int, visits: int) -> dict[str, np.ndarray]:
    """Pages drawn independently: uniformly, and by Zipf's law, dealt over the numbers; and read in order, again and again."""
    random = np.random.default_rng(1)
    found = {"uniform": random.integers(0, pages, visits)}
    for skew in (0.6, 0.99):
        weights = 1 / np.arange(1, pages + 1) ** skew
        found[f"Zipf {skew}"] = random.permutation(pages)[random.choice(pages, visits, p=weights / weights.sum())]
    found["scan"] = np.arange(visits) % pages
    return found


def _mini_batches(graph: hl.Graph, size: int, batches: int) -> Iterator[torch.Tensor]:
    """Vertices of the samples of an epoch: seeds in a random order, each once."""
    seeds = torch.randperm(graph.num_vertices, generator=torch.Generator().manual_seed(1))[: size * batches]
    sampler = NeighborSampler(graph, FANOUTS, device="cpu")
    for number, part in mini_batches(graph.num_vertices, seeds, size, 1):
        yield sampler.sample(part, batch=number).node


def _concatenated(rows: list[torch.Tensor]) -> np.ndarray:
    """The pages of features, batch by batch, each once and in order, as a planned gather asks for them."""
    return np.concatenate([np.unique(vertices.numpy() // (PAGE // ROW)) for vertices in rows])


def _searches(graph: hl.Graph) -> np.ndarray:
    """The pages of neighbours, level by level of some searches, each once and in order."""
    indptr = graph.indptr.numpy()
    pages = []
    for source in torch.argsort(graph.indptr.diff(), descending=True)[:4].tolist():
        levels = hl.bfs(graph, source, device="cpu").levels.numpy()
        for level in range(levels.max() + 1):
            found = np.nonzero(levels == level)[0]
            first, last = indptr[found] * 4 // PAGE, (indptr[found + 1] * 4 - 1) // PAGE
            reads = np.zeros(indptr[-1] * 4 // PAGE + 2, dtype=np.int64)  # lists that begin in each page, less those that ended
            some = last >= first
            np.add.at(reads, first[some], 1)
            np.add.at(reads, last[some] + 1, -1)
            pages.append(np.nonzero(np.cumsum(reads))[0])
    return np.concatenate(pages)


def _table(
    program: Path, folder: Path, traces: dict[str, np.ndarray], part: float, costs: dict[tuple[str, str], dict[str, float]]
) -> Iterator[dict[str, Any]]:
    """A row for each organisation and policy of a cache that has room for such a part of a trace's pages."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for name, trace in traces.items():
        trace.astype(np.uint64).tofile(folder / "trace")
        slots = max(int(len(np.unique(trace)) * part) // 32 * 32, 32)
        for organisation, policy, hits in _rows_of(program, "rates", slots, folder / "trace"):
            row = rows.setdefault((organisation, policy), {"room for": part, "organisation": organisation, "policy": policy})
            row[name] = int(hits) / len(trace)
    for key, row in rows.items():
        yield {**row, **costs.get(key, {})}


def _conflicts(program: Path, slots: int) -> Iterator[dict[str, Any]]:
    """Misses of random reads of as many pages as fill such a part of the cache, all of which were read before."""
    rows: dict[str, dict[str, Any]] = {}
    for organisation, fill, misses in _rows_of(program, "conflicts", slots):
        rows.setdefault(organisation, {"organisation": organisation})[f"filled to {fill}"] = float(misses)
    yield from rows.values()


def _costs(program: Path, slots: int, rounds: int) -> dict[tuple[str, str], dict[str, float]]:
    """Of a cache of so many slots, by its organisation and policy."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for threads, by in ((1, ""), (2, ", 2 threads")):
        for organisation, policy, hit, miss, size in _rows_of(program, "costs", slots, threads, rounds):
            row = found.setdefault((organisation, policy), {"bytes a line": float(size)})
            row[f"ns a hit{by}"], row[f"ns a miss{by}"] = float(hit), float(miss)
    return found


def _gathered(folder: Path, kind: str, graph: hl.Graph, rows: list[torch.Tensor]) -> Iterator[dict[str, Any]]:
    """Pages read in an epoch, which begins with an empty cache."""
    asked = len(_concatenated(rows))
    StorageArray.create(folder / f"{kind}.bin", (graph.num_vertices, ROW // 4)).close()  # zeros, which take no room

    def reads(budget: int, tell: Callable[[StorageArray, int], None]) -> int:
        shape = (graph.num_vertices, ROW // 4)
        with StorageArray.open(
            folder / f"{kind}.bin", dtype=torch.float32, shape=shape, cache=StorageCache(budget, PAGE)
        ) as table:
            for number, vertices in enumerate(rows):
                tell(table, number)
                table.gather(vertices)
            return table.stats().reads

    def all_known(table: StorageArray, number: int) -> None:
        nonlocal told
        if number in (0, told):
            told = number + table.expect(rows[number:])

    def few_known(table: StorageArray, number: int) -> None:
        table.expect(rows[number : number + AHEAD])

    told = 0
    for part in PARTS:
        budget = int(graph.num_vertices * ROW * part)
        yield {
            "graph": kind,
            "cache": part,
            "batches": len(rows),
            "pages asked for": asked,
            "CLOCK": reads(budget, lambda *_: None),
            f"{AHEAD} batches known": reads(budget, few_known),
            "all that there is room for": reads(budget, all_known),
        }
