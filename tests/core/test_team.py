"""The loops of the native module's team of threads, as a program of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_loops_wait_only_for_threads_that_came(tmp_path):
    program = tmp_path / "team"
    folders = ["-I", str(ROOT / "include"), "-I", str(ROOT / "native")]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-fopenmp"]
    subprocess.run(["g++", *flags, *folders, str(ROOT / "tests/core/team.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
