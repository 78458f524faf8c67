"""Entries, PRPs and queue pairs against two devices in software, the tests' and the library's, as programs of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SERVED = [
    "-DSERVED",
    *(str(ROOT / f"native/storage/{name}.cpp") for name in ("request", "serving", "memory_namespace", "faults")),
]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("device", [pytest.param([], id="tests"), pytest.param(SERVED, id="library")])
@pytest.mark.parametrize("name", ["queue", "device"])
def test_every_command_ends_once_whatever_the_device_does(tmp_path, name, device):
    program = tmp_path / name
    folders = ["-I", str(ROOT / "include"), "-I", str(ROOT / "native")]
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", *folders, *device]
    subprocess.run(["g++", *flags, str(ROOT / f"tests/storage/{name}.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=320)
    assert done.returncode == 0, done.stdout
