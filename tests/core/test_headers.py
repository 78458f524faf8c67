"""Every public header compiles alone, for the CPU and for the GPU: users include them one by one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from hinterland.runtime import jit

HEADERS = sorted(path.relative_to(jit.INCLUDE_DIR).as_posix() for path in jit.INCLUDE_DIR.rglob("*.hpp"))


def test_there_are_headers():
    assert "hinterland/core/philox.hpp" in HEADERS


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_on_the_cpu(header):
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fopenmp", "-fsyntax-only", "-x", "c++", "-"]
    text = f'#include "{header}"\n#include "{header}"\n'
    done = subprocess.run(["g++", *flags, "-I", str(jit.INCLUDE_DIR)], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_on_the_gpu(header, tmp_path, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    (tmp_path / "alone.cu").write_text(f'#include "{header}"\n__global__ void nothing() {{}}\n')
    monkeypatch.setattr(jit, "PACKAGE", tmp_path)
    monkeypatch.setattr(jit, "REGISTRY", {})
    jit.KernelFile("alone.cu", ("nothing",)).build("sm_90", tmp_path / "cache")
