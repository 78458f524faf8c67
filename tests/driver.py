"""Programs that run in a process of their own on the driver of runtime/driver.cpp, which stands for CUDA's."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def through_driver(program, folder):
    """What a program prints that gets the driver as its argument."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    driver, source = folder / "libcuda.so.1", Path(__file__).parent / "runtime/driver.cpp"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["g++", *flags, source, "-o", driver], check=True)
    done = subprocess.run([sys.executable, program, driver], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
