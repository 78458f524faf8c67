"""Kernels: compiled for the GPU at hand on first use, by NVRTC, and kept on disk.

A kernel file (``memory/gather.cu``) is a thin shell around headers in ``include/``. Its cubin is kept under the hash of all
that decides its content: source, headers, instances, flags, architecture and compiler. An entry appears under its name whole
or not at all (written aside, synced, renamed); a lock file, which the system frees when a process dies, lets one process
compile while others wait. Compiling needs no GPU: ``hinterland kernels build`` runs the same code.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import io
import json
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import torch

from . import devices
from .errors import ConfigError, DeviceError, HinterlandError, StorageError
from .files import NONE_LEFT, opening, refused, replacing
from .include import INCLUDE_DIR, PACKAGE
from .progress import notice
from .trust import is_ours

T = TypeVar("T")
# -v changes no instruction: ptxas then says what a kernel takes, which an entry keeps for `kernels build --report`.
_FLAGS = {"std": "c++20", "device_as_default_execution_space": True, "ptxas_options": "-v"}
_MAGIC = b"HLKERN2\n"
_OTHER_FOLDER = "another folder by HINTERLAND_CACHE_DIR, or by --output of hinterland kernels build"
# What a text includes, or asks for; and what only a preprocessor could tell, a name that comes from a macro.
_NAMED = re.compile(r'\b(?:__has_)?include(?:_next)?\s*\(?\s*(["<])([^"<>\n]+)[">]')
_COMPUTED = re.compile(r'(?:^\s*(?:#|%:)\s*include(?:_next)?\b|\b__has_include(?:_next)?\s*\()\s*(?!["<\s])(.*)', re.MULTILINE)

REGISTRY: dict[str, KernelFile] = {}


def cache_dir() -> Path:
    """Where compiled kernels are kept: ``$HINTERLAND_CACHE_DIR`` or ``~/.cache/hinterland``, then ``kernels``."""
    root = os.environ.get("HINTERLAND_CACHE_DIR")
    if root:
        return Path(root) / "kernels"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hinterland" / "kernels"


@dataclass(frozen=True, eq=False)  # compared by identity: it is looked up at every launch
class KernelSource(ABC):
    """Text with kernels, and their instances.

    Args:
        path: what sentences call it.
        instances: the C++ names of the kernels.
        separate_module: compile each instance on its own, where one takes seconds and a process launches few of them.
    """

    path: str
    instances: tuple[str, ...]
    separate_module: bool = False
    reads_here = True  # whether what is between quotes is looked for in the current folder first

    @property
    def flags(self) -> dict[str, Any]:
        """The compiler's, as cuda-core's ``ProgramOptions`` takes them."""
        return _FLAGS

    @property
    def include(self) -> tuple[Path, ...]:
        """The folders in which headers are looked for, one after the other."""
        return (INCLUDE_DIR,)

    @abstractmethod
    def source(self) -> str:
        """The text that NVRTC compiles. At its end the names of instances are looked up."""

    def refused(self, arch: str, reason: str) -> HinterlandError:
        """What is raised where it cannot be compiled."""
        return DeviceError(f"NVRTC ({_toolchain()}) could not compile {self.path} for {arch}:\n{reason}")

    def kernel(self, instance: str, device: torch.device) -> Any:
        """The cuda-core kernel of one instance, compiled for ``device`` if it is not in the cache yet."""
        return _kernel(self, instance, devices.arch(device))

    def units(self) -> list[tuple[str, ...]]:
        """The instances, by what is compiled together."""
        return [(instance,) for instance in self.instances] if self.separate_module else [self.instances]

    def key(self, arch: str, unit: tuple[str, ...] | None = None) -> str:
        """The name of a unit's cubin in the cache: a hash of everything that decides its content."""
        text = self.source()
        digest = hashlib.sha256()
        read = headers(text, self.reads_here, self.include)
        for part in (text, *read, *(unit or self.instances), repr(self.flags), arch, _toolchain()):
            digest.update(part.encode() + b"\0")
        return digest.hexdigest()[:32]

    def build(self, arch: str, folder: Path, unit: tuple[str, ...] | None = None, announced: bool = False) -> Path:
        """The cache entry for ``arch`` in ``folder``, compiled now unless a whole one is there.

        ``unit``: one of :meth:`units`; None where all instances are one. ``announced``: someone waits for it, and is told.
        """
        unit = unit or self.instances
        with opening(self.path, "read"):
            key = self.key(arch, unit)
        entry = folder / f"{Path(self.path).stem}-{arch}-{key}.cubin"

        def made() -> tuple[dict[str, str], bytes, str]:
            if announced:
                notice(f"hinterland: compiling {self.path} for {arch} (once; kept in {folder})")
            return _compile(self, arch, unit)

        keep(entry, made)
        return entry


@dataclass(frozen=True, eq=False)
class KernelFile(KernelSource):
    """One ``.cu`` file of this package, or of one that stands on it, and the instances of its kernels.

    Creating one registers it, so that ``hinterland kernels build`` knows every kernel.

    Args:
        path: the file, from the package's folder, or from ``beside``.
        instances: as from within the namespace of the file's folder: those that are compiled ahead. Others (kernels that count
            what they read) are compiled when they are first launched, if ``separate_module``.
        beside: the folder of another package's ``.cu`` files and of its headers, which may include this package's.
    """

    beside: Path | None = None
    reads_here = False

    @property
    def include(self) -> tuple[Path, ...]:
        return super().include if self.beside is None else (*super().include, self.beside)

    def __post_init__(self) -> None:
        REGISTRY[self.path] = self

    def source(self) -> str:
        """Instances are known by their capability's short names."""
        text, capability = ((self.beside or PACKAGE) / self.path).read_text(), Path(self.path).parent.name
        return text + f"\nusing namespace hinterland;\nusing namespace hinterland::{capability};\n" if capability else text


def keep(
    entry: Path,
    make: Callable[[], tuple[dict[str, str], bytes, str]],
    holds: Callable[[dict[str, str]], bool] = lambda symbols: True,
) -> None:
    """Has a cache entry on disk: what ``make`` gives (symbols, code, what the compiler said), unless a whole one is there whose
    symbols hold."""

    def is_there() -> bool:
        loaded = _load(entry)
        return loaded is not None and holds(loaded[0])

    _check_folder(entry.parent)
    if not is_there():
        with _lock(entry):
            if not is_there():  # the process that held the lock may have built it
                _store(entry, *make())


def code_of(entry: Path) -> tuple[dict[str, str], bytes]:
    """The symbols and the code of an entry that :func:`keep` has seen to."""
    loaded = _load(entry)
    if loaded is None:
        raise DeviceError(f"the compiled kernel {entry} was damaged as it was written; delete it and try again")
    return loaded


@functools.cache
def _kernel(file: KernelSource, instance: str, arch: str) -> Any:
    unit = (instance,) if file.separate_module else file.instances
    return _module(file, arch, unit).get_kernel(instance)


_module_lock = threading.Lock()


def _module(file: KernelSource, arch: str, unit: tuple[str, ...]) -> Any:
    with _module_lock:
        return _loaded_module(file, arch, unit)


@functools.cache
def _loaded_module(file: KernelSource, arch: str, unit: tuple[str, ...]) -> Any:
    symbols, cubin = code_of(file.build(arch, cache_dir(), unit, announced=True))
    return devices.cuda_core().ObjectCode.from_cubin(
        cubin, symbol_mapping={name: symbol.encode() for name, symbol in symbols.items()}
    )


def spliced(text: str) -> str:
    """A text in which no word is divided over lines: compilers take a line that ends in ``\\``, and blanks, with the next."""
    return re.sub(r"\\[ \t\v\f\r]*\n", "", text)


def headers(text: str, reads_here: bool, include: tuple[Path, ...]) -> Iterator[str]:
    """Every file that NVRTC could read for a text, at any depth, once each and in a fixed order; and for each name that it
    could find and that is not there, that it is not.

    Raises:
        ConfigError: a file is named by a macro.
    """
    ours = [str(folder) for folder in include]
    seen: set[str] = set()
    todo = [("" if reads_here else ours[0], text)]
    while todo:
        folder, text = todo.pop(0)
        lines = "\n".join(line for line in spliced(text).split("\n") if "include" in line)
        if computed := _COMPUTED.search(lines):
            raise ConfigError(
                f"{computed[0].strip()}: what is compiled for a GPU is kept by the files that it includes, and a macro names "
                "this one; write its name, between quotes"
            )
        for mark, name in _NAMED.findall(lines):
            for where in (folder, *ours) if mark == '"' else ours:
                place = os.path.join(where, name)
                if place not in seen:
                    seen.add(place)
                    content = _text_of(place)
                    yield f"{mark}{name}\n{content}"
                    if content is not None:
                        todo.append((os.path.dirname(place), content))


def _text_of(place: str) -> str | None:
    """None where there is no such file."""
    try:
        with open(place, errors="replace") as file:
            return file.read()
    except OSError as error:
        if error.errno in NONE_LEFT:
            raise refused(place, "read", error) from error
        return None


@functools.cache
def _toolchain() -> str:
    """NVRTC and its version. It needs no headers but ours."""
    try:
        devices.cuda_core()
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise DeviceError("compiling kernels needs cuda-core: pip install 'hinterland[cuda]'") from error
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as error:  # the library is not there, or is another one's
        reason = str(error).splitlines()[0]
        raise DeviceError(f"compiling kernels needs NVRTC ({reason}): pip install 'hinterland[cuda]'") from error
    try:
        patch = metadata.version("nvidia-cuda-nvrtc")  # which the library itself does not tell
    except metadata.PackageNotFoundError:
        patch = "of a toolkit"
    return f"nvrtc {major}.{minor} ({patch}) cuda-core {metadata.version('cuda-core')}"


def translate(file: KernelSource, arch: str, unit: tuple[str, ...], target: str = "cubin") -> tuple[Any, Any, str]:
    """Compiles a unit: cuda-core's program, its object code, for a GPU unless ``target`` says otherwise, and what the compiler
    said."""
    _toolchain()  # or a sentence on what is missing
    core = devices.cuda_core()
    include = [str(folder) for folder in file.include]
    options = core.ProgramOptions(arch=arch, include_path=include, no_source_include=not file.reads_here, **file.flags)
    said = io.StringIO()
    try:
        program = core.Program(file.source(), "c++", options)
        code = program.compile(target, name_expressions=unit, logs=said)
    except Exception as error:
        raise file.refused(arch, str(error)) from error
    return program, code, said.getvalue()


def _compile(file: KernelSource, arch: str, unit: tuple[str, ...]) -> tuple[dict[str, str], bytes, str]:
    _, code, said = translate(file, arch, unit)
    mapping = {str(name): symbol.decode() for name, symbol in code.symbol_mapping.items()}
    return mapping, bytes(code.code), said


def _load(entry: Path) -> tuple[dict[str, str], bytes] | None:
    """The symbols and the cubin of a cache entry; None where there is none, it is damaged, or others could have written it."""
    whole = read_entry(entry)
    return whole and whole[:2]


def read_entry(entry: Path) -> tuple[dict[str, str], bytes, str] | None:
    """The symbols, the cubin and what the compiler said of a cache entry; None where :func:`_load` finds none."""
    try:
        with open(entry, "rb") as file:
            if not is_ours(os.fstat(file.fileno())):
                return None
            blob = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(entry.parent, "read", error) from error
    head, _, payload = blob.removeprefix(_MAGIC).partition(b"\n")
    if not blob.startswith(_MAGIC) or hashlib.sha256(payload).hexdigest().encode() != head:
        return None
    about, _, cubin = payload.partition(b"\n")
    try:
        symbols, said = json.loads(about)
        return symbols, cubin, said
    except (ValueError, RecursionError):
        return None


def _store(entry: Path, symbols: dict[str, str], cubin: bytes, said: str = "") -> None:
    payload = json.dumps([symbols, said]).encode() + b"\n" + cubin
    blob = _MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
    try:
        with replacing(entry, mode=0o644) as output:
            output.write(blob)
    except StorageError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in NONE_LEFT:
            raise
        raise StorageError(f"{error}; or choose {_OTHER_FOLDER}") from error


def _check_folder(folder: Path) -> None:
    """Refuses a cache where others could put kernels for us to run.

    Raises:
        ConfigError: names the folder, and how to close it.
    """
    try:
        info = folder.stat()
    except OSError:
        return  # it is made when an entry is written, or refused then
    if is_ours(info):
        return
    fault = f"has mode {info.st_mode & 0o7777:o}" if info.st_uid in (0, os.geteuid()) else f"belongs to user {info.st_uid}"
    raise ConfigError(
        f"the kernel cache {folder} {fault}: others could put code there that runs as you; close it (chmod go-w {folder}) or "
        "set HINTERLAND_CACHE_DIR to a folder of your own"
    )


def _unusable(folder: Path, doing: str, error: OSError) -> HinterlandError:
    if error.errno in NONE_LEFT:
        return refused(folder, doing, error)
    return ConfigError(f"the kernel cache {folder} cannot be {doing} ({error.strerror}); choose {_OTHER_FOLDER}")


@contextmanager
def _lock(entry: Path) -> Iterator[None]:
    try:
        entry.parent.mkdir(mode=0o700 if entry.parent == cache_dir() else 0o755, parents=True, exist_ok=True)
        handle = os.open(entry.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise _unusable(entry.parent, "written", error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def chosen(archs: Iterable[str], only: Iterable[str] = ()) -> list[tuple[KernelFile, str]]:
    """Each kernel file with each architecture; ``only``: files by name, as ``graph/bfs`` or ``graph/bfs.cu``; none means all.

    Raises:
        ConfigError: no architecture, or one or a file that does not exist.
    """
    archs = list(archs)
    if not archs:
        raise ConfigError("no architecture is named; write for example sm_90")
    for arch in archs:
        if not re.fullmatch(r"sm_\d+[a-z]?", arch):
            raise ConfigError(f"not an architecture: {arch!r}; write for example sm_90")
    paths = [name.removesuffix(".cu") + ".cu" for name in only]
    for path in paths:
        if path not in REGISTRY:
            raise ConfigError(f"there is no kernel file {path}; there are {', '.join(sorted(REGISTRY))}")
    return [(REGISTRY[path], arch) for arch in archs for path in paths or REGISTRY]


def on_all_cores(make: Callable[[Any], T], work: list[Any]) -> Iterator[T]:
    """What ``make`` makes of each, in order; NVRTC compiles as many at a time as there are cores."""
    _toolchain()  # imports what the threads will need: two that import at once get in each other's way
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from pool.map(make, work)


def build_all(archs: Iterable[str], folder: Path | None = None, only: Iterable[str] = ()) -> Iterator[tuple[str, str, Path]]:
    """Compiles what is :func:`chosen`, on all cores; yields (kernel file, architecture, cache entry)."""
    work = [(file, arch, unit) for file, arch in chosen(archs, only) for unit in file.units()]
    entries = on_all_cores(lambda item: item[0].build(item[1], folder or cache_dir(), item[2]), work)
    for (file, arch, _), entry in zip(work, entries, strict=True):
        yield file.path, arch, entry
