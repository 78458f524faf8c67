"""Who samples on the CPU: the native module's threads, or a warp of 32 emulated lanes, which is what a GPU runs."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from hinterland import _core
from hinterland.runtime import jit

TESTS = Path(__file__).resolve().parent.parent


def _compiled(name, folder):
    """The library that ``NAME_lanes.cpp`` makes."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    library = folder / f"{name}.so"
    native = jit.INCLUDE_DIR.parent / "native"
    if not native.is_dir():
        pytest.skip("the native sources are not beside the headers")
    paths = ["-I", str(TESTS / "lanes"), "-I", str(jit.INCLUDE_DIR), "-I", str(native)]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *paths]
    subprocess.run(["g++", *flags, str(TESTS / "sampling" / f"{name}_lanes.cpp"), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def _function(library, name):
    function = getattr(library, name)
    function.argtypes, function.restype = [ctypes.c_int64], None
    return function


@pytest.fixture(scope="session")
def lanes_library(tmp_path_factory):
    return _function(_compiled("neighbors", tmp_path_factory.mktemp("lanes")), "sample_neighbors")


@pytest.fixture(scope="session")
def walk_lanes_library(tmp_path_factory):
    library = _compiled("walks", tmp_path_factory.mktemp("lanes"))
    return _function(library, "random_walks"), _function(library, "negative_edges")


@pytest.fixture
def walk_lanes(walk_lanes_library, monkeypatch):
    """A function that turns walks and negative edges to the lanes for the rest of the test."""
    walks, negatives = walk_lanes_library

    def turn():
        monkeypatch.setattr(_core, "random_walks", walks)
        monkeypatch.setattr(_core, "negative_edges", negatives)

    return turn


@pytest.fixture
def lanes(lanes_library, monkeypatch):
    """A function that turns to the lanes for the rest of the test."""

    def turn():
        monkeypatch.setattr(_core, "sample_neighbors", lanes_library)

    return turn
