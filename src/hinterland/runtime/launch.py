"""Launching kernels on the caller's torch stream.

Every kernel parameter of this library is a pointer or a 64-bit integer, so that Python ints and ``tensor.data_ptr()`` pass
as they are.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from . import devices
from .jit import KernelFile


@functools.lru_cache(maxsize=1024)
def _config(grid: int, block: int, cooperative: bool) -> Any:
    from cuda.core import LaunchConfig

    return LaunchConfig(grid=grid, block=block, is_cooperative=cooperative)


def launch(
    file: KernelFile,
    instance: str,
    device: torch.device,
    grid: int,
    block: int,
    *args: int,
    cooperative: bool = False,
) -> None:
    """Queues one kernel on ``device``, on the current torch stream. ``grid`` and ``block`` are 1-D sizes."""
    from cuda.core import launch as core_launch

    kernel = file.kernel(instance, device)
    config = _config(grid, block, cooperative)
    if torch.cuda.current_device() == device.index:
        core_launch(devices.current_stream(device), config, kernel, *args)
    else:
        with torch.cuda.device(device):
            core_launch(devices.current_stream(device), config, kernel, *args)


@functools.cache
def resident_blocks(file: KernelFile, instance: str, device: torch.device, block: int) -> int:
    """Blocks of ``block`` threads that the whole GPU holds at once: the largest grid of a cooperative launch."""
    with torch.cuda.device(device):
        per_sm = file.kernel(instance, device).occupancy.max_active_blocks_per_multiprocessor(block, 0)
    return per_sm * devices.sm_count(device)
