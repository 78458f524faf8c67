"""What this machine can do: measured once by ``hinterland.probe()``, read by everything that plans.

This package only keeps and reads the figures; ``hinterland.probe`` measures them.
"""

from .cache import load, measured_link
from .kind import machine_kind
from .model import Cpu, Disk, Gpu, HelpPoint, Link, Machine, MachineKind, Peer, RowPoint, SequentialPoint

__all__ = [
    "Cpu",
    "Disk",
    "Gpu",
    "HelpPoint",
    "Link",
    "Machine",
    "MachineKind",
    "Peer",
    "RowPoint",
    "SequentialPoint",
    "load",
    "machine_kind",
    "measured_link",
]
