"""The code that a warp runs, with 32 lanes, on a machine without a GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hinterland.runtime import jit

TESTS = Path(__file__).resolve().parent.parent
# Those without a main() are libraries for other tests.
PROGRAMS = sorted(path for path in TESTS.rglob("*_lanes.cpp") if "int main()" in path.read_text())


def headers(source):
    """The names of our headers that a program includes, at any depth."""
    return {listed.split("\n")[0] for listed in jit.headers(source.read_text().replace("lane_team.hpp", ""))}


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("cached", [False, True], ids=["in memory", "through a cache"])
def test_a_warp_of_lanes_agrees_with_its_oracle(source, cached, tmp_path, monkeypatch):
    read = headers(source)
    if cached and ("hinterland/memory/source.hpp" not in read or "hinterland/storage/source.hpp" in read):
        pytest.skip("reads no graph, or brings a source of its own")
    monkeypatch.delenv("LD_PRELOAD", raising=False)  # a sanitizer's runtime, meant for Python
    program = tmp_path / source.stem
    if cached:
        monkeypatch.setenv("HINTERLAND_CACHED_SOURCES", "1")
    folders = [TESTS / "cached"] * cached + [TESTS / "lanes", jit.INCLUDE_DIR]
    paths = [part for folder in folders for part in ("-I", str(folder))]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", *paths]
    subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout
