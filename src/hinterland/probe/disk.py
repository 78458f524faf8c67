"""What the disk under a folder gives: in sequence, and to random 4-KiB reads, more and more of them under way at a time, by the
queues that arrays on storage read through (native/storage/raw.hpp).

The measured file has no name (it is unlinked as it is opened), so that nothing is left behind, whatever ends the
process.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import torch

from .. import _core
from ..machine.model import Disk
from ..runtime.engine import why_threads
from ..runtime.errors import StorageError
from ..runtime.thresholds import DISK_LEFT, LEAST_WRITTEN, SEQUENTIAL_THREADS
from ..runtime.units import format_bytes

_PIECE = 256 << 20  # one native call; between two of them time and Ctrl-C are looked at
_UNDER_WAY = (1, 8, 64, 256)  # random reads at a time: the first gives the time of one, the last all that a disk can do
_READS = 64  # of each of them in one native call
_SECONDS = 1.5  # about what each of the three phases may take, each of two times


def measure(folder: Path, full: bool = False) -> tuple[Disk | None, list[str]]:
    """Measures the disk under ``folder``; returns the figures and sentences about what was left out.

    Writes up to 1 GiB (8 GiB if ``full``) of random data, less where little space is free, and none where a gibibyte
    would not stay free. Each phase stops after a few seconds however slow the disk is.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        room = shutil.disk_usage(folder).free - DISK_LEFT
        size = min(8 << 30 if full else 1 << 30, room // 2 // LEAST_WRITTEN * LEAST_WRITTEN)
        if size < LEAST_WRITTEN:
            free = format_bytes(max(room + DISK_LEFT, 0))
            return None, [f"disk {folder}: not measured, only {free} are free; --disk-path names another folder"]
        limit = _SECONDS * 3 if full else _SECONDS
        with tempfile.TemporaryFile(dir=folder, prefix="hinterland-probe-") as file:
            return _measure(folder, f"/proc/self/fd/{file.fileno()}", size, limit)
    except (OSError, StorageError) as error:
        return None, [f"disk {folder}: not measured: {error.strerror or error}"]


def _measure(folder: Path, file: str, size: int, limit: float) -> tuple[Disk, list[str]]:
    direct = _core.takes_direct_io(file)
    written, write_rate = _sequential(file, size, limit, write=True, direct=direct)
    _, read_rate = _sequential(file, written, limit, write=False, direct=direct)
    random = {depth: _random(file, written, depth, limit / len(_UNDER_WAY)) for depth in _UNDER_WAY}
    left_out = []
    if not direct:
        left_out.append(f"disk {folder}: its file system has no direct I/O, so its figures are the page cache's")
    if why := why_threads():
        left_out.append(f"disk {folder}: {why}")
    return Disk(str(folder), direct, read_rate, write_rate, random), left_out


def _random(file: str, size: int, depth: int, limit: float) -> float:
    """Reads of 4 KiB a second, ``depth`` of them under way, of one thread."""
    generator = torch.Generator().manual_seed(depth)
    done, ns = 0, 0
    while ns < limit * 1e9:
        offsets = torch.randint(0, size // 4096, (_READS * depth,), generator=generator) * 4096
        ns += _core.run_raw(file, offsets.data_ptr(), len(offsets), 4096, 0, 1, depth, "auto")[0]
        done += len(offsets)
    return done / ns * 1e9


def _sequential(file: str, size: int, limit: float, *, write: bool, direct: bool) -> tuple[int, float]:
    """Transfers up to ``size`` bytes in about ``limit`` seconds at most: bytes done, and bytes a second."""
    start = time.perf_counter()
    done, seconds = 0, 0.0
    while done < size and seconds < limit:
        piece = min(_PIECE, size - done)
        _core.transfer_file(file, done, piece, SEQUENTIAL_THREADS, write, direct)
        done += piece
        seconds = time.perf_counter() - start
    return done, done / seconds
