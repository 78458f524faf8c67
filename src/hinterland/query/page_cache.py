"""Files that the page cache does not have: the pages that hold what is wanted are asked for before they are touched.

Mailthody (2022, section 3.3) reads the columns on which a query depends in 4-KiB pages, and only those with matching rows.
Pages that lie near each other are asked for together, with those between them: a request costs a disk as much time as some
bytes in sequence.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import _core, machine
from ..machine.model import Disk
from .rows import Wanted

PAGE = _core.FILE_PAGE
_PAGE_BITS = 8 * PAGE
_LOOKED_AT = 16  # pages of a buffer, to know whether the page cache has it; each takes a microsecond. Chosen, not measured
# Bytes that a disk brings in sequence while it answers one request, where it was not probed: of 1.9 GB/s and 117,000 requests.
_BYTES_OF_REQUEST = 16 << 10
_SYS = Path("/sys")
_READAHEAD = 128 << 10  # Linux's own, where the disk's is not known


class Pages(NamedTuple):
    """Bytes of pages: asked for, and of those among them that hold something wanted."""

    asked: int
    least: int


@dataclass(frozen=True)
class Values:
    """``count`` values of ``bits`` each, the first at bit ``address``. Each is of ``rows`` rows, from ``begin`` on."""

    begin: int
    address: int
    bits: int
    count: int
    rows: int = 1

    def pages(self, wanted: Wanted | None) -> np.ndarray:
        """Addresses of the pages in which values of wanted rows lie, or any values."""
        first, last = self.address // _PAGE_BITS, -(-(self.address + self.count * self.bits) // _PAGE_BITS)
        pages = np.arange(first, last, dtype=np.int64)
        if wanted is not None:
            at = pages * _PAGE_BITS - self.address
            begins = np.maximum(at // self.bits, 0) * self.rows
            ends = np.minimum(-(-(at + _PAGE_BITS) // self.bits), self.count) * self.rows
            pages = pages[wanted(self.begin + begins, self.begin + ends)]
        return pages * PAGE


class MappedFile:
    """A file that is mapped.

    Args:
        file: its descriptor.
    """

    def __init__(self, file: int) -> None:
        self.map = mmap.mmap(file, 0, prot=mmap.PROT_READ)
        self._begin = np.frombuffer(self.map, np.uint8).ctypes.data
        self._device = os.fstat(file).st_dev
        self.map.madvise(mmap.MADV_RANDOM)  # what is touched comes by itself, without pages around it that nobody may want

    def read_around(self) -> None:
        """Has the system read ahead where pages are touched, as it does by itself."""
        self.map.madvise(mmap.MADV_NORMAL)

    def ask_for(self, values: list[Values], wanted: Wanted | None) -> Pages | None:
        """Asks the disk for the pages of wanted rows. None where the page cache has them, or they lie elsewhere."""
        values = [one for one in values if one.count and self.has(one)]
        if not any(_missing(one.pages(None)) for one in values):  # which wanted pages there are takes longer
            return None
        pages = [one.pages(wanted) for one in values]
        if not any(_missing(starts) for starts in pages):
            return None
        asked = sum(self._ask(starts, starts + PAGE) for starts in pages)
        return Pages(asked, PAGE * sum(len(starts) for starts in pages))

    def ask_for_bytes(self, ranges: np.ndarray) -> None:
        """Asks the disk for ranges of addresses, [n, 2], int64, as far as they lie in it, unless the page cache has them."""
        begins, ends = self._pages_of(ranges)
        if _missing_of(begins, ends):
            self._ask(begins, ends)

    def lacks(self, ranges: np.ndarray) -> bool:
        """Whether the page cache lacks some of such ranges, of which some pages are looked at."""
        return _missing_of(*self._pages_of(ranges))

    def _pages_of(self, ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the pages of ranges begin and end, in order, as far as they lie in it."""
        ranges = np.minimum(np.maximum(ranges[np.argsort(ranges[:, 0])], self._begin), self._begin + len(self.map))
        ranges = ranges[ranges[:, 0] < ranges[:, 1]]
        return ranges[:, 0] // PAGE * PAGE, -(-ranges[:, 1] // PAGE) * PAGE

    def has(self, values: Values) -> bool:
        """Whether they lie in it."""
        end = 8 * (self._begin + len(self.map))
        return 8 * self._begin <= values.address and values.address + values.count * values.bits <= end

    @cached_property
    def _of_request(self) -> int:
        return bytes_of_request(self._device)

    def _ask(self, begins: np.ndarray, ends: np.ndarray) -> int:
        """Asks for ranges of pages, which are in order, and for short gaps between them; how many bytes these are."""
        if not len(begins):
            return 0
        apart = np.flatnonzero(begins[1:] - ends[:-1] > self._of_request)
        ranges = np.stack([begins[np.append(0, apart + 1)], ends[np.append(apart, -1)]], axis=1)
        _core.ask_for_pages(ranges.ctypes.data, len(ranges), readahead_of(self._device))
        return int((ranges[:, 1] - ranges[:, 0]).sum())


def _missing_of(begins: np.ndarray, ends: np.ndarray) -> bool:
    return _missing(np.concatenate([begins, (begins + ends) // 2, ends - PAGE]))


def _missing(pages: np.ndarray) -> bool:
    """Whether the page cache lacks some of the pages at these addresses; some of them are looked at."""
    if len(pages) > _LOOKED_AT:  # not each k-th, which may all be of one column
        pages = pages[np.linspace(0, len(pages) - 1, _LOOKED_AT).astype(np.int64)]
    some = np.ascontiguousarray(pages)
    return bool(_core.pages_missing(some.ctypes.data, len(some)))


@cache
def readahead_of(device: int) -> int:
    """Bytes that Linux takes of one that is asked for, of the disk of this ``st_dev``."""
    name = f"{os.major(device)}:{os.minor(device)}"
    for folder in (f"class/bdi/{name}", f"dev/block/{name}/../bdi"):  # a partition has its disk's
        with suppress(OSError, ValueError):
            return max(int((_SYS / folder / "read_ahead_kb").read_text()) << 10, _READAHEAD)
    return _READAHEAD


def bytes_of_request(device: int) -> int:
    """Bytes that the disk of this ``st_dev`` brings in sequence while it answers one request, if it was probed."""
    known = machine.load()
    disk = known.disk if known is not None else None
    try:
        if disk is not None and disk.direct and os.stat(disk.path).st_dev == device:
            return request_bytes(disk)
    except OSError:
        pass
    return _BYTES_OF_REQUEST


def request_bytes(disk: Disk) -> int:
    """The same of a disk that was measured."""
    return int(disk.sequential / max(disk.random4k.values()))
