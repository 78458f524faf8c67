"""Reading every list once meets every neighbour, in any form, on any processor."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.graph.scan import Scan


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("vertices", [1, 31, 32, 33, 700])
def test_every_neighbour_is_met_once(device, form, vertices):
    draw = torch.Generator().manual_seed(vertices)
    src, dst = torch.randint(0, vertices, (2, 9 * vertices), generator=draw)
    hub = torch.zeros(5000, dtype=torch.int64)  # one list of several tasks
    graph = hl.from_edges(torch.cat([src, hub]), torch.cat([dst, hub]), num_vertices=vertices)
    scan = Scan(hl.prepare(form(graph), device=device))
    for _ in range(2):
        scan()
        total, moved = scan.result()
        assert total == int(graph.indices.sum())
    if form is not hl.compress:
        assert moved >= 4 * graph.num_edges
    assert moved > 0 and moved % 32 == 0
