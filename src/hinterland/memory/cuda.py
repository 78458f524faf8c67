"""The CUDA driver's calls about host memory, each with its error as an exception of ours."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ..runtime import devices
from ..runtime.errors import DeviceError, OutOfMemory
from ..runtime.params import Params
from ..runtime.units import format_bytes


def allocate_managed(nbytes: int) -> int:
    """Managed memory: its address."""
    driver = _started()
    flags = driver.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value
    return int(checked(driver.cuMemAllocManaged(nbytes, flags), f"allocate {format_bytes(nbytes)} of managed memory"))


def free_managed(address: int) -> None:
    """Gives managed memory back, once the GPUs are done with it."""
    driver = _started()
    wait_for_gpus()
    checked(driver.cuMemFree(address), "free managed memory")


def keep_on_host(address: int, nbytes: int) -> None:
    """Managed or plain memory stays on the host, and every GPU is mapped to it instead of drawing pages over."""
    from cuda.bindings import driver

    host = driver.CUmemLocation()
    host.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST
    preferred = driver.CUmem_advise.CU_MEM_ADVISE_SET_PREFERRED_LOCATION
    accessed = driver.CUmem_advise.CU_MEM_ADVISE_SET_ACCESSED_BY
    checked(driver.cuMemAdvise(address, nbytes, preferred, host), "keep memory on the host")
    for gpu in devices.gpus():
        reader = driver.CUmemLocation()
        reader.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        reader.id = gpu.index
        checked(driver.cuMemAdvise(address, nbytes, accessed, reader), f"map memory of the host for {gpu}")


def register(address: int, nbytes: int, writable: bool = True) -> None:
    """Page-locks host memory and maps it for every GPU, at the address that the CPU uses."""
    driver = _started()
    flags = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP
    if not writable and not _without("READ_ONLY_HOST_REGISTER_SUPPORTED"):
        flags |= driver.CU_MEMHOSTREGISTER_READ_ONLY
    checked(driver.cuMemHostRegister(address, nbytes, flags), f"register {format_bytes(nbytes)} of host memory")
    mapped = int(checked(driver.cuMemHostGetDevicePointer(address, 0), "map pinned memory"))
    if mapped != address:
        unregister(address)
        raise DeviceError("this system maps pinned memory at another address for its GPUs, which is not supported")


def register_registers(address: int, nbytes: int) -> int:
    """Maps a device's registers for every GPU: their address there. The CPU must have touched their pages before."""
    driver = _started()
    flags = driver.CU_MEMHOSTREGISTER_PORTABLE | driver.CU_MEMHOSTREGISTER_DEVICEMAP | driver.CU_MEMHOSTREGISTER_IOMEMORY
    checked(driver.cuMemHostRegister(address, nbytes, flags), "map a device's registers for GPUs")
    return int(checked(driver.cuMemHostGetDevicePointer(address, 0), "map a device's registers for GPUs"))


def unregister(address: int) -> None:
    """Undoes ``register`` and ``register_registers``, once the GPUs are done with the memory."""
    driver = _started()
    wait_for_gpus()
    checked(driver.cuMemHostUnregister(address), "unregister host memory")


def allocate_on_gpu(nbytes: int) -> int:
    """Memory of the current GPU: its address."""
    driver = _started()
    return int(checked(driver.cuMemAlloc(nbytes), f"allocate {format_bytes(nbytes)}"))


def allocate_word() -> int:
    """The address of 8 bytes of host memory that every GPU writes to, 0 at first."""
    driver = _started()
    flags = driver.CU_MEMHOSTALLOC_PORTABLE | driver.CU_MEMHOSTALLOC_DEVICEMAP
    address = int(checked(driver.cuMemHostAlloc(8, flags), "allocate a word of pinned memory"))
    ctypes.c_int64.from_address(address).value = 0
    return address


def copy_to_gpu(address: int, params: Params, stream: torch.cuda.Stream) -> None:
    """Copies a struct to memory of the stream's GPU, once the stream is done with what it has."""
    from cuda.bindings import driver

    size = ctypes.sizeof(params)
    checked(driver.cuMemcpyHtoDAsync(address, params.address, size, stream.cuda_stream), "copy to a GPU")
    stream.synchronize()


def copy_from_gpu(params: Params, address: int, stream: torch.cuda.Stream) -> None:
    """Fills a struct from there likewise."""
    from cuda.bindings import driver

    size = ctypes.sizeof(params)
    checked(driver.cuMemcpyDtoHAsync(params.address, address, size, stream.cuda_stream), "copy from a GPU")
    stream.synchronize()


def is_pinned(address: int, nbytes: int) -> bool:
    """Whether these bytes are host memory that CUDA has page-locked as one piece, and GPUs find at the same address."""
    driver = _started()
    attributes = driver.CUpointer_attribute
    asked = [
        attributes.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, attributes.CU_POINTER_ATTRIBUTE_IS_MANAGED,
        attributes.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, attributes.CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        attributes.CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
    ]  # fmt: skip
    found = []
    for attribute in asked:
        error, value = driver.cuPointerGetAttribute(attribute, address)
        if error != driver.CUresult.CUDA_SUCCESS:
            return False
        found.append(int(value))
    kind, managed, begin, size, seen = found
    host = driver.CUmemorytype.CU_MEMORYTYPE_HOST.value
    return kind == host and not managed and seen == address and address + nbytes <= begin + size


def managed_memory_works() -> bool:
    """Whether every GPU can read managed memory while the CPU uses it (Linux, Pascal and later)."""
    return not _without("CONCURRENT_MANAGED_ACCESS")


def system_memory_works() -> bool:
    """Whether there are GPUs, and every one reads plain memory, as malloc gives it."""
    return devices.cuda_available() and not _without("PAGEABLE_MEMORY_ACCESS")


def require_system_memory() -> None:
    """Raises DeviceError unless it does."""
    devices.require_cuda("placement='system'")
    if lacking := _without("PAGEABLE_MEMORY_ACCESS"):
        raise DeviceError(
            f"placement='system' needs GPUs that read plain memory by page tables they share with the CPU, and {lacking[0]} "
            "does not (its pageableMemoryAccess is 0); use placement='host'"
        )


def shares_page_tables() -> bool:
    """Whether every GPU reads plain memory by the CPU's own page tables, as on Grace."""
    return not _without("PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES")


def _without(attribute: str) -> list[torch.device]:
    """The GPUs that do not have an attribute of ``CU_DEVICE_ATTRIBUTE_``."""
    driver = _started()
    asked = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}")
    return [gpu for gpu in devices.gpus() if not checked(driver.cuDeviceGetAttribute(asked, gpu.index), "ask a GPU")]


def wait_for_gpus() -> None:
    """Until no kernel can still use memory that is about to go: every GPU that this process works on may."""
    for gpu in filter(_works_on, devices.gpus()):
        torch.cuda.synchronize(gpu)


def free_bytes() -> int:
    """The least that is free of the current GPU and of those that this process works on; to ask others takes memory of them."""
    current = devices.as_device("cuda")
    others = [gpu for gpu in devices.gpus() if gpu != current and _works_on(gpu)]
    return min(devices.free_bytes(gpu) for gpu in (current, *others))


def _works_on(gpu: torch.device) -> bool:
    from cuda.bindings import driver

    _, active = checked(driver.cuDevicePrimaryCtxGetState(gpu.index), "ask for a GPU's state")
    return bool(active)


def _started() -> Any:
    """The driver's functions, once it is started and this thread has a CUDA context."""
    devices.require_cuda("memory that GPUs read")
    from cuda.bindings import driver

    checked(driver.cuInit(0), "start the CUDA driver")
    devices.give_context(devices.as_device("cuda"))
    return driver


def checked(result: tuple[Any, ...], what: str) -> Any:
    """The value of a driver call; its failure as an exception that says what could not be done."""
    from cuda.bindings import driver

    error, *values = result
    if error == driver.CUresult.CUDA_SUCCESS:
        return values[0] if len(values) == 1 else tuple(values)
    if error == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise OutOfMemory(f"CUDA could not {what}: out of memory; release tensors, or use a smaller table")
    raise DeviceError(f"CUDA could not {what}: {error.name}")
