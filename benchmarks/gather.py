"""Random rows of a table in host memory, against the link's copy engine, against torch and WholeGraph, and across mappings.

GB/s are 10^9 bytes of rows a second. ``ratio`` is the share of what this run's copy engine moves from pinned memory.
Row numbers are fresh in every repetition, times are medians, and a sample of each result is checked. ``widths`` has rows of
every width beside the link's limits (benchmarks/_gather_widths.py), which ``python -m benchmarks._gather_plot`` draws.
WholeGraph is run where ``pylibwholegraph`` is installed (benchmarks/_wholegraph.py).
"""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import Any

import torch

from hinterland import UnifiedTensor
from hinterland.memory import plan_sort
from hinterland.memory.limits import host_memory
from hinterland.probe.link import copy_rates
from hinterland.runtime import devices

from . import _wholegraph
from ._gather_widths import FEW_WIDTHS, GIB, TABLE_BYTES, WIDTHS, least, row_numbers, sweep, verify
from ._timing import each_of

ROW_BYTES = (32, 64, 128, 256, 512, 1024, 1028, 2048)
REPEATS = 7


def run(small: bool) -> dict[str, Any]:
    """All figures; ``small`` takes a small table, and does without a GPU where there is none."""
    if not devices.cuda_available():
        return _on_cpu(64 << 20 if small else 4 * GIB, 100_000 if small else 1 << 20)
    device = devices.as_device("cuda")
    size = GIB if small else min(48 * GIB, host_memory(0)[0] * 3 // 5, torch.cuda.mem_get_info()[0] * 3 // 4)
    rows = 1 << 17 if small else 1 << 20
    ceiling = copy_rates(device, GIB)[0]
    table = filled(size, "managed")
    results: dict[str, Any] = {
        "copy_engine_gbs": ceiling / 1e9,
        "table_gib": size / GIB,
        "rows": rows,
        "managed": [measure_row(table, row_bytes, rows, ceiling, device) for row_bytes in ROW_BYTES],
        "max_blocks": [_blocks(table, blocks, rows, ceiling, device) for blocks in (4, 8, 16, 32)],
        "widths": (widths := sweep(table, rows, ceiling, device, FEW_WIDTHS if small else WIDTHS)),
        "least_of_widths": least(widths),
        "torch_512": _torch(table, rows, device),
        "one_row_us": {check: _one_row(table, check, device) for check in ("sync", "async")},
    }
    del table
    table = filled(size, "pinned")
    results["pinned"] = [measure_row(table, row_bytes, rows, ceiling, device) for row_bytes in (128, 512)]
    del table
    ours = {row["row_bytes"]: row.get("sorted_gbs", row["gbs"]) for row in widths}
    rival = _wholegraph.rates(min(size, TABLE_BYTES), rows)
    results["wholegraph"] = [{**row, "ours_gbs": ours[row["row_bytes"]]} for row in rival]
    managed = next(row["random_gbs"] for row in results["managed"] if row["row_bytes"] == 512)
    results["managed_over_torch_512"] = managed / results["torch_512"]["gbs"]
    results["managed_over_pinned_512"] = managed / results["pinned"][1]["random_gbs"]
    return results


def filled(size: int, placement: str) -> UnifiedTensor:
    """A table whose every 8 bytes are their own number."""
    table = UnifiedTensor.empty((size // 8,), torch.int64, placement)
    torch.arange(size // 8, out=table.cpu())
    return table


def measure_row(table: UnifiedTensor, row_bytes: int, rows: int, ceiling: float, device: torch.device) -> dict[str, Any]:
    """Rates for one row size: as given, sorted beforehand, and as the planner decides, with what that costs."""
    view = _as_rows(table, row_bytes)
    indices = row_numbers(len(view), rows, device, REPEATS)
    ordered = [index.sort().values for index in indices]
    out = torch.empty((rows, row_bytes), dtype=torch.uint8, device=device)
    found: dict[str, Any] = {"row_bytes": row_bytes}
    for kind, sets, sort in (("random", indices, False), ("sorted", ordered, False), ("auto", indices, "auto")):
        calls = [partial(view.gather, index, out=out, check="async", sort=sort) for index in sets]
        rate = rows * row_bytes / median(each_of(calls, device)[1:])
        verify(view, sets[-1], out)
        found[f"{kind}_gbs"] = rate / 1e9
        found[f"{kind}_ratio"] = rate / ceiling
    found["auto_sorts"] = plan_sort(view.placement, rows, row_bytes, view.nbytes, view.managed_bytes).sort
    return found


def _blocks(table: UnifiedTensor, blocks: int, rows: int, ceiling: float, device: torch.device) -> dict[str, Any]:
    view = _as_rows(table, 512)
    out = torch.empty((rows, 512), dtype=torch.uint8, device=device)
    take = partial(view.gather, out=out, check="async", sort=False, max_blocks=blocks)
    calls = [partial(take, index) for index in row_numbers(len(view), rows, device, REPEATS)]
    rate = rows * 512 / median(each_of(calls, device)[1:])
    return {"blocks": blocks, "row_bytes": 512, "gbs": rate / 1e9, "ratio": rate / ceiling}


def _torch(table: UnifiedTensor, rows: int, device: torch.device) -> dict[str, Any]:
    """What a torch user has: index_select with all cores into pinned memory, then a copy."""
    view = _as_rows(table, 512).cpu().view(torch.float32)
    pinned = torch.empty((rows, 128), pin_memory=True)
    out = torch.empty((rows, 128), device=device)

    def select_and_copy(index: torch.Tensor) -> None:
        torch.index_select(view, 0, index, out=pinned)
        out.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize(device)

    here = torch.device("cpu")
    times = each_of([partial(select_and_copy, index) for index in row_numbers(len(view), rows, here, REPEATS)], here)
    return {"row_bytes": 512, "gbs": rows * 512 / median(times[1:]) / 1e9, "threads": torch.get_num_threads()}


def _one_row(table: UnifiedTensor, check: str, device: torch.device) -> float:
    """Microseconds of the CPU for one row: ``ut[index]``, and the same with a deferred check."""
    view = _as_rows(table, 512)
    index = torch.zeros(1, dtype=torch.int64, device=device)
    call = partial(view.__getitem__, index) if check == "sync" else partial(view.gather, index, check="async")

    def hundred() -> None:
        for _ in range(100):
            call()

    times = []
    for _ in range(11):
        torch.cuda.synchronize(device)
        times += each_of([hundred], torch.device("cpu"))
    return median(times[1:]) / 100 * 1e6


def _on_cpu(size: int, rows: int) -> dict[str, Any]:
    """The CPU's loop against torch.index_select."""
    table = filled(size, "pageable")
    here = torch.device("cpu")
    found = []
    for row_bytes in (8, *ROW_BYTES):
        view = _as_rows(table, row_bytes)
        indices = row_numbers(len(view), rows, here, REPEATS)
        out, theirs = (torch.empty((rows, row_bytes), dtype=torch.uint8) for _ in range(2))
        ours = each_of([partial(view.gather, index, out=out) for index in indices], here)
        torchs = each_of([partial(torch.index_select, view.cpu(), 0, index, out=theirs) for index in indices], here)
        assert torch.equal(out, theirs)
        rates = [rows * row_bytes / median(times[1:]) / 1e9 for times in (ours, torchs)]
        found.append({"row_bytes": row_bytes, "gbs": rates[0], "torch_gbs": rates[1], "ratio": rates[0] / rates[1]})
    return {"table_gib": size / GIB, "rows": rows, "threads": torch.get_num_threads(), "pageable": found}


def _as_rows(table: UnifiedTensor, row_bytes: int) -> UnifiedTensor:
    return table.view((table.nbytes // row_bytes, row_bytes), torch.uint8)
