"""Entries, PRPs and queue pairs against a device in software, as a program of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("name", ["queue", "device"])
def test_every_command_ends_once_whatever_the_device_does(tmp_path, name):
    program = tmp_path / name
    flags = [
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pthread",
        "-I",
        str(ROOT / "include"),
        "-I",
        str(ROOT / "native"),
    ]
    sources = [str(ROOT / f"native/storage/{source}.cpp") for source in ("request", "serving", "memory_namespace", "faults")]
    subprocess.run(["g++", *flags, str(ROOT / f"tests/storage/{name}.cpp"), *sources, "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
