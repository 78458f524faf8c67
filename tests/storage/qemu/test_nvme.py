"""Bare NVMe devices through vfio-pci in a virtual machine, whose controllers are QEMU's and whose memory they reach through an
IOMMU: nvme.cpp as its only process, or Python. tools/nvme_in_qemu.sh gets what this needs."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ...programs import NATIVE, as_one, compiled

KERNEL = os.environ.get("HINTERLAND_GUEST_KERNEL")  # a folder with boot/vmlinuz-* and lib/modules/, as Debian's packages have
SOURCES = [
    *("vfio_device", "block_device", "nvme_channel", "nvme_controller", "nvme_device", "nvme_transfers"),
    *("store", "rings", "volumes", "volume", "page_cache", "read_ahead", "expected", "host_pages", "planned"),
    *("file", "routed_transfers", "transfers", "uring", "pread_pool"),
    *("driven_queues", "doorbell_thread"),
    *("controller", "serving", "request", "file_namespace", "file_backend"),
]
MODULES = ("vfio_iommu_type1", "vfio-pci")
DISK_BYTES = 64 << 20
# What the first read or write of a block meets, and what all of another meet: sectors are of 512 bytes.
ERRORS = "".join(
    f'[inject-error]\nevent = "{event}"\nerrno = "5"\nsector = "{at // 512}"\nonce = "{once}"\n'
    for event, at, once in (
        ("read_aio", 56 << 20, "on"),
        ("read_aio", 60 << 20, "off"),
        ("write_aio", 60 << 20, "off"),
    )
)


def program(folder: Path) -> Path:
    """nvme.cpp and the library's sources as one static program."""
    source = as_one(folder, "tests/storage/qemu/nvme.cpp", *(f"native/storage/{name}.cpp" for name in SOURCES))
    return compiled(folder, source, flags=["-O1", "-fopenmp", *NATIVE], libraries=("-static",))


def modules(kernel: Path, wanted: tuple[str, ...]) -> list[bytes]:
    """The content of these and of what they need, in the order in which they can be loaded."""
    files = {path.name.split(".ko")[0].replace("_", "-"): path for path in kernel.glob("lib/modules/*/kernel/**/*.ko*")}
    found: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in found or name not in files:  # loaded, or built in
            return
        content = files[name].read_bytes()
        content = lzma.decompress(content) if files[name].suffix == ".xz" else content
        for needed in re.findall(rb"\0depends=([^\0]*)\0", content)[:1]:
            for other in filter(None, needed.decode().split(",")):
                add(other.replace("_", "-"))
        found[name] = content

    for module in wanted:
        add(module.replace("_", "-"))
    return list(found.values())


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """Files and folders by name, with their mode, as the kernel takes them (cpio, "newc")."""
    packed = b""
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))]):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        packed += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        packed += bytes(-len(packed) % 4) + content
        packed += bytes(-len(packed) % 4)
    return packed


pytestmark = [
    pytest.mark.skipif(KERNEL is None, reason="HINTERLAND_GUEST_KERNEL names no folder with a kernel: tools/nvme_in_qemu.sh"),
    pytest.mark.skipif(shutil.which("qemu-system-x86_64") is None, reason="no qemu-system-x86_64: tools/nvme_in_qemu.sh"),
]
# A device with blocks of 512 bytes; one with blocks of 4096, two queues and commands of 8 KiB, and with errors; and one that is
# slow from the second request on.
PLAIN = ["-drive", "file=plain,if=none,id=plain,format=raw", "-device", "nvme,serial=plain,drive=plain,addr=04.0"]
SMALL = [
    *("-drive", "file=blkdebug:errors:small,if=none,id=small,format=raw"),
    *("-device", "nvme,id=small,serial=small,addr=05.0,mdts=1,max_ioqpairs=2"),
    *("-device", "nvme-ns,drive=small,bus=small,logical_block_size=4096,physical_block_size=4096"),
]
SLOW = [
    *("-drive", "file=slow,if=none,id=slow,format=raw,throttling.iops-total=2"),
    *("-device", "nvme,serial=slow,drive=slow,addr=06.0"),
]


def run_machine(folder: Path, init: Path, needed: tuple[str, ...], devices: list[str], memory: int, words: str = "") -> None:
    """A virtual machine of so many MiB, whose first process is ``init`` with these words; that says whether it passed."""
    kernel = Path(KERNEL)
    files = {"init": (0o100755, init.read_bytes()), "modules": (0o40755, b"")}
    for number, module in enumerate(modules(kernel, needed)):
        files[f"modules/{number:02}"] = (0o100644, module)
    (folder / "initrd").write_bytes(archive(files))
    (folder / "errors").write_text(ERRORS)
    for name in ("plain", "small", "slow"):
        with open(folder / name, "wb") as disk:
            disk.truncate(DISK_BYTES)
    command = [
        *("qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-m", str(memory), "-smp", "2", "-nodefaults"),
        *("-display", "none", "-serial", "stdio", "-no-reboot", "-device", "intel-iommu,intremap=off"),
        *devices,
        *("-kernel", next(kernel.glob("boot/vmlinuz-*")), "-initrd", "initrd"),
        *("-append", f"console=ttyS0 panic=-1 loglevel=1 intel_iommu=on -- {words}"),
    ]
    quiet = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    done = subprocess.run(command, cwd=folder, check=False, timeout=500, **quiet)
    print(done.stdout)
    assert "passed" in done.stdout.splitlines(), done.stdout[-4000:] + done.stderr


def test_the_library_drives_nvme_devices_that_are_not_its_own(tmp_path):
    run_machine(tmp_path, program(tmp_path), MODULES, [*PLAIN, *SMALL, *SLOW], 512)


def test_arrays_and_stores_of_python_on_devices(tmp_path):
    """This machine's Python, whose files the virtual one sees, runs driven.py. Minutes: `make nightly` has it."""
    pytest.importorskip("hinterland._core", reason="the native module is not built here", exc_type=ImportError)
    init = compiled(tmp_path, "tests/storage/qemu/python.cpp", flags=["-O1", *NATIVE], libraries=("-static",))
    outside = ["-virtfs", "local,path=/,mount_tag=outside,security_model=none,readonly=on,multidevs=remap"]
    devices = ["0000:00:04.0", "0000:00:05.0", "0000:00:06.0"]
    environment = f"PYTHONPATH={os.pathsep.join(sys.path)}"
    python = ["/usr/bin/env", environment, sys.executable, str(Path(__file__).with_name("driven.py"))]
    needed = (*MODULES, "virtio-pci", "9pnet-virtio", "9p")
    run_machine(tmp_path, init, needed, [*PLAIN, *SMALL, *SLOW, *outside], 2048, " ".join([*devices, "run", *python, *devices]))
