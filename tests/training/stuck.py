"""A process in which something is stuck for ever, for test_stuck.py: what, says the argument. None of it ends by itself."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import tempfile
from pathlib import Path

import torch

import hinterland as hl
from hinterland.runtime import jit, watch
from hinterland.runtime.capture import relaxed
from hinterland.runtime.launch import launch
from hinterland.runtime.params import Params
from hinterland.runtime.watch import Watch
from hinterland.sampling import NeighborSampler
from hinterland.training import Batch, Factored, Loader, Stage, capture, replayed_batches
from hinterland.training.prefetch import Prefetcher

WHAT = sys.argv[1]
SPIN = """
struct Spin { const volatile int* flag; };
__global__ void spin_kernel(Spin p) { while (*p.flag == 0) {} }
"""


class Spin(Params):
    __slots__ = ()
    _fields_ = (("flag", ctypes.c_uint64),)


def never_returns() -> None:
    """As a call of the driver may: signals are noted, and nobody comes to hear of them."""
    libc, lock = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_init(lock, None)
    for _ in range(2):
        libc.pthread_mutex_lock(lock)


class FromFifo:
    """A table whose rows come through a pipe into which nobody writes."""

    dtype = torch.float32

    def __init__(self, rows: int) -> None:
        self.shape, self.path = (rows, 4), tempfile.mktemp()
        os.mkfifo(self.path)

    def __len__(self) -> int:
        return self.shape[0]

    def gather(self, index: torch.Tensor, max_blocks: int | None = None) -> torch.Tensor:
        os.open(self.path, os.O_RDONLY)
        raise AssertionError("somebody wrote")


def reader() -> None:
    graph = hl.generate("kronecker", scale=8, seed=1, device="cpu")
    sampler, table = NeighborSampler(graph, [2], device="cpu"), FromFifo(graph.num_vertices)
    list(Loader(sampler, torch.arange(100), 10, features=table, device="cpu", timeout=0.5))


def consumer() -> None:
    """It is in a call that does not return, and a device that never reaches a mark stands for the GPU."""
    guard = Watch(0.5, "batch")
    with guard.beside(lambda: lambda: False, "cuda:0"):
        guard.leaves()
        never_returns()


def spin(flag: torch.Tensor | None = None) -> torch.Tensor:
    """A kernel that ends when ``flag`` tells it to; without one it is not told."""
    flag = torch.zeros(1, dtype=torch.int32).pin_memory() if flag is None else flag
    launch(spin_file(), "spin_kernel", torch.device("cuda:0"), 1, 1, Spin(flag=flag.data_ptr()))
    return flag


@functools.cache
def spin_file() -> jit.KernelFile:
    folder = Path(tempfile.mkdtemp())
    (folder / "spin.cu").write_text(SPIN)
    jit.PACKAGE = folder
    return jit.KernelFile("spin.cu", ("spin_kernel",))


def kernel_of_a_stage(waits: bool) -> None:
    held = []

    def gather(i: int) -> torch.Tensor:
        if i == 2:
            held.append(spin())
        return torch.full((1000,), i, device="cuda")

    stages = [Stage("sample", lambda i: i), Stage("gather", gather)]
    for rows in Prefetcher(range(4), stages, torch.device("cuda:0"), timeout=2.0):
        print(float(rows.sum()) if waits else len(rows), flush=True)


def kernel_of_a_replay() -> None:
    graph = hl.generate("kronecker", scale=8, seed=1)
    loader = Loader(NeighborSampler(graph, [2]), torch.arange(200), 10, timeout=2.0, capture=True)
    held, sample = [], replayed_batches.SampleBuffer._sample

    def spins(buffer: replayed_batches.SampleBuffer, *given: object) -> object:
        made = sample(buffer, *given)  # type: ignore[arg-type]
        with relaxed():  # it allocates
            held.append(spin())
        return made

    replayed_batches.SampleBuffer._sample = spins  # type: ignore[method-assign]
    list(loader)


def kernel_of_the_step() -> None:
    stages = [Stage("gather", lambda i: torch.full((1000,), i, device="cuda"))]
    for _ in Prefetcher(range(4), stages, torch.device("cuda:0"), timeout=2.0):
        held = spin()
        torch.cuda.synchronize()
        del held


def replay_of_the_step(factored: bool = False) -> None:
    """A captured step whose kernel waits for a flag, once it is replayed."""
    package, flag = jit.PACKAGE, spin(torch.ones(1, dtype=torch.int32).pin_memory())
    jit.PACKAGE = package  # the kernel is loaded; those of samplers lie here
    graph = hl.generate("kronecker", scale=8, seed=1)
    features, labels = torch.ones(graph.num_vertices, 4, device="cuda"), torch.zeros(graph.num_vertices, dtype=torch.int64)
    options = {"features": features, "labels": labels, "device": "cuda:0", "capture": True, "timeout": 2.0}
    loader = Loader(NeighborSampler(graph, [2], device="cuda:0"), torch.arange(200), 10, **options)
    model = torch.nn.Linear(4, 2).cuda()

    def loss(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        spin(flag)
        return torch.nn.functional.cross_entropy(model(batch.x)[: batch.batch_size], batch.y)

    if factored:
        by_role = Factored(loader, lambda on: NeighborSampler(graph, [2], device=on), model, loss, ["cuda:0"] * 2, samplers=1)
        for _ in by_role:
            if by_role.replayed > 2:
                flag.zero_()
        return
    steps = capture(model, loss, torch.optim.SGD(model.parameters(), lr=0.1), loader)
    for _, found in steps:
        if steps.replayed > 2:
            flag.zero_()
        float(found)


if WHAT.endswith(", which ends by itself"):
    watch.on_stuck = watch.say_and_end
{
    "reader": reader,
    "consumer": consumer,
    "consumer, which ends by itself": consumer,
    "kernel of a stage": lambda: kernel_of_a_stage(waits=False),
    "kernel of a stage that is waited for": lambda: kernel_of_a_stage(waits=True),
    "kernel of a replay": kernel_of_a_replay,
    "kernel of the step": kernel_of_the_step,
    "replay of the step": replay_of_the_step,
    "replay of a trainer's step": lambda: replay_of_the_step(factored=True),
    "kernel of the step, which ends by itself": kernel_of_the_step,
}[WHAT]()
