"""What this machine can do: measured once by ``hinterland.probe()``, read by everything that plans.

This module only reads; what measures is in ``measure`` and the files beside it.
"""

from .cache import load
from .model import Cpu, Disk, Gpu, Link, Machine, Peer, RowPoint, SequentialPoint

__all__ = ["Cpu", "Disk", "Gpu", "Link", "Machine", "Peer", "RowPoint", "SequentialPoint", "load"]
