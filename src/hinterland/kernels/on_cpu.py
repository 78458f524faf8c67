"""A user's kernel, compiled for the CPU by its own compiler (include/hinterland/kernels/on_cpu.hpp)."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .. import _core
from ..runtime import jit
from ..runtime.errors import ConfigError, DeviceError
from ..runtime.files import opening
from ..runtime.progress import notice
from .signature import Signature
from .source import Text

_FLAGS = (
    *("-std=c++20", "-O3", "-march=native", "-fPIC", "-shared", "-ftls-model=initial-exec", "-w", "-x", "c++"),
    "-DHINTERLAND_STORED_CALLS",  # what reads and writes files is in the native module, compiled
    *("-fno-math-errno", "-fno-trapping-math"),  # no result changes by these; loops with roots and choices become vectors
)
_VARIABLES = "CCC_OVERRIDE_OPTIONS COMPILER_PATH CPATH CPLUS_INCLUDE_PATH C_INCLUDE_PATH GCC_EXEC_PREFIX LIBRARY_PATH".split()
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


def compiled(given: Text) -> int:
    """The address of the function that runs some blocks of a kernel, for ``_core.run_blocks``.

    It is kept under the hash of all that decides its content: every line that the preprocessor reads, wherever it found it,
    the compiler and its flags, and the processor.

    Raises:
        ConfigError: it does not compile, or has threads wait for each other.
        DeviceError: there is no compiler.
        StorageError: the system refuses a file or a process.
    """
    name = given.signature.name
    wait = [word for word in _TOGETHER if word in given.text]
    if wait:
        raise ConfigError(
            f"{name} has {wait[0]}: on the CPU the threads of a block run one after the other, and none waits for "
            "another; run it on a GPU, or write it without"
        )
    with opening(f"the kernel {name}", "compiled or loaded"):
        return _loaded(_kept(given))


def _kept(given: Text) -> Path:
    """The entry in the cache of kernels, which is there now."""
    name = given.signature.name
    source = given.source() + _entry(given.signature)
    command = _compiler()
    compiler = (*command, *_FLAGS, f"-I{jit.INCLUDE_DIR}")
    plain = _is_plain(command)
    told = _told_once(compiler) if plain else _told(compiler)
    if plain and not any(word in jit.spliced(given.text) for word in ("include", "import", "embed")):
        read = _read_once(given.opening, compiler)
    else:
        read = _read(name, source, compiler, told)
    digest = hashlib.sha256()
    for part in (source, read, *compiler, told, _processor(), *_more(command)):
        digest.update(part.encode() + b"\0")
    entry = jit.cache_dir() / f"{name}-cpu-{digest.hexdigest()[:32]}.so"
    jit.keep(entry, lambda: ({}, _compile(name, source, compiler), ""))
    return entry


@functools.cache
def _loaded(entry: Path) -> int:
    """The address in an entry, which is loaded from memory: what was read, and checked, is what runs, whatever becomes of the
    file. It stays open: the loader takes a name that it has met, as that of a descriptor which is used again, for the same
    library."""
    _, library = jit.code_of(entry)
    handle = os.memfd_create(entry.name)
    with open(handle, "wb", closefd=False) as file:
        file.write(library)
    try:
        loaded = ctypes.CDLL(f"/proc/self/fd/{handle}")
    except OSError:
        os.close(handle)
        raise
    ctypes.c_void_p.in_dll(loaded, "hinterland_stored_calls").value = _core.stored_calls()
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


def _is_plain(command: tuple[str, ...]) -> bool:
    """Whether it is a compiler itself, by its defaults: no flag, variable, script or cache has it do something else."""
    real = Path(command[0]).resolve()
    if len(command) > 1 or any(map(os.environ.get, _VARIABLES)) or not re.search(r"[cg]\+\+|clang", real.name):
        return False
    with suppress(PermissionError), real.open("rb") as file:
        return file.read(4) == b"\x7fELF"
    return False


def _told(compiler: tuple[str, ...]) -> str:
    """What a compiler says that it would do: its version and all flags, also those that a script around it adds."""
    said = subprocess.run(
        [*compiler, "-S", "-o", "-", "-###", "-"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    # But for the current folder, which clang names for debuggers, and files of g++'s own, where it was given one by @.
    return re.sub(r'-compilation-dir(=|" ")[^"]*|@\S*/cc\w{6}\b', "", said.stdout.decode(errors="replace"))


_told_once = functools.cache(_told)


@functools.cache
def _processor() -> str:
    """What -march=native depends on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _more(command: tuple[str, ...]) -> Iterator[str]:
    """What else compilers go by: variables, and files that flags name, as @flags does."""
    for name in _VARIABLES:
        yield f"{name}={os.environ.get(name)}"
    for word in command[1:]:
        named = Path(word.rpartition("=")[2].lstrip("@"))
        if named.is_file():
            yield hashlib.sha256(named.read_bytes()).hexdigest()


def _read(name: str, source: str, compiler: tuple[str, ...], told: str) -> str:
    """A hash of what the preprocessor makes of a text, which has every line of every file that it reads."""
    quick = ("-fdirectives-only",) if "\ngcc version" in told else ()  # a third of the time
    return hashlib.sha256(_asked(name, source, (*compiler, "-E", *quick, "-"))).hexdigest()


@functools.lru_cache(maxsize=16)
def _read_once(opening: str, compiler: tuple[str, ...]) -> str:
    """:func:`_read`, by a plain compiler, of lines that many texts begin with, which include files of ours and of its own. It
    is kept until one of these files is another, since the preprocessor takes longer than all else of a compiled kernel."""
    told = _told_once(compiler)

    def look() -> tuple[dict[str, str], bytes, str]:
        with tempfile.TemporaryDirectory() as folder:
            listed = Path(folder) / "files"
            read = _read("a kernel", opening, (*compiler, "-MD", "-MF", str(listed)), told)
            _, *files = shlex.split(listed.read_text())
        states = {name: _state(name) for name in files if name.strip("-\n")}
        return states, read.encode(), ""

    about = hashlib.sha256("\0".join((opening, *compiler, told)).encode())
    entry = jit.cache_dir() / f"headers-cpu-{about.hexdigest()[:32]}"
    jit.keep(entry, look, lambda states: all(_state(name) == state for name, state in states.items()))
    return jit.code_of(entry)[1].decode()


def _state(name: str) -> str:
    """What tells a file from what it was: nobody sets the time of a change."""
    try:
        found = os.stat(name)
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _compile(name: str, source: str, compiler: tuple[str, ...]) -> bytes:
    notice(f"hinterland: compiling {name} for this CPU (once; kept in {jit.cache_dir()})")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.so"
        _asked(name, source, (*compiler, "-o", str(made), "-"))
        return made.read_bytes()


def _asked(name: str, source: str, command: tuple[str, ...]) -> bytes:
    """What a compiler writes of a text.

    Raises:
        ConfigError: it refuses.
    """
    done = subprocess.run(command, input=source.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise ConfigError(f"{name} does not compile for this CPU:\n{done.stderr.decode(errors='replace').strip()}")
    return done.stdout
