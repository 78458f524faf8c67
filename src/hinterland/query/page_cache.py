"""Files that are mapped: what the page cache lacks is asked of the disk before it is touched, for a fault at a time is slow."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core

_PAGE = _core.FILE_PAGE
_END = 64 << 10  # of a file, which says what is in it
_SYS = Path("/sys")
_READAHEAD = 128 << 10  # Linux's own, where the disk's is not known


class MappedFile:
    """A file that is mapped. Unlike Python's mmap it keeps no descriptor: a table may have more files than a process may open.

    Attributes:
        buffer: all its bytes, one of pyarrow's.
    """

    def __init__(self, path: str) -> None:
        import pyarrow

        with pyarrow.memory_map(os.fsencode(path)) as file:
            first = file.read_buffer(1)  # holds the mapping; of all of it pyarrow would ask the disk
            self.buffer: Any = pyarrow.foreign_buffer(first.address, file.size(), first)
        self._device = os.stat(path).st_dev
        self.read_around(False)
        end = self.buffer.address + self.buffer.size
        self.ask_for(np.array([[end - _END, end]]))

    def read_around(self, around: bool) -> None:
        """Whether a page that is touched, and was not asked for, comes with the disk's readahead around it. It does not at
        first: what is read as a file is opened lies far apart."""
        if self.buffer.size:
            _core.read_around(self.buffer.address, self.buffer.size, around)

    def ask_for(self, ranges: np.ndarray) -> None:
        """Asks the disk for ranges of addresses, [n, 2], int64, as far as they lie in it, unless the page cache has them."""
        begin = self.buffer.address
        ranges = np.clip(ranges, begin, begin + self.buffer.size)
        ranges = np.ascontiguousarray(ranges[ranges[:, 0] < ranges[:, 1]])
        some = np.concatenate([ranges[:, 0], ranges.sum(1) // 2, ranges[:, 1] - 1]) // _PAGE * _PAGE
        if _core.pages_missing(some.ctypes.data, len(some)):
            _core.ask_for_pages(ranges.ctypes.data, len(ranges), readahead_of(self._device))


@cache
def readahead_of(device: int) -> int:
    """Bytes that Linux takes of one that is asked for, of the disk of this ``st_dev``."""
    name = f"{os.major(device)}:{os.minor(device)}"
    for folder in (f"class/bdi/{name}", f"dev/block/{name}/../bdi"):  # a partition has its disk's
        with suppress(OSError, ValueError):
            return max(int((_SYS / folder / "read_ahead_kb").read_text()) << 10, _READAHEAD)
    return _READAHEAD
