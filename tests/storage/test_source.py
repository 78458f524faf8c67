"""Arrays on storage as a CPU's threads read and write them. (What warps do is among tests/graph/test_lanes.py.)"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("name", ["source", "written", "patterns", "coalesced"])
def test_what_is_read_is_what_is_stored_and_whoever_waits_comes_to_his_end(tmp_path, name):
    program = tmp_path / name
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(ROOT / "include")]
    subprocess.run(["g++", *flags, str(ROOT / f"tests/storage/{name}_lanes.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
