"""Writes of kernels to arrays on storage, each by itself, and the flush that has them on the disk."""

from __future__ import annotations

import torch

from .. import _core
from ..runtime.jit import KernelFile
from ..runtime.launch import launch, resident_blocks
from ..runtime.params import Params, address, struct

_Write, _Flush = struct("storage::WriteParams"), struct("storage::FlushParams")
_TYPES = ("int32_t", "int64_t")

KERNELS = KernelFile(
    "storage/writes.cu", (*(f"write_kernel<{kind}>" for kind in _TYPES), "write_back_kernel", "flush_kernel"), apart=True
)


def write_elements(
    words: Params,
    elements: int,
    dtype: torch.dtype,
    device: torch.device,
    at: torch.Tensor | None,
    count: int,
    values: torch.Tensor | None = None,
    run: int = 1,
) -> None:
    """Elements of an array by a kernel, each by itself or in runs that a warp writes together. They are in the file once the
    store was flushed.

    Args:
        words: of the array, in a store whose mode is ``"r+"``.
        elements: of the array.
        dtype: int32 or int64.
        device: which writes.
        at: int64 ``[count]`` on the device: where each run begins; None: one after the other.
        count: of runs.
        values: ``[count, run]`` of the type on the device, of which any is kept where an element is written twice; None: each
            element becomes its own number.
        run: elements of a run. Lines that lie within one are not read first.
    """
    params = _Write(array=words, elements=elements, at=address(at), count=count, run=run, values=address(values))
    if device.type == "cpu":
        _core.write_stored(params.address, dtype.itemsize)
        return
    _launch(f"write_kernel<int{8 * dtype.itemsize}_t>", device, count if run > 1 else -(-count // 32), params)


def flush(store: int, slots: int, device: torch.device) -> None:
    """Has all that is dirty written, and the device make it durable. What cannot be written is an error of the store.

    Args:
        store: the address of a store's words.
        slots: of its cache.
        device: whose memory the cache lies in.
    """
    params = _Flush(store=store)
    if device.type == "cpu":
        _core.flush_stored(params.address)
        return
    _launch("write_back_kernel", device, -(-slots // 32), params)
    launch(KERNELS, "flush_kernel", device, 1, 1, params)


def _launch(instance: str, device: torch.device, warps: int, params: Params) -> None:
    """With as many blocks as the GPU holds, or as have work for a warp."""
    block = _core.READ_THREADS
    grid = min(resident_blocks(KERNELS, instance, device, block), -(-warps * 32 // block))
    launch(KERNELS, instance, device, max(grid, 1), block, params)
