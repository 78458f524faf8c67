"""Launching kernels on the caller's torch stream.

A kernel has one parameter, a struct (params.py), passed by value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .. import _core
from . import devices
from .capture import relaxed
from .errors import DeviceError
from .jit import KernelSource
from .params import Params

_SHARED = 48 << 10  # bytes of shared memory that every kernel may have


@contextmanager
def _current(device: torch.device) -> Iterator[None]:
    """A with-block in which ``device`` is the current GPU and this thread has a CUDA context: the driver refuses without."""
    with torch.cuda.device(device):
        devices.give_context(device)
        yield


@functools.cache
def _function(file: KernelSource, instance: str, device: torch.device) -> int:
    """The driver's handle of a kernel."""
    devices.require_cuda(f"{instance} on {device}")  # a torch for AMD's calls its GPUs cuda, too
    with _current(device), relaxed():
        return int(file.kernel(instance, device).handle)


@functools.cache
def _allow_shared(file: KernelSource, instance: str, device: torch.device) -> None:
    """Lets a kernel have all the shared memory that a block of ``device`` can have."""
    from cuda.bindings import driver

    most = devices.shared_bytes(device)
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    with _current(device), relaxed():
        (error,) = driver.cuKernelSetAttribute(attribute, most, file.kernel(instance, device).handle, device.index)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"CUDA gave {instance} no {most} bytes of shared memory on {device}: {error.name}")


def launch(
    file: KernelSource,
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
    function = _function(file, instance, device)
    if shared > _SHARED:
        _allow_shared(file, instance, device)
    index = device.index
    stream = torch._C._cuda_getCurrentRawStream(index)
    error = _core.launch(function, index, grid, block, shared, stream, cooperative, params)
    if error == _core.CUDA_ERROR_INVALID_CONTEXT:  # this thread has none yet, or another GPU is the current one
        with _current(device):
            error = _core.launch(function, index, grid, block, shared, stream, cooperative, params)
    if error != 0:
        raise _not_launched(instance, device, error)


def launch_packed(file: KernelSource, instance: str, device: torch.device, grid: int, block: int, params: Params) -> None:
    """:func:`launch`, of a kernel that has a parameter for each field of ``params``."""
    function = _function(file, instance, device)
    with _current(device):
        stream = torch._C._cuda_getCurrentRawStream(device.index)
        error = _core.launch_packed(function, device.index, grid, block, stream, params, params.packed_bytes())
    if error != 0:
        raise _not_launched(instance, device, error)


def _not_launched(instance: str, device: torch.device, error: int) -> DeviceError:
    return DeviceError(f"CUDA did not launch {instance} on {device}: {_core.cuda_error_name(error)}")


def call_host(function: int, argument: int) -> None:
    """Queues the call of a C function of one pointer on the current torch stream: a thread of the driver's calls it, once what
    was queued before has ended. It must not call CUDA.

    Raises:
        DeviceError: the driver refuses.
    """
    # Not by cuda.bindings, whose function takes Python's lock and can be called once, not at each replay of a graph.
    error = _core.call_host(torch.cuda.current_stream().cuda_stream, function, argument)
    if error != 0:
        raise DeviceError(f"CUDA queued no call of the host: {_core.cuda_error_name(error)}")


@functools.cache
def resident_blocks(file: KernelSource, instance: str, device: torch.device, block: int) -> int:
    """Blocks of ``block`` threads that the whole GPU holds at once: the largest grid of a cooperative launch."""
    with _current(device), relaxed():
        per_sm = file.kernel(instance, device).occupancy.max_active_blocks_per_multiprocessor(block, 0)
    return per_sm * devices.sm_count(device)
