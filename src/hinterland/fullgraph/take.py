"""Launches fullgraph/take.cu, or loops on the CPU: brings rows from where they are."""

from __future__ import annotations

from itertools import product

from torch import Tensor

from .. import _core
from ..memory.peers import copy_from
from ..runtime import devices
from ..runtime.jit import KernelFile
from ..runtime.launch import launch
from ..runtime.params import struct
from .aggregate_launch import PLACES, PartRows, instance, source_name

_THREADS = _core.TAKE_THREADS
_WARP = 32
_PARAMS = struct("fullgraph::TakeParams")


KERNELS = KernelFile(
    "fullgraph/take.cu",
    tuple(
        instance("take_kernel", place, source, 16)
        for place, source in (
            *product(("uint32_t", "int64_t"), ("HaloRows",)),
            ("uint32_t", f"OwnersRows<{_core.ROW_BITS[0]}>"),
        )
    ),
    separate_module=True,
)


def fetch_rows(rows: PartRows, places: Tensor, to: Tensor, address: int, count: int, blocks: int | None = None) -> None:
    """:func:`take` of one owner's rows, which begin at ``address`` and are ``count``: where all are wanted, as one copy, which
    takes no multiprocessor."""
    if to.is_cuda and places.size(0) == count and rows.own.stride(0) == to.shape[1]:
        copy_from(to, address)
    else:
        take(rows, places, to, blocks)


def take(rows: PartRows, places: Tensor, to: Tensor, blocks: int | None = None, begin: int = 0) -> Tensor:
    """``to[i]``: the row of place i.

    Args:
        places: int32 or int64 ``[count]``, on the device of ``to``.
        to: contiguous ``[count, width]`` of the rows' type.
        blocks: of a GPU at most, of 512 threads; None: two for each multiprocessor.
        begin: which row a GPU brings first, below ``count``; the last of all is followed by row 0.
    """
    row_bytes, count = to.shape[1] * to.element_size(), places.size(0)
    if not count or not row_bytes:
        return to
    low = rows.low | to.data_ptr() | row_bytes
    unit = next(unit for unit in (16, 8, 4, 2) if low % unit == 0)
    units = row_bytes // unit
    lanes = min(1 << (units - 1).bit_length(), _WARP)
    params = _PARAMS(
        places=places.data_ptr(),
        place_bytes=places.element_size(),
        count=count,
        begin=begin,
        units=units,
        to=to.data_ptr(),
        lanes=lanes,
    )
    params.__setattr__("from", rows.words)
    if not to.is_cuda:
        _core.take_rows(params.address, unit)
        return to
    most = blocks or 2 * devices.sm_count(to.device)
    launch(
        KERNELS,
        instance("take_kernel", PLACES[places.dtype], source_name(rows), unit),
        to.device,
        min(most, -(-count * lanes // _THREADS)),
        _THREADS,
        params,
    )
    return to
