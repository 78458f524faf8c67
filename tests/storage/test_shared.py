"""What kernels of a process share of a file (src/hinterland/storage/device_pages.py): in every order of the steps of a few
threads, with many threads over devices that fail, and when the process is killed. Files, queues and kernels are real."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import StorageError
from hinterland.storage import cache as cache_module
from hinterland.storage import device_pages, on_device
from hinterland.storage.on_device import Backing
from hinterland.table import array as array_module
from hinterland_papers.bam.devices import Device

from ..programs import needs_compiler
from ..schedules import THREADING, Work, explore
from ..together import by_threads
from .killed import POINTS, ROWS, WIDTH, killed_writers, rows_of

pytestmark = needs_compiler
SECONDS = float(os.environ.get("HINTERLAND_SHARED_SECONDS", "1"))  # of the threads together; more of them in tools/nightly.sh
PREEMPTIONS = int(os.environ.get("HINTERLAND_PREEMPTIONS", "1"))  # more of them in tools/nightly.sh
COUNT = 1200  # elements of a file: three pages and a header
UP = hl.kernel(
    """
    __global__ void up(array<int64_t> x, array<const int64_t> y) {
      const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < x.size()) x[i] += 1 + 0 * y[i];
    }"""
)
COPY = hl.kernel(
    """
    __global__ void copy(array<const int64_t> x, array<int64_t> out) {
      const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < out.size()) out[i] = x[i];
    }"""
)

SET_ROWS = hl.kernel(
    """
    __global__ void set_rows(array<int64_t> x, const int64_t* rows, int64_t count, int64_t width, int64_t to) {
      const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < count * width) x[rows[i / width] * width + i % width] = to;
    }"""
)


def copied(x: hl.StorageArray) -> set[int]:
    """The values of an array's elements, as a kernel reads them."""
    out = torch.full((len(x),), -1, dtype=torch.int64)
    COPY(x, out)
    return set(out.tolist())


def up(x: hl.StorageArray, y: hl.StorageArray) -> None:
    UP(x, y, device="cpu")


class Files:
    """Files of one number each, and what is open of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.caches = folder, [hl.StorageCache("64KiB", device_budget="128KiB") for _ in range(4)]
        self.opened: list[hl.StorageArray] = []

    def hold(self, **values: int) -> None:
        for name, value in values.items():
            np.save(self.folder / f"{name}.npy", np.full(COUNT, value))

    def open(self, name: str, cache: int = 0, mode: str = "r") -> hl.StorageArray:
        self.opened.append(hl.StorageArray.open(self.folder / f"{name}.npy", mode, cache=self.caches[cache]))
        return self.opened[-1]

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()

    def holds(self, name: str) -> set[int]:
        """What is in a file, once it was flushed."""
        return set(np.load(self.folder / f"{name}.npy").tolist())


def tried(work: Work) -> bool:
    """Whether it was done; else what it needs was closed."""
    try:
        work()
    except StorageError as error:
        assert "was closed" in str(error)
        return False
    return True


Begun = tuple[Sequence[Work], Work]


def closed_while_a_kernel_writes(files: Files) -> Begun:
    files.hold(x=0)
    done: list = []
    x = files.open("x", mode="r+")

    def check() -> None:
        assert x.closed and files.holds("x") == {int(done[0])}

    return [lambda: done.append(tried(lambda: up(x, x))), x.close], check


def closed_and_another_opened(files: Files) -> Begun:
    """Whoever has the first finds its elements, or that it was closed, and never those of the second."""
    files.hold(x=7, y=9)
    found: list = []
    x = files.open("x")

    def close_and_open() -> None:
        x.close()
        with files.open("y") as y:
            assert copied(y) == {9}

    def check() -> None:
        assert found in ([], [{7}])

    return [lambda: tried(lambda: found.append(copied(x))), close_and_open], check


def closed_twice_while_kernels_read(files: Files) -> Begun:
    files.hold(x=7)
    x, again = files.open("x"), files.open("x")

    def reads() -> None:
        assert copied(again) == {7}
        again.close()

    def check() -> None:
        assert x.closed and again.closed

    return [reads, x.close, x.close], check


def written_while_another_cache_reads(files: Files) -> Begun:
    files.hold(x=0)
    x, elsewhere = files.open("x", mode="r+"), files.open("x", cache=1)

    def check() -> None:
        assert copied(elsewhere) == copied(x) == {1}
        x.flush()
        assert files.holds("x") == {1}

    def reads() -> None:
        assert copied(elsewhere) <= {0, 1}

    return [lambda: up(x, x), reads], check


def written_in_a_circle(files: Files) -> Begun:
    """Each kernel reads what the other writes, through another cache."""
    files.hold(a=0, b=0)
    written = [files.open("a", 0, "r+"), files.open("b", 1, "r+")]
    read = [files.open("b", 2), files.open("a", 3)]

    def check() -> None:
        assert all(copied(one) == {1} for one in (*written, *read))

    return [lambda x=x, y=y: up(x, y) for x, y in zip(written, read, strict=True)], check


def written_while_an_array_is_opened_and_closed(files: Files) -> Begun:
    files.hold(x=0)
    x = files.open("x", mode="r+")

    def reads() -> None:
        with files.open("x") as again:
            assert copied(again) <= {0, 1} and set(again[:].tolist()) <= {0, 1}

    def check() -> None:
        assert copied(x) == set(x[:].tolist()) == {1}
        x.flush()
        assert files.holds("x") == {1}

    return [lambda: up(x, x), reads], check


def rows_written_while_kernels_read(files: Files) -> Begun:
    files.hold(x=0)
    x, elsewhere = files.open("x", mode="r+"), files.open("x", cache=1)

    def writes() -> None:
        x[:] = torch.ones(COUNT, dtype=torch.int64)
        assert copied(x) == {1}
        x.flush()

    def reads() -> None:
        for one in x, elsewhere:
            assert copied(one) <= {0, 1}

    def check() -> None:
        assert copied(x) == files.holds("x") == copied(elsewhere) == {1}

    return [writes, reads], check


CASES = [
    closed_while_a_kernel_writes,
    closed_and_another_opened,
    closed_twice_while_kernels_read,
    written_while_another_cache_reads,
    written_in_a_circle,
    written_while_an_array_is_opened_and_closed,
    rows_written_while_kernels_read,
]


class InOrder(list):
    """Caches, in the place of a set whose order may be another the next time."""

    add = list.append


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_in_every_order_of_steps(case: Callable[[Files], Begun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in device_pages, on_device, array_module:
        monkeypatch.setattr(module, "threading", THREADING)
    monkeypatch.setattr(cache_module, "Lock", THREADING.Lock)
    monkeypatch.setattr(device_pages, "_all", InOrder())
    files = Files(tmp_path)

    def begin() -> Begun:
        works, check = case(files)

        def check_and_close() -> None:
            check()
            files.close()

        return works, check_and_close

    assert explore(begin, PREEMPTIONS) > 20


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, hl.Graph]:
    made = hl.generate("kronecker", scale=8, edge_factor=8, seed=1, device="cpu")
    path = tmp_path_factory.mktemp("graph") / "g.hl"
    hl.save_graph(made, path)
    return path, made


def test_kernels_a_traversal_and_a_loader_over_a_device_that_fails(
    graph: tuple[Path, hl.Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of two threads count in a file whose device answers late, in any order, and asks to be asked again. Of another,
    which is opened and closed, pages cannot be read now and then: kernels are told, or find what is there."""
    files = Files(tmp_path)
    files.hold(counted=0, broken=7, rows=8)
    faults = {"counted": (("reorder", True), ("late", 50), ("retryable", 20)), "broken": (("fatal", 100),)}
    seeds = iter(range(1 << 30))

    def backing_of(array: hl.StorageArray, mode: str | None = None) -> Backing:
        path = array.open_paths[0]
        return Device(path=path, held=mode or array.mode, faults=faults.get(Path(array.path).stem, ()), seed=next(seeds))

    monkeypatch.setattr(on_device.Backing, "of", backing_of)
    stored = hl.load_graph(graph[0], "storage", cache=files.caches[0])
    counted, rows = files.open("counted", mode="r+"), files.open("rows")
    levels, until = hl.bfs(graph[1], 7, device="cpu").levels, time.monotonic() + SECONDS
    sampler = hl.sampling.NeighborSampler(stored, [5, 3], device="cpu")
    turns, told, failed = [0, 0], [], threading.Event()

    def counts(number: int) -> None:
        up(counted, counted)
        turns[number] += 1

    def reads() -> None:
        with files.open("broken") as broken:
            try:
                assert copied(broken) == {7}
            except StorageError as error:
                assert "could not be read: NVMe status" in str(error)
                told.append(error)

    def reads_counted() -> None:
        assert copied(counted) <= set(range(sum(turns) + 3))

    def traverses() -> None:
        assert torch.equal(hl.bfs(stored, 7, device="cpu").levels, levels)

    def loads() -> None:
        for batch in hl.training.Loader(sampler, torch.arange(128), 64, features=rows.tiered(host="8KiB", devices="cpu")):
            assert set(batch.x.tolist()) == {8}

    works = [lambda: counts(0), lambda: counts(1), reads, reads_counted, traverses, loads]

    def again_and_again(number: int) -> None:
        try:
            while not failed.is_set() and (time.monotonic() < until or not (all(turns) and told)):
                works[number]()
        except BaseException:
            failed.set()
            raise

    by_threads(again_and_again, len(works))
    assert copied(counted) == {sum(turns)}
    counted.flush()
    assert files.holds("counted") == {sum(turns)}
    files.close()


def test_a_killed_process_loses_nothing_that_was_flushed(graph: tuple[Path, hl.Graph], tmp_path: Path) -> None:
    """Of what a kernel wrote, while others read the file and a graph through the same cache."""

    def rewrite(paths: list[Path], out: int, seed: int) -> None:
        cache = hl.StorageCache("256KiB", device_budget="192KiB")  # fewer lines than the file has
        raw = {"dtype": torch.int64, "shape": (ROWS, WIDTH), "cache": cache}
        x, again = hl.StorageArray.open(paths[0], "r+", **raw), hl.StorageArray.open(paths[0], **raw)
        stored = hl.load_graph(graph[0], "storage", cache=cache)
        rows = torch.arange(0, ROWS, 7)

        def reads() -> None:
            while True:
                COPY(again, torch.empty(x.numel(), dtype=torch.int64))
                again[rows]

        def traverses() -> None:
            while True:
                hl.bfs(stored, 7, device="cpu")

        for work in reads, traverses:
            threading.Thread(target=work, daemon=True).start()
        for version in range(1, 100_000):
            set_to = rows_of(seed, version)
            SET_ROWS(x, set_to, len(set_to), WIDTH, version)
            x.flush()
            os.write(out, b"%d\n" % version)

    SET_ROWS(torch.zeros(4, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), 1, 4, 0)
    killed_writers([tmp_path / "x.bin"], rewrite, at_once=False, points=-(-POINTS // 3))


def test_an_array_that_is_collected_while_its_file_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed after that: it would wait for the flush under way, which is of the same thread."""
    files = Files(tmp_path)
    files.hold(x=1)
    collected = hl.StorageArray.open(tmp_path / "x.npy", "r+", cache=files.caches[0])
    up(collected, collected)
    origin, circle = collected.origin, [collected]
    circle.append(circle)
    del collected, circle
    wait = on_device.DeviceStore._wait
    monkeypatch.setattr(on_device.DeviceStore, "_wait", lambda store: (gc.collect(), wait(store)))
    assert set(files.open("x", cache=1)[:].tolist()) == {2}
    assert not files.caches[0].on_devices.stores(torch.device("cpu"), origin)
    files.close()


def test_an_array_that_is_collected_with_its_cache(tmp_path: Path) -> None:
    """What a kernel wrote is flushed, through memory whose finalizer the collector calls first where it is garbage, too."""
    before = set(on_device._in_use)
    np.save(tmp_path / "x.npy", np.full(COUNT, 1))
    collected = hl.StorageArray.open(tmp_path / "x.npy", "r+", cache=hl.StorageCache("64KiB", device_budget="128KiB"))
    up(collected, collected)
    circle = [collected]
    circle.append(circle)
    del collected, circle
    gc.collect()
    assert set(np.load(tmp_path / "x.npy")) == {2}
    assert on_device._in_use <= before


def test_what_kernels_wrote_is_in_files_when_the_interpreter_ends(tmp_path: Path) -> None:
    """Nobody has closed them, and tensors are cleared before the arrays are."""
    program = """
import sys
import torch
import hinterland as hl
set_to = hl.kernel("__global__ void set_to(array<int64_t> x) { x[threadIdx.x] = 7; }")
arrays = [hl.StorageArray.create(f"{sys.argv[1]}/{i}.bin", 64, torch.int64) for i in range(3)]
for x in arrays:
    set_to(x, grid=1, block=64, device="cpu")
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert [set(np.fromfile(tmp_path / f"{i}.bin", np.int64)) for i in range(3)] == [{7}] * 3
