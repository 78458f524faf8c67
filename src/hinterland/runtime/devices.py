"""The GPUs of this machine and their streams, found when asked for: nothing here needs CUDA to be imported."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from .arguments import repr_of
from .errors import DeviceError
from .warned import warn_once

if TYPE_CHECKING:
    from cuda.core import Stream

_NO_CUDA_CORE = "cuda-core to launch kernels: pip install 'hinterland[cuda]'"
_importing = threading.RLock()  # a signal's handler may need what the thread that it interrupts is importing
os.register_at_fork(after_in_child=_importing._at_fork_reinit)  # type: ignore[attr-defined]  # who had it is not in the child


def cuda_core() -> ModuleType:
    """NVIDIA's cuda-core; ImportError without it. While it is imported another of its modules takes its name, and a thread that
    imports it then finds no ``Device`` in it, say: here one thread does, and others wait."""
    with _importing:
        import cuda.core

        return cuda.core


@functools.cache
def cuda_available() -> bool:
    """Whether torch sees an NVIDIA GPU, and cuda-core and the driver can launch on it. Warns once where GPUs are left alone."""
    lacking = _lacking()
    if lacking and (torch.version.hip is not None or torch.cuda.is_available()):
        warn_once("GPUs", f"no GPU is used, and everything runs on the CPU: kernels need {lacking}")
    return not lacking


def require_cuda(what: str) -> None:
    """Raises DeviceError unless GPUs can be used; ``what`` begins the sentence, as in ``"placement='gpu'"``."""
    if lacking := _lacking():
        raise DeviceError(f"{what} needs {lacking}")


@functools.cache
def _lacking() -> str:
    """What is missing here for a GPU to be used, and how to come by it; empty where nothing is."""
    if torch.version.hip is not None:  # AMD's GPUs are "cuda" too, by torch's names for them
        return f"an NVIDIA GPU, and torch {torch.__version__} is one for AMD's (ROCm)"
    if not torch.cuda.is_available():
        return f"an NVIDIA GPU, and torch {torch.__version__} sees none on this machine"
    try:
        cuda_core()
        from cuda.bindings import driver
    except ImportError:
        return _NO_CUDA_CORE
    try:
        driver.cuDriverGetVersion()
    except RuntimeError as error:
        return (
            f"NVIDIA's driver, and libcuda.so.1 is not to be had ({error}); install the driver, or give it to the container "
            "(docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        )
    return ""


def idle_at(device: torch.device) -> float:
    """The time in seconds, once ``device`` has nothing left to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def keeps_on_gpu(what: str) -> bool:
    """Whether what is to lie in GPU memory can. Not on a machine without a GPU that can be used: there host memory takes its
    part, so that the same program runs. Raises DeviceError, as ``require_cuda`` does, where cuda-core alone is missing."""
    if _lacking() == _NO_CUDA_CORE:
        require_cuda(what)
    return cuda_available()


def gpus() -> list[torch.device]:
    """Every GPU that torch sees, in order; empty without CUDA."""
    return [torch.device("cuda", i) for i in range(torch.cuda.device_count())] if cuda_available() else []


def as_device(device: torch.device | str | int | None = None) -> torch.device:
    """``device`` with its index filled in; None means the current GPU, or the CPU on a machine without one."""
    if device is None:
        device = "cuda" if cuda_available() else "cpu"
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError, ValueError) as error:  # a number names a GPU, and torch refuses it where there is none
        reason = str(error).splitlines()[0].rstrip(".:")
        raise DeviceError(f"device {repr_of(device)} cannot be used here: {reason}; use cpu or cuda") from error
    if device.type == "cuda":
        require_cuda(f"device {device}")
        if device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        if device.index >= torch.cuda.device_count():
            raise DeviceError(f"device {device} does not exist: this machine has {torch.cuda.device_count()} GPUs")
    elif device.type != "cpu":
        raise DeviceError(f"device {device} is neither cpu nor cuda")
    return device


def on(device: torch.device) -> AbstractContextManager[Any]:
    """A with-block in which ``device`` is the current GPU; for the CPU it does nothing."""
    return torch.cuda.device(device.index) if device.type == "cuda" else nullcontext()


def give_context(device: torch.device) -> None:
    """Gives this thread a CUDA context on a GPU if it has none. torch does so with its own first call that needs one, and what
    the driver is asked for may come before, in a thread of the user's or of the garbage collector."""
    from cuda.bindings import driver

    error, context = driver.cuCtxGetCurrent()
    if error != driver.CUresult.CUDA_SUCCESS or int(context) == 0:
        cuda_core().Device(device.index).set_current()


@functools.cache
def sm_count(device: torch.device) -> int:
    """Streaming multiprocessors of a GPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def quarter(device: torch.device) -> int:
    """Every fourth multiprocessor of a GPU, at least one. A block on each keeps the link busy, and the others are left to other
    work (docs/notes/gather-on-h200.md)."""
    return max(1, sm_count(device) // 4)


@functools.cache
def shared_bytes(device: torch.device) -> int:
    """Shared memory that one block of a GPU can have."""
    return int(cuda_core().Device(device.index).properties.max_shared_memory_per_block_optin)


@functools.cache
def cache_bytes(device: torch.device) -> int:
    """The L2 cache of a GPU."""
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


@functools.cache
def arch(device: torch.device) -> str:
    """The architecture that kernels are compiled for, as in ``"sm_90"``."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@functools.cache
def _stream(handle: int) -> Stream:
    return cuda_core().Stream.from_handle(handle)


@functools.lru_cache(maxsize=1024)
def _torch_stream(index: int, handle: int) -> torch.cuda.Stream:
    return torch.cuda.current_stream(index)


def torch_stream(device: torch.device) -> torch.cuda.Stream:
    """What ``torch.cuda.current_stream`` gives, which takes several microseconds to find it."""
    return _torch_stream(device.index, torch._C._cuda_getCurrentRawStream(device.index))


def wait_for(device: torch.device) -> None:
    """Waits until ``device`` is done with what this thread's current stream has. Copies to memory that is not pinned wait as
    well, but with the driver's lock: no other thread can launch anything until then."""
    if device.type == "cuda":
        torch_stream(device).synchronize()


def current_stream(device: torch.device) -> Any:
    """The caller's torch stream on ``device`` as a cuda-core stream."""
    return _stream(torch._C._cuda_getCurrentRawStream(device.index))


def free_bytes(device: torch.device) -> int:
    """GPU memory that a new allocation can have: free on the device, plus what torch's allocator caches unused."""
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def generator(device: torch.device) -> torch.Generator:
    """What random operations on a device draw from."""
    if device.type != "cuda":
        return torch.default_generator
    torch.cuda.init()
    found: torch.Generator = torch.cuda.default_generators[device.index]
    return found


def seed(on: Iterable[torch.device], number: int) -> None:
    """What torch.manual_seed() does, for the CPU and these devices alone; it takes 0.1 ms for others as well."""
    torch.default_generator.manual_seed(number)
    for device in on:
        generator(device).manual_seed(number)


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A small tensor of the CPU on ``device``. CUDA takes what is not pinned at once, and the copy to the GPU is queued on the
    current stream: the CPU does not wait, and may overwrite the tensor."""
    return tensor.to(device, non_blocking=True)
