"""Entries, PRPs and queue pairs against a device in software, as a program of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_every_command_ends_once_whatever_the_device_does(tmp_path):
    program = tmp_path / "queue"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(ROOT / "include")]
    subprocess.run(["g++", *flags, str(ROOT / "tests/storage/queue.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
