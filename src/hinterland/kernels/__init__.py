"""Kernels of the user's own over arrays in any tier, and functions of torch over their chunks."""

from .by_row import filter, map, reduce
from .chunks import filter_chunks, map_chunks
from .kernel import Kernel, kernel
from .reduce import reduce_chunks

__all__ = ["Kernel", "filter", "filter_chunks", "kernel", "map", "map_chunks", "reduce", "reduce_chunks"]
