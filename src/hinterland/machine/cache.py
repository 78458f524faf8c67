"""The measured machine, kept on disk: planners read it, and only a probe writes it. Others keep what they measure beside it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch

from ..runtime import devices, jit
from ..runtime.errors import ConfigError, FormatError, StorageError
from ..runtime.files import replacing
from ..runtime.trust import is_ours
from .kind import first_cpu
from .model import Gpu, Link, Machine


def path(name: str = "machine.json") -> Path:
    """A file in ``$HINTERLAND_CACHE_DIR`` or ``~/.cache/hinterland``."""
    return jit.cache_dir().parent / name


def load() -> Machine | None:
    """The last measurement of this machine, or None: nothing is measured here.

    None also where the file is damaged, was written by another version, or belongs to other hardware (a home folder
    that several machines share), and where other users could have written it.
    """
    file = path()
    try:
        stamp = file.stat()
    except OSError:
        return None
    if not is_ours(stamp):
        return None
    return _load(file, stamp.st_mtime_ns, stamp.st_size)


def measured_link() -> Link | None:
    """The link of this machine, if there is one that was measured."""
    machine = load()
    return None if machine is None else machine.link


@functools.lru_cache(maxsize=4)
def _load(file: Path, mtime_ns: int, size: int) -> Machine | None:
    content = read(file)
    if content is None:
        return None
    try:
        machine = Machine.from_json(content)
    except FormatError:
        return None
    return machine if machine.fingerprint == fingerprint() else None


def read(file: Path) -> dict[str, Any] | None:
    """What :func:`write` wrote; None where there is nothing, it is damaged, or other users could have written it."""
    try:
        content = json.loads(file.read_text()) if is_ours(file.stat()) else None
    except (OSError, ValueError, RecursionError):
        return None
    whole = isinstance(content, dict) and content.pop("sha256", None) == _sha256(content)
    return content if whole else None


def store(machine: Machine) -> Path:
    """Writes the measurement under its name, whole or not at all."""
    write(path(), machine.to_json())
    return path()


def write(file: Path, content: dict[str, Any]) -> None:
    """Writes something measured, whole or not at all.

    Raises:
        ConfigError, StorageError: it cannot be written there.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"the measurement cannot be kept in {file.parent} ({error.strerror}); "
            "set HINTERLAND_CACHE_DIR to a folder that can be written"
        ) from error
    try:
        with replacing(file, mode=0o644) as output:
            output.write(json.dumps({**content, "sha256": _sha256(content)}, indent=1).encode())
    except StorageError as error:
        raise StorageError(f"the measurement cannot be kept: {error}; or set HINTERLAND_CACHE_DIR to another folder") from error


def _sha256(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@functools.cache
def fingerprint() -> str:
    """A hash of the hardware that a measurement holds for: GPUs, driver, CPU model and the cores we may use."""
    parts = [cpu_model(), str(cores()), driver() or "no driver"]
    parts += [f"{gpu.name} {gpu.uuid}" for gpu in gpus()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))


@functools.cache
def cpu_model() -> str:
    """The CPU's name, as the system tells it."""
    said = first_cpu()
    return said.get("model name") or said.get("Processor") or platform.processor() or platform.machine()


@functools.cache
def driver() -> str | None:
    """The NVIDIA driver's version; None where there is none."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        if not devices.cuda_available():
            return None
    from cuda.bindings import driver as cuda

    _, version = cuda.cuDriverGetVersion()
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that torch sees, in its order."""
    found = []
    for device in devices.gpus():
        properties = torch.cuda.get_device_properties(device)
        found.append(
            Gpu(
                name=properties.name,
                uuid=str(properties.uuid),
                arch=devices.arch(device),
                memory_bytes=properties.total_memory,
                sms=properties.multi_processor_count,
            )
        )
    return tuple(found)
