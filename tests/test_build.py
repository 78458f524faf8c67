"""What cannot be built says so in a sentence."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CMAKE, NINJA = (Path(sys.executable).parent / program for program in ("cmake", "ninja"))

pytestmark = pytest.mark.skipif(
    not (CMAKE.exists() and NINJA.exists() and (ROOT / "CMakeLists.txt").exists()), reason="needs CMake and the sources"
)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "Hinterland needs a C++20 compiler; install g++"),
        (["-DCMAKE_SYSTEM_NAME=Darwin"], "Hinterland runs on Linux; this is Darwin."),
    ],
    ids=["no compiler", "another system"],
)
def test_configuring(tmp_path, options, sentence):
    command = [CMAKE, "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}", *options]
    found = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=120)
    assert found.returncode != 0
    assert sentence in " ".join(found.stderr.split())
    assert len(found.stderr.splitlines()) < 8


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_without_nanobind(tmp_path):
    venv.create(tmp_path / "bare")
    python = f"-DPython_EXECUTABLE={tmp_path / 'bare/bin/python'}"
    command = [CMAKE, "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}", python]
    found = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=120)
    assert found.returncode != 0
    assert "bindings need nanobind: pip install nanobind" in " ".join(found.stderr.split())
