"""Launches from any thread: what the driver gets, and that it is asked only after the thread has a context. No GPU is used."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hinterland.runtime import devices, launch

from ..driver import through_driver

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
    monkeypatch.setattr(launch, "relaxed", contextlib.nullcontext)
    thread = threading.Thread(target=lambda: answers.append(launch.resident_blocks(Kernels(given), "kernel", GPU, 256)))
    thread.start()
    thread.join()
    assert answers == [3 * 132]


@pytest.fixture(scope="module")
def launches(tmp_path_factory):
    """What launches.py says became of its launches, through a driver that only keeps what it gets."""
    return json.loads(through_driver(Path(__file__).with_name("launches.py"), tmp_path_factory.mktemp("driver")))


# Function, blocks, threads of each, shared memory, stream, cooperative, device and launches so far; then the thread's device.
def test_a_thread_without_a_context_is_given_one(launches):
    assert launches["first"] == [[700, 12, 1, 1, 256, 1, 1, 0, 900, 0, 0, 1], 0]
    assert launches["thread"] == [[700, 12, 1, 1, 256, 1, 1, 0, 900, 0, 0, 4], 0]


def test_a_cooperative_launch_is_told_as_one(launches):
    assert launches["cooperative"] == [[700, 12, 1, 1, 256, 1, 1, 4096, 900, 1, 0, 2], 0]


def test_another_gpus_kernel_is_queued_there_and_the_threads_gpu_stays(launches):
    assert launches["other"] == [[701, 12, 1, 1, 256, 1, 1, 0, 901, 0, 1, 3], 0]


def test_what_the_driver_refuses_is_told_by_its_name(launches):
    assert launches["refused"][0] == "CUDA did not launch some_kernel on cuda:0: CUDA_ERROR_INVALID_VALUE"
    assert launches["unknown"][0] == "CUDA did not launch some_kernel on cuda:0: error 12345"


def test_other_threads_run_while_a_launch_waits_for_room(launches):
    assert launches["full"] == [[700, 12, 1, 1, 256, 1, 1, 0, 900, 0, 0, 5], 0]


def test_where_no_driver_can_be_opened_a_sentence_says_so(tmp_path):
    (tmp_path / "libcuda.so.1").write_text("no library")
    ask = "from hinterland import _core; _core.launch(0, 0, 1, 1, 0, 0, False, b'')"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, timeout=60)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("hinterland.runtime.errors.DeviceError: a kernel cannot be launched without CUDA's driver: ")
