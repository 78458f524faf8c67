"""Rows of a table: the parts of a file that hold them, and which of them are wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import _core

_WORDS = _core.QUERY_BLOCK_ROWS // 64
Wanted = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of begins and ends of rows: whether any row there is wanted


class Part(NamedTuple):
    """Rows [begin, end) of a file; ``at``: its record batches or row group."""

    begin: int
    end: int
    at: tuple[int, ...]


def between(ranges: np.ndarray) -> Wanted:
    """Rows of these ranges, [n, 2], which are in order and do not touch."""
    return lambda begins, ends: np.searchsorted(ranges[:, 1], begins, "right") < np.searchsorted(ranges[:, 0], ends, "left")


class Matching:
    """Rows whose bits are set.

    Args:
        words: uint64.
        begin: the row of their first bit.
        few: whether the values of other rows are not worth decoding.
    """

    def __init__(self, words: np.ndarray, begin: int, few: bool = False) -> None:
        self.words, self.begin, self.few = words, begin, few
        self._before: dict[bytes, np.ndarray] = {}

    def __call__(self, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether any row of these ranges is wanted."""
        return self.before(ends) > self.before(begins)

    def bits(self, row: int) -> tuple[int, int]:
        """Where the bits of a row and of those after it lie: an address, and the bit there."""
        return self.words.ctypes.data, row - self.begin

    @cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each block how many wanted rows come before it, and of each of its words how many it has. The last is empty."""
        of_word = np.zeros((-(-len(self.words) // _WORDS) + 1, _WORDS), np.uint8)
        np.bitwise_count(self.words, out=of_word.ravel()[: len(self.words)])
        return np.append(0, np.cumsum(of_word.sum(axis=1, dtype=np.int64))), of_word

    def before(self, rows: np.ndarray) -> np.ndarray:
        """How many wanted rows come before each of some rows; kept, for the pages of most columns begin at the same rows."""
        key = rows.tobytes()
        if key not in self._before:
            self._before[key] = self._counted(rows)
            self._before[key].flags.writeable = False
        return self._before[key]

    def _counted(self, rows: np.ndarray) -> np.ndarray:
        (of_block, of_word), (block, row) = self._counts, np.divmod(rows - self.begin, 64 * _WORDS)
        found = of_block[block]
        inside = np.flatnonzero(row)
        if len(inside):
            block, (word, bit) = block[inside], np.divmod(row[inside], 64)
            found[inside] += (of_word[block] * (np.arange(_WORDS) < word[:, None])).sum(axis=1, dtype=np.int64)
            last = self.words[np.minimum(block * _WORDS + word, len(self.words) - 1)]
            found[inside] += np.bitwise_count(last & ((np.uint64(1) << bit.astype(np.uint64)) - np.uint64(1)))
        return found
