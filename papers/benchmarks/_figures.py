"""What evaluations of training share: rows with the paper's value beside ours, sizes that are said before memory is taken, a
time limit, and steps over batches of any size."""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

import hinterland as hl
from benchmarks._gnn_case import Case
from benchmarks._rows import add_seconds
from benchmarks.gnn import HIDDEN
from hinterland.datasets import Shape
from hinterland.memory.limits import host_memory
from hinterland.runtime.shuffle import shuffled
from hinterland.sampling import NeighborSampler
from hinterland.training import Loader, Ranks, make_model

WARM_UP, ROUNDS = 4, 2
LEFT_OUT = "no time was left, or it does not fit"
Value = float | tuple[float, float] | None  # a number, or from the least to the most that the text gives


def add_sets(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser)
    parser.add_argument("--sets", nargs="+", help="of the paper's sets, by their names here; all by default")


def by_sets(options: argparse.Namespace) -> str:
    """By what the results are known."""
    return "-".join([options.name, *(options.sets or ())])


def wanted(options: argparse.Namespace, sets: Iterable[str]) -> list[str]:
    """Those of a paper's sets that are to be measured, in the order that was asked for."""
    known = list(sets)
    if unknown := [name for name in options.sets or () if name not in known]:
        raise SystemExit(f"--sets {unknown[0]}: there are {', '.join(known)}")
    return options.sets or known


def device_for(small: bool, gpus: int = 1) -> torch.device:
    """A GPU; for a small run the CPU where there are not so many."""
    return torch.device("cpu" if small and torch.cuda.device_count() < gpus else "cuda")


class Limit:
    """A run's seconds, and the GPU memory and host memory it has."""

    def __init__(self, seconds: float | None, device: torch.device) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self.device = device

    def refuses(self, what: str, host: float = 0, gpu: float = 0) -> str | None:
        """Why something is left out, if it is; says how many bytes it is about to take."""
        if self._end is not None and time.monotonic() > self._end:
            return LEFT_OUT
        if host or gpu:
            print(f"{what}: {host / 1e9:.1f} GB of host memory, {gpu / 1e9:.1f} of the GPU's", file=sys.stderr, flush=True)
        if host > (free := host_memory(0)[0]):
            return f"needs {host / 1e9:.0f} GB of host memory, of which {free / 1e9:.0f} can be had"
        if self.device.type == "cuda" and gpu > (free := torch.cuda.mem_get_info(self.device)[0]):
            return f"out of memory: needs {gpu / 1e9:.0f} GB of the GPU's, of which {free / 1e9:.0f} are free"
        return None


def graph_bytes(vertices: int, edges: int) -> int:
    """Of offsets and neighbours."""
    return 8 * (vertices + 1) + 4 * edges


def some(seeds: torch.Tensor, count: int) -> torch.Tensor:
    """That many of the seeds at random, the same each time: the first ones are the oldest vertices."""
    return shuffled(seeds, 3, 0)[:count]


def narrow(shape: Shape, columns: int = 1) -> Shape:
    """A shape of one type of vertices with features of another width."""
    return dataclasses.replace(shape, columns=dict.fromkeys(shape.columns, columns))


def beside(figure: str, row: str, paper: Value, ours: float | None, why: str | None = None) -> dict[str, Any]:
    """A row of a figure or table; ``why`` says why ours is not there, where it is not."""
    return {"figure": figure, "row": row, "paper": paper, "ours": ours, "why": why if ours is None else None}


def over(times: dict[Any, float], slow: Any, fast: Any) -> float | None:
    """How many times as fast ``fast`` is, where both were measured."""
    return times[slow] / times[fast] if slow in times and fast in times else None


class GatheredBy:
    """A table whose rows ``how`` gathers, as a loader takes it."""

    def __init__(self, rows: Any, how: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        self.rows, self.how, self.shape, self.dtype = rows, how, rows.shape, rows.dtype

    def __len__(self) -> int:
        return len(self.rows)

    def gather(self, index: torch.Tensor, max_blocks: int | None = None) -> torch.Tensor:
        return self.how(self.rows, index)


def by_cpu(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows that the CPU gathers, by torch's ``index_select``, into pinned memory, from where a copy engine brings them."""
    packed = torch.empty((len(index), *rows.shape[1:]), dtype=rows.dtype, pin_memory=index.is_cuda)
    torch.index_select(rows, 0, index.cpu(), out=packed)
    return packed.to(index.device, non_blocking=True)


def case_of(
    name: str,
    graph: hl.Graph,
    table: Any,
    seeds: torch.Tensor,
    labels: torch.Tensor,
    shape: tuple[list[int], int, int],
    device: torch.device,
    ranks: Ranks | None = None,
    captured: bool = False,
    **more: Any,
) -> Case:
    """GraphSAGE over batches of ``shape``: fanouts, seeds of a batch, classes. ``ranks`` train one model together; ``more``: of
    the loader."""
    fanouts, size, classes = shape
    if captured:
        more["capture"] = "auto"
    if ranks is not None:
        more |= {"rank": ranks.rank, "world_size": ranks.world_size}
    sampler = NeighborSampler(graph, fanouts, seed=6, device=device)
    table_of = {"features": table, "labels": labels.to(device), "device": device}
    loader = Loader(sampler, seeds, size, shuffle=True, **table_of, **more)
    torch.manual_seed(5)
    model = make_model("sage", table.shape[1], HIDDEN, classes, len(fanouts)).to(device)
    return Case(name, loader, model, captured, ranks=ranks)


def step_ms(case: Case, rounds: int = ROUNDS) -> float:
    """Milliseconds of a step: the median of some epochs, after one in which caches fill and graphs are captured."""
    for _ in case.batches():
        pass
    for _ in range(rounds):
        case.round(min(WARM_UP, (len(case.loader) - 1) // 2))
    return 1e3 * statistics.median(case.seconds)
