"""Copies rows between a table and packed rows: launches memory/gather.cu or bulk.cu, or loops on the CPU."""

from __future__ import annotations

import functools
from itertools import product
from typing import Any, NamedTuple

import torch

from .. import _core
from ..runtime import devices
from ..runtime.arguments import repr_of, whole_number
from ..runtime.capture import capturing
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import Params, struct
from ..runtime.thresholds import BULK_BLOCKS, LOAD_BLOCKS
from . import faults
from .plan import Cut, cut_rows

PLACEMENTS = ("OneRange", "Tiers")  # of rows that kernels read: include/hinterland/memory/placement.hpp
_UNITS = (1, 2, 4, 8, 16)
_PASSES = {
    (placement, way, unit): f"rows_kernel<{placement}, {unit}, GatherPass::{way}>"
    for placement, way in (*product(PLACEMENTS, ("kRows", "kChunks")), ("Tiers", "kReplicas"))
    for unit in (_UNITS[:-1] if way == "kChunks" else _UNITS)
}
KERNELS = KernelFile("memory/gather.cu", tuple(_PASSES.values()), separate_module=True)
_BULK = KernelFile("memory/bulk.cu", tuple(f"bulk_rows_kernel<{placement}>" for placement in PLACEMENTS))
_THREADS = _core.COPY_THREADS
# Bytes of a row that is copied in bulk (docs/notes/gather-on-h200.md): shorter ones would need more threads than there are.
_BULK_LEAST = 2 * _core.LINE_BYTES
# Where all rows cross the link, only whole lines are: three or more, which with four take half as many blocks.
_BULK_LINES, _BULK_LONG = 3 * _core.LINE_BYTES, 4 * _core.LINE_BYTES
_BULK_THREADS = 16  # at least, for each of which shared memory holds a row, so up to 14 KiB a row: docs/notes/thresholds.md
_MEASURED = (9, 0)  # the compute capability of the GPU on which LOAD_BLOCKS were
_LOAD_UNIT = 4  # and the bytes of which their rows were multiples; others are stored in more units, and take more blocks
_IN_LINE, _IN_UNIT = _core.LINE_BYTES - 1, _core.UNIT_BYTES - 1  # an address's place within a line, or within a unit
INDEX_BYTES = {torch.int32: 4, torch.int64: 8}


def index_bytes(index: torch.Tensor) -> int:
    """4 or 8; ConfigError for any type but int32 and int64."""
    try:
        return INDEX_BYTES[index.dtype]
    except KeyError:
        remedy = "use index.nonzero() for a mask" if index.dtype in (torch.bool, torch.uint8) else "use index.long()"
        raise ConfigError(f"row numbers are int32 or int64, not {index.dtype}; {remedy}") from None


def few_blocks(device: torch.device, row_bytes: int, tiered: bool = False) -> int | None:
    """The fewest blocks that gather random rows nearly as fast as any number, so that most of a GPU is left to other work.

    Those of bulk copies where these fill the link with fewer than loads do. None where that was not measured: of loads on other
    GPUs than an H200 and its like, and of loads from tiers.
    """
    bulk = _bulk_threads(device, row_bytes, 0)
    if tiered:
        return 2 * BULK_BLOCKS if bulk else None
    if bulk and _whole_lines(row_bytes, 0):
        return BULK_BLOCKS if row_bytes >= _BULK_LONG else 2 * BULK_BLOCKS
    if torch.cuda.get_device_capability(device) != _MEASURED:
        return None
    if row_bytes % _LOAD_UNIT:
        return devices.quarter(device)
    cut = cut_rows(row_bytes, 0, 0)
    a_unit_each = cut.lanes == _core.WARP_LANES and cut.steps == 1 and cut.unit == _LOAD_UNIT and not cut.chunks
    return 2 * LOAD_BLOCKS if a_unit_each else LOAD_BLOCKS  # a whole warp for each row has half the bytes on the way


OneRange, DealtRound, SlotMap, Tiers = (struct(f"memory::{name}") for name in ("OneRange", "DealtRound", "SlotMap", "Tiers"))
RowCut = struct("memory::RowCut")
_COPIES = {placement: struct(f"memory::RowCopy<memory::{placement}>") for placement in PLACEMENTS}
RowCopy, TieredCopy = _COPIES["OneRange"], _COPIES["Tiers"]


class Padding(NamedTuple):
    """Row numbers of a gather that are one and the same, as those behind a sample of fixed shape. Nothing is read for them.

    Attributes:
        begin: int64 of one number on their device: where they begin, looked up when rows are copied.
        row: the row that they name, ``[1, ...]`` of the table's type there, in memory of its own.
    """

    begin: torch.Tensor
    row: torch.Tensor


def copy_rows(
    table: int | Params,
    rows: int,
    row_bytes: int,
    packed: torch.Tensor,
    index: torch.Tensor,
    *,
    into_table: bool = False,
    visit: torch.Tensor | None = None,
    max_blocks: int | None = None,
    check: str = "sync",
    padding: Padding | None = None,
) -> None:
    """Copies ``index.numel()`` rows from the table to ``packed``, or back.

    Args:
        table: address of ``rows`` rows of ``row_bytes`` that the device of ``index`` can reach, or their Tiers.
        packed: contiguous, on the device of ``index``: as many rows as ``index`` has entries.
        index: contiguous int32 or int64 row numbers.
        into_table: writes to the table (scatter) instead of reading from it (gather).
        visit: the positions that are copied, in this order, int64 on the GPU: all of them, or some.
        max_blocks: blocks that a GPU may use, each of which fills a multiprocessor: of 1024 threads that load, by default a
            quarter as many as there are multiprocessors, or all if rows lie in several tiers. Where the caller gives fewer than
            loads take to fill the link, rows of whole lines are copied in bulk, which takes fewer; where rows lie in tiers and
            the caller gives any number, all that can be are (``_bulk_threads``).
        check: ``"sync"`` waits and raises IndexOutOfRange; ``"async"`` leaves that to the next call on the same GPU, or
            to ``faults.synchronize``. In a CUDA graph that is captured it is always left to them.
        padding: what the last entries of ``index`` are, of a gather.
    """
    width = index_bytes(index)
    if not isinstance(check, str) or (check != "sync" and check != "async"):
        raise ConfigError(f"check={repr_of(check)} is neither 'sync' nor 'async'")
    if max_blocks is not None and (max_blocks := whole_number("max_blocks", max_blocks)) < 1:
        raise ConfigError(f"max_blocks={max_blocks} leaves no block to run; use 1 or more, or None for the default")
    if not index.is_cuda:
        _on_cpu(row_copy(table, rows, row_bytes, packed.data_ptr(), index, width, into_table, padding))
        return
    device = index.device
    faults.raise_deferred(device.index)
    if row_bytes == 0:  # nothing to copy, and nothing on the GPU would look at the row numbers
        if not capturing():
            numbers = index.cpu()  # of which a copy's parameters keep the address alone
            _on_cpu(row_copy(table, rows, 0, 0, numbers, width, into_table))
        return
    if index.numel() == 0 or (visit is not None and visit.numel() == 0):
        return
    if torch.cuda.current_device() != device.index:
        with torch.cuda.device(device):
            _on_gpu(table, rows, row_bytes, packed, index, width, into_table, visit, max_blocks, check, padding)
    else:
        _on_gpu(table, rows, row_bytes, packed, index, width, into_table, visit, max_blocks, check, padding)


def _on_cpu(copy: Params) -> None:
    fault: Any = _core.copy_rows(copy.address) if isinstance(copy, RowCopy) else _core.copy_tiered_rows(copy.address)
    if fault is not None:
        raise faults.out_of_range(*fault)


def row_copy(
    table: int | Params,
    rows: int,
    row_bytes: int,
    packed: int,
    index: torch.Tensor,
    width: int,
    into: bool,
    padding: Padding | None = None,
) -> Params:
    """The parameters of a copy. Fields are set one by one, which takes half the time of doing so by their names in a call."""
    if isinstance(table, int):
        copy = RowCopy()
        place = copy.placement
        place.base, place.rows = table, rows
    else:
        copy = _COPIES[type(table).__name__]()
        copy.placement = table
    copy.packed, copy.indices = packed, index.data_ptr()
    copy.index_bytes, copy.count = width, index.numel()
    copy.row_bytes, copy.into_table = row_bytes, into
    if padding is not None:
        copy.valid, copy.padding = padding.begin.data_ptr(), padding.row.data_ptr()
    return copy


def _on_gpu(
    table: int | Params,
    rows: int,
    row_bytes: int,
    packed: torch.Tensor,
    index: torch.Tensor,
    width: int,
    into_table: bool,
    visit: torch.Tensor | None,
    max_blocks: int | None,
    check: str,
    padding: Padding | None,
) -> None:
    """Launches on the current stream of the index's GPU, which is the current one."""
    device = index.device
    to, count = packed.data_ptr(), (index if visit is None else visit).numel()
    watched = faults.watch(device, torch._C._cuda_getCurrentRawStream(device.index))
    # Rows in GPU memory, which is faster than the link, are worth all multiprocessors unless the caller says how many. Rows of
    # other GPUs have not been copied in bulk yet, neither tried nor measured.
    tiered = not isinstance(table, int)
    if isinstance(table, int):
        base = table
        shape = _shape("OneRange", device, row_bytes, table & _IN_LINE, to & _IN_LINE, into_table)
        loads = max_blocks is None or max_blocks >= LOAD_BLOCKS or not _whole_lines(row_bytes, table)
    else:
        base = table.host.base
        shape = _shape("Tiers", device, row_bytes, base & _IN_LINE, to & _IN_LINE, into_table)
        loads = max_blocks is None or table.dealt.count > 1
    copy = row_copy(table, rows, row_bytes, to, index, width, into_table, padding)
    if visit is not None:
        copy.visit, copy.count = visit.data_ptr(), count
    copy.cut, copy.report = shape.cut, watched.report
    most = shape.blocks if max_blocks is None else max_blocks
    bulk = 0 if loads or into_table else _bulk_threads(device, row_bytes, (base | to) & _IN_UNIT)
    if bulk:
        grid = min(-(-count // bulk), most)
        shared = bulk * (row_bytes + _core.BULK_BARRIER_BYTES)
        launch(_BULK, _BULK.instances[tiered], device, grid, bulk, copy, shared=shared)
    else:
        grid = min(-(-count * shape.steps // shape.pieces_per_block), most)
        launch(KERNELS, shape.instance, device, grid, _THREADS, copy)
        if into_table and shape.replicate is not None and not isinstance(table, int) and table.others:
            launch(KERNELS, shape.replicate, device, grid, _THREADS, copy)
    if check == "async" or watched.replayed:
        faults.defer(device, watched)
        return
    devices.current_stream(device).sync()
    watched.check()


@functools.lru_cache(maxsize=4096)
def _bulk_threads(device: torch.device, row_bytes: int, low: int) -> int:
    """Threads of a block that copies rows in bulk, as many as there is shared memory for; 0 where rows are not copied so.

    Args:
        low: bits of the addresses below a unit.
    """
    if row_bytes < _BULK_LEAST or row_bytes % _core.UNIT_BYTES or low or torch.cuda.get_device_capability(device) < (9, 0):
        return 0
    threads = min(_THREADS, devices.shared_bytes(device) // (row_bytes + _core.BULK_BARRIER_BYTES))
    return threads // _BULK_THREADS * _BULK_THREADS


def _whole_lines(row_bytes: int, address: int) -> bool:
    """Whether bulk copies over the link fill it with fewer blocks than loads do. They bring other rows at half its rate."""
    return row_bytes >= _BULK_LINES and not (row_bytes | address) & _IN_LINE


class _Shape(NamedTuple):
    """What a launch needs beyond pointers: its instance, the cut, what a block holds of it, and its blocks unless said."""

    instance: str
    cut: Params
    steps: int
    pieces_per_block: int
    blocks: int
    replicate: str | None


@functools.lru_cache(maxsize=4096)
def _shape(placement: str, device: torch.device, row_bytes: int, low: int, packed_low: int, into_table: bool) -> _Shape:
    """``low`` and ``packed_low`` are places within a line. The memory of GPUs is faster than the link, and takes all
    multiprocessors to fill."""
    cut = cut_rows(row_bytes, low, packed_low, into_table)
    blocks = (devices.sm_count if placement == "Tiers" else devices.quarter)(device)
    instance = _PASSES[placement, "kChunks" if cut.chunks else "kRows", cut.unit]
    replicate = _PASSES.get((placement, "kReplicas", cut.unit))
    return _Shape(instance, row_cut(cut), cut.steps, pieces_per_block(cut), blocks, replicate)


def row_cut(cut: Cut) -> Params:
    """What kernels take of a cut."""
    return RowCut(lanes=cut.lanes, steps=cut.steps, shifted=cut.shifted)


def pieces_per_block(cut: Cut) -> int:
    """Pieces that a block has under way at once."""
    return _THREADS // cut.lanes * _core.IN_FLIGHT
