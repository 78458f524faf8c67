"""Arrays of Arrow's as an engine takes them: decimals, dates and times as numbers that are stored, half floats as floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..runtime.errors import FormatError
from .bounds import Kind
from .segments import whole, without_damage


def type_of(arrow: Any, kind: Kind) -> Any:
    """The type of a column that a file has as ``arrow``."""
    import pyarrow

    if kind.family == "text":
        return arrow
    other = {"decimal": pyarrow.int64(), "float16": pyarrow.float32(), "bool": pyarrow.bool_()}
    return other.get(kind.element) or pyarrow.from_numpy_dtype(np.dtype(kind.element))


def taken(what: str, array: Any, kind: Kind) -> Any:
    """An array of that type.

    Raises:
        FormatError: it is damaged; ``what`` names the column.
    """
    import pyarrow

    made = type_of(array.type, kind)
    array = without_damage(what, array, kind)
    if kind.element == "decimal":
        numbers, wide = whole(np.frombuffer(array.buffers()[1] or b"", np.int64)[2 * array.offset :][: 2 * len(array)])
        valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
        if (wide if valid is None else wide & valid).any():
            raise FormatError(f"{what} has decimals of more than 18 digits; the file is damaged, write it again")
        return pyarrow.array(numbers, mask=None if valid is None else ~valid)
    return array.view(made) if kind.family == "time" else array.cast(made)
