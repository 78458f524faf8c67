"""Warnings about what a user asked for, at the line that asked."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parent.parent) + "/"


def warn_caller(message: str) -> None:
    """Warns, by default once for each line of a user's program, at the first line up the stack that is not of this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
