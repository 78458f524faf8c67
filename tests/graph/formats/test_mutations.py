"""A few hundred damaged files of every format: the short form of ``fuzz_readers.py``, for every run of the tests."""

from __future__ import annotations

import random

import pytest

from . import mutations
from .samples import memory_folder


@pytest.fixture
def folder():
    yield from memory_folder()


@pytest.mark.filterwarnings("ignore:.*the fourth, times, is left out")
@pytest.mark.parametrize("start", range(0, 600, 100))
def test_damaged_files_raise_nothing_but_our_errors(folder, start, monkeypatch):
    monkeypatch.setenv("HINTERLAND_HOST_MEMORY", "256MiB")
    graph = folder / "graph"
    graph.mkdir()
    for seed in range(start, start + 100):
        mutations.empty(graph)
        rng = random.Random(seed)
        path = mutations.write(graph, rng)
        try:
            mutations.load(path, rng)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
