"""What several of these tests need."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import torch

import hinterland as hl
from hinterland import datasets

from .captured_steps import SHAPE


@pytest.fixture(scope="package")
def dataset():
    """What tests of training have, unless they say otherwise."""
    return datasets.generate(SHAPE, seed=1, device="cpu")


@pytest.fixture(scope="package")
def graph():
    """What tests of caches plan for, with the two that follow."""
    return hl.generate("kronecker", scale=13, edge_factor=16, seed=3, device="cpu")


@pytest.fixture(scope="package")
def features(graph):
    count = graph.num_vertices
    return hl.UnifiedTensor.from_tensor(torch.arange(count * 16, dtype=torch.float32).view(count, 16))


@pytest.fixture(scope="package")
def seeds(graph):
    connected = graph.indptr.diff().nonzero()[:, 0]
    return connected[torch.randperm(len(connected), generator=torch.Generator().manual_seed(1))[:1500]]


@pytest.fixture
def doubles():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as Python knows it, also where the tests run in the background, which starts them deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def one_thread():
    """Sums are the same each time, and threads that wait for a busy core do not slow small tensors down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def every_thread_ends():
    yield
    deadline = time.monotonic() + 5
    while _own_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _own_threads()


def _own_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("hinterland ")]
