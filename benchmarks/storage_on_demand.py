"""Reads that a GPU's threads ask for by themselves (Mailthody 2022, sections 5.4 and 6.2), beside what bounds them.

Devices in memory (native/storage/memory_namespace.hpp) have the controller and the link to themselves; a file has its disk,
beside run_raw of the same blocks. Hits are compared with plain pointers to the same numbers. On a CPU it runs small.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hinterland import _core
from hinterland.runtime import devices
from hinterland.runtime.params import struct
from hinterland.storage.measure import DEPTH
from hinterland.storage.on_device import Backing, DeviceStore, read_elements

_Array = struct("memory::ArrayWords")
_FIRST = 4096  # the first page is no array's
RUNS = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured file goes: the disk in question")
    parser.add_argument("--only", default="threads,devices,lines,hits,timings,file", help="parts, separated by commas")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(options.device)
    small = options.small or device.type == "cpu"
    parts: dict[str, Callable[..., Any]] = {
        "threads": _threads,
        "devices": _devices,
        "lines": _lines,
        "hits": _hits,
        "timings": _timings,
        "file": _file,
    }
    return {name: parts[name](device, small, options.folder) for name in options.only.split(",")}


def _memory(nbytes: int) -> torch.Tensor:
    return torch.arange(nbytes // 8, dtype=torch.int64)


def _idle(device: torch.device) -> float:
    return devices.idle_at(device)


def _lines_apart(lines: int, count: int, line_bytes: int, device: torch.device) -> torch.Tensor:
    """An element of each of `count` random lines: none is asked for twice within a run, as far as there are so many."""
    chosen = torch.randperm(lines, device=device)[:count]
    return chosen * (line_bytes // 8) + torch.randint(0, line_bytes // 8, (len(chosen),), device=device)


def _missed(store: DeviceStore, x: torch.Tensor, count: int, device: torch.device) -> dict[str, float]:
    """Random lines, each for one element, so that nearly all are misses."""
    lines = (x.nbytes - _FIRST) // store.line_bytes
    seconds, reads = [], 0
    for _ in range(RUNS):
        at = _lines_apart(lines, count, store.line_bytes, device)
        with store.live():
            before, begin = store.counts()["reads"], _idle(device)
            _, total = read_elements(store.array(_FIRST), (x.nbytes - _FIRST) // 8, x.dtype, device, at, len(at), keeps=False)
            seconds.append(_idle(device) - begin)
        reads = store.counts()["reads"] - before
        # What lies there is its own number: an arithmetic that nothing else would come to.
        assert int(total) == int((at + _FIRST // 8).sum()), "a wrong number was read"
    best = statistics.median(seconds)
    return {"reads a second": reads / best, "GB/s": reads * store.line_bytes / best / 1e9}


def _store(
    x: torch.Tensor, device: torch.device, budget: int, line_bytes: int, timing: str = "none", **more: Any
) -> DeviceStore:
    backing = Backing(address=x.data_ptr(), bytes=x.nbytes, timing=timing)
    return DeviceStore(backing, device, budget, line_bytes, **more)


def _threads(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """512-byte and 4-KiB reads against threads and queues."""
    x = _memory((64 << 20) if small else (8 << 30))
    found = []
    for line in (512, 4096):
        for threads in (1, 2) if small else (1, 2, 4, 8, 12):
            for channels in (threads, 4 * threads):
                store = _store(x, device, 4 << 20 if small else 256 << 20, line, channels=channels, threads=threads, depth=1024)
                count = 20_000 if small else 4_000_000 if line == 512 else 1_000_000
                found.append({"line": line, "threads": threads, "queues": channels, **_missed(store, x, count, device)})
                store.close()
    return found


def _devices(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Lines that are dealt round over 1 to 8 devices in memory, each as fast as an Optane, with a thread for each."""
    x = _memory((64 << 20) if small else (8 << 30))
    found = []
    for line in (512, 4096):
        for count in (1, 2) if small else (1, 2, 4, 8):
            dealt = [x.view(-1, line // 8)[i::count].contiguous() for i in range(count)]
            parts = tuple(Backing(address=part.data_ptr(), bytes=part.nbytes, timing="optane") for part in dealt)
            backing = Backing(parts=parts, stripe=line)
            store = DeviceStore(
                backing, device, 4 << 20 if small else 256 << 20, line, channels=4 * count, depth=1024, threads=count
            )
            reads = 20_000 if small else 4_000_000 if line == 512 else 1_000_000
            found.append({"line": line, "devices": count, **_missed(store, x, reads, device)})
            store.close()
    return found


def _lines(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Eight threads, all sizes of a line."""
    x = _memory((64 << 20) if small else (8 << 30))
    found = []
    for line in (512, 1024, 2048, 4096, 8192, 16384, 65536):
        depth = min(1024, (1 << 29) // (16 * line))
        store = _store(x, device, 4 << 20 if small else 256 << 20, line, channels=16, threads=2 if small else 8, depth=depth)
        count = 2000 if small else (2 << 30) // line // 2
        found.append({"line": line, **_missed(store, x, min(count, 4_000_000), device)})
        store.close()
    return found


def _hits(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """All lines are there. In order, and 8 bytes at random, beside plain pointers."""
    nbytes = (16 << 20) if small else (8 << 30)
    x = _memory(nbytes + _FIRST)
    there = x[_FIRST // 8 :].to(device)
    plain = _Array(home=there.data_ptr())
    store = _store(x, device, nbytes * 5 // 4, 4096, channels=16, threads=2 if small else 8)
    elements = nbytes // 8
    with store.live():
        for _ in range(2):
            read_elements(store.array(_FIRST), elements, x.dtype, device, None, elements, keeps=False)
    misses = store.counts()["reads"]
    found = []
    at = torch.randint(0, elements, (100_000 if small else 1 << 27,), device=device)
    for name, positions, count in (("in order", None, elements), ("random 8 bytes", at, len(at))):
        took: dict[str, list[float]] = {"cached": [], "plain": []}
        for _ in range(RUNS):
            for kind, words in (("cached", store.array(_FIRST)), ("plain", plain)):
                with store.live():
                    begin = _idle(device)
                    read_elements(words, elements, x.dtype, device, positions, count, keeps=False)
                    took[kind].append(_idle(device) - begin)
        cached, raw = (statistics.median(took[kind]) for kind in ("cached", "plain"))
        rates = {"GB/s": count * 8 / cached / 1e9, "plain GB/s": count * 8 / raw / 1e9, "of plain": raw / cached}
        found.append({"reads": name, **rates, "missed": store.counts()["reads"] - misses})
    store.close()
    return found


def _timings(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Devices as slow as real ones, and the time that one read alone takes from its beginning to its end."""
    x = _memory((64 << 20) if small else (4 << 30))
    found = []
    for name, (latency, *_) in _core.CONTROLLER_TIMINGS.items():
        store = _store(x, device, 4 << 20 if small else 256 << 20, 4096, timing=name, channels=8, threads=2 if small else 8)
        lines = (x.nbytes - _FIRST) // 4096
        alone = []
        with store.live():
            for _ in range(50):
                at = torch.tensor([int(torch.randint(0, lines, ())) * 512], device=device)
                begin = _idle(device)
                read_elements(store.array(_FIRST), lines * 512, x.dtype, device, at, 1, keeps=False)
                alone.append(_idle(device) - begin)
        at = torch.zeros(1, dtype=torch.int64, device=device)
        empty = []
        with store.live():
            for _ in range(50):
                begin = _idle(device)
                read_elements(store.array(_FIRST), lines * 512, x.dtype, device, at, 1, keeps=False)
                empty.append(_idle(device) - begin)
        more = statistics.median(alone) - statistics.median(empty)
        rates = _missed(store, x, 2000 if small else 1_000_000, device)
        found.append({"device": name, "latency us": latency / 1e3, "a miss takes us more than a hit": more * 1e6, **rates})
        store.close()
    return found


def _file(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Random 4-KiB reads of a file, beside the same number without a cache, by turns."""
    size = (64 << 20) if small else (16 << 30)
    with tempfile.TemporaryDirectory(dir=folder, prefix="hinterland-bench-") as name:
        path = Path(name) / "file.bin"
        with path.open("wb") as file:
            for begin in range(0, size // 8, 8 << 20):
                file.write(torch.arange(begin, min(begin + (8 << 20), size // 8), dtype=torch.int64).numpy().data)
            os.fsync(file.fileno())
        found = []
        for threads in (1, 2) if small else (1, 2, 4, 8):
            store = DeviceStore(
                Backing(path=str(path)), device, 4 << 20 if small else 64 << 20, channels=2 * threads, threads=threads
            )
            lines, count = (size - _FIRST) // 4096, 5000 if small else 200_000
            ours, raw = [], []
            for _ in range(RUNS):
                at = _lines_apart(lines, count, 4096, device)
                with store.live():
                    before, begin_at = store.counts()["reads"], _idle(device)
                    read_elements(store.array(_FIRST), lines * 512, torch.int64, device, at, count, keeps=False)
                    ours.append((store.counts()["reads"] - before) / (_idle(device) - begin_at))
                offsets = torch.randperm(lines)[:count] * 4096
                ns, _ = _core.run_raw(str(path), offsets.data_ptr(), count, 4096, 0, threads, DEPTH, "auto")
                raw.append(count / ns * 1e9)
            ratio = statistics.median(a / b for a, b in zip(ours, raw, strict=True))
            found.append(
                {"threads": threads, "reads a second": statistics.median(ours), "raw": statistics.median(raw), "of raw": ratio}
            )
            store.close()
    return found
