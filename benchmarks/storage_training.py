"""Mini-batch training of GraphSAGE whose features lie in a file: beside what the disk gives by itself, and numpy's memmap.

A batch needs its vertices' rows, which are known before they are read: the planned path. ``loaded`` is sampling and
reading, and ``trained`` the steps as well. The ceiling: as many pages of 4 KiB as a batch's rows lie in, each once, read at
random by the same threads with nothing else to do (native/storage/raw.hpp). ``memmap`` reads the rows of the first batches,
as ``gathered`` does, in a memory cgroup whose page cache has the bytes that ``gathered`` has for its cache; once as it is,
and once advised that access is random. Medians of pairs that take turns.

``tenth``: training with rows of float16, a tenth of them in GPU memory, by epochs of 50 batches. ``disk_s`` is what the disk
takes for as many pages as their gathers did not find in memory, by itself, right after each epoch.
"""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hinterland as hl
from hinterland import _core, sampling
from hinterland.probe.storage import DEPTH
from hinterland.runtime import devices
from hinterland.runtime.units import parse_bytes
from hinterland.training import Loader, make_model

from ._rows import Rows, add_seconds, in_time
from .gnn import CLASSES, COLUMNS, FANOUTS, learn, new_optimizer, random_labels, random_seeds
from .storage import table_file

ROW, PAGE = 4 * COLUMNS, 4096
MAPPED = 2  # batches of each run that memmap reads, too: it may read 128 KiB for each row
TENTH_BATCHES, TENTH_ROUNDS, TENTH_TARGET = 50, 3, 1.2  # of an epoch's seconds over disk_s
SPARE = 16 << 20  # bytes that a process takes beside what it reads: its page tables and its own objects


def add_options(parser: argparse.ArgumentParser) -> None:
    add_seconds(parser)
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the features go: the disk in question")
    parser.add_argument(
        "--scale", type=int, default=None, help="log2 of the vertices; by default 24 with a GPU, and 20 without"
    )
    parser.add_argument("--host-budget", default=None, help="of the cache; by default an eighth of the features")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument(
        "--batch-size", type=int, default=None, help="seeds of a batch; by default 1024 with a GPU, and 64 without"
    )
    parser.add_argument("--batches", type=int, default=None, help="of each run; by default 10 with a GPU, and 2 without")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(options.device)
    on_gpu = device.type == "cuda"
    scale = 15 if options.small else options.scale or (24 if on_gpu else 20)
    graph = hl.generate("kronecker", scale=scale, edge_factor=12, seed=1, placement="host", device=device)
    budget = (graph.num_vertices * ROW // 8) if options.host_budget is None else parse_bytes(options.host_budget)
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="hinterland-bench-") as folder:
        batch_size = options.batch_size or (16 if options.small else 1024 if on_gpu else 64)
        shape = {"batch_size": batch_size, "hidden": 256 if on_gpu else 16}
        batches = options.batches or (10 if on_gpu else 2)
        path = Path(folder) / "halves.npy"
        begin = table_file(path, graph.num_vertices, COLUMNS, torch.float16)
        bench = _Bench(graph, path, begin, budget // 2, device, **shape)
        tenth, pairs = Rows(), Rows()
        for number in in_time(range(2 if options.small else TENTH_ROUNDS), least=1):
            tenth.append(bench.tenth(number, batches if options.small else TENTH_BATCHES))
        path = Path(folder) / "features.npy"
        begin = table_file(path, graph.num_vertices, COLUMNS)
        bench = _Bench(graph, path, begin, budget, device, **shape)
        for number in in_time(range(2 if options.small else options.pairs), least=1):
            pairs.append(bench.pair(number, batches))
    medians = {name: statistics.median(pair[name] for pair in pairs) for name in pairs[0]}
    return {
        "vertices": graph.num_vertices,
        "features": graph.num_vertices * ROW,
        "host_budget": budget,
        "seeds of a batch": batch_size,
        "batches": batches,
        "pairs": len(pairs),
        "pages a second": {name: value for name, value in medians.items() if " of " not in name},
        "ratios": {name: value for name, value in medians.items() if " of " in name},
        "tenth": tenth,
        "tenth, of disk": {"times": statistics.median(epoch["times"] for epoch in tenth), "target": TENTH_TARGET},
    }


class _Bench:
    def __init__(
        self, graph: hl.Graph, path: Path, begin: int, budget: int, device: torch.device, *, batch_size: int, hidden: int
    ) -> None:
        self.path, self.begin, self.budget, self.device, self.batch_size = path, begin, budget, device, batch_size
        self.sampler = sampling.NeighborSampler(graph, FANOUTS, seed=6, device=device)
        self.labels, self.seeds = random_labels(graph).to(device), random_seeds(graph, graph.num_vertices)
        self.pages = path.stat().st_size // PAGE
        self.model = make_model("sage", COLUMNS, hidden, CLASSES, len(FANOUTS)).to(device)
        self.optimizer = new_optimizer(self.model)

    def pair(self, number: int, batches: int) -> dict[str, float]:
        """Pages a second of each way, all of the same batches, whose seeds no other pair has; and their ratios."""
        nodes: list[torch.Tensor] = []
        seeds = self.seeds[number * batches * self.batch_size :][: batches * self.batch_size]
        seconds = {"loaded": self._epoch(seeds, nodes, trains=False), "trained": self._epoch(seeds, [], trains=True)}
        seconds["gathered"] = self._gather(nodes)
        asked = [node.cpu().numpy() for node in nodes]
        pages = [len(_pages_of(rows, self.begin)) for rows in asked]
        seconds["disk"] = self._disk(number, sum(pages))
        rates = {name: sum(pages) / took for name, took in seconds.items()}
        for name, advice in (("memmap", mmap.MADV_NORMAL), ("memmap, advised", mmap.MADV_RANDOM)):
            if (found := _memmap(self.path, self.begin, asked[:MAPPED], self.budget, advice)) is not None:
                rates[name] = sum(pages[:MAPPED]) / found
        of_disk = {f"{name} of disk": rates[name] / rates["disk"] for name in ("loaded", "trained", "gathered")}
        of_memmap = {f"gathered of {name}": rates["gathered"] / rates[name] for name in rates if name.startswith("memmap")}
        return {**rates, **of_disk, **of_memmap}

    def tenth(self, number: int, batches: int) -> dict[str, float]:
        """An epoch, whose seeds no other one has; the first one compiles kernels."""
        seeds = self.seeds[number * batches * self.batch_size :][: batches * self.batch_size]
        with self._table() as table:
            began = time.perf_counter()
            options: dict[str, Any] = {"cache": "features", "gpu_budget": "10%", "device": self.device}
            loader = Loader(self.sampler, seeds, self.batch_size, features=table, labels=self.labels, **options)
            before, filled = loader.storage, devices.idle_at(self.device)
            for batch in loader:
                learn(self.model, self.optimizer, batch.x.float(), batch.sample, batch.y)
            ended = devices.idle_at(self.device)
            assert before is not None and loader.storage is not None and loader.cache_plan is not None
            pages, plan = loader.storage.since(before).misses, loader.cache_plan
        disk = self._disk(number, pages)
        return {
            "batches": len(loader),
            "seconds": ended - filled,
            "pages": pages,
            "disk_s": disk,
            "times": (ended - filled) / disk,
            "fill_s": filled - began,
            "predicted_hits": plan.predicted.rows,
        }

    def _table(self) -> hl.StorageArray:
        return hl.StorageArray.open(self.path, host_budget=self.budget)

    def _epoch(self, seeds: torch.Tensor, nodes: list[torch.Tensor], trains: bool) -> float:
        with self._table() as table:
            loader = Loader(self.sampler, seeds, self.batch_size, features=table, labels=self.labels, device=self.device)
            began = time.perf_counter()
            for batch in loader:
                nodes.append(batch.sample.node)
                if trains:
                    learn(self.model, self.optimizer, batch.x, batch.sample, batch.y)
            return devices.idle_at(self.device) - began

    def _gather(self, nodes: list[torch.Tensor]) -> float:
        with self._table() as table:
            began = time.perf_counter()
            for rows in nodes:
                table.gather(rows)
            return devices.idle_at(self.device) - began

    def _disk(self, number: int, pages: int) -> float:
        """Seconds for so many pages, each of them once."""
        offsets = torch.randperm(self.pages, generator=torch.Generator().manual_seed(number))[:pages] * PAGE
        threads = torch.get_num_threads()
        ns, _ = _core.run_raw(str(self.path), offsets.data_ptr(), len(offsets), PAGE, 0, threads, DEPTH, "auto")
        return ns / 1e9 * pages / len(offsets)


def _pages_of(rows: np.ndarray, begin: int) -> np.ndarray:
    first = rows * ROW + begin
    return np.unique(np.stack([first, first + ROW - 1]) // PAGE)


def _memmap(path: Path, begin: int, asked: list[np.ndarray], budget: int, advice: int) -> float | None:
    """Seconds in which a process reads these rows, batch by batch, that has so many bytes of page cache and no page of the file
    at first; None where no memory cgroup can be made."""
    with _memory_cgroup(budget + SPARE) as join:
        if join is None:
            return None
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                to = np.zeros((max(map(len, asked)), COLUMNS), dtype=np.float32)
                to.fill(1)  # which is there, and not of the cgroup
                join()
                table = np.memmap(path, np.float32, "r", begin, (-(-(path.stat().st_size - begin) // ROW), COLUMNS))
                table._mmap.madvise(advice)  # type: ignore[attr-defined]
                began = time.perf_counter()
                for rows in asked:
                    np.take(table, rows, axis=0, out=to[: len(rows)], mode="clip")  # the others copy twice
                os.write(theirs, f"{time.perf_counter() - began}".encode())
            finally:
                os._exit(0)
        os.close(theirs)
        try:
            return float(os.read(ours, 100))
        finally:
            os.close(ours)
            os.kill(child, signal.SIGKILL)  # it has said all, or is not waited for any more; the group must be empty
            os.waitpid(child, 0)


@contextmanager
def _memory_cgroup(most: int) -> Iterator[Any]:
    """A group of processes that have so many bytes of memory, page cache included: what a process calls to join it, or None."""
    for root, limit, members in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "tasks"),
        ("/sys/fs/cgroup", "memory.max", "cgroup.procs"),
    ):
        group = Path(root) / f"hinterland-bench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(most))
        except OSError:
            group.rmdir()
            continue
        try:
            yield lambda: (group / members).write_text(str(os.getpid()))  # noqa: B023
        finally:
            group.rmdir()
        return
    yield None
