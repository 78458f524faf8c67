"""Random rows of every width from managed memory, beside what the link allows, and what the circular shift of Min 2022 does.

Figure 3.10 of the dissertation has rows of 1024 to 1044 bytes with the shift and without. Whether rows are shifted is no option
of the library's: its plan of a launch is exchanged here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import torch

from hinterland import UnifiedTensor
from hinterland.memory import gather, plan

from ._rows import told
from ._timing import each_of

GIB = 1 << 30
TABLE_BYTES = 24 * GIB
# Every width up to two lines, and then steps of 44, whose multiples begin at every 4 bytes of a sector.
_STEPS = *range(16, 261, 4), *range(264, 1025, 44), *range(1024, 1049, 4), *range(1100, 4097, 204)
_OTHERS = 320, 384, 512, 576, 640, 656, 704, 768, 1152, 1168, 1500, 2048, 2408, 3072, 4092, 4096
WIDTHS = sorted({*_STEPS, *_OTHERS})
FEW_WIDTHS = [16, 64, 100, 128, 256, 300, 512, 656, 1024, 1028, 1044, 4096]
REPEATS = 3
# Of an H200 (docs/notes/gather-on-h200.md): bytes a second on the wire, bytes that a request costs there besides its sectors,
# lines a second that are asked for.
WIRE, REQUEST_BYTES, LINES = 56e9, 12, 410e6
LINE, SECTOR = 128, 32


def sweep(table: UnifiedTensor, rows: int, ceiling: float, device: torch.device, widths: list[int]) -> list[dict[str, Any]]:
    """A row for each width. ``gbs``: as the library does it, row numbers in no order. ``few_gbs``: on ``few_blocks``, as beside
    training. ``units_gbs``: in units that both addresses allow, as listing 3.2 has it; ``unshifted_gbs``: the same without the
    shift. ``sorted_gbs``: sorted first, and ``of_engine`` the share of the copy engine that is. ``share`` is that of ``gbs``
    in the smaller of both limits."""
    out = torch.empty(rows * max(widths), dtype=torch.uint8, device=device)
    return [told(_measure(table, row_bytes, rows, out, ceiling, device)) for row_bytes in widths]


def least(widths: list[dict[str, Any]]) -> dict[str, Any]:
    """The worst of a sweep: shares of the limits of rows longer than a line, and lines a second of others, each with its width;
    and sorted rows of a line beside the copy engine."""
    share, at = min((row["share"], row["row_bytes"]) for row in widths if row["row_bytes"] > LINE)
    lines, short = min((row["lines_millions"], row["row_bytes"]) for row in widths if row["row_bytes"] <= LINE)
    sorted_lines = next(row["of_engine"] for row in widths if row["row_bytes"] == LINE)
    return {
        "share": share,
        "row_bytes": at,
        "lines_millions": lines,
        "of_row_bytes": short,
        "sorted_128_of_engine": sorted_lines,
    }


def _measure(
    table: UnifiedTensor, row_bytes: int, rows: int, out: torch.Tensor, ceiling: float, device: torch.device
) -> dict[str, Any]:
    size = min(table.nbytes, TABLE_BYTES)
    view = table.view((size // row_bytes, row_bytes), torch.uint8)
    sets = row_numbers(len(view), rows, device, REPEATS)
    to = out[: rows * row_bytes].view(rows, row_bytes)

    def gbs(**options: Any) -> float:
        take = partial(view.gather, out=to, check="async", **{"sort": False, **options})
        rate = rows * row_bytes / median(each_of([partial(take, index) for index in sets], device)[1:]) / 1e9
        verify(view, sets[-1], to)
        return rate

    wire, lines = limits(row_bytes)
    few = gather.few_blocks(device, row_bytes)
    found = {"row_bytes": row_bytes, "gbs": gbs(), "wire_gbs": wire / 1e9, "lines_gbs": lines / 1e9}
    found["share"] = found["gbs"] * 1e9 / min(wire, lines)
    if few is not None:
        found |= {"few_blocks": few, "few_gbs": gbs(max_blocks=few)}
    if row_bytes > LINE:
        with cut_as(_in_units):
            found["units_gbs"] = gbs()
        with cut_as(unshifted):
            found["unshifted_gbs"] = gbs()
    else:
        found["lines_millions"] = found["gbs"] * 1e3 / row_bytes * touched(row_bytes, LINE)
        found["sorted_gbs"] = gbs(sort="auto")
        found["of_engine"] = found["sorted_gbs"] * 1e9 / ceiling
    return found


def limits(row_bytes: int) -> tuple[float, float]:
    """Bytes of rows a second that the wire allows, and that the requests for lines do, for rows that lie one after another."""
    lines = touched(row_bytes, LINE)
    return WIRE * row_bytes / (SECTOR * touched(row_bytes, SECTOR) + REQUEST_BYTES * lines), LINES * row_bytes / lines


def touched(row_bytes: int, piece: int) -> float:
    """The lines or sectors of ``piece`` bytes that a row touches, in the mean over where rows begin."""
    starts = [row * row_bytes % piece for row in range(piece // math.gcd(row_bytes, piece))]
    return sum((start + row_bytes - 1) // piece + 1 for start in starts) / len(starts)


Cut = Callable[[int, int, int, bool], plan.Cut]


def _in_units(row_bytes: int, table: int, packed: int, into_table: bool) -> plan.Cut:
    """As rows are written, which has no chunks."""
    return plan.cut_rows(row_bytes, table, packed, into_table=True)


def unshifted(row_bytes: int, table: int, packed: int, into_table: bool) -> plan.Cut:
    return replace(_in_units(row_bytes, table, packed, into_table), shifted=False)


@contextmanager
def cut_as(cut: Cut) -> Iterator[None]:
    """A with-block in which launches cut rows otherwise than planned."""
    planned = gather.cut_rows
    gather._shape.cache_clear()  # launches that were planned
    gather.cut_rows = cut
    try:
        yield
    finally:
        gather.cut_rows = planned
        gather._shape.cache_clear()


def row_numbers(table_rows: int, rows: int, device: torch.device, repeats: int) -> list[torch.Tensor]:
    """Random row numbers of each repetition, and of one before them that warms up."""
    random = torch.Generator(device).manual_seed(1)
    return [torch.randint(0, table_rows, (rows,), generator=random, device=device) for _ in range(repeats + 1)]


def verify(table: UnifiedTensor, index: torch.Tensor, out: torch.Tensor) -> None:
    """A sample of what was gathered."""
    sample = torch.randint(0, len(index), (1000,), device=index.device)
    assert torch.equal(out[sample].cpu(), table.cpu()[index[sample].cpu()]), "the gather returned other rows"
