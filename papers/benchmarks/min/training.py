"""Min 2022, figures 3.14 and 3.15: training GraphSAGE with the features in different places, on one GPU and on two.

The placements are the paper's five (section 3.4.1), and one of ours:

- CPU-Only: everything on the CPU
- DMA-based: the CPU gathers rows into pinned memory, a copy engine brings them
- Naïve Zero-Copy: kernels read pinned memory, without the circular shift, with all multiprocessors
- Zero-Copy: the same with the shift, and few blocks beside the training (where the paper has MPS at 10:90)
- All-in-GPU: the features lie in each GPU
- managed: ours, in large pages in host memory; where it fits beside the pinned table

``captured``: the step is a CUDA graph, which the paper's are not; steps that are not are bound by their launches on a fast GPU.
In all cases but the first the GPU samples, where the paper's CPU did. Fanouts and batches are those of ``gnn``: chapter 3 names
none. The paper draws figure 3.14 in seconds that its text does not give: what it does give are ratios. Two GPUs are two
processes over one pinned table. Without ``--small`` the shapes are whole, and figure 3.15 takes up to 40 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import hinterland as hl
from benchmarks._gather_widths import cut_as, unshifted
from benchmarks._rows import Rows
from benchmarks.gnn import BATCH, FANOUTS, of_type, random_features
from hinterland.datasets import SHAPES, Shape
from hinterland.runtime import devices
from hinterland.training import Ranks, joined

from .._figures import (
    LEFT_OUT,
    ROUNDS,
    GatheredBy,
    Limit,
    add_sets,
    beside,
    by_cpu,
    by_sets,
    case_of,
    device_for,
    graph_bytes,
    narrow,
    over,
    some,
    step_ms,
    wanted,
)

HARDWARE = "Threadripper 3960X of 24 cores, 256 GB of DDR4-3200, two RTX 3090 of 24 GB, PCIe 4.0 (table 3.3)"
CPU, DMA, NAIVE, ZERO_COPY, ALL = PAPERS = ("CPU-Only", "DMA-based", "Naïve Zero-Copy", "Zero-Copy", "All-in-GPU")
OURS = ("Zero-Copy, captured", "All-in-GPU, captured", "managed, captured")
SETS, PRODUCTS = ("papers100M", "wikipedia", "amazon"), "products"  # figure 3.14; 3.15
COLUMNS = (128, 4096, 1024, 256, 2048, 512)  # the ends first
BATCHES, SLOW_BATCHES = 20, 6
SMALL_BATCH, SMALL_BATCHES = 8, 3

# How many times as fast the second is as the first, on so many GPUs each; what section 3.4.4 says of all sets.
RATIOS = (
    ((DMA, 1), (CPU, 1), (0.32, 0.43)),
    ((DMA, 1), (DMA, 2), (1.21, 1.27)),
    ((DMA, 1), (NAIVE, 1), (0.83, 0.98)),
    ((DMA, 2), (NAIVE, 2), (1.30, 1.41)),
    ((DMA, 1), (ZERO_COPY, 1), (1.16, 1.44)),
    ((DMA, 2), (ZERO_COPY, 2), (1.65, 1.92)),
)
WIDE = {128: (1.5, 1.6), 4096: 2.7}  # figure 3.15: zero-copy over DMA on two GPUs; its text names the ends alone


def add_options(parser: argparse.ArgumentParser) -> None:
    add_sets(parser)
    parser.add_argument("--gpus", type=int, choices=(1, 2), default=1, help="2: rows for two GPUs, too")


title = by_sets


def run(options: argparse.Namespace) -> dict[str, Any]:
    """The times of every placement, and the rows of both figures."""
    sets = wanted(options, (*SETS, PRODUCTS))
    if options.gpus == 1:
        with joined(device_for(options.small)) as ranks:
            return measured(ranks, options.small, options.seconds, sets)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "found.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", __name__]
        subprocess.run([*command, json.dumps([str(output), options.small, options.seconds, sets])], check=True)
        return json.loads(output.read_text())


def measured(ranks: Ranks, small: bool, seconds: float | None, sets: list[str]) -> dict[str, Any]:
    """What each process does; the first one's are the rows."""
    bench = _Bench(ranks, small, Limit(seconds, ranks.device))
    figures = Rows()
    for name in sets:
        figures.extend(bench.widths() if name == PRODUCTS else bench.placements(name))
    return {"paper's hardware": HARDWARE, "figures": list(figures), "cases": list(bench.cases)}


def naively(table: Any, index: torch.Tensor) -> torch.Tensor:
    """Rows by all multiprocessors, in the order of the index."""
    return table.gather(index, max_blocks=devices.sm_count(index.device) if index.is_cuda else None, sort=False)


class _Bench:
    """The cases of one process."""

    def __init__(self, ranks: Ranks, small: bool, limit: Limit) -> None:
        self.ranks, self.small, self.limit, self.device = ranks, small, limit, ranks.device
        self.cases = Rows()
        self._size, self._batches = (SMALL_BATCH, SMALL_BATCHES) if small else (BATCH, BATCHES)
        self._turns = dist.new_group(backend="gloo") if ranks.world_size > 1 else None  # waits without a GPU

    def placements(self, name: str) -> list[dict[str, Any]]:
        """Figure 3.14 for one set."""
        made, why = self._set(name, SHAPES[name], 1e-4 if self.small else 1.0)
        times: dict[Any, float] = {}
        if made is not None:
            for case, table, more in self._places(made.features, (*PAPERS, *OURS)):
                times |= self._timed(name, case, made, table, **more)
        matches = 1.0 if name == "wikipedia" else None  # the others do not fit the paper's GPUs
        rows = []
        for (slow, few), (fast, many), paper in (*RATIOS, ((ALL, 1), (ZERO_COPY, 1), matches)):
            lacking = "--gpus 2 measures it" if max(few, many) > self.ranks.world_size else why
            ours = over(times, (slow, few), (fast, many))
            rows.append(beside("3.14", f"{name}: {fast} on {many} over {slow} on {few}", paper, ours, lacking or LEFT_OUT))
        return rows

    def widths(self) -> list[dict[str, Any]]:
        """Figure 3.15: ogbn-products' shape, and features of every width."""
        made, why = self._set(PRODUCTS, narrow(SHAPES[PRODUCTS]), 1e-3 if self.small else 1.0)
        rows, gpus = [], self.ranks.world_size
        for columns in COLUMNS:
            times: dict[Any, float] = {}
            if made is not None and not (why := self._refused(f"{columns} columns", 4 * made.num_vertices * columns)):
                table = self.ranks.from_node(partial(random_features, made.num_vertices, self.device.type, columns, "pinned"))
                for case, rows_of, more in self._places(table, (DMA, ZERO_COPY, OURS[0])):
                    times |= self._timed(f"products, {columns} columns", case, made, rows_of, **more)
                del table
            row = f"products, {columns} columns: {ZERO_COPY} over {DMA} on two GPUs"
            ours = over(times, (DMA, gpus), (ZERO_COPY, gpus))
            row = beside("3.15", row, WIDE.get(columns), ours, why or LEFT_OUT)
            rows.append(row if gpus == 2 or ours is None else row | {"why": "one GPU, where the paper has two"})
        return rows

    def _set(self, name: str, shape: Shape, scale: float) -> tuple[Any, str | None]:
        """A data set of this shape in memory that both processes share; or why there is none."""
        (vertices,), (edges,), (columns,) = (kinds.values() for kinds in (shape.vertices, shape.edges, shape.columns))
        host = graph_bytes(vertices, edges * (1 + shape.undirected)) + 4 * vertices * columns
        if why := self._refused(name, scale * host):
            return None, why
        place = {"features": "pinned", "graph": "host" if self.ranks.world_size == 1 else "pinned"}
        return self.ranks.from_node(lambda: hl.datasets.generate(shape, scale=scale, placement=place)), None

    def _refused(self, what: str, host: float = 0, gpu: float = 0) -> str | None:
        """As of Limit; the first process decides for both, which go through the same cases."""
        return self.ranks.from_first(lambda: self.limit.refuses(what, host, gpu))

    def _places(self, table: Any, wanted: tuple[str, ...]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        """Name, features and what else is special, of the placements that are wanted; those that fit."""
        gpu = self.device.type == "cuda"
        if ZERO_COPY in wanted:
            yield ZERO_COPY, table, {}
        if DMA in wanted:
            yield DMA, GatheredBy(table.cpu(), by_cpu), {}
        if gpu and OURS[0] in wanted:
            yield OURS[0], table, {"captured": True}
        if NAIVE in wanted:
            yield NAIVE, GatheredBy(table, naively), {}
        if ALL in wanted and not self._refused(ALL, gpu=table.nbytes):
            copied = table.cuda().clone() if gpu else table.cpu()
            yield ALL, copied, {}
            if gpu:
                yield OURS[1], copied, {"captured": True}
            del copied
        if gpu and OURS[2] in wanted and not self._refused("managed", table.nbytes * self.ranks.world_size, table.nbytes):
            yield OURS[2], of_type(table, table.dtype), {"captured": True}
        if CPU in wanted:
            yield CPU, table.cpu(), {"on": torch.device("cpu")}

    def _timed(self, name: str, case: str, made: Any, table: Any, on: Any = None, **more: Any) -> dict[Any, float]:
        """Milliseconds a batch by placement and GPUs: for the same seeds, two GPUs take half as many steps."""
        found: dict[Any, float] = {}
        together = self.ranks.world_size == 2 and on is None and "captured" not in more
        for gpus in range(1, 1 if self._refused(f"{name}, {case}") else 2 + together):
            if gpus == 2 or self.ranks.is_first:
                batches = min(self._batches, SLOW_BATCHES if on else BATCHES)
                seeds = some(made.splits["train"], batches * self._size * gpus)
                ranks = self.ranks if gpus == 2 else None
                shape, where = (FANOUTS, self._size, made.num_classes), on or self.device
                steps = case_of(case, made.graph, table, seeds, made.labels, shape, where, ranks, **more)
                with cut_as(unshifted) if case == NAIVE else nullcontext():
                    ms = torch.tensor(step_ms(steps, 1 if on else ROUNDS))
                if gpus == 2:
                    dist.all_reduce(ms, dist.ReduceOp.MAX, group=self._turns)
                found[case, gpus] = float(ms) / gpus
                if self.ranks.is_first:
                    row = {"set": name, "placement": case, "gpus": gpus, "ms_a_step": float(ms)}
                    self.cases.append(row | {"replayed": steps.loader.captured.replayed})
            if self._turns is not None:
                dist.barrier(self._turns)
        return found


if __name__ == "__main__":
    to, is_small, time_limit, which = json.loads(sys.argv[1])
    with joined(device_for(is_small, 2)) as these:
        all_found = measured(these, is_small, time_limit, which)
        if these.is_first:
            Path(to).write_text(json.dumps(all_found))
