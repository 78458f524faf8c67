"""What is said of cuFile's peer-to-peer mode, on machines that are files: one where it works, others that lack one thing."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from hinterland.probe.cufile import PeerToPeer, detect

RELEASE = "6.8.0-55-generic"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build  (builder)  Tue Mar  3 01:02:03 UTC 2026"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.45.04  Tue Mar  3 01:02:03 UTC 2026"
SETTINGS = 'EnableMSI: 1\nRegistryDwords: "RMForceStaticBar1=1;RmForceDisableIomapWC=1;"\nRmMsg: ""\n'


@pytest.fixture
def machine(tmp_path):
    """Trees in place of /proc, /sys, /boot and /usr where all conditions hold: ``set`` writes one of their files."""
    root = tmp_path / "root"

    class Machine:
        file = tmp_path / "data"

        def set(self, name: str, text: str | bytes | None) -> None:
            file = root / name
            if text is None:
                return file.unlink()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode() if isinstance(text, str) else text)

        def link(self, name: str, target: str) -> None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).unlink(missing_ok=True)
            (root / name).symlink_to(root / target)

        def lies_on(self, block: str) -> None:
            (root / block).mkdir(parents=True, exist_ok=True)
            number = os.stat(self.file).st_dev
            self.link(f"sys/dev/block/{os.major(number)}:{os.minor(number)}", block)

        def detect(self, processor: str = "x86_64") -> PeerToPeer:
            return detect(self.file, root, processor)

        def fails(self, processor: str = "x86_64") -> list[tuple[str, bool | None, str]]:
            return [(one.name, one.holds, one.found) for one in self.detect(processor).conditions if not one.holds]

    made = Machine()
    made.file.write_bytes(b"data")
    made.set("proc/sys/kernel/osrelease", RELEASE + "\n")
    made.set(f"boot/config-{RELEASE}", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n")
    made.set("proc/driver/nvidia/version", OPEN + "\nGCC version: 12.2.0\n")
    made.set("proc/driver/nvidia/params", SETTINGS)
    made.set("proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n")
    made.set("sys/module/nvme_core/parameters/multipath", "N\n")
    made.set("sys/devices/nvme0n1/nvme0n1p1/partition", "1\n")
    made.set("sys/class/nvme/nvme0/transport", "pcie\n")
    made.lies_on("sys/devices/nvme0n1/nvme0n1p1")
    return made


def test_where_all_conditions_hold(machine):
    found = machine.detect()
    assert found.possible is True and all(one.holds and not one.remedy for one in found.conditions)
    assert found.libcufile is None and not found.nvidia_fs
    assert len(found.conditions) == 8
    machine.set("proc/driver/nvidia-fs/stats", "")
    machine.set("usr/lib/x86_64-linux-gnu/libcufile.so.0", "")
    found = machine.detect()
    assert found.nvidia_fs and found.libcufile.endswith("usr/lib/x86_64-linux-gnu/libcufile.so.0")
    assert found.to_json()["possible"] is True
    assert found.to_json()["conditions"][1] == {"name": "Linux 6.2 or newer", "holds": True, "found": RELEASE, "remedy": ""}


@pytest.mark.parametrize(
    ("file", "text", "condition", "found"),
    [
        ("proc/sys/kernel/osrelease", "6.1.0-56-amd64", "Linux 6.2", "6.1.0-56-amd64"),
        (f"boot/config-{RELEASE}", "# CONFIG_PCI_P2PDMA is not set\n", "CONFIG_PCI_P2PDMA", "not set"),
        ("proc/driver/nvidia/version", PROPRIETARY, "open driver", "595.45.04, not open"),
        ("proc/driver/nvidia/version", OPEN.replace("595.45.04", "560.35.03"), "open driver", "560.35.03, open"),
        ("proc/driver/nvidia/version", None, "open driver", "no NVIDIA driver is loaded"),
        ("proc/driver/nvidia/params", 'RegistryDwords: ""\n', "RegistryDwords", "not set"),
        ("proc/driver/nvidia/params", 'RegistryDwords: "RMForceStaticBar1=1"\n', "RegistryDwords", "RMForceStaticBar1=1"),
        ("proc/driver/nvidia/gpus/0000:3b:00.0/information", "Model: NVIDIA RTX A500 Laptop GPU\n", "GPU", "NVIDIA RTX A500"),
        ("sys/module/nvme_core/parameters/multipath", "Y\n", "multipath=N", "multipath=Y"),
        ("sys/class/nvme/nvme0/transport", "tcp\n", "NVMe disk", "nvme0n1: NVMe over tcp"),
    ],
)
def test_the_one_condition_that_fails_is_named(machine, file, text, condition, found):
    machine.set(file, text)
    fails = [one for one in machine.fails() if one[0] != "kernel with CONFIG_PCI_P2PDMA" or "boot" in file]
    assert [holds for _, holds, _ in fails] == [False]
    assert condition in fails[0][0] and found in fails[0][2]
    assert machine.detect().possible is False and any(
        condition in one.name and one.remedy for one in machine.detect().conditions
    )


def test_other_processors(machine):
    assert machine.fails("aarch64") == [("processor", False, "aarch64")]


@pytest.mark.parametrize(
    "gpu", ["NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe", "NVIDIA GH200 480GB", "NVIDIA B200", "NVIDIA GB200"]
)
def test_gpus_of_the_class(machine, gpu):
    machine.set("proc/driver/nvidia/gpus/0000:3b:00.0/information", f"Model: \t\t {gpu}\n")
    assert machine.detect().possible is True


def test_what_cannot_be_told_is_unknown(machine):
    machine.set(f"boot/config-{RELEASE}", None)
    assert machine.fails() == [("kernel with CONFIG_PCI_P2PDMA", None, "the kernel's configuration is not to be read")]
    assert machine.detect().possible is None
    machine.set("proc/config.gz", gzip.compress(b"CONFIG_PCI_P2PDMA=y\n"))
    assert machine.detect().possible is True
    machine.set("proc/config.gz", b"no gzip")
    assert machine.detect().possible is None
    machine.set("sys/module/nvme_core/parameters/multipath", None)  # a kernel that knows no other way
    assert len(machine.fails()) == 1


def test_disks_below_disks(machine):
    machine.set("sys/devices/nvme1n1/size", "1")
    machine.set("sys/class/nvme/nvme1/transport", "pcie\n")
    for name in ("nvme0n1/nvme0n1p1", "nvme1n1"):
        machine.link(f"sys/devices/dm-0/slaves/{Path(name).name}", f"sys/devices/{name}")
        machine.link(f"sys/devices/md0/slaves/{Path(name).name}", f"sys/devices/{name}")
    machine.lies_on("sys/devices/dm-0")
    assert machine.fails() == []
    for level, holds in (("raid1", True), ("raid0", False)):
        machine.set("sys/devices/md0/md/level", level + "\n")
        machine.lies_on("sys/devices/md0")
        assert machine.detect().possible is holds
    machine.set("sys/devices/sda/size", "1")
    machine.lies_on("sys/devices/sda")
    assert machine.fails() == [("a local NVMe disk, not RAID 0", False, "sda: no NVMe disk")]
    (machine.file.parent / "root/sys/dev/block").rename(machine.file.parent / "gone")
    assert [holds for _, holds, _ in machine.fails()] == [None]
