"""What the compiler made of a kernel: the registers and memory that it takes, and its text in PTX and SASS. Needs no GPU."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import jit
from .errors import DeviceError
from .files import replacing, writing

_INSTRUCTION_BYTES = 16  # since compute capability 7.0
# What ptxas says of a function; the registers of kernels only.
_FUNCTION = re.compile(
    r"Function properties for (?P<symbol>\S+)\n"
    r".*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r"(?:\n.*Used (?P<registers>\d+) registers(?P<more>.*))?"
)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes, as ptxas said when it was compiled.

    Attributes:
        kernel: its name, without namespaces.
        registers: of a thread.
        stack_bytes: of a thread's local memory: spilled registers and arrays, also of the functions that it calls.
        spill_store_bytes, spill_load_bytes: what the instructions that spill registers store and load, each counted once.
            Those of functions that were compiled with the kernel and not inlined are counted too.
        shared_bytes: of a block's static shared memory; what a launch adds is not known here.
        instructions: of its code, with those that fill the last cache line and without functions that were not inlined.
    """

    kernel: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    instructions: int


def short_name(instance: str) -> str:
    """A kernel's C++ name without namespaces; they are in lower case, and types are not."""
    return re.sub(r"\b(?:[a-z_]\w*::)+", "", instance)


def resources(entry: Path) -> list[Resources]:
    """What each kernel of a cache entry takes.

    Raises:
        DeviceError: the entry is not whole, or does not say.
    """
    symbols, cubin, said = jit.read_entry(entry) or ({}, b"", "")
    functions = list(_FUNCTION.finditer(said))
    kernels = {found["symbol"]: found for found in functions if found["registers"]}
    if not symbols or not kernels.keys() >= set(symbols.values()):
        raise DeviceError(f"{entry} does not say what its kernels take; delete it and try again")
    called = [found for found in functions if not found["registers"]]
    code = _code_bytes(cubin)
    return [
        Resources(
            short_name(instance),
            registers=int(kernels[symbol]["registers"]),
            stack_bytes=max(int(kernels[symbol]["stack"]), _bytes("cumulative stack size", kernels[symbol])),
            spill_store_bytes=sum(int(found["stores"]) for found in (kernels[symbol], *called)),
            spill_load_bytes=sum(int(found["loads"]) for found in (kernels[symbol], *called)),
            shared_bytes=_bytes("smem", kernels[symbol]),
            instructions=code[symbol] // _INSTRUCTION_BYTES,
        )
        for instance, symbol in symbols.items()
    ]


def _bytes(what: str, function: re.Match[str]) -> int:
    found = re.search(rf"(\d+) bytes {what}", function["more"])
    return int(found[1]) if found else 0


def _code_bytes(cubin: bytes) -> dict[str, int]:
    """The bytes of each kernel's code: a cubin is a 64-bit ELF file, with a section ``.text.SYMBOL`` for each."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    header_bytes, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<I4xQQQQ", cubin, table + at * header_bytes) for at in range(count)]
    found = {}
    for name, _, _, _, size in sections:
        start = sections[names][3] + name
        found[cubin[start : cubin.index(b"\0", start)].decode()] = size
    return {name.removeprefix(".text."): size for name, size in found.items() if name.startswith(".text.")}


def disassembler() -> str | None:
    """nvdisasm on the PATH, in its wheel (``nvidia-cuda-nvdisasm``) or in a CUDA toolkit; None where there is none."""
    from cuda.pathfinder import find_nvidia_binary_utility

    return shutil.which("nvdisasm") or find_nvidia_binary_utility("nvdisasm")


def dump(archs: Iterable[str], folder: Path, only: Iterable[str] = ()) -> Iterator[Path]:
    """Writes the PTX of kernels, and their SASS where there is a disassembler, in a file each.

    What ``graph/cc.cu`` becomes for sm_90 lies in ``sm_90/graph/cc/KERNEL.ptx`` and ``KERNEL.sass`` beside it.

    Args:
        archs, only: as for :func:`.jit.chosen`.
        folder: is made where it is not there.

    Yields:
        The files.
    """
    tool = disassembler()

    def write(item: tuple[jit.KernelFile, str, tuple[str, ...]]) -> list[Path]:
        file, arch, unit = item
        program, code, _ = jit.translate(file, arch, unit)
        texts = {"ptx": (_PTX_KERNEL, _ptx(program))}
        if tool:
            texts["sass"] = (_SASS_KERNEL, _sass(tool, bytes(code.code)))
        place = folder / arch / Path(file.path).with_suffix("")
        written = []
        for instance, symbol in code.symbol_mapping.items():
            name = re.sub(r"\W+", "-", short_name(str(instance))).strip("-")
            for ending, (kernel, text) in texts.items():
                written.append(_written(place / f"{name}.{ending}", _own(symbol.decode(), kernel, text)))
        return written

    work = [(file, arch, unit) for file, arch in jit.chosen(archs, only) for unit in file.units()]
    for files in jit.on_all_cores(write, work):
        yield from files


# A kernel in the text of a module, which may have others.
_PTX_KERNEL = re.compile(r"^\t// \.globl\t\w+\n|^[.\w ]*\.entry (\w+)\(.*?^\}\n", re.DOTALL | re.MULTILINE)
_SASS_KERNEL = re.compile(r"^//-+ \.text\.(\S+) .*?(?=^//-+ \.|\Z)", re.DOTALL | re.MULTILINE)


def _own(symbol: str, kernel: re.Pattern[str], text: str) -> str:
    """The text of a module without its other kernels."""
    return kernel.sub(lambda found: found[0] if found[1] == symbol else "", text)


def _ptx(program: Any) -> str:
    """What NVRTC passed to ptxas. cuda-core gives PTX out only where there is a driver."""
    from cuda.bindings import nvrtc

    _, size = nvrtc.nvrtcGetPTXSize(program.handle)
    text = bytearray(size)
    nvrtc.nvrtcGetPTX(program.handle, text)
    return text.rstrip(b"\0").decode()


def _sass(tool: str, cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "--print-code", file.name], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise DeviceError(f"{tool} could not disassemble a kernel; a newer one may: {done.stderr}")
    return done.stdout


def _written(path: Path, text: str) -> Path:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as output:
        output.write(text.encode())
    return path
