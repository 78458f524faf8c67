"""A DLRM (Naumov et al. 2019) of torch's modules, whose tables learn in files: Criteo's 13 dense and 26 categorical columns,
generated.

Cardinalities are those of Criteo's Terabyte click logs in MLPerf's training benchmark, with a limit to all of them (as its
``max_ind_range``) by which tables and sums of row-wise Adagrad take ``--gib``. Rank r of a column comes with probability 1 / r.
All tables share one cache of ``--host-budget``, a fifth of that.

``misses``: pages a second that were read. ``moved``: with those that were written to make room for them. ``disk``: as many
pages at random by the same threads with nothing else to do (native/storage/raw.hpp), as many of them written, right after each
run. ``prefetched``: the pages of each batch are read while the one before trains; ``tables alone``: without the perceptrons.
More ``reads`` than ``as it comes`` has are pages that had to make room before their batch came.
``torch``: torch.nn.EmbeddingBag(sparse=True) and torch.optim.Adagrad on the CPU over files that are mapped, rows and
sums, with all memory that the machine has for its page cache.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

import hinterland as hl
from hinterland import _core
from hinterland.probe.storage import DEPTH
from hinterland.runtime import devices
from hinterland.runtime.units import parse_bytes
from hinterland.training import SparseAdagrad

from ._rows import Rows

DENSE, PAGE, GIB = 13, 4096, 1 << 30
# fmt: off
CARDINALITIES = (39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938, 155, 4,
                 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36)
# fmt: on
BOTTOM, TOP = (512, 256), (512, 256)  # hidden widths, of DLRM's example for Criteo


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the tables go: the disk in question")
    parser.add_argument("--gib", type=float, default=40, help="of tables and their sums together")
    parser.add_argument("--host-budget", default=None, help="of the cache; by default a fifth of the tables")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=8192, help="2048 suits two cores")
    parser.add_argument("--batches", type=int, default=50, help="of each run; as many before, by which the cache fills")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(options.device)
    gib, batches = (0.125, 3) if options.small else (options.gib, options.batches)
    rows = capped(gib * GIB / (4 * options.dim + 4))
    budget = int(gib * GIB / 5) if options.host_budget is None else parse_bytes(options.host_budget)
    batch_size = 256 if options.small else options.batch_size
    data = Clicks(rows, batch_size, device)
    results: dict[str, Any] = {"rows": sum(rows), "dim": options.dim, "host_budget": budget, "batch_size": batch_size}
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="hinterland-bench-") as name:
        folder, cache = Path(name), hl.StorageCache(budget)
        paths = [folder / f"{number}.bin" for number in range(len(rows))]
        tables = [filled(path, count, options.dim, cache) for path, count in zip(paths, rows, strict=True)]
        disk = Disk(folder / "disk.bin", rows[0], options.dim, cache)
        model = DLRM([hl.UnifiedEmbeddingBag.from_pretrained(table, freeze=False, mode="sum") for table in tables], options.dim)
        ours = Ours(model.to(device))
        timed(ours.step, data, batches)
        measured = Rows()
        for run, step, ahead in (
            ("prefetched", ours.step, ours.prefetch),
            ("as it comes", ours.step, None),
            ("tables alone", ours.step_of_tables, ours.prefetch),
        ):
            measured.append({"run": run, **measure(partial(timed, step, data, batches, ahead), cache, disk)})
        for table in tables:
            table.close()
        theirs = torchs(paths, rows, options.dim)
        here = Clicks(rows, batch_size, torch.device("cpu"))
        timed(theirs, here, batches)
        results |= {"ours": measured, "torch": timed(theirs, here, batches)}
    results["over torch"] = measured[0]["samples"] / results["torch"]["samples"]
    return results


def capped(most: float) -> list[int]:
    """Rows of each table: as many as it has values, up to a limit by which all of them are ``most``."""
    low, high = 1, max(CARDINALITIES)
    while low < high:
        middle = (low + high + 1) // 2
        fits = sum(min(count, middle) for count in CARDINALITIES) <= most
        low, high = (middle, high) if fits else (low, middle - 1)
    return [min(count, low) for count in CARDINALITIES]


class Clicks:
    """Batches, one after the other and never the same: dense columns, row numbers of each table, and whether it was clicked."""

    def __init__(self, rows: list[int], batch_size: int, device: torch.device) -> None:
        self.random = torch.Generator().manual_seed(1)
        self.rows, self.batch_size, self.device = torch.tensor(rows)[:, None], batch_size, device
        self.slopes = torch.randn(DENSE, generator=self.random)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """``[B, 13]``, ``[26, B, 1]`` and ``[B]``."""
        dense = torch.randn(self.batch_size, DENSE, generator=self.random)
        drawn = torch.rand(len(self.rows), self.batch_size, generator=self.random, dtype=torch.float64)
        ranks = (drawn * (self.rows + 1).log()).exp().long() - 1
        index = ranks.clamp_(0) * 0x9E3779B1 % self.rows  # dealt over the table
        clicked = (dense @ self.slopes + (ranks % 7 - 3).sum(dim=0) / 10 > 0).float()
        return dense.to(self.device), index[:, :, None].to(self.device), clicked.to(self.device)


def filled(path: Path, rows: int, dim: int, cache: hl.StorageCache) -> hl.StorageArray:
    """A table of small numbers, of which the disk has every page."""
    table = hl.StorageArray.create(path, (rows, dim), cache=cache)
    part = torch.empty(min(rows, (64 << 20) // (4 * dim)), dim).uniform_(-0.01, 0.01)
    for first in range(0, rows, len(part)):
        table[first : first + len(part)] = part[: rows - first]
    table.flush()
    return table


def perceptron(widths: list[int]) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


class DLRM(torch.nn.Module):
    """Dense columns through a perceptron; its output and the bags of all tables, each with each, through another."""

    def __init__(self, bags: list[torch.nn.Module], dim: int) -> None:
        super().__init__()
        pairs = (len(bags) + 1) * len(bags) // 2
        self.bags = torch.nn.ModuleList(bags)
        self.bottom, self.top = perceptron([DENSE, *BOTTOM, dim]), perceptron([dim + pairs, *TOP, 1])
        below = torch.ones(len(bags) + 1, len(bags) + 1).tril(-1).view(-1).nonzero().view(-1)
        self.register_buffer("pairs", below, persistent=False)

    def forward(self, dense: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Logits ``[B]`` of ``[B, 13]`` and ``[26, B, 1]``."""
        first = self.bottom(dense)
        found = torch.stack([first, *(bag(rows) for bag, rows in zip(self.bags, index, strict=True))], dim=1)
        products = (found @ found.transpose(1, 2)).flatten(1).index_select(1, self.pairs)
        return self.top(torch.cat([first, products], dim=1)).squeeze(1)

    def dense_parameters(self) -> list[torch.nn.Parameter]:
        return [*self.bottom.parameters(), *self.top.parameters()]


class Ours:
    """Steps of the whole model, and of its tables alone."""

    def __init__(self, model: DLRM) -> None:
        self.model = model
        self.tables = SparseAdagrad(model.bags.parameters(), lr=0.01, initial_accumulator_value=0.1, rowwise=True)
        self.dense = torch.optim.Adagrad(model.dense_parameters(), lr=0.01)

    def step(self, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return learn(self.model, [self.tables, self.dense], batch)

    def prefetch(self, batch: tuple[torch.Tensor, ...]) -> None:
        for bag, rows in zip(self.model.bags, batch[1], strict=True):
            bag.prefetch(rows)

    def step_of_tables(self, batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
        self.tables.zero_grad()
        loss = torch.stack([bag(rows).square().sum() for bag, rows in zip(self.model.bags, batch[1], strict=True)]).sum()
        loss.backward()
        self.tables.step()
        return loss.detach()


def learn(model: DLRM, optimizers: list[torch.optim.Optimizer], batch: tuple[torch.Tensor, ...]) -> torch.Tensor:
    dense, index, clicked = batch
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(dense, index), clicked)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach()


def torchs(paths: list[Path], rows: list[int], dim: int) -> Callable[[Any], torch.Tensor]:
    """A step as torch's users have it, over the same files and over others for the sums."""
    bags = [torch.nn.EmbeddingBag(1, dim, mode="sum", sparse=True) for _ in rows]
    model = DLRM(bags, dim)
    tables = torch.optim.Adagrad(model.bags.parameters(), lr=0.01)
    for bag, path, count in zip(bags, paths, rows, strict=True):  # or their sums were in memory
        bag.weight.data = torch.from_file(str(path), shared=True, size=count * dim).view(count, dim)
        sums = torch.from_file(f"{path}.sums", shared=True, size=count * dim).view(count, dim)
        tables.state[bag.weight]["sum"] = sums.fill_(0.1)
    optimizers = [tables, torch.optim.Adagrad(model.dense_parameters(), lr=0.01)]
    return lambda batch: learn(model, optimizers, batch)


def timed(
    step: Callable[[Any], torch.Tensor], data: Clicks, count: int, ahead: Callable[[Any], None] | None = None
) -> dict[str, float]:
    """Samples a second of so many batches, their seconds, and their mean loss. ``ahead`` is told the batch after each."""
    batches, losses = [data.batch() for _ in range(count)], []
    began = devices.idle_at(data.device)
    for at, batch in enumerate(batches):
        if ahead is not None and at + 1 < count:
            ahead(batches[at + 1])
        losses.append(step(batch))
    seconds = devices.idle_at(data.device) - began
    return {"samples": count * data.batch_size / seconds, "seconds": seconds, "loss": torch.stack(losses).mean().item()}


def measure(train: Callable[[], dict[str, float]], cache: hl.StorageCache, disk: Disk) -> dict[str, float]:
    before = cache.stats()
    found = train()
    moved, seconds = cache.stats().since(before), found["seconds"]
    pages = moved.reads + moved.writes
    rate, reads = disk.rate(pages, round(pages / moved.writes) if moved.writes else 0), disk.rate(moved.reads, 0)
    return {
        **found,
        "reads": moved.reads,
        "misses": moved.reads / seconds,
        "moved": pages / seconds,
        "disk": rate,
        "moved of disk": pages / seconds / rate,
        "disk, reads alone": reads,
        "misses of reads alone": moved.reads / seconds / reads,
    }


class Disk:
    """A file as large as the largest table, for what the disk gives by itself."""

    def __init__(self, path: Path, rows: int, dim: int, cache: hl.StorageCache) -> None:
        filled(path, rows, dim, cache).close()
        self.path, self.pages, self.random = str(path), rows * dim * 4 // PAGE, torch.Generator().manual_seed(2)

    def rate(self, pages: int, write_every: int) -> float:
        """Pages a second at random, of which every ``write_every``-th is written, or none."""
        offsets = torch.randint(self.pages, (pages,), generator=self.random) * PAGE
        threads = torch.get_num_threads()
        ns, _ = _core.run_raw(self.path, offsets.data_ptr(), pages, PAGE, write_every, threads, DEPTH, "auto")
        return pages / ns * 1e9
