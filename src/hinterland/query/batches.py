"""How many rows the record batches of an Arrow file have, and whether they are compressed: what a reader would only tell of a
batch that it has read, and decompressed.

The footer and the messages' heads are FlatBuffers (Arrow columnar format, "IPC File Format": File.fbs, Message.fbs).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_MAGIC = b"ARROW1"
_CONTINUES = b"\xff\xff\xff\xff"
_RECORD_BATCHES, _HEADER, _LENGTH, _COMPRESSION = 3, 2, 0, 3  # fields of a footer, of a message, and two of a batch
_BLOCK = struct.Struct("<qi4xq")  # where a message lies, the bytes of its head, and of its body


class Batch(NamedTuple):
    """A record batch."""

    rows: int
    compressed: bool


class _Table:
    """A FlatBuffers table.

    Raises:
        struct.error: it lies elsewhere than in its bytes.
    """

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - _int("<i", data, at)
        self._size = _int("<H", data, self._fields)

    def place(self, field: int) -> int | None:
        """Of a field; None where it has its default."""
        if 4 + 2 * field >= self._size:
            return None
        offset = _int("<H", self._data, self._fields + 4 + 2 * field)
        return self._at + offset if offset else None

    def target(self, field: int) -> int:
        """Where a field that refers to something has it."""
        place = self.place(field)
        if place is None:
            raise struct.error(f"field {field} is not there")
        return place + _int("<I", self._data, place)


def _int(form: str, data: memoryview, at: int) -> int:
    if at < 0:
        raise struct.error(f"byte {at}")
    return int(struct.unpack_from(form, data, at)[0])


def batches_of(file: memoryview) -> list[Batch]:
    """The record batches of an Arrow file, in their order.

    Raises:
        struct.error: its footer, or the head of a batch, is damaged.
    """
    end = len(file) - len(_MAGIC) - 4
    size = _int("<i", file, end)
    if bytes(file[end + 4 :]) != _MAGIC or not 0 < size <= end:
        raise struct.error("no footer")
    footer = file[end - size : end]
    table = _Table(footer, _int("<I", footer, 0))
    if table.place(_RECORD_BATCHES) is None:
        return []
    first = table.target(_RECORD_BATCHES)
    count = _int("<I", footer, first)
    return [_batch(file, *_BLOCK.unpack_from(footer, first + 4 + _BLOCK.size * number)) for number in range(count)]


def _batch(file: memoryview, at: int, size: int, body: int) -> Batch:
    if min(at, size, body) < 0 or at + size + body > len(file):
        raise struct.error(f"a batch at {at}")
    head = file[at : at + size]
    head = head[8 if bytes(head[:4]) == _CONTINUES else 4 :]
    message = _Table(head, _int("<I", head, 0))
    batch = _Table(head, message.target(_HEADER))
    length = batch.place(_LENGTH)
    rows = 0 if length is None else _int("<q", head, length)
    if rows < 0:
        raise struct.error(f"{rows} rows")
    return Batch(rows, batch.place(_COMPRESSION) is not None)
