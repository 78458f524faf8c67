"""What one GPU reads from another's memory, for every pair that can."""

from __future__ import annotations

import itertools

import torch

from ..machine.model import Peer
from ..runtime import devices
from ..runtime.errors import DeviceError
from ..runtime.launch import launch
from .link import BLOCK, KERNELS, sequence_rate
from .timing import best

_ROW_BYTES = 64
_WORD_BYTES = 16


def measure(full: bool = False) -> tuple[tuple[Peer, ...], list[str]]:
    """Measures every ordered pair of GPUs; returns the figures and sentences about pairs without peer access."""
    found, left_out = [], []
    size = (4 << 30) if full else (1 << 30)
    for reader, owner in itertools.permutations(devices.gpus(), 2):
        if not torch.cuda.can_device_access_peer(reader, owner):
            left_out.append(f"peers: {reader} cannot read the memory of {owner} directly on this machine")
            continue
        enable_access(reader, owner)
        held = torch.zeros(size, dtype=torch.uint8, device=owner)
        torch.cuda.synchronize(owner)
        blocks = 2 * devices.sm_count(reader)
        sequence = sequence_rate(reader, held.data_ptr(), size, _WORD_BYTES, blocks)
        found.append(Peer(reader.index, owner.index, sequence, _random_rate(reader, held, blocks)))
    return tuple(found), left_out


def enable_access(reader: torch.device, owner: torch.device) -> None:
    """Lets kernels of ``reader`` address the memory of ``owner``. Doing it twice is harmless.

    Through the driver and not the runtime: an error of the runtime would stay behind for torch to find.
    """
    from cuda.bindings import driver

    # Torch must hold the owner's context: one that only this function holds goes when it returns, and the access with it.
    torch.empty(1, device=owner)
    with torch.cuda.device(reader):
        torch.cuda.current_stream().synchronize()  # makes the reader's context current
        error, context = driver.cuDevicePrimaryCtxRetain(owner.index)
        if error == driver.CUresult.CUDA_SUCCESS:
            (error,) = driver.cuCtxEnablePeerAccess(context, 0)
            driver.cuDevicePrimaryCtxRelease(owner.index)
    if error not in (driver.CUresult.CUDA_SUCCESS, driver.CUresult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED):
        raise DeviceError(f"peer access from {reader} to {owner} was refused: {error.name}")


def _random_rate(reader: torch.device, held: torch.Tensor, blocks: int) -> float:
    sink = torch.zeros(1, dtype=torch.int32, device=reader)
    rows = held.numel() // _ROW_BYTES
    seeds = itertools.count()

    def work() -> None:
        args = (held.data_ptr(), rows, _ROW_BYTES // _WORD_BYTES, rows, next(seeds), sink.data_ptr())
        launch(KERNELS, "hinterland::read_random", reader, blocks, BLOCK, *args)

    return rows * _ROW_BYTES / best(work, reader, repeats=3)
