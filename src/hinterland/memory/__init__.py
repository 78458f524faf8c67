"""Host memory that GPUs read directly, and tables of rows in it."""

from .unified import UnifiedTensor

__all__ = ["UnifiedTensor"]
