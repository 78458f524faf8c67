"""Arrays of Arrow's as they are copied: where their values lie, and what their codes stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..runtime.errors import FormatError
from .bounds import Kind
from .texts import Numbers


class Segment(NamedTuple):
    """Rows [begin, end) of a column; and what must live as long.

    Attributes:
        values: the address of the first row's value; of bits the byte that bit ``value_at``, the first row's, counts from.
        valid: the address of a bit for each row, from bit ``valid_at`` on; 0 where all have a value.
        codes: of texts, the address of the code of each of ``entries`` of a dictionary, int32.
        element: the type of a value.
    """

    begin: int
    end: int
    values: int
    value_at: int
    valid: int
    valid_at: int
    codes: int
    entries: int
    element: str
    keeps: Any


def segment_of(what: str, array: Any, begin: int, kind: Kind, texts: Numbers) -> Segment:
    """Where an array's values lie, or codes, int32, of ``texts``.

    Raises:
        FormatError: it is damaged; ``what`` names the column.
    """
    import pyarrow

    array = without_damage(what, array, kind)
    codes, entries, element, bits = np.zeros(0, np.int32), 0, kind.element, kind.bits
    if kind.family == "text" and not pyarrow.types.is_dictionary(array.type):
        return _of_texts(array, begin, texts)
    if kind.family == "text":
        codes, entries, array = texts.of_dictionary(array.dictionary), len(array.dictionary), array.indices
        element, bits = str(array.type), array.type.bit_width
    valid, values = array.buffers()
    rows, at = len(array), array.offset
    _require(what, rows, values, (at + rows) * bits)
    if not array.null_count:  # pyarrow has bits of Parquet's columns that may have nulls, also where none is
        valid = None
    if valid is not None:
        _require(what, rows, valid, at + rows)
    address, first_bit = (values.address, at) if values is not None else (0, 0)
    keeps: list[Any] = [array, codes]
    if bits > 1:
        address, first_bit = address + at * bits // 8, 0
        if address % min(bits // 8, 8):
            taken = np.frombuffer(values, np.uint8)[at * bits // 8 :][: rows * bits // 8].copy()
            keeps.append(taken)
            address = taken.ctypes.data
    return Segment(
        begin, begin + rows, address, first_bit, valid.address if valid is not None else 0, at, codes.ctypes.data, entries,
        element, keeps,
    )  # fmt: skip


def without_damage(what: str, array: Any, kind: Kind) -> Any:
    """The array, of texts as they are or in a dictionary without nulls, of others without a dictionary.

    Raises:
        FormatError: its texts are no UTF-8, or it has codes that its dictionary does not have; ``what`` names the column.
    """
    import pyarrow

    array.validate()
    if pyarrow.types.is_null(kind.arrow):  # also in a dictionary, as pandas writes a category without any value
        return pyarrow.nulls(len(array), pyarrow.float64())
    if not pyarrow.types.is_dictionary(array.type):
        if kind.family == "text":
            _validate(what, array)
        return array
    _validate(what, array.dictionary)
    _validate(what, array)
    if kind.family != "text":
        return array.dictionary_decode()
    if array.dictionary.null_count:
        array = array.dictionary_decode().dictionary_encode().cast(array.type)  # one type in all parts
    return array


def whole(halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decimals of 128 bits, [2 n] int64, as 64 bits each; and which ones these do not hold, bool."""
    low, high = halves[::2], halves[1::2]
    return np.ascontiguousarray(low), high != low >> 63


def _is_ascii(array: Any) -> bool:
    """Whether texts are valid, and of ASCII alone, which is seen in a tenth of the time that pyarrow takes for any."""
    import pyarrow

    widths = {pyarrow.string(): np.int32, pyarrow.large_string(): np.int64}
    if array.type not in widths or not len(array):
        return False
    _, offsets, texts = array.buffers()
    ends = np.frombuffer(offsets, widths[array.type])[array.offset :][: len(array) + 1]
    if not (ends[1:] >= ends[:-1]).all():
        return False
    return ends[0] == ends[-1] or bool(np.frombuffer(texts, np.int8)[ends[0] : ends[-1]].min() >= 0)


def _validate(what: str, array: Any) -> None:
    import pyarrow

    if _is_ascii(array):
        return
    try:
        array.validate(full=True)
    except pyarrow.ArrowInvalid as error:
        raise FormatError(f"{what} is damaged: {error}; fetch or write it again") from error


def _of_texts(array: Any, begin: int, texts: Numbers) -> Segment:
    """Of texts as they are: their codes, which stand for themselves."""
    valid, codes = array.buffers()[0] if array.null_count else None, texts.of_texts(array)
    themselves = texts.themselves
    return Segment(
        begin, begin + len(array), codes.ctypes.data, 0, valid.address if valid is not None else 0, array.offset,
        themselves.ctypes.data, len(themselves), "int32", [array, codes, themselves],
    )  # fmt: skip


def _require(what: str, rows: int, buffer: Any, bits: int) -> None:
    have = 0 if buffer is None else buffer.size
    if 8 * have < bits:
        raise FormatError(f"{what} has {have} bytes for {rows} rows, which take {(bits + 7) // 8}; the file is damaged")
