"""Parquet files that pyarrow wrote, with other metadata or pages, as other writers make them.

Structs of Thrift's compact protocol (apache/thrift, doc/specs/thrift-compact-protocol.md) are dicts of (type, value) by the
numbers of fields, lists are (type of the elements, values). What numbers mean: apache/parquet-format, parquet.thrift.
"""

from __future__ import annotations

import pyarrow as pa

import hinterland as hl

TRUE, BYTE, I32, I64, DOUBLE, BINARY, LIST, STRUCT = 1, 3, 5, 6, 7, 8, 9, 12
SCHEMA, GROUPS, CREATED_BY = 2, 4, 6  # fields of FileMetaData


def required(table):
    """The same table, whose columns are required."""
    return table.cast(pa.schema([field.with_nullable(False) for field in table.schema]))


def counted(path, where=None, asked="count()"):
    """An aggregate, without groups."""
    query = hl.query(path)
    return (query if where is None else query.filter(where)).agg(asked).rows[0][asked]


def chunks(footer):
    """ColumnChunks of all row groups."""
    return [chunk for group in footer[GROUPS][1][1] for chunk in group[1][1][1]]


def elements(footer):
    """SchemaElements by their names."""
    return {element[4][1].decode(): element for element in footer[SCHEMA][1][1]}


def with_footer(path, change):
    """Changes the footer in place."""
    footer, body = _opened(path)
    change(footer)
    _close(path, footer, body)


def with_pages(path, change):
    """Pages again, one after another: ``change(column, header, body)`` may change the header, and returns the other body."""
    footer, data = _opened(path)
    body = bytearray(data[:4])
    for chunk in chunks(footer):
        meta = chunk[3][1]
        at = min(meta[field][1] for field in (9, 11) if field in meta)
        end, begin = at + meta[7][1], len(body)
        while at < end:
            header, first = _read(data, at, STRUCT)
            at = first + header[3][1]
            if header[1][1] != 2:
                meta[9] = I64, min(meta[9][1], len(body)) if len(body) > begin and meta[9][1] >= begin else len(body)
            else:
                meta[11] = I64, len(body)
            found = change(meta[3][1][1][0].decode(), header, data[first:at])
            header[3] = I32, len(found)
            body += written(STRUCT, header) + found
        meta[7] = I64, len(body) - begin
        for field in (4, 5, 6, 7):  # indexes
            chunk.pop(field, None)
    _close(path, footer, bytes(body))


def with_indexes(path, change):
    """Changes column indexes in place: ``change(column, index)``."""
    footer, body = _opened(path)
    for chunk in chunks(footer):
        index, _ = _read(body, chunk[6][1], STRUCT)
        change(chunk[3][1][3][1][1][0].decode(), index)
        found = written(STRUCT, index)
        chunk[6], chunk[7] = (I64, len(body)), (I32, len(found))
        body += found
    _close(path, footer, body)


def _opened(path):
    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return _read(data, begin, STRUCT)[0], data[:begin]


def _close(path, footer, body):
    found = written(STRUCT, footer)
    path.write_bytes(body + found + len(found).to_bytes(4, "little") + b"PAR1")


def varint(number):
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def zigzag(number):
    return varint(2 * number if number >= 0 else -2 * number - 1)


def _varint(data, at):
    number = shift = 0
    while True:
        number, at, shift = number | (data[at] & 127) << shift, at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def _read(data, at, kind):
    """A value, and where it ends."""
    if kind == BYTE:
        return data[at], at + 1
    if kind in (4, I32, I64):
        number, at = _varint(data, at)
        return number >> 1 ^ -(number & 1), at
    if kind == DOUBLE:
        return data[at : at + 8], at + 8
    if kind == BINARY:
        size, at = _varint(data, at)
        return data[at : at + size], at + size
    found, number = {}, 0
    if kind == LIST:
        head, at = data[at], at + 1
        count, at = (head >> 4, at) if head >> 4 < 15 else _varint(data, at)
        values = []
        for _ in range(count):
            value, at = (data[at] == TRUE, at + 1) if head & 15 in (1, 2) else _read(data, at, head & 15)
            values.append(value)
        return (head & 15, values), at
    assert kind == STRUCT
    while head := data[at]:
        number, at = (number + (head >> 4), at + 1) if head >> 4 else _read(data, at + 1, I32)
        value, at = (head & 15 == TRUE, at) if head & 15 in (1, 2) else _read(data, at, head & 15)
        found[number] = TRUE if head & 15 == 2 else head & 15, value
    return found, at + 1


def written(kind, value):
    if kind == BYTE:
        return bytes([value])
    if kind in (4, I32, I64):
        return zigzag(value)
    if kind == DOUBLE:
        return value
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST:
        inner, values = value
        head = bytes([len(values) << 4 | inner]) if len(values) < 15 else bytes([0xF0 | inner]) + varint(len(values))
        return head + b"".join(bytes([2 - one]) if inner in (1, 2) else written(inner, one) for one in values)
    found, before = b"", 0
    for number, (inner, one) in sorted(value.items()):
        kind = 2 - one if inner == TRUE else inner
        found += bytes([number - before << 4 | kind]) if number - before < 16 else bytes([kind]) + zigzag(number)
        found += b"" if inner == TRUE else written(inner, one)
        before = number
    return found + b"\0"
