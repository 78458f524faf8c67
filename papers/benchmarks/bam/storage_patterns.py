"""Access patterns by themselves, with their negative controls (Mailthody 2022, sections 6.1, 6.2 and 5.5.2).

Each is timed over the same numbers in this processor's memory and in the host's, through a cache that has all of them, and
through one that has none, over a device in memory that takes no time and over one that is as slow as an Optane: all in one run,
by turns, medians. ``cost`` is what a pattern takes more than reading in order does where the numbers lie in memory already.
"""

from __future__ import annotations

import argparse
import statistics
from contextlib import nullcontext
from typing import Any

import torch

from benchmarks._rows import Rows
from hinterland.memory.allocator import allocate
from hinterland.runtime import devices
from hinterland.runtime.params import Params, struct
from hinterland.storage.on_device import DeviceStore
from hinterland_papers.bam.devices import Device
from hinterland_papers.bam.patterns import PATTERNS, Pattern, read_pattern

_Array = struct("memory::ArrayWords")
_FIRST = 65536  # lines of any size begin here
RUNS = 3


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default=None, help="cpu or cuda; by default the GPU, if there is one")
    parser.add_argument("--lines", default=None, help="bytes of lines, separated by commas")


def run(options: argparse.Namespace) -> dict[str, Any]:
    device = devices.as_device(options.device)
    small = options.small or device.type == "cpu"
    lines = [int(line) for line in (options.lines or "4096" if small else options.lines or "512,4096").split(",")]
    nbytes = (512 << 10) if small else (2 << 30)
    buffer = allocate(_FIRST + nbytes, "pinned" if device.type == "cuda" else "pageable")
    x = buffer.tensor(torch.int64, torch.Size([buffer.nbytes // 8]))[: (_FIRST + nbytes) // 8]
    torch.arange(len(x), out=x)
    return {f"lines of {line}": _patterns(x, line, device, small) for line in lines}


def _patterns(x: torch.Tensor, line: int, device: torch.device, small: bool) -> list[dict[str, Any]]:
    elements = len(x) - _FIRST // 8
    there = x[_FIRST // 8 :].to(device)
    arrays: dict[str, tuple[DeviceStore | None, Params]] = {"memory": (None, _Array(home=there.data_ptr()))}
    if device.type == "cuda":
        arrays["host"] = None, _Array(home=x[_FIRST // 8 :].data_ptr())
    for name, room, timing in (
        ("hits", 2 * x.nbytes, "none"),
        ("misses", x.nbytes // 16, "none"),
        ("optane", x.nbytes // 16, "optane"),
    ):
        backing = Device(address=x.data_ptr(), bytes=x.nbytes, timing=timing)
        threads = 2 if small else 8
        store = DeviceStore(backing, device, room, line, channels=2 * threads, depth=256 if small else 1024, threads=threads)
        arrays[name] = store, store.array(_FIRST)
    _warm(arrays["hits"], elements, line, device)
    found, in_order = Rows(), {}
    for name, pattern in PATTERNS.items():
        took: dict[str, list[float]] = {kind: [] for kind in arrays}
        lines_read, reads = {}, {}
        for _ in range(1 if small else RUNS):
            for kind, (store, words) in arrays.items():
                if kind == "optane" and small:
                    continue
                before = store.counts()["reads"] if store else 0
                reads[kind] = elements if name != "random" or kind in ("memory", "hits") else min(elements, 1 << 20)
                took[kind].append(_seconds(pattern, words, elements, line, device, store, reads[kind]))
                lines_read[kind] = store.counts()["reads"] - before if store else 0
        median = {kind: statistics.median(times) for kind, times in took.items() if times}
        in_order = in_order or median
        row = {"pattern": name, **{f"{kind} GB/s": reads[kind] * 8 / t / 1e9 for kind, t in median.items()}}
        row |= {f"{kind} cost": median[kind] / in_order[kind] - 1 for kind in ("memory", "host") if kind in median}
        row |= {f"{kind} lines/s": lines_read[kind] / median[kind] for kind in ("misses", "optane") if kind in median}
        found.append(
            {**row, "missed hits": lines_read["hits"], "lines read": lines_read["misses"] * line / (reads["misses"] * 8)}
        )
    for store, _ in arrays.values():
        if store is not None:
            store.close()
    return found


def _warm(hits: tuple[DeviceStore | None, Params], elements: int, line: int, device: torch.device) -> None:
    store, words = hits
    for _ in range(2):
        _seconds(PATTERNS["a warp a line"], words, elements, line, device, store)


def _seconds(
    pattern: Pattern,
    words: Params,
    elements: int,
    line: int,
    device: torch.device,
    store: DeviceStore | None,
    reads: int | None = None,
) -> float:
    with store.live() if store else nullcontext():
        begin = devices.idle_at(device)
        read_pattern(pattern, words, elements, line, device, reads)
        return devices.idle_at(device) - begin
