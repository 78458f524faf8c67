"""Blocks of rows that a GPU works on together, of those that statistics leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

_BRIDGED = 8  # a gap is read where all gaps that were are at most this part of what statistics left until then


class SelectedBlocks(NamedTuple):
    """Blocks ``first`` to ``last``, of which statistics left so many."""

    first: int
    last: int
    left: int


def chunks_of(ranges: Iterable[tuple[int, int]], most: int) -> Iterator[SelectedBlocks]:
    """Ranges of blocks, in ascending order, as chunks of up to ``most`` blocks.

    Short gaps are read: that takes a GPU less time than another chunk does. Ranges may lie over each other's ends.
    """
    begin = end = left = 0
    every = bridged = 0  # blocks that were left until now, and those of gaps
    for first, last in ranges:
        first = max(first, end)
        if begin < end < first and (bridged + first - end) * _BRIDGED > every:
            yield SelectedBlocks(begin, end, left)
            begin = end = first
            left = 0
        elif begin == end:
            begin = end = first
        bridged += first - end
        every += max(last - first, 0)
        for upto, is_left in ((first, False), (last, True)):
            while end < upto:
                taken = min(upto, begin + most) - end
                end += taken
                left += taken * is_left
                if end - begin == most:
                    yield SelectedBlocks(begin, end, left)
                    begin, left = end, 0
    if begin < end:
        yield SelectedBlocks(begin, end, left)
