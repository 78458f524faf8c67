"""What several of these tests need."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import torch

from hinterland import datasets

from .captured_steps import SHAPE


@pytest.fixture(scope="package")
def dataset():
    """What tests of training have, unless they say otherwise."""
    return datasets.generate(SHAPE, seed=1, device="cpu")


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
