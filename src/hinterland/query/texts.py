"""What stands for texts in native code: numbers, or where they stand among the literals that they are compared with."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import _core
from ..runtime.params import struct

Comparison = tuple[str, tuple[str, ...]]  # an order, and the literals on its right: whether it holds for any of them
_ORDERS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Codes:
    """Codes of a column's texts."""

    def __init__(self) -> None:
        self._last: tuple[Any, Any] | None = None
        self._themselves = np.zeros(1, np.int32)

    def __len__(self) -> int:
        """How many codes there are."""
        raise NotImplementedError

    def of_dictionary(self, dictionary: Any) -> np.ndarray:
        """The code of each of a dictionary's entries, int32; at least one."""
        if self._last is None or not self._last[0].equals(dictionary):
            self._last = dictionary, self.of_texts(dictionary) if len(dictionary) else np.zeros(1, np.int32)
        return self._last[1]

    @property
    def themselves(self) -> np.ndarray:
        """All codes, in their order, int32; at least one."""
        if len(self) > len(self._themselves):  # room for more, so that they are few whose segments are many
            self._themselves = np.arange(max(len(self), 2 * len(self._themselves)), dtype=np.int32)
        return self._themselves[: max(len(self), 1)]

    def of_texts(self, array: Any, wanted: tuple[int, int] | None = None) -> np.ndarray:
        """The code of each text of a valid array of Arrow's, int32; anything where there is none.

        Args:
            array: the texts.
            wanted: where bits lie that say which ones are wanted, an address and the first one's bit: others get any code.
        """
        found = np.empty(len(array), np.int32)
        texts, held = _laid_out(array)
        if wanted is not None:
            texts.valid, texts.valid_at = wanted
        self._find(texts, found)
        del held
        return found

    def truths(self, comparison: Comparison) -> np.ndarray:
        """Of each code, whether the comparison holds: bool."""
        raise NotImplementedError

    def _find(self, texts: Any, to: np.ndarray) -> None:
        raise NotImplementedError


class Numbers(Codes):
    """Texts, numbered as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._all = _core.QueryTexts()

    def __len__(self) -> int:
        return len(self._all)

    def _find(self, texts: Any, to: np.ndarray) -> None:
        self._all.number(texts.address, to.ctypes.data)

    def truths(self, comparison: Comparison) -> np.ndarray:
        """Of each code, whether the comparison holds: bool."""
        beside = Places(comparison[1])
        places = np.empty(len(self), np.int32)
        beside._find(self._array(), places)
        return beside.truths(comparison)[places]

    def texts(self, codes: np.ndarray) -> tuple[list[str], np.ndarray]:
        """What some codes stand for; and of each how many of these texts come before it in the order of texts."""
        import pyarrow
        import pyarrow.compute

        every = self._array()
        ends = pyarrow.foreign_buffer(every.offsets, 8 * (every.count + 1), self)
        bytes_ = pyarrow.foreign_buffer(every.bytes, np.frombuffer(ends, np.int64)[-1], self)
        array = pyarrow.Array.from_buffers(pyarrow.large_string(), every.count, [None, ends, bytes_])
        distinct, place = np.unique(codes, return_inverse=True)
        texts = array.take(pyarrow.array(distinct))
        rank = np.empty(len(distinct), np.int64)
        rank[pyarrow.compute.sort_indices(texts).to_numpy()] = np.arange(len(distinct))
        return texts.take(pyarrow.array(place)).to_pylist(), rank[place]

    def _array(self) -> Any:
        found = struct("TextArray")()
        self._all.copy_array(found.address)
        return found


class Places(Codes):
    """Of texts that are only compared: where they stand among all literals (place_of). Without any, of texts that are
    counted.

    Attributes:
        literals: TextLiteral of each, in order; at least one.
        count: of literals.
    """

    def __init__(self, literals: Iterable[str]) -> None:
        super().__init__()
        ordered = sorted(set(literals))
        self._places = {literal: place for place, literal in enumerate(ordered)}
        self._encoded = [literal.encode(errors="surrogatepass") for literal in ordered]
        self.count, literal = len(ordered), struct("TextLiteral")
        self.literals = (literal * max(self.count, 1))()
        for place, text in enumerate(self._encoded):
            self.literals[place] = literal(bytes=ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value, size=len(text))

    def __len__(self) -> int:
        return 2 * self.count + 1

    def _find(self, texts: Any, to: np.ndarray) -> None:
        _core.place_texts(texts.address, _core.address_of(self.literals), self.count, to.ctypes.data)

    def truths(self, comparison: Comparison) -> np.ndarray:
        """Of each code, whether the comparison holds: bool."""
        order, literals = comparison
        codes, places = np.arange(len(self)), [2 * self._places[literal] + 1 for literal in literals]
        return np.isin(codes, places) if order == "==" else np.any([_ORDERS[order](codes, place) for place in places], axis=0)


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
