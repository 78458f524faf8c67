"""Whether cuFile (GPUDirect Storage) could move data between a disk and a GPU's memory without passing through host memory, by
PCIe's peer-to-peer transfers and no driver of its own: the conditions that its documentation names, one by one. Nothing is
opened or changed; the library itself uses no cuFile."""

from __future__ import annotations

import gzip
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KERNEL, DRIVER = (6, 2), 565  # the first that can
_SETTINGS = ("RMForceStaticBar1=1", "RmForceDisableIomapWC=1")  # of the driver's NVreg_RegistryDwords
_GPUS = re.compile(r"\b(A[18]00|G?H[128]00|G?B[123]00)\b")  # of the class of A100, H100, H200 and B200
_LIBRARIES = ("usr/local/cuda*/lib64", "usr/local/cuda*/targets/*/lib", "usr/lib/*-linux-gnu", "usr/lib64")


@dataclass(frozen=True)
class Condition:
    """One of the conditions.

    Attributes:
        name: what it is about.
        holds: whether it does; None where that cannot be told.
        found: what was found.
        remedy: what to do about it, a sentence; empty where it holds.
    """

    name: str
    holds: bool | None
    found: str
    remedy: str


@dataclass(frozen=True)
class PeerToPeer:
    """What there is of cuFile, and its conditions.

    Attributes:
        conditions: in the order in which they are worth looking at.
        libcufile: the library's file; None where none is found.
        nvidia_fs: whether the driver that cuFile had to have before is loaded. With it transfers may go from disk to GPU as
            well, under conditions of its own.
    """

    conditions: tuple[Condition, ...]
    libcufile: str | None
    nvidia_fs: bool

    @property
    def possible(self) -> bool | None:
        """Whether all conditions hold; None where one cannot be told, and none fails."""
        held = [condition.holds for condition in self.conditions]
        return False if False in held else None if None in held else True

    def to_json(self) -> dict[str, Any]:
        """The same as a dict."""
        conditions = [dict(vars(condition)) for condition in self.conditions]
        found = {"libcufile": self.libcufile, "nvidia_fs": self.nvidia_fs}
        return {"possible": self.possible, "conditions": conditions, **found}


def detect(path: Path, root: Path = Path("/"), machine: str = platform.machine()) -> PeerToPeer:
    """Looks at this machine, and at the disk under ``path``, a file or folder that is there.

    Args:
        root: stands before /proc, /sys, /boot and /usr, for tests.
        machine: the processor's architecture.
    """
    conditions = (
        _cpu(machine),
        _kernel(root),
        _peer_to_peer(root),
        _driver(root),
        _settings(root),
        _gpus(root),
        *_disk(path, root),
    )
    loaded = (root / "proc/driver/nvidia-fs").exists() or (root / "sys/module/nvidia_fs").exists()
    return PeerToPeer(conditions, _library(root), loaded)


def _text(file: Path) -> str:
    """Empty where it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _condition(name: str, holds: bool | None, found: str, remedy: str) -> Condition:
    return Condition(name, holds, found, "" if holds else remedy)


def _cpu(machine: str) -> Condition:
    return _condition("processor", machine == "x86_64", machine, "cuFile's peer-to-peer mode is for x86-64")


def _kernel(root: Path) -> Condition:
    release = _text(root / "proc/sys/kernel/osrelease")
    numbers = re.match(r"(\d+)\.(\d+)", release)
    holds = None if numbers is None else (int(numbers[1]), int(numbers[2])) >= KERNEL
    return _condition("Linux 6.2 or newer", holds, release or "unknown", "boot a newer kernel")


def _peer_to_peer(root: Path) -> Condition:
    release = _text(root / "proc/sys/kernel/osrelease")
    text = (
        _text(root / f"boot/config-{release}")
        or _text(root / f"lib/modules/{release}/config")
        or _unpacked(root / "proc/config.gz")
    )
    holds = None if not text else "CONFIG_PCI_P2PDMA=y" in text.splitlines()
    found = {None: "the kernel's configuration is not to be read", True: "CONFIG_PCI_P2PDMA=y", False: "not set"}[holds]
    return _condition(
        "kernel with CONFIG_PCI_P2PDMA", holds, found, "boot a kernel that is configured with CONFIG_PCI_P2PDMA=y"
    )


def _unpacked(file: Path) -> str:
    try:
        return gzip.decompress(file.read_bytes()).decode(errors="replace")
    except (OSError, EOFError, gzip.BadGzipFile):
        return ""


def _driver(root: Path) -> Condition:
    line = _text(root / "proc/driver/nvidia/version").partition("\n")[0]
    version = re.search(r"\b(\d+)\.\d+(?:\.\d+)?\b", line)
    is_open = "Open Kernel Module" in line
    found = "no NVIDIA driver is loaded" if version is None else f"{version[0]}, {'open' if is_open else 'not open'}"
    holds = version is not None and is_open and int(version[1]) >= DRIVER
    return _condition(
        "NVIDIA's open driver, 565 or newer", holds, found, "install the open kernel modules of driver 565 or newer"
    )


def _settings(root: Path) -> Condition:
    given = re.search(r'^RegistryDwords: "(.*)"$', _text(root / "proc/driver/nvidia/params"), re.MULTILINE)
    missing = [one for one in _SETTINGS if given is None or one not in given[1].split(";")]
    found = "not set" if given is None or not given[1] else given[1]
    remedy = f'load the nvidia module with NVreg_RegistryDwords="{";".join(_SETTINGS)};" (/etc/modprobe.d) and restart'
    return _condition("driver's RegistryDwords", not missing, found, remedy)


def _gpus(root: Path) -> Condition:
    models = [
        found[1]
        for file in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
        if (found := re.search(r"^Model:\s*(.+)$", _text(file), re.MULTILINE))
    ]
    holds = any(_GPUS.search(model) for model in models)
    return _condition("GPU of the class of A100 to B200", holds, ", ".join(models) or "none", "other GPUs lack what is needed")


def _disk(path: Path, root: Path) -> Iterator[Condition]:
    module, multipath = root / "sys/module/nvme_core", _text(root / "sys/module/nvme_core/parameters/multipath")
    found = f"multipath={multipath}" if multipath else "it knows none" if module.exists() else "nvme_core is not loaded"
    holds = multipath != "Y" if module.exists() else None
    yield _condition("nvme_core with multipath=N", holds, found, "boot with nvme_core.multipath=N")
    disks = _disks(path, root)
    if not disks:
        yield Condition(
            "a local NVMe disk, not RAID 0", None, f"{path} lies on no single block device", "name a file on the disk"
        )
        return
    kinds = [_kind(disk, root) for disk in disks]
    holds = all(good for good, _ in kinds)
    found = ", ".join(f"{disk.name}: {what}" for disk, (_, what) in zip(disks, kinds, strict=True))
    yield _condition("a local NVMe disk, not RAID 0", holds, found, "put the files on one NVMe disk of this machine")


def _disks(path: Path, root: Path) -> list[Path]:
    """The disks under a file: a RAID as itself, others down to the last."""
    try:
        number = os.stat(path).st_dev
        block = (root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    except OSError:
        return []
    return _below(block)


def _below(block: Path) -> list[Path]:
    if (block / "partition").exists():
        block = block.parent
    slaves = sorted(one.resolve() for one in (block / "slaves").glob("*"))
    if (block / "md").exists() or not slaves:
        return [block]
    return [disk for slave in slaves for disk in _below(slave)]


def _kind(disk: Path, root: Path) -> tuple[bool, str]:
    level = _text(disk / "md/level")
    if level:
        return level != "raid0" and all(_kind(one, root)[0] for one in map(Path.resolve, (disk / "slaves").glob("*"))), level
    name = re.match(r"(nvme\d+)", disk.name)
    if name is None:
        return False, "no NVMe disk"
    transport = _text(root / f"sys/class/nvme/{name[1]}/transport") or "unknown transport"
    return transport == "pcie", f"NVMe over {transport}"


def _library(root: Path) -> str | None:
    folders = [folder for pattern in _LIBRARIES for folder in root.glob(pattern)]
    if root == Path("/"):
        folders += [folder for entry in sys.path for folder in Path(entry or ".").glob("nvidia/cu*/lib")]
    return next((str(file) for folder in folders for file in sorted(folder.glob("libcufile.so*"))), None)
