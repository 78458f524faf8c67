"""What launching a kernel costs the CPU: a struct filled in and passed, against cuda-core's launcher with as many arguments.

Microseconds of one launch of a kernel that does nothing: medians of rounds in turn, each waited for, so that no queue is full.
Without a GPU a stand-in takes the driver's place (tests/runtime/driver.cpp, built with g++), and what is left is our part.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from hinterland.runtime import devices
from hinterland.runtime.launch import launch
from hinterland.runtime.params import struct

LAUNCHES = 100  # in a round
STRUCTS = {6: "graph::BfsParams", 10: "memory::Bags"}  # by their fields, pointers and 64-bit integers
KERNELS = """
template <int n> struct Fields { long long field[n]; };
template <int n> __global__ void one(const __grid_constant__ Fields<n>) {}
template <class... T> __global__ void several(T...) {}
"""


class Kernel:
    """Stands for a KernelFile with one kernel."""

    def __init__(self, kernel: Any):
        self._kernel = kernel

    def kernel(self, instance: str, device: torch.device) -> Any:
        return self._kernel


def run(small: bool) -> dict[str, Any]:
    on_gpu = devices.cuda_available()
    if not on_gpu:
        _stand_in()
    make = _compiled if on_gpu else _handle
    rows = [_row(fields, make(fields), 40 if small else 400) for fields in STRUCTS]
    return {"driver": "CUDA's" if on_gpu else "a stand-in", "microseconds": rows}


def _row(fields: int, kernels: tuple[Any, Any], rounds: int) -> dict[str, Any]:
    from cuda.core import LaunchConfig
    from cuda.core import launch as core_launch

    device, made, config = torch.device("cuda", 0), struct(STRUCTS[fields]), LaunchConfig(grid=1, block=32)
    names, ours, theirs = [name for name, _ in made._fields_], Kernel(kernels[0]), kernels[1]
    values = range(1 << 40, (1 << 40) + fields)
    named, params = dict(zip(names, values, strict=True)), made()
    ways: dict[str, Callable[[], Any]] = {
        "struct and launch": lambda: launch(ours, "one", device, 1, 32, made(**named)),
        "launch": lambda: launch(ours, "one", device, 1, 32, params),
        "cuda-core": lambda: core_launch(devices.current_stream(device), config, theirs, *values),
    }
    found: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, call in ways.items():
            found[way].append(_microseconds(call))
    best = {way: median(times) for way, times in found.items()}
    return {"arguments": fields, **best, "ratio": best["struct and launch"] / best["cuda-core"]}


def _microseconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    for _ in range(LAUNCHES):
        call()
    seconds = time.perf_counter() - begin
    if devices.cuda_available():
        torch.cuda.synchronize()
    return seconds / LAUNCHES * 1e6


def _compiled(fields: int) -> tuple[Any, Any]:
    from cuda.core import Program, ProgramOptions

    device = devices.as_device("cuda:0")
    devices.give_context(device)
    names = (f"one<{fields}>", f"several<{', '.join(['long long'] * fields)}>")
    program = Program(KERNELS, "c++", ProgramOptions(arch=devices.arch(device), std="c++20"))
    code = program.compile("cubin", name_expressions=names)
    return code.get_kernel(names[0]), code.get_kernel(names[1])


def _handle(fields: int) -> tuple[Any, Any]:
    from cuda.core import Kernel as CoreKernel

    return CoreKernel.from_handle(1), CoreKernel.from_handle(1)


def _stand_in() -> None:
    """Has a driver that does nothing found as libcuda.so.1, and a torch without CUDA answer what a launch asks of it."""
    source = Path(__file__).resolve().parent.parent / "tests" / "runtime" / "driver.cpp"
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libcuda.so.1"
        flags = ["-std=c++20", "-O2", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
        subprocess.run(["g++", *flags, source, "-o", library], check=True)
        driver = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    driver.set_device(0)
    torch._C._cuda_getCurrentRawStream = (1 << 40).__add__
    torch.cuda.device = contextlib.nullcontext
    devices.give_context = lambda device: None
