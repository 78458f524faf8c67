from __future__ import annotations

import os

import pytest
import torch

from hinterland import _core
from hinterland.probe import link, peers, random_rows
from hinterland.runtime.launch import launch
from hinterland.runtime.params import struct
from hinterland.table import UnifiedTensor

pytestmark = pytest.mark.gpu
GPU = torch.device("cuda", 0)


def test_the_chain_kernel_follows_the_chain_that_the_cpu_follows():
    count, stride = 1 << 10, 64
    table = UnifiedTensor.empty((count * stride,), torch.int64)
    _core.write_chain(table.cpu().data_ptr(), count, stride)
    at = torch.zeros(1, dtype=torch.int64, device=GPU)
    params = struct("probe::ChainParams")(base=table.cuda(GPU).data_ptr(), steps=777, at=at.data_ptr())
    launch(link.KERNELS, "read_chain", GPU, 1, 1, params)
    assert at.item() == _core.read_chain(table.cpu().data_ptr(), 0, 777)


def test_link_figures_make_sense():
    """Other tests use the GPU as well: their kernels take turns with those that read host memory here; copies do not wait."""
    found = link.saturated(link.measure(GPU))
    assert 1e9 < found.d2h < 1e12 and 1e9 < found.h2d < 1e12
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    assert (0.5 * found.h2d if alone else 1e9) < found.zero_copy < 1.1 * found.h2d
    assert 2e-7 < found.latency < 2e-5
    assert set(found.threads_to_saturate) == {4, 16}
    assert found.threads_to_saturate[16] <= found.threads_to_saturate[4]
    assert {p.mapping for p in found.sequential} == {"managed", "pinned"}


def test_row_curves_make_sense(monkeypatch):
    monkeypatch.setattr(random_rows, "_GIB", 1 << 26)
    points, left_out = random_rows.on_gpu(GPU)
    assert {p.mapping for p in points} == {"managed", "pinned"} and left_out == []
    assert {p.row_bytes for p in points} == set(random_rows.ROW_BYTES)
    assert all(1e7 < p.random < 1e12 and 1e7 < p.sorted < 1e12 for p in points)


def test_sorting_more_takes_longer():
    times = random_rows.sort_seconds(GPU)
    assert times[1 << 22] > times[1 << 16] > 0


def test_peers_read_each_other():
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    found, left_out = peers.measure()
    assert len(found) + len(left_out) == torch.cuda.device_count() * (torch.cuda.device_count() - 1)
    assert all(p.bandwidth > 1e9 and p.random64 > 1e8 for p in found)
    torch.cuda.synchronize()  # and torch finds no error left behind
    torch.zeros(1, device="cuda:0").to("cuda:1")


def test_helped_gathers_are_measured_by_each_way(monkeypatch):
    monkeypatch.setattr(random_rows, "_GIB", 1 << 24)
    points, left_out = random_rows.helped(torch.device("cuda", 0))
    assert [point.row_bytes for point in points] == [64, 128, 256, 576, 656, 1024] and left_out == []
    assert all(rate > 1e7 for point in points for rate in (point.gpu, point.cpu, point.both))
