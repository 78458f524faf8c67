"""Public headers compile alone and all together, for the CPU and for the GPU: users include them one by one, and several."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from hinterland.runtime import jit

HEADERS = sorted(path.relative_to(jit.INCLUDE_DIR).as_posix() for path in jit.INCLUDE_DIR.rglob("*.hpp"))


def begun_with(folder, headers, sources=()):
    """Those that another or a source begins with: it does not compile unless they do alone."""
    files = [folder / file for file in (*headers, *sources)]
    first = {re.search(r"^(?!//|#pragma once|$).*$", file.read_text(), re.MULTILINE)[0] for file in files}
    return {header for header in headers if f'#include "{header}"' in first}


# Where one of these does not compile alone, the one that begins with it says so.
LAST = sorted(set(HEADERS) - begun_with(jit.INCLUDE_DIR, HEADERS))


def test_there_are_headers():
    assert "hinterland/core/philox.hpp" in HEADERS


ALL = "".join(f'#include "{header}"\n' for header in HEADERS)


def check_on_the_cpu(text, compiler="g++"):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    # clang++ takes OpenMP's pragmas only with a library of its own, which these headers do not use.
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-", "-I", str(jit.INCLUDE_DIR)]
    done = subprocess.run([compiler, *flags], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def check_on_the_gpu(text, folder, monkeypatch):
    pytest.importorskip("cuda.bindings.nvrtc")
    (folder / "alone.cu").write_text(text + "__global__ void nothing() {}\n")
    monkeypatch.setattr(jit, "PACKAGE", folder)
    monkeypatch.setattr(jit, "REGISTRY", {})
    jit.KernelFile("alone.cu", ("nothing",)).build("sm_90", folder / "cache")


@pytest.mark.nightly  # NVRTC finds what a header of ours forgets to include, for every change
@pytest.mark.parametrize("header", LAST)
def test_header_compiles_alone_on_the_cpu(header):
    check_on_the_cpu(f'#include "{header}"\n' * 2)


@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_alone_on_the_gpu(header, tmp_path, monkeypatch):
    check_on_the_gpu(f'#include "{header}"\n', tmp_path, monkeypatch)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_all_headers_compile_together_on_the_cpu(compiler):
    check_on_the_cpu(ALL, compiler)


def test_all_headers_compile_together_on_the_gpu(tmp_path, monkeypatch):
    check_on_the_gpu(ALL, tmp_path, monkeypatch)


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_has_the_namespace_of_its_capability(header):
    """core is what all capabilities are written in, and has none of its own."""
    capability = header.split("/")[1]
    opened = set(re.findall(r"^namespace ([\w:]+) \{", (jit.INCLUDE_DIR / header).read_text(), re.MULTILINE))
    if capability == "core":
        assert opened and opened <= {"hinterland", "hinterland::stdlib"}
    else:
        assert opened == {f"hinterland::{capability}"}
