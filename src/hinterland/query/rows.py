"""Rows of a table: the parts of a file that hold them, and which of them are wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

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

    def __call__(self, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether any row of these ranges is wanted."""
        return self.before(ends) > self.before(begins)

    def bits(self, row: int) -> tuple[int, int]:
        """Where the bits of a row and of those after it lie: an address, and the bit there."""
        return self.words.ctypes.data, row - self.begin

    @cached_property
    def _sums(self) -> tuple[np.ndarray, np.ndarray]:
        before = np.cumsum(np.bitwise_count(self.words), dtype=np.int64)
        return np.concatenate([[0], before]), np.append(self.words, np.uint64(0))

    def before(self, rows: np.ndarray) -> np.ndarray:
        """How many wanted rows come before each of some rows."""
        (before, padded), (word, bit) = self._sums, np.divmod(rows - self.begin, 64)
        return before[word] + np.bitwise_count(padded[word] & ((np.uint64(1) << bit.astype(np.uint64)) - np.uint64(1)))
