"""What the CPU gets from its own memory: reading, copying, waiting, and gathering rows."""

from __future__ import annotations

from pathlib import Path

import torch

from .. import _core
from ..machine import cache
from ..machine.model import Cpu
from ..memory.limits import host_memory, meminfo
from ..runtime.thresholds import LEAST_COPIED
from ..table import UnifiedTensor
from . import random_rows
from .timing import best

_CHAIN_STRIDE = 512  # bytes: no two places of the latency chain on one line, nor on neighbours


def measure(full: bool = False) -> Cpu:
    """Measures CPU memory with all threads; the buffers are larger than the caches."""
    size = min(max(8 * _cache_bytes(), 256 << 20), 4 << 30 if full else 1 << 30)
    room = min(memory_bytes(), host_memory(0)[0])  # a control group may allow less than the machine has
    size = max(min(size, room // 8), LEAST_COPIED) // 4096 * 4096
    read, copy, latency = _in_sequence(size)
    curve = random_rows.on_cpu(size, full)
    row64 = next(point for point in curve if point.row_bytes == 64)
    return Cpu(
        model=cache.cpu_model(),
        cores=cache.cores(),
        memory_bytes=memory_bytes(),
        read=read,
        copy=copy,
        latency=latency,
        random_rows=row64.random / 64,
        rows=curve,
    )


def _in_sequence(size: int) -> tuple[float, float, float]:
    """Bytes a second read and copied between buffers of ``size`` bytes, and the seconds of one dependent read."""
    here = torch.device("cpu")
    source = UnifiedTensor.empty((size,), torch.uint8, placement="pageable").cpu().fill_(1)
    target = UnifiedTensor.empty((size,), torch.uint8, placement="pageable").cpu().fill_(0)
    read = best(lambda: _core.read_sequence(source.data_ptr(), size), here)
    copy = best(lambda: _core.copy_bytes(target.data_ptr(), source.data_ptr(), size), here)

    places = 1 << (size // _CHAIN_STRIDE).bit_length() - 1
    _core.write_chain(source.data_ptr(), places, _CHAIN_STRIDE // 8)
    steps = min(places, 200_000)
    chain = best(lambda: _core.read_chain(source.data_ptr(), 0, steps), here, repeats=1)
    return size / read, size / copy, chain / steps


def memory_bytes() -> int:
    """The machine's memory as the system reports it now (a virtual machine's may grow)."""
    return meminfo("MemTotal")


def _cache_bytes() -> int:
    """The largest cache of the first core, which several cores may share."""
    sizes = [64 << 20]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        if text.endswith("K") and text[:-1].isdecimal():
            sizes.append(int(text[:-1]) << 10)
    return max(sizes)
