"""Hinterland: GPU code reads data larger than GPU memory directly, in pieces as small as a cache line."""

from .machine import Machine
from .machine.measure import probe

__all__ = ["Machine", "probe"]
__version__ = "0.1.0"
