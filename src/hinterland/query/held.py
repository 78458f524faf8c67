"""A table's columns in page-locked memory that GPUs address: each in one piece, copied from the file when first asked for.

Of numbers that repeat, codes are kept, so that fewer bytes cross the link: whatever the file is, prices, quantities and dates
take one or two bytes a row there.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import weakref
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import torch

from .. import _core
from ..memory import UnifiedTensor
from ..runtime.errors import FormatError
from ..storage.names import reading
from .bounds import Kind
from .files import Table, open_table
from .segments import Segment, segment_of
from .texts import Numbers

_BLOCK = _core.QUERY_BLOCK_ROWS
_CODES = "uint16"  # of numbers, until it is known how many differ
_LOOKED_AT = 1 << 18  # rows that are coded for a try: chosen, not measured
_PUT_BACK = 1 << 20  # rows whose codes are replaced at a time: chosen, not measured


@dataclass
class HeldColumn:
    """A column, in rows of whole blocks.

    Attributes:
        element: what lies in memory; decimals are int64, texts the codes of all their dictionaries together, and numbers of
            which few differ are codes, too.
        bits: of a value.
        taken: how values are compared and added: as int64, uint64 or float64.
        texts: what the codes of texts stand for.
        entries: what the codes of numbers stand for, as they are taken, int64 on the device; None of others.
        values: its memory, uint8.
        valid: a bit for each row that says whether it has a value, uint8; None where all have.
        rows: of the file.
    """

    element: str
    bits: int
    taken: str
    texts: Numbers
    entries: torch.Tensor | None
    values: UnifiedTensor
    valid: UnifiedTensor | None
    rows: int

    @functools.cached_property
    def span(self) -> tuple[int, int]:
        """The least number of a group, and how many there are from it to the greatest: codes, or whole numbers as they are.
        What nulls hold counts as well."""
        if self.entries is not None:
            return 0, len(self.entries)
        if len(self.texts):
            return 0, len(self.texts)
        if self.element == "bool":
            return 0, 2
        if not self.rows:
            return 0, 1
        numbers = _as(self.values, self.element)[: self.rows]
        if numbers.dtype in (torch.uint16, torch.uint32, torch.uint64):  # which torch does not compare
            found = numbers.numpy()
            least, greatest = int(found.min()), int(found.max())
        else:
            least, greatest = (int(one) for one in torch.aminmax(numbers))
        return least, greatest - least + 1


_made: weakref.WeakSet[HeldTable] = weakref.WeakSet()


def _anew_in_child() -> None:
    """A thread that asked while the process was forked is not in the child, nor those that decode."""
    for held in _made:
        held.one_at_a_time, held._opened = threading.RLock(), None


os.register_at_fork(after_in_child=_anew_in_child)


class HeldTable:
    """The table in a file, which stays open.

    Args:
        path: of the file.
        device: whose columns it holds: of a GPU; the CPU reads the file.
    """

    def __init__(self, path: str, device: torch.device) -> None:
        self.path, self.device = path, device
        self.one_at_a_time = threading.RLock()  # who asks it
        self._opened: tuple[tuple[int, ...], Table] | None = None
        self._columns: dict[str, HeldColumn] = {}
        _made.add(self)

    def table(self) -> Table:
        """The file, opened again where it has changed.

        Raises:
            ConfigError: it is no table.
            FormatError: it is damaged.
            StorageError: it cannot be read.
        """
        with reading(self.path):
            found = os.stat(self.path)
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if self._opened is None or self._opened[0] != stamp:
            self._opened, self._columns = None, {}
            self._opened = stamp, open_table(self.path)
        return self._opened[1]

    def columns(self, kinds: dict[str, Kind]) -> dict[str, HeldColumn]:
        """Those of some names, copied unless they were.

        Raises:
            FormatError: the file is damaged.
            OutOfMemory: they do not fit the host's memory.
        """
        table = self.table()
        missing = {name: _Copy(kind, table.rows, self.device) for name, kind in kinds.items() if name not in self._columns}
        parts = table.parts_left(names=missing) if missing else []
        for part, after in zip_longest(parts, parts[1:]):
            for name, begin, array in table.read(part, dict.fromkeys(missing), after=after):
                if len(array):
                    missing[name].add(f"{self.path}: the column {name!r}", array, begin)
        self._columns.update({name: copy.done() for name, copy in missing.items()})
        return {name: self._columns[name] for name in kinds}


class _Copy:
    """A column while it is copied."""

    def __init__(self, kind: Kind, rows: int, device: torch.device) -> None:
        self.kind, self.rows, self.device = kind, rows, device
        self.room = max(-(-rows // _BLOCK), 1) * _BLOCK
        self.texts = Numbers()
        self.bits = 64 if kind.element == "decimal" else kind.bits
        coded = kind.family != "text" and self.bits >= 32
        self.codes = _core.QueryCodes(self.bits // 8) if coded else None  # until more values differ than it tells apart
        self.valid: UnifiedTensor | None = None

    @functools.cached_property
    def values(self) -> UnifiedTensor:
        """The room for them, or for their codes."""
        return self._room(self.bits if self.codes is None else np.iinfo(_CODES).bits)

    def _room(self, bits: int) -> UnifiedTensor:
        # The copy engine, which brings what filters compare, takes memory that is mapped a fault at a time, and this as it is.
        made = UnifiedTensor.empty((self.room * bits // 8,), torch.uint8, "registered")
        made.cpu()[self.rows * bits // 8 :] = 0
        return made

    def add(self, what: str, array: Any, begin: int) -> None:
        """Copies rows from ``begin`` on."""
        segment = segment_of(what, array, begin, self.kind, self.texts)
        if segment.valid and self.valid is None:
            self.valid = self._room(1)
            self.valid.cpu().fill_(255)
        if self.valid is not None:
            if segment.valid:
                _put_bits(self.valid, segment, segment.valid, segment.valid_at)
            else:
                _set_bits(self.valid.cpu().numpy(), begin, np.ones(len(array), np.uint8))
        if self.kind.element == "bool":
            _put_bits(self.values, segment, segment.values, segment.value_at)
        elif self.kind.family == "text":
            _as(self.values, "int32")[begin : segment.end] = self._codes(what, segment)
        elif self.kind.element == "decimal":
            numbers = self._whole(what, segment)
            self._put(numbers.data_ptr(), begin, len(array))
        else:
            self._put(segment.values, begin, len(array))

    def _put(self, values: int, begin: int, count: int) -> None:
        """Copies numbers that lie at an address, or their codes."""
        if self.codes is not None and not begin:
            tried = np.empty(min(count, _LOOKED_AT), _CODES)
            if not self.codes.add(values, len(tried), tried.ctypes.data):
                self.codes = None  # before there is a room for them
        if self.codes is not None:
            if self.codes.add(values, count, self.values.cpu().data_ptr() + begin * np.dtype(_CODES).itemsize):
                return
            self._put_back(begin)
        width = self.bits // 8
        _core.copy_bytes(self.values.cpu().data_ptr() + begin * width, values, count * width)

    def _put_back(self, end: int) -> None:
        """The numbers themselves, of rows before ``end``."""
        codes, entries = _as(self.values, _CODES)[:end], torch.from_numpy(self._entries())
        self.codes, self.values = None, self._room(self.bits)
        numbers = _as(self.values, f"int{self.bits}")
        for begin in range(0, end, _PUT_BACK):
            some = codes[begin : begin + _PUT_BACK]
            numbers[begin : begin + len(some)] = entries[some.int()]

    def _entries(self) -> np.ndarray[Any, Any]:
        """The number of each code, by its bits."""
        assert self.codes is not None
        entries = np.empty(len(self.codes), f"int{self.bits}")
        self.codes.copy_to(entries.ctypes.data)
        return entries

    def _codes(self, what: str, segment: Segment) -> torch.Tensor:
        codes = torch.from_numpy(_memory(segment.values, segment.end - segment.begin, segment.element).astype(np.int64))
        outside = (codes < 0) | (codes >= segment.entries)
        if bool(outside.any()):
            if bool((outside & _has_value(segment)).any()):
                raise FormatError(f"{what} has codes that its dictionary does not have; the file is damaged, write it again")
            codes = codes.masked_fill(outside, 0)
        return torch.from_numpy(_memory(segment.codes, max(segment.entries, 1), "int32"))[codes]

    def _whole(self, what: str, segment: Segment) -> torch.Tensor:
        halves = torch.from_numpy(_memory(segment.values, 2 * (segment.end - segment.begin), "int64")).view(-1, 2)
        wide = halves[:, 1] != halves[:, 0] >> 63
        if bool(wide.any()) and bool((wide & _has_value(segment)).any()):
            raise FormatError(f"{what} has decimals of more than 18 digits; the file is damaged, write it again")
        return halves[:, 0].contiguous()

    def done(self) -> HeldColumn:
        """What was copied; codes of few texts and numbers are narrow."""
        element = "int64" if self.kind.element == "decimal" else self.kind.element
        taken = {"u": "uint64", "f": "float64"}.get(np.dtype(element).kind, "int64")
        values, bits, entries = self.values, self.bits, None
        if self.kind.family == "text":
            values, element, bits = self._narrowed("int32", len(self.texts))
        elif self.codes is not None:
            numbers = self._entries().view(element).astype(taken)
            entries = torch.from_numpy(numbers.view(np.int64)).to(self.device)
            values, element, bits = self._narrowed(_CODES, len(numbers))
        return HeldColumn(element, bits, taken, self.texts, entries, values, self.valid, self.rows)

    def _narrowed(self, element: str, count: int) -> tuple[UnifiedTensor, str, int]:
        """Codes of so many things, in as few bytes as they need; what lies there, and its bits."""
        narrow = next((few for few in ("uint8", "uint16") if count <= np.iinfo(few).max + 1), element)
        bits, values = np.iinfo(narrow).bits, self.values
        if narrow != element:
            values = self._room(bits)
            _as(values, narrow)[: self.rows] = _as(self.values, element)[: self.rows]
        return values, narrow, bits


def _as(values: UnifiedTensor | torch.Tensor, element: str) -> torch.Tensor:
    return values.cpu().view(getattr(torch, element))


def _memory(address: int, count: int, element: str) -> np.ndarray[Any, Any]:
    """Numbers that lie at an address."""
    kind = np.dtype(element)
    if not count:
        return np.zeros(0, kind)
    return np.frombuffer(memoryview((ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)), kind)


def _has_value(segment: Segment) -> torch.Tensor:
    rows = segment.end - segment.begin
    if not segment.valid:
        return torch.ones(rows, dtype=torch.bool)
    return torch.from_numpy(_bits(segment.valid, segment.valid_at, rows)).bool()


def _bits(address: int, at: int, rows: int) -> np.ndarray[Any, Any]:
    """A byte for each of a bitmap's bits from ``at`` on."""
    return np.unpackbits(_memory(address, (at + rows + 7) // 8, "uint8"), bitorder="little")[at : at + rows]


def _put_bits(room: UnifiedTensor, segment: Segment, address: int, at: int) -> None:
    to, rows = room.cpu().numpy(), segment.end - segment.begin
    if segment.begin % 8 == 0 and at % 8 == 0:  # what its last byte has beyond the rows, the next segment's replace
        to[segment.begin // 8 : (segment.end + 7) // 8] = _memory(address + at // 8, (rows + 7) // 8, "uint8")
    else:
        _set_bits(to, segment.begin, _bits(address, at, rows))


def _set_bits(to: np.ndarray[Any, Any], begin: int, bits: np.ndarray[Any, Any]) -> None:
    touched = to[begin // 8 : (begin + len(bits) + 7) // 8]
    unpacked = np.unpackbits(touched, bitorder="little")
    unpacked[begin % 8 : begin % 8 + len(bits)] = bits
    touched[:] = np.packbits(unpacked, bitorder="little")
