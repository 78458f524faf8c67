"""Kernels of the user's own over arrays in any tier."""

from .elementwise import filter, map
from .kernel import Kernel, kernel
from .reduce import reduce

__all__ = ["Kernel", "filter", "kernel", "map", "reduce"]
