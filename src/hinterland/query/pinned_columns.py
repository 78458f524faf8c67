"""A table's columns in page-locked memory that GPUs address: each in one piece, copied from the file when first asked for.

Of numbers of which few differ, as prices, quantities and dates, codes are kept, whatever the file is: fewer bytes to bring over
the link (coded.py).
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from .. import _core
from ..memory import report
from ..memory.limits import host_memory
from ..runtime.errors import OutOfMemory
from ..runtime.files import opening
from ..runtime.units import parse_bytes
from ..table import UnifiedTensor
from .arrays import taken, without_damage
from .bounds import ColumnKind
from .by_engine import ByEngine
from .coded import NumberCopy
from .file_set import files_of, open_files
from .table import FileTable
from .texts import TextCodes

_BLOCK = _core.QUERY_BLOCK_ROWS


@dataclass
class PinnedColumn:
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
    texts: TextCodes
    entries: torch.Tensor | None
    values: UnifiedTensor
    valid: UnifiedTensor | None
    rows: int

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def copy_rows(self, other: PinnedColumn, begin: int, blocks: int) -> None:
        """From another column those of blocks that follow each other, from the block ``begin`` on."""
        for mine, theirs, bits in ((self.values, other.values, self.bits), (self.valid, other.valid, 1)):
            if mine is not None and theirs is not None:
                some = theirs.cpu()[begin * _BLOCK * bits // 8 : (begin + blocks) * _BLOCK * bits // 8]
                mine.cpu()[: len(some)].copy_(some)

    def put(self, what: str, kind: ColumnKind, array: Any, begin: int) -> None:
        """Copies an array of Arrow's to rows from ``begin`` on; what lies there after them is overwritten.

        Raises:
            FormatError: the array is damaged; ``what`` names the column.
        """
        array = _stored(what, kind, array)
        if self.valid is not None:
            _put_bits(self.valid, array.is_valid(), begin)
        if self.element == "bool":
            _put_bits(self.values, array, begin)
        else:
            numbers = _aligned(array)
            _core.copy_bytes(self.values.cpu().data_ptr() + begin * self.bits // 8, numbers.ctypes.data, numbers.nbytes)

    def put_at(self, what: str, kind: ColumnKind, array: Any, rows: np.ndarray[Any, Any]) -> None:
        """The same to rows of these numbers, ascending, int64."""
        array = _stored(what, kind, array)
        if self.valid is not None:
            _set_bits(self.valid, array.is_valid(), rows)
        if self.element == "bool":
            _set_bits(self.values, array.fill_null(False), rows)
        else:
            to = f"u{self.bits // 8}"
            self.values.cpu().numpy().view(to)[rows] = _aligned(array).view(to)

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


_made: weakref.WeakSet[PinnedTable] = weakref.WeakSet()


def _anew_in_child() -> None:
    """A thread that asked while the process was forked is not in the child, nor those that read ahead."""
    for held in _made:
        held.one_at_a_time, held._opened = threading.RLock(), None


os.register_at_fork(after_in_child=_anew_in_child)


class PinnedTable:
    """The table in a file, which stays open.

    Args:
        paths: of the file, or of several, as ``files_of`` takes them.
        device: whose columns it holds: of a GPU; the CPU reads the file.
        budget: bytes of host memory for them; None is what can be had.
    """

    def __init__(self, paths: str | tuple[str, ...], device: torch.device, budget: int | str | None = None) -> None:
        self._paths, self.device = (paths,) if isinstance(paths, str) else paths, device
        self.budget = None if budget is None else parse_bytes(budget)
        self.path = self._paths[0] if len(self._paths) == 1 else f"{self._paths[0]} and {len(self._paths) - 1} more"
        self.one_at_a_time = threading.RLock()  # who asks it
        self._opened: tuple[tuple[Any, ...], FileTable] | None = None
        self._columns: dict[str, PinnedColumn] = {}
        self._too_large: list[set[str]] = []  # columns that together did not fit
        self._rooms: list[dict[str, PinnedColumn]] = []
        self._rooms_for: list[tuple[str, int, int]] = []
        _made.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        """The same file, to be opened, and its columns copied, where they are asked for."""
        return PinnedTable, (self._paths, self.device, self.budget)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU answers."""
        return self.device.type != "cpu"

    def table(self) -> FileTable:
        """The table, opened again where files have changed.

        Raises:
            ConfigError: it is no table.
            FormatError: it is damaged.
            StorageError: it cannot be read.
        """
        files = files_of(self._paths)
        stamps = tuple(map(_stamp_of, files))
        if self._opened is None or self._opened[0] != stamps:
            self._opened, self._columns, self._too_large = None, {}, []
            self._rooms, self._rooms_for = [], []
            self._opened = stamps, open_files(files, self.path)
        return self._opened[1]

    @property
    def held_bytes(self) -> int:
        """Of all columns that are held."""
        return sum(column.nbytes for column in self._columns.values())

    def holds(self, kinds: dict[str, ColumnKind], terms: dict[str, Any] | None = None) -> bool:
        """Whether columns are held, or fit what is left of the budget, as values, or of the host's memory; they are then.

        Raises:
            As ``columns``, but for OutOfMemory.
        """
        missing = {name: kind for name, kind in kinds.items() if name not in self._columns}
        if any(some <= missing.keys() for some in self._too_large):
            return False
        if self.budget is not None:
            bits = sum(1 + _held_as(kind)[1] for kind in missing.values())
            if missing and self.held_bytes + self.table().rows * bits // 8 > self.budget:
                return False
        try:
            self.columns(kinds, terms or {})
        except OutOfMemory:
            self._too_large.append(set(missing))
            return False
        return True

    def held(self, kinds: dict[str, ColumnKind]) -> dict[str, PinnedColumn]:
        """Those of some columns that are held."""
        return {name: self._columns[name] for name in kinds if name in self._columns}

    def room_bytes(self) -> int:
        """What rooms may take: what is left of the budget; half of what is left of the host's memory, where threads decompress
        as well."""
        free = (host_memory(report().nbytes)[0] + sum(one.nbytes for room in self._rooms for one in room.values())) // 2
        return free if self.budget is None else max(min(self.budget - self.held_bytes, free), 0)

    def rooms(self, kinds: dict[str, ColumnKind], rows: int) -> list[dict[str, PinnedColumn]]:
        """Twice memory for some rows, whole blocks, of columns. It stays until rooms for others are asked for.

        Raises:
            OutOfMemory: it does not fit the host's memory.
        """
        wanted = [(name, id(self._columns.get(name)), rows) for name in kinds]
        if self._rooms_for != wanted:
            self._rooms, self._rooms_for = [], wanted
            schema = self.table().schema
            self._rooms = [
                {name: _empty(self._columns.get(name), kind, rows, schema.field(name).nullable) for name, kind in kinds.items()}
                for _ in range(2)
            ]
        return self._rooms

    def columns(self, kinds: dict[str, ColumnKind], terms: dict[str, Any]) -> dict[str, PinnedColumn]:
        """Those of some names, of the table that was opened last, copied unless they were; what ``terms`` has is calculated
        then, once for all rows.

        Raises:
            ConfigError: DuckDB is missing, which calculates, or whole numbers overflow.
            FormatError: the file is damaged.
            OutOfMemory: they do not fit the host's memory.
        """
        table = self._opened[1] if self._opened is not None else self.table()
        missing = {name: _Copy(kind, table.rows, self.device) for name, kind in kinds.items() if name not in self._columns}
        stored = [name for name in missing if name not in terms]
        wanted = {name: term for name, term in terms.items() if name in missing}
        batches = table.batches(stored, table.parts()) if stored else iter(())
        calculated = ByEngine(table, kinds, None, (), [], terms=wanted).calculated() if wanted else iter(())
        for names, coming in ((stored, batches), (list(wanted), calculated)):
            for begin, batch in coming:
                for name, array in zip(names, batch.columns, strict=True):
                    if len(array):
                        missing[name].add(f"{self.path}: the column {name!r}", array, begin)
        self._columns.update({name: copy.done() for name, copy in missing.items()})
        return {name: self._columns[name] for name in kinds}


def _stamp_of(file: str) -> tuple[Any, ...]:
    """What differs once a file has changed."""
    with opening(file, "read"):
        found = os.stat(file)
    return file, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _Copy:
    """A column while it is copied."""

    def __init__(self, kind: ColumnKind, rows: int, device: torch.device) -> None:
        self.kind, self.rows, self.device = kind, rows, device
        self.texts = TextCodes()
        self.values: UnifiedTensor | NumberCopy
        if kind.family == "text" or kind.element == "bool":
            self.values = self._room(kind.bits)
        else:
            self.values = NumberCopy(_held_as(kind)[1], rows, self._room)
        self.valid: UnifiedTensor | None = None

    def _room(self, bits: int) -> UnifiedTensor:
        return _memory(bits, self.rows)

    def add(self, what: str, array: Any, begin: int) -> None:
        """Copies rows from ``begin`` on, where the last ones ended.

        Raises:
            FormatError: the array is damaged; ``what`` names the column.
        """
        array = _stored(what, self.kind, array)
        if array.null_count and self.valid is None:  # pyarrow has bits of Parquet's columns that may have nulls, also of none
            self.valid = self._room(1)
            self.valid.cpu().fill_(255)
        if self.valid is not None:
            _put_bits(self.valid, array.is_valid(), begin)
        if isinstance(self.values, NumberCopy):
            numbers = _aligned(array)
            self.values.add(numbers.ctypes.data, begin, len(array))
        elif self.kind.element == "bool":
            _put_bits(self.values, array, begin)
        else:
            _as(self.values, "int32")[begin : begin + len(array)] = torch.from_numpy(self.texts.codes(array))

    def done(self) -> PinnedColumn:
        """What was copied; codes of few texts are narrow, as those of numbers are."""
        entries, values = None, self.values
        element, bits, taken = _held_as(self.kind)
        if isinstance(values, NumberCopy):
            values, bits, numbers = values.done()
            if numbers is not None:
                with np.errstate(invalid="ignore"):  # of a signalling NaN
                    wide = numbers.view(element).astype(taken)
                element, entries = f"uint{bits}", torch.from_numpy(wide.view(np.int64)).to(self.device)
        elif self.kind.family == "text" and (narrow := next((b for b in (8, 16) if len(self.texts) <= 1 << b), None)):
            element, bits, codes = f"uint{narrow}", narrow, _as(values, element)
            values = self._room(bits)
            _as(values, element)[: self.rows] = codes[: self.rows]
        return PinnedColumn(element, bits, taken, self.texts, entries, values, self.valid, self.rows)


def _held_as(kind: ColumnKind) -> tuple[str, int, str]:
    """What lies in memory where values are no codes, the bits of one, and how they are taken."""
    element = "int64" if kind.element == "decimal" else kind.element
    bits = 64 if kind.element == "decimal" else kind.bits
    return element, bits, {"u": "uint64", "f": "float64"}.get(np.dtype(element).kind, "int64")


def _memory(bits: int, rows: int) -> UnifiedTensor:
    """For so many bits a row, and whole blocks, of which the rest is zeros."""
    # The copy engine, which brings what filters compare, takes memory that is mapped a fault at a time, and this as it is.
    made = UnifiedTensor.empty((max(-(-rows // _BLOCK), 1) * _BLOCK * bits // 8,), torch.uint8, "pinned")
    made.cpu()[rows * bits // 8 :] = 0
    return made


def _empty(like: PinnedColumn | None, kind: ColumnKind, rows: int, nullable: bool) -> PinnedColumn:
    """Memory for some rows of a column: as it is held, or of its values."""
    if like is not None:
        valid = _memory(1, rows) if like.valid is not None else None
        return replace(like, values=_memory(like.bits, rows), valid=valid, rows=rows)
    element, bits, taken = _held_as(kind)
    return PinnedColumn(
        element, bits, taken, TextCodes(), None, _memory(bits, rows), _memory(1, rows) if nullable else None, rows
    )


def _stored(what: str, kind: ColumnKind, array: Any) -> Any:
    """An array as it is held; decimals are int64."""
    return (taken if kind.element == "decimal" else without_damage)(what, array, kind)


def _set_bits(room: UnifiedTensor, array: Any, rows: np.ndarray[Any, Any]) -> None:
    """Those of an array of truth values, for rows of these numbers, ascending."""
    first, last = rows[0] // 8, rows[-1] // 8 + 1
    touched = room.cpu().numpy()[first:last]
    unpacked = np.unpackbits(touched, bitorder="little")
    unpacked[rows - 8 * first] = array.to_numpy(zero_copy_only=False)
    touched[:] = np.packbits(unpacked, bitorder="little")


def _as(values: UnifiedTensor | torch.Tensor, element: str) -> torch.Tensor:
    return values.cpu().view(getattr(torch, element))


def _aligned(array: Any) -> np.ndarray[Any, Any]:
    """An array's numbers, as bytes that begin where numbers of their type may."""
    width = array.type.bit_width // 8
    found = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width :][: len(array) * width]
    return found.copy() if found.ctypes.data % width else found


def _put_bits(room: UnifiedTensor, array: Any, begin: int) -> None:
    """Those of an array of truth values, for rows from ``begin`` on."""
    to, bits, at, rows = room.cpu().numpy(), np.frombuffer(array.buffers()[1], np.uint8), array.offset, len(array)
    touched = to[begin // 8 : (begin + rows + 7) // 8]
    if begin % 8 == 0 and at % 8 == 0:  # what its last byte has beyond the rows, the next array's replace
        touched[:] = bits[at // 8 : (at + rows + 7) // 8]
    else:
        unpacked = np.unpackbits(touched, bitorder="little")
        unpacked[begin % 8 : begin % 8 + rows] = np.unpackbits(bits, bitorder="little")[at : at + rows]
        touched[:] = np.packbits(unpacked, bitorder="little")
