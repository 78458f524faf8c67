"""Reading every list once meets every neighbour, in any form, on any processor."""

from __future__ import annotations

import pytest
import torch

import hinterland as hl
from hinterland.graph.scan import KERNELS, Scan
from hinterland.graph.traversal import csr_type, on_storage
from hinterland.runtime import jit


@pytest.mark.parametrize("form", [lambda graph: graph, hl.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("vertices", [1, 31, 32, 33, 700])
def test_every_neighbour_is_met_once(device, form, vertices):
    draw = torch.Generator().manual_seed(vertices)
    src, dst = torch.randint(0, vertices, (2, 9 * vertices), generator=draw)
    hub = torch.zeros(5000, dtype=torch.int64)  # one list of several tasks
    graph = hl.from_edges(torch.cat([src, hub]), torch.cat([dst, hub]), num_vertices=vertices)
    graph = form(graph)
    stored, scan = graph.lists.nbytes, Scan(hl.prepare(graph, device=device), stats=True)
    for _ in range(2):
        scan()
        total, moved = scan.result()
        assert total == int(graph.indices.sum())
        # The lists of 32 vertices are read together on a GPU, those of one vertex on the CPU.
        runs = vertices if scan.device.type == "cpu" else -(-vertices // 32)
        parts = graph.num_edges // 2048  # of which each begins in a sector that the one before has read, or two
        bound = stored + 2 * 32 * (runs + parts)
        if graph.is_compressed and scan.device.type == "cuda":
            bound = 2 * stored + 2 * 128 * runs  # whole lines are staged, those of directories twice
        assert stored - 12 <= moved <= bound


@pytest.mark.parametrize(
    ("packed", "family"),
    [(False, "memory::Metered"), (True, "memory::Metered"), (False, on_storage())],
    ids=["plain", "packed", "on storage"],
)
def test_kernels_that_count_or_wait_compile(packed, family):
    """They are no instances that are built ahead."""
    pytest.importorskip("cuda.core")
    instance = f"scan_kernel<{csr_type(8, packed=packed, family=family)}>"
    assert instance not in KERNELS.instances
    mapping, cubin, _ = jit._compile(KERNELS, "sm_90", (instance,))
    assert set(mapping) == {instance} and cubin
