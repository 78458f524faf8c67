"""Memory of one GPU as its neighbours address it: peer access inside one process, CUDA IPC between processes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch

from ..runtime import devices
from ..runtime.errors import ConfigError, DeviceError
from .cuda import checked


def unlinked(gpus: Sequence[torch.device]) -> tuple[torch.device, torch.device] | None:
    """The first pair of GPUs of which one cannot read the other's memory directly; None if all can."""
    for reader in gpus:
        for owner in gpus:
            if reader != owner and not torch.cuda.can_device_access_peer(reader, owner):
                return reader, owner
    return None


@functools.cache
def enable_access(reader: torch.device, owner: torch.device) -> None:
    """Lets kernels of ``reader`` address the memory of ``owner``.

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


def copy_from(to: torch.Tensor, address: int) -> None:
    """Fills a contiguous tensor from GPU memory at ``address``, its own GPU's or a peer's, on its GPU's current stream. torch's
    copies between GPUs go on a stream of the one that is read, behind all that it does."""
    from cuda.bindings import driver

    if not to.nbytes:
        return
    stream = torch.cuda.current_stream(to.device).cuda_stream
    checked(driver.cuMemcpyDtoDAsync(to.data_ptr(), address, to.nbytes, stream), f"copy rows to {to.device}")


class GpuBlock:
    """``nbytes`` bytes of one GPU's memory, from torch's allocator; other GPUs and other processes address it too."""

    def __init__(self, nbytes: int, device: torch.device) -> None:
        self.nbytes = nbytes
        self.device = device
        self._bytes = torch.empty(nbytes, dtype=torch.uint8, device=device)

    def address(self, reader: torch.device) -> int:
        """Where ``reader`` finds it."""
        if reader != self.device:
            enable_access(reader, self.device)
        return self._bytes.data_ptr()

    def part(self, offset: int, nbytes: int) -> torch.Tensor:
        """Bytes from ``offset`` on as a tensor: no copy."""
        return self._bytes[offset : offset + nbytes]

    def __reduce__(self) -> tuple[Any, ...]:
        """Passes to another process as the same memory. It must be let go there before it is here."""
        from cuda.bindings import driver

        address = self._bytes.data_ptr()
        with torch.cuda.device(self.device):
            what = f"share memory of {self.device} with another process"
            base, _ = checked(driver.cuMemGetAddressRange(address), what)
            error, handle = driver.cuIpcGetMemHandle(base)
        if error != driver.CUresult.CUDA_SUCCESS:
            raise DeviceError(
                f"CUDA could not {what}: {error.name}; expandable_segments in PYTORCH_CUDA_ALLOC_CONF makes memory that "
                "cannot be shared"
            )
        place = (self.device.index, _identity(self.device))
        return ForeignBlock, (bytes(handle.reserved), address - int(base), self.nbytes, *place)


class ForeignBlock:
    """A :class:`GpuBlock` of another process.

    Each GPU that reads it opens it in its own context, as CUDA demands, and needs no context on the GPU that has it.
    """

    def __init__(self, handle: bytes, offset: int, nbytes: int, index: int, identity: str) -> None:
        self.nbytes = nbytes
        self.device = torch.device("cuda", index)
        self._shared = (handle, offset, nbytes, index, identity)
        self._opened: dict[torch.device, int] = {}
        self._release = ExitStack()
        devices.require_cuda("a table in GPU memory of another process")
        if index >= torch.cuda.device_count() or _identity(self.device) != identity:
            raise ConfigError(
                f"{self.device} here is not what it is in the process that made the table; start both with the same "
                "CUDA_VISIBLE_DEVICES"
            )

    def address(self, reader: torch.device) -> int:
        """Where ``reader`` finds it."""
        if reader not in self._opened:
            self._opened[reader] = self._open(reader)
        return self._opened[reader]

    def _open(self, reader: torch.device) -> int:
        from cuda.bindings import driver

        handle = driver.CUipcMemHandle()
        handle.reserved, offset = self._shared[:2]
        flags = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.value
        with torch.cuda.device(reader):
            torch.cuda.current_stream().synchronize()  # makes the reader's context current
            base = int(checked(driver.cuIpcOpenMemHandle(handle, flags), f"open memory of {self.device} for {reader}"))
        self._release.callback(_close, base, reader)
        return base + offset

    def close(self) -> None:
        """Lets go of the memory, once the GPUs of this process are done with it."""
        self._opened.clear()
        self._release.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return ForeignBlock, self._shared


def _close(base: int, reader: torch.device) -> None:
    from cuda.bindings import driver

    with torch.cuda.device(reader):
        torch.cuda.synchronize(reader)
        checked(driver.cuIpcCloseMemHandle(base), "close memory of another process")


def _identity(gpu: torch.device) -> str:
    return str(torch.cuda.get_device_properties(gpu).uuid)
