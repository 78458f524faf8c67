"""Parquet files with columns whose types pyarrow does not take, over which it refuses the file: what else it knows of them.

A schema says of each element how it is stored, and what that stands for (apache/parquet-format, parquet.thrift): the latter is
left out of such columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from . import int96
from .footer import footer_range
from .thrift import INT32, after, fields_of, list_at, number_at, number_of, struct_of

_SCHEMA = 2  # a field of FileMetaData
_NAME, _CHILDREN, _STORED = 4, 5, 5  # fields of SchemaElement; those up to the last say how it is stored
_TYPE, _LENGTH = 1, 2  # and of these
_GROUPS, _COLUMNS, _CHUNK = 4, 1, 3  # of FileMetaData, RowGroup and ColumnChunk, whose first field is the type again
_INT96, _FIXED = 3, 7  # types
MAGIC = b"PAR1"


def metadata_of(file: Any) -> tuple[Any, dict[str, str]]:
    """What pyarrow knows of a file, a buffer of its own; and of the columns whose types it does not take, why."""
    import pyarrow

    try:
        return _read(file), {}
    except (OSError, pyarrow.ArrowException) as error:
        try:
            schema = FileSchema(file)
            schema.read_with(())
        except Exception:  # of many kinds: it is not over a type that the file is refused
            raise error from None
        every = range(len(schema.columns))
        refused = schema.refused(every)
        unread = {schema.name(one): f"is not read by pyarrow: {why}; write it as another type" for one, why in refused.items()}
        return schema.read_with([one for one in every if one not in refused]), unread


def without_int96(file: Any) -> Any:
    """What pyarrow knows of a file whose times of 96 bits are taken for as many bytes each."""
    schema = FileSchema(file)
    return schema.read_with(range(len(schema.columns)), fixed=True)


def _read(file: Any) -> Any:
    import pyarrow
    import pyarrow.parquet

    return pyarrow.parquet.read_metadata(pyarrow.BufferReader(file))


class _Element(NamedTuple):
    """Of a schema: bytes [begin, end) of the footer, and the fields that say how it is stored: (number, type, bytes)."""

    begin: int
    end: int
    name: str
    children: int
    fields: list[tuple[int, int, bytes]]

    @property
    def stored(self) -> bytes:
        """Without what that stands for."""
        return struct_of(self.fields)

    @property
    def fixed(self) -> bytes | None:
        """With bytes instead of a time of 96 bits; None where it is none."""
        if (_TYPE, INT32, number_of(_INT96)) not in self.fields:
            return None
        others = [field for field in self.fields if field[0] > _LENGTH]
        return struct_of([(_TYPE, INT32, number_of(_FIXED)), (_LENGTH, INT32, number_of(int96.BYTES)), *others])


class FileSchema:
    """A file's schema.

    Attributes:
        columns: those that are not in others, each an element and then those in it.
    """

    def __init__(self, file: Any) -> None:
        begin, end = footer_range(file)[0].tolist()
        self._footer = file.slice(begin, end - begin).to_pybytes()
        at = next(first for number, _, first, _ in fields_of(self._footer, 0) if number == _SCHEMA)
        count, _, at = list_at(self._footer, at)
        elements: list[_Element] = []
        for _ in range(count):
            elements.append(_element(self._footer, elements[-1].end if elements else at))
        self.columns: list[list[_Element]] = []
        at = 1  # after the root
        while at < count:
            first, left = at, 1
            while left:
                left += elements[at].children - 1
                at += 1
            self.columns.append(elements[first:at])

    @property
    def plain_columns(self) -> dict[str, bytes]:
        """What the footer says of each column that is no list or struct, by its name."""
        return {one.name: self._footer[one.begin : one.end] for one, *parts in self.columns if not parts}

    def name(self, column: int) -> str:
        return self.columns[column][0].name

    def refused(self, columns: Sequence[int]) -> dict[int, str]:
        """Those of some columns whose types pyarrow does not take, and why."""
        try:
            self.read_with(columns)
            return {}
        except Exception as error:
            if len(columns) == 1:
                return {columns[0]: " ".join(str(error).split())[:200]}
        half = len(columns) // 2
        return self.refused(columns[:half]) | self.refused(columns[half:])

    def read_with(self, columns: Sequence[int], fixed: bool = False) -> Any:
        """What pyarrow knows of the file, with the types of these columns alone; ``fixed``: with bytes for times of 96 bits."""
        import pyarrow

        footer, at = bytearray(), 0
        for number, elements in enumerate(self.columns):
            for one in elements:
                instead = (one.fixed if fixed else None) or (one.stored if number not in columns else None)
                if instead is not None:
                    footer += self._footer[at : one.begin] + instead
                    at = one.end
        rest = bytearray(self._footer[at:])
        for place in self._types() if fixed else ():
            if rest[place - at] == number_of(_INT96)[0]:
                rest[place - at] = number_of(_FIXED)[0]
        footer += rest
        return _read(pyarrow.py_buffer(MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC))

    def _types(self) -> Iterator[int]:
        """Where the footer says of which type a column chunk is."""
        for first in _list_in(self._footer, 0, _GROUPS):
            for chunk in _list_in(self._footer, first, _COLUMNS):
                for number, _, metadata, _ in fields_of(self._footer, chunk):
                    if number == _CHUNK:
                        yield from (at for field, _, at, _ in fields_of(self._footer, metadata) if field == _TYPE)


def _list_in(data: bytes, at: int, number: int) -> Iterator[int]:
    """Where the structs begin that are the elements of a struct's list."""
    for field, _, first, _ in fields_of(data, at):
        if field == number:
            count, kind, first = list_at(data, first)
            for _ in range(count):
                yield first
                first = after(data, first, kind)


def _element(data: bytes, at: int) -> _Element:
    name, children, fields, end = "", 0, [], at
    for number, kind, first, end in fields_of(data, at):
        if number <= _STORED:
            fields.append((number, kind, data[first:end]))
        if number == _NAME:
            name = data[number_at(data, first)[1] : end].decode()
        elif number == _CHILDREN:
            children = number_at(data, first)[0] >> 1
    return _Element(at, end + 1, name, children, fields)
