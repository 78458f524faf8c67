"""Rows of every width, at every place within a line, by every way, in every order, are those of torch."""

import itertools

import pytest
import torch

from benchmarks._gather_widths import touched
from hinterland import UnifiedTensor
from hinterland.memory import gather, plan

WIDTHS = [*range(1, 301), 304, 320, 384, 400, 481, 512, 516, 576, 640, 656, 672, 676, 704, 768, 1000, 1024, 1028, 1168, 1500]
WIDTHS += [2047, 2048, 2050, 2408, 3072, 4092, 4096]
ROWS, COUNT = 600, 1100
PLACEMENTS = ["pageable", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("managed", "pinned"))]


@pytest.fixture(params=PLACEMENTS)
def table(request):
    """Bytes at random, and how a kernel or the CPU's loop addresses them."""
    on_cpu = request.param == "pageable"
    if not on_cpu:
        request.getfixturevalue("gpu")
    held = UnifiedTensor.empty((ROWS * max(WIDTHS) + 128,), torch.uint8, request.param)
    held.cpu().random_(256, generator=torch.Generator().manual_seed(1))
    return held.cpu() if on_cpu else held.cuda(), held.cpu()


def ways(device, row_bytes, index):
    """What ``copy_rows`` may be asked for: as it comes, sorted, and on a multiprocessor or three, in bulk where that is so."""
    if device.type == "cpu":
        return [{}]
    visit = plan.visiting_order(index, row_bytes, ROWS * row_bytes)
    return [{}, {"visit": visit}, {"max_blocks": 1}, {"max_blocks": 3, "visit": visit}]


def places(row_bytes):
    """Where tables of such rows begin within a line; rows that may be copied in bulk also at its start and within."""
    return [row_bytes * 37 % 128] if row_bytes % 128 else [0, 48, 101]


def test_every_width_is_gathered_and_scattered(table):
    reached, on_cpu = table
    device = reached.device
    random = torch.Generator().manual_seed(2)
    packed = torch.empty(COUNT * max(WIDTHS) + 16, dtype=torch.uint8, device=device)
    for row_bytes, at in ((width, at) for width in WIDTHS for at in places(width)):
        rows = on_cpu[at : at + ROWS * row_bytes].view(ROWS, row_bytes)
        out = packed[at % 16 : at % 16 + COUNT * row_bytes].view(COUNT, row_bytes)
        address = reached.data_ptr() + at
        for dtype in (torch.int32, torch.int64):
            index = torch.randint(-ROWS, ROWS, (COUNT,), generator=random, dtype=dtype)
            there, expected = index.to(device), rows[index.long()].to(device)
            for options in ways(device, row_bytes, there):
                out.fill_(255)
                gather.copy_rows(address, ROWS, row_bytes, out, there, **options)
                assert torch.equal(out, expected), (row_bytes, at, dtype, options)
            padding = gather.Padding(torch.zeros(1, dtype=torch.int64, device=device), 255 - rows[:1].to(device))
            for count, options in itertools.product((0, 1, COUNT // 2, COUNT + 9), ways(device, row_bytes, there)):
                out.fill_(255), padding.begin.fill_(count)
                gather.copy_rows(address, ROWS, row_bytes, out, there, **options, padding=padding)
                assert torch.equal(out[:count], expected[:count]), (row_bytes, at, dtype, options, count)
                assert (out[count:] == padding.row).all(), (row_bytes, at, dtype, options, count)
            where = torch.randperm(ROWS, generator=random).to(dtype)
            values = torch.randint(256, (ROWS, row_bytes), generator=random, dtype=torch.uint8)
            given = packed[1 : 1 + values.numel()].view(ROWS, row_bytes).copy_(values)
            gather.copy_rows(address, ROWS, row_bytes, given, where.to(device), into_table=True)
            assert torch.equal(rows[where.long()], values), (row_bytes, at, dtype)


@pytest.mark.parametrize("row_bytes", [16, 20, 100, 128, 300, 656, 1028, 4092])
def test_the_benchmarks_limits_stand_on_the_lines_that_are_counted(row_bytes):
    rows = 3200  # begin at every place within a line that rows of this width begin at, each as often
    table = UnifiedTensor.empty((rows, row_bytes), torch.uint8, "pageable")
    assert table.cpu().data_ptr() % 128 == 0
    host = table.count(torch.arange(rows)).tiers["host"]
    assert (touched(row_bytes, 128), touched(row_bytes, 32)) == (host["requests"] / rows, host["bytes"] / 32 / rows)
