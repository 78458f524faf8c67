"""What tests of storage share."""

from __future__ import annotations

import gc
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of a mebibyte."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path], capture_output=True).returncode != 0:
        pytest.skip("this user may not mount a file system")
    yield tmp_path
    gc.collect()
    subprocess.run(["umount", "-l", tmp_path], check=True)
