"""What the disk under a folder gives: in sequence, and to random 4-KiB reads by more and more threads.

The measured file has no name (it is unlinked as it is opened), so that nothing is left behind, whatever ends the
process.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from .. import _core
from ..machine.model import Disk
from ..runtime.errors import StorageError
from ..runtime.units import format_bytes

_PIECE = 256 << 20  # one native call; between two of them time and Ctrl-C are looked at
# Chosen, not measured: the least that is written, what stays free, and threads that read or write in sequence.
_SMALLEST, _KEEP_FREE, _SEQUENTIAL_THREADS = 64 << 20, 1 << 30, 8
_SECONDS = 3.0  # about what each of the three phases may take


def measure(folder: Path, full: bool = False) -> tuple[Disk | None, list[str]]:
    """Measures the disk under ``folder``; returns the figures and sentences about what was left out.

    Writes up to 1 GiB (8 GiB if ``full``) of random data, less where little space is free, and none where a gibibyte
    would not stay free. Each phase stops after a few seconds however slow the disk is.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        room = shutil.disk_usage(folder).free - _KEEP_FREE
        size = min(8 << 30 if full else 1 << 30, room // 2 // _SMALLEST * _SMALLEST)
        if size < _SMALLEST:
            free = format_bytes(max(room + _KEEP_FREE, 0))
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
    random = {
        threads: _core.random_reads(file, written, threads, limit / 3, seed, direct) for seed, threads in enumerate((1, 8, 64))
    }
    left_out = []
    if not direct:
        left_out.append(f"disk {folder}: its file system has no direct I/O, so its figures are the page cache's")
    return Disk(str(folder), direct, read_rate, write_rate, random), left_out


def _sequential(file: str, size: int, limit: float, *, write: bool, direct: bool) -> tuple[int, float]:
    """Transfers up to ``size`` bytes in about ``limit`` seconds at most: bytes done, and bytes a second."""
    start = time.perf_counter()
    done, seconds = 0, 0.0
    while done < size and seconds < limit:
        piece = min(_PIECE, size - done)
        _core.transfer_file(file, done, piece, _SEQUENTIAL_THREADS, write, direct)
        done += piece
        seconds = time.perf_counter() - start
    return done, done / seconds
