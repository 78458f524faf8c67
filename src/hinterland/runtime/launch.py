"""Launching kernels on the caller's torch stream.

A kernel has one parameter, a struct (params.py), passed by value.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import torch

from .. import _core
from . import devices
from .errors import DeviceError
from .jit import KernelFile
from .params import Params

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


_Pointers = ctypes.c_void_p * 1  # what the driver reads: the address of each parameter


@functools.cache
def _driver() -> Any:
    from cuda.bindings import driver

    return driver


@functools.cache
def _function(file: KernelFile, instance: str, device: torch.device) -> Any:
    return _driver().CUfunction(int(file.kernel(instance, device).handle))


@functools.cache
def _allow_shared(file: KernelFile, instance: str, device: torch.device) -> None:
    """Lets a kernel have all the shared memory that a block of ``device`` can have."""
    driver = _driver()
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
    params: Params,
    cooperative: bool = False,
    shared: int = 0,
) -> None:
    """Queues one kernel on ``device``, on the current torch stream.

    Args:
        file: has the kernel.
        instance: its C++ name.
        device: a GPU.
        grid: blocks.
        block: threads of each.
        params: the kernel's parameter.
        cooperative: all blocks run at once, and may wait for each other.
        shared: bytes of shared memory of each block.

    Raises:
        DeviceError: the driver refuses.
    """
    _enter(device)
    function = _function(file, instance, device)
    if shared > _SHARED:
        _allow_shared(file, instance, device)
    if torch.cuda.current_device() == device.index:
        error = _queue(function, device, grid, block, params, cooperative, shared)
    else:
        with torch.cuda.device(device):
            error = _queue(function, device, grid, block, params, cooperative, shared)
    if error != 0:
        raise DeviceError(f"CUDA did not launch {instance} on {device}: {error.name}")


def _queue(function: Any, device: torch.device, grid: int, block: int, params: Params, cooperative: bool, shared: int) -> Any:
    stream = torch._C._cuda_getCurrentRawStream(device.index)
    pointers = _Pointers(params.address)
    shape = (function, grid, 1, 1, block, 1, 1, shared, stream, _core.address_of(pointers))
    if cooperative:
        (error,) = _driver().cuLaunchCooperativeKernel(*shape)
    else:
        (error,) = _driver().cuLaunchKernel(*shape, 0)
    return error


@functools.cache
def resident_blocks(file: KernelFile, instance: str, device: torch.device, block: int) -> int:
    """Blocks of ``block`` threads that the whole GPU holds at once: the largest grid of a cooperative launch."""
    _enter(device)  # a thread's first run may ask this before torch has called CUDA there
    with torch.cuda.device(device):
        per_sm = file.kernel(instance, device).occupancy.max_active_blocks_per_multiprocessor(block, 0)
    return per_sm * devices.sm_count(device)
