"""Copies rows between a table and packed rows: launches memory/gather.cu, or runs its loop on the CPU."""

from __future__ import annotations

import functools

import torch

from .. import _core
from ..runtime import devices
from ..runtime.errors import ConfigError
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from . import faults
from .plan import cut_rows

_UNITS = (1, 2, 4, 8, 16)
_COPY = {unit: f"hinterland::copy_rows_kernel<{unit}>" for unit in _UNITS}
_CHUNKS = {unit: f"hinterland::gather_chunks_kernel<{unit}>" for unit in _UNITS[:-1]}
KERNEL = KernelFile("memory/gather.cu", (*_COPY.values(), *_CHUNKS.values()))
_THREADS = 1024
_SHARE = 4  # one block for every fourth multiprocessor fills the link (docs/memory.md), and leaves the others to other work
_INDEX_BYTES = {torch.int32: 4, torch.int64: 8}


def index_bytes(index: torch.Tensor) -> int:
    """4 or 8; ConfigError for any type but int32 and int64."""
    try:
        return _INDEX_BYTES[index.dtype]
    except KeyError:
        remedy = "use index.nonzero() for a mask" if index.dtype in (torch.bool, torch.uint8) else "use index.long()"
        raise ConfigError(f"row numbers are int32 or int64, not {index.dtype}; {remedy}") from None


def copy_rows(
    table: int,
    rows: int,
    row_bytes: int,
    packed: torch.Tensor,
    index: torch.Tensor,
    *,
    into_table: bool = False,
    visit: torch.Tensor | None = None,
    max_blocks: int | None = None,
    check: str = "sync",
) -> None:
    """Copies ``index.numel()`` rows from the table to ``packed``, or back.

    Args:
        table: address of ``rows`` rows of ``row_bytes`` that the device of ``index`` can reach.
        packed: contiguous, on the device of ``index``: as many rows as ``index`` has entries.
        index: contiguous int32 or int64 row numbers.
        into_table: writes to the table (scatter) instead of reading from it (gather).
        visit: the order in which positions are visited, an int64 permutation on the GPU.
        max_blocks: blocks of 1024 threads that a GPU may use; by default a quarter as many as it has multiprocessors.
        check: ``"sync"`` waits and raises IndexOutOfRange; ``"async"`` leaves that to the next call on the same GPU, or
            to ``faults.synchronize``.
    """
    width = index_bytes(index)
    if check != "sync" and check != "async":
        raise ConfigError(f"check={check!r} is neither 'sync' nor 'async'")
    if max_blocks is not None and max_blocks < 1:
        raise ConfigError(f"max_blocks={max_blocks} leaves no block to run; use 1 or more, or None for the default")
    if not index.is_cuda:
        _on_cpu(table, rows, row_bytes, packed.data_ptr(), index, width, into_table)
        return
    device = index.device
    faults.raise_deferred(device.index)
    if row_bytes == 0:  # nothing to copy, and nothing on the GPU would look at the row numbers
        _on_cpu(table, rows, 0, 0, index.cpu(), width, into_table)
        return
    count = index.numel()
    if count == 0:
        return
    if torch.cuda.current_device() != device.index:
        with torch.cuda.device(device):
            _on_gpu(table, rows, row_bytes, packed, index, width, into_table, visit, max_blocks, check)
    else:
        _on_gpu(table, rows, row_bytes, packed, index, width, into_table, visit, max_blocks, check)


def _on_cpu(table: int, rows: int, row_bytes: int, packed: int, index: torch.Tensor, width: int, into: bool) -> None:
    first, value, count = _core.copy_rows(table, rows, packed, index.data_ptr(), width, index.numel(), row_bytes, into)
    if count:
        raise faults.out_of_range(first, value, rows, count)


def _on_gpu(
    table: int,
    rows: int,
    row_bytes: int,
    packed: torch.Tensor,
    index: torch.Tensor,
    width: int,
    into_table: bool,
    visit: torch.Tensor | None,
    max_blocks: int | None,
    check: str,
) -> None:
    """Launches on the current stream of the index's GPU, which is the current one."""
    device = index.device
    to = packed.data_ptr()
    instance, lanes, steps, shifted, pieces_per_block, blocks = _shape(device, row_bytes, table & 127, to & 127, into_table)
    count = index.numel()
    needed = -(-count * steps // pieces_per_block)
    grid = min(needed, blocks if max_blocks is None else max_blocks)
    stream = devices.current_stream(device)
    watched = faults.watch(device, torch._C._cuda_getCurrentRawStream(device.index))
    launch(
        KERNEL,
        instance,
        device,
        grid,
        _THREADS,
        table,
        rows,
        to,
        index.data_ptr(),
        width,
        0 if visit is None else visit.data_ptr(),
        count,
        row_bytes,
        int(into_table),
        lanes,
        steps,
        shifted,
        watched.record_address,
        watched.flag_address,
    )
    if check == "async":
        faults.defer(device, watched)
        return
    stream.sync()
    if watched.raised():
        raise watched.take()


@functools.lru_cache(maxsize=4096)
def _shape(
    device: torch.device, row_bytes: int, table_low: int, packed_low: int, into_table: bool
) -> tuple[str, int, int, int, int, int]:
    """What a launch needs beyond pointers: instance, lanes, steps, shifted, pieces a block holds, blocks unless said."""
    cut = cut_rows(row_bytes, table_low, packed_low, into_table)
    instance = (_CHUNKS if cut.chunks else _COPY)[cut.unit]
    pieces = _THREADS // cut.lanes * 4
    blocks = max(1, devices.sm_count(device) // _SHARE)
    return instance, cut.lanes, cut.steps, int(cut.shifted), pieces, blocks
