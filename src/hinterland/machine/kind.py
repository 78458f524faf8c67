"""Whether this machine is a virtual one, where drivers may stop at what others bear (memory/mapping.py)."""

from __future__ import annotations

import functools
import itertools
import os
from pathlib import Path

from .model import MachineKind

_ROOT = Path("/")
# In the names that hypervisors, and clouds, give the machines they make.
_MADE = "virtual vmware kvm qemu xen hvm bochs bhyve innotek parallels firecracker ahv rhev openstack droplet cloud cvm".split()
_MADE.append("google compute engine")
# Of machines with ARM's CPUs, which have no flag that says it: makers who sell no virtual ones.
_MAKERS = "nvidia supermicro dell hpe hewlett lenovo giga asus asrock quanta wiwynn foxconn ingrasys fujitsu".split()


@functools.cache
def machine_kind(root: Path = _ROOT) -> MachineKind:
    """Whether the machine counts as virtual, and by what evidence; where there is none it does.

    A CPU's flag says so on x86, and the name that the firmware has for the machine (DMI), or a node of its device tree,
    elsewhere.
    """
    cpu = first_cpu(root)
    if "hypervisor" in cpu.get("flags", "").split():
        return MachineKind(True, "its CPU has the flag hypervisor in /proc/cpuinfo")
    if os.path.exists(root / "proc/device-tree/hypervisor"):
        return MachineKind(True, "its device tree has a hypervisor")
    maker, product = (_text(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name"))
    if not (cpu and maker and product):
        return MachineKind(True, "nothing in /proc/cpuinfo and /sys/class/dmi/id says that it is not")
    named = f"/sys/class/dmi/id calls it {maker} {product}"
    if any(word in named.lower() for word in _MADE) or (maker == "Amazon EC2" and not product.endswith(".metal")):
        return MachineKind(True, named)
    if "flags" in cpu:
        return MachineKind(False, f"its CPU has no flag hypervisor in /proc/cpuinfo, and {named}")
    if maker.lower().startswith(tuple(_MAKERS)):
        return MachineKind(False, f"its device tree has no hypervisor, and {named}")
    return MachineKind(True, f"nothing says that it is not, and {named}")


@functools.cache
def first_cpu(root: Path = _ROOT) -> dict[str, str]:
    """What /proc/cpuinfo says of the first CPU; of all of them it takes the system long to say, where there are many."""
    try:
        with (root / "proc/cpuinfo").open(errors="replace") as lines:
            pairs = [line.partition(":") for line in itertools.takewhile(str.strip, lines)]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in pairs}


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
