"""Whether a machine counts as virtual, by files as systems have them."""

import os

import pytest

from hinterland.machine import kind

XEON = "processor : 0\nmodel name : Xeon\nflags : fpu vme{}\n\nprocessor : 1\nflags : fpu vme{}\n"
GRACE = "processor : 0\nFeatures : fp asimd\nCPU implementer : 0x41\n\nprocessor : 1\nFeatures : fp asimd\n"


@pytest.fixture
def system(tmp_path):
    """A root folder with the given files."""

    def made(cpu=None, maker=None, product=None, **nodes):
        files = {"proc/cpuinfo": cpu, "sys/class/dmi/id/sys_vendor": maker, "sys/class/dmi/id/product_name": product, **nodes}
        for name, content in files.items():
            if content is not None:
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(content + "\n")
        return tmp_path

    return made


@pytest.mark.parametrize(
    ("cpu", "maker", "product"),
    [
        (XEON.format("", ""), "Supermicro", "AS-8125GS-TNHR"),
        (XEON.format("", ""), "Default string", "Default string"),  # of a desktop: its CPU says enough
        (XEON.format("", ""), "Amazon EC2", "g4dn.metal"),
        (GRACE, "NVIDIA", "GB200 NVL"),
        (GRACE, "Dell Inc.", "PowerEdge XE8712"),
    ],
)
def test_physical(system, cpu, maker, product):
    found = kind.machine_kind(system(cpu, maker, product))
    assert not found.is_virtual and f"/sys/class/dmi/id calls it {maker} {product}" in str(found)


@pytest.mark.parametrize(
    ("cpu", "maker", "product", "evidence"),
    [
        (XEON.format(" hypervisor", " hypervisor"), "Supermicro", "AS-8125GS-TNHR", "its CPU has the flag hypervisor"),
        (XEON.format("", ""), "QEMU", "Standard PC (Q35 + ICH9, 2009)", "calls it QEMU Standard PC"),
        (XEON.format("", ""), "VMware, Inc.", "VMware7,1", "calls it VMware"),
        (XEON.format("", ""), "Xen", "HVM domU", "calls it Xen"),
        (GRACE, "Microsoft Corporation", "Virtual Machine", "calls it Microsoft Corporation Virtual Machine"),
        (GRACE, "Google", "Google Compute Engine", "calls it Google"),
        (GRACE, "Amazon EC2", "g5g.metal", "nothing says that it is not"),
        (XEON.format("", ""), "Amazon EC2", "p5.48xlarge", "calls it Amazon EC2 p5.48xlarge"),
        (GRACE, "Acme", "Board", "nothing says that it is not"),
        (XEON.format("", ""), None, None, "nothing in /proc/cpuinfo and /sys/class/dmi/id says"),
        (XEON.format("", ""), "Supermicro", None, "nothing in /proc/cpuinfo and /sys/class/dmi/id says"),
        (None, "Supermicro", "AS-8125GS-TNHR", "nothing in /proc/cpuinfo and /sys/class/dmi/id says"),
        (None, None, None, "nothing in /proc/cpuinfo and /sys/class/dmi/id says"),
    ],
)
def test_virtual_and_unknown(system, cpu, maker, product, evidence):
    found = kind.machine_kind(system(cpu, maker, product))
    assert found.is_virtual and evidence in found.evidence and str(found).startswith("virtual: ")


def test_a_hypervisor_in_the_device_tree(system):
    root = system(GRACE, "NVIDIA", "GB200 NVL", **{"proc/device-tree/hypervisor/compatible": "linux,kvm"})
    assert kind.machine_kind(root).evidence == "its device tree has a hypervisor"


def test_files_are_read_once_and_of_the_first_cpu_alone(tmp_path):
    """The system takes long to say what it knows of hundreds of CPUs; a writer that it waits for stands for that here."""
    (tmp_path / "proc").mkdir()
    os.mkfifo(tmp_path / "proc/cpuinfo")
    end = os.open(tmp_path / "proc/cpuinfo", os.O_RDWR)  # stays open: whoever reads on waits for ever
    first, others = XEON.format(" hypervisor", "").split("\n\n")
    os.write(end, f"{first}\n\n{others}".encode())
    found = kind.machine_kind(tmp_path)
    assert found.is_virtual and kind.first_cpu(tmp_path)["model name"] == "Xeon"
    os.close(end)
    (tmp_path / "proc/cpuinfo").unlink()
    assert kind.machine_kind(tmp_path) is found
