"""Launching kernels on the caller's torch stream.

Every kernel parameter of this library is a pointer or a 64-bit integer, so that Python ints and ``tensor.data_ptr()`` pass
as they are.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

from . import devices
from .errors import DeviceError
from .jit import KernelFile

_SHARED = 48 << 10  # bytes of shared memory that every kernel may have


class _Thread(threading.local):
    has_context = False


_thread = _Thread()


def _enter(device: torch.device) -> None:
    """Gives this thread a CUDA context, once: what the driver is asked for without one fails."""
    if not _thread.has_context:
        with torch.cuda.device(device):
            devices.give_context(device)
        _thread.has_context = True


@functools.lru_cache(maxsize=1024)
def _config(grid: int, block: int, cooperative: bool, shared: int) -> Any:
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=grid, block=block, is_cooperative=cooperative, shmem_size=shared)


@functools.cache
def _allow_shared(file: KernelFile, instance: str, device: torch.device) -> None:
    """Lets a kernel have all the shared memory that a block of ``device`` can have."""
    from cuda.bindings import driver

    most = devices.shared_bytes(device)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (error,) = driver.cuKernelSetAttribute(attribute, most, file.kernel(instance, device).handle, device.index)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"CUDA gave {instance} no {most} bytes of shared memory on {device}: {error.name}")


def launch(
    file: KernelFile,
    instance: str,
    device: torch.device,
    grid: int,
    block: int,
    *args: int,
    cooperative: bool = False,
    shared: int = 0,
) -> None:
    """Queues one kernel on ``device``, on the current torch stream. ``grid`` and ``block`` are 1-D sizes, ``shared`` bytes of
    shared memory."""
    from cuda.core import launch as core_launch

    _enter(device)
    kernel = file.kernel(instance, device)
    config = _config(grid, block, cooperative, shared)
    if shared > _SHARED:
        _allow_shared(file, instance, device)
    if torch.cuda.current_device() == device.index:
        core_launch(devices.current_stream(device), config, kernel, *args)
    else:
        with torch.cuda.device(device):
            core_launch(devices.current_stream(device), config, kernel, *args)


@functools.cache
def resident_blocks(file: KernelFile, instance: str, device: torch.device, block: int) -> int:
    """Blocks of ``block`` threads that the whole GPU holds at once: the largest grid of a cooperative launch."""
    _enter(device)  # a thread's first run may ask this before torch has called CUDA there
    with torch.cuda.device(device):
        per_sm = file.kernel(instance, device).occupancy.max_active_blocks_per_multiprocessor(block, 0)
    return per_sm * devices.sm_count(device)
