"""Arrays of Arrow's as both processors take them: without damage; for an engine decimals, dates and times are numbers that are
stored, and half floats floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.errors import FormatError
from .bounds import ColumnKind


def type_of(arrow: Any, kind: ColumnKind) -> Any:
    """The type of a column that a file has as ``arrow``."""
    import pyarrow

    if kind.family == "text":
        return arrow
    other = {"decimal": pyarrow.int64(), "float16": pyarrow.float32(), "bool": pyarrow.bool_()}
    return other.get(kind.element) or pyarrow.from_numpy_dtype(np.dtype(kind.element))


def taken(what: str, array: Any, kind: ColumnKind) -> Any:
    """An array of that type.

    Raises:
        FormatError: it is damaged; ``what`` names the column.
    """
    import pyarrow

    made = type_of(array.type, kind)
    array = without_damage(what, array, kind)
    if kind.element == "decimal":
        halves = np.frombuffer(array.buffers()[1] or b"", np.int64)[2 * array.offset :][: 2 * len(array)]
        numbers, high = np.ascontiguousarray(halves[::2]), halves[1::2]
        valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
        wide = high != numbers >> 63
        if (wide if valid is None else wide & valid).any():
            raise FormatError(f"{what} has decimals of more than 18 digits; the file is damaged, write it again")
        return pyarrow.array(numbers, mask=None if valid is None else ~valid)
    return array.view(made) if kind.family == "time" else array.cast(made)


def taken_rows(array: Any, rows: np.ndarray) -> Any:
    """Some of an array, ascending, int64; without a copy where they follow each other."""
    import pyarrow

    if rows[-1] - rows[0] == len(rows) - 1:
        return array.slice(rows[0], len(rows))
    return array.take(pyarrow.array(rows))


def without_damage(what: str, array: Any, kind: ColumnKind) -> Any:
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
