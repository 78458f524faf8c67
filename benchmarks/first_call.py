"""What a user waits for at an operation's first call: imports, the compile of its kernels with nothing kept, and the rest.

Each operation runs in a process of its own, with an empty cache. Without a GPU only the kernel of 32-bit graphs is compiled,
for an H200 (sm_90).
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from hinterland.graph.algorithms import Algorithm, known

# Besides all algorithms: what is called on a GPU, and the kernel that is compiled without one: its file, and what its instance
# has in its name.
OPERATIONS = {
    "gather": (
        "hl.UnifiedTensor.from_tensor(torch.ones(1000, 128))[torch.arange(10, device='cuda')]",
        "memory/gather.cu",
        "16",
    ),
    "sampling": ("sampled(graph)", "sampling/neighbor.cu", "int32_t>, false"),
}

# argv: the call, the kernel file, what its instance has in its name. Prints seconds of each part as JSON.
_CHILD = """
import json, sys, time
from time import perf_counter as now, process_time
start = now()
import torch
import hinterland as hl
for name in hl.__all__:
    getattr(hl, name)
from hinterland.runtime import devices, jit
on_gpu = devices.cuda_available()
seconds = {"import": now() - start, "compile": 0.0, "compile_cpu": 0.0}
kernels = []
compile = jit._compile

def timed(file, arch, unit):
    kernels.append(file.path)
    begin, begin_cpu = now(), process_time()
    try:
        return compile(file, arch, unit)
    finally:
        seconds["compile"] += now() - begin
        seconds["compile_cpu"] += process_time() - begin_cpu

def sampled(graph):
    sampler = hl.sampling.NeighborSampler(graph, [15, 10], device="cuda")
    return sampler.sample(torch.arange(10))

jit._compile = timed
call, path, named = sys.argv[1:]
begin = now()
jit._toolchain()
seconds["import"] += now() - begin
if on_gpu:
    graph = hl.random_weights(hl.generate("kronecker", scale=8, device="cpu"), "int32", 1)
    torch.ones(1, device="cuda")
    torch.cuda.synchronize()
begin = now()
if on_gpu:
    eval(call)
    torch.cuda.synchronize()
else:
    file = jit.REGISTRY[path]
    unit = next(unit for unit in file.units() if named in unit[0])
    file.build("sm_90", jit.cache_dir(), unit)
seconds["call"] = now() - begin
print(json.dumps({"kernels": len(kernels), **seconds}))
"""


def run(small: bool) -> dict[str, Any]:
    """Seconds of each part, the best of three processes (small: of one); ``call`` has the compile in it."""
    operations = {**OPERATIONS, **{record.name: _operation(record) for record in known()}}
    return {"first calls": [{"operation": name, **_best(one, 1 if small else 3)} for name, one in operations.items()]}


def _operation(record: Algorithm) -> tuple[str, str, str]:
    takes = inspect.signature(record.run).parameters
    start = "".join(f", {name}={value}" for name, value in (("source", 0), ("sources", [0])) if name in takes)
    weight = ", int32_t" if record.weights == "needed" else ""
    return f"hl.graph.{record.run.__name__}(graph{start})", record.kernels.path, f"<graph::Csr<int32_t{weight}>"


def _best(operation: tuple[str, str, str], times: int) -> dict[str, Any]:
    return min((_measure(operation) for _ in range(times)), key=lambda found: found["call"])


def _measure(operation: tuple[str, str, str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HINTERLAND_CACHE_DIR": folder, "CUDA_CACHE_DISABLE": "1"}
        done = subprocess.run([sys.executable, "-c", _CHILD, *operation], env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])
