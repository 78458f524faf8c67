"""Kernels of the user's own over arrays in any tier."""

from .kernel import Kernel, kernel

__all__ = ["Kernel", "kernel"]
