"""Plans a gather: how its rows are cut for the GPU, and whether its row numbers are worth sorting first.

Random rows of a large table are bound by the GPU's address translation before they are bound by the link, and sorted
row numbers visit each translation once (docs/memory.md has the figures). The rates come from the machine's measurement
(``hinterland probe``) where there is one, else from the curves of an H200 that are built in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from .. import _core
from ..machine import Machine, load
from ..runtime import arguments
from ..runtime.errors import ConfigError
from ..runtime.repr import Repr
from ..runtime.units import format_bytes

_GIB = 1 << 30
_LINE = _core.LINE_BYTES
_WARP = _core.WARP_LANES
_CHUNK = _core.UNIT_BYTES  # of the widest load
# What these stand on is in docs/notes/gather-on-h200.md: a sort's launches take 50 us, and fewer rows of 64 B gain no more;
# rows from 256 B on fill the link as they come, at 200 M a second. A GPU translates tables of up to a gibibyte without misses
# (docs/memory.md).
_LEAST_SORTED = 1 << 16
_FILLS_LINK = 256  # bytes of a row in managed memory
REACH = 1 << 30
_PAGE = 2 << 20  # what the GPU's address translation works in
_DISK_PAGE, _DISK_READS = 4096, 240e3  # random reads a second of an H200 machine's disk, 64 under way


@dataclass(frozen=True)
class Cut:
    """How a GPU cuts rows (include/hinterland/memory/gather.hpp).

    Bytes of a unit, lanes and steps of a row, whether each row is read from a line's start (Min 2022, listing 3.2), and
    whether it is read in chunks of 16 bytes wherever its units begin.
    """

    unit: int
    lanes: int
    steps: int
    shifted: bool
    chunks: bool


def cut_rows(row_bytes: int, table_address: int, packed_address: int, into_table: bool = False) -> Cut:
    """The cut of rows of ``row_bytes`` (at least 1). Only the addresses' place within a line matters."""
    unit = math.gcd(row_bytes, table_address, packed_address, _CHUNK)
    chunks = row_bytes > _LINE and unit < _CHUNK and not into_table
    pieces = -(-(row_bytes + _CHUNK - unit) // _CHUNK) if chunks else row_bytes // unit
    lanes = min(_WARP, 1 << (pieces - 1).bit_length())
    shifted = row_bytes > _LINE and bool(row_bytes % _LINE or table_address % _LINE)
    return Cut(unit, lanes, -(-pieces // lanes), shifted, chunks)


@dataclass(frozen=True, repr=False)
class SortPlan(Repr):
    """Whether to sort the row numbers of a gather, and the times in seconds that decide it."""

    sort: bool
    mapping: str
    rows: int
    row_bytes: int
    table_bytes: int
    managed_bytes: int
    as_given: float
    sorted: float
    sorting: float

    def explain(self) -> str:
        """The plan in one sentence."""
        verdict = "sorted first" if self.sort else "taken as given"
        return (
            f"{self.rows} rows of {self.row_bytes} B from {self._lying()} memory "
            f"are {verdict}: {self.as_given * 1e3:.2f} ms as given, {self.sorted * 1e3:.2f} ms sorted and "
            f"{self.sorting * 1e3:.2f} ms for sorting"
        )

    def _lying(self) -> str:
        of = f"({format_bytes(self.managed_bytes)} managed, the rest pinned) " if self.mapping == "split" else ""
        return f"{format_bytes(self.table_bytes)} {of}of {self.mapping}"


def plan_sort(mapping: str, rows: int, row_bytes: int, table_bytes: int, managed_bytes: int = 0) -> SortPlan:
    """Weighs a gather of ``rows`` random rows as given against the same with its row numbers sorted.

    Args:
        mapping: where the table lies; only ``"managed"``, ``"pinned"`` and ``"split"`` tables are ever sorted.
        rows: how many rows one call takes.
        row_bytes, table_bytes: sizes in bytes.
        managed_bytes: of a split table, how many from its beginning on are mapped.
    """
    if not isinstance(mapping, str):
        raise ConfigError(f"mapping is where a table lies, as 'managed' or 'pinned', not {arguments.repr_of(mapping)}")
    rows, row_bytes = arguments.whole_number("rows", rows, 0), arguments.whole_number("row_bytes", row_bytes, 0)
    table_bytes = arguments.whole_number("table_bytes", table_bytes, 0)
    managed_bytes = min(arguments.whole_number("managed_bytes", managed_bytes, 0), table_bytes)
    machine = load()
    payload = max(row_bytes, 1) / link_rate(machine)
    given = ordered = 0.0
    for part, nbytes in _parts(mapping, table_bytes, managed_bytes):
        count = rows * nbytes / max(table_bytes, 1) if mapping == "split" else rows
        given += count * max(1 / _random_rate(machine, part, nbytes), payload)
        ordered += count * max(1 / _sorted_rate(machine, part, nbytes, round(count)), payload)
    sorting = _sort_seconds(machine, rows)
    worthwhile = mapping in ("managed", "pinned", "split") and table_bytes > REACH and rows >= _LEAST_SORTED
    sort = worthwhile and given > ordered + sorting
    return SortPlan(sort, mapping, rows, row_bytes, table_bytes, managed_bytes, given, ordered, sorting)


def sorts(mapping: str, rows: int, row_bytes: int, table_bytes: int, managed_bytes: int = 0) -> bool:
    """``plan_sort(...).sort``, at no cost for gathers that are never sorted: of few rows, from a small table, or of rows that
    fill the link as they come."""
    if rows < _LEAST_SORTED or table_bytes <= REACH or (mapping == "managed" and row_bytes >= _FILLS_LINK):
        return False
    return plan_sort(mapping, rows, row_bytes, table_bytes, managed_bytes).sort


def row_rate(mapping: str, row_bytes: int, table_bytes: int, managed_bytes: int = 0) -> float:
    """Rows a second at which a GPU reads random rows of a table in host memory as they come, by the same figures."""
    machine = load()
    payload = max(row_bytes, 1) / link_rate(machine)
    parts = _parts(mapping, table_bytes, managed_bytes)
    each = [nbytes * max(1 / _random_rate(machine, part, nbytes), payload) for part, nbytes in parts]
    return sum(nbytes for _, nbytes in parts) / sum(each)


def fetch_rate(row_bytes: int, line_bytes: int) -> tuple[float, str]:
    """Rows a second that a disk gives at random, a page of ``line_bytes`` or more for each; and by whose figures."""
    machine = load()
    disk = None if machine is None else machine.disk
    reads = _DISK_READS if disk is None else max(disk.random4k.values())
    pages = -(-max(row_bytes, 1) // line_bytes)
    pieces = -(-line_bytes // _DISK_PAGE)  # a page longer than those that were measured takes as many of them at most
    return reads / (pages * pieces), "by the probe" if disk is not None else "as of an H200 machine's disk (no probe)"


def _parts(mapping: str, table_bytes: int, managed_bytes: int) -> list[tuple[str, int]]:
    """A table's mappings, with the bytes of each; reads of one do not hide those of the other, whose threads wait longest."""
    if mapping == "split":
        return [("managed", managed_bytes), ("pinned", table_bytes - managed_bytes)]
    return [(mapping, max(table_bytes, 1))]


def visiting_order(index: torch.Tensor, row_bytes: int, table_bytes: int) -> torch.Tensor:
    """Positions of ``index`` (1-D, on a GPU) in the order of the pages that their rows lie in: int64, a permutation.

    Keys are page numbers and not row numbers: translation asks for no finer order, and 16-bit keys, which do for
    tables up to 32 GiB at least, sort in half the passes.
    """
    shift = max(0, (_PAGE // max(row_bytes, 1)).bit_length() - 1)
    narrow = torch.int16 if table_bytes // max(row_bytes, 1) >> shift < 1 << 15 else torch.int32
    return torch.sort(torch.bitwise_right_shift(index, shift).to(narrow)).indices  # as out= a GPU would shift 16 bits


# Rates in rows a second, fitted to the tables of an H200 in docs/memory.md (tables of 8, 24 and 48 GiB, batches of 2^18
# and 2^22 rows): `doublings` counts the table's doublings over 8 GiB, `gap` is the distance of neighbouring rows once
# sorted.


def _random_rate(machine: Machine | None, mapping: str, table_bytes: int) -> float:
    measured = _measured_rate(machine, mapping, table_bytes)
    return measured if measured is not None else _random_curve(mapping, table_bytes)


def _random_curve(mapping: str, table_bytes: int) -> float:
    doublings = math.log2(max(table_bytes, _GIB) / (8 * _GIB))
    if mapping == "pinned":
        return 5e8 if table_bytes <= REACH else max(20e6, 42e6 - 5e6 * doublings)
    return max(200e6, 320e6 - 8e6 * doublings)


def _sorted_rate(machine: Machine | None, mapping: str, table_bytes: int, rows: int) -> float:
    gap = max(table_bytes / max(rows, 1), 1.0)
    random = _random_curve(mapping, table_bytes)
    if mapping == "pinned":
        ordered = random + 1.6e12 / gap
    else:
        doublings = math.log2(max(table_bytes, _GIB) / (8 * _GIB))
        ordered = max(random, 458e6 - 27e6 * doublings - 18e6 * math.log2(gap / (12 << 10)))
    return _random_rate(machine, mapping, table_bytes) * ordered / random


def _sort_seconds(machine: Machine | None, rows: int) -> float:
    """Seconds to sort ``rows`` keys: as measured for 32-bit keys (those of 16 bits take less), else as on an H200."""
    if machine is None or not machine.sort:
        return 5e-5 + 6e-11 * rows
    counts = sorted(machine.sort)
    if rows >= counts[-1]:  # past the largest measured, time grows with the keys
        return machine.sort[counts[-1]] * rows / counts[-1]
    return float(np.interp(rows, counts, [machine.sort[count] for count in counts]))


def link_rate(machine: Machine | None) -> float:
    """Bytes a second at which kernels read host memory in sequence."""
    return machine.link.zero_copy if machine is not None and machine.link is not None else 51.4e9


def _measured_rate(machine: Machine | None, mapping: str, table_bytes: int) -> float | None:
    """Rows a second at random, measured on the table size nearest to ``table_bytes``."""
    points = [] if machine is None else [point for point in machine.rows if point.mapping == mapping]
    if not points:
        return None
    nearest = min((abs(math.log2(p.table_bytes / max(table_bytes, 1))), p.table_bytes) for p in points)[1]
    return max(p.random / p.row_bytes for p in points if p.table_bytes == nearest)
