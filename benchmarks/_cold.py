"""Files of which the page cache has nothing, and how much it has of one."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
from pathlib import Path


def forget(path: Path) -> bool:
    """Has the page cache drop a file; whether it did."""
    gc.collect()  # pages that are mapped would stay
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return resident(path) == 0


def resident(path: Path) -> int:
    """Bytes of a file that the page cache has (mincore), whole pages."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as mapped:
        pages = (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
        first = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(len(mapped)), pages)
        del first
        if failed:
            raise OSError(f"{path}: mincore refused")
        return bytes(pages).translate(_LOWEST).count(1) * mmap.PAGESIZE


_LOWEST = bytes(byte & 1 for byte in range(256))  # mincore's other bits mean nothing
