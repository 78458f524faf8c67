"""Bare NVMe devices: the driver against a controller in software, and what is said where a device cannot be had. Controllers of
others are met in tests/storage/qemu."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import hinterland as hl
from hinterland import _core
from hinterland.runtime.errors import ConfigError, FormatError, StorageError
from hinterland.storage import layout

from ..programs import NATIVE, compiled, needs_compiler, run, tried_by_threads

SOURCES = (
    "nvme_device",
    "nvme_channel",
    "nvme_controller",
    "nvme_transfers",
    "vfio_device",
    "request",
    "driven_queues",
    "doorbell_thread",
)
ADDRESS = "0000:01:00.0"


@needs_compiler
@tried_by_threads
def test_every_transfer_ends_whatever_the_controller_does(tmp_path):
    sources = ["tests/storage/nvme_device.cpp", *(f"native/storage/{source}.cpp" for source in SOURCES)]
    run(compiled(tmp_path, *sources, flags=["-O1", "-fopenmp", *NATIVE]))


@pytest.fixture
def machine():
    """Trees in place of /sys and /dev, for any user: makes a PCI device of a class, with a driver and a group or without."""
    folder = tempfile.TemporaryDirectory()
    root = Path(folder.name)
    root.chmod(0o755)

    def made(
        address: str = ADDRESS, *, kind: str = "0x010802", driver: str | None = "vfio-pci", group: str | None = "12"
    ) -> None:
        device = root / "sys/bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "class").write_text(kind + "\n")
        for name, target in (("driver", driver and f"drivers/{driver}"), ("iommu_group", group and f"groups/{group}")):
            if target:
                (device / name).symlink_to(f"../../{target}")

    made.root = root
    yield made
    folder.cleanup()


def said(machine, name: str = f"nvme:{ADDRESS}") -> str:
    with pytest.raises(StorageError) as error:
        _core.bare_device(name, str(machine.root))
    return str(error.value)


def test_a_device_that_is_not_there_or_no_nvme_controller(machine):
    assert said(machine) == f"there is no PCI device {ADDRESS}; there is no NVMe controller on this machine"
    machine("0000:00:02.0", kind="0x030000")
    machine("0000:02:00.0")
    assert f"no PCI device {ADDRESS}; the NVMe controllers of this machine are 0000:02:00.0" in said(machine)
    sentence = said(machine, "nvme:0000:00:02.0")
    assert "0000:00:02.0 is of class 0x030000 and no NVMe controller" in sentence and "0000:02:00.0" in sentence


def test_a_device_of_the_kernels_is_handed_over_first(machine):
    machine(driver="nvme")
    sentence = said(machine)
    assert "belongs to the driver nvme" in sentence and "file systems" in sentence
    assert f"driverctl --nosave set-override {ADDRESS} vfio-pci" in sentence
    for command in ("driver_override", f"echo {ADDRESS} > /sys/bus/pci/devices/{ADDRESS}/driver/unbind", "drivers_probe"):
        assert command in sentence
    machine("0000:02:00.0", driver=None)
    sentence = said(machine, "nvme:0000:02:00.0")
    assert "has no driver" in sentence and "unbind" not in sentence and "drivers_probe" in sentence


def test_what_vfio_lacks_is_said(machine):
    machine(group=None)
    assert "no IOMMU group" in said(machine) and "intel_iommu=on" in said(machine)
    machine("0000:02:00.0")
    nodes = machine.root / "dev/vfio"
    nodes.mkdir(parents=True)
    assert f"there is no {nodes}/vfio: load the kernel's module" in said(machine, "nvme:0000:02:00.0")
    (nodes / "vfio").touch()
    assert f"there is no {nodes}/12:" in said(machine, "nvme:0000:02:00.0")
    (nodes / "12").touch()
    assert f"{nodes}/vfio is not the kernel's vfio" in said(machine, "nvme:0000:02:00.0")


def test_a_group_that_belongs_to_another_user(machine):
    machine()
    nodes = machine.root / "dev/vfio"
    nodes.mkdir(parents=True)
    for name, mode in (("vfio", 0o666), ("12", 0)):
        (nodes / name).touch()
        (nodes / name).chmod(mode)
    user = os.geteuid()
    if user == 0:  # who may open anything
        os.seteuid(65534)
    try:
        sentence = said(machine)
    finally:
        os.seteuid(user)
    assert f"no permission on {nodes}/12: give it to this user" in sentence and "chown" in sentence


@pytest.mark.parametrize(
    "name", ["nvme:", "nvme:0", "nvme:0000:01:00", "nvme:0000:01:00.0/", f"nvme:{ADDRESS}/0", f"nvme:{ADDRESS} "]
)
def test_names_of_no_device(machine, name):
    machine()
    assert "names no NVMe device: give its PCI address, as nvme:0000:01:00.0" in said(machine, name)


def test_rows_of_a_device(monkeypatch):
    monkeypatch.setattr(
        layout._core, "bare_device", lambda name: SimpleNamespace(bytes=1 << 20) if name == f"nvme:{ADDRESS}" else None
    )
    found = layout.locate(f"nvme:{ADDRESS}", dtype=torch.float32, shape=(-1, 64), offset=4096)
    assert found.shape == ((1 << 20) // 256 - 16, 64) and [(one.rows, one.offset) for one in found.extents] == [(4080, 4096)]
    with pytest.raises(FormatError, match="but the file holds 1048576 bytes"):
        layout.locate(f"nvme:{ADDRESS}", dtype=torch.float32, shape=(4097, 64))
    with pytest.raises(ConfigError, match="for raw binary give dtype and shape"):
        layout.locate(f"nvme:{ADDRESS}")


def test_arrays_on_devices_that_cannot_be_had(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert _core.bare_device("nvme") is None
    with pytest.raises(StorageError, match="no PCI device ffff:1f:1f.7"):
        hl.StorageArray.open("nvme:ffff:1f:1f.7", dtype=torch.float32, shape=(-1, 4))
    with pytest.raises(ConfigError, match="a device, which is there already"):
        hl.StorageArray.create("nvme:0000:01:00.0", (3,))
    (tmp_path / "nvme:0000:01:00.0").write_bytes(bytes(64))
    with hl.StorageArray.open("./nvme:0000:01:00.0", dtype=torch.uint8, shape=(8, 8)) as a:
        assert a.shape == (8, 8)
