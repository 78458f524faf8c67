"""EMOGI's programs on arrays that were changed after a graph was made: nothing crashes, hangs or is lost, on any processor."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hinterland as hl
from hinterland.runtime.errors import GraphError
from hinterland_papers import emogi

from ...graph.test_changed_arrays import ended_well

PROGRAM = Path(__file__).with_name("changed_arrays.py")


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("every", [31, pytest.param(1, marks=[pytest.mark.slow, pytest.mark.nightly])])
def test_no_operation_crashes_on_arrays_that_were_changed(device, every):
    assert len(ended_well(PROGRAM, device, every)) > 7000 // every


def test_the_offset_that_is_wrong_by_now_is_named():
    src, dst = torch.randint(0, 40, (2, 300), generator=torch.Generator().manual_seed(1))
    graph = hl.from_edges(src, dst, num_vertices=40)
    graph.indptr[7] = 2**40
    with pytest.raises(GraphError, match=r"indptr\[8\] is \d+, less than indptr\[7\] = 1099511627776"):
        emogi.bfs(graph, 3, device="cpu")
