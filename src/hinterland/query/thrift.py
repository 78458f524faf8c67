"""Thrift's compact protocol, as far as the metadata of Parquet files need it (apache/thrift, thrift-compact-protocol.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_TRUE, _FALSE, _BYTE, _DOUBLE, BINARY, LIST, _SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12  # as the protocol numbers types
_WHOLE = _, INT32, INT64 = 4, 5, 6
_MOST_BITS = 63  # in all bytes of a number but its last


def struct_of(fields: Sequence[tuple[int, int, bytes]]) -> bytes:
    """Of fields by ascending numbers: (number, type, value)."""
    found, before = bytearray(), 0
    for number, kind, value in fields:
        found.append(number - before << 4 | kind)
        found += value
        before = number
    return bytes(found) + b"\0"


def number_of(value: int) -> bytes:
    """One that is not negative."""
    return _varint(value << 1)


def text_of(text: str) -> bytes:
    data = text.encode()
    return _varint(len(data)) + data


def list_of(kind: int, elements: Sequence[bytes]) -> bytes:
    """Of elements of one type."""
    count = len(elements)
    return (bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + _varint(count)) + b"".join(elements)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(found) + bytes([value])


def fields_of(data: bytes, at: int) -> Iterator[tuple[int, int, int, int]]:
    """Of a struct's fields their numbers, types, and where their values begin and end."""
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            coded, at = number_at(data, at)
            number = coded >> 1 ^ -(coded & 1)
        first, at = at, after(data, at, head & 15)
        yield number, head & 15, first, at


def list_at(data: bytes, at: int) -> tuple[int, int, int]:
    """How many elements a list has, of which type, and where the first lies."""
    count, kind = data[at] >> 4, data[at] & 15
    count, at = (count, at + 1) if count < 15 else number_at(data, at + 1)
    return count, kind, at


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """A number as it is coded, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at
        if shift > _MOST_BITS:
            raise ValueError("a number of more than 64 bits")


def after(data: bytes, at: int, kind: int) -> int:
    """Where a value ends. Truth values of structs lie in their heads."""
    if kind in (_TRUE, _FALSE):
        return at
    if kind in _WHOLE:
        return number_at(data, at)[1]
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    if kind == BINARY:
        size, at = number_at(data, at)
        return at + size
    if kind == STRUCT:
        for _, _, _, end in fields_of(data, at):
            at = end
        return at + 1
    if kind in (LIST, _SET):
        count, kind, at = list_at(data, at)
        if count > len(data):
            raise ValueError(f"a list of {count} in {len(data)} bytes")
        for _ in range(count):
            at = at + 1 if kind in (_TRUE, _FALSE) else after(data, at, kind)
        return at
    raise ValueError(f"a value of the type {kind}")
