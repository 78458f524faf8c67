"""Time to make a Kronecker graph of scale 25 (small: 16) with 16 edges a vertex, on the CPU and on the GPU."""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

import torch

import hinterland as hl
from hinterland import _core
from hinterland.runtime import devices

CPU_PHASES = ("count_entries", "scatter_entries", "sort_rows", "compact_rows", "generate_weights")
GPU_PHASES = ("_row_ends", "_in_pieces")


def run(small: bool) -> dict[str, Any]:
    """Seconds in all and for each phase (what is left is allocation), and whether both processors made the same graph."""
    scale = 16 if small else 25
    result: dict[str, Any] = {"scale": scale, "edge_factor": 16, "threads": _core.num_threads()}
    result["cpu"], result["cpu_phases"], on_cpu = _measure(_core, CPU_PHASES, scale, "cpu")
    result["vertices"], result["stored_edges"] = on_cpu.num_vertices, on_cpu.num_edges
    if devices.cuda_available():
        hl.generate("kronecker", scale=10, device="cuda")  # compiles the kernels, if need be
        generator = importlib.import_module("hinterland.graph.generate_on_gpu")
        result["gpu"], result["gpu_phases"], on_gpu = _measure(generator, GPU_PHASES, scale, "cuda")
        result["same"] = all(torch.equal(on_cpu.array(n), on_gpu.array(n)) for n in ("indptr", "indices", "weights"))
    return result


def _measure(
    module: ModuleType, names: tuple[str, ...], scale: int, device: str
) -> tuple[dict[str, float], dict[str, float], hl.Graph]:
    with _timed(module, names) as phases:
        start = time.perf_counter()
        graph = hl.generate("kronecker", scale=scale, edge_factor=16, weights="int32", device=device)
        seconds = time.perf_counter() - start
    drawn = 16 << scale
    return {"seconds": seconds, "drawn_edges_per_second": drawn / seconds}, phases, graph


@contextmanager
def _timed(module: ModuleType, names: tuple[str, ...]) -> Iterator[dict[str, float]]:
    """Seconds spent in functions of ``module``, by name, while the block runs; a GPU's work is waited for."""
    seconds = dict.fromkeys((name.strip("_") for name in names), 0.0)

    def timed(name: str) -> Any:
        function = getattr(module, name)

        @functools.wraps(function)
        def call(*args: Any) -> Any:
            start = time.perf_counter()
            returned = function(*args)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            seconds[name.strip("_")] += time.perf_counter() - start
            return returned

        return call

    with ExitStack() as patches:
        for name in names:
            patches.enter_context(mock.patch.object(module, name, timed(name)))
        yield seconds
