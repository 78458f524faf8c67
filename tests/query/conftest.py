"""A GPU of 32 lanes on the CPU, which runs the kernels of queries."""

from __future__ import annotations

import contextlib
import ctypes
import shutil

import pytest
import torch

from hinterland.query import on_gpu
from hinterland.query.pinned_columns import PinnedTable
from hinterland.runtime import devices, jit

from ..programs import TESTS, compiled


class _Stream:
    """Of a device on which all is done at once."""

    def wait_stream(self, other):
        pass

    wait_event = wait_stream

    def record_event(self):
        pass

    def synchronize(self):
        pass


@pytest.fixture(scope="session")
def kernels(tmp_path_factory):
    """The library of kernels_lanes.cpp."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    flags = ["-O1", "-shared", "-fPIC", f"-I{TESTS / 'lanes'}", f"-I{jit.INCLUDE_DIR}"]
    return ctypes.CDLL(str(compiled(tmp_path_factory.mktemp("lanes"), "tests/query/kernels_lanes.cpp", flags=flags)))


@pytest.fixture
def on_lanes(kernels, monkeypatch):
    """Queries with a ``host_budget`` are answered as a GPU answers them, by its kernels on the CPU."""

    def launch(file, instance, device, grid, block, params):
        getattr(kernels, instance)(ctypes.byref(params))

    monkeypatch.setattr(PinnedTable, "on_gpu", property(lambda table: table.budget is not None))
    monkeypatch.setattr(on_gpu, "launch", launch)
    monkeypatch.setattr(devices, "sm_count", lambda device: 1)
    for name in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, name, contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "Stream", _Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", _Stream)
