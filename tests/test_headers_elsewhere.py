"""Other people's projects use the headers: the examples of CMake projects are built against what is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hinterland as hl

ROOT = Path(__file__).resolve().parent.parent
CMAKE, NINJA = (Path(sys.executable).parent / program for program in ("cmake", "ninja"))

pytestmark = pytest.mark.skipif(
    not (CMAKE.exists() and NINJA.exists() and (ROOT / "examples").is_dir()) or shutil.which("g++") is None,
    reason="needs CMake, g++ and the examples",
)


NVCC = os.environ.get("CUDACXX") or shutil.which("nvcc")


def build(example: str, folder: Path, *options: str) -> None:
    configure = [CMAKE, "-S", ROOT / "examples" / example, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}"]
    options = (f"-Dhinterland_DIR={hl.get_cmake_dir()}", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON", *options)
    for command in ([*configure, *options], [CMAKE, "--build", folder]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_project_of_cpp(tmp_path):
    build("cpp", tmp_path, "-DCMAKE_CXX_FLAGS=-Wall -Wextra")
    done = subprocess.run([tmp_path / "rows"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "row 7 begins with 28, in fast memory",
        "row 8 begins with 32, in slow memory",
        "row 500 begins with 2000, in fast memory",
    ]


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
def test_a_project_of_cuda(tmp_path):
    build("cuda", tmp_path, f"-DCMAKE_CUDA_COMPILER={NVCC}", "-DCMAKE_CUDA_FLAGS=-Xcompiler=-Wall")
    assert (tmp_path / "random_reads").exists()


def test_a_version_that_is_not_installed_is_refused(tmp_path):
    text = "cmake_minimum_required(VERSION 3.24)\nproject(p LANGUAGES CXX)\nfind_package(hinterland 9.0 REQUIRED)\n"
    (tmp_path / "CMakeLists.txt").write_text(text)
    command = [CMAKE, "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={NINJA}"]
    done = subprocess.run([*command, f"-Dhinterland_DIR={hl.get_cmake_dir()}"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and f"version: {hl.__version__}" in done.stderr
