"""Pages that several devices keep together: each device's table leads to the page's own bytes, wherever they lie."""

from __future__ import annotations

import ctypes

import pytest
import torch

import hinterland as hl
from hinterland.graph import dealt_pages
from hinterland.graph.dealt_pages import deal_pages
from hinterland.graph.device_graph import DeviceGraph, Kept

CPU = torch.device("cpu")


def made(gpus, pages, dealt, compressed=False):
    graph = hl.generate("kronecker", scale=12, edge_factor=12, seed=3, device="cpu")
    graph = hl.compress(graph) if compressed else graph
    views = [DeviceGraph(graph.neighbor_lists, CPU) for _ in range(gpus)]
    scores = torch.rand(graph.num_vertices, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = views[0].page_scores(scores)
    return views, scores, deal_pages(views, Kept(pages=pages, dealt=dealt, gpus=gpus), scores)


def page_at(found, page, nbytes):
    """The bytes that a kernel reads of a page."""
    return ctypes.string_at(found.first.data_ptr() + int(found.slots[page]) * nbytes, nbytes)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(("gpus", "pages", "dealt"), [(1, 3, 0), (2, 0, 9), (2, 3, 8), (3, 2, 7), (4, 1, 2), (2, 2, 0)])
def test_a_table_leads_to_the_pages(gpus, pages, dealt, compressed):
    views, scores, found = made(gpus, pages, dealt, compressed)
    view = views[0]
    (nbytes,) = view.page_sizes(False)
    hottest = torch.topk(scores, pages + dealt).indices.tolist()
    owners = []
    for who, (view, one) in enumerate(zip(views, found, strict=True)):
        assert sorted((one.slots >= 0).nonzero().view(-1).tolist()) == sorted(hottest)
        home = view.edges.view(torch.uint8).numpy().tobytes()
        for page in hottest:
            assert page_at(one, page, nbytes) == home[page * nbytes : (page + 1) * nbytes]
            at = one.first.data_ptr() + int(one.slots[page]) * nbytes
            inside = [b.address(CPU) <= at and at + nbytes <= b.address(CPU) + b.nbytes for b in one.blocks]
            assert sum(inside) == 1
            if page in hottest[:pages]:
                assert inside[who]
            else:
                owners.append(inside.index(True))
    shares = [owners.count(i) // gpus for i in range(gpus)]
    assert sum(shares) == dealt and max(shares) - min(shares) <= 1
    taken = DeviceGraph(view.lists, CPU).kept_bytes(Kept(pages=pages, dealt=dealt, gpus=gpus))
    assert not dealt or all(block.nbytes + one.slots.nbytes <= taken for block in found[0].blocks)


def test_pages_at_a_far_address_stay_on_the_host(monkeypatch):
    monkeypatch.setattr(dealt_pages, "_MOST", 1)
    with pytest.warns(UserWarning, match="reads pages of lists from the host: cpu has them at too far an address"):
        _, scores, found = made(2, 3, 8)
    hottest = torch.topk(scores, 3).indices
    assert all(one.slots[hottest].ge(0).all() and int(one.slots.ge(0).sum()) == 3 for one in found)
