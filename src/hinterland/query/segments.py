"""Arrays of Arrow's as native code takes them: where their values lie, and what their codes stand for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..runtime.errors import FormatError
from .bounds import Kind
from .rows import Matching
from .texts import Codes


class Segment(NamedTuple):
    """Rows [begin, end) of a column, in the order of query::Segment's fields; and what must live as long."""

    begin: int
    end: int
    values: int
    value_at: int
    valid: int
    valid_at: int
    codes: int
    entries: int
    kept: int
    element: str
    bits: int
    keeps: Any
    text_bytes: int = 0  # of texts as they are, which are read to find their codes


class Kept(NamedTuple):
    """Values of the rows that match alone, one after another.

    Attributes:
        values: an array of Arrow's without nulls.
        end: the row where the segment ends.
        before: of each block from that of its first row on, how many of the segment's rows that match come before its own.
        valid: a bit for each row of the segment, from bit ``valid_at`` on; None where all have a value.
    """

    values: Any
    end: int
    before: np.ndarray
    valid: Any
    valid_at: int


def segment_of(what: str, array: Any, begin: int, kind: Kind, texts: Codes, matching: Matching | None = None) -> Segment:
    """Where an array's values lie, or those that were kept, or codes, int32, of ``texts``; ``matching``: the rows that are
    looked at, all by default.

    Raises:
        FormatError: its buffers are shorter than its rows take, or its texts are no UTF-8; ``what`` names the column.
    """
    import pyarrow

    if isinstance(array, Kept):
        kept = array
        made = segment_of(what, kept.values, begin, kind, texts)
        valid = kept.valid.address if kept.valid is not None else 0
        return made._replace(
            end=kept.end, valid=valid, valid_at=kept.valid_at, kept=kept.before.ctypes.data, keeps=[made.keeps, kept]
        )
    array.validate()
    if pyarrow.types.is_null(kind.arrow):  # also in a dictionary, as pandas writes a category without any value
        array = pyarrow.nulls(len(array), pyarrow.float64())
    codes, entries, element, bits = np.zeros(0, np.int32), 0, kind.element, kind.bits
    placed = kind.family == "text" and pyarrow.types.is_integer(array.type)
    if kind.family != "text" and bits > 8 and pyarrow.types.is_uint8(array.type):  # verdicts on its values
        element, bits = "uint8", 8
    if kind.family == "text" and not placed and not pyarrow.types.is_dictionary(array.type):
        _validate(what, array)
        return _of_texts(array, begin, texts, matching)
    indices = array.type.index_type if pyarrow.types.is_dictionary(array.type) else None
    if indices is not None:
        _validate(what, array.dictionary)
        if kind.family != "text" or array.dictionary.null_count:
            _validate(what, array)
            array = array.dictionary_decode()
            if kind.family == "text":
                array = array.dictionary_encode()
    if placed:
        codes = texts.themselves
        entries, element, bits = len(codes), "int32", 32
    elif kind.family == "text":
        codes, entries = texts.of_dictionary(array.dictionary), len(array.dictionary)
        array = (
            array.indices if indices in (None, array.type.index_type) else array.indices.cast(indices)
        )  # one type in all parts
        element, bits = str(array.type), array.type.bit_width
        if not entries and array.null_count < len(array):
            raise FormatError(f"{what} has codes, but its dictionary is empty; the file is damaged")
    valid, values = array.buffers()
    rows, at = len(array), array.offset
    _require(what, rows, values, (at + rows) * bits)
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
        0, element, bits, keeps,
    )  # fmt: skip


def is_judged(segment: Segment, kind: Kind) -> bool:
    """Whether verdicts stand for a column's values."""
    return kind.family != "text" and kind.bits > segment.bits == 8


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


def is_valid(array: Any) -> bool:
    """Whether an array is what Arrow says that it must be; of texts, UTF-8."""
    try:
        _validate("", array)
    except FormatError:
        return False
    return True


def _validate(what: str, array: Any) -> None:
    import pyarrow

    if _is_ascii(array):
        return
    try:
        array.validate(full=True)
    except pyarrow.ArrowInvalid as error:
        raise FormatError(f"{what} is damaged: {error}; fetch or write it again") from error


def _of_texts(array: Any, begin: int, texts: Codes, matching: Matching | None) -> Segment:
    """Of texts as they are: their codes, which stand for themselves."""
    valid, codes = array.buffers()[0], texts.of_texts(array, None if matching is None else matching.bits(begin))
    themselves = texts.themselves
    return Segment(
        begin, begin + len(array), codes.ctypes.data, 0, valid.address if valid is not None else 0, array.offset,
        themselves.ctypes.data, len(themselves), 0, "int32", 32, [array, codes, themselves], array.nbytes,
    )  # fmt: skip


def _require(what: str, rows: int, buffer: Any, bits: int) -> None:
    have = 0 if buffer is None else buffer.size
    if 8 * have < bits:
        raise FormatError(f"{what} has {have} bytes for {rows} rows, which take {(bits + 7) // 8}; the file is damaged")
