"""Texts of a column, numbered as they come."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .. import _core
from ..runtime.params import struct

Comparison = tuple[str, tuple[str, ...]]  # an order, and the literals on its right: whether it holds for any of them
_ORDERS = {"!=": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}  # pyarrow's names


class TextCodes:
    """The codes of a column's texts."""

    def __init__(self) -> None:
        self._all = _core.QueryTexts()
        self._last: tuple[Any, Any] | None = None

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self._all)

    def codes(self, array: Any) -> np.ndarray:
        """The code of each text of a valid array of Arrow's, also of one with a dictionary, int32; anything where there is
        none."""
        import pyarrow

        if not pyarrow.types.is_dictionary(array.type):
            return self.of_texts(array)
        dictionary = array.dictionary
        if self._last is None or not self._last[0].equals(dictionary):
            self._last = dictionary, self.of_texts(dictionary) if len(dictionary) else np.zeros(1, np.int32)
        codes: np.ndarray = self._last[1][array.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        return codes

    def of_texts(self, array: Any) -> np.ndarray:
        """The code of each text of a valid array of Arrow's, int32; anything where there is none."""
        found = np.empty(len(array), np.int32)
        texts, held = _laid_out(array)
        self._all.number(texts.address, found.ctypes.data)
        del held
        return found

    def truths(self, comparison: Comparison) -> np.ndarray:
        """Of each code, whether the comparison holds: bool."""
        import pyarrow
        from pyarrow import compute

        order, literals = comparison
        texts = self._texts()
        if order == "==":
            found = compute.is_in(texts, value_set=pyarrow.array(literals, texts.type))
        elif order == "like":  # as SQL has it: pyarrow's own takes a backslash for more than itself
            pattern = "".join({"%": ".*", "_": "."}.get(one, re.escape(one)) for one in literals[0])
            found = compute.match_substring_regex(texts, rf"(?s)\A{pattern}\z")
        else:
            found = getattr(compute, _ORDERS[order])(texts, pyarrow.scalar(literals[0], texts.type))
        return found.to_numpy(zero_copy_only=False)

    def texts(self, codes: np.ndarray) -> tuple[list[str], np.ndarray]:
        """What some codes stand for; and of each how many of these texts come before it in the order of texts."""
        import pyarrow
        import pyarrow.compute

        distinct, place = np.unique(codes, return_inverse=True)
        texts = self._texts().take(pyarrow.array(distinct))
        rank = np.empty(len(distinct), np.int64)
        rank[pyarrow.compute.sort_indices(texts).to_numpy()] = np.arange(len(distinct))
        return texts.take(pyarrow.array(place)).to_pylist(), rank[place]

    def _texts(self) -> Any:
        """All of them, an array of pyarrow's."""
        import pyarrow

        every = struct("TextArray")()
        self._all.copy_array(every.address)
        ends = pyarrow.foreign_buffer(every.offsets, 8 * (every.count + 1), self)
        bytes_ = pyarrow.foreign_buffer(every.bytes, np.frombuffer(ends, np.int64)[-1], self)
        return pyarrow.Array.from_buffers(pyarrow.large_string(), every.count, [None, ends, bytes_])


def _laid_out(array: Any) -> tuple[Any, Any]:
    """An array of Arrow's as TextArray, and what must live as long."""
    import pyarrow

    if not (pyarrow.types.is_string(array.type) or pyarrow.types.is_large_string(array.type)):
        array = array.cast(pyarrow.large_string())
    width = 4 if pyarrow.types.is_string(array.type) else 8
    valid, offsets, texts = array.buffers()
    if offsets is None or not offsets.size:  # of no texts
        offsets = pyarrow.py_buffer(bytes(width))
    made = struct("TextArray")(
        offsets=offsets.address + width * array.offset,
        offset_bytes=width,
        bytes=texts.address if texts is not None else 0,
        count=len(array),
        valid=valid.address if valid is not None else 0,
        valid_at=array.offset,
    )
    return made, (array, offsets)
