"""While a CUDA graph is captured: what cannot be part of a graph is done beside it, at once, and is there for all replays.

Memory that torch gives during a capture is the graph's. What is allocated beside it is not, and outlives it.
"""

from __future__ import annotations

import functools
import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any

import torch

from . import devices
from .errors import ConfigError, DeviceError


def capturing() -> bool:
    """Whether the current stream of the current GPU is captured: then nothing runs yet, and nothing can be waited for."""
    return devices.cuda_available() and bool(torch._C._cuda_isCurrentStreamCapturing())  # asked at every launch


_captured_beside = threading.local()


def captures() -> bool:
    """Whether this thread captures a graph: also while it works :func:`beside` it, on a stream that is not captured."""
    return capturing() or getattr(_captured_beside, "now", False)


def require_running(what: str, remedy: str) -> None:
    """ConfigError of what needs the CPU between its kernels, while the current stream is captured."""
    if capturing():
        raise ConfigError(f"{what} while a CUDA graph is captured; {remedy}")


@contextmanager
def relaxed() -> Iterator[None]:
    """A with-block in which the driver does for this thread what it refuses during a capture, as to load kernels or to allocate
    memory: nothing of it is part of a graph."""
    from cuda.bindings import driver

    _, before = driver.cuThreadExchangeStreamCaptureMode(driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(before)


@contextmanager
def beside(device: torch.device) -> Iterator[torch.cuda.Stream]:
    """A with-block whose work on a GPU runs at once, on a stream that nobody captures, and has ended with the block."""
    with torch.cuda.device(device):
        devices.give_context(device)
        before, _captured_beside.now = getattr(_captured_beside, "now", False), captures()
        try:
            with relaxed():
                stream = _stream(device)
                with torch.cuda.stream(stream):
                    yield stream
                stream.synchronize()
        finally:
            _captured_beside.now = before


def beside_capture(device: torch.device) -> AbstractContextManager[Any]:
    """:func:`beside` while the current stream is captured; else nothing, on the stream as it is."""
    return beside(device) if capturing() else nullcontext()


@functools.cache
def _stream(device: torch.device) -> Any:
    """One of our own: torch gives each of its few to many, and somebody may capture that."""
    from cuda.bindings import driver

    error, handle = driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"CUDA made no stream on {device}: {error.name}")
    return torch.cuda.ExternalStream(int(handle), device)


def captured(
    device: torch.device,
    call: Callable[[], Any],
    pool: Any = None,
    stream: torch.cuda.Stream | None = None,
    others: Sequence[torch.cuda.Stream] = (),
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """A CUDA graph of what ``call`` launches, and what it gave. Raises what ``call`` does; nothing is captured any more then.

    Not by torch.cuda.graph(), after whose failure its stream is still the current one, and its memory in use.

    Args:
        pool: memory that graphs share which are replayed one after another (torch.cuda.graph_pool_handle()); None is its own.
        stream: to capture it on, which keeps what libraries have allocated for it; None is any.
        others: the current streams of other GPUs, on which this thread launches as well: the graph is then one of them all.
    """
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(device) if stream is None else stream
    pool = torch.cuda.graph_pool_handle() if pool is None else pool
    torch.cuda.empty_cache()  # a capture allocates what is free, and of that nothing which torch keeps for others
    with torch.cuda.device(device), torch.cuda.stream(stream), _uncollected():
        # A collective that was launched before may still run. torch's watch over NCCL, a thread, asks for its event meanwhile,
        # which would end a capture of the mode "global" (pull request 104487 of torch).
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            with _forked(graph, pool, stream, others):
                made = call()
        except BaseException:
            with suppress(RuntimeError), warnings.catch_warnings(action="ignore"):  # as of a graph with nothing in it
                _end(graph, pool, device)
            raise
        _end(graph, pool, device)
    return graph, made


@contextmanager
def _forked(
    graph: torch.cuda.CUDAGraph, pool: Any, stream: torch.cuda.Stream, others: Sequence[torch.cuda.Stream]
) -> Iterator[None]:
    """A with-block in which streams of other GPUs are captured, too. What this thread allocates there is the graph's, to which
    torch sees on one GPU alone."""
    for other in others:
        other.wait_stream(stream)
        index = other.device.index
        torch._C._cuda_beginAllocateCurrentThreadToPool(index, pool)
        weakref.finalize(graph, torch._C._cuda_releasePool, index, pool).atexit = False
    try:
        yield
    finally:
        for other in others:
            torch._C._cuda_endAllocateToPool(other.device.index, pool)
    for other in others:
        stream.wait_stream(other)


def _end(graph: torch.cuda.CUDAGraph, pool: Any, device: torch.device) -> None:
    try:
        graph.capture_end()
    except RuntimeError:
        with suppress(AttributeError, RuntimeError):  # which torch does after a capture that has not failed
            torch._C._cuda_endAllocateToPool(device.index, pool)
            torch._C._cuda_releasePool(device.index, pool)
        raise


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without collections of cycles: one might let go of a graph or an event, which ends a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
