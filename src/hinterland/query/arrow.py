"""Arrow files, batch by batch, where they lie."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import numpy as np

from ..runtime.errors import FormatError
from ..storage.names import reading
from .batches import batches_of
from .converted import unread
from .crew import Crew
from .page_cache import MappedFile, Pages, Values
from .program import Program
from .rows import Part, Wanted

_PART_ROWS, _READERS = 1 << 22, 256  # of files whose batches may be small, and that are kept: chosen, not measured


class ArrowFile:
    """An Arrow file. Its buffers are not copied, unless they are compressed."""

    chunked = False

    def __init__(self, path: str, copy: str | None = None) -> None:
        """``copy``: the file of that name is read, and ``path`` is what it was made from."""
        self.path = path
        with reading(path), open(copy or path, "rb") as file:
            self._file = MappedFile(file.fileno())
            self._batches = batches_of(memoryview(self._file.map))
        self._compressed = any(batch.compressed for batch in self._batches)
        if self._compressed:
            self._file.read_around()  # a column's bytes lie near each other, but only pyarrow knows where
        self._readers: dict[tuple[int, tuple[str, ...]], Any] = {}  # of each thread, by the columns that they decompress
        self._crew = Crew()
        self.schema = self._reader().schema
        self.unread = unread(self.schema)
        self.groups = len(self._batches)
        self.parts: list[Part] = []
        begin = end = 0
        numbers: list[int] = []
        for number, batch in enumerate(self._batches):
            end += batch.rows
            numbers.append(number)
            if end - begin >= _PART_ROWS or number + 1 == len(self._batches):
                self.parts.append(Part(begin, end, tuple(numbers)))
                begin, numbers = end, []
        self.rows = end
        self._spent: dict[str, Pages | None] = {}
        self._ahead: tuple[Part | None, dict[str, Pages | None]] = None, {}

    def read(
        self, part: Part, names: Collection[str], wanted: Wanted | None = None, after: Part | None = None
    ) -> Iterator[tuple[str, int, Any]]:
        """(column, first row, array) of each batch.

        The disk is asked for what the page cache has not: of ``wanted`` rows, or of all and then also of ``after``, the part
        that will be read next.
        """
        columns = self._columns(part, names, wanted) if names else {}
        ahead = self._ahead[1] if part == self._ahead[0] else {}
        if ahead or part == self.parts[0]:  # which is never asked for ahead: what is left is an earlier query's
            self._ahead = None, {}
        left = {name: arrays for name, arrays in columns.items() if name not in ahead}
        self._spent.update(ahead | self._ask_for(left, wanted))
        cold = [name for name in names if self._spent[name] is not None]
        if cold and wanted is None and after is not None:
            self._ahead = after, self._ask_for(self._columns(after, cold, None), None)
        for name, arrays in columns.items():
            yield from ((name, begin, array) for begin, array in arrays)

    def parts_left(
        self, program: Program | None = None, names: Collection[str] = (), first_rows: int | None = None
    ) -> list[Part]:
        """All of it: there are no statistics."""
        return self.parts

    def rows_left(self, part: Part, program: Program, after: Part | None = None) -> None:
        """There are no statistics that rule rows out."""

    def values_of(self, name: str) -> None:
        """How many values a column has is not known before it is read."""

    def spent(self, name: str) -> Pages | None:
        """Bytes of a column for which the disk was last asked; None where it was not."""
        return self._spent[name]

    def _reader(self, names: tuple[str, ...] = ()) -> Any:
        """Pyarrow's, of this thread, which decompresses these columns alone; of what is not compressed, it would copy them."""
        import pyarrow.ipc

        key = threading.get_ident(), names if self._compressed else ()
        if len(self._readers) > _READERS:
            self._readers.clear()
        reader = self._readers.get(key)
        if reader is None:
            fields = [self.schema.get_field_index(name) for name in key[1]]
            options = pyarrow.ipc.IpcReadOptions(use_threads=False, included_fields=fields or None)
            source = pyarrow.BufferReader(pyarrow.py_buffer(self._file.map))
            reader = self._readers[key] = pyarrow.ipc.open_file(source, options=options)
        return reader

    def _columns(self, part: Part, names: Collection[str], wanted: Wanted | None) -> dict[str, list[tuple[int, Any]]]:
        """The first row and the array of each batch, of those with wanted rows."""
        rows = np.array([self._batches[number].rows for number in part.at])
        ends = part.begin + np.cumsum(rows)
        some = np.flatnonzero(rows > 0 if wanted is None else wanted(ends - rows, ends)).tolist()
        found: dict[str, list[Any]] = {name: [None] * len(some) for name in names}

        def get(place: int) -> None:
            at = some[place]
            batch = self._reader(tuple(names)).get_batch(part.at[at])
            for name in names:
                array = batch.column(batch.schema.get_field_index(name))
                if len(array) != rows[at]:
                    raise FormatError(f"{self.path}: the column {name!r} has {len(array)} of {rows[at]} rows; it is damaged")
                found[name][place] = int(ends[at] - rows[at]), array

        tasks = [partial(get, place) for place in range(len(some))]
        if self._compressed:
            self._crew.do(tasks)
        else:
            for task in tasks:
                task()
        return found

    def _ask_for(self, columns: dict[str, list[tuple[int, Any]]], wanted: Wanted | None) -> dict[str, Pages | None]:
        return {
            name: self._file.ask_for([one for begin, array in arrays for one in _values(begin, array)], wanted)
            for name, arrays in columns.items()
        }


def _values(begin: int, array: Any) -> Iterator[Values]:
    """What the buffers of an array hold. Those that are not of fixed width are read whole."""
    valid, *others = array.buffers()
    rows, at = len(array), array.offset
    if valid is not None:
        yield Values(begin, 8 * valid.address + at, 1, rows)
    try:
        bits = array.type.bit_width
    except ValueError:
        bits = None
    for buffer in others:
        if buffer is not None and bits is not None:
            yield Values(begin, 8 * buffer.address + at * bits, bits, rows)
        elif buffer is not None:
            yield Values(begin, 8 * buffer.address, 8 * buffer.size, 1, rows)
