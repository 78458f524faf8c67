"""Rows whose lengths nobody has looked at: cut into pieces where the data is, with the sums that rows in one piece have."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hinterland.fullgraph.aggregate_launch import LaunchShape, PartRows, RowEntries, aggregate_rows

WIDTH = 3


def made(lengths, spare, device):
    """Whole numbers, so that sums are the same in any order; ``spare`` places at the end are of no row."""
    generator = torch.Generator().manual_seed(sum(lengths))
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    places = torch.randint(0, 20, (int(offsets[-1]) + spare,), generator=generator)
    x = torch.randint(-9, 9, (20, WIDTH), generator=generator).double()
    weights = torch.randint(-3, 3, (len(places),), generator=generator).double()
    return [part.to(device) for part in (offsets, places, x, weights)]


def check(lengths, spare, longest, device="cpu"):
    offsets, places, x, weights = made(lengths, spare, device)
    of = torch.repeat_interleave(torch.arange(len(lengths), device=device), offsets.diff())
    end = len(of)
    scale = torch.arange(1.0, len(lengths) + 1, dtype=torch.float64, device=device)
    expected = x.new_zeros(len(lengths), WIDTH).index_add(0, of, x[places[:end]] * weights[:end, None]) * scale[:, None]
    entries = RowEntries(offsets[:-1], offsets[1:], places, weights, most=len(places))
    out = torch.full_like(expected, 77)
    shape = LaunchShape(longest, 1, WIDTH * 8)
    aggregate_rows(entries, PartRows(x), out, shape=shape, scale=scale)
    assert torch.equal(out, expected)
    aggregate_rows(entries, PartRows(x), out, shape=shape, scale=scale, degrees=offsets.diff())
    torch.testing.assert_close(out, expected / offsets.diff().clamp(min=1)[:, None])
    longest = entries.longest(longest)
    pieces = entries.pieces(longest)
    if pieces is not None:
        assert int((pieces.ends - pieces.begins).max()) <= longest
        assert {row for row in pieces.long.tolist() if row >= 0} == {row for row, n in enumerate(lengths) if n > longest}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([0, 0, 1, 3, 4, 5, 8, 9, 23]), min_size=1, max_size=30), st.integers(0, 20), st.integers(1, 9))
def test_sums_of_rows_that_are_cut(lengths, spare, longest):
    check(lengths, spare, longest)


def test_a_row_of_all_entries():
    check([0, 5000, 0], 0, 1)  # more pieces than there may be: they are longer


@pytest.mark.gpu
def test_on_a_gpu():
    for lengths, spare, longest in (
        ([0, 5000, 0, 1, 63, 64, 65], 100, 64),
        ([300] * 40, 0, 64),
        ([0, 0], 9, 4),
        ([70_000, 2], 3, 8),
    ):
        check(lengths, spare, longest, "cuda")
