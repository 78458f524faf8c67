"""Arrow files, batch by batch, where they lie."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np

from .. import _core
from ..runtime.errors import FormatError
from ..runtime.files import opening
from .arrays import taken_rows
from .converted import unread
from .page_cache import MappedFile
from .program import Program
from .table import ColumnValues, KeptGroups, Pages, RowRange
from .threads import ahead

_PAGE_BITS = 8 * _core.FILE_PAGE


class ArrowFile:
    """An Arrow file. Its buffers are not copied, unless they are compressed."""

    def __init__(self, path: str, copy: str | None = None) -> None:
        """``copy``: the file of that name is read, and ``path`` is what it was made from."""
        self.path = path
        with opening(path, "read"):
            self._file = MappedFile(copy or path)
        self._readers = threading.local()
        reader = self._reader(())
        self.schema, self._batches = reader.schema, reader.num_record_batches
        self.unread = unread(self.schema)
        self.rows, self.groups = self._count(reader), 1
        self._file.read_around(True)

    def parts(self, program: Program | None = None) -> list[RowRange]:
        """All of it: there are no statistics."""
        return [RowRange(0, self.rows, 0)] if self.rows else []

    def batches(self, names: Sequence[str], parts: Sequence[RowRange]) -> Iterator[tuple[int, Any]]:
        """The first row of each record batch, and the batch, which has columns ``names`` alone."""
        begin = 0
        for batch in ahead(partial(self._batch, tuple(names), number) for number in range(self._batches if parts else 0)):
            begin += batch.num_rows
            if begin > self.rows:
                raise FormatError(f"{self.path}: its batches have more than {self.rows} rows; it is damaged")
            yield begin - batch.num_rows, batch

    def values_of(self, name: str) -> None:
        """How many values a column has is not known before it is read."""

    def read_as_asked(self) -> None:
        """Not of what is compressed: pyarrow reads that before it can be asked for."""
        if not self._is_compressed:
            self._file.read_around(False)

    def pages(self, name: str, begin: int, end: int) -> Pages:
        """Of 4 KiB of the file, but for what is compressed."""
        begins, sizes = [], []
        for first, last, array, bits, address in self._arrays(name, begin, end):
            lowest, highest = max(begin, first), min(end, last)
            if address is None:
                begins.append(np.array([lowest]))
                sizes.append(np.array([array.nbytes]))
                continue
            at = address + bits * (np.array([lowest, highest]) - first)
            edges = np.arange(at[0] // _PAGE_BITS + 1, -(-at[1] // _PAGE_BITS)) * _PAGE_BITS
            begins.append(np.append(lowest, lowest - (at[0] - edges) // bits))
            sizes.append(np.full(len(edges) + 1, _core.FILE_PAGE))
        return Pages(np.concatenate([*begins, [end]]), np.concatenate([*sizes, np.zeros(0, np.int64)]))

    def values_at(self, name: str, rows: np.ndarray, kept: KeptGroups) -> Iterator[ColumnValues]:
        """A column in some rows: all pages are asked of the disk before the first one is touched."""
        found, asked = [], [np.zeros((0, 2), np.int64)]
        for first, last, array, bits, address in self._arrays(name, int(rows[0]), int(rows[-1]) + 1) if len(rows) else ():
            low, high = np.searchsorted(rows, [first, last]).tolist()
            if low == high:
                continue
            some, size = rows[low:high] - first, array.nbytes
            if address is not None:
                validity = array.buffers()[0] if array.null_count else None
                places = [_pages_of(address, bits, some)]
                if validity is not None:
                    places.append(_pages_of(8 * validity.address + array.offset, 1, some))
                size = sum(int(np.diff(one).sum()) for one in places)
                asked += places
            found.append((low, array, some, size))
        self._file.ask_for(np.concatenate(asked))
        for low, array, some, size in found:
            yield ColumnValues(low, taken_rows(array, some), size)

    def stored_bytes(self, name: str, parts: Sequence[RowRange]) -> int:
        return sum(part.end - part.begin for part in parts) * self._bits(name) // 8

    def _bits(self, name: str) -> int:
        """Of a value, where all have as many; else none."""
        import pyarrow.types as types

        type_ = self.schema.field(name).type
        type_ = type_.index_type if types.is_dictionary(type_) else type_
        return type_.bit_width if types.is_primitive(type_) or types.is_decimal128(type_) else 0

    def _arrays(self, name: str, begin: int, end: int) -> Iterator[tuple[int, int, Any, int, int | None]]:
        """Of each batch with any of the rows [begin, end) its first row and the one after its last, the column, and where its
        values lie in the file one after another: of so many bits each, from which bit on; None where they do not."""
        bits = 0 if self._is_compressed else self._bits(name)
        for number in range(np.searchsorted(self._begins, begin, "right") - 1, np.searchsorted(self._begins, end)):
            array = self._batch((name,), number, False).column(0)
            if len(array):
                address = 8 * array.buffers()[1].address + array.offset * bits if bits else None
                yield self._begins[number], self._begins[number + 1], array, bits, address

    @cached_property
    def _begins(self) -> list[int]:
        """The first row of each batch, and the row after the last one."""
        reader = self._reader(tuple(self.schema.names[:1]) if self._is_compressed else ())
        return [0, *accumulate(reader.get_batch(number).num_rows for number in range(self._batches))]

    def _batch(self, names: tuple[str, ...], number: int, asks: bool = True) -> Any:
        batch = self._reader(names if self._is_compressed else ()).get_batch(number).select(list(names))
        for name, column in zip(names, batch.columns, strict=True):
            if len(column) != batch.num_rows:
                raise FormatError(f"{self.path}: the column {name!r} has {len(column)} of {batch.num_rows} rows; it is damaged")
        if asks:
            self._file.ask_for(_buffers(batch))
        return batch

    def _count(self, reader: Any) -> int:
        """The rows, by the batches' heads, or before pyarrow 26 by their first column, which is read."""
        import pyarrow.ipc

        if hasattr(reader, "count_rows"):
            return int(reader.count_rows())
        options = pyarrow.ipc.IpcReadOptions(use_threads=False, included_fields=[0] if self.schema.names else None)
        first = pyarrow.ipc.open_file(pyarrow.BufferReader(self._file.buffer), options=options)
        return sum(first.get_batch(number).num_rows for number in range(self._batches))

    @cached_property
    def _is_compressed(self) -> bool:
        """Whether buffers lie elsewhere than in the file."""
        if not self._batches:
            return False
        found, begin = _buffers(self._reader(()).get_batch(0)), self._file.buffer.address
        return bool(((found[:, 0] < begin) | (found[:, 1] > begin + self._file.buffer.size)).any())

    def _reader(self, names: tuple[str, ...]) -> Any:
        """Pyarrow's, of this thread, which reads these columns, or all; of what is not compressed some would be copied."""
        import pyarrow.ipc

        if getattr(self._readers, "names", None) != names:
            fields = [self.schema.get_field_index(name) for name in names]
            options = pyarrow.ipc.IpcReadOptions(use_threads=False, included_fields=fields or None)
            self._readers.reader = pyarrow.ipc.open_file(pyarrow.BufferReader(self._file.buffer), options=options)
            self._readers.names = names
        return self._readers.reader


def _buffers(batch: Any) -> np.ndarray:
    """Where a batch's buffers begin and end, [n, 2]."""
    found = [one for column in batch.columns for one in column.buffers() if one is not None]
    return np.array([(one.address, one.address + one.size) for one in found], np.int64).reshape(-1, 2)


def _pages_of(at: int, bits: int, rows: np.ndarray) -> np.ndarray:
    """The pages that hold some values, as ranges of addresses, [n, 2]; the first value lies at the bit ``at``."""
    first, last = (at + bits * rows) // _PAGE_BITS, (at + bits * rows + bits - 1) // _PAGE_BITS
    begins = np.flatnonzero(np.append(True, first[1:] > last[:-1] + 1))
    ends = np.append(begins[1:], len(rows)) - 1
    return np.stack([first[begins], last[ends] + 1], axis=1) * _core.FILE_PAGE
