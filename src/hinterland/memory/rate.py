"""Whether a mapping is as fast as it should be, measured as memory is allocated.

The driver maps host memory in pages as large as the system gave it. Where memory is fragmented these are 4 KiB, and random rows
come ten times slower: nothing else says so.
"""

from __future__ import annotations

import torch

from ..runtime import devices
from ..runtime.thresholds import FALLEN_SHARE, LEAST_FALLEN
from ..runtime.units import format_bytes
from ..runtime.warned import warn_once

LEAST_MEASURED = 1 << 30  # bytes: a GPU translates the addresses of smaller memory without misses (docs/memory.md)
LEAST_RATE = 100e6  # rows a second; 300 M are expected, 30 M come from pages of 4 KiB
_WORDS = 8  # of a row: 64 bytes
_ROWS, _REPEATS = 1 << 18, 4  # 1 ms each at the rate that is expected


def random_rows(memory: torch.Tensor) -> float:
    """Rows of 64 bytes a second that a GPU reads at random places of ``memory``, uint8 ``[bytes]`` in a view of that GPU."""
    rows = memory[: memory.numel() // (8 * _WORDS) * 8 * _WORDS].view(torch.int64).view(-1, _WORDS)
    random = torch.Generator(memory.device).manual_seed(1)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(1 + _REPEATS):  # the first loads the kernel
        index = torch.randint(len(rows), (_ROWS,), generator=random, device=memory.device)
        begin.record()
        rows.index_select(0, index)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return _ROWS / min(times[1:])


def check_rate(memory: torch.Tensor, mapping: str = "managed") -> None:
    """Warns once if random rows of ``memory`` come slower than they should from memory that is mapped in large pages."""
    try:
        rate = random_rows(memory)
    except torch.OutOfMemoryError:
        return  # no room for the rows that are read; nothing is known, then
    if rate < LEAST_RATE:
        warn_once("mapping rate", (slow_system if mapping == "system" else slow)(memory.numel(), rate))


def slow_system(nbytes: int, rate: float) -> str:
    """What is said of plain memory that is slow."""
    return (
        f"random rows of {format_bytes(nbytes)} of plain host memory, which GPUs read by page tables that they share with the "
        f"CPU, come at {rate / 1e6:.0f} M/s, where 300 M/s are usual of managed memory; try placement='managed'"
    )


def refusal(memory: torch.Tensor, free: int) -> str:
    """Why managed memory that is more than its GPU had free is no good; empty where it is.

    Args:
        memory: as of :func:`random_rows`.
        free: bytes that the GPU had free before it was mapped: pages that move to the GPU take them.
    """
    nbytes = format_bytes(memory.numel())
    try:
        rate = random_rows(memory)
    except torch.OutOfMemoryError:
        return f"the GPU has no room to measure at what rate random rows of {nbytes} come"
    if rate < LEAST_RATE:
        return f"random rows of {nbytes} came at {rate / 1e6:.0f} M/s, where 300 M/s are usual"
    fallen = free - devices.free_bytes(memory.device)
    if fallen > max(LEAST_FALLEN, memory.numel() // FALLEN_SHARE):
        return f"the GPU's free memory fell by {format_bytes(fallen)} as {nbytes} were mapped and read"
    return ""


def slow(nbytes: int, rate: float) -> str:
    """What is said of managed memory that is slow."""
    return (
        f"random rows of {format_bytes(nbytes)} of managed host memory come at {rate / 1e6:.0f} M/s, where 300 M/s are usual: "
        "the system probably gave it pages of 4 KiB, because its memory is fragmented, or another program uses the link. Free "
        "host memory (the page cache as well: echo 3 > /proc/sys/vm/drop_caches), let the system join its pages (echo 1 > "
        "/proc/sys/vm/compact_memory), allocate large tables first, or restart the machine"
    )
