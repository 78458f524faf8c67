"""Launches from any thread: what the driver is asked comes after the thread has a CUDA context. No GPU is touched."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace

import torch

from hinterland.runtime import devices, launch

GPU = torch.device("cuda", 0)


class Kernels:
    """Stands for a KernelFile: its kernel may be asked only where a context was given."""

    def __init__(self, given):
        self.given = given

    def kernel(self, instance, device):
        assert threading.get_ident() in self.given, "the driver would refuse: this thread has no context"
        blocks = SimpleNamespace(max_active_blocks_per_multiprocessor=lambda block, shared: 3)
        return SimpleNamespace(occupancy=blocks)


def test_a_threads_first_question_comes_after_its_context(monkeypatch):
    given, answers = set(), []
    monkeypatch.setattr(devices, "give_context", lambda device: given.add(threading.get_ident()))
    monkeypatch.setattr(devices, "sm_count", lambda device: 132)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    thread = threading.Thread(target=lambda: answers.append(launch.resident_blocks(Kernels(given), "kernel", GPU, 256)))
    thread.start()
    thread.join()
    assert answers == [3 * 132]
