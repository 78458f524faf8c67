"""Random rows: how fast a gather takes them, by row size, table size and mapping, and what sorting their numbers costs.

Min 2022 (chapter 3) measures rates by row size alone. On today's links the table's size and its mapping matter more:
the GPU's address translation reaches about 1 GiB of 4-KiB mappings.
"""

from __future__ import annotations

from functools import partial
from statistics import median

import torch

from ..machine.model import HelpPoint, RowPoint
from ..memory import cuda
from ..memory.gather import copy_rows
from ..runtime.errors import OutOfMemory
from ..runtime.units import format_bytes
from ..table import UnifiedTensor
from ..table.placement import By
from .timing import best, seconds

ROW_BYTES = (32, 64, 128, 256, 512, 1024, 2048)
_HELPED_BYTES = (64, 128, 256, 576, 656, 1024)
_GIB = 1 << 30
_SORT_KEYS = (1 << 16, 1 << 18, 1 << 20, 1 << 22)


def on_cpu(table_bytes: int, full: bool = False) -> tuple[RowPoint, ...]:
    """The curve of the gather on the CPU, with all threads, from a pageable table of ``table_bytes``."""
    here = torch.device("cpu")
    table = UnifiedTensor.empty((table_bytes,), torch.uint8, placement="pageable")
    table.cpu().fill_(1)
    return tuple(_point(table, table_bytes, width, here, batch_bytes=32 << 20, repeats=5 if full else 3) for width in ROW_BYTES)


def on_gpu(device: torch.device, full: bool = False) -> tuple[tuple[RowPoint, ...], list[str]]:
    """The curves of one GPU for each mapping of host memory, and sentences about sizes that were left out."""
    wanted = [_GIB >> 4, _GIB, 8 * _GIB, *([24 * _GIB, 48 * _GIB] if full else [])]
    points: list[RowPoint] = []
    left_out: list[str] = []
    for mapping in ("managed", "pinned", *(["system"] if cuda.shares_page_tables() else [])):
        table, sentences = _largest(wanted, mapping)
        left_out += sentences
        for size in wanted:
            if table is not None and size <= table.shape[0]:
                points += [_point(table, size, width, device, 256 << 20, repeats=5 if full else 3) for width in ROW_BYTES]
        table = None  # its memory may be needed for the next
    return tuple(points), left_out


def helped(device: torch.device, full: bool = False) -> tuple[tuple[HelpPoint, ...], list[str]]:
    """Rows of pinned memory by each way that a gather can go (memory/help_plan.py), and sentences about sizes that were left
    out."""
    table, left_out = _largest([_GIB, 8 * _GIB, *([48 * _GIB] if full else [])], "pinned")
    if table is None:
        return (), left_out
    return tuple(_helped(table, width, device, repeats=5 if full else 3) for width in _HELPED_BYTES), left_out


def _helped(table: UnifiedTensor, row_bytes: int, device: torch.device, repeats: int) -> HelpPoint:
    view = table.view((table.nbytes // row_bytes, row_bytes))
    count = min(1 << 20, len(view))
    out = torch.empty((count, row_bytes), dtype=torch.uint8, device=device)
    random = torch.Generator(device).manual_seed(row_bytes)

    def rate(by: By) -> float:
        """Bytes a second; the first run warms up."""
        times = []
        for _ in range(repeats + 1):
            index = torch.randint(0, len(view), (count,), generator=random, device=device)
            times.append(seconds(partial(view.gather, index, out, by=by), device))
        return count * row_bytes / median(times[1:])

    return HelpPoint(view.nbytes, row_bytes, rate("gpu"), rate("cpu"), rate("both"))


def _largest(sizes: list[int], mapping: str) -> tuple[UnifiedTensor | None, list[str]]:
    """A table of the largest of the ascending sizes that memory allows, and sentences about the larger ones."""
    left_out: list[str] = []
    for size in reversed(sizes):
        try:
            return UnifiedTensor.empty((size,), torch.uint8, placement=mapping), left_out
        except OutOfMemory as error:
            left_out.append(f"rows of a {format_bytes(size)} table, {mapping}: not measured: {error}")
    return None, left_out


def sort_seconds(device: torch.device) -> dict[int, float]:
    """Seconds to sort int32 keys on the GPU, by their number: what ordering the row numbers of a gather costs."""
    times = {}
    for count in _SORT_KEYS:
        keys = torch.randint(0, (1 << 31) - 1, (count,), device=device, dtype=torch.int32)
        times[count] = best(partial(torch.sort, keys), device)
    return times


def _point(
    table: UnifiedTensor, table_bytes: int, row_bytes: int, device: torch.device, batch_bytes: int, repeats: int
) -> RowPoint:
    """One point of a curve: the median over fresh row numbers, taken from the first ``table_bytes`` of the table."""
    rows = table_bytes // row_bytes
    base = (table.cpu() if device.type == "cpu" else table.cuda(device)).data_ptr()
    count = min(1 << 20, batch_bytes // row_bytes, rows)
    out = torch.empty((count, row_bytes), dtype=torch.uint8, device=device)
    times: tuple[list[float], list[float]] = ([], [])
    random = torch.Generator(device).manual_seed(row_bytes)
    for repeat in range(repeats + 1):
        numbers = torch.randint(0, rows, (count,), generator=random, device=device)
        for kind, index in enumerate((numbers, torch.sort(numbers).values)):
            taken = seconds(partial(copy_rows, base, rows, row_bytes, out, index, check="async"), device)
            if repeat > 0:  # the first run warms up
                times[kind].append(taken)
    rates = [count * row_bytes / median(kind) for kind in times]
    return RowPoint(str(table.placement), table_bytes, row_bytes, rates[0], rates[1])
