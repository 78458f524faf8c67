"""What this machine can do: measured once by ``hinterland.probe()``, read by everything that plans.

This package only keeps and reads the figures; ``hinterland.probe`` measures them.
"""

from .cache import load, measured_link
from .model import Cpu, Disk, Gpu, HelpPoint, Link, Machine, Peer, RowPoint, SequentialPoint

__all__ = ["Cpu", "Disk", "Gpu", "HelpPoint", "Link", "Machine", "Peer", "RowPoint", "SequentialPoint", "load", "measured_link"]
