"""Random rows of pinned and split host memory by each way of ``gather(by=)``, against the rates that they are to reach.

GB/s are 10^9 bytes of rows a second by the clock, the index's copy to the host included. Row numbers are fresh in every
repetition, times are medians, and each way's rows are compared with the GPU's. ``--managed-gib`` makes the table a split one.
"""

from __future__ import annotations

import argparse
from functools import partial
from statistics import median
from typing import Any

import torch

from hinterland import UnifiedTensor, _core
from hinterland.memory import set_managed_limit
from hinterland.memory.help_plan import WAYS, plan_help
from hinterland.runtime import devices

from ._timing import each_of

GIB = 1 << 30
ROW_BYTES = (64, 128, 256, 512, 576, 656, 1024)
# GB/s of 2^20 rows of 96 GiB, 8 of them mapped in large pages, on an H200 with 16 cores.
TARGETS = {64: 20, 128: 20, 256: 21, 512: 26, 1024: 32}
FEW = (1, 1 << 10, 1 << 16)  # rows of gathers that help must not make slower
REPEATS = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--table-gib", type=float, default=96, help="size of the table")
    parser.add_argument("--managed-gib", type=float, default=8, help="how much of it is mapped in large pages")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All figures; ``--small`` takes a table of 1 GiB, and does without a GPU where there is none."""
    size, managed = (1.0, 0.0) if options.small else (options.table_gib, options.managed_gib)
    device = devices.as_device()
    table = filled(size, managed)
    rows = 1 << 17 if options.small else 1 << 20
    return {
        "table_gib": size,
        "managed_gib": table.managed_bytes / GIB,
        "threads": _core.num_threads(),
        "rows": rows,
        "by_width": [measure(table, row_bytes, rows, device) for row_bytes in ROW_BYTES],
        "few": [few(table, row_bytes, count, device) for row_bytes in (128, 1024) for count in FEW],
    }


def filled(size_gib: float, managed_gib: float) -> UnifiedTensor:
    """A table whose every 8 bytes are their own number, pinned from ``managed_gib`` on."""
    words = int(size_gib * GIB) // 8
    set_managed_limit(int(managed_gib * GIB))
    try:
        table = UnifiedTensor.empty((words,), torch.int64, "host" if managed_gib else "pinned")
    finally:
        set_managed_limit(None)
    torch.arange(words, out=table.cpu())
    return table


def measure(table: UnifiedTensor, row_bytes: int, rows: int, device: torch.device) -> dict[str, Any]:
    """Rates for one width: by each way, and by what the planner chooses."""
    view = as_rows(table, row_bytes)
    plan = plan_help(view.placement, rows, row_bytes, view.nbytes, view.managed_bytes)
    found: dict[str, Any] = {"row_bytes": row_bytes, "planned": plan.by}
    out = torch.empty((rows, row_bytes), dtype=torch.uint8, device=device)
    check = torch.randint(0, len(view), (rows,), device=device)
    expected = view.gather(check)
    for by in (*WAYS, None) if device.type == "cuda" else (None,):
        sets = [torch.randint(0, len(view), (rows,), device=device) for _ in range(REPEATS)]
        seconds = median(each_of([partial(view.gather, index, out=out, by=by) for index in sets], device)[1:])
        found[f"{by or 'auto'}_gbs"] = rows * row_bytes / seconds / 1e9
        assert torch.equal(view.gather(check, by=by), expected), f"{row_bytes} B by {by}"
    if row_bytes in TARGETS:
        found["target_gbs"] = TARGETS[row_bytes]
    return found


def few(table: UnifiedTensor, row_bytes: int, rows: int, device: torch.device) -> dict[str, Any]:
    """Microseconds of a gather of few rows, as the GPU alone does it and as planned."""
    view = as_rows(table, row_bytes)
    found: dict[str, Any] = {"row_bytes": row_bytes, "rows": rows}
    for name, by in (("gpu_us", "gpu" if device.type == "cuda" else "cpu"), ("auto_us", None)):
        sets = [torch.randint(0, len(view), (rows,), device=device) for _ in range(20)]
        found[name] = 1e6 * median(each_of([partial(view.gather, index, by=by) for index in sets], device)[2:])
    return found


def as_rows(table: UnifiedTensor, row_bytes: int) -> UnifiedTensor:
    """The same bytes in rows of ``row_bytes``, without what is left over."""
    return table.view((table.nbytes // row_bytes, row_bytes), dtype=torch.uint8)
