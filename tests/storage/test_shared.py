"""What kernels of a process share of a file (src/hinterland/storage/device_pages.py), in every order of the steps of a few
threads that run kernels, write rows, open and close arrays. Files, caches, queues and kernels are real."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import StorageError
from hinterland.storage import cache as cache_module
from hinterland.storage import device_pages, on_device
from hinterland.table import array as array_module

from ..programs import needs_compiler
from ..schedules import THREADING, Work, explore

pytestmark = needs_compiler
PREEMPTIONS = int(os.environ.get("HINTERLAND_PREEMPTIONS", "1"))  # more of them in tools/nightly.sh
COUNT = 1200  # elements of a file: three pages and a header
UP = hl.kernel(
    """
    __global__ void up(array<double> x, array<const double> y) {
      const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < x.size()) x[i] += 1 + 0 * y[i];
    }"""
)
COPY = hl.kernel(
    """
    __global__ void copy(array<const double> x, array<double> out) {
      const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
      if (i < out.size()) out[i] = x[i];
    }"""
)


def copied(x: hl.StorageArray) -> set[float]:
    """The values of an array's elements, as a kernel reads them."""
    out = torch.full((COUNT,), -1.0, dtype=torch.float64)
    COPY(x, out)
    return set(out.tolist())


def up(x: hl.StorageArray, y: hl.StorageArray) -> None:
    UP(x, y, device="cpu")


class Files:
    """Files of one number each, and what is open of them."""

    def __init__(self, folder: Path, **values: float) -> None:
        self.folder, self.caches = folder, [hl.StorageCache("64KiB", device_budget="128KiB") for _ in range(4)]
        self.opened: list[hl.StorageArray] = []
        for name, value in values.items():
            np.save(folder / f"{name}.npy", np.full(COUNT, float(value)))

    def open(self, name: str, cache: int = 0, mode: str = "r") -> hl.StorageArray:
        self.opened.append(hl.StorageArray.open(self.folder / f"{name}.npy", mode, cache=self.caches[cache]))
        return self.opened[-1]

    def holds(self, name: str) -> set[float]:
        return set(np.load(self.folder / f"{name}.npy").tolist())


def tried(work: Work) -> bool:
    """Whether it was done; else what it needs was closed."""
    try:
        work()
    except StorageError as error:
        assert "was closed" in str(error)
        return False
    return True


Begun = tuple[Files, Sequence[Work], Work]


def closed_while_a_kernel_writes(folder: Path) -> Begun:
    files, done = Files(folder, x=0), []
    x = files.open("x", mode="r+")

    def check() -> None:
        assert x.closed and files.holds("x") == {float(done[0])}

    return files, [lambda: done.append(tried(lambda: up(x, x))), x.close], check


def closed_and_another_opened(folder: Path) -> Begun:
    """Whoever has the first finds its elements, or that it was closed, and never those of the second."""
    files, found = Files(folder, x=7, y=9), []
    x = files.open("x")

    def close_and_open() -> None:
        x.close()
        with files.open("y") as y:
            assert copied(y) == {9.0}

    def check() -> None:
        assert found in ([], [{7.0}])

    return files, [lambda: tried(lambda: found.append(copied(x))), close_and_open], check


def closed_twice_while_kernels_read(folder: Path) -> Begun:
    files = Files(folder, x=7)
    x, again = files.open("x"), files.open("x")

    def reads() -> None:
        assert copied(again) == {7.0}
        again.close()

    def check() -> None:
        assert x.closed and again.closed

    return files, [reads, x.close, x.close], check


def written_while_another_cache_reads(folder: Path) -> Begun:
    files = Files(folder, x=0)
    x, elsewhere = files.open("x", mode="r+"), files.open("x", cache=1)

    def check() -> None:
        assert copied(elsewhere) == copied(x) == files.holds("x") == {1.0}

    def reads() -> None:
        assert copied(elsewhere) <= {0.0, 1.0}

    return files, [lambda: up(x, x), reads], check


def written_in_a_circle(folder: Path) -> Begun:
    """Each kernel reads what the other writes, through another cache."""
    files = Files(folder, a=0, b=0)
    written = [files.open("a", 0, "r+"), files.open("b", 1, "r+")]
    read = [files.open("b", 2), files.open("a", 3)]

    def check() -> None:
        assert all(copied(one) == {1.0} for one in (*written, *read))

    return files, [lambda x=x, y=y: up(x, y) for x, y in zip(written, read, strict=True)], check


def written_while_an_array_is_opened_and_closed(folder: Path) -> Begun:
    files = Files(folder, x=0)
    x = files.open("x", mode="r+")

    def reads() -> None:
        with files.open("x") as again:
            assert copied(again) <= {0.0, 1.0} and set(again[:].tolist()) <= {0.0, 1.0}

    def check() -> None:
        assert copied(x) == set(x[:].tolist()) == files.holds("x") == {1.0}

    return files, [lambda: up(x, x), reads], check


def rows_written_while_kernels_read(folder: Path) -> Begun:
    files = Files(folder, x=0)
    x, elsewhere = files.open("x", mode="r+"), files.open("x", cache=1)

    def writes() -> None:
        x[:] = torch.ones(COUNT, dtype=torch.float64)
        assert copied(x) == {1.0}
        x.flush()

    def reads() -> None:
        for one in x, elsewhere:
            assert copied(one) <= {0.0, 1.0}

    def check() -> None:
        assert copied(x) == files.holds("x") == copied(elsewhere) == {1.0}

    return files, [writes, reads], check


CASES = [
    closed_while_a_kernel_writes,
    closed_and_another_opened,
    closed_twice_while_kernels_read,
    written_while_another_cache_reads,
    written_in_a_circle,
    written_while_an_array_is_opened_and_closed,
    rows_written_while_kernels_read,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_in_every_order_of_steps(case: Callable[[Path], Begun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in device_pages, on_device, array_module:
        monkeypatch.setattr(module, "threading", THREADING)
    monkeypatch.setattr(cache_module, "Lock", THREADING.Lock)

    def begin() -> tuple[Sequence[Work], Work]:
        files, works, check = case(tmp_path)

        def check_and_close() -> None:
            check()
            for one in files.opened:
                one.close()

        return works, check_and_close

    tried_orders = explore(begin, PREEMPTIONS)
    print(case.__name__, tried_orders)
    assert tried_orders > 20
