"""Sums over lists that threads share, as a program of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_lists_that_tasks_share_are_added_to_atomically(tmp_path):
    program = tmp_path / "sums"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include")]
    subprocess.run(["g++", *flags, str(ROOT / "tests/graph/sums.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
