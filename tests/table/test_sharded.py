"""Tables of which every node holds a part; what their ranks do together stands in tests/training/test_shared.py."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from hinterland.table import Shards


@given(st.integers(0, 100_000), st.integers(1, 9))
def test_every_row_has_one_place(rows, nodes):
    """The node and number that a row is found at are those that lead back to it; nodes hold about equally many."""
    shards = Shards(rows, nodes)
    owner, number = shards.find(torch.arange(rows))
    counts = torch.bincount(owner, minlength=nodes).tolist()
    assert counts == [shards.count(node) for node in range(nodes)] and sum(counts) == rows
    assert max(counts) - min(counts) <= shards.block
    for row in range(0, rows, max(1, rows // 50)):
        assert shards.row(int(owner[row]), int(number[row])) == row
        assert int(number[row]) < counts[int(owner[row])]
