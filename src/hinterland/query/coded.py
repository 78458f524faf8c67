"""Numbers of a column, copied as they come: codes of one or two bytes while few of them differ."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from .. import _core
from ..runtime.thresholds import CHUNK, CODES_WAITING
from ..table import UnifiedTensor

_CODE = torch.uint16  # until it is known how many differ


class NumberCopy:
    """A copy of a column of numbers, or of their codes.

    Args:
        bits: of a number; codes are tried for 32 and 64.
        rows: of the column.
        room: makes memory for so many bits a row.
    """

    def __init__(self, bits: int, rows: int, room: Callable[[int], UnifiedTensor]) -> None:
        self._bits, self._rows, self._room = bits, rows, room
        self._known = _core.QueryCodes(bits // 8) if bits >= 32 else None  # until more differ than it tells apart
        self._codes = torch.empty(min(rows, CODES_WAITING), dtype=_CODE)  # of the first rows; of all, once there is a room
        self._values = room(bits) if self._known is None else None  # or codes

    def add(self, values: int, begin: int, count: int) -> None:
        """Copies ``count`` numbers that lie at an address: those of rows from ``begin`` on, where the last ones ended."""
        width = self._bits // 8
        while count and self._known is not None:
            some = min(count, len(self._codes) - begin)
            if not some:
                self._take_room()
            elif self._known.add(values, some, self._codes[begin:].data_ptr()):
                values, begin, count = values + some * width, begin + some, count - some
            else:
                self._put_back(begin)
        if count:
            assert self._values is not None
            _core.copy_bytes(self._values.cpu().data_ptr() + begin * width, values, count * width)

    def done(self) -> tuple[UnifiedTensor, int, np.ndarray | None]:
        """What was copied, the bits of each, and, of codes, the bits of what they stand for, as signed integers."""
        if self._known is None:
            assert self._values is not None
            return self._values, self._bits, None
        entries = self._entries()
        bits = 8 if len(entries) <= 1 << 8 else 16
        if self._values is None or bits == 8:
            self._values = self._room(bits)
            narrow = torch.uint8 if bits == 8 else _CODE
            self._values.cpu().view(narrow)[: self._rows] = self._codes[: self._rows]
        return self._values, bits, entries

    def _take_room(self) -> None:
        """For the codes of all rows."""
        self._values = self._room(8 * _CODE.itemsize)
        codes = self._values.cpu().view(_CODE)[: self._rows]
        codes[: len(self._codes)] = self._codes
        self._codes = codes

    def _put_back(self, end: int) -> None:
        """The numbers themselves, of rows before ``end``: from there on more differ."""
        entries = torch.from_numpy(self._entries())
        self._known, self._values = None, self._room(self._bits)
        numbers = self._values.cpu().view(entries.dtype)
        for begin in range(0, end, CHUNK):
            some = self._codes[begin : min(end, begin + CHUNK)]
            numbers[begin : begin + len(some)] = entries[some.int()]

    def _entries(self) -> np.ndarray:
        """The number of each code, by its bits."""
        assert self._known is not None
        entries = np.empty(len(self._known), f"int{self._bits}")
        self._known.copy_to(entries.ctypes.data)
        return entries
