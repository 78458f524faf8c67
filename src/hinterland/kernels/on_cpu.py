"""A user's kernel, compiled for the CPU by its own compiler (include/hinterland/kernels/on_cpu.hpp)."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from .. import _core
from ..runtime import jit
from ..runtime.errors import ConfigError, DeviceError
from ..runtime.params import Params
from ..runtime.progress import notice
from .signature import Signature

_FLAGS = (
    *("-std=c++20", "-O3", "-march=native", "-fPIC", "-shared", "-ftls-model=initial-exec", "-w", "-x", "c++"),
    *("-fno-math-errno", "-fno-trapping-math"),  # no result changes by these; loops with roots and choices become vectors
)
_AS_WRITTEN = "#pragma STDC FP_CONTRACT OFF"  # g++, which knows no such pragma, is asked by a flag
_TOGETHER = (
    "__shared__",
    "__syncthreads",
    "__syncwarp",
    "__shfl",
    "__ballot",
    "__any_sync",
    "__all_sync",
    "cooperative_groups",
)


def run(signature: Signature, text: str, grid: int, block: int, params: Params) -> None:
    """Runs a kernel on all of the CPU's threads, which OpenMP counts.

    Args:
        signature: of the kernel.
        text: that has it, with all that it includes.
        grid, block: as of a launch.
        params: its parameters.

    Raises:
        ConfigError: it does not compile, or has threads wait for each other.
        DeviceError: there is no compiler.
    """
    _core.run_blocks(_compiled(signature, text), params.address, grid, block)


@functools.cache
def _compiled(signature: Signature, text: str) -> int:
    """The address of the function that runs some of its blocks."""
    wait = [word for word in _TOGETHER if word in text]
    if wait:
        raise ConfigError(
            f"{signature.name} has {wait[0]}: on the CPU the threads of a block run one after the other, and none waits for "
            "another; run it on a GPU, or write it without"
        )
    source = "\n".join((text, _entry(signature)))
    command = _compiler()
    digest = hashlib.sha256()
    flags = (*_FLAGS, "-ffp-contract=off") if _AS_WRITTEN in text else _FLAGS
    for part in (source, *jit.headers(source), *flags, _version(command), _processor()):
        digest.update(part.encode() + b"\0")
    entry = jit.cache_dir() / f"{signature.name}-cpu-{digest.hexdigest()[:32]}.so"
    jit.keep(entry, lambda: ({}, _compile(signature, source, (*command, *flags)), ""))
    _, library = jit.code_of(entry)
    # Loaded from memory: what was read, and checked, is what runs, whatever becomes of the file. It stays open: the loader
    # takes a name that it has met, as that of a descriptor which is used again, for the same library.
    handle = os.memfd_create(entry.name)
    with open(handle, "wb", closefd=False) as file:
        file.write(library)
    loaded = ctypes.CDLL(f"/proc/self/fd/{handle}")
    return ctypes.cast(loaded.hinterland_blocks, ctypes.c_void_p).value or 0


def _entry(signature: Signature) -> str:
    fields = " ".join(f"{one.text} {one.name};" for one in signature.parameters)
    passed = ", ".join(f"arguments.{one.name}" for one in signature.parameters)
    return f"""
#line 1 "the arguments of {signature.name}"
namespace {{
struct hinterland_arguments {{ {fields} }};
}}
extern "C" void hinterland_blocks(const void* packed, unsigned first, unsigned last, unsigned grid, unsigned block) {{
  const auto& arguments = *static_cast<const hinterland_arguments*>(packed);
  gridDim.x = grid;
  blockDim.x = block;
  for (unsigned i = first; i < last; ++i) {{
    blockIdx.x = i;
    for (unsigned thread = 0; thread < block; ++thread) {{
      threadIdx.x = thread;
      {signature.name}({passed});
    }}
  }}
}}
"""


def _compiler() -> tuple[str, ...]:
    command = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    found = shutil.which(command[0]) or (shutil.which("g++") if "CXX" not in os.environ else None)
    if found is None:
        raise DeviceError(
            f"kernels of your own run on a GPU, or on a CPU by a C++ compiler, and there is no {command[0]}; install g++ "
            "(apt install g++, dnf install gcc-c++), or name one in CXX="
        )
    return (found, *command[1:])


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout


@functools.cache
def _processor() -> str:
    """What -march=native depends on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _compile(signature: Signature, source: str, command: tuple[str, ...]) -> bytes:
    notice(f"hinterland: compiling {signature.name} for this CPU (once; kept in {jit.cache_dir()})")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.so"
        arguments = [*command, f"-I{jit.INCLUDE_DIR}", "-o", str(made), "-"]
        done = subprocess.run(arguments, input=source, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ConfigError(f"{signature.name} does not compile for this CPU:\n{done.stderr.strip()}")
        return made.read_bytes()
