"""Rows of many widths and types are torch's, wherever they lie and however they are asked for."""

import numpy as np
import pytest
import torch

import hinterland as hl
from hinterland.memory import gather
from hinterland.runtime import devices

from ..split import across_boundary
from .far_rows import FarRows

ROWS, COUNT = 700, 900
WIDTHS = [1, 3, 4, 20, 32, 64, 100, 128, 132, 256, 300, 320, 400, 512, 602, 656, 768, 1028, 1168, 2048, 2408, 4096]  # bytes
DTYPES = [torch.uint8, torch.float16, torch.float32, torch.int64]
PLACEMENTS = ["host", "pinned", "split", "tiered", "cached", "storage", "far"]


def placed(placement, source, device, folder):
    if placement == "far":
        return FarRows(source)
    if placement == "storage":
        np.save(folder / "x.npy", source.numpy())
        return hl.StorageArray.open(folder / "x.npy", cache=hl.StorageCache("1MiB"), mode="r+")
    if placement == "split":
        return across_boundary(source)
    if placement == "pinned" and device.type == "cpu":
        placement = "pageable"
    table = hl.UnifiedTensor.from_tensor(source, placement="host" if placement in ("tiered", "cached") else placement)
    if placement == "tiered":
        return table.tiered(local=source.nbytes // 3, devices=[str(device)])
    return table.cached(source.nbytes // 3 + (1 << 16), device) if placement == "cached" else table


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_rows_are_torchs(placement, device, tmp_path):
    random = torch.Generator().manual_seed(3)
    for turn, row_bytes in enumerate(WIDTHS):
        fitting = [dtype for dtype in DTYPES if row_bytes % dtype.itemsize == 0]
        dtype = fitting[turn % len(fitting)]
        source = torch.randint(0, 100, (ROWS, row_bytes // dtype.itemsize), generator=random).to(dtype)
        table = placed(placement, source, device, tmp_path)
        for index_type in (torch.int32, torch.int64):
            index = torch.randint(-ROWS, ROWS, (COUNT,), generator=random, dtype=index_type)
            expected, there = source[index.long()], index.to(device)
            for options in ({}, {"sort": True}, {"max_blocks": 2}):
                assert torch.equal(table.gather(there, **options).cpu(), expected), (row_bytes, dtype, index_type, options)
        where = torch.randperm(ROWS, generator=random)[: ROWS // 2]
        rows = torch.randint(0, 100, source[where].shape, generator=random).to(dtype)
        written = table.host if placement == "cached" else table
        written.scatter_(where.to(device), rows.to(device))
        source[where] = rows
        if placement == "cached":
            table.clear()
        assert torch.equal(table[torch.arange(ROWS, device=device)].cpu(), source), (row_bytes, dtype)
        if hasattr(table, "close"):
            table.close()


@pytest.fixture
def some_gpu(monkeypatch):
    """Has there be a GPU, as far as blocks are concerned, of a compute capability."""

    def there_is(capability):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr(devices, "shared_bytes", lambda device: 227 << 10)
        monkeypatch.setattr(devices, "quarter", lambda device: 33)
        gather._bulk_threads.cache_clear()

    yield there_is
    gather._bulk_threads.cache_clear()


@pytest.mark.parametrize(
    ("capability", "row_bytes", "blocks"),
    [
        ((9, 0), 4096, 2),
        ((9, 0), 512, 2),
        ((9, 0), 384, 4),
        ((9, 0), 256, 8),
        ((9, 0), 656, 8),
        ((9, 0), 704, 8),
        ((9, 0), 96, 8),
        ((9, 0), 100, 16),
        ((9, 0), 124, 16),
        ((9, 0), 132, 8),
        ((9, 0), 602, 33),
        ((9, 0), 1 << 20, 8),
        ((8, 0), 512, 8),
    ],
)
def test_what_training_leaves_to_a_gather(capability, row_bytes, blocks, some_gpu):
    """Whole lines come in bulk, on fewer multiprocessors than loads take; of which kind the GPU is decides."""
    some_gpu(capability)
    table = hl.UnifiedTensor.empty((2, row_bytes), torch.uint8, "pageable")
    assert table.gather_blocks(torch.device("cuda", 0)) == blocks
    assert gather.few_blocks(torch.device("cuda", 0), row_bytes, tiered=True) == (
        4 if capability >= (9, 0) and row_bytes % 16 == 0 and 256 <= row_bytes <= 14 << 10 else None
    )


@pytest.mark.parametrize(("row_bytes", "few", "many"), [(512, 2, 8), (384, 4, 8), (656, 8, 8), (602, 33, 33)])
@pytest.mark.parametrize("mapping", ["managed", "pinned", "split"])
def test_rows_that_wait_for_page_walks_are_left_the_blocks_of_loads(mapping, row_bytes, few, many, some_gpu, monkeypatch):
    some_gpu((9, 0))
    table = hl.UnifiedTensor.empty((2, row_bytes), torch.uint8, "pageable")
    monkeypatch.setattr(table._buffer, "mapping", mapping)
    assert table.gather_blocks(torch.device("cuda", 0)) == few  # of a table that is translated without misses
    monkeypatch.setattr("hinterland.table.host.REACH", 0)
    assert table.gather_blocks(torch.device("cuda", 0)) == (few if mapping == "managed" else many)
