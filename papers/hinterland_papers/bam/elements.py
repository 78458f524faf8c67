"""Elements of an array on storage read and written by their numbers: the micro-benchmark of on-demand access (Mailthody 2022,
section 5.4), by which tests look at a store as well."""

from __future__ import annotations

import torch

from hinterland.runtime.launch import launch, resident_blocks
from hinterland.runtime.params import Params, address, struct

from .. import _core, kernel_file

_Read, _Write = struct("bam::ReadParams"), struct("bam::WriteParams")
_TYPES = ("int32_t", "int64_t")
KERNELS = kernel_file(
    "bam/elements.cu",
    (
        *(f"read_kernel<{kind}, {of}>" for kind in _TYPES for of in ("DeviceSources", "memory::Unmetered")),
        *(f"write_kernel<{kind}>" for kind in _TYPES),
    ),
    separate_module=True,
)


def read_elements(
    words: Params,
    elements: int,
    dtype: torch.dtype,
    device: torch.device,
    at: torch.Tensor | None,
    count: int,
    keeps: bool = True,
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Elements of an array by a kernel, each by itself.

    Args:
        words: of the array; a null ``store`` means that ``home`` is its address.
        elements: of the array.
        dtype: int32 or int64.
        device: which reads.
        at: int64 ``[count]`` on the device; None reads all in order, ``count`` times.
        keeps: whether what was read is returned, ``[count]``.

    Returns:
        The elements or None, and their sum, int64 ``[1]`` modulo 2^64, both on the device.
    """
    out = torch.empty(count, dtype=dtype, device=device) if keeps else None
    total = torch.zeros(1, dtype=torch.int64, device=device)
    params = _Read(array=words, elements=elements, at=address(at), count=count, to=address(out), sum=total.data_ptr())
    if device.type == "cpu":
        _core.read_stored(params.address, dtype.itemsize)
    else:
        family = "DeviceSources" if words.store else "memory::Unmetered"
        _launch(f"read_kernel<int{8 * dtype.itemsize}_t, {family}>", device, count, params)
    return out, total


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
    else:
        _launch(f"write_kernel<int{8 * dtype.itemsize}_t>", device, 32 * count if run > 1 else count, params)


def _launch(instance: str, device: torch.device, threads: int, params: Params) -> None:
    """With as many blocks as the GPU holds, or as have work for a thread."""
    block = _core.ELEMENT_THREADS
    grid = min(resident_blocks(KERNELS, instance, device, block), -(-threads // block))
    launch(KERNELS, instance, device, max(grid, 1), block, params)
