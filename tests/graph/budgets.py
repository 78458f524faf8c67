"""What runs take of a GPU's memory, beside what they were told they may."""

import contextlib

import torch

import hinterland as hl
from hinterland.graph.algorithms import state_bytes


@contextlib.contextmanager
def takes_at_most(size):
    """Of torch's memory on the GPU, meanwhile."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    yield
    assert torch.cuda.max_memory_allocated() - before <= size


def within_budgets(name, graph, run, extras, **options):
    """What ``run`` finds on the graph, prepared for the algorithm within what a run takes and each of ``extras``."""
    run(graph)  # the kernel is compiled and loaded
    least = state_bytes(name, graph)
    for extra in extras:
        with takes_at_most(least + extra), hl.prepare(graph, gpu_budget=least + extra, algorithms=name, **options) as prepared:
            assert prepared.device.type == "cuda" and prepared.held <= extra
            found = run(prepared)
        yield found
        del found, prepared
