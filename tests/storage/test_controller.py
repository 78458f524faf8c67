"""The controller in software, with memory, files and several of them behind it, and the store's files, as programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTROLLER = ["request", "serving", "controller", "memory_namespace", "faults"]
FILES = [*CONTROLLER, "file_namespace", "file_backend"]
TRANSFERS = ["transfers", "uring", "pread_pool"]
STORE = ["store", "expected", "volume", "host_pages", "file", "routed_transfers"]
URING = ["-DHINTERLAND_URING=1"] if Path("/usr/include/liburing.h").exists() else []


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
@pytest.mark.parametrize(
    ("name", "sources", "more"),
    [
        pytest.param("serving", CONTROLLER, [], id="memory"),
        pytest.param("serving", CONTROLLER, ["-DSTAGES=true"], id="stages"),
        pytest.param("spread", [*CONTROLLER, "spread_namespace"], [], id="spread"),
        pytest.param("copies", STORE, ["-fopenmp"], id="copies"),
        pytest.param("file_serving", FILES, ["-DPLAIN=true"], id="plain"),
        pytest.param("file_serving", FILES + TRANSFERS, [], id="threads"),
        pytest.param(
            "file_serving", FILES + TRANSFERS, URING, id="uring", marks=pytest.mark.skipif(not URING, reason="no liburing")
        ),
    ],
)
def test_commands_do_what_they_say_or_say_why_not(tmp_path, name, sources, more):
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
    files = [str(ROOT / f"tests/storage/{name}.cpp"), *(str(ROOT / f"native/storage/{source}.cpp") for source in sources)]
    libraries = ["-luring"] if "-DHINTERLAND_URING=1" in more else []
    subprocess.run(["g++", *flags, *more, *files, "-o", str(program), *libraries], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=320)
    assert done.returncode == 0, done.stdout
