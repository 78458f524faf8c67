"""Programs in C++ that tests compile and run. How many cases each tries says rounds.hpp."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
NATIVE = [f"-I{ROOT}/include", f"-I{ROOT}/native", f"-I{ROOT}/papers"]
DEVICES = [f"papers/hinterland_papers/bam/{name}.cpp" for name in ("memory_namespace", "faults")]  # behind a controller
# Several programs are made of the same sources, which ccache compiles once.
COMPILER = ["ccache", "g++"] if shutil.which("ccache") else ["g++"]

# What ThreadSanitizer runs for every change, from the same source (tools/sanitized_tests.sh thread).
tried_by_threads = pytest.mark.nightly
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def environment(**more: str) -> dict[str, str]:
    """Without a sanitizer's runtime, which is meant for Python."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"} | more


def compiled(folder: Path, *sources: Path | str, flags: list[str], libraries: tuple[str, ...] = ()) -> Path:
    """A program in ``folder`` of these sources, which are paths from the repository's root; it has the first one's name."""
    program = folder / Path(sources[0]).stem
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", *flags]
    objects = [folder / f"{i}.o" for i in range(len(sources))]  # some have the same name
    for source, target in zip(sources, objects, strict=True):
        subprocess.run([*COMPILER, *flags, "-c", ROOT / source, "-o", target], env=environment(), check=True)
    subprocess.run(["g++", *flags, *objects, "-o", program, *libraries], env=environment(), check=True)
    return program


def as_one(folder: Path, *sources: str) -> Path:
    """A source in ``folder`` that includes these, for programs that share few with others: a third to a half of the time."""
    whole = folder / Path(sources[0]).name
    whole.write_text("".join(f'#include "{ROOT / source}"\n' for source in sources))
    return whole


def run(program: Path, *arguments: object, **more: str) -> str:
    """What it says; ``more`` is added to its environment."""
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, env=environment(**more), capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout
    return done.stdout
