"""Chunks that a GPU works on cover the blocks that statistics leave, once, and little else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hinterland.query.chunks import SelectedBlocks, chunks_of

GAPS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=40)


@given(GAPS, st.integers(1, 64))
def test_what_is_left_is_covered_once_and_gaps_are_an_eighth_of_it(gaps, most):
    ranges, end = [], 0
    for skipped, length in gaps:
        ranges.append((end + skipped, end + skipped + length))
        end += skipped + length
    left = {block for first, last in ranges for block in range(first, last)}
    chunks = list(chunks_of(ranges, most))
    blocks = [block for chunk in chunks for block in range(chunk.first, chunk.last)]
    assert blocks == sorted(set(blocks)) and left <= set(blocks)
    assert all(0 < chunk.last - chunk.first <= most for chunk in chunks)
    assert [chunk.left for chunk in chunks] == [len(left & set(range(chunk.first, chunk.last))) for chunk in chunks]
    assert 8 * (len(blocks) - len(left)) <= len(left)


def test_short_gaps_do_not_end_a_chunk_and_long_ones_do():
    pages = [(0, 400), (405, 1000), (1005, 1200), (1900, 2000)]
    assert list(chunks_of(pages, 1024)) == [
        SelectedBlocks(0, 1024, 1014),
        SelectedBlocks(1024, 1200, 176),
        SelectedBlocks(1900, 2000, 100),
    ]


def test_one_block_in_many_is_read_alone():
    assert list(chunks_of([(at, at + 1) for at in range(0, 1000, 100)], 64)) == [
        SelectedBlocks(at, at + 1, 1) for at in range(0, 1000, 100)
    ]


def test_ranges_that_share_a_block():
    assert list(chunks_of([(0, 3), (2, 5), (5, 5), (4, 6)], 64)) == [SelectedBlocks(0, 6, 6)]


def test_nothing_is_left():
    assert list(chunks_of([], 64)) == []
