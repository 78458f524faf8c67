"""Arrow files, batch by batch, where they lie."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..runtime.errors import FormatError
from ..runtime.files import opening
from .converted import unread
from .page_cache import MappedFile
from .program import Program
from .table import RowRange
from .threads import ahead


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

    def _batch(self, names: tuple[str, ...], number: int) -> Any:
        batch = self._reader(names if self._is_compressed else ()).get_batch(number).select(list(names))
        for name, column in zip(names, batch.columns, strict=True):
            if len(column) != batch.num_rows:
                raise FormatError(f"{self.path}: the column {name!r} has {len(column)} of {batch.num_rows} rows; it is damaged")
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
