"""Reads and writes that a GPU's threads ask for by themselves (Mailthody 2022, sections 5.4, 5.5 and 7.1.8), beside what bounds
them.

Devices in memory (hinterland_papers/bam/devices.py) have the controller and the link to themselves; each of its threads is a
controller with queues of its own. A file has its disk, beside run_raw of the same blocks. Hits are compared with plain pointers
to the same numbers. On a CPU it runs small. (Access patterns are in storage_patterns.)
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks._rows import Rows
from benchmarks.storage import PAIRS
from hinterland import _core
from hinterland.probe.storage import DEPTH
from hinterland.runtime import devices
from hinterland.runtime.params import struct
from hinterland.storage.on_device import Backing, DeviceStore
from hinterland_papers import _core as papers_core
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.elements import read_elements, write_elements
from hinterland_papers.bam.latency import time_reads
from hinterland_papers.bam.patterns import PATTERNS, read_pattern

_Array = struct("memory::ArrayWords")
_FIRST = 4096  # the first page is no array's
_FIRST_LINE = 65536  # lines of any size begin there
RUNS = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the measured file goes: the disk in question")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(options.device)
    small = options.small or device.type == "cpu"
    return {name: PARTS[name](device, small, options.folder) for name in options.only.split(",")}


@functools.cache
def _memory(nbytes: int) -> torch.Tensor:
    return torch.arange(nbytes // 8, dtype=torch.int64)


def _bytes(small: bool) -> int:
    return (16 << 20) if small else (4 << 30)


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
            before, begin = store.counts()["reads"], devices.idle_at(device)
            _, total = read_elements(store.array(_FIRST), (x.nbytes - _FIRST) // 8, x.dtype, device, at, len(at), keeps=False)
            seconds.append(devices.idle_at(device) - begin)
        reads = store.counts()["reads"] - before
        # What lies there is its own number: an arithmetic that nothing else would come to.
        assert int(total) == int((at + _FIRST // 8).sum()), "a wrong number was read"
    best = statistics.median(seconds)
    return {"reads a second": reads / best, "GB/s": reads * store.line_bytes / best / 1e9}


def _room(small: bool) -> int:
    """Of a cache."""
    return (4 << 20) if small else (256 << 20)


def _store(x: torch.Tensor, device: torch.device, room: int, line_bytes: int, timing: str = "none", **more: Any) -> DeviceStore:
    backing = Device(address=x.data_ptr(), bytes=x.nbytes, timing=timing)
    return DeviceStore(backing, device, room, line_bytes, **more)


def _threads(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """512-byte and 4-KiB reads against threads and queues."""
    x = _memory(_bytes(small))
    found = Rows()
    for line in (512, 4096):
        for threads in (1, 2) if small else (1, 2, 4, 8, 12):
            for channels in (threads, 4 * threads):
                store = _store(x, device, _room(small), line, channels=channels, threads=threads, depth=1024)
                count = 500 if small else 4_000_000 if line == 512 else 500_000
                found.append({"line": line, "threads": threads, "queues": channels, **_missed(store, x, count, device)})
                store.close()
    return found


def _devices(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Lines that are dealt round over 1 to 8 devices in memory, each as fast as an Optane, with a thread for each."""
    x = _memory((64 << 20) if small else (8 << 30))
    found = Rows()
    for line in (512, 4096):
        for count in (1, 2) if small else (1, 2, 4, 8):
            dealt = [x.view(-1, line // 8)[i::count].contiguous() for i in range(count)]
            parts = tuple(Device(address=part.data_ptr(), bytes=part.nbytes, timing="optane") for part in dealt)
            backing = Backing(parts=parts, stripe=line)
            store = DeviceStore(backing, device, _room(small), line, channels=4 * count, depth=1024, threads=count)
            reads = 20_000 if small else 4_000_000 if line == 512 else 1_000_000
            found.append({"line": line, "devices": count, **_missed(store, x, reads, device)})
            store.close()
    return found


def _depths(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Eight threads, 4-KiB reads against queues and their depth."""
    x = _memory(_bytes(small))
    found = Rows()
    for channels in (1, 2) if small else (8, 16, 48):
        for depth in (2, 64) if small else (16, 64, 256, 1024):
            store = _store(x, device, _room(small), 4096, channels=channels, threads=2 if small else 8, depth=depth)
            found.append({"queues": channels, "depth": depth, **_missed(store, x, 200 if small else 500_000, device)})
            store.close()
    return found


def _lines(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Eight threads, all sizes of a line, at random and in order, read and written."""
    x = _memory(_bytes(small))
    found = Rows()
    for line in (512, 4096, 65536) if small else (512, 1024, 2048, 4096, 8192, 16384, 65536):
        depth = min(1024, (1 << 29) // (16 * line))
        given = {"channels": 16, "threads": 2 if small else 8, "depth": min(depth, 64) if small else depth}
        count = min(500 if small else (1 << 30) // line, 2_000_000, (x.nbytes - 65536) // line)
        store = _store(x, device, _room(small), line, **given)
        read = _missed(store, x, count, device)
        in_order = _in_order(store, count, device)
        store.close()
        written = [_written(x, line, count, at_random, device, small, given) for at_random in (True, False)]
        found.append(
            {
                "line": line,
                "random reads/s": read["reads a second"],
                "GB/s": read["GB/s"],
                "in order GB/s": in_order,
                "random writes/s": written[0] / line,
                "writes GB/s": written[0] / 1e9,
                "writes in order GB/s": written[1] / 1e9,
            }
        )
    return found


def _in_order(store: DeviceStore, lines: int, device: torch.device) -> float:
    """GB/s of so many lines that follow each other."""
    count, seconds = lines * store.line_bytes // 8, []
    for _ in range(RUNS):
        with store.live():
            begin = devices.idle_at(device)
            read_elements(store.array(_FIRST), count, torch.int64, device, None, count, keeps=False)
            seconds.append(devices.idle_at(device) - begin)
    return count * 8 / statistics.median(seconds) / 1e9


def _written(
    x: torch.Tensor, line: int, count: int, at_random: bool, device: torch.device, small: bool, given: dict[str, int]
) -> float:
    """Bytes a second of whole lines, each overwritten by a warp, until all are on the device."""
    store = _store(x, device, _room(small), line, mode="r+", **given)
    first, run = 65536, line // 8  # a line begins there, whatever its size
    lines, seconds = (x.nbytes - first) // line, []
    for _ in range(RUNS):
        at = (torch.randperm(lines) if at_random else torch.arange(lines))[:count] * run
        before = store.counts()
        begin = devices.idle_at(device)
        with store.live():
            write_elements(store.array(first), lines * run, x.dtype, device, at.to(device), len(at), run=run)
        store.flush()
        seconds.append(devices.idle_at(device) - begin)
        counts = store.counts()
        assert counts["reads"] == before["reads"] and counts["writes"] - before["writes"] >= len(at), "lines were read"
        assert torch.equal(x[first // 8 + at], at), "a wrong number was written"
    store.close()
    torch.arange(len(x), out=x)
    return len(at) * line / statistics.median(seconds)


def _hits(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """All lines are there, in twice the room, so that hardly a pair of sets is full. In order, and 8 bytes at random, beside
    plain pointers."""
    nbytes = _bytes(small) * 2
    x = _memory(nbytes + _FIRST_LINE)
    there = x[_FIRST_LINE // 8 :].to(device)
    plain = _Array(home=there.data_ptr())
    store = _store(x, device, nbytes * 2, 4096, channels=16, threads=2 if small else 8)
    words, elements, found = store.array(_FIRST_LINE), nbytes // 8, Rows()
    with store.live():
        for _ in range(2):
            read_pattern(PATTERNS["a warp a line"], words, elements, 4096, device)
    for name in ("a warp a line", "a warp a line held once", "random"):
        took: dict[str, list[float]] = {"cached": [], "plain": []}
        before = store.counts()["reads"]
        for _ in range(1 + RUNS):
            totals = []
            for kind, array in (("cached", words), ("plain", plain)):
                with store.live():
                    begin = devices.idle_at(device)
                    totals.append(int(read_pattern(PATTERNS[name], array, elements, 4096, device)))
                    took[kind].append(devices.idle_at(device) - begin)
            assert totals[0] == totals[1], "something else was read"
        cached, raw = (statistics.median(took[kind][1:]) for kind in ("cached", "plain"))
        rates = {"GB/s": nbytes / cached / 1e9, "plain GB/s": nbytes / raw / 1e9, "of plain": raw / cached}
        found.append({"reads": name, **rates, "missed": store.counts()["reads"] - before})
    store.close()
    return found


def _stages(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Devices as slow as real ones: microseconds of one read alone, stage by stage, and the rate of many."""
    x = _memory(_bytes(small))
    found = Rows()
    for name in papers_core.TIMINGS:
        _core.count_stages(True)
        store = _store(x, device, _room(small), 4096, timing=name, channels=8, threads=2 if small else 8)
        _core.count_stages(False)
        lines = (x.nbytes - _FIRST) // 4096
        alone = time_reads(store, _FIRST, (torch.randperm(lines)[: 20 if small else 200] * 512).to(device))
        store.close()
        store = _store(x, device, _room(small), 4096, timing=name, channels=8, threads=2 if small else 8)
        rates = _missed(store, x, 200 if small else 500_000, device)
        found.append({"timing": name, **{f"{stage} us": ns / 1e3 for stage, ns in alone._asdict().items()}, **rates})
        store.close()
    return found


def _file(device: torch.device, small: bool, folder: Path) -> list[dict[str, Any]]:
    """Random 4-KiB reads and writes of a file, beside as many without a cache, by turns."""
    size = (16 << 20) if small else (4 << 30)
    with tempfile.TemporaryDirectory(dir=folder, prefix="hinterland-bench-") as name:
        path = Path(name) / "file.bin"
        with path.open("wb") as file:
            for begin in range(0, size // 8, 8 << 20):
                file.write(torch.arange(begin, min(begin + (8 << 20), size // 8), dtype=torch.int64).numpy().data)
            os.fsync(file.fileno())
        found = Rows()
        for threads in (1, 2) if small else (1, 4, 8):
            for writes in (False, True):
                found.append({"threads": threads, "writes": writes, **_of_file(path, size, threads, writes, small, device)})
    return found


def _of_file(path: Path, size: int, threads: int, writes: bool, small: bool, device: torch.device) -> dict[str, float]:
    """Pairs of runs, of which now one comes first and now the other; the queues are as many as the library has by itself."""
    lines, count = (size - _FIRST) // 4096, 500 if small else 100_000
    rates: dict[str, list[float]] = {"a second": [], "raw": []}
    cpu: dict[str, list[float]] = {"cpu us": [], "raw cpu us": []}  # of a transfer, by all threads
    given: dict[str, Any] = {"threads": threads, "mode": "r+" if writes else "r"}
    if small:
        given |= {"channels": 2 * threads, "depth": 64}

    def through_the_cache() -> None:
        store = DeviceStore(Backing(path=str(path)), device, 4 << 20 if small else 64 << 20, **given)
        at = torch.randperm(lines)[:count] * 512
        with store.live():
            # The threads have started, and what they read into is registered: they live as long as their store.
            read_elements(store.array(_FIRST), lines * 512, torch.int64, device, None, 1, keeps=False)
            begin = devices.idle_at(device)
            if writes:
                write_elements(store.array(_FIRST), lines * 512, torch.int64, device, at.to(device), count, run=512)
            else:
                read_elements(store.array(_FIRST), lines * 512, torch.int64, device, at.to(device), count, keeps=False)
        store.flush()
        rates["a second"].append(count / (devices.idle_at(device) - begin))
        cpu["cpu us"].append(store.stats().cpu_seconds / count * 1e6)
        store.close()  # a file has one writer

    def alone() -> None:
        offsets = torch.randperm(lines)[:count] * 4096
        ns, cpu_ns = _core.run_raw(str(path), offsets.data_ptr(), count, 4096, int(writes), threads, DEPTH, "auto")
        rates["raw"].append(count / ns * 1e9)
        cpu["raw cpu us"].append(cpu_ns / count / 1e3)

    for turn in range(2 if small else PAIRS):
        for one in (through_the_cache, alone)[:: 1 if turn % 2 == 0 else -1]:
            one()
    ratio = statistics.median(ours / raw for ours, raw in zip(*rates.values(), strict=True))
    medians = {name: statistics.median(each) for name, each in (rates | cpu).items()}
    return {**medians, "of raw": ratio}


PARTS: dict[str, Callable[..., Any]] = {
    "threads": _threads,
    "devices": _devices,
    "depths": _depths,
    "lines": _lines,
    "hits": _hits,
    "stages": _stages,
    "file": _file,
}
